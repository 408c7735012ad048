"""What the optimizer hands out: suggestions to evaluate, recommendations to deploy, results and predictions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from drbo.ambiguity.contexts import in_words
from drbo.optimizer.claims import Claim
from drbo.optimizer.explanation import Deferred, Explanation, readable, wrapped
from drbo.optimizer.history import Told
from drbo.optimizer.markup import as_html
from drbo.optimizer.probabilities import Probability
from drbo.spaces.rows import row
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
        return [Result(id_, record.number, action, None, record.outcomes[0], False, record.time, stderrs[0], pairs)]
    outcomes = record.outcomes or (None,) * len(values)
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
