"""Conditional value at risk: the adversary keeps the worst share of the reference."""

from __future__ import annotations

import math

import numpy as np

from drbo.ambiguity.divergence import OnSupport, sum_before
from drbo.ambiguity.placed import NEXT
from drbo.validation import FloatArray

__all__ = ["CVaR"]


class CVaR(OnSupport):
    """All distributions q with weights of at most p / alpha, alpha = 1 - eps: the tails of share alpha.

    The worst case is the conditional value at risk, the mean of the worst share alpha of the outcomes,

    worst case = max_t  t - sum_i p_i max(t - v_i, 0) / alpha.

    q stays on the support of p. Radius 0 gives the expectation, radius 1 - p(lowest values) or more (so also 1 and
    inf) the minimum over the support. distance(q, p) = 1 - min_i p_i / q_i is the smallest radius whose set holds q:
    at most 1 on the support of p, inf off it, and not symmetric.
    """

    instead_of_a_rule = (
        "No rule learns a CVaR's radius from them: give 1 - alpha as a number, such as radius=0.9 for the mean of the "
        "worst tenth."
    )

    def __repr__(self) -> str:
        return "CVaR()"

    def words(self, radius: float) -> str:
        """Return a description of the distributions in the set."""
        return f"that is a share of at least {max(1.0 - radius, 0.0):.1%} of the reference (CVaR)"

    def _distance(self, p: FloatArray, q: FloatArray) -> float:
        if np.any(p[q == 0.0] > 0.0):
            return math.inf
        grown = p > q
        return 1.0 - float((q[grown] / p[grown]).min(initial=1.0))

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
