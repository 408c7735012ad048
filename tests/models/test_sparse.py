"""More outcomes than one exact posterior can take: pseudo-data for a search, the nearest outcomes for bounds."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

import drbo.models.sparse as module
from drbo import GP, RBF, ConstantKernel, Matern, Product
from drbo.models.data import Observation
from drbo.models.gp import distinct
from drbo.models.points import DistinctPoints
from drbo.models.regression import ExactPosterior
from drbo.models.sparse import SparsePosterior, posterior_of_any
from drbo.models.surrogate import Data, Inputs
from drbo.spaces.space import Displacement, Point
from tolerances import FINITE_DIFFERENCES, SOLVER

Array = NDArray[Any]
CONTEXTS = np.random.default_rng(7).random((11, 1))
ALL = 10**6


def prior(correlation: float = 0.0, noise: float = 0.1) -> GP:
    return GP(Product(Matern((0.5, 0.6), amplitude=1.2), Matern((0.4,))), noise, noise_correlation=correlation)


def observations(count: int, seed: int = 0, vectors: bool = False, averages: bool = False) -> list[Observation]:
    rng = np.random.default_rng(seed)
    x, c = rng.random((count, 2)), rng.random((count, 1))
    y = np.sin(4 * x[:, 0]) + c[:, 0] * x[:, 1] + 0.1 * rng.normal(size=count)
    found = [Observation.of(x[i], c[i], float(y[i])) for i in range(count)]
    if vectors:
        for i in range(0, count // 3 * 3, 6):
            for j in range(3):
                found[i + j] = Observation.of(x[i], c[i + j], float(y[i + j]), None, j, 2 - j)
    if averages:
        weights = np.array([0.25, 0.75])
        for i in range(5, count, 50):
            found[i] = Observation(x[i], c[[i, i - 1]], weights, float(y[i]), scatter=0.01)
    return found


def data(given: list[Observation], shift: Displacement | None = None) -> Data:
    return Data(Inputs(np.empty((0, 2)), 1 if shift is None else 2, shift)).and_also(given)


def sparse(gp: GP, given: list[Observation], contexts: Array = CONTEXTS) -> SparsePosterior:
    made = posterior_of_any(gp, data(given), contexts, None, 1)
    assert isinstance(made, SparsePosterior)
    return made


@pytest.mark.parametrize("correlation", [0.0, 0.6])
def test_with_all_points_as_inducing_points_the_pseudo_data_are_exact(
    correlation: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with shared errors, known ones, and failures, which leave the mean."""
    monkeypatch.setattr(module, "_RESOLVED", 1e-12)
    gp, given = prior(correlation), observations(250, vectors=True)
    given[1::9] = [replace(one, noise=0.3) for one in given[1::9]]
    given += [Observation.of(one.action, one.contexts[0], None) for one in given[-6:]]
    made = sparse(gp, given[-6:] + given[:-6])
    exact = ExactPosterior(gp, np.empty((0, 2)), CONTEXTS).with_more(given)
    x = np.random.default_rng(3).random((20, 2))
    for ours, theirs in zip(made.moments(x), exact.moments(x), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0.0, atol=1e-6)


def test_the_pseudo_data_have_the_moments_of_the_sparse_posterior() -> None:
    """mean = k_u' L^-T (I + B)^-1 v, variance = k - k_u' (Kuu^-1 - (Kuu + Kuf N^-1 Kfu)^-1) k_u, written out."""
    gp, given = prior(), observations(256)
    made = sparse(gp, given)
    at = made._induced()[0][:40]
    rows, kernel = made._first_points.rows, gp.kernel
    Kuu = kernel.between(rows.x[at], rows.c[at], rows.x[at], rows.c[at])
    L = np.asarray(np.linalg.cholesky(Kuu), dtype=np.float64)
    factor = module._pseudo(gp, made._first_points, at, L, np.empty((0, 2)), CONTEXTS)
    ours = ExactPosterior.of(factor)
    x = np.random.default_rng(3).random((4, 2))
    z = np.repeat(x, len(CONTEXTS), axis=0), np.tile(CONTEXTS, (4, 1))
    Kuf = kernel.between(rows.x[at], rows.c[at], rows.x, rows.c)
    Ku = kernel.between(rows.x[at], rows.c[at], *z)
    outer = cho_factor(Kuu + Kuf @ Kuf.T / gp.ridge)
    mean = Ku.T @ cho_solve(outer, Kuf @ rows.y / gp.ridge)
    explained = np.einsum("ij,ij->j", Ku, np.linalg.solve(Kuu, Ku) - cho_solve(outer, Ku))
    np.testing.assert_allclose(ours.moments(x)[0].ravel(), mean, rtol=0.0, atol=SOLVER)
    np.testing.assert_allclose(ours.moments(x)[1].ravel(), kernel.variance - explained, rtol=0.0, atol=SOLVER)


def test_the_sparse_variance_may_be_too_small_and_no_bound_uses_it() -> None:
    """RBF(1), noise 0.1, inducing point 0, datum 1, test point -1: the exact variance is 0.98, the sparse one 0.64."""
    gp = GP(Product(RBF(1.0), ConstantKernel()), 0.1)
    rows = DistinctPoints.merged(
        distinct(gp, Data(Inputs(np.empty((0, 1)), 1)).and_also(
            [Observation.of(np.array([x]), np.zeros(1), 0.0) for x in (0.0, 1.0)]
        ), 2).rows, gp,
    )  # fmt: skip
    only = DistinctPoints(rows.rows.at(np.array([1])), rows.variance[1:], np.zeros(1, dtype=np.intp), 1)
    both = only.rows.and_also(rows.rows.at(np.array([0])))
    merged = DistinctPoints(both, np.array([rows.variance[1], 1e12]), np.arange(2), 2)
    factor = module._pseudo(gp, merged, np.array([1]), np.ones((1, 1)), np.empty((0, 1)), np.zeros((1, 1)))
    assert ExactPosterior.of(factor).moments(np.array([[-1.0]]))[1][0, 0] == pytest.approx(0.64, abs=0.01)
    exact = ExactPosterior.of(only.factor(gp, np.empty((0, 1)), np.zeros((1, 1))))
    assert exact.moments(np.array([[-1.0]]))[1][0, 0] == pytest.approx(0.98, abs=0.005)


@pytest.mark.parametrize("correlation", [0.0, 0.6])
def test_bounds_rest_on_some_of_the_outcomes_so_no_variance_is_too_small(
    correlation: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "NEAREST", 200)
    monkeypatch.setattr(module, "NEIGHBOURS", 60)
    gp, given = prior(correlation), observations(700, vectors=True, averages=True)
    made, exact = sparse(gp, given), ExactPosterior(gp, np.empty((0, 2)), CONTEXTS).with_more(given)
    rng = np.random.default_rng(3)
    for x in rng.random((5, 2)):
        mean, variance = made.of_action(Point(x))
        their_mean, their_variance = (part[0] for part in exact.moments(x[None]))
        assert (variance >= their_variance * (1.0 - 1e-9)).all()
        assert np.sqrt(variance / their_variance).max() < 1.5
        assert (np.abs(mean - their_mean) <= 4.0 * np.sqrt(variance)).all()
        curve = made.curve(x, -2.0)
        np.testing.assert_allclose(curve(CONTEXTS), mean - 2.0 * np.sqrt(variance), rtol=0.0, atol=SOLVER)
        _, apart = made.difference(x[None], np.array([0.5, 0.5]))
        assert (apart >= exact.difference(x[None], np.array([0.5, 0.5]))[1] * (1.0 - 1e-9)).all()
    x, c = rng.random((100, 2)), rng.random((100, 1))
    mean, variance = made.predict(x, c)
    assert (variance >= exact.predict(x, c)[1] * (1.0 - 1e-9)).all()
    assert np.sqrt(variance / exact.predict(x, c)[1]).mean() < 1.5
    assert (made.predict(x[7:8], c[7:8])[1] == variance[7:8]).all(), "a prediction depends on the others asked for"
    residual, spread = made.leave_one_out()
    _, narrower = exact.leave_one_out()
    assert len(residual) == len(given)
    assert (spread >= narrower * (1.0 - 1e-9)).all()


def test_the_nearest_outcomes_of_few_actions_cover_the_contexts() -> None:
    """Ten actions in 500 contexts each: the rows of the action itself are too many, and its extremes are kept."""
    rng = np.random.default_rng(0)
    contexts = rng.normal(size=(5000, 2))
    k = np.repeat(np.linspace(1.0, 0.1, 10), 500)
    found = module._largest(k, 100, contexts)
    assert len(found) == 100
    assert (found < 500).all()
    assert {int(contexts[:500, 0].argmax()), int(contexts[:500, 1].argmin())} <= set(found.tolist())
    assert (module._largest(k, 700, contexts) < 1000).all()


def test_extended_or_made_anew_the_bits_are_the_same() -> None:
    gp, given = prior(), observations(800)
    grown = posterior_of_any(gp, data(given[:520]), CONTEXTS, None, 1)
    for end in range(521, 801, 3):
        grown = posterior_of_any(gp, data(given[:end]), CONTEXTS, grown, 1)
        if end % 2:
            grown.moments(np.full((1, 2), 0.5))
    anew = posterior_of_any(gp, data(given[:end]), CONTEXTS[:5], None, 1)
    assert isinstance(anew, SparsePosterior)
    assert anew.n_base == 768
    again = posterior_of_any(gp, data(given[:end]), CONTEXTS, anew, 1)
    x = np.random.default_rng(3).random((6, 2))
    for ours, theirs in zip(grown.moments(x), again.moments(x), strict=True):
        assert (ours == theirs).all()
    for ours, theirs in zip(grown.of_action(Point(x[0])), again.of_action(Point(x[0])), strict=True):
        assert (ours == theirs).all()
    for ours, theirs in zip(grown.predict(x, CONTEXTS[:6]), again.predict(x, CONTEXTS[:6]), strict=True):
        assert (ours == theirs).all()


def test_a_base_in_one_go_has_the_same_bits_whenever_it_is_made() -> None:
    gp, given = prior(), observations(700)
    grown = posterior_of_any(gp, data(given[:200]), CONTEXTS, None, ALL)
    for end in range(201, 701):
        grown = posterior_of_any(gp, data(given[:end]), CONTEXTS, grown, ALL)
    anew = posterior_of_any(gp, data(given), CONTEXTS, None, ALL)
    x = np.random.default_rng(3).random((6, 2))
    assert isinstance(grown, ExactPosterior)
    assert grown.n_based == 640
    few = posterior_of_any(gp, data(given[:255]), CONTEXTS, None, ALL)
    assert isinstance(few, ExactPosterior)
    assert few.n_based == 0
    for ours, theirs in zip(grown.moments(x), anew.moments(x), strict=True):
        assert (ours == theirs).all()


def test_many_repeats_of_few_points_stay_exact() -> None:
    rng = np.random.default_rng(0)
    points = observations(60)
    given = [
        Observation.of(one.action, one.contexts[0], float(rng.normal()))
        for one in (points[i] for i in rng.integers(60, size=3000))
    ]
    made = posterior_of_any(prior(), data(given), CONTEXTS, None, 100)
    assert isinstance(made, ExactPosterior)
    assert made.n_points < 60 + 256
    assert made.n_data == 3000


def test_draws_have_the_moments_of_the_pseudo_data() -> None:
    made = sparse(prior(), observations(600))
    x = np.random.default_rng(3).random((3, 2))
    drawn = made.draws(np.random.default_rng(1), 4000, x)
    mean, variance = made.moments(x)
    np.testing.assert_allclose(drawn.mean(axis=0), mean, rtol=0.0, atol=4.0 * float(np.sqrt(variance.max() / 4000)))
    np.testing.assert_allclose(drawn.std(axis=0), np.sqrt(variance), rtol=4.0 / np.sqrt(2 * 4000))


def test_the_gradient_is_that_of_the_moments() -> None:
    made = sparse(prior(), observations(600)).with_more(observations(3, seed=5))
    w, x = np.full(len(CONTEXTS), 1.0 / len(CONTEXTS)), np.array([0.4, 0.6])

    def value(at: Array) -> float:
        mean, variance = made.moments(at[None])
        return float(w @ (mean - 2.0 * np.sqrt(variance))[0])

    by_differences = [(value(x + step) - value(x - step)) / 2e-5 for step in 1e-5 * np.eye(2)]
    np.testing.assert_allclose(made.gradient(x, w, -2.0), by_differences, atol=FINITE_DIFFERENCES)


def test_perturbed_actions() -> None:
    """f(x + xi): the pseudo-data and the nearest outcomes are those of places."""
    gp = GP(Product(Matern((0.5, 0.6)), ConstantKernel()), 0.1)
    shift = Displacement(np.zeros(2), 0.1 * np.eye(2))
    rng = np.random.default_rng(0)
    x, c = rng.random((600, 2)), rng.random((600, 2))
    given = [Observation.of(x[i], c[i], float(np.sin(4 * (x[i] + 0.1 * c[i])).sum())) for i in range(600)]
    contexts = rng.random((5, 2))
    made = posterior_of_any(gp, data(given, shift), contexts, None, 1)
    assert isinstance(made, SparsePosterior)
    exact = posterior_of_any(gp, data(given, shift), contexts, None, ALL)
    there = rng.random((4, 2))
    np.testing.assert_allclose(made.moments(there)[0], exact.moments(there)[0], atol=0.05)
    for one in there:
        mean, variance = made.of_action(Point(one))
        theirs, narrower = (part[0] for part in exact.moments(one[None]))
        np.testing.assert_allclose(mean, theirs, atol=0.02)
        assert (variance >= narrower * (1.0 - 1e-9)).all()
    assert (made.predict(there, c[:4])[1] >= exact.predict(there, c[:4])[1] * (1.0 - 1e-9)).all()
    assert len(made.leave_one_out()[0]) == 600
