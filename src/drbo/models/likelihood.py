"""log p(y | theta) of outcomes under a Gaussian process, and its gradient.

theta    (log l_1, ..., log l_d, log a, log s, logit r)                               (d + 3,)
A        a^2 R_X * R_C + N, elementwise product; N the covariance of the errors (`drbo.models.data`)
b        A^-1 y
Q        b b' - A^-1

log p(y | theta) = -1/2 y'b - 1/2 log det A - t/2 log 2 pi,        d/d theta_j = 1/2 tr(Q dA/d theta_j)

The matrices are symmetric, so only pairs i < j are computed, row by row. A learned correlation is P(s) exp(-s)
(`RadialKernel.shape`), so the product of two needs one exponential. The factor and then the inverse overwrite A. The
rest of the gradient is one pass over the pairs.

Outcomes that are mostly a block of evaluations in the same contexts have a cheaper form (`drbo.models.kronecker`).
Outcomes outside the block enter through its Schur complement.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack, solve_triangular

from drbo._compiled import announce, jit
from drbo.kernels import RBF, Kernel, Matern, Shape
from drbo.models.data import LARGEST_ERROR, LEAST_ERROR, Common, Outcomes
from drbo.models.kronecker import KroneckerFactors
from drbo.validation import FloatArray


@dataclass(frozen=True)
class Correlation:
    """The correlation R of one of the two kernels on points (n, d): `fixed`, or learned in a `family`."""

    family: RBF | Matern
    fixed: Kernel | None

    def table(self, z: FloatArray) -> FloatArray:
        """Return the part that does not depend on theta: R (n, n) if fixed, else the squared differences (d, n n)."""
        return _squared_differences(z) if self.fixed is None else self.fixed(z, z) / self.fixed.variance

    def at(self, table: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        """Return R (n, n) for weights 1 / l^2 (d,), and -2 dR / d(r^2) if the kernel is learned."""
        if self.fixed is not None:
            return table, None
        n = math.isqrt(table.shape[1])
        value, slope = self.family.with_slope(np.einsum("k,kp->p", weights, table).reshape(n, n))
        return value, -2.0 * slope

    def on_pairs(self, z: FloatArray) -> PairCorrelation:
        """Return the correlation of every pair of points (n, d)."""
        coordinates = np.ascontiguousarray(z.T)
        if self.fixed is None:
            return PairCorrelation(coordinates, self.family.shape, None)
        table = (self.fixed(z, z) / self.fixed.variance)[np.triu_indices(len(z), 1)]
        return PairCorrelation(coordinates, _FIXED, table)


_FIXED = Shape(rooted=False, factor=0.0, value=(0.0, 1.0, 0.0), slope=(0.0, 0.0))
"""The shape of a correlation given as a table: s is the correlation itself, without decay."""


@dataclass(frozen=True, eq=False)
class PairCorrelation:
    """R = P(s) exp(-s) of all pairs i < j of n points, row by row, n (n - 1) / 2 of them; P(s) = s where R is fixed.

    Attributes
    ----------
    coordinates : (d, n) of the points
    shape : P, and s as a function of distances
    table : R of the pairs if it is fixed, otherwise None
    """

    coordinates: FloatArray
    shape: Shape
    table: FloatArray | None

    def arguments(self, weights: FloatArray, s: FloatArray, exponent: FloatArray) -> FloatArray:
        """Return s of all pairs for weights 1 / l^2 (d,), written to `s`; subtract the decay from `exponent`."""
        if self.table is not None:
            return self.table
        announce(_arguments)
        _arguments(self.coordinates, self.shape.factor * weights, self.shape.rooted, s, exponent)
        return s

    def traces(self, M: FloatArray) -> FloatArray:
        """Return sum over pairs of M (n (n - 1) / 2) times the squared differences of each coordinate, (d,)."""
        return np.asarray(_traces(self.coordinates, M))


class Errors:
    """The covariance N of the errors of t outcomes; those of one evaluation, `first` and `second`, correlate."""

    def __init__(self, outcomes: Outcomes) -> None:
        self._known = np.isfinite(outcomes.stderr)
        self._stderr = np.where(self._known, outcomes.stderr, 0.0)
        self.first, self.second = outcomes.siblings()

    def add_to(self, A: FloatArray, variance: float, ridge: float, correlation: float) -> None:
        """Add N for a^2, s^2 and r to A (t, t), on the diagonal and above it."""
        deviations = self._deviations(variance, ridge)
        A.flat[:: len(A) + 1] += deviations**2
        A[self.first, self.second] += correlation * deviations[self.first] * deviations[self.second]

    def gradient(
        self, own: FloatArray, of_pairs: FloatArray, variance: float, ridge: float, correlation: float
    ) -> FloatArray:
        """Return 1/2 tr(Q dN) for log a, log s and logit r, (3,), for Q_ii (t,) and Q_ij of the correlated pairs."""
        deviations = self._deviations(variance, ridge)
        shared = of_pairs * deviations[self.first] * deviations[self.second]
        by_outcome = deviations**2 * own
        for one in (self.first, self.second):
            by_outcome += correlation * np.bincount(one, shared, minlength=len(own))
        clipped = self._known & (deviations != self._stderr)
        logit = correlation * (1.0 - correlation) * shared.sum()
        return np.array([by_outcome[clipped].sum(), by_outcome[~self._known].sum(), logit])

    def _deviations(self, variance: float, ridge: float) -> FloatArray:
        """Return the standard deviations of the errors, (t,)."""
        amplitude = math.sqrt(variance)
        known = np.clip(self._stderr, LEAST_ERROR * amplitude, LARGEST_ERROR * amplitude)
        return np.where(self._known, known, math.sqrt(ridge))


class DenseLikelihood:
    """log p(y | theta) of any outcomes, in O(t^3)."""

    def __init__(self, kernels: tuple[Correlation, Correlation], outcomes: Outcomes) -> None:
        """`outcomes` are standardised."""
        self.y, self.errors = outcomes.y, Errors(outcomes)
        self.parts = parts(outcomes)
        self.pairs = [kernel.on_pairs(z) for kernel, z in zip(kernels, (outcomes.x, outcomes.c), strict=True)]
        # Memory is reused: new pages from the operating system take longer than a pass over them.
        t = len(self.y)
        self._A, self._of_pairs = np.empty((t, t)), np.empty((5, t * (t - 1) // 2))

    def __call__(self, theta: FloatArray, correlation: float) -> tuple[float, FloatArray]:
        """Return log p(y | theta) and its gradient (d + 3,) as if every entry were free; `correlation` is r."""
        t, d = len(self.y), len(theta) - 3
        variance, ridge = np.exp(2.0 * theta[d : d + 2]).tolist()
        weights = np.exp(-2.0 * theta[:d])  # 1 / l^2
        (X, C), (part_X, part_C) = self.pairs, self.parts
        decay, s_X, s_C, M_X, M_C = self._of_pairs
        decay[:] = math.log(variance)
        s_X, s_C = X.arguments(weights[part_X], s_X, decay), C.arguments(weights[part_C], s_C, decay)
        np.exp(decay, out=decay)

        A = self._A  # on and above the diagonal; LAPACK reads it by columns, as the lower triangle
        announce(_fill)
        _fill(A, s_X, s_C, decay, X.shape.value, C.shape.value, variance)
        self.errors.add_to(A, variance, ridge, correlation)
        factor, failed = lapack.dpotrf(A.T, lower=1, clean=0, overwrite_a=1)
        if failed:
            raise np.linalg.LinAlgError(f"the covariance of {t} outcomes is not positive at theta = {theta.tolist()}")
        b, _ = lapack.dpotrs(factor, self.y, lower=1)
        value = -0.5 * self.y @ b - np.log(np.diag(factor)).sum() - 0.5 * t * math.log(2.0 * math.pi)
        inverse, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
        inverse = inverse.T

        gradient = np.zeros_like(theta)
        own = b * b - np.diag(inverse)
        announce(_of_pairs)
        values, slopes = (X.shape.value, C.shape.value), (X.shape.slope, C.shape.slope)
        by_amplitude = _of_pairs(inverse, b, s_X, s_C, decay, values, slopes, M_X, M_C)
        # Both (i, j) and (j, i) count, dr^2 / d log l = -2 w D, and the trace has the factor 1/2.
        gradient[part_X] = -2.0 * weights[part_X] * X.traces(M_X)
        gradient[part_C] = -2.0 * weights[part_C] * C.traces(M_C)
        first, second = self.errors.first, self.errors.second
        of_pairs = b[first] * b[second] - inverse[first, second]
        gradient[d:] = self.errors.gradient(own, of_pairs, variance, ridge, correlation)
        gradient[d] += 2.0 * by_amplitude + variance * own.sum()
        return float(value), gradient


class KroneckerLikelihood:
    """log p(y | theta) as in `DenseLikelihood`, for outcomes that are mostly one block."""

    def __init__(self, kernels: tuple[Correlation, Correlation], outcomes: Outcomes, common: Common) -> None:
        """`outcomes` are standardised."""
        self.kernels, self.parts = kernels, parts(outcomes)
        self.y = outcomes.y[common.block]
        self.rest = outcomes.of_rows(common.rest)
        self.errors = Errors(self.rest)
        x = np.concatenate([outcomes.x[common.block[:, 0]], self.rest.x])
        c = np.concatenate([outcomes.c[common.block[0]], self.rest.c])
        self.tables = [kernel.table(z) for kernel, z in zip(kernels, (x, c), strict=True)]

    def __call__(self, theta: FloatArray, correlation: float) -> tuple[float, FloatArray]:
        """Return log p(y | theta) and its gradient (d + 3,) as if every entry were free; `correlation` is r.

        M_X is the matrix for which 1/2 tr((b b' - A^-1) dA) = 1/2 <M_X, dK_X> for a change of the action kernel. M_C
        and M_S are the same for the context kernel and S. Rows and columns of M_X are the actions of the block, then
        the actions of the rest.
        """
        (T, k), E, d = self.y.shape, len(self.rest.y), len(theta) - 3
        variance, ridge = np.exp(2.0 * theta[d : d + 2])
        weights = np.exp(-2.0 * theta[:d])  # 1 / l^2
        (K_X, slope_X), (R_C, slope_C) = (
            kernel.at(table, weights[part])
            for kernel, table, part in zip(self.kernels, self.tables, self.parts, strict=True)
        )
        K_C = variance * R_C
        own = KroneckerFactors.of(K_X[:T, :T], K_C[:k, :k], ridge, correlation)
        Q, B, G, lam, gamma = own.Q, own.B, own.G, own.action_values, own.context_values
        white = Q.T @ self.y @ B
        shrunk = G * white  # b of the block, in the coordinates of the factors
        value = -0.5 * np.einsum("ij,ij", white, shrunk) + 0.5 * np.log(G).sum() - 0.5 * T * own.log_det_errors
        value -= 0.5 * (T * k + E) * math.log(2.0 * math.pi)
        M_X, M_C, Q_rest = np.empty_like(K_X), np.empty_like(K_C), np.empty((E, E))
        M_X[:T, :T] = -(Q * (G @ gamma)) @ Q.T
        M_C[:k, :k] = -(B * (lam @ G)) @ B.T
        M_S = -(B * G.sum(axis=0)) @ B.T
        if E:
            # In the coordinates of the factors the kernel of rest and block is q_ie b_je; Z is A^-1 times this kernel.
            q, b = Q.T @ K_X[:T, T:], B.T @ K_C[:k, k:]
            raw = (q[:, None, :] * b[None, :, :]).reshape(T * k, E)
            Z = G.reshape(-1, 1) * raw
            complement = K_X[T:, T:] * K_C[k:, k:] - raw.T @ Z
            self.errors.add_to(complement, variance, ridge, correlation)
            U, failed = lapack.dpotrf(complement, lower=0)
            if failed:
                raise np.linalg.LinAlgError(f"the covariance of the outcomes is not positive at {theta.tolist()}")
            residual = self.rest.y - shrunk.ravel() @ raw
            inverse = solve_triangular(U, np.eye(E), check_finite=False)
            P = inverse @ inverse.T
            b_rest = P @ residual
            value += -0.5 * residual @ b_rest - np.log(np.diag(U)).sum()
            shrunk = shrunk - (Z @ b_rest).reshape(T, k)
            known = (Z @ inverse).reshape(T, k, E)  # given the rest, the inverse of the block grows by known known'
            left = Q @ (known * np.sqrt(gamma)[:, None]).reshape(T, -1)
            right = B @ known.transpose(1, 0, 2).reshape(k, -1)
            M_X[:T, :T] -= left @ left.T
            M_C[:k, :k] -= (right * np.repeat(lam, E)) @ right.T
            M_S -= right @ right.T
            cross = (Z @ P).reshape(T, k, E)
            alpha = Q @ shrunk @ B.T
            M_X[:T, T:] = (alpha @ K_C[:k, k:]) * b_rest + Q @ np.einsum("ije,je->ie", cross, b)
            M_C[:k, k:] = (alpha.T @ K_X[:T, T:]) * b_rest + B @ np.einsum("ije,ie->je", cross, q)
            M_X[T:, :T], M_C[k:, :k] = M_X[:T, T:].T, M_C[:k, k:].T
            Q_rest = np.outer(b_rest, b_rest) - P
            M_X[T:, T:], M_C[k:, k:] = Q_rest * K_C[k:, k:], Q_rest * K_X[T:, T:]
        alpha = Q @ shrunk @ B.T
        M_X[:T, :T] += alpha @ K_C[:k, :k] @ alpha.T
        M_C[:k, :k] += alpha.T @ K_X[:T, :T] @ alpha
        M_S += alpha.T @ alpha

        gradient = np.zeros_like(theta)
        if slope_X is not None:
            gradient[self.parts[0]] = 0.5 * weights[self.parts[0]] * traces(self.tables[0], M_X * slope_X)
        if slope_C is not None:
            gradient[self.parts[1]] = 0.5 * variance * weights[self.parts[1]] * traces(self.tables[1], M_C * slope_C)
        of_pairs = Q_rest[self.errors.first, self.errors.second]
        gradient[d:] = self.errors.gradient(np.diag(Q_rest), of_pairs, variance, ridge, correlation)
        gradient[d] += np.einsum("ij,ij", M_X, K_X)
        total, own_part = M_S.sum(), np.trace(M_S)
        gradient[d + 1] += ridge * ((1.0 - correlation) * own_part + correlation * total)
        gradient[d + 2] += 0.5 * correlation * (1.0 - correlation) * ridge * (total - own_part)
        return float(value), gradient


def parts(outcomes: Outcomes) -> tuple[slice, slice]:
    """Return the slices of theta with the lengthscales of the actions and of the contexts."""
    d_x = outcomes.x.shape[1]
    return slice(0, d_x), slice(d_x, d_x + outcomes.c.shape[1])


def traces(table: FloatArray, M: FloatArray) -> FloatArray:
    """Return sum_ij D_k M_ij for the squared differences D_k of each dimension k, (d,)."""
    # einsum, not BLAS: for such small products BLAS threads wait for one another on a busy machine
    return np.asarray(np.einsum("kp,p->k", table, M.ravel()))


def _squared_differences(z: FloatArray) -> FloatArray:
    """Return (z_ik - z_jk)^2 for points z (t, d), one row per dimension k, shape (d, t t)."""
    return np.square(z.T[:, :, None] - z.T[:, None, :]).reshape(z.shape[1], -1)


@jit
def _arguments(z: FloatArray, weights: FloatArray, rooted: bool, s: FloatArray, exponent: FloatArray) -> None:
    """Write sum_k weights_k (z_ki - z_kj)^2, or its root, to s for all pairs i < j; subtract it from the exponent."""
    d, n = z.shape
    start = 0
    for i in range(n - 1):
        row, count = s[start : start + n - 1 - i], n - 1 - i
        row[:] = 0.0
        for k in range(d):
            here, others, w = z[k, i], z[k, i + 1 :], weights[k]
            for j in range(count):
                row[j] += w * (here - others[j]) * (here - others[j])
        if rooted:
            for j in range(count):
                row[j] = math.sqrt(row[j])
        out = exponent[start : start + count]
        for j in range(count):
            out[j] -= row[j]
        start += count


@jit
def _fill(
    A: FloatArray,
    s_X: FloatArray,
    s_C: FloatArray,
    decay: FloatArray,
    value_X: tuple[float, float, float],
    value_C: tuple[float, float, float],
    variance: float,
) -> None:
    """Write the kernel of all pairs to A (t, t) above the diagonal, and `variance` on it."""
    t = len(A)
    start = 0
    for i in range(t):
        A[i, i] = variance
        row, count = A[i, i + 1 :], t - 1 - i
        x, c, e = s_X[start : start + count], s_C[start : start + count], decay[start : start + count]
        for j in range(count):
            p = value_X[0] + x[j] * (value_X[1] + x[j] * value_X[2])
            q = value_C[0] + c[j] * (value_C[1] + c[j] * value_C[2])
            row[j] = p * q * e[j]
        start += count


@jit
def _of_pairs(
    inverse: FloatArray,
    b: FloatArray,
    s_X: FloatArray,
    s_C: FloatArray,
    decay: FloatArray,
    values: tuple[tuple[float, float, float], tuple[float, float, float]],
    slopes: tuple[tuple[float, float], tuple[float, float]],
    M_X: FloatArray,
    M_C: FloatArray,
) -> float:
    """Write Q_ij dk/d(r^2) to M_X and M_C for both kernels, for all pairs i < j; return the sum of Q_ij k_ij."""
    t = len(b)
    value_X, value_C = values
    slope_X, slope_C = slopes
    start, total = 0, 0.0
    for i in range(t - 1):
        count, own = t - 1 - i, b[i]
        row, others = inverse[i, i + 1 :], b[i + 1 :]
        x, c, e = s_X[start : start + count], s_C[start : start + count], decay[start : start + count]
        m, n = M_X[start : start + count], M_C[start : start + count]
        for j in range(count):
            q = (own * others[j] - row[j]) * e[j]
            p_X = value_X[0] + x[j] * (value_X[1] + x[j] * value_X[2])
            p_C = value_C[0] + c[j] * (value_C[1] + c[j] * value_C[2])
            m[j] = q * p_C * (slope_X[0] + x[j] * slope_X[1])
            n[j] = q * p_X * (slope_C[0] + c[j] * slope_C[1])
        for j in range(count):  # a separate loop keeps the bits: see `jit`
            p_X = value_X[0] + x[j] * (value_X[1] + x[j] * value_X[2])
            p_C = value_C[0] + c[j] * (value_C[1] + c[j] * value_C[2])
            total += (own * others[j] - row[j]) * e[j] * p_X * p_C
        start += count
    return total


@jit
def _traces(z: FloatArray, M: FloatArray) -> FloatArray:
    """Return for every coordinate k the sum over pairs i < j of M_ij (z_ki - z_kj)^2."""
    d, n = z.shape
    sums = np.zeros(d)
    start = 0
    for i in range(n - 1):
        count = n - 1 - i
        m = M[start : start + count]
        for k in range(d):
            here, others, total = z[k, i], z[k, i + 1 :], 0.0
            for j in range(count):
                total += m[j] * (here - others[j]) * (here - others[j])
            sums[k] += total
        start += count
    return sums
