"""What is chosen from: the user's values on one side, the model's coordinates on the other.

A model sees points of R^d alone. A `Space` converts a user's value into a `Point` and back, and it is the only place
that does. An ambiguity set measures distances in the user's units, so a space also says how long its coordinates are
in these units (`measured`) and how wide each column is (`scales`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

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
        """Return whether the other point is this one; it may be a copy from another process."""
        return self.index == other.index and np.array_equal(self.coordinates, other.coordinates)


class Space(ABC):
    """A set of values: a finite set, a box of named parameters, or the range of a table of numbers."""

    dimension: int
    """The number of coordinates of a point."""
    scales: FloatArray
    """(d,) the width of each coordinate's column in the user's units.

    A column of labels takes several coordinates. The widths are then multiplied by sqrt(columns / d), so that
    sqrt(d) * scales counts columns and not coordinates.
    """

    @property
    @abstractmethod
    def columns(self) -> tuple[Column, ...]:
        """The columns of the values, in order."""

    @abstractmethod
    def encode(self, name: str, value: Any) -> Point:
        """Return the point of a user's value; an error calls the value `name`."""

    @abstractmethod
    def decode(self, point: Point) -> Any:
        """Return the user's value at a point."""

    def decode_all(self, coordinates: FloatArray) -> Sequence[Any]:
        """Return the user's values at coordinates (n, d)."""
        return tuple(self.decode(Point(row)) for row in coordinates)

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the parameters or columns; None if they have none."""
        return None

    def many(self, name: str, value: Any) -> Sequence[Any] | None:
        """Return the values of a table in order, or None if `value` is one value; an error calls the table `name`.

        A table is a pandas frame, an array (m, d), or a list of mappings or of sequences. Of a frame the columns of
        the same names are taken where the space has names, and otherwise all of them.
        """
        if hasattr(value, "columns"):
            if self.names is None:
                return cast(Sequence[Any], value.to_numpy())
            missing = [column for column in self.names if column not in value.columns]
            if missing:
                has = ", ".join(map(str, value.columns))
                raise ValueError(f"{name} lacks the column(s) {', '.join(missing)}; it has {has}")
            return cast(Sequence[Any], value[list(self.names)].to_dict("records"))
        if isinstance(value, np.ndarray):
            return list(value) if value.ndim == 2 else None
        if isinstance(value, list | tuple) and value and all(_is_row(one) for one in value):
            return value
        return None

    @abstractmethod
    def measured(self, coordinates: FloatArray) -> FloatArray:
        """Return coordinates (n, d) in the user's units; log units for `Log`, and labels are 1 apart or equal."""

    @property
    @abstractmethod
    def units(self) -> FloatArray:
        """How many of the user's units a step of 1 is in each coordinate, (d,)."""

    @abstractmethod
    def widths(self, halves: FloatArray) -> FloatArray:
        """Return half-widths (n, d) of cells of coordinates in the user's units, enlarged by what rounding may add."""

    def movable(self, names: tuple[str, ...] | None, count: int) -> NDArray[np.intp]:
        """Return which coordinates the `count` columns of a perturbation move, by name or by position, (count,).

        An error calls the columns `contexts`.
        """
        del names, count
        raise TypeError(f"contexts must be no Perturbation where actions are {self!r}: only numbers can be perturbed")

    def far_outside(self, point: Point) -> str | None:
        """Return in words how a point lies far outside of the space; None if it does not, or cannot."""
        del point
        return None

    def in_unit_cube(self) -> Self:
        """Return the same space with coordinates from 0 to 1; most spaces have these already."""
        return self

    def at(self, name: str, index: Any) -> Point:
        """Return the point of this index; only a finite set has one. An error calls the index `name`."""
        del index
        raise TypeError(f"{name} must not be given: these are no finite set, give the value itself")

    def stored(self, coordinates: FloatArray) -> Point:
        """Return the point of coordinates (d,) that a file holds; raise if the space has no such point."""
        if coordinates.shape != (self.dimension,) or not np.isfinite(coordinates).all():
            raise ValueError(f"a point must have {self.dimension} finite coordinates, got {coordinates.tolist()}")
        coordinates.flags.writeable = False
        return Point(coordinates)


AnySpace = TypeVar("AnySpace", bound=Space)


def _is_row(value: Any) -> bool:
    """Return whether a value can be a row of a table: a mapping, or several numbers or labels in order."""
    return (
        isinstance(value, Mapping | list | tuple)
        or (hasattr(value, "index") and hasattr(value, "to_dict"))
        or (isinstance(value, np.ndarray) and value.ndim == 1)
    )


@dataclass(frozen=True, eq=False)
class Shift:
    """Where perturbations lead, in the model's coordinates: from x to x + start + c M.

    Attributes
    ----------
    start : (d_x,) where the perturbation of coordinates 0 leads
    directions : (d_c, d_x) M; each row has one entry, in the column of the coordinate that it moves
    """

    start: FloatArray
    directions: FloatArray

    def steps(self, contexts: FloatArray) -> FloatArray:
        """Return the way (n, d_x) that perturbations (n, d_c) lead."""
        return np.asarray(self.start + contexts @ self.directions)

    def places(self, actions: FloatArray, contexts: FloatArray) -> FloatArray:
        """Return x_i + xi_j (m n, d_x) for actions (m, d_x) and perturbations (n, d_c), action by action."""
        return np.asarray((actions[:, None, :] + self.steps(contexts)).reshape(-1, len(self.start)))
