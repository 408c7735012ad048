"""What the optimizer hands out: suggestions to evaluate, recommendations to deploy, results and predictions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from drbo.knowledge.explanation import as_html, readable
from drbo.knowledge.history import Told
from drbo.spaces.columns import row
from drbo.spaces.space import Point, Space
from drbo.validation import FloatArray


@dataclass(frozen=True, eq=False)
class Suggestion:
    """What to evaluate next.

    Attributes
    ----------
    number : counts the suggestions of this optimizer from 0
    action : what to evaluate: a point (d_x,) of a finite set, or a mapping from a box's parameters to their values
    action_index : its index in a finite set, None in a box
    contexts : the contexts to evaluate it in, one or several, as the contexts were given; none where nature picks them
    reference, radius : the ambiguity set of this round
    score : the worst-case expectation that the action was chosen for: of an upper bound, or of a draw (`Thompson`)
    action_point, context_points : both as points of their spaces
    fallback : True if it is the baseline because no action met what was asked for, `ask(guarantee=...)` or the budget
    loss : what it may lose against the baseline in expectation at most; 0 where no `explore_budget` limits that
    given : what was known of the context before the choice; None if nothing was
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

    @property
    def context(self) -> Any:
        """The context to evaluate it in; None where nature picks it, and where there are several (`contexts`)."""
        return self.contexts[0] if len(self.contexts) == 1 else None

    @property
    def context_index(self) -> Any:
        """The index of the context in a finite set, otherwise None."""
        return None if self.context_point is None else self.context_point.index

    @property
    def context_point(self) -> Point | None:
        """The context as a point of its space; None where nature picks it, and where there are several."""
        return self.context_points[0] if len(self.context_points) == 1 else None

    def __str__(self) -> str:
        where = f" in {'; '.join(readable(context) for context in self.contexts)}" if self.contexts else ""
        why = " (the baseline: no other action met what was asked for)" if self.fallback else ""
        return f"suggestion {self.number}: {readable(self.action)}{where}{why}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        cells = [*row(self.action, "action").items()]
        for context in self.contexts:
            cells += [(f"{name} (context)", value) for name, value in row(context, "context").items()]
        return as_html(f"Suggestion {self.number}: evaluate", cells, str(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Suggestion) and self.same_as(other)

    def __hash__(self) -> int:
        return hash((self.number, self.radius))

    def same_as(self, other: Suggestion) -> bool:
        """Return whether the other one asks for the same evaluation; it may be a copy from another process."""
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
    """One result that was told, in the user's units.

    Attributes
    ----------
    id : counts what was told from 0; `retract` and `amend` know a result by it. Outcomes told together share it
    number : of the suggestion that it answers; None if nobody asked
    action : what was evaluated
    context : the context that it was evaluated in; for a failure in an unknown context, the likeliest one; None where
        the context was never revealed
    outcome : what came out; None if the evaluation failed
    failed : whether it failed
    time : when it was told, in seconds since 1970 (UTC); None if that is not known
    stderr : the standard error of the outcome; None if it is not known
    distribution : where the context was never revealed: what it may have been, and the probability of each, as pairs;
        None otherwise
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


def results_of(id_: int, record: Told, actions: Space, contexts: Space) -> list[Result]:
    """Return what was told in the user's units: one result per outcome, or per context of a failure."""
    action, stderrs = actions.decode(record.action), record.stderrs or (None,) * len(record.contexts)
    values = [contexts.decode(context) for context in record.contexts]
    if record.hidden:
        pairs = tuple(zip(values, record.weights, strict=True))
        return [Result(id_, record.number, action, None, record.values[0], False, record.time, stderrs[0], pairs)]
    outcomes = record.values or (None,) * len(values)
    return [
        Result(id_, record.number, action, value, outcome, record.failed, record.time, stderr)
        for value, outcome, stderr in zip(values, outcomes, stderrs, strict=True)
    ]


@dataclass(frozen=True)
class Prediction:
    """What the model expects of f, in the user's units: numbers, or arrays (m,) for m actions and contexts.

    Attributes
    ----------
    mean, std : of f itself, not of a noisy outcome
    lower, upper : the confidence bounds, mean -+ width * std; infinite, and the others nan, as long as a model that
        learns its scale has seen no outcome
    """

    mean: Any
    std: Any
    lower: Any
    upper: Any
