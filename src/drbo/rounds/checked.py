"""A policy that checks the recommended action in conditions in which nobody has tried it, and otherwise searches."""

from __future__ import annotations

from collections.abc import Callable
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
from drbo.rounds.policies import Choice, Evaluations, Optimism, Policy, Round, picked
from drbo.rounds.search import Winner
from drbo.spaces.space import Point
from drbo.validation import FloatArray

__all__ = ["Checked"]

MOST_AT_STAKE = 0.05
"""The largest loss at which a bound counts as checked, if untried conditions are as bad as the worst outcome so far, in
deviations of the outcomes."""
MOST_UNTRIED = 0.1
"""The largest mass of the worst distribution in untried conditions at which a bound counts as checked."""
COVERED = 0.3
"""From this distance from all tried conditions on, in shares of the ranges of the columns, a condition is untried."""
_SAME = 0.03
"""Where a loss is counted, evaluations of actions up to this distance count as those of the action; it is below the
distance of near actions, because the place of a cliff often depends on the action."""
EDGE = 0.05
"""A condition that is beyond all tried ones in some column by more than this share of its range is untried."""
_ROUNDING = 1e-9
"""Tolerance of both distances."""
_OTHER_LABEL = 0.5
"""Two conditions that differ by more than this in one column are never near: another label differs by 1."""
_COMPARED = 32
"""Number of conditions that are compared as the next one to check: the most harmful ones, and as many of the others."""
_EVERY = 4
"""Every fourth suggestion may check a settled action: more of them cost the search more than they gain."""
_SETTLED = 2
"""An action is settled once it, or one near it, was evaluated so often: before that the search may abandon it."""
_MOST_NEW = 8
"""The largest number of parameters that count for the number of evaluations before limits are approached."""
_AT_LEAST_EVERY = 8
"""Every eighth suggestion may check an action that is not settled: in many dimensions few are ever."""


BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Gap:
    """The loss by conditions in which nobody has tried an action.

    A model knows nothing of a cliff that no outcome has shown. So conditions count as worse than the model says, the
    more the further they are from those in which the action was tried:

        value - doubt * min(distance / COVERED, 1)^2 * (value - lowest outcome so far).

    The doubt is 1 before any check. It falls with every check, and rises with every outcome far below its prediction
    (`drbo.knowledge.ahead`). The adversary moves to these conditions as far as the set allows.

    Attributes
    ----------
    loss : the fall of the worst-case expectation by that, in the units of the model
    at_stake : the fall if all untried conditions are as bad as the worst outcome so far, in deviations of the outcomes
    untried : the mass of the worst distribution in untried conditions
    at : the condition to check: the one whose check would reduce what is at stake most
    """

    loss: float
    at_stake: float
    untried: float
    at: Point

    @classmethod
    def of(cls, ball: Ball, bound: Bound, action: Point, evaluations: Evaluations) -> Gap:
        """Return the gap of an action in a set, for a lower bound on the atoms of the set."""
        return cls.of_values(*_probed(ball, bound, action), action, evaluations)

    @classmethod
    def of_values(cls, ball: Ball, values: FloatArray, action: Point, evaluations: Evaluations) -> Gap:
        """Return the gap of an action in a set, for values (n,) of the action on the atoms."""
        far = np.minimum(_distances(ball.contexts, evaluations.near(action.coordinates, _SAME)) / COVERED, 1.0) ** 2
        fear = evaluations.doubt * far * np.maximum(values - evaluations.lowest, 0.0)
        return cls._of(ball, values, fear, evaluations.near(action.coordinates), _untried, evaluations)

    @classmethod
    def beyond_all(cls, ball: Ball, bound: Bound, action: Point, evaluations: Evaluations) -> Gap:
        """Return the gap of an action if conditions beyond all evaluated ones, by any action, are the untried ones."""
        ball, values = _probed(ball, bound, action)
        return cls._of(ball, values, np.zeros_like(values), evaluations.contexts, _beyond, evaluations)

    @classmethod
    def _of(
        cls,
        ball: Ball,
        values: FloatArray,
        fear: FloatArray,
        tried: FloatArray,
        is_untried: Callable[[FloatArray, FloatArray], BoolArray],
        evaluations: Evaluations,
    ) -> Gap:
        """Return the gap if values (n,) may be worse by `fear` (n,), given tried contexts (k, d)."""
        untried, lowest = is_untried(ball.contexts, tried), np.minimum(values, evaluations.lowest)
        usual, feared, stressed = (
            ball.worst_case(row) for row in (values, values - fear, np.where(untried, lowest, values))
        )
        at_stake = max(float(usual.expectation - stressed.expectation), 0.0) / evaluations.spread
        at = int(np.argmax(stressed.weights))
        if untried.any():
            order = np.argsort(-stressed.weights * untried, kind="stable")[: np.count_nonzero(untried)]
            compared = np.concatenate([order[:_COMPARED], order[_COMPARED :: max(len(order) // _COMPARED, 1)]])
            after = [is_untried(ball.contexts, np.concatenate([tried, ball.contexts[[j]]])) for j in compared]
            at = int(compared[np.argmax(ball.worst_cases(np.where(after, lowest, values)).expectation)])
        loss = max(float(usual.expectation - feared.expectation), 0.0)
        return cls(loss, at_stake, float(usual.weights[untried].sum()), ball.reference.atom(at))

    @property
    def costly(self) -> bool:
        """Whether untried conditions could lower the bound much."""
        return self.at_stake > MOST_AT_STAKE

    @property
    def open(self) -> bool:
        """Whether the gap is too large for a bound that counts as checked."""
        return self.costly or self.untried > MOST_UNTRIED


def _probed(ball: Ball, bound: Bound, action: Point) -> tuple[Ball, FloatArray]:
    """Return the ball with the contexts at which a cliff is looked for, and the bound on its atoms (n,)."""
    values, probes = bound.of_action(action), ball.probes()
    if not len(probes):
        return ball, values
    return ball.extended(probes), np.append(values, bound.curve(action.coordinates)(probes))


def _scaled(contexts: FloatArray, tried: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return contexts (n, d) and tried ones (k, d) in shares of the ranges of the columns."""
    ranges = np.ptp(np.concatenate([contexts, tried]), axis=0)
    scale = np.where(ranges > 0.0, ranges, 1.0)
    return contexts / scale, tried / scale


def _beyond(contexts: FloatArray, tried: FloatArray) -> BoolArray:
    """Return whether contexts (n, d) are beyond all tried ones (k, d) in some column, (n,)."""
    if not len(tried):
        return np.ones(len(contexts), dtype=bool)
    a, b = _scaled(contexts, tried)
    return np.asarray(np.maximum(b.min(axis=0) - a, a - b.max(axis=0)).max(axis=1) > EDGE + _ROUNDING)


def _distances(contexts: FloatArray, tried: FloatArray) -> FloatArray:
    """Return the distance (n,) of contexts (n, d) from the nearest tried one (k, d).

    It is the root mean square of the differences in shares of the ranges. It is infinite for another label, and for a
    context that is beyond all tried ones in some column: a model knows less there than between two of them.
    """
    if not len(tried):
        return np.full(len(contexts), np.inf)
    a, b = _scaled(contexts, tried)
    apart = np.where(cdist(a, b, "chebyshev") > _OTHER_LABEL, np.inf, cdist(a, b) / np.sqrt(a.shape[1]))
    return np.where(_beyond(contexts, tried), np.inf, apart.min(axis=1))


def _untried(contexts: FloatArray, tried: FloatArray) -> BoolArray:
    """Return whether contexts (n, d) are untried, given the tried ones (k, d); (n,)."""
    return np.asarray(_distances(contexts, tried) > COVERED + _ROUNDING)


@dataclass(frozen=True)
class Checked(Policy):
    """A policy that checks the recommended action where nobody has tried it, and otherwise follows another policy.

    A bound is only as good as the model where the adversary goes, and a model knows nothing of a cliff that no outcome
    has shown. So some suggestions are checks: the recommended action in conditions in which a bad outcome would lower
    its bound by more than a twentieth of the outcomes' deviation. There are two kinds.

    - Conditions beyond all evaluated ones, of any action. They come first.
    - Conditions in which the recommended action, or one near it, was not tried.

    Every fourth suggestion may be a check if the action, or one near it, has two evaluations or more. Otherwise every
    eighth may be, because the search may abandon the action.

    A bad outcome is one like the worst so far. The condition is the one whose check would reduce the possible loss
    most. If nature picks contexts, the suggestion is the recommended action itself. `suggestion.reason` is "verify".

    With limits, a check also looks at what is at stake for each limit. The action that is best while its limits
    may hold is often one whose limits can never be known to hold. So every second suggestion is among the actions
    whose limits hold by bounds of a third of the width, from which the recommended one can come. If there are none, the
    limits must hold on average. This starts after 2 (d + 1) evaluations, for d parameters of an action.

    If the set holds the reference alone, as at radius 0, nothing is checked: no adversary moves to untried conditions,
    and checks cost regret.

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
        found = self._check(round, beliefs, number) if number % _EVERY == _EVERY - 1 else None
        if found is not None:
            return found
        if round.approaching is not None and number % 2 == 1:
            first = 2 * (min(round.search.space.dimension, _MOST_NEW) + 1)
            if len(round.evaluated(beliefs).actions) >= first:
                round = replace(round, search=round.approaching)
        return self.policy.choose(round, beliefs)

    def _check(self, round: Round, beliefs: Beliefs, number: int) -> Choice | None:
        """Return the check of the recommended action that is due; None if there is none.

        The objective and every limit have their own adversary; the largest gap counts. If no action is known to meet
        the limits, nothing is recommended, and nothing is checked.
        """
        ball: Ball = round.ball
        if not beliefs.units.known or ball.reference_alone:
            return None
        lower = Bound(beliefs.certain(ball), beliefs.bound_width, LOWER)
        found, evaluations = self._recommended(round, lower), round.evaluated(beliefs)
        if found is None:
            return None
        every = _EVERY if len(evaluations.near(found.action.coordinates)) >= _SETTLED else _AT_LEAST_EVERY
        if number % every != every - 1:
            return None
        reachable = np.concatenate([ball.contexts, ball.probes()])
        outside = self.rule is not None and bool(_beyond(reachable, evaluations.contexts).any())
        kinds = [Gap.beyond_all, Gap.of] if outside else [Gap.of]
        outcomes = (beliefs, *(limit.beliefs for limit in round.limits))
        for one in outcomes:
            ball, _ = ball.widened(Bound(one.certain(ball), one.bound_width, LOWER), found.action, found.score)
        for gap_of in kinds:
            bounds = [(Bound(one.certain(ball), one.bound_width, LOWER), round.evaluated(one)) for one in outcomes]
            gaps = [gap_of(ball, bound, found.action, evaluated) for bound, evaluated in bounds]
            gap = max(gaps, key=lambda one: one.at_stake)
            if gap.costly:
                return picked(self.rule, round, beliefs, ball, found, gap.at, reason="verify")
        return None

    @staticmethod
    def _recommended(round: Round, lower: Bound) -> Winner | None:
        """Return the action that would be recommended; None if no action is known to meet the limits."""
        if round.deciding is not None:
            return round.deciding.permitted(round.ball, lower, round.near)
        return round.search.best(round.ball, lower, round.near, round.under_way[:0])
