"""A factor M = F'F of a positive semi-definite matrix, pivot by pivot or in blocks, from entries of M on demand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from drbo._threads import one_thread
from drbo.kernels import Kernel
from drbo.validation import FloatArray

Indices = NDArray[np.intp]
Entries = Callable[[Indices, Indices | slice], FloatArray]
"""The function from indices of rows (k,) and of columns (m,) to the entries M[rows][:, columns] (k, m)."""

_FAIR = 100.0
"""A pivot is kept if the rest at every new index is at most this many times larger."""
_SHARE = 0.3
"""The least rest at a pivot of a block, as a share of the largest rest."""
_CANDIDATES = 128
_ROOM = 1 << 24
"""Initial room in numbers, 128 MB; memory is used as it is written to."""
_ALL = slice(None)


@dataclass(frozen=True, eq=False)
class KernelEntries:
    """The entries of the matrix k(c_i, c_j) of contexts (n, d), which is never formed."""

    kernel: Kernel
    contexts: FloatArray

    def __call__(self, rows: Indices, columns: Indices | slice) -> FloatArray:
        """Return the entries of these rows (k,) and columns (m,), (k, m)."""
        return self.kernel(self.contexts[rows], self.contexts[columns])


@dataclass(frozen=True, eq=False)
class GramEntries:
    """The entries of a matrix (n, n)."""

    gram: FloatArray

    def __call__(self, rows: Indices, columns: Indices | slice) -> FloatArray:
        """Return the entries of these rows (k,) and columns (m,), (k, m)."""
        return self.gram[rows][:, columns]


class PivotedCholesky:
    """The factor of a matrix M (n, n) given by `entries`: its `pivots` in order, and the diagonal `rest` of M - F'F."""

    def __init__(self, entries: Entries, diagonal: FloatArray, most: int | None = None) -> None:
        """`most`: the largest number of pivots, if known."""
        self.rest = diagonal.copy()
        self.pivots: list[int] = []
        self.entries = entries
        n = len(diagonal)
        self._rows = np.empty((min(n, max(64, _ROOM // n)) if most is None else most, n))

    @property
    def rows(self) -> FloatArray:
        """The factor F (r, n), r the number of pivots."""
        return self._rows[: len(self.pivots)]

    def add(self, pivot: int) -> FloatArray:
        """Add a pivot with positive `rest`; return the new row of F (n,)."""
        rows = self._append(np.array([pivot]), np.sqrt(self.rest[[pivot]])[:, None])
        return np.asarray(rows[0])

    def complete(self) -> Self:
        """Add pivots until the rest is rounding error, n u max(M) with u = 2.2e-16.

        The number of pivots is then the numerical rank of M: 30 for a smooth kernel on thousands of contexts. Pivots
        are added in blocks, which uses matrix products instead of one pass over F per pivot.
        """
        largest = float(max(self.rest.max(), (self.rows**2).sum(axis=0).max(initial=0.0)))
        rounding = len(self.rest) * np.finfo(float).eps * max(largest, 0.0)
        with one_thread():  # the same bits wherever a set is placed on its contexts
            while len(self.pivots) < len(self.rest) and self.rest.max() > rounding:
                self._append(*self._block(rounding))
        return self

    def _block(self, rounding: float) -> tuple[Indices, FloatArray]:
        """Return the next pivots (k,) and the Cholesky factor (k, k) of M - F'F between them.

        Candidates are spread evenly over the indices with nearly the largest rest. The candidate with the largest rest
        becomes a pivot, repeatedly, while its rest is at least `_SHARE` of the largest rest. A small matrix is one
        block.
        """
        small = len(self.rest) <= _CANDIDATES
        least = rounding if small else max(_SHARE * float(self.rest.max()), rounding)
        near = np.flatnonzero(self.rest >= least)
        chosen = near[np.linspace(0, len(near) - 1, min(len(near), _CANDIDATES)).astype(np.intp)]
        own = self.rows[:, chosen]
        left = self.entries(chosen, chosen) - own.T @ own
        np.fill_diagonal(left, self.rest[chosen])
        factor, order, rank, _ = dpstrf(left, lower=1, tol=0.999 * least)
        return chosen[order[:rank] - 1], np.tril(factor[:rank, :rank])

    def _append(self, pivots: Indices, factor: FloatArray) -> FloatArray:
        """Add pivots (k,), with the `factor` (k, k) of M - F'F between them; return the new rows of F (k, n)."""
        r, n = len(self.pivots), len(self.rest)
        if r + len(pivots) > len(self._rows):
            self._rows = np.concatenate([self._rows[:r], np.empty((min(max(r, len(pivots)), n - r), n))])
        left = self.entries(pivots, _ALL) - self._rows[:r, pivots].T @ self._rows[:r]
        rows = self._rows[r : r + len(pivots)]
        rows[:] = solve_triangular(factor, left, lower=True, check_finite=False)
        rows[:, pivots] = factor.T  # the exact values of the quotients
        self.rest -= np.einsum("ij,ij->j", rows, rows)
        self.pivots.extend(pivots.tolist())
        self.rest[pivots] = 0.0
        return rows

    def extended(self, entries: Entries, cross: FloatArray, diagonal: FloatArray) -> Self:
        """Return the factor of a larger matrix: current pivots are kept, and missing ones are added.

        `entries` is for the larger matrix, `cross` (r, k) holds its entries between the pivots and the k new indices,
        and `diagonal` (k,) its new diagonal.

        A row is divided by the root of the rest at its pivot. If the rest at a new index is much larger, this amplifies
        rounding errors: such pivots and later ones are replaced.
        """
        r, n = self.rows.shape
        L = self.rows[:, self.pivots].T  # lower triangular
        new = solve_triangular(L, cross, lower=True, check_finite=False) if r else np.empty((0, len(diagonal)))
        left = diagonal - np.cumsum(new**2, axis=0) + new**2  # before each pivot, (r, k)
        coarse = np.flatnonzero(left.max(axis=1, initial=0.0) > _FAIR * np.diag(L) ** 2)
        kept = int(coarse[0]) if len(coarse) else r
        dropped = (self.rows[kept:] ** 2).sum(axis=0)
        larger = type(self)(entries, np.append(self.rest + dropped, diagonal - (new[:kept] ** 2).sum(axis=0)))
        np.maximum(larger.rest, 0.0, out=larger.rest)
        larger._rows = np.empty((r + len(diagonal), n + len(diagonal)))
        larger._rows[:kept, :n], larger._rows[:kept, n:] = self.rows[:kept], new[:kept]
        larger.pivots = self.pivots[:kept]
        larger.rest[larger.pivots] = 0.0
        return larger.complete()


def factor_gram(M: FloatArray) -> PivotedCholesky:
    """Return the factor of M; raise unless M is symmetric and positive semi-definite."""
    n = len(M)
    if M.shape != (n, n) or n == 0:
        raise ValueError(f"gram must be a square matrix, got shape {M.shape}")
    size = float(np.abs(M).max())
    asymmetry = float(np.abs(M - M.T).max())
    if asymmetry > 1e-10 * size:
        raise ValueError(f"gram must be symmetric, got entries that differ from their mirror image by {asymmetry:.3g}")
    M = 0.5 * (M + M.T)
    factor = PivotedCholesky(GramEntries(M), M.diagonal()).complete()
    residual = float(np.abs(M - factor.rows.T @ factor.rows).max())
    if residual > 1e-8 * size:
        lowest = float(np.linalg.eigvalsh(M)[0])
        raise ValueError(f"gram must be positive semi-definite, got a matrix with eigenvalue {lowest:.3g}")
    return factor
