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
from numpy.typing import NDArray

from drbo import validation
from drbo.ambiguity import MMD, AmbiguitySet
from drbo.validation import FloatArray

Indices = NDArray[np.intp]


def empirical(seen: Indices, n_contexts: int) -> FloatArray:
    """Return the empirical distribution (n_contexts,) of the contexts seen; uniform if there is none."""
    if len(seen) == 0:
        return np.full(n_contexts, 1.0 / n_contexts)
    return np.bincount(seen, minlength=n_contexts) / len(seen)


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
        scale = ambiguity.scale if isinstance(ambiguity, MMD) else 1.0
        return self.factor * scale * (2.0 + math.sqrt(2.0 * math.log(6.0 * t**2 / self.delta))) / math.sqrt(t)


def as_rule(name: str, value: Any) -> RadiusRule:
    """Return a rule as it is, and a plain number as the constant rule."""
    if isinstance(value, RadiusRule):
        return value
    return Constant(validation.radius(value, name))
