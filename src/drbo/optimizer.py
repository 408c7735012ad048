"""Ask, tell, recommend: the loop of algorithms 1 and 2, turned inside out. The only mutable object of the library."""

from __future__ import annotations

import dataclasses
import functools
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from drbo import persistence, validation
from drbo.ambiguity import AmbiguitySet
from drbo.conditions import AmbiguityFactory, Conditions
from drbo.confidence import Beta, ConstantBeta, TheoreticalBeta, lower_bound, upper_bound
from drbo.hyperparameters import LearnedGP
from drbo.model import Model, Observation, one_thread
from drbo.policy import TIE, best_action, first_of_the_best
from drbo.refinement import Refined, best_context, refine
from drbo.samples import Samples
from drbo.search import Objective, best_in_box
from drbo.settings import DataDriven, Known, Setting, Simulator
from drbo.space import Box, FiniteSet, Frame
from drbo.suggestion import Recommendation, Suggestion
from drbo.surrogate import GP, GridPosterior
from drbo.validation import FloatArray

LARGEST_OUTCOME = 1e100
"""Larger outcomes are refused: a model of such values would overflow."""
_PASSES = 4
"""How often a search over actions is repeated at most, because the adversary asked for further contexts."""
_MISJUDGED = 0.02
"""An action whose score falls by this share of the amplitude of f with further contexts is chosen anew."""


@dataclass(frozen=True, eq=False)
class Found:
    """The action of the largest robust score: its point, its index in a finite set, and the score."""

    point: FloatArray
    index: int | None
    score: float


class Optimizer:
    """Distributionally robust Bayesian optimization of an unknown f(x, c).

    Parameters
    ----------
    actions : what we choose from: points (n_actions, d_x), or a `Box` of named parameters
    contexts : what nature chooses from: points (n_contexts, d_c), `Samples` of past conditions, or a `Box` of named
        parameters, of which nothing has been seen yet; its well-spread points are the reference until something has
    ambiguity : the family of ambiguity sets, such as `MMD(contexts)`; for samples and boxes a function from atoms
        (n, d_c), in the unit cube, to such a set. By default an MMD of RBF lengthscale 0.2 sqrt(d_c) of the range
    setting : `General()`, `DataDriven(...)` or `Simulator(...)`
    surrogate : the model of f: a `GP` with fixed hyper-parameters, or a `LearnedGP`, which is the default. Kernels are
        on the coordinates of a finite set as they are; on the unit cube for boxes, samples and learned models
    beta : the width of the confidence bounds, a number or a `TheoreticalBeta`
    maximize : False if outcomes are to be minimised
    seed : of the candidates of a search over a box; nothing is random for finite sets
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
        surrogate = LearnedGP() if surrogate is None else surrogate
        if not isinstance(setting, Setting):
            raise TypeError(f"setting must be a Setting, got {setting!r}")
        if not isinstance(surrogate, GP | LearnedGP):
            raise TypeError(f"surrogate must be a GP or a LearnedGP, got {surrogate!r}")
        self.actions = actions if isinstance(actions, Box) else FiniteSet("actions", actions)
        learned = isinstance(surrogate, LearnedGP)
        number = validation.whole_number("seed", seed, least=0)
        self._conditions = Conditions(contexts, ambiguity, learned, number)
        self.setting = setting
        self.surrogate = surrogate
        self.beta: Beta = beta if isinstance(beta, TheoreticalBeta) else ConstantBeta(beta)
        self.maximize = bool(maximize)
        self.seed = number
        self._sign = 1.0 if maximize else -1.0
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
        self._best: Recommendation | None = None
        self._given: tuple[Any, Any] = (None, None)  # reference and radius of the last ask, as they were given
        self._feasible: tuple[FloatArray, float, FloatArray] | None = None  # last round's set, and worst cases in it

    # --- what is known ----------------------------------------------------------------------------------------------

    @property
    def posterior(self) -> GridPosterior:
        """The posterior of the outcomes told so far, in the model's coordinates and units; not to be changed."""
        return self._model.posterior

    @property
    def n_told(self) -> int:
        """How many results have been told, failed ones included."""
        return len(self._model.observations)

    @property
    def contexts(self) -> FiniteSet | Samples | Box:
        """What nature chooses from."""
        return self._conditions.space

    @property
    def ambiguity(self) -> AmbiguitySet:
        """The family of ambiguity sets on the atoms of the contexts."""
        return self._conditions.ambiguity

    @property
    def pending(self) -> tuple[Suggestion, ...]:
        """The suggestions that have been neither told nor cancelled, the oldest first."""
        return tuple(self._pending.values())

    # --- ask, tell, recommend ---------------------------------------------------------------------------------------

    def ask(self, reference: ArrayLike | Samples | None = None, radius: float | None = None) -> Suggestion:
        """Return the next evaluation. It stays pending, and counts for later asks, until it is told or cancelled.

        General setting: `reference` and `radius` are those of this round, the reference as weights (n_contexts,) of a
        finite set, or as `Samples` of what the contexts of this round may be. Otherwise: neither.
        """
        self._refresh()
        p, eps = self._ball(reference, radius)
        beta = self._width()
        found, posterior = self._maximise(beta, p, eps)
        if self._conditions.range is not None:
            made = self._worst_case(found, beta, p, eps, certify=False)
            self._adopt(made)
            p = self._conditions.atoms.reference
            if found.score - made.worst_case.expectation > _MISJUDGED * math.sqrt(posterior.gp.kernel.variance):
                found, posterior = self._maximise(beta, p, eps)
        context, j = self._pick_context(posterior, found, beta, p, eps)
        suggestion = Suggestion(
            number=self._asked,
            action=self._decode_action(found),
            action_index=found.index,
            context=None if context is None else self._conditions.decode(context, j),
            context_index=j,
            reference=p,
            radius=eps,
            score=self._outward(found.score),
            action_point=validation.frozen(found.point),
            context_point=context,
        )
        # Eq. (10): the iterate of the largest worst-case lcb at its own time, of results alone: nothing pending counts.
        made = self._worst_case(found, -beta, p, eps)
        if self._best is None or self._sign * self._outward(made.lower_bound) > self._sign * self._best.value:
            self._best = self._recommendation(found, made, beta, p, eps)
        self._adopt(made)
        self._asked += 1
        self._pending[suggestion.number] = suggestion
        self._given = (reference if reference is None or isinstance(reference, Samples) else p, radius)
        return suggestion

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
        `failed=True` in place of an outcome: the evaluation gave nothing. The model learns no value from it, and will
        not ask for the same again.
        """
        asked = isinstance(suggestion, Suggestion)
        if asked:
            self._check_pending(suggestion)
        x = suggestion.action_point if asked else self._encode_action(suggestion)
        if failed == (outcome is not None):
            raise TypeError("tell needs an outcome, or failed=True in its place")
        y = None if outcome is None else self._inward(outcome)
        c, j = self._observed_context(suggestion if asked else None, context, context_index, failed)
        seen = not asked or self.setting.picks_context or context is not None or context_index is not None
        self._model.tell(Observation(x, c, j, y, seen))
        if asked:
            del self._pending[suggestion.number]

    def cancel(self, suggestion: Suggestion) -> None:
        """Forget a pending suggestion that will not be evaluated."""
        self._check_pending(suggestion)
        del self._pending[suggestion.number]

    def recommend(self) -> Recommendation:
        """Return the iterate whose worst-case lower confidence bound at its own time was largest (eq. 10).

        Learned hyper-parameters: when they are learned anew, so is the bound of the best iterate so far. General
        setting: the sets of different rounds are compared as they are; `recommend_final` is for one set.
        """
        if self._best is None:
            raise RuntimeError("recommend needs an iterate to choose from: call ask first")
        self._refresh()
        return self._best

    def recommend_final(
        self, reference: ArrayLike | Samples | None = None, radius: float | None = None
    ) -> Recommendation:
        """Return the action of the largest worst-case lower confidence bound of all, under the present posterior.

        General setting: for the set of the last ask, unless `reference` and `radius` are given.
        """
        self._refresh()
        if reference is None and radius is None:
            reference, radius = self._given
        p, eps = self._ball(reference, radius)
        beta = self._width()
        best: Recommendation | None = None
        for _ in range(_PASSES):
            atoms = self._conditions.atoms
            found, _ = self._maximise(-beta, p, eps, self._model.posterior)
            made = self._worst_case(found, -beta, p, eps)
            if best is None or self._sign * self._outward(made.lower_bound) > self._sign * best.value:
                best = self._recommendation(found, made, beta, p, eps)
            self._adopt(made)
            if self._conditions.atoms is atoms:  # the adversary asked for no further context
                break
            p = self._conditions.atoms.reference
        assert best is not None
        return best

    # --- save and resume --------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write everything to one JSON file, atomically; legal at any moment."""
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
            opt._asked, opt._best, opt._given = state["asked"], state["best"], state["given"]
            model.fit, model.fitted_at = state["fit"], state["fitted_at"]
            model.place(opt._conditions.atoms.points)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"{path} is damaged: {error!r}") from None
        return opt

    # --- the set, the model and the search --------------------------------------------------------------------------

    def _ball(self, reference: Any, radius: Any) -> tuple[FloatArray, float]:
        """Return the reference and the radius of this round; what compression costs is added to the radius."""
        conditions = self._conditions
        if self.setting.needs_ball and conditions.sampled:
            if reference is not None and not isinstance(reference, Samples) and conditions.range is not None:
                raise TypeError(f"reference must be Samples of what this round's contexts may be, got {reference!r}")
            if reference is None or isinstance(reference, Samples):
                if conditions.refer_to(reference):
                    self._place()
                reference = None
            if not conditions.known:
                raise TypeError("reference is missing: give Samples of what this round's contexts may be")
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
        return p, eps + atoms.error

    def _place(self) -> None:
        """Make the posterior anew on the present atoms; what was known of a set on others is void."""
        self._model.place(self._conditions.atoms.points)
        self._feasible = None

    def _width(self) -> float:
        posterior = self.posterior
        return self.beta.width(posterior.information_gain, posterior.gp.ridge, self.setting.events)

    def _maximise(
        self, beta: float, p: FloatArray, eps: float, posterior: GridPosterior | None = None
    ) -> tuple[Found, GridPosterior]:
        """Return the action of the largest robust score, and the posterior: by default that with pending evaluations.

        A negative beta is for the lower confidence bound.
        """
        posterior = self._with_pending() if posterior is None else posterior
        if isinstance(self.actions, FiniteSet):
            bounds = upper_bound(posterior, beta) if beta >= 0.0 else lower_bound(posterior, -beta)
            last = self._feasible
            unchanged = last is not None and eps == last[1] and np.array_equal(p, last[0])
            choice = best_action(bounds, self.ambiguity, p, eps, last[2] if last is not None and unchanged else None)
            self._feasible = (p, eps, choice.visited)
            i = choice.action_index
            return Found(posterior.actions[i], i, float(choice.worst_case.expectation)), posterior
        objective = Objective(posterior, beta, self.ambiguity, p, eps)
        avoid = [] if beta < 0.0 or self.setting.picks_context else self._under_way()
        known, kept_away = self._known_actions(), np.array(avoid).reshape(-1, self.actions.dimension)
        with one_thread():
            x = best_in_box(self.actions, objective, known, kept_away, self.seed + self._asked)
        return Found(x, None, float(objective.scores(x[None])[0])), posterior

    def _pick_context(
        self, posterior: GridPosterior, found: Found, beta: float, p: FloatArray, eps: float
    ) -> tuple[FloatArray | None, int | None]:
        """Return the context of largest sigma_t(x_t, c), line 5 of algorithm 2, and its index if it has one.

        Informative: that whose outcome lowers the variance of <w_t, f(x_t, .)> most, w_t the worst case of the lcb.
        """
        setting, conditions = self.setting, self._conditions
        if not isinstance(setting, Simulator):
            return None, None
        atoms, tie = conditions.atoms.points, TIE * posterior.gp.kernel.variance
        if setting.pick == "uncertain" and found.index is not None and conditions.range is None:
            j = first_of_the_best(posterior.variance[found.index], tie)  # known on the whole grid
            return atoms[j], None if conditions.sampled else j
        curve = posterior.curve(found.point, -beta)
        worth = curve.variance
        if setting.pick == "informative":
            w = self.ambiguity.worst_case(curve(atoms), p, eps).weights
            worth = functools.partial(curve.information, atoms=atoms[w > 0.0], weights=w[w > 0.0])
            tie = math.sqrt(TIE) * float(worth(atoms).max())
        if conditions.range is not None:
            with one_thread():
                return best_context(worth, atoms, conditions.range, tie, self.seed + self._asked), None
        j = first_of_the_best(worth(atoms), tie)
        return atoms[j], None if conditions.sampled else j

    def _worst_case(self, found: Found, beta: float, p: FloatArray, eps: float, *, certify: bool = True) -> Refined:
        """Return the worst case of mean + beta std for one action, of results alone, with what it takes to show it."""
        conditions, posterior = self._conditions, self.posterior
        if conditions.range is not None:
            curve, atoms, seed = posterior.curve(found.point, beta), conditions.atoms.points, self.seed + self._asked
            with one_thread():
                return refine(curve, atoms, p, eps, conditions.range, conditions.family, seed, certify=certify)
        if found.index is not None:
            mean, variance = posterior.mean[found.index], posterior.variance[found.index]
        else:
            mean, variance = (rows[0] for rows in posterior.over_contexts(found.point[None]))
        worst = self.ambiguity.worst_case(mean + beta * np.sqrt(variance), p, eps)
        return Refined(conditions.atoms.points[:0], worst, float(worst.lower_bound))

    def _adopt(self, made: Refined) -> None:
        """Make those further contexts atoms that carry weight in a worst case."""
        carrying = made.worst_case.weights[-len(made.further) :] > 0.0 if len(made.further) else False
        if np.any(carrying):
            self._conditions.add(made.further[carrying])
            self._place()

    def _recommendation(self, found: Found, made: Refined, beta: float, p: FloatArray, eps: float) -> Recommendation:
        contexts, worst = self._conditions.values, made.worst_case
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
            radius=eps,
            maximize=self.maximize,
            beta=beta,
            delta=self.beta.delta if isinstance(self.beta, TheoreticalBeta) else None,
            action_point=validation.frozen(found.point),
        )

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
        model = self._model
        growing = self._conditions.sampled and isinstance(self.setting, DataDriven)
        if growing and any(o.seen for o in model.observations[self._atoms_at :]):
            self._set_atoms(self.n_told)
        refit = model.refit()
        if refit or not np.array_equal(model.posterior.contexts, self._conditions.atoms.points):
            self._place()
        if refit and self._best is not None:  # its certificate was the old model's: make it anew
            old = self._best
            p = self._conditions.atoms.reference if self._conditions.sampled else old.reference
            found, beta = Found(old.action_point, old.action_index, math.nan), self._width()
            made = self._worst_case(found, -beta, p, old.radius)
            self._best = self._recommendation(found, made, beta, p, old.radius)
            self._adopt(made)

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
        own = self._pending.get(suggestion.number)
        if own is None and 0 <= suggestion.number < self._asked:
            raise ValueError(f"suggestion {suggestion.number} has been told or cancelled already")
        if own is None or not (own is suggestion or own.same_as(suggestion)):
            raise ValueError(f"suggestion {suggestion.number} is not one of this optimizer's")
