"""Checks of public arguments: every error names the argument, the wrong value and the expected one."""

from __future__ import annotations

import enum
import math
import operator
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]

EXACT = 1e-8
"""Weights are used unchanged if their sum differs from 1 by at most this."""
ROUNDED = 1e-3
"""Weights are normalised, as rounded shares, if their sum differs from 1 by at most this."""


_PLAIN = (str, int, float, bool, type(None))
"""Types of labels that survive a round trip through a file."""


def finite_array(name: str, value: ArrayLike, ndim: int | None = None) -> FloatArray:
    """Return `value` as a contiguous float array with finite entries, of `ndim` dimensions if given.

    The result may be the caller's own array: `frozen` makes a copy to keep.
    """
    array = _array(name, value, ndim)
    flat = array.ravel()
    # argmin and argmax both find a NaN. Two look-ups take half the time of checking all entries.
    if flat.size and not (math.isfinite(flat[flat.argmin()]) and math.isfinite(flat[flat.argmax()])):
        bad = np.argwhere(~np.isfinite(np.atleast_1d(array)))[0].tolist()
        raise ValueError(f"{name} must be finite, got {np.atleast_1d(array)[tuple(bad)]} at index {bad}")
    return array


def _array(name: str, value: ArrayLike, ndim: int | None) -> FloatArray:
    """Return `value` as a contiguous float array, of `ndim` dimensions if given."""
    try:
        raw = np.asarray(value)
        if raw.dtype.kind not in "iufbO" or np.ma.isMaskedArray(value):
            raise TypeError(f"entries of type {raw.dtype}" if raw.dtype.kind not in "iufbO" else "a masked array")
        array = np.asarray(raw, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"{name} must be an array of numbers, got {type(value).__name__}: {error}") from None
    if ndim is not None and array.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} dimension(s), got shape {array.shape}")
    return array


def frozen(array: FloatArray) -> FloatArray:
    """Return a read-only copy, which the caller cannot change."""
    copy = array.copy()
    copy.setflags(write=False)
    return copy


def finite_float(name: str, value: Any) -> float:
    """Return `value` as a finite float."""
    number = _number(name, value)
    if not math.isfinite(number):
        raise ValueError(f"{name} must be finite, got {number}")
    return number


def finite_entries(name: str, columns: Sequence[Any], values: Sequence[Any]) -> list[float]:
    """Return one value per column as finite floats; True is 1. An error names the column."""
    given = [float(one) if isinstance(one, (bool, np.bool_)) else one for one in values]
    return [finite_float(f"{name}[{column!r}]", one) for column, one in zip(columns, given, strict=True)]


def positive_float(name: str, value: Any) -> float:
    """Return `value` as a finite float above zero."""
    number = finite_float(name, value)
    if number <= 0.0:
        raise ValueError(f"{name} must be positive, got {number}")
    return number


def whole_number(name: str, value: Any, least: int | None = None, most: int | None = None) -> int:
    """Return `value` as an int, at least `least` and at most `most`; fractions and truth values are refused."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, got {value!r}") from None
    if least is not None and number < least:
        raise ValueError(f"{name} must be at least {least}, got {number}")
    if most is not None and number > most:
        raise ValueError(f"{name} must be at most {most}, got {number if number < 10**20 else 'far more'}")
    return number


def one_of(name: str, value: Any, *choices: str) -> None:
    """Raise unless `value` is one of the choices."""
    if not (isinstance(value, str) and value in choices):
        *first, last = (f'"{choice}"' for choice in choices)
        raise ValueError(f"{name} must be {', '.join(first)} or {last}, got {value!r}")


def flag(name: str, value: Any) -> bool:
    """Return `value` as True or False; other types are refused."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def label(name: str, value: Any) -> Any:
    """Return a label that can be saved, compared and hashed; numpy scalars become Python values."""
    plain = value.item() if isinstance(value, np.generic) else value
    if missing(plain) and plain is not None:
        raise ValueError(f"{name} must not be missing, got {value!r}")
    if type(plain) is tuple:
        return tuple(label(name, item) for item in plain)
    member = isinstance(plain, enum.Enum) and plain.name in type(plain).__members__
    record = getattr(getattr(type(plain), "__dataclass_params__", None), "frozen", False)
    if not (member or record or type(plain) in _PLAIN):
        raise TypeError(
            f"{name} must be labels that can be saved: text, numbers, True or False, tuples of these, members of an "
            f"Enum or frozen dataclasses; got {value!r}; text works instead, such as {str(value)!r}"
        )
    return plain


def missing(value: Any) -> bool:
    """Return whether a table value is missing: None, NaN or a pandas equivalent."""
    if value is None:
        return True
    try:
        return bool(value != value)  # only NaN and NaT differ from themselves
    except (TypeError, ValueError):  # pandas.NA has no truth value; an array has several
        return type(value).__name__ == "NAType"


def by_name(value: Any) -> Any:
    """Return a table row (a pandas Series) as a mapping from its labels; other values are unchanged."""
    return value.to_dict() if hasattr(value, "to_dict") and hasattr(value, "index") else value


def probability(name: str, value: Any) -> float:
    """Return `value` as a float strictly between zero and one."""
    number = finite_float(name, value)
    if not 0.0 < number < 1.0:
        raise ValueError(f"{name} must lie strictly between 0 and 1, got {number}")
    return number


def radius(value: Any, name: str = "radius") -> float:
    """Return a radius as a float: zero or more, infinity allowed."""
    number = _number(name, value)
    if math.isnan(number) or number < 0.0:
        raise ValueError(f"{name} must be zero or more (inf allowed), got {number}")
    return number


def radii(value: Any, name: str = "radii") -> FloatArray:
    """Return `value` as radii (k,), at least one."""
    try:
        flat = np.atleast_1d(np.asarray(value))
    except ValueError:  # rows of different lengths
        flat = np.empty((0, 0))
    if flat.ndim != 1 or not flat.size:
        raise ValueError(f"{name} must be a flat sequence of at least one radius, got {value!r}")
    return np.array([radius(one, name) for one in flat.tolist()])


def indices(name: str, value: Any, of: str = "context indices") -> NDArray[np.intp]:
    """Return `value` as a flat sequence of integers (t,)."""
    try:
        given = np.asarray(value)
    except ValueError:  # rows of different lengths
        given = np.empty((0, 0))
    if given.ndim != 1 or not np.issubdtype(given.dtype, np.integer):
        raise ValueError(f"{name} must be a flat sequence of {of}, got {value!r}")
    return given.astype(np.intp)


def of_kind(name: str, value: Any, kind: type | tuple[type, ...], such_as: str) -> None:
    """Raise unless `value` has the type `kind`, which the error describes as `such_as`."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be {such_as}, got {value!r}")


def path(name: str, value: Any) -> Path:
    """Return `value` as a file path."""
    of_kind(name, value, (str, os.PathLike), "the path of a file")
    if "\0" in os.fspath(value):
        raise ValueError(f"{name} must not contain the character \\0, got {value!r}")
    return Path(value)


def distribution(name: str, weights: ArrayLike, size: int | None = None) -> FloatArray:
    """Return `weights` (n,) as a probability vector; counts and rounded shares are divided by their sum."""
    array = _array(name, weights, ndim=1)
    if array.size == 0 or (size is not None and array.size != size):
        expected = "at least one weight" if size is None else f"{size} weights, one per context"
        raise ValueError(f"{name} must hold {expected}, got {array.size}")
    total = float(array.sum()) if array[array.argmin()] >= 0.0 else math.nan
    if abs(total - 1.0) <= EXACT:  # a finite sum implies finite weights
        return array
    smallest = int(np.argmin(finite_array(name, array)))
    if array[smallest] < 0.0:
        raise ValueError(f"{name} must not be negative, got {array[smallest]} at index {smallest}")
    counts = bool((array == np.floor(array)).all())
    if not 0.0 < total < math.inf or not (counts or abs(total - 1.0) <= ROUNDED):
        raise ValueError(f"{name} must sum to 1 (within {ROUNDED}), or be counts, got the sum {total!r}")
    return array / total


def points(name: str, value: ArrayLike) -> FloatArray:
    """Return `value` as points (n, d); a flat sequence of n numbers is n points on a line."""
    array = finite_array(name, value)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[0] == 0 or array.shape[1] == 0:
        raise ValueError(f"{name} must be points of shape (n, d) with n, d >= 1, got shape {np.shape(value)}")
    return array


def _number(name: str, value: Any) -> float:
    try:
        raw = np.asarray(value)
        if raw.ndim != 0 or raw.dtype.kind not in "iufO":
            raise TypeError
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{name} must be a number, got {value!r}") from None
