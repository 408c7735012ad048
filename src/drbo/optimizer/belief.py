"""What is believed of f after the facts so far: two posteriors, which lag behind the facts and catch up.

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

from drbo.ambiguity.reference import Reference
from drbo.models.bounds import Beta
from drbo.models.gp import FittedGP
from drbo.models.kronecker_posterior import KroneckerPosterior
from drbo.models.observation import Observation, observations_of
from drbo.models.outcomes import LEAST_COMMON
from drbo.models.posterior import AnyPosterior
from drbo.models.units import Units
from drbo.optimizer.history import Told
from drbo.optimizer.state import observations, outcomes_of
from drbo.rounds.ball import Ball
from drbo.rounds.search import Search
from drbo.spaces.space import Point
from drbo.validation import FloatArray


class Belief:
    """The posteriors of one fit.

    Attributes
    ----------
    fit, units : the hyper-parameters, and the units of the outcomes under them
    certain : the posterior of the outcomes
    searching : the posterior of the outcomes and the failures
    """

    def __init__(
        self,
        search: Search,
        fit: FittedGP,
        contexts: FloatArray,
        sign: float,
        rules: Sequence[Beta],
        corrections: int = 0,
    ) -> None:
        """`rules`: those of all widths that bounds will have.

        `corrections`: how many results had been retracted or amended when it was made.
        """
        self.fit, self.corrections = fit, corrections
        self._rules = rules
        self.units = fit.units(sign)
        self._search = search
        self._start(contexts)
        self._n_together = 0  # outcomes that were told with others of the same evaluation

    def _start(self, contexts: FloatArray) -> None:
        """Make both posteriors the prior, on contexts (n, d)."""
        self.certain = self.searching = self._search.prior(self.fit.gp, contexts)
        self._taken = 0
        self._order: NDArray[np.intp] | None = None  # of the outcomes in the posteriors, where they have a block

    @property
    def contexts(self) -> FloatArray:
        """The contexts (n, d) that the posteriors are on."""
        return self.certain.contexts

    def catch_up(self, told: Sequence[Told], contexts: FloatArray) -> None:
        """Take in the results that are new, on contexts (n, d)."""
        self.place(contexts)
        if len(told) == self._taken:
            return
        new = told[self._taken :]
        self._n_together += sum(len(record.outcomes) for record in new if len(record.outcomes) > 1)
        in_block = self.certain.factorises and self._n_together >= LEAST_COMMON
        if in_block and not any(record.hidden for record in told) and self._take_in_block(told):
            return
        if self._order is not None:
            self._start(contexts)
            new = told
        before = list(itertools.takewhile(lambda record: not record.failed, new)) if self._shared else []
        self.certain.take_in_all(self._taught(before))
        rest = new[len(before) :]
        if rest:
            if self._shared:
                self.searching = self.certain.copy()
            self.certain.take_in_all(self._taught([record for record in rest if not record.failed]))
            self.searching.take_in_all(self._taught(rest))
        self._taken = len(told)

    def _take_in_block(self, told: Sequence[Told]) -> bool:
        """Make both posteriors anew where most results are of the same contexts; return whether that is so.

        A failure in these contexts stands in the block with the outcomes that are expected of it, which do not move the
        mean. Other failures come on top.
        """
        outcomes = outcomes_of(told, self.units)
        common = outcomes.common()
        if common is None:
            return False
        x, c, y = outcomes.x[common.block[:, 0]], outcomes.c[common.block[0]], outcomes.y[common.block]
        rest = observations_of(outcomes.of_rows(common.rest))
        actions, contexts, gp = self.certain.actions, self.certain.contexts, self.fit.gp
        self.certain = self.searching = KroneckerPosterior(gp, actions, contexts, (x, c, y))
        self.certain.take_in_all(rest)
        failed = [record for record in told if record.failed]
        if failed:
            keys = sorted(row.tobytes() for row in c)
            alike = [r for r in failed if sorted(one.coordinates.tobytes() for one in r.contexts) == keys]
            lost = np.array([record.action.coordinates for record in alike]).reshape(-1, x.shape[1])
            if alike:
                expected, _ = self.certain.predict(np.repeat(lost, len(c), axis=0), np.tile(c, (len(lost), 1)))
                y = np.concatenate([y, expected.reshape(-1, len(c))])
            self.searching = KroneckerPosterior(gp, actions, contexts, (np.concatenate([x, lost]), c, y))
            self.searching.take_in_all(rest)
            self.searching.take_in_all(self._taught([record for record in failed if record not in alike]))
        self._taken, self._order = len(told), np.concatenate([common.block.ravel(), common.rest])
        return True

    def leave_one_out(self) -> tuple[FloatArray, FloatArray]:
        """Return `Posterior.leave_one_out` of the outcomes, in the order in which they were told."""
        residual, variance = self.certain.leave_one_out()
        if self._order is None:
            return residual, variance
        back = np.argsort(self._order)
        return residual[back], variance[back]

    def place(self, contexts: FloatArray) -> None:
        """Put both posteriors on contexts (n, d)."""
        if self.certain.contexts is contexts or np.array_equal(self.certain.contexts, contexts):
            return
        shared = self._shared
        self.certain = self.certain.on(contexts)
        self.searching = self.certain if shared else self.searching.on(contexts)

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

    @property
    def _shared(self) -> bool:
        return self.searching is self.certain

    def _taught(self, records: Sequence[Told]) -> list[Observation]:
        return [
            self._scattered(one) if record.hidden else one
            for record in records
            for one in observations(record, self.units)
        ]

    def _scattered(self, observation: Observation) -> Observation:
        """Return an observation whose context was not revealed, with what that adds to its error for every rule."""
        scatter, ridge = self.certain.scatter(observation), self.fit.gp.ridge
        added = max(rule.hidden_variance(scatter, ridge, self.units) for rule in self._rules)
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
    """The posteriors of one round (`drbo.rounds.beliefs.Beliefs`)."""

    belief: Belief
    pending: Sequence[Pending]
    width: float
    certificate_width: float
    _made: list[AnyPosterior] = field(default_factory=list)

    @property
    def units(self) -> Units:
        """The units of the outcomes."""
        return self.belief.units

    def certain(self, ball: Ball) -> AnyPosterior:
        """Return the posterior of the outcomes alone, on the atoms of a ball."""
        self.belief.place(ball.contexts)
        return self.belief.certain

    def expected(self, ball: Ball) -> AnyPosterior:
        """Return the posterior that also counts failed and pending evaluations, on the atoms of a ball."""
        self.belief.place(ball.contexts)
        if not self.pending:
            return self.belief.searching
        if self._made and self._made[0].contexts is ball.contexts:
            return self._made[0]
        posterior = self.belief.searching.copy()
        in_order = sorted(self.pending, key=lambda p: not p.contexts)  # those of unknown context come last
        posterior.take_in_all([one for p in in_order for one in p.observations()])
        posterior.contexts = ball.contexts
        self._made[:] = [posterior]
        return posterior

    def also(self, ball: Ball, action: Point, contexts: Sequence[Point]) -> RoundBeliefs:
        """Return the beliefs with one more evaluation under way: an action, in these contexts."""
        under_way = [*self.pending, Pending(action, tuple(contexts), ball.reference)]
        return RoundBeliefs(self.belief, under_way, self.width, self.certificate_width)
