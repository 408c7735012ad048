"""Wasserstein balls: formulas by hand, scipy in one dimension, linear programs, CVXPY with Clarabel, hard inputs."""

import tracemalloc

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment, linprog
from scipy.spatial.distance import cdist
from scipy.stats import wasserstein_distance

from drbo import Box, Wasserstein
from drbo.ambiguity._transport_solver import cheapest_plan, cheapest_plan_on_line
from tolerances import CLOSED_FORM, FEASIBLE, ROUNDING, SOLVER

Array = NDArray[np.float64]


def costs(rng: np.random.Generator, n: int) -> dict[str, tuple[Wasserstein, Array]]:
    """Sets of all kinds on n contexts, each with the matrix of what it charges."""
    points, line = rng.random((n, 2)), rng.random(n)
    odd = rng.random((n, n)) ** 3  # neither symmetric nor a metric
    np.fill_diagonal(odd, 0.0)
    grid = np.round(3 * rng.random((n, 2)))  # contexts repeat, distances tie
    return {
        "plane": (Wasserstein(points), cdist(points, points)),
        "plane, order 2": (Wasserstein(points, order=2), cdist(points, points) ** 2),
        "plane, norm 1": (Wasserstein(points, norm=1), cdist(points, points, "cityblock")),
        "plane, norm inf": (Wasserstein(points, norm=np.inf), cdist(points, points, "chebyshev")),
        "line": (Wasserstein(line), np.abs(line[:, None] - line)),
        "line, order 3": (Wasserstein(line, order=3), np.abs(line[:, None] - line) ** 3),
        "cost": (Wasserstein(cost=odd), odd),
        "cost, order 2": (Wasserstein(cost=odd, order=2), odd**2),
        "grid": (Wasserstein(grid), cdist(grid, grid)),
    }


# --- closed forms ----------------------------------------------------------------------------------------------------


def test_one_point_reference_splits_between_staying_and_going() -> None:
    worst = Wasserstein([0.0, 1.0, 3.0]).worst_case([0.0, -1.0, -6.0], [1.0, 0.0, 0.0], 1.5)
    np.testing.assert_allclose(worst.weights, [0.5, 0.0, 0.5], atol=CLOSED_FORM)  # -2 a unit beats -1 a unit
    assert worst.expectation == pytest.approx(-3.0, abs=CLOSED_FORM)
    assert worst.lower_bound == pytest.approx(-3.0, abs=CLOSED_FORM)


def test_order_two_charges_the_square() -> None:
    ambiguity = Wasserstein([0.0, 1.0, 3.0], order=2)
    worst = ambiguity.worst_case([0.0, -1.0, -6.0], [1.0, 0.0, 0.0], 0.5)
    np.testing.assert_allclose(worst.weights, [0.75, 0.25, 0.0], atol=CLOSED_FORM)  # 1 for 1 beats 6 for 9
    assert ambiguity.distance(worst.weights, [1.0, 0.0, 0.0]) == pytest.approx(0.5, abs=CLOSED_FORM)
    assert ambiguity.distance([0.0, 0.0, 1.0], [1.0, 0.0, 0.0]) == pytest.approx(3.0, abs=CLOSED_FORM)


@pytest.mark.parametrize("slope", [0.5, 2.0])
def test_a_linear_reward_falls_by_slope_times_radius(slope: float) -> None:
    contexts = np.linspace(0.0, 1.0, 11)
    reference = np.array([0, 0, 0, 0, 0, 0.2, 0.2, 0.2, 0.2, 0.2, 0])
    worst = Wasserstein(contexts).worst_case(slope * contexts, reference, 0.3)
    assert worst.expectation == pytest.approx(slope * (reference @ contexts - 0.3), abs=CLOSED_FORM)


def test_the_minimum_is_reached_at_the_mean_distance_to_it() -> None:
    contexts, values, reference = [0.0, 1.0, 4.0], [1.0, 5.0, 0.0], [0.5, 0.5, 0.0]
    ambiguity = Wasserstein(contexts)
    assert ambiguity.worst_case(values, reference, 3.5).expectation == 0.0
    assert ambiguity.worst_case(values, reference, 3.4).expectation > 0.0
    assert ambiguity.worst_case(values, reference, np.inf).lower_bound == 0.0


def test_the_direction_of_an_unsymmetric_cost_is_from_the_reference() -> None:
    ambiguity = Wasserstein(cost=[[0.0, 1.0], [5.0, 0.0]])
    assert ambiguity.distance([0.0, 1.0], [1.0, 0.0]) == pytest.approx(1.0)
    assert ambiguity.distance([1.0, 0.0], [0.0, 1.0]) == pytest.approx(5.0)
    assert ambiguity.worst_case([1.0, 0.0], [1.0, 0.0], 1.0).expectation == 0.0
    assert ambiguity.worst_case([0.0, 1.0], [0.0, 1.0], 1.0).expectation == pytest.approx(0.8)


def test_mass_moves_freely_between_equal_contexts_but_not_at_radius_zero() -> None:
    ambiguity = Wasserstein([0.0, 0.0, 1.0])
    values, reference = [1.0, 0.0, -1.0], [1.0, 0.0, 0.0]
    np.testing.assert_array_equal(ambiguity.worst_case(values, reference, 0.0).weights, reference)
    np.testing.assert_allclose(ambiguity.worst_case(values, reference, 1e-12).weights, [0.0, 1.0, 0.0], atol=1e-11)
    assert ambiguity.distance([0.0, 1.0, 0.0], reference) == 0.0


def test_the_multiplier_survives_a_budget_that_ends_between_two_edges() -> None:
    # Sums of the same prices in another order differ in the last digit: such a budget was once taken for unlimited.
    contexts = np.array([3.0, 3.0, 2.0, 1.0, 0.0, 3.0, 2.0, 0.0, 3.0, 3.0])
    values = np.random.default_rng(13).random((50, 10))
    worst = Wasserstein(contexts).worst_case(values, np.full(10, 0.1), 0.5)
    assert max(Wasserstein(contexts).distance(w, np.full(10, 0.1)) for w in worst.weights) <= 0.5 + FEASIBLE


# --- distances -------------------------------------------------------------------------------------------------------


@given(st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_scipy_agrees_in_one_dimension(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    line = np.round(rng.normal(size=n), 1)
    p, q = rng.dirichlet(np.full(n, 0.3)), rng.dirichlet(np.ones(n))
    truth = wasserstein_distance(line, line, p, q)
    assert Wasserstein(line).distance(p, q) == pytest.approx(truth, abs=CLOSED_FORM)
    assert Wasserstein(cost=np.abs(line[:, None] - line)).distance(p, q) == pytest.approx(truth, abs=CLOSED_FORM)


@pytest.mark.parametrize("order", [1.0, 1.5, 2.0, 4.0])
def test_the_plan_on_a_line_is_the_cheapest(order: float) -> None:
    rng = np.random.default_rng(6)
    for n in (1, 2, 7, 30):
        line = np.sort(np.round(rng.random(n), 2))
        cost = np.abs(line[:, None] - line) ** order
        for sharpness in (0.1, 1.0, 10.0):
            p, q = rng.dirichlet(np.full(n, sharpness)), rng.dirichlet(np.full(n, sharpness))
            on_line = cheapest_plan_on_line(p, q, line, order)
            assert on_line == pytest.approx(cheapest_plan(p, q, cost), abs=CLOSED_FORM)


@pytest.mark.parametrize("n", [1, 2, 5, 12])
def test_distances_are_the_optimum_of_the_linear_program(n: int) -> None:
    rng = np.random.default_rng(n)
    for name, (ambiguity, cost) in costs(rng, n).items():
        for sharpness in (0.1, 1.0):
            p, q = rng.dirichlet(np.full(n, sharpness)), rng.dirichlet(np.full(n, sharpness))
            marginals = np.concatenate([np.kron(np.eye(n), np.ones(n)), np.kron(np.ones(n), np.eye(n))])
            plan = linprog(
                cost.ravel(),
                A_eq=marginals[:-1],
                b_eq=np.append(q, p)[:-1],
                options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
            )
            assert ambiguity.distance(p, q) ** ambiguity.order == pytest.approx(plan.fun, abs=SOLVER), name


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("steps", [5, 1000])
def test_equal_weights_are_an_assignment(order: int, steps: int) -> None:
    """Every source goes to one sink: an independent solver, on many contexts and with many ties."""
    rng = np.random.default_rng(14)
    points = np.round(steps * rng.random((300, 2)))
    first = np.arange(300) < 150
    cost = cdist(points[first], points[~first]) ** order
    rows, columns = linear_sum_assignment(cost)
    distance = Wasserstein(points, order=order).distance(first / 150, ~first / 150)
    assert distance**order == pytest.approx(cost[rows, columns].mean(), rel=1e-12)


@pytest.mark.parametrize("sharpness", [0.05, 1.0])
def test_what_is_shared_stays_in_place_where_the_cost_is_a_metric(sharpness: float) -> None:
    rng = np.random.default_rng(15)
    points = np.round(20 * rng.random((120, 2)))
    cost = cdist(points, points)
    cost /= cost.max()
    p, q = rng.dirichlet(np.full(120, sharpness), size=2)
    assert cheapest_plan(p, q, cost, True) == pytest.approx(cheapest_plan(p, q, cost, False), abs=ROUNDING)
    assert cheapest_plan(p, q * (1 - 9e-9), cost, True) == pytest.approx(cheapest_plan(p, q, cost, True), abs=ROUNDING)


def test_a_distance_is_symmetric_obeys_the_triangle_and_scales_with_the_contexts() -> None:
    rng = np.random.default_rng(7)
    points = rng.random((9, 2))
    p, q, r = rng.dirichlet(np.ones(9), size=3)
    for order in (1, 2):
        ambiguity = Wasserstein(points, order=order)
        assert ambiguity.distance(p, p) == 0.0
        assert ambiguity.distance(p, q) == pytest.approx(ambiguity.distance(q, p), abs=CLOSED_FORM)
        assert ambiguity.distance(p, r) <= ambiguity.distance(p, q) + ambiguity.distance(q, r) + CLOSED_FORM
        for scale in (1e-180, 1e6, 1e180):  # whose squares do not fit into a float
            scaled = Wasserstein(cost=scale * cdist(points, points), order=order)
            assert scaled.distance(p, q) / scale == pytest.approx(ambiguity.distance(p, q), rel=1e-9)


@pytest.mark.parametrize("order", [1, 2])
def test_small_differences_of_large_positions_are_kept(order: int) -> None:
    """Times in seconds since 1970: version 0.1 lost a ten-thousandth of what lies between them (REVIEW F8)."""
    points = 1.7e9 + np.array([0.0, 0.001, 0.002])
    gap = float(points[2] - points[0])
    assert Wasserstein(points, order=order).distance([1, 0, 0], [0, 0, 1]) == pytest.approx(gap, rel=1e-12)
    moved = Wasserstein(points - points[0], order=order)
    p, q = np.array([0.2, 0.5, 0.3]), np.array([0.4, 0.1, 0.5])
    assert Wasserstein(points, order=order).distance(p, q) == pytest.approx(moved.distance(p, q), rel=1e-12)


def test_differences_of_rounding_cost_nothing() -> None:
    reference = np.random.default_rng(8).dirichlet(np.ones(50))
    rounded = np.nextafter(reference, np.arange(50) % 3 - 1.0)  # up, down or nowhere
    for ambiguity in (Wasserstein(np.arange(50.0), order=2), Wasserstein(np.eye(50), order=2)):
        assert ambiguity.distance(rounded, reference) == 0.0


# --- independent solvers ---------------------------------------------------------------------------------------------


def oracle(values: Array, reference: Array, cost: Array, budget: float) -> float:
    """The definition of the set by CVXPY and Clarabel: a plan from the reference to any distribution, in budget."""
    plan = cp.Variable(cost.shape, nonneg=True)
    rules = [cp.sum(plan, axis=1) == reference, cp.sum(cp.multiply(plan, cost)) <= budget]
    problem = cp.Problem(cp.Minimize(cp.sum(plan, axis=0) @ values), rules)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return float(problem.value)


@pytest.mark.parametrize("n", [2, 5, 12])
@pytest.mark.parametrize("radius", [0.02, 0.15, 0.5])
def test_clarabel_agrees(n: int, radius: float) -> None:
    rng = np.random.default_rng(9)
    for name, (ambiguity, cost) in costs(rng, n).items():
        reference = rng.dirichlet(np.ones(n)) * (rng.random(n) < 0.7)
        reference[0] += 0.05
        reference /= reference.sum()
        values = rng.random(n)
        worst = ambiguity.worst_case(values, reference, radius)
        truth = oracle(values, reference, cost, radius**ambiguity.order)
        assert worst.expectation == pytest.approx(truth, abs=SOLVER), name
        assert worst.lower_bound == pytest.approx(truth, abs=SOLVER), name


@pytest.mark.parametrize("radius", [0.05, 0.3])
def test_the_dual_of_the_docstring_is_nowhere_above_the_bound(radius: float) -> None:
    rng = np.random.default_rng(10)
    for name, (ambiguity, cost) in costs(rng, 10).items():
        values, reference = rng.random(10), rng.dirichlet(np.ones(10))
        multipliers = np.concatenate([[0.0], np.geomspace(1e-4, 1e4, 4000)])
        dual = [reference @ (values + x * cost).min(axis=1) - x * radius**ambiguity.order for x in multipliers]
        bound = ambiguity.worst_case(values, reference, radius).lower_bound
        assert max(dual) <= bound + CLOSED_FORM, name
        assert max(dual) >= bound - 1e-2, name


# --- exactness -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("radius", [1e-12, 1e-9, 1e-6, 1e-3, 0.05, 0.3, 1.0])
def test_gap_and_distance_are_exact_to_rounding(radius: float) -> None:
    rng = np.random.default_rng(11)
    for name, (ambiguity, _) in costs(rng, 40).items():
        smooth = np.sin(np.arange(40) * rng.uniform(0.1, 0.5, (10, 1)))
        for values in (rng.random((10, 40)), rng.integers(0, 3, (10, 40)).astype(float), smooth):
            reference = rng.dirichlet(np.full(40, 0.3))
            worst = ambiguity.worst_case(values, reference, radius)
            assert (worst.gap / np.ptp(values, axis=1)).max() <= 10 * ROUNDING, name
            over = max(ambiguity.distance(w, reference) for w in worst.weights) - radius
            assert over <= (1e-13 if ambiguity.order == 1 else FEASIBLE), name


def test_mass_is_conserved_where_the_reference_is_off_by_rounding() -> None:
    reference = np.full(10, 0.1) * (1 - 9e-9)
    worst = Wasserstein(np.arange(10.0)).worst_case(np.random.default_rng(12).random(10), reference, 0.7)
    assert worst.weights.sum() == pytest.approx(reference.sum(), abs=ROUNDING)
    assert worst.gap <= 10 * ROUNDING


# --- construction ----------------------------------------------------------------------------------------------------


def test_bad_construction_is_refused() -> None:
    with pytest.raises(TypeError, match=r"has no contexts yet: give them when you make it, or use .on\(points\)"):
        Wasserstein().worst_case([0.0, 1.0], [0.5, 0.5], 0.1)
    with pytest.raises(TypeError, match="has no contexts yet"):
        Wasserstein().distance([0.5, 0.5], [0.5, 0.5])
    with pytest.raises(TypeError, match="either contexts or cost"):
        Wasserstein([0.0, 1.0], cost=np.zeros((2, 2)))
    with pytest.raises(ValueError, match="order"):
        Wasserstein([0.0, 1.0], order=0.5)
    with pytest.raises(ValueError, match="norm"):
        Wasserstein([0.0, 1.0], norm=0.5)
    with pytest.raises(ValueError, match="square"):
        Wasserstein(cost=np.zeros((2, 3)))
    with pytest.raises(ValueError, match="diagonal"):
        Wasserstein(cost=np.ones((2, 2)))
    with pytest.raises(ValueError, match="negative"):
        Wasserstein(cost=[[0.0, -1.0], [1.0, 0.0]])
    with pytest.raises(ValueError, match="finite"):
        Wasserstein(cost=[[0.0, np.nan], [1.0, 0.0]])
    with pytest.raises(ValueError, match="overflow"):
        Wasserstein([-1e308, 1e308])
    with pytest.raises(ValueError, match="3 weights"):
        Wasserstein([0.0, 1.0, 2.0]).worst_case([0.0, 1.0], [0.5, 0.5], 0.1)


def test_repr() -> None:
    assert repr(Wasserstein([0.0, 1.0], order=2)) == "Wasserstein(2 contexts, order=2)"


def test_a_scale_per_column() -> None:
    """Distances are counted in steps; named columns of different units must have a scale."""
    rng = np.random.default_rng(0)
    contexts, p, q = rng.random((8, 2)) * [10.0, 0.1], rng.dirichlet(np.ones(8)), rng.dirichlet(np.ones(8))
    columns = Box(outdoor=(0.0, 10.0), load=(0.0, 0.1)).columns
    by_name = Wasserstein(scale={"load": 0.02, "outdoor": 4.0}).with_columns(columns).on(contexts)
    by_hand = Wasserstein(contexts / [4.0, 0.02])
    for scaled in (by_name, Wasserstein(contexts, scale=[4.0, 0.02])):
        assert scaled.distance(p, q) == pytest.approx(by_hand.distance(p, q), rel=CLOSED_FORM)
        worst, expected = (one.worst_case(np.arange(8.0), p, 0.3) for one in (scaled, by_hand))
        assert worst.expectation == pytest.approx(float(expected.expectation), rel=CLOSED_FORM)
    assert "in steps of 0.02 (load) and 4 (outdoor)" in by_name.words(0.3)
    with pytest.raises(ValueError, match=r"columns outdoor, load, whose units differ.*scale=\{'outdoor': 2.89, 'load'"):
        Wasserstein().with_columns(columns)
    with pytest.raises(ValueError, match="scale must name outdoor, load, got x"):
        Wasserstein(scale={"x": 1.0}).with_columns(columns)
    with pytest.raises(ValueError, match="have no names: give numbers"):
        Wasserstein(scale={"x": 1.0}).on(contexts)
    one = Wasserstein().with_columns(Box(outdoor=(0.0, 10.0)).columns)
    assert one.on([[1.0]]).words(2.0).endswith("of 2 of the reference, in the units of outdoor")


@pytest.mark.parametrize("order", [1.0, 2.0, np.inf])
def test_a_diameter_needs_no_distances_within_the_hull(order: float) -> None:
    """A log of 20,000 samples is such a hull; its distances from each other would be 3 GB."""
    rng = np.random.default_rng(0)
    points, p, hull = rng.random((30, 2)), rng.dirichlet(np.ones(30)), 3.0 * rng.random((2000, 2))
    placed = Wasserstein(order=order).on(points)
    tracemalloc.start()
    try:
        found = placed.diameter(p, hull)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10 * 8 * hull.shape[0] * len(points)
    distances = cdist(points, hull)
    costs = distances.max(axis=0) if order == np.inf else (p @ distances**order) ** (1.0 / order)
    assert found == pytest.approx(costs.max(), rel=CLOSED_FORM)
