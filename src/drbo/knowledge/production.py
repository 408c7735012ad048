"""The limits of an ask: a chosen action, a floor, or a budget for the loss against the baseline.

`drbo.rounds.floors` has floors and budgets in the model's units. Here they are in the user's units, and the remaining
budget is tracked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from drbo import validation
from drbo.knowledge.belief import RoundBeliefs
from drbo.knowledge.configuration import Configuration
from drbo.knowledge.history import OBJECTIVE, Proposal
from drbo.knowledge.state import State
from drbo.models.data import Units
from drbo.rounds.ball import Ball
from drbo.rounds.floors import Budget, FewActions, Floor, Reach, Requirement, SafeSearch
from drbo.rounds.search import Search, WholeSearch
from drbo.spaces.space import Point

LEAST_OUTCOMES = 5
"""Number of outcomes, of at least two actions, that a learned model needs before it may declare an action safe."""
_STEP = (0.25, 0.05)
"""Largest step of a learned model beyond the tried actions, as a share of the tried or of the whole range."""
_SHARE = 0.1
"""Share of the remaining budget that one suggestion may use; otherwise the first would use most of it."""


@dataclass(frozen=True, eq=False)
class Limits:
    """The permitted actions of a suggestion, and their permitted loss.

    Attributes
    ----------
    chosen : the action that the user chose, None if the policy chooses
    baseline : the current action, None if there is none
    requirements : the requirements of the action
    budget : the requirement that bounds the loss against the baseline, None if there is none
    ready : False while there are too few outcomes to declare that an action meets a requirement
    units : the units of the outcomes
    """

    chosen: Point | None
    baseline: Point | None
    requirements: tuple[Requirement, ...]
    budget: Budget | None
    ready: bool
    units: Units

    def search(self, inner: WholeSearch) -> Search:
        """Return the search over the permitted actions."""
        if self.chosen is not None:
            return FewActions(inner, [self.chosen])
        if not self.requirements:
            return inner
        assert self.baseline is not None  # every requirement needs a baseline
        if not self.ready:
            return FewActions(inner, [self.baseline])
        return SafeSearch(inner, self.baseline, self.requirements)

    def loss(self, ball: Ball, action: Point) -> float:
        """Return the largest expected loss of an action against the baseline, in the user's units; 0 without budget."""
        if self.budget is None or not self.ready:
            return 0.0
        return self.units.length_outward(self.budget.loss(ball, action))

    def fallback(self, ball: Ball, action: Point) -> bool:
        """Return whether an action is the baseline because no action met the requirements."""
        if self.chosen is not None or not self.requirements:
            return False
        return not self.ready or any(requirement.margin(ball, action) < 0.0 for requirement in self.requirements)


@dataclass(frozen=True, eq=False)
class Wishes:
    """The limits that one `ask` sets.

    Attributes
    ----------
    action : the action that the user chose, None if the policy chooses
    floor : the floor in the user's units, None if there is none
    baseline : the current action, None if there is none
    budget : the largest total loss of all suggestions against the baseline; infinite if there is no limit
    learns : whether the model learns its hyper-parameters
    """

    action: Point | None
    floor: float | None
    baseline: Point | None
    budget: float
    learns: bool

    @classmethod
    def of(cls, configuration: Configuration, action: Any, floor: Any) -> Self:
        """Return the limits of an ask with these arguments."""
        own = configuration
        if action is not None and floor is not None:
            raise TypeError("floor must not be given with action: the action is your own choice")
        if floor is not None and own.baseline is None:
            raise TypeError("floor needs a baseline: Optimizer(..., baseline=the current action)")
        chosen = None if action is None else own.search.permitted("action", action)
        level = None if floor is None else validation.finite_float("floor", floor)
        return cls(chosen, level, own.baseline, own.explore_budget, own.surrogate.learns)

    @property
    def fresh(self) -> bool:
        """Whether hyper-parameters must be learned from every outcome so far, as a bound needs."""
        return self.floor is not None or math.isfinite(self.budget)

    def limits(
        self, state: State, beliefs: RoundBeliefs, ball: Ball, before: Sequence[Proposal], search: WholeSearch
    ) -> Limits:
        """Return the limits of a suggestion in a round; those `before` it belong to the same call."""
        units = beliefs.units
        requirements: list[Requirement] = []
        budget = None
        if self.floor is not None:
            requirements.append(Floor(beliefs, units.inward(self.floor)))
        if math.isfinite(self.budget):
            budget = self._budget(state, beliefs, ball, before)
            requirements.append(budget)
        ready = not self.learns or _much_is_known(state)
        if self.learns and requirements and ready:
            requirements.insert(0, _reach(state, search))
        if budget is not None and not ready and self.action is not None and not self.action.same_as(budget.baseline):
            raise ValueError(
                f"action must be the baseline until there are {LEAST_OUTCOMES} outcomes of two actions or more: before "
                "that nothing bounds what another one loses, and there is an explore_budget"
            )
        return Limits(self.action, self.baseline, tuple(requirements), budget, ready, units)

    def _budget(self, state: State, beliefs: RoundBeliefs, ball: Ball, before: Sequence[Proposal]) -> Budget:
        """Return the permitted share of the remaining budget, as a requirement."""
        assert self.baseline is not None  # a budget needs a baseline
        if not ball.on_atoms:
            raise TypeError(
                "explore_budget needs every sample as an atom, and these were compressed: give Samples room, atoms=..."
            )
        left = self.budget - state.spent - sum(proposal.loss for proposal in before)
        return Budget(beliefs, self.baseline, beliefs.units.length_inward(_SHARE * max(left, 0.0)))


def _much_is_known(state: State) -> bool:
    """Return whether there are enough outcomes, of at least two actions, to learn how actions differ."""
    told = {record.action.coordinates.tobytes() for record in state.told_so_far if record.outcomes}
    return state.counts[OBJECTIVE] >= LEAST_OUTCOMES and len(told) > 1


def _reach(state: State, search: WholeSearch) -> Reach:
    """Return the cell around all tried actions, with a small margin."""
    tried = np.array([record.action.coordinates for record in state.told_so_far if record.outcomes])
    low, high = tried.min(axis=0), tried.max(axis=0)
    return Reach(*search.beyond(low, high, np.maximum(_STEP[0] * (high - low), _STEP[1])))
