"""Grids of points, and distributions on them: by density, or by the mass nearest to each point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from scipy.special import ndtr

from drbo import MMD, RBF, Kernel, Matern, Product
from drbo.problems._problem import Function, Problem
from drbo.validation import FloatArray


def grid(*axes: FloatArray) -> FloatArray:
    """Return every combination of the coordinates, (n_1 n_2 ... n_d, d), last axis fastest."""
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))


def normal_density(contexts: FloatArray, mean: float, std: float) -> FloatArray:
    """Return normalised weights (n,) proportional to the isotropic normal density at contexts (n, d)."""
    density = np.exp(-0.5 * (((contexts - mean) / std) ** 2).sum(axis=1))
    return np.asarray(density / density.sum())


def clamped(axis: FloatArray, cdf: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """Return the distribution (n,) of a random number clamped to [axis[0], axis[-1]] and moved to the nearest point.

    w_i = P(m_{i-1} < C <= m_i) with m_i halfway between axis[i] and axis[i+1], m_0 = -inf and m_n = inf. The first and
    the last point also hold the mass of the tails. The axis (n,) is increasing.
    """
    below = cdf((axis[1:] + axis[:-1]) / 2.0)
    return np.diff(np.concatenate(([0.0], below, [1.0])))


def clamped_normal(axis: FloatArray, mean: float, std: float) -> FloatArray:
    """Return the normal distribution (n,) clamped to the ends of the axis and moved to the nearest points."""
    return clamped(axis, lambda c: np.asarray(ndtr((c - mean) / std)))


def mmd(contexts: FloatArray, kernel: Kernel, p: FloatArray, q: FloatArray) -> float:
    """Return the maximum mean discrepancy of two distributions on the contexts."""
    return MMD(contexts, kernel).distance(p, q)


Reading = Literal["deviation", "variance"]
"""The meaning of the second number of N(0.5, 0.05)."""


def benchmark_1(size: int = 50, *, lengthscale: float = 0.1, reading: Reading = "deviation") -> Problem:
    """Return the benchmark whose stochastic, distributionally robust and worst-case solutions all differ.

    f(x, c) = b(x - 0.15) e(c; 0.07) + b(x - 0.5) (0.25 + 0.45 e(c; 0.15)) + 0.4 b(x - 0.85),

    b(u) = exp(-u^2 / (2 * 0.12^2)),  e(c; s) = exp(-(c - 0.5)^2 / (2 s^2)).

    A narrow, high ridge under the reference (x = 0.15, the stochastic solution). A lower, wider ridge that survives the
    shift (x = 0.5, distributionally robust, and also the best under the true distribution). A safe plateau (x = 0.85,
    the solution of StableOpt and of the pure worst case). The grid has `size` actions and `size` contexts.
    """
    description = "narrow ridge, wide ridge, safe plateau: the three solutions differ"
    gp_kernel = Product(RBF(0.15, amplitude=0.5), RBF(0.12))
    return _on_unit_square("benchmark_1", description, _three_ridges, size, gp_kernel, lengthscale, reading)


def benchmark_2(size: int = 50, *, lengthscale: float = 0.1, reading: Reading = "deviation") -> Problem:
    """Return the benchmark whose stochastic, distributionally robust and worst-case solutions coincide.

    f(x, c) = exp(-(x - 0.65)^2 / (2 * 0.2^2) - (c - 0.5)^2 / (2 * 0.4^2))
              + 0.6 exp(-(x - 0.2)^2 / (2 * 0.12^2) - (c - 0.5)^2 / (2 * 0.25^2)).

    A wide hill that is the best in every context (x = 0.65), and a smaller, narrower one. The grid has `size` actions
    and `size` contexts.
    """
    description = "one wide hill and a smaller one: the three solutions coincide"
    gp_kernel = Product(RBF(0.2, amplitude=0.5), RBF(0.4))
    return _on_unit_square("benchmark_2", description, _two_hills, size, gp_kernel, lengthscale, reading)


def _on_unit_square(
    name: str,
    description: str,
    function: Function,
    size: int,
    gp_kernel: Product,
    lengthscale: float,
    reading: Reading,
) -> Problem:
    """Return a benchmark with the distributions that both benchmarks share."""
    if reading not in ("deviation", "variance"):
        raise ValueError(f"reading must be 'deviation' or 'variance', got {reading!r}")
    power = 1.0 if reading == "deviation" else 0.5
    points = np.linspace(0.0, 1.0, size)[:, None]
    reference = normal_density(points, 0.5, 0.05**power)
    true_distribution = normal_density(points, 0.45, 0.1**power)
    mmd_kernel = RBF(lengthscale)
    return Problem(
        name=name,
        description=description,
        actions=points,
        contexts=points,
        function=function,
        reference=reference,
        true_distribution=true_distribution,
        radius=mmd(points, mmd_kernel, reference, true_distribution),
        mmd_kernel=mmd_kernel,
        gp_kernel=gp_kernel,
        noise=0.05,
    )


def _three_ridges(x: FloatArray, c: FloatArray) -> FloatArray:
    a, b = x[..., 0], c[..., 0]
    narrow = _bell(a - 0.15, 0.12) * _bell(b - 0.5, 0.07)
    wide = _bell(a - 0.5, 0.12) * (0.25 + 0.45 * _bell(b - 0.5, 0.15))
    safe = 0.4 * _bell(a - 0.85, 0.12)
    return narrow + wide + safe


def _two_hills(x: FloatArray, c: FloatArray) -> FloatArray:
    a, b = x[..., 0], c[..., 0]
    high = _bell(a - 0.65, 0.2) * _bell(b - 0.5, 0.4)
    low = 0.6 * _bell(a - 0.2, 0.12) * _bell(b - 0.5, 0.25)
    return high + low


def _bell(u: FloatArray, width: float) -> FloatArray:
    """Return exp(-u^2 / (2 width^2))."""
    return np.exp(-0.5 * (u / width) ** 2)


def modified_branin() -> Problem:
    """Return the modified Branin problem on 17 x 17 actions and 11 x 11 contexts.

    f(x, c) = -sqrt(B(15 x1 - 5, 15 c1) B(15 c2 - 5, 15 x2))

    Reference: both coordinates independent N(0.5, 0.1), clamped; true: N(0.5, 0.2), clamped; both are published. Over
    all x and c the stochastic optimum is -9.6039 under the reference and -16.0643 under the true distribution. The
    published values, -9.599 and -16.062, are not attained by any action.
    """
    axis = np.linspace(0.0, 1.0, 11)
    contexts = grid(axis, axis)
    narrow, wide = clamped_normal(axis, 0.5, 0.1), clamped_normal(axis, 0.5, 0.2)
    reference, true_distribution = np.outer(narrow, narrow).ravel(), np.outer(wide, wide).ravel()
    mmd_kernel = RBF(0.2)
    return Problem(
        name="modified_branin",
        description="modified Branin, 2-d contexts; the spread doubles",
        actions=grid(*[np.linspace(0.0, 1.0, 17)] * 2),
        contexts=contexts,
        function=_modified_branin,
        reference=reference,
        true_distribution=true_distribution,
        radius=mmd(contexts, mmd_kernel, reference, true_distribution),
        mmd_kernel=mmd_kernel,
        gp_kernel=Product(Matern(0.5, amplitude=80.0), Matern(0.4)),
        noise=0.5,
    )


def branin_williams() -> Problem:
    """Return the Branin-Williams problem (BoRisk) on 33 x 33 actions and its 12 weighted contexts.

    f(x, c) = -B(15 x1 - 5, 15 c1) B(15 c2 - 5, 15 x2)

    The published problem minimises B B, hence the sign. Contexts: c1 in {0.2, 0.4, 0.6, 0.8}, c2 in {0.25, 0.5, 0.75},
    with weights (0.0375, 0.0875, 0.0875, 0.0375) for c2 = 0.25 and 0.75, doubled for c2 = 0.5. The true distribution,
    uniform on the 12 contexts, is our own choice.
    """
    contexts = grid(np.array([0.2, 0.4, 0.6, 0.8]), np.array([0.25, 0.5, 0.75]))
    reference = np.outer([0.0375, 0.0875, 0.0875, 0.0375], [1.0, 2.0, 1.0]).ravel()
    true_distribution = np.full(12, 1.0 / 12.0)
    mmd_kernel = RBF(0.2)
    return Problem(
        name="branin_williams",
        description="Branin-Williams, 12 weighted contexts; the weights even out",
        actions=grid(*[np.linspace(0.0, 1.0, 33)] * 2),
        contexts=contexts,
        function=_branin_williams,
        reference=reference,
        true_distribution=true_distribution,
        radius=mmd(contexts, mmd_kernel, reference, true_distribution),
        mmd_kernel=mmd_kernel,
        gp_kernel=Product(Matern(0.6, amplitude=15000.0), Matern(0.8)),
        noise=20.0,
    )


def _branin(u: FloatArray, v: FloatArray) -> FloatArray:
    valley = v - 5.1 * u**2 / (4.0 * np.pi**2) + 5.0 * u / np.pi - 6.0
    return valley**2 + 10.0 * (1.0 - 1.0 / (8.0 * np.pi)) * np.cos(u) + 10.0


def _branin_williams(x: FloatArray, c: FloatArray) -> FloatArray:
    first = _branin(15.0 * x[..., 0] - 5.0, 15.0 * c[..., 0])
    second = _branin(15.0 * c[..., 1] - 5.0, 15.0 * x[..., 1])
    return -first * second


def _modified_branin(x: FloatArray, c: FloatArray) -> FloatArray:
    return -np.sqrt(-_branin_williams(x, c))
