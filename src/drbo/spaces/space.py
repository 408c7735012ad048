"""Spaces of actions and contexts: the conversion between user values and model coordinates.

A model sees only points of R^d. A `Space` converts a user's value into a `Point` and back; no other code does. An
ambiguity set measures distances in the user's units. So a space also gives positions in these units (`measured`) and
the width of each column (`scales`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from drbo._messages import listed
from drbo.spaces.columns import Column
from drbo.validation import FloatArray


@dataclass(frozen=True, eq=False)
class Point:
    """One point of a space.

    Attributes
    ----------
    coordinates : (d,) the coordinates that the model sees
    index : the position of the point in a finite set; None in a continuous space
    """

    coordinates: FloatArray
    index: int | None = None

    def same_as(self, other: Point) -> bool:
        """Return whether the other point equals this one; it may be a copy from another process."""
        return self.index == other.index and np.array_equal(self.coordinates, other.coordinates)


class Space(ABC):
    """A set of values: a finite set, a box of named parameters, or the range of a table of numbers."""

    dimension: int
    """The number of coordinates of a point."""
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

    @abstractmethod
    def measured(self, coordinates: FloatArray) -> FloatArray:
        """Return coordinates (n, d) in the user's units: log units for `Log`; two labels are 0 or 1 apart."""

    @property
    @abstractmethod
    def units(self) -> FloatArray:
        """The size of one coordinate unit in the user's units, (d,)."""

    @abstractmethod
    def widths(self, halves: FloatArray) -> FloatArray:
        """Return half-widths (n, d) of coordinate cells in the user's units, enlarged by the rounding error."""

    def movable(self, names: tuple[str, ...] | None, count: int) -> NDArray[np.intp]:
        """Return the coordinates (count,) that the columns of a perturbation move, by name or by position.

        An error calls the columns `contexts`.
        """
        del names, count
        raise TypeError(f"contexts must not be a Perturbation if actions are {self!r}: only numbers can be perturbed")

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
class Shift:
    """The effect of perturbations in the model's coordinates: x becomes x + start + c M.

    Attributes
    ----------
    start : (d_x,) the displacement at perturbation coordinates 0
    directions : (d_c, d_x) M; each row has one entry, in the column of the coordinate that it moves
    """

    start: FloatArray
    directions: FloatArray

    def steps(self, contexts: FloatArray) -> FloatArray:
        """Return the displacements (n, d_x) of perturbations (n, d_c)."""
        return np.asarray(self.start + contexts @ self.directions)

    def places(self, actions: FloatArray, contexts: FloatArray) -> FloatArray:
        """Return x_i + xi_j (m n, d_x) for actions (m, d_x) and perturbations (n, d_c), grouped by action."""
        return np.asarray((actions[:, None, :] + self.steps(contexts)).reshape(-1, len(self.start)))
