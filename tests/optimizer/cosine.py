"""A kernel of a user that has no spectral density, shared by the tests of policies that draw f."""

from dataclasses import dataclass
from typing import Any

import numpy as np

import drbo


@dataclass(frozen=True)
class Cosine(drbo.Kernel):
    """A kernel that says nothing of its spectral density."""

    def __call__(self, a: Any, b: Any) -> Any:
        return np.cos(a[:, None, 0] - b[:, 0])

    def gradient(self, a: Any, b: Any) -> Any:
        return -np.sin(a[:, None] - b)

    @property
    def curvature(self) -> Any:
        return np.ones(1)

    @property
    def variance(self) -> float:
        return 1.0
