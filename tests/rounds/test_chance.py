"""Worst-case probabilities and quantiles, against linear programs, CVXPY and brute force."""

import math
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from scipy.stats import norm

from drbo import (
    MMD,
    RBF,
    AmbiguitySet,
    AtLeast,
    Chance,
    LevelSet,
    TotalVariation,
    Uncertain,
    Undecided,
    Wasserstein,
)
from drbo.ambiguity.family import as_placed
from drbo.models.bounds import LOWER, UPPER, Bound, simultaneous
from drbo.models.data import Units
from drbo.rounds.ball import Ball
from drbo.rounds.chance import Event, ModelEvent, bracket, worst_quantile
from drbo.rounds.floors import View, requirements
from drbo.rounds.grid_search import GridSearch
from drbo.rounds.limited_search import LimitedSearch
from drbo.rounds.policies import Optimism, Round
from drbo.rounds.range_ball import make_ball
from rounds.beliefs import ACTIONS, CONTEXTS, REFERENCE, beliefs
from tolerances import SOLVER

NOWHERE = np.empty((0, 1))
C, P = CONTEXTS.points, REFERENCE.weights
SETS: list[AmbiguitySet] = [TotalVariation(), MMD(C, RBF(0.3)), Wasserstein(C)]
every_set = pytest.mark.parametrize("ambiguity", SETS, ids=repr)


def ball_of(ambiguity: AmbiguitySet, radius: float = 0.2) -> Ball:
    return make_ball(as_placed(ambiguity), REFERENCE, radius, CONTEXTS, 0, None)


def oracle(ambiguity: AmbiguitySet, values: np.ndarray, radius: float) -> float:
    """Return the worst-case expectation by CVXPY."""
    w = cp.Variable(7, nonneg=True)
    constraints: list[Any] = [cp.sum(w) == 1]
    if isinstance(ambiguity, TotalVariation):
        constraints.append(0.5 * cp.norm1(w - P) <= radius)
    elif isinstance(ambiguity, MMD):
        constraints.append(cp.norm(ambiguity.placed.features.T @ (w - P), 2) <= radius)
    else:
        plan = cp.Variable((7, 7), nonneg=True)
        constraints += [cp.sum(plan, axis=1) == P, cp.sum(plan, axis=0) == w]
        constraints.append(cp.sum(cp.multiply(plan, np.abs(C - C.T))) <= radius)
    problem = cp.Problem(cp.Minimize(w @ values), constraints)
    problem.solve(solver=cp.CLARABEL)
    return float(problem.value)


@every_set
@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("side", [UPPER, LOWER])
def test_the_true_probability_is_inside_the_bracket(ambiguity: AmbiguitySet, noise: float, side: Any) -> None:
    rng = np.random.default_rng(0)
    ball, event = ball_of(ambiguity), ModelEvent(side, 0.1, noise)
    f = rng.normal(size=(4, 7))
    low, high = f - rng.random((4, 7)), f + rng.random((4, 7))
    least, most = (low, high) if side is UPPER else (high, low)
    found = bracket(ball, event, least, most)
    beyond = side * (f - 0.1)
    truth = [oracle(ambiguity, norm.cdf(row / noise) if noise else (row > 0.0) * 1.0, 0.2) for row in beyond]
    assert (found.lower <= np.array(truth) + 1e-6).all()
    assert (np.array(truth) <= found.upper + 1e-6).all()
    # Bounds that meet leave nothing open, and the linear program says the same.
    same = bracket(ball, event, f, f)
    np.testing.assert_allclose(same.lower, truth, atol=1e-6)
    np.testing.assert_allclose(same.upper, same.lower, atol=SOLVER)
    assert (found.lower >= 0.0).all()
    assert (found.upper <= 1.0).all()


@every_set
@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
def test_quantiles_against_every_threshold(ambiguity: AmbiguitySet, share: float) -> None:
    rng = np.random.default_rng(1)
    ball = ball_of(ambiguity)
    for values in (rng.normal(size=7), rng.integers(0, 3, 7).astype(float), np.full(7, 2.0)):
        reached = [t for t in values if ball.worst_case((values >= t) * 1.0).lower_bound >= share - 1e-9]
        expected = max(reached, default=values.min())
        assert worst_quantile(ball, values, share, 0.0, certified=True) == expected
        assert worst_quantile(ball, values, share, 0.0, certified=False) == expected
        t = worst_quantile(ball, values, share, 0.2, certified=True)
        assert ball.worst_case(norm.cdf((values - t) / 0.2)).expectation == pytest.approx(share, abs=1e-8)
        assert worst_quantile(ball, values, share, 0.2, certified=False) >= t


def test_a_quantile_of_the_reference_is_the_textbook_one() -> None:
    ball, values = ball_of(TotalVariation(), 0.0), np.arange(7.0)
    for level in (0.05, 0.3, 0.5, 0.95):
        # The largest t with P(v >= t) >= 1 - level.
        above = np.cumsum(P[::-1])[::-1]
        expected = values[above >= 1.0 - level - 1e-12].max()
        assert worst_quantile(ball, values, 1.0 - level, 0.0, certified=True) == expected


@pytest.mark.parametrize("width", [0.0, 1.0, 2.0, 3.0, 10.0, 1e3])
def test_simultaneous_widths(width: float) -> None:
    assert simultaneous(width, 1) == pytest.approx(width, rel=1e-9, abs=1e-9)
    wider = [simultaneous(width, count) for count in (1, 2, 10, 1000)]
    assert wider == sorted(wider)
    if width <= 10.0:
        assert norm.sf(wider[3]) == pytest.approx(norm.sf(width) / 1000, rel=1e-6)


def test_independent_contexts_fail_together_as_often_as_one() -> None:
    draws = np.abs(np.random.default_rng(0).normal(size=(20000, 30))).max(axis=1)
    share = float((draws > simultaneous(2.0, 30)).mean())
    assert share == pytest.approx(2.0 * norm.sf(2.0), abs=4.0 * math.sqrt(0.0455 / 20000))
    assert float((draws > 2.0).mean()) > 0.7


def test_events_in_the_units_of_the_model() -> None:
    posterior = beliefs().outcomes
    up, down = Units(1.0, 5.0, 2.0), Units(-1.0, 5.0, 2.0)
    assert Event(above=9.0).in_model(up, posterior) == ModelEvent(UPPER, 2.0, 0.0)
    assert Event(below=9.0).in_model(up, posterior) == ModelEvent(LOWER, 2.0, 0.0)
    # v = (-y - 5) / 2, so y > 9 where v < -7
    assert Event(above=9.0).in_model(down, posterior) == ModelEvent(LOWER, -7.0, 0.0)
    assert Event(below=9.0, of="outcome").in_model(down, posterior) == ModelEvent(UPPER, -7.0, 0.1)


def test_what_cannot_be_is_refused() -> None:
    twice: dict[str, Any] = {"above": 1.0, "below": 2.0}
    for given in ({}, twice):
        with pytest.raises(TypeError, match="either above or below"):
            Chance(0.9, **given)
    with pytest.raises(ValueError, match="at_least must be a probability"):
        Chance(1.2, above=0.0)
    with pytest.raises(ValueError, match="above must be finite"):
        Chance(0.9, above=math.nan)
    with pytest.raises(ValueError, match='of must be "f" or "outcome"'):
        Chance(0.9, above=0.0, of="y")  # type: ignore[arg-type]


@pytest.mark.parametrize("below", [False, True])
def test_the_level_set_policy_asks_where_most_is_open(below: bool) -> None:
    ball = ball_of(SETS[1])
    for seed in range(3):
        known = beliefs(seed)
        chance = Chance(0.6, below=0.3) if below else Chance(0.6, above=0.3)
        rule = Undecided(chance)
        choice = LevelSet(chance, rule).choose(Round(ball, GridSearch(ACTIONS), NOWHERE, NOWHERE), known)
        low, high = (Bound(known.ahead, simultaneous(2.0, 63), side).on_grid() for side in (LOWER, UPPER))
        least, most = ((high < 0.3), (low < 0.3)) if below else ((low > 0.3), (high > 0.3))
        lower, upper = (ball.worst_cases(part.astype(np.float64)).expectation for part in (least, most))
        still_open = (lower < 0.6) & (upper >= 0.6)
        assert still_open.any()
        openness = np.minimum(high - 0.3, 0.3 - low)
        i = choice.action.index
        assert i == np.argmax(np.where(still_open, openness.max(axis=1), -np.inf))
        natures = LevelSet(chance).choose(Round(ball, GridSearch(ACTIONS), NOWHERE, NOWHERE), known)
        average = np.maximum(openness, 0.0) @ P
        assert natures.action.index == np.argmax(np.where(still_open, average, -np.inf))
        assert natures.context is None
        low, high = (Bound(known.ahead, simultaneous(2.0, 7), side).on_grid() for side in (LOWER, UPPER))
        assert choice.context is not None
        assert choice.context.index == np.argmax(np.minimum(high[i] - 0.3, 0.3 - low[i]))


@pytest.mark.parametrize("at_least", [0.3, 0.8, 1.0])
def test_the_constrained_policy_takes_the_best_that_may_meet_the_constraint(at_least: float) -> None:
    ball, known = ball_of(SETS[0]), beliefs(2)
    for level in (-0.5, 0.8, 50.0):
        limit = AtLeast(level, probability=at_least).in_round("outcome", known, proven=False)
        search = LimitedSearch(GridSearch(ACTIONS), requirements([limit], View.SEARCHED))
        choice = Optimism(Uncertain()).choose(Round(ball, search, NOWHERE, NOWHERE, limits=(limit,)), known)
        high = Bound(known.ahead, 2.0, UPPER).on_grid()
        wide = Bound(known.ahead, simultaneous(2.0, 7), UPPER).on_grid()
        upper = ball.worst_cases((wide > level).astype(np.float64)).expectation
        scores = ball.worst_cases(high).expectation
        may = upper >= at_least - 1e-9
        expected = np.argmax(np.where(may, scores, -np.inf)) if may.any() else np.argmax(upper)
        assert choice.action.index == expected
