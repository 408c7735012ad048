"""Grids of points, and distributions put on them: by density, or by the mass that falls nearest to each point."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtr

from drbo import MMD, Kernel
from drbo.validation import FloatArray


def grid(*axes: FloatArray) -> FloatArray:
    """Return every combination of the coordinates, (n_1 n_2 ... n_d, d), the last axis fastest."""
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))


def normal_density(contexts: FloatArray, mean: float, std: float) -> FloatArray:
    """Return weights proportional to the isotropic normal density at the contexts (n, d), summing to one; (n,)."""
    density = np.exp(-0.5 * (((contexts - mean) / std) ** 2).sum(axis=1))
    return np.asarray(density / density.sum())


def clamped(axis: FloatArray, cdf: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """Return the distribution of a random number clamped to [axis[0], axis[-1]] and moved to the nearest point; (n,).

    w_i = P(m_{i-1} < C <= m_i) with m_i halfway between axis[i] and axis[i+1], m_0 = -inf and m_n = inf: the first and
    the last point hold the mass of the tails as well. The axis (n,) is increasing.
    """
    below = cdf((axis[1:] + axis[:-1]) / 2.0)
    return np.diff(np.concatenate(([0.0], below, [1.0])))


def clamped_normal(axis: FloatArray, mean: float, std: float) -> FloatArray:
    """Return the normal distribution clamped to the ends of the axis and moved to its nearest point; (n,)."""
    return clamped(axis, lambda c: np.asarray(ndtr((c - mean) / std)))


def mmd(contexts: FloatArray, kernel: Kernel, p: FloatArray, q: FloatArray) -> float:
    """Return the maximum mean discrepancy of two distributions on the contexts."""
    return MMD(contexts, kernel).distance(p, q)
