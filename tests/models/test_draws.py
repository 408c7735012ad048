"""Draws of f: mean and covariance against a dense posterior, and one draw as a function that answers what a bound does.

Monte Carlo estimates of a mean or covariance have a known standard error each. Some thousand of them are compared at
once, so the largest may be off by `LARGEST` standard errors: 1 in 30,000 is beyond that by chance for one estimate of
4 standard errors, and seeds are fixed.
"""

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from drbo import GP, RBF, ConstantKernel, Kernel, Matern, Product
from drbo.models import ExactPosterior, draws
from drbo.models.data import Observation
from drbo.models.kronecker import KroneckerPosterior
from drbo.models.perturbed import PerturbedPosterior
from drbo.models.regression import GaussianPosterior
from drbo.spaces.space import Displacement, Point
from tolerances import CLOSED_FORM, FINITE_DIFFERENCES

LARGEST = 5.5
X, C = np.linspace(0, 1, 7)[:, None], np.array([0.0, 0.2, 0.5, 0.6, 1.0])[:, None]
ROUGH = Product(Matern(0.4, amplitude=1.3), RBF(0.5))


def observations(kind: str) -> list[Observation]:
    rng = np.random.default_rng(3)
    if kind == "none":
        return []
    if kind == "on the grid, repeated":
        return [Observation.of(X[i % 3], C[i % 2], float(rng.normal())) for i in range(8)]
    if kind == "together":  # evaluations of three outcomes each, and known errors
        return [Observation.of(rng.random(1), rng.random(1), float(rng.normal()), 0.3, i % 3) for i in range(9)]
    found = [Observation.of(rng.random(1), rng.random(1), float(rng.normal())) for _ in range(6)]
    average = Observation(rng.random(1), C, np.full(len(C), 0.2), None)
    return [*found, average, Observation.of(X[2], C[1], None)]


def dense(gp: GP, seen: list[Observation], x: NDArray[Any], c: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Mean (N,) and covariance (N, N) of f at points x, c (N, d), by the textbook; shares kernels alone with drbo."""

    def k(ax: Any, ac: Any, bx: Any, bc: Any) -> NDArray[Any]:
        return np.asarray(gp.kernel.action(ax, bx) * gp.kernel.context(ac, bc))

    parts = [(np.tile(o.action, (len(o.weights), 1)), o.contexts, o.weights) for o in seen]
    K = np.array([[w @ k(ax, ac, bx, bc) @ v for bx, bc, v in parts] for ax, ac, w in parts])
    K = K.reshape(len(seen), len(seen))
    cross = np.array([w @ k(ax, ac, x, c) for ax, ac, w in parts]).reshape(len(seen), len(x))
    std = np.array([gp.noise if o.noise is None else o.noise for o in seen])
    first = np.array([i - o.before for i, o in enumerate(seen)])
    same = (first[:, None] == first) * gp.noise_correlation
    np.fill_diagonal(same, 1.0)
    A = K + same * np.outer(std, std)
    y = np.zeros(len(seen))
    for i, o in enumerate(seen):  # what has no outcome gave what is expected of it
        expected = K[i, :i] + (same * np.outer(std, std))[i, :i]
        y[i] = expected @ np.linalg.solve(A[:i, :i], y[:i]) if o.outcome is None else o.outcome
    solved = np.linalg.solve(A, cross) if seen else cross
    return y @ solved, k(x, c, x, c) - cross.T @ solved


def grid(x: NDArray[Any], c: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    return np.repeat(x, len(c), axis=0), np.tile(c, (len(x), 1))


def check(draws: NDArray[Any], mean: NDArray[Any], covariance: NDArray[Any]) -> None:
    """Raise unless draws (S, N) have this mean and covariance within Monte Carlo error."""
    S = len(draws)
    var = covariance.diagonal()
    rounding = 1e-7
    assert np.all(np.abs(draws.mean(axis=0) - mean) <= LARGEST * np.sqrt(np.maximum(var, 0) / S) + rounding)
    off = draws - mean
    errors = np.sqrt((np.outer(var, var).clip(0) + covariance**2) / S)
    assert np.all(np.abs(off.T @ off / S - covariance) <= LARGEST * errors + rounding)


KINDS = ["none", "on the grid, repeated", "together", "anywhere, and averages"]


@pytest.mark.parametrize("kind", KINDS)
def test_draws_have_mean_and_covariance_of_the_posterior(kind: str) -> None:
    gp, seen = GP(ROUGH, 0.1, noise_correlation=0.6), observations(kind)
    on_grid = ExactPosterior(gp, X, C)
    on_grid = on_grid.with_more(seen)
    check(on_grid.draws(np.random.default_rng(1), 2000).reshape(2000, -1), *dense(gp, seen, *grid(X, C)))
    anywhere = ExactPosterior(gp, np.empty((0, 1)), C)
    anywhere = anywhere.with_more(seen)
    some = np.random.default_rng(2).random((4, 1))
    check(anywhere.draws(np.random.default_rng(1), 2000, some).reshape(2000, -1), *dense(gp, seen, *grid(some, C)))


def test_the_check_can_fail() -> None:
    gp, seen = GP(ROUGH, 0.1), observations("together")
    on_grid = ExactPosterior(gp, X, C)
    on_grid = on_grid.with_more(seen)
    mean, covariance = dense(gp, seen, *grid(X, C))
    draws = on_grid.draws(np.random.default_rng(1), 2000).reshape(2000, -1)
    for wrong in ((mean + 0.1, covariance), (mean, 1.2 * covariance)):
        with pytest.raises(AssertionError):
            check(draws, *wrong)


def test_draws_of_a_block_of_common_contexts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "FREQUENCIES", 64)
    gp, rng = GP(ROUGH, 0.2, noise_correlation=0.5), np.random.default_rng(0)
    x, c, y = rng.random((5, 1)), rng.random((4, 1)), rng.normal(size=(5, 4))
    block = [Observation.of(x[i], c[j], float(y[i, j]), before=j, after=3 - j) for i in range(5) for j in range(4)]
    top = observations("anywhere, and averages")
    posterior = KroneckerPosterior(gp, X, C, (x, c, y))
    posterior = posterior.with_more(top)
    mean, covariance = dense(gp, [*block, *top], *grid(X, C))
    check(posterior.draws(np.random.default_rng(1), 2000).reshape(2000, -1), mean, covariance)
    drawn = [posterior.draw(np.random.default_rng(i), between=True).on_grid().ravel() for i in range(150)]
    check(np.array(drawn), mean, covariance)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("actions", [X, np.empty((0, 1))], ids=["grid", "box"])
@pytest.mark.parametrize("between", [False, True])
def test_a_draw_as_a_function_has_mean_and_covariance_of_the_posterior(
    kind: str, actions: NDArray[Any], between: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random frequencies included: the covariance is right on average over them, however few they are."""
    monkeypatch.setattr(draws, "FREQUENCIES", 64)
    gp, seen = GP(ROUGH, 0.1, noise_correlation=0.6), observations(kind)
    posterior = ExactPosterior(gp, actions, C)
    posterior = posterior.with_more(seen)
    drawn = [posterior.draw(np.random.default_rng(i), between=between).at(X).ravel() for i in range(150)]
    check(np.array(drawn), *dense(gp, seen, *grid(X, C)))


def perturbed(actions: NDArray[Any]) -> tuple[PerturbedPosterior, list[Observation]]:
    gp = GP(Product(Matern((0.5, 0.8)), ConstantKernel()), 0.1, noise_correlation=0.3)
    shift = Displacement(np.array([0.1, -0.05]), np.array([[0.0, 0.4]]))
    rng = np.random.default_rng(4)
    told = [
        Observation.of(rng.random(2), rng.random(1), float(rng.normal()), before=i % 2, after=1 - i % 2)
        for i in range(6)
    ]
    told.append(Observation(rng.random(2), C, np.full(len(C), 0.2), None))
    posterior = PerturbedPosterior(gp, shift, actions, C)
    posterior = posterior.with_more(told)
    places = [
        Observation(np.zeros(0), shift.places(o.action[None], o.contexts), o.weights, o.outcome, o.noise, o.before)
        for o in told
    ]
    return posterior, places


def test_draws_of_perturbed_actions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "FREQUENCIES", 64)
    x = np.random.default_rng(5).random((4, 2))
    posterior, places = perturbed(x)
    of_places = GP(Product(ConstantKernel(), posterior.gp.kernel.action), 0.1, noise_correlation=0.3)
    z = posterior.shift.places(x, C)
    mean, covariance = dense(of_places, places, np.zeros((len(z), 0)), z)
    check(posterior.draws(np.random.default_rng(1), 200).reshape(200, -1), mean, covariance)
    check(posterior.draws(np.random.default_rng(1), 200, x).reshape(200, -1), mean, covariance)


def a_draw(kind: str) -> Any:
    if kind == "perturbed":
        return perturbed(np.random.default_rng(5).random((4, 2)))[0]
    gp, rng = GP(Product(Matern((0.4, 0.7)), RBF(0.5)), 0.1), np.random.default_rng(0)
    seen = [Observation.of(rng.random(2), rng.random(1), float(rng.normal())) for _ in range(20)]
    if kind == "block":
        x, c, y = rng.random((5, 2)), rng.random((4, 1)), rng.normal(size=(5, 4))
        posterior: GaussianPosterior = KroneckerPosterior(gp, np.empty((0, 2)), C, (x, c, y))
    elif kind == "grid":
        posterior = ExactPosterior(gp, rng.random((6, 2)), C)
    else:
        posterior = ExactPosterior(gp, np.empty((0, 2)), C)
    posterior = posterior.with_more(seen)
    return posterior


@pytest.mark.parametrize("kind", ["box", "grid", "block", "perturbed"])
@pytest.mark.parametrize("between", [False, True])
def test_all_answers_of_a_draw_are_those_of_one_function(kind: str, between: bool) -> None:
    posterior, rng = a_draw(kind), np.random.default_rng(1)
    draw = posterior.draw(rng, between=between)
    x = posterior.actions if len(posterior.actions) else rng.random((4, 2))
    values = draw.at(x)
    assert values.shape == (len(x), len(C))
    weights = rng.dirichlet(np.ones(len(C))) * (np.arange(len(C)) != 2)
    np.testing.assert_allclose(draw.ceilings(x, weights), values @ weights, atol=CLOSED_FORM)
    np.testing.assert_allclose(draw.at(x, np.array([3, 1])), values[:, [3, 1]], atol=CLOSED_FORM)
    curve = draw.curve(x[1])
    np.testing.assert_allclose(curve(C), values[1], atol=CLOSED_FORM)
    np.testing.assert_allclose(draw.of_action(Point(x[1])), values[1], atol=CLOSED_FORM)
    further = rng.random((3, 1))
    np.testing.assert_allclose(draw.on(further).at(x)[1], curve(further), atol=CLOSED_FORM)
    if len(posterior.actions):
        np.testing.assert_allclose(draw.on_grid(), values, atol=CLOSED_FORM)
        np.testing.assert_array_equal(draw.on_grid(np.array([2, 0])), draw.on_grid()[[2, 0]])
        np.testing.assert_array_equal(draw.of_action(Point(x[1], 1)), draw.on_grid()[1])
    step = 1e-6
    slope = [(draw.at(x[1:2] + e) - draw.at(x[1:2] - e))[0] @ weights / (2 * step) for e in step * np.eye(2)]
    np.testing.assert_allclose(draw.gradient(x[1], weights), slope, rtol=FINITE_DIFFERENCES, atol=FINITE_DIFFERENCES)


@pytest.mark.parametrize("kind", ["box", "grid", "block", "perturbed"])
def test_the_same_generator_gives_the_same_bits(kind: str) -> None:
    posterior = a_draw(kind)
    for between in (False, True):
        twice = [posterior.draw(np.random.default_rng(7), between=between).at(np.full((1, 2), 0.3)) for _ in range(2)]
        np.testing.assert_array_equal(*twice)
    twin = copy.deepcopy(posterior).draw(np.random.default_rng(7), between=between).at(np.full((1, 2), 0.3))
    np.testing.assert_array_equal(twin, twice[0])


def test_draws_meet_outcomes_of_hardly_any_noise() -> None:
    """Points that were seen twice, and a kernel that is singular on them."""
    for kernel in (Product(RBF(0.3), RBF(0.3)), Product(Matern(0.3), ConstantKernel())):
        posterior = ExactPosterior(GP(kernel, 1e-6), np.concatenate([X, X, X + 1e-12]), np.concatenate([C, C]))
        for i in (0, 3, 3, 10):
            posterior = posterior.with_outcome(posterior.actions[i], posterior.contexts[i % 10], 0.5 + 0.1 * (i % 7))
        draws = posterior.draws(np.random.default_rng(0), 50)
        assert np.isfinite(draws).all()
        mean, std = posterior.mean, posterior.std
        # Rounding of the factor is 1e-16 of the variance, 1e-8 of the deviation; conditioning adds to it.
        assert np.abs(draws - mean).max() <= 5.5 * std.max()
        assert np.abs(draws[:, 3, 3] - mean[3, 3]).max() <= 1e-5
        np.testing.assert_allclose(draws[:, :7, :5], draws[:, 7:14, 5:], atol=1e-6)
        if isinstance(kernel.context, ConstantKernel):
            np.testing.assert_allclose(draws, draws[:, :, :1] + 0.0 * draws, atol=1e-6)


def test_many_points_have_random_frequencies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "EXACT", 6)
    monkeypatch.setattr(draws, "FREQUENCIES", 64)
    gp, seen = GP(ROUGH, 0.1), observations("together")
    posterior = ExactPosterior(gp, X, C)
    posterior = posterior.with_more(seen)
    drawn = [posterior.draw(np.random.default_rng(i)).on_grid().ravel() for i in range(150)]
    check(np.array(drawn), *dense(gp, seen, *grid(X, C)))


@dataclass(frozen=True)
class Periodic(Kernel):
    """A kernel of the user's that says nothing of its spectral density."""

    def __call__(self, a: Any, b: Any) -> Any:
        return np.exp(-2.0 * np.sin(np.pi * (a[:, None, 0] - b[:, 0])) ** 2)

    def gradient(self, a: Any, b: Any) -> Any:
        slope = -2.0 * np.pi * np.sin(2.0 * np.pi * (a[:, None, 0] - b[:, 0]))
        return (slope * self(a, b))[:, :, None]

    @property
    def curvature(self) -> Any:
        return np.array([4.0 * np.pi**2])

    @property
    def variance(self) -> float:
        return 1.0


def test_any_kernel_has_draws_on_finite_sets() -> None:
    gp, seen = GP(Product(Periodic(), Periodic()), 0.1), observations("together")
    posterior = ExactPosterior(gp, X, C)
    posterior = posterior.with_more(seen)
    posterior.check_draw(between=False)
    check(posterior.draws(np.random.default_rng(1), 2000).reshape(2000, -1), *dense(gp, seen, *grid(X, C)))
    with pytest.raises(TypeError, match=r"Periodic\(\) has no spectral density .* frequencies"):
        posterior.check_draw(between=True)
    with pytest.raises(TypeError, match="Periodic"):
        posterior.draw(np.random.default_rng(1), between=True)
    with pytest.raises(TypeError, match="Periodic"):
        ExactPosterior(gp, np.empty((0, 1)), C).check_draw(between=False)
    shift = Displacement(np.zeros(1), np.eye(1))
    with pytest.raises(TypeError, match="Periodic"):
        PerturbedPosterior(GP(Product(Periodic(), ConstantKernel()), 0.1), shift, X, C).check_draw(between=False)


KERNELS = [RBF((0.3, 0.7)), Matern(0.4, nu=1.5), Matern((0.5, 0.2)), ConstantKernel()]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_frequencies_are_of_the_spectral_density(kernel: Kernel) -> None:
    """k(a, 0) = variance E cos(w'a), by Monte Carlo."""
    points = np.random.default_rng(0).random((20, 2))
    cosines = np.cos(kernel.frequencies(np.random.default_rng(1), 20000, 2) @ points.T)
    error = LARGEST * cosines.std(axis=0) / np.sqrt(20000) + CLOSED_FORM
    assert np.all(np.abs(kernel.variance * cosines.mean(axis=0) - kernel(points, np.zeros((1, 2)))[:, 0]) <= error)
