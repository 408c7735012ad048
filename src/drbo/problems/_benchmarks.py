"""The paper's two synthetic benchmarks. It prints contour plots but no formulas, so these functions are our own.

Both live on actions and contexts in [0, 1], with reference N(0.5, 0.05) and true distribution N(0.45, 0.1) (standard
deviations; densities on the grid, normalised), and the exact MMD of the two as radius: 0.364 for an RBF kernel of
lengthscale 0.1. StableOpt then guards against every context in [0.14, 0.86]. The GP kernels have the lengthscales that
fit the functions, and an amplitude of 0.5: two standard deviations (beta = 2) reach their maximum, 1.

The paper does not say whether 0.05 and 0.1 are deviations or variances, nor which kernel its MMD has. `reading` and
`lengthscale` choose; docs/reproduction.md has a table of what follows.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from drbo import RBF, Product
from drbo.problems._grids import mmd, normal_density
from drbo.problems._problem import Function, Problem
from drbo.validation import FloatArray

Reading = Literal["deviation", "variance"]
"""What the second number of N(0.5, 0.05) is."""


def benchmark_1(size: int = 50, *, lengthscale: float = 0.1, reading: Reading = "deviation") -> Problem:
    """Return the benchmark whose stochastic, distributionally robust and worst-case solutions all differ.

    f(x, c) = b(x - 0.15) e(c; 0.07) + b(x - 0.5) (0.25 + 0.45 e(c; 0.15)) + 0.4 b(x - 0.85),

    b(u) = exp(-u^2 / (2 * 0.12^2)),  e(c; s) = exp(-(c - 0.5)^2 / (2 s^2)).

    A narrow, high ridge under the reference (x = 0.15, the stochastic solution); a lower, wider one that survives the
    shift (x = 0.5, distributionally robust, and also the best under the true distribution); a safe plateau (x = 0.85,
    StableOpt's and the pure worst case's). The grid has `size` actions and `size` contexts.
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
    """Return the benchmark with the distributions that both share."""
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
