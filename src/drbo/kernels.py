"""Covariance functions: RBF, Matern and ConstantKernel, and the product of an action kernel and a context kernel.

A kernel is frozen configuration. Calling it on points a (n, d) and b (m, d) gives the matrix k(a_i, b_j) (n, m). With

    r^2 = sum_k ((a_k - b_k) / lengthscale_k)^2,

RBF and Matern have k(a, a) = amplitude^2. The paper's theory requires k <= 1, so amplitude <= 1.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from drbo import validation
from drbo._compiled import announce, in_order
from drbo.validation import FloatArray

__all__ = ["RBF", "ConstantKernel", "Kernel", "Matern", "Product"]

_AT_ONCE = 2**15
"""Entries of a product of kernels that are computed at once and stay in the cache."""


class Kernel(ABC):
    """A stationary covariance function on points of R^d."""

    @abstractmethod
    def __call__(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """Return k(a_i, b_j) for points a (n, d) and b (m, d), shape (n, m)."""

    @abstractmethod
    def gradient(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """Return the gradient of k(a_i, b_j) in a, for points a (n, d) and b (m, d), shape (n, m, d)."""

    @property
    @abstractmethod
    def curvature(self) -> FloatArray:
        """The variance of each partial derivative of a function with this covariance, (d,), or (1,) for all."""

    def linear_error(self, step: FloatArray) -> FloatArray:
        """Return the largest error (m,) of the tangent of a function of norm 1 after steps (m, d) or smaller ones.

        |phi(a + s) - phi(a) - D_s phi(a)|^2 = 2 k(0) - 2 k(s) + sum_i curvature_i s_i^2 + 2 grad k(s)' s
        """
        here = np.zeros((1, step.shape[1]))
        fall = self.variance - self(step, here)[:, 0]
        square = 2.0 * fall + step**2 @ np.broadcast_to(self.curvature, step.shape[1])
        square += 2.0 * np.einsum("ij,ij->i", self.gradient(step, here)[:, 0], step)
        rounding = 16.0 * np.finfo(float).eps * self.variance
        return np.sqrt(np.maximum(square, 0.0) + rounding)

    @property
    @abstractmethod
    def variance(self) -> float:
        """The value k(a, a), the same at every point."""

    def frequencies(self, rng: np.random.Generator, count: int, dimension: int) -> FloatArray:
        """Return frequencies w (count, dimension) drawn from the kernel's spectral density.

        By Bochner's theorem k(a, b) = variance E[cos(w'(a - b))]. Draws of f on a box or a range are sums of cosines
        and sines with these frequencies. A kernel without this method supports draws on finite sets only.
        """
        del rng, count, dimension
        raise TypeError(
            f"kernel {self!r} has no spectral density to draw from, which draws of f need if points may lie anywhere: "
            "give its class a method frequencies(rng, count, dimension), or use RBF or Matern"
        )


@dataclass(frozen=True)
class Shape:
    """R(r) = P(s) exp(-s) and its derivative in r^2, S(s) exp(-s), with P and S polynomials in s.

    Attributes
    ----------
    rooted, factor : s is the square root of factor r^2, or factor r^2 itself
    value : the coefficients of P, constant first
    slope : the coefficients of S, constant first
    """

    rooted: bool
    factor: float
    value: tuple[float, float, float]
    slope: tuple[float, float]


@dataclass(frozen=True)
class RadialKernel(Kernel):
    """A kernel amplitude^2 R(r) that depends only on the scaled distance r."""

    lengthscale: float | tuple[float, ...] = 1.0
    amplitude: float = 1.0

    def __post_init__(self) -> None:
        scales = np.atleast_1d(validation.finite_array("lengthscale", self.lengthscale))
        if scales.ndim != 1 or scales.size == 0 or scales.min() <= 0.0:
            raise ValueError(f"lengthscale must be positive, one number or one per dimension, got {self.lengthscale!r}")
        # Frozen and hashable for any input sequence.
        object.__setattr__(
            self, "lengthscale", float(scales[0]) if np.ndim(self.lengthscale) == 0 else (*scales.tolist(),)
        )
        object.__setattr__(self, "amplitude", validation.positive_float("amplitude", self.amplitude))
        for name, value in (("lengthscale", scales), ("amplitude", np.array([self.amplitude]))):
            if value.min() < 1e-100 or value.max() > 1e100:
                raise ValueError(f"{name} must be from 1e-100 to 1e100, got {getattr(self, name)!r}")

    @functools.cached_property
    def variance(self) -> float:
        """The value k(a, a) = amplitude^2."""
        return self.amplitude**2

    @property
    def curvature(self) -> FloatArray:
        """The variance of each partial derivative, -2 amplitude^2 R'(0) / lengthscale^2."""
        return np.asarray(-2.0 * self.variance * self.with_slope(np.zeros(1))[1] / np.square(self.lengthscale))

    def __call__(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """Return amplitude^2 R(r), shape (n, m)."""
        return self.variance * self.correlation(self._squared_distance(a, b))

    def gradient(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """Return dk(a_i, b_j) / da = 2 amplitude^2 R'(r^2) (a_i - b_j) / lengthscale^2, shape (n, m, d)."""
        slope = self.variance * self.with_slope(self._squared_distance(a, b))[1]
        return np.asarray(2.0 * slope[:, :, None] * (a[:, None] - b) / np.square(self.lengthscale))

    # The formulas of a family, shared by kernel matrices, gradients, sets and hyper-parameter fits.

    @abstractmethod
    def correlation(self, r2: FloatArray) -> FloatArray:
        """Return R(r), the kernel with amplitude 1, for r^2 of any shape."""

    @abstractmethod
    def with_slope(self, r2: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return R(r) and its derivative with respect to r^2, for r^2 of any shape."""

    def frequencies(self, rng: np.random.Generator, count: int, dimension: int) -> FloatArray:
        """Return frequencies (count, dimension): Gaussian vectors / lengthscale, each times a random factor."""
        gaussian = rng.standard_normal((count, dimension))
        return np.asarray(gaussian * self.spread(rng, count)[:, None] / np.asarray(self.lengthscale))

    def spread(self, rng: np.random.Generator, count: int) -> FloatArray:
        """Return draws (count,) of q >= 0 with R(r) = E[exp(-q^2 r^2 / 2)], a mixture of RBF kernels."""
        del rng, count
        raise TypeError(f"kernel {self!r} is not defined as a mixture of RBF kernels: give its class a method `spread`")

    def weights(self, d: int) -> FloatArray:
        """Return 1 / lengthscale^2 per dimension, (d,); raise if there is another number of lengthscales."""
        scales = np.broadcast_to(np.asarray(self.lengthscale), d)
        return np.asarray(1.0 / np.square(scales))

    def _squared_distance(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """Return r(a_i, b_j)^2, shape (n, m): differences come before scaling, so near-duplicates stay exact."""
        scale = self.lengthscale
        a, b = np.ascontiguousarray(a, dtype=np.float64), np.ascontiguousarray(b, dtype=np.float64)
        if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:  # compiled code checks no bounds
            raise ValueError(f"points must have the shapes (n, d) and (m, d), got {a.shape} and {b.shape}")
        announce(_squared_distances)
        if isinstance(scale, float):
            return np.asarray(_squared_distances(a, b, _ones(a.shape[1]), scale**2))
        if len(scale) != a.shape[1]:
            raise ValueError(f"lengthscale has {len(scale)} entries, but the points have {a.shape[1]} dimension(s)")
        return np.asarray(_squared_distances(a, b, np.power(scale, -2.0), 1.0))


@in_order
def _radial_product(
    a: FloatArray,
    b: FloatArray,
    weights: FloatArray,
    rooted: bool,
    P: tuple[float, float, float],
    fresh: bool,
    found: FloatArray,
    exponent: FloatArray,
) -> None:
    """Multiply found (n, m) by P(s) and subtract s from exponent, or set both, for points a (d, n) and b (d, m)."""
    n, m = found.shape
    s = np.empty(m)
    for i in range(n):
        s[:] = 0.0
        for k in range(a.shape[0]):
            here, w = a[k, i], weights[k]
            for j in range(m):
                s[j] += w * (here - b[k, j]) * (here - b[k, j])
        if rooted:
            for j in range(m):
                s[j] = math.sqrt(s[j])
        for j in range(m):
            value = P[0] + s[j] * (P[1] + s[j] * P[2])
            found[i, j] = value if fresh else found[i, j] * value
            exponent[i, j] = -s[j] if fresh else exponent[i, j] - s[j]


@functools.cache
def _ones(d: int) -> FloatArray:
    """Return read-only ones (d,)."""
    return np.ones(d)


@in_order
def _squared_distances(a: FloatArray, b: FloatArray, weights: FloatArray, divisor: float) -> FloatArray:
    """Return sum_k weights_k (a_ik - b_jk)^2 / divisor, shape (n, m), for points a (n, d) and b (m, d)."""
    n, m = a.shape[0], b.shape[0]
    found, columns = np.zeros((n, m)), b.T.copy()
    for i in range(n):
        for k in range(a.shape[1]):
            for j in range(m):
                step = a[i, k] - columns[k, j]
                found[i, j] += weights[k] * step * step
        for j in range(m):
            found[i, j] /= divisor
    return found


@dataclass(frozen=True)
class RBF(RadialKernel):
    """The squared exponential kernel k = amplitude^2 exp(-r^2 / 2)."""

    def correlation(self, r2: FloatArray) -> FloatArray:
        """Return exp(-r^2 / 2)."""
        return np.exp(-0.5 * r2)

    def with_slope(self, r2: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return exp(-r^2 / 2) and -exp(-r^2 / 2) / 2."""
        value = np.exp(-0.5 * r2)
        return value, np.asarray(-0.5 * value)

    def spread(self, rng: np.random.Generator, count: int) -> FloatArray:
        del rng
        return np.ones(count)

    @property
    def shape(self) -> Shape:
        """R = exp(-s) with s = r^2 / 2, as coefficients."""
        return Shape(rooted=False, factor=0.5, value=(1.0, 0.0, 0.0), slope=(-0.5, 0.0))


@dataclass(frozen=True)
class Matern(RadialKernel):
    """The Matern kernel with smoothness nu = 3/2 or 5/2.

    nu = 3/2:  k = amplitude^2 (1 + s) exp(-s),            s = sqrt(3) r
    nu = 5/2:  k = amplitude^2 (1 + s + s^2 / 3) exp(-s),  s = sqrt(5) r
    """

    nu: float = 2.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isinstance(self.nu, int | float) and self.nu in (1.5, 2.5)):
            raise ValueError(f"nu must be 1.5 or 2.5, got {self.nu!r}")

    def correlation(self, r2: FloatArray) -> FloatArray:
        s = np.sqrt(2.0 * self.nu * r2)
        return np.asarray((1.0 + s if self.nu == 1.5 else 1.0 + s + s**2 / 3.0) * np.exp(-s))

    def with_slope(self, r2: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return R and its derivative: -3/2 exp(-s) for nu = 3/2, and -5/6 (1 + s) exp(-s) for nu = 5/2."""
        s = np.sqrt(2.0 * self.nu * r2)
        decay = np.exp(-s)
        value = (1.0 + s if self.nu == 1.5 else 1.0 + s + s**2 / 3.0) * decay
        return np.asarray(value), np.asarray((-1.5 if self.nu == 1.5 else -5.0 / 6.0 * (1.0 + s)) * decay)

    def spread(self, rng: np.random.Generator, count: int) -> FloatArray:
        """Return sqrt(2 nu / g), g chi-square with 2 nu degrees: frequencies have Student's t distribution."""
        return np.asarray(np.sqrt(2.0 * self.nu / rng.chisquare(2.0 * self.nu, count)))

    @property
    def shape(self) -> Shape:
        """The class's formulas as coefficients."""
        if self.nu == 1.5:
            return Shape(rooted=True, factor=3.0, value=(1.0, 1.0, 0.0), slope=(-1.5, 0.0))
        return Shape(rooted=True, factor=5.0, value=(1.0, 1.0, 1.0 / 3.0), slope=(-5.0 / 6.0, -5.0 / 6.0))


@dataclass(frozen=True)
class ConstantKernel(Kernel):
    """The kernel k = 1 of a function without this input: `Product(RBF(0.2), ConstantKernel())`."""

    def __call__(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """Return ones, shape (n, m)."""
        return np.ones((len(a), len(b)))

    def gradient(self, a: FloatArray, b: FloatArray) -> FloatArray:
        return np.zeros((len(a), len(b), a.shape[1]))

    @property
    def curvature(self) -> FloatArray:
        return np.zeros(1)

    @property
    def variance(self) -> float:
        """The value k(a, a) = 1."""
        return 1.0

    def frequencies(self, rng: np.random.Generator, count: int, dimension: int) -> FloatArray:
        del rng
        return np.zeros((count, dimension))


@dataclass(frozen=True, eq=False)
class Along(Kernel):
    """The kernel k(a M, b M) of points that move along the rows of M (d', d), for points a (n, d').

    The rows are orthogonal. The kernel k is stationary, so the starting point does not matter.
    """

    kernel: Kernel
    directions: FloatArray

    def __call__(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """Return k(a_i M, b_j M), shape (n, m)."""
        return self.kernel(a @ self.directions, b @ self.directions)

    def gradient(self, a: FloatArray, b: FloatArray) -> FloatArray:
        return np.asarray(self.kernel.gradient(a @ self.directions, b @ self.directions) @ self.directions.T)

    @property
    def curvature(self) -> FloatArray:
        return np.asarray(self.directions**2 @ np.broadcast_to(self.kernel.curvature, self.directions.shape[1]))

    @property
    def variance(self) -> float:
        return self.kernel.variance

    def frequencies(self, rng: np.random.Generator, count: int, dimension: int) -> FloatArray:
        del dimension
        return self.kernel.frequencies(rng, count, self.directions.shape[1]) @ self.directions.T


@dataclass(frozen=True)
class Product:
    """The kernel k((x, c), (x', c')) = k_X(x, x') k_C(c, c') on actions x contexts."""

    action: Kernel
    context: Kernel

    def __post_init__(self) -> None:
        for name, kernel in (("action", self.action), ("context", self.context)):
            if not isinstance(kernel, Kernel):
                raise TypeError(f"{name} must be a kernel such as RBF(0.2), got {kernel!r}")

    @functools.cached_property
    def variance(self) -> float:
        """The value k(z, z), the same at every point z = (x, c)."""
        return self.action.variance * self.context.variance

    def between(self, x: FloatArray, c: FloatArray, x_2: FloatArray, c_2: FloatArray) -> FloatArray:
        """Return k((x_i, c_i), (x_2j, c_2j)), shape (n, m), with one exponential for both kernels if possible."""
        k_X, k_C = self.action, self.context
        if not (isinstance(k_X, RBF | Matern) and isinstance(k_C, RBF | Matern)):
            found = k_X(x, x_2)
            found *= k_C(c, c_2)
            return found
        parts = []
        for kernel, one, two in ((k_X, x, x_2), (k_C, c, c_2)):
            weights = kernel.shape.factor * kernel.weights(one.shape[1])
            parts.append((np.ascontiguousarray(one.T), np.ascontiguousarray(two.T), weights, kernel.shape))
        found = np.empty((len(x), len(x_2)))
        step = max(_AT_ONCE // max(len(x_2), 1), 1)
        exponent = np.empty((min(step, len(x)), len(x_2)))
        announce(_radial_product)
        for start in range(0, len(x), step):
            part = found[start : start + step]
            power = exponent[: len(part)]
            for k, (one, two, weights, shape) in enumerate(parts):
                here = one[:, start : start + step]
                _radial_product(here, two, weights, shape.rooted, shape.value, k == 0, part, power)
            np.exp(power, out=power)
            part *= power
            part *= self.variance
        return found

    def check(self, d_x: int, d_c: int) -> None:
        """Raise if the kernels are not for actions of d_x and contexts of d_c coordinates."""
        self.action(np.zeros((1, d_x)), np.zeros((1, d_x)))
        self.context(np.zeros((1, d_c)), np.zeros((1, d_c)))
