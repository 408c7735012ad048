"""Detection of column types in a table of past conditions: numbers or labels.

Truth values are the labels False and True. Text, tuples and members of an Enum are labels, in the order in which they
first appear. The categories of a pandas column are its labels, ordered if the column is.

Dates and times are refused, because only the user knows which part of them matters. Numbers mixed with text are
refused, also if the numbers are written as text: '3' beside '<1'.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import math
import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np

from drbo import validation
from drbo.spaces.choices import Categorical, Labelled, Ordinal
from drbo.spaces.parameters import Observed, Parameter

_DATES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)


def read(name: str, values: Any, labels: Labelled | None) -> tuple[list[Any], Parameter]:
    """Return the values of a column and their parameter: `Observed` for numbers.

    `labels` is the parameter that the user declared for the column, if any.
    """
    if labels is None and hasattr(getattr(values, "dtype", None), "categories"):
        kind = Ordinal if values.dtype.ordered else Categorical
        labels = kind.from_arguments((*values.dtype.categories.tolist(),))
    single = isinstance(values, str) or not isinstance(values, Iterable) or getattr(values, "ndim", 1) == 0
    raw = [values] if single else list(values)
    items = [item.item() if isinstance(item, np.number | np.bool_ | np.str_) else item for item in raw]
    _check_present(name, items)
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
