"""Columns of contexts: the data that ambiguity sets with named columns need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drbo._messages import listed, printable
from drbo.validation import FloatArray


@dataclass(frozen=True, eq=False)
class Column:
    """One column of contexts, whose positions are in the user's units.

    Attributes
    ----------
    name : the user's name; None if it has none
    first, width : its coordinates are first, ..., first + width - 1
    step : a typical step: the standard deviation of numbers, 1 for labels
    labels : its labels, if it holds labels
    levels : (k, width) the position of each label
    logarithmic : whether positions are logarithms of the numbers
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
        """Return 1 where points (n, d) have this label, or this number up to rounding, and 0 elsewhere; (n,)."""
        if self.labels is None or self.levels is None:
            numbers = self.numbers(points)
            return np.asarray(np.abs(numbers - value) <= 1e-9 * (abs(value) + self.step)).astype(float)
        positions = points[:, self.first : self.first + self.width]
        nearest = np.argmin(((positions[:, None] - self.levels) ** 2).sum(axis=2), axis=1)
        return np.asarray(nearest == self.labels.index(value)).astype(float)


def unnamed_columns(points: FloatArray) -> tuple[Column, ...]:
    """Return the columns of plain points (n, d): numbers without names."""
    return tuple(Column(None, i, step=float(np.std(points[:, i]))) for i in range(points.shape[1]))


def named(name: str, columns: Sequence[Column]) -> Column:
    """Return the column with this name; an error lists the known names."""
    for column in columns:
        if column.name == name:
            return column
    names = [column.name for column in columns if column.name is not None]
    there = f"they are {listed(names)}" if names else "these contexts have no names"
    raise ValueError(f"ambiguity names the column {name!r}, which is not a column of the contexts: {there}")


Row = dict[str, Any]


def row(value: Any, kind: str) -> Row:
    """Return an action or a context as a mapping from names to plain values; `kind` names unnamed values.

    A context that was never revealed (None) gives an empty mapping.
    """
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, np.ndarray):
        items = np.atleast_1d(value).tolist()
        return {kind if len(items) == 1 else f"{kind} {i + 1}": item for i, item in enumerate(items)}
    return {kind: plain(value)}


def plain(item: Any) -> Any:
    """Return a value as a JSON type: a number, a truth value or text."""
    if isinstance(item, np.generic):
        item = item.item()
    return item if item is None or isinstance(item, bool | int | float | str) else str(item)


def is_number(values: Sequence[Any]) -> bool:
    """Return whether all values are numbers; truth values do not count."""
    return all(isinstance(value, int | float | np.number) and not isinstance(value, bool) for value in values)


def text(item: Any) -> str:
    """Return a plain value as text."""
    return f"{item:.4g}" if isinstance(item, float) else str(item)


def words(columns: Row) -> str:
    """Return columns as text that is safe to print on a terminal."""
    return ", ".join(f"{printable(name)} = {printable(text(item))}" for name, item in columns.items())
