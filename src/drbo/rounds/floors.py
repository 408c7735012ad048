"""Actions that may be tried in production: a floor on the worst case, a budget for the loss, and a baseline.

An action is permitted if it meets every requirement of the round:

    Floor    min_w <w, lcb_t(x, .)> >= level                       the worst-case expectation is at least the level
    Budget   min_w <w, lcb_t of f(x, .) - f(baseline, .)> >= -left   the loss to the baseline is within the budget

    Reach    low <= x <= high                                      the action is close to the actions tried so far

with w over the set of the round, and bounds as wide as those of certificates. The search returns the permitted action
with the largest robust score, and the baseline if there is none.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from drbo.models.bounds import LOWER, Bound
from drbo.models.surrogate import Estimate
from drbo.rounds.ball import Ball
from drbo.rounds.context_rules import Beliefs
from drbo.rounds.search import Candidates, Found, Indices, Pick, Search, WholeSearch
from drbo.spaces.space import Point
from drbo.validation import FloatArray

_BATCH = 32
"""Number of candidates per batch."""
_ROUNDING = 1e-9
"""Rounding tolerance at the border of a cell."""
_REFUSALS = 8
"""Largest number of actions that pass on the atoms but fail on the whole range before the search ends."""


class Requirement(ABC):
    """A condition for an action to be permitted."""

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
    """The worst-case lower confidence bound of the action is at least a level, in the model's units."""

    beliefs: Beliefs
    level: float

    def ceilings(self, ball: Ball, candidates: Candidates) -> FloatArray:
        """Return an upper bound of the lower bound's expectation under the reference, minus the level."""
        return candidates.ceilings(self._bound(ball), ball.weights) - self.level

    def margins(self, ball: Ball, candidates: Candidates, rows: Indices) -> FloatArray:
        """Return the worst case on the atoms, minus the level."""
        values = candidates.values(self._bound(ball), rows)
        return np.asarray(ball.worst_cases(values).lower_bound - self.level)

    def margin(self, ball: Ball, action: Point) -> float:
        """Return the certificate of the action, minus the level."""
        return ball.certificate(self._bound(ball), action).lower_bound - self.level

    def _bound(self, ball: Ball) -> Bound:
        return self.beliefs.bound(ball, LOWER)


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


class SafeSearch(Search):
    """The search among permitted actions; it returns the baseline if there is none.

    Parameters
    ----------
    inner : the search over all actions
    baseline : the action of today
    requirements : the conditions for an action to be permitted
    """

    def __init__(self, inner: WholeSearch, baseline: Point, requirements: Sequence[Requirement]) -> None:
        self.space, self._inner = inner.space, inner
        self._baseline, self._requirements = baseline, requirements

    def best(
        self, ball: Ball, bound: Estimate, near: FloatArray, away: FloatArray, failed: Sequence[Point] = ()
    ) -> Found:
        """Return the permitted action with the largest robust score found, or the baseline.

        Pending actions (`away`) may be repeated, because few actions may be permitted.
        """
        del away
        known = self._known(near)
        slack = np.zeros(len(self._requirements))  # the loss between the atoms
        for _ in range(_REFUSALS):
            pick = functools.partial(self._best_of, ball, bound, slack)
            found = self._inner.best_by(ball, pick, known, failed)
            if found is None:
                break
            margins = np.array([one.margin(ball, found.action) for one in self._requirements])
            if (margins >= 0.0).all():
                return found
            slack += np.maximum(-2.0 * margins, 0.0)
        return FewActions(self._inner, [self._baseline]).best(ball, bound, near, near[:0])

    def compares(self, ball: Ball) -> bool:
        """Return whether every context is an atom; otherwise requirements are checked on the atoms only."""
        return ball.on_atoms

    def best_by(self, ball: Ball, pick: Pick, near: FloatArray, failed: Sequence[Point] = ()) -> Found | None:
        """Return the best permitted action; None if there is none, or `pick` finds none."""
        if not ball.on_atoms:
            raise TypeError(
                "floor and explore_budget need every context as an atom with a policy that does not maximise a "
                "worst case: give a finite set of contexts, or Samples without within= and with room for all, atoms=..."
            )

        def permitted(candidates: Candidates) -> Found | None:
            rows = np.arange(len(candidates.points))
            for requirement in self._requirements:
                rows = rows[requirement.margins(ball, candidates, rows) >= 0.0] if len(rows) else rows
            return pick(candidates.among(rows)) if len(rows) else None

        return self._inner.best_by(ball, permitted, self._known(near), failed)

    def _known(self, near: FloatArray) -> FloatArray:
        """Return the starting points (k, d) of a search: the given ones, and the baseline."""
        return np.concatenate([near, self._baseline.coordinates[None, :]])

    def _best_of(self, ball: Ball, bound: Estimate, slack: FloatArray, candidates: Candidates) -> Found | None:
        """Return the best candidate that meets the requirements on the atoms with a slack; None if there is none.

        Candidates are visited by decreasing upper bound of their score, until no other can win.
        """
        ceilings = candidates.ceilings(bound, ball.weights)
        for requirement, least in zip(self._requirements, slack, strict=True):
            ceilings[requirement.ceilings(ball, candidates) < least] = -np.inf
        best: Found | None = None
        while True:
            rows = np.argsort(-ceilings, kind="stable")[:_BATCH]
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
