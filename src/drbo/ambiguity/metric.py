"""The metric between contexts, in the units of the user: order, norm and steps of a Wasserstein set."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from drbo._messages import listed, printable
from drbo.spaces.space import Column
from drbo.validation import FloatArray


@dataclass(frozen=True)
class Metric:
    """The metric between contexts: the order, the norm and the steps, and the columns if they have names."""

    order: float
    norm: float
    scale: dict[str, float] | tuple[float, ...] | None
    columns: tuple[Column, ...] = ()

    def steps(self, dimension: int) -> FloatArray:
        """Return the length of a step in each coordinate, (d,)."""
        if self.scale is None:
            return np.ones(dimension)
        if isinstance(self.scale, dict):
            by_name = self.scale
            if not self.columns:
                raise ValueError(f"scale names {listed(by_name)}, but these contexts have no names: give numbers")
            return np.concatenate([np.full(c.width, by_name[str(c)]) for c in self.columns])
        if len(self.scale) != dimension:
            raise ValueError(f"scale must be {dimension} number(s), one per column, got {self.scale}")
        return np.array(self.scale)

    @property
    def units(self) -> str:
        """The unit of distances, in words."""
        if isinstance(self.scale, dict):
            return "steps of " + " and ".join(f"{step:g} ({printable(name)})" for name, step in self.scale.items())
        if self.columns:
            return f"the units of {printable(self.columns[0])}"
        return "the units of the contexts" if self.scale is None else "steps of the scale"

    def __str__(self) -> str:
        return f"order={self.order:g}" + ("" if self.scale is None else f", scale={self.scale!r}")


def distances_between(points: FloatArray, norm: float, others: FloatArray | None = None) -> FloatArray:
    """Return the distances (n, m) of points (n, d) from others (m, d), by default from each other."""
    to = points if others is None else others
    distances = cdist(points, to, "chebyshev") if np.isinf(norm) else cdist(points, to, "minkowski", p=norm)
    if not np.isfinite(distances).all():
        raise ValueError("contexts must have finite distances, got some that overflow")
    return distances
