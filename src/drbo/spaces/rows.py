"""Actions and contexts as named columns of plain values, whatever kind of space they come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from drbo._text import printable

Row = dict[str, Any]


def row(value: Any, kind: str) -> Row:
    """Return an action or a context as a mapping from names to plain values; `kind` names what has no name.

    A context that was never revealed, None, has no values.
    """
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, np.ndarray):
        items = np.atleast_1d(value).tolist()
        return {kind if len(items) == 1 else f"{kind} {i + 1}": item for i, item in enumerate(items)}
    return {kind: plain(value)}


def plain(item: Any) -> Any:
    """Return a value as JSON can hold it: a number, a truth value or a text."""
    if isinstance(item, np.generic):
        item = item.item()
    return item if item is None or isinstance(item, bool | int | float | str) else str(item)


def is_number(values: Sequence[Any]) -> bool:
    """Return whether all values are numbers, truth values apart."""
    return all(isinstance(value, int | float | np.number) and not isinstance(value, bool) for value in values)


def text(item: Any) -> str:
    """Return a plain value in words."""
    return f"{item:.4g}" if isinstance(item, float) else str(item)


def words(columns: Row) -> str:
    """Return columns in words that a terminal can show."""
    return ", ".join(f"{printable(name)} = {printable(text(item))}" for name, item in columns.items())
