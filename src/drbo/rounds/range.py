"""Contexts between the atoms: where the adversary would want to be, and what is certain about the rest of the range.

On a continuous range of contexts the worst distribution is found by adding contexts to a finite set of atoms:

    1. Solve the adversary on the atoms. Its dual (`AmbiguitySet.dual`) prices every other context: c lowers the worst
       case only if v(c) < threshold(c).
    2. Search the range for contexts far below their threshold: from well-spread points, then downhill.
    3. Add them, without weight in the reference, and repeat until none is left.

What a local search cannot tell is that there is no worse context anywhere. Branch and bound can: the range is cut into
cells, in each of which v and the threshold are bounded by what they are at the centre (`Curve.lowest`).
The least of v - threshold over all cells, times the mass that could move there, is what the certificate of the atoms
must be lowered by to hold for every distribution on the range.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from drbo.ambiguity import AmbiguitySet, Dual, WorstCase
from drbo.models.gp import Curve
from drbo.spaces.box import Box
from drbo.validation import FloatArray

TOLERANCE = 1e-3
"""A context counts as harmful from this share of the range of the values on."""
_ROUNDS = 20
"""How often contexts are added at most."""
_CANDIDATES = 256
_DESCENTS = 4
"""How many of the best candidates are followed downhill, which is the most contexts that one round adds."""
CELLS = 4096
"""How many contexts branch and bound may evaluate."""
_AT_ONCE = 128


@dataclass(frozen=True, eq=False)
class Refined:
    """The worst case over a continuous range of contexts.

    Attributes
    ----------
    further : (k, d) the contexts that were added to the atoms
    worst_case : on the atoms and these; feasible, so its expectation bounds the worst case over the range from above
    lower_bound : no distribution on the range does worse than this
    """

    further: FloatArray
    worst_case: WorstCase
    lower_bound: float


def refine(
    curve: Curve,
    atoms: FloatArray,
    reference: FloatArray,
    radius: float,
    box: Box,
    family: Callable[[FloatArray], AmbiguitySet],
    seed: int,
    *,
    certify: bool = True,
) -> Refined:
    """Return the worst case of a curve over all distributions on a box of contexts.

    Parameters
    ----------
    curve : the values v(c), as functions of the context
    atoms : (n, d) the contexts to begin with
    reference, radius : (n,) and the radius of the set
    box : the range of the contexts
    family : the function from contexts to the ambiguity set on them
    seed : of the points that the search begins with
    certify : whether the lower bound is for the whole range; otherwise it is for the contexts found
    """
    points, p, values = atoms, reference, curve(atoms)
    candidates = box.sample(_CANDIDATES, seed)
    candidate_values = curve(candidates)
    for left in reversed(range(_ROUNDS)):
        ambiguity = family(points)
        worst = ambiguity.worst_case(values, p, radius)
        dual = ambiguity.dual(values, p, radius)
        bound = float(worst.lower_bound)
        if dual is None:
            break
        tolerance = TOLERANCE * float(np.ptp(values))
        found = points[:0]
        if left:
            starts, levels = np.concatenate([points, candidates]), np.append(values, candidate_values)
            found = _apart(_harmful(curve, dual, box, starts, levels, tolerance), points)
        if certify and not len(found):
            lowest, where = _lowest(curve, dual, box, tolerance)
            bound = min(dual.bound + dual.share * min(lowest, 0.0), float(worst.expectation))
            found = _apart(where, points) if left else found
        if not len(found):
            break
        points, values = np.concatenate([points, found]), np.append(values, curve(found))
        p = np.append(p, np.zeros(len(found)))
    return Refined(points[len(atoms) :], worst, bound)


def best_context(
    worth: Callable[[FloatArray], FloatArray], atoms: FloatArray, box: Box, tie: float, seed: int
) -> FloatArray:
    """Return the context (d,) of a box that is worth most: the first atom, unless another is better by `tie`."""

    def loss(c: FloatArray) -> FloatArray:
        return -worth(c)

    starts = np.concatenate([atoms, box.sample(_CANDIDATES, seed)])
    values = loss(starts)
    best = int(np.argmax(values <= values.min() + tie))
    points, lower = _downhill(loss, starts[np.argsort(values)[:_DESCENTS]], box)
    i = int(np.argmin(lower))
    return np.asarray(points[i] if lower[i] < values[best] - tie else starts[best])


def _harmful(
    curve: Curve, dual: Dual, box: Box, starts: FloatArray, values: FloatArray, tolerance: float
) -> FloatArray:
    """Return contexts (k, d) below their threshold by more than the tolerance, the most harmful first.

    The search is from the best of the starts (m, d), whose values (m,) are known.
    """

    def threshold(c: FloatArray) -> FloatArray:
        return dual.threshold(c, np.zeros_like(c))[0]

    first = np.argsort(values - threshold(starts), kind="stable")
    chosen = _apart(starts[first[: 16 * _DESCENTS]], starts[:0], 0.05)[:_DESCENTS]
    found, excess = _downhill(lambda c: curve(c) - threshold(c), chosen, box)
    order = np.argsort(excess, kind="stable")
    return found[order[excess[order] < -tolerance]]


def _apart(candidates: FloatArray, taken: FloatArray, distance: float = 1e-4) -> FloatArray:
    """Return the candidates that differ from those taken and from each other by `distance` in some coordinate."""
    chosen: list[int] = []
    between = cdist(candidates, candidates, "chebyshev") >= distance
    for i in np.flatnonzero((cdist(candidates, taken, "chebyshev") >= distance).all(axis=1)):
        if between[i, chosen].all():
            chosen.append(int(i))
    return candidates[chosen]


def _downhill(
    function: Callable[[FloatArray], FloatArray], starts: FloatArray, box: Box
) -> tuple[FloatArray, FloatArray]:
    """Return local minima (k, d) and their values (k,) near the starts: compass search, all starts at once.

    Each start tries a step along every free coordinate and takes the best one; if none is better the step is halved.
    """
    points, values = starts.copy(), function(starts)
    free = np.flatnonzero(box.continuous)
    steps = np.full(len(points), 0.05)
    directions = np.concatenate([np.eye(box.dimension)[free], -np.eye(box.dimension)[free]])
    for _ in range(60):
        moving = np.flatnonzero(steps > 1e-4)
        if not len(moving) or not len(free):
            break
        tried = np.clip(points[moving, None] + steps[moving, None, None] * directions, 0.0, 1.0)
        results = function(tried.reshape(-1, box.dimension)).reshape(len(moving), -1)
        best = np.argmin(results, axis=1)
        rows = np.arange(len(moving))
        better = results[rows, best] < values[moving]
        points[moving[better]] = tried[rows, best][better]
        values[moving[better]] = results[rows, best][better]
        steps[moving[~better]] /= 2.0
    return points, values


def _lowest(curve: Curve, dual: Dual, box: Box, tolerance: float) -> tuple[float, FloatArray]:
    """Return a lower bound of v - threshold over the box, at most zero, and the context found below -tolerance, if any.

    Cells are halved along the side that matters most, those of the lowest bound first, until no cell could be lower
    than the lowest value found by more than the tolerance, or CELLS have been looked at. Whole numbers and choices are
    cells of their own, unless there are too many: then they count as free.
    """
    parts = box.discrete_parts(CELLS // 4)
    exact = parts is not None
    free = box.continuous if exact else np.ones(box.dimension, dtype=bool)
    new = np.zeros((1, box.dimension)) if parts is None else parts
    new[:, free] = 0.5
    new_halves = np.tile(np.where(free, 0.5, 0.0), (len(new), 1))
    centres, halves, lower = new[:0], new_halves[:0], np.empty(0)
    below, where = np.inf, new[:0]  # the lowest v - threshold of a context
    weight = curve.steepness
    inherited = np.full(len(new), -np.inf)  # what is known of a cell from the one that it was cut from
    evaluated = 0
    while True:
        level, slope = dual.threshold(new, new_halves)
        bounds = np.maximum(curve.lowest(new, new_halves, slope) - level, inherited)
        if exact:
            excess = curve(new) - dual.threshold(new, np.zeros_like(new))[0]
            if excess.min() < below:
                below, where = float(excess.min()), new[[int(np.argmin(excess))]]
        centres, halves = np.concatenate([centres, new]), np.concatenate([halves, new_halves])
        lower = np.append(lower, bounds)
        evaluated += len(new)
        open_cells = np.flatnonzero(lower < min(below, 0.0) - tolerance)
        if evaluated >= CELLS or not len(open_cells) or not free.any():
            break
        cut = open_cells[np.argsort(lower[open_cells], kind="stable")[:_AT_ONCE]]
        sides = np.argmax(halves[cut] * weight, axis=1)
        rows = np.arange(len(cut))
        half = halves[cut].copy()
        half[rows, sides] /= 2.0
        shift = np.zeros_like(half)
        shift[rows, sides] = half[rows, sides]
        new = np.concatenate([centres[cut] - shift, centres[cut] + shift])
        new_halves, inherited = np.concatenate([half, half]), np.tile(lower[cut], 2)
        keep = np.delete(np.arange(len(lower)), cut)
        centres, halves, lower = centres[keep], halves[keep], lower[keep]
    return min(float(lower.min()), 0.0), where if below < -tolerance else where[:0]
