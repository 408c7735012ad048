"""Many evaluations in the same contexts: the likelihood of thousands of outcomes in O(T^3 + k^3).

    X, C         the T actions and the k contexts of a block; every action was evaluated in every context
    Y            its outcomes                                                            (T, k)
    K_X, K_C     the kernels of X and of C; the amplitude of f is in K_C                  (T, T), (k, k)
    S            the covariance of the errors of one evaluation, s^2 I + t^2 11'          (k, k)
    Q, lambda    K_X = Q diag(lambda) Q'
    B, gamma     B'S B = I and B'K_C B = diag(gamma): the eigenvectors of K_C, whitened by S
    G            1 / (1 + lambda_i gamma_j)                                              (T, k)

The covariance of all outcomes is the Kronecker product K_X (x) K_C + I (x) S, and its inverse is

    (Q (x) B) diag(G) (Q (x) B)'.

Outcomes outside the block enter through its Schur complement. The posterior of f is in
`drbo.models.kronecker_posterior`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.linalg import eigh, lapack, solve_triangular

from drbo.models.likelihood import Correlation, Errors, parts, traces
from drbo.models.outcomes import Common, Outcomes
from drbo.validation import FloatArray


@dataclass(frozen=True, eq=False)
class KroneckerFactors:
    """The two diagonalised factors of a block: Q (T, T), lambda (T,), B (k, k), gamma (k,), G (T, k)."""

    Q: FloatArray
    action_values: FloatArray
    B: FloatArray
    context_values: FloatArray
    G: FloatArray
    log_det_errors: float
    """log det S."""

    @classmethod
    def of(cls, K_X: FloatArray, K_C: FloatArray, ridge: float, correlation: float) -> Self:
        """Return the factors for kernels K_X (T, T) and K_C (k, k), and errors of variance `ridge`."""
        k = len(K_C)
        L = np.linalg.cholesky(ridge * ((1.0 - correlation) * np.eye(k) + correlation))
        half = solve_triangular(L, K_C, lower=True, check_finite=False)
        white = solve_triangular(L, half.T, lower=True, check_finite=False)
        gamma, V = eigh(0.5 * (white + white.T), driver="evd", check_finite=False)
        lam, Q = eigh(K_X, driver="evd", check_finite=False)
        lam, gamma = np.maximum(lam, 0.0), np.maximum(gamma, 0.0)
        B = solve_triangular(L, V, lower=True, trans="T", check_finite=False)
        return cls(Q, lam, B, gamma, 1.0 / (1.0 + np.outer(lam, gamma)), 2.0 * float(np.log(np.diag(L)).sum()))

    def __deepcopy__(self, memo: Any) -> Self:
        """Return the factors themselves: they are immutable."""
        del memo
        return self


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
