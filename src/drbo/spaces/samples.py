"""Contexts from data: past conditions, in time order. This module holds only the data.

The model sees the range of the samples as a unit cube. The range is the `Box` of possible conditions (`within`) if one
is given. Otherwise it is the smallest to the largest sample of each column. `drbo.contexts.nature` makes a reference
distribution from samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drbo import validation
from drbo._messages import listed, printable
from drbo.spaces.box import Box, check_columns, not_a_label, spread
from drbo.spaces.choices import Labelled, read_column
from drbo.spaces.parameters import Observed, ObservedWhole, Parameter
from drbo.spaces.space import Column, Displacement, Point, Space
from drbo.spaces.times import YEAR, read_duration, read_keys, read_time, read_times
from drbo.validation import FloatArray

__all__ = ["Samples"]

_MOST_SUPPORT = 10_000
"""Largest number of further points: more do not help a solver, and this limits the memory that a file can claim."""

_SUPPORT = 64
"""Default number of further points."""
CONTEXTS_UNCONSTRAINED = "contexts must not have constraints: nature may choose any point of their box"

_FAR = 1.0
"""A context is far outside if it exceeds the samples' range by more than this share of the range."""


class DataRange(Space):
    """The range of numeric columns, from the smallest to the largest sample; contexts may lie outside.

    Attributes
    ----------
    origin, units : (d,) the smallest sample of each column, and the difference to the largest (1 if there is none)
    deviations : (d,) the standard deviation of each column
    known : always empty, because continuous numbers cannot be fixed
    """

    def __init__(
        self, low: FloatArray, span: FloatArray, names: tuple[str, ...] | None, deviations: FloatArray
    ) -> None:
        self.origin, self.units, self._names = validation.frozen(low), validation.frozen(span), names
        self.deviations = validation.frozen(deviations)
        self.known: dict[str, Any] = {}
        self.dimension = len(low)
        self.scales = self.units

    @property
    def names(self) -> tuple[str, ...] | None:
        return self._names

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the samples."""
        return tuple(
            Column(
                None if self.names is None else self.names[i],
                i,
                step=float(self.deviations[i]),
                span=0.0 if self.names else float(self.units[i] if self.deviations[i] else 0.0),
            )
            for i in range(self.dimension)
        )

    def narrowed(self, known: Mapping[Any, Any]) -> DataRange:
        """Raise: a continuous column cannot be fixed."""
        check_columns(known, range(self.dimension) if self.names is None else self.names)
        raise TypeError(not_a_label(next(iter(known))))

    def holds(self, coordinates: FloatArray) -> NDArray[np.bool_]:
        """Return a mask (n,) of the points (n, d) that have the known values: always all of them."""
        return np.ones(len(coordinates), dtype=bool)

    def encode(self, name: str, value: Any) -> Point:
        """Return the point of a context: a mapping from column names, or its numbers in order."""
        value = value if self.names is None else validation.by_name(value)
        if isinstance(value, Mapping):
            if self.names is None or set(value) != set(self.names):
                expected = "be an array, as the samples are" if self.names is None else f"name {listed(self.names)}"
                raise ValueError(f"{name} must {expected}, got {value!r}")
            value = validation.finite_entries(name, self.names, [value[key] for key in self.names])
        given = np.atleast_1d(validation.finite_array(name, value))
        if given.shape != (self.dimension,):
            raise ValueError(f"{name} must have {self.dimension} number(s), got {value!r}")
        return Point(np.asarray((given - self.origin) / self.units))

    def decode(self, point: Point) -> Any:
        values = self.measured(point.coordinates)
        return values if self.names is None else dict(zip(self.names, values.tolist(), strict=True))

    def far_outside(self, point: Point) -> str | None:
        names = self.names or [f"[{i}]" for i in range(self.dimension)]
        return _far(point.coordinates, self.origin, self.units, names)

    @property
    def continuous(self) -> NDArray[np.bool_]:
        """Mask of the continuous coordinates, (d,): all of them."""
        return np.ones(self.dimension, dtype=bool)

    def discrete_parts(self, most: int) -> None:
        """Return None: a continuous space has no discrete values."""
        del most

    def sample(self, count: int, seed: int) -> FloatArray:
        """Return well-spread points (count, d) of the unit cube."""
        return spread(count, self.dimension, seed)


class TableRange(Box):
    """The range of a table of numbers and labels. Numbers may lie outside the range; labels are the table's."""

    def far_outside(self, point: Point) -> str | None:
        first = [self._slices[name].start for name in self.parameters]
        low, unit = (np.array([getattr(p, end) for p in self.parameters.values()]) for end in ("origin", "unit"))
        return _far(point.coordinates[first], low, unit, list(self.parameters))


def _far(coordinates: FloatArray, low: FloatArray, span: FloatArray, names: Sequence[str]) -> str | None:
    """Return text that names the coordinates (d,) far outside the unit cube; None if there are none."""
    outside = np.maximum(coordinates - 1.0, -coordinates) > _FAR
    if not outside.any():
        return None
    ends = zip(names, low + coordinates * span, low, low + span, outside, strict=True)
    parts = [f"{name} = {v:.6g} (the samples go from {a:.6g} to {b:.6g})" for name, v, a, b, far in ends if far]
    return "lies far outside of the samples: " + printable(", ".join(parts))


class Samples:
    """Past conditions, in time order; their distribution is the reference.

    Parameters
    ----------
    data : (n, d) a DataFrame, a mapping from names to columns, or an array. Columns of text, truth values and
        categories are labels. The data may be empty if `within` is given: nothing has been seen yet
    weights : (n,) a probability vector; uniform by default
    names : the column names of an array
    within : a `Box` of possible conditions, with one parameter per column. The adversary may then put mass anywhere in
        the box. Without it, mass goes to the atoms and the further points only
    labels : the type of a column that the data does not reveal, if there is no `within`:
        `{"store": drbo.Categorical(1, 2, 3)}` for numbers that are names, `{"size": drbo.Ordinal("S", "M", "L")}` for
        text with an order
    atoms : the largest number of weighted atoms that represent the samples
    support : the number of further points of the range that the adversary may use (its initial points with `within`).
        If every column is a label or a whole number, these are combinations that do not occur in the samples. The
        default is 64, and 0 with keys
    keys : the key of each row, or the name of the column that holds them: text, integers, dates, or tuples of these.
        Days with keys are replayed: every row is a context of its own, no other is ever suggested, and `s.key` and
        `s.context_index` name the row of a suggestion. Only the keys are kept: what belongs to a key, such as a file
        or the course of a day, is not stored
    time : the time of each row, or the name of the column that holds them: dates, their ISO text, or seconds since
        1970; in ascending order. A rule for the radius then knows how much of a year it has seen
    """

    observed: bool = True
    """Whether the samples were seen in the past; False if they represent a known distribution."""

    def __init__(
        self,
        data: Any,
        weights: ArrayLike | None = None,
        *,
        names: Sequence[str] | None = None,
        within: Box | None = None,
        labels: Mapping[str, Labelled | ObservedWhole] | None = None,
        atoms: int = 300,
        support: int | None = None,
        keys: Any = None,
        time: Any = None,
    ) -> None:
        validation.of_kind("within", within, (Box, type(None)), "a Box")
        if within is not None and keys is not None:
            raise TypeError(
                "keys must not be given with within: with keys only rows are replayed, but within allows other values"
            )
        data, keys = _without_column(data, "keys", keys)
        data, time = _without_column(data, "time", time)
        if within is not None and within.constraints:
            raise TypeError(f"{CONTEXTS_UNCONSTRAINED}, got within={within!r}")
        if within is not None and names is not None:
            raise TypeError("names must not be given with within, whose parameters name the columns")
        if within is not None and labels is not None:
            raise TypeError("labels must not be given with within, whose parameters say what the columns are")
        kinds = "a mapping from names of columns to drbo.Categorical(...) or Ordinal(...)"
        validation.of_kind("labels", labels, (Mapping, type(None)), kinds)
        self.within = within
        self.space: Box | DataRange
        self.data: FloatArray | dict[str, list[Any]]
        if within is None:
            self.data, self.space, self.points = _read(data, _names(names), labels or {})
        else:
            self.data, self.space = _columns(data, within), within
            rows = [dict(zip(self.data, row, strict=True)) for row in zip(*self.data.values(), strict=True)]
            self.points = validation.frozen(_encoded(rows, within))
        n = len(self.points)
        if weights is None:
            self.weights = np.full(n, 1.0 / max(n, 1))
        else:
            self.weights = validation.distribution("weights", weights, n)
        self.weights = validation.frozen(self.weights)
        self.atoms = validation.whole_number("atoms", atoms, least=1)
        self.keys = None if keys is None else read_keys(keys, n)
        if support is None:
            support = _SUPPORT if keys is None else 0
        self.support = validation.whole_number("support", support, least=0, most=_MOST_SUPPORT)
        self.time = None if time is None else _ascending(read_times("time", time), n)
        if self.keys is not None and self.support:
            raise ValueError(f"support must be 0 with keys: only rows are replayed, got {self.support}")

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the contexts; the typical step of numbers is the deviation of the samples."""
        found = self.space.columns
        if self.within is None or len(self.points) < 2 or not isinstance(self.data, dict):
            return found
        return tuple(column if column.labels is not None else self._stepping(column, self.data) for column in found)

    @staticmethod
    def _stepping(column: Column, data: Mapping[str, Sequence[Any]]) -> Column:
        numbers = np.array(data[str(column.name)], dtype=float)
        step = float(np.std(np.log(numbers) if column.logarithmic else numbers))
        return replace(column, step=step) if step > 0.0 else column

    def __repr__(self) -> str:
        if self.within is not None:
            return f"Samples({len(self.points)} within {self.within!r})"
        return f"Samples({len(self.points)} of {printable(', '.join(self.names or [f'{self.dimension} number(s)']))})"

    @property
    def dimension(self) -> int:
        """The number of coordinates of a sample."""
        return self.space.dimension

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the columns; None if there are none."""
        return self.space.names

    def arguments(self) -> dict[str, Any]:
        """Return the constructor arguments by name."""
        own = {key: getattr(self, key) for key in ("data", "within", "atoms", "support")}
        own |= {key: value for key in ("keys", "time") if (value := getattr(self, key)) is not None}
        weights = self.weights if len(self.weights) else None
        if self.within is not None:
            return {**own, "weights": weights}
        labels = {name: p for name, p in self._parameters.items() if isinstance(p, Labelled | ObservedWhole)}
        return {**own, "weights": weights, "names": self.names, "labels": labels or None}

    @property
    def years(self) -> float | None:
        """The part of a year, or the number of years, that the times cover; None without times."""
        if self.time is None or not len(self.time):
            return None
        step = float(np.median(np.diff(self.time))) if len(self.time) > 1 else 0.0
        return (float(self.time[-1] - self.time[0]) + step) / YEAR

    def rows(self, which: NDArray[np.intp]) -> Samples:
        """Return the samples of some rows (k,), with their weights, keys and times; the order is kept."""
        own = {**Samples.arguments(self)}
        data = own["data"]
        if isinstance(data, dict):
            own["data"] = {name: [column[i] for i in which] for name, column in data.items()}
        else:
            own["data"] = data[which]
        own["weights"] = None if all_alike(self.weights) else self.weights[which] / self.weights[which].sum()
        for key in ("keys", "time"):
            if own.get(key) is not None:
                own[key] = [own[key][i] for i in which]
        return Samples(**own)

    def same_weeks(self, start: Any, end: Any, season: Any = "365D") -> Samples:
        """Return the samples from the same weeks of past years, as a reference for the time from `start` to `end`.

        A row belongs to them if it is a whole number of seasons before a time of that stretch.
        """
        if self.time is None:
            raise TypeError("same_weeks needs times: give Samples(..., time=...)")
        first, last, length = read_time("start", start), read_time("end", end), read_duration("season", season)
        if not first < last <= first + length:
            raise ValueError(f"end must be after start, by at most a season, got {start!r} and {end!r}")
        which = np.flatnonzero(((self.time - first) % length < last - first) & (self.time < first))
        if not len(which):
            raise ValueError(f"no row is from the same weeks, {start!r} to {end!r}, of an earlier season")
        return self.rows(which)

    def shift(self, actions: Space) -> Displacement | None:
        """Return the shift that contexts apply to actions; None if the contexts are not perturbations."""
        del actions
        return None

    def encode(self, name: str, value: Any) -> Point:
        """Return the point of a context, a mapping or values in order; it may lie outside the unit cube."""
        named, value = self._parameters, validation.by_name(value)
        if named and not isinstance(value, Mapping):
            parts = np.atleast_1d(np.asarray(value, dtype=object))
            if parts.shape != (len(named),):
                raise ValueError(f"{name} must give {listed(named)}, got {value!r}")
            value = dict(zip(named, parts, strict=True))
        return self.space.encode(name, value)

    @property
    def _parameters(self) -> dict[str, Parameter]:
        """The parameters of the columns; empty if all columns are numbers."""
        return getattr(self.space, "parameters", {})


def all_alike(weights: FloatArray) -> bool:
    """Return whether weights (n,) are all equal, up to rounding."""
    return float(np.ptp(weights)) <= 1e-12 * float(weights.max()) if len(weights) else True


def _ascending(times: Sequence[float], count: int) -> FloatArray:
    """Return the times (n,); raise unless there is one per row, in ascending order."""
    if len(times) != count:
        raise ValueError(f"time must hold one time per row, {count}, got {len(times)}")
    back = [i for i in range(1, count) if times[i] < times[i - 1]]
    if back:
        raise ValueError(
            f"time must be in ascending order, but row {back[0]} is before row {back[0] - 1}: sort the table by it"
        )
    return validation.frozen(np.array(times, dtype=float))


def _without_column(data: Any, role: str, given: Any) -> tuple[Any, Any]:
    """Return a table without the column that an argument names, and that column; both unchanged otherwise."""
    if not isinstance(given, str):
        return data, given
    if not (isinstance(data, Mapping) or hasattr(data, "columns")):
        raise TypeError(f"{role} must be a sequence where data has no named columns, got {given!r}")
    names = _column_names(data)
    if given not in names:
        raise ValueError(f"{role} must name a column of data, {listed(names)}; got {given!r}")
    if len(names) == 1:
        raise ValueError(f"data must have a column besides {given!r}, which holds the {role}")
    return {name: data[name] for name in names if name != given}, data[given]


def _names(names: Any) -> list[str] | None:
    """Return the names of columns as a list; None if there are none."""
    if names is None:
        return None
    if isinstance(names, str | bytes | Mapping) or not isinstance(names, Iterable):
        raise TypeError(f"names must be a list of names, one per column, got {names!r}")
    return [str(name) for name in names]


def _read(
    data: Any, names: Sequence[str] | None, labels: Mapping[str, Labelled | ObservedWhole]
) -> tuple[FloatArray | dict[str, list[Any]], TableRange | DataRange, FloatArray]:
    """Return the data, its range and its coordinates (n, d); purely numeric data is an array, otherwise columns."""
    table = _table(data, names)
    if table is None:
        if labels:
            raise TypeError("labels must be given for columns with names: give a table, or names=...")
        values, space = _numbers(data, names)
        return values, space, validation.frozen((values - space.origin) / space.units)
    unknown = [name for name in labels if name not in table]
    if unknown:
        raise ValueError(f"labels has unknown {listed(unknown)}; the columns are {listed(table)}")
    for name, parameter in labels.items():
        kinds = (Labelled, ObservedWhole)
        validation.of_kind(f"labels[{name!r}]", parameter, kinds, "drbo.Categorical(...) or drbo.Ordinal(...)")
    read = {name: read_column(name, values, labels.get(name)) for name, values in table.items()}
    items = {name: values for name, (values, _) in read.items()}
    parameters = {name: parameter for name, (_, parameter) in read.items()}
    _check_lengths(items)
    if all(type(p) is Observed for p in parameters.values()):
        return _read(np.column_stack(list(items.values())), list(items), {})
    coordinates = [np.array([p.encode(name, value) for value in items[name]]) for name, p in parameters.items()]
    return items, TableRange(parameters), validation.frozen(np.hstack(coordinates))


def _table(data: Any, names: Sequence[str] | None) -> dict[str, Any] | None:
    """Return the columns of a table by name; None if the data is an array of numbers, or not an array."""
    if isinstance(data, Mapping) or hasattr(data, "columns"):
        columns = _column_names(data)
        given = [str(name) for name in (columns if names is None else names)]
        if not columns:
            raise ValueError(f"data must have at least one column, got {data!r}")
        if not len(columns) == len(given) == len(set(given)):
            raise ValueError(f"names must be {len(columns)} different names, one per column, got {given}")
        return {name: data[column] for name, column in zip(given, columns, strict=True)}
    try:
        array = np.asarray(data)
    except ValueError:  # rows of different lengths
        return None
    if array.dtype.kind not in "OUST" or array.ndim not in (1, 2):
        return None
    array = np.asarray(data, dtype=object).reshape(len(array), -1)
    if names is None:
        raise TypeError(
            "data must be an array of numbers, or have names for its columns, such as {'age': ['young', 'old']}; got "
            f"{array.ravel()[0]!r}"
        )
    return _table(dict(enumerate(array.T)), names)


def _column_names(data: Any) -> list[Any]:
    """Return the column names of a table; raise if a name occurs twice."""
    names = list(data.columns if hasattr(data, "columns") else data)
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ValueError(f"data must have columns of different names, but {len(twice)} are called {twice[0]!r}")
    return names


def _numbers(data: Any, names: Sequence[str] | None) -> tuple[FloatArray, DataRange]:
    """Return the data as an array (n, d), and its range."""
    values = validation.frozen(validation.points("data", data))
    named = None if names is None else tuple(str(name) for name in names)
    if named is not None and len(set(named)) != values.shape[1]:
        raise ValueError(f"names must be {values.shape[1]} different names, one per column, got {list(named)}")
    span = np.ptp(values, axis=0)
    return values, DataRange(values.min(axis=0), np.where(span > 0.0, span, 1.0), named, values.std(axis=0))


def _columns(data: Any, within: Box) -> dict[str, list[Any]]:
    """Return the column of each parameter of the box, in the box's order."""
    names = list(within.parameters)
    if isinstance(data, Mapping) or hasattr(data, "columns"):
        there = _column_names(data)
        missing = [name for name in names if name not in there]
        if missing:
            raise ValueError(f"data lacks {listed(missing)}; its columns are {listed(there)}")
        found = {name: np.atleast_1d(np.asarray(data[name], dtype=object)).tolist() for name in names}
    else:
        if np.ma.isMaskedArray(data):
            raise TypeError("data must be an array of values, got a masked array")
        table = np.asarray(data, dtype=object)
        if table.ndim == 1 and len(names) == 1:
            table = table[:, None]
        if table.size == 0:
            table = table.reshape(0, len(names))
        if table.ndim != 2 or table.shape[1] != len(names):
            raise ValueError(f"data must have a column for each of {listed(names)}, got shape {table.shape}")
        found = dict(zip(names, table.T.tolist(), strict=True))
    _check_lengths(found)
    # numpy scalars become Python values, which can be saved
    return {
        name: [value.item() if isinstance(value, np.generic) else value for value in column]
        for name, column in found.items()
    }


def _check_lengths(columns: Mapping[str, Sequence[Any] | NDArray[Any]]) -> None:
    if len({len(column) for column in columns.values()}) > 1:
        raise ValueError(f"data must have columns of equal length, got {[len(c) for c in columns.values()]}")


def _encoded(rows: Sequence[Mapping[str, Any]], within: Box) -> FloatArray:
    """Return the coordinates (n, d) of all rows; an error names the first invalid row and counts the others."""
    encoded, errors = [], []
    for i, row in enumerate(rows):
        try:
            encoded.append(within.encode(f"data[{i}]", row).coordinates)
        except (TypeError, ValueError) as error:
            errors.append(error)
    if errors:
        others = f" (and {len(errors) - 1} more of {len(rows)} rows)" if len(errors) > 1 else ""
        raise type(errors[0])(f"{errors[0]}{others}")
    return np.array(encoded).reshape(-1, within.dimension)
