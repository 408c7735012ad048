"""A Cholesky factor that grows by a point at a time, compiled: U' U = K + ridge I, U upper triangular.

The substitutions subtract one term after the other from what is left, never a sum of terms: with nearly equal points
what is left shrinks fast, and later terms are rounded relative to it. That is worth two digits at a ridge of 1e-12.
Keeping U rather than L = U' makes this order of operations run along rows, which the compiler can vectorise.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from drbo._compiled import jit


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
