"""The answers to queries: recommendations, bounds and probabilities."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from drbo._messages import printable
from drbo.analysis.edges import Edge
from drbo.analysis.trust import Check, Trust
from drbo.contexts.nature import in_words
from drbo.knowledge.claims import FAILURES, Claim
from drbo.knowledge.explanation import Deferred, Explanation, as_html, readable, wrapped
from drbo.rounds.chance import Chance, Event, Of
from drbo.rounds.limits import AnyLimit, in_unit
from drbo.spaces.space import Point, row
from drbo.validation import FloatArray

__all__ = ["NotReachedError"]


@dataclass(frozen=True, eq=False)
class Certainty:
    """The basis of bounds on probabilities and quantiles.

    Attributes
    ----------
    radius, set_words : the set of the worst case, and its distributions in words
    beta, delta : the width of the confidence bounds, which hold in all contexts at once, and their probability of
        failure if a theorem gives one
    claim : the claim about the bounds, with its theorem or measurement
    """

    radius: float
    set_words: str
    beta: float
    delta: float | None
    claim: Claim

    @property
    def word(self) -> str:
        """The word for the bounds: guaranteed by a theorem, otherwise estimated."""
        return "guaranteed" if self.claim.proven else "estimated"

    def __str__(self) -> str:
        confidence = 1.0 if self.delta is None else 1.0 - self.delta
        return wrapped(f"  {self.claim.text.format(beta=self.beta, confidence=confidence)}")


@dataclass(frozen=True, eq=False)
class Probability:
    """The probability of an event in the worst distribution of a set, for one action.

    Attributes
    ----------
    event : f or the outcome is above or below a threshold
    lower : a lower bound of the event's probability in every distribution of the set
    upper : an upper bound of the event's probability in some distribution of the set
    weights : (n_contexts,) the distribution in which the event is least likely by the lower bound
    contexts : the contexts of the weights, in the user's form
    certainty : the basis of the bounds
    """

    event: Event
    lower: float
    upper: float
    weights: FloatArray
    contexts: Any
    certainty: Certainty

    def __str__(self) -> str:
        own = self.certainty
        statement = f"{own.word}: {self.event} with a probability of at least {self.lower:.4g} in every distribution"
        return "\n".join([wrapped(f"{statement} {own.set_words} (at most {self.upper:.4g} in the worst),"), str(own)])

    __repr__ = __str__


@dataclass(frozen=True, eq=False)
class ValueAtRisk:
    """The value that f or the outcome reaches with probability 1 - level in the worst distribution of a set.

    Attributes
    ----------
    level : the share of the worst cases that is ignored
    of : "f" or "outcome"
    value : the bound: every distribution of the set reaches this value (or less, for an outcome to minimise) with
        a probability of at least 1 - level
    reachable : some distribution of the set reaches no better value with that probability
    maximize : whether outcomes are maximised
    certainty : the basis of both bounds
    """

    level: float
    of: Of
    value: float
    reachable: float
    maximize: bool
    certainty: Certainty

    def __str__(self) -> str:
        own, what = self.certainty, "f" if self.of == "f" else "the outcome"
        least = "at least" if self.maximize else "at most"
        statement = f"{own.word}: {what} is {least} {self.value:.4g} with a probability of at least"
        return "\n".join(
            [wrapped(f"{statement} {1.0 - self.level:.4g} in every distribution {own.set_words},"), str(own)]
        )

    __repr__ = __str__


@dataclass(frozen=True, eq=False)
class Classification:
    """The actions by a chance constraint: in, out, or open if neither can be shown. All labels hold at once.

    Attributes
    ----------
    chance : the constraint
    actions : m actions, in the user's form
    lower, upper : (m,) the bounds of the worst-case probability of each
    labels : m of "in", "out" and "open"
    certainty : the basis of the labels
    """

    chance: Chance
    actions: Sequence[Any]
    lower: FloatArray
    upper: FloatArray
    certainty: Certainty

    @property
    def labels(self) -> tuple[str, ...]:
        """Per action "in" if the lower bound meets the constraint, "out" if the upper bound misses it, else "open"."""
        inside, possible = self.chance.met(self.lower), self.chance.met(self.upper)
        return tuple("in" if a else "open" if b else "out" for a, b in zip(inside, possible, strict=True))

    def __str__(self) -> str:
        counts = ", ".join(f"{self.labels.count(label)} {label}" for label in ("in", "out", "open"))
        statement = f"{self.certainty.word}: {counts}; an action is in if {self.chance} in every distribution"
        return "\n".join([wrapped(f"{statement} {self.certainty.set_words},"), str(self.certainty)])

    __repr__ = __str__


FEW_ROWS = 20
"""Number of past contexts below which the reference for `given` is called few."""


class NotReachedError(RuntimeError):
    """No action has a bound that meets the request; the message says how close the best one comes.

    `closest` is the recommendation of the action that comes closest to meeting all limits; None without limits.
    """

    def __init__(self, message: str, closest: Recommendation | None = None) -> None:
        super().__init__(message)
        self.closest = closest


@dataclass(frozen=True)
class RegretBound:
    """The bound on the recommended action's worst-case distance from the best action, in the user's units.

    Attributes
    ----------
    value : the largest possible advantage of any action over the recommended one; infinite without outcomes
    bound : the bound of the recommended action
    reachable : the best possible worst case of all actions that `recommend` may return: once an evaluation has failed,
        those that are likely to fail are passed over
    exhaustive : whether all actions were compared. False on a box: the search for `reachable` may miss a larger one
    claim : the claim about the confidence bounds, with its theorem or measurement
    unit : of the objective; None if not given
    """

    value: float
    bound: float
    reachable: float
    exhaustive: bool
    claim: Claim
    unit: str | None = None

    def __str__(self) -> str:
        if math.isinf(self.value):
            return (
                "nothing bounds the distance from the best action before the first outcome, or while no action is "
                "known to meet the limits"
            )
        word = "guaranteed" if self.claim.proven else "estimated"
        how = "all actions were compared" if self.exhaustive else "found by a search, which may miss better ones"
        return f"{word} to be at most {in_unit(self.value, self.unit)} from the best action in the worst case ({how})"


@dataclass(frozen=True, eq=False)
class LimitBound:
    """The bound of a limited outcome for one action, under its own worst distribution.

    Attributes
    ----------
    name, limit : the name and the limit
    value : the bound: in every distribution of the set the expected outcome is at most this (`AtMost`) or at least this
        (`AtLeast`). For a limit with a probability: the probability of being within the limit is at least this
    threshold : `value` must not exceed it (`AtMost`), or not fall below it (`AtLeast`, and any probability)
    holds : whether the limit is known to hold
    weights : (n_contexts,) the worst distribution for this outcome
    contexts : the contexts of the weights, in the user's form
    beta : the width of the confidence bounds
    claim : the claim about `value`, with its theorem or measurement
    unit : of the outcome, None if it has none
    check : the evaluation that would check `value`
    trusted : the value of `trust`
    """

    name: str
    limit: AnyLimit
    value: float
    threshold: float
    holds: bool
    weights: FloatArray
    contexts: Any
    beta: float
    claim: Claim
    unit: str | None
    check: Check
    trusted: Deferred[Trust] = field(repr=False)

    @property
    def trust(self) -> Trust:
        """The verdict on `value`, with its reasons: "checked", "extrapolated" or "refuted"."""
        return self.trusted.get()

    @property
    def word(self) -> str:
        """The word for the bound: guaranteed by a theorem, estimated, or a guess."""
        return word_of(self.claim, self.trusted)

    def __str__(self) -> str:
        bound, name = f"{self.limit.words} {in_unit(self.value, self.unit)} on average", printable(self.name)
        limit = in_unit(self.threshold, self.unit)
        if self.limit.probability is not None:
            what = "" if self.limit.of == "f" else "with its noise "
            bound = (
                f"{what}{self.limit.words} {in_unit(self.limit.threshold, self.unit)} with a probability of at least"
            )
            bound, limit = f"{bound} {self.value:.4g}", f"a probability of {self.threshold:.4g}"
        known = "" if self.holds else ", not known to hold"
        return f"{name} {bound} in its worst distribution (the limit is {limit}{known})"


def word_of(claim: Claim, trusted: Deferred[Trust]) -> str:
    """Return the word for a bound: guaranteed by a theorem, estimated by a checked model, otherwise a guess."""
    if claim.proven:
        return "guaranteed"
    return "estimated" if trusted.get().verdict == "checked" else "a guess"


@dataclass(frozen=True, eq=False)
class Recommendation:
    """The action to deploy, with its bound.

    Attributes
    ----------
    action, action_index : the action in the user's form, and its index in a finite set
    value : the bound: in every distribution of the set the expected reward is at least this (at most, for an outcome to
        minimise) if the confidence bound holds (`TheoreticalBeta`: with probability 1 - delta). For a model that
        learns, untried conditions count as worse than the model says
    gap : the largest amount by which the worst case may be better than `value`: the worst one found is `value` + `gap`
        (for a cost, `value` - `gap`). Rounding error on finite sets of contexts; unfinished branch and bound on a range
    weights : (n_contexts,) the worst distribution for the action
    contexts : the contexts of the weights, in the user's form
    reference, radius : the ambiguity set of the bound
    diameter : the radius beyond which the set stops growing
    maximize : whether the value is a lower bound on a reward, or an upper one on a cost
    beta, delta : the width of the confidence bounds, and their probability of failure if a theorem gives one
    set_words : the distributions of the set, in words
    claim : the claim about `value`, with its theorem or measurement
    check : the evaluation that would check `value`: the action, in an untried context, if there is one
    action_point : the action as a point of its space
    explanation : the value of `explain`
    trusted : the value of `trust`
    at_edges : the value of `edges`
    given : the known part of the context; None if nothing is known
    limits : the bounds of the limited outcomes by name, each under its own worst distribution
    outcome, unit : the name and the unit of the objective; None if not given
    success : the estimated probability that an evaluation of the action succeeds, under the reference; None if no
        evaluation has failed
    rows : the number of past contexts that the reference for `given` rests on; None without `given` or a past
    approximation : how the action was searched and what the bound rests on, in words, if there are too many outcomes
        for one exact posterior; otherwise None
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
    set_words: str
    claim: Claim
    check: Check
    action_point: Point
    explanation: Deferred[Explanation] = field(repr=False)
    trusted: Deferred[Trust] = field(repr=False)
    at_edges: Deferred[tuple[Edge, ...]] = field(repr=False)
    given: Mapping[Any, Any] | None = None
    limits: Mapping[str, LimitBound] = field(default_factory=dict)
    outcome: str | None = None
    unit: str | None = None
    success: float | None = None
    rows: int | None = None
    approximation: str | None = None

    def explain(self) -> Explanation:
        """Return the explanation of `value`: the worst conditions beside the reference, and the causes of the loss.

        The explanation uses the outcomes of the recommendation; later outcomes do not change it.
        """
        return self.explanation.get()

    @property
    def trust(self) -> Trust:
        """The verdict on `value`, with its reasons: "checked", "extrapolated" or "refuted"."""
        return self.trusted.get()

    @property
    def edges(self) -> tuple[Edge, ...]:
        """The parameters at the edge of their range where a wider range may give a better bound, best first."""
        return self.at_edges.get()

    def __str__(self) -> str:
        confidence = 1.0 if self.delta is None else 1.0 - self.delta
        assurance = self.claim.text.format(beta=self.beta, confidence=confidence)
        known = "" if self.given is None else f" where {in_words(self.given)}"
        known += "" if self.rows is None else f", which {self.rows} past context(s) had"
        few = self.rows is not None and self.rows < FEW_ROWS
        statement = f"{self.statement} on average in every distribution {self.set_words},"
        why = self.explain()
        lines = [
            *self.doubts(),
            wrapped(f"deploy {readable(self.action)}{known}"),
            *([f"warning: a reference of {self.rows} past context(s) may be far from the truth"] if few else []),
            wrapped(statement),
            wrapped(f"  {assurance}{self._left_open()}"),
            *([] if self.approximation is None else [wrapped(self.approximation)]),
            *(wrapped(f"{limit.word}: {limit}") for limit in self.limits.values()),
            *self.failures(),
            *why.parts(),
            *why.conditions(),
        ]
        if not self.claim.proven and self.trust.verdict == "checked":
            lines += [wrapped(reason) for reason in self.trust.reasons]
        return "\n".join([*lines, *why.advice(), *map(str, self.edges)])

    def _repr_html_(self) -> str:
        return as_html(f"Deploy; {self.statement}", row(self.action, "action").items(), str(self))

    @property
    def statement(self) -> str:
        """The bound as text: "guaranteed: at least 3.2"."""
        word = word_of(self.claim, self.trusted)
        if word == "a guess" and self.trust.verdict == "extrapolated" and self.value == self.trust.stressed:
            # It allows for bad outcomes in untried conditions, unless that changes nothing.
            word = "estimated" if self.trust.stressed != self.trust.guess else word
        return self._reaching(word, self.value)

    def statement_of(self, value: float) -> str:
        """Return a value that the action reaches by the model's bound, as text."""
        return self._reaching(word_of(self.claim, self.trusted), value)

    def _reaching(self, word: str, value: float) -> str:
        name = "" if self.outcome is None else f"{printable(self.outcome)} "
        return f"{word}: {name}{'at least' if self.maximize else 'at most'} {in_unit(value, self.unit)}"

    def doubts(self) -> list[str]:
        """Return the verdicts on the bounds that nothing proves and nothing has checked, as lines of text."""
        own = [] if self.claim.proven or self.trust.verdict == "checked" else [str(self.trust)]
        limits = [limit for limit in self.limits.values() if limit.word == "a guess"]
        return [*own, *(wrapped(f"{printable(limit.name)}: {limit.trust.words}") for limit in limits)]

    def failures(self) -> list[str]:
        """Return the estimated probability of success as lines of text, if an evaluation has failed."""
        if self.success is None:
            return []
        said = f"an evaluation of it succeeds with an estimated probability of {self.success:.2f}; {FAILURES}"
        return [wrapped(said)]

    def _left_open(self) -> str:
        """Return the worst case found as text, if it differs visibly from the bound."""
        found = self.value + (self.gap if self.maximize else -self.gap)
        return "" if f"{found:.3g}" == f"{self.value:.3g}" else f"; the worst one found gives {found:.4g}"


@dataclass(frozen=True, eq=False)
class TargetRecommendation:
    """The action that reaches a target under the largest possible shift (`drbo.rounds.satisficing`).

    Attributes
    ----------
    action, action_index : the action in the user's form, and its index in a finite set
    target : in the units of the outcomes
    goal : the criterion of the choice: the largest "radius", or the smallest "fragility"
    radius : a bound: every distribution within this radius reaches the target on average. Infinite if every
        distribution that the set can contain does
    fragility : a bound: at distance d from the reference, the expected outcome misses the target by at most
        fragility * d, in the units of the outcomes. Infinite if nothing is known beyond the reference
    recommendation : the bound of the action at `radius`, with its worst distribution
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
        """The claim about both numbers, with its theorem or measurement."""
        return self.recommendation.claim

    def __str__(self) -> str:
        own = self.recommendation
        more = "less" if own.maximize else "more"
        statement = f"{own.statement_of(self.target)} on average in every distribution {own.set_words}"
        lines = [*own.doubts(), wrapped(f"deploy {readable(self.action)}"), wrapped(statement), *own.failures()]
        if 0.0 < self.fragility < np.inf:
            lines.append(
                wrapped(f"beyond that, at most {self.fragility:.4g} {more} than the target per unit of radius")
            )
        return "\n".join(lines)

    __repr__ = __str__
