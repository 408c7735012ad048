"""Chi-square balls: the adversary reweights linearly, and removes the highest values."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from drbo.ambiguity.divergence import OnSupport, sum_from_zero
from drbo.ambiguity.placed import Growth
from drbo.validation import FloatArray

__all__ = ["ChiSquare"]

_UNDERFLOW_GUARD = 2.0**500
"""Scale of the running sums of chi-square, whose terms are as small as the least weight times a squared value."""

_LARGEST_RATE = 1e305
"""Limit that keeps the weights of chi-square finite; it binds only for reference weights below 1e-305."""


class ChiSquare(OnSupport):
    """All distributions q with Pearson's divergence chi2(q, p) = sum_i (q_i - p_i)^2 / p_i at most eps.

    There is no factor 1/2. The adversary's distribution is the first argument, the reference p the second, also in
    `distance(q, p)`.

    worst case = max_t  t - sqrt((1 + eps) sum_i p_i max(t - v_i, 0)^2),

    attained by q_i ~ p_i max(t - v_i, 0); if no weight is cut off, the worst case is <p, v> - sqrt(eps Var_p(v)). q
    stays on the support of p (the distance is inf off it). Radius 0 gives the expectation, radius 1 / p(lowest values)
    - 1 or more the minimum over the support.
    """

    growth = Growth(convex=True, power=0.5)
    instead_of_a_rule = (
        "Use drbo.radius.EmpiricalLikelihood(confidence), which covers the expected reward against sampling error."
    )

    def __repr__(self) -> str:
        return "ChiSquare()"

    def likelihood_radius(self, z: float) -> float:
        """Return z^2: chi-square covers an expectation with radius z^2 / t (Duchi, Glynn and Namkoong)."""
        return z**2

    def words(self, radius: float) -> str:
        """Return a description of the distributions in the set."""
        return f"within a chi-square divergence of {radius:.3g} of the reference"

    def _distance(self, p: FloatArray, q: FloatArray) -> float:
        if np.any(p[q == 0.0] > 0.0):
            return math.inf
        moved, reference = p[q > 0.0], q[q > 0.0]
        with np.errstate(over="ignore"):  # a weight below 1e-308 can make the distance overflow
            return float((((moved - reference) / reference) * (moved - reference)).sum())

    def _collapse(self, mass_lowest: FloatArray, mass: float) -> FloatArray:
        with np.errstate(over="ignore"):
            return (mass - mass_lowest) / mass_lowest * mass

    def _slopes(self, u: FloatArray, p: FloatArray, radius: float) -> FloatArray:
        """Return sqrt(eps) / b, since the worst case has the derivative -1 / (2 b) in eps; the deviation of u at 0."""
        if radius > 0.0:
            return np.asarray(math.sqrt(radius) / self._tilt(u, p, radius).b)
        return np.asarray(np.sqrt((u - (u @ p)[:, None]) ** 2 @ p))

    def _interior(self, u: FloatArray, p: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        mass, tilt = float(p.sum()), self._tilt(u, p, radius)
        b, u_k, centre, excess = tilt.b, tilt.u_k, tilt.centre, tilt.excess
        with np.errstate(all="ignore"):
            change = np.maximum(b[:, None] * ((u_k[:, None] - u) - centre[:, None]) + excess[:, None], -1.0)
            weights = p * change
            chi2_plus = np.einsum("ij,ij->i", weights, 2.0 + change)  # sum q^2 / p - mass
            weights += p
            weights *= (mass / weights.sum(axis=1))[:, None]

            # The dual at t, with t = centre + 1/b split off: for a small radius t is huge and its digits cancel.
            root = mass + np.sqrt(mass + radius) * np.sqrt(mass + chi2_plus)
            loss = (mass * (chi2_plus / root) + radius * ((mass + chi2_plus) / root)) / b
            dual = mass * (u_k - centre + excess / b) - loss
        return weights, dual

    def _tilt(self, u: FloatArray, p: FloatArray, radius: float) -> _Tilt:
        """Return the distribution of the worst case."""
        # Write q_i / p_i = b (t - u_i)+ and let t fall: contexts leave from the highest value down. Let P, G, H, M =
        # sum p_i, sum p_i (u_k - u_i), sum p_i (u_k - u_i)^2, sum p_i (u_i - mean)^2 over the k contexts left. As
        # running sums of terms >= 0 they keep all digits, also for weights of 1e-300 and nearly equal values.
        order = np.argsort(u, axis=1)
        sorted_u, sorted_p = np.take_along_axis(u, order, axis=1), p[order] * _UNDERFLOW_GUARD
        P = np.cumsum(sorted_p, axis=1)
        step = np.diff(sorted_u, axis=1)
        G = sum_from_zero(P[:, :-1] * step)
        H = sum_from_zero(step * (G[:, :-1] + G[:, 1:]))
        M = sum_from_zero(sorted_p[:, 1:] / P[:, 1:] * (G[:, 1:] / P[:, :-1]) * G[:, 1:])

        # The radius at which context k leaves (t = u_k) falls with k; contexts with the lowest value never leave.
        mass = float(p.sum())
        leaves_at = np.full_like(G, np.inf)
        with np.errstate(over="ignore"):
            np.divide(H, G, out=leaves_at, where=G > 0.0)
            np.divide(leaves_at, G, out=leaves_at, where=G > 0.0)
            leaves_at = mass * (P[:, -1:] * leaves_at - 1.0)
        k = np.count_nonzero(leaves_at > radius, axis=1)
        rows, n = np.arange(len(u)), u.shape[1]
        u_k, P_k, G_k, M_k = (sums[rows, k - 1] for sums in (sorted_u, P, G, M))
        G_next = np.where(k < n, G[rows, np.minimum(k, n - 1)], np.inf)

        # sum q = mass and chi2 = eps determine b and t. If M_k is almost 0, rounding leaves b open: u_k <= t <=
        # u_(k+1).
        excess = (P[:, -1] - P_k) / P_k
        centre = G_k / P_k
        with np.errstate(all="ignore"):
            b = np.sqrt(np.maximum(radius - mass * excess, 0.0)) * (math.sqrt(_UNDERFLOW_GUARD) / np.sqrt(M_k))
            b = np.fmin(np.fmax(b, P[:, -1] / G_next), np.fmin(P[:, -1] / G_k, _LARGEST_RATE))
        return _Tilt(b, u_k, centre, excess)


@dataclass(frozen=True, eq=False)
class _Tilt:
    """The worst distribution q_i / p_i = b (t - u_i)+, with t = u_k - centre + (1 + excess) / b; all of shape (m,)."""

    b: FloatArray
    u_k: FloatArray
    centre: FloatArray
    excess: FloatArray
