"""How large the radius epsilon_t must be: rules that turn the contexts seen so far into a radius.

`seen` is a sequence of context indices in the order of time, `weights` say how much each of them counts in the
reference; None if all count the same. Before the first context nothing is known, and every rule that learns from data
answers inf: every distribution is possible.

docs/radius.md shows how to choose a rule, and how often each of them held the truth in simulations.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from scipy.special import ndtri

from drbo import validation
from drbo.ambiguity.family import AmbiguitySet, SetOrFamily, as_placed
from drbo.ambiguity.mmd import MMD
from drbo.ambiguity.placed import SupportsLikelihood, advice_of, supports, unit_of
from drbo.contexts.nature import Contexts
from drbo.contexts.reference import Indices
from drbo.contexts.sampled_contexts import SampledContexts
from drbo.spaces.samples import Samples
from drbo.validation import FloatArray

__all__ = ["Constant", "Decaying", "EmpiricalLikelihood", "RadiusRule", "Theoretical"]


class RadiusRule(ABC):
    """A rule that says how far the world may be from what has been seen.

    A rule of one's own is a subclass with `radius`. It needs `weights` only where contexts count unequally.
    """

    @property
    def needs_order(self) -> bool:
        """Whether the radius depends on the order in which contexts were seen."""
        return False

    @abstractmethod
    def radius(
        self, seen: Indices, ambiguity: SetOrFamily, n_contexts: int, weights: FloatArray | None = None
    ) -> float:
        """Return the radius after the contexts `seen` (t,), indices into n_contexts contexts.

        `weights` (t,) say how much each of them counts, None if all count the same.
        """

    def check(self, contexts: Contexts, ambiguity: AmbiguitySet) -> None:  # noqa: B027  # most rules fit every set
        """Raise if the rule has no answer for this set on these contexts."""

    def for_samples(self, samples: Samples, ambiguity: AmbiguitySet | None = None) -> float:
        """Return the radius for samples of past conditions, as an optimizer with these contexts would use it.

        What compressing the samples costs is included. The set is an MMD by default, as in the optimizer.
        """
        if not isinstance(samples, Samples):
            raise TypeError(f"samples must be Samples of past conditions, got {type(samples).__name__}")
        family = (MMD() if ambiguity is None else ambiguity).with_columns(samples.space.columns)
        contexts = SampledContexts(samples, family, seed=0)
        self.check(contexts, family)
        reference, space = contexts.seen([]), contexts.space
        placed = family.on(space.measured(reference.points), space.scales)
        past, n = reference.history, len(reference.points)
        return self.radius_of(past, placed, n, reference.history_weights) + reference.error

    def radius_of(self, seen: Indices, ambiguity: SetOrFamily, n_contexts: int, weights: FloatArray | None) -> float:
        """Return `radius`; a rule of one's own that knows no weights is asked without, where there are none."""
        if weights is None:
            return self.radius(seen, ambiguity, n_contexts)
        return self.radius(seen, ambiguity, n_contexts, weights=weights)


def effective_number(count: int, weights: FloatArray | None) -> float:
    """Return how many equally weighted contexts tell as much: n_eff = (sum w)^2 / sum w^2, `count` without weights."""
    if weights is None or count == 0:
        return float(count)
    if weights.shape != (count,):
        raise ValueError(f"weights must be {count}, one per context seen, got shape {weights.shape}")
    return float(weights.sum() ** 2 / (weights**2).sum())


@dataclass(frozen=True)
class Constant(RadiusRule):
    """The same radius at all times; a plain number stands for it."""

    value: float

    def __post_init__(self) -> None:
        validation.radius(self.value, "value")

    def radius(
        self, seen: Indices, ambiguity: SetOrFamily, n_contexts: int, weights: FloatArray | None = None
    ) -> float:
        """Return the constant."""
        del seen, ambiguity, n_contexts, weights
        return self.value


@dataclass(frozen=True)
class Own(RadiusRule):
    """The radius that a set in the user's words has by itself, such as `Moments`: it is what these words say."""

    def check(self, contexts: Contexts, ambiguity: AmbiguitySet) -> None:
        """Raise if the set has no radius of its own."""
        del contexts
        if ambiguity.growth.own is None:
            raise TypeError(f"radius must be given for {ambiguity!r}: a number, or a rule of drbo.radius")

    def radius(
        self, seen: Indices, ambiguity: SetOrFamily, n_contexts: int, weights: FloatArray | None = None
    ) -> float:
        """Return the set's own radius."""
        del seen, n_contexts, weights
        if ambiguity.growth.own is None:
            raise TypeError(f"radius must be given for {ambiguity!r}: it has none of its own")
        return ambiguity.growth.own


@dataclass(frozen=True)
class Theoretical(RadiusRule):
    """The radius of Corollary 4: the truth lies within it at all times with probability 1 - delta / 3.

    eps_t = factor * (2 + sqrt(2 log(6 t^2 / delta))) / sqrt(t)   after t contexts, drawn independently.

    The bound is for the MMD with k_M <= 1 (Lemma 3, with a union bound over t); for a larger kernel it is scaled by
    sqrt(max k_M). As no MMD then exceeds sqrt(2), it is the pure worst case for the first dozens of rounds: use a
    factor below 1, or a rule that learns from the data, where the guarantee may be traded for performance. For other
    sets it is the number that the paper's comparison uses, without a guarantee. Contexts that count unequally are as
    many as their effective number in 1 / sqrt(t), as in the bounded-differences inequality behind Lemma 3.
    """

    delta: float = 0.1
    factor: float = 1.0

    def __post_init__(self) -> None:
        validation.probability("delta", self.delta)
        validation.positive_float("factor", self.factor)

    def radius(
        self, seen: Indices, ambiguity: SetOrFamily, n_contexts: int, weights: FloatArray | None = None
    ) -> float:
        """Return eps_t, inf for t = 0."""
        del n_contexts
        t = len(seen)
        if t == 0:
            return math.inf
        width = 2.0 + math.sqrt(2.0 * math.log(6.0 * t**2 / self.delta))
        return self.factor * unit_of(as_placed(ambiguity)) * width / math.sqrt(effective_number(t, weights))


@dataclass(frozen=True)
class Decaying(RadiusRule):
    """A radius that shrinks with the number of contexts seen: eps_t = scale / t^power.

    t is the effective number where contexts count unequally.
    """

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
    """The radius of KL or chi-square balls that covers the expected reward of an action, with probability `confidence`.

    eps_t = z^2 / (2 t) for KL,   z^2 / t for chi-square,   z the one-sided normal quantile of the confidence.

    The truth is never inside of such a ball round an empirical distribution of continuous samples. Its *value* is
    covered: the worst case is below the true expectation with about that probability, for a fixed action, with t
    contexts drawn independently (Duchi, Glynn and Namkoong). It is a rule against sampling error, not against drift. t
    is the effective number where contexts count unequally.
    """

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
    instead = advice_of(ambiguity) or "Use drbo.radius.Bootstrap or drbo.radius.Calibrated."
    raise TypeError(
        f"radius=EmpiricalLikelihood(...) is for drbo.KL() and drbo.ChiSquare(), got {ambiguity!r}. {instead}"
    )


def as_rule(name: str, value: Any) -> RadiusRule:
    """Return a rule as it is, and a plain number as the constant rule."""
    if isinstance(value, RadiusRule):
        return value
    return Constant(validation.radius(value, name))
