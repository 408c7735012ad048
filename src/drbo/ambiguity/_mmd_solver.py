"""The MMD adversary: an exact active-set method, compiled.

In feature space the MMD is a Euclidean distance: with M = F F', F (n, r), the mean embedding of a distribution w is
F'w, and the ball is ||F'(w - p)|| <= eps. Take the reference itself as an atom beside the n contexts, w = theta p +
sum_i u_i e_i, and the inner program (eq. 8 of the paper) becomes

    minimise  sum_i lam_i d_i   s.t.  lam >= 0,  sum_i lam_i = 1,  || sum_i lam_i b_i || <= eps,        i = 0..n,

with b_i = F_i - F'p and d_i = v_i - <p, v> for a context i < n, and b_n = 0, d_n = 0 for the reference.

Method. Few atoms carry weight at the optimum, and those can be chosen affinely independent. So we keep an active set
A of such atoms with weights lam and repeat:

    1. Solve the program on the affine hull of A, where it is a line search in closed form. If the solution leaves the
       simplex, walk towards it until an atom's weight reaches zero, drop that atom and solve again.
    2. Price every atom with the multiplier y of the ball: cost_i = d_i + <y, b_i> is one constant on A, and
       min_i cost_i - eps ||y|| is a lower bound of the program for *any* y. If no atom is cheaper than A: optimal.
    3. Add the cheapest atom. If it lies in the affine hull of A already, then trading it for the others is free: do so
       until one of them is used up, which it replaces.

Every step lowers the objective, so no active set returns. The differences D = [b_a - b_base : a in A] are kept as
D = Q R and updated. Working with F instead of M keeps distances accurate to 1e-16 rather than 1e-8, which is what makes
tiny radii, repeated contexts and singular Gram matrices ordinary cases. Nothing in (A, Q, R, lam) depends on v: the
next vector of a batch starts from the last one's solution.
"""

from __future__ import annotations

import math

import numba
import numpy as np

# Sums may be reassociated into vector instructions; nothing here relies on NaN or infinity.
_jit = numba.njit(cache=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")

OPTIMAL = 1e-13
"""A price below the active set's by less than this share of the values' range does not count."""
_DEPENDENT = 1e-13
"""An atom this close to the affine hull of the active set, as a share of the largest atom, lies in it."""
_ROUNDING = 1e-14
"""The rounding error of a distance, as a share of the largest atom."""
_RETRIES = 3


@_jit
def _dot(a, b, size):
    total = 0.0
    for i in range(size):
        total += a[i] * b[i]
    return total


@_jit
def _solve_lower(R, k, rhs, out):
    """Solve R' out = rhs for the leading k x k block of the upper triangle R."""
    for i in range(k):
        total = rhs[i]
        for j in range(i):
            total -= R[j, i] * out[j]
        out[i] = total / R[i, i]


@_jit
def _solve_upper(R, k, rhs, out):
    """Solve R out = rhs for the leading k x k block of the upper triangle R."""
    for i in range(k - 1, -1, -1):
        total = rhs[i]
        for j in range(i + 1, k):
            total -= R[i, j] * out[j]
        out[i] = total / R[i, i]


@_jit
def _project(Q, k, vector, coefficients):
    """Take the part in the span of the rows of Q out of `vector`, twice for accuracy; return the norm of the rest."""
    r = vector.size
    for i in range(k):
        coefficients[i] = 0.0
    for _ in range(2):
        for i in range(k):
            c = _dot(Q[i], vector, r)
            coefficients[i] += c
            for f in range(r):
                vector[f] -= c * Q[i, f]
    return math.sqrt(_dot(vector, vector, r))


@_jit
def _append(Q, R, k, vector, coefficients, norm):
    """Append to D = Q R the column that `_project` split into `coefficients`, the rest `vector` and its `norm`."""
    for i in range(k):
        R[i, k] = coefficients[i]
    R[k, k] = norm
    for f in range(vector.size):
        Q[k, f] = vector[f] / norm


@_jit
def _delete(Q, R, active, lam, size, position):
    """Drop an atom from the active set of `size` atoms and from D = Q R; return the new size."""
    k = size - 1
    if position == 0 and k > 0:
        # The next atom becomes the base: b_a - b_next = D_a - D_next, which changes the first row of R alone.
        for j in range(1, k):
            R[0, j] -= R[0, 0]
    column = max(position - 1, 0)
    for j in range(column, k - 1):
        for i in range(j + 2):
            R[i, j] = R[i, j + 1]
    for i in range(column, k - 1):  # what is left is upper Hessenberg: rotate its subdiagonal away
        a, b = R[i, i], R[i + 1, i]
        h = math.hypot(a, b)
        c, s = a / h, b / h
        for j in range(i, k - 1):
            upper, lower = R[i, j], R[i + 1, j]
            R[i, j] = c * upper + s * lower
            R[i + 1, j] = c * lower - s * upper
        for f in range(Q.shape[1]):
            upper, lower = Q[i, f], Q[i + 1, f]
            Q[i, f] = c * upper + s * lower
            Q[i + 1, f] = c * lower - s * upper
    for i in range(position, size - 1):
        active[i] = active[i + 1]
        lam[i] = lam[i + 1]
    return size - 1


@_jit
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


@_jit
def _value(d, active, lam, size):
    total = 0.0
    for i in range(size):
        total += lam[i] * d[active[i]]
    return total


@_jit
def _solve_on_hull(d, b, eps, size, active, lam, Q, R, y, hull, g, rhs, target, point):
    """Solve the program on the affine hull of the active set, dropping atoms until the weights are a distribution.

    Returns the size of the active set and whether the multiplier exists; `y` receives it. Where it does not (the hull
    only touches the ball), `y` receives the outward normal, by which pricing finds the way inwards.
    """
    r = b.shape[1]
    while True:
        k = size - 1
        base = active[0]
        for f in range(r):
            point[f] = b[base, f]
        distance = _project(Q, k, point, hull)  # point: the place of the hull nearest to the reference
        for i in range(k):
            rhs[i] = d[active[i + 1]] - d[base]
        _solve_lower(R, k, rhs, g)
        slope = math.sqrt(_dot(g, g, k))
        if slope <= 1e-300:  # one atom, or all of one value: stay; inside the ball its multiplier is zero
            touching = distance >= eps * (1.0 - 1e-12)
            for f in range(r):
                y[f] = point[f] if touching else 0.0
            return size, not touching
        step = math.sqrt(max(eps - distance, 0.0) * (eps + distance)) / slope
        for i in range(k):
            rhs[i] = -hull[i] - step * g[i]
        _solve_upper(R, k, rhs, target[1:])
        total = 0.0
        for i in range(1, size):
            total += target[i]
        target[0] = 1.0 - total
        walk, blocking = 1.0, -1
        for i in range(size):
            if target[i] < 0.0:
                share = lam[i] / (lam[i] - target[i])
                if share < walk or blocking < 0:
                    walk, blocking = share, i
        for i in range(size):
            lam[i] = max(lam[i] + walk * (target[i] - lam[i]), 0.0)
        if blocking < 0:
            for i in range(k):
                for f in range(r):
                    point[f] -= step * g[i] * Q[i, f]
            exists = step > 1e-300
            for f in range(r):
                y[f] = point[f] / step if exists else point[f]
            return size, exists
        size = _delete(Q, R, active, lam, size, blocking)


@_jit
def _trade(Q, R, active, lam, size, hull, target):
    """Trade the atoms of the active set for a new one in their hull (coordinates `hull`) until one is used up.

    Returns the new size and the weight of the new atom, which takes the place of the one used up.
    """
    _solve_upper(R, size - 1, hull, target[1:])  # the new atom is sum_i target_i b_i, sum_i target_i = 1
    total = 0.0
    for i in range(1, size):
        total += target[i]
    target[0] = 1.0 - total
    weight, blocking = math.inf, -1
    for i in range(size):
        if target[i] > 1e-10 and lam[i] < weight * target[i]:
            weight, blocking = lam[i] / target[i], i
    for i in range(size):
        lam[i] = max(lam[i] - weight * target[i], 0.0)
    return _delete(Q, R, active, lam, size, blocking), weight


@_jit
def _solve_one(d, b, bt, norms, eps, size, active, lam, Q, R, y, scratch, most_iterations):
    """Solve for one vector d (n + 1,) of range 1 from the active set given; return its size and the lower bound."""
    n, r = norms.size, bt.shape[0]
    cost, hull, target, rhs, g, vector = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4], scratch[5, :r]
    largest = norms.max()
    last, stalled = math.inf, 0
    lower = -1.0
    for _ in range(most_iterations):
        size, exists = _solve_on_hull(d, b, eps, size, active, lam, Q, R, y, hull, g, rhs, target, vector)

        for i in range(n + 1):
            cost[i] = d[i] if exists else 0.0
        for f in range(r):
            row, weight = bt[f], y[f]
            for i in range(n):
                cost[i] += weight * row[i]
        own = _value(cost, active, lam, size)
        cheapest = n
        for i in range(n):
            if cost[i] < cost[cheapest]:
                cheapest = i
        if exists:
            norm_y = math.sqrt(_dot(y, y, r))
            lower = cost[cheapest] - eps * norm_y
            if own - cost[cheapest] <= OPTIMAL * (1.0 + 0.01 * largest * norm_y):
                return size, lower
        value = _value(d, active, lam, size)
        stalled = 0 if value < last - 1e-16 else stalled + 1
        last = min(value, last)
        if stalled > 10 + size:
            return size, lower
        for i in range(size):
            if active[i] == cheapest:
                return size, lower

        for f in range(r):
            vector[f] = b[cheapest, f] - b[active[0], f]
        norm = _project(Q, size - 1, vector, hull)
        weight = 0.0
        if norm <= _DEPENDENT * largest:
            size, weight = _trade(Q, R, active, lam, size, hull, target)
            if size > 0:
                for f in range(r):
                    vector[f] = b[cheapest, f] - b[active[0], f]
                norm = _project(Q, size - 1, vector, hull)
        if size > 0:
            _append(Q, R, size - 1, vector, hull, norm)
        active[size], lam[size] = cheapest, weight
        size += 1
    return size, lower


@_jit
def _retry_radius(eps, largest, attempt):
    """Return the radius to solve for: the one asked for first, then ones that differ from it by less than 1e-9.

    A radius may be degenerate, such as the exact distance of a vertex, so that rounding cannot tell which atoms to
    drop: a slightly smaller one is not. Or it is so small that the multiplier turns the rounding error of a distance
    into a gap: a slightly larger one makes up for that. The certificate is for the radius asked for in any case.
    """
    if attempt == 0:
        return eps
    if eps > 1e-5 * largest:
        return eps * (1.0 - 1e-12 * 10.0**attempt)
    return eps + 3e-16 * 10.0**attempt * largest


@_jit
def solve_batch(values, reference, features, eps, weights, lower_bounds):
    """Fill the worst-case weights (m, n) and lower bounds (m,) of values (m, n) within eps > 0 of reference (n,).

    `features` (n, r) is the F of M = F F'.
    """
    m, n = values.shape
    r = features.shape[1]
    embedding = np.zeros(r)
    for i in range(n):
        for f in range(r):
            embedding[f] += reference[i] * features[i, f]
    b = np.zeros((n + 1, r))
    bt = np.empty((r, n))
    norms = np.empty(n)
    for i in range(n):
        for f in range(r):
            b[i, f] = features[i, f] - embedding[f]
            bt[f, i] = b[i, f]
        norms[i] = math.sqrt(_dot(b[i], b[i], r))
    most = min(r, n) + 2  # affinely independent atoms, and one about to enter
    active = np.empty(most, dtype=np.int64)
    lam = np.empty(most)
    Q = np.empty((most, r))
    R = np.empty((most, most))
    y = np.empty(r)
    mean = np.empty(r)
    scratch = np.empty((6, n + r + 2))
    d = np.zeros(n + 1)
    largest = norms.max()
    eps = max(eps, 0.1 * _ROUNDING * largest)  # a smaller radius cannot be told from this one
    size = 0
    for row in range(m):
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
        expected = 0.0
        for i in range(n):
            d[i] = (0.5 * v[i] - 0.5 * low) / half
            expected += reference[i] * d[i]
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
            size, _ = _solve_one(d, b, bt, norms, inner, size, active, lam, Q, R, y, scratch, 100 * (n + 10))
            # The weights, pulled back if they are outside by more than the rounding error of a distance.
            for f in range(r):
                mean[f] = 0.0
            total = 0.0
            for i in range(size):
                total += lam[i]
                for f in range(r):
                    mean[f] += lam[i] * b[active[i], f]
            distance = math.sqrt(_dot(mean, mean, r)) / total
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
            primal = _dot(w, d, n)
            # The certificate of the last multiplier, for the radius asked for.
            best = 0.0
            for i in range(n):
                best = min(best, d[i] + _dot(y, b[i], r))
            bound = max(bound, best - eps * math.sqrt(_dot(y, y, r)))
            if primal - bound <= 1e-10:
                break
            size = 0
        lower_bounds[row] = low + 2.0 * half * (expected + bound)
