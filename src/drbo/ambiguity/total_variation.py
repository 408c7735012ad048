"""Total variation balls: the adversary replaces a share of the mass."""

from __future__ import annotations

import numpy as np

from drbo.ambiguity.divergence import MassDivergence, sum_before
from drbo.ambiguity.placed import NEXT, Dual, Growth, WorstCase, in_unit_range, reference_alone
from drbo.validation import FloatArray

__all__ = ["TotalVariation"]


class TotalVariation(MassDivergence):
    """All distributions within eps of the reference in total variation, TV(q, p) = 1/2 sum_i |q_i - p_i|.

    At most a share eps of the mass moves, to any context, also to one of zero reference weight.

    worst case = max_t  sum_i p_i min(v_i, t) - eps (t - min v),

    attained by moving the eps of mass with the highest values onto the lowest value. Radius 0 gives the expectation,
    radius 1 or more the minimum over all contexts. The distance is symmetric and at most 1.
    """

    growth = Growth(convex=True)
    instead_of_a_rule = (
        "Give the share of days that may be replaced as a number, such as radius=0.1; or use drbo.MMD() or "
        "drbo.Wasserstein(); or list the values: contexts=[...] or within=drbo.Box(name=drbo.Integer(low, high))."
    )

    def __repr__(self) -> str:
        return "TotalVariation()"

    def words(self, radius: float) -> str:
        """Return a description of the distributions in the set."""
        return f"that replaces at most {min(radius, 1.0):.1%} of the reference (total variation)"

    def dual(self, values: FloatArray, reference: FloatArray, radius: float, worst: WorstCase) -> Dual | None:
        """Return the dual point: a share eps of the mass moves to the lowest value, so lower values are worse."""
        if radius == 0.0:
            return None
        del reference
        bound = float(worst.lower_bound)
        lowest = float(values.min())

        def threshold(points: FloatArray, half: FloatArray) -> tuple[FloatArray, FloatArray]:
            del half
            return np.full(len(points), lowest), np.zeros_like(points)

        return Dual(bound, min(radius, 1.0), threshold)

    def slopes(self, values: FloatArray, reference: FloatArray, radius: float) -> FloatArray:
        """Return t - min v (m,): the next mass to move has the value t, the largest of the support at radius 0."""
        u, _, scale = in_unit_range(values)
        order = np.argsort(-u, axis=1)
        moved = np.count_nonzero(sum_before(reference[order]) < radius + NEXT, axis=1) - 1
        return np.asarray(scale * u[np.arange(len(u)), order[np.arange(len(u)), moved]])

    def _distance(self, p: FloatArray, q: FloatArray) -> float:
        return 0.5 * float(np.abs(p - q).sum())

    def _to_vertices(self, reference: FloatArray) -> FloatArray:
        return 1.0 - reference

    def _solve(self, values: FloatArray, reference: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        if radius == 0.0:
            return reference_alone(values, reference)
        u, lowest, scale = in_unit_range(values)
        p, eps = reference, min(radius, float(reference.sum()))
        order = np.argsort(-u, axis=1)
        highest_first = np.take_along_axis(u, order, axis=1)
        taken_before = sum_before(p[order])
        removed = np.where(highest_first > 0.0, np.clip(eps - taken_before, 0.0, p[order]), 0.0)
        weights = np.empty_like(values)
        np.put_along_axis(weights, order, p[order] - removed, axis=1)
        rows = np.arange(len(u))
        weights[rows, np.argmin(u, axis=1)] += removed.sum(axis=1)

        # <q, u> >= <q, min(u, t)> >= <p, min(u, t)> - eps t, as min(u, t) ranges over [0, t]; tight where removal ends.
        last_taken = np.count_nonzero(taken_before < eps, axis=1) - 1
        t = highest_first[rows, last_taken]
        dual = np.minimum(u, t[:, None]) @ p - eps * t
        return weights, lowest + scale * dual
