"""The worst case over a range where every context moves by at most the radius (`SupportsReach`).

Each context i of the reference has its own lowest value within reach:

    worst case = sum_i p_i min {v(c) : c in the range, D(c_i, c) <= eps}.

A search from the best known point in reach of each context finds these minima. One branch and bound certifies them
together: cells of the range are shared, and the bound of context i is the lowest one of the cells that it reaches.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from drbo.ambiguity.placed import SupportsReach
from drbo.contexts.nature import Reference
from drbo.models.curve import Curve
from drbo.models.surrogate import Values
from drbo.spaces.box import Box
from drbo.spaces.space import Space
from drbo.validation import FloatArray

_MOST = 16
"""Largest number of contexts that a search adds for one action; a certificate adds one per context that needs it."""
_RELABELLED = 4096
"""Largest number of candidates with other labels."""
_APART = 1e-3
"""Contexts closer than this, in shares of the range, count as one."""
_AT_ONCE = 128
_TOLERANCE = 1e-4
"""A gap of a certificate that is small enough, as a share of the range of the values."""


class Reach:
    """What the contexts of a reference reach in a set of a radius, within the range `box` of their space."""

    def __init__(self, ambiguity: SupportsReach, reference: Reference, radius: float, space: Space, box: Box) -> None:
        self._set, self._radius, self._space, self._box = ambiguity, radius, space, box
        self.sources = np.flatnonzero(reference.weights)
        self.shares = reference.weights[self.sources]
        self._from = reference.points[self.sources]

    def inside(self, points: FloatArray, halves: FloatArray | None = None) -> NDArray[np.bool_]:
        """Return whether each source reaches each point (m, d), or a part of each cell around it; (k, m)."""
        half = np.zeros_like(points) if halves is None else self._space.widths(halves)
        return self._set.reaches(self.sources, self._space.measured(points), half, self._radius) >= 0.0

    def relabelled(self) -> FloatArray:
        """Return the sources with all other values of their labels and whole numbers (j, d), if these are few.

        At a radius of exactly one step, no other point with another label is in reach.
        """
        free = self._box.continuous
        parts = None if free.all() else self._box.discrete_parts(_RELABELLED // len(self.sources))
        if parts is None:
            return self._from[:0]
        every = np.repeat(parts, len(self.sources), axis=0)
        every[:, free] = np.tile(self._from[:, free], (len(parts), 1))
        return every

    def lowest(self, curve: Values, points: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return low points (k, d) in reach of each source, and their values (k,), from known points (m, d)."""
        reached = np.where(self.inside(points), values, np.inf)
        first = np.argmin(reached, axis=1)
        found, lowest = points[first].copy(), reached[np.arange(len(first)), first]
        free = np.flatnonzero(self._box.continuous)
        steps = np.full(len(found), 0.1)
        directions = np.concatenate([np.eye(self._box.dimension)[free], -np.eye(self._box.dimension)[free]])
        for _ in range(60):
            moving = np.flatnonzero(steps > 1e-4)
            if not len(moving) or not len(free):
                break
            tried = np.clip(found[moving, None] + steps[moving, None, None] * directions, 0.0, 1.0)
            tried, reached = self._pulled(moving, tried, free)
            results = curve(tried.reshape(-1, self._box.dimension)).reshape(len(moving), -1)
            results = np.where(reached, results, np.inf)
            best, rows = np.argmin(results, axis=1), np.arange(len(moving))
            better = results[rows, best] < lowest[moving]
            found[moving[better]] = tried[rows, best][better]
            lowest[moving[better]] = results[rows, best][better]
            steps[moving[~better]] /= 2.0
        return found, lowest

    def _pulled(
        self, rows: NDArray[np.intp], tried: FloatArray, free: NDArray[np.intp]
    ) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Return points (k, m, d), pulled along the free coordinates to their sources, and whether these reach them."""
        pulled, zero = tried.copy(), np.zeros_like(tried[0])
        reached = np.ones(tried.shape[:2], dtype=bool)
        for k, row in enumerate(rows):

            def room(points: FloatArray, row: np.intp = row) -> FloatArray:
                measured = self._space.measured(points)
                return np.asarray(self._set.reaches(self.sources[[row]], measured, zero, self._radius)[0])

            left, start = room(tried[k]), self._from[row]
            reached[k] = left >= 0.0
            if reached[k].all():
                continue
            share = self._radius / (self._radius - left[~reached[k]]) * (1.0 - 1e-9)  # of the way to the point
            nearer = tried[k][~reached[k]]
            nearer[:, free] = start[free] + share[:, None] * (nearer[:, free] - start[free])
            pulled[k][~reached[k]] = nearer
            reached[k] = room(pulled[k]) >= 0.0
        return pulled, reached

    def certified(self, curve: Curve, lowest: FloatArray, span: float, most: int) -> tuple[float, FloatArray]:
        """Return a lower bound of the worst case, and lower points found on the way.

        `lowest` (k,) are values that the sources reach. At most `most` contexts are evaluated.
        """
        box, best = self._box, lowest.copy()
        parts = box.discrete_parts(most // 4)
        free = box.continuous if parts is not None else np.ones(box.dimension, dtype=bool)
        new = np.zeros((1, box.dimension)) if parts is None else parts
        new[:, free] = 0.5
        new_halves = np.tile(np.where(free, 0.5, 0.0), (len(new), 1))
        inherited = np.full(len(new), -np.inf)  # the bound of the parent cell
        centres, halves, lower = new[:0], new_halves[:0], np.empty(0)
        reached = np.zeros((len(self.sources), 0), dtype=bool)
        found, evaluated = [new[:0]], 0
        base = float(lowest.min())
        while True:
            bounds = np.maximum(curve.lowest(new, new_halves, np.zeros_like(new)), inherited)
            if parts is not None:
                at_centres = np.where(self.inside(new), curve(new), np.inf)
                where, low = np.argmin(at_centres, axis=1), at_centres.min(axis=1)
                found.append(new[np.unique(where[low < best - _TOLERANCE * span])])
                best = np.minimum(best, low)
            centres, halves = np.concatenate([centres, new]), np.concatenate([halves, new_halves])
            lower = np.append(lower, bounds)
            reached = np.concatenate([reached, self.inside(new, new_halves)], axis=1)
            evaluated += len(new)
            in_reach = np.where(reached, lower, np.inf)
            at, floor = np.argmin(in_reach, axis=1), np.minimum(in_reach.min(axis=1), best)
            gaps = self.shares * (best - floor)
            bound = min(base + float(self.shares @ (floor - base)), base + float(self.shares @ (best - base)))
            if evaluated >= most or gaps.sum() <= _TOLERANCE * span or not free.any():
                return bound, np.concatenate(found)
            worth = np.bincount(at, weights=gaps, minlength=len(lower))
            cut = np.argsort(-worth, kind="stable")[:_AT_ONCE]
            cut = cut[worth[cut] > 0.0]
            new, new_halves = cut_in_two(centres[cut], halves[cut], curve.steepness)
            inherited = np.tile(lower[cut], 2)
            keep = np.setdiff1d(np.arange(len(lower)), cut)
            centres, halves, lower, reached = centres[keep], halves[keep], lower[keep], reached[:, keep]


def cut_in_two(centres: FloatArray, halves: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return halves of cells |c - centre| <= half (m, d), (2 m, d), cut across the side of most length * weight."""
    rows, sides = np.arange(len(halves)), np.argmax(halves * weight, axis=1)
    half, shift = halves.copy(), np.zeros_like(halves)
    half[rows, sides] /= 2.0
    shift[rows, sides] = half[rows, sides]
    return np.concatenate([centres - shift, centres + shift]), np.concatenate([half, half])


def further_contexts(
    reach: Reach, curve: Values, points: FloatArray, values: FloatArray, candidates: FloatArray, *, every: bool
) -> FloatArray:
    """Return contexts (j, d) besides points (m, d) with values (m,) that the adversary wants; `every`: all of them."""
    candidates = np.concatenate([candidates, reach.relabelled()])
    known, known_values = np.concatenate([points, candidates]), np.append(values, curve(candidates))
    found, lowest = reach.lowest(curve, known, known_values)
    so_far = np.where(reach.inside(points), values, np.inf).min(axis=1)
    gain = so_far - lowest
    order = np.argsort(-reach.shares * gain, kind="stable")
    wanted = order[gain[order] > _TOLERANCE * float(np.ptp(values))]
    return distinct(found[wanted], points, None if every else _MOST)


def distinct(candidates: FloatArray, taken: FloatArray, most: int | None) -> FloatArray:
    """Return the first candidates (k, d) that are apart from those taken (m, d) and from each other."""
    chosen: list[FloatArray] = []
    for one in candidates:
        others = np.concatenate([taken, np.array(chosen).reshape(-1, len(one))])
        if (np.abs(others - one).max(axis=1) >= _APART).all():
            chosen.append(one)
        if most is not None and len(chosen) >= most:
            break
    return np.array(chosen).reshape(-1, candidates.shape[1])
