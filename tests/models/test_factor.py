"""Points that are observed again share a row of the factor: against all outcomes, one row each, solved densely."""

import copy
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from drbo import GP, RBF, Matern, Product
from drbo.kernels import Kernel
from drbo.models import ExactPosterior, factor
from drbo.models.data import Observation
from drbo.models.kronecker import KroneckerPosterior
from drbo.models.regression import GaussianPosterior, Grid
from models.surrogate import C, X
from tolerances import CLOSED_FORM, SOLVER

KERNEL = Product(RBF(0.3, 1.5), Matern(0.4))
GRID = np.repeat(X, len(C), axis=0), np.tile(C, (len(X), 1))


def repeated(n: int, kind: str, seed: int = 0) -> list[Observation]:
    """n observations of 7 points: of one context or of an average, with the model's noise or one of their own."""
    rng = np.random.default_rng(seed)
    points = [Observation.of(X[i], C[j], None) for i, j in rng.integers(0, 9, (5, 2))]
    points += [Observation(X[i], C[:3], np.array([0.2, 0.5, 0.3]), None) for i in (2, 7)]
    found = []
    for i in rng.integers(0, 7, n):
        one = replace(points[i], outcome=float(rng.normal()))
        if kind == "errors of their own":
            one = replace(one, noise=[None, 0.01, 0.1, 3.0][rng.integers(4)], scatter=[0.0, 0.1][rng.integers(2)])
        elif kind == "failures":
            one = replace(one, outcome=None if rng.random() < 0.4 else one.outcome)
        found.append(one)
    return found


def dense(gp: GP, told: list[Observation]) -> tuple[NDArray[Any], ...]:
    """The textbook formulas, all outcomes one row each: mean and variance on GRID, leave-one-out, log determinant."""

    x, c = GRID
    k = np.array(
        [gp.kernel.action(a.action[None], x)[0] * (a.weights @ gp.kernel.context(a.contexts, c)) for a in told]
    )
    actions = np.array([a.action for a in told])
    embedded = np.array(
        [[a.weights @ gp.kernel.context(a.contexts, b.contexts) @ b.weights for b in told] for a in told]
    )
    K = gp.kernel.action(actions, actions) * embedded
    noise = np.array([(gp.noise if one.noise is None else one.noise) ** 2 + one.scatter for one in told])
    y = np.empty(len(told))
    for i, one in enumerate(told):  # a failure stands for the mean that it is expected to have
        A = K[:i, :i] + np.diag(noise[:i])
        y[i] = K[i, :i] @ np.linalg.solve(A, y[:i]) if one.outcome is None else one.outcome
    Q = np.linalg.inv(K + np.diag(noise))
    gain = np.linalg.slogdet(np.eye(len(told)) + K / np.sqrt(np.outer(noise, noise)))[1]
    variance = gp.kernel.variance - np.einsum("ij,ij->j", k, Q @ k)
    return k.T @ Q @ y, variance, Q @ y / np.diag(Q), 1.0 / np.diag(Q), gain


@pytest.mark.parametrize("kind", ["alike", "errors of their own", "failures"])
@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_repeated_points_tell_what_all_their_outcomes_do(kind: str, correlation: float) -> None:
    gp, told = GP(KERNEL, 0.3, noise_correlation=correlation), repeated(60, kind)
    posterior = ExactPosterior.prior(gp, X, C)
    posterior = posterior.with_more(told)
    mean, variance, residual, of_outcome, gain = dense(gp, told)
    assert posterior.n_observations == 60
    assert posterior.n_points == 7 if kind == "alike" else posterior.n_points < 30
    np.testing.assert_allclose(posterior.mean.ravel(), mean, atol=CLOSED_FORM)
    np.testing.assert_allclose(posterior.variance.ravel(), variance, atol=CLOSED_FORM)
    np.testing.assert_allclose(posterior.predict(*GRID), [mean, variance], atol=CLOSED_FORM)
    np.testing.assert_allclose(np.array(posterior.moments(X)).reshape(2, -1), [mean, variance], atol=CLOSED_FORM)
    assert posterior.information_gain == pytest.approx(gain, rel=CLOSED_FORM)
    if kind != "failures":
        np.testing.assert_allclose(posterior.leave_one_out(), [residual, of_outcome], rtol=SOLVER)
    twin = ExactPosterior.prior(gp, X, C)
    for one in told:
        twin = twin.with_more([one])
    np.testing.assert_array_equal(twin.mean, posterior.mean)
    np.testing.assert_array_equal(twin.predict(*GRID), posterior.predict(*GRID))


def test_draws_scatter_as_the_posterior_says() -> None:
    posterior = ExactPosterior(GP(KERNEL, 0.3), np.empty((0, 1)), C)
    posterior = posterior.with_more(repeated(200, "alike"))
    drawn = posterior.draws(np.random.default_rng(0), 4000, X[:4])
    mean, variance = posterior.moments(X[:4])
    error = np.sqrt(variance / 4000)
    assert (np.abs(drawn.mean(axis=0) - mean) < 5.0 * error + 1e-6).all()
    np.testing.assert_allclose(drawn.var(axis=0), variance, rtol=0.15, atol=1e-6)


@pytest.mark.parametrize("noise", [0.3, 1e-2, 1e-3])
def test_thousands_of_repetitions_do_not_drift(noise: float) -> None:
    """Against averages taken at once, in a posterior that never saw a point twice."""
    gp, rng = GP(KERNEL, noise), np.random.default_rng(1)
    at, y = rng.integers(0, 20, 3000), rng.normal(size=3000)
    x, c = rng.random((20, 1)), rng.random((20, 1))
    posterior, average = (ExactPosterior(gp, np.empty((0, 1)), C) for _ in range(2))
    posterior = posterior.with_more([Observation.of(x[i], c[i], float(one)) for i, one in zip(at, y, strict=True)])
    for i in dict.fromkeys(at.tolist()):
        own = y[at == i]
        average = average.with_more([Observation.of(x[i], c[i], float(own.mean()), noise / np.sqrt(len(own)))])
    tolerance = {0.3: 1e-10, 1e-2: 1e-9, 1e-3: 1e-6}[noise]  # as the covariance is conditioned
    np.testing.assert_allclose(posterior.moments(X), average.moments(X), atol=tolerance)


def test_what_rows_are_not_shared() -> None:
    def rows(gp: GP, *told: Observation) -> int:
        posterior = ExactPosterior(gp, np.empty((0, 1)), C)
        posterior = posterior.with_more(told)
        assert posterior.n_observations == len(told)
        return posterior.n_points

    one = Observation.of(X[0], C[0], 1.0)
    together = [replace(one, before=0, after=1), replace(one, before=1, after=0)]
    correlated = GP(KERNEL, 0.3, noise_correlation=0.5)
    assert rows(correlated, one, one) == 1
    assert rows(correlated, *together, one, one) == 3
    assert rows(GP(KERNEL, 0.3), *together) == 1
    assert rows(GP(KERNEL, 1e-6), *[one] * 5) == 5  # rounding would show
    assert rows(GP(KERNEL, 0.3), one, replace(one, noise=0.1)) == 2
    assert rows(GP(KERNEL, 0.3), one, replace(one, weights=np.array([0.5]))) == 2


def everything(posterior: Any) -> list[NDArray[Any]]:
    """All that a posterior says, in bits."""
    found = [*posterior.predict(*GRID), *posterior.moments(X), *posterior.leave_one_out(), *posterior.on_grid()]
    w = np.full(len(C), 1 / len(C))
    found += [*posterior.averages(X, w), posterior.gradient(X[2], w, 2.0), posterior.curve(X[1], -2.0)(C)]
    return [*(part.copy() for part in found), np.array([posterior.information_gain, posterior.n_observations])]


def kinds(told: list[Observation]) -> list[GaussianPosterior]:
    gp = GP(KERNEL, 0.3)
    block = X[:3], C[:2], np.arange(6.0).reshape(3, 2)
    made = [ExactPosterior.prior(gp, X, C), ExactPosterior(gp, X[:0], C), KroneckerPosterior(gp, X, C, block)]
    return [one.with_more(told) for one in made]


@pytest.mark.parametrize("kind", range(3), ids=["grid", "anywhere", "block"])
@pytest.mark.parametrize("n", [3, 15, 16, 30], ids="after {}".format)
def test_a_posterior_never_changes(kind: int, n: int) -> None:
    """V7: whatever is made of it, in any order, it and its descendants have the bits of those made from nothing."""
    told = repeated(60, "alike") + [Observation.of(np.array([i / 40]), C[i % 11], float(i % 5)) for i in range(40)]
    order = np.random.default_rng(n).permutation(len(told))
    told = [told[i] for i in order]
    base = kinds(told[:n])[kind]
    elsewhere = base.on(C[::2])
    before = everything(base)
    branches = [base.with_more(told[n:60]), base.with_more(told[60:]), base.with_more([]), elsewhere.on(C)]
    branches += [branches[0].with_more(told[60:]), branches[1].on(C[:3]).with_more(told[n:60]).on(C)]
    taken = [told[:60], told[:n] + told[60:], told[:n], told[:n], told, told[:n] + told[60:] + told[n:60]]
    np.testing.assert_equal(everything(base), before)
    for branch, all_of_it in zip(branches, taken, strict=True):
        for one, other in zip(everything(branch), everything(kinds(all_of_it)[kind]), strict=True):
            np.testing.assert_array_equal(one, other)
    np.testing.assert_equal(everything(copy.deepcopy(base)), before)


def test_an_interrupted_addition_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    told = repeated(40, "alike")
    base = kinds(told[:20])[0]
    before = everything(base)

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Grid, "update", stopped)
    with pytest.raises(KeyboardInterrupt):
        base.with_more(told[20:])
    monkeypatch.undo()
    np.testing.assert_equal(everything(base), before)
    np.testing.assert_equal(everything(base.with_more(told[20:])), everything(kinds(told)[0]))


def test_two_threads_add_to_one_posterior() -> None:
    told = repeated(400, "alike")
    base = kinds(told[:100])[0]
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda i: base.with_more(told[100 + i :]), range(20)))
    for i, one in enumerate(made):
        np.testing.assert_equal(everything(one), everything(kinds(told[:100] + told[100 + i :])[0]))


def test_other_contexts_have_the_bits_of_a_posterior_made_on_them() -> None:
    gp, told, elsewhere = GP(KERNEL, 0.3), repeated(60, "errors of their own"), np.linspace(0.1, 0.7, 5)[:, None]
    moved, made = ExactPosterior.prior(gp, X, C), ExactPosterior.prior(gp, X, elsewhere)
    moved = moved.with_more(told[:40])
    moved = moved.on(elsewhere)
    moved = moved.with_more(told[40:])
    for one in told:
        made = made.with_more([one])
    np.testing.assert_array_equal(moved.mean, made.mean)
    np.testing.assert_array_equal(moved.variance, made.variance)


def counting(monkeypatch: pytest.MonkeyPatch) -> list[Observation]:
    """Return a list of the observations whose kernels are computed, which grows as they are."""
    computed: list[Observation] = []
    once = factor.Factor.kernels

    def counted(self: factor.Factor, observation: Observation, t: int) -> Any:
        computed.append(observation)
        return once(self, observation, t)

    monkeypatch.setattr(factor.Factor, "kernels", counted)
    return computed


@pytest.mark.parametrize("kernel", [RBF(0.3, 1.5), Matern(0.4), Matern(0.2, nu=1.5)], ids=repr)
@pytest.mark.parametrize("noise", [0.3, 1e-6])  # of the latter no rows are shared: rounding would show
def test_kernels_of_known_points_are_looked_up_with_the_same_bits(
    kernel: Kernel, noise: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    gp, rng = GP(Product(kernel, RBF(0.25)), noise), np.random.default_rng(3)
    told = [Observation.of(X[i], C[j], float(rng.normal())) for i, j in rng.integers(0, 9, (150, 2))]
    computed = counting(monkeypatch)
    looked_up = ExactPosterior.prior(gp, X, C)
    for one in told:
        looked_up = looked_up.with_more([one])
    assert len(computed) == len({one.point for one in told}) < 100
    monkeypatch.setattr(factor, "LOOKED_UP", 16)
    few = ExactPosterior.prior(gp, X, C)
    few = few.with_more(told)
    assert len(computed) > 200  # from the 17th point on, all of them
    np.testing.assert_array_equal(few.mean, looked_up.mean)
    np.testing.assert_array_equal(few.variance, looked_up.variance)
    np.testing.assert_array_equal(few.predict(*GRID), looked_up.predict(*GRID))


def test_kernels_with_averages_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel of an average with a point, and of that point with the average, may differ in the last bit."""
    computed = counting(monkeypatch)
    posterior = ExactPosterior.prior(GP(KERNEL, 0.3), X, C)
    point, average = Observation.of(X[0], C[0], 1.0), Observation(X[1], C[:3], np.array([0.2, 0.5, 0.3]), 1.0)
    posterior = posterior.with_more([point, point, point])
    assert len(computed) == 1
    posterior = posterior.with_more([average, point, average])
    assert len(computed) == 4
