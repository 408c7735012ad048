"""The MMD solver for a factor of M with hundreds of columns: a start from entries of M, then the exact solver.

The start is solved on all contexts if M is at most twice as large as its factor. Otherwise it is solved on the pivots
of the factor, which are spread over all contexts. Then all contexts are priced, and the solve continues on the active
atoms and the cheapest contexts, until no context is cheaper.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from drbo._compiled import announce
from drbo.ambiguity._block_pivoting import BlockPivoting
from drbo.ambiguity._gram_start import start_on_gram
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
_SMALLEST = 1e-4
"""The least radius, as a share of the furthest context's distance; entries of M are too coarse for smaller radii."""
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
        if half == 0.0 or radius < _SMALLEST * norms.max() or norms[v == low].min() <= radius:
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
