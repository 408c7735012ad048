"""The values that an optimizer returns: suggestions, results and predictions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from drbo.knowledge.explanation import as_html, readable
from drbo.knowledge.history import OBJECTIVE, Told
from drbo.knowledge.readings import Measured
from drbo.rounds.policies import Reason
from drbo.spaces.space import Point, Space, row
from drbo.validation import FloatArray

_WHY: dict[Reason, str] = {
    "search": "",
    "verify": " (a check of the recommended action)",
    "limits": " (no action may meet all limits: this one comes closest)",
}


@dataclass(frozen=True, eq=False)
class Suggestion:
    """The next evaluation.

    Attributes
    ----------
    number : the index of the suggestion, from 0
    action : a point (d_x,) of a finite set, or a mapping from a box's parameters to their values
    action_index : its index in a finite set, None in a box
    contexts : the contexts to evaluate the action in, in the user's form; empty if nature picks them
    reference, radius : the ambiguity set of this round
    score : the worst-case expectation that the action was chosen for: of an upper bound, or of a draw (`Thompson`)
    action_point, context_points : both as points of their spaces
    fallback : True if it is the baseline because no action met `ask(floor=...)`, `ask(safe=True)` or the budget
    loss : the largest expected loss against the baseline; 0 without `explore_budget`
    given : the known part of the context; None if nothing was known
    reason : "search" for a better action, or "verify" the recommended action in untried conditions (`Checked`), or
        "limits" if no action may meet all limits, and this one comes closest
    keys : the keys of the contexts (`Samples(keys=...)`); empty if they have none
    """

    number: int
    action: Any
    action_index: Any
    contexts: tuple[Any, ...]
    reference: FloatArray
    radius: float
    score: float
    action_point: Point
    context_points: tuple[Point, ...]
    fallback: bool = False
    loss: float = 0.0
    given: Mapping[Any, Any] | None = None
    reason: Reason = "search"
    keys: tuple[Any, ...] = ()

    @property
    def context(self) -> Any:
        """The context to evaluate the action in; None if nature picks it or if there are several (`contexts`)."""
        return self.contexts[0] if len(self.contexts) == 1 else None

    @property
    def key(self) -> Any:
        """The key of the context; None if there is none, or if there are several contexts (`keys`)."""
        return self.keys[0] if len(self.keys) == 1 else None

    @property
    def context_index(self) -> Any:
        """The index of the context in a finite set, or its row in samples with keys; otherwise None."""
        return None if self.context_point is None else self.context_point.index

    @property
    def context_point(self) -> Point | None:
        """The context as a point of its space; None if nature picks it or if there are several."""
        return self.context_points[0] if len(self.context_points) == 1 else None

    def __str__(self) -> str:
        named = [readable(one) for one in self.contexts]
        if self.keys:
            named = [f"{readable(key)} ({values})" for key, values in zip(self.keys, named, strict=True)]
        where = f" in {'; '.join(named)}" if named else ""
        why = " (the baseline: no other action met what was asked for)" if self.fallback else ""
        why = why or _WHY[self.reason]
        return f"suggestion {self.number}: {readable(self.action)}{where}{why}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        cells = [*row(self.action, "action").items()]
        cells += [("key", str(key)) for key in self.keys]
        for context in self.contexts:
            cells += [(f"{name} (context)", value) for name, value in row(context, "context").items()]
        return as_html(f"Suggestion {self.number}: evaluate", cells, str(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Suggestion) and self.same_as(other)

    def __hash__(self) -> int:
        return hash((self.number, self.radius))

    def same_as(self, other: Suggestion) -> bool:
        """Return whether another suggestion, such as a copy from another process, asks for the same evaluation."""
        mine, others = self.context_points, other.context_points
        return (
            (self.number, self.radius) == (other.number, other.radius)
            and len(mine) == len(others)
            and all(one.same_as(two) for one, two in zip(mine, others, strict=True))
            and self.action_point.same_as(other.action_point)
            and np.array_equal(self.reference, other.reference)
        )


@dataclass(frozen=True)
class Result:
    """One result, in the user's units.

    Attributes
    ----------
    id : the index of the `tell`, from 0; `retract` and `amend` take it. Outcomes told together share it
    number : the number of the suggestion that it answers; None if there was no suggestion
    action : the evaluated action
    context : the context of the evaluation; for a failure in an unknown context, the most likely one; None if hidden
    outcome : the outcome; None if the evaluation failed, or if only limited outcomes were measured
    failed : whether the evaluation failed
    time : the time of the `tell`, in seconds since 1970 (UTC); None if unknown
    stderr : the standard error of the outcome; None if unknown
    distribution : for a hidden context, pairs of a possible context and its probability; None otherwise
    limits : the values of limited outcomes by name, without those that were not measured: numbers, or `Measured` with a
        standard error
    key : the key of the context (`Samples(keys=...)`); None if it has none
    """

    id: int
    number: int | None
    action: Any
    context: Any
    outcome: float | None
    failed: bool
    time: float | None
    stderr: float | None = None
    distribution: tuple[tuple[Any, float], ...] | None = None
    limits: Mapping[str, float | Measured] = field(default_factory=dict, hash=False)
    key: Any = None


def results_of(id_: int, record: Told, actions: Space, contexts: Space) -> list[Result]:
    """Return the results of a record in the user's units: one per outcome, or per context of a failure."""
    action, stderrs = actions.decode(record.action), record.stderrs or (None,) * len(record.contexts)
    values = [contexts.decode(context) for context in record.contexts]
    outcomes = record.values or (None,) * len(values)
    if record.hidden:
        pairs = tuple(zip(values, record.weights, strict=True))
        limits = _limits_of(record, 0)
        return [Result(id_, record.number, action, None, outcomes[0], False, record.time, stderrs[0], pairs, limits)]
    found = []
    for j, (value, outcome, stderr) in enumerate(zip(values, outcomes, stderrs, strict=True)):
        limits, key = _limits_of(record, j), contexts.key(record.contexts[j])
        one = id_, record.number, action, value, outcome, record.failed, record.time, stderr, None, limits, key
        found.append(Result(*one))
    return found


def _limits_of(record: Told, j: int) -> dict[str, float | Measured]:
    """Return the values of the limited outcomes of a record in its context `j`."""
    return {
        name: Measured(one.values[j], one.stderrs[j]) if one.stderrs else one.values[j]
        for name, one in record.outcomes.items()
        if name != OBJECTIVE
    }


@dataclass(frozen=True)
class Prediction:
    """The model's prediction of f, in the user's units: numbers, or arrays (m,) for m actions and contexts.

    Attributes
    ----------
    mean, std : of f itself, not of a noisy outcome; nan while a model that learns its scale has no outcome
    lower, upper : the confidence bounds, mean -+ width * std; infinite in that case
    """

    mean: Any
    std: Any
    lower: Any
    upper: Any
