"""Wasserstein sets of order infinity: every day moves by at most the radius.

W_inf(q, p) is the least distance within which a plan moves p onto q. Each day goes to the worst context in its reach:

    worst case = sum_i p_i min {v_j : D_ij <= eps}.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from drbo._compiled import announce, in_order
from drbo.ambiguity._transport_solver import cheapest_plan
from drbo.ambiguity.metric import PlacedTransport, PointTransport
from drbo.ambiguity.placed import Dual, Growth, WorstCase, reference_alone
from drbo.validation import FloatArray

_BORDER = 1.0 + 1e-12
"""Tolerance for contexts at a distance of exactly the radius."""
_MASS = 1e-12
"""Mass that may travel further than a distance: the rounding error of sums of weights."""
_HALVINGS = 40
"""Number of bisections for the share of the mass that may move."""


@in_order
def lowest_in_reach(
    values: FloatArray, reference: FloatArray, sources: NDArray[np.int64], reach: NDArray[np.bool_]
) -> tuple[FloatArray, FloatArray]:
    """Return weights (m, n) and worst cases (m,): mass goes to the first of the lowest values in `reach` (k, n)."""
    m, n = values.shape
    weights, found = np.zeros((m, n)), np.empty(m)
    for row in range(m):
        order = np.argsort(values[row], kind="mergesort")
        lowest = values[row, order[0]]
        total = 0.0
        for k in range(sources.size):
            at = sources[k]  # in a tie mass stays
            for j in order:
                if values[row, j] >= values[row, at]:
                    break
                if reach[k, j]:
                    at = j
                    break
            mass = reference[sources[k]]
            weights[row, at] += mass
            total += mass * (values[row, at] - lowest)
        found[row] = lowest + total
    return weights, found


class PlacedEverywhere(PlacedTransport):
    """A Wasserstein set of order infinity for a matrix of distances D between n contexts."""

    growth = Growth(
        steps=True,
        never_learned="One outlier decides the largest distance between two samples, so the past says nothing about "
        "this radius: give a number, or use order=1 or 2",
    )

    def words(self, radius: float) -> str:
        return f"in which every day has moved by at most {radius:.3g} from the reference, in {self.metric.units}"

    def _solve(self, values: FloatArray, reference: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        if radius == 0.0:
            return reference_alone(values, reference)
        sources = np.flatnonzero(reference)
        announce(lowest_in_reach)
        weights, lowest = lowest_in_reach(values, reference, sources, self.cost[sources] <= _BORDER * radius)
        return weights, lowest

    def _to(self, reference: FloatArray, cost: FloatArray) -> FloatArray:
        order = np.argsort(-cost, axis=0, kind="stable")
        far = np.cumsum(reference[order], axis=0) > _MASS  # the mass from the furthest contexts on
        first = np.argmax(far, axis=0)
        return np.asarray(np.take_along_axis(cost, order, axis=0)[first, np.arange(cost.shape[1])])

    def _distance(self, p: FloatArray, q: FloatArray) -> float:
        """Return the least distance within which a plan moves q onto p: a bisection over the distances."""
        steps = np.unique(self.cost)
        low, high = 0, len(steps) - 1
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._reachable(p, q, float(steps[middle])) else (middle + 1, high)
        return float(steps[low])

    def _reachable(self, p: FloatArray, q: FloatArray, distance: float) -> bool:
        """Return whether a plan moves q onto p without moving mass further than a distance."""
        announce(cheapest_plan)
        further = (self.cost > _BORDER * distance).astype(float)
        return float(cheapest_plan(q, p, further, False)) <= _MASS


class PointEverywhere(PointTransport, PlacedEverywhere):
    """A Wasserstein set of order infinity of points with known positions."""

    def reaches(self, sources: NDArray[np.intp], points: FloatArray, half: FloatArray, radius: float) -> FloatArray:
        """Return how far within the radius each cell |c - point| <= half (m, d) begins, per source (k, m)."""
        way = self._positions.to(points, sources) - self._positions.lengths(half)
        return np.asarray(_BORDER * radius - np.maximum(way, 0.0))

    def dual(self, values: FloatArray, reference: FloatArray, radius: float, worst: WorstCase) -> Dual | None:
        """Return the dual: threshold(c) = max {m_i : D(c_i, c) <= eps}, m_i the lowest value in reach of context i."""
        if radius == 0.0:
            return None
        sources = np.flatnonzero(reference)
        lowest = np.where(self.cost[sources] <= _BORDER * radius, values, np.inf).min(axis=1)

        def threshold(points: FloatArray, half: FloatArray) -> tuple[FloatArray, FloatArray]:
            inside = self.reaches(sources, points, half, radius) >= 0.0
            return np.where(inside, lowest[:, None], -np.inf).max(axis=0), np.zeros_like(points)

        return Dual(float(worst.lower_bound), 1.0, threshold)

    def shares_inside(self, reference: FloatArray, points: FloatArray, radius: float) -> tuple[float, float] | None:
        """Return the shares of the mass that may move: an interval from 0 on, as the set is convex."""
        if self.moved(reference, points) <= _BORDER * radius:
            return 0.0, 1.0
        p, both = self._positions.both(reference, points)
        placed, start = PointEverywhere(self.metric, both), np.append(p, np.zeros(len(p)))
        inside, outside = 0.0, 1.0
        for _ in range(_HALVINGS):
            share = 0.5 * (inside + outside)
            mixed = np.append((1.0 - share) * p, share * p)
            inside, outside = (share, outside) if placed._reachable(mixed, start, radius) else (inside, share)
        return 0.0, inside if inside > 1e-6 else 0.0
