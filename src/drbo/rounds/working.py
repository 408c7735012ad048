"""The search keeps to actions that are likely to work: it avoids a region in which evaluations fail.

The probability of success of an action is the average over the reference of `drbo.models.success`. Every search for a
large score, by any policy, subtracts a steep penalty where that probability is too small:

    score(x) - 2500 amplitude max(0, least + 0.04 - P(x))^2

The penalty is the same in all contexts, so it moves the worst case by itself. A comparison by another score passes over
these actions. If no action is likely enough, the most likely ones are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from drbo.models.success import Success, averages
from drbo.models.surrogate import Estimate, Inputs, Values
from drbo.rounds.ball import Ball
from drbo.rounds.search import Candidates, Pick, Search, Winner
from drbo.spaces.space import Point
from drbo.validation import FloatArray

LIKELY = 0.85
"""The search keeps to actions of at least this share of the best probability of success."""
_STEEP, _MARGIN = 2500.0, 0.04
"""The penalty per squared unit of probability, in amplitudes of f, and the margin in which it starts: 4 at `least`."""
_CONTEXTS = 16
"""Largest number of contexts that represent the reference."""
_STEP = 1e-4
"""Step of a numerical derivative, in ranges of a coordinate."""


@dataclass(frozen=True, eq=False)
class SuccessChances:
    """The estimated probabilities of success of actions, under a reference.

    Attributes
    ----------
    model : the learned probability of success
    inputs : the arguments of f
    ranges : (d_x,) and (d_c,) the ranges of the coordinates of actions and contexts
    contexts, weights : (k, d_c) and (k,) the reference, or some contexts that represent it
    best : the largest probability of an action that has an outcome; if there is none, that of an untried place
    """

    model: Success
    inputs: Inputs
    ranges: tuple[FloatArray, FloatArray]
    contexts: FloatArray
    weights: FloatArray
    best: float = 1.0
    _known: dict[bytes, float] = field(default_factory=dict)  # cache by action

    def under(self, contexts: FloatArray, weights: FloatArray) -> bool:
        """Return whether the reference has these contexts (k, d_c) and weights (k,)."""
        return np.array_equal(self.contexts, contexts) and np.array_equal(self.weights, weights)

    def of_actions(self, actions: FloatArray) -> FloatArray:
        """Return the probability (m,) that an evaluation of actions (m, d_x) succeeds, on average over contexts."""
        keys = [row.tobytes() for row in actions]
        new = [i for i, key in enumerate(keys) if key not in self._known]
        if new:
            rows = np.repeat(actions[new], len(self.contexts), axis=0)
            by_context = self.of_pairs(rows, np.tile(self.contexts, (len(new), 1))).reshape(len(new), -1)
            found = averages(self.weights, by_context)
            self._known.update(zip([keys[i] for i in new], found.tolist(), strict=True))
        return np.array([self._known[key] for key in keys])

    def best_of(self, actions: FloatArray) -> float:
        """Return the largest probability of actions (m, d_x); if there is none, that of an untried place."""
        return float(self.of_actions(actions).max()) if len(actions) else self.model.untried

    def of_pairs(self, actions: FloatArray, contexts: FloatArray) -> FloatArray:
        """Return the probability (m,) that evaluations of actions (m, d_x) in contexts (m, d_c) succeed."""
        return self.model.probability(places(self.inputs, self.ranges, actions, contexts))

    def slope(self, action: FloatArray) -> FloatArray:
        """Return the gradient (d_x,) of the probability of an action (d_x,), by central differences."""
        steps = np.diag(_STEP * self.ranges[0])
        high, low = self.of_actions(action + steps), self.of_actions(action - steps)
        return np.asarray((high - low) / (2.0 * np.diag(steps)))


def places(
    inputs: Inputs, ranges: tuple[FloatArray, FloatArray], actions: FloatArray, contexts: FloatArray
) -> FloatArray:
    """Return the points (m, d) of actions (m, d_x) in contexts (m, d_c), with coordinates in shares of their ranges."""
    if inputs.shift is not None:
        return np.asarray((actions + inputs.shift.steps(contexts)) / ranges[0])
    return np.concatenate([actions / ranges[0], contexts / ranges[1]], axis=1)


def representative(contexts: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return a distribution (n, d) with weights (n,), or the contexts at its equidistant quantiles in their order."""
    used = np.flatnonzero(weights)
    if len(used) <= _CONTEXTS:
        return contexts[used], weights[used]
    levels = (np.arange(_CONTEXTS) + 0.5) / _CONTEXTS
    rows = used[np.minimum(np.searchsorted(np.cumsum(weights[used]), levels), len(used) - 1)]
    return contexts[rows], np.full(_CONTEXTS, 1.0 / _CONTEXTS)


@dataclass(frozen=True, eq=False)
class Discouraged:
    """A bound or a draw minus the penalty for actions that are likely to fail."""

    inner: Estimate
    chances: SuccessChances
    least: float

    @property
    def amplitude(self) -> float:
        """The scale of the values."""
        return self.inner.amplitude

    def penalty(self, actions: FloatArray) -> FloatArray:
        """Return the penalty (m,) of actions (m, d_x)."""
        return np.asarray(_STEEP * self.amplitude * self._lacking(actions) ** 2)

    def _lacking(self, actions: FloatArray) -> FloatArray:
        return np.maximum(self.least + _MARGIN - self.chances.of_actions(actions), 0.0)

    def on_grid(self, rows: NDArray[np.intp] | slice = slice(None), actions: FloatArray | None = None) -> FloatArray:
        """Return the values (n, n_contexts) of the actions `rows` of a grid; all by default."""
        assert actions is not None  # every search gives its grid
        return self.inner.on_grid(rows, actions) - self.penalty(actions[rows])[:, None]

    def of_action(self, action: Point) -> FloatArray:
        """Return the values of one action, (n_contexts,)."""
        return np.asarray(self.inner.of_action(action) - self.penalty(action.coordinates[None]))

    def at(self, actions: FloatArray, used: NDArray[np.intp] | None = None) -> FloatArray:
        """Return the values (m, k) at any actions (m, d_x), in the contexts `used` (k,); by default in all."""
        return self.inner.at(actions, used) - self.penalty(actions)[:, None]

    def gradient(self, action: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the gradient in x of sum_j w_j value(x, c_j) at one action (d_x,)."""
        gradient, lacking = self.inner.gradient(action, weights), float(self._lacking(action[None])[0])
        if lacking == 0.0:
            return gradient
        return gradient + 2.0 * _STEEP * self.amplitude * lacking * float(weights.sum()) * self.chances.slope(action)

    def curve(self, action: FloatArray) -> Values:
        """Return the values of one action (d_x,) as a function of the context."""
        inner, penalty = self.inner.curve(action), self.penalty(action[None])
        return lambda contexts: inner(contexts) - penalty

    def ceilings(self, actions: FloatArray, weights: FloatArray) -> FloatArray:
        """Return upper bounds (m,) of sum_j w_j value(x, c_j) at actions (m, d_x)."""
        return self.inner.ceilings(actions, weights) - float(weights.sum()) * self.penalty(actions)


class Working(Search):
    """A search that passes over actions whose probability of success is below `least`, unless there are no others."""

    def __init__(self, inner: Search, chances: SuccessChances, least: float) -> None:
        self.space, self._inner, self._chances, self._least = inner.space, inner, chances, least

    def best(
        self, ball: Ball, bound: Estimate, near: FloatArray, away: FloatArray, failed: Sequence[Point] = ()
    ) -> Winner:
        discouraged = Discouraged(bound, self._chances, self._least)
        found = self._inner.best(ball, discouraged, near, away, failed)
        return Winner(found.action, found.score + float(discouraged.penalty(found.action.coordinates[None])[0]))

    def compares(self, ball: Ball) -> bool:
        return self._inner.compares(ball)

    def best_by(self, ball: Ball, pick: Pick, near: FloatArray, failed: Sequence[Point] = ()) -> Winner | None:
        """Return the best action that is likely to work, by the score of `pick`; None if `pick` accepts none."""
        some = False

        def likely(candidates: Candidates) -> Winner | None:
            nonlocal some
            rows = np.flatnonzero(self._chances.of_actions(candidates.points) >= self._least)
            some = some or len(rows) > 0
            return pick(candidates.among(rows)) if len(rows) else None

        found = self._inner.best_by(ball, likely, near, failed)
        return found if some else self._inner.best_by(ball, pick, near, failed)
