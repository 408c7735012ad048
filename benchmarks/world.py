"""What is measured on: grids, distributions and functions. Nothing of drbo is needed to make them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

FEATURES = 500
"""Random Fourier features of a sample path: unlike a Cholesky factor they do not know the grid, and cost nothing."""


def grid(n: int) -> Array:
    """Return n points (n, 1) from 0 to 1."""
    return np.linspace(0.0, 1.0, n)[:, None]


def gaussian(contexts: Array, mean: float, std: float) -> Array:
    """Return the normal distribution on the contexts, (n,)."""
    density: Array = np.exp(-0.5 * ((contexts[:, 0] - mean) / std) ** 2)
    return np.asarray(density / density.sum())


class SamplePath:
    """A function drawn from the GP prior (by random Fourier features), to be evaluated anywhere."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._frequencies = rng.normal(size=(FEATURES, 2)) / 0.2
        self._phases = rng.uniform(0.0, 2.0 * np.pi, FEATURES)
        self._amplitudes = rng.normal(size=FEATURES) * np.sqrt(2.0 / FEATURES)

    def __call__(self, action: Array, context: Array) -> float:
        """Return f(x, c) of one action (1,) and one context (1,)."""
        point = np.concatenate([action, context])
        return float(self._amplitudes @ np.cos(self._frequencies @ point + self._phases))
