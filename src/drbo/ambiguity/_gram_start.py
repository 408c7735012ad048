"""The active-set method of `_mmd_solver` on entries of M instead of features, compiled: a start for that solver.

With r features a change of the active set costs O(k r) and pricing O(n r). With entries of M they cost O(k^2) and O(n
k), which is less if the rank r is in the hundreds. Entries of M round distances to 1e-8, so the result is only a start:
`_mmd_solver` continues with the active set and certifies. Of the differences D = Q R in `_affine_qr` only R is used
here.

    M     (m, m)    the matrix of the contexts that may carry weight; the reference is atom m
    mean  (m,)      M p of these contexts, p the reference
    square          p'Mp, so that <b_i, b_j> = M_ij - mean_i - mean_j + square
"""

from __future__ import annotations

import math

import numpy as np

from drbo._compiled import jit
from drbo.ambiguity._affine_qr import delete, dot, solve_lower, walk

_SAVING = 1e-10
"""Atoms cheaper by less than this share of the values' range are left to the exact solver."""
_DEPENDENT = 1e-10
"""Atoms nearer to the hull, as a share of the largest squared distance, are left to the exact solver."""
_APART = 0.1
"""Atoms enter together if their mutual squared distance is at least this share of the largest one."""
_SHARE = 0.3
"""Atoms enter together if their saving is at least this share of the cheapest atom's."""
_TOGETHER = 32


@jit
def _inner(M, mean, square, i, j):
    """Return <b_i, b_j>; the reference is at the origin."""
    m = mean.size
    return 0.0 if i == m or j == m else M[i, j] - mean[i] - mean[j] + square


@jit
def _split(M, mean, square, R, k, active, atom, rhs, coordinates):
    """Fill the coordinates of an atom in the hull, relative to the base; return its squared distance from the hull."""
    base = active[0]
    own, across = _inner(M, mean, square, base, base), _inner(M, mean, square, atom, base)
    for i in range(k):
        a = active[i + 1]
        rhs[i] = _inner(M, mean, square, atom, a) - _inner(M, mean, square, base, a) - across + own
    solve_lower(R, k, rhs, coordinates)
    return _inner(M, mean, square, atom, atom) - 2.0 * across + own - dot(coordinates, coordinates, k)


@jit
def _enter(M, mean, square, R, active, lam, size, atom, least, rhs, coordinates):
    """Add an atom with weight zero if its squared distance from the hull is above `least`; return the size."""
    left = _split(M, mean, square, R, size - 1, active, atom, rhs, coordinates)
    if not left > least:
        return size
    for i in range(size - 1):
        R[i, size - 1] = coordinates[i]
    R[size - 1, size - 1] = math.sqrt(left)
    active[size], lam[size] = atom, 0.0
    return size + 1


@jit
def _price(M, mean, square, d, active, lam, size, step, cost):
    """Fill the cost of every atom (m + 1,); return the cheapest."""
    m, mass, level = mean.size, 0.0, 0.0
    cost[:] = 0.0
    atoms, shares = np.zeros(4, dtype=np.int64), np.zeros(4)
    for j in range(0, size, 4):  # four atoms at a time: a quarter of the reads and writes of costs
        atoms[:], shares[:] = 0, 0.0
        for q in range(min(4, size - j)):
            if active[j + q] < m:
                atoms[q], shares[q] = active[j + q], lam[j + q]
        first, second, third, fourth = M[atoms[0]], M[atoms[1]], M[atoms[2]], M[atoms[3]]
        for i in range(m):
            cost[i] += shares[0] * first[i] + shares[1] * second[i] + shares[2] * third[i] + shares[3] * fourth[i]
    for j in range(size):
        if active[j] < m:
            mass += lam[j]
            level += lam[j] * (square - mean[active[j]])
    cheapest = m
    for i in range(m):
        cost[i] = d[i] + (cost[i] - mass * mean[i] + level) / step
        if cost[i] < cost[cheapest]:
            cheapest = i
    return cheapest


@jit
def start_on_gram(M, mean, square, d, eps, most_atoms, active, lam, size):
    """Improve `size` active atoms and their weights for d (m + 1,) of range 1; return their number and the last step.

    Without atoms the method begins with the reference and one context. A number above `most_atoms` means that more
    atoms are needed, and zero that there is no start. The multiplier of the ball is the embedding of the weights
    divided by the step; the step is zero if the method stopped early.
    """
    m, most = mean.size, active.size
    R, Q, cost = np.empty((most, most)), np.empty((most, 0)), np.empty(m + 1)
    hull, g, rhs, target, nothing = np.empty(most), np.empty(most), np.empty(most), np.empty(most), np.empty(0)
    best, lowest, largest = -1, 0.0, 0.0
    for i in range(m):
        squared = max(_inner(M, mean, square, i, i), 0.0)
        largest = max(largest, squared)
        if squared > eps * eps and d[i] / math.sqrt(squared) < lowest:
            best, lowest = i, d[i] / math.sqrt(squared)
    if size == 0:
        if best < 0:
            return 0, 0.0
        size, active[0], active[1] = 2, m, best
        lam[1] = eps * lowest / d[best]
        lam[0] = 1.0 - lam[1]
    given, size = size, 1
    for i in range(1, given):
        weight = lam[i]
        size = _enter(M, mean, square, R, active, lam, size, active[i], 0.0, rhs, target)
        if size == i:  # numerically dependent
            return 0, 0.0
        lam[i] = weight
    step, last, stalled = 0.0, math.inf, 0
    while stalled < 10:
        while True:
            k, base = size - 1, active[0]
            own = _inner(M, mean, square, base, base)
            for i in range(k):
                rhs[i] = _inner(M, mean, square, active[i + 1], base) - own
            solve_lower(R, k, rhs, hull)
            for i in range(k):
                rhs[i] = d[active[i + 1]] - d[base]
            solve_lower(R, k, rhs, g)
            inside = eps * eps - (own - dot(hull, hull, k))
            slope = dot(g, g, k)
            if not (inside > 0.0 and slope > 0.0):
                return size, 0.0
            step = math.sqrt(inside / slope)
            for i in range(k):
                rhs[i] = -hull[i] - step * g[i]
            blocking = walk(R, size, rhs, target, lam)
            if blocking < 0:
                break
            size = delete(Q, R, active, lam, size, blocking, hull, nothing)
        if size > most_atoms:
            break
        value, paid = 0.0, 0.0
        cheapest = _price(M, mean, square, d, active, lam, size, step, cost)
        for i in range(size):
            value += lam[i] * d[active[i]]
            paid += lam[i] * cost[active[i]]
        stalled = 0 if value < last - 1e-14 else stalled + 1
        last = min(value, last)
        saving = paid - cost[cheapest]
        if saving <= _SAVING:
            break
        before, ceiling = size, paid - _SHARE * saving
        for _ in range(_TOGETHER):
            size = _enter(M, mean, square, R, active, lam, size, cheapest, _DEPENDENT * largest, rhs, target)
            if size == most - 1:
                return size, step
            chosen, cheapest = cheapest, m
            for i in range(m):  # the next one is the cheapest far from the earlier ones
                if chosen == m or M[i, i] + M[chosen, chosen] - 2.0 * M[chosen, i] < _APART * largest:
                    cost[i] = math.inf
                elif cost[i] < cost[cheapest]:
                    cheapest = i
            if not cost[cheapest] < ceiling:
                break
        if size == before:
            break
    return size, step
