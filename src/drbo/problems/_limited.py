"""Two published problems with limits on further outcomes, each with a condition added that shifts."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from drbo import RBF, AtMost, Product
from drbo.problems._benchmarks import Function, Problem, grid, normal_density
from drbo.validation import FloatArray

__all__ = ["gardner_limits", "gramacy_limits"]

_KERNEL = Product(RBF(0.35), RBF(2.0))
"""Of rewards and limits, in shares of the box and in standard deviations of the condition."""


def gramacy_limits(size: int = 15) -> Problem:
    """Return the problem of Gramacy et al. (Technometrics 58, 2016) on [0, 1]^2, with a condition c.

    f(x, c) = -(x_1 + x_2 + 0.1 c), to maximise; a = x_1, b = x_2 + 0.05 c, d = x_2 - 0.05 c

    wave = 1.5 - a - 2 b - 0.5 sin(2 pi (a^2 - 2 b)) <= 0  and  disc = a^2 + d^2 <= 1.5

    Both limits hold on average in every distribution of the set. The conditions are ours: without them the problem is
    that of the paper. The grid has size^2 actions and nine conditions.
    """
    limits = {"wave": (_wave, AtMost(0.0)), "disc": (_disc, AtMost(1.5))}
    return _shifted("gramacy_limits", "linear reward, a wave and a disc as limits", _sum, limits, size)


def gardner_limits(size: int = 15) -> Problem:
    """Return the first problem of Gardner et al. (ICML 2014) on [0, 6]^2, scaled to [0, 1]^2, with a condition c.

    f(x, c) = -(cos(2 a) cos(b) + sin(a)), to maximise; a = 6 x_1 + 0.2 c, b = 6 x_2

    cosine = cos(6 x_1) cos(d) - sin(6 x_1) sin(d) <= -0.5,  d = 6 x_2 - 0.2 c

    In the paper the limit is 0.5. There the best action meets it anyway, so it is tighter here. The conditions are
    ours. The grid has size^2 actions and nine conditions.
    """
    limits = {"cosine": (_cosine, AtMost(-0.5))}
    return _shifted("gardner_limits", "waves as a reward, a wave as a limit", _waves, limits, size)


def _shifted(
    name: str, description: str, function: Function, limits: Mapping[str, tuple[Function, AtMost]], size: int
) -> Problem:
    """Return a problem whose reference is a normal condition, and whose truth lies above it."""
    axis = np.linspace(0.0, 1.0, size)
    contexts = np.linspace(-3.0, 3.0, 9)[:, None]
    return Problem(
        name=name,
        actions=grid(axis, axis),
        contexts=contexts,
        function=function,
        reference=normal_density(contexts, 0.0, 1.0),
        true_distribution=normal_density(contexts, 0.5, 1.2),
        mmd_kernel=RBF(1.0),
        gp_kernel=_KERNEL,
        noise=0.05,
        limits=limits,
        description=description,
    )


def _sum(x: FloatArray, c: FloatArray) -> FloatArray:
    return -(x[..., 0] + x[..., 1] + 0.1 * c[..., 0])


def _wave(x: FloatArray, c: FloatArray) -> FloatArray:
    a, b = x[..., 0], x[..., 1] + 0.05 * c[..., 0]
    return np.asarray(1.5 - a - 2.0 * b - 0.5 * np.sin(2.0 * math.pi * (a**2 - 2.0 * b)))


def _disc(x: FloatArray, c: FloatArray) -> FloatArray:
    return np.asarray(x[..., 0] ** 2 + (x[..., 1] - 0.05 * c[..., 0]) ** 2)


def _waves(x: FloatArray, c: FloatArray) -> FloatArray:
    a, b = 6.0 * x[..., 0] + 0.2 * c[..., 0], 6.0 * x[..., 1]
    return np.asarray(-(np.cos(2.0 * a) * np.cos(b) + np.sin(a)))


def _cosine(x: FloatArray, c: FloatArray) -> FloatArray:
    a, b = 6.0 * x[..., 0], 6.0 * x[..., 1] - 0.2 * c[..., 0]
    return np.asarray(np.cos(a) * np.cos(b) - np.sin(a) * np.sin(b))
