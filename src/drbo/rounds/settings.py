"""The three settings of the paper: they define who provides the reference and the radius of a round."""

from __future__ import annotations

import dataclasses
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from drbo import validation
from drbo.ambiguity.family import AmbiguitySet
from drbo.ambiguity.placed import PlacedSet
from drbo.contexts.nature import Contexts, Indices, Memory, Reference
from drbo.rounds.context_rules import Informative, Pessimistic, Uncertain
from drbo.rounds.policies import Optimism, Policy
from drbo.rounds.radius_rules import Own, RadiusRule, Theoretical, as_rule
from drbo.rounds.value_of_information import ValueOfInformation
from drbo.spaces.samples import Samples
from drbo.spaces.space import Point
from drbo.validation import FloatArray

__all__ = ["DataDriven", "General", "Setting", "Simulator"]


class Setting(ABC):
    """A protocol between the learner and its environment: who provides the reference and the radius of a round.

    A new setting is a subclass with `reference_of` and `radius_of`; its `policy` defines who picks the context.
    """

    events: int = 1
    """The number of events that share the failure probability delta, for `TheoreticalBeta`."""
    theorem: str | None = None
    """The theorem that bounds the regret of the paper's policy if nature picks contexts; None if there is none."""
    computes_reference: bool = False
    """Whether the setting computes the reference of every round; a query may still be about another one."""
    delta: float | None = None
    """The delta of the radius, which the theorem requires of the width, too; None if any delta is allowed."""

    @property
    def past(self) -> Indices:
        """The indices (t,) of past contexts given with the setting, in time order; none by default."""
        return np.empty(0, dtype=np.intp)

    @property
    def policy(self) -> Policy:
        """The default policy of the setting: optimism, and nature picks contexts."""
        return Optimism()

    @property
    def checked(self) -> bool:
        """Whether `Checked` wraps the default policy for a surrogate that learns: True if no policy was named."""
        return False

    def check(self, contexts: Contexts) -> None:  # noqa: B027  # most settings accept any contexts
        """Raise if the setting does not match the contexts."""

    def check_policy(self, policy: Policy) -> None:  # noqa: B027  # most settings name no policy
        """Raise if the setting itself names a different policy."""

    def check_radius(self, contexts: Contexts, ambiguity: AmbiguitySet) -> None:  # noqa: B027  # most have no rule
        """Raise if the setting's radius rule does not support this set on these contexts."""

    @abstractmethod
    def reference_of(self, given: Any, contexts: Contexts, seen: Sequence[Point]) -> Reference:
        """Return the reference of this round.

        `given` is the caller's value for this round, or None. `seen` are the contexts observed so far.
        """

    @abstractmethod
    def radius_of(self, given: Any, reference: Reference, ambiguity: PlacedSet) -> float:
        """Return the radius of this round; `given` is the caller's value, or None."""


class General(Setting):
    """The environment provides a reference and a radius in every round (algorithm 1)."""

    events = 2
    theorem = "Theorem 2"

    def __repr__(self) -> str:
        return "General()"

    def __eq__(self, other: object) -> bool:
        return type(other) is General

    def __hash__(self) -> int:
        return hash(General)

    def arguments(self) -> dict[str, Any]:
        """Return the constructor arguments: none."""
        return {}

    def reference_of(self, given: Any, contexts: Contexts, seen: Sequence[Point]) -> Reference:
        """Return the caller's reference, by default the samples given as contexts."""
        del seen
        own = contexts.own() if given is None else contexts.given(given)
        if own is None:
            raise TypeError("reference is missing: the general setting needs ask(reference=..., radius=...)")
        return own

    def radius_of(self, given: Any, reference: Reference, ambiguity: PlacedSet) -> float:
        """Return the caller's radius, by default the set's own radius if it has one."""
        del reference
        if given is None and ambiguity.growth.own is not None:
            return ambiguity.growth.own
        if given is None:
            raise TypeError("radius is missing: the general setting needs ask(reference=..., radius=...)")
        return validation.radius(given)


class DataDriven(Setting):
    """A setting whose reference is the empirical distribution of the contexts seen (section 3.2, Corollary 4).

    Parameters
    ----------
    delta : the failure probability of the guarantee, for the theoretical radius
    radius : a rule of `drbo.radius` or a number. The default is the set's own radius if it has one, such as `Moments`,
        from the first context on, and otherwise `drbo.radius.Theoretical(delta)`
    window : the number of newest contexts that count, for conditions that change; all of them by default
    half_life : instead of a window: the weight of a context halves with every `half_life` later contexts. The newest
        one has weight 1

    Contexts given as `Samples` are the past, the oldest first. A radius rule sees only the contexts of the window. With
    a half-life it sees their weights w, and their effective sample size is (sum w)^2 / sum w^2. Corollary 4 bounds the
    regret for the radius `Theoretical(delta)` and a `TheoreticalBeta` with the same delta. No theorem applies to other
    radii, or if the past is forgotten.
    """

    events = 3
    computes_reference = True

    def __init__(
        self,
        delta: float = 0.1,
        radius: RadiusRule | float | None = None,
        *,
        window: int | None = None,
        half_life: float | None = None,
    ) -> None:
        self.delta = validation.probability("delta", delta)
        self.radius = Theoretical(self.delta) if radius is None else as_rule("radius", radius)
        self._memory = Memory(window, half_life)
        of_the_paper = self.radius == Theoretical(self.delta) and not self._memory.forgets
        self.theorem = "Corollary 4" if of_the_paper else None
        self._radius_given = radius is not None

    def __repr__(self) -> str:
        forgetting = "".join(
            f", {name}={value}" for name, value in dataclasses.asdict(self._memory).items() if value is not None
        )
        return f"DataDriven(delta={self.delta}, radius={self.radius}{forgetting})"

    @property
    def window(self) -> int | None:
        """The number of newest contexts that count; None if all do."""
        return self._memory.window

    @property
    def half_life(self) -> float | None:
        """The number of contexts after which a weight halves; None if all weights are equal."""
        return self._memory.half_life

    def arguments(self) -> dict[str, Any]:
        """Return the constructor arguments by name."""
        return {
            "delta": self.delta,
            "radius": self.radius if self._radius_given else None,
            **dataclasses.asdict(self._memory),
        }

    def check(self, contexts: Contexts) -> None:
        """Raise if the contexts have shares, or have counts without the order that a rule needs."""
        own = contexts.own()
        if own is not None and not own.history.size:
            raise ValueError(
                "contexts have shares or a distribution, but the data-driven setting needs past observations: "
                "give counts of at most 10,000,000 in all, such as {'young': 120, 'old': 40}, the labels alone, or "
                "samples"
            )
        _check_order(self.radius, contexts)
        if self._memory.forgets and not contexts.in_order:
            raise ValueError(
                f"{self!r} forgets old labels, so it needs their order in time, and counts of labels have none: give "
                "the labels in order, as a pandas Series"
            )

    def check_radius(self, contexts: Contexts, ambiguity: AmbiguitySet) -> None:
        self.radius.check(contexts, ambiguity)

    def reference_of(self, given: Any, contexts: Contexts, seen: Sequence[Point]) -> Reference:
        return contexts.seen(seen, self._memory) if given is None else contexts.given(given)

    def radius_of(self, given: Any, reference: Reference, ambiguity: PlacedSet) -> float:
        """Return the rule's radius for the contexts seen."""
        if given is not None:
            raise TypeError("radius must not be given: the data-driven setting computes it from the contexts seen")
        if ambiguity.growth.own is not None and not self._radius_given:
            return ambiguity.growth.own if len(reference.history) else math.inf
        return self.radius.radius_of(reference, ambiguity)


class Simulator(Setting):
    """The learner picks the context of every evaluation (algorithm 2).

    The policy picks the context: the policy named by `pick`, or `Optimizer(policy=...)`. Giving both is an error. If a
    policy picks no context, such as `Thompson()`, the caller does: `tell(s, y, context=c)`.

    Reference and radius may also be given for one round, `ask(reference=..., radius=...)`: P_t and epsilon_t of
    algorithm 2.

    Parameters
    ----------
    reference : (n_contexts,) the distribution that the decision is meant for, as weights or counts in the order of the
        contexts, or for labels as a mapping: `{"young": 0.2, "old": 0.8}`. None if the contexts define it: `Samples`,
        and labels with weights
    radius : a number, or a rule of `drbo.radius` that learns it from `history`; optional if the set has its own radius,
        such as `Moments`
    history : (t,) indices of past contexts in time order; their empirical distribution is the reference if none is
        given
    pick : the name of the policy that chooses an evaluation. By default, unless the optimizer has a policy, it is
        "informative"; for a model that learns, `Checked` around it, which also checks the recommended action.
        "informative": the paper's action x_t, and the context whose outcome is most informative about its
        worst-case expectation, argmax_c Cov(f(x_t, c), <w_t, f(x_t, .)>)^2 / (sigma_t^2(x_t, c) + ridge), w_t the worst
        case of the lcb. In a simulator only the final decision counts, and this rule needs fewer evaluations for it
        than the paper's rule: with learned hyper-parameters it had the smaller regret in 57 of 80 runs,
        docs/evidence.md. No theorem bounds its regret.
        "uncertain": the paper's action, and the most uncertain context at x_t, even if it is rare: line 5 of
        algorithm 2, for which Theorem 5 holds.
        "valuable": the pair of action and context whose outcome is worth most for the final decision
        (`ValueOfInformation`); no theorem.
        "pessimistic": the context with the lowest lcb in the worst case, the rule of StableOpt; no theorem
    """

    events = 1

    def __init__(
        self,
        reference: ArrayLike | Mapping[Any, float] | None = None,
        radius: RadiusRule | float | None = None,
        *,
        history: ArrayLike | None = None,
        pick: Literal["uncertain", "informative", "pessimistic", "valuable"] | None = None,
    ) -> None:
        if pick is not None:
            validation.one_of("pick", pick, *_POLICIES)
        self.pick = pick
        self._read = False
        if isinstance(reference, Samples):
            raise TypeError("reference must be weights, one per context; samples are given as contexts=Samples(...)")
        self.reference: FloatArray | dict[Any, float] | None = None
        given = validation.by_name(reference)
        if isinstance(given, Mapping):
            validation.distribution("reference", [*given.values()])
            self.reference = dict(given)
        elif given is not None:
            self.reference = validation.frozen(validation.distribution("reference", given))
        self.radius = Own() if radius is None else as_rule("radius", radius)
        self.history = np.empty(0, dtype=np.intp)
        if history is not None:
            self.history = validation.indices("history", history)
        self.history.flags.writeable = False

    def __repr__(self) -> str:
        pick = "" if self.pick is None else f", pick={self.pick!r}"
        return f"Simulator(radius={self.radius}{pick})"

    def arguments(self) -> dict[str, Any]:
        """Return the constructor arguments by name."""
        history = self.history if self.history.size else None
        return {"reference": self.reference, "radius": self.radius, "history": history, "pick": self.pick}

    @classmethod
    def from_arguments(cls, *, pick: Any = None, **arguments: Any) -> Self:
        """Return the setting of a file; one of version 0.2 names `pick` even if a policy was given, too."""
        made = cls(**arguments, pick=pick)
        made._read = True
        return made

    @property
    def past(self) -> Indices:
        return self.history

    @property
    def checked(self) -> bool:
        return self.pick is None

    @property
    def policy(self) -> Policy:
        return _POLICIES[self.pick or _DEFAULT_PICK]

    def check_policy(self, policy: Policy) -> None:
        """Raise if `pick` was given, too; in a file of version 0.2 both may be set, and then the policy counts."""
        if self.pick is None:
            return
        both = f"setting=Simulator(pick={self.pick!r}) and policy={policy!r}"
        if not self._read:
            raise ValueError(
                f"{both} both say who picks the context: leave out pick, which is the name of a policy, or leave out "
                "policy"
            )
        warnings.warn(
            f"the file has {both}. Only one of them may be given: the policy counts, as in version 0.2, and pick is "
            "ignored",
            UserWarning,
            stacklevel=6,
        )

    def check(self, contexts: Contexts) -> None:
        """Raise if the setting has no reference for these contexts, or one for other contexts."""
        self.reference_of(None, contexts, [])
        if not self.history.size:
            _check_order(self.radius, contexts)

    def check_radius(self, contexts: Contexts, ambiguity: AmbiguitySet) -> None:
        """Raise if the rule does not support this set on these contexts, or learns from a past that is not there."""
        self.radius.check(contexts, ambiguity)
        own = self.reference_of(None, contexts, [])
        if self.radius.learns and not (self.history.size or own.history.size):
            why = (
                f"radius={type(self.radius).__name__}(...) learns from past contexts, and weights alone have none: "
                "the radius would be infinite forever. Give Simulator(history=...), the indices of past "
                "contexts in order of time, or contexts=Samples(past), or a number as the radius"
            )
            if not self._read:
                raise TypeError(why)
            warnings.warn(f"{why}. The loaded run continues as before", UserWarning, stacklevel=6)

    def reference_of(self, given: Any, contexts: Contexts, seen: Sequence[Point]) -> Reference:
        del seen
        if given is not None:
            return contexts.given(given)
        return contexts.chosen(self.reference, self.history)

    def radius_of(self, given: Any, reference: Reference, ambiguity: PlacedSet) -> float:
        """Return the caller's radius for this round, by default the rule's radius for the history."""
        if given is not None:
            return validation.radius(given)
        if self.history.size:
            own = reference.atoms_of(self.history)
            return self.radius.radius_of(replace(reference, history=own, history_weights=None), ambiguity)
        return self.radius.radius_of(reference, ambiguity)


def _check_order(rule: RadiusRule, contexts: Contexts) -> None:
    """Raise if a rule needs the time order and the contexts have counts without one."""
    if rule.needs_order and not contexts.in_order:
        raise ValueError(
            f"radius={rule!r} needs the order of the labels in time, and counts of labels have none: give the labels "
            "in order, as a pandas Series"
        )


_POLICIES: dict[str, Policy] = {
    "uncertain": Optimism(Uncertain()),
    "informative": Optimism(Informative()),
    "pessimistic": Optimism(Pessimistic()),
    "valuable": ValueOfInformation(),
}
_DEFAULT_PICK = "informative"
