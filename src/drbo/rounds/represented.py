"""Samples that a few atoms stand for: a certificate on the atoms, made to hold for the samples themselves.

Compression bounds the MMD between the samples and the weighted atoms, and that bound is added to the radius. So the
samples' own distribution lies in the ball, but it lives on contexts that are no atoms, and the worst case on the atoms
says nothing of what f does between them. The dual of the set prices every other context:

    no distribution on atoms and samples does worse than  bound + share * min(0, min_i v(c_i) - threshold(c_i)).

The minimum is over all samples, of which there may be many. They are sorted into cells; a bound over a whole cell
(`Curve.lowest`) rules most of them out, and only the samples of the other cells are evaluated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drbo._threads import one_thread
from drbo.models.bounds import Bound
from drbo.models.curve import Curve
from drbo.rounds.ball import Ball, Certificate
from drbo.rounds.prices import Prices
from drbo.spaces.space import Point
from drbo.validation import FloatArray

_CELL = 64
"""How many samples a cell holds at most."""
_AT_ONCE = 64
"""How many cells are bounded at once."""


@dataclass(frozen=True, eq=False)
class RepresentedBall(Ball):
    """All distributions within `radius` of `reference`, on its atoms and on the samples that these stand for."""

    def certificate(self, bound: Bound, action: Point) -> Certificate:
        """Return the worst case of a lower bound on the atoms, with a bound that holds on the samples, too."""
        made = super().certificate(bound, action)
        values = bound.of_action(action)
        dual = self.ambiguity.dual(values, self.weights, self.radius, made.worst_case)
        if dual is None:
            return made
        with one_thread():
            lowest = lowest_excess(
                bound.curve(action.coordinates), Prices(dual, self.space), self.reference.represented
            )
        limit = dual.bound + dual.share * min(lowest, 0.0)
        return Certificate(made.reference, made.worst_case, min(limit, made.lower_bound))


def lowest_excess(curve: Curve, prices: Prices, samples: FloatArray) -> float:
    """Return the least v(c) - threshold(c) over samples (n, d), or zero if none is below zero, exactly."""
    cells = _cells(samples)
    centres = np.array([0.5 * (samples[rows].min(axis=0) + samples[rows].max(axis=0)) for rows in cells])
    halves = np.array([0.5 * np.ptp(samples[rows], axis=0) for rows in cells])
    halves += 4.0 * np.finfo(float).eps * (1.0 + np.abs(centres))
    floors = np.empty(len(cells))
    for first in range(0, len(cells), _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        level, slope = prices.in_cells(centres[some], halves[some])
        floors[some] = curve.lowest(centres[some], halves[some], slope) - level
    lowest = 0.0
    for i in np.argsort(floors):
        if floors[i] >= lowest:
            break
        points = samples[cells[i]]
        lowest = min(lowest, float((curve(points) - prices.at(points)).min()))
    return lowest


def _cells(samples: FloatArray) -> list[NDArray[np.intp]]:
    """Return the rows of the samples in cells of at most `_CELL`, each half of a larger one cut at its widest side."""
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
