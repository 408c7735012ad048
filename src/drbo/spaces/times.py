"""Times of rows, in seconds since 1970 (UTC), and durations such as "365D"."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from drbo import validation

DAY = 86_400.0
YEAR = 365.25 * DAY
_UNITS = {"s": 1.0, "min": 60.0, "h": 3_600.0, "D": DAY, "W": 7.0 * DAY, "Y": YEAR}


def read_times(name: str, column: Any, of: str = "") -> list[float]:
    """Return times in seconds since 1970 (UTC); errors call them `name`, and a row "row 3" `of` a column.

    A time is a date with or without a zone (then UTC), its ISO text such as "2024-07-01 12:00", or seconds.
    """
    if isinstance(column, str | bytes) or not isinstance(column, Iterable) or _dimensions(column) != 1:
        raise TypeError(f"{name} must be a sequence of times, one per row, got {column!r}")
    for row, value in enumerate(column):
        if validation.missing(value):
            raise ValueError(f"{name} must not be missing, but row {row}{of} is")
    values = np.asarray(column)
    if values.dtype.kind == "M":
        return [float(t) for t in values.astype("datetime64[ns]").astype(np.int64) / 1e9]
    return [_time(f"{name}, row {row}{of},", value) for row, value in enumerate(column)]


def _dimensions(column: Any) -> int:
    """Return the number of dimensions of a column; 0 if its parts differ in length."""
    try:
        return np.ndim(column)
    except ValueError:
        return 0


def read_time(name: str, value: Any) -> float:
    """Return one time in seconds since 1970 (UTC)."""
    return read_times(name, np.atleast_1d(value) if isinstance(value, np.datetime64) else [value])[0]


def _time(name: str, value: Any) -> float:
    if isinstance(value, str):
        try:
            value = datetime.datetime.fromisoformat(value.strip())
        except ValueError:
            raise ValueError(f"{name} must be a date in ISO form such as '2024-07-01 12:00', got {value!r}") from None
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        value = datetime.datetime(value.year, value.month, value.day)
    if isinstance(value, datetime.datetime):
        zoned = value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
        return float(zoned.timestamp())
    if hasattr(value, "timestamp"):  # pandas.Period has `to_timestamp`, a Timestamp is a datetime
        return float(value.timestamp())
    return validation.finite_float(name, value)


def read_duration(name: str, value: Any) -> float:
    """Return a duration in seconds, of text such as "365D", "6W" or "12h", or of a timedelta."""
    if hasattr(value, "total_seconds"):
        return validation.positive_float(name, value.total_seconds())
    if isinstance(value, np.timedelta64):
        return validation.positive_float(name, float(value / np.timedelta64(1, "s")))
    found = re.fullmatch(r"\s*([0-9.]+)\s*([a-zA-Z]+)\s*", value) if isinstance(value, str) else None
    if found is None or found[2] not in _UNITS:
        units = ", ".join(_UNITS)
        raise ValueError(f"{name} must be a duration such as '365D' (units {units}) or a timedelta, got {value!r}")
    try:
        number = float(found[1])
    except ValueError:
        number = math.nan
    if not 0.0 < number < math.inf:
        raise ValueError(f"{name} must be a positive duration such as '365D', got {value!r}")
    return number * _UNITS[found[2]]


def covered(years: float) -> str:
    """Return a sentence about the part of a year that a past covers."""
    if years < 0.995:
        return f"The past covers {years:.1g} of a year: no rule can know next summer."
    return f"The past covers {years:.1f} years."
