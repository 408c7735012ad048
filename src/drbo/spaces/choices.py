"""Parameters with labels as values, Categorical (unordered) and Ordinal (ordered), and how a column of a table is read.

A column holds numbers or labels. Truth values are the labels False and True. Text, tuples and members of an Enum are
labels, in the order in which they first appear. The categories of a pandas column are its labels, ordered if the column
is.

Dates and times are refused, because only the user knows which part of them matters. Numbers mixed with text are
refused, also if the numbers are written as text: '3' beside '<1'.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import enum
import math
import numbers
from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from drbo import validation
from drbo.spaces.parameters import MOST_COORDINATES, Observed, ObservedWhole, Parameter
from drbo.spaces.space import Column
from drbo.validation import FloatArray

__all__ = ["Categorical", "Ordinal"]


class Labelled(Parameter):
    """One of several labels, passed as separate arguments.

    A label is text, a number, True or False, None, a tuple of these, a member of an Enum, or a frozen dataclass. Such
    values can be saved and compared with later ones.
    """

    origin = 0.0
    """The position of the first ordered label. Unordered labels have distances but no positions."""

    def __init__(self, *choices: Any) -> None:
        if len(choices) == 1 and isinstance(choices[0], list | tuple | set):
            kind = type(self).__name__
            raise TypeError(f"choices must be given one by one, {kind}('a', 'b'), got {choices[0]!r}")
        self._take(choices)

    def _take(self, choices: tuple[Any, ...]) -> None:
        """Store the choices, after checking that they are distinct labels."""
        self.choices = tuple(validation.label("choices", choice) for choice in choices)
        self._positions = {choice: i for i, choice in enumerate(self.choices)}
        if not choices or len(self._positions) != len(choices):
            raise ValueError(f"choices must be different from one another, and at least one, got {choices!r}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.choices))})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Labelled) and type(self) is type(other) and self.choices == other.choices

    def __hash__(self) -> int:
        return hash((type(self), self.choices))

    def arguments(self) -> dict[str, Any]:
        """Return the constructor arguments, for `from_arguments`."""
        return {"choices": self.choices}

    @classmethod
    def from_arguments(cls, choices: tuple[Any, ...]) -> Self:
        """Return the parameter with these choices; a single choice may be a tuple."""
        made = cls.__new__(cls)
        made._take(choices)
        return made

    @property
    def count(self) -> int:
        return len(self.choices)

    def index(self, name: str, value: Any) -> int:
        """Return the position of a value among the choices."""
        with contextlib.suppress(KeyError, TypeError):  # TypeError: unhashable values, such as an array
            return self._positions[value]
        raise ValueError(f"{name} must be one of {', '.join(map(repr, self.choices))}, got {value!r}")

    def encode(self, name: str, value: Any) -> list[float]:
        coordinates: list[float] = self.levels(np.array([self.index(name, value)]))[0].tolist()
        return coordinates

    def column(self, name: str | None, first: int) -> Column:
        levels = self.origin + self.unit * self.levels(np.arange(self.count))
        return Column(name, first, self.width, labels=self.choices, levels=levels)


class Categorical(Labelled):
    """One of several unordered choices; all pairs are equally far apart."""

    unit = math.sqrt(0.5)
    """The factor that scales the distance of two choices, sqrt(2) in the unit cube, to 1."""
    extent = 1.0
    """The distance between two different choices."""

    def _take(self, choices: tuple[Any, ...]) -> None:
        if len(choices) > MOST_COORDINATES:
            raise ValueError(
                f"choices of a Categorical must be at most {MOST_COORDINATES:,}, as each is a coordinate of its own, "
                f"got {len(choices):,}: group them, or use an Ordinal where they have an order"
            )
        super()._take(choices)
        self.width = len(choices)

    def decode(self, coordinates: FloatArray) -> Any:
        return self.choices[int(np.argmax(coordinates))]

    @property
    def ends(self) -> FloatArray:
        return self.levels(np.arange(self.count))

    def levels(self, indices: NDArray[np.intp]) -> FloatArray:
        return np.eye(self.count)[indices]


class Ordinal(Labelled):
    """One of several ordered choices, neighbours one step apart: `Ordinal("young", "middle", "old")`."""

    @property
    def unit(self) -> float:
        return float(max(self.count - 1, 1))

    def decode(self, coordinates: FloatArray) -> Any:
        return self.choices[min(max(round(float(coordinates[0]) * self.unit), 0), self.count - 1)]

    def levels(self, indices: NDArray[np.intp]) -> FloatArray:
        """Return i / (count - 1), (n, 1): evenly spaced from 0 to 1."""
        return np.asarray(indices[:, None] / self.unit)


_DATES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)


def read_column(name: str, values: Any, labels: Labelled | ObservedWhole | None) -> tuple[list[Any], Parameter]:
    """Return the values of a column and their parameter: `Observed` for numbers, or `labels` if declared."""
    labels = categories_of(values) if labels is None else labels
    single = isinstance(values, str) or not isinstance(values, Iterable) or getattr(values, "ndim", 1) == 0
    raw = [values] if single else list(values)
    items = [item.item() if isinstance(item, np.number | np.bool_ | np.str_) else item for item in raw]
    _check_present(name, items)
    if isinstance(labels, ObservedWhole):
        return [labels.decode(np.array(labels.encode(f"data[{i}][{name!r}]", x))) for i, x in enumerate(items)], labels
    if labels is None:
        if any(isinstance(item, _DATES) or type(item).__name__ == "Period" for item in items):
            raise TypeError(
                f"data must be numbers or labels, but column {name!r} holds dates or times: convert it to "
                "numbers such as the day of the year, or to labels such as the weekday"
            )
        if all(_is_number(item) for item in items):
            return _numbers(name, items)
        _check_one_kind(name, items)
        truth = all(isinstance(item, bool) for item in items)
        found = (False, True) if truth else dict.fromkeys(_label(name, item) for item in items)
        labels = Categorical.from_arguments((*found,))
    return [labels.choices[labels.index(f"data[{i}][{name!r}]", item)] for i, item in enumerate(items)], labels


def categories_of(values: Any) -> Labelled | None:
    """Return the categories of a pandas column as a parameter, ordered if they are; None if it has none."""
    dtype: Any = getattr(values, "dtype", None)
    if not hasattr(dtype, "categories"):
        return None
    return (Ordinal if dtype.ordered else Categorical).from_arguments((*dtype.categories.tolist(),))


def _check_one_kind(name: str, items: list[Any]) -> None:
    """Raise if a column mixes numbers, or text that reads as numbers, with other values."""
    read = [_is_number(item) or (isinstance(item, str) and _reads_as_number(item)) for item in items]
    if any(read) and not (all(read) and all(isinstance(item, str) for item in items)):
        row = 0 if all(read) else read.index(not read[0])
        raise TypeError(
            f"data must have columns of one kind, but column {name!r} holds {items[0]!r} in row 0 and {items[row]!r} "
            f"in row {row}; if all of them are labels, declare them: labels={{{name!r}: drbo.Categorical(...)}}"
        )


def _is_number(item: Any) -> bool:
    return isinstance(item, numbers.Real | decimal.Decimal) and not isinstance(item, bool | enum.Enum)


def _reads_as_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _label(name: str, item: Any) -> Any:
    return validation.label(f"column {name!r} of data", item)


def _numbers(name: str, items: list[Any]) -> tuple[list[float], Observed]:
    """Return a column of numbers and its range; an error names the first row that is not finite."""
    column = [float(item) for item in items]
    for row, number in enumerate(column):
        if not math.isfinite(number):
            raise ValueError(f"data must be finite, got {number} in row {row} of column {name!r}")
    return column, Observed(min(column, default=0.0), max(column, default=0.0))


def _check_present(name: str, items: list[Any]) -> None:
    for row, item in enumerate(items):
        if validation.missing(item):
            raise ValueError(
                f"data must not lack values, but row {row} of column {name!r} does: drop the row, or give it a label "
                "such as 'unknown'"
            )
