"""Certificates for contexts beyond the atoms: samples represented by a few atoms, and ranges of contexts.

Compression bounds the MMD between the samples and the weighted atoms, and this bound is added to the radius. So the
samples' own distribution lies in the ball. But some of its contexts are not atoms, and the worst case on the atoms says
nothing about f between them. The dual of the set prices every other context:

    no distribution on atoms and samples does worse than  bound + share * min(0, min_i v(c_i) - threshold(c_i)).

The minimum is over all samples, which may be many. They are sorted into cells. A bound over a whole cell
(`Curve.lowest`) rules most cells out, and only the samples of the remaining cells are evaluated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, cast, overload

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from drbo._fast_record import fast_record
from drbo.ambiguity.placed import PlacedSet, SupportsReach, on_range, supports
from drbo.contexts.nature import Reference
from drbo.models.bounds import Bound
from drbo.models.curve import Curve
from drbo.models.surrogate import AnyCurve, AnyDraw, Estimate, SupportsDraws, Values
from drbo.rounds.ball import Ball, Certificate, Prices
from drbo.rounds.reach import Reach, cut_in_two, distinct, further_contexts
from drbo.spaces.box import Box
from drbo.spaces.space import Point, Space
from drbo.validation import FloatArray

_CELL = 64
"""Largest number of samples per cell."""
_CELLS_AT_ONCE = 64
"""Number of cells that are bounded in one batch."""
_SAMPLE_ROUNDS = 12
"""Largest number of rounds in which samples become atoms."""
_HARMFUL = 8
"""Largest number of samples that become atoms in one round."""
_HARM = 1e-3
"""Largest remaining loss by other samples, as a share of the range of the values."""


@fast_record
class RepresentedBall(Ball):
    """All distributions within `radius` of `reference`, on its atoms and on the samples that they represent."""

    on_atoms = False

    def _hull(self) -> FloatArray:
        return self.space.measured(self.reference.represented)

    def certificate(self, bound: Bound, action: Point) -> Certificate:
        """Return the worst case of a lower bound, certified for the samples, too.

        The most harmful samples become atoms, and the worst case is solved again, until the remaining loss is small.
        """
        curve, samples = bound.curve(action.coordinates), self.reference.represented
        in_cells = Sorted.of(curve, samples)
        ball: Ball = self
        values = bound.of_action(action)
        for left in reversed(range(_SAMPLE_ROUNDS)):
            worst = ball.worst_case(values)
            limit = float(worst.lower_bound)
            dual = on_range(ball.ambiguity).dual(values, ball.weights, self.radius, worst)
            if dual is None:
                break
            lowest, harmful = in_cells.lowest_excess(Prices(dual, self.space))
            limit = min(dual.bound + dual.share * min(lowest, 0.0), limit)
            if not left or lowest > -_HARM * float(np.ptp(values)):
                break
            further = samples[harmful]
            ball = ball.extended(further)
            values = np.append(values, curve(further))
        return Certificate(ball.reference, worst, limit)


@dataclass(frozen=True, eq=False)
class Sorted:
    """A curve on samples (n, d) that are sorted into cells with boxes around them (k, d); values are computed once."""

    curve: AnyCurve
    samples: FloatArray
    cells: list[NDArray[np.intp]]
    centres: FloatArray
    halves: FloatArray
    _values: dict[int, FloatArray] = field(default_factory=dict)  # cache by cell

    @classmethod
    def of(cls, curve: AnyCurve, samples: FloatArray) -> Sorted:
        """Return a curve on sorted samples (n, d)."""
        cells = _cells(samples)
        centres = np.array([0.5 * (samples[rows].min(axis=0) + samples[rows].max(axis=0)) for rows in cells])
        halves = np.array([0.5 * np.ptp(samples[rows], axis=0) for rows in cells])
        return cls(curve, samples, cells, centres, halves + 4.0 * np.finfo(float).eps * (1.0 + np.abs(centres)))

    def lowest_excess(self, prices: Prices) -> tuple[float, NDArray[np.intp]]:
        """Return the exact minimum of v(c) - threshold(c) over the samples, at most zero, and the lowest samples."""
        floors = np.empty(len(self.cells))
        for first in range(0, len(self.cells), _CELLS_AT_ONCE):
            some = slice(first, first + _CELLS_AT_ONCE)
            centres, halves = self.centres[some], self.halves[some]
            level, slope = prices.in_cells(centres, halves)
            floors[some] = self.curve.lowest(centres, halves, slope) - level
        lowest = 0.0
        found: list[tuple[float, int]] = []
        for i in np.argsort(floors).tolist():
            if floors[i] >= lowest:
                break
            rows = self.cells[i]
            excess = self._values_in(i) - prices.at(self.samples[rows])
            at = int(np.argmin(excess))
            lowest = min(lowest, float(excess[at]))
            found.append((float(excess[at]), int(rows[at])))
        harmful = [row for excess, row in sorted(found) if excess < 0.0][:_HARMFUL]
        return lowest, np.array(harmful, dtype=np.intp)

    def _values_in(self, cell: int) -> FloatArray:
        """Return the values of the curve at the samples of a cell."""
        if cell not in self._values:
            self._values[cell] = self.curve(self.samples[self.cells[cell]])
        return self._values[cell]


def _cells(samples: FloatArray) -> list[NDArray[np.intp]]:
    """Return the rows of the samples in cells of at most `_CELL`, by repeated halving along the widest side."""
    whole, cells = [np.arange(len(samples))], []
    while whole:
        rows = whole.pop()
        if len(rows) <= _CELL:
            cells.append(rows)
            continue
        side = int(np.argmax(np.ptp(samples[rows], axis=0)))
        order = rows[np.argsort(samples[rows, side], kind="stable")]
        whole += [order[: len(order) // 2], order[len(order) // 2 :]]
    return cells


TOLERANCE = 1e-3
"""A context is harmful if its loss exceeds this share of the range of the values."""
_ROUNDS = 20
"""Largest number of rounds in which contexts are added."""
_CANDIDATES = 256
_PROBES = 64
"""Number of contexts of a range, besides its corners, at which a cliff is looked for."""
_DESCENTS = 4
"""Number of best candidates that are minimised locally: the largest number of contexts added per round."""
CELLS = 4096
"""Largest number of contexts that branch and bound evaluates."""
_AT_ONCE = 128


@fast_record
class RangeBall(Ball):
    """All distributions within `radius` of `reference` on the whole range of the contexts, the cube of `box`."""

    box: Box
    on_atoms = False

    def _hull(self) -> FloatArray:
        return self.space.measured(self.box.corners())

    def certificate(self, bound: Bound, action: Point) -> Certificate:
        return refine(self, cast(Curve, bound.curve(action.coordinates)), certify=True)

    def widened(self, bound: Estimate, action: Point, score: float) -> tuple[Self, float]:
        del score
        refined = refine(self, bound.curve(action.coordinates), certify=False)
        return self.adopting(refined), float(refined.worst_case.expectation)

    def elsewhere(self) -> FloatArray:
        return self.box.sample(_CANDIDATES, self.seed)

    def probes(self) -> FloatArray:
        corners, spread = self.box.corners(), self.box.sample(_PROBES, 0)
        return np.concatenate([corners, spread]) if len(corners) <= _PROBES else spread

    def draw_of(self, posterior: SupportsDraws, rng: np.random.Generator) -> AnyDraw:
        return posterior.draw(rng, between=True)

    def adopting(self, certificate: Certificate) -> Self:
        first = len(self.contexts)
        carrying = certificate.worst_case.weights[first:] > 0.0
        if not carrying.any():
            return self
        return self.extended(certificate.reference.points[first:][carrying])

    def best_context(
        self, at_atoms: FloatArray, worth: Callable[[], Callable[[FloatArray], FloatArray]], tie: float
    ) -> Point:
        del at_atoms
        return Point(best_context(worth(), self.contexts, self.box, tie, self.seed))


@overload
def refine(ball: RangeBall, curve: Curve, *, certify: Literal[True]) -> Certificate: ...


@overload
def refine(ball: RangeBall, curve: Values, *, certify: Literal[False]) -> Certificate: ...


def refine(ball: RangeBall, curve: Any, *, certify: bool) -> Certificate:
    """Return the worst case of a curve over all distributions of a ball; `certify`: for the whole range."""
    if ball.radius > 0.0 and supports(ball.ambiguity, SupportsReach):
        return _refine_each(ball, ball.ambiguity, curve, certify)
    box, ambiguity, reference = ball.box, ball.ambiguity, ball.reference
    values = curve(reference.points)
    candidates = box.sample(_CANDIDATES, ball.seed)
    candidate_values = curve(candidates)
    for left in reversed(range(_ROUNDS)):
        worst = replace(ball, ambiguity=ambiguity, reference=reference).worst_case(values)
        dual = on_range(ambiguity).dual(values, reference.weights, ball.radius, worst)
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
        ambiguity, reference = on_range(ambiguity).extended(ball.space.measured(found)), reference.and_also(found)
    return Certificate(reference, worst, bound)


def _refine_each(ball: RangeBall, ambiguity: SupportsReach, curve: Any, certify: bool) -> Certificate:
    """Return the worst case of a curve where every context moves by at most the radius (`drbo.rounds.reach`)."""
    reach = Reach(ambiguity, ball.reference, ball.radius, ball.space, ball.box)
    candidates, wider = ball.box.sample(_CANDIDATES, ball.seed), ball
    values = curve(ball.contexts)
    further = further_contexts(reach, curve, ball.contexts, values, candidates, every=certify)
    wider, values = ball.extended(further), np.append(values, curve(further))
    worst = wider.worst_case(values)
    if not certify:
        return Certificate(wider.reference, worst, float(worst.lower_bound))
    lowest = np.where(reach.inside(wider.contexts), values, np.inf).min(axis=1)
    bound, missed = reach.certified(curve, lowest, float(np.ptp(values)), CELLS)
    missed = distinct(missed, wider.contexts, None)
    if len(missed):
        wider, values = wider.extended(missed), np.append(values, curve(missed))
        worst = wider.worst_case(values)
    return Certificate(wider.reference, worst, min(bound, float(worst.expectation)))


def best_context(
    worth: Callable[[FloatArray], FloatArray], atoms: FloatArray, box: Box, tie: float, seed: int
) -> FloatArray:
    """Return the context (d,) of a box with the largest worth: the first atom, unless another is better by `tie`."""

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
    """Return contexts (k, d) below their threshold, the most harmful first; the search begins at the best starts."""
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

    Each start tries a step along every continuous coordinate and takes the best; if none improves, the step is halved.
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
    """Return a lower bound of v - threshold over the box, at most zero, and the context below -tolerance, if found.

    Cells are halved along the most important side, lowest bound first, until no cell can be lower than the lowest
    value found by more than the tolerance, or CELLS have been evaluated. Discrete values are separate cells, unless
    there are too many: then they are treated as continuous.
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
    inherited = np.full(len(new), -np.inf)  # the bound of the parent cell
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
        new, new_halves = cut_in_two(centres[cut], halves[cut], weight)
        inherited = np.tile(lower[cut], 2)
        keep = np.delete(np.arange(len(lower)), cut)
        centres, halves, lower = centres[keep], halves[keep], lower[keep]
    return min(float(lower.min()), 0.0), where if below < -tolerance else where[:0]


def make_ball(
    ambiguity: PlacedSet, reference: Reference, radius: float, space: Space, seed: int, box: Box | None
) -> Ball:
    """Return the ball of a round; `box` is the range of the contexts, if they have one."""
    if box is not None:
        return RangeBall(ambiguity, reference, radius, space, seed, box)
    kind = RepresentedBall if len(reference.represented) else Ball
    return kind(ambiguity, reference, radius, space, seed)
