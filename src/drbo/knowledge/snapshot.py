"""A snapshot of the state for queries: the facts at one moment, the set, and the confidence bounds.

Later facts do not change a snapshot. The functions of `drbo.analysis` take one.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from drbo import validation
from drbo.contexts.nature import Contexts
from drbo.knowledge.ahead import Ahead
from drbo.knowledge.belief import RoundBeliefs
from drbo.knowledge.configuration import Configuration
from drbo.knowledge.history import OBJECTIVE
from drbo.knowledge.knowledge import Knowledge
from drbo.knowledge.state import State, Terms
from drbo.models.bounds import LOWER, UPPER, Bound
from drbo.models.data import Units
from drbo.models.surrogate import Estimate
from drbo.rounds.ball import Ball
from drbo.rounds.chance import check_atoms
from drbo.rounds.floors import Limit, View, requirements
from drbo.rounds.limited_search import LimitedSearch
from drbo.rounds.policies import Evaluations
from drbo.rounds.search import Search
from drbo.rounds.working import LIKELY, Discouraged, SuccessChances, Working
from drbo.spaces.space import Point, Space
from drbo.validation import FloatArray

LIKEWISE = 0.9
"""If no evaluated action is likely enough to succeed, actions of this share of the best probability may be deployed."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The state at one moment, and the terms of a query.

    Attributes
    ----------
    known : derives posteriors and sets from the configuration and a state
    state : an unchanging copy of the state
    terms : reference, radius and the known part of the context
    radius : a radius that replaces that of the terms in any setting; None to use the terms
    """

    known: Knowledge
    state: State
    terms: Terms
    radius: float | None = None
    _ball: list[Ball] = field(default_factory=list, init=False)  # cache of one
    _beliefs: dict[str, RoundBeliefs] = field(default_factory=dict)  # cache: one per outcome

    @classmethod
    def of(cls, known: Knowledge, terms: Terms, radius: float | None = None) -> Snapshot:
        """Return a snapshot of the present state; raise if the radius is invalid."""
        chosen = None if radius is None else validation.radius(radius)
        return cls(known, known.state.copy(), terms, chosen)

    def same_as(self, terms: Terms, radius: float | None) -> bool:
        """Return whether the terms and the radius are identical."""
        return self.terms.same_as(terms) and self.radius == radius

    @property
    def configuration(self) -> Configuration:
        """The configuration of the optimizer."""
        return self.known.configuration

    @property
    def actions(self) -> Space:
        """The space of the actions."""
        return self.configuration.search.space

    @property
    def nature(self) -> Contexts:
        """The contexts conditioned on `given`."""
        return self.known.nature(self.terms.given)

    @property
    def given(self) -> Mapping[Any, Any] | None:
        """The known part of the context; None if nothing is known."""
        return self.terms.given

    @property
    def failed(self) -> list[Point]:
        """The actions that failed and have no outcome."""
        return list(self.state.failed.values())

    @functools.cached_property
    def chances(self) -> SuccessChances | None:
        """The estimated probabilities of success under the reference; None if nothing failed."""
        return self.known.chances(self.state, self.known.bare(self.state, self.terms))

    @functools.cached_property
    def search(self) -> Search:
        """The search over the actions; those that are too likely to fail are passed over."""
        search, chances = self.configuration.search, self.chances
        return search if chances is None else Working(search, chances, self._least(chances))

    def _least(self, chances: SuccessChances) -> float:
        """Return the least probability of success of an action that is recommended."""
        least = max(self.configuration.least_success, LIKELY * chances.best)
        return min(least, LIKEWISE * chances.best)

    def discouraging(self, bound: Bound) -> Estimate:
        """Return a bound minus the penalty for actions that are likely to fail."""
        return bound if self.chances is None else Discouraged(bound, self.chances, self._least(self.chances))

    @property
    def near(self) -> FloatArray:
        """The actions (k, d) that a search over a box starts near."""
        return self.known.near(self.state)

    def rows(self, actions: Sequence[Point]) -> FloatArray:
        """Return the coordinates of actions as an array (k, d)."""
        return self.known.rows(actions)

    def table_of_actions(self, actions: Any) -> list[Point]:
        """Return the points of a table or a sequence of actions that a user gave; raise if there is none."""
        many = self.actions.many("actions", actions)
        if many is None and (isinstance(actions, str | Mapping) or not np.iterable(actions)):
            raise TypeError(f"actions must be a table or a sequence of actions, got {actions!r}")
        found = [self.actions.encode(f"actions[{i}]", one) for i, one in enumerate(actions if many is None else many)]
        if not found:
            raise ValueError("actions must hold at least one action, got none")
        return found

    # --- the set ----------------------------------------------------------------------------------------------------

    @property
    def ball(self) -> Ball:
        """The set of the query (cached)."""
        if not self._ball:
            whole = self.known.ball(self.state, self.terms) if self.radius is None else self.ball_at(self.radius)
            self._ball[:] = [whole]
        return self._ball[0]

    def ball_at(self, radius: float) -> Ball:
        """Return the set around the same reference with any radius; the setting's radius rule does not apply."""
        return self.known.ball_at(self.state, self.terms, radius)

    # --- the bounds -------------------------------------------------------------------------------------------------

    def beliefs(self, ball: Ball, outcome: str = OBJECTIVE) -> RoundBeliefs:
        """Return the posteriors that bounds use: given all results, without pending evaluations (cached)."""
        if outcome not in self._beliefs:
            self._beliefs[outcome] = self.known.for_bounds(self.state, ball, outcome)
        return self._beliefs[outcome]

    @property
    def units(self) -> Units:
        """The units of the objective under the hyper-parameters of the bounds."""
        return self.units_of(OBJECTIVE)

    def units_of(self, outcome: str) -> Units:
        """Return the units of an outcome under the hyper-parameters of the bounds."""
        if outcome in self._beliefs:
            return self._beliefs[outcome].units
        return self.known.belief(self.state, name=outcome, fresh=True).units

    def lower(self, ball: Ball, outcome: str = OBJECTIVE) -> Bound:
        """Return the lower confidence bound of an outcome on the atoms of a set."""
        return self.beliefs(ball, outcome).bound(ball, LOWER)

    def upper(self, ball: Ball, outcome: str = OBJECTIVE) -> Bound:
        """Return the upper confidence bound of an outcome on the atoms of a set."""
        return self.beliefs(ball, outcome).bound(ball, UPPER)

    def mean(self, ball: Ball) -> Bound:
        """Return the posterior mean of f on the atoms of a set, as a bound of width 0."""
        return Bound(self.beliefs(ball).certain(ball), 0.0, LOWER)

    def evaluations(self, outcome: str = OBJECTIVE) -> Evaluations:
        """Return where an outcome was evaluated."""
        return self.known.measured(self.state, outcome, self.units_of(outcome))

    def limits(self, ball: Ball) -> tuple[Limit, ...]:
        """Return the limits of a set, by the bounds of a recommendation."""
        return self.configuration.in_round(lambda name: self.beliefs(ball, name))

    def limited(self, ball: Ball, view: View) -> LimitedSearch | None:
        """Return the search over the actions whose limits hold or may hold in a set; None if there are no limits."""
        limits = self.limits(ball)
        if not limits:
            return None
        if any(limit.probability is not None for limit in self.configuration.limits.values()):
            check_atoms(ball)
        tried = self.rows([record.action for record in self.state.told_so_far if not record.failed])
        return LimitedSearch(self.configuration.search, requirements(limits, view), tried=tried)

    def ahead(self, outcome: str = OBJECTIVE) -> Ahead:
        """Return the one-step-ahead errors of an outcome."""
        return self.known.ahead(self.state, outcome)

    def need_outcome(self, what: str) -> None:
        """Raise if there is no outcome; `what` needs one."""
        if not self.units.known:
            raise RuntimeError(f"{what} needs an outcome: the model has not learned the units of the outcomes yet")
