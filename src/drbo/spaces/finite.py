"""A finite set of points, in a fixed order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drbo import validation
from drbo._messages import listed
from drbo.spaces.columns import Column, unnamed_columns
from drbo.spaces.space import Point, Space
from drbo.validation import FloatArray


class FiniteSet(Space):
    """A finite set of points (n, d); a flat sequence of n numbers is n points on a line.

    Attributes
    ----------
    name : the name used in errors, such as "actions"
    points : (n, d) as they were given
    coordinates : (n, d) the model's coordinates: the points themselves, or scaled to the unit cube
    weights : (n,) the distribution given with the points; None if there is none
    history : (t,) the indices of points seen in the past; empty if no data was given
    in_order : whether the history is in time order
    """

    weights: FloatArray | None = None
    history: NDArray[np.intp] = np.empty(0, dtype=np.intp)
    in_order: bool = True

    def __init__(self, name: str, points: ArrayLike) -> None:
        self.name = name
        self.points: FloatArray = validation.frozen(validation.points(name, points))
        self.dimension = self.points.shape[1]
        span = np.ptp(self.points, axis=0)
        self.scales = validation.frozen(np.where(span > 0.0, span, 1.0))
        self._low, self._unit = np.zeros(self.dimension), np.ones(self.dimension)
        self.coordinates = self.points

    def __repr__(self) -> str:
        return f"{len(self)} {self.name}"

    def __len__(self) -> int:
        return len(self.points)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the points: numbers without names."""
        return unnamed_columns(self.points)

    def in_unit_cube(self) -> Self:
        """Return the same points with coordinates (point - minimum) / range per column."""
        scaled = type(self)(self.name, self.points)
        scaled._low, scaled._unit = self.points.min(axis=0), self.scales
        scaled.coordinates = validation.frozen((self.points - scaled._low) / scaled._unit)
        return scaled

    def spread(self, count: int, seed: int) -> list[Point]:
        """Return all points, in order; `count` and `seed` are ignored."""
        del count, seed
        return [Point(row, i) for i, row in enumerate(self.coordinates)]

    def encode(self, name: str, value: Any) -> Point:
        """Return the point equal to `value` (d,), up to 1e-9 of the set's range in each dimension."""
        given = np.atleast_1d(validation.finite_array(name, value))
        if given.shape != (self.dimension,):
            raise ValueError(f"{name} must be a point of {self.dimension} dimension(s), got {value!r}")
        tolerance = 1e-9 * np.ptp(self.points, axis=0) + 4.0 * np.finfo(float).eps * np.abs(given)
        off = (np.abs(self.points - given) / (tolerance + np.finfo(float).tiny)).max(axis=1)
        nearest = int(np.argmin(off))
        if off[nearest] > 1.0:
            raise ValueError(
                f"{name} must be one of the {self.name}, got {given.tolist()}; the nearest one is "
                f"{self.points[nearest].tolist()}"
            )
        return Point(self.coordinates[nearest], nearest)

    @property
    def positions(self) -> range:
        """The positions of the columns of a point."""
        return range(self.dimension)

    def movable(self, names: tuple[str, ...] | None, count: int) -> NDArray[np.intp]:
        """Return all coordinates: a perturbation of points has one column per coordinate."""
        if names is not None:
            raise TypeError(
                f"contexts must have no names where actions are points: give Perturbation an array (n, "
                f"{self.dimension}), one column per coordinate, got columns {listed(names)}"
            )
        if count != self.dimension:
            raise ValueError(
                f"contexts must perturb each of the {self.dimension} coordinate(s) of a point, got {count} column(s)"
            )
        return np.arange(self.dimension)

    def of_columns(self, name: str, values: Mapping[Any, Any]) -> Any:
        """Return the point with these values, keyed by column position; an error calls it `name`."""
        if values.keys() != set(self.positions):
            raise ValueError(f"{name} must give a value for each column, {[*self.positions]}, got {dict(values)!r}")
        return [values[column] for column in self.positions]

    def matching(self, known: Mapping[Any, Any]) -> tuple[dict[int, Any], NDArray[np.intp]]:
        """Return the known values by column position, and the indices (k,) of the points that match them.

        Numbers are equal up to 1e-9 of the column's range.
        """
        agree = np.ones(len(self), dtype=bool)
        values = {}
        for column, value in known.items():
            if isinstance(column, bool) or column not in self.positions:
                raise ValueError(
                    f"given must name a column of the {self.name} by its position, {[*self.positions]}, got {column!r}"
                )
            equal, values[column] = self._column_equals(column, value)
            agree &= equal
        if not agree.any():
            raise ValueError(f"given must agree with one of the {self.name}, got {dict(known)!r}")
        return values, np.flatnonzero(agree)

    def _column_equals(self, column: int, value: Any) -> tuple[NDArray[np.bool_], Any]:
        """Return a mask (n,) of the points with this value in the column, and that value; raise if none matches."""
        number, there = validation.finite_float(f"given[{column}]", value), self.points[:, column]
        equal = np.abs(there - number) <= 1e-9 * self.scales[column] + 4.0 * np.finfo(float).eps * abs(number)
        if not equal.any():
            few = ", ".join(f"{v:.6g}" for v in np.unique(there)[:10])
            raise ValueError(f"given[{column}] must be a value of that column, such as {few}; got {value!r}")
        return equal, float(there[equal][0])

    def decode(self, point: Point) -> FloatArray:
        """Return the point (d,) as it was given."""
        assert point.index is not None  # points of a finite set have an index
        return np.asarray(self.points[point.index])

    def decode_all(self, coordinates: FloatArray) -> Sequence[Any]:
        """Return the points (n, d) as they were given; the coordinates must be those of all points, in order."""
        del coordinates
        return cast(Sequence[Any], self.points)

    def at(self, name: str, index: Any) -> Point:
        """Return the point with this index, from 0 to n - 1."""
        i = validation.integer(name, index)
        if not 0 <= i < len(self):
            raise ValueError(f"{name} must be from 0 to {len(self) - 1}, got {i}")
        return Point(self.coordinates[i], i)

    def stored(self, coordinates: FloatArray) -> Point:
        """Raise: a point of a finite set is stored by its index."""
        raise ValueError(f"a point of a finite set has an index, got coordinates {coordinates.tolist()}")

    def weights_of(self, name: str, given: Any) -> FloatArray:
        """Return the user's weights (n,): one per point, or a mapping from indices, with 0 for missing ones."""
        return validation.distribution(name, self._in_order(name, given), len(self))

    def _in_order(self, name: str, given: Any) -> Any:
        """Return the given weights; a mapping becomes an array (n,)."""
        values = validation.by_name(given)
        if not isinstance(values, Mapping):
            return values
        weights = np.zeros(len(self))
        for key, value in values.items():
            weights[self._position(name, key)] = validation.finite_float(f"{name}[{key!r}]", value)
        return weights

    def _position(self, name: str, key: Any) -> int:
        """Return the position of the point that a mapping key names: an index."""
        index = self.at(f"a key of {name}", key).index
        assert index is not None
        return index

    def measured(self, coordinates: FloatArray) -> FloatArray:
        """Return the coordinates (n, d) in the units of the points; the full set is returned bit for bit."""
        if coordinates is self.coordinates:
            return self.points
        return np.asarray(self._low + coordinates * self._unit)

    @property
    def units(self) -> FloatArray:
        """The size of one coordinate unit in the user's units, (d,)."""
        return self._unit

    def widths(self, halves: FloatArray) -> FloatArray:
        """Return the half-widths (n, d) in the units of the points."""
        return np.asarray(halves * self._unit)
