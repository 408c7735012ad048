"""All distributions near the reference's mean: worst-case robust optimization (StableOpt) as an ambiguity set."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drbo import validation
from drbo.ambiguity.contract import AmbiguitySet, Dual, WorstCase
from drbo.validation import FloatArray

__all__ = ["Neighbourhood"]

_BORDER = 1.0 + 1e-12
"""A context on the border counts, also where rounding puts it outside."""


class Neighbourhood(AmbiguitySet):
    """All distributions on the contexts near the reference's mean: worst-case robust optimization (StableOpt).

    Delta = {c : ||c - sum_i p_i c_i||_2 <= eps}, or the nearest context if that is empty; radius inf: every context.

    worst case = min_{c in Delta} v(c).  distance(q, p) is the largest ||c - sum_i p_i c_i||_2 over the support of q:
    the radius from which on q belongs to the set around p. It is not symmetric, and distance(p, p) is not zero.

    Parameters
    ----------
    contexts : (n, d) the contexts; without them an optimizer puts the set on its own
    """

    def __init__(self, contexts: ArrayLike | None = None) -> None:
        self.contexts = None if contexts is None else validation.frozen(validation.points("contexts", contexts))
        self.n_contexts = None if self.contexts is None else len(self.contexts)

    def __repr__(self) -> str:
        return "Neighbourhood()" if self.contexts is None else f"Neighbourhood({self.n_contexts} contexts)"

    def within(self, radius: float) -> str:
        """Return which distributions the set holds, in words."""
        return f"on the contexts within {radius:.3g} of the reference's mean, in their units"

    def arguments(self) -> dict[str, Any]:
        """Return what the set was made of, by the names of the arguments."""
        return {"contexts": self.contexts}

    def on(self, points: ArrayLike, scales: ArrayLike | None = None) -> Neighbourhood:
        """Return the set on contexts (n, d), or this one if it has contexts of its own."""
        if self.contexts is None:
            return Neighbourhood(points)
        super().on(points, scales)
        return self

    def among(self, rows: NDArray[np.intp]) -> Neighbourhood:
        """Return the set on some of its contexts (k,); this set if it has none of its own."""
        return self if self.contexts is None else Neighbourhood(self.contexts[rows])

    def extended(self, further: FloatArray) -> Neighbourhood:
        """Return the set on its contexts and further ones (k, d)."""
        return Neighbourhood(np.concatenate([self._points, further]))

    def dual(self, values: FloatArray, reference: FloatArray, radius: float, worst: WorstCase) -> Dual:
        """Return the price list: a context of the neighbourhood does harm below the lowest value there.

        Where no context lies within the radius, one that is nearer than the nearest would take its place.
        """
        del values
        bound = float(worst.lower_bound)
        mean = reference @ self._points
        reach = _BORDER * max(radius, float(self._from_mean(reference).min()))

        def threshold(points: FloatArray, half: FloatArray) -> tuple[FloatArray, FloatArray]:
            nearest = np.linalg.norm(np.maximum(np.abs(points - mean) - _BORDER * half, 0.0), axis=1)
            return np.where(nearest <= reach, bound, -np.inf), np.zeros_like(points)

        return Dual(bound, 1.0, threshold)

    def slopes(self, values: FloatArray, reference: FloatArray, radius: float) -> FloatArray:
        """Raise: the worst case is a step function of the radius, whose derivative is zero or does not exist."""
        del values, reference, radius
        raise TypeError(
            "Neighbourhood has no sensitivity: its worst case stays as it is until the next context comes within the "
            "radius, and jumps there"
        )

    @property
    def _points(self) -> FloatArray:
        if self.contexts is None:
            raise TypeError("Neighbourhood() has no contexts yet: give them, drbo.Neighbourhood(contexts)")
        return self.contexts

    def _from_mean(self, reference: FloatArray) -> FloatArray:
        return np.asarray(np.linalg.norm(self._points - reference @ self._points, axis=1))

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
