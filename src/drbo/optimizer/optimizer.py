"""Ask, tell, recommend: the loop of algorithms 1 and 2, turned inside out. The only mutable object of the library."""

from __future__ import annotations

import dataclasses
import functools
import math
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from drbo import validation
from drbo.ambiguity import AmbiguitySet
from drbo.ambiguity.reference import AmbiguityFactory, Conditions
from drbo.models.bounds import Beta, ConstantBeta, TheoreticalBeta
from drbo.models.gp import GP, GridPosterior
from drbo.models.learned import LearnedGP
from drbo.models.units import Model, Observation
from drbo.optimizer import storage as persistence
from drbo.optimizer.suggestion import Recommendation, Suggestion
from drbo.rounds.ball import Found, Game
from drbo.rounds.box import Objective
from drbo.rounds.range import Refined
from drbo.rounds.settings import DataDriven, Known, Setting, Simulator
from drbo.spaces.box import Box, FiniteSet, Frame
from drbo.spaces.samples import Samples
from drbo.validation import FloatArray

LARGEST_OUTCOME = 1e100
"""Larger outcomes are refused: a model of such values would overflow."""
_PASSES = 4
"""How often a search over actions is repeated at most, because the adversary asked for further contexts."""
_MISJUDGED = 0.02
"""An action whose score falls by this share of the amplitude of f with further contexts is chosen anew."""

_Arguments = ParamSpec("_Arguments")
_Answer = TypeVar("_Answer")


def _alone(
    method: Callable[Concatenate[Any, _Arguments], _Answer],
) -> Callable[Concatenate[Any, _Arguments], _Answer]:
    """Let one thread at a time into an optimizer; a method may call another."""

    @functools.wraps(method)
    def with_lock(self: Any, /, *arguments: _Arguments.args, **named: _Arguments.kwargs) -> _Answer:
        with self._lock:
            return method(self, *arguments, **named)

    return with_lock


class Optimizer:
    """Distributionally robust Bayesian optimization of an unknown f(x, c).

    Parameters
    ----------
    actions : what we choose from: points (n_actions, d_x), or a `Box` of named parameters
    contexts : what nature chooses from: points (n_contexts, d_c), `Samples` of past conditions, or a `Box` of named
        parameters, of which nothing has been seen yet; its well-spread points are the reference until something has
    ambiguity : the family of ambiguity sets, such as `MMD(contexts)`; for samples and boxes a function from atoms
        (n, d_c), in the unit cube, to such a set, best `functools.partial(drbo.MMD, kernel=...)`: a lambda cannot be
        saved. By default an MMD of RBF lengthscale 0.2 sqrt(d_c) of the range
    setting : `General()`, `DataDriven(...)` or `Simulator(...)`
    surrogate : the model of f: a `GP` with fixed hyper-parameters, or a `LearnedGP`, which is the default. Kernels are
        on the coordinates of a finite set as they are; on the unit cube for boxes, samples and learned models
    beta : the width of the confidence bounds, a number or a `TheoreticalBeta`
    maximize : False if outcomes are to be minimised
    seed : of the candidates of a search over a box; nothing is random for finite sets

    Any number of threads may call its methods: each call waits until the one under way is over.
    """

    def __init__(
        self,
        actions: ArrayLike | Box,
        contexts: ArrayLike | Samples | Box,
        *,
        ambiguity: AmbiguitySet | AmbiguityFactory | None = None,
        setting: Setting,
        surrogate: GP | LearnedGP | None = None,
        beta: float | TheoreticalBeta = 2.0,
        maximize: bool = True,
        seed: int = 0,
    ) -> None:
        self._lock = threading.RLock()
        surrogate = LearnedGP() if surrogate is None else surrogate
        if not isinstance(setting, Setting):
            raise TypeError(f"setting must be General(), DataDriven(...) or Simulator(...), got {setting!r}")
        if not isinstance(surrogate, GP | LearnedGP):
            raise TypeError(f"surrogate must be a GP or a LearnedGP, got {surrogate!r}")
        self.actions = actions if isinstance(actions, Box) else FiniteSet("actions", actions)
        learned = isinstance(surrogate, LearnedGP)
        number = validation.whole_number("seed", seed, least=0)
        self._conditions = Conditions(contexts, ambiguity, learned, number)
        self.setting = setting
        self.surrogate = surrogate
        self.beta: Beta = beta if isinstance(beta, TheoreticalBeta) else ConstantBeta(beta)
        self.maximize = validation.flag("maximize", maximize)
        self.seed = number
        self._sign = 1.0 if self.maximize else -1.0
        setting.check(len(self._conditions), self._conditions.sampled)
        if isinstance(self.actions, FiniteSet):
            grid = Frame.of(self.actions, learned).scaled(self.actions.points)
        else:
            grid = np.empty((0, self.actions.dimension))
        self._grid = validation.frozen(grid)  # finite actions in the model's coordinates
        self._model = Model(surrogate, self._grid, self._conditions.atoms.points)
        self._atoms_at = 0  # how many observations the atoms are made of
        self._pending: dict[int, Suggestion] = {}
        self._asked = 0
        self._settled = 0  # how many observations have left their mark on what is pending and on the best
        self._best: Recommendation | None = None
        self._best_failed = False
        self._certified_by: GP | None = None  # the model that the certificate of the best rests on
        self._given: tuple[Any, Any] = (None, None)  # reference and radius of the last ask, as they were given
        self._feasible: tuple[FloatArray, float, FloatArray] | None = None  # last round's set, and worst cases in it

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.RLock())

    @_alone
    def __repr__(self) -> str:
        told, waiting = self.n_told, len(self.pending)
        return f"Optimizer(actions={self.actions!r}, setting={self.setting!r}: {told} told, {waiting} pending)"

    # --- what is known ----------------------------------------------------------------------------------------------

    @property
    @_alone
    def posterior(self) -> GridPosterior:
        """The posterior of the outcomes told so far, in the model's coordinates and units; not to be changed."""
        return self._model.posterior

    @property
    @_alone
    def n_told(self) -> int:
        """How many results have been told, failed ones included."""
        return len(self._model.observations)

    @property
    def contexts(self) -> FiniteSet | Samples | Box:
        """What nature chooses from."""
        return self._conditions.space

    @property
    @_alone
    def ambiguity(self) -> AmbiguitySet:
        """The family of ambiguity sets on the atoms of the contexts."""
        return self._conditions.ambiguity

    @property
    @_alone
    def pending(self) -> tuple[Suggestion, ...]:
        """The suggestions that have been neither told nor cancelled, the oldest first."""
        self._settle()
        return tuple(self._pending.values())

    # --- ask, tell, recommend ---------------------------------------------------------------------------------------

    @_alone
    def ask(self, reference: ArrayLike | Samples | None = None, radius: float | None = None) -> Suggestion:
        """Return the next evaluation. It stays pending, and counts for later asks, until it is told or cancelled.

        General setting: `reference` and `radius` are those of this round, the reference as weights (n_contexts,) of a
        finite set, or as `Samples` of what the contexts of this round may be. Otherwise: neither.
        """
        self._refresh()
        game, beta = self._game(reference, radius), self._width()
        posterior = self._with_pending()
        found = self._maximise(game, posterior, beta)
        if self._conditions.range is not None:
            made = game.worst_case(self.posterior, found, beta, certify=False)
            game = self._adopt(made, game)
            if found.score - made.worst_case.expectation > _MISJUDGED * math.sqrt(posterior.gp.kernel.variance):
                posterior = self._with_pending()
                found = self._maximise(game, posterior, beta)
        context, j = None, -1
        if isinstance(self.setting, Simulator):
            context, j = game.context(posterior, found, beta, self.setting.pick == "informative")
        suggestion = Suggestion(
            number=self._asked,
            action=self._decode_action(found),
            action_index=found.index,
            context=None if context is None else self._conditions.decode(context, j),
            context_index=None if context is None or self._conditions.sampled else j,
            reference=game.reference,
            radius=game.radius,
            score=self._outward(found.score),
            action_point=validation.frozen(found.point),
            context_point=context,
        )
        # Eq. (10): the iterate of the largest worst-case lcb at its own time, of results alone: nothing pending counts.
        made = game.worst_case(self.posterior, found, -beta)
        if self._best is None or self._sign * self._outward(made.lower_bound) > self._sign * self._best.value:
            self._best, self._certified_by = self._recommendation(game, found, made, beta), self.posterior.gp
        self._adopt(made, game)
        self._asked += 1
        self._pending[suggestion.number] = suggestion
        given = reference if reference is None or isinstance(reference, Samples) else game.reference
        self._given = (given, radius)
        return suggestion

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
        asked = isinstance(suggestion, Suggestion)
        if asked:
            self._check_pending(suggestion)
        x = suggestion.action_point if asked else self._encode_action(suggestion)
        if validation.flag("failed", failed) == (outcome is not None):
            raise TypeError("tell needs an outcome, or failed=True in its place, and not both")
        y = None if outcome is None else self._inward(outcome)
        c, j = self._observed_context(suggestion if asked else None, context, context_index, failed)
        seen = not asked or self.setting.picks_context or context is not None or context_index is not None
        self._model.tell(Observation(x, c, j, y, seen, suggestion.number if asked else None))
        self._replace_failed_best()

    @_alone
    def cancel(self, suggestion: Suggestion) -> None:
        """Forget a pending suggestion that will not be evaluated."""
        self._check_pending(suggestion)
        del self._pending[suggestion.number]

    @_alone
    def recommend(self) -> Recommendation:
        """Return the iterate whose worst-case lower confidence bound at its own time was largest (eq. 10).

        Learned hyper-parameters: when they are learned anew, so is the bound of the best iterate so far. General
        setting: the sets of different rounds are compared as they are; `recommend_final` is for one set.
        """
        self._replace_failed_best()
        if self._best is None:
            raise RuntimeError("recommend needs an iterate to choose from that has not failed: call ask first")
        self._refresh()
        return self._best

    @_alone
    def recommend_final(
        self, reference: ArrayLike | Samples | None = None, radius: float | None = None
    ) -> Recommendation:
        """Return the action of the largest worst-case lower confidence bound of all, under the present posterior.

        General setting: for the set of the last ask, unless `reference` and `radius` are given.
        """
        self._refresh()
        if reference is None:
            reference = self._given[0]
        if radius is None:
            radius = self._given[1]
        game, beta = self._game(reference, radius), self._width()
        best: Recommendation | None = None
        for _ in range(_PASSES):
            found = self._maximise(game, self.posterior, -beta)
            made = game.worst_case(self.posterior, found, -beta)
            if best is None or self._sign * self._outward(made.lower_bound) > self._sign * best.value:
                best = self._recommendation(game, found, made, beta)
            last, game = game, self._adopt(made, game)
            if game is last:  # the adversary asked for no further context
                break
        assert best is not None
        return best

    # --- save and resume --------------------------------------------------------------------------------------------

    @_alone
    def save(self, path: str | Path) -> None:
        """Write everything to one JSON file, atomically; legal at any moment."""
        self._replace_failed_best()
        state = {
            "actions": self.actions if isinstance(self.actions, Box) else self.actions.points,
            "contexts": self.contexts.points if isinstance(self.contexts, FiniteSet) else self.contexts,
            "ambiguity": self._conditions.given,
            "setting": self.setting,
            "surrogate": self.surrogate,
            "beta": self.beta,
            "maximize": self.maximize,
            "seed": self.seed,
            "observations": [dataclasses.astuple(o) for o in self._model.observations],
            "told": self.n_told,
            "pending": self.pending,
            "asked": self._asked,
            "best": self._best,
            "given": self._given,
            "fit": self._model.fit,
            "fitted_at": self._model.fitted_at,
            "atoms_at": self._atoms_at,
            "round": self._conditions.round,
            "further": self._conditions.further,
        }
        persistence.write_atomically(Path(path), persistence.dumps(state))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return a saved optimizer, which goes on exactly as the one that was saved."""
        state = persistence.loads(Path(path).read_bytes(), str(path))
        names = ("actions", "contexts", "ambiguity", "setting", "surrogate", "maximize", "seed")
        try:
            beta = state["beta"].value if isinstance(state["beta"], ConstantBeta) else state["beta"]
            opt = cls(**{name: state[name] for name in names}, beta=beta)
            observations = [Observation(*parts) for parts in state["observations"]]
            if len(observations) != state["told"]:
                raise ValueError(f"it says {state['told']} results, and holds {len(observations)}")
            model = opt._model
            model.observations, opt._atoms_at = observations, state["atoms_at"]
            opt._conditions.refer_to(state["round"])
            opt._conditions.add(state["further"])
            opt._set_atoms(state["atoms_at"])
            opt._pending = {s.number: s for s in state["pending"]}
            opt._settled = len(observations)
            opt._asked, opt._best, opt._given = state["asked"], state["best"], state["given"]
            model.fit, model.fitted_at = state["fit"], state["fitted_at"]
            opt._certified_by = model.fit.gp
            model.place(opt._conditions.atoms.points)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"{path} is damaged: {error!r}") from None
        return opt

    # --- the set, the model and the search --------------------------------------------------------------------------

    def _game(self, reference: Any, radius: Any) -> Game:
        """Return the set of this round; what compression costs is added to the radius."""
        conditions = self._conditions
        if self.setting.needs_ball and conditions.sampled:
            if reference is not None and not isinstance(reference, Samples) and conditions.range is not None:
                given = type(reference).__name__
                raise TypeError(f"reference must be Samples of what this round's contexts may be, got {given}")
            if reference is None or isinstance(reference, Samples):
                if conditions.refer_to(reference):
                    self._place()
                reference = None
            if not conditions.known:
                raise TypeError("reference is missing or empty: give Samples of what this round's contexts may be")
        elif self.setting.needs_ball and isinstance(reference, Samples):
            raise TypeError("reference must be weights, one a context: these are a finite set")
        atoms, p = conditions.atoms, None
        history = atoms.history
        if conditions.sampled:
            p = atoms.reference
        elif not self.setting.needs_ball:  # where the caller gives both, nobody asks for the history
            history = np.array([o.context_index for o in self._model.observations if o.seen], dtype=np.intp)
        known = Known(history, self.ambiguity, len(atoms.points), p)
        p, eps = self.setting.ball(reference, radius, known)
        return Game.of(conditions, p, eps + atoms.error, self.seed + self._asked)

    def _place(self) -> None:
        """Make the posterior anew on the present atoms; what was known of a set on others is void."""
        self._model.place(self._conditions.atoms.points)
        self._feasible = None

    def _width(self) -> float:
        posterior = self.posterior
        return self.beta.width(posterior.information_gain, posterior.gp.ridge, self.setting.events)

    def _maximise(self, game: Game, posterior: GridPosterior, beta: float) -> Found:
        """Return the action of the largest robust score; a negative beta is for the lower confidence bound."""
        if isinstance(self.actions, Box):
            avoid = [] if beta < 0.0 or self.setting.picks_context else self._under_way()
            away = np.array(avoid).reshape(-1, self.actions.dimension)
            return game.best_in(self.actions, posterior, beta, self._known_actions(), away)
        last = self._feasible
        same = last is not None and game.radius == last[1] and np.array_equal(game.reference, last[0])
        found = game.best_on_grid(posterior, beta, last[2] if last is not None and same else None)
        assert found.feasible is not None
        self._feasible = (game.reference, game.radius, found.feasible)
        return found

    def _adopt(self, made: Refined, game: Game) -> Game:
        """Make those further contexts atoms that carry weight in a worst case; return the game on the atoms of then."""
        carrying = made.worst_case.weights[-len(made.further) :] > 0.0 if len(made.further) else False
        if not np.any(carrying):
            return game
        self._conditions.add(made.further[carrying])
        self._place()
        return Game.of(self._conditions, self._conditions.atoms.reference, game.radius, game.seed)

    def _recommendation(
        self, game: Game, found: Found, made: Refined, beta: float, contexts: Any = None
    ) -> Recommendation:
        """Return what was found in the user's units; `contexts` are those of the game, if not the present atoms."""
        contexts = self._conditions.values if contexts is None else contexts
        p, worst = game.reference, made.worst_case
        if len(made.further):
            contexts += tuple(self._conditions.decode(c) for c in made.further)
            p = validation.frozen(np.append(p, np.zeros(len(made.further))))
        return Recommendation(
            action=self._decode_action(found),
            action_index=found.index,
            value=self._outward(made.lower_bound),
            gap=self._model.fit.scale * float(worst.expectation - made.lower_bound),
            weights=validation.frozen(worst.weights),
            contexts=contexts,
            reference=p,
            radius=game.radius,
            maximize=self.maximize,
            beta=beta,
            delta=self.beta.delta if isinstance(self.beta, TheoreticalBeta) else None,
            action_point=validation.frozen(found.point),
        )

    def _settle(self) -> None:
        """Draw the consequences of every result told; after an interrupt, those of one told before.

        A result has been told once it is among the observations. All else follows from them, so that no retry counts it
        twice. Every step may be repeated.
        """
        for o in self._model.observations[self._settled :]:
            if o.number is not None:
                self._pending.pop(o.number, None)
            if o.outcome is None and self._best is not None and np.array_equal(o.action, self._best.action_point):
                self._best_failed = True
            self._settled += 1

    def _replace_failed_best(self) -> None:
        self._settle()
        if self._best_failed:
            self._best = self._best_of_the_others()
            self._best_failed = False

    def _best_of_the_others(self) -> Recommendation | None:
        """Return the action of the largest worst-case lcb among those asked or told that have not failed."""
        failed = {o.action.tobytes() for o in self._model.observations if o.outcome is None}
        tried = [o.action for o in self._model.observations] + [s.action_point for s in self._pending.values()]
        left = [x for x in tried if x.tobytes() not in failed]
        if not left:
            return None
        game, beta = self._game(*self._given), self._width()
        objective = Objective(self.posterior, -beta, self.ambiguity, game.reference, game.radius)
        x = left[int(np.argmax(objective.scores(np.array(left))))]
        index = None if isinstance(self.actions, Box) else int(np.flatnonzero((self._grid == x).all(axis=1))[0])
        found = Found(x, index, math.nan)
        self._certified_by = self.posterior.gp
        return self._recommendation(game, found, game.worst_case(self.posterior, found, -beta), beta)

    def _certified_anew(self, old: Recommendation) -> Recommendation:
        """Return a recommendation for the same set of distributions, certified by the present model."""
        conditions, beta = self._conditions, self._width()
        contexts = conditions.encode(old.contexts)
        ambiguity = conditions.family(contexts) if conditions.sampled else conditions.ambiguity
        game = Game(conditions, contexts, ambiguity, old.reference, old.radius, self.seed + self._asked)
        found = Found(old.action_point, old.action_index, math.nan)
        return self._recommendation(game, found, game.worst_case(self.posterior, found, -beta), beta, old.contexts)

    def _with_pending(self) -> GridPosterior:
        """Return the posterior in which pending evaluations gave their posterior mean: only the variance is smaller."""
        if not self._pending:
            return self.posterior
        posterior = self.posterior.copy()
        for s in self._pending.values():
            if s.context_point is not None:
                posterior.anticipate(s.action_point, s.context_point)
        for s in self._pending.values():
            if s.context_point is None:
                own = self._conditions.atoms.reference if self._conditions.sampled else s.reference
                posterior.anticipate_average(s.action_point, own)
        return posterior

    def _known_actions(self) -> FloatArray:
        """Return the actions that a search over a box starts near: the best so far, and the last ones."""
        known = [] if self._best is None else [self._best.action_point]
        known += [o.action for o in self._model.observations[-2:]]
        assert isinstance(self.actions, Box)
        return np.unique(np.array(known).reshape(-1, self.actions.dimension), axis=0)

    def _under_way(self) -> list[FloatArray]:
        """Return the actions that are pending or failed, in contexts that nobody knows: no ask should repeat them."""
        failed = [o.action for o in self._model.observations if o.outcome is None]
        return failed + [s.action_point for s in self._pending.values()]

    def _set_atoms(self, told: int) -> None:
        """Make the atoms of what the first `told` results showed; contexts seen belong to a data-driven reference."""
        if self._conditions.sampled and isinstance(self.setting, DataDriven):
            self._conditions.update([o.context for o in self._model.observations[:told] if o.seen])
        self._atoms_at = told

    def _refresh(self) -> None:
        """Bring atoms and hyper-parameters up to date with what has been told."""
        self._replace_failed_best()
        model = self._model
        growing = self._conditions.sampled and isinstance(self.setting, DataDriven)
        if growing and any(o.seen for o in model.observations[self._atoms_at :]):
            self._set_atoms(self.n_told)
        model.refit()
        if not (model.consistent and np.array_equal(model.posterior.contexts, self._conditions.atoms.points)):
            self._place()
        if self._best is not None and self._certified_by is not model.fit.gp:  # by the old model: make it anew
            self._best, self._certified_by = self._certified_anew(self._best), model.fit.gp

    # --- the user's units, and the model's --------------------------------------------------------------------------

    def _inward(self, outcome: Any) -> float:
        y = validation.finite_float("outcome", outcome)
        if abs(y) > LARGEST_OUTCOME:
            raise ValueError(f"outcome must not exceed {LARGEST_OUTCOME:g} in size, got {y}")
        return self._sign * y

    def _outward(self, value: float) -> float:
        return self._sign * self._model.in_outcomes(value)

    def _decode_action(self, found: Found) -> Any:
        if isinstance(self.actions, Box):
            return self.actions.decode(found.point)
        assert found.index is not None
        return self.actions.points[found.index]

    def _encode_action(self, action: Any) -> FloatArray:
        if isinstance(self.actions, Box):
            return self.actions.encode("action", action)
        if isinstance(action, int | float | list | tuple | np.ndarray | np.number):
            return np.asarray(self._grid[self.actions.index_of(action)])
        raise TypeError(f"suggestion must be what ask returned, or an action, got {action!r}")

    def _observed_context(
        self, suggestion: Suggestion | None, context: Any, context_index: int | None, failed: bool
    ) -> tuple[FloatArray, int]:
        """Return the context of an observation in the model's coordinates, and its index in a finite set or -1."""
        if suggestion is not None and self.setting.picks_context:
            if context is not None or context_index is not None:
                raise TypeError("context must not be given: the simulator setting picked it, see suggestion.context")
            assert suggestion.context_point is not None
            return suggestion.context_point, -1 if suggestion.context_index is None else suggestion.context_index
        if failed and suggestion is not None and context is None and context_index is None:
            # Nobody knows in which context it failed: the likeliest one keeps it from being asked again.
            j = int(np.argmax(self._conditions.atoms.reference if self._conditions.sampled else suggestion.reference))
            return self._conditions.atoms.points[j], -1 if self._conditions.sampled else j
        return self._conditions.locate(context, context_index)

    def _check_pending(self, suggestion: Suggestion) -> None:
        if not isinstance(suggestion, Suggestion):
            raise TypeError(f"suggestion must be what ask returned, got {suggestion!r}")
        self._settle()
        own = self._pending.get(suggestion.number)
        if own is None and 0 <= suggestion.number < self._asked:
            raise ValueError(f"suggestion {suggestion.number} has been told or cancelled already")
        if own is None or not (own is suggestion or own.same_as(suggestion)):
            raise ValueError(f"suggestion {suggestion.number} is not one of this optimizer's")
