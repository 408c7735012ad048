"""The two posteriors of each outcome given the facts so far.

Bounds use the outcomes alone. The search for the next evaluation also uses failed and pending evaluations. Each of
them counts as an outcome equal to its posterior mean: the variance shrinks there, and the mean does not move. Failures
by accident do not count. Without failures, both posteriors are the same object.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import cast

import numpy as np

from drbo._fast_record import fast_record
from drbo.contexts.nature import Reference
from drbo.knowledge.configuration import Configuration, ModelledOutcome
from drbo.knowledge.history import Told
from drbo.knowledge.state import observations
from drbo.models.bounds import Bound, Side
from drbo.models.data import Observation, Units
from drbo.models.surrogate import Data, Fit, Posterior, SupportsHiddenContexts, SupportsManyOutcomes, require, supports
from drbo.rounds.ball import Ball
from drbo.spaces.space import Point
from drbo.validation import FloatArray

MANY = 200
"""Number of outcomes from which on one more changes little. A search then uses the first of several models, while the
bound of one action uses all. Bounds use the hyper-parameters of the last `ask`, which lag by at most a tenth.
"""


@fast_record
class OutcomeBelief:
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
    outcome: ModelledOutcome
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
    ) -> OutcomeBelief:
        """Return the prior of an outcome on contexts (n, d)."""
        outcome, data = own.outcomes[name], Data(own.inputs)
        posterior = outcome.posterior(fit, data, contexts)
        return cls(name, outcome, fit, outcome.units(fit), corrections, posterior, data, posterior, data)

    @property
    def contexts(self) -> FloatArray:
        """The contexts (n, d) of the posteriors."""
        return self.certain.contexts

    def after(self, told: Sequence[Told], contexts: FloatArray | None = None) -> OutcomeBelief:
        """Return the posteriors given these results on contexts (n, d); the first `n_told` are known already."""
        own = self if contexts is None or contexts is self.certain.contexts else self.on(contexts)
        if len(told) == own.n_told:
            return own
        new = own._observations(told[own.n_told :])
        certain, searching = (own.certain, own.certain_data), (own.searching, own.searching_data)
        common = 0
        if own.searching is own.certain:  # both stay the same object up to the first failure
            while common < len(new) and new[common].outcome is not None:
                common += 1
            certain = searching = own._extended(*certain, new[:common])
        if common < len(new):
            certain = own._extended(*certain, [one for one in new[common:] if one.outcome is not None])
            searching = own._extended(*searching, new[common:])
        return OutcomeBelief(
            own.name, own.outcome, own.fit, own.units, own.corrections, *certain, *searching, len(told)
        )

    def by(self, fit: Fit, last: Posterior | None = None) -> OutcomeBelief:
        """Return the same outcomes, all of known contexts, under another fit in the same units, without failures.

        `last` is the posterior of the first of them by that fit, if there is one.
        """
        data = self.certain_data
        posterior = self.outcome.posterior(fit, data, self.certain.contexts, last)
        return replace(self, fit=fit, certain=posterior, searching=posterior, searching_data=data)

    def _extended(self, posterior: Posterior, data: Data, new: Sequence[Observation]) -> tuple[Posterior, Data]:
        """Return a posterior and its data with further observations."""
        if not new:
            return posterior, data
        data = data.and_also(new)
        return self.outcome.posterior(self.fit, data, posterior.contexts, posterior), data

    def on(self, contexts: FloatArray) -> OutcomeBelief:
        """Return the same posteriors on contexts (n, d)."""
        if self.certain.contexts is contexts or np.array_equal(self.certain.contexts, contexts):
            return self
        made = functools.partial(self.outcome.posterior, self.fit)
        certain = searching = made(self.certain_data, contexts, self.certain)
        if self.searching is not self.certain:
            searching = made(self.searching_data, contexts, self.searching)
        return replace(self, certain=certain, searching=searching)

    def prediction(
        self, actions: FloatArray, contexts: FloatArray, width: float, models: Sequence[OutcomeBelief]
    ) -> tuple[FloatArray, ...]:
        """Return mean, deviation and both bounds of f, each (m,), at actions and contexts (m, d), in the user's units.

        The bounds are those of this and all further models. Mean and bounds are cut at the declared range of outcomes.
        While the units of the outcomes are unknown, the bounds are the ends of that range, or infinite, and mean and
        deviation are nan.
        """
        m = len(actions)
        least, most = self.units.least, self.units.most
        if not self.units.known:
            return np.full(m, np.nan), np.full(m, np.nan), np.full(m, least), np.full(m, most)
        if not m:
            return (np.empty(0),) * 4
        found = []
        for posterior in (self.certain, *(one.certain for one in models)):
            mean, variance = posterior.predict(actions, contexts)
            centre = np.array([self.units.outward(one) for one in mean.tolist()])
            found.append((centre, np.array([self.units.length_outward(one) for one in np.sqrt(variance).tolist()])))
        lower = np.min([centre - width * std for centre, std in found], axis=0)
        upper = np.max([centre + width * std for centre, std in found], axis=0)
        mean, lower, upper = (np.clip(part, least, most) for part in (found[0][0], lower, upper))
        return mean, found[0][1], lower, upper

    def _observations(self, records: Sequence[Told]) -> list[Observation]:
        """Return the observations of the outcome; those of a failure have no value."""
        found: list[Observation] = []
        for record in records:
            part = record if self.outcome.known is None else self.outcome.unknown(self.name, record)
            new = observations(part, self.name, self.units)
            found += map(self._scattered, new) if record.hidden else new
        return found

    def _scattered(self, observation: Observation) -> Observation:
        """Return an observation of a hidden context, with the extra error that each width rule adds for it."""
        what = "an outcome whose context was not revealed"
        require(self.certain, (SupportsHiddenContexts,), what, self.outcome.surrogate)
        scatter = cast(SupportsHiddenContexts, self.certain).scatter(observation)
        added = max(rule.hidden_variance(scatter, self.certain.noise**2, self.units) for rule in self.outcome.widths)
        return replace(observation, scatter=added)


@fast_record
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


@fast_record
class RoundBeliefs:
    """The posteriors of one round (`drbo.rounds.context_rules.Beliefs`).

    `models` returns the posteriors of further models on contexts (n, d), which bounds use, too. `by_accident`: failures
    say nothing about where to evaluate, so the search does not count them.
    """

    belief: OutcomeBelief
    pending: Sequence[Pending]
    width: float
    width_of_bounds: Callable[[], float]
    models: Callable[[FloatArray], Sequence[OutcomeBelief]]
    by_accident: bool = False
    _placed: list[OutcomeBelief] = field(default_factory=list)  # cache: the last contexts
    _expected: list[tuple[FloatArray, Posterior]] = field(default_factory=list)  # cache
    _others: list[tuple[FloatArray, tuple[Posterior, ...]]] = field(default_factory=list)  # cache

    @property
    def name(self) -> str:
        """The name of the outcome."""
        return self.belief.name

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
        if not (self._expected and self._expected[0][0] is ball.contexts):
            placed = self._on(ball)
            posterior = placed.certain if self.by_accident else placed.searching
            if supports(posterior, SupportsManyOutcomes):
                posterior = posterior.searched
            if self.pending:
                in_order = sorted(self.pending, key=lambda p: not p.contexts)  # unknown contexts last
                posterior = posterior.with_more([one for p in in_order for one in p.observations()])
            self._expected[:] = [(ball.contexts, posterior)]
        return self._expected[0][1]

    def bound(self, ball: Ball, side: Side, width: float | None = None) -> Bound:
        """Return the confidence bound of all models, given the outcomes alone, on the atoms of a ball."""
        if not (self._others and self._others[0][0] is ball.contexts):
            self._others[:] = [(ball.contexts, tuple(one.certain for one in self.models(ball.contexts)))]
        first, others = self.certain(ball), self._others[0][1]
        wide = self.bound_width if width is None else width
        if self.belief.fit.n_outcomes < MANY:
            return Bound(first, wide, side, others=others)
        return Bound(first, wide, side, for_one=others)

    def of_the_unknown(self) -> RoundBeliefs:
        """Return the beliefs without the known part of the outcome: those of f alone."""
        own = self.belief
        certain, searching = (getattr(one, "of_f", one) for one in (own.certain, own.searching))
        alone = replace(own, outcome=replace(own.outcome, known=None), certain=certain, searching=searching)
        return RoundBeliefs(alone, self.pending, self.width, self.width_of_bounds, lambda _: ())

    def also(self, ball: Ball, action: Point, contexts: Sequence[Point]) -> RoundBeliefs:
        """Return the beliefs with one more pending evaluation: an action, in these contexts."""
        under_way = [*self.pending, Pending(action, tuple(contexts), ball.reference)]
        own = self.belief, under_way, self.width, self.width_of_bounds, self.models, self.by_accident
        return RoundBeliefs(*own, self._placed[:])

    def _on(self, ball: Ball) -> OutcomeBelief:
        placed = self._placed[0] if self._placed else self.belief
        if placed.certain.contexts is not ball.contexts:
            placed = placed.on(ball.contexts)
        self._placed[:] = [placed]
        return placed
