"""All distributions near the reference's mean: worst-case robust optimization (StableOpt) as an ambiguity set."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drbo import validation
from drbo.ambiguity.family import AmbiguitySet
from drbo.ambiguity.placed import Dual, PlacedSet, WorstCase
from drbo.validation import FloatArray

__all__ = ["Neighbourhood"]

_BORDER = 1.0 + 1e-12
"""Tolerance for contexts on the border."""


class PlacedNeighbourhood(PlacedSet):
    """The neighbourhoods on contexts (n, d). The worst case is a step function of the radius, without slopes."""

    n_contexts: int

    def __init__(self, contexts: FloatArray) -> None:
        self.contexts, self.n_contexts = validation.frozen(contexts), len(contexts)

    def __repr__(self) -> str:
        return f"Neighbourhood({self.n_contexts} contexts)"

    def words(self, radius: float) -> str:
        return f"on the contexts within {radius:.3g} of the reference's mean, in their units"

    def extended(self, further: FloatArray) -> PlacedNeighbourhood:
        """Return the set with further contexts (k, d)."""
        return PlacedNeighbourhood(np.concatenate([self.contexts, further]))

    def dual(self, values: FloatArray, reference: FloatArray, radius: float, worst: WorstCase) -> Dual:
        """Return the dual: a context of the neighbourhood lowers the worst case if its value is below the lowest."""
        del values
        bound = float(worst.lower_bound)
        mean = reference @ self.contexts
        reach = _BORDER * max(radius, float(self._from_mean(reference).min()))

        def threshold(points: FloatArray, half: FloatArray) -> tuple[FloatArray, FloatArray]:
            nearest = np.linalg.norm(np.maximum(np.abs(points - mean) - _BORDER * half, 0.0), axis=1)
            return np.where(nearest <= reach, bound, -np.inf), np.zeros_like(points)

        return Dual(bound, 1.0, threshold)

    def _from_mean(self, reference: FloatArray) -> FloatArray:
        return np.asarray(np.linalg.norm(self.contexts - reference @ self.contexts, axis=1))

    def _distance(self, p: FloatArray, q: FloatArray) -> float:
        return float(self._from_mean(q)[p > 0.0].max())

    def _to_vertices(self, reference: FloatArray) -> FloatArray:
        return self._from_mean(reference)

    def _solve(self, values: FloatArray, reference: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        distance = self._from_mean(reference)
        inside = distance <= _BORDER * max(radius, float(distance.min()))
        worst = np.argmin(np.where(inside, values, np.inf), axis=1)
        weights = np.zeros_like(values)
        rows = np.arange(len(values))
        weights[rows, worst] = 1.0
        return weights, values[rows, worst]


class Neighbourhood(AmbiguitySet):
    """All distributions on the contexts near the reference's mean: worst-case robust optimization (StableOpt).

    Delta = {c : ||c - sum_i p_i c_i||_2 <= eps}, or the nearest context if that is empty; radius inf: every context.

    worst case = min_{c in Delta} v(c). distance(q, p) is the largest ||c - sum_i p_i c_i||_2 over the support of q: the
    least radius whose set around p contains q. The distance is not symmetric, and distance(p, p) is not zero.

    Parameters
    ----------
    contexts : (n, d) the contexts; without them an optimizer places the set on its own contexts
    """

    def __init__(self, contexts: ArrayLike | None = None) -> None:
        points = None if contexts is None else validation.points("contexts", contexts)
        self._placed: PlacedNeighbourhood | None = None if points is None else PlacedNeighbourhood(points)

    def __repr__(self) -> str:
        return "Neighbourhood()" if self._placed is None else repr(self._placed)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the constructor by name."""
        return {"contexts": None if self._placed is None else self._placed.contexts}

    def among(self, rows: NDArray[np.intp]) -> Neighbourhood:
        """Return the family for some of its contexts (k,); this family if it was constructed without contexts."""
        return self if self._placed is None else Neighbourhood(self._placed.contexts[rows])

    def _place(self, points: FloatArray, scales: FloatArray) -> PlacedNeighbourhood:
        del scales
        return PlacedNeighbourhood(points)
