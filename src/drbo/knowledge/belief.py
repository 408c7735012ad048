"""What is believed of f after the facts so far: two posteriors.

Certificates rest on the outcomes alone. The search for the next evaluation also counts failures and pending
evaluations, as if they had given their posterior mean: the variance shrinks where they are, and the mean does not move.
Both posteriors are one object as long as nothing failed.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from drbo.contexts.reference import Reference
from drbo.knowledge.history import Told
from drbo.knowledge.state import observations, outcomes_of
from drbo.models.bounds import Beta
from drbo.models.gp import FittedGP
from drbo.models.kronecker_posterior import KroneckerPosterior
from drbo.models.observation import Observation, observations_of
from drbo.models.outcomes import LEAST_COMMON
from drbo.models.posterior import AnyPosterior
from drbo.models.units import Units
from drbo.rounds.ball import Ball
from drbo.rounds.search import Search
from drbo.spaces.space import Point
from drbo.validation import FloatArray


@dataclass(frozen=True, eq=False)
class Belief:
    """The posteriors of one fit, after some results.

    Attributes
    ----------
    search : what makes the prior in the form that it needs
    fit, units : the hyper-parameters, and the units of the outcomes under them
    rules : those of all widths that bounds will have
    corrections : how many results had been retracted or amended
    certain : the posterior of the outcomes
    searching : the posterior of the outcomes and the failures
    n_told : of how many results
    n_together : how many outcomes were told with others of the same evaluation
    order : of the outcomes in the posteriors, where they have a block; None if it is that of the results
    """

    search: Search
    fit: FittedGP
    units: Units
    rules: Sequence[Beta]
    corrections: int
    certain: AnyPosterior
    searching: AnyPosterior
    n_told: int = 0
    n_together: int = 0
    order: NDArray[np.intp] | None = None

    @classmethod
    def prior(
        cls,
        search: Search,
        fit: FittedGP,
        contexts: FloatArray,
        sign: float,
        rules: Sequence[Beta],
        corrections: int = 0,
    ) -> Belief:
        """Return what is believed before any result, on contexts (n, d); `sign` is -1 if outcomes are minimised."""
        posterior = search.prior(fit.gp, contexts)
        return cls(search, fit, fit.units(sign), rules, corrections, posterior, posterior)

    @property
    def contexts(self) -> FloatArray:
        """The contexts (n, d) that the posteriors are on."""
        return self.certain.contexts

    def after(self, told: Sequence[Told]) -> Belief:
        """Return what is believed after all these results, of which it knows the first ones."""
        new = told[self.n_told :]
        if not new:
            return self
        together = self.n_together + sum(len(record.values) for record in new if len(record.values) > 1)
        if self.certain.factorises and together >= LEAST_COMMON and not any(record.hidden for record in told):
            found = self._in_block(told)
            if found is not None:
                return replace(found, n_told=len(told), n_together=together)
        certain, searching = self.certain, self.searching
        if self.order is not None:
            certain = searching = self.search.prior(self.fit.gp, self.contexts)
            new = told
        if searching is certain:
            before = list(itertools.takewhile(lambda record: not record.failed, new))
            certain = searching = certain.with_more(self._observations(before))
            new = new[len(before) :]
        if new:
            certain, searching = (
                certain.with_more(self._observations([record for record in new if not record.failed])),
                searching.with_more(self._observations(new)),
            )
        return replace(self, certain=certain, searching=searching, n_told=len(told), n_together=together, order=None)

    def _in_block(self, told: Sequence[Told]) -> Belief | None:
        """Return both posteriors, made anew, where most results are of the same contexts; None where they are not.

        A failure in these contexts stands in the block with the outcomes that are expected of it, which do not move the
        mean. Other failures come on top.
        """
        outcomes = outcomes_of(told, self.units)
        common = outcomes.common()
        if common is None:
            return None
        x, c, y = outcomes.x[common.block[:, 0]], outcomes.c[common.block[0]], outcomes.y[common.block]
        rest = observations_of(outcomes.of_rows(common.rest))
        actions, contexts, gp = self.certain.actions, self.certain.contexts, self.fit.gp
        certain = searching = KroneckerPosterior(gp, actions, contexts, (x, c, y)).with_more(rest)
        failed = [record for record in told if record.failed]
        if failed:
            keys = sorted(row.tobytes() for row in c)
            alike = [r for r in failed if sorted(one.coordinates.tobytes() for one in r.contexts) == keys]
            lost = np.array([record.action.coordinates for record in alike]).reshape(-1, x.shape[1])
            if alike:
                expected, _ = certain.predict(np.repeat(lost, len(c), axis=0), np.tile(c, (len(lost), 1)))
                y = np.concatenate([y, expected.reshape(-1, len(c))])
            others = self._observations([record for record in failed if record not in alike])
            whole = KroneckerPosterior(gp, actions, contexts, (np.concatenate([x, lost]), c, y))
            searching = whole.with_more([*rest, *others])
        order = np.concatenate([common.block.ravel(), common.rest])
        return replace(self, certain=certain, searching=searching, order=order)

    def leave_one_out(self) -> tuple[FloatArray, FloatArray]:
        """Return `Posterior.leave_one_out` of the outcomes, in the order in which they were told."""
        residual, variance = self.certain.leave_one_out()
        if self.order is None:
            return residual, variance
        back = np.argsort(self.order)
        return residual[back], variance[back]

    def on(self, contexts: FloatArray) -> Belief:
        """Return the same on contexts (n, d)."""
        if self.contexts is contexts or np.array_equal(self.contexts, contexts):
            return self
        certain = self.certain.on(contexts)
        searching = certain if self.searching is self.certain else self.searching.on(contexts)
        return replace(self, certain=certain, searching=searching)

    def prediction(self, actions: FloatArray, contexts: FloatArray, width: float) -> tuple[FloatArray, ...]:
        """Return mean, deviation and both bounds of f, each (m,), at actions and contexts (m, d), in the user's units.

        Bounds are infinite, and the others nan, as long as the units of the outcomes are not known.
        """
        m = len(actions)
        if not self.units.known:
            return np.full(m, np.nan), np.full(m, np.nan), np.full(m, -np.inf), np.full(m, np.inf)
        mean, variance = self.certain.predict(actions, contexts) if m else (np.empty(0), np.empty(0))
        centre = np.array([self.units.outward(one) for one in mean.tolist()])
        std = np.array([self.units.length_outward(one) for one in np.sqrt(variance).tolist()])
        return centre, std, centre - width * std, centre + width * std

    def _observations(self, records: Sequence[Told]) -> list[Observation]:
        return [
            self._scattered(one) if record.hidden else one
            for record in records
            for one in observations(record, self.units)
        ]

    def _scattered(self, observation: Observation) -> Observation:
        """Return an observation whose context was not revealed, with what that adds to its error for every rule."""
        scatter, ridge = self.certain.scatter(observation), self.fit.gp.ridge
        added = max(rule.hidden_variance(scatter, ridge, self.units) for rule in self.rules)
        return replace(observation, scatter=added)


@dataclass(frozen=True, eq=False)
class Pending:
    """An evaluation under way: its contexts, or, where there are none, the reference that nature draws it from."""

    action: Point
    contexts: tuple[Point, ...]
    reference: Reference

    def observations(self) -> list[Observation]:
        """Return the observations that it will be, without outcomes."""
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
    """The posteriors of one round (`drbo.rounds.context_rules.Beliefs`)."""

    belief: Belief
    pending: Sequence[Pending]
    width: float
    certificate_width: float
    _placed: list[Belief] = field(default_factory=list)  # on the contexts that were asked for last
    _expected: list[tuple[FloatArray, AnyPosterior]] = field(default_factory=list)  # and what is expected there

    @property
    def units(self) -> Units:
        """The units of the outcomes."""
        return self.belief.units

    def certain(self, ball: Ball) -> AnyPosterior:
        """Return the posterior of the outcomes alone, on the atoms of a ball."""
        return self._on(ball).certain

    def expected(self, ball: Ball) -> AnyPosterior:
        """Return the posterior that also counts failed and pending evaluations, on the atoms of a ball."""
        if not self.pending:
            return self._on(ball).searching
        if not (self._expected and self._expected[0][0] is ball.contexts):
            in_order = sorted(self.pending, key=lambda p: not p.contexts)  # those of unknown context come last
            posterior = self._on(ball).searching.with_more([one for p in in_order for one in p.observations()])
            self._expected[:] = [(ball.contexts, posterior)]
        return self._expected[0][1]

    def also(self, ball: Ball, action: Point, contexts: Sequence[Point]) -> RoundBeliefs:
        """Return the beliefs with one more evaluation under way: an action, in these contexts."""
        under_way = [*self.pending, Pending(action, tuple(contexts), ball.reference)]
        return RoundBeliefs(self.belief, under_way, self.width, self.certificate_width, self._placed[:])

    def _on(self, ball: Ball) -> Belief:
        self._placed[:] = [(self._placed[0] if self._placed else self.belief).on(ball.contexts)]
        return self._placed[0]
