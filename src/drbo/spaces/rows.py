"""The rows of samples with keys, as a finite set: days that a simulator replays."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drbo import validation
from drbo.spaces.finite import FiniteSet
from drbo.spaces.samples import Samples
from drbo.spaces.space import Column, Point
from drbo.spaces.times import Key
from drbo.validation import FloatArray


class KeyedRows(FiniteSet):
    """The rows of samples, each a point that is named by its key, or by its values if no other row has them."""

    def __init__(self, samples: Samples) -> None:
        assert samples.keys is not None
        super().__init__("contexts", samples.space.measured(samples.points))
        self.samples, self.keys, table = samples, samples.keys, samples.space
        self._names, self.coordinates = table.names, samples.points
        self.origin, self.units, self.scales = table.origin, table.units, table.scales
        if isinstance(samples.data, dict):
            rows = zip(*samples.data.values(), strict=True)
            self._values = [dict(zip(samples.data, row, strict=True)) for row in rows]
        elif self._names is not None:
            self._values = [dict(zip(self._names, row, strict=True)) for row in samples.data.tolist()]
        else:
            self._values = list(samples.data)
        self.weights, self.history = samples.weights, np.arange(len(samples.points))
        if np.ptp(samples.weights) > 0.0:
            self.history_weights = validation.frozen(samples.weights * len(samples.weights))
        self._at: dict[Key, int] = {key: i for i, key in enumerate(samples.keys)}

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.samples.space.columns

    def key(self, point: Point) -> Key:
        assert point.index is not None
        return self.keys[point.index]

    def in_unit_cube(self) -> KeyedRows:
        return self

    def arguments(self) -> dict[str, Any]:
        """Raise: rows are saved as samples."""
        raise TypeError("rows are saved as the samples that they belong to")

    def encode(self, name: str, value: Any) -> Point:
        """Return the row of a key, or the one row with these values; raise if several rows have them."""
        named = validation.by_name(value)
        if isinstance(named, str | int | np.integer | tuple | datetime.date | np.datetime64):
            return self._of_key(name, named)
        point = self.samples.encode(name, named)
        there = np.flatnonzero((np.abs(self.coordinates - point.coordinates) <= 1e-9).all(axis=1))
        if not len(there):
            raise ValueError(
                f"{name} must be one of the {len(self)} rows, whose keys are {_few(self.keys)}; got {value!r}. Give "
                "Samples without keys for conditions that are not replayed"
            )
        if len(there) > 1:
            named = _few([self.keys[i] for i in there])
            raise ValueError(f"{name} has the values of {len(there)} rows: give the key of one of them, {named}")
        return self.at(name, int(there[0]))

    def anywhere(self, name: str, value: Any) -> Point:
        """Return the point of a row, or of conditions that are no row: it has no index then."""
        try:
            return self.encode(name, value)
        except ValueError:
            if isinstance(value, str | int | np.integer | tuple | datetime.date | np.datetime64):
                raise
            return self.samples.encode(name, value)

    def far_outside(self, point: Point) -> str | None:
        return self.samples.space.far_outside(point)

    def decode(self, point: Point) -> Any:
        return self.samples.space.decode(point) if point.index is None else self._values[point.index]

    def decode_all(self, coordinates: FloatArray) -> Sequence[Any]:
        if coordinates is self.coordinates:
            return self._values
        return [self.decode(Point(row, self._row_of.get(row.tobytes()))) for row in np.ascontiguousarray(coordinates)]

    def _of_key(self, name: str, key: Any) -> Point:
        plain = key.item() if isinstance(key, np.integer | np.str_) else key
        if plain not in self._at:
            raise ValueError(f"{name} must be the key of a row, such as {_few(self.keys)}; got {key!r}")
        return self.at(name, self._at[plain])

    def _position(self, name: str, key: Any) -> int:
        index = self._of_key(f"a key of {name}", key).index
        assert index is not None
        return index

    def _column_equals(self, column: Any, value: Any) -> tuple[NDArray[np.bool_], Any]:
        one = self.columns[self.positions.index(column)]
        if one.labels is None:
            number = validation.finite_float(f"given[{column!r}]", value)
            equal = one.holds(self.points, number) > 0.0
        else:
            if value not in one.labels:
                there = ", ".join(map(repr, one.labels[:10]))
                raise ValueError(f"given[{column!r}] must be one of {there}; got {value!r}")
            equal, number = one.holds(self.points, value) > 0.0, value
        if not equal.any():
            raise ValueError(f"given[{column!r}] must be a value of that column; no row has {value!r}")
        return equal, number

    def of_columns(self, name: str, values: Mapping[Any, Any]) -> Any:
        return self.in_column_order(name, values) if self._names is None else dict(values)


def _few(keys: Any) -> str:
    """Return at most three keys as text."""
    return ", ".join(repr(key) for key in keys[:3]) + (", ..." if len(keys) > 3 else "")
