"""What an ask wants of the action: one of the user's own choice, a floor, or a limit of the loss against the baseline.

The rounds know floors and budgets in the model's units (`drbo.rounds.floors`). Here they are in the user's, and what is
left of a budget is counted.
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
from drbo.knowledge.history import Proposal
from drbo.knowledge.state import State
from drbo.models.units import Units
from drbo.rounds.ball import Ball
from drbo.rounds.floors import Budget, FewActions, Floor, Reach, Requirement, SafeSearch
from drbo.rounds.search import Search, WholeSearch
from drbo.spaces.space import Point

LEAST_OUTCOMES = 5
"""So many outcomes, of two actions or more, a learned model must have before it may rule that an action is safe."""
_STEP = (0.25, 0.05)
"""With a learned model, an action may leave what has been tried by this share of the range tried, or of the whole."""
_SHARE = 0.1
"""Of what is left of a budget, one suggestion may use this share: otherwise the first one would use most of it."""


@dataclass(frozen=True, eq=False)
class Limits:
    """Which actions a suggestion may have, and what one of them may lose.

    Attributes
    ----------
    chosen : the action of the user's own choice, None if the policy chooses
    baseline : the action of today, None if there is none
    requirements : what the action must meet
    budget : the one of them that bounds the loss against the baseline, None if nothing does
    ready : False as long as too little is known to rule that an action meets a requirement
    units : of the outcomes
    """

    chosen: Point | None
    baseline: Point | None
    requirements: tuple[Requirement, ...]
    budget: Budget | None
    ready: bool
    units: Units

    def search(self, inner: WholeSearch) -> Search:
        """Return the search among the actions that are permitted."""
        if self.chosen is not None:
            return FewActions(inner, [self.chosen])
        if not self.requirements:
            return inner
        assert self.baseline is not None  # every requirement was given with one
        if not self.ready:
            return FewActions(inner, [self.baseline])
        return SafeSearch(inner, self.baseline, self.requirements)

    def loss(self, ball: Ball, action: Point) -> float:
        """Return what an action may lose against the baseline in expectation, in the user's units; 0 without budget."""
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
    """What one `ask` wants of the action.

    Attributes
    ----------
    action : of the user's own choice, None if the policy chooses
    guarantee : the floor in the user's units, None if there is none
    baseline : the action of today, None if there is none
    budget : the most that all suggestions together may lose against the baseline; infinite if nothing limits it
    learns : whether the model learns its hyper-parameters
    """

    action: Point | None
    guarantee: float | None
    baseline: Point | None
    budget: float
    learns: bool

    @classmethod
    def of(cls, configuration: Configuration, action: Any, guarantee: Any) -> Self:
        """Return what an ask wants that was given this action of one's own, or this guarantee."""
        own = configuration
        if action is not None and guarantee is not None:
            raise TypeError("guarantee must not be given with action: the action is your own choice")
        if guarantee is not None and own.baseline is None:
            raise TypeError("guarantee needs a baseline: Optimizer(..., baseline=the action of today)")
        chosen = None if action is None else own.search.space.encode("action", action)
        level = None if guarantee is None else validation.finite_float("guarantee", guarantee)
        return cls(chosen, level, own.baseline, own.explore_budget, own.surrogate.learns)

    @property
    def fresh(self) -> bool:
        """Whether hyper-parameters must be learned from every outcome so far, as a certificate wants it."""
        return self.guarantee is not None or math.isfinite(self.budget)

    def limits(
        self, state: State, beliefs: RoundBeliefs, ball: Ball, before: Sequence[Proposal], search: WholeSearch
    ) -> Limits:
        """Return the limits of a suggestion in a round, after those `before` it in the same call."""
        units = beliefs.belief.units
        requirements: list[Requirement] = []
        budget = None
        if self.guarantee is not None:
            requirements.append(Floor(beliefs, units.inward(self.guarantee)))
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
        """Return the share of what is left of the budget, as a requirement."""
        assert self.baseline is not None  # a budget was given with one
        if not ball.on_atoms:
            raise TypeError(
                "explore_budget needs every sample as an atom, and these were compressed: give Samples room, atoms=..."
            )
        left = self.budget - state.spent - sum(proposal.loss for proposal in before)
        return Budget(beliefs, self.baseline, beliefs.belief.units.length_inward(_SHARE * max(left, 0.0)))


def _much_is_known(state: State) -> bool:
    """Return whether there are enough outcomes, of more than one action, to learn how much actions differ."""
    told = {record.action.coordinates.tobytes() for record in state.told_so_far if record.outcomes}
    return state.n_outcomes >= LEAST_OUTCOMES and len(told) > 1


def _reach(state: State, search: WholeSearch) -> Reach:
    """Return the cell of all actions that have been tried, and a little more."""
    tried = np.array([record.action.coordinates for record in state.told_so_far if record.outcomes])
    low, high = tried.min(axis=0), tried.max(axis=0)
    return Reach(*search.beyond(low, high, np.maximum(_STEP[0] * (high - low), _STEP[1])))
