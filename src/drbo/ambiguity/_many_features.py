"""The MMD solver for a factor of M with hundreds of columns: a start from entries of M, then the exact solver.

With r features a change of the active set costs O(k r) and pricing O(n r). With entries of M they cost O(k^2) and O(n
k), which is less if the rank r is in the hundreds. Entries of M round distances to 1e-8, so the result is only a start:
`_mmd_solver` continues with the active set and certifies. Of the differences D = Q R in `_mmd_atoms` only R is used
here.

    M     (m, m)    the matrix of the contexts that may carry weight; the reference is atom m
    mean  (m,)      M p of these contexts, p the reference
    square          p'Mp, so that <b_i, b_j> = M_ij - mean_i - mean_j + square

The start is solved on all contexts if M is at most twice as large as its factor. Otherwise it is solved on the pivots
of the factor, which are spread over all contexts. Then all contexts are priced, and the solve continues on the active
atoms and the cheapest contexts, until no context is cheaper.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from drbo._compiled import announce, jit
from drbo.ambiguity._block_pivoting import SMALLEST, BlockPivoting
from drbo.ambiguity._mmd_atoms import delete, descent, dot, solve_lower, walk
from drbo.ambiguity._mmd_solver import ROWS_ALONE, empty_state, solve_sparse
from drbo.ambiguity.pivoted import Entries, Indices
from drbo.validation import FloatArray

FEWEST = 256
"""Below this rank the exact solver alone is as fast."""
Given = tuple[FloatArray, FloatArray, FloatArray, FloatArray, float]
"""A reference (n,), its atoms (n + 1, r), their transpose and norms (n,), and a radius."""
State = tuple[NDArray[np.int64], NDArray[np.int64], FloatArray, FloatArray, FloatArray]
_FEW = 96
"""Number of active atoms above which block pivoting is tried."""
_DEPENDENT = 1e-12
"""Atoms nearer to the hull of earlier ones, as a share of the largest difference, count as dependent."""
_CHEAP = 1e-9
"""Contexts cheaper by less than this share of the values' range are left to the exact solver."""
_SHARE = 0.1
"""Contexts become candidates if their saving is at least this share of the cheapest one's."""
_CANDIDATES = 500
"""Number of candidates per round if there are too many contexts for all of M."""
_ROUNDS = 8
"""Number of rounds of candidates before the exact solver takes over."""
_SAVING = 1e-10
"""Atoms cheaper by less than this share of the values' range are left to the exact solver."""
_NEAR = 1e-10
"""Atoms nearer to the hull, as a share of the largest squared distance, are left to the exact solver."""
_APART = 0.1
"""Atoms enter together if their mutual squared distance is at least this share of the largest one."""
_CHEAP_ENOUGH = 0.3
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
            inside = eps * eps - (own - dot(hull, hull, k))
            slope = descent(R, size, d, active, rhs, g)
            if not (inside > 0.0 and slope > 0.0):
                return size, 0.0
            step = math.sqrt(inside / slope)
            for i in range(size - 1):
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
        before, ceiling = size, paid - _CHEAP_ENOUGH * saving
        for _ in range(_TOGETHER):
            size = _enter(M, mean, square, R, active, lam, size, cheapest, _NEAR * largest, rhs, target)
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


class ManyFeatures:
    """The solver on the contexts of features F (n, r); the first of the `pivots` are spread over all contexts."""

    def __init__(self, features: FloatArray, pivots: list[int], entries: Entries) -> None:
        self._features, self._entries = features, entries
        self._blocks: BlockPivoting | None = None
        if len(features) <= 2 * len(pivots):  # M is no larger than twice F
            self._blocks = BlockPivoting(features, pivots)
            self._first, self._gram = self._blocks.order, self._blocks.gram
        else:
            self._first = np.array(pivots, dtype=np.intp)
            self._gram = entries(self._first, self._first)

    def solve(self, values: FloatArray, given: Given, weights: FloatArray, lower_bound: FloatArray) -> None:
        """Fill the outputs of `solve_batch`. Block pivoting solves rows with many active atoms, until it gives up."""
        announce(start_on_gram)
        blocks, unlimited = self._blocks, len(given[0]) + 1
        for row, v in enumerate(values):
            if len(values) <= ROWS_ALONE:
                blocks = self._blocks
            state = self._start(v, given, unlimited if blocks is None else _FEW)
            if state is None and blocks is not None:
                found = blocks.solve(v, given[0], given[-1])
                if found is not None:
                    weights[row], lower_bound[row] = found
                    continue
                blocks = None
                state = self._start(v, given, unlimited)
            here = slice(row, row + 1)
            solve_sparse(values[here], *given, unlimited, state, weights[here], lower_bound[here])

    def _start(self, v: FloatArray, given: Given, most_atoms: int) -> State | None:
        """Return an active set for values (n,), empty if none was found; None if it is too large."""
        reference, b, bt, norms, radius = given
        n, r = self._features.shape
        low, high = float(v.min()), float(v.max())
        half = 0.5 * high - 0.5 * low  # half the range cannot overflow
        state: State = empty_state(n, len(bt))
        if half == 0.0 or radius < SMALLEST * norms.max() or norms[v == low].min() <= radius:
            return state
        d = np.append((0.5 * v - 0.5 * low) / half, 0.0)
        d[:n] -= reference @ d[:n]
        square = float(np.sum((self._features[0] - b[0, :r]) ** 2))  # p'Mp
        where, gram = self._first, self._gram
        active, lam, size = np.empty(min(n, r) + 2, dtype=np.int64), np.empty(min(n, r) + 2), 0
        for _ in range(_ROUNDS):
            mean = 0.5 * (gram.diagonal() + square - norms[where] ** 2)  # M p of these contexts
            here = np.append(where, n)
            size, step = start_on_gram(gram, mean, square, d[here], radius, most_atoms, active, lam, size)
            if size > most_atoms:
                return None
            atoms = here[active[:size]]
            if step == 0.0 or len(where) == n:
                break
            prices = d + b @ (lam[:size] @ b[atoms] / step)
            saving = lam[:size] @ prices[atoms] - prices
            cheap = np.flatnonzero(saving > max(_CHEAP, _SHARE * saving.max()))
            if not len(cheap):
                break
            if len(cheap) > _CANDIDATES:
                cheap = cheap[np.argpartition(-saving[cheap], _CANDIDATES)[:_CANDIDATES]]
            where = np.union1d(atoms[atoms < n], cheap)
            gram = self._entries(where, where)
            active[:size] = np.where(atoms < n, np.searchsorted(where, atoms), len(where))
        return _factored(state, b, atoms, lam) if size else state


def _factored(state: State, b: FloatArray, atoms: Indices, lam: FloatArray) -> State:
    """Return the state with these atoms and weights; the given state if they are affinely dependent."""
    size, k = len(atoms), len(atoms) - 1
    q, upper = np.linalg.qr((b[atoms[1:]] - b[atoms[0]]).T)
    if k and np.abs(upper.diagonal()).min() > _DEPENDENT * np.abs(upper).max():
        counts, active, weights, Q, R = state
        counts[0], active[:size], weights[:size] = size, atoms, lam[:size]
        Q[:k], R[:k, :k] = q.T, upper
    return state
