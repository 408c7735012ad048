"""What we choose from, and what nature chooses from: finite sets of points."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from drbo import validation
from drbo.validation import FloatArray


class FiniteSet:
    """A finite set of points (n, d), in a fixed order; a flat sequence of n numbers is n points on a line."""

    def __init__(self, name: str, points: ArrayLike) -> None:
        self.name = name
        self.points: FloatArray = validation.points(name, points).copy()
        self.points.flags.writeable = False
        self._span = np.ptp(self.points, axis=0)

    def __len__(self) -> int:
        return len(self.points)

    def index_of(self, point: ArrayLike) -> int:
        """Return the index of the point equal to `point` (d,), up to 1e-9 of the set's extent in each dimension."""
        given = np.atleast_1d(validation.finite_array(self.name, point))
        if given.shape != self.points.shape[1:]:
            raise ValueError(f"{self.name} must be points of {self.points.shape[1]} dimension(s), got {point!r}")
        tolerance = 1e-9 * self._span + 4.0 * np.finfo(float).eps * np.abs(given) + np.finfo(float).tiny
        off = (np.abs(self.points - given) / tolerance).max(axis=1)
        nearest = int(np.argmin(off))
        if off[nearest] > 1.0:
            raise ValueError(
                f"{self.name} holds no point {given.tolist()}; the nearest one is {self.points[nearest].tolist()}"
            )
        return nearest

    def check_index(self, name: str, index: Any) -> int:
        """Return `index` as an int that counts from 0 to n - 1."""
        try:
            if isinstance(index, bool):
                raise TypeError
            i = operator.index(index)
        except TypeError:
            raise TypeError(f"{name} must be an integer, got {index!r}") from None
        if not 0 <= i < len(self):
            raise ValueError(f"{name} must be from 0 to {len(self) - 1}, got {i}")
        return i
