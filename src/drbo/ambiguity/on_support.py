"""What KL, chi-square and CVaR share: their distributions stay on the support of the reference."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from drbo.ambiguity.contract import AmbiguitySet, WorstCase
from drbo.ambiguity.scaling import in_unit_range, reference_alone
from drbo.validation import FloatArray


class OnSupport(AmbiguitySet):
    """A set whose distributions stay on the reference's support, and collapse onto the lowest value at some radius."""

    def dual(self, values: FloatArray, reference: FloatArray, radius: float, worst: WorstCase) -> None:
        """Return None: no further context is on the support."""
        del values, reference, radius, worst

    @property
    def everything(self) -> str:
        """What the set holds from its diameter on, in words."""
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
        within = np.where(flat[:, None], p, on_lowest / mass_lowest[:, None] * mass)
        dual = np.zeros(len(u))
        inside = ~flat & (radius < self._collapse(mass_lowest, mass))
        if inside.any():
            within[inside], dual[inside] = self._interior(u[inside], p, radius)

        weights = np.zeros_like(values)
        weights[:, support] = within
        # `expectations` counts from the minimum over all contexts: the second term is the same where mass is not 1.
        base = lowest + (mass - 1.0) * (lowest - values.min(axis=1))
        return weights, base + scale * dual

    def slopes(self, values: FloatArray, reference: FloatArray, radius: float) -> FloatArray:
        """Return the sensitivities (m,): zero from the radius on at which all mass sits on the lowest value."""
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
        """Return the sensitivities (m,) for 0 <= radius < collapse and rows u (m, n) that are not flat."""

    @abstractmethod
    def _collapse(self, mass_lowest: FloatArray, mass: float) -> FloatArray:
        """Return the radius (m,) from which on all mass can sit on the contexts of lowest value."""

    @abstractmethod
    def _interior(self, u: FloatArray, p: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        """Return weights (m, n) and dual values (m,) for 0 < radius < collapse and rows u that are not flat."""
