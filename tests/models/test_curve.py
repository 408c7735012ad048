"""One action in any context: against the dense covariance, and what is certain in whole cells."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from drbo import GP, RBF, Matern, Product
from drbo.kernels import Kernel
from drbo.models.curve import Curve
from drbo.models.data import Observation
from drbo.models.factor import Process
from drbo.models.regression import ExactPosterior
from drbo.validation import FloatArray
from models.surrogate import C, cube, observed, random_curve
from tolerances import CLOSED_FORM

KERNELS: list[Kernel] = [RBF(0.3), Matern(0.5), Matern(0.6, nu=1.5), RBF((0.3, 0.7))]


@pytest.mark.parametrize("n", [0, 12])
def test_information_is_what_conditioning_takes_from_the_variance(n: int) -> None:
    """The literal formula from the dense covariance, which is what the variance of the average falls by."""
    gp = GP(Product(Matern(0.4, amplitude=2.0), RBF(0.3, amplitude=0.7)), 0.1)
    rng = np.random.default_rng(0)
    xs, cs, x = rng.random((n, 1)), rng.random((n, 1)), np.array([0.37])
    posterior = observed(gp, xs, cs, rng.normal(size=n))
    w = rng.dirichlet(np.ones(len(C))) * (np.arange(len(C)) % 2)
    w /= w.sum()

    def covariance(xs: NDArray[Any], cs: NDArray[Any]) -> NDArray[Any]:
        """Of f(x, .) on the contexts C, given outcomes at xs, cs."""
        k = gp.kernel.action(xs, x[None]) * gp.kernel.context(cs, C)
        A = gp.kernel.action(xs, xs) * gp.kernel.context(cs, cs) + gp.ridge * np.eye(len(xs))
        return np.asarray(gp.kernel.action.variance * gp.kernel.context(C, C) - k.T @ np.linalg.solve(A, k))

    before, reduction = covariance(xs, cs), posterior.curve(x, 0.0).information(C, C, w)
    np.testing.assert_allclose(reduction, (before @ w) ** 2 / (np.diag(before) + gp.ridge), atol=CLOSED_FORM)
    for c, fall in zip(C, reduction, strict=True):
        after = covariance(np.append(xs, x[None], axis=0), np.append(cs, c[None], axis=0))
        assert w @ (before - after) @ w == pytest.approx(fall, abs=CLOSED_FORM)


def test_a_curve_is_the_posterior_of_one_action() -> None:
    rng = np.random.default_rng(0)
    contexts = rng.random((7, 2))
    posterior = ExactPosterior(GP(Product(RBF(0.4), Matern(0.5)), 0.1), np.empty((0, 1)), contexts)
    curves = []
    for _ in range(2):
        curve, x = posterior.curve(np.array([0.3]), -1.5), np.array([[0.3]])
        mean, variance = posterior.moments(x)
        np.testing.assert_allclose(curve(contexts), (mean - 1.5 * np.sqrt(variance))[0], atol=CLOSED_FORM)
        np.testing.assert_allclose(curve.variance(contexts), variance[0], atol=CLOSED_FORM)
        curves.append(curve(contexts))
        for _ in range(5):
            posterior = posterior.with_outcome(rng.random(1), rng.random(2), rng.normal())
    assert not np.allclose(curves[0], curves[1])


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_the_bound_over_a_cell_holds_and_is_of_second_order(kernel: Kernel) -> None:
    rng = np.random.default_rng(1)
    for seed in range(6):
        curve = random_curve(cube(2), seed, kernel=kernel)
        centre, tilt = rng.random((1, 2)), rng.normal(size=(1, 2))
        gaps = []
        for width in (0.2, 0.02):
            half = width * rng.uniform(0.5, 1.0, (1, 2))
            inside = centre + half * rng.uniform(-1.0, 1.0, (4000, 2))
            values = curve(inside) - (inside - centre) @ tilt[0]
            gaps.append(values.min() - curve.lowest(centre, half, tilt)[0])
            assert gaps[-1] >= 0.0
        assert gaps[1] < (0.2 if kernel == KERNELS[2] else 0.1) * gaps[0]  # a tenth of the width


def hard_curve(seed: int) -> tuple[Curve, FloatArray, float]:
    """Any kernel, lengthscale, noise down to the least, duplicates, contradictions, and any width of the bound."""
    rng = np.random.default_rng(seed)
    d, scale, t = int(rng.integers(1, 4)), rng.choice([0.01, 0.1, 0.3, 1.0, 100.0]), int(rng.choice([0, 1, 5, 25, 100]))
    kernel = [RBF(scale), Matern(scale, nu=1.5), Matern(scale, 100.0), RBF((*(scale * rng.uniform(0.3, 3.0, d)),))][
        rng.integers(4)
    ]
    amplitude = np.sqrt(kernel.variance)
    noise = amplitude * rng.choice([1.01e-7, 1e-5, 1e-3, 0.1])
    posterior = ExactPosterior(GP(Product(RBF(0.4), kernel), noise), np.empty((0, 1)), np.zeros((1, d)))
    contexts, x = rng.random((max(t, 1), d)), rng.random(1)
    if rng.random() < 0.5:
        contexts = np.round(4.0 * contexts) / 4.0
    for c in contexts[:t]:
        posterior = posterior.with_outcome(x if rng.random() < 0.5 else rng.random(1), c, amplitude * rng.normal())
    beta = float(rng.choice([0.0, -1e-12, -2.0, -50.0, -1e8]))
    return posterior.curve(x, beta), contexts, amplitude * (1.0 - beta)


def check_cells(seeds: range) -> None:
    for seed in seeds:
        curve, contexts, scale = hard_curve(seed)
        rng = np.random.default_rng([seed, 1])
        d = contexts.shape[1]
        centres = np.concatenate([contexts[:3], rng.random((3, d))])
        halves = 10.0 ** rng.uniform(-8.0, -0.3, (len(centres), 1)) * rng.choice([0.0, 0.5, 1.0], (len(centres), d))
        tilts = scale * rng.normal(size=(len(centres), d))
        for centre, half, tilt, low in zip(centres, halves, tilts, curve.lowest(centres, halves, tilts), strict=True):
            inside = centre + half * rng.uniform(-1.0, 1.0, (100, d)).round(int(rng.integers(2)))
            assert low <= (curve(inside) - (inside - centre) @ tilt).min() + 1e-12 * scale, seed


def test_the_bound_over_a_cell_holds_where_rounding_is_all_there_is() -> None:
    """A tiny noise makes products of the size 1e14 cancel: what is left of them must not pass for a small norm."""
    check_cells(range(120))


@pytest.mark.slow
def test_the_bound_over_a_cell_holds_in_many_cases() -> None:
    check_cells(range(1000, 6000))


def test_the_bound_of_what_nobody_knows_is_exact() -> None:
    """Far from all results the lower confidence bound is the prior's, in cells of any size."""
    curve = ExactPosterior(GP(Product(RBF(0.4), RBF(0.01)), 0.05), np.empty((0, 1)), np.zeros((1, 2))).curve(
        np.array([0.5]), -2.0
    )
    assert curve.lowest(np.full((1, 2), 0.5), np.full((1, 2), 0.5), np.zeros((1, 2)))[0] == pytest.approx(-2.0)


def with_averages(
    rng: np.random.Generator, d: int, outcomes: int, averages: int
) -> tuple[ExactPosterior, list[Observation]]:
    """A posterior of outcomes in one context each and of averages over several, in any order; some have no outcome."""
    posterior = ExactPosterior(GP(Product(RBF(0.4), Matern(0.5)), 0.1), np.empty((0, 1)), rng.random((6, d)))
    taken = [Observation.of(rng.random(1), rng.random(d), float(rng.normal())) for _ in range(outcomes)]
    for k in rng.integers(2, 6, averages):
        outcome = float(rng.normal()) if rng.random() < 0.7 else None
        taken.append(Observation(rng.random(1), rng.random((k, d)), rng.dirichlet(np.ones(k)), outcome))
    taken = [taken[i] for i in rng.permutation(len(taken))]
    for observation in taken:
        posterior = posterior.with_more([observation])
    return posterior, taken


def dense(gp: Process, taken: list[Observation], x: FloatArray, contexts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean (m,) and covariance (m, m) of f(x, .) by one solve, kernel by kernel; no outcome counts as the mean."""

    def k(a: Observation, b: Observation) -> float:
        k_C = a.weights @ gp.kernel.context(a.contexts, b.contexts) @ b.weights
        return float(gp.kernel.action(a.action[None], b.action[None])[0, 0] * k_C)

    points = [Observation.of(x, c, None) for c in contexts]
    K = np.array([[k(a, b) for b in taken] for a in taken]) + gp.ridge * np.eye(len(taken))
    k_t = np.array([[k(a, b) for b in points] for a in taken])
    y: list[float] = []
    for i, observation in enumerate(taken):
        expected = float(K[i, :i] @ np.linalg.solve(K[:i, :i], y)) if i else 0.0
        y.append(expected if observation.outcome is None else observation.outcome)
    prior = np.array([[k(a, b) for b in points] for a in points])
    return k_t.T @ np.linalg.solve(K, y), prior - k_t.T @ np.linalg.solve(K, k_t)


@pytest.mark.parametrize("d", [1, 2])
def test_a_curve_after_averages_is_that_of_a_dense_solve(d: int) -> None:
    for seed in range(5):
        rng = np.random.default_rng([seed, d])
        posterior, taken = with_averages(rng, d, 7, 6)
        x, contexts, atoms = rng.random(1), rng.random((9, d)), posterior.contexts
        mean, covariance = dense(posterior.gp, taken, x, np.concatenate([contexts, atoms]))
        variance, curve = np.diag(covariance), posterior.curve(x, -1.5)
        np.testing.assert_allclose(curve(contexts), (mean - 1.5 * np.sqrt(variance))[:9], atol=CLOSED_FORM)
        np.testing.assert_allclose(curve.variance(contexts), variance[:9], atol=CLOSED_FORM)
        of_atoms = posterior.moments(x[None])
        np.testing.assert_allclose(of_atoms, [mean[None, 9:], variance[None, 9:]], atol=CLOSED_FORM)
        predicted = posterior.predict(np.tile(x, (9, 1)), contexts)
        np.testing.assert_allclose(predicted, [mean[:9], variance[:9]], atol=CLOSED_FORM)
        w = rng.dirichlet(np.ones(6))
        fall = (covariance[:9, 9:] @ w) ** 2 / (variance[:9] + posterior.gp.ridge)
        np.testing.assert_allclose(curve.information(contexts, atoms, w), fall, atol=CLOSED_FORM)
        moved = posterior.on(contexts)
        np.testing.assert_allclose(moved.moments(x[None])[0][0], mean[:9], atol=CLOSED_FORM)


def test_the_bound_over_a_cell_holds_after_averages() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        posterior, _ = with_averages(rng, 2, 10, 10)
        curve = posterior.curve(rng.random(1), -2.0)
        centre, tilt, half = rng.random((1, 2)), rng.normal(size=(1, 2)), 10.0 ** rng.uniform(-4.0, -0.5, (1, 2))
        inside = centre + half * rng.uniform(-1.0, 1.0, (1000, 2))
        assert curve.lowest(centre, half, tilt)[0] <= (curve(inside) - (inside - centre) @ tilt[0]).min()
