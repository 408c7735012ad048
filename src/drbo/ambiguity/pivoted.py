"""A factor M = F'F of a positive semi-definite matrix, one pivot at a time, from columns of M on demand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Self

import numpy as np
from scipy.linalg import solve_triangular

from drbo.validation import FloatArray

Column = Callable[[int], FloatArray]
"""The function from an index i to the column M[:, i] (n,)."""

_FAIR = 100.0
"""A pivot is kept if no new index has so many times more left to explain."""


class PivotedCholesky:
    """The factor of a matrix M (n, n) that is never formed: Cholesky with pivots that the caller chooses.

    Attributes
    ----------
    rest : (n,) the diagonal of M - F'F, what is left to explain; zero at the pivots
    pivots : their indices, in order
    """

    def __init__(self, column: Column, diagonal: FloatArray, most: int | None = None) -> None:
        """`most`: how many pivots there will be at most, if that is known."""
        self.rest = diagonal.copy()
        self.pivots: list[int] = []
        self._column = column
        self._rows = np.empty((min(len(diagonal), 64) if most is None else most, len(diagonal)))

    @property
    def rows(self) -> FloatArray:
        """The factor F (r, n), r the number of pivots."""
        return self._rows[: len(self.pivots)]

    def add(self, pivot: int) -> FloatArray:
        """Add a pivot, whose `rest` is positive; return the new row of F (n,)."""
        r = len(self.pivots)
        if r == len(self._rows):
            self._rows = np.concatenate([self._rows, np.empty((min(r, len(self.rest) - r), len(self.rest)))])
        row = (self._column(pivot) - self._rows[:r, pivot] @ self._rows[:r]) / math.sqrt(self.rest[pivot])
        self._rows[r] = row
        self.rest -= row**2
        self.pivots.append(pivot)
        self.rest[pivot] = 0.0
        return row

    def complete(self) -> Self:
        """Add the pivot of the largest rest until only rounding error is left, n u max(M) with u = 2.2e-16.

        The number of pivots is then the numerical rank of M: 30 for a smooth kernel on thousands of contexts.
        """
        n = len(self.rest)
        largest = float(max(self.rest.max(), (self.rows**2).sum(axis=0).max(initial=0.0)))
        while len(self.pivots) < n:
            pivot = int(np.argmax(self.rest))
            if self.rest[pivot] <= n * np.finfo(float).eps * max(largest, 0.0):
                break
            self.add(pivot)
        return self

    def extended(self, column: Column, cross: FloatArray, diagonal: FloatArray) -> Self:
        """Return the factor of a larger matrix: the pivots so far are kept, and those missing are added.

        `column` is that of the larger matrix, `cross` (r, k) its entries between the pivots and the k new indices,
        `diagonal` (k,) its own.

        A row is divided by the root of what was left at its pivot. Where much more is left at a new index, that blows
        up rounding errors: such pivots and those after them are chosen anew.
        """
        r, n = self.rows.shape
        L = self.rows[:, self.pivots].T  # lower triangular
        new = solve_triangular(L, cross, lower=True, check_finite=False) if r else np.empty((0, len(diagonal)))
        left = diagonal - np.cumsum(new**2, axis=0) + new**2  # before each pivot, (r, k)
        coarse = np.flatnonzero(left.max(axis=1, initial=0.0) > _FAIR * np.diag(L) ** 2)
        kept = int(coarse[0]) if len(coarse) else r
        dropped = (self.rows[kept:] ** 2).sum(axis=0)
        larger = type(self)(column, np.append(self.rest + dropped, diagonal - (new[:kept] ** 2).sum(axis=0)))
        np.maximum(larger.rest, 0.0, out=larger.rest)
        larger._rows = np.empty((r + len(diagonal), n + len(diagonal)))
        larger._rows[:kept, :n], larger._rows[:kept, n:] = self.rows[:kept], new[:kept]
        larger.pivots = self.pivots[:kept]
        return larger.complete()
