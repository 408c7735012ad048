"""The metric between contexts, in the units of the user: order, norm, steps; their positions; and sets of distances."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from drbo import validation
from drbo._messages import listed, printable
from drbo.ambiguity.placed import PlacedSet
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


class PlacedTransport(PlacedSet):
    """A Wasserstein set of any order on n contexts, whose distances by a metric are `cost` (n, n)."""

    n_contexts: int

    def __init__(self, metric: Metric, cost: FloatArray) -> None:
        self.metric, self.order, self.cost, self.n_contexts = metric, metric.order, cost, len(cost)

    def __repr__(self) -> str:
        return f"Wasserstein({self.n_contexts} contexts, {self.metric})"

    @abstractmethod
    def _to(self, reference: FloatArray, cost: FloatArray) -> FloatArray:
        """Return the distances (m,) of a reference (n,) from all mass at each of m points, `cost` (n, m) away."""

    def _to_vertices(self, reference: FloatArray) -> FloatArray:
        return self._to(reference, self.cost)


class PointTransport(PlacedTransport):
    """A Wasserstein set of any order of points, `contexts` (n, d) in the user's units."""

    def __init__(self, metric: Metric, points: FloatArray) -> None:
        self._positions = Positions(metric, points)
        self.contexts = self._positions.points
        super().__init__(metric, self._positions.distances())

    def extended(self, further: FloatArray) -> Self:
        """Return the set with further contexts (k, d)."""
        return type(self)(self.metric, np.concatenate([self.contexts, further]))

    def _diameter_in(self, reference: FloatArray, hull: FloatArray) -> float:
        sources = np.flatnonzero(reference)  # distances between the points of a hull of thousands would fill the memory
        to_hull = self._to(reference[sources], self._positions.to(hull, sources))
        return max(self._diameter(reference), float(to_hull.max(initial=0.0)))

    def moved(self, reference: FloatArray, points: FloatArray) -> float:
        """Return the distance of the reference from the same weights on moved contexts (n, d)."""
        step = self._positions.common_step(reference, points)
        if step is not None:
            return step
        p, both = self._positions.both(reference, points)
        gone = np.zeros(len(p))
        return type(self)(self.metric, both).distance(np.append(gone, p), np.append(p, gone))


class Positions:
    """The positions of contexts (n, d), in the user's units, and the distances that a metric gives them."""

    def __init__(self, metric: Metric, points: FloatArray) -> None:
        self.points, self._norm = validation.frozen(points), metric.norm
        self.steps = metric.steps(points.shape[1])

    def distances(self) -> FloatArray:
        """Return the distances (n, n) of the contexts from each other."""
        return distances_between(self.points / self.steps, self._norm)

    def to(self, points: FloatArray, sources: NDArray[np.intp] | None = None) -> FloatArray:
        """Return the distances (k, m) of the contexts `sources` (k,), by default all, from points (m, d)."""
        here = self.points if sources is None else self.points[sources]
        return distances_between(here / self.steps, self._norm, points / self.steps)

    def lengths(self, steps: FloatArray) -> FloatArray:
        """Return the lengths (m,) of steps (m, d), rounded up."""
        return np.asarray((1.0 + 1e-12) * np.linalg.norm(steps / self.steps, self._norm, axis=1))

    def common_step(self, reference: FloatArray, points: FloatArray) -> float | None:
        """Return the length of the step by which all mass of a reference (n,) moves to points (n, d).

        To move all mass by the same step is optimal in every order. None if the steps differ.
        """
        used = reference > 0.0
        here, there = self.points[used], points[used]
        step = there - here
        if np.ptp(step, axis=0).max() > 1e-12 * np.abs(step).max():
            return None
        return float(distances_between(here[:1] / self.steps, self._norm, there[:1] / self.steps)[0, 0])

    def both(self, reference: FloatArray, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the weights p (k,) of the contexts with mass, and their positions before and after a move (2k, d)."""
        used = reference > 0.0
        return reference[used], np.concatenate([self.points[used], points[used]])


def distances_between(points: FloatArray, norm: float, others: FloatArray | None = None) -> FloatArray:
    """Return the distances (n, m) of points (n, d) from others (m, d), by default from each other."""
    to = points if others is None else others
    distances = cdist(points, to, "chebyshev") if np.isinf(norm) else cdist(points, to, "minkowski", p=norm)
    if not np.isfinite(distances).all():
        raise ValueError("contexts must have finite distances, got some that overflow")
    return distances
