"""Kullback-Leibler and chi-square balls: the adversary tilts the reference, exponentially or linearly."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from drbo.ambiguity.divergence import OnSupport, sum_from_zero
from drbo.ambiguity.placed import Growth
from drbo.validation import FloatArray

__all__ = ["KL", "ChiSquare"]

_GROWTH = Growth(
    convex=True,
    power=0.5,
    instead_of_a_rule="Use drbo.radius.EmpiricalLikelihood(confidence), which covers the expected reward against "
    "sampling error.",
)

_KL_GAP = 1e-14
"""Gap, as a share of the values' range, at which the search for the temperature stops."""
_KL_ITERATIONS = 200
"""Limit of iterations, enough for bisection alone; Newton's method needs 2 to 8. The gap shows any residual."""
_UNDERFLOW_GUARD = 2.0**500
"""Scale of the running sums of chi-square, whose terms are as small as the least weight times a squared value."""
_LARGEST_RATE = 1e305
"""Limit that keeps the weights of chi-square finite; it binds only for reference weights below 1e-305."""


class KL(OnSupport):
    """All distributions q with Kullback-Leibler divergence KL(q || p) = sum_i q_i log(q_i / p_i) at most eps, in nats.

    The adversary's distribution is the first argument, the reference p the second, also in `distance(q, p)`.

    worst case = max_{theta > 0}  -(log sum_i p_i exp(-theta v_i) + eps) / theta,

    attained by the exponentially tilted q_i ~ p_i exp(-theta v_i) with KL(q || p) = eps. q stays on the support of p
    (the distance is inf off it). Radius 0 gives the expectation, radius -log p(lowest values) or more the minimum over
    the support.
    """

    growth = _GROWTH

    def likelihood_radius(self, z: float) -> float:
        """Return z^2 / 2: KL covers an expectation with radius z^2 / (2 t) (Duchi, Glynn and Namkoong)."""
        return 0.5 * z**2

    def words(self, radius: float) -> str:
        return f"within a Kullback-Leibler divergence of {radius:.3g} nats of the reference"

    def _on_support(self, moved: FloatArray, reference: FloatArray) -> float:
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


class ChiSquare(OnSupport):
    """All distributions q with Pearson's divergence chi2(q, p) = sum_i (q_i - p_i)^2 / p_i at most eps.

    There is no factor 1/2. The adversary's distribution is the first argument, the reference p the second, also in
    `distance(q, p)`.

    worst case = max_t  t - sqrt((1 + eps) sum_i p_i max(t - v_i, 0)^2),

    attained by q_i ~ p_i max(t - v_i, 0); if no weight is cut off, the worst case is <p, v> - sqrt(eps Var_p(v)). q
    stays on the support of p (the distance is inf off it). Radius 0 gives the expectation, radius 1 / p(lowest values)
    - 1 or more the minimum over the support.
    """

    growth = _GROWTH

    def likelihood_radius(self, z: float) -> float:
        """Return z^2: chi-square covers an expectation with radius z^2 / t (Duchi, Glynn and Namkoong)."""
        return z**2

    def words(self, radius: float) -> str:
        return f"within a chi-square divergence of {radius:.3g} of the reference"

    def _on_support(self, moved: FloatArray, reference: FloatArray) -> float:
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
