"""Times and keys of the rows of samples: when a day was, and what a simulator calls it."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable, Mapping
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


Key = str | int | datetime.date | tuple[Any, ...]


def read_keys(given: Any, count: int) -> tuple[Key, ...]:
    """Return the keys of `count` rows; raise if they are not different from one another, or of another kind."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise TypeError(f"keys must be a sequence with one key per row, or the name of a column, got {given!r}")
    keys = tuple(_key(i, one) for i, one in enumerate(given))
    if len(keys) != count:
        raise ValueError(f"keys must hold one key per row, {count}, got {len(keys)}")
    if not keys:
        raise ValueError("keys must not be given without rows: there is no day to replay")
    rows = {key: i for i, key in enumerate(keys)}
    for i, key in enumerate(keys):
        if rows[key] != i:
            raise ValueError(f"keys must be different from one another, but rows {i} and {rows[key]} have {key!r}")
    return keys


def _key(row: int, value: Any) -> Key:
    """Return one key as a plain value that can be saved; pandas and numpy values become Python's."""
    name = f"keys[{row}]"
    if isinstance(value, tuple):
        return tuple(_key(row, part) for part in value)
    if validation.missing(value):
        raise ValueError(f"{name} must not be missing, got {value!r}")
    if isinstance(value, np.datetime64):
        return _date(name, value)
    if hasattr(value, "to_datetime64") and hasattr(value, "to_pydatetime"):  # a pandas Timestamp
        if value.nanosecond:
            raise ValueError(f"{name} must be a time without nanoseconds, got {value!r}")
        made: datetime.date = value.to_pydatetime()
        return made
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, datetime.date) or (type(plain) in (str, int) and not isinstance(plain, bool)):
        kept: Key = plain
        return kept
    raise TypeError(f"{name} must be text, an integer, a date or a tuple of these, got {value!r}")


def _date(name: str, value: np.datetime64) -> datetime.date:
    """Return a date, or a time in microseconds."""
    if value != value.astype("datetime64[us]"):
        raise ValueError(f"{name} must be a time without nanoseconds, got {value!r}")
    whole = np.datetime_data(value.dtype)[0] in ("Y", "M", "W", "D")
    made: datetime.date = value.astype("datetime64[D]" if whole else "datetime64[us]").item()
    return made
