"""Features phi of a kernel: functions for which phi(a)'phi(b) is the kernel k(a, b), exactly or on average.

    Anchored   exact at the points of a finite set, up to the rounding of a Cholesky factor
    Fourier    anywhere: cosines and sines of random frequencies; the kernel is met on average over the frequencies

A draw of f is a sum of features with random weights (`drbo.models.path`). Features (r, m) of points (m, d) have one row
per feature. Their slopes are (r, m, d).
"""

from __future__ import annotations

import math
from typing import ClassVar, Protocol

import numpy as np
from scipy.linalg import lapack, solve_triangular

from drbo.kernels import Kernel
from drbo.models.observation import Embedding
from drbo.validation import FloatArray

EXACT = 2048
"""Draws are exact on at most so many points of actions, and of contexts; more of them have Fourier features."""
FREQUENCIES = 512
"""How many random frequencies a draw is made of where points may lie anywhere."""


class Functions(Protocol):
    """Functions of a point: features, or the kernel with the observations (`Embedding`)."""

    def __call__(self, points: FloatArray, /) -> FloatArray:
        """Return r functions (r, m) of points (m, d)."""

    def slope(self, points: FloatArray, /) -> FloatArray:
        """Return their gradients (r, m, d) at points (m, d)."""


class Features(Functions, Protocol):
    """Features of points: draws of the prior are sums of them with standard normal weights."""

    complete: ClassVar[bool]
    """Whether a sum of the features is the whole draw everywhere, and not only at some points."""

    @property
    def count(self) -> int:
        """How many features there are, r."""

    def covariance(self, seen: Embedding) -> FloatArray:
        """Return the covariance (t, t) of draws at what was seen, of which the features may know a part only."""


class Anchored:
    """Features phi(a) = L^-1 k(P, a), L L' = k(P, P), for pivots P among some points.

    A Cholesky factor with pivots ends where the points left are known from the pivots to rounding: the kernel of the
    points may be singular, as it is if a point is there twice. Then phi(a)'phi(b) = k(a, b) at all of the points.
    Elsewhere a sum of the features is the mean of what is known from its values at the points.
    """

    complete: ClassVar[bool] = False

    def __init__(self, kernel: Kernel, points: FloatArray) -> None:
        self._kernel = kernel
        distinct = np.unique(points, axis=0)
        factor, order, rank, _ = lapack.dpstrf(kernel(distinct, distinct), lower=1)
        self._pivots = distinct[order[:rank] - 1]
        self._L = factor[:rank, :rank]

    @property
    def count(self) -> int:
        """The rank of the kernel of the points."""
        return len(self._L)

    def covariance(self, seen: Embedding) -> FloatArray:
        """Return the kernel (t, t) of what was seen."""
        return seen.gram()

    def __call__(self, points: FloatArray) -> FloatArray:
        """Return the features (r, m) of points (m, d)."""
        return self._solve(self._kernel(self._pivots, points))

    def slope(self, points: FloatArray) -> FloatArray:
        """Return the gradients (r, m, d) of the features at points (m, d)."""
        k = self._kernel.gradient(points, self._pivots).transpose(1, 0, 2)
        return self._solve(k.reshape(len(k), -1)).reshape(k.shape)

    def _solve(self, columns: FloatArray) -> FloatArray:
        return np.asarray(solve_triangular(self._L, columns, lower=True, check_finite=False))


class Fourier:
    """Features sqrt(variance / F) (cos w_1'a, .., cos w_F'a, sin w_1'a, .., sin w_F'a) of F random frequencies w.

    On average over the frequencies phi(a)'phi(b) = k(a, b). Given the frequencies it differs by a standard deviation of
    at most variance / sqrt(2 F) at any pair of points (Rahimi and Recht, NeurIPS 2007).
    """

    complete: ClassVar[bool] = True

    def __init__(self, kernel: Kernel, dimension: int, rng: np.random.Generator) -> None:
        self._w = kernel.frequencies(rng, FREQUENCIES, dimension)
        self._scale = math.sqrt(kernel.variance / FREQUENCIES)

    @property
    def count(self) -> int:
        """Twice the number of frequencies."""
        return 2 * len(self._w)

    def covariance(self, seen: Embedding) -> FloatArray:
        """Return phi'phi (t, t) of what was seen, given the frequencies."""
        phi = seen.through(self)
        return np.asarray(phi.T @ phi)

    def __call__(self, points: FloatArray) -> FloatArray:
        """Return the features (2 F, m) of points (m, d)."""
        angle = self._w @ points.T
        return np.concatenate([np.cos(angle), np.sin(angle)]) * self._scale

    def slope(self, points: FloatArray) -> FloatArray:
        """Return the gradients (2 F, m, d) of the features at points (m, d)."""
        cosine, sine = np.split(self(points), 2)
        slopes = np.concatenate([-sine, cosine])[:, :, None] * np.concatenate([self._w, self._w])[:, None, :]
        return np.asarray(slopes)

    def moved(self, weights: FloatArray, steps: FloatArray) -> FloatArray:
        """Return weights (2 F, n) with which phi(a) gives what `weights` (2 F,) give with phi(a + step), steps (n, d).

        cos(w'(a + s)) = cos w'a cos w's - sin w'a sin w's, and likewise for the sine.
        """
        angle = self._w @ steps.T
        cosine, sine = np.cos(angle), np.sin(angle)
        a, b = (part[:, None] for part in np.split(weights, 2))
        return np.concatenate([a * cosine + b * sine, b * cosine - a * sine])


def features_of(kernel: Kernel, points: FloatArray, rng: np.random.Generator, *, anywhere: bool) -> Features:
    """Return features for points (m, d): exact ones, unless points may lie `anywhere` or there are too many."""
    return Fourier(kernel, points.shape[1], rng) if anywhere or len(points) > EXACT else Anchored(kernel, points)


def check_features(kernel: Kernel, points: FloatArray, *, anywhere: bool) -> None:
    """Raise if the kernel has no features for points (m, d), with the words of the kernel."""
    if anywhere or len(points) > EXACT:
        kernel.frequencies(np.random.default_rng(0), 1, points.shape[1])
