"""Sets that compare only weights, not positions: their common base, and the smallest one, `Expectation`."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Self

import numpy as np

from drbo.ambiguity.family import AmbiguitySet
from drbo.ambiguity.placed import Growth, PlacedSet, WorstCase, in_unit_range, reference_alone
from drbo.validation import FloatArray

__all__ = ["Expectation"]


class Divergence(PlacedSet, AmbiguitySet):
    """A set that compares only weights: it is the same on all contexts, so it is its own placed set.

    A new divergence is a subclass with `_distance` and `_solve`. Optional capabilities are in `drbo.ambiguity.placed`.
    """

    n_contexts = None

    @property
    def placed(self) -> Self:
        """The set itself, which fits any contexts."""
        return self

    def _place(self, points: FloatArray, scales: FloatArray) -> Self:
        del points, scales
        return self


class ExtensibleDivergence(Divergence):
    """A divergence for contexts with a range: further contexts need no new set."""

    def extended(self, further: FloatArray) -> Self:
        """Return the set itself."""
        del further
        return self


class MassDivergence(ExtensibleDivergence):
    """A divergence in which only the mass of an event counts, not the number of its contexts."""

    instead_of_a_rule: str
    """The alternative to a rule that learns the radius from continuous samples, where nearly every context is new."""

    def most_likely(self, radius: float, share: float) -> float:
        """Return the largest probability in the set of an event whose reference probability is `share`."""
        return -float(self.worst_case([-1.0, 0.0], [share, 1.0 - share], radius).expectation)


class Expectation(ExtensibleDivergence):
    """The set with the reference alone, for any radius: stochastic optimization.

    worst case = sum_i p_i v_i,  distance(p, q) = 0 if p = q, else inf.
    """

    growth = Growth(matters=False, convex=True)

    def __repr__(self) -> str:
        return "Expectation()"

    def words(self, radius: float) -> str:
        """Return a description of the distributions in the set."""
        del radius
        return "that is the reference itself"

    @property
    def everything(self) -> str:
        """A description of the set at any radius."""
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
        """A description of the set from its diameter on."""
        return "every distribution on the contexts that the reference shows"

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
