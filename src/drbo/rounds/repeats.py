"""Evaluations that are not repeated: the same action in the same context, while another pair exists.

An evaluation that failed or is pending is not asked for again. With a deterministic outcome, nor is one that was told:
its outcome is known. Then another context of the action is evaluated, or another action. Where nature picks contexts,
the other action must possibly be better. Nor is a context picked in which the action is likely to fail, while there is
another one.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from drbo._fast_record import fast_record
from drbo.models.surrogate import Estimate, curve_of
from drbo.rounds.ball import Ball
from drbo.rounds.context_rules import Beliefs
from drbo.rounds.search import NoActionLeftError, Pick, Search, Winner
from drbo.rounds.working import LIKELY, SuccessChances
from drbo.spaces.space import Point
from drbo.validation import FloatArray

_ROUNDING = 1e-9
"""Points that differ by no more in any coordinate are equal: a user may tell them by their values."""


_SAME = 1e-4
"""Actions that differ by no more have the same outcome, if outcomes are deterministic."""
DETERMINISTIC = 0.01
"""Outcomes are nearly deterministic if their error, as learned, is at most this share of the amplitude of f."""
NO_ERROR = 2e-4
"""The same share for a model whose error is fixed: a small error that is known still needs repeats to average it."""


Pairs = Sequence[tuple[Point, Point]]


@fast_record
class Taken:
    """Evaluations not to repeat, as pairs of an action and a context.

    Attributes
    ----------
    failed : evaluations that failed
    pending : evaluations that are pending
    told : evaluations whose outcome is known, if outcomes are nearly deterministic
    chances : the estimated probabilities of success; None if nothing failed
    """

    failed: Pairs = ()
    pending: Pairs = ()
    told: Pairs = ()
    chances: SuccessChances | None = None

    def _fewer(self) -> Taken | None:
        """Return the same without the evaluations that matter least; None if there are none."""
        if self.told:
            return replace(self, told=())
        return replace(self, pending=()) if self.pending else None

    def avoiding(self, search: Search, ball: Ball) -> Search:
        """Return a search without the actions that failed, or are pending, in every context of a ball."""
        for taken in (Taken(self.failed), Taken(self.failed, self.pending)):
            left_out = taken._exhausted(ball)
            search = Avoiding(search, left_out) if left_out else search
        return search

    def _exhausted(self, ball: Ball) -> list[Point]:
        pairs = [*self.failed, *self.pending]
        if len(pairs) < len(ball.contexts) or len(ball.elsewhere()):
            return []
        different = {action.coordinates.tobytes(): action for action, _ in pairs}.values()
        return [action for action in different if not len(self._left(ball, action))]

    def instead(self, ball: Ball, beliefs: Beliefs, action: Point, context: Point) -> Point:
        """Return the context or, if it is taken or likely to fail, the most uncertain of the others."""
        taken = self._is_taken(action, context)
        if not taken and self.chances is None:
            return context
        left = self._left(ball, action)
        if not len(left):
            fewer = self._fewer()
            return context if fewer is None else fewer.instead(ball, beliefs, action, context)
        if self.chances is not None:
            likely = self.chances.of_pairs(np.repeat(action.coordinates[None], len(left), axis=0), left)
            least = LIKELY * float(likely.max())
            if not taken and self.chances.of_pairs(action.coordinates[None], context.coordinates[None])[0] >= least:
                return context
            left = left[likely >= least]
        curve = curve_of(beliefs.expected(ball), action.coordinates, 0.0)
        at = left[int(np.argmax(curve.variance(left)))]
        atoms = np.flatnonzero((ball.contexts == at).all(axis=1))
        return ball.reference.atom(int(atoms[0])) if len(atoms) else Point(at)

    def repeats(self, ball: Ball, action: Point, contexts: Sequence[Point]) -> bool:
        """Return whether an evaluation is taken: one of its contexts, or every context if nature picks it."""
        if not contexts:
            return bool(self.told) and not len(self._left(ball, action))
        return any(self._is_taken(action, context) for context in contexts)

    def and_also(self, action: Point, contexts: Sequence[Point]) -> Taken:
        """Return the evaluations and those of an action in further contexts."""
        return replace(self, pending=[*self.pending, *((action, context) for context in contexts)])

    def _is_taken(self, action: Point, context: Point) -> bool:
        return bool(_among(context.coordinates[None], self._contexts(action)).any())

    def _left(self, ball: Ball, action: Point) -> FloatArray:
        """Return the contexts (k, d) of a ball in which an action is not taken."""
        every = np.concatenate([ball.contexts, ball.elsewhere()])
        return every[~_among(every, self._contexts(action))]

    def _contexts(self, action: Point) -> FloatArray:
        """Return the contexts (k, d) in which an action is taken."""
        found = [
            contexts[_among(actions, action.coordinates[None], distance)]
            for actions, contexts, distance in self._arrays
        ]
        return np.concatenate(found) if found else np.empty((0, 0))

    @functools.cached_property
    def _arrays(self) -> list[tuple[FloatArray, FloatArray, float]]:
        """Actions (k, d_x) and contexts (k, d_c), and the distance up to which actions are the same."""
        found = []
        for pairs, distance in ((self.failed, _ROUNDING), (self.pending, _ROUNDING), (self.told, _SAME)):
            if pairs:
                actions, contexts = (np.array([p.coordinates for p in side]) for side in zip(*pairs, strict=True))
                found.append((actions, contexts, distance))
        return found


NOTHING_TAKEN = Taken()


def _among(points: FloatArray, others: FloatArray, distance: float = _ROUNDING) -> NDArray[np.bool_]:
    """Return whether each point (m, d) is one of the others (k, d), (m,), up to a distance in every coordinate."""
    found = np.zeros(len(points), dtype=bool)
    for other in others:
        found |= (np.abs(points - other) <= distance).all(axis=1)
    return found


class Avoiding(Search):
    """A search that excludes some actions, unless there are no others."""

    def __init__(self, inner: Search, left_out: Sequence[Point]) -> None:
        self.space, self._inner, self._left_out = inner.space, inner, left_out

    def best(
        self, ball: Ball, bound: Estimate, near: FloatArray, away: FloatArray, failed: Sequence[Point] = ()
    ) -> Winner:
        try:
            return self._inner.best(ball, bound, near, away, [*failed, *self._left_out])
        except NoActionLeftError:
            return self._inner.best(ball, bound, near, away, failed)

    def compares(self, ball: Ball) -> bool:
        return self._inner.compares(ball)

    def best_by(self, ball: Ball, pick: Pick, near: FloatArray, failed: Sequence[Point] = ()) -> Winner | None:
        found = self._inner.best_by(ball, pick, near, [*failed, *self._left_out])
        return self._inner.best_by(ball, pick, near, failed) if found is None else found
