"""The maximum mean discrepancy ball: the paper's ambiguity set."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from drbo import validation
from drbo._compiled import announce
from drbo.ambiguity._mmd_solver import embed, solve_batch
from drbo.ambiguity.contract import EPSILON, AmbiguitySet, Dual, peak
from drbo.kernels import RBF, Kernel
from drbo.validation import FloatArray


class MMD(AmbiguitySet):
    r"""Distributions within a maximum mean discrepancy of the reference (eq. 5 and 6 of the paper).

    distance(p, q) = ||m_p - m_q|| = sqrt((p - q)' M (p - q)),  M_ij = k_M(c_i, c_j)

    worst case = min <w, v>  s.t.  w >= 0, sum w = 1, (w - p)' M (w - p) <= eps^2                              (eq. 8)

    certificate: for any a in R^n, with g = M a, no feasible w has an expectation below
    min_i (v_i - g_i) + <p, g> - eps sqrt(a' M a).

    The kernel's scale sets the scale of the radius: with k_M <= 1 no two distributions are further apart than sqrt(2).
    At radius 0 the set is the reference alone, by definition; at any larger radius mass moves freely between contexts
    that the kernel does not tell apart. The distance is computed as ||F'(p - q)|| from a factor M = F F', which is
    accurate to 1e-15 where the quadratic form above is accurate to 1e-8 only.

    Parameters
    ----------
    contexts : (n, d) the contexts, with
    kernel : the kernel k_M, an RBF of lengthscale 0.1 by default; not the kernel of the Gaussian process
    gram : (n, n) instead of both: the matrix M itself, symmetric and positive semi-definite
    """

    def __init__(
        self, contexts: ArrayLike | None = None, kernel: Kernel | None = None, *, gram: ArrayLike | None = None
    ) -> None:
        if (contexts is None) == (gram is None):
            raise TypeError("MMD takes either contexts (with a kernel) or gram, and not both")
        if contexts is not None:
            points = validation.points("contexts", contexts)
            k_M = RBF(0.1) if kernel is None else kernel
            if not isinstance(k_M, Kernel):
                raise TypeError(f"kernel must be a kernel such as RBF(0.1), got {kernel!r}")
            self.contexts: FloatArray | None = validation.frozen(points)
            self.kernel: Kernel | None = k_M
            self.features = _factor(lambda i: k_M(points, points[i : i + 1])[:, 0], np.full(len(points), k_M.variance))
        else:
            if kernel is not None:
                raise TypeError("kernel must not be given with gram, which is the kernel's matrix already")
            M = validation.finite_array("gram", gram, ndim=2)  # type: ignore[arg-type]  # not None: checked above
            self.contexts = self.kernel = None
            self.features = _factor_gram(M)
        self.n_contexts = len(self.features)
        self._embedded: tuple[bytes, tuple[FloatArray, FloatArray, FloatArray]] | None = None

    @classmethod
    def of_features(cls, features: ArrayLike) -> Self:
        """Return the MMD of the matrix M = F F' for features F (n, r), used as they are."""
        ball = cls(gram=np.eye(1))  # whatever else an MMD holds is derived from its features
        ball.features = validation.finite_array("features", features, ndim=2)
        ball.n_contexts = len(ball.features)
        return ball

    def __repr__(self) -> str:
        return f"MMD({self.n_contexts} contexts, rank {self.features.shape[1]})"

    @property
    def scale(self) -> float:
        """The largest sqrt(k_M(c, c)); no two distributions are further apart than sqrt(2) times this if k_M >= 0."""
        return float(np.sqrt((self.features**2).sum(axis=1).max()))

    def dual(self, values: FloatArray, reference: FloatArray, radius: float) -> Dual | None:
        """Return the dual point a = -s (w - p), w the worst case, for the best s >= 0, with g(c) = sum_i a_i k(c_i, c).

        threshold(c) = b + g(c), b = min_i v_i - g(c_i). Within a cell g leaves its tangent by at most ||g|| times the
        kernel's `linear_error`.
        """
        if radius == 0.0:
            return None
        if self.contexts is None or self.kernel is None:
            raise TypeError("an MMD made of a gram matrix knows no further contexts: give it contexts and a kernel")
        kernel, contexts = self.kernel, self.contexts
        worst = self.worst_case(values, reference, radius)
        offset = float(values.min())
        above = values - offset  # nothing depends on the offset, and numbers near zero round least
        shift = worst.weights - reference
        embedded = shift @ self.features
        norm = float(np.linalg.norm(embedded))
        cost = 0.0 if norm == 0.0 else min(radius, 1e300) * norm  # eps ||g|| for s = 1; the radius may be infinite
        height = self.features @ embedded  # -g for s = 1
        height -= reference @ height

        def line(s: float) -> tuple[float, float]:
            prices = above + s * height
            i = int(np.argmin(prices))
            return float(prices[i]) - s * cost, float(height[i]) - cost

        lowest = int(np.argmin(height))
        s = peak(line, (float(above[lowest]), float(height[lowest]) - cost))
        used = np.flatnonzero(shift)
        a = -s * shift[used]
        # The features miss what the factorization left out, which matters for a tiny ||g||.
        missed = math.sqrt(2.0 * len(contexts) * EPSILON * kernel.variance) * float(np.abs(a).sum())

        def g(points: FloatArray) -> FloatArray:
            return np.asarray(kernel(points, contexts[used]) @ a)

        def threshold(points: FloatArray, half: FloatArray) -> tuple[FloatArray, FloatArray]:
            level, slope = b + g(points), np.zeros_like(points)
            if half.any():
                level += (s * norm + missed) * kernel.linear_error(half)
                slope = np.einsum("ijk,j->ik", kernel.gradient(points, contexts[used]), a)
            return offset + level, slope

        on_contexts = g(contexts)
        b = float((above - on_contexts).min())
        bound = offset + (b + float(reference @ on_contexts) - s * cost)
        return Dual(min(bound, float(worst.expectation)), 1.0, threshold)

    def _distance(self, p: FloatArray, q: FloatArray) -> float:
        return float(np.linalg.norm((p - q) @ self.features))

    def _solve(self, values: FloatArray, reference: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        weights = np.empty_like(values)
        lower_bound = np.empty(len(values))
        if radius == 0.0:
            weights[:] = reference
            lower_bound[:] = math.inf  # the set is one point: its expectation is the bound
        else:
            announce(solve_batch)
            solve_batch(values, reference, *self._embed(reference), min(radius, 1e300), weights, lower_bound)
        return weights, lower_bound

    def _embed(self, reference: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the embedding of a reference, that of the last one kept: a round asks for the same one many times.

        It depends on nothing else, so that no result hangs on what was asked before.
        """
        key = reference.tobytes()
        last = self._embedded
        if last is None or last[0] != key:
            last = self._embedded = (key, embed(reference, self.features))
        return last[1]

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_embedded": None}


def _factor(column: Callable[[int], FloatArray], diagonal: FloatArray) -> FloatArray:
    """Return F (n, r) with M = F F' up to rounding, by Cholesky with pivots, from columns of M on demand.

    It stops where the largest remaining diagonal entry is rounding error, n u max(M) with u = 2.2e-16, so r is the
    numerical rank of M: 30 for a smooth kernel on thousands of contexts. M itself is never formed.
    """
    n = len(diagonal)
    rest = diagonal.copy()
    negligible = n * np.finfo(float).eps * max(float(diagonal.max()), 0.0)
    factor = np.empty((n, min(n, 64)))
    for r in range(n):
        pivot = int(np.argmax(rest))
        if rest[pivot] <= negligible:
            return np.ascontiguousarray(factor[:, :r])
        if r == factor.shape[1]:
            factor = np.concatenate([factor, np.empty((n, min(r, n - r)))], axis=1)
        factor[:, r] = (column(pivot) - factor[:, :r] @ factor[pivot, :r]) / math.sqrt(rest[pivot])
        rest -= factor[:, r] ** 2
        rest[pivot] = 0.0
    return factor


def _factor_gram(M: FloatArray) -> FloatArray:
    """Return F with M = F F', after checking that M is symmetric and positive semi-definite."""
    n = len(M)
    if M.shape != (n, n) or n == 0:
        raise ValueError(f"gram must be a square matrix, got shape {M.shape}")
    size = float(np.abs(M).max())
    asymmetry = float(np.abs(M - M.T).max())
    if asymmetry > 1e-10 * size:
        raise ValueError(f"gram must be symmetric, got entries that differ from their mirror image by {asymmetry:.3g}")
    M = 0.5 * (M + M.T)
    factor = _factor(lambda i: M[:, i], M.diagonal().copy())
    residual = float(np.abs(M - factor @ factor.T).max())
    if residual > 1e-8 * size:
        lowest = float(np.linalg.eigvalsh(M)[0])
        raise ValueError(f"gram must be positive semi-definite, got a matrix with eigenvalue {lowest:.3g}")
    return factor
