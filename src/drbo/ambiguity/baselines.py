"""The baselines of the paper as ambiguity sets: stochastic UCB and StableOpt."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from drbo import validation
from drbo.ambiguity.contract import AmbiguitySet, Dual, expectations
from drbo.validation import FloatArray

_BORDER = 1.0 + 1e-12
"""A context on the border counts, also where rounding puts it outside."""


class Expectation(AmbiguitySet):
    """The set that holds the reference alone, whatever the radius: stochastic optimization.

    worst case = sum_i p_i v_i,  distance(p, q) = 0 if p = q, else inf.
    """

    def __repr__(self) -> str:
        return "Expectation()"

    def dual(self, values: FloatArray, reference: FloatArray, radius: float) -> None:
        """Return None: no distribution of the set leaves the reference."""
        del values, reference, radius

    def _distance(self, p: FloatArray, q: FloatArray) -> float:
        return 0.0 if np.array_equal(p, q) else math.inf

    def _solve(self, values: FloatArray, reference: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        del radius
        weights = np.broadcast_to(reference, values.shape).copy()
        return weights, expectations(weights, values)


class Neighbourhood(AmbiguitySet):
    """All distributions on the contexts near the reference's mean: worst-case robust optimization (StableOpt).

    Delta = {c : ||c - sum_i p_i c_i||_2 <= eps}, or the nearest context if that is empty; radius inf: every context.

    worst case = min_{c in Delta} v(c).  distance(q, p) is the largest ||c - sum_i p_i c_i||_2 over the support of q:
    the radius from which on q belongs to the set around p. It is not symmetric, and distance(p, p) is not zero.
    """

    def __init__(self, contexts: ArrayLike) -> None:
        self.contexts = validation.frozen(validation.points("contexts", contexts))
        self.n_contexts = len(self.contexts)

    def __repr__(self) -> str:
        return f"Neighbourhood({self.n_contexts} contexts)"

    def dual(self, values: FloatArray, reference: FloatArray, radius: float) -> Dual:
        """Return the price list: a context of the neighbourhood does harm below the lowest value there.

        Where no context lies within the radius, one that is nearer than the nearest would take its place.
        """
        bound = float(self.worst_case(values, reference, radius).lower_bound)
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

    def _solve(self, values: FloatArray, reference: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        distance = self._from_mean(reference)
        inside = distance <= _BORDER * max(radius, float(distance.min()))
        worst = np.argmin(np.where(inside, values, np.inf), axis=1)
        weights = np.zeros_like(values)
        rows = np.arange(len(values))
        weights[rows, worst] = 1.0
        return weights, values[rows, worst]
