"""Failed evaluations are not repeated: the same action in the same context, while another pair exists.

Nor is a context picked in which the action is likely to fail, while there is another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drbo.models.surrogate import Estimate, curve_of
from drbo.rounds.ball import Ball
from drbo.rounds.context_rules import Beliefs
from drbo.rounds.search import Found, NoActionLeftError, Pick, Search
from drbo.rounds.working import LIKELY, Chances
from drbo.spaces.space import Point
from drbo.validation import FloatArray

_ROUNDING = 1e-9
"""Points that differ by no more in any coordinate are equal: a user may tell them by their values."""


@dataclass(frozen=True, eq=False)
class Failures:
    """Failed evaluations: `pairs` of an action and a context, and the estimated chances of others, if any failed."""

    pairs: Sequence[tuple[Point, Point]] = ()
    chances: Chances | None = None

    def exhausted(self, ball: Ball) -> list[Point]:
        """Return the actions that failed in every context of a ball."""
        if len(self.pairs) < len(ball.contexts) or len(ball.elsewhere()):
            return []
        different = {action.coordinates.tobytes(): action for action, _ in self.pairs}.values()
        return [action for action in different if not len(self._left(ball, action))]

    def instead(self, ball: Ball, beliefs: Beliefs, action: Point, context: Point) -> Point:
        """Return the context or, if the action failed or is likely to fail in it, the most uncertain of the others.

        If the action failed in all contexts, the given context is returned.
        """
        if self.chances is None:
            return context
        left = self._left(ball, action)
        if not len(left):
            return context
        likely = self.chances.of_pairs(np.repeat(action.coordinates[None], len(left), axis=0), left)
        least = LIKELY * float(likely.max())
        here = self.chances.of_pairs(action.coordinates[None], context.coordinates[None])[0]
        if here >= least and not _among(context.coordinates[None], self._contexts(action)).any():
            return context
        left = left[likely >= least]
        curve = curve_of(beliefs.expected(ball), action.coordinates, 0.0)
        at = left[int(np.argmax(curve.variance(left)))]
        atoms = np.flatnonzero((ball.contexts == at).all(axis=1))
        return ball.reference.atom(int(atoms[0])) if len(atoms) else Point(at)

    def _left(self, ball: Ball, action: Point) -> FloatArray:
        """Return the contexts (k, d) of a ball in which an action has not failed."""
        every = np.concatenate([ball.contexts, ball.elsewhere()])
        return every[~_among(every, self._contexts(action))]

    def _contexts(self, action: Point) -> FloatArray:
        """Return the contexts (k, d) in which an action failed."""
        if not self.pairs:
            return np.empty((0, 0))
        actions, contexts = (np.array([point.coordinates for point in side]) for side in zip(*self.pairs, strict=True))
        return contexts[_among(actions, action.coordinates[None])]


NOTHING_FAILED = Failures()


def _among(points: FloatArray, others: FloatArray) -> NDArray[np.bool_]:
    """Return whether each point (m, d) is one of the others (k, d), (m,)."""
    found = np.zeros(len(points), dtype=bool)
    for other in others:
        found |= (np.abs(points - other) <= _ROUNDING).all(axis=1)
    return found


class Avoiding(Search):
    """A search that excludes some actions, unless there are no others."""

    def __init__(self, inner: Search, left_out: Sequence[Point]) -> None:
        self.space, self._inner, self._left_out = inner.space, inner, left_out

    def best(
        self, ball: Ball, bound: Estimate, near: FloatArray, away: FloatArray, failed: Sequence[Point] = ()
    ) -> Found:
        """Return the best of the actions that are not excluded."""
        try:
            return self._inner.best(ball, bound, near, away, [*failed, *self._left_out])
        except NoActionLeftError:
            return self._inner.best(ball, bound, near, away, failed)

    def compares(self, ball: Ball) -> bool:
        """Return whether `best_by` works in this ball."""
        return self._inner.compares(ball)

    def best_by(self, ball: Ball, pick: Pick, near: FloatArray, failed: Sequence[Point] = ()) -> Found | None:
        """Return the best of the actions that are not excluded, by the score of `pick`."""
        found = self._inner.best_by(ball, pick, near, [*failed, *self._left_out])
        return self._inner.best_by(ball, pick, near, failed) if found is None else found
