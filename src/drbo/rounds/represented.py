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
_ROUNDS = 12
"""How often samples become atoms at most."""
_HARMFUL = 8
"""How many samples become atoms at once at most."""
TOLERANCE = 1e-3
"""What is left may do harm up to this share of the range of the values."""


@dataclass(frozen=True, eq=False)
class RepresentedBall(Ball):
    """All distributions within `radius` of `reference`, on its atoms and on the samples that these stand for."""

    @property
    def on_atoms(self) -> bool:
        """Whether the atoms are all there is: False."""
        return False

    def _hull(self) -> FloatArray:
        return self.space.measured(self.reference.represented)

    def certificate(self, bound: Bound, action: Point) -> Certificate:
        """Return the worst case of a lower bound, certified on the samples, too.

        The samples that do most harm become atoms, and the worst case is solved again, until the rest does little.
        """
        curve, samples = bound.curve(action.coordinates), self.reference.represented
        ball: Ball = self
        values = bound.of_action(action)
        for left in reversed(range(_ROUNDS)):
            worst = ball.worst_case(values)
            limit = float(worst.lower_bound)
            dual = ball.ambiguity.dual(values, ball.weights, self.radius, worst)
            if dual is None:
                break
            lowest, harmful = lowest_excess(curve, Prices(dual, self.space), samples)
            limit = min(dual.bound + dual.share * min(lowest, 0.0), limit)
            if not left or lowest > -TOLERANCE * float(np.ptp(values)):
                break
            further = samples[harmful]
            ball = ball.extended(further)
            values = np.append(values, curve(further))
        return Certificate(ball.reference, worst, limit)


def lowest_excess(curve: Curve, prices: Prices, samples: FloatArray) -> tuple[float, NDArray[np.intp]]:
    """Return the least v(c) - threshold(c) over samples (n, d), or zero if none is below zero, exactly.

    And the samples that are lowest, one per cell, at most `_HARMFUL` of them.
    """
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
    found: list[tuple[float, int]] = []
    for i in np.argsort(floors):
        if floors[i] >= lowest:
            break
        points = samples[cells[i]]
        excess = curve(points) - prices.at(points)
        at = int(np.argmin(excess))
        lowest = min(lowest, float(excess[at]))
        found.append((float(excess[at]), int(cells[i][at])))
    harmful = [row for excess, row in sorted(found) if excess < 0.0][:_HARMFUL]
    return lowest, np.array(harmful, dtype=np.intp)


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
