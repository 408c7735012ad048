"""The columns of contexts: what an ambiguity set in the user's words must know of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drbo.validation import FloatArray


@dataclass(frozen=True, eq=False)
class Column:
    """One column of contexts, whose positions are in the user's units.

    Attributes
    ----------
    name : as the user calls it; None if it has no name
    first, width : its coordinates are first, ..., first + width - 1
    step : a step that is typical of it: the deviation of numbers, 1 for labels
    labels : its labels, if it holds labels
    levels : (k, width) the position of each label
    logarithmic : whether its position is the logarithm of its number
    """

    name: str | None
    first: int
    width: int = 1
    step: float = 1.0
    labels: tuple[Any, ...] | None = None
    levels: FloatArray | None = None
    logarithmic: bool = False

    def __str__(self) -> str:
        return f"column {self.first}" if self.name is None else self.name

    def numbers(self, points: FloatArray) -> FloatArray:
        """Return the numbers (n,) of a column of numbers at points (n, d)."""
        positions = points[:, self.first]
        return np.exp(positions) if self.logarithmic else positions

    def holds(self, points: FloatArray, value: Any) -> FloatArray:
        """Return 1 where the points (n, d) hold this label, or this number up to rounding, and 0 elsewhere; (n,)."""
        if self.labels is None or self.levels is None:
            numbers = self.numbers(points)
            return np.asarray(np.abs(numbers - value) <= 1e-9 * (abs(value) + self.step)).astype(float)
        positions = points[:, self.first : self.first + self.width]
        nearest = np.argmin(((positions[:, None] - self.levels) ** 2).sum(axis=2), axis=1)
        return np.asarray(nearest == self.labels.index(value)).astype(float)


def plain(points: FloatArray) -> tuple[Column, ...]:
    """Return the columns of plain points (n, d): numbers without names."""
    return tuple(Column(None, i, step=float(np.std(points[:, i]))) for i in range(points.shape[1]))


def named(name: str, columns: Sequence[Column]) -> Column:
    """Return the column of this name; an error says which ones there are."""
    for column in columns:
        if column.name == name:
            return column
    names = [column.name for column in columns if column.name is not None]
    there = f"they are {', '.join(names)}" if names else "these contexts have no names"
    raise ValueError(f"ambiguity names the column {name!r}, which is none of the contexts: {there}")
