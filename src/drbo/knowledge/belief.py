"""The two posteriors of each outcome given the facts so far.

Bounds use the outcomes alone. The search for the next evaluation also uses failed and pending evaluations. Each of
them counts as an outcome equal to its posterior mean: the variance shrinks there, and the mean does not move. Without
failures, both posteriors are the same object.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np

from drbo.contexts.nature import Reference
from drbo.knowledge.configuration import Configuration, Outcome
from drbo.knowledge.history import Told
from drbo.knowledge.state import observations
from drbo.models.bounds import Bound, Side
from drbo.models.data import Observation, Units
from drbo.models.surrogate import Data, Fit, Posterior, SupportsHiddenContexts, require
from drbo.rounds.ball import Ball
from drbo.spaces.space import Point
from drbo.validation import FloatArray


@dataclass(frozen=True, eq=False)
class Belief:
    """The posteriors of one fit, given some results.

    Attributes
    ----------
    name, outcome : the modelled outcome
    fit, units : the hyper-parameters, and the units of the outcome under them
    corrections : number of results that had been retracted or amended
    certain, certain_data : the posterior given the outcomes, and its data
    searching, searching_data : the posterior given the outcomes and the failures, and its data
    n_told : number of results
    """

    name: str
    outcome: Outcome
    fit: Fit
    units: Units
    corrections: int
    certain: Posterior
    certain_data: Data
    searching: Posterior
    searching_data: Data
    n_told: int = 0

    @classmethod
    def prior(
        cls,
        own: Configuration,
        name: str,
        fit: Fit,
        contexts: FloatArray,
        corrections: int = 0,
    ) -> Belief:
        """Return the prior of an outcome on contexts (n, d)."""
        outcome, data = own.outcomes[name], Data(own.inputs)
        posterior = outcome.posterior(fit, data, contexts)
        return cls(name, outcome, fit, fit.units(outcome.sign), corrections, posterior, data, posterior, data)

    @property
    def contexts(self) -> FloatArray:
        """The contexts (n, d) of the posteriors."""
        return self.certain.contexts

    def after(self, told: Sequence[Told]) -> Belief:
        """Return the posteriors given all these results; the first `n_told` of them are known already."""
        new = told[self.n_told :]
        if not new:
            return self
        own = self
        if own.searching is own.certain:
            first = next((i for i, record in enumerate(new) if record.failed), len(new))
            if first == len(new):
                return own._both_after(new, len(told))
            own, new = own._both_after(new[:first], len(told)), new[first:]
        if new:
            outcomes = own._observations([record for record in new if not record.failed])
            certain_data = own.certain_data.and_also(outcomes)
            searching_data = own.searching_data.and_also(own._observations(new))
            own = replace(
                own,
                certain=own._posterior(certain_data, own.certain),
                certain_data=certain_data,
                searching=own._posterior(searching_data, own.searching),
                searching_data=searching_data,
            )
        return replace(own, n_told=len(told))

    def _both_after(self, records: Sequence[Told], n_told: int) -> Belief:
        """Return the posteriors given further results without failures; both posteriors stay the same object."""
        if not records:
            return self
        data = self.certain_data.and_also(self._observations(records))
        made = self._posterior(data, self.certain)
        return replace(self, certain=made, certain_data=data, searching=made, searching_data=data, n_told=n_told)

    def _posterior(self, data: Data, last: Posterior, contexts: FloatArray | None = None) -> Posterior:
        return self.outcome.posterior(self.fit, data, self.contexts if contexts is None else contexts, last)

    def on(self, contexts: FloatArray) -> Belief:
        """Return the same posteriors on contexts (n, d)."""
        if self.certain.contexts is contexts or np.array_equal(self.certain.contexts, contexts):
            return self
        certain = searching = self._posterior(self.certain_data, self.certain, contexts)
        if self.searching is not self.certain:
            searching = self._posterior(self.searching_data, self.searching, contexts)
        return replace(self, certain=certain, searching=searching)

    def prediction(
        self, actions: FloatArray, contexts: FloatArray, width: float, models: Sequence[Belief]
    ) -> tuple[FloatArray, ...]:
        """Return mean, deviation and both bounds of f, each (m,), at actions and contexts (m, d), in the user's units.

        The bounds are those of this and all further models. While the units of the outcomes are unknown, the bounds are
        infinite, and mean and deviation are nan.
        """
        m = len(actions)
        if not self.units.known:
            return np.full(m, np.nan), np.full(m, np.nan), np.full(m, -np.inf), np.full(m, np.inf)
        if not m:
            return (np.empty(0),) * 4
        found = []
        for posterior in (self.certain, *(one.certain for one in models)):
            mean, variance = posterior.predict(actions, contexts)
            centre = np.array([self.units.outward(one) for one in mean.tolist()])
            found.append((centre, np.array([self.units.length_outward(one) for one in np.sqrt(variance).tolist()])))
        lower = np.min([centre - width * std for centre, std in found], axis=0)
        return *found[0], lower, np.max([centre + width * std for centre, std in found], axis=0)

    def _observations(self, records: Sequence[Told]) -> list[Observation]:
        return [
            self._scattered(one) if record.hidden else one
            for record in records
            for one in observations(self.outcome.unknown(self.name, record), self.name, self.units)
        ]

    def _scattered(self, observation: Observation) -> Observation:
        """Return an observation of a hidden context, with the extra error that each width rule adds for it."""
        what = "an outcome whose context was not revealed"
        require(self.certain, (SupportsHiddenContexts,), what, self.outcome.surrogate)
        scatter = cast(SupportsHiddenContexts, self.certain).scatter(observation)
        added = max(rule.hidden_variance(scatter, self.certain.noise**2, self.units) for rule in self.outcome.widths)
        return replace(observation, scatter=added)


@dataclass(frozen=True, eq=False)
class Pending:
    """A pending evaluation: its contexts or, if nature picks the context, the reference it is drawn from."""

    action: Point
    contexts: tuple[Point, ...]
    reference: Reference

    def observations(self) -> list[Observation]:
        """Return the future observations, without outcomes."""
        x = self.action.coordinates
        if self.contexts:
            last = len(self.contexts) - 1
            return [
                Observation.of(x, c.coordinates, None, before=j, after=last - j) for j, c in enumerate(self.contexts)
            ]
        used = np.flatnonzero(self.reference.weights)
        return [Observation(x, self.reference.points[used], self.reference.weights[used], None)]


@dataclass(frozen=True, eq=False)
class RoundBeliefs:
    """The posteriors of one round (`drbo.rounds.context_rules.Beliefs`).

    `models` returns the posteriors of further models on contexts (n, d), which bounds use, too.
    """

    belief: Belief
    pending: Sequence[Pending]
    width: float
    width_of_bounds: Callable[[], float]
    models: Callable[[FloatArray], Sequence[Belief]]
    _placed: list[Belief] = field(default_factory=list)  # cache: the last contexts
    _expected: list[tuple[FloatArray, Posterior]] = field(default_factory=list)  # cache
    _others: list[tuple[FloatArray, tuple[Posterior, ...]]] = field(default_factory=list)  # cache

    @property
    def units(self) -> Units:
        """The units of the outcomes."""
        return self.belief.units

    @functools.cached_property
    def bound_width(self) -> float:
        """The width of the bounds of a recommendation."""
        return self.width_of_bounds()

    def certain(self, ball: Ball) -> Posterior:
        """Return the posterior given the outcomes alone, on the atoms of a ball."""
        return self._on(ball).certain

    def expected(self, ball: Ball) -> Posterior:
        """Return the posterior given also failed and pending evaluations, on the atoms of a ball."""
        if not self.pending:
            return self._on(ball).searching
        if not (self._expected and self._expected[0][0] is ball.contexts):
            in_order = sorted(self.pending, key=lambda p: not p.contexts)  # unknown contexts last
            posterior = self._on(ball).searching.with_more([one for p in in_order for one in p.observations()])
            self._expected[:] = [(ball.contexts, posterior)]
        return self._expected[0][1]

    def bound(self, ball: Ball, side: Side, width: float | None = None) -> Bound:
        """Return the confidence bound of all models, given the outcomes alone, on the atoms of a ball.

        The default width is that of a recommendation.
        """
        if not (self._others and self._others[0][0] is ball.contexts):
            self._others[:] = [(ball.contexts, tuple(one.certain for one in self.models(ball.contexts)))]
        return Bound(self.certain(ball), self.bound_width if width is None else width, side, others=self._others[0][1])

    def of_the_unknown(self) -> RoundBeliefs:
        """Return the beliefs without the known part of the outcome: those of f alone."""
        own = self.belief
        certain, searching = (getattr(one, "of_f", one) for one in (own.certain, own.searching))
        alone = replace(own, outcome=replace(own.outcome, known=None), certain=certain, searching=searching)
        return RoundBeliefs(alone, self.pending, self.width, self.width_of_bounds, lambda _: ())

    def also(self, ball: Ball, action: Point, contexts: Sequence[Point]) -> RoundBeliefs:
        """Return the beliefs with one more pending evaluation: an action, in these contexts."""
        under_way = [*self.pending, Pending(action, tuple(contexts), ball.reference)]
        return RoundBeliefs(self.belief, under_way, self.width, self.width_of_bounds, self.models, self._placed[:])

    def _on(self, ball: Ball) -> Belief:
        placed = self._placed[0] if self._placed else self.belief
        if placed.certain.contexts is not ball.contexts:
            placed = placed.on(ball.contexts)
        self._placed[:] = [placed]
        return placed
