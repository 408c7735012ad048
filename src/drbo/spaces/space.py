"""Spaces of actions and contexts: the conversion between user values and model coordinates.

A model sees only points of R^d. A `Space` converts a user's value into a `Point` and back; no other code does. An
ambiguity set measures distances in the user's units. So a space also gives positions in these units (`measured`), the
width of each column (`scales`), and the columns themselves, which sets with named columns need.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

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
    span : the range of numbers without a name; 0 if it does not matter
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
    span: float = 0.0

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


def columns_of(points: FloatArray, names: Sequence[str] | None = None) -> tuple[Column, ...]:
    """Return the columns of points (n, d), numbers with these names or without names."""
    return tuple(
        Column(None if names is None else names[i], i, step=float(np.std(x)), span=0.0 if names else float(np.ptp(x)))
        for i, x in enumerate(points.T)
    )


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
    """Return an action or a context as a mapping from names to plain values; {} for a context never revealed."""
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


@dataclass(frozen=True, eq=False)
class Point:
    """One point of a space: its coordinates (d,) in the model, and its index in a finite set, otherwise None."""

    coordinates: FloatArray
    index: int | None = None

    def same_as(self, other: Point) -> bool:
        """Return whether the other point equals this one; it may be a copy from another process."""
        return self.index == other.index and np.array_equal(self.coordinates, other.coordinates)


class Space(ABC):
    """A set of values: a finite set, a box of named parameters, or the range of a table of numbers."""

    dimension: int
    """The number of coordinates of a point."""
    origin: FloatArray
    """(d,) the position of coordinates 0 in the user's units."""
    units: FloatArray
    """(d,) the size of one coordinate unit in the user's units."""
    scales: FloatArray
    """(d,) the width of each coordinate's column in the user's units.

    A column of labels has several coordinates. The widths are then multiplied by sqrt(columns / d), so that
    sqrt(d) * scales counts columns, not coordinates.
    """

    @property
    @abstractmethod
    def columns(self) -> tuple[Column, ...]:
        """The columns of the values, in order."""

    @abstractmethod
    def encode(self, name: str, value: Any) -> Point:
        """Return the point for a user's value; an error calls the value `name`."""

    @abstractmethod
    def decode(self, point: Point) -> Any:
        """Return the user's value at a point."""

    def decode_all(self, coordinates: FloatArray) -> Sequence[Any]:
        """Return the user's values at coordinates (n, d)."""
        return tuple(self.decode(Point(row)) for row in coordinates)

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the parameters or columns; None if there are none."""
        return None

    def key(self, point: Point) -> Any:
        """Return the key of a point; None in spaces without keys."""
        del point

    def many(self, name: str, value: Any) -> Sequence[Any] | None:
        """Return the values of a table in order, or None if `value` is one value; an error calls the table `name`.

        A table is a pandas frame, an array (m, d), or a list of mappings or sequences. If the space has names, only
        the columns with these names are read from a frame; otherwise all columns are.
        """
        if hasattr(value, "columns"):
            if self.names is None:
                return cast(Sequence[Any], value.to_numpy())
            missing = [column for column in self.names if column not in value.columns]
            if missing:
                raise ValueError(f"{name} lacks the column(s) {listed(missing)}; it has {listed(value.columns)}")
            return cast(Sequence[Any], value[list(self.names)].to_dict("records"))
        if isinstance(value, np.ndarray):
            return list(value) if value.ndim == 2 else None
        if isinstance(value, list | tuple) and value and all(_is_row(one) for one in value):
            return value
        return None

    def measured(self, coordinates: FloatArray) -> FloatArray:
        """Return coordinates (n, d) in the user's units: log units for `Log`; two labels are 0 or 1 apart."""
        return np.asarray(self.origin + coordinates * self.units)

    def widths(self, halves: FloatArray) -> FloatArray:
        """Return half-widths (n, d) of coordinate cells in the user's units, enlarged by the rounding error."""
        return np.asarray(halves * self.units)

    def movable(self, names: tuple[str, ...] | None, count: int) -> NDArray[np.intp]:
        """Return the coordinates (count,) that the columns of a perturbation move, by name or by position."""
        del names, count
        raise TypeError(f"contexts must not be a Perturbation if actions are {self!r}: only numbers can be perturbed")

    @property
    def ranges(self) -> FloatArray:
        """The range of each coordinate, (d,): 1 in the unit cube."""
        return np.ones(self.dimension)

    def far_outside(self, point: Point) -> str | None:
        """Return text on how a point lies far outside the space; None if it does not or cannot."""
        del point
        return None

    def in_unit_cube(self) -> Self:
        """Return the same space with coordinates from 0 to 1; most spaces already have them."""
        return self

    def at(self, name: str, index: Any) -> Point:
        """Return the point with this index; only finite sets have indices. An error calls the index `name`."""
        del index
        raise TypeError(f"{name} must not be given: this is not a finite set, give the value itself")

    def stored(self, coordinates: FloatArray) -> Point:
        """Return the point at stored coordinates (d,); raise if the space has no such point."""
        if coordinates.shape != (self.dimension,) or not np.isfinite(coordinates).all():
            raise ValueError(f"a point must have {self.dimension} finite coordinates, got {coordinates.tolist()}")
        coordinates.flags.writeable = False
        return Point(coordinates)


AnySpace = TypeVar("AnySpace", bound=Space)


def _is_row(value: Any) -> bool:
    """Return whether a value can be a table row: a mapping, or several numbers or labels in order."""
    return (
        isinstance(value, Mapping | list | tuple)
        or (hasattr(value, "index") and hasattr(value, "to_dict"))
        or (isinstance(value, np.ndarray) and value.ndim == 1)
    )


@dataclass(frozen=True, eq=False)
class Displacement:
    """The effect of a perturbation in the model's coordinates: x becomes x + start + c M, directions M (d_c, d_x)."""

    start: FloatArray
    directions: FloatArray

    def steps(self, contexts: FloatArray) -> FloatArray:
        """Return the displacements (n, d_x) of perturbations (n, d_c)."""
        return np.asarray(self.start + contexts @ self.directions)

    def places(self, actions: FloatArray, contexts: FloatArray) -> FloatArray:
        """Return x_i + xi_j (m n, d_x) for actions (m, d_x) and perturbations (n, d_c), grouped by action."""
        return np.asarray((actions[:, None, :] + self.steps(contexts)).reshape(-1, len(self.start)))
