"""A part of the outcome that is known: outcome = known(action, context) + f(action, context).

The model learns f alone, from outcomes without the known part. Predictions and bounds add the known part again
(`drbo.models.with_known`), so a worst case is that of the sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drbo import validation
from drbo._messages import listed, printable
from drbo.spaces.space import Column, Space
from drbo.validation import FloatArray

__all__ = ["Known"]

_STEP = 1e-5
"""Step of finite differences, as a share of a parameter's range."""
_ROWS = 20_000
"""Largest number of actions whose values are kept."""
_PLACES = 4
"""Largest number of arrays of contexts whose values are kept."""


@dataclass(frozen=True)
class Known:
    """The known part of an outcome: `Optimizer(..., known=wages)`, or `known=Known(wages, lipschitz=2.0)`.

    Parameters
    ----------
    function : returns the known part of an action in a context, in the units of the outcomes. Both come in the user's
        form. With `vectorised` both are tables of m rows, a mapping from names to arrays (m,) or an array (m, d), and
        it returns an array (m,)
    lipschitz : the largest change of the known part per unit of a context's column, for all columns or by name.
        Contexts with a range need it: nothing else bounds a function between points. A unit of a `Log` column is a
        factor e; for labels it is the largest change between two
    gradient : returns the derivatives of the known part by the parameters of the action, as a mapping from their names,
        in the form of `function`. Finite differences by default
    vectorised : whether the functions take many pairs at once
    """

    function: Callable[[Any, Any], Any]
    lipschitz: float | Mapping[str, float] | None = None
    gradient: Callable[[Any, Any], Mapping[str, Any]] | None = None
    vectorised: bool = False

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(f"function must be a function of an action and a context, got {self.function!r}")
        if self.gradient is not None and not callable(self.gradient):
            raise TypeError(f"gradient must be a function of an action and a context, got {self.gradient!r}")
        validation.flag("vectorised", self.vectorised)
        if isinstance(self.lipschitz, Mapping):
            steep = {name: _steepness(f"lipschitz[{name!r}]", one) for name, one in self.lipschitz.items()}
            object.__setattr__(self, "lipschitz", steep)
        elif self.lipschitz is not None:
            object.__setattr__(self, "lipschitz", _steepness("lipschitz", self.lipschitz))


def _steepness(name: str, value: Any) -> float:
    number = validation.finite_float(name, value)
    if number < 0.0:
        raise ValueError(f"{name} must be zero or more, got {number}")
    return number


def as_known(known: Any) -> Known:
    """Return a known part; a plain function becomes one."""
    if isinstance(known, Known):
        return known
    if callable(known) and not isinstance(known, type):
        return Known(known)
    raise TypeError(f"known must be a function of an action and a context, or a drbo.Known, got {known!r}")


class KnownPart:
    """A known part of the outcome, `given` by the user, on the spaces of actions and contexts, in user units."""

    def __init__(self, given: Known, actions: Space, contexts: Space) -> None:
        self.given, self.actions, self.contexts = given, actions, contexts
        self._on: dict[bytes, KnownOn] = {}  # cache

    def on(self, contexts: FloatArray) -> KnownOn:
        """Return the known part in contexts (n, d_c)."""
        key = contexts.tobytes()
        made = self._on.pop(key, None) or KnownOn(self, contexts)
        while len(self._on) >= _PLACES:
            self._on.pop(next(iter(self._on)))
        self._on[key] = made
        return made

    def pairs(self, actions: FloatArray, contexts: FloatArray) -> FloatArray:
        """Return the known part (m,) of actions (m, d_x), each in its context (m, d_c)."""
        return self._called(
            _UserRows.of(self.actions.decode_all(actions)), _UserRows.of(self.contexts.decode_all(contexts))
        )

    def values(self, actions: FloatArray, contexts: Sequence[Any]) -> FloatArray:
        """Return the known part (m, n) of actions (m, d_x) in contexts (n,) of the user."""
        m, n = len(actions), len(contexts)
        rows, columns = np.repeat(np.arange(m), n), np.tile(np.arange(n), m)
        found = self._called(_UserRows(self.actions.decode_all(actions), rows), _UserRows(contexts, columns))
        return found.reshape(m, n)

    def gradient(self, action: FloatArray, contexts: Sequence[Any]) -> FloatArray:
        """Return the gradient (n, d_x) in the coordinates of one action (d_x,), in contexts (n,) of the user."""
        if self.given.gradient is not None:
            return self._given_gradient(action, contexts)
        free = np.flatnonzero(getattr(self.actions, "continuous", np.ones(len(action), dtype=bool)))
        steps = _STEP * np.eye(len(action))[free]
        ahead, back = np.minimum(action + steps, 1.0), np.maximum(action - steps, 0.0)  # a box is a unit cube
        both = self.values(np.concatenate([ahead, back]), contexts)
        found = np.zeros((len(contexts), len(action)))
        found[:, free] = ((both[: len(free)] - both[len(free) :]) / (ahead - back).sum(axis=1)[:, None]).T
        return found

    def _given_gradient(self, action: FloatArray, contexts: Sequence[Any]) -> FloatArray:
        decoded = self.actions.decode_all(action[None])[0]
        found = np.zeros((len(contexts), len(action)))
        names = {column.name: column for column in self.actions.columns if column.labels is None}
        assert self.given.gradient is not None
        if self.given.vectorised:
            tables = _UserRows.of([decoded] * len(contexts)).table, _UserRows.of(contexts).table
            rows = [self._tried(self.given.gradient, *tables, "known.gradient")]
        else:
            rows = [self._tried(self.given.gradient, decoded, context, "known.gradient") for context in contexts]
        for i, row in enumerate(rows):
            if not isinstance(row, Mapping) or not row.keys() <= names.keys():
                raise TypeError(
                    f"known.gradient must map names of {listed(map(str, names))} to derivatives, got {row!r}"
                )
            for name, slope in row.items():
                column = names[name]
                unit = self.actions.units[column.first]
                per_coordinate = unit * decoded[name] if column.logarithmic else unit
                found[slice(None) if self.given.vectorised else i, column.first] = np.asarray(slope) * per_coordinate
        return found

    def steepness(self) -> FloatArray:
        """Return the largest slope of the known part in each coordinate of a context (d_c,), per unit of the user."""
        given, columns = self.given.lipschitz, self.contexts.columns
        if given is None:
            raise TypeError(
                "known needs lipschitz where contexts have a range, known=drbo.Known(function, lipschitz=...): nothing "
                "else bounds it between points. Give Samples without within=, or a finite set of contexts"
            )
        found = np.zeros(self.contexts.dimension)
        for column in columns:
            found[column.first : column.first + column.width] = self._slope_of(column, columns)
        return found

    def _slope_of(self, column: Column, columns: Sequence[Column]) -> float:
        given = self.given.lipschitz
        if not isinstance(given, Mapping):
            assert given is not None
            return given
        if column.name is None or column.name not in given or given.keys() - {one.name for one in columns}:
            raise ValueError(
                f"lipschitz must name the columns of the contexts, {listed(map(str, columns))}, got {listed(given)}"
            )
        return float(given[column.name])

    def _called(self, actions: _UserRows, contexts: _UserRows) -> FloatArray:
        """Return the known part (m,) of pairs of the user's values."""
        count = len(actions.rows)
        if not count:
            return np.empty(0)
        if self.given.vectorised:
            found = np.asarray(self._tried(self.given.function, actions.table, contexts.table, "known"))
            if found.shape != (count,):
                raise TypeError(f"known must return one number per row, ({count},), got shape {found.shape}")
            values = found.tolist()
        else:
            values = [self._tried(self.given.function, actions[i], contexts[i], "known") for i in range(count)]
        for i, value in enumerate(values):
            if not _is_finite(value):
                where = printable(f"{actions[i]!r} and {contexts[i]!r}")
                raise ValueError(f"known must return a finite number, got {value!r} for {where}")
        return np.array(values, dtype=np.float64)

    @staticmethod
    def _tried(function: Callable[[Any, Any], Any], action: Any, context: Any, name: str) -> Any:
        try:
            return function(action, context)
        except Exception as error:
            text = f"{name} raised {type(error).__name__}: {error} for {action!r} and {context!r}"
            raise ValueError(printable(text)) from error


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value) and not isinstance(value, bool)
    except TypeError:
        return False


@dataclass(frozen=True, eq=False)
class _UserRows:
    """Values of the user, of which some are repeated: `rows` (m,) are their positions."""

    values: Sequence[Any]
    rows: NDArray[np.intp]

    @classmethod
    def of(cls, values: Sequence[Any]) -> _UserRows:
        """Return the values as they are."""
        return cls(values, np.arange(len(values)))

    def __getitem__(self, i: int) -> Any:
        """Return one value."""
        return self.values[int(self.rows[i])]

    @property
    def table(self) -> Any:
        """The values as a table: a mapping from names to columns (m,), or an array of m rows."""
        if isinstance(self.values[0], Mapping):
            return {name: np.array([value[name] for value in self.values])[self.rows] for name in self.values[0]}
        return np.array(self.values)[self.rows]


class KnownOn:
    """The known part in contexts (n, d_c), in the user's units; with `weights` (n, k) its averages."""

    def __init__(self, part: KnownPart, contexts: FloatArray, weights: FloatArray | None = None) -> None:
        self.part, self.weights = part, weights
        self._contexts = list(part.contexts.decode_all(contexts))
        self._rows: dict[bytes, FloatArray] = {}  # cache, by action

    def at(self, actions: FloatArray) -> FloatArray:
        """Return the values (m, n) of actions (m, d_x); (m, k) for averages."""
        keys = [action.tobytes() for action in np.ascontiguousarray(actions)]
        new = [i for i, key in enumerate(keys) if key not in self._rows]
        if len(self._rows) + len(new) > _ROWS:
            self._rows, new = {}, list(range(len(keys)))
        if new:
            found = self.part.values(actions[new], self._contexts)
            self._rows.update(zip((keys[i] for i in new), found, strict=True))
        values = np.array([self._rows[key] for key in keys]).reshape(len(keys), len(self._contexts))
        return values if self.weights is None else np.asarray(values @ self.weights)

    def gradient(self, action: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the gradient (d_x,) of the values of one action, averaged with weights (n,), or (k,) for averages."""
        mixed = weights if self.weights is None else self.weights @ weights
        used = np.flatnonzero(mixed)
        return np.asarray(mixed[used] @ self.part.gradient(action, [self._contexts[i] for i in used]))

    def averaged(self, weights: FloatArray) -> KnownOn:
        """Return the average over contexts with weights (n,)."""
        made = KnownOn.__new__(KnownOn)
        made.part, made.weights, made._contexts, made._rows = self.part, weights[:, None], self._contexts, self._rows
        return made
