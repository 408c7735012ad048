"""The atoms b of a reference, and the cheapest for a multiplier y: cost_i = d_i + <y, b_i>; compiled."""

from __future__ import annotations

import math

import numpy as np

from drbo._compiled import jit
from drbo.ambiguity._affine_qr import dot

_LANES = 16
"""Entries per step of a compiled loop; the remainder, one by one, takes as long as a full step."""


@jit
def embed(reference, features):
    """Return the atoms b (n + 1, r) of a reference (n,), their transpose and norms (n,).

    `features` (n, r) is the F of M = F F'.
    """
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
