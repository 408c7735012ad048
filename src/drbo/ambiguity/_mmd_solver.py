"""The MMD solver: an exact active-set method, compiled.

In feature space the MMD is a Euclidean distance: with M = F F', F (n, r), the mean embedding of a distribution w is
F'w, and the ball is ||F'(w - p)|| <= eps. Take the reference itself as an atom beside the n contexts, w = theta p +
sum_i u_i e_i, and the inner program (eq. 8 of the paper) becomes

    minimise  sum_i lam_i d_i   s.t.  lam >= 0,  sum_i lam_i = 1,  || sum_i lam_i b_i || <= eps,        i = 0..n,

with b_i = F_i - F'p and d_i = v_i - <p, v> for a context i < n, and b_n = 0, d_n = 0 for the reference.

Method. Few atoms carry weight at the optimum, and they can be chosen affinely independent. So we keep an active set A
of independent atoms with weights lam and repeat:

    1. Solve the program on the affine hull of A, where it is a line search in closed form. If the solution leaves the
       simplex, walk towards it until an atom's weight reaches zero, drop that atom and solve again.
    2. Price every atom with the multiplier y of the ball: cost_i = d_i + <y, b_i> is one constant on A, and
       min_i cost_i - eps ||y|| is a lower bound of the program for *any* y. If no atom is cheaper than A: optimal.
    3. Add the cheapest atom. If it lies in the affine hull of A, trading it for the others is free: do so until one of
       them is used up, which it replaces. Other cheap atoms enter too if they are far from the hull; the rest are
       listed. While a listed atom, or a neighbour of an atom of A in the order of the contexts, is clearly cheaper
       than A, it enters next without pricing all.

Every step lowers the objective, so no active set returns. The differences D = [b_a - b_base : a in A] are stored as
D = Q R and updated, together with the point of the hull nearest to the reference. Using F instead of M keeps distances
accurate to 1e-16 rather than 1e-8, so tiny radii, repeated contexts and singular Gram matrices need no special case.
(A, Q, R, lam) does not depend on v, so each vector of a batch is a warm start for the next.

If hundreds of atoms carry weight, `_block_pivoting` is faster.
"""

from __future__ import annotations

import math

import numpy as np

from drbo._compiled import jit
from drbo.ambiguity._mmd_atoms import (
    affine,
    append,
    cheapest_nearby,
    contains,
    delete,
    dot,
    list_cheap,
    price_all,
    solve_lower,
    split,
    walk,
)

OPTIMAL = 1e-13
"""A price below the active set's by less than this share of the values' range is ignored."""
_DEPENDENT = 1e-13
"""An atom nearer to the affine hull of the active set, as a share of the largest atom, counts as dependent."""
_ROUNDING = 1e-14
"""The rounding error of a distance, as a share of the largest atom."""
_LIST_SIZE = 32
_LISTED = 0.3
"""Atoms are listed if their saving is at least this share of the cheapest atom's."""
_FAR = 0.1
"""The least distance from the hull, as a share of the largest atom, of atoms that enter together, for conditioning."""
_CLEARLY = 1e3
"""The least saving of a listed atom, in units of `OPTIMAL`; closer decisions are left to pricing all."""
_WORTH = 8
"""With fewer contexts than this times the active set, pricing all is as fast as pricing nearby atoms."""
_UPDATES = 16
"""Number of updates of the projection on the hull before it is recomputed."""
_SMALL = 1e-3
"""Up to this radius, as a share of the largest atom, the projection is always recomputed, as errors are amplified."""
_RETRIES = 3
ROWS_ALONE = 2
"""Largest batch that is solved without warm starts, so that the bits of a row do not depend on the others."""


@jit
def _start(d, norms, eps, active, lam, Q, R, b):
    """Start from the best mixture of the reference with one context; return the size of the active set."""
    n = norms.size
    best, lowest = -1, 0.0
    for i in range(n):
        if d[i] < 0.0:
            value = d[i] if norms[i] <= eps else d[i] * (eps / norms[i])
            if value < lowest:
                best, lowest = i, value
    if norms[best] <= eps:
        active[0], lam[0] = best, 1.0
        return 1
    active[0], active[1] = n, best
    lam[1] = eps / norms[best]
    lam[0] = 1.0 - lam[1]
    for f in range(b.shape[1]):
        Q[0, f] = b[best, f] / norms[best]
    R[0, 0] = norms[best]
    return 2


@jit
def _value(d, active, lam, size):
    total = 0.0
    for i in range(size):
        total += lam[i] * d[active[i]]
    return total


@jit
def _solve_on_hull(d, b, eps, anew, size, active, lam, Q, R, hull, point, y, g, rhs, target):
    """Solve the program on the affine hull of the active set, dropping atoms until the weights are a distribution.

    Returns the size of the active set and whether the multiplier exists; `y` receives it. If not (the hull only touches
    the ball), `y` receives the outward normal, with which pricing finds atoms further in. `point` is the point of the
    hull nearest to the reference, and `hull` the coordinates of the base relative to it. With `anew` both are
    recomputed after each drop, otherwise updated.
    """
    r = point.size
    while True:
        distance = math.sqrt(dot(point, point, r))
        k, base = size - 1, active[0]  # `descent`, whose call would take a twentieth of a small solve
        for i in range(k):
            rhs[i] = d[active[i + 1]] - d[base]
        solve_lower(R, k, rhs, g)
        slope = math.sqrt(dot(g, g, k))
        if slope <= 1e-300:  # one atom, or equal values: stay; inside the ball the multiplier is zero
            touching = distance >= eps * (1.0 - 1e-12)
            for f in range(r):
                y[f] = point[f] if touching else 0.0
            return size, not touching
        step = math.sqrt(max(eps - distance, 0.0) * (eps + distance)) / slope
        for i in range(k):
            rhs[i] = -hull[i] - step * g[i]
        blocking = walk(R, size, rhs, target, lam)
        if blocking < 0:
            exists = step > 1e-300
            scale = 1.0 / step if exists else 1.0
            for f in range(r):
                y[f] = scale * point[f]
            for i in range(size - 1):
                share = scale * step * g[i]
                for f in range(r):
                    y[f] -= share * Q[i, f]
            return size, exists
        size = delete(Q, R, active, lam, size, blocking, hull, point)
        if anew:
            split(Q, size - 1, b[active[0]], b[-1], point, hull)


@jit
def _trade(Q, R, active, lam, size, coordinates, hull, point, target):
    """Trade the atoms of the active set for a new one in their hull (at `coordinates`) until one is used up.

    Returns the new size and the weight of the new atom, which replaces the one used up.
    """
    affine(R, size, coordinates, target)  # the new atom is sum_i target_i b_i
    weight, blocking = math.inf, -1
    for i in range(size):
        if target[i] > 1e-10 and lam[i] < weight * target[i]:
            weight, blocking = lam[i] / target[i], i
    for i in range(size):
        lam[i] = max(lam[i] - weight * target[i], 0.0)
    return delete(Q, R, active, lam, size, blocking, hull, point), weight


@jit
def _enter_far(b, cheapest, listed, n_listed, active, lam, size, Q, R, hull, point, coordinates, vector, largest):
    """Add the listed atoms that are far from the hull, with weight zero; return the new sizes of both sets.

    All of them are cheaper than the active set, so at least one gains weight and the objective falls.
    """
    n_left = 0
    for i in listed[:n_listed]:
        if i == cheapest:
            continue
        norm = split(Q, size - 1, b[i], b[active[0]], vector, coordinates)
        if norm > _FAR * largest:
            append(Q, R, size - 1, vector, coordinates, norm, hull, point)
            active[size], lam[size] = i, 0.0
            size += 1
        else:
            listed[n_left] = i
            n_left += 1
    return size, n_left


@jit
def _solve_one(d, b, bt, norms, eps, asked, size, counts, active, lam, Q, R, y, scratch, listed, most_atoms):
    """Solve for one vector d (n + 1,) of range 1 from the active set given, within eps.

    Returns the size of the active set and a lower bound for the radius `asked`. A size above `most_atoms` means that
    more atoms are needed.
    """
    n, r = norms.size, bt.shape[0]
    cost, hull, target, rhs, g = scratch[0, : n + 1], scratch[1], scratch[2], scratch[3], scratch[4]
    vector, coordinates, point = scratch[5, :r], scratch[6], scratch[7, :r]
    largest = norms.max()
    last, stalled = math.inf, 0
    lower = -1.0
    n_listed, anew = 0, eps <= _SMALL * largest
    for _ in range(100 * (n + 10)):
        if anew or counts[1] >= _UPDATES:
            split(Q, size - 1, b[active[0]], b[n], point, hull)
            counts[1] = 0
        before = size
        size, exists = _solve_on_hull(d, b, eps, anew, size, active, lam, Q, R, hull, point, y, g, rhs, target)
        counts[1] += before - size
        if size > most_atoms:
            break
        value = _value(d, active, lam, size)
        stalled = 0 if value < last - 1e-16 else stalled + 1
        last = min(value, last)
        norm_y = math.sqrt(dot(y, y, r))
        tolerance = OPTIMAL * (1.0 + 0.01 * largest * norm_y)
        regular = exists and stalled == 0
        cheapest, fresh = -1, False
        if regular and _WORTH * size <= n:
            cheapest = cheapest_nearby(d, b, y, listed[:n_listed], active, size, _CLEARLY * tolerance)
        if cheapest < 0:
            cheapest = price_all(d, bt, y, exists, cost)
            own = _value(cost, active, lam, size)
            saving = own - cost[cheapest]
            if exists:
                lower = cost[cheapest] - asked * norm_y
                if saving <= tolerance:
                    return size, lower
            if stalled > 10 + size or contains(active, size, cheapest):
                return size, lower
            n_listed = list_cheap(cost, own - _LISTED * saving, listed) if regular else 0
            fresh = n_listed > 0

        norm = split(Q, size - 1, b[cheapest], b[active[0]], vector, coordinates)
        weight = 0.0
        if norm <= _DEPENDENT * largest:
            size, weight = _trade(Q, R, active, lam, size, coordinates, hull, point, target)
            if size > 0:
                norm = split(Q, size - 1, b[cheapest], b[active[0]], vector, coordinates)
        if size > 0:
            append(Q, R, size - 1, vector, coordinates, norm, hull, point)
            counts[1] += 1
        else:
            counts[1] = _UPDATES
        active[size], lam[size] = cheapest, weight
        size += 1
        if fresh:
            counts[1] += n_listed
            size, n_listed = _enter_far(
                b, cheapest, listed, n_listed, active, lam, size, Q, R, hull, point, coordinates, vector, largest
            )
    return size, lower


@jit
def _retry_radius(eps, largest, attempt):
    """Return the radius to solve for: the requested one first, then radii that differ by less than 1e-9.

    At a degenerate radius, such as the exact distance of a vertex, rounding cannot decide which atoms to drop; a
    slightly smaller radius avoids this. At a tiny radius the multiplier turns the rounding error of a distance into a
    gap; a slightly larger radius compensates. The certificate is always for the requested radius.
    """
    if attempt == 0:
        return eps
    if eps > 1e-5 * largest:
        return eps * (1.0 - 1e-12 * 10.0**attempt)
    return eps + 3e-16 * 10.0**attempt * largest


@jit
def empty_state(n, r):
    """Return an active set without atoms: its size (1,), the atoms and their weights, Q and R."""
    most = min(r, n) + 2  # affinely independent atoms, and one about to enter
    counts = np.zeros(2, dtype=np.int64)
    return counts, np.empty(most, dtype=np.int64), np.empty(most), np.empty((most, r)), np.empty((most, most))


@jit
def solve_batch(values, reference, b, bt, norms, eps, weights, lower_bounds):
    """Fill the worst-case weights (m, n) and lower bounds (m,) of values (m, n) within eps > 0 of reference (n,).

    `b`, `bt` and `norms` come from `embed`. Each row starts from the active set of the previous row, unless there are
    at most `ROWS_ALONE` rows.
    """
    n, r = norms.size, bt.shape[0]
    solve_sparse(values, reference, b, bt, norms, eps, n + 1, empty_state(n, r), weights, lower_bounds)


@jit
def solve_sparse(values, reference, b, bt, norms, eps, most_atoms, state, weights, lower_bounds):
    """Run `solve_batch` up to the first row whose active set grows beyond `most_atoms`; return this row, or m.

    `state` is an `empty_state`, or the state after an earlier call for the same reference and radius.
    """
    m, n = values.shape
    r = bt.shape[0]
    counts, active, lam, Q, R = state
    y = np.empty(r)
    mean = np.empty(r)
    scratch = np.empty((8, n + r + 2))
    listed = np.empty(_LIST_SIZE, dtype=np.int64)
    d = np.zeros(n + 1)
    largest = norms.max()
    eps = max(eps, 0.1 * _ROUNDING * largest)  # a smaller radius is numerically equal to this one
    size, counts[1] = counts[0], _UPDATES
    for row in range(m):
        if row > 0 and m <= ROWS_ALONE:
            size = 0
        v = values[row]
        low, high, lowest = v[0], v[0], 0
        for i in range(n):
            high = max(high, v[i])
            if v[i] < low or (v[i] == low and norms[i] < norms[lowest]):
                low, lowest = v[i], i
        w = weights[row]
        half = 0.5 * high - 0.5 * low  # half the range cannot overflow
        if half == 0.0:
            for i in range(n):
                w[i] = reference[i]
            lower_bounds[row] = low
            continue
        if norms[lowest] <= eps:
            for i in range(n):
                w[i] = 0.0
            w[lowest] = 1.0
            lower_bounds[row] = low
            continue
        for i in range(n):
            d[i] = (0.5 * v[i] - 0.5 * low) / half
        expected = dot(reference, d, n)
        if expected == 0.0:  # the reference has no mass above the minimum
            for i in range(n):
                w[i] = reference[i]
            lower_bounds[row] = low
            continue
        for i in range(n):
            d[i] -= expected

        bound = -math.inf
        for attempt in range(1 + _RETRIES):
            inner = _retry_radius(eps, largest, attempt)
            if attempt > 0 or size == 0 or _value(d, active, lam, size) > 0.0:
                size = _start(d, norms, inner, active, lam, Q, R, b)
                counts[1] = _UPDATES
            size, lower = _solve_one(
                d, b, bt, norms, inner, eps, size, counts, active, lam, Q, R, y, scratch, listed, most_atoms
            )
            if size > most_atoms:
                counts[0] = size
                return row
            bound = max(bound, lower)
            # The weights, pulled back if they are outside the ball by more than the rounding error of a distance.
            for f in range(r):
                mean[f] = 0.0
            total = 0.0
            for i in range(size):
                total += lam[i]
                for f in range(r):
                    mean[f] += lam[i] * b[active[i], f]
            distance = math.sqrt(dot(mean, mean, r)) / total
            inside = inner / distance if distance > inner + _ROUNDING * largest else 1.0
            for i in range(n):
                w[i] = (1.0 - inside) * reference[i]
            for i in range(size):
                share = inside * lam[i] / total
                if active[i] == n:
                    for j in range(n):
                        w[j] += share * reference[j]
                else:
                    w[active[i]] += share
            primal = dot(w, d, n)
            if primal - bound <= 1e-10:
                break
            size = 0
        lower_bounds[row] = low + 2.0 * half * (expected + bound)
    return m
