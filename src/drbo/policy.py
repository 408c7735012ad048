"""The robust score of every action, and the action that maximises it.

The score of action x is the worst-case expectation of its values v_x over the ambiguity set (lines 3 and 4 of
algorithm 1). All methods share it: DRBO with an MMD ball, stochastic UCB with the reference alone, StableOpt with a
neighbourhood; they only differ in the set.

Most scores need not be computed. The set does not depend on the action, so a distribution w that is worst for one
action bounds the score of all others from above, score_x <= <w, v_x>. We visit actions by decreasing bound and stop
when no other can win.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drbo.ambiguity import AmbiguitySet, WorstCase
from drbo.validation import FloatArray

TIE = 1e-10
"""Scores closer than this share of the values' range are a tie, and the first one wins: no choice hangs on rounding."""
_ROUNDING = 1e-13
_FIRST = 4
"""How many actions are solved before anything is ruled out: a call costs more than a few solves."""


def first_of_the_best(scores: FloatArray, tolerance: float) -> int:
    """Return the first index whose score is within `tolerance` of the largest one."""
    return int(np.argmax(scores >= scores.max() - tolerance))


@dataclass(frozen=True)
class Choice:
    """The action of the largest robust score.

    Attributes
    ----------
    action_index : its index
    worst_case : its worst case, one row
    visited : (k, n_contexts) the worst-case weights of all actions that were solved, feasible for the set
    """

    action_index: int
    worst_case: WorstCase
    visited: FloatArray


def robust_scores(values: FloatArray, ambiguity: AmbiguitySet, reference: FloatArray, radius: float) -> FloatArray:
    """Return the worst-case expectation of every action, (n_actions,), for values (n_actions, n_contexts)."""
    return ambiguity.worst_case(values, reference, radius).expectation


def best_action(
    values: FloatArray,
    ambiguity: AmbiguitySet,
    reference: FloatArray,
    radius: float,
    feasible: FloatArray | None = None,
) -> Choice:
    """Return the action of the largest robust score, the first of them if several tie.

    `feasible` (k, n_contexts): distributions known to lie in the set, such as last round's worst cases; they only save
    work.
    """
    n_actions, n_contexts = values.shape
    lowest = values.min(axis=1, keepdims=True)
    above = values - lowest

    def under(weights: FloatArray) -> FloatArray:
        """Return the smallest expectation of every action under the rows of weights, counted as a score is."""
        return np.asarray(lowest[:, 0] + (above @ weights.T).min(axis=1))

    span = float(values.max() - values.min())
    rounding = _ROUNDING * span + 16.0 * np.finfo(float).eps * float(np.abs(values).max())
    tie = TIE * span + rounding
    bounds = np.full(n_actions, np.inf)
    if feasible is not None and len(feasible):
        bounds = under(feasible)
    scores = np.full(n_actions, -np.inf)
    weights = np.empty((0, n_contexts))
    expectations, lower_bounds, visited = [], [], []
    guess = np.minimum(bounds, values @ reference)
    candidates = np.argsort(-guess, kind="stable")[:_FIRST]
    while len(candidates):
        worst = ambiguity.worst_case(values[candidates], reference, radius)
        scores[candidates] = worst.expectation
        visited.extend(candidates.tolist())
        weights = np.concatenate([weights, worst.weights])
        expectations.extend(worst.expectation.tolist())
        lower_bounds.extend(worst.lower_bound.tolist())
        bounds = np.minimum(bounds, under(worst.weights))
        best = scores.max()
        winner = first_of_the_best(scores, tie)
        may_win = bounds > best + rounding
        may_win[:winner] |= bounds[:winner] >= best - tie - rounding
        may_win[visited] = False
        open_actions = np.flatnonzero(may_win)
        if len(open_actions) > len(visited):  # the most promising ones, as many again as are known
            order = np.argpartition(-bounds[open_actions], len(visited))
            open_actions = open_actions[order[: len(visited)]]
        candidates = open_actions
    row = visited.index(winner)
    # One row: its fields are numpy scalars, which answer as arrays of no dimension do.
    worst_case = WorstCase(np.float64(expectations[row]), weights[row], np.float64(lower_bounds[row]))  # type: ignore[arg-type]
    return Choice(winner, worst_case, weights)
