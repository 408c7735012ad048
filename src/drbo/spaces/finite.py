"""A finite set, in a fixed order: of points, or of labels such as groups of patients, days of the week, machines.

The model sees the coordinates of the labels' parameter: one per label for `Categorical`, one for `Ordinal`. For an
ambiguity set, `Categorical` labels are 0 or 1 apart, and `Ordinal` labels are their number of steps apart. Counts and
data given with the labels are kept with them.
"""

from __future__ import annotations

import enum
import functools
import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drbo import validation
from drbo._messages import listed
from drbo.spaces.choices import Categorical, Labelled, categories_of
from drbo.spaces.space import Column, Point, Space, columns_of
from drbo.validation import FloatArray


class FiniteSet(Space):
    """A finite set of points (n, d); a flat sequence of n numbers is n points on a line. Columns may have names.

    Attributes
    ----------
    name : the name used in errors, such as "actions"
    points : (n, d) as they were given
    coordinates : (n, d) the model's coordinates: the points themselves, or scaled to the unit cube
    weights : (n,) the distribution given with the points; None if there is none
    history : (t,) the indices of points seen in the past; empty if no data was given
    history_weights : (t,) their weights, on average 1; None if all are equal
    in_order : whether the history is in time order
    """

    weights: FloatArray | None = None
    history: NDArray[np.intp] = np.empty(0, dtype=np.intp)
    history_weights: FloatArray | None = None
    in_order: bool = True

    def __init__(self, name: str, points: ArrayLike, names: Sequence[str] | None = None) -> None:
        self.name = name
        self.points: FloatArray = validation.frozen(validation.points(name, points))
        self.dimension = self.points.shape[1]
        span = np.ptp(self.points, axis=0)
        self.scales = validation.frozen(np.where(span > 0.0, span, 1.0))
        self.origin, self.units = np.zeros(self.dimension), np.ones(self.dimension)
        self.coordinates = self.points
        self._names = None if names is None else tuple(str(one) for one in names)
        self._values: Sequence[Any] = cast(Sequence[Any], self.points)  # as the user sees them
        if self._names is not None:
            if len(set(self._names)) != self.dimension:
                raise ValueError(f"{name} must have {self.dimension} different names, one per column, got {names}")
            self._values = [dict(zip(self._names, row, strict=True)) for row in self.points.tolist()]

    def __repr__(self) -> str:
        return f"{len(self)} {self.name}"

    def __len__(self) -> int:
        return len(self.points)

    @property
    def columns(self) -> tuple[Column, ...]:
        return columns_of(self.points, self._names)

    @property
    def names(self) -> tuple[str, ...] | None:
        return self._names

    def arguments(self) -> dict[str, Any]:
        """Return the constructor arguments by name."""
        return {"name": self.name, "points": self.points, "names": self._names}

    @property
    def ranges(self) -> FloatArray:
        ranges = np.ptp(self.coordinates, axis=0)
        return np.where(ranges > 0.0, ranges, 1.0)

    def in_unit_cube(self) -> Self:
        """Return the same points with coordinates (point - minimum) / range per column."""
        scaled = type(self)(self.name, self.points, self._names)
        scaled.origin, scaled.units = self.points.min(axis=0), self.scales
        scaled.coordinates = validation.frozen((self.points - scaled.origin) / scaled.units)
        return scaled

    def spread(self, count: int, seed: int) -> list[Point]:
        """Return all points, in order; `count` and `seed` are ignored."""
        del count, seed
        return [Point(row, i) for i, row in enumerate(self.coordinates)]

    def encode(self, name: str, value: Any) -> Point:
        """Return the point equal to `value` (d,), up to 1e-9 of the set's range in each dimension.

        A value is its numbers in order, or a mapping from the names of the columns.
        """
        value = value if self._names is None else validation.by_name(value)
        if isinstance(value, Mapping) and self._names is not None:
            value = validation.finite_entries(name, self._names, self.in_column_order(name, value))
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

    def in_column_order(self, name: str, values: Mapping[Any, Any]) -> list[Any]:
        """Return the values of a mapping from the names of all columns, in order; an error calls it `name`."""
        if values.keys() != set(self.positions):
            raise ValueError(f"{name} must give a value for each column, {[*self.positions]}, got {dict(values)!r}")
        return [values[column] for column in self.positions]

    @property
    def positions(self) -> Sequence[Any]:
        """The names of the columns of a point; their positions if they have none."""
        return range(self.dimension) if self._names is None else self._names

    def movable(self, names: tuple[str, ...] | None, count: int) -> NDArray[np.intp]:
        """Return all coordinates: a perturbation of points has one column per coordinate."""
        if names is not None and self._names is not None:
            unknown = [one for one in names if one not in self._names]
            if unknown:
                raise ValueError(f"contexts perturb the unknown {listed(unknown)}; actions have {listed(self._names)}")
            return np.array([self._names.index(one) for one in names])
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
        ordered = self.in_column_order(name, values)
        return ordered if self._names is None else dict(zip(self._names, ordered, strict=True))

    def matching(self, known: Mapping[Any, Any]) -> tuple[dict[Any, Any], NDArray[np.intp]]:
        """Return the known values by column, and the indices (k,) of the points that match to 1e-9 of the range."""
        agree = np.ones(len(self), dtype=bool)
        values = {}
        for column, value in known.items():
            if isinstance(column, bool) or column not in self.positions:
                how = "" if self._names is not None else " by its position"
                raise ValueError(
                    f"given must name a column of the {self.name}{how}, {[*self.positions]}, got {column!r}"
                )
            equal, values[column] = self._column_equals(column, value)
            agree &= equal
        if not agree.any():
            raise ValueError(f"given must agree with one of the {self.name}, got {dict(known)!r}")
        return values, np.flatnonzero(agree)

    def _column_equals(self, column: Any, value: Any) -> tuple[NDArray[np.bool_], Any]:
        """Return a mask (n,) of the points with this value in the column, and that value; raise if none matches."""
        at = self.positions.index(column)
        number, there = validation.finite_float(f"given[{column!r}]", value), self.points[:, at]
        equal = np.abs(there - number) <= 1e-9 * self.scales[at] + 4.0 * np.finfo(float).eps * abs(number)
        if not equal.any():
            few = ", ".join(f"{v:.6g}" for v in np.unique(there)[:10])
            raise ValueError(f"given[{column!r}] must be a value of that column, such as {few}; got {value!r}")
        return equal, float(there[equal][0])

    def decode(self, point: Point) -> Any:
        assert point.index is not None  # points of a finite set have an index
        return self._values[point.index]

    def decode_all(self, coordinates: FloatArray) -> Sequence[Any]:
        if coordinates is self.coordinates:
            return self._values
        return [self._values[self._row_of[row.tobytes()]] for row in np.ascontiguousarray(coordinates)]

    @functools.cached_property
    def _row_of(self) -> dict[bytes, int]:
        """The row of each point, by its coordinates."""
        return {row.tobytes(): i for i, row in reversed(list(enumerate(np.ascontiguousarray(self.coordinates))))}

    def at(self, name: str, index: Any) -> Point:
        i = validation.whole_number(name, index)
        if not 0 <= i < len(self):
            raise ValueError(f"{name} must be from 0 to {len(self) - 1}, got {i}")
        return Point(self.coordinates[i], i)

    def stored(self, coordinates: FloatArray) -> Point:
        """Raise: a point of a finite set is stored by its index."""
        raise ValueError(f"a point of a finite set has an index, got coordinates {coordinates.tolist()}")

    def weights_of(self, name: str, given: Any) -> FloatArray:
        """Return the user's weights (n,): one per point, or a mapping from indices, with 0 for missing ones."""
        values, n = validation.by_name(given), len(self.coordinates)
        if not isinstance(values, Mapping):
            return validation.distribution(name, values, n)
        weights = np.zeros(n)
        for key, value in values.items():
            weights[self._position(name, key)] = validation.finite_float(f"{name}[{key!r}]", value)
        return validation.distribution(name, weights, n)

    def _position(self, name: str, key: Any) -> int:
        """Return the position of the point that a mapping key names: an index."""
        index = self.at(f"a key of {name}", key).index
        assert index is not None
        return index

    def measured(self, coordinates: FloatArray) -> FloatArray:
        return self.points if coordinates is self.coordinates else super().measured(coordinates)


FiniteGiven = ArrayLike | Iterable[Any] | Labelled
"""Accepted forms of a finite set: points, or labels in any of the forms of `finite_set`."""
LARGEST_PAST = 10_000_000
"""Largest total of counts that is expanded into a history; larger counts are used as weights only."""


class Labels(FiniteSet):
    """A finite set of labels, in a fixed order.

    Parameters
    ----------
    name : the name used in errors, such as "contexts"
    parameter : `Categorical` or `Ordinal`, with the labels
    given : (n,) optional weights or counts of the labels. Whole numbers are counts of past contexts
    history : (t,) instead of `given`: the indices of the labels seen in the past, in time order
    """

    def __init__(
        self, name: str, parameter: Labelled, given: ArrayLike | None = None, history: ArrayLike | None = None
    ) -> None:
        coordinates = parameter.levels(np.arange(parameter.count))
        super().__init__(name, parameter.origin + coordinates * parameter.unit)
        if None in parameter.choices:
            raise ValueError(f"{name} must not hold None, which means 'not given': use text such as 'none'")
        self.parameter, self.coordinates = parameter, validation.frozen(coordinates)
        self._values = parameter.choices
        self.origin, self.units = np.full(self.dimension, parameter.origin), np.full(self.dimension, parameter.unit)
        self.scales = validation.frozen(np.full(self.dimension, parameter.extent / math.sqrt(self.dimension)))
        self.given = None if given is None else validation.frozen(validation.finite_array(name, given))
        self.in_order = history is not None
        if history is not None:
            self.history = _indices(name, history, len(self))
            self.given = np.bincount(self.history, minlength=len(self)).astype(float)
        if self.given is not None:
            self.weights = validation.frozen(validation.distribution(f"the weights of {name}", self.given, len(self)))
            if history is None:
                self.history = _counted(self.given)

    def __repr__(self) -> str:
        return f"Labels({', '.join(map(repr, self.labels))})"

    @property
    def labels(self) -> tuple[Any, ...]:
        """The labels, in order."""
        return self.parameter.choices

    @property
    def columns(self) -> tuple[Column, ...]:
        return (self.parameter.column(None, 0),)

    def arguments(self) -> dict[str, Any]:
        data = {"given": None, "history": self.history} if self.in_order else {"given": self.given, "history": None}
        return {"name": self.name, "parameter": self.parameter, **data}

    def movable(self, names: tuple[str, ...] | None, count: int) -> NDArray[np.intp]:
        """Raise: labels cannot be perturbed."""
        return Space.movable(self, names, count)

    @property
    def ranges(self) -> FloatArray:
        ranges = np.ptp(self.coordinates, axis=0)
        return np.where(ranges > 0.0, ranges, 1.0)

    def in_unit_cube(self) -> Self:
        return self

    def encode(self, name: str, value: Any) -> Point:
        i = self.parameter.index(name, value)
        return Point(self.coordinates[i], i)

    @property
    def positions(self) -> range:
        return range(len(self._parts[0]))

    def of_columns(self, name: str, values: Mapping[Any, Any]) -> Any:
        parts = super().of_columns(name, values)
        return tuple(parts) if self._parts[0] is self.labels[0] else parts[0]

    @functools.cached_property
    def _parts(self) -> tuple[tuple[Any, ...], ...]:
        """The labels as tuples: unchanged if all are tuples of equal length, otherwise each in a 1-tuple."""
        lengths = {len(label) if type(label) is tuple else 0 for label in self.labels}
        return self.labels if len(lengths) == 1 and lengths != {0} else tuple((label,) for label in self.labels)

    def _column_equals(self, column: int, value: Any) -> tuple[NDArray[np.bool_], Any]:
        there = [parts[column] for parts in self._parts]
        different = Categorical(*dict.fromkeys(there))
        known = different.choices[different.index(f"given[{column}]", value)]
        return np.array([one == known for one in there]), known

    def many(self, name: str, value: Any) -> Sequence[Any] | None:
        if isinstance(value, list) or (hasattr(value, "dtype") and hasattr(value, "__len__")):
            return list(value)
        return super().many(name, value) if hasattr(value, "columns") else None

    def _position(self, name: str, key: Any) -> int:
        """Return the position of the label that a mapping key names."""
        return self.parameter.index(f"a key of {name}", key)


def finite_set(name: str, given: Any) -> FiniteSet:
    """Return the given actions or contexts as a finite set: labels if possible, otherwise points.

    Labels are `Categorical` or `Ordinal`; a mapping from labels to weights or counts; a sequence with entries that are
    neither numbers nor points; or data: a pandas Categorical or a Series of text, truth values or categories.
    """
    if isinstance(given, FiniteSet):
        return given
    if isinstance(given, Labelled):
        return Labels(name, given)
    if isinstance(given, Mapping):
        return _weighted(name, given)
    if isinstance(given, set | frozenset):
        raise TypeError(f"{name} must be ordered, and a set is not: give a list")
    if hasattr(given, "columns"):
        return _rows(name, given)
    categories = categories_of(given)
    if categories is not None:
        return _data(name, _present(name, list(given)), categories)
    if not isinstance(given, Iterable) or isinstance(given, str) or getattr(given, "ndim", 1) != 1:
        return FiniteSet(name, given)
    items = list(given)
    if all(_is_point(item) for item in items):
        _refuse_counts(name, given)
        array: Any = given if hasattr(given, "dtype") else items
        return FiniteSet(name, array)
    if hasattr(given, "to_dict"):  # a Series: data, one label per row
        labels = _present(name, items)
        return _data(name, labels, Categorical.from_arguments((*dict.fromkeys(labels),)))
    labels = [validation.label(name, item) for item in items]
    if len(set(labels)) < len(labels):
        raise ValueError(
            f"{name} must be labels that are different from one another; labels that repeat are data: give their "
            "counts, contexts=collections.Counter(labels), or a pandas Series of them"
        )
    return Labels(name, Categorical.from_arguments((*labels,)))


def _refuse_counts(name: str, given: Any) -> None:
    """Raise if numbers are a Series indexed by label, as from `value_counts`: they may be counts of the labels."""
    index = list(given.index) if hasattr(given, "to_dict") else []
    if any(isinstance(label, str | bool) for label in index):
        raise TypeError(
            f"{name} must be points or labels, got numbers by label ({index[0]!r}, ...): for labels with these weights "
            f"or counts give {name}=series.to_dict(), and for the numbers themselves {name}=series.to_numpy()"
        )


def _rows(name: str, frame: Any) -> FiniteSet:
    """Return the rows of a table of numbers as points."""
    columns = list(frame.columns)
    try:
        return FiniteSet(name, frame, columns if all(isinstance(one, str) for one in columns) else None)
    except TypeError as error:
        raise TypeError(f"{error}; pass a table of conditions with labels as drbo.Samples(table)") from None


def _weighted(name: str, given: Mapping[Any, Any]) -> Labels:
    """Return the labels of a mapping from labels to weights or counts."""
    for key, value in given.items():
        if np.ndim(value):
            raise TypeError(
                f"{name} must map labels to weights or counts, got {value!r} for {key!r}; pass a table of conditions "
                "as drbo.Samples(table)"
            )
    weights = [validation.finite_float(f"{name}[{key!r}]", value) for key, value in given.items()]
    if not weights:
        raise ValueError(f"{name} must hold at least one label, got {given!r}")
    return Labels(name, Categorical.from_arguments((*given,)), weights)


def _data(name: str, values: Sequence[Any], parameter: Labelled) -> Labels:
    """Return labels with values, in time order, as history."""
    return Labels(name, parameter, history=[parameter.index(name, value) for value in values])


def _present(name: str, values: Sequence[Any]) -> list[Any]:
    """Return the values as labels; raise if one is missing."""
    for row, value in enumerate(values):
        if validation.missing(value):
            raise ValueError(f"{name} must not hold missing values, but row {row} is one: drop it, or give it a label")
    return [validation.label(name, value) for value in values]


def _is_point(item: Any) -> bool:
    """Return whether an item is a number, or a sequence of coordinates."""
    if isinstance(item, tuple):
        return all(_is_point(part) for part in item)
    if isinstance(item, bool | enum.Enum):
        return False
    return isinstance(item, numbers.Number | list | np.ndarray)


def _counted(given: FloatArray) -> NDArray[np.intp]:
    """Return counts as indices (t,) of past contexts; empty if the weights are shares."""
    if (given != np.floor(given)).any() or given.sum() > LARGEST_PAST:
        return np.empty(0, dtype=np.intp)
    return np.repeat(np.arange(len(given)), given.astype(np.intp))


def _indices(name: str, history: ArrayLike, count: int) -> NDArray[np.intp]:
    """Return the indices of the labels seen, as a read-only array."""
    indices = np.array(history, dtype=np.intp)
    if indices.ndim != 1 or not indices.size or not 0 <= indices.min() <= indices.max() < count:
        raise ValueError(f"{name} must be data of at least one row, with labels from 0 to {count - 1}, got {history!r}")
    indices.flags.writeable = False
    return indices
