"""A Cholesky factor that grows by one point or by a block of points, compiled: U' U = K + ridge I, U upper triangular.

The substitutions subtract one term after the other from what is left, never a sum of terms: with nearly equal points
what is left shrinks fast, and later terms are rounded relative to it. That is worth two digits at a ridge of 1e-12.
Keeping U rather than L = U' makes this order of operations run along rows, which the compiler can vectorise.

A block does for every entry the same operations in the same order as its points one by one, so that U has the same
bits. Neither function is compiled with `fastmath`, which would allow the compiler another order.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from drbo._compiled import jit

_TILE = 16
"""How many rows of U a block of columns meets at once: they stay in the cache."""


@numba.njit(cache=True, error_model="numpy")
def append_point(U, t, column, variance, least):
    """Append to U (t x t) a point with kernel `column` (t,) to the others; return the new pivot squared.

    `variance` is the point's own entry of K + ridge I; a pivot squared below `least` is rounding error, and raised.
    """
    rest = column.copy()
    pivot = variance
    for i in range(t):
        white = rest[i] / U[i, i]
        U[i, t] = white
        pivot -= white * white
        for j in range(i + 1, t):
            rest[j] -= U[i, j] * white
    pivot = max(pivot, least)
    U[t, t] = math.sqrt(pivot)
    return pivot


@numba.njit(cache=True, error_model="numpy")
def append_points(U, t, columns, variances, least):
    """Append to U (t x t) a block of b points; return their pivots squared (b,).

    `columns` (t + b, b) holds the kernel of each with the others and with those of the block before it; it is used up.
    """
    b = columns.shape[1]
    pivots = variances.copy()
    for first in range(0, t, _TILE):
        end = min(first + _TILE, t)
        for i in range(first, end):
            for c in range(b):
                columns[i, c] /= U[i, i]
                pivots[c] -= columns[i, c] * columns[i, c]
            for j in range(i + 1, end):
                for c in range(b):
                    columns[j, c] -= U[i, j] * columns[i, c]
        for j in range(end, t):
            for i in range(first, end):
                for c in range(b):
                    columns[j, c] -= U[i, j] * columns[i, c]
        for k in range(b):
            for i in range(first, end):
                for c in range(k + 1, b):
                    columns[t + k, c] -= columns[i, k] * columns[i, c]
    for k in range(b):
        pivots[k] = max(pivots[k], least)
        U[t + k, t + k] = math.sqrt(pivots[k])
        for c in range(k + 1, b):
            columns[t + k, c] /= U[t + k, t + k]
            pivots[c] -= columns[t + k, c] * columns[t + k, c]
        for j in range(k + 1, b):
            for c in range(j + 1, b):
                columns[t + j, c] -= columns[t + k, j] * columns[t + k, c]
    for c in range(b):
        for i in range(t + c):
            U[i, t + c] = columns[i, c]
    return pivots


@jit
def solve(U, t, rhs):
    """Return the solution of U x = rhs (t,) for the leading t x t block."""
    x = np.empty(t)
    for i in range(t - 1, -1, -1):
        explained = 0.0
        for j in range(i + 1, t):
            explained += U[i, j] * x[j]
        x[i] = (rhs[i] - explained) / U[i, i]
    return x
