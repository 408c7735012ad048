"""The state derived from configuration and facts: hyper-parameters, posteriors, and the ball of a round.

All derived state is a cache that can be rebuilt from the facts. A value under change is removed from its field first
and put back when complete, so an interrupt drops it rather than leaving it half done.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from drbo import validation
from drbo.ambiguity.placed import PlacedSet
from drbo.contexts.nature import Contexts, Reference
from drbo.knowledge.ahead import Ahead, Forecaster
from drbo.knowledge.belief import MANY, OutcomeBelief, Pending, RoundBeliefs
from drbo.knowledge.configuration import Configuration
from drbo.knowledge.history import OBJECTIVE, Amended, Fact, Told
from drbo.knowledge.state import NO_TERMS, Iterate, State, Terms, kept, values_of
from drbo.models.bounds import Beta
from drbo.models.data import Outcomes, Units
from drbo.models.success import Success, Trials
from drbo.models.surrogate import Fit, SupportsAlternatives, SupportsInformationGain, supports
from drbo.rounds.ball import Ball
from drbo.rounds.policies import Evaluations
from drbo.rounds.range_ball import make_ball
from drbo.rounds.working import SuccessChances, places, representative
from drbo.spaces.space import Point
from drbo.validation import FloatArray

_EACH, _LAGS = 64, 16
"""From 64 results on, the probability of success is learned again only when a 16th of the results is new."""
_RADII = 4
"""Cache size for radii: a rule that resamples takes seconds."""
_NARROWED = 16
"""Cache size for contexts conditioned on `given`."""


class Knowledge:
    """The derived state of the facts so far, updated on demand."""

    def __init__(self, configuration: Configuration, facts: list[Fact]) -> None:
        self.configuration = configuration
        self._facts = facts
        self._no_action = np.empty((0, configuration.search.space.dimension))
        self._state: State | None = None
        self._noted = 0  # number of facts applied to the state
        self._belief: dict[str, OutcomeBelief] = {}  # by the name of the outcome
        # The next fit by outcome, with its key: the last fit, and the numbers of values and corrections.
        self._next_fit: dict[str, tuple[Fit, tuple[int, int], Fit]] = {}
        self._read: dict[str, tuple[int, int, Outcomes | None]] = {}  # cache by outcome: corrections, results, values
        self._models: dict[str, tuple[Fit, int, list[OutcomeBelief]]] = {}  # by outcome: fit, corrections, posteriors
        self._forecasting = threading.Lock()
        self._ahead: dict[str, tuple[int, Forecaster, Ahead]] = {}  # cache by outcome: number of facts, errors
        self._measured: dict[str, tuple[int, Units, Evaluations]] = {}  # cache by outcome: number of facts, units
        self._success: tuple[tuple[int, int], Success] | None = None  # cache: numbers of results and corrections
        self._chances: SuccessChances | None = None  # cache: under the last reference
        self._placed: list[tuple[FloatArray, PlacedSet]] = []  # cache: the last two arrays of atoms, with their sets
        self._extended: tuple[Reference, FloatArray, Reference] | None = None  # cache: with further contexts
        self._narrowed: list[tuple[Mapping[Any, Any], Contexts]] = []  # cache: contexts conditioned on `given`
        self._radii: list[tuple[tuple[bytes, ...], float]] = []  # cache: the data of a rule, and its radius

    # --- bookkeeping, hyper-parameters and posteriors ---------------------------------------------------------------

    @property
    def state(self) -> State:
        """The state after all facts."""
        state, self._state = self._state, None
        if state is None:
            own = self.configuration
            fits = {name: outcome.first_fit for name, outcome in own.outcomes.items()}
            state, self._noted = State(fits, own.objective.sign, own.nature.space.dimension), 0
        for fact in self._facts[self._noted :]:
            state.apply(fact)
        self._noted = state.n_facts = len(self._facts)
        self._state = state
        return state

    def check(self) -> None:
        """Raise if the facts are inconsistent, or if one of their references is invalid."""
        self.state  # noqa: B018  # raises if their order is wrong
        for fact in self._facts:
            if isinstance(fact, Told | Amended):
                self.configuration.check_range(fact.outcomes)
            for reference, given in fact.given_with:
                nature = self.nature(given)
                if reference is not None:
                    nature.check(reference)

    def ahead(self, state: State, name: str = OBJECTIVE) -> Ahead:
        """Return the one-step-ahead errors of an outcome up to a state (cached)."""
        with self._forecasting:  # a verdict is made when it is read, which may be in any thread
            cached = self._ahead.pop(name, None)
            if cached is None or cached[0] > state.n_facts:  # an earlier state
                cached = 0, Forecaster(self.configuration, name), Ahead((), (), (), (), False)
            if cached[0] < state.n_facts:
                cached = state.n_facts, cached[1], cached[1].ahead(self._facts[: state.n_facts])
            self._ahead[name] = cached
            return cached[2]

    def fit(self, state: State, name: str = OBJECTIVE, *, fresh: bool = False) -> Fit:
        """Return the current hyper-parameters of an outcome: a function of the facts and of the last recorded fit.

        `fresh`: learned from every value so far, as a bound needs, unless there are many; otherwise they may lag by a
        few values.
        """
        last, outcome, count = state.fits[name], self.configuration.outcomes[name], state.counts[name]
        model = outcome.surrogate
        if not model.learns:
            return last
        corrected = state.corrections != state.fit_corrections[name]
        more = count > last.n_outcomes if fresh and count < MANY else model.due(count, last)
        if not (corrected or more):
            return last
        if count == 0:  # all of them were retracted
            return outcome.first_fit
        key, made = (count, state.corrections), self._next_fit.get(name)
        if made is None or made[0] is not last or made[1] != key:
            values = self._values(state, name)
            made = self._next_fit[name] = last, key, model.refit(self.configuration.inputs.seen(values), last)
        return made[2]

    def fits(self, state: State, *, fresh: bool) -> tuple[dict[str, Fit], dict[str, Fit]]:
        """Return the current hyper-parameters by outcome, and those that are new; `fresh` as for `fit`."""
        found, new = {}, {}
        for name, last in state.fits.items():
            found[name] = self.fit(state, name, fresh=fresh)
            if found[name] is not last:
                new[name] = found[name]
        return found, new

    def _values(self, state: State, name: str) -> Outcomes:
        """Return all values of an outcome without its known part, in the user's units; to be maximised (cached)."""
        outcome, count = self.configuration.outcomes[name], len(state.told_so_far)
        cached = self._read.pop(name, None)
        if cached is None or cached[0] != state.corrections or cached[1] > count:
            cached = state.corrections, 0, None
        _, start, found = cached
        new = [outcome.unknown(name, record) for record in state.told_so_far[start:]]
        if any(name in record.outcomes for record in new):
            more = values_of(new, name, Units(outcome.sign), start)
            found = more if found is None else found.and_also(more)
        assert found is not None  # nobody asks before the first value
        self._read[name] = state.corrections, count, found
        return found

    def belief(
        self,
        state: State,
        contexts: FloatArray | None = None,
        name: str = OBJECTIVE,
        fit: Fit | None = None,
        *,
        fresh: bool = False,
    ) -> OutcomeBelief:
        """Return the posteriors of an outcome given all results, on contexts (n, d), by a fit; `fresh` as for `fit`."""
        last = self._belief.get(name)
        if fit is None:
            fit = self.fit(state, name, fresh=fresh)
        if contexts is None:
            contexts = self.atoms(state) if last is None else last.contexts
        belief = self._brought(last, state, name, fit, contexts)
        if last is None or last.n_told <= len(state.told_so_far):  # not of an earlier state
            self._belief[name] = belief
        return belief

    def _brought(
        self, belief: OutcomeBelief | None, state: State, name: str, fit: Fit, contexts: FloatArray
    ) -> OutcomeBelief:
        """Return the posteriors of a fit given all results, from an earlier belief if it belongs to the same facts."""
        told, corrections = state.told_so_far, state.corrections
        if belief is None or belief.n_told > len(told) or belief.fit is not fit or belief.corrections != corrections:
            belief = OutcomeBelief.prior(self.configuration, name, fit, contexts, corrections)
        return belief.after(told, contexts)

    def models(self, state: State, name: str, fit: Fit, contexts: FloatArray) -> Sequence[OutcomeBelief]:
        """Return the posteriors of further models of an outcome on contexts (n, d), beside that of a fit (cached)."""
        outcome, count = self.configuration.outcomes[name], state.counts[name]
        if not count or not supports(outcome.surrogate, SupportsAlternatives):
            return ()
        made = self._models.get(name)
        if made is None or made[0] is not fit or made[1] != state.corrections:
            own, values = self.belief(state, contexts, name, fit), self._values(state, name)
            learned_from = values.of_rows(np.arange(min(fit.n_outcomes, len(values.y))))
            fits = outcome.surrogate.alternatives(fit, self.configuration.inputs.seen(learned_from))
            made = fit, state.corrections, [own.by(one) for one in fits]
        beliefs = [self._brought(one, state, name, one.fit, contexts) for one in made[2]]
        self._models[name] = made[0], made[1], beliefs
        return beliefs

    def width(self, belief: OutcomeBelief, beta: Beta) -> float:
        """Return the width beta_t of confidence bounds under a rule."""
        posterior, events = belief.certain, self.configuration.setting.events
        gain, errors_known = math.nan, False
        if beta.proven:  # a posterior without the capability was refused
            proven = cast(SupportsInformationGain, posterior)
            gain, errors_known = proven.information_gain, proven.errors_known
        return beta.width(gain, posterior.noise**2, events, belief.units, errors_known)

    def beliefs(
        self, state: State, ball: Ball, fits: Mapping[str, Fit], under_way: Sequence[Iterate] = ()
    ) -> dict[str, RoundBeliefs]:
        """Return the posteriors of a round with pending evaluations, by outcome, for these hyper-parameters."""
        pending, found = list(map(self._pending, under_way)), {}
        for name, fit in fits.items():
            found[name] = self._round_beliefs(state, self.belief(state, ball.contexts, name, fit), pending)
        return found

    def _pending(self, iterate: Iterate) -> Pending:
        return Pending(iterate.proposal.action, iterate.proposal.contexts, self.reference_of(iterate))

    def for_bounds(self, state: State, ball: Ball, name: str = OBJECTIVE) -> RoundBeliefs:
        """Return the posteriors that bounds of an outcome use: given all results, without pending evaluations."""
        return self._round_beliefs(state, self.belief(state, ball.contexts, name, fresh=True), [])

    def _round_beliefs(self, state: State, belief: OutcomeBelief, pending: Sequence[Pending]) -> RoundBeliefs:
        width = self.width(belief, belief.outcome.beta)
        bound_width = functools.partial(self.bound_width, state, belief)
        models = functools.partial(self.models, state, belief.name, belief.fit)
        success = self.success(state) if state.n_failed else None
        return RoundBeliefs(belief, pending, width, bound_width, models, success is not None and success.by_accident)

    def bound_width(self, state: State, belief: OutcomeBelief) -> float:
        """Return the width of the bounds of a recommendation; for a model that learns, times the size of its errors."""
        width = self.width(belief, belief.outcome.bound_beta)
        return width * self.ahead(state, belief.name).size if belief.outcome.surrogate.learns else width

    # --- the ball of a round ----------------------------------------------------------------------------------------

    def nature(self, given: Mapping[Any, Any] | None) -> Contexts:
        """Return the contexts conditioned on `given`; all contexts if it is None."""
        if not given:
            return self.configuration.nature
        for known, agreeing in self._narrowed:
            if known is given or known == given:
                return agreeing
        made = self.configuration.nature.narrowed(given)
        self._narrowed = [*self._narrowed[1 - _NARROWED :], (given, made)]
        return made

    def terms(self, reference: Any, radius: Any, given: Any, last: Terms = NO_TERMS) -> Terms:
        """Return the terms of a round or a query; missing ones come from `last`."""
        return Terms(
            last.reference if reference is None else kept(reference),
            last.radius if radius is None else radius,
            last.given if given is None else self._given(given),
        )

    def _given(self, given: Any) -> Mapping[Any, Any] | None:
        """Return the known part of the context in the form of the facts; None if nothing is known."""
        values = validation.by_name(given)
        if not isinstance(values, Mapping):
            raise TypeError(f"given must map columns of the context to values, got {given!r}")
        return dict(self.configuration.nature.narrowed(values).known) if values else None

    def ball(self, state: State, terms: Terms, bare: Reference | None = None, before: Sequence[Iterate] = ()) -> Ball:
        """Return the set of a round; its radius includes the cost of compression.

        `bare` is its reference, if it is known. `before` are the suggestions of the same call that are not facts yet.
        """
        setting, nature = self.configuration.setting, self.nature(terms.given)
        bare = self.bare(state, terms) if bare is None else bare
        placed = self.on(bare.points, nature)
        if terms.radius is not None:
            radius = setting.radius_of(terms.radius, bare, placed)
        elif terms.reference is not None and setting.computes_reference:
            past = setting.reference_of(None, nature, state.seen)  # a rule learns from the contexts seen
            radius = self._radius_by_rule(past, self.on(past.points, nature))
        else:
            radius = self._radius_by_rule(bare, placed)
        return self._ball(state, nature, bare, radius + bare.error, before)

    def _radius_by_rule(self, past: Reference, placed: PlacedSet) -> float:
        """Return the setting's radius of the data alone, without the contexts that the adversary added (cached)."""
        unequal = b"" if past.history_weights is None else past.history_weights.tobytes()
        key = past.points.tobytes(), past.weights.tobytes(), past.history.tobytes(), unequal
        for known, radius in self._radii:
            if known == key:
                return radius
        made = self.configuration.setting.radius_of(None, past, placed)
        self._radii = [*self._radii[1 - _RADII :], (key, made)]
        return made

    def ball_at(self, state: State, terms: Terms, radius: float) -> Ball:
        """Return the set around the present reference with any radius; the setting's radius rule does not apply."""
        nature, bare = self.nature(terms.given), self.bare(state, terms)
        return self._ball(state, nature, bare, radius + bare.error)

    def bare(self, state: State, terms: Terms) -> Reference:
        """Return the present reference, without further contexts."""
        return self.configuration.setting.reference_of(terms.reference, self.nature(terms.given), state.seen)

    def ball_of(self, state: State, iterate: Iterate) -> Ball:
        """Return the set of an iterate's round, or the present set if that one is unknown."""
        if math.isnan(iterate.proposal.radius):
            return self.ball(state, state.terms)
        return self._ball(state, self.nature(iterate.given), self.reference_of(iterate), iterate.proposal.radius)

    def reference_of(self, iterate: Iterate) -> Reference:
        """Return the reference of an iterate's round, without further contexts."""
        setting, nature = self.configuration.setting, self.nature(iterate.given)
        return setting.reference_of(iterate.reference, nature, iterate.seen[: iterate.n_seen])

    def on(self, points: FloatArray, nature: Contexts) -> PlacedSet:
        """Return the ambiguity set on atoms (n, d) of the contexts `nature`; the last two are cached."""
        for atoms, placed in self._placed:
            if atoms is points or np.array_equal(atoms, points):
                return placed
        space = nature.space
        made = nature.part_of(self.configuration.ambiguity).on(space.measured(points), space.scales)
        self._placed = [*self._placed[-1:], (points, made)]
        return made

    def atoms(self, state: State) -> FloatArray:
        """Return the atoms (n, d): the given contexts and those that the adversary added."""
        nature = self.configuration.nature
        return self._with_further(state, nature, nature.seen([])).points

    def evaluations(
        self, state: State, name: str, units: Units, pending: Sequence[Iterate] = (), *, failures: bool = True
    ) -> Evaluations:
        """Return where an outcome was evaluated, and the size of its values; with `failures` also where it failed."""
        space, pairs = self.configuration.search.space, state.evaluated(pending, of=None if failures else name)
        actions = np.array([x.coordinates for x, _ in pairs]).reshape(len(pairs), space.dimension)
        contexts = np.array([c.coordinates for _, c in pairs]).reshape(
            len(pairs), self.configuration.nature.space.dimension
        )
        values = [units.inward(value) for record in state.told_so_far for value in record.values_of(name)] or [0.0]
        spread = float(np.std(values)) or 1.0
        doubt = self.ahead(state, name).doubt if self.configuration.outcomes[name].surrogate.learns else 1.0
        return Evaluations(actions, contexts, space.ranges, min(values), spread, doubt)

    def measured(self, state: State, name: str, units: Units) -> Evaluations:
        """Return where an outcome was measured, without failures (cached)."""
        made = self._measured.get(name)
        if made is None or made[:2] != (state.n_facts, units):
            found = self.evaluations(state, name, units, failures=False)
            made = self._measured[name] = state.n_facts, units, found
        return made[2]

    def success(self, state: State) -> Success | None:
        """Return the estimated probability of success of any evaluation; None if nothing failed (cached)."""
        if not state.n_failed:
            return None
        told = state.told_so_far[: len(state.told_so_far) // _step(state) * _step(state)]
        if not any(record.failed for record in told):
            told = state.told_so_far
        key, made = (len(told), state.corrections), self._success
        if made is None or made[0] != key:
            x, c = self.rows([record.action for record in told]), np.array([_middle(record) for record in told])
            trials = Trials.of(places(self.configuration.inputs, self._ranges, x, c), [one.failed for one in told])
            made = self._success = key, Success.learned(trials, self.configuration.inputs.d_action)
        return made[1]

    def chances(self, state: State, reference: Reference) -> SuccessChances | None:
        """Return the estimated probabilities of success under a reference; None if nothing failed."""
        model, inputs = self.success(state), self.configuration.inputs
        if model is None:
            return None
        contexts, weights = representative(reference.points, reference.weights)
        if not model.by_context and inputs.shift is None:
            contexts, weights = contexts[:1], np.ones(1)
        found = self._chances
        if found is None or found.model is not model or not found.under(contexts, weights):
            found = self._chances = SuccessChances(model, inputs, self._ranges, contexts, weights)
        return replace(
            found, best=found.best_of(self.rows([one.action for one in state.told_so_far if not one.failed]))
        )

    @property
    def _ranges(self) -> tuple[FloatArray, FloatArray]:
        return self.configuration.search.space.ranges, self.configuration.nature.space.ranges

    def near(self, state: State) -> FloatArray:
        """Return the actions (k, d) that a search over a box starts near: the incumbent and the last results."""
        if self.configuration.search.exhaustive:  # it looks at all actions
            return self._no_action
        near = [record.action for record in state.told_so_far[-2:]]
        if state.incumbent is not None:
            near.insert(0, state.incumbent.proposal.action)
        return self.rows(near)

    def rows(self, actions: Sequence[Point]) -> FloatArray:
        """Return the coordinates of actions as an array (k, d)."""
        return np.array([point.coordinates for point in actions]) if actions else self._no_action

    def _ball(
        self, state: State, nature: Contexts, bare: Reference, radius: float, before: Sequence[Iterate] = ()
    ) -> Ball:
        """Return the set around a reference, with the adversary's contexts as further atoms."""
        seed = self.configuration.seed + state.n_asked + len(before)
        reference = self._with_further(state, nature, bare, before) if before or len(state.further) else bare
        return make_ball(self.on(reference.points, nature), reference, radius, nature.space, seed, nature.range)

    def _with_further(
        self, state: State, nature: Contexts, reference: Reference, before: Sequence[Iterate] = ()
    ) -> Reference:
        """Return a reference with the adversary's contexts as further atoms, as far as they can occur."""
        further = state.further
        if before:
            further = np.concatenate([further, *(iterate.proposal.further for iterate in before)])
        if not len(further):
            return reference
        if nature.known:
            further = further[nature.holds(further)]
        made = self._extended
        if made is None or made[0] is not reference or not (made[1] is further or np.array_equal(made[1], further)):
            made = self._extended = reference, further, reference.and_also(further)
        return made[2]


def _step(state: State) -> int:
    """Return the number of new results from which on the probability of success is learned again."""
    count = len(state.told_so_far)
    return count // _LAGS if count >= _EACH else 1


def _middle(record: Told) -> FloatArray:
    """Return the mean of a result's contexts (d,): a failure of several contexts belongs to none of them."""
    points = np.array([context.coordinates for context in record.contexts])
    return np.asarray(np.average(points, axis=0, weights=record.weights or None))
