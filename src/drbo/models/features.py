"""Features phi of a kernel: functions for which phi(a)'phi(b) is the kernel k(a, b), exactly or on average.

    Anchored   exact at the points of a finite set, up to the rounding of a Cholesky factor
    Fourier    anywhere: cosines and sines of random frequencies; equal to the kernel on average over the frequencies

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
"""Largest number of actions, and of contexts, with exact draws; larger sets use Fourier features."""
FREQUENCIES = 512
"""Number of random frequencies per draw where points may lie anywhere."""


class Functions(Protocol):
    """Functions of a point: features, or the kernel with the observations (`Embedding`)."""

    def __call__(self, points: FloatArray, /) -> FloatArray:
        """Return r functions (r, m) of points (m, d)."""

    def slope(self, points: FloatArray, /) -> FloatArray:
        """Return the gradients (r, m, d) of the functions at points (m, d)."""


class Features(Functions, Protocol):
    """Features of points: a draw of the prior is their sum with standard normal weights."""

    complete: ClassVar[bool]
    """Whether a sum of the features is the whole draw everywhere, not only at some points."""

    @property
    def count(self) -> int:
        """The number of features, r."""

    def covariance(self, seen: Embedding) -> FloatArray:
        """Return the covariance (t, t) of draws at the observations `seen`; features may explain only a part of it."""


class Anchored:
    """Features phi(a) = L^-1 k(P, a), L L' = k(P, P), for pivots P among some points.

    The pivoted Cholesky factorisation stops when the pivots determine the remaining points to rounding. The kernel of
    the points may therefore be singular, for instance if a point is repeated. Then phi(a)'phi(b) = k(a, b) at all of
    the points. Elsewhere a sum of the features is the mean given its values at the points.
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
        """Return the kernel (t, t) of the observations `seen`."""
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

    On average over the frequencies phi(a)'phi(b) = k(a, b). The standard deviation of the difference is at most
    variance / sqrt(2 F) at any pair of points (Rahimi and Recht, NeurIPS 2007).
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
        """Return phi'phi (t, t) of the observations `seen`, given the frequencies."""
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
        """Return weights W (2 F, n) with W'phi(a) = `weights`'phi(a + step), for steps (n, d).

        cos(w'(a + s)) = cos w'a cos w's - sin w'a sin w's, and likewise for the sine.
        """
        angle = self._w @ steps.T
        cosine, sine = np.cos(angle), np.sin(angle)
        a, b = (part[:, None] for part in np.split(weights, 2))
        return np.concatenate([a * cosine + b * sine, b * cosine - a * sine])


def features_of(kernel: Kernel, points: FloatArray, rng: np.random.Generator, *, anywhere: bool) -> Features:
    """Return features for points (m, d): exact, unless points may lie `anywhere` or are too many."""
    return Fourier(kernel, points.shape[1], rng) if anywhere or len(points) > EXACT else Anchored(kernel, points)


def check_features(kernel: Kernel, points: FloatArray, *, anywhere: bool) -> None:
    """Raise the kernel's error if the kernel has no features for points (m, d)."""
    if anywhere or len(points) > EXACT:
        kernel.frequencies(np.random.default_rng(0), 1, points.shape[1])
