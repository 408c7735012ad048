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
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, overload

import numpy as np
from scipy.spatial.distance import cdist

from drbo.models.bounds import Bound
from drbo.models.curve import Curve
from drbo.models.estimate import Estimate, Values
from drbo.models.path import AnyDraw
from drbo.models.posterior import AnyPosterior
from drbo.rounds.ball import Ball, Certificate
from drbo.rounds.prices import Prices
from drbo.spaces.box import Box
from drbo.spaces.space import Point
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
class RangeBall(Ball):
    """All distributions within `radius` of `reference`, on the whole range of the contexts.

    Attributes
    ----------
    box : the range, whose unit cube has the coordinates of the contexts
    """

    box: Box

    @property
    def on_atoms(self) -> bool:
        """Whether the atoms are all there is: False."""
        return False

    def _hull(self) -> FloatArray:
        return self.space.measured(self.box.corners())

    def certificate(self, bound: Bound, action: Point) -> Certificate:
        """Return the worst case of a lower bound for one action, certified for the whole range."""
        return refine(self, bound.curve(action.coordinates), certify=True)

    def widened(self, bound: Estimate, action: Point, score: float) -> tuple[Self, float]:
        """Return the ball with the contexts that the adversary wants for one action, and the action's score in it."""
        del score
        refined = refine(self, bound.curve(action.coordinates), certify=False)
        return self.adopting(refined), float(refined.worst_case.expectation)

    def elsewhere(self) -> FloatArray:
        """Return contexts (k, d) all over the range."""
        return self.box.sample(_CANDIDATES, self.seed)

    def draw_of(self, posterior: AnyPosterior, rng: np.random.Generator) -> AnyDraw:
        """Return a draw of f, which is a function on the whole range."""
        return posterior.draw(rng, between=True)

    def adopting(self, certificate: Certificate) -> Self:
        """Return the ball with those further contexts of a certificate that carry weight in its worst case."""
        first = len(self.contexts)
        carrying = certificate.worst_case.weights[first:] > 0.0
        if not carrying.any():
            return self
        return self.extended(certificate.reference.points[first:][carrying])

    def best_context(
        self, at_atoms: FloatArray, worth: Callable[[], Callable[[FloatArray], FloatArray]], tie: float
    ) -> Point:
        """Return the context of the range that is worth most."""
        del at_atoms
        return Point(best_context(worth(), self.contexts, self.box, tie, self.seed))


@overload
def refine(ball: RangeBall, curve: Curve, *, certify: Literal[True]) -> Certificate: ...


@overload
def refine(ball: RangeBall, curve: Values, *, certify: Literal[False]) -> Certificate: ...


def refine(ball: RangeBall, curve: Any, *, certify: bool) -> Certificate:
    """Return the worst case of a curve over all distributions of a ball.

    `certify`: whether the lower bound is for the whole range; otherwise it is for the contexts found.
    """
    box, ambiguity, reference = ball.box, ball.ambiguity, ball.reference
    values = curve(reference.points)
    candidates = box.sample(_CANDIDATES, ball.seed)
    candidate_values = curve(candidates)
    for left in reversed(range(_ROUNDS)):
        worst = replace(ball, ambiguity=ambiguity, reference=reference).worst_case(values)
        dual = ambiguity.dual(values, reference.weights, ball.radius, worst)
        bound = float(worst.lower_bound)
        if dual is None:
            break
        prices = Prices(dual, ball.space)
        points = reference.points
        tolerance = TOLERANCE * float(np.ptp(values))
        found = points[:0]
        if left:
            starts, levels = np.concatenate([points, candidates]), np.append(values, candidate_values)
            found = _apart(_harmful(curve, prices, box, starts, levels, tolerance), points)
        if certify and not len(found):
            lowest, where = _lowest(curve, prices, box, tolerance)
            bound = min(dual.bound + dual.share * min(lowest, 0.0), float(worst.expectation))
            found = _apart(where, points) if left else found
        if not len(found):
            break
        values = np.append(values, curve(found))
        ambiguity, reference = ambiguity.extended(ball.space.measured(found)), reference.and_also(found)
    return Certificate(reference, worst, bound)


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
    curve: Values, prices: Prices, box: Box, starts: FloatArray, values: FloatArray, tolerance: float
) -> FloatArray:
    """Return contexts (k, d) below their threshold by more than the tolerance, the most harmful first.

    The search is from the best of the starts (m, d), whose values (m,) are known.
    """
    first = np.argsort(values - prices.at(starts), kind="stable")
    chosen = _apart(starts[first[: 16 * _DESCENTS]], starts[:0], 0.05)[:_DESCENTS]
    found, excess = _downhill(lambda c: curve(c) - prices.at(c), chosen, box)
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


def _lowest(curve: Curve, prices: Prices, box: Box, tolerance: float) -> tuple[float, FloatArray]:
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
        level, slope = prices.in_cells(new, new_halves)
        bounds = np.maximum(curve.lowest(new, new_halves, slope) - level, inherited)
        if exact:
            excess = curve(new) - prices.at(new)
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
