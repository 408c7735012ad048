"""A Cholesky factor that grows by one point or by a block of points, compiled: U' U = K + ridge I, U upper triangular.

A point that is observed again changes one entry of the diagonal (`lower_diagonal`).

The substitutions subtract terms one by one from a remainder, never a sum of terms. With nearly equal points the
remainder shrinks fast, and later terms are rounded relative to it. This order saves two digits at a ridge of 1e-12.
Keeping U rather than L = U' makes this order of operations run along rows, which the compiler can vectorise.

A block and its points one by one use the same operations in the same order for every entry, so U has the same bits.
Every function is compiled `in_order`: nothing is reassociated.
"""

from __future__ import annotations

import math

import numpy as np

from drbo._compiled import in_order

LANES = 8
"""Number of partial sums in `solve`. U has room for this many columns beyond its points."""
_TILE = 16
"""Rows of U per block of columns; this many stay in the cache."""


@in_order
def append_point(U, t, column, variance, least):
    """Append to U (t x t) a point with kernel `column` (t,) to the others; return the new pivot squared.

    `variance` is the point's own entry of K + ridge I; a squared pivot below `least` is rounding error and is raised to
    `least`.
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


@in_order
def append_points(U, t, columns, variances, least):
    """Append to U (t x t) a block of b points; return their pivots squared (b,).

    `columns` (t + b, b) holds the kernel of each point with the earlier ones, those of the block included; it is
    overwritten. `least` (b,) is one number per point.
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
        pivots[k] = max(pivots[k], least[k])
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


@in_order
def lower_diagonal(U, t, i, by):
    """Make U (t x t) the factor of U'U less `by` at entry (i, i), by hyperbolic rotations.

    With s = x_k / U_kk, row k of U becomes (U_k - s x) / c, and the remaining change x becomes c x - s U_k with the new
    U_k. This order makes the steps stable. The matrix must stay clearly positive definite.
    """
    x = np.zeros(t)
    x[i] = math.sqrt(by)
    for k in range(i, t):
        s = x[k] / U[k, k]
        c = math.sqrt((1.0 - s) * (1.0 + s))
        U[k, k] *= c
        for j in range(k + 1, t):
            U[k, j] = (U[k, j] - s * x[j]) / c
            x[j] = c * x[j] - s * U[k, j]


@in_order
def whitened(U, t, y):
    """Return U'^-1 y (t,) for y (t,)."""
    white = y.copy()
    for i in range(t):
        white[i] /= U[i, i]
        for j in range(i + 1, t):
            white[j] -= U[i, j] * white[i]
    return white


@in_order
def solve(U, t):
    """Return b (t,) with U b = u, u = U[:t, t] the column that `append_point` added to the leading t x t block.

    Sums run over groups of `LANES` columns from the last to the first, one partial sum per lane. U must have room for
    a whole group beyond t.
    """
    b = np.zeros(t + LANES)
    for i in range(t - 1, -1, -1):
        s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
        for j in range((t - 1) // LANES * LANES, (i + 1) // LANES * LANES - 1, -LANES):
            s0 += U[i, j] * b[j]
            s1 += U[i, j + 1] * b[j + 1]
            s2 += U[i, j + 2] * b[j + 2]
            s3 += U[i, j + 3] * b[j + 3]
            s4 += U[i, j + 4] * b[j + 4]
            s5 += U[i, j + 5] * b[j + 5]
            s6 += U[i, j + 6] * b[j + 6]
            s7 += U[i, j + 7] * b[j + 7]
        explained = ((s0 + s4) + (s1 + s5)) + ((s2 + s6) + (s3 + s7))
        b[i] = (U[i, t] - explained) / U[i, i]
    return b[:t]


@in_order
def solve_points(U, start, count):
    """Return `solve(U, start + c)` for c = 0..count - 1 as the columns of an array, with the same bits.

    Missing entries of a column are zero, and adding a product with zero changes no sum. The columns are read once per
    group of rows.
    """
    last = start + count
    B = np.zeros((last + LANES, count))
    sums = np.empty((LANES, LANES, count))
    for first in range((last - 1) // LANES * LANES, -1, -LANES):
        sums[:] = 0.0
        for j in range((last - 1) // LANES * LANES, first, -LANES):
            for r in range(LANES):
                for k in range(LANES):
                    u = U[first + r, j + k] if first + r < last else 0.0
                    for c in range(count):
                        sums[r, k, c] += u * B[j + k, c]
        for i in range(min(first + LANES, last) - 1, first - 1, -1):
            own = sums[i - first]
            for k in range(LANES):
                for c in range(count):
                    own[k, c] += U[i, first + k] * B[first + k, c]
            for c in range(max(i + 1 - start, 0), count):
                explained = ((own[0, c] + own[4, c]) + (own[1, c] + own[5, c])) + (
                    (own[2, c] + own[6, c]) + (own[3, c] + own[7, c])
                )
                B[i, c] = (U[i, start + c] - explained) / U[i, i]
    return B[:last]
