"""Actions and contexts as named columns of plain values, whatever kind of space they come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from drbo.spaces import Box, Categorical, FiniteSet, Integer, Log, Ordinal, Parameter, Samples

Row = dict[str, Any]
_STEPS = 25
"""How many values of a number are tried along an axis."""


def row(value: Any, kind: str) -> Row:
    """Return an action or a context as a mapping from names to plain values; `kind` names what has no name."""
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
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def text(item: Any) -> str:
    """Return a plain value in words."""
    return f"{item:.4g}" if isinstance(item, float) else str(item)


def words(columns: Row) -> str:
    """Return columns in words."""
    return ", ".join(f"{name} = {text(item)}" for name, item in columns.items())


def axis(parameter: Parameter) -> list[Any]:
    """Return values of a parameter from its least to its largest."""
    if isinstance(parameter, Log):
        return list(np.geomspace(parameter.low, parameter.high, _STEPS).tolist())
    if isinstance(parameter, Integer):
        return sorted({round(value) for value in np.linspace(parameter.low, parameter.high, _STEPS)})
    if isinstance(parameter, Categorical | Ordinal):
        return list(parameter.choices)
    low, high = (parameter.decode(np.array([end])) for end in (0.0, 1.0))
    return list(np.linspace(low, high, _STEPS).tolist())


def box_of(space: Any) -> Box | None:
    """Return the box that values are from, None if there is none."""
    if isinstance(space, Box):
        return space
    return space.within if isinstance(space, Samples) else None


def members(space: Any, recommended: Any, most: int) -> list[Any] | None:
    """Return the points of a finite set, some of them if there are more than `most`; None if it is no finite set."""
    if not isinstance(space, FiniteSet):
        return None
    every: list[Any] = list(space.decode_all(space.coordinates))
    if len(every) > most:
        every = [every[i] for i in np.unique(np.linspace(0, len(every) - 1, most).astype(int))]
        every.append(recommended)
    return every
