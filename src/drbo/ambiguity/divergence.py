"""Sets that compare only weights, not positions: their common base, `Expectation`, `TotalVariation` and `CVaR`."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Self

import numpy as np

from drbo.ambiguity.family import AmbiguitySet
from drbo.ambiguity.placed import NEXT, Dual, Growth, PlacedSet, WorstCase, in_unit_range, reference_alone
from drbo.validation import FloatArray

__all__ = ["CVaR", "Expectation", "TotalVariation"]


class Divergence(PlacedSet, AmbiguitySet):
    """A set that compares only weights: it is the same on all contexts, so it is its own placed set.

    A new divergence is a subclass with `_distance` and `_solve`. Optional capabilities are in `drbo.ambiguity.placed`.
    """

    n_contexts = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @property
    def placed(self) -> Self:
        return self

    def extended(self, further: FloatArray) -> Self:
        """Return the set itself, for further contexts; contexts with a range also need a `dual`."""
        del further
        return self

    def _place(self, points: FloatArray, scales: FloatArray) -> Self:
        del points, scales
        return self


class MassDivergence(Divergence):
    """A divergence in which only the mass of an event counts, not the number of its contexts."""

    def most_likely(self, radius: float, share: float) -> float:
        """Return the largest probability in the set of an event whose reference probability is `share`."""
        return -float(self.worst_case([-1.0, 0.0], [share, 1.0 - share], radius).expectation)


class Expectation(Divergence):
    """The set with the reference alone, for any radius: stochastic optimization.

    worst case = sum_i p_i v_i,  distance(p, q) = 0 if p = q, else inf.
    """

    growth = Growth(matters=False, convex=True)

    def words(self, radius: float) -> str:
        del radius
        return "that is the reference itself"

    @property
    def everything(self) -> str:
        return "the reference itself"

    def dual(self, values: FloatArray, reference: FloatArray, radius: float, worst: WorstCase) -> None:
        """Return None: the reference is the only distribution."""
        del values, reference, radius, worst

    def slopes(self, values: FloatArray, reference: FloatArray, radius: float) -> FloatArray:
        """Return zeros (m,): the radius does not matter."""
        del reference, radius
        return np.zeros(len(values))

    def _distance(self, p: FloatArray, q: FloatArray) -> float:
        return 0.0 if np.array_equal(p, q) else math.inf

    def _to_vertices(self, reference: FloatArray) -> FloatArray:
        return np.where(reference == 1.0, 0.0, np.inf)

    def _solve(self, values: FloatArray, reference: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        del radius
        return reference_alone(values, reference)


class OnSupport(MassDivergence):
    """A set on the reference's support that collapses onto the lowest value at some radius."""

    def dual(self, values: FloatArray, reference: FloatArray, radius: float, worst: WorstCase) -> None:
        """Return None: no further context is on the support."""
        del values, reference, radius, worst

    @property
    def everything(self) -> str:
        return "every distribution on the contexts that the reference shows"

    def _distance(self, p: FloatArray, q: FloatArray) -> float:
        support = q > 0.0
        return math.inf if np.any(p[~support] > 0.0) else self._on_support(p[support], q[support])

    def _to_vertices(self, reference: FloatArray) -> FloatArray:
        distances = np.full(len(reference), np.inf)
        support = reference > 0.0
        distances[support] = self._collapse(reference[support], float(reference.sum()))
        return distances

    def _solve(self, values: FloatArray, reference: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        if radius == 0.0:
            return reference_alone(values, reference)
        support = reference > 0.0
        p = reference[support]
        mass = float(p.sum())
        u, lowest, scale = in_unit_range(values[:, support])

        on_lowest = np.where(u == 0.0, p, 0.0)
        mass_lowest = on_lowest.sum(axis=1)
        flat = (u == 0.0).all(axis=1)
        moved = np.where(flat[:, None], p, on_lowest / mass_lowest[:, None] * mass)
        dual = np.zeros(len(u))
        inside = ~flat & (radius < self._collapse(mass_lowest, mass))
        if inside.any():
            moved[inside], dual[inside] = self._interior(u[inside], p, radius)

        weights = np.zeros_like(values)
        weights[:, support] = moved
        # `expectations` counts from the minimum over all contexts: the second term corrects for a mass other than 1.
        base = lowest + (mass - 1.0) * (lowest - values.min(axis=1))
        return weights, base + scale * dual

    def slopes(self, values: FloatArray, reference: FloatArray, radius: float) -> FloatArray:
        """Return the sensitivities (m,): zero from the radius at which all mass is on the lowest value."""
        p = reference[reference > 0.0]
        u, _, scale = in_unit_range(values[:, reference > 0.0])
        mass_lowest = np.where(u == 0.0, p, 0.0).sum(axis=1)
        inside = ~(u == 0.0).all(axis=1) & (radius < self._collapse(mass_lowest, float(p.sum())))
        found = np.zeros(len(u))
        if inside.any():
            found[inside] = self._slopes(u[inside], p, radius)
        return np.asarray(scale * found)

    @abstractmethod
    def _on_support(self, moved: FloatArray, reference: FloatArray) -> float:
        """Return the distance of weights (k,) from positive weights (k,) of a reference."""

    @abstractmethod
    def _slopes(self, u: FloatArray, p: FloatArray, radius: float) -> FloatArray:
        """Return the sensitivities (m,) for 0 <= radius < collapse and non-constant rows u (m, n)."""

    @abstractmethod
    def _collapse(self, mass_lowest: FloatArray, mass: float) -> FloatArray:
        """Return the radius (m,) from which all mass can be on the contexts of lowest value."""

    @abstractmethod
    def _interior(self, u: FloatArray, p: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        """Return weights (m, n) and dual values (m,) for 0 < radius < collapse and non-constant rows u."""


def sum_before(terms: FloatArray) -> FloatArray:
    """Return for each entry the sum of the earlier entries in its row."""
    return sum_from_zero(terms[:, :-1])


def sum_from_zero(terms: FloatArray) -> FloatArray:
    """Return the running sums (m, k + 1) of terms (m, k), starting with zero."""
    sums = np.zeros((terms.shape[0], terms.shape[1] + 1))
    np.cumsum(terms, axis=1, out=sums[:, 1:])
    return sums


class TotalVariation(MassDivergence):
    """All distributions within eps of the reference in total variation, TV(q, p) = 1/2 sum_i |q_i - p_i|.

    At most a share eps of the mass moves, to any context, also to one of zero reference weight.

    worst case = max_t  sum_i p_i min(v_i, t) - eps (t - min v),

    attained by moving the eps of mass with the highest values onto the lowest value. Radius 0 gives the expectation,
    radius 1 or more the minimum over all contexts. The distance is symmetric and at most 1.
    """

    growth = Growth(
        convex=True,
        instead_of_a_rule="Give the share of days that may be replaced as a number, such as radius=0.1; or use "
        "drbo.MMD() or drbo.Wasserstein(); or list the values: contexts=[...] or "
        "within=drbo.Box(name=drbo.Integer(low, high)).",
    )

    def words(self, radius: float) -> str:
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


class CVaR(OnSupport):
    """All distributions q with weights of at most p / alpha, alpha = 1 - eps: the tails of share alpha.

    The worst case is the conditional value at risk, the mean of the worst share alpha of the outcomes,

    worst case = max_t  t - sum_i p_i max(t - v_i, 0) / alpha.

    q stays on the support of p. Radius 0 gives the expectation, radius 1 - p(lowest values) or more (so also 1 and
    inf) the minimum over the support. distance(q, p) = 1 - min_i p_i / q_i is the smallest radius whose set holds q:
    at most 1 on the support of p, inf off it, and not symmetric.
    """

    growth = Growth(
        instead_of_a_rule="No rule learns a CVaR's radius from them: give 1 - alpha as a number, such as radius=0.9 "
        "for the mean of the worst tenth."
    )

    def words(self, radius: float) -> str:
        return f"that is a share of at least {max(1.0 - radius, 0.0):.1%} of the reference (CVaR)"

    def _on_support(self, moved: FloatArray, reference: FloatArray) -> float:
        grown = moved > reference
        return 1.0 - float((reference[grown] / moved[grown]).min(initial=1.0))

    def _collapse(self, mass_lowest: FloatArray, mass: float) -> FloatArray:
        return np.asarray(1.0 - mass_lowest / mass)

    def _slopes(self, u: FloatArray, p: FloatArray, radius: float) -> FloatArray:
        """Return sum_i p_i max(t - u_i, 0) / alpha^2, t the next value to leave: the largest value at radius 0."""
        alpha = (1.0 - radius) * (1.0 - NEXT) * float(p.sum())
        order = np.argsort(u, axis=1)
        last = np.count_nonzero(sum_before(p[order]) < alpha, axis=1) - 1
        t = u[np.arange(len(u)), order[np.arange(len(u)), last]]
        return np.asarray(np.maximum(t[:, None] - u, 0.0) @ p / alpha**2)

    def _interior(self, u: FloatArray, p: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        alpha, mass = 1.0 - radius, float(p.sum())
        order = np.argsort(u, axis=1)
        room = p[order] / alpha
        filled_before = sum_before(room)
        weights = np.empty_like(u)
        np.put_along_axis(weights, order, np.clip(mass - filled_before, 0.0, room), axis=1)
        last_filled = np.count_nonzero(filled_before < mass, axis=1) - 1
        t = u[np.arange(len(u)), order[np.arange(len(u)), last_filled]]
        dual = mass * t - np.maximum(t[:, None] - u, 0.0) @ p / alpha
        return weights, dual
