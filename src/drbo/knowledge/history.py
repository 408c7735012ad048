"""The facts of an optimizer: its asks, tells, cancellations and corrections in order. All other state is derived.

Every command appends one immutable record. A record holds points in the model's coordinates and outcomes in the user's
units.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from drbo.models.surrogate import Fit
from drbo.rounds.policies import Reason
from drbo.spaces.space import Point
from drbo.validation import FloatArray


def now() -> float:
    """Return the time of a record, in seconds since 1970 (UTC). The only clock of the library; tests replace it."""
    return time.time()


OBJECTIVE = ""
"""The name of the optimised outcome: the empty name."""


@dataclass(frozen=True)
class Readings:
    """The values of one outcome, one per context, in the user's units; `stderrs` is empty if they are unknown."""

    values: tuple[float, ...]
    stderrs: tuple[float, ...] = ()


NO_READINGS = Readings(())


@dataclass(frozen=True, eq=False)
class Proposal:
    """One suggestion, as a fact.

    Attributes
    ----------
    number : the index of the suggestion, from 0
    action, context : the action and the context to evaluate; no context if nature picks it
    radius : the radius of its round's set, including the cost of compression; nan if unknown, as for a trial enqueued
        elsewhere, which is then bounded for the present set
    score : the worst-case expectation of the upper bound or draw that it was chosen for, in the user's units
    bound : its worst-case lower confidence bound when it was asked, on the atoms of that time, in the user's units;
        eq. 10 picks by it
    further : (k, d) the adversary's contexts that became atoms with this suggestion
    loss : its largest expected loss against the baseline, in the user's units; 0 without a budget
    fallback : whether it is the baseline because no action met the requirements
    more_contexts : contexts beyond `context` to evaluate the same action in
    reason : why it was chosen; "limits" if no action may meet all limits, and it comes closest
    """

    number: int
    action: Point
    context: Point | None
    radius: float
    score: float
    bound: float
    further: FloatArray
    loss: float = 0.0
    fallback: bool = False
    more_contexts: tuple[Point, ...] = ()
    reason: Reason = "search"

    @property
    def contexts(self) -> tuple[Point, ...]:
        """All contexts picked with the suggestion; empty if nature picks them."""
        return () if self.context is None else (self.context, *self.more_contexts)


class Record:
    """One fact."""

    @property
    def given_with(self) -> tuple[tuple[Any, Mapping[Any, Any] | None], ...]:
        """The references given for rounds, each with the known part of the context."""
        return ()


@dataclass(frozen=True, eq=False)
class Asked(Record):
    """One call of `ask`.

    Attributes
    ----------
    time : seconds since 1970, None if unknown
    reference, radius : the arguments of the call; None if not given
    fits : the hyper-parameters learned for it, by the name of the outcome; without those that are unchanged
    proposals : the suggestions, one or several
    awaited : the numbers of results that come earlier in the history but were unknown to this ask; several workers may
        write a history out of order
    given : the known part of the context, by column name; None if nothing was known
    """

    time: float | None
    reference: Any
    radius: float | None
    fits: Mapping[str, Fit]
    proposals: tuple[Proposal, ...]
    awaited: tuple[int, ...] = ()
    given: Mapping[Any, Any] | None = None

    @property
    def given_with(self) -> tuple[tuple[Any, Mapping[Any, Any] | None], ...]:
        return ((self.reference, self.given),)


@dataclass(frozen=True, eq=False)
class Told(Record):
    """One call of `tell`.

    Attributes
    ----------
    time : seconds since 1970, None if unknown
    number : the number of the suggestion that it answers; None if there was no suggestion
    action : the evaluated action
    contexts : the contexts of the evaluation
    outcomes : the values of each outcome by name; empty if the evaluation failed
    drawn : whether nature drew the contexts; False if the learner picked them, or if they are a guess
    weights : for a hidden context with its one outcome, the probability of each of `contexts`; empty if every context
        has its own outcome
    """

    time: float | None
    number: int | None
    action: Point
    contexts: tuple[Point, ...]
    outcomes: Mapping[str, Readings]
    drawn: bool
    weights: tuple[float, ...] = ()

    def values_of(self, name: str) -> tuple[float, ...]:
        """Return the values of an outcome, one per context; none if it was not measured."""
        return self.outcomes.get(name, NO_READINGS).values

    @property
    def values(self) -> tuple[float, ...]:
        """The values of the objective, one per context; may be empty."""
        return self.values_of(OBJECTIVE)

    @property
    def stderrs(self) -> tuple[float, ...]:
        """The standard errors of the objective's values; empty if unknown."""
        return self.outcomes.get(OBJECTIVE, NO_READINGS).stderrs

    @property
    def n_values(self) -> int:
        """The number of values per outcome: one per context, one for a hidden context, none if it failed."""
        return max((len(one.values) for one in self.outcomes.values()), default=0)

    @functools.cached_property
    def failed(self) -> bool:
        """Whether the evaluation has no outcome."""
        return not self.outcomes

    @functools.cached_property
    def hidden(self) -> bool:
        """Whether the context is hidden: only its distribution is known."""
        return bool(self.weights)

    @property
    def seen(self) -> tuple[Point, ...]:
        """The contexts that nature drew and revealed."""
        return self.contexts if self.drawn and not self.weights else ()


@dataclass(frozen=True, eq=False)
class Cancelled(Record):
    """One call of `cancel`: suggestion `number` will not be evaluated."""

    time: float | None
    number: int


@dataclass(frozen=True, eq=False)
class Retracted(Record):
    """One call of `retract`: result number `result` was a mistake and is removed."""

    time: float | None
    result: int


@dataclass(frozen=True, eq=False)
class Amended(Record):
    """One call of `amend`: result `result` should have been told with these contexts and outcomes."""

    time: float | None
    result: int
    contexts: tuple[Point, ...]
    outcomes: Mapping[str, Readings]
    weights: tuple[float, ...] = ()


Fact = Asked | Told | Cancelled | Retracted | Amended
