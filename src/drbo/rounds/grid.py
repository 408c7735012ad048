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
from numpy.typing import NDArray

from drbo._compiled import jit
from drbo.ambiguity import AmbiguitySet, WorstCase
from drbo.validation import FloatArray

TIE = 1e-10
"""Scores closer than this share of the values' range are a tie, and the first one wins: no choice hangs on rounding."""
_ROUNDING = 1e-13
_FIRST = 2
"""How many actions are solved before anything is ruled out: a call costs more than a second solve."""


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

    Values (n_actions, n_contexts) and reference are known to be valid; only their sizes are checked, as compiled code
    checks none. `feasible` (k, n_contexts): distributions known to lie in the set, such as last round's worst cases;
    they only save work.
    """
    _check_sizes(values, ambiguity, reference, feasible)
    lowest, highest = values.min(axis=1), float(values.max())
    span = highest - float(lowest.min())
    rounding = _ROUNDING * span + 16.0 * np.finfo(float).eps * max(abs(highest), abs(highest - span))
    tie = TIE * span + rounding
    bounds = np.full(len(values), np.inf)
    scores = np.full(len(values), -np.inf)
    if feasible is not None:
        _tighten(bounds, values, lowest, feasible)
    guess = np.minimum(bounds, values @ reference)
    candidates = np.argsort(-guess, kind="stable")[:_FIRST]
    visited: list[int] = []
    solved = []
    while len(candidates):
        worst = ambiguity._worst_case(values[candidates], reference, radius)
        visited.extend(candidates.tolist())
        solved.append(worst)
        scores[candidates] = worst.expectation
        _tighten(bounds, values, lowest, worst.weights)
        winner, candidates = _rivals(bounds, scores, tie, rounding)
        if len(candidates) > len(visited):  # the most promising ones, as many again as are known
            order = np.argpartition(-bounds[candidates], len(visited))
            candidates = candidates[order[: len(visited)]]
    row = visited.index(winner)
    weights = np.concatenate([worst.weights for worst in solved])
    lower_bound = np.concatenate([worst.lower_bound for worst in solved])[row]
    return Choice(winner, WorstCase(scores[winner], weights[row], lower_bound), weights)


def _check_sizes(
    values: FloatArray, ambiguity: AmbiguitySet, reference: FloatArray, feasible: FloatArray | None
) -> None:
    """Raise a ValueError unless all speak of the same number of contexts."""
    if values.ndim != 2:
        raise ValueError(f"values must have 2 dimensions, got shape {values.shape}")
    n = values.shape[1]
    if ambiguity.n_contexts is not None and n != ambiguity.n_contexts:
        expected = f"one column for each of the {ambiguity.n_contexts} contexts of the set"
        raise ValueError(f"values must have {expected}, got shape {values.shape}")
    if reference.shape != (n,):
        raise ValueError(f"reference must have shape ({n},) to match values, got {reference.shape}")
    if feasible is not None and feasible.shape[1:] != (n,):
        raise ValueError(f"feasible must have shape (k, {n}) to match values, got {feasible.shape}")


@jit
def _tighten(bounds: FloatArray, values: FloatArray, lowest: FloatArray, weights: FloatArray) -> None:
    """Lower the bound of every action to its expectation under each row of weights, counted as a score is."""
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
