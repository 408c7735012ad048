"""Mean and deviation of f(x, .) for one action in any context, with certified bounds over cells of contexts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import blas

from drbo.kernels import Along, Kernel, Product
from drbo.models.data import Observation, averaged
from drbo.validation import FloatArray


@dataclass(frozen=True, eq=False)
class Embedding:
    """The kernel functions of t observed contexts (t, d_c), points or averages over several contexts."""

    kernel: Kernel
    points: FloatArray
    averages: Mapping[int, Observation]

    @property
    def dimension(self) -> int:
        """The number of coordinates of a context."""
        return int(self.points.shape[1])

    def __call__(self, contexts: FloatArray) -> FloatArray:
        """Return the kernel of every observation's context with contexts (m, d_c), (t, m)."""
        k = self.kernel(self.points, contexts)
        for i, average in self.averages.items():
            k[i] = averaged(average.weights, self.kernel(average.contexts, contexts))
        return k

    def slope(self, contexts: FloatArray) -> FloatArray:
        """Return the gradient of the kernel in the context, at contexts (m, d_c), (t, m, d_c)."""
        slope = -self.kernel.gradient(self.points, contexts)
        for i, average in self.averages.items():
            slope[i] = -np.einsum("s,sjk->jk", average.weights, self.kernel.gradient(average.contexts, contexts))
        return slope

    def through(self, features: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """Return features (r, t) of the observed contexts; `features` maps contexts (m, d_c) to (r, m)."""
        found = features(self.points)
        for i, average in self.averages.items():
            found[:, i] = features(average.contexts) @ average.weights
        return found

    def gram(self) -> FloatArray:
        """Return the kernel of the observed contexts with each other, (t, t)."""
        k = self(self.points)
        for i, average in self.averages.items():
            k[:, i] = self(average.contexts) @ average.weights
        return k


@dataclass(frozen=True, eq=False)
class EmbeddingAlong:
    """The same observations as a function of c' (d',), where the context is start + c' M, M (d', d_c)."""

    inner: Embedding | EmbeddingAlong
    start: FloatArray
    directions: FloatArray

    @property
    def dimension(self) -> int:
        """The number of coordinates of c'."""
        return len(self.directions)

    def __call__(self, contexts: FloatArray) -> FloatArray:
        """Return the kernel of every observed context with that of c' (m, d'), (t, m)."""
        return self.inner(self.start + contexts @ self.directions)

    def slope(self, contexts: FloatArray) -> FloatArray:
        """Return the gradient of the kernel in c', at c' (m, d'), (t, m, d')."""
        return np.asarray(self.inner.slope(self.start + contexts @ self.directions) @ self.directions.T)

    def gram(self) -> FloatArray:
        """Return the kernel of the observed contexts with each other, (t, t)."""
        return self.inner.gram()


@dataclass(frozen=True)
class _Allowances:
    """The norm of the mean as a function of the context, and rounding errors of mean and variance."""

    mean_norm: float
    mean_rounding: float
    variance_rounding: float
    """As a share of the prior variance."""


class Curve:
    """The values v(c) = mean + slope std of f(x, .) for one action x, in any context, and in cells of contexts.

    A positive slope gives an upper confidence bound, a negative slope a lower bound.
    """

    def __init__(
        self,
        kernel: Product,
        ridge: float,
        k_action: FloatArray,
        embedding: Embedding | EmbeddingAlong,
        whitening: FloatArray,
        white: FloatArray,
        slope: float,
        *,
        triangular: bool = False,
    ) -> None:
        """`k_action` (t,) is the kernel of x with the observed actions; W (t, t) and W y (t,) are the posterior's.

        `triangular`: W is a lower triangle in column order, which halves the work.
        """
        self.slope, self._triangular = slope, triangular
        self._kernel, self._ridge, self._k_action = kernel, ridge, k_action
        self._embedding, self._W, self._white = embedding, whitening, white

    @property
    def steepness(self) -> FloatArray:
        """The standard deviation of each partial derivative of f(x, .), up to a common factor, (d,)."""
        curvature = np.maximum(self._kernel.context.curvature, np.finfo(float).tiny)  # zero for a constant kernel
        return np.asarray(np.sqrt(np.broadcast_to(curvature, self._embedding.dimension)))

    @cached_property
    def _sizes(self) -> _Allowances:
        """Rounding allowances of a bound over a cell: with a tiny ridge W is huge and its products cancel."""
        t = len(self._white)
        epsilon = 2.0 * np.finfo(float).eps
        k_observed = self._embedding.gram()
        a = self._k_action * (self._white @ self._W)
        sizes = self._k_action * (np.abs(self._white) @ np.abs(self._W))
        square = float(a @ k_observed @ a) + t * epsilon * float(sizes @ k_observed @ sizes)
        k_0 = self._kernel.context.variance
        off = epsilon * k_0 * float(np.linalg.norm(np.abs(self._W) @ self._k_action))  # of U'^-1 k_t(x, c), a vector
        # |m|^2 = a' K_C a <= k_X y' (K_t + ridge I)^-1 y
        limit = self._kernel.action.variance * float(self._white @ self._white)
        return _Allowances(
            math.sqrt(max(min(square, limit), 0.0)),
            epsilon * k_0 * float(sizes.sum()),
            2.0 * off / math.sqrt(self._kernel.variance) + epsilon,
        )

    def __call__(self, contexts: FloatArray) -> FloatArray:
        """Return the bound (m,) in contexts (m, d_c)."""
        mean, variance = self.moments(contexts)
        return np.asarray(mean + self.slope * np.sqrt(variance))

    def moments(self, contexts: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of f, each (m,), in contexts (m, d_c)."""
        white = self._whitened(self._embedding(contexts))
        return np.asarray(self._white @ white), self._unexplained(white)

    def variance(self, contexts: FloatArray) -> FloatArray:
        """Return the variance of f alone (m,) in contexts (m, d_c)."""
        return self.moments(contexts)[1]

    def difference(self, contexts: FloatArray, others: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of f(x, c_i) - f(x, c'_i), each (m,), for contexts and others (m, d_c)."""
        k_C = self._kernel.context
        white = self._whitened(self._embedding(contexts) - self._embedding(others))
        alike = k_C(contexts - others, np.zeros((1, contexts.shape[1])))[:, 0]  # the kernel is stationary
        own = 2.0 * self._kernel.action.variance * np.maximum(k_C.variance - alike, 0.0)
        return np.asarray(self._white @ white), np.maximum(own - np.einsum("ij,ij->j", white, white), 0.0)

    def gradient(self, contexts: FloatArray) -> FloatArray:
        """Return the gradient of the bound in the context, (m, d_c), in contexts (m, d_c).

        With W'W = (K_t + ridge I)^-1, and k_t the kernel of the observations and a context c,

            sum_s (W'W y - (slope / std) W'W k_t)_s dk_s / dc
        """
        white = self._whitened(self._embedding(contexts))
        std = np.sqrt(np.maximum(self._unexplained(white), 1e-12 * self._kernel.variance))
        per_point = (self._white @ self._W)[:, None] - self._W.T @ (white * (self.slope / std))
        slopes = self._embedding.slope(contexts)
        return np.asarray(np.einsum("sj,sjk->jk", per_point * self._k_action[:, None], slopes))

    def along(self, start: FloatArray, directions: FloatArray) -> Curve:
        """Return the curve as a function of c' (d',), where the context is start + c' M, M orthogonal directions."""
        kernel = Product(self._kernel.action, Along(self._kernel.context, directions))
        embedding = EmbeddingAlong(self._embedding, start, directions)
        return Curve(
            kernel,
            self._ridge,
            self._k_action,
            embedding,
            self._W,
            self._white,
            self.slope,
            triangular=self._triangular,
        )

    def information(self, contexts: FloatArray, atoms: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the reduction (m,) of the variance of g = sum_j w_j f(x, a_j) by an outcome in each context (m, d_c).

        Cov(f(x, c), g)^2 / (variance(x, c) + ridge), for atoms (n, d_c) of weights (n,).
        """
        k_C = self._kernel.context
        white = self._whitened(self._embedding(contexts))
        explained = (self._whitened(self._embedding(atoms)) @ weights) @ white
        prior = self._kernel.action.variance * (k_C(contexts, atoms) @ weights)
        return np.asarray((prior - explained) ** 2 / (self._unexplained(white) + self._ridge))

    def variance_after(self, contexts: FloatArray, atoms: FloatArray) -> FloatArray:
        """Return the variance (m, n) of f in atoms (n, d_c) after an outcome in each of contexts (m, d_c).

        variance(x, a) - Cov(f(x, c), f(x, a))^2 / (variance(x, c) + ridge)
        """
        there, here = self._whitened(self._embedding(contexts)), self._whitened(self._embedding(atoms))
        covariance = self._kernel.action.variance * self._kernel.context(contexts, atoms) - there.T @ here
        explained = covariance**2 / (self._unexplained(there) + self._ridge)[:, None]
        return np.asarray(np.maximum(self._unexplained(here) - explained, 0.0))

    def lowest(self, centres: FloatArray, halves: FloatArray, tilt: FloatArray) -> FloatArray:
        """Return a lower bound (m,) of v(c) - tilt'(c - centre) over the cells |c - centre| <= half, for slope <= 0.

        Mean and deviation are an inner product <m, phi(c)> and a norm |S phi(c)|, S <= I, of the same feature phi(c).
        With the tangent phi(c) = phi(centre) + D_s phi + rest, s = c - centre, and |rest| <= `linear_error`(half),

            mean(c) >= mean + grad mean's - |m| |rest|
            std(c)  <= |S (phi + D_s phi)| + |rest|,   a root of q(s) = var + 2 cov(f, grad f)'s + s' Cov(grad f) s

        where s' Cov s <= half' |Cov| half = R^2, so sqrt(q(s)) <= std + cov's / std + R^2 / (2 std), or <= std + R, or
        std(c) <= the prior's; the smallest of these is used. A linear function of s is least in a corner.
        """
        m, d = centres.shape
        k_C = self._kernel.context
        white = self._whitened(self._embedding(centres))
        slope = self._embedding.slope(centres)
        white_slope = self._whitened(slope.reshape(len(slope), m * d)).reshape(-1, m, d)
        std = np.sqrt(self._unexplained(white) + self._sizes.variance_rounding * self._kernel.variance)
        covariance = -np.einsum("sj,sjk->jk", white, white_slope)
        prior = self._kernel.action.variance * np.broadcast_to(k_C.curvature, d)
        by_cell = white_slope.transpose(1, 2, 0)
        spread = np.abs(np.diag(prior) - by_cell @ by_cell.transpose(0, 2, 1))
        reach2 = np.einsum("jk,jkl,jl->j", halves, spread, halves)
        reach2 += self._sizes.variance_rounding * (halves @ np.sqrt(prior)) ** 2
        linear = np.einsum("s,sjk->jk", self._white, white_slope) - tilt
        joint = -(np.abs(linear + self.slope * covariance / std[:, None]) * halves).sum(axis=1)
        joint += self.slope * (std + reach2 / (2.0 * std))
        apart = -(np.abs(linear) * halves).sum(axis=1)
        rest = k_C.linear_error(halves)
        deviating = np.maximum(joint, apart + self.slope * (std + np.sqrt(reach2)))
        deviating += self.slope * math.sqrt(self._kernel.action.variance) * rest
        known = self._white @ white - self._sizes.mean_norm * rest - self._sizes.mean_rounding
        return np.asarray(known + np.maximum(deviating, apart + self.slope * math.sqrt(self._kernel.variance)))

    def _whitened(self, k_context: FloatArray) -> FloatArray:
        """Return U'^-1 k_t for columns k_C (t, m) of the kernel, (t, m)."""
        columns = self._k_action[:, None] * k_context
        return np.asarray(blas.dtrmm(1.0, self._W, columns, lower=1)) if self._triangular else self._W @ columns

    def _unexplained(self, white: FloatArray) -> FloatArray:
        """Return the remaining variance (m,) for whitened columns (t, m)."""
        return np.asarray(np.maximum(self._kernel.variance - np.einsum("ij,ij->j", white, white), 0.0))
