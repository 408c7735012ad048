"""Ask, tell, recommend: the loop of algorithms 1 and 2, turned inside out.

An optimizer is its configuration and a history of facts (`drbo.optimizer.history`). Commands (`ask`, `tell`, `cancel`)
append one record each. Everything else is derived from the history and may be dropped at any moment: the bookkeeping
(`state.py`), the posteriors (`belief.py`), certificates. Queries never append, and never change the next `ask`.
"""

from __future__ import annotations

import functools
import math
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar, cast, overload

import numpy as np
from numpy.typing import ArrayLike

from drbo import validation
from drbo.ambiguity.contract import AmbiguitySet
from drbo.ambiguity.function import AmbiguityFunction, FunctionSet
from drbo.ambiguity.mmd import MMD
from drbo.ambiguity.reference import SPREAD, Contexts, FiniteContexts, Reference, SampledContexts
from drbo.models.bounds import LOWER, Beta, Bound, TheoreticalBeta, as_beta
from drbo.models.gp import GP, FittedGP, Posterior
from drbo.models.learned import LearnedGP
from drbo.optimizer import history, storage
from drbo.optimizer.belief import Belief, Pending, RoundBeliefs
from drbo.optimizer.history import Asked, Cancelled, Fact, Proposal, Told
from drbo.optimizer.state import Iterate, State
from drbo.optimizer.suggestion import Prediction, Recommendation, Result, Suggestion
from drbo.rounds.ball import Ball, Certificate, frozen_copy
from drbo.rounds.box import BoxSearch
from drbo.rounds.grid import GridSearch
from drbo.rounds.policies import Policy, Round
from drbo.rounds.range import make_ball
from drbo.rounds.search import Search
from drbo.rounds.settings import Setting
from drbo.spaces.box import Box
from drbo.spaces.finite import FiniteSet
from drbo.spaces.samples import Samples
from drbo.spaces.space import Point
from drbo.validation import FloatArray

LARGEST_OUTCOME = 1e100
"""Larger outcomes are refused: a model of such values would overflow."""
_PASSES = 4
"""How often a recommendation is searched anew at most, because the adversary asked for further contexts."""

Method = TypeVar("Method", bound=Callable[..., Any])


def _alone(method: Method) -> Method:
    """Let one thread at a time into an optimizer: a `tell` waits for an `ask` that is running."""

    @functools.wraps(method)
    def locked(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            return method(self, *args, **kwargs)

    return cast(Method, locked)


class Optimizer:
    """Distributionally robust Bayesian optimization of an unknown f(x, c).

    Safe to use from several threads: one call at a time runs, and the others wait for it. `copy.deepcopy`, `pickle` and
    a fork give an independent optimizer with the same history.

    Parameters
    ----------
    actions : what we choose from: points (n_actions, d_x), or a `Box` of named parameters
    contexts : what nature chooses from: points (n_contexts, d_c), `Samples` of past conditions, or a `Box` of named
        parameters, of which nothing has been seen yet; its well-spread points are the reference until something has
    ambiguity : the family of ambiguity sets, such as `MMD(kernel=RBF(0.2))` or `Wasserstein()`. Distances and
        lengthscales are in the units of the contexts. By default an MMD of RBF lengthscale 0.2 sqrt(d_c) of each
        column's range
    setting : `General()`, `DataDriven(...)` or `Simulator(...)`
    surrogate : the model of f: a `GP` with fixed hyper-parameters, or a `LearnedGP`, which is the default. Kernels are
        on the coordinates of a finite set as they are; on the unit cube for boxes, samples and learned models
    beta : the width of the confidence bounds, a number or a `TheoreticalBeta`
    maximize : False if outcomes are to be minimised
    policy : what to evaluate next; that of the setting by default
    seed : of the candidates of a search over a box; nothing is random for finite sets
    """

    def __init__(
        self,
        actions: ArrayLike | Box,
        contexts: ArrayLike | Samples | Box,
        *,
        ambiguity: AmbiguitySet | AmbiguityFunction | None = None,
        setting: Setting,
        surrogate: GP | LearnedGP | None = None,
        beta: float | TheoreticalBeta = 2.0,
        maximize: bool = True,
        policy: Policy | None = None,
        seed: int = 0,
    ) -> None:
        surrogate = LearnedGP() if surrogate is None else surrogate
        if not isinstance(setting, Setting):
            raise TypeError(f"setting must be General(), DataDriven(...) or Simulator(...), got {setting!r}")
        if not isinstance(surrogate, GP | LearnedGP):
            raise TypeError(f"surrogate must be a GP or a LearnedGP, got {surrogate!r}")
        if not (policy is None or isinstance(policy, Policy)):
            raise TypeError(f"policy must be a Policy such as drbo.Optimism(), or None, got {policy!r}")
        self.setting, self.surrogate = setting, surrogate
        self.policy = setting.policy if policy is None else policy
        self.beta: Beta = as_beta(beta)
        self.maximize = validation.flag("maximize", maximize)
        self.seed = validation.whole_number("seed", seed, least=0)
        self._search = _search_of(actions, surrogate)
        self.contexts: FiniteSet | Samples | Box
        self._ambiguity, self._contexts, self.contexts = _contexts_of(contexts, ambiguity, surrogate, self.seed)
        setting.check(self._contexts)
        self._sign = 1.0 if self.maximize else -1.0
        self._first_fit = surrogate.first_fit(self._search.space.dimension, self._contexts.space.dimension)
        self._configuration = {
            "actions": self.actions if isinstance(self.actions, Box) else self.actions.points,
            "contexts": self.contexts.points if isinstance(self.contexts, FiniteSet) else self.contexts,
            "ambiguity": ambiguity,
            "setting": setting,
            "surrogate": surrogate,
            "beta": self.beta,
            "maximize": self.maximize,
            "policy": policy,
            "seed": self.seed,
        }
        self._facts: list[Fact] = []
        self._file = storage.File()
        self._start_anew()
        _alive.add(self)

    def _start_anew(self) -> None:
        """Drop all that is derived from the facts; it is made again when it is needed."""
        self._lock = threading.RLock()
        self._state: State | None = None
        self._noted = 0  # how many facts the state has noted
        self._belief: Belief | None = None
        self._due_fit: tuple[FittedGP, int, FittedGP] | None = None  # of a fit and so many outcomes, the next one
        self._placed: tuple[FloatArray, AmbiguitySet] | None = None  # atoms, and the set on them
        self._extended: tuple[Reference, FloatArray, Reference] | None = None  # with further contexts
        self._certified: tuple[int, Recommendation] | None = None  # the incumbent, after so many facts

    def __repr__(self) -> str:
        told, waiting = self.n_told, len(self.pending)
        return f"Optimizer(actions={self.actions!r}, setting={self.setting!r}: {told} told, {waiting} pending)"

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return {"configuration": self._configuration, "facts": list(self._facts)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # it was given when the optimizer was made
            Optimizer.__init__(self, **state["configuration"])
        self._facts = state["facts"]

    # --- what is known ----------------------------------------------------------------------------------------------

    @property
    def actions(self) -> FiniteSet | Box:
        """What we choose from."""
        space = self._search.space
        assert isinstance(space, FiniteSet | Box)
        return space

    @property
    @_alone
    def posterior(self) -> Posterior:
        """The posterior of the outcomes told so far, in the model's coordinates and units; not to be changed."""
        belief = self._believe(self._note(), None)
        return belief.certain

    @property
    @_alone
    def n_told(self) -> int:
        """How many results have been told, failed ones included."""
        return len(self._note().told_so_far)

    @property
    @_alone
    def ambiguity(self) -> AmbiguitySet:
        """The family of ambiguity sets, put on the present atoms of the contexts."""
        state = self._note()
        return self._on(self._with_further(state, self._contexts.seen([])).points)

    @property
    @_alone
    def pending(self) -> tuple[Suggestion, ...]:
        """The suggestions that have been neither told nor cancelled, the oldest first."""
        state = self._note()
        return tuple(self._suggestion(state, iterate) for iterate in state.pending.values())

    @property
    @_alone
    def history(self) -> tuple[Fact, ...]:
        """The facts: one record per command, in order (`drbo.optimizer.history`)."""
        return tuple(self._facts)

    @property
    @_alone
    def results(self) -> tuple[Result, ...]:
        """What was told, in the user's units and in order."""
        return tuple(
            Result(
                record.number,
                self._search.space.decode(record.action),
                self._contexts.space.decode(context),
                None if record.failed else record.outcomes[i],
                record.failed,
                record.time,
            )
            for record in self._note().told_so_far
            for i, context in enumerate(record.contexts)
        )

    # --- commands: each appends one record --------------------------------------------------------------------------

    @overload
    def ask(self, n: None = None, *, reference: Any = None, radius: float | None = None) -> Suggestion: ...

    @overload
    def ask(self, n: int, *, reference: Any = None, radius: float | None = None) -> list[Suggestion]: ...

    @_alone
    def ask(
        self,
        n: int | None = None,
        *,
        reference: ArrayLike | Samples | None = None,
        radius: float | None = None,
    ) -> Suggestion | list[Suggestion]:
        """Return the next evaluation. It stays pending, and counts for later asks, until it is told or cancelled.

        `ask(3)` returns a list of three evaluations, each chosen as if those before it were under way.

        General setting: `reference` and `radius` are those of this round, the reference as weights (n_contexts,) of a
        finite set, or as `Samples` of what the contexts of this round may be. Simulator: both may be given, in place of
        those that it was made with, for this round. Data-driven: neither.
        """
        if n is not None and (np.ndim(n) > 0 or isinstance(n, Samples)):
            raise TypeError("reference must be given by its name: ask(reference=..., radius=...)")
        count = 1 if n is None else validation.whole_number("n", n, least=1)
        state = self._note()
        fit = self._fit(state)
        given = _kept(reference)
        proposals: list[Proposal] = []
        iterates: list[Iterate] = []
        for _ in range(count):
            proposals.append(self._propose(state, given, radius, proposals))
            iterates.append(Iterate(proposals[-1], given, len(state.seen)))
        kept_radius = None if radius is None else float(radius)
        learned = None if fit is state.fit else fit
        suggestions = [self._suggestion(state, iterate) for iterate in iterates]
        self._facts.append(Asked(history.now(), given, kept_radius, learned, tuple(proposals)))
        return suggestions[0] if n is None else suggestions

    @_alone
    def tell(
        self,
        suggestion: Suggestion | Any,
        outcome: float | None = None,
        *,
        context: Any = None,
        context_index: int | None = None,
        failed: bool = False,
    ) -> None:
        """Take in the outcome of a suggestion, and the context that it was observed in where nature picked it.

        In place of a suggestion an action may be given, with its context, for results that were never asked for.
        `failed=True` in place of an outcome: the evaluation gave nothing, by accident. The model learns no value from
        it, will not ask for the same again, and recommends another action. Where actions themselves cannot work, tell a
        poor outcome instead: the model learns nothing from failures about what is near them.
        """
        state = self._note()
        if validation.flag("failed", failed) == (outcome is not None):
            raise TypeError("tell needs an outcome, or failed=True in its place, and not both")
        if isinstance(suggestion, Suggestion):
            self._check_pending(state, suggestion)
            action, number = suggestion.action_point, suggestion.number
            picked, likeliest = suggestion.context_point, int(np.argmax(suggestion.reference))
        else:
            action, number, picked, likeliest = self._encode_action(suggestion), None, None, -1
        unknown = context is None and context_index is None
        if picked is not None:
            if not unknown:
                raise TypeError("context must not be given: it was picked with the suggestion, see suggestion.context")
            where, drawn = picked, True
        elif failed and number is not None and unknown:
            # Nobody knows in which context it failed: the likeliest one keeps it from being asked again.
            where, drawn = self._reference_of(state, state.pending[number]).atom(likeliest), False
        else:
            where, drawn = self._observed_context(context, context_index), True
        outcomes = () if outcome is None else (_checked_outcome(outcome),)
        self._facts.append(Told(history.now(), number, action, (where,), outcomes, drawn))

    @_alone
    def cancel(self, suggestion: Suggestion) -> None:
        """Forget a pending suggestion that will not be evaluated."""
        self._check_pending(self._note(), suggestion)
        self._facts.append(Cancelled(history.now(), suggestion.number))

    # --- queries: they append nothing -------------------------------------------------------------------------------

    @_alone
    def recommend(self, reference: ArrayLike | Samples | None = None, radius: float | None = None) -> Recommendation:
        """Return the best guaranteed action now: the largest worst-case lower confidence bound under all outcomes told.

        It is for the set of the last ask, unless `reference` or `radius` are given. An action that failed is never
        recommended.
        """
        state = self._note()
        given = state.given[0] if reference is None else _kept(reference)
        ball = self._ball(state, given, state.given[1] if radius is None else radius)
        beliefs = self._beliefs(state, ball, ())
        failed = [record.action for record in state.failed]
        best: tuple[Certificate, Point, Ball] | None = None
        for _ in range(_PASSES):
            bound = Bound(beliefs.certain(ball), beliefs.width, LOWER)
            found = self._search.best(ball, bound, self._near(state), self._rows([]), failed)
            made = ball.certificate(bound, found.action)
            if best is None or made.lower_bound > best[0].lower_bound:
                best = made, found.action, ball
            wider = ball.adopting(made)
            if wider is ball:  # the adversary asked for no further context
                break
            ball = wider
        assert best is not None
        return self._recommendation(*best, beliefs.width)

    @_alone
    def recommend_iterate(self) -> Recommendation:
        """Return the iterate whose worst-case lower confidence bound at its own time was largest (eq. 10).

        The certificate is computed now, from all outcomes told, for the set of that iterate's round. General setting:
        the sets of different rounds are compared as they are; `recommend` is for one set.
        """
        state = self._note()
        iterate = state.incumbent
        if iterate is None:
            raise RuntimeError("recommend_iterate needs an iterate that has not failed: call ask first")
        if self._certified is not None and self._certified[0] == len(self._facts):
            return self._certified[1]
        reference = self._with_further(state, self._reference_of(state, iterate))
        ball = self._ball_on(state, reference, iterate.proposal.radius)
        beliefs = self._beliefs(state, ball, ())
        bound = Bound(beliefs.certain(ball), beliefs.width, LOWER)
        made = ball.certificate(bound, iterate.proposal.action)
        found = self._recommendation(made, iterate.proposal.action, ball, beliefs.width)
        self._certified = len(self._facts), found
        return found

    def recommend_final(
        self, reference: ArrayLike | Samples | None = None, radius: float | None = None
    ) -> Recommendation:
        """Return `recommend(reference, radius)`, its name since version 0.2."""
        warnings.warn("recommend_final is now called recommend", DeprecationWarning, stacklevel=2)
        return self.recommend(reference, radius)

    @_alone
    def predict(self, action: Any, context: Any) -> Prediction:
        """Return mean, standard deviation and confidence bounds of f(action, context), in the user's units."""
        state = self._note()
        x, c = self._encode_action(action), self._contexts.encode("context", context)
        belief = self._believe(state, None)
        mean, variance = belief.certain.predict(x.coordinates[None, :], c.coordinates[None, :])
        units, std, width = belief.units, math.sqrt(float(variance[0])), self._width(belief)
        ends = sorted((units.outward(mean[0] - width * std), units.outward(mean[0] + width * std)))
        return Prediction(units.outward(float(mean[0])), units.length_outward(std), *ends)

    @_alone
    def to_frame(self) -> Any:
        """Return a pandas DataFrame of the results: one row each, in the user's units, with its time (UTC)."""
        from drbo._extras import require

        pandas = require("pandas", "frame")
        return pandas.DataFrame.from_records([_row(result, pandas) for result in self.results])

    # --- save and resume --------------------------------------------------------------------------------------------

    @_alone
    def save(self, path: str | Path) -> None:
        """Write configuration and facts to one file; legal at any moment.

        Records are appended to a file that this optimizer wrote or loaded before; another file is replaced as a whole.
        """
        self._file.save(Path(path), self._configuration, self._facts)

    @classmethod
    def load(cls, path: str | Path, classes: Sequence[type] = ()) -> Self:
        """Return a saved optimizer, which goes on as the one that was saved.

        `classes` are the sets, kernels, settings and policies of your own that the file names: no other code is run.
        """
        contents = storage.read(Path(path), classes)
        with storage.told_as_damage(path):
            opt = cls(**contents.configuration)
            opt._facts = list(contents.facts(opt._search.space, opt._contexts.space))
            opt._note()
        opt._file = contents.file
        return opt

    # --- what follows from the facts --------------------------------------------------------------------------------

    def _note(self) -> State:
        """Return the bookkeeping of all facts; after an interrupt it is made anew."""
        state, self._state = self._state, None
        if state is None:
            state, self._noted = State(self._first_fit, self._sign, self._contexts.space.dimension), 0
        for fact in self._facts[self._noted :]:
            fact.apply(state)
        self._noted = len(self._facts)
        self._state = state
        return state

    def _fit(self, state: State) -> FittedGP:
        """Return the hyper-parameters of now: a function of the facts and of the last recorded fit."""
        last = state.fit
        if not self.surrogate.due(state.n_outcomes, last):
            return last
        kept = self._due_fit
        if kept is None or kept[0] is not last or kept[1] != state.n_outcomes:
            kept = self._due_fit = last, state.n_outcomes, self.surrogate.refit(*state.outcomes(), last)
        return kept[2]

    def _believe(self, state: State, contexts: FloatArray | None) -> Belief:
        """Return the posteriors of all results, on contexts (n, d); after an interrupt they are made anew."""
        belief, self._belief = self._belief, None
        fit = self._fit(state)
        if contexts is None:
            contexts = self._with_further(state, self._contexts.seen([])).points if belief is None else belief.contexts
        if belief is None or belief.fit is not fit:
            belief = Belief(self._search, fit, contexts, self._sign)
        belief.catch_up(state.told_so_far, contexts)
        self._belief = belief
        return belief

    def _width(self, belief: Belief) -> float:
        gain, ridge = belief.certain.information_gain, belief.fit.gp.ridge
        return self.beta.width(gain, ridge, self.setting.events, belief.units)

    def _beliefs(self, state: State, ball: Ball, under_way: Sequence[Iterate]) -> RoundBeliefs:
        """Return the posteriors of a round, with evaluations that are under way."""
        belief = self._believe(state, ball.contexts)
        pending = [Pending(i.proposal.action, i.proposal.context, self._reference_of(state, i)) for i in under_way]
        return RoundBeliefs(belief, pending, self._width(belief))

    # --- one round --------------------------------------------------------------------------------------------------

    def _propose(self, state: State, given: Any, radius: Any, before: Sequence[Proposal]) -> Proposal:
        """Return the next suggestion, with those `before` it in the same call under way."""
        number = state.n_asked + len(before)
        ball = self._ball(state, given, radius, before)
        under_way = [*state.pending.values(), *(Iterate(p, given, len(state.seen)) for p in before)]
        beliefs = self._beliefs(state, ball, under_way)
        away = [*state.under_way, *(p.action for p in before)]
        choice = self.policy.choose(Round(ball, self._search, self._near(state), self._rows(away)), beliefs)
        # Eq. (10): the worst-case lcb at its own time, of outcomes alone: nothing pending counts.
        lower = Bound(beliefs.certain(choice.ball), beliefs.width, LOWER)
        worst = choice.ball.worst_case(lower.of_action(choice.action))
        wider, _ = choice.ball.widened(lower, choice.action, float(worst.expectation))
        units = beliefs.belief.units
        return Proposal(
            number=number,
            action=frozen_copy(choice.action),
            context=None if choice.context is None else frozen_copy(choice.context),
            radius=ball.radius,
            score=units.outward(choice.score),
            guarantee=units.outward(float(worst.lower_bound)),
            further=validation.frozen(wider.contexts[len(ball.contexts) :]),
        )

    def _ball(self, state: State, given: Any, radius: Any, before: Sequence[Proposal] = ()) -> Ball:
        """Return the set of this round; what compression costs is added to the radius."""
        own = self.setting.reference_of(given, self._contexts, state.seen)
        reference = self._with_further(state, own, before)
        eps = self.setting.radius_of(radius, reference, self._on(reference.points)) + own.error
        return self._ball_on(state, reference, eps, len(before))

    def _ball_on(self, state: State, reference: Reference, radius: float, before: int = 0) -> Ball:
        seed = self.seed + state.n_asked + before
        set_on_atoms = self._on(reference.points)
        return make_ball(set_on_atoms, reference, radius, self._contexts.space, seed, self._contexts.range)

    def _on(self, points: FloatArray) -> AmbiguitySet:
        """Return the set on atoms (n, d), kept as long as the atoms are the same."""
        kept = self._placed
        if kept is None or not (kept[0] is points or np.array_equal(kept[0], points)):
            space = self._contexts.space
            kept = self._placed = points, self._ambiguity.on(space.measured(points), space.scales)
        return kept[1]

    def _with_further(self, state: State, reference: Reference, before: Sequence[Proposal] = ()) -> Reference:
        """Return a reference with the contexts that the adversary asked for as further atoms."""
        further = state.further
        new = [p.further for p in before if len(p.further)]
        if new:
            further = np.concatenate([further, *new])
        if not len(further):
            return reference
        kept = self._extended
        if kept is None or kept[0] is not reference or not (kept[1] is further or np.array_equal(kept[1], further)):
            kept = self._extended = reference, further, reference.and_also(further)
        return kept[2]

    def _reference_of(self, state: State, iterate: Iterate) -> Reference:
        """Return the reference of an iterate's round."""
        return self.setting.reference_of(iterate.reference, self._contexts, state.seen[: iterate.n_seen])

    def _rows(self, actions: Sequence[Point]) -> FloatArray:
        """Return the coordinates of actions as an array (k, d)."""
        return np.array([point.coordinates for point in actions]).reshape(-1, self._search.space.dimension)

    def _near(self, state: State) -> FloatArray:
        """Return the actions that a search over a box starts near: the incumbent, and the last ones told."""
        known = [] if state.incumbent is None else [state.incumbent.proposal.action]
        known += [record.action for record in state.told_so_far[-2:]]
        return self._rows(known)

    # --- the user's side --------------------------------------------------------------------------------------------

    def _suggestion(self, state: State, iterate: Iterate) -> Suggestion:
        proposal, space = iterate.proposal, self._contexts.space
        context = proposal.context
        return Suggestion(
            number=proposal.number,
            action=self._search.space.decode(proposal.action),
            action_index=proposal.action.index,
            context=None if context is None else space.decode(context),
            context_index=None if context is None else context.index,
            reference=self._reference_of(state, iterate).weights,
            radius=proposal.radius,
            score=proposal.score,
            action_point=proposal.action,
            context_point=context,
        )

    def _recommendation(self, made: Certificate, action: Point, ball: Ball, width: float) -> Recommendation:
        """Return a certificate in the user's units."""
        assert self._belief is not None
        units, worst = self._belief.units, made.worst_case
        return Recommendation(
            action=self._search.space.decode(action),
            action_index=action.index,
            value=units.outward(made.lower_bound),
            gap=units.length_outward(float(worst.expectation - made.lower_bound)),
            weights=validation.frozen(worst.weights),
            contexts=self._decoded(made.reference),
            reference=made.reference.weights,
            radius=ball.radius,
            maximize=self.maximize,
            beta=width,
            delta=self.beta.delta,
            action_point=frozen_copy(action),
        )

    def _decoded(self, reference: Reference) -> Any:
        """Return the atoms in the user's units, to be indexed by atom."""
        space = self._contexts.space
        if isinstance(space, FiniteSet):
            return space.points
        return tuple(space.decode(reference.atom(j)) for j in range(len(reference.points)))

    def _encode_action(self, action: Any) -> Point:
        try:
            return self._search.space.encode("action", action)
        except TypeError as error:
            if isinstance(self.actions, FiniteSet):
                raise TypeError(f"suggestion must be what ask returned, or an action, got {action!r}") from error
            raise

    def _observed_context(self, context: Any, context_index: int | None) -> Point:
        if (context is None) == (context_index is None):
            raise TypeError("tell needs the observed context, either as context=c or as context_index=j")
        if context_index is not None:
            return self._contexts.space.at("context_index", context_index)
        return self._contexts.encode("context", context)

    def _check_pending(self, state: State, suggestion: Suggestion) -> None:
        if not isinstance(suggestion, Suggestion):
            raise TypeError(f"suggestion must be what ask returned, got {suggestion!r}")
        own = state.pending.get(suggestion.number)
        if own is None and 0 <= suggestion.number < state.n_asked:
            raise ValueError(f"suggestion {suggestion.number} has been told or cancelled already")
        mine = own is not None and own.proposal.action is suggestion.action_point
        if own is None or not (mine or self._suggestion(state, own).same_as(suggestion)):
            raise ValueError(f"suggestion {suggestion.number} is not one of this optimizer's")


_alive: weakref.WeakSet[Optimizer] = weakref.WeakSet()


def _after_fork() -> None:
    """Let the optimizers of a forked child start from their facts: another thread may have been inside one."""
    for opt in list(_alive):
        opt._start_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _search_of(actions: ArrayLike | Box, surrogate: GP | LearnedGP) -> Search:
    """Return the search over the actions, which knows their space."""
    if isinstance(actions, Box):
        return BoxSearch(actions)
    space = surrogate.adapted(FiniteSet("actions", actions))
    assert isinstance(space, FiniteSet)
    return GridSearch(space)


def _contexts_of(
    contexts: Any, ambiguity: Any, surrogate: GP | LearnedGP, seed: int
) -> tuple[AmbiguitySet, Contexts, FiniteSet | Samples | Box]:
    """Return the ambiguity set, how references are made of the contexts, and the contexts as they were given."""
    if not (ambiguity is None or isinstance(ambiguity, AmbiguitySet) or callable(ambiguity)):
        raise TypeError(f"ambiguity must be an AmbiguitySet such as drbo.MMD(kernel=...), got {ambiguity!r}")
    if isinstance(contexts, Box):
        samples: Samples | None = Samples([], within=contexts, support=SPREAD)
    else:
        samples = contexts if isinstance(contexts, Samples) else None
    if samples is None:
        space = surrogate.adapted(FiniteSet("contexts", contexts))
        assert isinstance(space, FiniteSet)
        chosen = _ambiguity_of(ambiguity, space)
        chosen.on(space.points, space.scales)  # an error in the configuration shows now
        return chosen, FiniteContexts(space), space
    if samples.within is not None and isinstance(ambiguity, AmbiguitySet) and ambiguity.n_contexts is not None:
        raise TypeError(
            f"ambiguity must not have contexts of its own where these have a range, got {ambiguity!r}: "
            "give drbo.Wasserstein() or drbo.MMD(kernel=...)"
        )
    chosen = _ambiguity_of(ambiguity, samples.space)
    return chosen, SampledContexts(samples, chosen, seed), contexts


def _ambiguity_of(ambiguity: Any, space: Any) -> AmbiguitySet:
    if ambiguity is None:
        return MMD()
    if isinstance(ambiguity, AmbiguitySet):
        return ambiguity
    warnings.warn(
        "ambiguity as a function from contexts is deprecated: give drbo.MMD(kernel=...) or drbo.Wasserstein(), whose "
        "distances are in the units of the contexts",
        DeprecationWarning,
        stacklevel=4,
    )
    return FunctionSet(ambiguity, space)


def _kept(reference: Any) -> Any:
    """Return a reference as it is kept with the facts: weights as an array that nobody can change."""
    if isinstance(reference, np.ndarray | list | tuple):
        return validation.frozen(validation.finite_array("reference", reference))
    return reference


def _checked_outcome(outcome: Any) -> float:
    y = validation.finite_float("outcome", outcome)
    if abs(y) > LARGEST_OUTCOME:
        raise ValueError(f"outcome must not exceed {LARGEST_OUTCOME:g} in size, got {y}")
    return y


def _row(result: Result, pandas: Any) -> dict[str, Any]:
    """Return a result as a row of a table: one column per parameter and condition."""
    row: dict[str, Any] = {"number": result.number}
    for kind, value in (("action", result.action), ("context", result.context)):
        row.update(value if isinstance(value, dict) else {kind: np.squeeze(value).tolist()})
    row.update(outcome=result.outcome, failed=result.failed)
    row["time"] = pandas.NaT if result.time is None else pandas.Timestamp(result.time, unit="s", tz="UTC")
    return row
