"""Worst-case sensitivity: how fast worst cases fall, against closed forms, differences and CVXPY."""

from collections.abc import Callable

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drbo import (
    KL,
    MMD,
    AmbiguitySet,
    AnyOf,
    ChiSquare,
    CVaR,
    Expectation,
    Intersection,
    Matern,
    Moments,
    Neighbourhood,
    Shares,
    TotalVariation,
    Wasserstein,
)
from drbo.ambiguity import Divergence, sensitivity
from drbo.ambiguity.family import SetOrFamily
from drbo.ambiguity.moments import PlacedMoments
from drbo.validation import FloatArray
from tolerances import CLOSED_FORM, FINITE_DIFFERENCES

CONTEXTS = np.array([0.05, 0.2, 0.3, 0.55, 0.7, 0.85, 1.0])
POINTS = CONTEXTS[:, None]
FULL = np.array([0.1, 0.25, 0.15, 0.1, 0.2, 0.05, 0.15])
PARTLY = np.array([0.3, 0.0, 0.25, 0.2, 0.0, 0.25, 0.0])
VALUES = np.random.default_rng(3).normal(size=(4, 7))
KERNEL = Matern(0.3, nu=1.5)
SETS: dict[str, SetOrFamily] = {
    "TV": TotalVariation(),
    "KL": KL(),
    "chi-square": ChiSquare(),
    "CVaR": CVaR(),
    "Wasserstein": Wasserstein(CONTEXTS),
    "Wasserstein of order 2": Wasserstein(CONTEXTS, order=2.0),
    "MMD": MMD(CONTEXTS, KERNEL),
    "MMD of a matrix": MMD(gram=KERNEL(POINTS, POINTS)),
    "placed MMD": MMD(kernel=KERNEL).on(POINTS),
    "Moments": Moments(0.1).on(POINTS),
    "Shares, free": Shares({0.05: (0.1, 0.2), 0.7: (0.0, 0.1)}, free_inside=True).on(POINTS),
    "Shares": Shares({0.05: (0.1, 0.3), 0.7: (0.0, 0.2)}).on(POINTS),
    "AnyOf": AnyOf([PARTLY[::-1].copy()], within=KL()).on(POINTS),
    "Expectation": Expectation(),
}


def differences(ambiguity: SetOrFamily, p: FloatArray, radius: float, step: float) -> FloatArray:
    """Return what the worst cases lose from a radius to one further out by a step of radius^power, per step (m,)."""
    power = ambiguity.growth.power
    more = (radius**power + step) ** (1.0 / power)
    here, there = (ambiguity.worst_case(VALUES, p, r).expectation for r in (radius, more))
    return np.asarray((here - there) / step)


@pytest.mark.parametrize("ambiguity", SETS.values(), ids=SETS.keys())
@pytest.mark.parametrize("p", [FULL, PARTLY], ids=["full", "partly"])
@pytest.mark.parametrize("radius", [0.0, 0.031, 0.23, 0.71, 9.0])
def test_differences_to_the_right_at_shrinking_steps(ambiguity: SetOrFamily, p: FloatArray, radius: float) -> None:
    found = sensitivity(ambiguity, VALUES, p, radius)
    assert found.shape == (4,)
    assert (found >= 0.0).all()
    coarse, fine = (differences(ambiguity, p, radius, step) for step in (2e-6, 1e-6))
    # extrapolated: the error of a one-sided difference is proportional to its step
    np.testing.assert_allclose(2.0 * fine - coarse, found, rtol=FINITE_DIFFERENCES, atol=1e-6)


def deviation(v: FloatArray, p: FloatArray) -> float:
    return float(np.sqrt(p @ (v - p @ v) ** 2))


def norm(v: FloatArray, p: FloatArray) -> float:
    """Return the closed form of Tay et al. for the MMD of a matrix that can be inverted and a full reference."""
    del p
    inverse = np.linalg.inv(KERNEL(POINTS, POINTS))
    ones = np.ones(len(v))
    return float(np.sqrt(v @ inverse @ v - (ones @ inverse @ v) ** 2 / (ones @ inverse @ ones)))


AT_0: dict[str, Callable[[FloatArray, FloatArray], float]] = {
    "TV": lambda v, p: float(v[p > 0.0].max() - v.min()),
    "KL": lambda v, p: np.sqrt(2.0) * deviation(v, p),
    "chi-square": deviation,
    "CVaR": lambda v, p: float(v[p > 0.0].max() - p @ v),
    "Wasserstein": lambda v, p: max(
        (v[i] - v[j]) / abs(CONTEXTS[i] - CONTEXTS[j]) for i in np.flatnonzero(p) for j in range(7) if j != i
    ),
}


@pytest.mark.parametrize("name", AT_0)
@pytest.mark.parametrize("p", [FULL, PARTLY], ids=["full", "partly"])
def test_closed_forms_at_the_reference(name: str, p: FloatArray) -> None:
    expected = [AT_0[name](v, p) for v in VALUES]
    rounding = 1e-8 if name == "CVaR" else CLOSED_FORM  # which counts radii within 1e-9 as one
    np.testing.assert_allclose(sensitivity(SETS[name], VALUES, p), expected, rtol=rounding)


def test_chi_square_is_linear_in_the_root_of_the_radius_as_long_as_no_weight_is_cut_off() -> None:
    np.testing.assert_allclose(sensitivity(ChiSquare(), VALUES, FULL, 0.01), [deviation(v, FULL) for v in VALUES])


def test_mmd_at_the_reference_is_a_norm() -> None:
    expected = [norm(v, FULL) for v in VALUES]
    np.testing.assert_allclose(sensitivity(SETS["MMD"], VALUES, FULL), expected, rtol=1e-8)


def test_mmd_at_a_reference_that_lacks_contexts_by_cvxpy() -> None:
    """The least ||g|| of functions g with v - g = b on the support and v - g >= b elsewhere: no mass leaves there."""
    factor = np.linalg.cholesky(KERNEL(POINTS, POINTS))
    for v, found in zip(VALUES, sensitivity(SETS["MMD"], VALUES, PARTLY), strict=True):
        a, b = cp.Variable(7), cp.Variable()
        left = v - factor @ a - b
        problem = cp.Problem(cp.Minimize(cp.norm(a)), [left[PARTLY > 0.0] == 0.0, left >= 0.0])
        assert found == pytest.approx(problem.solve(solver=cp.CLARABEL), rel=1e-6)


@pytest.mark.parametrize(
    ("ambiguity", "kink"),
    [
        (TotalVariation(), 0.25),  # all of the highest value has moved
        (CVaR(), 0.25),
        (Wasserstein(np.array([0.0, 1.0, 3.0])), 0.25),  # all of the first context has moved to the second
        (Moments(1.0).on(np.array([[0.0], [1.0], [3.0]])), 0.25 * 3.0),  # the mean of the lowest value
        (ChiSquare(), 3.0),  # all mass is on the lowest value
    ],
    ids=repr,
)
def test_at_a_kink_it_is_the_derivative_to_the_right(ambiguity: SetOrFamily, kink: float) -> None:
    v, p = np.array([2.0, 1.0, 0.0]), np.array([0.25, 0.5, 0.25])
    if isinstance(ambiguity, Wasserstein):
        v = np.array([2.0, 0.0, 0.5])
    if isinstance(ambiguity, PlacedMoments):
        kink = 3.0 - float(p @ [0.0, 1.0, 3.0])
    below, here, above = (float(sensitivity(ambiguity, v, p, kink * k)) for k in (1.0 - 1e-6, 1.0, 1.0 + 1e-6))
    assert here == pytest.approx(above, rel=1e-4, abs=1e-12)
    assert abs(below - here) > 0.05


def test_scenarios_that_tie_count_with_the_steepest() -> None:
    """Two scenarios of equal means: beyond radius 0 the one of the larger deviation is the worse one."""
    p, narrow, wide = np.array([0.0, 1.0, 0.0]), np.array([0.1, 0.8, 0.1]), np.array([0.5, 0.0, 0.5])
    ambiguity = AnyOf([narrow, wide], within=ChiSquare()).on(np.arange(3.0)[:, None])
    assert sensitivity(ambiguity, [-1.0, 0.0, 1.0], p) == pytest.approx(1.0, rel=CLOSED_FORM)


@pytest.mark.parametrize("ambiguity", SETS.values(), ids=SETS.keys())
def test_nothing_is_lost_where_nothing_can_be(ambiguity: SetOrFamily) -> None:
    assert np.array_equal(sensitivity(ambiguity, VALUES, FULL, np.inf), np.zeros(4))
    assert float(sensitivity(ambiguity, np.full(7, 3.0), FULL, 0.1)) == 0.0


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from([*SETS.values()]),
    st.floats(0.0, 1.5),
    st.floats(1e-3, 1e3),
    st.floats(-1e3, 1e3),
    st.integers(0, 2**32 - 1),
)
def test_units_and_tangents(ambiguity: SetOrFamily, radius: float, unit: float, zero: float, seed: int) -> None:
    """It has the units of the values, does not depend on their zero, and a convex worst case is above its tangent."""
    rng = np.random.default_rng(seed)
    v, p = rng.normal(size=7), rng.dirichlet(np.ones(7))
    found = float(sensitivity(ambiguity, v, p, radius))
    scaled = float(sensitivity(ambiguity, unit * v + zero, p, radius))
    assert scaled == pytest.approx(unit * found, rel=1e-5, abs=1e-6 * unit)
    if ambiguity.growth.convex and ambiguity.growth.power == 1.0:
        here = float(ambiguity.worst_case(v, p, radius).expectation)
        for more in (1e-3, 0.1, 1.0):
            there = float(ambiguity.worst_case(v, p, radius + more).expectation)
            assert there >= here - found * more - 1e-5 * (1.0 + found)


def test_sets_without_a_derivative_say_so() -> None:
    with pytest.raises(TypeError, match=r"Neighbourhood.* has no `slopes`, which a sensitivity needs"):
        sensitivity(Neighbourhood(CONTEXTS), VALUES, FULL, 0.1)
    with pytest.raises(TypeError, match=r"has no `slopes`.*compare worst cases at two radii"):
        sensitivity(Unsteady(), VALUES, FULL, 0.1)


class Unsteady(Divergence):
    """A set of a user who gives no derivative."""

    def _distance(self, p: FloatArray, q: FloatArray) -> float:
        return float(np.abs(p - q).max())

    def _solve(self, values: FloatArray, reference: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        del values, reference, radius
        raise AssertionError("nothing is solved")


BALLS = {name: one for name, one in SETS.items() if isinstance(one, AmbiguitySet)} | {"Moments": Moments(0.1)}
FACTOR = np.linalg.cholesky(KERNEL(POINTS, POINTS)).T
IN_CVXPY: dict[str, Callable[[cp.Variable, FloatArray, float], cp.Constraint]] = {
    "MMD": lambda w, p, radius: cp.norm(FACTOR @ (w - p)) <= radius,
    "TV": lambda w, p, radius: 0.5 * cp.norm1(w - p) <= radius,
    "KL": lambda w, p, radius: cp.sum(cp.kl_div(w[p > 0.0], p[p > 0.0])) <= radius,
    "chi-square": lambda w, p, radius: cp.sum([(w[i] - p[i]) ** 2 / p[i] for i in np.flatnonzero(p)]) <= radius,
}


@pytest.mark.parametrize("name", IN_CVXPY)
@pytest.mark.parametrize("p", [FULL, PARTLY], ids=["full", "partly"])
@pytest.mark.parametrize("radius", [0.031, 0.23])
def test_bounds_in_a_ball_by_the_multipliers_of_cvxpy(name: str, p: FloatArray, radius: float) -> None:
    """The multiplier of the ball's constraint is the derivative in its radius; of the bounds some are active."""
    limit = 0.11 * radius
    ambiguity = Intersection(BALLS[name], Moments(limit)).on(POINTS)
    power, active = ambiguity.growth.power, 0
    for v, found in zip(VALUES, sensitivity(ambiguity, VALUES, p, radius), strict=True):
        w = cp.Variable(7, nonneg=True)
        ball = IN_CVXPY[name](w, p, radius)
        near = cp.abs(CONTEXTS @ (w - p)) <= limit
        support = [w[p == 0.0] == 0.0] if power == 0.5 else []
        cp.Problem(cp.Minimize(v @ w), [ball, cp.sum(w) == 1.0, near, *support]).solve(solver=cp.CLARABEL)
        expected = float(ball.dual_value) * radius ** (1.0 - power) / power
        assert found == pytest.approx(expected, rel=3e-4, abs=1e-5)
        active += near.dual_value > 1e-3
    assert active > 0


@pytest.mark.parametrize("name", ["MMD", "TV", "KL", "chi-square", "CVaR", "Wasserstein", "Moments"])
@pytest.mark.parametrize("radius", [0.0, 0.05])
def test_bounds_that_do_not_bind_leave_the_sensitivity_of_the_ball(name: str, radius: float) -> None:
    ambiguity = Intersection(BALLS[name], Moments(0.9)).on(POINTS)
    np.testing.assert_allclose(
        sensitivity(ambiguity, VALUES, FULL, radius), sensitivity(SETS[name], VALUES, FULL, radius), rtol=1e-7
    )


def test_at_a_kink_with_bounds_it_is_the_derivative_to_the_right() -> None:
    """Two contexts are 0.1 apart: a tenth of the mass moved by that is all that the bound allows."""
    ambiguity = Intersection(TotalVariation(), Moments(0.0031)).on(POINTS)
    below, here, above = (float(sensitivity(ambiguity, VALUES[1], FULL, r)) for r in (0.0309, 0.031, 0.0311))
    assert here == pytest.approx(above, rel=CLOSED_FORM)
    assert below > 1.005 * here


@pytest.mark.parametrize("name", ["TV", "chi-square"])
def test_a_reference_on_a_bound(name: str) -> None:
    """With the mean held fixed, what is lost is the least loss of v - y c over the price y of the mean."""
    ambiguity = Intersection(BALLS[name], Moments(1e-12)).on(POINTS)
    for v, found in zip(VALUES, sensitivity(ambiguity, VALUES, FULL), strict=True):
        prices = np.linspace(-20.0, 20.0, 40_001)
        left = v - prices[:, None] * CONTEXTS
        least = (np.ptp(left, axis=1) if name == "TV" else np.sqrt((left - left @ FULL[:, None]) ** 2 @ FULL)).min()
        assert found == pytest.approx(least, rel=1e-3)
