"""Errors that differ, and errors that share a shock: posterior, likelihood and width against dense formulas."""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from drbo import GP, RBF, LearnedGP, Matern, Product, TheoreticalBeta
from drbo.models import ExactPosterior
from drbo.models.data import LEAST_ERROR, Observation, Outcomes, standardisation
from drbo.models.learned import LOGIT_CORRELATION, LogPosterior
from tolerances import CLOSED_FORM, FINITE_DIFFERENCES, SOLVER

Array = NDArray[Any]

KERNEL = Product(Matern(0.4, amplitude=1.5), RBF(0.6))


def data(seed: int = 0, sizes: tuple[int, ...] = (3, 1, 4, 1, 2, 3)) -> Outcomes:
    """Return evaluations of several contexts each, some with known standard errors."""
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    evaluation = np.repeat(np.arange(len(sizes)), sizes)
    stderr = np.where(evaluation % 3 == 0, np.nan, rng.uniform(0.02, 0.5, n))
    return Outcomes.of(
        rng.random((len(sizes), 2))[evaluation], rng.random((n, 1)), rng.normal(size=n), stderr, evaluation
    )


def covariance(outcomes: Outcomes, noise: float, correlation: float) -> Array:
    """Return the covariance of the errors, entry by entry."""
    n = len(outcomes.y)
    e = [noise if math.isnan(s) else s for s in outcomes.stderr]
    N = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if outcomes.evaluation[i] == outcomes.evaluation[j]:
                N[i, j] = e[i] * e[j] * (1.0 if i == j else correlation)
    return N


def observed(outcomes: Outcomes) -> list[Observation]:
    rows = []
    for i, (x, c, y, e) in enumerate(zip(outcomes.x, outcomes.c, outcomes.y, outcomes.stderr, strict=True)):
        before = int((outcomes.evaluation[:i] == outcomes.evaluation[i]).sum())
        rows.append(Observation.of(x, c, float(y), None if math.isnan(e) else float(e), before))
    return rows


@pytest.mark.parametrize("correlation", [0.0, 0.6, 0.99])
def test_the_posterior_is_the_formula(correlation: float) -> None:
    outcomes = data()
    gp = GP(KERNEL, noise=0.2, noise_correlation=correlation)
    rng = np.random.default_rng(1)
    x, c = rng.random((5, 2)), rng.random((4, 1))
    posterior = ExactPosterior.prior(gp, x, c)
    posterior = posterior.with_more(observed(outcomes))
    k_X, k_C = KERNEL.action, KERNEL.context
    K = k_X(outcomes.x, outcomes.x) * k_C(outcomes.c, outcomes.c)
    N = covariance(outcomes, 0.2, correlation)
    k = (k_X(outcomes.x, x)[:, :, None] * k_C(outcomes.c, c)[:, None, :]).reshape(len(K), -1)
    mean = k.T @ np.linalg.solve(K + N, outcomes.y)
    variance = KERNEL.variance - np.einsum("ij,ij->j", k, np.linalg.solve(K + N, k))
    np.testing.assert_allclose(posterior.mean.ravel(), mean, atol=SOLVER)
    np.testing.assert_allclose(posterior.variance.ravel(), variance, atol=SOLVER)
    gain = np.linalg.slogdet(K + N)[1] - np.linalg.slogdet(N)[1]
    assert posterior.information_gain == pytest.approx(gain, abs=SOLVER)
    assert posterior.errors_known
    one_by_one = ExactPosterior.prior(gp, x, c)
    for observation in observed(outcomes):
        one_by_one = one_by_one.with_more([observation])
    assert one_by_one.mean.tobytes() == posterior.mean.tobytes()


def test_outcomes_told_alone_do_not_depend_on_the_correlation() -> None:
    rng = np.random.default_rng(2)
    x, c, y = rng.random((8, 2)), rng.random((8, 1)), rng.normal(size=8)
    found = []
    for correlation in (0.0, 0.9):
        posterior = ExactPosterior.prior(GP(KERNEL, 0.1, noise_correlation=correlation), x[:3], c[:3])
        for row in zip(x, c, y, strict=True):
            posterior = posterior.with_outcome(*row)
        found.append((posterior.mean.tobytes(), posterior.variance.tobytes(), posterior.information_gain))
    assert found[0] == found[1]
    fits = [LearnedGP(noise_correlation=r).fit(x, c, y) for r in (0.0, 0.9)]
    assert fits[0].log_posterior == fits[1].log_posterior
    assert fits[0].gp.noise == fits[1].gp.noise
    assert fits[0].gp.kernel == fits[1].gp.kernel


@pytest.mark.parametrize(
    "config",
    [LearnedGP(), LearnedGP(noise=0.1), LearnedGP(noise_correlation=0.3), LearnedGP(action=RBF(0.5), family=RBF())],
)
def test_the_likelihood_is_the_formula_and_its_gradient_that_of_finite_differences(config: LearnedGP) -> None:
    outcomes = data(3)
    posterior = LogPosterior(config, outcomes, 1.0)
    rng = np.random.default_rng(4)
    theta = np.where(posterior.free, posterior.mode + 0.5 * rng.normal(size=posterior.mode.size), posterior.mode)
    gp = posterior.gp(theta)
    A = gp.kernel.action(outcomes.x, outcomes.x) * gp.kernel.context(outcomes.c, outcomes.c)
    A += covariance(outcomes, gp.noise, gp.noise_correlation)
    n = len(A)
    value = -0.5 * outcomes.y @ np.linalg.solve(A, outcomes.y) - 0.5 * np.linalg.slogdet(A)[1]
    value -= 0.5 * n * math.log(2 * math.pi)
    assert posterior.likelihood(posterior._total(theta), gp.noise_correlation)[0] == pytest.approx(value, abs=SOLVER)
    gradient = posterior(theta)[1]
    for j in np.flatnonzero(posterior.free):
        step = 1e-5 * np.eye(theta.size)[j]
        quotient = (posterior(theta + step)[0] - posterior(theta - step)[0]) / 2e-5
        assert gradient[j] == pytest.approx(quotient, rel=FINITE_DIFFERENCES, abs=FINITE_DIFFERENCES)
    assert posterior.free[-1] == (config.noise_correlation is None)


def test_half_of_the_outcomes_are_whole_evaluations_and_always_the_same_ones() -> None:
    outcomes = data(sizes=(3, 1, 4, 1, 2, 3, 2))
    half = outcomes.half()
    assert len(np.unique(half.evaluation)) == 4
    for number in np.unique(half.evaluation):
        rows = outcomes.evaluation == number
        np.testing.assert_array_equal(half.y[half.evaluation == number], outcomes.y[rows])
    np.testing.assert_array_equal(half.y, outcomes.half().y)
    assert len(data(sizes=(2,)).half().y) == 2


def test_siblings_are_the_pairs_of_one_evaluation() -> None:
    outcomes = data(sizes=(3, 1, 2))
    first, second = outcomes.siblings()
    assert sorted(zip(first.tolist(), second.tolist(), strict=True)) == [(0, 1), (0, 2), (1, 2), (4, 5)]


def test_errors_too_small_for_the_arithmetic_count_as_the_least_one() -> None:
    outcomes = data(5)
    zero = Outcomes(outcomes.x, outcomes.c, outcomes.y, np.zeros(len(outcomes.y)), outcomes.evaluation)
    posterior = LogPosterior(LearnedGP(), zero, 1.0)
    theta = posterior.mode + 0.1
    step = 1e-5 * np.eye(theta.size)[-3]
    quotient = (posterior(theta + step)[0] - posterior(theta - step)[0]) / 2e-5
    assert posterior(theta)[1][-3] == pytest.approx(quotient, rel=FINITE_DIFFERENCES)
    on_grid = ExactPosterior.prior(GP(KERNEL, 0.1), outcomes.x[:1], outcomes.c[:1])
    on_grid = on_grid.with_more([Observation.of(outcomes.x[0], outcomes.c[0], 1.0, noise=0.0)])
    least = (LEAST_ERROR * 1.5) ** 2
    assert on_grid.variance[0, 0] == pytest.approx(2.25 * least / (2.25 + least), rel=1e-4)


def test_the_correlation_of_errors_is_recovered() -> None:
    rng = np.random.default_rng(6)
    T, k = 60, 5
    x, c = rng.random((T, 1)), np.linspace(0, 1, k)[:, None]
    smooth = np.sin(4 * x) + c.T
    shock, own = 0.4 * rng.normal(size=(T, 1)), 0.2 * rng.normal(size=(T, k))
    y = smooth + shock + own
    evaluation = np.repeat(np.arange(T), k)
    fit = LearnedGP().fit(np.repeat(x, k, axis=0), np.tile(c, (T, 1)), y.ravel(), evaluation=evaluation)
    assert fit.gp.noise_correlation == pytest.approx(0.8, abs=0.1)
    assert fit.gp.noise * fit.scale == pytest.approx(math.sqrt(0.2), rel=0.2)


def test_nothing_is_learned_of_the_correlation_from_outcomes_told_alone() -> None:
    x, c, y = np.random.default_rng(7).random((3, 12))
    assert LearnedGP().fit(x, c, y).gp.noise_correlation == 1.0 / (1.0 + math.exp(-LOGIT_CORRELATION[0]))


def test_one_imprecise_outcome_changes_neither_offset_nor_scale() -> None:
    y = np.random.default_rng(8).normal(3.0, 2.0, size=41)
    plain = Outcomes.of(np.zeros((41, 1)), np.zeros((41, 1)), y, None, None)
    assert standardisation(plain) == pytest.approx((y.mean(), y.std()), rel=CLOSED_FORM)
    y[7], stderr = 5000.0, np.zeros(41)
    stderr[7] = 4000.0
    found = standardisation(Outcomes.of(np.zeros((41, 1)), np.zeros((41, 1)), y, stderr, None))
    others = np.delete(y, 7)
    assert found[0] == pytest.approx(others.mean(), abs=0.01)
    assert found[1] == pytest.approx(others.std(), rel=0.01)


def test_the_width_allows_for_known_errors() -> None:
    small, large = (TheoreticalBeta(bound=1.0, noise=noise) for noise in (0.01, 0.5))
    root = math.sqrt(2.0 + 2.0 * math.log(10.0))
    assert small.width(2.0, 0.1**2) == pytest.approx(0.1 * root + 1.0)
    assert small.width(2.0, 0.1**2, errors_known=True) == pytest.approx(root + 1.0)
    assert large.width(2.0, 0.1**2, errors_known=True) == pytest.approx(5.0 * root + 1.0)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"stderr": -1.0}, "stderr"),
        ({"evaluation": [0, 1, 0]}, "next to one another"),
        ({"evaluation": [0.0, 1.0, 2.0]}, "whole numbers"),
        ({"evaluation": [0, 1]}, "whole numbers"),
    ],
)
def test_what_is_wrong_is_told(wrong: dict[str, object], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        LearnedGP().fit([0.0, 0.5, 1.0], [0.0, 0.5, 1.0], [1.0, 2.0, 3.0], **wrong)  # type: ignore[arg-type]


def test_errors_that_are_shared_alone_are_learned_as_such() -> None:
    rng = np.random.default_rng(9)
    x, c = np.repeat(np.linspace(0, 1, 12), 4), np.tile(np.linspace(0, 1, 4), 12)
    shock = np.repeat(rng.normal(size=12), 4)
    fit = LearnedGP().fit(x, c, np.sin(3 * x) + c + shock, evaluation=np.repeat(np.arange(12), 4))
    assert fit.gp.noise_correlation > 0.999
    assert 0.4 < fit.gp.noise * fit.scale < 2.0


def test_a_correlation_must_leave_errors_of_their_own() -> None:
    GP(KERNEL, 0.1, noise_correlation=1.0 - 1e-10)
    with pytest.raises(ValueError, match="noise_correlation must leave every outcome an error of its own"):
        GP(KERNEL, 1e-6, noise_correlation=0.99)


@pytest.mark.parametrize("wrong", [-0.1, 1.0, math.nan])
def test_a_correlation_must_be_one(wrong: float) -> None:
    for model in (lambda: GP(KERNEL, 0.1, noise_correlation=wrong), lambda: LearnedGP(noise_correlation=wrong)):
        with pytest.raises(ValueError, match="noise_correlation"):
            model()
