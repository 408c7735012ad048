"""The search for the best action of a grid or a box."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from drbo._fast_record import fast_record
from drbo.models.surrogate import Estimate
from drbo.rounds.ball import Ball
from drbo.spaces.space import Point, Space
from drbo.validation import FloatArray

Indices = NDArray[np.intp]

_DISTANCES = (0.2, 0.05, 0.05, 0.01, 0.01)
"""Successive distances of the candidates tried around the best action of a box."""


@fast_record
class Winner:
    """The action of the largest robust score, and that score in the model's units."""

    action: Point
    score: float


@dataclass(frozen=True, eq=False)
class Candidates:
    """Actions (m, d) to compare, by their row."""

    points: FloatArray

    def values(self, bound: Estimate, rows: Indices) -> FloatArray:
        """Return a bound at the candidates `rows` (k,) in every context, (k, n_contexts)."""
        return bound.at(self.points[rows])

    def ceilings(self, bound: Estimate, weights: FloatArray) -> FloatArray:
        """Return an upper bound (m,) of sum_j w_j bound(x, c_j) at every candidate, for weights w (n_contexts,)."""
        return bound.ceilings(self.points, weights)

    def point(self, row: int) -> Point:
        """Return a candidate as a point of the space of actions."""
        return Point(self.points[row])

    def among(self, rows: Indices) -> Candidates:
        """Return the candidates `rows` (k,)."""
        return Candidates(self.points[rows])

    def without(self, actions: Sequence[Point]) -> Candidates:
        """Return the candidates that are not among these actions."""
        return self.among(self.others(actions)) if actions else self

    def others(self, actions: Sequence[Point]) -> Indices:
        """Return the rows of the candidates that are not among these actions."""
        bad = np.array([point.coordinates for point in actions])
        return np.flatnonzero(~(self.points[:, None, :] == bad[None, :, :]).all(axis=2).any(axis=1))


@dataclass(frozen=True, eq=False)
class FewCandidates(Candidates):
    """A given list of actions."""

    actions: Sequence[Point]

    @classmethod
    def of(cls, actions: Sequence[Point]) -> Self:
        """Return these actions as candidates."""
        return cls(np.array([action.coordinates for action in actions]), actions)

    def values(self, bound: Estimate, rows: Indices) -> FloatArray:
        return np.array([bound.of_action(self.actions[row]) for row in rows])

    def point(self, row: int) -> Point:
        return self.actions[row]

    def among(self, rows: Indices) -> Candidates:
        return FewCandidates(self.points[rows], [self.actions[row] for row in rows])


class NoActionLeftError(RuntimeError):
    """Every action is excluded."""

    def __init__(self) -> None:
        super().__init__("nothing has succeeded: every action has failed, so there is none to recommend")


Smooth = Callable[[FloatArray], tuple[float, FloatArray]]
"""A function of an action (d,) that returns a value and its gradient (d,)."""
Pick = Callable[[Candidates], Winner | None]
"""A function that returns the best of the candidates by its own score, or None if none is acceptable."""


class Search(ABC):
    """The search for the action of the largest worst-case expectation of a bound."""

    space: Space

    @abstractmethod
    def best(
        self, ball: Ball, bound: Estimate, near: FloatArray, away: FloatArray, failed: Sequence[Point] = ()
    ) -> Winner:
        """Return the best action.

        `near` (k, d) are starting points, `away` (l, d) pending actions that should not be repeated, and `failed`
        actions that must not be returned.
        """

    def compares(self, ball: Ball) -> bool:
        """Return whether `best_by` works in this ball."""
        del ball
        return True

    @abstractmethod
    def best_by(self, ball: Ball, pick: Pick, near: FloatArray, failed: Sequence[Point] = ()) -> Winner | None:
        """Return the best action by another score than a worst-case expectation; None if `pick` accepts none.

        `pick` is called with candidates, once or several times; `near` and `failed` are as for `best`.
        """


class WholeSearch(Search):
    """A search over all actions, which also provides candidates for other comparisons."""

    exhaustive: bool = False
    """Whether the action found is certainly the best. Otherwise the maximum may have been missed."""

    def best_by(self, ball: Ball, pick: Pick, near: FloatArray, failed: Sequence[Point] = ()) -> Winner | None:
        """Return the best of all candidates, after moves to better ones around it."""
        candidates = self.candidates(near, ball.seed).without(failed)
        found = pick(candidates) if len(candidates.points) else None
        for i, distance in enumerate(_DISTANCES):
            if found is None:
                break
            around = self.around(found.action, distance, ball.seed + i).without(failed)
            better = pick(around) if len(around.points) else None
            found = found if better is None or better.score <= found.score else better
        return found

    def permits(self, action: Point) -> bool:
        """Return whether an action satisfies the constraints of the space."""
        del action
        return True

    def permitted(self, name: str, value: Any) -> Point:
        """Return the point for a user's action; raise if it breaks a constraint. An error calls the action `name`."""
        return self.space.encode(name, value)

    @abstractmethod
    def candidates(self, near: FloatArray, seed: int) -> Candidates:
        """Return actions all over the space, including those `near` (k, d) and others around them."""

    @abstractmethod
    def around(self, action: Point, distance: float, seed: int) -> Candidates:
        """Return actions around one, at about this distance in the unit cube; no row if there are none."""

    def climb(self, start: FloatArray, score: Smooth, margins: Sequence[Smooth]) -> FloatArray:
        """Return points (k, d): a local maximum of a score with all margins >= 0, and others on the way back."""
        del score, margins
        return start[None]

    def repeats(self, points: FloatArray, away: FloatArray) -> NDArray[np.bool_]:
        """Return whether each point (m, d) counts as one of the pending actions `away` (k, d); False on a grid."""
        del away
        return np.zeros(len(points), dtype=bool)

    @abstractmethod
    def beyond(self, low: FloatArray, high: FloatArray, step: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the cell from `low` to `high` (d,) enlarged by a step (d,), or up to the next action if farther."""
