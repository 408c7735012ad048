"""The reference alone: stochastic optimization as an ambiguity set."""

from __future__ import annotations

import math

import numpy as np

from drbo.ambiguity.contract import AmbiguitySet, WorstCase, expectations
from drbo.validation import FloatArray

__all__ = ["Expectation"]


class Expectation(AmbiguitySet):
    """The set that holds the reference alone, whatever the radius: stochastic optimization.

    worst case = sum_i p_i v_i,  distance(p, q) = 0 if p = q, else inf.
    """

    has_radius = False
    convex_in_radius = True

    def __repr__(self) -> str:
        return "Expectation()"

    def within(self, radius: float) -> str:
        """Return which distributions the set holds, in words."""
        del radius
        return "that is the reference itself"

    @property
    def everything(self) -> str:
        """What the set holds at any radius, in words."""
        return "the reference itself"

    def dual(self, values: FloatArray, reference: FloatArray, radius: float, worst: WorstCase) -> None:
        """Return None: no distribution of the set leaves the reference."""
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
        weights = np.broadcast_to(reference, values.shape).copy()
        return weights, expectations(weights, values)
