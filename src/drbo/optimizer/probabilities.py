"""What is said of probabilities: how likely an event is, what is reached with a probability, which actions are in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from drbo.optimizer.claims import Claim
from drbo.optimizer.explanation import wrapped
from drbo.rounds.chance import Chance, Event, Of
from drbo.validation import FloatArray


@dataclass(frozen=True, eq=False)
class Certainty:
    """What bounds on probabilities and quantiles rest on.

    Attributes
    ----------
    radius, within : the set of the worst case, and which distributions it holds, in words
    beta, delta : the width of the confidence bounds, which hold in all contexts at once, and the probability that they
        may fail with, if a theorem gives one
    claim : what is claimed of the bounds, and by which theorem or measurement
    """

    radius: float
    within: str
    beta: float
    delta: float | None
    claim: Claim

    @property
    def word(self) -> str:
        """The word for it: guaranteed, if a theorem says so, otherwise estimated."""
        return "guaranteed" if self.claim.proven else "estimated"

    def __str__(self) -> str:
        confidence = 1.0 if self.delta is None else 1.0 - self.delta
        return wrapped(f"  {self.claim.text.format(beta=self.beta, confidence=confidence)}")


@dataclass(frozen=True, eq=False)
class Probability:
    """The probability of an event in the worst distribution of a set, for one action.

    Attributes
    ----------
    event : that f, or the outcome, is above or below a threshold
    lower : certified: in every distribution of the set the event is at least so likely
    upper : in some distribution of the set the event is at most so likely
    weights : (n_contexts,) the distribution in which the event is least likely by the lower bound
    contexts : the contexts that the weights are for, as they were given
    certainty : what the bounds rest on
    """

    event: Event
    lower: float
    upper: float
    weights: FloatArray
    contexts: Any
    certainty: Certainty

    def __str__(self) -> str:
        own = self.certainty
        promise = f"{own.word}: {self.event} with a probability of at least {self.lower:.4g} in every distribution"
        return "\n".join([wrapped(f"{promise} {own.within} (at most {self.upper:.4g} in the worst),"), str(own)])

    __repr__ = __str__


@dataclass(frozen=True, eq=False)
class ValueAtRisk:
    """What f, or the outcome, reaches with a probability of at least 1 - level in the worst distribution of a set.

    Attributes
    ----------
    level : the share of the worst cases that are left out
    of : "f" or "outcome"
    guaranteed : certified: in every distribution of the set at least this (at most, for an outcome to minimise) with a
        probability of at least 1 - level
    reachable : in some distribution of the set nothing better than this has that probability
    maximize : whether outcomes are maximised
    certainty : what both rest on
    """

    level: float
    of: Of
    guaranteed: float
    reachable: float
    maximize: bool
    certainty: Certainty

    def __str__(self) -> str:
        own, what = self.certainty, "f" if self.of == "f" else "the outcome"
        least = "at least" if self.maximize else "at most"
        promise = f"{own.word}: {what} is {least} {self.guaranteed:.4g} with a probability of at least"
        return "\n".join([wrapped(f"{promise} {1.0 - self.level:.4g} in every distribution {own.within},"), str(own)])

    __repr__ = __str__


@dataclass(frozen=True, eq=False)
class Classification:
    """Which actions meet a chance constraint: in, out, or open as long as too little is known. All labels hold at once.

    Attributes
    ----------
    chance : the constraint
    actions : m actions as they were given
    lower, upper : (m,) the bounds of the worst-case probability of each
    labels : m of "in", "out" and "open"
    certainty : what the labels rest on
    """

    chance: Chance
    actions: Sequence[Any]
    lower: FloatArray
    upper: FloatArray
    certainty: Certainty

    @property
    def labels(self) -> tuple[str, ...]:
        """For each action "in" if it is certified to meet the constraint, "out" if not to meet it, otherwise "open"."""
        inside, possible = self.chance.met(self.lower), self.chance.met(self.upper)
        return tuple("in" if a else "open" if b else "out" for a, b in zip(inside, possible, strict=True))

    def __str__(self) -> str:
        counts = ", ".join(f"{self.labels.count(label)} {label}" for label in ("in", "out", "open"))
        promise = f"{self.certainty.word}: {counts}; an action is in if {self.chance} in every distribution"
        return "\n".join([wrapped(f"{promise} {self.certainty.within},"), str(self.certainty)])

    __repr__ = __str__
