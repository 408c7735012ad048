"""The facts of an optimizer: what was asked, told and cancelled, in order. Everything else follows from them.

Every command appends one record, which is never changed. A record holds points in the model's coordinates and outcomes
in the user's units.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from drbo.models.surrogate import Fit
from drbo.spaces.space import Point
from drbo.validation import FloatArray


def now() -> float:
    """Return the time of a record, in seconds since 1970 (UTC). The one clock of the library; tests replace it."""
    return time.time()


OBJECTIVE = ""
"""The name of the outcome that is optimised: it is the one without a name."""


@dataclass(frozen=True)
class Readings:
    """The values of one outcome, one per context, in the user's units.

    `stderrs` is the standard error of each; empty if they are not known.
    """

    values: tuple[float, ...]
    stderrs: tuple[float, ...] = ()


NO_READINGS = Readings(())


def objective(values: tuple[float, ...], stderrs: tuple[float, ...] = ()) -> Mapping[str, Readings]:
    """Return the outcomes of an evaluation by name where only the objective has values; none if it failed."""
    return {OBJECTIVE: Readings(values, stderrs)} if values else {}


class Ledger(Protocol):
    """What draws the consequences of records, one kind each."""

    def asked(self, record: Asked) -> None:
        """Take note of suggestions."""

    def told(self, record: Told) -> None:
        """Take note of a result."""

    def cancelled(self, record: Cancelled) -> None:
        """Take note of a suggestion that will not be evaluated."""

    def retracted(self, record: Retracted) -> None:
        """Take note of a result that was a mistake."""

    def amended(self, record: Amended) -> None:
        """Take note of a result that was corrected."""


@dataclass(frozen=True, eq=False)
class Proposal:
    """One suggestion, as a fact.

    Attributes
    ----------
    number : counts the suggestions of an optimizer from 0
    action, context : what to evaluate; no context where nature picks it
    radius : of the set of its round, what compression costs included; nan if that set is not known, as for
        a trial that others enqueued: it is then certified for the present one
    score : the worst-case expectation that it was chosen for, of an upper bound or a draw, in the user's units
    guarantee : its worst-case lower confidence bound at its own time, on the atoms of then, in the user's units: eq. 10
        picks by it
    further : (k, d) the contexts that the adversary wanted and that became atoms with this suggestion
    loss : what it may lose against the baseline in expectation, in the user's units; 0 where no budget limits that
    fallback : whether it is the baseline because no action met what was asked for
    more_contexts : beside `context`, those that the same action is to be evaluated in
    """

    number: int
    action: Point
    context: Point | None
    radius: float
    score: float
    guarantee: float
    further: FloatArray
    loss: float = 0.0
    fallback: bool = False
    more_contexts: tuple[Point, ...] = ()

    @property
    def contexts(self) -> tuple[Point, ...]:
        """All contexts that were picked with the suggestion; none where nature picks them."""
        return () if self.context is None else (self.context, *self.more_contexts)


class Record:
    """One fact."""

    @property
    def given_with(self) -> tuple[tuple[Any, Mapping[Any, Any] | None], ...]:
        """The references that were given for rounds, and what was known of the context then."""
        return ()


@dataclass(frozen=True, eq=False)
class Asked(Record):
    """One call of `ask`.

    Attributes
    ----------
    time : seconds since 1970, None if it is not known
    reference, radius : as the caller gave them with the call; None if not
    fit : the hyper-parameters that were learned for it; None if they are those of the record before
    proposals : the suggestions, one or several
    awaited : the numbers of results that stand before it in the history, but were not known when it was asked: with
        several workers, a history may be in another order than that of time
    given : what was known of the context before the choice, by the names of its columns; None if nothing
    """

    time: float | None
    reference: Any
    radius: float | None
    fit: Fit | None
    proposals: tuple[Proposal, ...]
    awaited: tuple[int, ...] = ()
    given: Mapping[Any, Any] | None = None

    @property
    def given_with(self) -> tuple[tuple[Any, Mapping[Any, Any] | None], ...]:
        """The reference that was given for the round, and what was known of the context."""
        return ((self.reference, self.given),)

    def apply(self, ledger: Ledger) -> None:
        """Tell a ledger of this record."""
        ledger.asked(self)


@dataclass(frozen=True, eq=False)
class Told(Record):
    """One call of `tell`.

    Attributes
    ----------
    time : seconds since 1970, None if it is not known
    number : of the suggestion that it answers; None if nobody asked
    action : what was evaluated
    contexts : the contexts that it was evaluated in
    outcomes : by the name of each outcome, its values; empty if the evaluation failed
    drawn : whether nature drew the contexts; False where the learner picked them, or where they are a guess
    weights : where the context was never revealed: the probability of each of `contexts`, one of which it was. There is
        then one outcome. Empty where every context has an outcome of its own
    """

    time: float | None
    number: int | None
    action: Point
    contexts: tuple[Point, ...]
    outcomes: Mapping[str, Readings]
    drawn: bool
    weights: tuple[float, ...] = ()

    @property
    def values(self) -> tuple[float, ...]:
        """The values of the objective, one per context; empty if there are none."""
        return self.outcomes.get(OBJECTIVE, NO_READINGS).values

    @property
    def stderrs(self) -> tuple[float, ...]:
        """The standard errors of the objective's values; empty if they are not known."""
        return self.outcomes.get(OBJECTIVE, NO_READINGS).stderrs

    @functools.cached_property
    def failed(self) -> bool:
        """Whether the evaluation gave nothing."""
        return not self.outcomes

    @functools.cached_property
    def hidden(self) -> bool:
        """Whether the context was never revealed, and only its distribution is known."""
        return bool(self.weights)

    @property
    def seen(self) -> tuple[Point, ...]:
        """The contexts that nature drew and revealed."""
        return self.contexts if self.drawn and not self.hidden else ()

    def apply(self, ledger: Ledger) -> None:
        """Tell a ledger of this record."""
        ledger.told(self)


@dataclass(frozen=True, eq=False)
class Cancelled(Record):
    """One call of `cancel`: suggestion `number` will not be evaluated."""

    time: float | None
    number: int

    def apply(self, ledger: Ledger) -> None:
        """Tell a ledger of this record."""
        ledger.cancelled(self)


@dataclass(frozen=True, eq=False)
class Retracted(Record):
    """One call of `retract`: result number `result` was a mistake, and counts no more."""

    time: float | None
    result: int

    def apply(self, ledger: Ledger) -> None:
        """Tell a ledger of this record."""
        ledger.retracted(self)


@dataclass(frozen=True, eq=False)
class Amended(Record):
    """One call of `amend`: result `result` should have been told with these contexts and outcomes.

    `weights` as for `Told`.
    """

    time: float | None
    result: int
    contexts: tuple[Point, ...]
    outcomes: Mapping[str, Readings]
    weights: tuple[float, ...] = ()

    def apply(self, ledger: Ledger) -> None:
        """Tell a ledger of this record."""
        ledger.amended(self)


Fact = Asked | Told | Cancelled | Retracted | Amended
