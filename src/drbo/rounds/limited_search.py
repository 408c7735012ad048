"""The search among permitted actions: limits of outcomes, a floor on the worst case, a budget for the loss.

An action is permitted if it meets every requirement of the round (`drbo.rounds.floors`). The search returns the
permitted action with the largest robust score. If there is none, it returns the baseline or, without a baseline, the
action with the largest least margin.

Candidates are visited by decreasing upper bound of their score, so few of them are solved. On a box an ascent follows
from the best of them (`WholeSearch.climb`): score and margins have gradients by Danskin's theorem.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from drbo.models.surrogate import Estimate
from drbo.rounds.ball import Ball
from drbo.rounds.floors import Floor, Requirement
from drbo.rounds.search import (
    Candidates,
    FewCandidates,
    Indices,
    NoActionLeftError,
    Pick,
    Search,
    WholeSearch,
    Winner,
)
from drbo.spaces.space import Point
from drbo.validation import FloatArray

_FIRST_BATCH = 4
_BATCH = 32
"""Number of candidates in the first batch, which doubles up to the largest."""
_STARTS = 4
"""Number of tried actions that a search over a box starts near: by their margins, and by their scores."""
_REFUSALS = 8
"""Largest number of actions that pass on the atoms but fail on the whole range before the search ends."""


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


def _best_few(ceilings: FloatArray, values: Callable[[Indices], FloatArray]) -> Indices:
    """Return the rows of the `_STARTS` largest values, best first; the value of a row is at most its ceiling (m,).

    Rows are visited by decreasing ceiling until no other can be among them. Those of a value of -inf are left out.
    """
    order, found = np.argsort(-ceilings, kind="stable"), np.full(len(ceilings), -np.inf)
    for first in range(0, len(order), _BATCH):
        rows = np.sort(order[first : first + _BATCH])
        least = np.sort(found)[-_STARTS:][0]
        if ceilings[order[first]] < least or ceilings[order[first]] == -np.inf:
            break
        found[rows] = values(rows)
    best = np.argsort(-found, kind="stable")[:_STARTS]
    return best[found[best] > -np.inf]


class FewActions(Search):
    """A search among a given list of actions."""

    def __init__(self, inner: Search, actions: Sequence[Point]) -> None:
        self.space, self._inner, self._actions = inner.space, inner, actions

    def best(
        self, ball: Ball, bound: Estimate, near: FloatArray, away: FloatArray, failed: Sequence[Point] = ()
    ) -> Winner:
        del near, away, failed
        scores = ball.worst_cases(np.array([bound.of_action(action) for action in self._actions])).expectation
        first = int(np.argmax(scores))
        return Winner(self._actions[first], float(scores[first]))

    def best_by(self, ball: Ball, pick: Pick, near: FloatArray, failed: Sequence[Point] = ()) -> Winner | None:
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
    otherwise : the search if no action is permitted; None for the baseline or the closest action
    """

    def __init__(
        self,
        inner: WholeSearch,
        requirements: Sequence[Requirement],
        baseline: Point | None = None,
        tried: FloatArray | None = None,
        otherwise: LimitedSearch | None = None,
    ) -> None:
        self.space, self._inner, self._requirements, self._baseline = inner.space, inner, requirements, baseline
        self._otherwise = otherwise
        nothing = np.empty((0, inner.space.dimension))
        self._tried = nothing if tried is None or inner.exhaustive else np.unique(tried, axis=0)

    def best(
        self, ball: Ball, bound: Estimate, near: FloatArray, away: FloatArray, failed: Sequence[Point] = ()
    ) -> Winner:
        """Return the permitted action with the largest robust score found; without one the baseline or the closest.

        Pending actions (`away`) are repeated if a baseline is the alternative, because few actions may be permitted.
        """
        found = self.permitted(ball, bound, near, failed, away if self._baseline is None else away[:0])
        if found is None and len(away) and self._baseline is None:
            found = self.permitted(ball, bound, near, failed)
        if found is not None:
            return found
        if self._otherwise is not None:
            return self._otherwise.best(ball, bound, near, away, failed)
        if self._baseline is not None:
            return FewActions(self._inner, [self._baseline]).best(ball, bound, near, near[:0])
        action = self.closest(ball, near, failed)
        return Winner(action, float(ball.worst_case(bound.of_action(action)).expectation))

    def permitted(
        self,
        ball: Ball,
        bound: Estimate,
        near: FloatArray,
        failed: Sequence[Point] = (),
        away: FloatArray | None = None,
    ) -> Winner | None:
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
        return Candidates(self._inner.climb(start.coordinates, objective, limits))

    def closest(self, ball: Ball, near: FloatArray, failed: Sequence[Point] = ()) -> Point:
        """Return the action with the largest least margin found; raise if every action has failed."""
        pick = functools.partial(self._closest_of, ball)
        found = self._inner.best_by(ball, pick, self._known(ball, near, None), failed)
        if found is None:
            raise NoActionLeftError
        return found.action

    def compares(self, ball: Ball) -> bool:
        return ball.on_atoms or not any(one.everywhere for one in self._requirements)

    def best_by(self, ball: Ball, pick: Pick, near: FloatArray, failed: Sequence[Point] = ()) -> Winner | None:
        """Return the best permitted action; None if there is none, or `pick` finds none."""
        if not self.compares(ball):
            raise TypeError(
                "with a policy that does not maximise a worst case, floor, safe and explore_budget need every context "
                "as an atom: give a finite set of contexts, or Samples without within= and with room for all, atoms=..."
            )

        def permitted(candidates: Candidates) -> Winner | None:
            rows = np.arange(len(candidates.points))
            for requirement in self._requirements:
                rows = rows[requirement.margins(ball, candidates, rows) >= 0.0] if len(rows) else rows
            return pick(candidates.among(rows)) if len(rows) else None

        found = self._inner.best_by(ball, permitted, self._known(ball, near, None), failed)
        if found is None and self._otherwise is not None:
            return self._otherwise.best_by(ball, pick, near, failed)
        return found

    def _known(self, ball: Ball, near: FloatArray, bound: Estimate | None) -> FloatArray:
        """Return the starting points (k, d) of a search: the given ones, the baseline, and the best tried ones."""
        points = [near] if self._baseline is None else [near, self._baseline.coordinates[None, :]]
        if len(self._tried):
            tried = Candidates(self._tried)
            margins = functools.partial(self._least, ball, tried)
            ceilings = self._ceilings(ball, tried)
            points.append(self._tried[_best_few(ceilings, margins)])
            if bound is not None:
                ceilings = np.where(ceilings >= 0.0, tried.ceilings(bound, ball.weights), -np.inf)
                rows = _best_few(ceilings, functools.partial(self._scores, ball, bound, tried))
                points.append(self._tried[rows])
        return np.concatenate(points)

    def _least(self, ball: Ball, candidates: Candidates, rows: Indices) -> FloatArray:
        """Return the least margin (k,) of the candidates `rows` (k,) on the atoms."""
        return np.asarray(np.min([one.margins(ball, candidates, rows) for one in self._requirements], axis=0))

    def _ceilings(self, ball: Ball, candidates: Candidates) -> FloatArray:
        """Return upper bounds (m,) of the least margins of all candidates."""
        return np.asarray(np.min([one.ceilings(ball, candidates) for one in self._requirements], axis=0))

    def _scores(self, ball: Ball, bound: Estimate, candidates: Candidates, rows: Indices) -> FloatArray:
        """Return the robust scores (k,) of the candidates `rows` (k,); -inf for those that are not permitted."""
        scores = np.full(len(rows), -np.inf)
        permitted = self._least(ball, candidates, rows) >= 0.0
        if permitted.any():
            scores[permitted] = ball.worst_cases(candidates.values(bound, rows[permitted])).expectation
        return scores

    def _closest_of(self, ball: Ball, candidates: Candidates) -> Winner | None:
        """Return the candidate with the largest least margin on the atoms, visited by decreasing upper bound."""
        ceilings = self._ceilings(ball, candidates)
        order = np.argsort(-ceilings, kind="stable")
        best: Winner | None = None
        for first in range(0, len(order), _BATCH):
            rows = order[first : first + _BATCH]
            if best is not None and ceilings[rows[0]] <= best.score:
                break
            margins = self._least(ball, candidates, rows)
            top = int(np.argmax(margins))
            if best is None or margins[top] > best.score:
                best = Winner(candidates.point(int(rows[top])), float(margins[top]))
        return best

    def _best_of(
        self, ball: Ball, bound: Estimate, slack: FloatArray, away: FloatArray, candidates: Candidates
    ) -> Winner | None:
        """Return the best candidate that meets the requirements on the atoms with a slack; None if there is none."""
        ceilings = candidates.ceilings(bound, ball.weights)
        ceilings[self._inner.repeats(candidates.points, away)] = -np.inf
        for requirement, least in zip(self._requirements, slack, strict=True):
            ceilings[requirement.ceilings(ball, candidates) < least] = -np.inf
        best: Winner | None = None
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
                    best = Winner(candidates.point(int(rows[first])), float(scores[first]))
