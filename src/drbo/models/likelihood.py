"""log p(y | theta) of outcomes under a Gaussian process, and its gradient, by one dense factor.

theta    (log l_1, ..., log l_d, log a, log s, logit r)                               (d + 3,)
A        a^2 R_X * R_C + N, elementwise product; N the covariance of the errors (`drbo.models.outcomes`)
b        A^-1 y
Q        b b' - A^-1

log p(y | theta) = -1/2 y'b - 1/2 log det A - t/2 log 2 pi,        d/d theta_j = 1/2 tr(Q dA/d theta_j)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from drbo.kernels import RBF, Kernel, Matern
from drbo.models.outcomes import LARGEST_ERROR, LEAST_ERROR, Outcomes
from drbo.validation import FloatArray


@dataclass(frozen=True)
class Correlation:
    """The correlation R of one of the two kernels, fixed or learned, on points (n, d).

    Attributes
    ----------
    family : of a kernel that is learned
    fixed : the kernel itself if it is not
    """

    family: RBF | Matern
    fixed: Kernel | None

    def table(self, z: FloatArray) -> FloatArray:
        """Return what is known before theta: R (n, n) of a fixed kernel, else the squared differences (d, n n)."""
        return _squared_differences(z) if self.fixed is None else self.fixed(z, z) / self.fixed.variance

    def at(self, table: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        """Return R (n, n) for weights 1 / l^2 (d,), and -2 dR / d(r^2) if the kernel is learned."""
        if self.fixed is not None:
            return table, None
        n = math.isqrt(table.shape[1])
        s, decay = self.family.decay(np.einsum("k,kp->p", weights, table).reshape(n, n))
        return self.family.correlation(s, decay), -2.0 * self.family.slope(s, decay)


class Errors:
    """The covariance N of the errors of t outcomes, as a function of theta, and what it adds to a gradient."""

    def __init__(self, outcomes: Outcomes) -> None:
        self._t = len(outcomes.y)
        self._known = np.isfinite(outcomes.stderr)
        self._stderr = np.where(self._known, outcomes.stderr, 0.0)
        plain = not (self._known.any() or outcomes.shares_errors)
        self._siblings = None if plain else outcomes.siblings()

    def covariance(self, variance: float, ridge: float, correlation: float) -> FloatArray:
        """Return N (t, t) for a^2, s^2 and r."""
        if self._siblings is None:
            return ridge * np.eye(self._t)
        deviations = self._deviations(variance, ridge)
        return np.outer(deviations, deviations) * (np.eye(self._t) + correlation * self._siblings)

    def gradient(self, Q: FloatArray, variance: float, ridge: float, correlation: float) -> FloatArray:
        """Return 1/2 tr(Q dN) for log a, log s and logit r, (3,)."""
        if self._siblings is None:
            return np.array([0.0, ridge * np.trace(Q), 0.0])
        deviations = self._deviations(variance, ridge)
        of_pairs = np.outer(deviations, deviations) * Q
        shared = np.einsum("ij,ij", of_pairs, self._siblings)
        by_outcome = np.diag(of_pairs) + correlation * np.einsum("ij,ij->i", of_pairs, self._siblings)
        clipped = self._known & (deviations != self._stderr)
        logit = 0.5 * correlation * (1.0 - correlation) * shared
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
        self.y, self.kernels, self.errors = outcomes.y, kernels, Errors(outcomes)
        self.parts = parts(outcomes)
        self.tables = [kernel.table(z) for kernel, z in zip(kernels, (outcomes.x, outcomes.c), strict=True)]

    def __call__(self, theta: FloatArray, correlation: float) -> tuple[float, FloatArray]:
        """Return log p(y | theta) and its gradient (d + 3,) as if every entry were free; `correlation` is r."""
        t, d = len(self.y), len(theta) - 3
        variance, ridge = np.exp(2.0 * theta[d : d + 2])
        weights = np.exp(-2.0 * theta[:d])  # 1 / l^2
        (R_X, slope_X), (R_C, slope_C) = (
            kernel.at(table, weights[part])
            for kernel, table, part in zip(self.kernels, self.tables, self.parts, strict=True)
        )
        K = variance * R_X * R_C
        U, failed = lapack.dpotrf(K + self.errors.covariance(variance, ridge, correlation), lower=0)
        if failed:
            raise np.linalg.LinAlgError(f"the covariance of {t} outcomes is not positive at theta = {theta.tolist()}")
        b, _ = lapack.dpotrs(U, self.y, lower=0)
        inverse, _ = lapack.dpotri(U, lower=0)
        inverse = np.triu(inverse) + np.triu(inverse, 1).T
        Q = np.outer(b, b) - inverse
        value = -0.5 * self.y @ b - np.log(np.diag(U)).sum() - 0.5 * t * math.log(2.0 * math.pi)
        gradient = np.zeros_like(theta)
        both = zip(self.parts, self.tables, (slope_X, slope_C), (R_C, R_X), strict=True)
        for part, table, slope, other in both:
            if slope is not None:
                gradient[part] = 0.5 * variance * weights[part] * traces(table, Q * other * slope)
        gradient[d:] = self.errors.gradient(Q, variance, ridge, correlation)
        gradient[d] += np.einsum("ij,ij", Q, K)
        return float(value), gradient


def parts(outcomes: Outcomes) -> tuple[slice, slice]:
    """Return which entries of theta are the lengthscales of the actions, and which of the contexts."""
    d_x = outcomes.x.shape[1]
    return slice(0, d_x), slice(d_x, d_x + outcomes.c.shape[1])


def traces(table: FloatArray, M: FloatArray) -> FloatArray:
    """Return sum_ij D_k M_ij for the squared differences D_k of each dimension k, (d,)."""
    # einsum, not BLAS: its threads wait for one another on a busy machine, for products this small
    return np.asarray(np.einsum("kp,p->k", table, M.ravel()))


def _squared_differences(z: FloatArray) -> FloatArray:
    """Return (z_ik - z_jk)^2 for points z (t, d), one row per dimension k, shape (d, t t)."""
    return np.square(z.T[:, :, None] - z.T[:, None, :]).reshape(z.shape[1], -1)
