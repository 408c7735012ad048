"""Balls of phi-divergences: total variation, Kullback-Leibler, chi-square and CVaR, each by its textbook solution.

Every solve runs on values in units of their own range, so that one tolerance fits values of any size:

    lowest, scale   (m,)     of each row of values, over the contexts that the adversary may use
    u               (m, n)   (v - lowest) / scale, so 0 <= u <= 1
    p, mass         (n,)     the reference on those contexts, and its sum (one, up to the rounding of whoever made it)
"""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np
from scipy import special

from drbo.ambiguity.contract import AmbiguitySet, Dual, expectations
from drbo.validation import FloatArray

_KL_GAP = 1e-14
"""Gap, as a share of the range of the values, at which the search for the temperature of KL stops."""

_KL_ITERATIONS = 200
"""Enough for bisection alone to cross all temperatures; Newton's method needs 2 to 8. What is left shows in the gap."""

_UNDERFLOW_GUARD = 2.0**500
"""Scale of the running sums of chi-square, whose terms are as small as the smallest weight times a squared value."""

_LARGEST_RATE = 1e305
"""Keeps the weights of chi-square finite; it binds for reference weights below 1e-305 only."""


class TotalVariation(AmbiguitySet):
    """All distributions within eps of the reference in total variation, TV(q, p) = 1/2 sum_i |q_i - p_i|.

    In words: at most a share eps of the mass moves, to any context, also to one of zero reference weight.

    worst case = max_t  sum_i p_i min(v_i, t) - eps (t - min v),

    attained by moving the eps of mass with the highest values onto the lowest value. Radius 0 gives the expectation,
    radius 1 or more the minimum over all contexts. The distance is symmetric and at most 1.
    """

    def __repr__(self) -> str:
        return "TotalVariation()"

    def dual(self, values: FloatArray, reference: FloatArray, radius: float) -> Dual | None:
        """Return the dual point: eps of the mass goes to the lowest value, so a context below that does harm."""
        if radius == 0.0:
            return None
        bound = float(self.worst_case(values, reference, radius).lower_bound)
        lowest = float(values.min())

        def threshold(points: FloatArray, half: FloatArray) -> tuple[FloatArray, FloatArray]:
            del half
            return np.full(len(points), lowest), np.zeros_like(points)

        return Dual(bound, min(radius, 1.0), threshold)

    def _distance(self, p: FloatArray, q: FloatArray) -> float:
        return 0.5 * float(np.abs(p - q).sum())

    def _solve(self, values: FloatArray, reference: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        if radius == 0.0:
            return reference_alone(values, reference)
        u, lowest, scale = in_unit_range(values)
        p, eps = reference, min(radius, float(reference.sum()))
        order = np.argsort(-u, axis=1)
        highest_first = np.take_along_axis(u, order, axis=1)
        taken_before = _sum_before(p[order])
        removed = np.where(highest_first > 0.0, np.clip(eps - taken_before, 0.0, p[order]), 0.0)
        weights = np.empty_like(values)
        np.put_along_axis(weights, order, p[order] - removed, axis=1)
        rows = np.arange(len(u))
        weights[rows, np.argmin(u, axis=1)] += removed.sum(axis=1)

        # <q, u> >= <q, min(u, t)> >= <p, min(u, t)> - eps t, as min(u, t) ranges over [0, t]; tight where removal ends.
        last_taken = np.count_nonzero(taken_before < eps, axis=1) - 1
        t = highest_first[rows, last_taken]
        dual = np.minimum(u, t[:, None]) @ p - eps * t
        return weights, lowest + scale * dual


class _OnSupport(AmbiguitySet):
    """A set whose distributions stay on the reference's support, and collapse onto the lowest value at some radius."""

    def dual(self, values: FloatArray, reference: FloatArray, radius: float) -> None:
        """Return None: no further context is on the support."""
        del values, reference, radius

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

    @abstractmethod
    def _collapse(self, mass_lowest: FloatArray, mass: float) -> FloatArray:
        """Return the radius (m,) from which on all mass can sit on the contexts of lowest value."""

    @abstractmethod
    def _interior(self, u: FloatArray, p: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        """Return weights (m, n) and dual values (m,) for 0 < radius < collapse and rows u that are not flat."""


class KL(_OnSupport):
    """All distributions q with Kullback-Leibler divergence KL(q || p) = sum_i q_i log(q_i / p_i) at most eps, in nats.

    The adversary's distribution comes first, the reference p second, also in `distance(q, p)`.

    worst case = max_{theta > 0}  -(log sum_i p_i exp(-theta v_i) + eps) / theta,

    attained by the exponentially tilted q_i ~ p_i exp(-theta v_i) with KL(q || p) = eps. q stays on the support of p
    (the distance is inf off it). Radius 0 gives the expectation, radius -log p(lowest values) or more the minimum over
    the support.
    """

    def __repr__(self) -> str:
        return "KL()"

    def _distance(self, p: FloatArray, q: FloatArray) -> float:
        if np.any(p[q == 0.0] > 0.0):
            return math.inf
        moved, reference = p[q > 0.0], q[q > 0.0]
        shift = moved - reference
        # q log(q/p) - q + p, whose terms are all >= 0; log1p keeps the digits of distributions that nearly agree.
        near = np.abs(shift) < 0.5 * reference
        terms = special.rel_entr(moved, reference)
        terms[near] = moved[near] * np.log1p(shift[near] / reference[near])
        return max(0.0, float((terms - shift).sum()))

    def _collapse(self, mass_lowest: FloatArray, mass: float) -> FloatArray:
        return -mass * np.log(mass_lowest / mass)

    def _interior(self, u: FloatArray, p: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        # KL(a q || a p) = a KL(q || p): solve for a reference of mass one.
        mass = float(p.sum())
        p, eps = p / mass, radius / mass
        theta = _temperature(u, p, eps)
        tilted, log_z, mean, _ = _tilt(theta, u, p)
        kl = -theta * mean - log_z
        # KL is convex: a step towards p, of the order of the rounding error, makes the weights feasible.
        keep = np.minimum(1.0, eps / np.maximum(kl, eps))[:, None]
        weights = keep * tilted + (1.0 - keep) * p
        dual = -(log_z + eps) / theta
        return mass * weights, mass * dual


class ChiSquare(_OnSupport):
    """All distributions q with Pearson's divergence chi2(q, p) = sum_i (q_i - p_i)^2 / p_i at most eps.

    No factor 1/2. The adversary's distribution comes first, the reference p second, also in `distance(q, p)`.

    worst case = max_t  t - sqrt((1 + eps) sum_i p_i max(t - v_i, 0)^2),

    attained by q_i ~ p_i max(t - v_i, 0); while no weight is cut off, that is <p, v> - sqrt(eps Var_p(v)). q stays on
    the support of p (the distance is inf off it). Radius 0 gives the expectation, radius 1 / p(lowest values) - 1 or
    more the minimum over the support.
    """

    def __repr__(self) -> str:
        return "ChiSquare()"

    def _distance(self, p: FloatArray, q: FloatArray) -> float:
        if np.any(p[q == 0.0] > 0.0):
            return math.inf
        moved, reference = p[q > 0.0], q[q > 0.0]
        with np.errstate(over="ignore"):  # a weight below 1e-308 can be further away than the largest float
            return float((((moved - reference) / reference) * (moved - reference)).sum())

    def _collapse(self, mass_lowest: FloatArray, mass: float) -> FloatArray:
        with np.errstate(over="ignore"):
            return (mass - mass_lowest) / mass_lowest * mass

    def _interior(self, u: FloatArray, p: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        # Write q_i / p_i = b (t - u_i)+ and let t fall: contexts leave from the highest value down. With k contexts
        # left, P, G, H, M = sum p_i, sum p_i (u_k - u_i), sum p_i (u_k - u_i)^2, sum p_i (u_i - mean)^2 over them; as
        # running sums of terms >= 0 they keep all their digits, also for weights of 1e-300 and values that nearly tie.
        order = np.argsort(u, axis=1)
        sorted_u, sorted_p = np.take_along_axis(u, order, axis=1), p[order] * _UNDERFLOW_GUARD
        P = np.cumsum(sorted_p, axis=1)
        step = np.diff(sorted_u, axis=1)
        G = _sum_from_zero(P[:, :-1] * step)
        H = _sum_from_zero(step * (G[:, :-1] + G[:, 1:]))
        M = _sum_from_zero(sorted_p[:, 1:] / P[:, 1:] * (G[:, 1:] / P[:, :-1]) * G[:, 1:])

        # The radius at which context k leaves (t = u_k) falls with k; contexts that tie with the lowest never leave.
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

        # sum q = mass and chi2 = eps fix b and t. Where M_k is almost 0, rounding leaves b open: u_k <= t <= u_(k+1).
        excess = (P[:, -1] - P_k) / P_k
        centre = G_k / P_k
        with np.errstate(all="ignore"):
            b = np.sqrt(np.maximum(radius - mass * excess, 0.0)) * (math.sqrt(_UNDERFLOW_GUARD) / np.sqrt(M_k))
            b = np.fmin(np.fmax(b, P[:, -1] / G_next), np.fmin(P[:, -1] / G_k, _LARGEST_RATE))
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


class CVaR(_OnSupport):
    """All distributions q whose weights are at most p / alpha, alpha = 1 - eps: the tails of share alpha.

    The worst case is the conditional value at risk, the mean of the worst share alpha of the outcomes,

    worst case = max_t  t - sum_i p_i max(t - v_i, 0) / alpha.

    q stays on the support of p. Radius 0 gives the expectation, radius 1 - p(lowest values) or more (so also 1 and
    inf) the minimum over the support. distance(q, p) = 1 - min_i p_i / q_i is the smallest radius whose set holds q:
    at most 1 on the support of p, inf off it, and not symmetric.
    """

    def __repr__(self) -> str:
        return "CVaR()"

    def _distance(self, p: FloatArray, q: FloatArray) -> float:
        if np.any(p[q == 0.0] > 0.0):
            return math.inf
        grown = p > q
        return 1.0 - float((q[grown] / p[grown]).min(initial=1.0))

    def _collapse(self, mass_lowest: FloatArray, mass: float) -> FloatArray:
        return np.asarray(1.0 - mass_lowest / mass)

    def _interior(self, u: FloatArray, p: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        alpha, mass = 1.0 - radius, float(p.sum())
        order = np.argsort(u, axis=1)
        room = p[order] / alpha
        filled_before = _sum_before(room)
        weights = np.empty_like(u)
        np.put_along_axis(weights, order, np.clip(mass - filled_before, 0.0, room), axis=1)
        last_filled = np.count_nonzero(filled_before < mass, axis=1) - 1
        t = u[np.arange(len(u)), order[np.arange(len(u)), last_filled]]
        dual = mass * t - np.maximum(t[:, None] - u, 0.0) @ p / alpha
        return weights, dual


def in_unit_range(values: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return u (m, n) in [0, 1] with its offset and scale (m,): values = lowest + scale u; flat rows are all zero."""
    lowest = values.min(axis=1)
    above = values - lowest[:, None]
    scale = above.max(axis=1)
    u = above / np.where(scale > 0.0, scale, 1.0)[:, None]
    u[u < 1e-50] = 0.0  # so that squares do not underflow
    return u, lowest, scale


def reference_alone(values: FloatArray, reference: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the answer at radius zero: the reference as weights (m, n), the expectations under it as bounds (m,)."""
    weights = np.broadcast_to(reference, values.shape).copy()
    return weights, expectations(weights, values)


def _sum_before(terms: FloatArray) -> FloatArray:
    """Return for each entry the sum of those before it in its row."""
    return _sum_from_zero(terms[:, :-1])


def _sum_from_zero(terms: FloatArray) -> FloatArray:
    """Return the running sums (m, k + 1) of terms (m, k), the first of them zero."""
    sums = np.zeros((terms.shape[0], terms.shape[1] + 1))
    np.cumsum(terms, axis=1, out=sums[:, 1:])
    return sums


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

    Newton's method on log KL as a function of log theta, from KL ~ theta^2 Var / 2, inside a bracket and with a
    bisection wherever a step fails to halve the residual.
    """
    # KL <= theta^2 / 8 on values in [0, 1] (Hoeffding); at the upper end the gap is below rounding whatever KL is.
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
        # What a residual is worth in the duality gap; if KL is above eps, because the weights are pulled back to p.
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
