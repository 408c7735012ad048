"""The action of a grid that maximises the robust score, exactly, with few solves.

The score of action x is the worst-case expectation of its values v_x over the ambiguity set (lines 3 and 4 of
algorithm 1). All methods use this score and differ only in the set: DRBO has an MMD ball, stochastic UCB only the
reference, StableOpt a neighbourhood.

Most scores need not be computed. The set does not depend on the action. So the worst distribution w of one action
bounds the score of all others from above, score_x <= <w, v_x>. We visit actions by decreasing bound and stop when no
other can win.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drbo._compiled import jit
from drbo.ambiguity.family import SetOrFamily, as_placed
from drbo.ambiguity.placed import EPSILON, PlacedSet, check_size
from drbo.models.surrogate import Estimate
from drbo.rounds.ball import TIE, Ball
from drbo.rounds.search import Candidates, Indices, NoActionLeftError, WholeSearch, Winner
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
        # Cached distributions of the last ball, which rule out actions. They save work and do not change any result.
        self._met: tuple[Ball, FloatArray] | None = None

    def best(
        self, ball: Ball, bound: Estimate, near: FloatArray, away: FloatArray, failed: Sequence[Point] = ()
    ) -> Winner:
        """Return the best action that has not failed; `near` and `away` are not used on a grid."""
        del near, away
        values = bound.on_grid(actions=self.space.coordinates)
        rows: Indices | range = range(len(values))
        if failed:
            rows = Candidates(self.space.coordinates).others(failed)  # a grid may contain equal actions
            if not len(rows):
                raise NoActionLeftError
            values = values[rows]
        last, feasible = self._met, None
        if last is not None and last[0].same_set_as(ball):
            feasible = last[1]
        choice = best_action(values, ball.ambiguity, ball.weights, ball.radius, feasible)
        self._met = ball, choice.visited
        i = int(rows[choice.action_index])
        return Winner(Point(self.space.coordinates[i], i), choice.score)

    def candidates(self, near: FloatArray, seed: int) -> Candidates:
        del near, seed
        return GridCandidates(self.space.coordinates, np.arange(len(self.space)), self.space.coordinates)

    def around(self, action: Point, distance: float, seed: int) -> Candidates:
        del action, distance, seed
        return GridCandidates(self.space.coordinates[:0], np.arange(0), self.space.coordinates)

    def beyond(self, low: FloatArray, high: FloatArray, step: FloatArray) -> tuple[FloatArray, FloatArray]:
        points = self.space.coordinates
        below = np.where(points < low, points, -np.inf).max(axis=0)
        above = np.where(points > high, points, np.inf).min(axis=0)
        return np.minimum(low - step, below), np.maximum(high + step, above)


@dataclass(frozen=True, eq=False)
class GridCandidates(Candidates):
    """Actions of a grid, their indices in it (m,), and all actions of the grid: bounds are known on it."""

    index: Indices
    grid: FloatArray

    def values(self, bound: Estimate, rows: Indices) -> FloatArray:
        return bound.on_grid(self.index[rows], self.grid)

    def ceilings(self, bound: Estimate, weights: FloatArray) -> FloatArray:
        """Return sum_j w_j bound(x, c_j) (m,) at every candidate, plus a rounding margin."""
        values = bound.on_grid(self.index, self.grid)
        return np.asarray(values @ weights + _ROUNDING * np.abs(values).max(initial=0.0))

    def point(self, row: int) -> Point:
        return Point(self.points[row], int(self.index[row]))

    def among(self, rows: Indices) -> Candidates:
        return GridCandidates(self.points[rows], self.index[rows], self.grid)


@dataclass(frozen=True)
class BestAction:
    """The action of the largest robust score, that score, and the worst-case weights (k, n_contexts) of all solves."""

    action_index: int
    score: float
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
    """Return the action with the largest robust score, the first one if several tie.

    Values (n_actions, n_contexts) and reference must be finite. `feasible` (k, n_contexts): distributions known to lie
    in the set, such as last round's worst cases; they only save work.
    """
    placed = ambiguity if isinstance(ambiguity, PlacedSet) else as_placed(ambiguity)
    n = len(reference)
    if values.ndim != 2 or values.shape[1] != n or len(values) == 0:  # compiled code does not check bounds
        raise ValueError(f"values must have shape (n_actions, {n}) to match reference, got {values.shape}")
    if placed.n_contexts != n:  # None fits any number
        check_size(placed, n)
    if feasible is not None and feasible.shape[1:] != (n,):
        raise ValueError(f"feasible must have shape (k, {n}) to match reference, got {feasible.shape}")
    known = np.empty((0, len(reference))) if feasible is None else feasible
    lowest, bounds, scores, candidates, least, highest = _begun(values, reference, known)
    span = highest - least
    rounding = _ROUNDING * span + 16.0 * EPSILON * max(abs(highest), abs(least))
    tie = TIE * span + rounding
    # The final score is solved separately, so that it does not depend on the other solves: in a batch a solve may start
    # from the previous one, which rounds differently.
    alone: dict[int, float] = {}
    solved: list[FloatArray] = []
    # If no feasible distribution is known, the best action is usually among the first two; otherwise it is the first.
    at_once = getattr(placed, "rows_alone", 1)
    visited, candidates = 0, candidates[: at_once if feasible is None else 1]
    while len(candidates):
        worst = placed.certified(values[candidates], reference, radius)
        if len(candidates) <= at_once:
            alone.update(zip(candidates.tolist(), worst.expectation.tolist(), strict=True))
        visited += len(candidates)
        solved.append(worst.weights)
        scores[candidates] = worst.expectation
        _tighten(bounds, values, lowest, worst.weights)
        winner, candidates = _rivals(bounds, scores, tie, rounding)
        if len(candidates) > 2 * visited:  # the most promising, twice as many as visited so far
            order = np.argpartition(-bounds[candidates], 2 * visited)
            candidates = candidates[order[: 2 * visited]]
    if winner not in alone:
        alone[winner] = float(placed.certified(values[winner : winner + 1], reference, radius).expectation[0])
    return BestAction(winner, alone[winner], solved[0] if len(solved) == 1 else np.concatenate(solved))


@jit
def _begun(
    values: FloatArray, reference: FloatArray, feasible: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, Indices, float, float]:
    """Return the initial data of all actions, before any solve.

    These are the lowest value of each action, a bound of each by the feasible distributions, unknown scores (-inf), the
    two most promising actions by bound and expectation, and the lowest and the highest value of all.
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
    """Lower the bound of every action to its expectation under each row of weights, rounded as a score is."""
    for x in range(values.shape[0]):
        bound = bounds[x]
        for i in range(weights.shape[0]):
            above = 0.0
            for j in range(values.shape[1]):
                above += weights[i, j] * (values[x, j] - lowest[x])
            bound = min(bound, lowest[x] + above)
        bounds[x] = bound  # one store: a store inside the loop would prevent vectorisation of the sum


@jit
def _rivals(bounds: FloatArray, scores: FloatArray, tie: float, rounding: float) -> tuple[int, NDArray[np.intp]]:
    """Return the best action by the scores so far (-inf: unknown), and the actions that may still beat it."""
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
