"""Contexts from data: past conditions, in the order of time. This room holds the data only.

The range of the samples is a unit cube for the model. Where a `Box` says what the conditions may be (`within`), the
range is the box. Otherwise it goes from the least to the largest sample of each column. `drbo.ambiguity.reference`
makes a reference distribution of samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drbo import validation
from drbo.spaces.box import Box, spread
from drbo.spaces.columns import Column
from drbo.spaces.space import Point, Space
from drbo.validation import FloatArray

_FAR = 1.0
"""A context is far outside if it is beyond the samples' range by more than this share of it."""


class DataRange(Space):
    """The range of numeric columns, from the least to the largest sample, as a unit cube; contexts may lie outside.

    Attributes
    ----------
    low, span : (d,) the least sample of each column, and the difference to the largest (1 if there is none)
    deviations : (d,) of the samples of each column
    """

    def __init__(
        self, low: FloatArray, span: FloatArray, names: tuple[str, ...] | None, deviations: FloatArray
    ) -> None:
        self.low, self.span, self._names = validation.frozen(low), validation.frozen(span), names
        self.deviations = validation.frozen(deviations)
        self.dimension = len(low)
        self.scales = self.span

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the columns, if they have any."""
        return self._names

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the samples."""
        names = self.names or (None,) * self.dimension
        return tuple(Column(name, i, step=float(self.deviations[i])) for i, name in enumerate(names))

    def encode(self, name: str, value: Any) -> Point:
        """Return the point of a context: a mapping from the columns' names, or its numbers in order."""
        value = value if self.names is None else validation.by_name(value)
        if isinstance(value, Mapping):
            if self.names is None or set(value) != set(self.names):
                expected = "be an array, as the samples are" if self.names is None else f"name {', '.join(self.names)}"
                raise ValueError(f"{name} must {expected}, got {value!r}")
            value = [value[key] for key in self.names]
        given = np.atleast_1d(validation.finite_array(name, value))
        if given.shape != (self.dimension,):
            raise ValueError(f"{name} must have {self.dimension} number(s), got {value!r}")
        return Point(np.asarray((given - self.low) / self.span))

    def decode(self, point: Point) -> Any:
        """Return a context in the user's units: a mapping if the columns have names, otherwise an array (d,)."""
        values = self.low + point.coordinates * self.span
        return values if self.names is None else dict(zip(self.names, values.tolist(), strict=True))

    def far_outside(self, point: Point) -> str | None:
        """Return which columns lie more than the range of the samples outside of it."""
        outside = np.maximum(point.coordinates - 1.0, -point.coordinates) > _FAR
        if not outside.any():
            return None
        names = self.names or [f"[{i}]" for i in range(self.dimension)]
        values = self.low + point.coordinates * self.span
        ends = zip(names, values, self.low, self.low + self.span, outside, strict=True)
        parts = [f"{name} = {v:.6g} (the samples go from {a:.6g} to {b:.6g})" for name, v, a, b, far in ends if far]
        return "lies far outside of the samples: " + ", ".join(parts)

    def measured(self, coordinates: FloatArray) -> FloatArray:
        """Return coordinates (n, d) in the user's units."""
        return np.asarray(self.low + coordinates * self.span)

    def unmeasured(self, positions: FloatArray) -> FloatArray:
        """Return the coordinates (n, d) of positions (n, d) in the user's units."""
        return np.asarray((positions - self.low) / self.span)

    @property
    def units(self) -> FloatArray:
        """How many of the user's units a step of 1 is in each coordinate, (d,)."""
        return self.span

    def widths(self, halves: FloatArray) -> FloatArray:
        """Return half-widths (n, d) in the user's units."""
        return np.asarray(halves * self.span)

    def sample(self, count: int, seed: int) -> FloatArray:
        """Return well-spread points (count, d) of the unit cube."""
        return spread(count, self.dimension, seed)


class Samples:
    """Past conditions, in the order of time: their distribution is the reference.

    Parameters
    ----------
    data : (n, d) a DataFrame or a mapping from names to columns, which name the conditions, or an array. It may be
        empty where `within` says what the conditions are: nothing has been seen yet
    weights : (n,) a probability vector; uniform by default
    names : of the columns of an array
    within : a `Box` of what the conditions may be, whose parameters are the columns. The adversary may then put mass
        anywhere in it; without it, on the atoms and the further points alone
    atoms : the largest number of weighted atoms that stand for the samples
    support : how many further points of the range the adversary may use, or begin with
    """

    def __init__(
        self,
        data: Any,
        weights: ArrayLike | None = None,
        *,
        names: Sequence[str] | None = None,
        within: Box | None = None,
        atoms: int = 300,
        support: int = 64,
    ) -> None:
        if within is not None and not isinstance(within, Box):
            raise TypeError(f"within must be a Box, got {within!r}")
        if within is not None and names is not None:
            raise TypeError("names must not be given with within, whose parameters name the columns")
        self.within = within
        self.space: Box | DataRange
        self.data: FloatArray | dict[str, list[Any]]
        if within is None:
            self.data, self.space = _numbers(data, names)
            self.points = validation.frozen(self.space.unmeasured(self.data))
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
        self.support = validation.whole_number("support", support, least=0)

    def __repr__(self) -> str:
        if self.within is not None:
            return f"Samples({len(self.points)} within {self.within!r})"
        return f"Samples({len(self.points)} of {', '.join(self.names or [f'{self.dimension} number(s)'])})"

    @property
    def dimension(self) -> int:
        """How many coordinates a sample has."""
        return self.space.dimension

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the columns, if they have any."""
        return self.space.names

    def arguments(self) -> dict[str, Any]:
        """Return what the samples were made of, by the names of the arguments."""
        own = {key: getattr(self, key) for key in ("data", "within", "atoms", "support")}
        names = self.names if self.within is None else None
        return {**own, "weights": self.weights if len(self.weights) else None, "names": names}

    def encode(self, name: str, value: Any) -> Point:
        """Return the point of a context, outside the unit cube if it lies outside the samples' range.

        A context is a mapping from the names of the columns, or its values in their order.
        """
        if self.within is None:
            return self.space.encode(name, value)
        value = validation.by_name(value)
        if not isinstance(value, Mapping):
            parts = np.atleast_1d(np.asarray(value, dtype=object))
            if parts.shape != (len(self.within.parameters),):
                raise ValueError(f"{name} must give {', '.join(self.within.parameters)}, got {value!r}")
            value = dict(zip(self.within.parameters, parts, strict=True))
        return self.within.encode(name, value)


def _numbers(data: Any, names: Sequence[str] | None) -> tuple[FloatArray, DataRange]:
    """Return the data as an array (n, d), and its range."""
    if isinstance(data, Mapping) or hasattr(data, "columns"):
        columns = {str(name): np.atleast_1d(np.asarray(data[name])) for name in data}
        _check_lengths(columns)
        for name, column in columns.items():
            if column.dtype.kind not in "iufb":
                raise TypeError(
                    f"data must be numbers, but column {name!r} is not; with conditions of other kinds, say what they "
                    f"may be: within=drbo.Box({name}=drbo.Categorical(...), ...)"
                )
        names = list(columns) if names is None else names
        data = np.column_stack(list(columns.values()))
    values = validation.frozen(validation.points("data", data))
    named = None if names is None else tuple(str(name) for name in names)
    if named is not None and len(set(named)) != values.shape[1]:
        raise ValueError(f"names must be {values.shape[1]} different ones, one per column, got {list(named)}")
    span = np.ptp(values, axis=0)
    return values, DataRange(values.min(axis=0), np.where(span > 0.0, span, 1.0), named, values.std(axis=0))


def _columns(data: Any, within: Box) -> dict[str, list[Any]]:
    """Return the column of each parameter of the box, in its order."""
    names = list(within.parameters)
    if isinstance(data, Mapping) or hasattr(data, "columns"):
        missing = [name for name in names if name not in data]
        if missing:
            raise ValueError(f"data lacks {', '.join(missing)}; its columns are {', '.join(map(str, data))}")
        columns = {name: np.atleast_1d(np.asarray(data[name], dtype=object)).tolist() for name in names}
    else:
        if np.ma.isMaskedArray(data):
            raise TypeError("data must be an array of values, got a masked array")
        table = np.asarray(data, dtype=object)
        if table.ndim == 1 and len(names) == 1:
            table = table[:, None]
        if table.size == 0:
            table = table.reshape(0, len(names))
        if table.ndim != 2 or table.shape[1] != len(names):
            raise ValueError(f"data must have a column for each of {', '.join(names)}, got shape {table.shape}")
        columns = dict(zip(names, table.T.tolist(), strict=True))
    _check_lengths(columns)
    # numpy's own numbers and truth values as Python's, which can be saved
    return {
        name: [value.item() if isinstance(value, np.generic) else value for value in column]
        for name, column in columns.items()
    }


def _check_lengths(columns: Mapping[str, Sequence[Any] | NDArray[Any]]) -> None:
    if len({len(column) for column in columns.values()}) > 1:
        raise ValueError(f"data must have columns of equal length, got {[len(c) for c in columns.values()]}")


def _encoded(rows: Sequence[Mapping[str, Any]], within: Box) -> FloatArray:
    """Return the coordinates (n, d) of all rows; an error names the first that is none, and counts the others."""
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
