"""The action of a grid that maximises the robust score, exactly, without solving everything.

The score of action x is the worst-case expectation of its values v_x over the ambiguity set (lines 3 and 4 of
algorithm 1). All methods share it: DRBO with an MMD ball, stochastic UCB with the reference alone, StableOpt with a
neighbourhood; they only differ in the set.

Most scores need not be computed. The set does not depend on the action, so a distribution w that is worst for one
action bounds the score of all others from above, score_x <= <w, v_x>. We visit actions by decreasing bound and stop
when no other can win.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drbo._compiled import jit
from drbo.ambiguity.family import SetOrFamily, as_placed
from drbo.ambiguity.placed import EPSILON, PlacedSet, WorstCase, check_size, rows_alone
from drbo.models.surrogate import Estimate
from drbo.rounds.ball import TIE, Ball
from drbo.rounds.search import Candidates, Found, Indices, NoActionLeftError, WholeSearch
from drbo.spaces.finite import FiniteSet
from drbo.spaces.space import Point
from drbo.validation import FloatArray

_ROUNDING = 1e-13


class GridSearch(WholeSearch):
    """The search for the best action of a finite set."""

    space: FiniteSet
    exhaustive = True

    def __init__(self, actions: FiniteSet) -> None:
        self.space = actions
        # Distributions of the last ball, which rule out actions. They save work, and no result depends on them.
        self._met: tuple[Ball, FloatArray] | None = None

    def best(
        self, ball: Ball, bound: Estimate, near: FloatArray, away: FloatArray, failed: Sequence[Point] = ()
    ) -> Found:
        """Return the best action that has not failed; neither `near` nor `away` matters on a grid."""
        del near, away
        values = bound.on_grid(actions=self.space.coordinates)
        rows: Indices | range = range(len(values))
        if failed:
            rows = Candidates(self.space.coordinates).others(failed)  # equal actions may stand there more than once
            if not len(rows):
                raise NoActionLeftError
            values = values[rows]
        last, feasible = self._met, None
        if last is not None and last[0].same_set_as(ball):
            feasible = last[1]
        choice = best_action(values, ball.ambiguity, ball.weights, ball.radius, feasible)
        self._met = ball, choice.visited
        i = int(rows[choice.action_index])
        return Found(Point(self.space.coordinates[i], i), float(choice.worst_case.expectation))

    def candidates(self, near: FloatArray, seed: int) -> Candidates:
        """Return all actions."""
        del near, seed
        return GridCandidates(self.space.coordinates, np.arange(len(self.space)), self.space.coordinates)

    def around(self, action: Point, distance: float, seed: int) -> Candidates:
        """Return no action: all of them are candidates."""
        del action, distance, seed
        return GridCandidates(self.space.coordinates[:0], np.arange(0), self.space.coordinates)

    def beyond(self, low: FloatArray, high: FloatArray, step: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the cell enlarged by a step, or to the next coordinate of an action if that is larger."""
        points = self.space.coordinates
        below = np.where(points < low, points, -np.inf).max(axis=0)
        above = np.where(points > high, points, np.inf).min(axis=0)
        return np.minimum(low - step, below), np.maximum(high + step, above)


@dataclass(frozen=True, eq=False)
class GridCandidates(Candidates):
    """Actions of a grid, their places in it (m,), and all actions of the grid: bounds are known on it."""

    index: Indices
    grid: FloatArray

    def values(self, bound: Estimate, rows: Indices) -> FloatArray:
        """Return a bound at the candidates `rows` (k,) in every context, (k, n_contexts)."""
        return bound.on_grid(self.index[rows], self.grid)

    def ceilings(self, bound: Estimate, weights: FloatArray) -> FloatArray:
        """Return sum_j w_j bound(x, c_j) (m,) at every candidate, and a little for rounding."""
        values = bound.on_grid(self.index, self.grid)
        return np.asarray(values @ weights + _ROUNDING * np.abs(values).max(initial=0.0))

    def point(self, row: int) -> Point:
        """Return a candidate as a point of the grid."""
        return Point(self.points[row], int(self.index[row]))

    def among(self, rows: Indices) -> Candidates:
        """Return the candidates `rows` (k,)."""
        return GridCandidates(self.points[rows], self.index[rows], self.grid)


@dataclass(frozen=True)
class BestAction:
    """The action of the largest robust score.

    Attributes
    ----------
    action_index : its index
    worst_case : its worst case, one row, as a solve of this row alone gives it
    visited : (k, n_contexts) the worst-case weights of all actions that were solved, feasible for the set
    """

    action_index: int
    worst_case: WorstCase
    visited: FloatArray


def robust_scores(values: FloatArray, ambiguity: SetOrFamily, reference: FloatArray, radius: float) -> FloatArray:
    """Return the worst-case expectation of every action, (n_actions,), for values (n_actions, n_contexts)."""
    return ambiguity.worst_case(values, reference, radius).expectation


def best_action(
    values: FloatArray,
    ambiguity: SetOrFamily,
    reference: FloatArray,
    radius: float,
    feasible: FloatArray | None = None,
) -> BestAction:
    """Return the action of the largest robust score, the first of them if several tie.

    Values (n_actions, n_contexts) and reference are known to be numbers. `feasible` (k, n_contexts): distributions
    known to lie in the set, such as last round's worst cases; they only save work.
    """
    placed = as_placed(ambiguity)
    _check_sizes(values, placed, reference, feasible)
    known = np.empty((0, len(reference))) if feasible is None else feasible
    lowest, bounds, scores, candidates, least, highest = _begun(values, reference, known)
    span = highest - least
    rounding = _ROUNDING * span + 16.0 * EPSILON * max(abs(highest), abs(least))
    tie = TIE * span + rounding
    # The score of record is that of a solve alone, so that it does not depend on what else was solved: in a batch a
    # solve may start from the one before it, which rounds differently.
    alone: dict[int, tuple[WorstCase, int]] = {}  # the solve, and its row
    solved: list[FloatArray] = []
    # Where nothing is known of the set, the best one is among the first two as a rule; otherwise it is the first.
    at_once = rows_alone(placed)
    visited, candidates = 0, candidates[: at_once if feasible is None else 1]
    while len(candidates):
        worst = placed.certified(values[candidates], reference, radius)
        if len(candidates) <= at_once:
            alone.update((x, (worst, i)) for i, x in enumerate(candidates.tolist()))
        visited += len(candidates)
        solved.append(worst.weights)
        scores[candidates] = worst.expectation
        _tighten(bounds, values, lowest, worst.weights)
        winner, candidates = _rivals(bounds, scores, tie, rounding)
        if len(candidates) > 2 * visited:  # the most promising ones, twice as many as are known
            order = np.argpartition(-bounds[candidates], 2 * visited)
            candidates = candidates[order[: 2 * visited]]
    if winner not in alone:
        alone[winner] = placed.certified(values[winner : winner + 1], reference, radius), 0
    own, i = alone[winner]
    worst = WorstCase(own.expectation[i], own.weights[i], own.lower_bound[i])
    return BestAction(winner, worst, solved[0] if len(solved) == 1 else np.concatenate(solved))


def _check_sizes(values: FloatArray, ambiguity: PlacedSet, reference: FloatArray, feasible: FloatArray | None) -> None:
    """Raise unless all arrays are for the same contexts: compiled code checks no bounds."""
    n = len(reference)
    if values.ndim != 2 or values.shape[1] != n or len(values) == 0:
        raise ValueError(f"values must have shape (n_actions, {n}) to match reference, got {values.shape}")
    check_size(ambiguity, n)
    if feasible is not None and feasible.shape[1:] != (n,):
        raise ValueError(f"feasible must have shape (k, {n}) to match reference, got {feasible.shape}")


@jit
def _begun(
    values: FloatArray, reference: FloatArray, feasible: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, Indices, float, float]:
    """Return what is known of all actions before any is solved.

    These are the lowest value of each, a bound of each by the feasible distributions, scores that are not known yet
    (-inf), the two most promising actions by bound and expectation, and the lowest and the highest value of all.
    """
    m = values.shape[0]
    lowest, bounds, scores = np.empty(m), np.full(m, np.inf), np.full(m, -np.inf)
    highest = -np.inf
    for x in range(m):
        lowest[x] = values[x].min()
        highest = max(highest, values[x].max())
    _tighten(bounds, values, lowest, feasible)
    first, second, best, next_best = -1, -1, -np.inf, -np.inf
    for x in range(m):
        above = 0.0
        for j in range(values.shape[1]):
            above += reference[j] * (values[x, j] - lowest[x])
        guess = min(bounds[x], lowest[x] + above)
        if first < 0 or guess > best:
            first, second, best, next_best = x, first, guess, best
        elif second < 0 or guess > next_best:
            second, next_best = x, guess
    candidates = np.empty(min(m, 2), dtype=np.intp)
    candidates[0] = first
    if m > 1:
        candidates[1] = second
    return lowest, bounds, scores, candidates, lowest.min(), highest


@jit
def _tighten(bounds: FloatArray, values: FloatArray, lowest: FloatArray, weights: FloatArray) -> None:
    """Lower the bound of every action to its expectation under each row of weights.

    The sum is computed with the same rounding as a score, so that the two can be compared.
    """
    for x in range(values.shape[0]):
        bound = bounds[x]
        for i in range(weights.shape[0]):
            above = 0.0
            for j in range(values.shape[1]):
                above += weights[i, j] * (values[x, j] - lowest[x])
            bound = min(bound, lowest[x] + above)
        bounds[x] = bound  # once: a store in between would keep the sum from being vectorised


@jit
def _rivals(bounds: FloatArray, scores: FloatArray, tie: float, rounding: float) -> tuple[int, NDArray[np.intp]]:
    """Return the action to choose by the scores so far (-inf: not known), and those that may turn out to beat it."""
    best = scores.max()
    winner = int(np.argmax(scores >= best - tie))
    rivals = np.empty(len(scores), dtype=np.intp)
    count = 0
    for x in range(len(scores)):
        may_win = bounds[x] > best + rounding or (x < winner and bounds[x] >= best - tie - rounding)
        if may_win and scores[x] == -np.inf:
            rivals[count] = x
            count += 1
    return winner, rivals[:count]
