"""The atoms of the MMD solver, compiled: their embedding, their prices, and the affine hull of the active ones.

The atoms b of a reference are the contexts in feature space, relative to the reference; for a multiplier y of the ball
atom i costs d_i + <y, b_i>. The differences D of the active atoms to the first one are stored as D = Q R:

    active  (size,)         the atoms; the first one is the base
    Q       (k, r) rows     an orthonormal basis of the span of D, k = size - 1
    R       (k, k)          upper triangular; both arrays have room for more
    point   (r,)            the point of the hull nearest to the origin, orthogonal to the rows of Q
    hull    (k,)            the coordinates of the base: base = point + Q' hull, which `split` computes

Atoms are appended and deleted by updates of Q and R, each in O(k r).
"""

from __future__ import annotations

import math

import numpy as np

from drbo._compiled import jit


@jit
def dot(a, b, size):
    total = 0.0
    for i in range(size):
        total += a[i] * b[i]
    return total


@jit
def solve_lower(R, k, rhs, out):
    """Solve R' out = rhs for the leading k x k block of the upper triangle R, along its rows."""
    for i in range(k):
        out[i] = rhs[i]
    for i in range(k):
        out[i] /= R[i, i]
        for j in range(i + 1, k):
            out[j] -= R[i, j] * out[i]


@jit
def solve_upper(R, k, rhs, out):
    """Solve R out = rhs for the leading k x k block of the upper triangle R."""
    for i in range(k - 1, -1, -1):
        total = rhs[i]
        for j in range(i + 1, k):
            total -= R[i, j] * out[j]
        out[i] = total / R[i, i]


@jit
def affine(R, size, coordinates, target):
    """Fill the weights of the atoms, with sum 1, of the point with these coordinates (k,) relative to the base."""
    solve_upper(R, size - 1, coordinates, target[1:])
    total = 0.0
    for i in range(1, size):
        total += target[i]
    target[0] = 1.0 - total


@jit
def descent(R, size, d, active, rhs, g):
    """Fill the gradient g (k,) of the values d on the affine hull; return its squared length."""
    k, base = size - 1, active[0]
    for i in range(k):
        rhs[i] = d[active[i + 1]] - d[base]
    solve_lower(R, k, rhs, g)
    return dot(g, g, k)


@jit
def walk(R, size, rhs, target, lam):
    """Walk from weights lam towards those of the point with coordinates `rhs`, until an atom's weight is zero.

    Returns the position of this atom, or -1 if the walk arrives; `target` receives the weights at the end.
    """
    affine(R, size, rhs, target)
    far, blocking = 1.0, -1
    for i in range(size):
        if target[i] < 0.0:
            share = lam[i] / (lam[i] - target[i])
            if share < far or blocking < 0:
                far, blocking = share, i
    for i in range(size):
        lam[i] = max(lam[i] + far * (target[i] - lam[i]), 0.0)
    return blocking


@jit
def split(Q, k, point, base, rest, coordinates):
    """Split `point - base` into its `coordinates` in the span of the rows of Q and the `rest`; return the rest's norm.

    A small rest is inaccurate by cancellation and is split once more; twice is enough.
    """
    r = rest.size
    for f in range(r):
        rest[f] = point[f] - base[f]
    for i in range(k):
        coordinates[i] = 0.0
    norm = math.sqrt(dot(rest, rest, r))
    for _ in range(2):
        before = norm
        for i in range(k):
            c = dot(Q[i], rest, r)
            coordinates[i] += c
            for f in range(r):
                rest[f] -= c * Q[i, f]
        norm = math.sqrt(dot(rest, rest, r))
        if norm > 0.5 * before:
            break
    return norm


@jit
def append(Q, R, k, rest, coordinates, norm, hull, point):
    """Append to D = Q R the column that `split` decomposed; update `hull` and `point`."""
    for i in range(k):
        R[i, k] = coordinates[i]
    R[k, k] = norm
    for f in range(rest.size):
        Q[k, f] = rest[f] / norm
    hull[k] = dot(Q[k], point, rest.size)
    for f in range(rest.size):
        point[f] -= hull[k] * Q[k, f]


@jit
def delete(Q, R, active, lam, size, position, hull, point):
    """Drop an atom from the active set and from D = Q R; update `hull` and `point`; return the new size."""
    k = size - 1
    if position == 0 and k > 0:
        hull[0] += R[0, 0]
        # The next atom becomes the base: b_a - b_next = D_a - D_next, which changes only the first row of R.
        for j in range(1, k):
            R[0, j] -= R[0, 0]
    column = max(position - 1, 0)
    for j in range(column, k - 1):
        for i in range(j + 2):
            R[i, j] = R[i, j + 1]
    for i in range(column, k - 1):  # the rest is upper Hessenberg: rotate its subdiagonal away
        a, b = R[i, i], R[i + 1, i]
        h = math.hypot(a, b)
        c, s = a / h, b / h
        for j in range(i, k - 1):
            upper, lower = R[i, j], R[i + 1, j]
            R[i, j] = c * upper + s * lower
            R[i + 1, j] = c * lower - s * upper
        hull[i], hull[i + 1] = c * hull[i] + s * hull[i + 1], c * hull[i + 1] - s * hull[i]
        for f in range(Q.shape[1]):
            upper, lower = Q[i, f], Q[i + 1, f]
            Q[i, f] = c * upper + s * lower
            Q[i + 1, f] = c * lower - s * upper
    if k > 0:
        for f in range(Q.shape[1]):
            point[f] += hull[k - 1] * Q[k - 1, f]
    for i in range(position, size - 1):
        active[i] = active[i + 1]
        lam[i] = lam[i + 1]
    return size - 1


_LANES = 16
"""Entries per step of a compiled loop; the remainder, one by one, takes as long as a full step."""


@jit
def embed(reference, features):
    """Return the atoms b (n + 1, r) of a reference (n,), their transpose and norms (n,); F (n, r) = `features`."""
    n, r = features.shape
    short = -r % _LANES
    padded = r + short if 2 * short < _LANES else r  # 30 features take longer than 32; 33 take less than 48
    mean = np.zeros(r)
    for i in range(n):
        for f in range(r):
            mean[f] += reference[i] * features[i, f]
    b = np.zeros((n + 1, padded))
    norms = np.empty(n)
    for i in range(n):
        for f in range(r):
            b[i, f] = features[i, f] - mean[f]
        norms[i] = math.sqrt(dot(b[i], b[i], r))
    bt = np.zeros((padded, n))
    for start in range(0, n, 64):  # in blocks that fit the cache
        for f in range(r):
            for i in range(start, min(start + 64, n)):
                bt[f, i] = b[i, f]
    return b, bt, norms


@jit
def price_all(d, bt, y, exists, cost):
    """Fill the cost of every atom (n + 1,), without d if the multiplier does not exist; return the least."""
    n, r = bt.shape[1], bt.shape[0]
    for i in range(n + 1):
        cost[i] = d[i] if exists else 0.0
    whole = r - r % 4
    for f in range(0, whole, 4):  # four rows at a time: a quarter of the reads and writes of costs
        for i in range(n):
            cost[i] += y[f] * bt[f, i] + y[f + 1] * bt[f + 1, i] + y[f + 2] * bt[f + 2, i] + y[f + 3] * bt[f + 3, i]
    for f in range(whole, r):
        for i in range(n):
            cost[i] += y[f] * bt[f, i]
    cheapest = n
    for i in range(n):
        if cost[i] < cost[cheapest]:
            cheapest = i
    return cheapest


@jit
def list_cheap(cost, ceiling, listed):
    """List atoms cheaper than `ceiling` and both neighbours; return their number."""
    n, count = cost.size - 1, 0
    for i in range(n):
        if cost[i] < ceiling and (i == 0 or cost[i] <= cost[i - 1]) and (i == n - 1 or cost[i] <= cost[i + 1]):
            listed[count] = i
            count += 1
            if count == listed.size:
                break
    return count


@jit
def _walk(d, b, y, start, price):
    """Walk from an atom along the order of the contexts while the price falls; return the last atom and its price.

    Neighbours in that order are close in most problems, so the walk finds the same atom as pricing all.
    """
    n, at = b.shape[0] - 1, start
    for direction in (-1, 1):
        i = start + direction
        while 0 <= i < n:
            next_price = d[i] + dot(y, b[i], y.size)
            if next_price >= price:
                break
            at, price = i, next_price
            i += direction
        if at != start:
            break
    return at, price


@jit
def cheapest_nearby(d, b, y, listed, active, size, margin):
    """Return the cheapest atom near the listed and active ones; -1 if it is not cheaper than these by `margin`."""
    own = d[active[0]] + dot(y, b[active[0]], y.size)
    best, lowest = -1, own - margin
    for i in listed:
        price = d[i] + dot(y, b[i], y.size)
        if price < lowest:
            best, lowest = i, price
    for j in range(size):
        if active[j] < d.size - 1:
            i, price = _walk(d, b, y, active[j], own)
            if price < lowest:
                best, lowest = i, price
    return -1 if contains(active, size, best) else best


@jit
def contains(active, size, atom):
    return atom in active[:size]
