"""Rules for the radius epsilon_t, computed from the contexts seen so far.

`seen` is a sequence of context indices in time order. `weights` are the weights of these contexts in the reference;
None if all are equal. Before the first context nothing is known, and every rule that learns from data returns inf:
every distribution is possible.

docs/radius.md shows how to choose a rule, and how often each rule's ball held the truth in simulations.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from scipy.special import ndtri

from drbo import validation
from drbo.ambiguity.family import AmbiguitySet, SetOrFamily, as_placed
from drbo.ambiguity.mmd import MMD
from drbo.ambiguity.placed import SupportsLikelihood, supports
from drbo.contexts.nature import Contexts, Indices, Reference
from drbo.contexts.sampled_contexts import contexts_of
from drbo.spaces.samples import Samples
from drbo.validation import FloatArray

__all__ = ["Constant", "Decaying", "EmpiricalLikelihood", "RadiusRule", "Theoretical"]


class RadiusRule(ABC):
    """A rule for the largest shift from the contexts seen so far.

    A custom rule is a subclass with `radius`. It needs `weights` only if contexts have unequal weights.
    """

    learns: ClassVar[bool] = False
    """Whether the radius is infinite until contexts were seen."""

    @property
    def needs_order(self) -> bool:
        """Whether the radius depends on the order in which contexts were seen."""
        return False

    @property
    def needs_times(self) -> bool:
        """Whether `radius` takes the times of the contexts, as `times` (t,) in seconds."""
        return False

    @property
    def lenient(self) -> RadiusRule:
        """The same rule, which warns where it would refuse the data of a past."""
        return self

    @abstractmethod
    def radius(
        self, seen: Indices, ambiguity: SetOrFamily, n_contexts: int, weights: FloatArray | None = None
    ) -> float:
        """Return the radius after the contexts `seen` (t,), indices into n_contexts; `weights` (t,) if they differ."""

    def check(self, contexts: Contexts, ambiguity: AmbiguitySet) -> None:  # noqa: B027  # most rules fit every set
        """Raise if the rule does not support this set on these contexts."""

    def for_samples(self, samples: Samples, ambiguity: AmbiguitySet | None = None) -> float:
        """Return the radius for samples of past conditions, as in an optimizer with these contexts.

        The compression error of the samples is included. The set is an MMD by default, as in the optimizer.
        """
        if not isinstance(samples, Samples):
            raise TypeError(f"samples must be Samples of past conditions, got {type(samples).__name__}")
        family = (MMD() if ambiguity is None else ambiguity).with_columns(samples.columns)
        contexts = contexts_of(samples, family)
        self.check(contexts, family)
        reference, space = contexts.seen([]), contexts.space
        placed = family.on(space.measured(reference.points), space.scales)
        return self.radius_of(reference, placed) + reference.error

    def radius_of(self, reference: Reference, ambiguity: SetOrFamily) -> float:
        """Return `radius` for the past contexts of a reference, with weights and times only if the rule needs them."""
        more: dict[str, Any] = {}
        if reference.history_weights is not None:
            more["weights"] = reference.history_weights
        if self.needs_times:
            more["times"] = reference.history_times
        return self.radius(reference.history, ambiguity, len(reference.points), **more)


def check_learnable(rule: RadiusRule, ambiguity: SetOrFamily) -> None:
    """Raise if the past says nothing about the radius of this set."""
    if ambiguity.growth.never_learned:
        raise TypeError(
            f"radius={type(rule).__name__}(...) has no answer for {ambiguity!r}. {ambiguity.growth.never_learned}"
        )


def effective_number(count: int, weights: FloatArray | None) -> float:
    """Return the effective sample size n_eff = (sum w)^2 / sum w^2; `count` without weights."""
    if weights is None or count == 0:
        return float(count)
    if weights.shape != (count,):
        raise ValueError(f"weights must be {count}, one per context seen, got shape {weights.shape}")
    return float(weights.sum() ** 2 / (weights**2).sum())


@dataclass(frozen=True)
class Constant(RadiusRule):
    """A constant radius; a plain number means the same."""

    value: float

    def __post_init__(self) -> None:
        validation.radius(self.value, "value")

    def radius(
        self, seen: Indices, ambiguity: SetOrFamily, n_contexts: int, weights: FloatArray | None = None
    ) -> float:
        del seen, ambiguity, n_contexts, weights
        return self.value


@dataclass(frozen=True)
class Own(RadiusRule):
    """The radius defined by the set itself, such as `Moments`."""

    def check(self, contexts: Contexts, ambiguity: AmbiguitySet) -> None:
        """Raise if the set has no radius of its own."""
        del contexts
        if ambiguity.growth.own is None:
            raise TypeError(f"radius must be given for {ambiguity!r}: a number, or a rule of drbo.radius")

    def radius(
        self, seen: Indices, ambiguity: SetOrFamily, n_contexts: int, weights: FloatArray | None = None
    ) -> float:
        del seen, n_contexts, weights
        if ambiguity.growth.own is None:
            raise TypeError(f"radius must be given for {ambiguity!r}: the set does not define one")
        return ambiguity.growth.own


@dataclass(frozen=True)
class Theoretical(RadiusRule):
    """The radius of Corollary 4: the truth lies within it at all times with probability 1 - delta / 3.

    eps_t = factor * (2 + sqrt(2 log(6 t^2 / delta))) / sqrt(t)   after t contexts, drawn independently.

    The bound is for the MMD with k_M <= 1 (Lemma 3, with a union bound over t); for a larger kernel it is scaled by
    sqrt(max k_M). No MMD then exceeds sqrt(2), so this radius is the pure worst case for the first dozens of rounds. To
    trade the guarantee for performance, use a factor below 1, or a rule that learns from the data. For other sets it is
    the number that the paper's comparison uses, without a guarantee. If contexts have unequal weights, t in 1 / sqrt(t)
    is their effective sample size, as in the bounded-differences inequality behind Lemma 3.
    """

    learns: ClassVar[bool] = True

    delta: float = 0.1
    factor: float = 1.0

    def __post_init__(self) -> None:
        validation.probability("delta", self.delta)
        validation.positive_float("factor", self.factor)

    def check(self, contexts: Contexts, ambiguity: AmbiguitySet) -> None:
        """Raise for sets whose radius the past says nothing about."""
        del contexts
        check_learnable(self, ambiguity)

    def radius(
        self, seen: Indices, ambiguity: SetOrFamily, n_contexts: int, weights: FloatArray | None = None
    ) -> float:
        """Return eps_t, inf for t = 0."""
        del n_contexts
        t = len(seen)
        if t == 0:
            return math.inf
        width = 2.0 + math.sqrt(2.0 * math.log(6.0 * t**2 / self.delta))
        return self.factor * as_placed(ambiguity).growth.unit * width / math.sqrt(effective_number(t, weights))


@dataclass(frozen=True)
class Decaying(RadiusRule):
    """A radius that shrinks with the number of contexts seen: eps_t = scale / t^power.

    If contexts have unequal weights, t is their effective sample size.
    """

    learns: ClassVar[bool] = True

    scale: float
    power: float = 0.5

    def __post_init__(self) -> None:
        validation.positive_float("scale", self.scale)
        validation.positive_float("power", self.power)

    def radius(
        self, seen: Indices, ambiguity: SetOrFamily, n_contexts: int, weights: FloatArray | None = None
    ) -> float:
        """Return scale / t^power, inf for t = 0."""
        del ambiguity, n_contexts
        return self.scale / effective_number(len(seen), weights) ** self.power if len(seen) else math.inf


@dataclass(frozen=True)
class EmpiricalLikelihood(RadiusRule):
    """The radius of KL or chi-square balls that covers the expected reward of an action with probability `confidence`.

    eps_t = z^2 / (2 t) for KL,   z^2 / t for chi-square,   with z the one-sided normal quantile of the confidence.

    Such a ball around an empirical distribution of continuous samples never holds the truth. It covers the *value*: the
    worst case is below the true expectation with about this probability, for a fixed action and t independent contexts
    (Duchi, Glynn and Namkoong). The rule protects against sampling error, not against drift. It holds less often where
    the reward of an action is skewed downwards or has a heavy lower tail, or where days resemble each other
    (docs/radius.md). If contexts have unequal weights, t is their effective sample size.
    """

    learns: ClassVar[bool] = True

    confidence: float = 0.95

    def __post_init__(self) -> None:
        validation.probability("confidence", self.confidence)
        if self.confidence < 0.5:
            raise ValueError(f"confidence must be at least 0.5, got {self.confidence}")

    def check(self, contexts: Contexts, ambiguity: AmbiguitySet) -> None:
        """Raise for sets without such a radius."""
        del contexts
        _with_likelihood(ambiguity)

    def radius(
        self, seen: Indices, ambiguity: SetOrFamily, n_contexts: int, weights: FloatArray | None = None
    ) -> float:
        """Return z^2 / (2 t) or z^2 / t, inf for t = 0."""
        del n_contexts
        per_context = _with_likelihood(ambiguity).likelihood_radius(float(ndtri(self.confidence)))
        return per_context / effective_number(len(seen), weights) if len(seen) else math.inf


def _with_likelihood(ambiguity: SetOrFamily) -> SupportsLikelihood:
    """Return the set as one with a likelihood radius, or say that it has none."""
    if supports(ambiguity, SupportsLikelihood):
        return ambiguity
    instead = ambiguity.growth.instead_of_a_rule or "Use drbo.radius.Bootstrap or drbo.radius.Calibrated."
    raise TypeError(
        f"radius=EmpiricalLikelihood(...) is for drbo.KL() and drbo.ChiSquare(), got {ambiguity!r}. {instead}"
    )


def as_rule(name: str, value: Any) -> RadiusRule:
    """Return a rule unchanged, and a number as a constant rule."""
    if isinstance(value, RadiusRule):
        return value
    return Constant(validation.radius(value, name))
