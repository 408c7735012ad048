"""Many values of the user at once: frames, arrays and lists, as rows of coordinates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drbo.ambiguity.contexts import Contexts
from drbo.optimizer.suggestion import Result
from drbo.spaces.samples import Samples
from drbo.spaces.space import Point, Space
from drbo.validation import FloatArray


@dataclass(frozen=True, eq=False)
class Rows:
    """One value or many, as the model sees them.

    Attributes
    ----------
    name : what the values are called in errors
    coordinates : (m, d), one row if there is one value
    single : whether it was one value, which fits any number of others
    index : that of the frame that the values came from; None if it was none
    """

    name: str
    coordinates: FloatArray
    single: bool
    index: Any = None


def rows(name: str, value: Any, space: Space, encode: Callable[[str, Any], Point]) -> Rows:
    """Return the coordinates of one value or many; `encode` turns one value of the space into a point."""
    many: Sequence[Any] | None = space.many(name, value)
    if many is None:
        return Rows(name, encode(name, value).coordinates[None, :], True)
    points = [encode(f"{name}[{i}]", one).coordinates for i, one in enumerate(many)]
    index = value.index if hasattr(value, "columns") else None
    return Rows(name, np.array(points).reshape(-1, space.dimension), False, index)


def paired(first: Rows, second: Rows) -> tuple[FloatArray, FloatArray]:
    """Return the coordinates of both, row by row: one value is paired with every row of the other."""
    if not (first.single or second.single) and len(first.coordinates) != len(second.coordinates):
        raise ValueError(
            f"{first.name} and {second.name} must have as many rows as each other, or one of them be one value, got "
            f"{len(first.coordinates)} and {len(second.coordinates)} rows"
        )
    if first.index is not None and second.index is not None and not first.index.equals(second.index):
        raise ValueError(f"{first.name} and {second.name} must have the same index, row by row")
    m = len(second.coordinates) if first.single else len(first.coordinates)
    a, b = (np.broadcast_to(r.coordinates, (m, r.coordinates.shape[1])) for r in (first, second))
    return a, b


def in_order(name: str, value: Any, nature: Contexts) -> list[Point]:
    """Return the contexts of a sequence, of a table or of `Samples`, in their order; an error calls it `name`."""
    if isinstance(value, Samples):
        many: Sequence[Any] | None = [value.space.decode(Point(row)) for row in value.points]
    elif isinstance(value, Mapping) and all(np.iterable(one) and not isinstance(one, str) for one in value.values()):
        many = [dict(zip(value, row, strict=True)) for row in zip(*value.values(), strict=True)]
    else:
        many = nature.space.many(name, value)
    if many is None and (isinstance(value, str | Mapping) or not np.iterable(value)):
        raise TypeError(f"{name} must be a sequence of contexts, got {value!r}")
    return [nature.encode(f"{name}[{i}]", one) for i, one in enumerate(value if many is None else many)]


_COLUMNS = ("result", "number", "outcome", "stderr", "failed", "time")
"""The columns of every table of results; a parameter of the same name gets "action." or "context." before it."""


def result_row(result: Result, pandas: Any) -> dict[str, Any]:
    """Return a result as a row of a table: one column per parameter and condition."""
    row: dict[str, Any] = {"result": result.id, "number": result.number}
    both = {
        kind: value if isinstance(value, dict) else {kind: _cell(value)}
        for kind, value in (("action", result.action), ("context", result.context))
        if value is not None  # a context that was never revealed
    }
    taken = [*_COLUMNS, *(name for columns in both.values() for name in columns)]
    for kind, columns in both.items():
        row |= {f"{kind}.{name}" if taken.count(name) > 1 else name: value for name, value in columns.items()}
    row.update(outcome=result.outcome, stderr=result.stderr, failed=result.failed)
    row["time"] = pandas.NaT if result.time is None else pandas.Timestamp(result.time, unit="s", tz="UTC")
    return row


def _cell(value: Any) -> Any:
    """Return a point of a finite set as the cell of a table: a number if it is one, a label as it is."""
    return np.squeeze(value).tolist() if isinstance(value, np.ndarray) else value
