"""Checked arguments of `tell`, `amend` and their relatives: results, corrections, and rows of many values."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from drbo import validation
from drbo._fast_record import fast_record
from drbo.contexts.nature import Contexts
from drbo.knowledge import history
from drbo.knowledge.configuration import Configuration
from drbo.knowledge.history import OBJECTIVE, Amended, Readings, Told
from drbo.knowledge.knowledge import Knowledge
from drbo.knowledge.propose import suggestion_of
from drbo.knowledge.readings import Given, Measured, checked_outcomes, checked_stderrs, dimensions, label
from drbo.knowledge.state import Iterate, State, kept
from drbo.knowledge.suggestion import Result, Suggestion
from drbo.knowledge.trial_table import TrialRow
from drbo.models.surrogate import Surrogate
from drbo.rounds.settings import Simulator
from drbo.spaces.samples import Samples
from drbo.spaces.space import Point, Space
from drbo.validation import FloatArray


@dataclass(frozen=True, eq=False)
class OneOrMany:
    """One value or many, in the model's coordinates.

    Attributes
    ----------
    name : the name of the values in errors
    coordinates : (m, d), one row for one value
    single : whether there was one value, which broadcasts against many
    index : the index of the values' frame; None without a frame
    """

    name: str
    coordinates: FloatArray
    single: bool
    index: Any = None


def rows(name: str, value: Any, space: Space, encode: Callable[[str, Any], Point]) -> OneOrMany:
    """Return the coordinates of one value or many; `encode` turns one value of the space into a point."""
    many: Sequence[Any] | None = space.many(name, value)
    if many is None:
        return OneOrMany(name, encode(name, value).coordinates[None, :], True)
    points = [encode(f"{name}[{i}]", one).coordinates for i, one in enumerate(many)]
    index = value.index if hasattr(value, "columns") else None
    return OneOrMany(name, np.array(points).reshape(-1, space.dimension), False, index)


def paired(first: OneOrMany, second: OneOrMany) -> tuple[FloatArray, FloatArray]:
    """Return the coordinates of both, row by row; a single value is paired with every row of the other."""
    if not (first.single or second.single) and len(first.coordinates) != len(second.coordinates):
        raise ValueError(
            f"{first.name} and {second.name} must have equally many rows, or one of them must be a single value, got "
            f"{len(first.coordinates)} and {len(second.coordinates)} rows"
        )
    if first.index is not None and second.index is not None and not first.index.equals(second.index):
        raise ValueError(f"{first.name} and {second.name} must have the same index, row by row")
    m = len(second.coordinates) if first.single else len(first.coordinates)
    a, b = (np.broadcast_to(r.coordinates, (m, r.coordinates.shape[1])) for r in (first, second))
    return a, b


def in_order(name: str, value: Any, nature: Contexts) -> list[Point]:
    """Return the contexts of a sequence, of a table or of `Samples`, in order; errors use `name`."""
    if isinstance(value, Samples):
        many: Sequence[Any] | None = [value.space.decode(Point(row)) for row in value.points]
    elif isinstance(value, Mapping) and all(np.iterable(one) and not isinstance(one, str) for one in value.values()):
        many = [dict(zip(value, row, strict=True)) for row in zip(*value.values(), strict=True)]
    else:
        many = nature.space.many(name, value)
    if many is None and (isinstance(value, str | Mapping) or not np.iterable(value)):
        raise TypeError(f"{name} must be a sequence of contexts, got {value!r}")
    return [nature.anywhere(f"{name}[{i}]", one) for i, one in enumerate(value if many is None else many)]


_COLUMNS = ("result", "number", "stderr", "failed", "time")
"""The columns of every table of results; a parameter of the same name gets "action." or "context." before it."""


def columns_of(own: Configuration) -> dict[str, str]:
    """Return the column of each outcome in a table of results: its name, or "outcome.name" if that is taken."""
    names = {key: outcome.name for key, outcome in own.outcomes.items()}
    return {key: f"outcome.{name}" if name in _COLUMNS else name for key, name in names.items()}


def result_row(result: Result, own: Configuration, pandas: Any) -> dict[str, Any]:
    """Return a result as a row of a table: one column per parameter, condition and outcome.

    A limited outcome has the column of its name, and the column "name.stderr" if it has a standard error.
    """
    outcomes = columns_of(own)
    row: dict[str, Any] = {"result": result.id, "number": result.number}
    both = {
        kind: value if isinstance(value, dict) else {kind: _cell(value)}
        for kind, value in (("action", result.action), ("context", result.context))
        if value is not None  # a hidden context
    }
    if result.key is not None:
        row["key"] = result.key
    taken = [*row, *_COLUMNS, *outcomes.values(), *(name for columns in both.values() for name in columns)]
    for kind, columns in both.items():
        row |= {f"{kind}.{name}" if taken.count(name) > 1 else name: value for name, value in columns.items()}
    row |= {outcomes.pop(OBJECTIVE): result.outcome, "stderr": result.stderr}
    for name, column in outcomes.items():
        value = result.limits.get(name)
        row[column] = value.value if isinstance(value, Measured) else value
        if isinstance(value, Measured):
            row[f"{column}.stderr"] = value.stderr
    row["failed"] = result.failed
    row["time"] = pandas.NaT if result.time is None else pandas.Timestamp(result.time, unit="s", tz="UTC")
    return row


def _cell(value: Any) -> Any:
    """Return a point of a finite set as a table cell: a number if it is one, otherwise the label."""
    return np.squeeze(value).tolist() if isinstance(value, np.ndarray) else value


def _encode_contexts(nature: Contexts, contexts: Any) -> tuple[Point, ...]:
    """Return the points of several contexts: a sequence, an array (k, d), or a table with one row per context."""
    rows = nature.many("contexts", contexts)
    if rows is None:
        ordered = hasattr(contexts, "__len__") and hasattr(contexts, "__getitem__") and dimensions(contexts) != 0
        if isinstance(contexts, str | bytes | Mapping) or not ordered:
            raise TypeError(f"contexts must be a sequence of contexts, an array (k, d) or a table, got {contexts!r}")
        rows = list(contexts)
    if not len(rows):
        raise ValueError("contexts must hold at least one context")
    return tuple(nature.encode(f"contexts[{i}]", row) for i, row in enumerate(rows))


def observed_contexts(nature: Contexts, context: Any, context_index: int | None, contexts: Any) -> tuple[Point, ...]:
    """Return the observed contexts: one, or those of `contexts`; columns that `nature` knows may be omitted."""
    if contexts is not None:
        if not (context is None and context_index is None):
            raise TypeError("contexts must not be given with context, context_index or a mapping from contexts")
        return _encode_contexts(nature, contexts)
    if context is None and context_index is None and nature.all_known:
        context = {}
    if (context is None) == (context_index is None):
        raise TypeError("tell needs the observed context, either as context=c or as context_index=j")
    if context_index is not None:
        return (nature.at("context_index", context_index),)
    return (nature.encode("context", context),)


def hidden_context(
    nature: Contexts, surrogates: Sequence[Surrogate], distribution: Any
) -> tuple[tuple[Point, ...], tuple[float, ...]]:
    """Return the possible values of a hidden context, and their probabilities."""
    if any(surrogate.learns for surrogate in surrogates):
        raise TypeError(
            "distribution needs a surrogate with fixed hyper-parameters, drbo.GP(...): a model learns them from "
            "outcomes whose contexts are known"
        )
    try:
        reference = nature.given(kept(distribution, "distribution"))
    except (TypeError, ValueError) as error:  # its text speaks of a reference
        raise type(error)(str(error).replace("reference", "distribution")) from None
    if reference.error > 0.0:
        raise ValueError(
            f"distribution must have at most as many samples as atoms, got {len(reference.represented)}: give it "
            "room, Samples(..., atoms=...), so that the average over it is exact"
        )
    used = np.flatnonzero(reference.weights)
    return tuple(reference.atom(int(j)) for j in used), tuple(reference.weights[used].tolist())


def refuse_beside_distribution(context: Any, context_index: Any, contexts: Any) -> None:
    """Raise if a context is given with its distribution."""
    if not (context is None and context_index is None and contexts is None):
        raise TypeError(
            "distribution must not be given with a context, contexts or a mapping of outcomes: it is for a "
            "hidden context"
        )


def kept_stderrs(old: Told, contexts: Sequence[Point]) -> tuple[float, ...] | None:
    """Return the standard errors that a result keeps when its outcomes are amended: each stays with its context."""
    if not old.stderrs:
        return None
    if len(old.contexts) == len(contexts) == 1:
        return old.stderrs
    left, kept = list(zip(old.contexts, old.stderrs, strict=True)), []
    for context in contexts:
        at = next((i for i, (one, _) in enumerate(left) if one.same_as(context)), None)
        if at is None:
            raise ValueError("stderr must be given if amended outcomes have other contexts than before")
        kept.append(left.pop(at)[1])
    return tuple(kept)


# --- the records of `tell`, `cancel`, `retract` and `amend` ---------------------------------------------------------


@fast_record
class Where:
    """The given contexts of an evaluation: one, several, or the distribution of a hidden one."""

    context: Any = None
    context_index: int | None = None
    contexts: Any = None
    distribution: Any = None

    @property
    def observed(self) -> bool:
        """Whether a context was given."""
        return not (self.context is None and self.context_index is None and self.contexts is None)


def told(
    known: Knowledge,
    suggestion: Any,
    outcome: Any,
    where: Where,
    stderr: Any,
    failed: bool,
    drawn: bool,
    limits: Any = None,
) -> Told:
    """Return the record of a result; raise if an argument is wrong."""
    state, own = known.state, known.configuration
    given = Given.of(own, outcome, stderr, where.contexts, limits)
    if validation.flag("failed", failed) == (not given.nothing):
        what = "an outcome or limits" if own.measured else "an outcome"
        if failed:
            raise TypeError(f"failed=True must not be given with {what}: leave it out if something was measured")
        raise TypeError(f"tell needs {what}, or failed=True for an evaluation without a result")
    if failed and stderr is not None:
        raise TypeError("stderr must not be given with failed=True: there is no outcome")
    if given.outcome is None and stderr is not None:
        raise TypeError("stderr must not be given without an outcome: a limit takes a drbo.Measured(value, stderr)")
    if given.contexts is not where.contexts:
        where = replace(where, contexts=given.contexts)
    number, iterate, by_nature = None, None, True
    if isinstance(suggestion, Suggestion):
        iterate = pending_iterate(known, state, suggestion)
        number, action = suggestion.number, iterate.proposal.action
    else:
        action = own.search.space.encode("suggestion", suggestion)
    nature = known.nature(None if iterate is None else iterate.given)
    weights: tuple[float, ...] = ()
    if where.distribution is not None:
        if failed:
            raise TypeError("distribution must not be given with failed=True: there is no outcome")
        if iterate is not None and iterate.proposal.contexts:
            raise TypeError("distribution must not be given: the context was picked with the suggestion")
        points, weights = _hidden(nature, own, where)
    elif iterate is not None:
        points, by_nature = _contexts_of(known, iterate, where, failed)
    else:
        points = observed_contexts(nature, where.context, where.context_index, where.contexts)
    outcomes = given.readings(1 if weights else len(points))
    own.check_range(outcomes)
    _warn_if_far(own.nature.space, points)
    by_nature = validation.flag("drawn", drawn) and by_nature
    return Told(history.now(), number, action, points, outcomes, by_nature, weights)


def amended(
    known: Knowledge, result: Result | int, outcome: Any, where: Where, stderr: Any, limits: Any = None
) -> Amended:
    """Return the record of a correction; raise if an argument is wrong."""
    (id_, old), own = told_before(known.state, result), known.configuration
    if outcome is None and stderr is None and not limits and where.distribution is None and not where.observed:
        raise TypeError("amend needs a correction: an outcome, limits, a context, a context_index or a stderr")
    given = Given.of(own, outcome, stderr, where.contexts, limits)
    where, outcome, stderr = replace(where, contexts=given.contexts), given.outcome, given.stderr
    points, weights = old.contexts, old.weights
    if where.distribution is not None:
        if given.nothing and old.n_values != 1 and not where.observed:
            raise TypeError("distribution must not be given for a result that has no outcome, or several")
        points, weights = _hidden(own.nature, own, where)
        _warn_if_far(own.nature.space, points)
    elif where.observed:
        points, weights = observed_contexts(own.nature, where.context, where.context_index, where.contexts), ()
        _warn_if_far(own.nature.space, points)
    count = 1 if weights else len(points)
    new = given.readings(count)
    if outcome is None and old.values:
        checked_outcomes(old.values, count)  # raises if the contexts changed in number
        new[OBJECTIVE] = Readings(old.values, checked_stderrs(stderr, count) or old.stderrs)
    elif outcome is None and stderr is not None:
        raise TypeError("stderr must not be given for a result that failed: there is no outcome")
    elif stderr is None and outcome is not None and not old.failed:
        kept = old.stderrs or None if old.hidden or weights else kept_stderrs(old, points)
        new[OBJECTIVE] = Readings(new[OBJECTIVE].values, checked_stderrs(kept, count))
    for name, one in old.outcomes.items():
        if name != OBJECTIVE and name not in given.limits:
            if len(one.values) != count:
                raise ValueError(f"{label(name)} must be given again, one value per context, {count}")
            new[name] = one
    own.check_range(new)
    return Amended(history.now(), id_, points, _in_order(own, new), weights)


def _in_order(own: Configuration, outcomes: Mapping[str, Readings]) -> dict[str, Readings]:
    """Return outcomes in the order of the configuration."""
    return {name: outcomes[name] for name in own.outcomes if name in outcomes}


def told_before(state: State, result: Result | int) -> tuple[int, Told]:
    """Return the id of a result and its record."""
    id_ = result.id if isinstance(result, Result) else validation.whole_number("result", result, least=0)
    record = state.results.get(id_)
    if record is None:
        raise ValueError(f"result {id_} is not one of this optimizer's, or has been retracted; see opt.results")
    return id_, record


def pending_iterate(known: Knowledge, state: State, suggestion: Suggestion) -> Iterate:
    """Return the pending iterate of a suggestion or of a copy; raise if another optimizer made it."""
    if not isinstance(suggestion, Suggestion):
        raise TypeError(f"suggestion must be what ask returned, got {suggestion!r}")
    own = state.pending.get(suggestion.number)
    if own is None and 0 <= suggestion.number < state.n_asked:
        raise ValueError(f"suggestion {suggestion.number} has been told or cancelled already")
    if own is not None and own.proposal.action is suggestion.action_point:
        return own
    if own is None or not suggestion_of(known.configuration, own, known.reference_of(own)).same_as(suggestion):
        raise ValueError(f"suggestion {suggestion.number} is not one of this optimizer's")
    return own


def _hidden(nature: Contexts, own: Configuration, where: Where) -> tuple[tuple[Point, ...], tuple[float, ...]]:
    """Return the contexts of a distribution and their weights; raise if a context was also given."""
    refuse_beside_distribution(where.context, where.context_index, where.contexts)
    if own.objective.known is not None:
        raise TypeError(
            "distribution must not be given where a part of the outcome is known: it depends on the context"
        )
    return hidden_context(nature, [one.surrogate for one in own.outcomes.values()], where.distribution)


def _contexts_of(known: Knowledge, iterate: Iterate, where: Where, failed: bool) -> tuple[tuple[Point, ...], bool]:
    """Return the contexts in which a suggestion was evaluated, and whether nature drew them."""
    nature, picked, own = known.nature(iterate.given), iterate.proposal.contexts, known.configuration
    unknown = where.context is None and where.context_index is None
    if picked:
        if not unknown:
            raise TypeError("context must not be given: it was picked with the suggestion, see suggestion.context")
        # An evaluation may report more contexts than were picked.
        return picked if where.contexts is None else observed_contexts(nature, None, None, where.contexts), False
    if failed and not where.observed and not nature.all_known:
        # The context of the failure is unknown: the most likely one keeps the action from being suggested again.
        reference = known.reference_of(iterate)
        return (reference.atom(int(np.argmax(reference.weights))),), False
    if not where.observed and not nature.all_known and isinstance(own.setting, Simulator):
        raise TypeError(
            f"tell needs the observed context, either as context=c or as context_index=j: policy={own.policy!r} "
            "picks none. A policy with a rule picks it, such as contexts=drbo.Informative()"
        )
    return observed_contexts(nature, where.context, where.context_index, where.contexts), True


def _warn_if_far(space: Space, contexts: Sequence[Point]) -> None:
    """Warn of contexts far outside the samples: they may be mistakes."""
    for context in contexts:
        far = space.far_outside(context)
        if far is not None:
            warnings.warn(f"context {far}; if it is a mistake, see opt.amend", UserWarning, stacklevel=5)


def told_rows(own: Configuration, rows: Sequence[TrialRow], *, drawn: bool) -> list[Told]:
    """Return the records of the rows of a log; `drawn`: whether nature drew their contexts."""
    records = []
    for i, row in enumerate(rows):
        action = own.search.space.encode(f"row {i} of actions", row.action)
        where = (own.nature.encode(f"row {i} of contexts", row.context),)
        outcomes = {
            name: Readings(checked_outcomes(value, 1), checked_stderrs(stderr, 1))
            for name, (value, stderr) in row.outcomes.items()
        }
        own.check_range(outcomes, f"row {i}: ")
        _warn_if_far(own.nature.space, where)
        records.append(Told(row.time, None, action, where, outcomes, drawn))
    return records
