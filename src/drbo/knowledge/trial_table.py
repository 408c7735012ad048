"""A table of past trials: its columns become actions, contexts and outcomes, its rows results."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drbo import validation
from drbo._messages import listed
from drbo.knowledge.history import OBJECTIVE
from drbo.spaces.box import Box
from drbo.spaces.choices import Categorical, read_column
from drbo.spaces.parameters import Integer, Observed, ObservedWhole, Parameter, Real
from drbo.spaces.perturbation import Perturbation
from drbo.spaces.samples import Samples
from drbo.spaces.times import read_times


@dataclass(frozen=True, eq=False)
class TrialRow:
    """One trial.

    Attributes
    ----------
    action, context : of the trial
    outcomes : the value of each measured outcome and its standard error or None, by the name of the outcome in facts;
        none if the trial failed
    time : seconds since 1970, None if unknown
    """

    action: Any
    context: Any
    outcomes: Mapping[str, tuple[float, float | None]]
    time: float | None


@dataclass(frozen=True, eq=False)
class TrialLog:
    """A table of trials: the box of the actions, and contexts and trials ordered by time."""

    actions: Box
    contexts: Samples
    rows: Sequence[TrialRow]


def read(
    frame: Any,
    actions: Any,
    contexts: Any,
    outcome: Any,
    failed: Any,
    stderr: Any,
    time: Any,
    limited: Sequence[str] = (),
) -> TrialLog:
    """Return the log of a table. `actions` and `contexts` are names of columns, or boxes that name them.

    `limited` are the columns of limited outcomes; the column "name.stderr" has standard errors. A trial failed if
    `failed` is true, or if all its outcomes are missing.
    """
    there = _names(frame)
    x, c = _chosen("actions", actions, there), _chosen("contexts", contexts, there)
    columns = {"outcome": outcome, "failed": failed, "stderr": stderr, "time": time}
    trials = _TrialColumns.of(frame, [*x, *c], columns, {name: name for name in limited})
    box, tried = _actions(actions, {name: trials.columns[name] for name in x})
    past, seen = _contexts(contexts, {name: trials.columns[name] for name in c}, trials.order)
    chosen = [{name: tried[name][i] for name in x} for i in trials.order.tolist()]
    return TrialLog(box, past, trials.rows(chosen, seen))


def further(
    frame: Any,
    actions: Sequence[str] | None,
    contexts: Sequence[str] | None,
    limited: Mapping[str, str],
    keyed: bool,
    **columns: Any,
) -> Sequence[TrialRow]:
    """Return further trials of a table, for parameters of these names; None if there are none.

    If contexts are `keyed`, the column "key" names them, if there is one.

    A column has the name of a parameter, or that name after "action." or "context.", as `to_frame` writes duplicate
    names. Values without a name are in the column "action" or "context". `limited` maps limited outcomes to their
    columns, which may be absent. `columns` are the arguments of `read`.
    """
    there = _names(frame)
    keys = list(frame["key"]) if keyed and "key" in there else None
    contexts = [] if keys is not None else contexts
    x, c = (
        {None: _one(role, f"{kind}.{kind}" if f"{kind}.{kind}" in there else kind, there)}
        if names is None
        else {name: _one(role, whole if (whole := f"{kind}.{name}") in there else name, there) for name in names}
        for role, kind, names in (("actions", "action", actions), ("contexts", "context", contexts))
    )
    parameters = [*x.values(), *c.values()]
    present = {name: column for name, column in limited.items() if column in there}
    trials = _TrialColumns.of(frame, parameters, columns, present)
    both = []
    for named in (x, c):
        values = {name: _values(column, trials.columns[column]) for name, column in named.items()}
        both.append(
            [
                values[None][i] if None in values else {name: column[i] for name, column in values.items()}
                for i in trials.order.tolist()
            ]
        )
    return trials.rows(both[0], both[1] if keys is None else [keys[i] for i in trials.order.tolist()])


@dataclass(frozen=True, eq=False)
class _TrialColumns:
    """The columns of a table of trials by name, the order by time, and the outcomes in the order of the table."""

    columns: Mapping[str, Any]
    order: NDArray[np.intp]
    outcomes: Mapping[str, Sequence[float | None]]
    errors: Mapping[str, Sequence[float | None]]
    times: Sequence[float | None]

    @classmethod
    def of(
        cls, frame: Any, parameters: Sequence[str], single: Mapping[str, Any], limited: Mapping[str, str]
    ) -> _TrialColumns:
        """Return the trials of a table; `single` maps each role to its column, or to None."""
        there = _names(frame)
        named = {role: _one(role, name, there) for role, name in single.items() if name is not None}
        for name, column in limited.items():
            named[f"limits {name!r}"] = _one("limits", column, there)
            if f"{column}.stderr" in there:
                named[f"stderr {name!r}"] = f"{column}.stderr"
        taken = [*parameters, *named.values()]
        twice = [name for name in taken if taken.count(name) > 1]
        if twice:
            raise ValueError(f"frame must have a column for each role, but {twice[0]!r} has two")
        columns = {name: frame[name] for name in taken}
        sizes = {len(column) for column in columns.values()}
        if sizes == {0} or len(sizes) > 1:
            raise ValueError(
                f"frame must have at least one row, and columns of equal length, got lengths {sorted(sizes)}"
            )
        n = sizes.pop()
        times: list[float | None] = [None] * n
        order = np.arange(n)
        if "time" in named:
            at = read_times("time", columns[named["time"]], f" of column {named['time']!r}")
            times, order = [*at], np.argsort(at, kind="stable")
        bad = _flags(columns[named["failed"]]) if "failed" in named else [False] * n
        outcomes: dict[str, list[float | None]] = {}
        errors: dict[str, list[float | None]] = {}
        roles = {OBJECTIVE: ("outcome", "stderr"), **{one: (f"limits {one!r}", f"stderr {one!r}") for one in limited}}
        for name, (role, error) in roles.items():
            values = outcomes[name] = _numbers(role, named[role], columns[named[role]], bad)
            errors[name] = [None] * n
            if error in named:
                errors[name] = _numbers(error, named[error], columns[named[error]], [y is None for y in values])
        return cls(columns, order, outcomes, errors, times)

    def rows(self, actions: Sequence[Any], contexts: Sequence[Any]) -> list[TrialRow]:
        """Return the trials ordered by time; actions and contexts are in the same order."""
        return [
            TrialRow(actions[k], contexts[k], self._measured(i), self.times[i])
            for k, i in enumerate(self.order.tolist())
        ]

    def _measured(self, i: int) -> dict[str, tuple[float, float | None]]:
        """Return the measured outcomes of a trial."""
        values = {name: (column[i], self.errors[name][i]) for name, column in self.outcomes.items()}
        return {name: (value, error) for name, (value, error) in values.items() if value is not None}


def _names(frame: Any) -> list[Any]:
    """Return the names of the columns of a table of any library."""
    for names in (getattr(frame, "column_names", None), getattr(frame, "columns", None)):
        if names is not None:
            return list(names)
    if isinstance(frame, Mapping):
        return list(frame)
    raise TypeError(f"frame must be a table with named columns, such as a pandas DataFrame, got {type(frame).__name__}")


def _chosen(role: str, given: Any, there: Sequence[Any]) -> list[str]:
    """Return the columns of a list of names, one name or a box."""
    names = list(given.parameters) if isinstance(given, Box) else [given] if isinstance(given, str) else given
    if isinstance(given, Perturbation):
        raise TypeError(
            f"{role} must be a list of columns or a Box that names them, got a Perturbation, whose columns have the "
            "names of the actions. Make Optimizer(actions, contexts=Perturbation(...)) of the perturbations in the "
            "log, and call tell(action, outcome, context=perturbation) for each row"
        )
    if not isinstance(names, list | tuple) or not names:
        raise TypeError(f"{role} must be a list of columns or a Box that names them, got {given!r}")
    return [_one(role, name, there) for name in names]


def _one(role: str, name: Any, there: Sequence[Any]) -> str:
    if not isinstance(name, str) or name not in there:
        raise ValueError(f"{role} must name columns of the frame, {listed(there)}; got {name!r}")
    if there.count(name) > 1:
        raise ValueError(f"{role} must name one column of the frame, but {there.count(name)} are called {name!r}")
    return name


def _actions(given: Any, columns: Mapping[str, Any]) -> tuple[Box, dict[str, list[Any]]]:
    """Return the box of the actions and the tried values; warn of constant columns."""
    tried: dict[str, list[Any]] = {}
    ranges: dict[str, Parameter] = {}
    for name, column in columns.items():
        _, kind = read_column(name, column, None)
        tried[name] = _values(name, column)
        ranges[name] = _range(tried[name], kind, _whole(column) and isinstance(kind, Observed))
        if len(set(tried[name])) == 1:
            kept = "may be chosen, but nothing is known of other values" if isinstance(given, Box) else "stays at it"
            warnings.warn(
                f"actions: {name!r} is {tried[name][0]!r} in every row, so nothing can be learned about it; it {kept}",
                UserWarning,
                stacklevel=4,
            )
    return given if isinstance(given, Box) else Box(ranges), tried


def _values(name: str, column: Any) -> list[Any]:
    """Return the values of a column: integers, floats or labels."""
    values, kind = read_column(name, column, None)
    return [int(value) for value in values] if _whole(column) and isinstance(kind, Observed) else values


def _whole(column: Any) -> bool:
    return np.asarray(column).dtype.kind in "iu"


def _range(values: list[Any], kind: Parameter, whole: bool) -> Parameter:
    """Return the range of a column: between the tried numbers, or one of the labels."""
    different = list(dict.fromkeys(values))
    if len(different) == 1 or not isinstance(kind, Observed):
        return Categorical(*different)
    return Integer(min(different), max(different)) if whole else Real(kind.least, kind.largest)


def _contexts(given: Any, columns: Mapping[str, Any], order: NDArray[np.intp]) -> tuple[Samples, list[dict[str, Any]]]:
    """Return the contexts as samples ordered by time, and each of them as a mapping."""
    read = {name: read_column(name, column, None) for name, column in columns.items()}
    for name, (_, kind) in read.items():
        if _whole(columns[name]) and isinstance(kind, Observed):
            read[name] = read_column(name, columns[name], ObservedWhole(kind.least, kind.largest))
    table = {name: [values[i] for i in order.tolist()] for name, (values, _) in read.items()}
    labels = {name: p for name, (_, p) in read.items() if type(p) is not Observed}
    within = given if isinstance(given, Box) else None
    samples = Samples(table, within=within) if within is not None else Samples(table, labels=labels or None)  # type: ignore[arg-type]
    return samples, [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]


def _numbers(role: str, name: str, column: Any, absent: Sequence[bool]) -> list[float | None]:
    """Return the numbers of a column, None where they are absent or missing; an error names the row."""
    found: list[float | None] = []
    for row, (value, gone) in enumerate(zip(column, absent, strict=True)):
        if gone or validation.missing(value):
            found.append(None)
        else:
            found.append(validation.finite_float(f"{role}, row {row} of column {name!r},", value))
    return found


def _flags(column: Any) -> list[bool]:
    return [validation.flag(f"failed, row {row},", value) for row, value in enumerate(column)]
