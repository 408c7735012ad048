"""Kullback-Leibler balls: the adversary tilts the reference exponentially."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from drbo.ambiguity.divergence import OnSupport
from drbo.ambiguity.placed import Growth
from drbo.validation import FloatArray

__all__ = ["KL"]

_KL_GAP = 1e-14
"""Gap, as a share of the values' range, at which the search for the temperature stops."""

_KL_ITERATIONS = 200
"""Limit of iterations, enough for bisection alone; Newton's method needs 2 to 8. The gap shows any residual."""


class KL(OnSupport):
    """All distributions q with Kullback-Leibler divergence KL(q || p) = sum_i q_i log(q_i / p_i) at most eps, in nats.

    The adversary's distribution is the first argument, the reference p the second, also in `distance(q, p)`.

    worst case = max_{theta > 0}  -(log sum_i p_i exp(-theta v_i) + eps) / theta,

    attained by the exponentially tilted q_i ~ p_i exp(-theta v_i) with KL(q || p) = eps. q stays on the support of p
    (the distance is inf off it). Radius 0 gives the expectation, radius -log p(lowest values) or more the minimum over
    the support.
    """

    growth = Growth(convex=True, power=0.5)
    instead_of_a_rule = (
        "Use drbo.radius.EmpiricalLikelihood(confidence), which covers the expected reward against sampling error."
    )

    def __repr__(self) -> str:
        return "KL()"

    def likelihood_radius(self, z: float) -> float:
        """Return z^2 / 2: KL covers an expectation with radius z^2 / (2 t) (Duchi, Glynn and Namkoong)."""
        return 0.5 * z**2

    def words(self, radius: float) -> str:
        """Return a description of the distributions in the set."""
        return f"within a Kullback-Leibler divergence of {radius:.3g} nats of the reference"

    def _distance(self, p: FloatArray, q: FloatArray) -> float:
        if np.any(p[q == 0.0] > 0.0):
            return math.inf
        moved, reference = p[q > 0.0], q[q > 0.0]
        shift = moved - reference
        # All terms of q log(q/p) - q + p are >= 0; log1p keeps the digits of nearly equal distributions.
        near = np.abs(shift) < 0.5 * reference
        terms = special.rel_entr(moved, reference)
        terms[near] = moved[near] * np.log1p(shift[near] / reference[near])
        return max(0.0, float((terms - shift).sum()))

    def _collapse(self, mass_lowest: FloatArray, mass: float) -> FloatArray:
        return -mass * np.log(mass_lowest / mass)

    def _slopes(self, u: FloatArray, p: FloatArray, radius: float) -> FloatArray:
        """Return 2 sqrt(eps) / theta, as the worst case has the derivative -1 / theta in eps; sqrt(2 Var_p(u)) at 0."""
        p = p / p.sum()
        if radius > 0.0:
            return np.asarray(2.0 * math.sqrt(radius) / _temperature(u, p, radius))
        return np.asarray(np.sqrt(2.0 * ((u - (u @ p)[:, None]) ** 2 @ p)))

    def _interior(self, u: FloatArray, p: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        # KL(a q || a p) = a KL(q || p): solve for a reference of mass one.
        mass = float(p.sum())
        p, eps = p / mass, radius / mass
        theta = _temperature(u, p, eps)
        tilted, log_z, mean, _ = _tilt(theta, u, p)
        kl = -theta * mean - log_z
        # KL is convex: a step towards p of the size of the rounding error makes the weights feasible.
        keep = np.minimum(1.0, eps / np.maximum(kl, eps))[:, None]
        weights = keep * tilted + (1.0 - keep) * p
        dual = -(log_z + eps) / theta
        return mass * weights, mass * dual


def _tilt(theta: FloatArray, u: FloatArray, p: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return q ~ p exp(-theta u) (m, n), log sum_i p_i exp(-theta u_i), and the mean and variance of u under q (m,)."""
    exponent = -theta[:, None] * u
    # For a small theta the sum is 1 up to terms that log would round away.
    small = theta < 1.0
    log_z = np.empty(len(u))
    log_z[small] = np.log1p(np.expm1(exponent[small]) @ p)
    exponent += np.log(p)
    top = exponent.max(axis=1)
    exponent -= top[:, None]
    q = np.exp(exponent, out=exponent)
    z = q.sum(axis=1)
    log_z[~small] = (top + np.log(z))[~small]
    q /= z[:, None]
    mean = np.einsum("ij,ij->i", q, u)
    variance = np.einsum("ij,ij,ij->i", q, u, u) - mean**2
    return q, log_z, mean, variance


def _temperature(u: FloatArray, p: FloatArray, eps: float) -> FloatArray:
    """Return the theta (m,) at which the tilted distribution has KL(q || p) = eps.

    Newton's method on log KL as a function of log theta, from KL ~ theta^2 Var / 2, within a bracket, and with a
    bisection if a step fails to halve the residual.
    """
    # KL <= theta^2 / 8 on values in [0, 1] (Hoeffding); at the upper end the gap is below rounding for any KL.
    low = np.full(len(u), math.sqrt(8.0 * eps))
    high = np.full(len(u), 1e18 * max(1.0, eps))
    mean_p = u @ p
    variance = ((u - mean_p[:, None]) ** 2) @ p
    theta = np.clip(np.sqrt(2.0 * eps / np.maximum(variance, 1e-300)), low, high)
    before = np.full(len(u), np.inf)
    open_rows = np.arange(len(u))
    for _ in range(_KL_ITERATIONS):
        at = theta[open_rows]
        _, log_z, mean, variance = _tilt(at, u[open_rows], p)
        kl = -at * mean - log_z
        residual = np.abs(kl - eps)
        low[open_rows] = np.where(kl < eps, at, low[open_rows])
        high[open_rows] = np.where(kl > eps, at, high[open_rows])
        # The effect of a residual on the duality gap; for KL above eps, because the weights are pulled back to p.
        with np.errstate(all="ignore"):
            gap = residual * np.where(kl < eps, 1.0 / at, (mean_p[open_rows] - mean) / eps)
            newton = at * (eps / kl) ** (kl / (at**2 * variance))
        unfinished = (gap > _KL_GAP) & (low[open_rows] * (1.0 + 1e-15) < high[open_rows])
        accept = (newton > low[open_rows]) & (newton < high[open_rows]) & (residual < 0.5 * before[open_rows])
        bisection = np.sqrt(low[open_rows]) * np.sqrt(high[open_rows])
        theta[open_rows] = np.where(unfinished, np.where(accept, newton, bisection), at)
        before[open_rows] = residual
        open_rows = open_rows[unfinished]
        if open_rows.size == 0:
            break
    return theta
