"""A policy that checks the recommended action where it would do worst, before it goes on with the search."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from drbo import validation
from drbo.contexts.nature import Contexts
from drbo.models.bounds import LOWER, Bound
from drbo.models.surrogate import Capability, Posterior
from drbo.rounds.ball import Ball
from drbo.rounds.context_rules import Beliefs, ContextRule, Informative
from drbo.rounds.floors import View
from drbo.rounds.policies import Choice, Evaluations, Optimism, Policy, Round, picked
from drbo.rounds.search import Found
from drbo.spaces.space import Point
from drbo.validation import FloatArray

__all__ = ["Checked"]

MOST_OUTSIDE = 0.02
"""The largest mass of a worst distribution outside all evaluated contexts at which a bound counts as checked."""
MOST_UNTRIED = 0.1
"""The same for the contexts in which this action, or one near it, was evaluated."""
_WORTH = (0.1, 0.5)
"""The masses outside all evaluated contexts, and outside those of this action, from which a check is worth it."""
_MARGIN = 0.02
"""A context counts as evaluated up to this share of the range beyond the evaluated ones."""
_FIRST = 3
"""Number of the first suggestion that may be a check."""
_OFTEN = 20
"""From this suggestion on every second one may be a check; before it, every fourth."""


def outside(contexts: FloatArray, evaluated: FloatArray) -> NDArray[np.bool_]:
    """Return whether each context (n, d) is outside the box around the evaluated ones (k, d), with a small margin.

    A label has a coordinate of its own, so a label that was never evaluated is outside.
    """
    if not len(evaluated):
        return np.ones(len(contexts), dtype=bool)
    low, high = evaluated.min(axis=0), evaluated.max(axis=0)
    margin = _MARGIN * (np.maximum(high, contexts.max(axis=0)) - np.minimum(low, contexts.min(axis=0)))
    return np.asarray(((contexts < low - margin) | (contexts > high + margin)).any(axis=1))


@dataclass(frozen=True, eq=False)
class Gap:
    """The part of a worst distribution that was not looked at.

    Attributes
    ----------
    outside : its mass outside the box of all evaluated contexts
    untried : its mass outside the box of the contexts in which this action, or one near it, was evaluated
    at : the index of the context to check
    """

    outside: float
    untried: float
    at: int

    @classmethod
    def of(cls, contexts: FloatArray, weights: FloatArray, action: FloatArray, evaluations: Evaluations) -> Gap:
        """Return the gap of a distribution with weights (n,) on contexts (n, d_c), for an action (d_x,)."""
        everywhere, at = to_check(contexts, weights, evaluations.contexts)
        untried, at_untried = to_check(contexts, weights, evaluations.near(action))
        return cls(everywhere, untried, at if everywhere > MOST_OUTSIDE else at_untried)

    @property
    def open(self) -> bool:
        """Whether the gap is too large for a bound that counts as checked."""
        return self.outside > MOST_OUTSIDE or self.untried > MOST_UNTRIED


def to_check(contexts: FloatArray, weights: FloatArray, evaluated: FloatArray) -> tuple[float, int]:
    """Return the mass of a distribution outside the evaluated contexts (k, d), and the index of the context to check.

    The distribution has weights (n,) on contexts (n, d). The context has the largest product of its weight and its
    distance from the nearest evaluated context, among those outside; the heaviest context if none is outside.
    """
    beyond = outside(contexts, evaluated)
    mass = float(weights[beyond].sum())
    if not len(evaluated) or not weights[beyond].any():
        return mass, int(np.argmax(weights))
    ranges = np.ptp(np.concatenate([contexts, evaluated]), axis=0)
    scale = np.where(ranges > 0.0, ranges, 1.0)
    distance = cdist(contexts / scale, evaluated / scale, "chebyshev").min(axis=1)
    return mass, int(np.argmax(np.where(beyond, weights * distance, -1.0)))


@dataclass(frozen=True)
class Checked(Policy):
    """A policy that checks the recommended action where nobody has looked, and otherwise follows another policy.

    A bound is only as good as the model where the adversary goes. Before every fourth suggestion, and from the 21st on
    before every second one, the recommended action and its worst distribution are computed. If more than a tenth of the
    worst distribution lies outside the contexts evaluated so far, the suggestion is the recommended action in one of
    these contexts: the one of the largest product of weight and distance from the evaluated contexts. Every fourth
    suggestion does the same if more than half lies outside the contexts in which this action, or one near it, was
    evaluated. If nature picks contexts, the suggestion is the recommended action itself. `suggestion.reason` is
    "verify" then.

    With limits, a check also looks at the worst distribution of each limit. The action that is best while its limits
    may hold is often one whose limits can never be known to hold. So every second suggestion is among the actions
    whose limits hold by bounds of half the width, from which the recommended one can come.

    An outcome can refute a bound, and never proves one. No theorem bounds the regret. docs/evidence.md has the measured
    regret beside that of the inner policy.

    Parameters
    ----------
    policy : the policy that searches
    """

    policy: Policy = field(default_factory=lambda: Optimism(Informative()))

    def __post_init__(self) -> None:
        validation.of_kind("policy", self.policy, Policy, "a Policy such as drbo.Thompson()")
        if isinstance(self.policy, Checked):
            raise TypeError("policy must not be Checked itself: one check is enough")

    @property
    def needs(self) -> tuple[Capability, ...]:  # type: ignore[override]  # those of the inner policy
        """The capabilities that the inner policy needs."""
        return self.policy.needs

    @property
    def rule(self) -> ContextRule | None:
        """The rule of the inner policy."""
        return self.policy.rule

    def check(self, prior: Posterior, contexts: Contexts) -> None:
        """Raise if the inner policy does not suit a model."""
        self.policy.check(prior, contexts)

    def choose(self, round: Round, beliefs: Beliefs) -> Choice:
        """Return a check of the recommended action if one is due, otherwise the choice of the inner policy."""
        _, number = round.seed
        due = number % 4 == _FIRST or (number >= _OFTEN and number % 2 == 1)
        found = self._check(round, beliefs) if due else None
        if found is not None:
            return found
        if round.approaching is not None and number % 2 == 1:
            round = replace(round, search=round.approaching)
        return self.policy.choose(round, beliefs)

    def _check(self, round: Round, beliefs: Beliefs) -> Choice | None:
        """Return the check of the recommended action; None if its worst distributions were looked at.

        There is one worst distribution for the objective, and one for each limit. The one with the largest mass outside
        counts. If no action is known to meet the limits, nothing is recommended, and nothing is checked.
        """
        ball: Ball = round.ball
        lower = Bound(beliefs.certain(ball), beliefs.bound_width, LOWER)
        if not beliefs.units.known:
            return None
        found = self._recommended(round, ball, lower)
        if found is None:
            return None
        for one in (beliefs, *(limit.beliefs for limit in round.limits)):
            ball, _ = ball.widened(Bound(one.certain(ball), one.bound_width, LOWER), found.action, found.score)
        evaluated = round.evaluated()
        bound = Bound(beliefs.certain(ball), beliefs.bound_width, LOWER)
        worst = [ball.worst_case(bound.of_action(found.action))]
        worst += [limit.requirement(View.CHECKED).worst(ball, found.action) for limit in round.limits]
        gaps = [Gap.of(ball.contexts, one.weights, found.action.coordinates, evaluated) for one in worst]
        gap = max(gaps, key=lambda one: (one.outside > _WORTH[0], max(one.outside, one.untried)))
        if gap.outside <= _WORTH[0] and (round.seed[1] % 4 != _FIRST or gap.untried <= _WORTH[1]):
            return None
        first: Point = ball.reference.atom(gap.at)
        return picked(self.rule, round, beliefs, ball, found, first, reason="verify")

    @staticmethod
    def _recommended(round: Round, ball: Ball, lower: Bound) -> Found | None:
        """Return the action that would be recommended; None if no action is known to meet the limits."""
        if round.deciding is None:
            return round.search.best(ball, lower, round.near, round.under_way[:0])
        return round.deciding.permitted(ball, lower, round.near)
