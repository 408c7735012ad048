"""Compiled dual simplex method for linear programs on the simplex with few constraints.

    minimise <c, x>  over  x >= 0, sum x = 1, lower <= A x <= upper            A (k, n), k small

The rows become A x - s = 0 with slacks lower <= s <= upper, so a basis has k + 1 columns. All mass on the lowest cost,
with every slack in the basis, is dual feasible: the method starts there, and there is no first phase. It stops at the
first basis whose x and s satisfy their bounds. The multipliers y of this basis certify it; for any y

    <c, x> >= min_i (c - A'y)_i + sum_j (y_j lower_j if y_j > 0 else y_j upper_j).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from drbo._compiled import in_order
from drbo.validation import FloatArray

_FEASIBLE = 1e-14
"""Feasibility tolerance of a basic variable. Rows of A are of size one."""
_PIVOT = 1e-10
"""Smaller pivots count as zero."""
_TIE = 1e-9
"""Accuracy of reduced costs; among nearly equal ratios the largest pivot wins."""


@in_order
def solve_rows(
    costs: FloatArray, A: FloatArray, lower: FloatArray, upper: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return for each row of costs (m, n) the minimiser (m, n), multipliers (m, k) and infeasibility (m,)."""
    m, n = costs.shape
    k = len(A)
    columns = np.ones((n, k + 1))
    columns[:, 1:] = A.T
    x = np.zeros((m, n))
    y = np.zeros((m, k))
    lacking = np.zeros(m)
    for row in range(m):
        lacking[row] = _solve(costs[row], columns, lower, upper, x[row], y[row])
    return x, y, lacking


@in_order
def _solve(
    c: FloatArray, columns: FloatArray, lower: FloatArray, upper: FloatArray, x: FloatArray, multipliers: FloatArray
) -> float:
    """Write the minimiser (n,) and the multipliers (k,); return the infeasibility that no pivot removes."""
    n, size = columns.shape
    k = size - 1
    basis = np.empty(size, dtype=np.int64)
    basis[0] = np.argmin(c)
    basis[1:] = n + np.arange(k)
    basic = np.zeros(n + k, dtype=np.bool_)
    basic[basis] = True
    at_upper = np.zeros(k, dtype=np.bool_)
    B, inverse = np.empty((size, size)), np.empty((size, size))
    lacking = 0.0
    for _ in range(100 + 20 * (n + size)):  # the walk may visit all corners of the convex hull of the contexts
        cost, right = np.zeros(size), np.zeros(size)
        right[0] = 1.0
        for i in range(k):
            if not basic[n + i]:
                right[1 + i] = upper[i] if at_upper[i] else lower[i]
        for i in range(size):
            if basis[i] < n:
                B[:, i] = columns[basis[i]]
                cost[i] = c[basis[i]]
            else:
                B[:, i] = 0.0
                B[1 + basis[i] - n, i] = -1.0
        if not _invert(B, inverse):
            return np.inf
        values = _product(inverse, right)
        values += _product(inverse, right - _product(B, values))  # one step of refinement
        y = _product(inverse.T, cost)
        y += _product(inverse.T, cost - _product(B.T, y))

        leaving, lacking, rises = -1, _FEASIBLE, True
        for i in range(size):
            if basis[i] < n:
                below, above = -values[i], -np.inf
            else:
                below, above = lower[basis[i] - n] - values[i], values[i] - upper[basis[i] - n]
            if below > lacking:
                leaving, lacking, rises = i, below, True
            if above > lacking:
                leaving, lacking, rises = i, above, False
        if leaving >= 0:
            entering = _entering(c, columns, lower, upper, basic, at_upper, inverse[leaving], y, rises)
        if leaving < 0 or entering < 0:
            if leaving < 0:
                lacking = 0.0
            break
        left = basis[leaving]
        basic[left], basic[entering] = False, True
        basis[leaving] = entering
        if left >= n:
            at_upper[left - n] = not rises
    total = 0.0
    for i in range(size):
        if basis[i] < n:
            x[basis[i]] = max(values[i], 0.0)
            total += x[basis[i]]
    x /= total
    multipliers[:] = y[1:]
    return lacking


@in_order
def _entering(
    c: FloatArray,
    columns: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    basic: NDArray[np.bool_],
    at_upper: NDArray[np.bool_],
    row: FloatArray,
    y: FloatArray,
    rises: bool,
) -> int:
    """Return the variable that enters the basis when the one of `row` of the inverse leaves; -1 if none can.

    Harris: of the ratios that are equal up to the rounding of the reduced costs, the one with the largest pivot.
    """
    n, size = columns.shape
    least = np.inf
    sign = 1.0 if rises else -1.0
    pivots, ratios = np.zeros(n + size - 1), np.full(n + size - 1, np.inf)
    for j in range(n + size - 1):
        if basic[j]:
            continue
        if j < n:
            pivot, reduced = 0.0, c[j]
            for i in range(size):
                pivot += row[i] * columns[j, i]
                reduced -= y[i] * columns[j, i]
        else:
            i = j - n
            if lower[i] == upper[i]:
                continue
            pivot, reduced = -row[1 + i], y[1 + i]
            if at_upper[i]:
                pivot, reduced = -pivot, -reduced
        pivot *= -sign
        if pivot > _PIVOT:
            pivots[j], ratios[j] = pivot, max(reduced, 0.0) / pivot
            least = min(least, (max(reduced, 0.0) + _TIE) / pivot)
    entering, largest = -1, 0.0
    for j in range(n + size - 1):
        if ratios[j] <= least and pivots[j] > largest:
            entering, largest = j, pivots[j]
    return entering


@in_order
def _product(matrix: FloatArray, vector: FloatArray) -> FloatArray:
    """Return the product of a small matrix and a vector, with the same bits on every machine."""
    found = np.zeros(len(matrix))
    for i in range(len(matrix)):
        for j in range(len(vector)):
            found[i] += matrix[i, j] * vector[j]
    return found


@in_order
def _invert(matrix: FloatArray, inverse: FloatArray) -> bool:
    """Write the inverse of a small matrix, by elimination with partial pivoting; return whether it exists."""
    n = len(matrix)
    left = matrix.copy()
    inverse[:] = 0.0
    for i in range(n):
        inverse[i, i] = 1.0
    for i in range(n):
        best = i
        for r in range(i + 1, n):
            if abs(left[r, i]) > abs(left[best, i]):
                best = r
        if abs(left[best, i]) == 0.0:
            return False
        for j in range(n):
            left[i, j], left[best, j] = left[best, j], left[i, j]
            inverse[i, j], inverse[best, j] = inverse[best, j], inverse[i, j]
        pivot = left[i, i]
        for j in range(n):
            left[i, j] /= pivot
            inverse[i, j] /= pivot
        for r in range(n):
            factor = left[r, i]
            if r != i and factor != 0.0:
                for j in range(n):
                    left[r, j] -= factor * left[i, j]
                    inverse[r, j] -= factor * inverse[i, j]
    return True
