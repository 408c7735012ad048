"""What questions are answered with: what to deploy, bounds on it, and how likely events are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from drbo.contexts.nature import in_words
from drbo.knowledge.claims import Claim
from drbo.knowledge.explanation import Deferred, Explanation, as_html, readable, wrapped
from drbo.rounds.chance import Chance, Event, Of
from drbo.spaces.columns import row
from drbo.spaces.space import Point
from drbo.validation import FloatArray

__all__ = ["NotCertifiedError"]


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


class NotCertifiedError(RuntimeError):
    """No action is certified to do what was asked for; the message says how close the best one comes."""


@dataclass(frozen=True)
class RegretBound:
    """How far the recommended action may be from the best one in its worst case, in the user's units.

    Attributes
    ----------
    value : no action does better than the recommended one by more than this; infinite as long as nothing is known
    guaranteed : the recommended action's certified value
    reachable : the best value that any action that has not failed could still turn out to have in its worst case
    certified : whether all actions were considered. False on a box: `reachable` was searched for there, and a larger
        one may have been missed
    claim : what is claimed of the confidence bounds, and by which theorem or measurement
    """

    value: float
    guaranteed: float
    reachable: float
    certified: bool
    claim: Claim

    def __str__(self) -> str:
        word = "guaranteed" if self.claim.proven else "estimated"
        how = "certified" if self.certified else "searched"
        return f"{word} to be at most {self.value:.4g} from the best action in the worst case ({how})"


@dataclass(frozen=True, eq=False)
class Recommendation:
    """What to deploy.

    Attributes
    ----------
    action, action_index : the action as it was given, and its index in a finite set
    value : certified: in every distribution of the set the expected reward is at least this (at most, for an outcome to
        minimise), as far as the confidence bound holds (`TheoreticalBeta`: with probability 1 - delta)
    gap : how much better than `value` its worst case may be at most: the worst one found is `value` + `gap` (a cost:
        less `gap`). Rounding error on finite sets of contexts; what branch and bound left open on a continuous range
    weights : (n_contexts,) the distribution in which it would do worst
    contexts : the contexts that the weights are for, as they were given
    reference, radius : the ambiguity set that the value is for
    diameter : the radius from which on the set holds every distribution on the contexts that it could hold
    maximize : whether the value is a lower bound on a reward, or an upper one on a cost
    beta, delta : the width of the confidence bounds that it rests on, and the probability that they may fail with, if
        a theorem gives one
    within : which distributions the set holds, in words
    claim : what is claimed of `value`, and by which theorem or measurement
    unseen : the share of the worst distribution on contexts of which the outcomes say little for this action: the
        posterior deviation is there more than half that of the prior
    action_point : the action as a point of its space
    explanation : what `explain` returns
    given : what is known of the context, which the value and the set are for; None if nothing is
    chance : how likely the event of `subject_to` is at least; None if there was no such constraint
    """

    action: Any
    action_index: Any
    value: float
    gap: float
    weights: FloatArray
    contexts: Any
    reference: FloatArray
    radius: float
    diameter: float
    maximize: bool
    beta: float
    delta: float | None
    within: str
    claim: Claim
    unseen: float
    action_point: Point
    explanation: Deferred[Explanation] = field(repr=False)
    given: Mapping[Any, Any] | None = None
    chance: Probability | None = None

    def explain(self) -> Explanation:
        """Return why it promises `value`: the worst conditions beside the reference, and what is to blame.

        The explanation is that of the outcomes which the recommendation rests on, whatever is told later.
        """
        return self.explanation.get()

    def __str__(self) -> str:
        confidence = 1.0 if self.delta is None else 1.0 - self.delta
        assurance = self.claim.text.format(beta=self.beta, confidence=confidence)
        known = "" if self.given is None else f" where {in_words(self.given)}"
        promise = f"{self.promise} on average in every distribution {self.within},"
        why = self.explain()
        lines = [
            wrapped(f"deploy {readable(self.action)}{known}"),
            wrapped(promise),
            wrapped(f"  {assurance}{self._left_open()}"),
            *([] if self.chance is None else [str(self.chance)]),
            *why.parts(),
            *why.conditions(),
        ]
        if self.unseen > 0.5:
            blame = (
                f"{self.unseen:.0%} of it lies where too little is known of this action: it is the model's ignorance, "
                "not a harm that nature is known to do"
            )
            lines.append(wrapped(blame))
        return "\n".join([*lines, *why.advice()])

    def _repr_html_(self) -> str:
        return as_html(f"Deploy; {self.promise}", row(self.action, "action").items(), str(self))

    @property
    def promise(self) -> str:
        """What is promised of it, in a few words: "guaranteed: at least 3.2"."""
        word = "guaranteed" if self.claim.proven else "estimated"
        return f"{word}: {'at least' if self.maximize else 'at most'} {self.value:.4g}"

    def _left_open(self) -> str:
        """Return what lies between the guarantee and the worst case found, in words, if it shows."""
        found = self.value + (self.gap if self.maximize else -self.gap)
        return "" if f"{found:.3g}" == f"{self.value:.3g}" else f"; the worst one found gives {found:.4g}"


@dataclass(frozen=True, eq=False)
class TargetRecommendation:
    """What to deploy in order to reach a target under as large a shift as possible (`drbo.rounds.satisficing`).

    Attributes
    ----------
    action, action_index : the action as it was given, and its index in a finite set
    target : in the units of the outcomes
    goal : what the action was chosen for: the largest "radius", or the least "fragility"
    radius : certified: in every distribution within this radius the target is reached on average. Infinite if it is
        reached in every distribution that the set can hold
    fragility : certified: in every distribution at a distance d from the reference the expected outcome misses the
        target by at most fragility * d, in the units of the outcomes. Infinite if nothing is known beyond the reference
    recommendation : the certificate of the action at `radius`, with its worst distribution
    """

    action: Any
    action_index: Any
    target: float
    goal: str
    radius: float
    fragility: float
    recommendation: Recommendation

    @property
    def claim(self) -> Claim:
        """What is claimed of both numbers, and by which theorem or measurement."""
        return self.recommendation.claim

    def __str__(self) -> str:
        own = self.recommendation
        least, more = ("at least", "less") if own.maximize else ("at most", "more")
        word = "guaranteed" if self.claim.proven else "estimated"
        promise = f"{word}: {least} {self.target:.4g} on average in every distribution {own.within}"
        lines = [wrapped(f"deploy {readable(self.action)}"), wrapped(promise)]
        if 0.0 < self.fragility < np.inf:
            lines.append(wrapped(f"beyond, at most {self.fragility:.4g} {more} than the target per unit of radius"))
        return "\n".join(lines)

    __repr__ = __str__
