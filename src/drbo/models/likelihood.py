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
from drbo.models.outcomes import LEAST_ERROR, Outcomes
from drbo.validation import FloatArray

Gradient = FloatArray


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


class DenseLikelihood:
    """log p(y | theta) of any outcomes, in O(t^3)."""

    def __init__(self, kernels: tuple[Correlation, Correlation], outcomes: Outcomes) -> None:
        """`outcomes` are standardised."""
        self.y, self.kernels = outcomes.y, kernels
        d_x, d = outcomes.x.shape[1], outcomes.x.shape[1] + outcomes.c.shape[1]
        self.parts = (slice(0, d_x), slice(d_x, d))
        self.tables = [kernel.table(z) for kernel, z in zip(kernels, (outcomes.x, outcomes.c), strict=True)]
        self._known = np.isfinite(outcomes.stderr)
        self._stderr = np.where(self._known, outcomes.stderr, 0.0)
        self._plain = not (self._known.any() or outcomes.shares_errors)
        self._siblings = None if self._plain else outcomes.siblings()

    def __call__(self, theta: FloatArray, correlation: float) -> tuple[float, Gradient]:
        """Return log p(y | theta) and its gradient (d + 3,) as if every entry were free; `correlation` is r."""
        t, d = len(self.y), len(theta) - 3
        variance, ridge = np.exp(2.0 * theta[d : d + 2])
        weights = np.exp(-2.0 * theta[:d])  # 1 / l^2
        R, slopes = zip(
            *(
                kernel.at(table, weights[part])
                for kernel, table, part in zip(self.kernels, self.tables, self.parts, strict=True)
            ),
            strict=True,
        )
        K = variance * R[0] * R[1]
        N, deviations = self._errors(variance, ridge, correlation)
        U, failed = lapack.dpotrf(K + N, lower=0)
        if failed:
            raise np.linalg.LinAlgError(f"the covariance of {t} outcomes is not positive at theta = {theta.tolist()}")
        b, _ = lapack.dpotrs(U, self.y, lower=0)
        inverse, _ = lapack.dpotri(U, lower=0)
        inverse = np.triu(inverse) + np.triu(inverse, 1).T
        Q = np.outer(b, b) - inverse
        value = -0.5 * self.y @ b - np.log(np.diag(U)).sum() - 0.5 * t * math.log(2.0 * math.pi)
        gradient = np.zeros_like(theta)
        for i, part in enumerate(self.parts):
            if slopes[i] is not None:
                # einsum, not BLAS: its threads wait for one another on a busy machine, for products this small
                trace = np.einsum("kp,p->k", self.tables[i], (Q * R[1 - i] * slopes[i]).ravel())
                gradient[part] = 0.5 * variance * weights[part] * trace
        gradient[d] = np.einsum("ij,ij", Q, K)
        if self._siblings is None:
            gradient[d + 1] = ridge * np.trace(Q)
            return float(value), gradient
        by_outcome = np.einsum("ij,ij->i", Q, N)
        clamped = self._known & (deviations > self._stderr)
        gradient[d] += by_outcome[clamped].sum()
        gradient[d + 1] = by_outcome[~self._known].sum()
        shared = np.einsum("i,j,ij,ij", deviations, deviations, Q, self._siblings)
        gradient[d + 2] = 0.5 * correlation * (1.0 - correlation) * shared
        return float(value), gradient

    def _errors(self, variance: float, ridge: float, correlation: float) -> tuple[FloatArray, FloatArray]:
        """Return the covariance N (t, t) of the errors, and their standard deviations (t,)."""
        t = len(self.y)
        if self._siblings is None:
            return ridge * np.eye(t), np.full(t, math.sqrt(ridge))
        least = LEAST_ERROR * math.sqrt(variance)
        deviations = np.where(self._known, np.maximum(self._stderr, least), math.sqrt(ridge))
        return np.outer(deviations, deviations) * (np.eye(t) + correlation * self._siblings), deviations


def _squared_differences(z: FloatArray) -> FloatArray:
    """Return (z_ik - z_jk)^2 for points z (t, d), one row per dimension k, shape (d, t t)."""
    return np.square(z.T[:, :, None] - z.T[:, None, :]).reshape(z.shape[1], -1)
