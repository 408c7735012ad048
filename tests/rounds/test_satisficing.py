"""Critical radius and fragility, against brute force over fine grids of radii, actions and distributions."""

import math

import cvxpy as cp
import numpy as np
import pytest

from drbo import (
    KL,
    MMD,
    RBF,
    AnyOf,
    Box,
    ChiSquare,
    CVaR,
    Expectation,
    Intersection,
    Moments,
    Neighbourhood,
    Satisficing,
    Shares,
    TotalVariation,
    Uncertain,
    Wasserstein,
)
from drbo.ambiguity.family import SetOrFamily, as_placed
from drbo.contexts.nature import FiniteContexts
from drbo.models.bounds import UPPER, Bound
from drbo.rounds.ball import Ball
from drbo.rounds.box_search import BoxSearch
from drbo.rounds.grid_search import GridSearch
from drbo.rounds.policies import Round
from drbo.rounds.range_ball import make_ball
from drbo.rounds.satisficing import Goal, WorstByRadius, critical_radius, fragility, picker, satisfy
from drbo.spaces import FiniteSet
from rounds.beliefs import ACTIONS, CONTEXTS, REFERENCE, beliefs

NOWHERE = np.empty((0, 1))
C = CONTEXTS.points
SETS: list[SetOrFamily] = [
    MMD(C, RBF(0.2)),
    MMD(C, RBF(2.0)),
    TotalVariation(),
    KL(),
    ChiSquare(),
    CVaR(),
    Wasserstein(C),
    Wasserstein(C, order=2.0),
    Neighbourhood(C),
    Moments(0.3).on(C),
    Intersection(MMD(C, RBF(0.3)), Moments(0.1)).on(C),
    AnyOf([np.eye(7)[2], np.full(7, 1 / 7)], TotalVariation()).on(C),
]
every_set = pytest.mark.parametrize("ambiguity", SETS, ids=repr)


def ball_of(ambiguity: SetOrFamily) -> Ball:
    return make_ball(as_placed(ambiguity), REFERENCE, 0.1, CONTEXTS, 0, None)


def brute_force(ball: Ball, values: np.ndarray, target: float) -> tuple[float, float]:
    """Return the critical radius and the fragility on a fine grid of radii."""
    top = ball.diameter
    radii = np.concatenate([[0.0], np.geomspace(1e-6 * top, 1.2 * top, 200)])
    worst = np.array([float(ball.at(r).worst_case(values).expectation) for r in radii])
    reached = radii[worst >= target]
    return float(reached.max(initial=-math.inf)), float(((target - worst[1:]) / radii[1:]).max(initial=0.0))


@every_set
@pytest.mark.parametrize("seed", [0, 1])
def test_radius_and_fragility_of_one_action(ambiguity: SetOrFamily, seed: int) -> None:
    rng = np.random.default_rng(seed)
    ball, values = ball_of(ambiguity), rng.normal(size=7)
    worst = WorstByRadius.of_values(ball, values)
    at_0, at_all = worst.lower(0.0), worst.lower(math.inf)
    for share in (0.2, 0.7):
        target = at_all + share * (at_0 - at_all)
        radius, most = critical_radius(worst, target), fragility(worst, target)
        if at_0 == at_all:
            assert (radius, most.value) == (math.inf, 0.0)
            continue
        grid_radius, grid_most = brute_force(ball, values, target)
        assert worst.lower(radius) >= target  # certified, not only found
        assert grid_radius <= radius * (1.0 + 1e-6)
        assert radius <= grid_radius * 1.08 + 1e-5 * ball.diameter
        assert most.value >= grid_most * (1.0 - 1e-9)
        attained = (target - float(ball.at(most.radius).worst_case(values).expectation)) / most.radius
        assert most.value <= attained * (1.0 + (1e-6 if ambiguity.growth.convex else 0.02))


@every_set
def test_sets_whose_worst_case_is_said_to_be_convex_are(ambiguity: SetOrFamily) -> None:
    ball, values = ball_of(ambiguity), np.random.default_rng(3).normal(size=7)
    radii = np.linspace(0.0, 1.1 * ball.diameter, 25)
    worst = np.array([float(ball.at(r).worst_case(values).expectation) for r in radii])
    bends = np.diff(worst, 2)
    if ambiguity.growth.convex:
        assert bends.min() >= -1e-7 * np.ptp(values)


@pytest.mark.parametrize("ambiguity", [TotalVariation(), MMD(C, RBF(0.3)), Wasserstein(C)], ids=repr)
def test_fragility_is_the_least_price_of_a_unit_of_distance(ambiguity: SetOrFamily) -> None:
    """RoBOS: the least k with <w, v> + k distance(w, p) >= target in every distribution w, by CVXPY."""
    values, p = np.random.default_rng(5).normal(size=7), REFERENCE.weights
    target = float(p @ values) - 0.2
    found = fragility(WorstByRadius.of_values(ball_of(ambiguity), values), target).value

    def least(k: float) -> float:
        w = cp.Variable(7, nonneg=True)
        constraints = [cp.sum(w) == 1]
        if isinstance(ambiguity, TotalVariation):
            distance = 0.5 * cp.norm1(w - p)
        elif isinstance(ambiguity, MMD):
            distance = cp.norm(ambiguity.placed.features.T @ (w - p), 2)
        else:
            plan = cp.Variable((7, 7), nonneg=True)
            constraints += [cp.sum(plan, axis=1) == p, cp.sum(plan, axis=0) == w]
            distance = cp.sum(cp.multiply(plan, np.abs(C - C.T)))
        problem = cp.Problem(cp.Minimize(w @ values + k * distance), constraints)
        problem.solve(solver=cp.CLARABEL)
        return float(problem.value)

    assert found > 0.0
    assert least(found * (1.0 + 1e-4)) >= target - 1e-7
    assert least(found * (1.0 - 1e-3)) < target - 1e-7


def test_closed_form_of_total_variation() -> None:
    """Two contexts: V(eps) = 1/2 - eps, so the target 0.3 is reached up to 0.2, and the last unit costs most."""
    two = FiniteSet("contexts", np.array([[0.0], [1.0]]))
    ball = make_ball(TotalVariation(), FiniteContexts(two).given(np.array([0.5, 0.5])), 0.1, two, 0, None)
    worst = WorstByRadius.of_values(ball, np.array([0.0, 1.0]))
    assert critical_radius(worst, 0.3) == pytest.approx(0.2, rel=1e-8)
    assert fragility(worst, 0.3).value == pytest.approx(0.3 / 0.5, rel=1e-8)
    assert critical_radius(worst, 0.6) == -math.inf
    assert fragility(worst, 0.6).value == math.inf
    assert (critical_radius(worst, 0.0), fragility(worst, 0.0).value) == (math.inf, 0.0)
    # The target is reached with nothing to spare: no shift at all is allowed.
    assert critical_radius(worst, 0.5) == 0.0
    assert fragility(worst, 0.5).value == math.inf


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_fragility_scales_with_the_values(scale: float, shift: float) -> None:
    ball, values = ball_of(TotalVariation()), np.random.default_rng(1).normal(size=7)
    target = float(REFERENCE.weights @ values) - 0.3
    plain = WorstByRadius.of_values(ball, values)
    scaled = WorstByRadius.of_values(ball, scale * (values + shift))
    assert critical_radius(scaled, scale * (target + shift)) == pytest.approx(critical_radius(plain, target), rel=1e-6)
    assert fragility(scaled, scale * (target + shift)).value == pytest.approx(
        scale * fragility(plain, target).value, rel=1e-5
    )


@pytest.mark.parametrize("ambiguity", [SETS[i] for i in (0, 2, 3, 5, 8)], ids=repr)
@pytest.mark.parametrize("goal", ["radius", "fragility"])
def test_the_best_of_many_actions(ambiguity: SetOrFamily, goal: Goal) -> None:
    ball = ball_of(ambiguity)
    for seed in range(2):
        known = beliefs(seed)
        bound = Bound(known.ahead, 0.5, UPPER)
        values = bound.on_grid()
        each = [WorstByRadius.of_values(ball, row) for row in values]
        at_0 = np.array([one.lower(0.0) for one in each])
        target = float(np.sort(at_0)[3])
        found = GridSearch(ACTIONS).best_by(ball, picker(ball, bound, target, goal), NOWHERE)
        assert found is not None
        row = found.action.index
        assert row is not None
        if goal == "radius":
            every = np.array([critical_radius(one, target) for one in each])
            assert every[row] == every.max() or every[row] >= every.max() * (1.0 - 1e-6)
            assert found.score == every[row]
        else:
            every = np.array([fragility(one, target).value for one in each])
            assert every[row] <= every.min() * (1.0 + 1e-6)
            assert max(-found.score, 0.0) == pytest.approx(every[row], rel=1e-9)


def test_no_action_reaches_a_target_that_is_too_high() -> None:
    ball, known = ball_of(TotalVariation()), beliefs()
    bound = Bound(known.ahead, 2.0, UPPER)
    for goal in ("radius", "fragility"):
        assert satisfy(GridSearch(ACTIONS), ball, bound, 100.0, goal, NOWHERE) is None


@pytest.mark.parametrize("goal", ["radius", "fragility"])
@pytest.mark.parametrize("rule", [None, Uncertain()])
def test_the_policy_falls_back_to_the_best_upper_bound_under_the_reference(goal: Goal, rule: Uncertain | None) -> None:
    """As RoBOS does: no action could reach the target."""
    ball, known = ball_of(MMD(C, RBF(0.2))), beliefs()
    choice = Satisficing(100.0, goal, rule).choose(Round(ball, GridSearch(ACTIONS), NOWHERE, NOWHERE), known)
    ucb = Bound(known.ahead, 2.0, UPPER).on_grid()
    assert choice.action.index == int(np.argmax(ucb @ REFERENCE.weights))
    assert (choice.context is None) == (rule is None)


@pytest.mark.parametrize("goal", ["radius", "fragility"])
def test_a_box_finds_no_worse_than_a_fine_grid(goal: Goal) -> None:
    ball, known = ball_of(MMD(C, RBF(0.2))), beliefs()
    bound = Bound(known.ahead, 0.5, UPPER)
    fine = FiniteSet("actions", np.linspace(0.0, 1.0, 201))
    values = bound.at(fine.coordinates)
    target = float(np.quantile(values @ REFERENCE.weights, 0.8))
    found = satisfy(BoxSearch(Box(x=(0.0, 1.0))), ball, bound, target, goal, NOWHERE)
    each = [WorstByRadius.of_values(ball, row) for row in values[values @ REFERENCE.weights >= target]]
    assert found is not None
    if goal == "radius":
        assert found.score >= max(critical_radius(one, target) for one in each) * (1.0 - 1e-3)
    else:
        assert -found.score <= min(fragility(one, target).value for one in each) * (1.0 + 1e-3)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match=r'goal must be "fragility" or "radius", got "kappa"|goal must be'):
        Satisficing(1.0, "kappa")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="target must be finite"):
        Satisficing(math.nan)
    for same in (Expectation(), AnyOf([np.full(7, 1 / 7)]).on(C)):
        with pytest.raises(TypeError, match="the same at every radius"):
            Satisficing(0.0).choose(Round(ball_of(same), GridSearch(ACTIONS), NOWHERE, NOWHERE), beliefs())


def test_sets_that_combine_others_know_whether_they_have_a_radius() -> None:
    groups = Shares({"a": (0.2, 0.5)}, free_inside=True)
    assert groups.growth.matters
    assert Intersection(MMD(), Moments(1.0)).growth.matters
    assert Intersection(MMD(), Moments(1.0)).growth.convex
    assert not AnyOf([np.ones(2) / 2]).growth.matters
    assert not Wasserstein(order=2.0).growth.convex
