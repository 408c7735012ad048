r"""Many samples as a few weighted atoms, with a bound on the MMD, or the exact Wasserstein distance, between the two.

For MMD sets (`compressed`):

    N samples c_i with weights p (distinct, after merging)      A: r of them, the candidates for atoms
    K_iA (r,) = k(c_i, A),  L L' = K_AA                         F_i = L^-1 K_iA (r,), the features of c_i
    m = sum_i p_i F_i, the features of the mean                 E_i = k(c_i, c_i) - |F_i|^2, the residual variance

F_i are the coordinates of the projection of phi(c_i) on the span of phi(A). The residual rho_i has |rho_i|^2 = E_i and
vanishes for atoms. Projection and residual are orthogonal, so for any weights w on A

    MMD(p, w)^2 = |L'w - m|^2 + |sum_i p_i rho_i|^2.

The weights minimise the first term. The second term would need all N^2 kernel values. Instead the samples are split at
random into blocks b of about a thousand, |sum_i p_i rho_i| <= sum_b |rho_b|, and each

    |rho_b| <= min( sqrt(p_b' K_bb p_b - |F_b' p_b|^2),  sum_{i in b} p_i sqrt(E_i) ).

The left entry is exact, and small because the residuals of many samples cancel. The right one is less affected by
rounding, so it is better if E is tiny. With one block the bound is the MMD itself. The bound for moving each sample to
its nearest atom a(i), sum_i p_i sqrt(2 k(0) - 2 k(c_i, a(i))), is never smaller (Minkowski), so it is not used.

Rounding. Computed entries of K_iA - F_i L' and of the sums above are off by at most delta. With W_i = L'^-1 F_i (r,),
the weights with which the atoms reproduce c_i, and l_i = 1 + |W_i|_1, Gram matrices of exact and of computed residuals
differ by at most delta l_i l_j. So delta l_b^2 is added to |rho_b|^2, with l_b = sum_{i in b} p_i l_i, and 3 delta
(sum_b l_b)^2 to MMD^2. No bound is therefore below about 1e-6 (2e-6 to 1e-5 measured, for amplitude 1).

For Wasserstein sets (`quantise`) each of N samples c_i with weights p_i goes to its nearest atom a(i). With the weights
that arrive there,

    W_r(samples, atoms)^r = sum_i p_i D(c_i, a(i))^r,

as no plan moves a sample less far. A ball of radius eps around the samples lies in the ball of radius eps + W_r around
the atoms. Atoms are chosen by k-means++ and a few steps of Lloyd's algorithm; each is the sample nearest to the mean of
its cell.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular
from scipy.optimize import nnls
from scipy.spatial import cKDTree

from drbo import validation
from drbo._threads import one_thread
from drbo.ambiguity.metric import Metric
from drbo.ambiguity.pivoted import PivotedCholesky
from drbo.kernels import Kernel
from drbo.validation import FloatArray

PAIRS = 100_000_000
"""Budget of kernel values for the bound: blocks have PAIRS / N samples, from 500 to 2,000."""
CANDIDATES = 5_000
"""Number of candidates for atoms, drawn from the samples by weight."""
EPS = float(np.finfo(float).eps)


@dataclass(frozen=True, eq=False)
class Compression:
    """Weighted atoms that replace weighted samples, with MMD(samples, atoms) <= `error` in the given kernel.

    A ball of radius eps around the samples lies in the ball of radius eps + error around the atoms. Shapes: atoms (m,
    d), weights (m,) positive with sum 1, index (m,) the rows of the atoms among the samples (the first of equal ones).
    nearest (N,) is the atom that stands for each sample, -1 for a sample without weight; None if the atoms stand for
    all samples together, as for an MMD.
    """

    atoms: FloatArray
    weights: FloatArray
    error: float
    index: NDArray[np.int64]
    nearest: NDArray[np.intp] | None = None


def compress(samples: ArrayLike, kernel: Kernel, weights: ArrayLike | None = None, atoms: int = 300) -> Compression:
    """Return at most `atoms` of the samples, weighted to represent all samples, and a bound on the MMD error.

    The result is deterministic and does not depend on the order of the samples. If there are at most `atoms` distinct
    samples, all are kept, and the error is 0. Time O(N atoms^2) plus PAIRS kernel values; memory grows with the samples
    only.

    Parameters
    ----------
    samples : (N, d) the samples; a flat sequence of N numbers is N samples on a line
    kernel : the kernel of the MMD
    weights : (N,) a probability vector, uniform by default
    atoms : the largest number of atoms
    """
    points = validation.points("samples", samples)
    validation.of_kind("kernel", kernel, Kernel, "a kernel such as RBF(0.1)")
    limit = validation.whole_number("atoms", atoms, least=1)
    n = len(points)
    p = np.full(n, 1.0 / n) if weights is None else validation.distribution("weights", weights, n)
    kernel(points[:1], points[:1])  # raises before any work if the lengthscales have another dimension

    distinct, index, p, _ = grouped(points, p)
    if len(index) <= limit:
        return record(points, index, p, 0.0)

    with one_thread():  # the same bits for every caller
        return _compressed(points, distinct, p, index, kernel, limit)


def _compressed(
    points: FloatArray, distinct: FloatArray, p: FloatArray, index: NDArray[np.int64], kernel: Kernel, limit: int
) -> Compression:
    """Return at most `limit` of the distinct samples (n, d), of weights p (n,) and rows `index` (n,) in points."""
    # Samples in random order by weight: the order of exponential clocks with rates p.
    order = np.argsort(np.log(np.random.default_rng(0).exponential(size=len(p))) - np.log(p), kind="stable")
    total = float(p.sum())
    c, p, index = distinct[order], p[order] / total, index[order]
    # Candidates are weighted by weight / chance to be drawn, so that they represent all samples.
    drawn = p if len(p) <= CANDIDATES else np.maximum(p[:CANDIDATES], 1.0 / CANDIDATES)
    A, L = _choose(c[:CANDIDATES], drawn / drawn.sum(), kernel, limit)
    mean, residual, amplification, delta = _residual(c, p, kernel, c[A], L)
    w = _simplex_least_squares(L, mean)
    scale = math.sqrt(kernel.variance)
    misfit = float(np.linalg.norm(L.T @ w - mean)) + EPS * scale * len(p)  # sums of N terms
    error = math.sqrt(misfit**2 + residual**2 + 3.0 * delta * amplification**2) * (1.0 + 1e-12)
    return record(points, index[A[w > 0.0]], w[w > 0.0], error + abs(total - 1.0) * scale)


def _choose(c: FloatArray, p: FloatArray, kernel: Kernel, limit: int) -> tuple[NDArray[np.int64], FloatArray]:
    """Return pivots A (r,) among the candidates c (n, d), and L (r, r) with L L' = K_AA: Cholesky with pivots.

    Each pivot is the candidate that reduces the rest g of the mean embedding most, g_i^2 / E_i. Candidates need an E_i
    of at least 0.3 of the largest or 0.003 k(0), which keeps L well conditioned. The method ends near rounding error.
    """
    n = len(c)
    g = sum((kernel(c, c[s : s + 500]) @ p[s : s + 500] for s in range(0, n, 500)), np.zeros(n))
    diagonal = np.full(n, kernel.variance)
    factor = PivotedCholesky(lambda rows, columns: kernel(c[rows], c[columns]), diagonal, min(limit, n))
    for _ in range(min(limit, n)):
        largest = float(factor.rest.max())
        if largest <= 1e-13 * kernel.variance:
            break
        floor = 0.3 * min(largest, 0.01 * kernel.variance)
        gain = np.where(factor.rest >= floor, g**2, -1.0) / np.maximum(factor.rest, floor)
        a = int(np.argmax(gain))
        root = math.sqrt(factor.rest[a])
        g -= factor.add(a) * (g[a] / root)
    A = np.array(factor.pivots)
    return A, np.tril(factor.rows[:, A].T)


def _residual(
    c: FloatArray, p: FloatArray, kernel: Kernel, atoms: FloatArray, L: FloatArray
) -> tuple[FloatArray, float, float, float]:
    """Return m (r,), the bound on |sum_i p_i rho_i|, sum_i p_i l_i, and delta, block by block."""
    r, k0 = len(L), kernel.variance
    # Roundings: of kernel values a few and one per dimension; of features and their products r; of block sums its size.
    delta = (r + c.shape[1] + 20) * EPS * k0
    size = int(np.clip(PAIRS // len(c), 500, 2_000))
    delta_block = delta + 2 * size * EPS * k0
    mean = np.zeros(r)
    residual = amplification = 0.0
    for start in range(0, len(c), size):
        b = slice(start, start + size)
        F = solve_triangular(L, kernel(atoms, c[b]), lower=True, check_finite=False)  # (r, block)
        W = solve_triangular(L, F, lower=True, trans="T", check_finite=False)
        l_i = 1.0 + np.abs(W).sum(axis=0)
        part = F @ p[b]
        mean += part
        l_b = float(p[b] @ l_i)
        E = np.maximum(k0 - (F**2).sum(axis=0), 0.0)
        rho = float(p[b] @ np.sqrt(E + delta * l_i**2))
        if rho > math.sqrt(delta_block) * l_b:
            exact = _square(c[b], p[b], kernel) - float(part @ part)
            rho = min(rho, math.sqrt(max(exact, 0.0) + delta_block * l_b**2))
        residual += rho
        amplification += l_b
    return mean, residual, amplification, delta


def _square(c: FloatArray, p: FloatArray, kernel: Kernel) -> float:
    """Return p' K p for points c (n, d) and p (n,), from the upper half of K, in panels that stay in the cache."""
    total = 0.0
    for s in range(0, len(c), 250):
        e, values = s + 250, kernel(c[s : s + 250], c[s:])
        total += float(p[s:e] @ (values[:, :250] @ p[s:e]) + 2.0 * (p[s:e] @ (values[:, 250:] @ p[e:])))
    return total


def _simplex_least_squares(L: FloatArray, mean: FloatArray) -> FloatArray:
    """Return the w (r,) on the simplex that minimises |L'w - m|.

    With columns x_a = L_a - m, the objective is |X w|. For y = s w, s >= 0, the least of |X y|^2 + (sum y - 1)^2 over s
    is |X w|^2 / (1 + |X w|^2), which grows with |X w|. So the non-negative least squares solution y gives w = y / sum y
    exactly.
    """
    X = (L - mean).T
    X /= L[0, 0]  # the scale of the kernel
    y, _ = nnls(np.vstack([X, np.ones(len(L))]), np.append(np.zeros(len(L)), 1.0), maxiter=30 * len(L))
    return np.asarray(y / y.sum(), dtype=np.float64)


def grouped(
    points: FloatArray, weights: FloatArray
) -> tuple[FloatArray, NDArray[np.int64], FloatArray, NDArray[np.intp]]:
    """Return the distinct samples with weight (n, d), sorted; their first rows (n,), their weights (n,), their groups.

    The groups (N,) are the positions of all samples among the distinct ones, -1 for samples without weight.
    """
    rows = np.flatnonzero(weights)
    distinct, first, group = np.unique(points[rows], axis=0, return_index=True, return_inverse=True)
    p = np.bincount(group.ravel(), weights=weights[rows]).astype(np.float64, copy=False)
    groups = np.full(len(points), -1, dtype=np.intp)
    groups[rows] = group.ravel()
    return distinct, rows[first], p, groups


def record(
    points: FloatArray,
    index: NDArray[np.int64],
    weights: FloatArray,
    error: float,
    nearest: NDArray[np.intp] | None = None,
) -> Compression:
    """Return the compression to the samples of these rows."""
    kept = index.copy()
    kept.flags.writeable = False
    return Compression(validation.frozen(points[kept]), validation.frozen(weights), error, kept, nearest)


# --- for Wasserstein sets ---------------------------------------------------------------------------------------------

_STEPS = 8
"""Number of steps of Lloyd's algorithm: later ones change little."""


def quantise(points: FloatArray, metric: Metric, weights: FloatArray, atoms: int) -> Compression:
    """Return at most `atoms` of the samples (N, d), in steps of the metric, with weights, and the distance to them.

    The result is deterministic and does not depend on the order of the samples. If there are at most `atoms` distinct
    samples, all are kept, and the error is 0.
    """
    distinct, index, p, group = grouped(points, weights)
    if len(index) <= atoms:
        return record(points, index, p, 0.0, group)
    chosen = _seeds(distinct, p, metric, atoms)
    for _ in range(_STEPS):
        _, cell = _nearest(distinct, chosen, metric)
        mass = np.bincount(cell, weights=p, minlength=len(chosen))
        sums = np.stack([np.bincount(cell, weights=p * x, minlength=len(chosen)) for x in distinct.T], axis=1)
        means = sums / np.maximum(mass, np.finfo(float).tiny)[:, None]
        closest = np.asarray(cKDTree(distinct).query(means, p=metric.norm)[1], dtype=np.intp)
        moved = np.unique(np.where(mass > 0.0, closest, chosen))
        if np.array_equal(moved, chosen):
            break
        chosen = moved
    way, cell = _nearest(distinct, chosen, metric)
    shares = np.bincount(cell, weights=p, minlength=len(chosen)).astype(np.float64, copy=False)
    largest = float(way.max()) or 1.0
    error = largest * float(p @ (way / largest) ** metric.order) ** (1.0 / metric.order) * (1.0 + 1e-12)
    used = shares > 0.0
    place = np.cumsum(used) - 1
    return record(points, index[chosen[used]], shares[used], error, np.where(group < 0, -1, place[cell][group]))


def _nearest(points: FloatArray, chosen: NDArray[np.intp], metric: Metric) -> tuple[FloatArray, NDArray[np.intp]]:
    """Return the distance (n,) of each point from the nearest chosen one, and its position among these (n,)."""
    way, cell = cKDTree(points[chosen]).query(points, p=metric.norm)
    return np.asarray(way), np.asarray(cell, dtype=np.intp)


def _seeds(points: FloatArray, p: FloatArray, metric: Metric, count: int) -> NDArray[np.intp]:
    """Return `count` points by k-means++: each is drawn by its weight and its cost from those before; ascending."""
    rng = np.random.default_rng(0)
    chosen = [int(np.argmax(p))]
    cost = np.full(len(points), np.inf)
    for _ in range(count - 1):
        way = np.linalg.norm(points - points[chosen[-1]], metric.norm, axis=1)
        cost = np.minimum(cost, way**2)
        reached = np.cumsum(p * cost)
        if reached[-1] == 0.0:
            break
        chosen.append(int(np.searchsorted(reached, rng.random() * reached[-1], side="right")))
    return np.unique(np.minimum(chosen, len(points) - 1))
