"""How large the radius epsilon_t must be: rules that turn the contexts seen so far into a radius.

`seen` is a sequence of context indices in the order of time. Before the first context nothing is known, and every rule
that learns from data answers inf: every distribution is possible.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from drbo import validation
from drbo.ambiguity.contract import AmbiguitySet
from drbo.ambiguity.reference import Indices, empirical


class RadiusRule(ABC):
    """A rule that says how far the world may be from what has been seen."""

    @abstractmethod
    def radius(self, seen: Indices, ambiguity: AmbiguitySet, n_contexts: int) -> float:
        """Return the radius after the contexts `seen` (t,), indices into n_contexts contexts."""


@dataclass(frozen=True)
class Constant(RadiusRule):
    """The same radius at all times; a plain number stands for it."""

    value: float

    def __post_init__(self) -> None:
        validation.radius(self.value)

    def radius(self, seen: Indices, ambiguity: AmbiguitySet, n_contexts: int) -> float:
        """Return the constant."""
        del seen, ambiguity, n_contexts
        return self.value


@dataclass(frozen=True)
class Theoretical(RadiusRule):
    """The radius of Corollary 4: the truth lies within it at all times with probability 1 - delta / 3.

    eps_t = factor * (2 + sqrt(2 log(6 t^2 / delta))) / sqrt(t)   after t contexts, drawn independently.

    The bound is for the MMD with k_M <= 1 (Lemma 3, with a union bound over t); for a larger kernel it is scaled by
    sqrt(max k_M). As no MMD then exceeds sqrt(2), it is the pure worst case for the first dozens of rounds: use a
    factor below 1, or a rule that learns from the data, where the guarantee may be traded for performance. For other
    sets it is the number that the paper's comparison uses, without a guarantee.
    """

    delta: float = 0.1
    factor: float = 1.0

    def __post_init__(self) -> None:
        validation.probability("delta", self.delta)
        validation.positive_float("factor", self.factor)

    def radius(self, seen: Indices, ambiguity: AmbiguitySet, n_contexts: int) -> float:
        """Return eps_t, inf for t = 0."""
        del n_contexts
        t = len(seen)
        if t == 0:
            return math.inf
        return self.factor * ambiguity.scale * (2.0 + math.sqrt(2.0 * math.log(6.0 * t**2 / self.delta))) / math.sqrt(t)


@dataclass(frozen=True)
class Decaying(RadiusRule):
    """A radius that shrinks with the number of contexts seen: eps_t = scale / t^power."""

    scale: float
    power: float = 0.5

    def __post_init__(self) -> None:
        validation.positive_float("scale", self.scale)
        validation.positive_float("power", self.power)

    def radius(self, seen: Indices, ambiguity: AmbiguitySet, n_contexts: int) -> float:
        """Return scale / t^power, inf for t = 0."""
        del ambiguity, n_contexts
        return self.scale / len(seen) ** self.power if len(seen) else math.inf


@dataclass(frozen=True)
class Bootstrap(RadiusRule):
    """The radius that holds the truth with probability about 1 - delta, by resampling what has been seen.

    eps_t = sqrt(t / (t - 1)) * the (1 - delta)-quantile of distance(P, distribution of t draws from P),

    P_i = (t_i + 1/2) / (t + n/2): the distribution of the t contexts seen, with half a count more (Jeffreys), for
    contexts drawn independently from one distribution; inf before the second one. Smoothing matters: P stands for the
    truth, which has contexts that the sample does not, and the plain bootstrap covers too rarely for that reason. Sets
    that stay on the reference's support (KL, chi-square, CVaR) cannot hold such a truth: their radius is inf until a
    sample is likely to show every context. The guarantee is for one t, not for all of them at once.
    """

    delta: float = 0.1
    resamples: int = 500
    seed: int = 0

    def __post_init__(self) -> None:
        validation.probability("delta", self.delta)
        validation.whole_number("resamples", self.resamples, least=1)
        validation.whole_number("seed", self.seed, least=0)

    def radius(self, seen: Indices, ambiguity: AmbiguitySet, n_contexts: int) -> float:
        """Return the quantile of the resamples of `seen`."""
        t = len(seen)
        if t < 2:
            return math.inf
        smooth = (np.bincount(seen, minlength=n_contexts) + 0.5) / (t + 0.5 * n_contexts)
        counts = np.random.default_rng(self.seed).multinomial(t, smooth / smooth.sum(), size=self.resamples)
        distances = [ambiguity.distance(smooth, sample / t) for sample in counts]
        return math.sqrt(t / (t - 1)) * float(np.quantile(distances, 1.0 - self.delta, method="higher"))


@dataclass(frozen=True)
class Calibrated(RadiusRule):
    """The radius that would have held what followed in a given share of the past, for conditions that drift.

    eps_t = the quantile of distance(distribution of the `horizon` contexts that followed, distribution of a window)

    over the past windows of `window` contexts each. The horizon is as long as the window if not given; the window is a
    fifth of what has been seen if not given. Before one window and its horizon have passed the radius is inf.
    """

    quantile: float = 0.9
    window: int | None = None
    horizon: int | None = None

    def __post_init__(self) -> None:
        validation.probability("quantile", self.quantile)
        for name, value in (("window", self.window), ("horizon", self.horizon)):
            if value is not None:
                validation.whole_number(name, value, least=1)

    def radius(self, seen: Indices, ambiguity: AmbiguitySet, n_contexts: int) -> float:
        """Return the quantile over at most 1,000 evenly spaced windows of `seen`."""
        window = self.window or max(len(seen) // 5, 1)
        horizon = self.horizon or window
        starts = len(seen) - window - horizon + 1
        if starts < 1:
            return math.inf
        distances = [
            ambiguity.distance(
                empirical(seen[i + window : i + window + horizon], n_contexts),
                empirical(seen[i : i + window], n_contexts),
            )
            for i in np.unique(np.linspace(0, starts - 1, min(starts, 1000)).astype(int))
        ]
        return float(np.quantile(distances, self.quantile, method="higher"))


def as_rule(name: str, value: Any) -> RadiusRule:
    """Return a rule as it is, and a plain number as the constant rule."""
    if isinstance(value, RadiusRule):
        return value
    return Constant(validation.radius(value, name))
