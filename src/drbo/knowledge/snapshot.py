"""What a question holds: what was known at one moment, the set that is asked about, and the bound that answers rest on.

Facts that come later do not reach it. All functions of `drbo.analysis` that need an optimizer's knowledge take one.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from drbo import validation
from drbo.contexts.nature import Contexts
from drbo.knowledge.belief import RoundBeliefs
from drbo.knowledge.configuration import Configuration
from drbo.knowledge.knowledge import Knowledge
from drbo.knowledge.state import State, Terms
from drbo.models.bounds import LOWER, UPPER, Bound
from drbo.models.units import Units
from drbo.rounds.ball import Ball
from drbo.spaces.space import Point, Space
from drbo.validation import FloatArray


@dataclass(frozen=True, eq=False)
class Snapshot:
    """What is known at one moment, and the conditions that are asked about.

    Attributes
    ----------
    known : what derives posteriors and sets from the configuration and a state
    state : the bookkeeping of that moment, which nobody changes
    terms : reference, radius and the known part of the context
    radius : one that any setting allows, as it was asked for by name; None for that of the terms
    """

    known: Knowledge
    state: State
    terms: Terms
    radius: float | None = None
    _beliefs: list[RoundBeliefs] = field(default_factory=list)  # one, once it was needed

    @classmethod
    def of(cls, known: Knowledge, terms: Terms, radius: float | None = None) -> Snapshot:
        """Return a snapshot of what is known now; an error names a radius that is none."""
        return cls(known, known.state.copy(), terms, None if radius is None else validation.radius(radius))

    def same_as(self, terms: Terms, radius: float | None) -> bool:
        """Return whether it is for the very same conditions."""
        return self.terms.same_as(terms) and self.radius == radius

    @property
    def configuration(self) -> Configuration:
        """What the optimizer was made with."""
        return self.known.configuration

    @property
    def actions(self) -> Space:
        """The space of the actions."""
        return self.configuration.search.space

    @property
    def nature(self) -> Contexts:
        """The contexts that agree with what is known."""
        return self.known.nature(self.terms.given)

    @property
    def given(self) -> Mapping[Any, Any] | None:
        """What is known of the context; None if nothing is."""
        return self.terms.given

    @property
    def failed(self) -> list[Point]:
        """The actions that failed."""
        return list(self.state.failed.values())

    @property
    def near(self) -> FloatArray:
        """The actions (k, d) that a search over a box starts near."""
        return self.known.near(self.state)

    def rows(self, actions: Sequence[Point]) -> FloatArray:
        """Return the coordinates of actions as an array (k, d)."""
        return self.known.rows(actions)

    # --- the set ----------------------------------------------------------------------------------------------------

    @functools.cached_property
    def ball(self) -> Ball:
        """The set that is asked about."""
        return self.known.ball(self.state, self.terms) if self.radius is None else self.ball_at(self.radius)

    def ball_at(self, radius: float) -> Ball:
        """Return the set round the same reference with any radius, whatever the setting says of it."""
        return self.known.ball_at(self.state, self.terms, radius)

    # --- the bounds -------------------------------------------------------------------------------------------------

    def beliefs(self, ball: Ball) -> RoundBeliefs:
        """Return the posteriors that bounds rest on: of all outcomes, with nothing pending. Made once."""
        if not self._beliefs:
            self._beliefs[:] = [self.known.certifying(self.state, ball)]
        return self._beliefs[0]

    @property
    def units(self) -> Units:
        """The units of the outcomes under the hyper-parameters that bounds rest on."""
        if self._beliefs:
            return self._beliefs[0].units
        return self.known.belief(self.state, fresh=True).units

    def lower(self, ball: Ball) -> Bound:
        """Return the lower confidence bound of f on the atoms of a set, which answers rest on."""
        beliefs = self.beliefs(ball)
        return Bound(beliefs.certain(ball), beliefs.certificate_width, LOWER)

    def upper(self, ball: Ball) -> Bound:
        """Return the upper confidence bound of f on the atoms of a set."""
        beliefs = self.beliefs(ball)
        return Bound(beliefs.certain(ball), beliefs.certificate_width, UPPER)

    def mean(self, ball: Ball) -> Bound:
        """Return the posterior mean of f on the atoms of a set, as a bound of width 0."""
        return Bound(self.beliefs(ball).certain(ball), 0.0, LOWER)

    def need_outcome(self, what: str) -> None:
        """Raise if the model has seen no outcome, which `what` needs."""
        if not self.units.known:
            raise RuntimeError(f"{what} needs an outcome: the model has not learned the units of the outcomes yet")
