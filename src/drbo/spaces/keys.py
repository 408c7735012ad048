"""Keys of rows: text, integers, dates, or tuples of them, by which a simulator finds the day to replay."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from drbo import validation

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
