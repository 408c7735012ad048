"""The limits of an ask: a chosen action, a floor, limits of outcomes, or a budget for the loss against the baseline.

`drbo.rounds.floors` has floors and budgets in the model's units. Here they are in the user's units, and the remaining
budget is tracked.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from drbo import validation
from drbo._fast_record import fast_record
from drbo.knowledge.belief import RoundBeliefs
from drbo.knowledge.configuration import Configuration
from drbo.knowledge.history import OBJECTIVE
from drbo.knowledge.state import Iterate, State
from drbo.models.data import Units
from drbo.rounds.ball import Ball
from drbo.rounds.floors import Budget, Floor, Limit, Requirement, TriedCell, View, requirements
from drbo.rounds.limited_search import FewActions, LimitedSearch
from drbo.rounds.search import Search, WholeSearch
from drbo.spaces.space import Point
from drbo.validation import FloatArray

LEAST_OUTCOMES = 5
"""Number of outcomes, of at least two actions, that a learned model needs before it may declare an action safe."""
_STEP = (0.25, 0.05)
"""Largest step of a learned model beyond the tried actions, as a share of the tried or of the whole range."""
_SHARE = 0.1
"""Share of the remaining budget that one suggestion may use; otherwise the first would use most of it."""


@dataclass(frozen=True, eq=False)
class Permission:
    """The permitted actions of a suggestion, and their permitted loss.

    Attributes
    ----------
    chosen : the action that the user chose, None if the policy chooses
    baseline : the current action, None if there is none
    requirements : what must hold for the action; the baseline is suggested otherwise
    limits : the limits of outcomes
    safe : whether the limits are among the requirements; otherwise they may hold
    budget : the requirement that bounds the loss against the baseline, None if there is none
    ready : False while there are too few outcomes to declare that an action meets a requirement
    units : the units of the outcomes
    tried : (k, d) the actions with outcomes
    """

    chosen: Point | None
    baseline: Point | None
    requirements: tuple[Requirement, ...]
    limits: tuple[Limit, ...]
    safe: bool
    budget: Budget | None
    ready: bool
    units: Units
    tried: FloatArray

    @functools.cached_property
    def optimistic(self) -> tuple[Requirement, ...]:
        """The limits that may hold, as the search sees them."""
        return () if self.safe else tuple(requirements(self.limits, View.SEARCHED))

    def search(self, inner: WholeSearch) -> Search:
        """Return the search over the permitted actions."""
        if self.chosen is not None:
            return FewActions(inner, [self.chosen])
        if not self.requirements:
            return LimitedSearch(inner, self.optimistic, tried=self.tried) if self.limits else inner
        assert self.baseline is not None  # every requirement needs a baseline
        if not self.ready:
            return FewActions(inner, [self.baseline])
        return LimitedSearch(inner, [*self.requirements, *self.optimistic], self.baseline, self.tried)

    def inside(self, inner: WholeSearch, view: View) -> LimitedSearch | None:
        """Return the search over permitted actions whose limits hold by a lower bound; None if it is `search`."""
        if not self.limits or self.safe or self.chosen is not None or not self.ready:
            return None
        holding = [*self.requirements, *requirements(self.limits, view)]
        otherwise = self.inside(inner, View.EXPECTED) if view is View.APPROACHED else None
        return LimitedSearch(inner, holding, self.baseline if self.requirements else None, self.tried, otherwise)

    def loss(self, ball: Ball, action: Point) -> float:
        """Return the largest expected loss of an action against the baseline, in the user's units; 0 without budget."""
        if self.budget is None or not self.ready:
            return 0.0
        return self.units.length_outward(self.budget.loss(ball, action))

    def fallback(self, ball: Ball, action: Point) -> bool:
        """Return whether an action is the baseline because no action met the requirements."""
        if self.chosen is not None or not self.requirements:
            return False
        return not self.ready or any(one.margin(ball, action) < 0.0 for one in (*self.requirements, *self.optimistic))

    def out_of_reach(self, ball: Ball, action: Point) -> bool:
        """Return whether an action was chosen although it cannot meet all limits: no action may meet them."""
        if self.chosen is not None or self.requirements:
            return False
        return any(one.margin(ball, action) < 0.0 for one in self.optimistic)


@fast_record
class Wishes:
    """The limits that one `ask` sets.

    Attributes
    ----------
    action : the action that the user chose, None if the policy chooses
    floor : the floor in the user's units, None if there is none
    safe : whether the limits of outcomes must hold
    baseline : the current action, None if there is none
    budget : the largest total loss of all suggestions against the baseline; infinite if there is no limit
    learns : whether a model learns its hyper-parameters
    outcomes : the outcomes that must be known before an action may be declared safe, by their names in facts
    """

    action: Point | None
    floor: float | None
    safe: bool
    baseline: Point | None
    budget: float
    learns: bool
    outcomes: tuple[str, ...]

    @classmethod
    def of(cls, configuration: Configuration, action: Any, floor: Any, safe: Any = False) -> Self:
        """Return the limits of an ask with these arguments."""
        own = configuration
        certain = safe is not False and validation.flag("safe", safe)
        if action is not None and floor is not None:
            raise TypeError("floor must not be given with action: the action is your own choice")
        if action is not None and certain:
            raise TypeError("safe must not be given with action: the action is your own choice")
        if certain and not own.limits:
            raise TypeError('safe needs limits: Optimizer(..., limits={"peak": drbo.AtMost(68.0)})')
        for name, given in (("floor", floor is not None), ("safe", certain)):
            if given and own.baseline is None:
                raise TypeError(f"{name} needs a baseline: Optimizer(..., baseline=the current action)")
        chosen = None if action is None else own.search.permitted("action", action)
        level = None if floor is None else validation.finite_float("floor", floor)
        known = dict.fromkeys([OBJECTIVE, *(map(own.key, own.limits) if certain else ())])
        learns = own.surrogate.learns if not certain else any(own.outcomes[name].surrogate.learns for name in known)
        return cls(chosen, level, certain, own.baseline, own.explore_budget, learns, tuple(known))

    @property
    def fresh(self) -> bool:
        """Whether hyper-parameters must be learned from every outcome so far, as a bound needs."""
        return self.floor is not None or self.safe or math.isfinite(self.budget)

    def permission(
        self,
        state: State,
        beliefs: RoundBeliefs,
        limits: tuple[Limit, ...],
        ball: Ball,
        before: Sequence[Iterate],
        search: WholeSearch,
    ) -> Permission | None:
        """Return the permitted actions of a suggestion in a round, None if all are; `before` are of the same call."""
        if not limits and self.action is None and self.floor is None and math.isinf(self.budget):
            return None
        units = beliefs.units
        required: list[Requirement] = []
        budget = None
        if self.floor is not None:
            required.append(Floor(beliefs, units.inward(self.floor)))
        if math.isfinite(self.budget):
            budget = self._budget(state, beliefs, ball, before)
            required.append(budget)
        if self.safe:
            required += requirements(limits, View.CERTAIN)
        ready = not self.learns or all(_much_is_known(state, name) for name in self.outcomes)
        if self.learns and required and ready:
            required.insert(0, _reach(state, search))
        if budget is not None and not ready and self.action is not None and not self.action.same_as(budget.baseline):
            raise ValueError(
                f"action must be the baseline until there are {LEAST_OUTCOMES} outcomes of two actions or more: until "
                "then the loss of another action is not bounded, and explore_budget limits it"
            )
        tried = np.array([record.action.coordinates for record in state.told_so_far if record.outcomes])
        tried = tried.reshape(-1, search.space.dimension)
        return Permission(
            self.action, self.baseline, tuple(required), limits, self.safe, budget, ready or not required, units, tried
        )

    def _budget(self, state: State, beliefs: RoundBeliefs, ball: Ball, before: Sequence[Iterate]) -> Budget:
        """Return the permitted share of the remaining budget, as a requirement."""
        assert self.baseline is not None  # a budget needs a baseline
        if not ball.on_atoms:
            raise TypeError(
                "explore_budget needs every sample as an atom, and these were compressed: give Samples room, atoms=..."
            )
        left = self.budget - state.spent - sum(iterate.proposal.loss for iterate in before)
        return Budget(beliefs, self.baseline, beliefs.units.length_inward(_SHARE * max(left, 0.0)))


def _much_is_known(state: State, name: str) -> bool:
    """Return whether there are enough values of an outcome, of at least two actions, to learn how actions differ."""
    told = {record.action.coordinates.tobytes() for record in state.told_so_far if name in record.outcomes}
    return state.counts[name] >= LEAST_OUTCOMES and len(told) > 1


def _reach(state: State, search: WholeSearch) -> TriedCell:
    """Return the cell around all tried actions, with a small margin."""
    tried = np.array([record.action.coordinates for record in state.told_so_far if record.outcomes])
    low, high = tried.min(axis=0), tried.max(axis=0)
    return TriedCell(*search.beyond(low, high, np.maximum(_STEP[0] * (high - low), _STEP[1])))
