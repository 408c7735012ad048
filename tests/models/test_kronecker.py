"""Many evaluations in the same contexts: the same likelihood and posterior as the dense ones."""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from drbo import GP, RBF, LearnedGP, Matern, Product
from drbo.models.data import LEAST_COMMON, Observation, Outcomes, observations_of
from drbo.models.kronecker import KroneckerPosterior
from drbo.models.learned import LogPosterior
from drbo.models.likelihood import Correlation, DenseLikelihood, KroneckerLikelihood
from drbo.models.regression import ExactPosterior
from drbo.spaces.space import Point
from tolerances import FINITE_DIFFERENCES, SOLVER

Array = NDArray[Any]
KERNEL = Product(Matern((0.4, 0.7), amplitude=1.5), RBF(0.3))


def data(T: int = 20, k: int = 50, rest: tuple[int, ...] = (), seed: int = 0, d_c: int = 1) -> Outcomes:
    """Return T evaluations in the same k contexts, in orders of their own, and among them others of sizes `rest`.

    One action is evaluated twice. Every second one of the others has known errors.
    """
    rng = np.random.default_rng(seed)
    contexts = rng.random((k, d_c))
    x, c, stderr, evaluation = [], [], [], []
    sizes = [k] * T + list(rest)
    order = rng.permutation(len(sizes))
    actions = rng.random((len(sizes), 2))
    actions[1] = actions[0]
    for number, i in enumerate(order):
        rows = contexts[rng.permutation(k)] if i < T else rng.random((sizes[i], d_c))
        c.append(rows)
        x.append(np.repeat(actions[i : i + 1], sizes[i], axis=0))
        stderr += [0.3 if i >= T and i % 2 else math.nan] * sizes[i]
        evaluation += [number] * sizes[i]
    X, C = np.concatenate(x), np.concatenate(c)
    y = np.sin(4 * X[:, 0]) + C[:, 0] * X[:, 1] + 0.2 * rng.normal(size=len(X))
    return Outcomes(X, C, y, np.array(stderr), np.array(evaluation))


def blocks(outcomes: Outcomes) -> tuple[Array, Array, Array]:
    common = outcomes.common()
    assert common is not None
    return outcomes.x[common.block[:, 0]], outcomes.c[common.block[0]], outcomes.y[common.block]


# --- the block --------------------------------------------------------------------------------------------------------


def test_the_block_is_what_most_evaluations_have_in_common() -> None:
    outcomes = data(12, 30, rest=(3, 1, 30))
    common = outcomes.common()
    assert common is not None
    assert common.block.shape == (12, 30)
    assert sorted([*common.block.ravel(), *common.rest]) == list(range(12 * 30 + 34))
    np.testing.assert_array_equal(outcomes.c[common.block], np.broadcast_to(outcomes.c[common.block[0]], (12, 30, 1)))
    assert len({outcomes.evaluation[row[0]] for row in common.block}) == 12


def test_few_outcomes_known_errors_and_a_large_rest_have_none() -> None:
    assert data(5, 50).common() is None
    assert LEAST_COMMON > 5 * 50
    assert data(10, 30, rest=(41,)).common() is None
    assert data(10, 30, rest=(40,)).common() is not None
    precise = data(10, 30)
    assert Outcomes(precise.x, precise.c, precise.y, 0.0 * precise.y, precise.evaluation).common() is None
    alone = Outcomes(precise.x, precise.c, precise.y, precise.stderr, np.arange(len(precise.y)))
    assert alone.common() is None


# --- the likelihood ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rest", [(), (1, 3, 2)], ids=["block", "mixed"])
@pytest.mark.parametrize("fixed", [(None, None), (RBF(0.4), None), (None, Matern(0.5))], ids=["learned", "x", "c"])
def test_value_and_gradient_of_20_x_50_are_the_dense_ones(rest: tuple[int, ...], fixed: Any) -> None:
    outcomes = data(rest=rest)
    common = outcomes.common()
    assert common is not None
    kernels = (Correlation(Matern(nu=2.5), fixed[0]), Correlation(Matern(nu=2.5), fixed[1]))
    dense, kronecker = DenseLikelihood(kernels, outcomes), KroneckerLikelihood(kernels, outcomes, common)
    for theta, r in (([-0.5, 0.2, -1.0, 0.3, -1.5, 0.0], 0.5), ([0.5, 0.0, 0.4, -0.2, -4.0, -2.0], 0.0)):
        one, two = dense(np.array(theta), r), kronecker(np.array(theta), r)
        assert two[0] == pytest.approx(one[0], rel=SOLVER)
        np.testing.assert_allclose(two[1], one[1], rtol=SOLVER, atol=SOLVER * np.abs(one[1]).max())


def test_the_fit_of_a_block_is_the_best_nearby() -> None:
    outcomes = data(8, 40, rest=(2, 1))
    fit = LearnedGP().fit(outcomes.x, outcomes.c, outcomes.y, stderr=outcomes.stderr, evaluation=outcomes.evaluation)
    posterior = LogPosterior(LearnedGP(), outcomes.standardised(fit.offset, fit.scale), fit.scale)
    assert isinstance(posterior.likelihood, KroneckerLikelihood)
    theta = posterior.theta_of(fit.gp)
    for j in range(len(theta)):
        for step in (-0.05, 0.05):
            near = np.clip(theta + step * np.eye(len(theta))[j], posterior.lower, posterior.upper)
            assert posterior(near)[0] <= fit.log_posterior + 1e-6


# --- the posterior ----------------------------------------------------------------------------------------------------


def both(
    outcomes: Outcomes, gp: GP, contexts: Array, extra: list[Observation]
) -> tuple[ExactPosterior, KroneckerPosterior]:
    """Return the dense posterior and that of the block, with further observations on top."""
    common = outcomes.common()
    assert common is not None
    actions = np.random.default_rng(9).random((7, 2))
    dense = ExactPosterior(gp, actions, contexts)
    in_order = [*common.block.ravel(), *common.rest]
    dense = dense.with_more(observations_of(outcomes.of_rows(np.array(in_order))))
    dense = dense.with_more(extra)
    kronecker = KroneckerPosterior(gp, actions, contexts, blocks(outcomes))
    kronecker = kronecker.with_more(observations_of(outcomes.of_rows(common.rest)))
    kronecker = kronecker.with_more(extra)
    return dense, kronecker


def pending(d_c: int = 1) -> list[Observation]:
    rng = np.random.default_rng(5)
    average = Observation(rng.random(2), rng.random((4, d_c)), np.full(4, 0.25), None)
    x = rng.random(2)
    together = [Observation.of(x, rng.random(d_c), None, before=j, after=1 - j) for j in range(2)]
    return [*together, average]


@pytest.mark.parametrize("noise", [0.2, 1e-3])
@pytest.mark.parametrize("with_rest", [False, True], ids=["block", "mixed and pending"])
def test_every_answer_of_20_x_50_is_the_dense_one(noise: float, with_rest: bool) -> None:
    rng = np.random.default_rng(1)
    contexts = rng.random((12, 1))
    gp = GP(KERNEL, noise=noise, noise_correlation=0.6)
    dense, kronecker = both(data(rest=(1, 3, 2) if with_rest else ()), gp, contexts, pending() if with_rest else [])
    x, weights = rng.random((9, 2)), rng.dirichlet(np.ones(12))
    weights[3] = 0.0
    weights /= weights.sum()
    size = KERNEL.variance
    # The rounding errors of a solve grow with the condition number, which is at most n variance / noise^2.
    usual = max(SOLVER, np.finfo(float).eps * 20 * 50 * size / noise**2)

    def same(one: Any, two: Any, tolerance: float = usual) -> None:
        np.testing.assert_allclose(two, one, rtol=0, atol=tolerance * max(size, float(np.abs(one).max())))

    some = np.array([7, 2, 3])
    asked: list[tuple[str, Any]] = [("moments", (x,)), ("moments_in", (x, some)), ("on_grid", ())]
    asked += [("difference", (x, x[0])), ("averages", (x, weights))]
    for name, arguments in asked:
        for one, two in zip(getattr(dense, name)(*arguments), getattr(kronecker, name)(*arguments), strict=True):
            # The dense `averages` is exact to 1e-6 itself where the noise is small.
            same(one, two, 1e-6 if name == "averages" and noise < 0.1 else usual)
    for one, two in zip(dense.moments(x), dense.moments_in(x, some), strict=True):
        same(one[:, some], two)  # products of other sizes are rounded otherwise, on some processors
    for one, two in zip(dense.of_action(Point(x[2])), kronecker.of_action(Point(x[2])), strict=True):
        same(one, two)
    for one, two in zip(dense.predict(x, contexts[:9]), kronecker.predict(x, contexts[:9]), strict=True):
        same(one, two)
    for one, two in zip(dense.leave_one_out(), kronecker.leave_one_out(), strict=True):
        same(one, two)
    assert kronecker.information_gain == pytest.approx(dense.information_gain, rel=SOLVER)
    # Elsewhere in the contexts: the curve, and the posterior moved to other contexts.
    elsewhere = rng.random((6, 1))
    for slope in (-2.0, 0.0, 1.5):
        one, two = dense.curve(x[1], slope), kronecker.curve(x[1], slope)
        same(one(elsewhere) - one(elsewhere[:1]), two(elsewhere) - two(elsewhere[:1]), max(1e-7, usual))
        same(one.variance(elsewhere), two.variance(elsewhere))
        same(
            one.information(elsewhere, contexts, weights),
            two.information(elsewhere, contexts, weights),
            max(1e-7, usual),
        )
    low = kronecker.curve(x[1], -2.0)
    floor = low.lowest(elsewhere, np.full((6, 1), 0.02), np.zeros((6, 1)))
    for step in (-0.02, 0.0, 0.013, 0.02):
        assert (floor <= low(elsewhere + step) + SOLVER).all()
    for one, two in zip(dense.on(elsewhere).moments(x), kronecker.on(elsewhere).moments(x), strict=True):
        same(one, two)


@pytest.mark.parametrize("with_rest", [False, True], ids=["block", "mixed and pending"])
def test_the_gradient_is_that_of_finite_differences(with_rest: bool) -> None:
    rng = np.random.default_rng(2)
    contexts = rng.random((5, 1))
    gp = GP(KERNEL, noise=0.2, noise_correlation=0.3)
    outcomes = data(6, 45, rest=(2, 1) if with_rest else ())
    _, posterior = both(outcomes, gp, contexts, pending() if with_rest else [])
    weights = np.array([0.2, 0.0, 0.3, 0.4, 0.1])
    for slope in (0.0, -2.0, 1.0):
        x = rng.random(2)

        def value(at: Array, slope: float = slope) -> float:
            mean, variance = posterior.moments(at[None])
            return float((mean + slope * np.sqrt(variance))[0] @ weights)

        found = posterior.gradient(x, weights, slope)
        for j in range(2):
            step = 1e-5 * np.eye(2)[j]
            quotient = (value(x + step) - value(x - step)) / 2e-5
            assert found[j] == pytest.approx(quotient, rel=FINITE_DIFFERENCES, abs=FINITE_DIFFERENCES)


def test_what_is_pending_moves_no_mean_and_the_posterior_stays() -> None:
    outcomes = data(6, 45)
    _, posterior = both(outcomes, GP(KERNEL, noise=0.2), np.linspace(0, 1, 4)[:, None], [])
    mean, variance = posterior.on_grid()
    ahead = posterior.with_more(pending())
    np.testing.assert_allclose(ahead.mean, mean, atol=SOLVER)
    assert (ahead.variance < variance).all()
    assert posterior.variance is variance
    assert posterior.n_observations == 0
    np.testing.assert_array_equal(ahead.std, np.sqrt(ahead.variance))
