"""Who provides the reference and the radius, and who picks the context: the three settings of the paper."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from drbo import validation
from drbo.ambiguity import AmbiguitySet
from drbo.rounds.radius import Indices, RadiusRule, Theoretical, as_rule, empirical
from drbo.spaces.samples import Samples
from drbo.validation import FloatArray


@dataclass(frozen=True, eq=False)
class Known:
    """What is known of nature before a round.

    Attributes
    ----------
    seen : (t,) the indices of the contexts observed so far, in the order of time; for samples, theirs come first
    ambiguity : the family of sets, for rules that measure distances
    n_contexts : how many contexts there are
    sampled : (n_contexts,) the distribution of the samples, where contexts are samples
    """

    seen: Indices
    ambiguity: AmbiguitySet
    n_contexts: int
    sampled: FloatArray | None = None

    def radius_by(self, rule: RadiusRule, history: Indices) -> float:
        """Return what a rule makes of a history."""
        return rule.radius(history, self.ambiguity, self.n_contexts)


class Setting(ABC):
    """A protocol between the learner and its environment."""

    picks_context: bool = False
    """Whether the learner picks the context of an evaluation, or nature does."""
    needs_ball: bool = False
    """Whether reference and radius are given with every ask, or the setting knows them."""
    events: int
    """How many events share the probability of failure delta, for `TheoreticalBeta`."""

    def check(self, n_contexts: int, sampled: bool) -> None:  # noqa: B027  # most settings fit any contexts
        """Raise if the setting was made for another number of contexts; `sampled`: contexts are samples."""

    @abstractmethod
    def ball(self, reference: ArrayLike | None, radius: Any, known: Known) -> tuple[FloatArray, float]:
        """Return the reference (n_contexts,), not to be changed, and the radius of this round.

        `reference` and `radius` are what the caller gave with this round.
        """


class General(Setting):
    """The environment provides a reference and a radius in every round (algorithm 1)."""

    needs_ball = True
    events = 2

    def __repr__(self) -> str:
        return "General()"

    def ball(self, reference: ArrayLike | None, radius: Any, known: Known) -> tuple[FloatArray, float]:
        """Return what the caller gave."""
        reference = known.sampled if reference is None else reference
        for name, value in (("reference", reference), ("radius", radius)):
            if value is None:
                raise TypeError(f"{name} is missing: the general setting needs ask(reference=..., radius=...)")
        assert reference is not None
        p = validation.distribution("reference", reference, known.n_contexts)
        return validation.frozen(p), validation.radius(radius)


class DataDriven(Setting):
    """The reference is the empirical distribution of the contexts seen (section 3.2 of the paper, Corollary 4).

    Parameters
    ----------
    delta : the probability that the guarantee may fail with, for the theoretical radius
    radius : a rule of `drbo.radius` or a number; `drbo.radius.Theoretical(delta)` by default
    """

    events = 3

    def __init__(self, delta: float = 0.1, radius: RadiusRule | float | None = None) -> None:
        self.delta = validation.probability("delta", delta)
        self.radius = Theoretical(self.delta) if radius is None else as_rule("radius", radius)

    def __repr__(self) -> str:
        return f"DataDriven(delta={self.delta}, radius={self.radius})"

    def ball(self, reference: ArrayLike | None, radius: Any, known: Known) -> tuple[FloatArray, float]:
        """Return the empirical distribution (uniform before the first context) and the rule's radius."""
        _must_be_absent(reference, radius, "the data-driven setting computes it from the contexts seen")
        p = empirical(known.seen, known.n_contexts) if known.sampled is None else known.sampled
        return validation.frozen(p), known.radius_by(self.radius, known.seen)


class Simulator(Setting):
    """The learner picks the context of every evaluation (algorithm 2).

    Parameters
    ----------
    reference : (n_contexts,) the distribution that the decision is meant for; none where contexts are `Samples`, which
        are the reference
    radius : a number, or a rule of `drbo.radius` that learns it from `history`
    history : (t,) indices of past contexts in the order of time; their empirical distribution is the reference if none
        is given
    pick : "uncertain", line 5 of algorithm 2, for which Theorem 5 holds: the context of which we know least at x_t,
        however rare it is. Or "informative", with no theorem: the one whose outcome tells most about the worst-case
        expectation of x_t, argmax_c Cov(f(x_t, c), <w_t, f(x_t, .)>)^2 / (sigma_t^2(x_t, c) + ridge), w_t the worst
        case of the lcb. With hyper-parameters learned it had the smaller regret in 57 of 80 runs, docs/evidence.md
    """

    picks_context = True
    events = 1

    def __init__(
        self,
        reference: ArrayLike | None = None,
        radius: RadiusRule | float | None = None,
        *,
        history: ArrayLike | None = None,
        pick: Literal["uncertain", "informative"] = "uncertain",
    ) -> None:
        if radius is None:
            raise TypeError("Simulator needs a radius: a number, or a rule of drbo.radius")
        if pick not in ("uncertain", "informative"):
            raise ValueError(f'pick must be "uncertain" or "informative", got {pick!r}')
        self.pick = pick
        if isinstance(reference, Samples):
            raise TypeError("reference must be weights, one a context; samples are given as contexts=Samples(...)")
        self.reference = None
        if reference is not None:
            self.reference = validation.frozen(validation.distribution("reference", reference))
        self.radius = as_rule("radius", radius)
        self.history = np.empty(0, dtype=np.intp)
        if history is not None:
            self.history = np.array(history)
            if self.history.ndim != 1 or not np.issubdtype(self.history.dtype, np.integer):
                raise ValueError(f"history must be a flat sequence of context indices, got {history!r}")

    def __repr__(self) -> str:
        return f"Simulator(radius={self.radius}, pick={self.pick!r})"

    def ball(self, reference: ArrayLike | None, radius: Any, known: Known) -> tuple[FloatArray, float]:
        """Return the reference and radius that the simulator was made with."""
        _must_be_absent(reference, radius, "the simulator setting was made with it: Simulator(reference, radius)")
        history = self.history if known.sampled is None else known.seen
        p = self.reference if known.sampled is None else known.sampled
        if p is None:
            p = validation.frozen(empirical(history, known.n_contexts))
        return p, known.radius_by(self.radius, history)

    def check(self, n_contexts: int, sampled: bool) -> None:
        """Raise if the reference or the history is not one of `n_contexts` contexts, or missing."""
        if sampled:
            if self.reference is not None or self.history.size:
                raise TypeError("reference must not be given to Simulator: the samples are the reference")
            return
        if self.reference is None and not self.history.size:
            raise TypeError("Simulator needs a reference distribution, or a history of context indices")
        if self.reference is not None:
            validation.distribution("reference", self.reference, n_contexts)
        if self.history.size and not 0 <= self.history.min() <= self.history.max() < n_contexts:
            raise ValueError(f"history must hold indices from 0 to {n_contexts - 1}, got {self.history}")


def _must_be_absent(reference: ArrayLike | None, radius: Any, reason: str) -> None:
    for name, value in (("reference", reference), ("radius", radius)):
        if value is not None:
            raise TypeError(f"{name} must not be given to ask: {reason}")
