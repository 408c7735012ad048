"""The search among permitted actions: limits of outcomes, a floor on the worst case, a budget for the loss.

An action is permitted if it meets every requirement of the round:

    Floor    min_w <w, bound_t(x, .)> >= level                     the worst-case expectation is at least the level
    Likely   min_w <w, P(bound_t(x, .) + noise > level)> >= p      the same for the probability of exceeding the level
    Budget   min_w <w, lcb_t of f(x, .) - f(baseline, .)> >= -left   the loss to the baseline is within the budget
    Reach    low <= x <= high                                      the action is close to the actions tried so far

with w over the set of the round. Each requirement has its own worst distribution. Its bound is a lower one if the
requirement must hold, as for a recommendation, and an upper one if it may hold, as for the search (`View`). The search
returns the permitted action with the largest robust score. If there is none, it returns the baseline or, without
a baseline, the action with the largest least margin.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Self

import numpy as np

from drbo.ambiguity.placed import WorstCase
from drbo.models.bounds import LOWER, UPPER, Bound, simultaneous
from drbo.models.surrogate import Estimate, Posterior
from drbo.rounds.ball import Ball
from drbo.rounds.context_rules import Beliefs
from drbo.rounds.search import Candidates, Found, Indices, NoActionLeftError, Pick, Search, WholeSearch
from drbo.spaces.space import Point
from drbo.validation import FloatArray

_FIRST_BATCH = 4
_BATCH = 32
"""Number of candidates in the first batch, which doubles up to the largest."""
_STEPS_BACK = np.array([0.0, 1e-4, 1e-3, 0.01, 0.1, 0.3])
"""Shares of the way back from a local maximum, whose requirements may fail by rounding."""
_ROUNDING = 1e-9
"""Rounding tolerance at the border of a cell."""
_STARTS = 4
"""Number of tried actions that a search over a box starts near: by their margins, and by their scores."""
_REFUSALS = 8
"""Largest number of actions that pass on the atoms but fail on the whole range before the search ends."""


class View(Enum):
    """The confidence bound by which a requirement is judged.

    CERTAIN : the lower bound of a recommendation: the requirement holds
    POSSIBLE : the upper bound of a recommendation: the requirement may hold
    SEARCHED : the upper bound of the search, which counts pending evaluations
    CHECKED : the lower bound of a recommendation by one model, which is faster where an outcome has several
    APPROACHED : a lower bound of half that width, which counts pending evaluations: the requirement is likely to hold
    """

    CERTAIN = "certain"
    POSSIBLE = "possible"
    SEARCHED = "searched"
    CHECKED = "checked"
    APPROACHED = "approached"

    @property
    def lower(self) -> bool:
        """Whether the bound is a lower one."""
        return self not in (View.POSSIBLE, View.SEARCHED)

    def bound(self, beliefs: Beliefs, ball: Ball, count: int = 1) -> Bound:
        """Return the bound of an outcome on the atoms of a ball, to hold in `count` contexts at once."""
        width = beliefs.width if self is View.SEARCHED else beliefs.bound_width
        width = width if count == 1 else simultaneous(width, count)
        if self is View.SEARCHED:
            return Bound(beliefs.expected(ball), width, UPPER)
        if self is View.APPROACHED:
            return Bound(beliefs.expected(ball), 0.5 * width, LOWER)
        if self is View.CHECKED:
            return Bound(beliefs.certain(ball), width, LOWER)
        return beliefs.bound(ball, LOWER if self is View.CERTAIN else UPPER, width)


class Requirement(ABC):
    """A condition for an action to be permitted."""

    everywhere: bool = True
    """Whether the condition must hold between the atoms, too."""

    @abstractmethod
    def ceilings(self, ball: Ball, candidates: Candidates) -> FloatArray:
        """Return upper bounds (m,) of the margins of all candidates, which are faster to compute."""

    @abstractmethod
    def margins(self, ball: Ball, candidates: Candidates, rows: Indices) -> FloatArray:
        """Return the margins (k,) of the candidates `rows` (k,) on the atoms; negative if the condition fails."""

    @abstractmethod
    def margin(self, ball: Ball, action: Point) -> float:
        """Return the margin of an action in every distribution of the set; negative if the condition fails."""


@dataclass(frozen=True, eq=False)
class Floor(Requirement):
    """The worst-case expectation of a confidence bound is at least a level, in the model's units.

    Margins are in prior standard deviations of the outcome. They are infinite while the units of the outcome are
    unknown.

    Attributes
    ----------
    beliefs : of the outcome
    level : the level
    view : the confidence bound
    """

    beliefs: Beliefs
    level: float
    view: View = View.CERTAIN

    @property
    def everywhere(self) -> bool:  # type: ignore[override]  # it depends on the view
        """Whether the condition must hold between the atoms, too: an upper bound on the atoms is optimistic anyway."""
        return self.view is View.CERTAIN

    def ceilings(self, ball: Ball, candidates: Candidates) -> FloatArray:
        """Return an upper bound of the expectation of the bound under the reference, minus the level."""
        bound = self._bound(ball)
        return self._scaled(bound, lambda: candidates.ceilings(bound, ball.weights), len(candidates.points))

    def margins(self, ball: Ball, candidates: Candidates, rows: Indices) -> FloatArray:
        """Return the worst case on the atoms, minus the level."""
        bound = self._bound(ball)
        return self._scaled(bound, lambda: _worst(ball, candidates.values(bound, rows), self.view), len(rows))

    def margin(self, ball: Ball, action: Point) -> float:
        """Return the worst case of the action, minus the level; certified for a lower bound."""
        if not self.everywhere or not self.beliefs.units.known:
            return float(self.margins(ball, FewCandidates.of([action]), np.arange(1))[0])
        bound = self._bound(ball)
        return (ball.certificate(bound, action).lower_bound - self.level) / bound.amplitude

    def worst(self, ball: Ball, action: Point) -> WorstCase:
        """Return the worst case of the bound on the atoms for an action."""
        return ball.worst_case(self._bound(ball).of_action(action))

    def slope(self, ball: Ball, action: FloatArray) -> tuple[float, FloatArray]:
        """Return the margin of an action (d,) on the atoms, and its gradient (d,); the units must be known."""
        bound = self._bound(ball)
        worst = ball.worst_cases(bound.at(action[None, :]))
        value = worst.lower_bound[0] if self.everywhere else worst.expectation[0]
        gradient = bound.gradient(action, worst.weights[0])
        return float(value - self.level) / bound.amplitude, np.asarray(gradient / bound.amplitude)

    def _bound(self, ball: Ball) -> Bound:
        return self.view.bound(self.beliefs, ball)

    def _scaled(self, bound: Bound, values: Callable[[], FloatArray], count: int) -> FloatArray:
        """Return values (count,) as margins."""
        if not self.beliefs.units.known:
            return np.full(count, -math.inf if self.view.lower else math.inf)
        return np.asarray((values() - self.level) / bound.amplitude)


def _worst(ball: Ball, values: FloatArray, view: View) -> FloatArray:
    """Return the worst case of each row of values (m, n): certified for a lower bound, attained for an upper one."""
    worst = ball.worst_cases(values)
    return np.asarray(worst.lower_bound if view.lower else worst.expectation)


@dataclass(frozen=True, eq=False)
class Likely(Requirement):
    """The worst-case probability of an event is at least `probability`, by a confidence bound in all contexts at once.

    Margins are differences of probabilities.

    Attributes
    ----------
    beliefs : of the outcome
    likelihood : returns the probability of the event (m, n) for values (m, n) of a posterior's outcome
    probability : the least probability, less a tolerance for rounding
    view : the confidence bound
    proven : whether the confidence bounds hold in all contexts at once as they are
    """

    beliefs: Beliefs
    likelihood: Callable[[Posterior, FloatArray], FloatArray]
    probability: float
    view: View = View.CERTAIN
    proven: bool = False

    def ceilings(self, ball: Ball, candidates: Candidates) -> FloatArray:
        """Return the probability under the reference, minus the least one."""
        rows = np.arange(len(candidates.points))
        return self._margins(ball, candidates, rows, lambda chances: chances @ ball.weights)

    def margins(self, ball: Ball, candidates: Candidates, rows: Indices) -> FloatArray:
        """Return the worst-case probability, minus the least one."""
        return self._margins(ball, candidates, rows, lambda chances: _worst(ball, chances, self.view))

    def margin(self, ball: Ball, action: Point) -> float:
        """Return the worst-case probability of the action, minus the least one; every context must be an atom."""
        return float(self.margins(ball, FewCandidates.of([action]), np.arange(1))[0])

    def chances(self, ball: Ball, candidates: Candidates, rows: Indices) -> FloatArray:
        """Return the probability of the event (k, n) in each context by the confidence bound."""
        bound = self.view.bound(self.beliefs, ball, self.count(ball))
        return self.likelihood(bound.posterior, candidates.values(bound, rows))

    def count(self, ball: Ball) -> int:
        """Return the number of contexts in which the confidence bounds must be made to hold at once."""
        return 1 if self.proven else len(np.unique(ball.contexts, axis=0))

    def worst(self, ball: Ball, action: Point) -> WorstCase:
        """Return the worst case of the probability for an action; the units must be known."""
        return ball.worst_case(self.chances(ball, FewCandidates.of([action]), np.arange(1))[0])

    def _margins(
        self, ball: Ball, candidates: Candidates, rows: Indices, value: Callable[[FloatArray], FloatArray]
    ) -> FloatArray:
        if not self.beliefs.units.known:
            return np.full(len(rows), -math.inf if self.view.lower else math.inf)
        if not len(rows):
            return np.empty(0)
        return np.asarray(value(self.chances(ball, candidates, rows)) - self.probability)


@dataclass(frozen=True, eq=False)
class Budget(Requirement):
    """The worst-case expected loss against the baseline is at most the remaining budget.

    It needs sets without contexts beyond the atoms.

    Attributes
    ----------
    left : the remaining budget, in the model's units
    """

    beliefs: Beliefs
    baseline: Point
    left: float

    def ceilings(self, ball: Ball, candidates: Candidates) -> FloatArray:
        """Return the remaining budget."""
        del ball
        return np.full(len(candidates.points), self.left)

    def margins(self, ball: Ball, candidates: Candidates, rows: Indices) -> FloatArray:
        """Return the budget that would remain."""
        return self.left - self._losses(ball, candidates.points[rows])

    def margin(self, ball: Ball, action: Point) -> float:
        """Return the budget that would remain."""
        return self.left - self.loss(ball, action)

    def loss(self, ball: Ball, action: Point) -> float:
        """Return an upper bound on the expected loss of an action against the baseline, zero or more."""
        return float(self._losses(ball, action.coordinates[None, :])[0])

    def _losses(self, ball: Ball, actions: FloatArray) -> FloatArray:
        lower = self.beliefs.bound(ball, LOWER).difference(actions, self.baseline.coordinates)
        losses = np.maximum(-ball.worst_cases(lower).lower_bound, 0.0)
        return np.where((actions == self.baseline.coordinates).all(axis=1), 0.0, losses)


@dataclass(frozen=True, eq=False)
class Reach(Requirement):
    """The action lies in a cell from `low` (d,) to `high` (d,) around the actions tried so far.

    A model that learned from similar actions is overconfident elsewhere, because it has not seen f change.
    """

    low: FloatArray
    high: FloatArray
    everywhere = False

    def ceilings(self, ball: Ball, candidates: Candidates) -> FloatArray:
        """Return the distance of every candidate inside the cell, in the unit cube; negative outside."""
        del ball
        return self._inside(candidates.points)

    def margins(self, ball: Ball, candidates: Candidates, rows: Indices) -> FloatArray:
        """Return the distance of the candidates `rows` inside the cell, in the unit cube; negative outside."""
        del ball
        return self._inside(candidates.points[rows])

    def margin(self, ball: Ball, action: Point) -> float:
        """Return the distance of the action inside the cell, in the unit cube; negative outside."""
        del ball
        return float(self._inside(action.coordinates[None, :])[0])

    def _inside(self, points: FloatArray) -> FloatArray:
        return np.asarray(np.minimum(points - self.low, self.high - points).min(axis=1) + _ROUNDING)


def _score_and_gradient(ball: Ball, bound: Estimate, action: FloatArray) -> tuple[float, FloatArray]:
    """Return the robust score of an action (d,) and its gradient (d,), by Danskin's theorem."""
    worst = ball.worst_cases(bound.at(action[None, :]))
    return float(worst.expectation[0]), bound.gradient(action, worst.weights[0])


def _with_slack(
    slope: Callable[[FloatArray], tuple[float, FloatArray]], least: float, action: FloatArray
) -> tuple[float, FloatArray]:
    """Return a margin less its slack, and the gradient."""
    margin, gradient = slope(action)
    return margin - least, gradient


@dataclass(frozen=True, eq=False)
class FewCandidates(Candidates):
    """A given list of actions."""

    actions: Sequence[Point]

    @classmethod
    def of(cls, actions: Sequence[Point]) -> Self:
        """Return these actions as candidates."""
        return cls(np.array([action.coordinates for action in actions]), actions)

    def values(self, bound: Estimate, rows: Indices) -> FloatArray:
        """Return a bound at the candidates `rows` (k,) in every context, (k, n_contexts)."""
        return np.array([bound.of_action(self.actions[row]) for row in rows])

    def point(self, row: int) -> Point:
        """Return a candidate as it was given."""
        return self.actions[row]

    def among(self, rows: Indices) -> Candidates:
        """Return the candidates `rows` (k,)."""
        return FewCandidates(self.points[rows], [self.actions[row] for row in rows])


class FewActions(Search):
    """A search among a given list of actions."""

    def __init__(self, inner: Search, actions: Sequence[Point]) -> None:
        self.space, self._inner, self._actions = inner.space, inner, actions

    def best(
        self, ball: Ball, bound: Estimate, near: FloatArray, away: FloatArray, failed: Sequence[Point] = ()
    ) -> Found:
        """Return the action with the largest robust score; failed and pending actions are not excluded."""
        del near, away, failed
        scores = ball.worst_cases(np.array([bound.of_action(action) for action in self._actions])).expectation
        first = int(np.argmax(scores))
        return Found(self._actions[first], float(scores[first]))

    def best_by(self, ball: Ball, pick: Pick, near: FloatArray, failed: Sequence[Point] = ()) -> Found | None:
        """Return the best action; failed actions are not excluded."""
        del ball, near, failed
        return pick(FewCandidates.of(self._actions))


class LimitedSearch(Search):
    """The search among permitted actions.

    Parameters
    ----------
    inner : the search over all actions
    requirements : the conditions for an action to be permitted
    baseline : the action of today, which is returned if no action is permitted; None for the closest action
    tried : (k, d) actions that were evaluated; a search over a box also starts near the best of them
    """

    def __init__(
        self,
        inner: WholeSearch,
        requirements: Sequence[Requirement],
        baseline: Point | None = None,
        tried: FloatArray | None = None,
    ) -> None:
        self.space, self._inner, self._requirements, self._baseline = inner.space, inner, requirements, baseline
        nothing = np.empty((0, inner.space.dimension))
        self._tried = nothing if tried is None or inner.exhaustive else np.unique(tried, axis=0)

    def best(
        self, ball: Ball, bound: Estimate, near: FloatArray, away: FloatArray, failed: Sequence[Point] = ()
    ) -> Found:
        """Return the permitted action with the largest robust score found; without one the baseline or the closest.

        Pending actions (`away`) are repeated if a baseline is the alternative, because few actions may be permitted.
        """
        found = self.permitted(ball, bound, near, failed, away if self._baseline is None else away[:0])
        if found is None and len(away) and self._baseline is None:
            found = self.permitted(ball, bound, near, failed)
        if found is not None:
            return found
        if self._baseline is not None:
            return FewActions(self._inner, [self._baseline]).best(ball, bound, near, near[:0])
        action = self.closest(ball, near, failed)
        return Found(action, float(ball.worst_case(bound.of_action(action)).expectation))

    def permitted(
        self,
        ball: Ball,
        bound: Estimate,
        near: FloatArray,
        failed: Sequence[Point] = (),
        away: FloatArray | None = None,
    ) -> Found | None:
        """Return the permitted action with the largest robust score found, away from `away`; None if there is none."""
        known, away = self._known(ball, near, bound), near[:0] if away is None else away
        slack = np.zeros(len(self._requirements))  # the loss between the atoms
        for _ in range(_REFUSALS):
            pick = functools.partial(self._best_of, ball, bound, slack, away)
            found = self._inner.best_by(ball, pick, known, failed)
            if found is None:
                return None
            if not self._inner.exhaustive:
                better = pick(self._uphill(ball, bound, slack, found.action).without(failed))
                found = found if better is None or better.score <= found.score else better
            margins = np.array([one.margin(ball, found.action) for one in self._requirements])
            if (margins >= 0.0).all():
                return found
            slack += np.maximum(-2.0 * margins, 0.0)
        return None

    def _uphill(self, ball: Ball, bound: Estimate, slack: FloatArray, start: Point) -> Candidates:
        """Return actions on the way from one to a local maximum of the score under the requirements with gradients."""
        objective = functools.partial(_score_and_gradient, ball, bound)
        limits = [
            functools.partial(_with_slack, functools.partial(one.slope, ball), float(least))
            for one, least in zip(self._requirements, slack, strict=True)
            if isinstance(one, Floor) and one.beliefs.units.known
        ]
        end = self._inner.climb(start.coordinates, objective, limits)
        return Candidates(end + _STEPS_BACK[:, None] * (start.coordinates - end))

    def closest(self, ball: Ball, near: FloatArray, failed: Sequence[Point] = ()) -> Point:
        """Return the action with the largest least margin found; raise if every action has failed."""
        pick = functools.partial(self._closest_of, ball)
        found = self._inner.best_by(ball, pick, self._known(ball, near, None), failed)
        if found is None:
            raise NoActionLeftError
        return found.action

    def compares(self, ball: Ball) -> bool:
        """Return whether requirements that must hold everywhere can be checked on the atoms alone."""
        return ball.on_atoms or not any(one.everywhere for one in self._requirements)

    def best_by(self, ball: Ball, pick: Pick, near: FloatArray, failed: Sequence[Point] = ()) -> Found | None:
        """Return the best permitted action; None if there is none, or `pick` finds none."""
        if not self.compares(ball):
            raise TypeError(
                "floor, safe and explore_budget need every context as an atom with a policy that does not maximise a "
                "worst case: give a finite set of contexts, or Samples without within= and with room for all, atoms=..."
            )

        def permitted(candidates: Candidates) -> Found | None:
            rows = np.arange(len(candidates.points))
            for requirement in self._requirements:
                rows = rows[requirement.margins(ball, candidates, rows) >= 0.0] if len(rows) else rows
            return pick(candidates.among(rows)) if len(rows) else None

        return self._inner.best_by(ball, permitted, self._known(ball, near, None), failed)

    def _known(self, ball: Ball, near: FloatArray, bound: Estimate | None) -> FloatArray:
        """Return the starting points (k, d) of a search: the given ones, the baseline, and the best tried ones.

        The best tried actions have the largest least margins or, with a bound, the largest scores of the permitted.
        """
        points = [near] if self._baseline is None else [near, self._baseline.coordinates[None, :]]
        if len(self._tried):
            tried = Candidates(self._tried)
            margins = self._least(ball, tried, np.arange(len(self._tried)))
            points.append(self._tried[np.argsort(-margins, kind="stable")[:_STARTS]])
            rows = np.flatnonzero(margins >= 0.0)
            if bound is not None and len(rows):
                scores = ball.worst_cases(tried.values(bound, rows)).expectation
                points.append(self._tried[rows[np.argsort(-scores, kind="stable")[:_STARTS]]])
        return np.concatenate(points)

    def _least(self, ball: Ball, candidates: Candidates, rows: Indices) -> FloatArray:
        """Return the least margin (k,) of the candidates `rows` (k,) on the atoms."""
        return np.asarray(np.min([one.margins(ball, candidates, rows) for one in self._requirements], axis=0))

    def _closest_of(self, ball: Ball, candidates: Candidates) -> Found | None:
        """Return the candidate with the largest least margin on the atoms, visited by decreasing upper bound."""
        ceilings = np.min([one.ceilings(ball, candidates) for one in self._requirements], axis=0)
        order = np.argsort(-ceilings, kind="stable")
        best: Found | None = None
        for first in range(0, len(order), _BATCH):
            rows = order[first : first + _BATCH]
            if best is not None and ceilings[rows[0]] <= best.score:
                break
            margins = self._least(ball, candidates, rows)
            top = int(np.argmax(margins))
            if best is None or margins[top] > best.score:
                best = Found(candidates.point(int(rows[top])), float(margins[top]))
        return best

    def _best_of(
        self, ball: Ball, bound: Estimate, slack: FloatArray, away: FloatArray, candidates: Candidates
    ) -> Found | None:
        """Return the best candidate that meets the requirements on the atoms with a slack; None if there is none.

        Candidates are visited by decreasing upper bound of their score, until no other can win.
        """
        ceilings = candidates.ceilings(bound, ball.weights)
        ceilings[self._inner.repeats(candidates.points, away)] = -np.inf
        for requirement, least in zip(self._requirements, slack, strict=True):
            ceilings[requirement.ceilings(ball, candidates) < least] = -np.inf
        best: Found | None = None
        size = _FIRST_BATCH
        while True:
            rows = np.argsort(-ceilings, kind="stable")[:size]
            size = min(2 * size, _BATCH)
            rows = rows[ceilings[rows] > (-np.inf if best is None else best.score)]
            if not len(rows):
                return best
            ceilings[rows] = -np.inf
            for requirement, least in zip(self._requirements, slack, strict=True):
                if len(rows):
                    rows = rows[requirement.margins(ball, candidates, rows) >= least]
            if len(rows):
                scores = ball.worst_cases(candidates.values(bound, rows)).expectation
                first = int(np.argmax(scores))
                if best is None or scores[first] > best.score:
                    best = Found(candidates.point(int(rows[first])), float(scores[first]))


@dataclass(frozen=True, eq=False)
class Limit:
    """A limit of an outcome in a round.

    Attributes
    ----------
    name : of the limit
    beliefs : of its outcome
    requirement : returns the limit as a requirement, by a confidence bound
    """

    name: str
    beliefs: Beliefs
    requirement: Callable[[View], Floor | Likely]

    def open(self, ball: Ball, action: Point) -> bool:
        """Return whether the limit may hold for an action, and is not known to hold by the bounds of one model."""
        low, high = (
            self.requirement(view).margins(ball, FewCandidates.of([action]), np.arange(1))[0]
            for view in (View.CHECKED, View.SEARCHED)
        )
        return bool(low < 0.0 <= high)


def requirements(limits: Sequence[Limit], view: View) -> list[Requirement]:
    """Return limits as requirements, by a confidence bound."""
    return [limit.requirement(view) for limit in limits]
