"""A policy that checks the recommended action in conditions in which nobody has tried it, and otherwise searches."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.spatial.distance import cdist

from drbo import validation
from drbo.contexts.nature import Contexts
from drbo.models.bounds import LOWER, Bound
from drbo.models.surrogate import Capability, Posterior
from drbo.rounds.ball import Ball
from drbo.rounds.context_rules import Beliefs, ContextRule, Informative
from drbo.rounds.policies import Choice, Evaluations, Optimism, Policy, Round, picked
from drbo.rounds.search import Found
from drbo.spaces.space import Point
from drbo.validation import FloatArray

__all__ = ["Checked"]

MOST_AT_STAKE = 0.05
"""The largest loss by untried conditions at which a bound counts as checked, in deviations of the outcomes."""
MOST_UNTRIED = 0.1
"""The largest mass of the worst distribution in untried conditions at which a bound counts as checked."""
COVERED = 0.3
"""A condition counts as tried up to this distance from a tried one, in shares of the ranges of its columns."""
EDGE = 0.05
"""A condition beyond all tried ones in some column counts as tried up to this share of the range of the column."""
_ROUNDING = 1e-9
"""Tolerance of both distances."""
_OTHER_LABEL = 0.5
"""Two conditions that differ by more than this in one column are never near: another label differs by 1."""
_EVERY = 4
"""Every fourth suggestion may be a check: more of them cost the search more than they gain (docs/evidence.md)."""
_SETTLED = 2
"""An action is checked once it, or one near it, was evaluated so often: before that the search may leave it."""


@dataclass(frozen=True, eq=False)
class Gap:
    """The loss by conditions in which nobody has tried an action.

    A model knows nothing of a cliff that no outcome has shown. So suppose that every untried condition is as bad as the
    worst outcome so far. The adversary then moves there, as far as the set allows.

    Attributes
    ----------
    loss : the fall of the worst-case expectation by that, in the units of the model
    at_stake : the same in deviations of the outcomes
    untried : the mass of the worst distribution in untried conditions
    at : the condition to check
    """

    loss: float
    at_stake: float
    untried: float
    at: Point

    @classmethod
    def of(cls, ball: Ball, bound: Bound, action: Point, evaluations: Evaluations) -> Gap:
        """Return the gap of an action in a set, for a lower bound on the atoms of the set."""
        values, probes = bound.of_action(action), ball.probes()
        if len(probes):
            ball, values = ball.extended(probes), np.append(values, bound.curve(action.coordinates)(probes))
        return cls.of_values(ball, values, action, evaluations)

    @classmethod
    def of_values(cls, ball: Ball, values: FloatArray, action: Point, evaluations: Evaluations) -> Gap:
        """Return the gap of an action in a set, for values (n,) of the action on the atoms."""
        distance = _distances(ball.contexts, evaluations.near(action.coordinates))
        untried = distance > COVERED + _ROUNDING
        usual = ball.worst_case(values)
        stressed = ball.worst_case(np.where(untried, np.minimum(values, evaluations.lowest), values))
        loss = max(float(usual.expectation - stressed.expectation), 0.0)
        # The condition of the largest product of mass and distance.
        worth = np.where(untried, stressed.weights * np.minimum(distance, 1.0), 0.0)
        at = int(np.argmax(worth if worth.any() else stressed.weights))
        mass = float(usual.weights[untried].sum())
        return cls(loss, loss / evaluations.spread, mass, ball.reference.atom(at))

    @property
    def costly(self) -> bool:
        """Whether untried conditions could lower the bound much."""
        return self.at_stake > MOST_AT_STAKE

    @property
    def open(self) -> bool:
        """Whether the gap is too large for a bound that counts as checked."""
        return self.costly or self.untried > MOST_UNTRIED


def _distances(contexts: FloatArray, tried: FloatArray) -> FloatArray:
    """Return the distance (n,) of contexts (n, d) from the nearest tried one (k, d).

    It is the root mean square of the differences in shares of the ranges. It is infinite for another label, and for a
    context that is beyond all tried ones in some column: a model knows less there than between two of them.
    """
    if not len(tried):
        return np.full(len(contexts), np.inf)
    ranges = np.ptp(np.concatenate([contexts, tried]), axis=0)
    scale = np.where(ranges > 0.0, ranges, 1.0)
    a, b = contexts / scale, tried / scale
    apart = np.where(cdist(a, b, "chebyshev") > _OTHER_LABEL, np.inf, cdist(a, b) / np.sqrt(a.shape[1]))
    beyond = np.maximum(b.min(axis=0) - a, a - b.max(axis=0)).max(axis=1) > EDGE + _ROUNDING
    return np.where(beyond, np.inf, apart.min(axis=1))


@dataclass(frozen=True)
class Checked(Policy):
    """A policy that checks the recommended action where nobody has tried it, and otherwise follows another policy.

    A bound is only as good as the model where the adversary goes, and a model knows nothing of a cliff that no outcome
    has shown. Before every fourth suggestion the recommended action is computed. If it, or one near it, has fewer than
    two evaluations, the search may leave it, and nothing is checked. Otherwise suppose that every condition far from
    those of these evaluations is as bad as the worst outcome so far. If that would lower the bound by more than a
    twentieth of the outcomes' deviation, the suggestion is the recommended action in one of these conditions: the one
    of the largest product of its mass and its distance from the tried ones. If nature picks contexts, the suggestion is
    the recommended action itself. `suggestion.reason` is "verify" then.

    With limits, a check also looks at what is at stake for each limit. The action that is best while its limits
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
        found = self._check(round, beliefs) if number % _EVERY == _EVERY - 1 else None
        if found is not None:
            return found
        if round.approaching is not None and number % 2 == 1:
            round = replace(round, search=round.approaching)
        return self.policy.choose(round, beliefs)

    def _check(self, round: Round, beliefs: Beliefs) -> Choice | None:
        """Return the check of the recommended action; None if it is new, or was tried where it may do badly.

        The objective and every limit have their own adversary; the largest gap counts. If no action is known to meet
        the limits, nothing is recommended, and nothing is checked.
        """
        ball: Ball = round.ball
        lower = Bound(beliefs.certain(ball), beliefs.bound_width, LOWER)
        if not beliefs.units.known:
            return None
        found = self._recommended(round, lower)
        if found is None or len(round.evaluated(beliefs).near(found.action.coordinates)) < _SETTLED:
            return None
        gaps = []
        for one in (beliefs, *(limit.beliefs for limit in round.limits)):
            bound = Bound(one.certain(ball), one.bound_width, LOWER)
            ball, _ = ball.widened(bound, found.action, found.score)
            bound = Bound(one.certain(ball), one.bound_width, LOWER)
            gaps.append(Gap.of(ball, bound, found.action, round.evaluated(one)))
        gap = max(gaps, key=lambda one: one.at_stake)
        return picked(self.rule, round, beliefs, ball, found, gap.at, reason="verify") if gap.costly else None

    @staticmethod
    def _recommended(round: Round, lower: Bound) -> Found | None:
        """Return the action that would be recommended; None if no action is known to meet the limits."""
        if round.deciding is not None:
            return round.deciding.permitted(round.ball, lower, round.near)
        return round.search.best(round.ball, lower, round.near, round.under_way[:0])
