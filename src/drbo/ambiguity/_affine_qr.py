"""The affine hull of a changing set of atoms, compiled: D = Q R, its columns the differences to the first atom.

    active  (size,)         the atoms; the first one is the base
    Q       (k, r) rows     an orthonormal basis of the span of D, k = size - 1
    R       (k, k)          upper triangular; both arrays have room for more
    point   (r,)            the point of the hull nearest to the origin, orthogonal to the rows of Q
    hull    (k,)            the coordinates of the base: base = point + Q' hull, which `split` computes

Atoms are appended and deleted by updates of Q and R, each in O(k r).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from drbo._compiled import jit
from drbo.validation import FloatArray

Indices = NDArray[np.int64]


@jit
def dot(a: FloatArray, b: FloatArray, size: int) -> float:
    total = 0.0
    for i in range(size):
        total += a[i] * b[i]
    return total


@jit
def solve_lower(R: FloatArray, k: int, rhs: FloatArray, out: FloatArray) -> None:
    """Solve R' out = rhs for the leading k x k block of the upper triangle R, along its rows."""
    for i in range(k):
        out[i] = rhs[i]
    for i in range(k):
        out[i] /= R[i, i]
        for j in range(i + 1, k):
            out[j] -= R[i, j] * out[i]


@jit
def solve_upper(R: FloatArray, k: int, rhs: FloatArray, out: FloatArray) -> None:
    """Solve R out = rhs for the leading k x k block of the upper triangle R."""
    for i in range(k - 1, -1, -1):
        total = rhs[i]
        for j in range(i + 1, k):
            total -= R[i, j] * out[j]
        out[i] = total / R[i, i]


@jit
def affine(R: FloatArray, size: int, coordinates: FloatArray, target: FloatArray) -> None:
    """Fill the weights of the atoms, with sum 1, of the point with these coordinates (k,) relative to the base."""
    solve_upper(R, size - 1, coordinates, target[1:])
    total = 0.0
    for i in range(1, size):
        total += target[i]
    target[0] = 1.0 - total


@jit
def walk(R: FloatArray, size: int, coordinates: FloatArray, target: FloatArray, lam: FloatArray) -> int:
    """Walk from weights lam towards those of the point with these coordinates, until an atom's weight is zero.

    Returns the position of this atom, or -1 if the walk arrives; `target` receives the weights at the end.
    """
    affine(R, size, coordinates, target)
    far, blocking = 1.0, -1
    for i in range(size):
        if target[i] < 0.0:
            share = lam[i] / (lam[i] - target[i])
            if share < far or blocking < 0:
                far, blocking = share, i
    for i in range(size):
        lam[i] = max(lam[i] + far * (target[i] - lam[i]), 0.0)
    return blocking


@jit
def split(
    Q: FloatArray, k: int, point: FloatArray, base: FloatArray, rest: FloatArray, coordinates: FloatArray
) -> float:
    """Split `point - base` into its `coordinates` in the span of the rows of Q and the `rest`; return the rest's norm.

    A small rest is inaccurate by cancellation and is split once more; twice is enough.
    """
    r = rest.size
    for f in range(r):
        rest[f] = point[f] - base[f]
    for i in range(k):
        coordinates[i] = 0.0
    norm = math.sqrt(dot(rest, rest, r))
    for _ in range(2):
        before = norm
        for i in range(k):
            c = dot(Q[i], rest, r)
            coordinates[i] += c
            for f in range(r):
                rest[f] -= c * Q[i, f]
        norm = math.sqrt(dot(rest, rest, r))
        if norm > 0.5 * before:
            break
    return norm


@jit
def append(
    Q: FloatArray,
    R: FloatArray,
    k: int,
    rest: FloatArray,
    coordinates: FloatArray,
    norm: float,
    hull: FloatArray,
    point: FloatArray,
) -> None:
    """Append to D = Q R the column that `split` decomposed; update `hull` and `point`."""
    for i in range(k):
        R[i, k] = coordinates[i]
    R[k, k] = norm
    for f in range(rest.size):
        Q[k, f] = rest[f] / norm
    hull[k] = dot(Q[k], point, rest.size)
    for f in range(rest.size):
        point[f] -= hull[k] * Q[k, f]


@jit
def delete(
    Q: FloatArray,
    R: FloatArray,
    active: Indices,
    lam: FloatArray,
    size: int,
    position: int,
    hull: FloatArray,
    point: FloatArray,
) -> int:
    """Drop an atom from the active set and from D = Q R; update `hull` and `point`; return the new size."""
    k = size - 1
    if position == 0 and k > 0:
        hull[0] += R[0, 0]
        # The next atom becomes the base: b_a - b_next = D_a - D_next, which changes only the first row of R.
        for j in range(1, k):
            R[0, j] -= R[0, 0]
    column = max(position - 1, 0)
    for j in range(column, k - 1):
        for i in range(j + 2):
            R[i, j] = R[i, j + 1]
    for i in range(column, k - 1):  # the rest is upper Hessenberg: rotate its subdiagonal away
        a, b = R[i, i], R[i + 1, i]
        h = math.hypot(a, b)
        c, s = a / h, b / h
        for j in range(i, k - 1):
            upper, lower = R[i, j], R[i + 1, j]
            R[i, j] = c * upper + s * lower
            R[i + 1, j] = c * lower - s * upper
        hull[i], hull[i + 1] = c * hull[i] + s * hull[i + 1], c * hull[i + 1] - s * hull[i]
        for f in range(Q.shape[1]):
            upper, lower = Q[i, f], Q[i + 1, f]
            Q[i, f] = c * upper + s * lower
            Q[i + 1, f] = c * lower - s * upper
    if k > 0:
        for f in range(Q.shape[1]):
            point[f] += hull[k - 1] * Q[k - 1, f]
    for i in range(position, size - 1):
        active[i] = active[i + 1]
        lam[i] = lam[i + 1]
    return size - 1
