"""Reaching a target under the largest possible shift: critical radius and fragility of an action.

Let V(eps) be the worst-case expectation of an action within eps of the reference. V decreases in eps. For a target:

    critical radius   sup {eps : V(eps) >= target}                  the target is reached up to this shift
    fragility         sup_{eps > 0} (target - V(eps)) / eps         the largest loss per unit of shift

In every distribution q the expectation is at least target - fragility * distance(q, reference). Both are due to Saday,
Yildirim and Tekin: fragility in "Robust Bayesian Satisficing" (RoBOS, NeurIPS 2023), and both for perturbed actions in
"Robust Satisficing Gaussian Process Bandits Under Adversarial Attacks" (NeurIPS 2025). The goals differ: the action
with the least fragility may miss the target slightly under a small shift, but never by much.

The fragility is zero if the target is reached at every radius. It is infinite if the target is missed at radius 0, or
reached there without any margin (critical radius 0).

Computation of the fragility. With u = 1 / eps the ratio is target u - u V(1/u). V decreases, so between two radii it
is at least its value at the larger one. If V is convex (`Growth.convex`), it is also above the extended
lines through two neighbouring radii. All of these are straight lines in u. So between two radii the ratio is bounded
above by the minimum of a few lines, which is largest in a corner. The pair of radii with the largest bound is split,
until that bound is attained. The result is the bound: no radius does worse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, cast, get_args

import numpy as np

from drbo import validation
from drbo.models.bounds import UPPER, Bound
from drbo.rounds.ball import Ball, first_of_the_best
from drbo.rounds.context_rules import Beliefs, ContextRule, check_rule
from drbo.rounds.limited_search import FewActions
from drbo.rounds.policies import Choice, Policy, Round, picked
from drbo.rounds.search import Candidates, Pick, Search, Winner
from drbo.spaces.space import Point
from drbo.validation import FloatArray

__all__ = ["Satisficing"]

Goal = Literal["fragility", "radius"]

_SAME = 1e-6
"""Fragilities with a smaller relative difference are a tie."""
_COARSE = 1e-3
"""Relative accuracy of a fragility if the worst case is not convex in the radius."""


class WorstByRadius:
    """The worst-case expectation of one action as a function of the radius, bounded from both sides.

    Parameters
    ----------
    worst : returns a certified lower bound and an attained value for a radius
    diameter : the radius beyond which the worst case is constant
    convex : whether it is a convex function of the radius
    tolerance : relative accuracy of the radii
    splits : largest number of radii used for the fragility
    """

    def __init__(
        self,
        worst: Callable[[float], tuple[float, float]],
        diameter: float,
        convex: bool,
        tolerance: float,
        splits: int,
    ) -> None:
        self.diameter, self.convex, self.tolerance, self.splits = diameter, convex, tolerance, splits
        self._worst = worst
        self._known: dict[float, tuple[float, float]] = {}

    @classmethod
    def of_values(cls, ball: Ball, values: FloatArray) -> WorstByRadius:
        """Return the worst case of values (n,) on the atoms of a ball."""

        def worst(radius: float) -> tuple[float, float]:
            found = ball.at(radius).worst_case(values)
            return float(found.lower_bound), float(found.expectation)

        return cls(worst, ball.diameter, ball.ambiguity.growth.convex, 1e-9, 128)

    @classmethod
    def certified(cls, ball: Ball, bound: Bound, action: Point) -> WorstByRadius:
        """Return the worst case of a lower bound for one action, certified for the whole range of the contexts."""
        if ball.on_atoms:
            return cls.of_values(ball, bound.of_action(action))

        def worst(radius: float) -> tuple[float, float]:
            made = ball.at(radius).certificate(bound, action)
            return made.lower_bound, float(made.worst_case.expectation)

        return cls(worst, ball.diameter, ball.ambiguity.growth.convex, 1e-3, 16)

    def lower(self, radius: float) -> float:
        """Return the certified lower bound at a radius."""
        return self.both(radius)[0]

    def both(self, radius: float) -> tuple[float, float]:
        """Return a certified lower bound at a radius, and an attained value."""
        if radius not in self._known:
            self._known[radius] = self._worst(radius)
        return self._known[radius]


def critical_radius(worst: WorstByRadius, target: float) -> float:
    """Return the largest radius found at which the target is certified: inf at all radii, -inf not even at 0."""
    if not worst.lower(0.0) >= target:
        return -math.inf
    if worst.lower(math.inf) >= target:
        return math.inf
    low, high = 0.0, worst.diameter if 0.0 < worst.diameter < math.inf else 1.0
    while worst.lower(high) >= target and math.isfinite(high):  # a safeguard: the diameter should be enough
        low, high = high, 2.0 * high
    if math.isinf(high):
        return low
    above, below = worst.lower(low) - target, target - worst.lower(high)
    last = 0
    for step in range(200):
        if high - low <= worst.tolerance * high or high <= 1e-15 * worst.diameter:
            break
        # Regula falsi by the Illinois rule, which shrinks both ends; every third step is a bisection.
        share = 0.5 if step % 3 == 2 else min(max(above / (above + below), 1e-3), 1.0 - 1e-3)
        middle = low + share * (high - low)
        left = worst.lower(middle) - target
        side = 1 if left >= 0.0 else -1
        if side > 0:
            low, above = middle, left
            below = 0.5 * below if last == side else below
        else:
            high, below = middle, -left
            above = 0.5 * above if last == side else above
        last = side
    return low


@dataclass(frozen=True)
class Fragility:
    """An upper bound of the fragility, and the radius with the largest ratio."""

    value: float
    radius: float


def fragility(worst: WorstByRadius, target: float) -> Fragility:
    """Return the fragility: an upper bound, attained up to a small relative error unless the splits run out."""
    start = critical_radius(worst, target)
    close = max(worst.tolerance, _SAME if worst.convex else _COARSE)
    if math.isinf(start) or start == 0.0:
        return Fragility(0.0, math.inf) if start > 0.0 else Fragility(math.inf, 0.0)
    radii = [0.0, start, *([worst.diameter] if start < worst.diameter < math.inf else []), math.inf]
    while True:
        low, high = np.array([worst.both(radius) for radius in radii]).T
        bounds, places = _ratios(np.array(radii[1:]), low, high, target, worst.convex)
        inner = np.array(radii[1:-1])
        ratios = (target - high[1:-1]) / inner
        best = int(np.argmax(ratios))
        most, where = max(float(ratios[best]), 0.0), float(inner[best])
        i = int(np.argmax(bounds))
        if len(radii) >= worst.splits or bounds[i] <= most * (1.0 + close):
            return Fragility(max(float(bounds[i]), most), where)
        a, b = radii[i + 1], radii[i + 2]
        middle = 1.0 / places[i] if a < 1.0 / places[i] < b else math.sqrt(a) * math.sqrt(min(b, 4.0 * a))
        if not a * (1.0 + 1e-12) < middle < b * (1.0 - 1e-12):
            middle = 0.5 * (a + min(b, 4.0 * a))
        if not a < middle < b:
            return Fragility(float(bounds[i]), where)
        radii.insert(i + 2, middle)


def _ratios(
    radii: FloatArray, low: FloatArray, high: FloatArray, target: float, convex: bool
) -> tuple[FloatArray, FloatArray]:
    """Return upper bounds (k,) of (target - V) / eps between radii (k + 1,), and 1 / eps; V is bounded (k + 2,)."""
    u = np.divide(1.0, radii)
    k = len(radii) - 1
    eps = np.append(0.0, radii)
    # Lines in u, one column each: (target - A) u - s, for V >= A + s eps.
    rise, level = np.empty((k, 3)), np.empty((k, 3))
    rise[:, 0], level[:, 0] = target - low[2:], 0.0
    rise[:, 1:], level[:, 1:] = rise[:, :1], level[:, :1]
    if convex:
        s = (low[1:-1] - high[:-2]) / np.diff(eps)[:-1]  # through the previous radius and the left end
        rise[:, 1], level[:, 1] = target - (low[1:-1] - s * eps[1:-1]), -s
        if k > 2:  # through the right end and the next radius, if both are finite
            s = (high[3:-1] - low[2:-2]) / (eps[3:-1] - eps[2:-2])
            rise[:-2, 2], level[:-2, 2] = target - (low[2:-2] - s * eps[2:-2]), -s
    corners = [u[:-1], u[1:]]
    for i, j in ((0, 1), (0, 2), (1, 2)):
        with np.errstate(divide="ignore", invalid="ignore"):
            crossing = (level[:, j] - level[:, i]) / (rise[:, i] - rise[:, j])
        corners.append(np.clip(np.nan_to_num(crossing, posinf=0.0, neginf=0.0), u[1:], u[:-1]))
    at = np.stack(corners, axis=1)
    values = (rise[:, None, :] * at[:, :, None] + level[:, None, :]).min(axis=2)
    best = np.argmax(values, axis=1)
    rows = np.arange(k)
    return values[rows, best], np.maximum(at[rows, best], np.finfo(float).tiny)


# --- the best of many actions -----------------------------------------------------------------------------------------


def satisfy(
    search: Search,
    ball: Ball,
    bound: Bound,
    target: float,
    goal: Goal,
    near: FloatArray,
    failed: Sequence[Point] = (),
) -> Winner | None:
    """Return the best action for a goal, at any radius; None if no action reaches the target under the reference."""
    pick = picker(ball, bound, target, goal)
    found = search.best_by(ball, pick, near, failed)
    if found is None or (found.score >= 0.0 and goal == "fragility") or math.isinf(found.score):
        return found
    # On a box: climb at the radius that limits the action.
    worst = WorstByRadius.of_values(ball, bound.of_action(found.action))
    at = found.score if goal == "radius" else fragility(worst, target).radius
    other = search.best(ball.at(at), bound, found.action.coordinates[None, :], near[:0], failed)
    better = FewActions(search, [other.action]).best_by(ball, pick, near)
    return found if better is None or better.score <= found.score else better


def picker(ball: Ball, bound: Bound, target: float, goal: Goal) -> Pick:
    """Return a function that picks the best candidate for a goal; exactly, among the candidates on the atoms."""
    rank = _largest_radius if goal == "radius" else _least_fragile

    def pick(candidates: Candidates) -> Winner | None:
        values = candidates.values(bound, np.arange(len(candidates.points)))
        found = rank(ball, values, target)
        return None if found is None else Winner(candidates.point(found[0]), found[1])

    return pick


def _largest_radius(ball: Ball, values: FloatArray, target: float) -> tuple[int, float] | None:
    """Return the row of values (m, n) with the largest critical radius, and this radius; None if no row qualifies.

    A row qualifies if it reaches the target at radius 0. The critical radius of one row rules out all rows that miss
    the target there, until none is left.
    """
    left = np.flatnonzero(ball.at(0.0).worst_cases(values).lower_bound >= target)
    if not len(left):
        return None
    everywhere = ball.at(math.inf).worst_cases(values[left]).lower_bound
    row, radius = int(left[first_of_the_best(everywhere, 0.0)]), 0.0
    if everywhere.max() >= target:
        return row, math.inf
    while True:
        radius = critical_radius(WorstByRadius.of_values(ball, values[row]), target)
        left = left[left != row]
        if not len(left):
            return row, radius
        beyond = ball.at(radius * (1.0 + 1e-8)).worst_cases(values[left]).lower_bound
        left, beyond = left[beyond >= target], beyond[beyond >= target]
        if not len(left):
            return row, radius
        row = int(left[np.argmax(beyond)])


def _least_fragile(ball: Ball, values: FloatArray, target: float) -> tuple[int, float] | None:
    """Return the row of values (m, n) with the least fragility, and minus the fragility; None if no row qualifies.

    A row qualifies if it reaches the target at radius 0. The radius that determines one row's fragility gives a lower
    bound for every other row. Rows are visited by increasing bound, until no other can win. If rows reach the target at
    every radius, the one with the largest worst case is returned, with its excess over the target as the score.
    """
    left = np.flatnonzero(ball.at(0.0).worst_cases(values).lower_bound >= target)
    if not len(left):
        return None
    everywhere = ball.at(math.inf).worst_cases(values[left])
    if everywhere.lower_bound.max() >= target:
        first = first_of_the_best(everywhere.lower_bound, 0.0)
        return int(left[first]), float(everywhere.lower_bound[first]) - target
    diameter = ball.diameter
    least = (target - everywhere.expectation) / diameter if 0.0 < diameter < math.inf else np.zeros(len(left))
    row, best = int(left[0]), math.inf
    while len(left):
        i = int(np.argmin(least))
        found = fragility(WorstByRadius.of_values(ball, values[left[i]]), target)
        if found.value < best:
            row, best = int(left[i]), found.value
        left, least = np.delete(left, i), np.delete(least, i)
        left, least = left[least < best * (1.0 - _SAME)], least[least < best * (1.0 - _SAME)]
        if len(left) and found.radius > 0.0:
            attained = ball.at(found.radius).worst_cases(values[left]).expectation
            least = np.maximum(least, (target - attained) / found.radius)
            left, least = left[least < best * (1.0 - _SAME)], least[least < best * (1.0 - _SAME)]
    return row, -best


@dataclass(frozen=True)
class Satisficing(Policy):
    """The action that reaches a target under the largest shift, according to upper confidence bounds.

    goal "fragility" is RoBOS (Saday, Yildirim and Tekin, NeurIPS 2023), exact and for every set with a radius; goal
    "radius" is the second algorithm of their 2025 paper, for distributions. Fragility and critical radius are those of
    the upper confidence bound (`drbo.rounds.satisficing` defines both). If no action could reach the target under the
    reference, the action with the largest upper bound there is chosen, as in RoBOS.

    The action does not depend on the radius of the round.

    Parameters
    ----------
    target : in the units of the outcomes: at least this, or at most if outcomes are minimised
    goal : "fragility" or "radius"
    contexts : the rule that picks the context; None if nature does
    """

    target: float
    goal: Goal = "fragility"
    contexts: ContextRule | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "target", validation.finite_float("target", self.target))
        check_goal(self.goal)
        check_rule(self.contexts)

    def choose(self, round: Round, beliefs: Beliefs) -> Choice:
        """Return the action with the least optimistic fragility, or the largest optimistic critical radius."""
        ball, search, units = round.ball, round.search, beliefs.units
        check_set(ball)
        bound = Bound(beliefs.expected(ball), beliefs.width, UPPER)
        found = satisfy(search, ball, bound, units.inward(self.target), self.goal, round.near) if units.known else None
        if found is None:
            found = search.best(ball.at(0.0), bound, round.near, round.away(self.contexts))
        score = float(ball.worst_case(bound.of_action(found.action)).expectation)
        ball, score = ball.widened(Bound(beliefs.certain(ball), beliefs.width, UPPER), found.action, score)
        return picked(self.contexts, round, beliefs, ball, Winner(found.action, score))


def check_goal(goal: object) -> Goal:
    """Return the goal; raise if it is invalid."""
    validation.one_of("goal", goal, *get_args(Goal))
    return cast(Goal, goal)


def check_set(ball: Ball) -> None:
    """Raise if the set of a ball does not depend on a radius."""
    if not ball.ambiguity.growth.matters:
        raise TypeError(
            f"a target needs a set that grows with its radius, such as drbo.MMD(), got {ball.ambiguity!r}, which is "
            "the same at every radius"
        )
