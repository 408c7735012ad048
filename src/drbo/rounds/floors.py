"""What an action must meet: limits of outcomes, a floor on the worst case, a budget for the loss.

An action is permitted if it meets every requirement of the round:

    Floor    min_w <w, bound_t(x, .)> >= level                     the worst-case expectation is at least the level
    Likely   min_w <w, P(bound_t(x, .) + noise > level)> >= p      the same for the probability of exceeding the level
    Budget   min_w <w, lcb_t of f(x, .) - f(baseline, .)> >= -left   the loss to the baseline is within the budget
    TriedCell    low <= x <= high                                      the action is close to the actions tried so far

with w over the set of the round. Each requirement has its own worst distribution. Its bound is a lower one if the
requirement must hold, as for a recommendation, and an upper one if it may hold, as for the search (`View`).
`drbo.rounds.limited_search` searches among permitted actions.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from drbo.models.bounds import LOWER, UPPER, Bound, simultaneous
from drbo.models.surrogate import Posterior
from drbo.rounds.ball import Ball
from drbo.rounds.context_rules import Beliefs
from drbo.rounds.search import Candidates, FewCandidates, Indices
from drbo.spaces.space import Point
from drbo.validation import FloatArray

_ROUNDING = 1e-9
"""Rounding tolerance at the border of a cell."""


class View(Enum):
    """The confidence bound by which a requirement is judged.

    CERTAIN : the lower bound of a recommendation: the requirement holds
    POSSIBLE : the upper bound of a recommendation: the requirement may hold
    SEARCHED : the upper bound of the search, which counts pending evaluations
    CHECKED : the lower bound of a recommendation by one model, which is faster where an outcome has several
    APPROACHED : a lower bound of a third of that width, which counts pending evaluations: the requirement is likely to
        hold
    EXPECTED : the mean, which counts pending evaluations: the requirement holds as far as the model knows
    """

    CERTAIN = "certain"
    POSSIBLE = "possible"
    SEARCHED = "searched"
    CHECKED = "checked"
    APPROACHED = "approached"
    EXPECTED = "expected"

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
        if self in _SHARES:
            return Bound(beliefs.expected(ball), _SHARES[self] * width, LOWER)
        if self is View.CHECKED:
            return Bound(beliefs.certain(ball), width, LOWER)
        return beliefs.bound(ball, LOWER if self is View.CERTAIN else UPPER, width)


_SHARES = {View.APPROACHED: 1.0 / 3.0, View.EXPECTED: 0.0}
"""The widths of these bounds as shares of that of a recommendation."""


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
        """Whether the condition must also hold between the atoms. An optimistic view needs the atoms alone."""
        return self.view is View.CERTAIN

    def ceilings(self, ball: Ball, candidates: Candidates) -> FloatArray:
        bound = self._bound(ball)
        return self._scaled(bound, lambda: candidates.ceilings(bound, ball.weights), len(candidates.points))

    def margins(self, ball: Ball, candidates: Candidates, rows: Indices) -> FloatArray:
        bound = self._bound(ball)
        return self._scaled(bound, lambda: _worst(ball, candidates.values(bound, rows), self.view), len(rows))

    def margin(self, ball: Ball, action: Point) -> float:
        if not self.everywhere or not self.beliefs.units.known:
            return float(self.margins(ball, FewCandidates.of([action]), np.arange(1))[0])
        bound = self._bound(ball)
        return (ball.certificate(bound, action).lower_bound - self.level) / bound.amplitude

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
        rows = np.arange(len(candidates.points))
        return self._margins(ball, candidates, rows, lambda chances: chances @ ball.weights)

    def margins(self, ball: Ball, candidates: Candidates, rows: Indices) -> FloatArray:
        return self._margins(ball, candidates, rows, lambda chances: _worst(ball, chances, self.view))

    def margin(self, ball: Ball, action: Point) -> float:
        return float(self.margins(ball, FewCandidates.of([action]), np.arange(1))[0])

    def chances(self, ball: Ball, candidates: Candidates, rows: Indices) -> FloatArray:
        """Return the probability of the event (k, n) in each context by the confidence bound."""
        bound = self.view.bound(self.beliefs, ball, self.count(ball))
        return self.likelihood(bound.posterior, candidates.values(bound, rows))

    def count(self, ball: Ball) -> int:
        """Return the number of contexts in which the confidence bounds must be made to hold at once."""
        return 1 if self.proven else len(np.unique(ball.contexts, axis=0))

    def chances_of(self, ball: Ball, action: Point) -> FloatArray:
        """Return the probability (n,) of the event in each context for an action; the units must be known."""
        return np.asarray(self.chances(ball, FewCandidates.of([action]), np.arange(1))[0])

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
    """The worst-case expected loss against the baseline is at most what is `left` of the budget; on atoms alone."""

    beliefs: Beliefs
    baseline: Point
    left: float

    def ceilings(self, ball: Ball, candidates: Candidates) -> FloatArray:
        del ball
        return np.full(len(candidates.points), self.left)

    def margins(self, ball: Ball, candidates: Candidates, rows: Indices) -> FloatArray:
        return self.left - self._losses(ball, candidates.points[rows])

    def margin(self, ball: Ball, action: Point) -> float:
        return self.left - self.loss(ball, action)

    def loss(self, ball: Ball, action: Point) -> float:
        """Return an upper bound on the expected loss of an action against the baseline, zero or more."""
        return float(self._losses(ball, action.coordinates[None, :])[0])

    def _losses(self, ball: Ball, actions: FloatArray) -> FloatArray:
        lower = self.beliefs.bound(ball, LOWER).difference(actions, self.baseline.coordinates)
        losses = np.maximum(-ball.worst_cases(lower).lower_bound, 0.0)
        return np.where((actions == self.baseline.coordinates).all(axis=1), 0.0, losses)


@dataclass(frozen=True, eq=False)
class TriedCell(Requirement):
    """The action lies in a cell from `low` (d,) to `high` (d,) around the actions tried so far.

    A model that learned from similar actions is overconfident elsewhere, because it has not seen f change.
    """

    low: FloatArray
    high: FloatArray
    everywhere = False

    def ceilings(self, ball: Ball, candidates: Candidates) -> FloatArray:
        del ball
        return self._inside(candidates.points)

    def margins(self, ball: Ball, candidates: Candidates, rows: Indices) -> FloatArray:
        del ball
        return self._inside(candidates.points[rows])

    def margin(self, ball: Ball, action: Point) -> float:
        del ball
        return float(self._inside(action.coordinates[None, :])[0])

    def _inside(self, points: FloatArray) -> FloatArray:
        return np.asarray(np.minimum(points - self.low, self.high - points).min(axis=1) + _ROUNDING)


@dataclass(frozen=True, eq=False)
class Limit:
    """A limit in a round: its name, the beliefs of its outcome, and the limit as a requirement by any view."""

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
