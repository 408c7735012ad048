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
from drbo.hyperparameters import FittedGP, LearnedGP, should_refit
from drbo.policy import TIE, best_action, first_of_the_best
from drbo.samples import Samples
from drbo.search import Objective, best_in_box
from drbo.settings import DataDriven, Known, Setting
from drbo.space import Box, FiniteSet, Frame
from drbo.suggestion import Recommendation, Suggestion
from drbo.surrogate import GP, GridPosterior
from drbo.validation import FloatArray

LARGEST_OUTCOME = 1e100
"""Larger outcomes are refused: a model of such values would overflow."""


@dataclass(frozen=True, eq=False)
class Observation:
    """One result, in the coordinates of the model and with the sign that we maximise; no outcome: it failed.

    `context_index` counts in a finite set of contexts, and is -1 otherwise. `seen`: whether the context was observed;
    that of a failed evaluation may be our guess.
    """

    action: FloatArray
    context: FloatArray
    context_index: int
    outcome: float | None
    seen: bool


class Optimizer:
    """Distributionally robust Bayesian optimization of an unknown f(x, c).

    Parameters
    ----------
    actions : what we choose from: points (n_actions, d_x), or a `Box` of named parameters
    contexts : what nature chooses from: points (n_contexts, d_c), or `Samples` of past conditions
    ambiguity : the family of ambiguity sets, such as `MMD(contexts)`; for samples a function from their atoms
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
        contexts: ArrayLike | Samples,
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
        self._grid: FloatArray | None = None  # finite actions in the model's coordinates
        if isinstance(self.actions, FiniteSet):
            self._grid = validation.frozen(Frame.of(self.actions, learned).scaled(self.actions.points))
        number = validation.whole_number("seed", seed, least=0)
        self._conditions = Conditions(contexts, ambiguity, learned, number)
        self.setting = setting
        self.surrogate = surrogate
        self.beta: Beta = beta if isinstance(beta, TheoreticalBeta) else ConstantBeta(beta)
        self.maximize = bool(maximize)
        self.seed = number
        self._sign = 1.0 if maximize else -1.0
        self._observations: list[Observation] = []
        self._pending: dict[int, Suggestion] = {}
        self._asked = 0
        self._best: Recommendation | None = None
        self._last: Suggestion | None = None
        self._feasible: FloatArray | None = None  # last round's worst cases, for the set of `_last`
        self._atoms_at = 0  # how many observations the atoms are made of
        setting.check(len(self._conditions), self._conditions.sampled)
        self._fit = self._first_fit()
        self._fitted_at = 0
        self._posterior = self._new_posterior()

    # --- what is known ----------------------------------------------------------------------------------------------

    @property
    def posterior(self) -> GridPosterior:
        """The posterior of the outcomes told so far, in the model's coordinates and units; not to be changed."""
        return self._posterior

    @property
    def n_told(self) -> int:
        """How many results have been told, failed ones included."""
        return len(self._observations)

    @property
    def contexts(self) -> FiniteSet | Samples:
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

    def ask(self, reference: ArrayLike | None = None, radius: float | None = None) -> Suggestion:
        """Return the next evaluation. It stays pending, and counts for later asks, until it is told or cancelled.

        General setting: `reference` (n_contexts,) and `radius` are those of this round. Otherwise: neither.
        """
        self._refresh()
        p, eps = self._ball(reference, radius)
        beta = self._width()
        posterior = self._with_pending()
        unchanged = self._last is not None and eps == self._last.radius and np.array_equal(p, self._last.reference)
        x, index, score, visited = self._maximise(posterior, beta, p, eps, self._feasible if unchanged else None)
        j = None
        if self.setting.picks_context:  # the context of largest sigma_t(x_t, c), line 5 of algorithm 2
            variance = posterior.over_contexts(x[None])[1][0] if index is None else posterior.variance[index]
            j = first_of_the_best(variance, TIE * posterior.gp.kernel.variance)
        suggestion = Suggestion(
            number=self._asked,
            action=self._decode_action(x, index),
            action_index=index,
            context=None if j is None else self._conditions.values[j],
            context_index=None if self._conditions.sampled else j,
            reference=p,
            radius=eps,
            score=self._outward(score),
            action_point=validation.frozen(x),
            context_point=None if j is None else self._conditions.atoms.points[j],
        )
        # Eq. (10): the iterate of the largest worst-case lcb at its own time, of results alone: nothing pending counts.
        iterate = self._certify(x, index, beta, p, eps)
        if self._best is None or self._sign * iterate.value > self._sign * self._best.value:
            self._best = iterate
        self._asked += 1
        self._pending[suggestion.number] = suggestion
        self._last, self._feasible = suggestion, visited
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
        self._take_in(Observation(x, c, j, y, seen))
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

    def recommend_final(self, reference: ArrayLike | None = None, radius: float | None = None) -> Recommendation:
        """Return the action of the largest worst-case lower confidence bound of all, under the present posterior.

        General setting: for the set of the last ask, unless `reference` and `radius` are given.
        """
        self._refresh()
        if reference is None and radius is None and self._last is not None and self.setting.needs_ball:
            reference, radius = self._last.reference, self._last.radius - self._conditions.atoms.error
        p, eps = self._ball(reference, radius)
        beta = self._width()
        x, index, _, _ = self._maximise(self._posterior, -beta, p, eps, None)
        return self._certify(x, index, beta, p, eps)

    # --- save and resume --------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write everything to one JSON file, atomically; legal at any moment."""
        if not (self._conditions.given is None or isinstance(self._conditions.given, AmbiguitySet)):
            raise TypeError("save cannot write a function: give ambiguity as a set, or leave it to the default")
        state = {
            "actions": self.actions if isinstance(self.actions, Box) else self.actions.points,
            "contexts": self.contexts if isinstance(self.contexts, Samples) else self.contexts.points,
            "ambiguity": self._conditions.given,
            "setting": self.setting,
            "surrogate": self.surrogate,
            "beta": self.beta,
            "maximize": self.maximize,
            "seed": self.seed,
            "observations": [dataclasses.astuple(o) for o in self._observations],
            "told": len(self._observations),
            "pending": self.pending,
            "asked": self._asked,
            "best": self._best,
            "last": self._last,
            "fit": self._fit,
            "fitted_at": self._fitted_at,
            "atoms_at": self._atoms_at,
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
            opt._observations = observations[: state["atoms_at"]]
            opt._set_atoms()
            opt._observations = observations
            opt._pending = {s.number: s for s in state["pending"]}
            opt._asked, opt._best, opt._last = state["asked"], state["best"], state["last"]
            opt._fit, opt._fitted_at = state["fit"], state["fitted_at"]
            opt._posterior = opt._new_posterior()
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"{path} is damaged: {error!r}") from None
        return opt

    # --- the set, the model and the search --------------------------------------------------------------------------

    def _ball(self, reference: ArrayLike | None, radius: Any) -> tuple[FloatArray, float]:
        """Return the reference and the radius of this round; what compression costs is added to the radius."""
        atoms, p = self._conditions.atoms, None
        history = atoms.history
        if self._conditions.sampled:
            p = atoms.reference
        else:
            history = np.array([o.context_index for o in self._observations if o.seen], dtype=np.intp)
        known = Known(history, self.ambiguity, len(atoms.points), p)
        p, eps = self.setting.ball(reference, radius, known)
        return p, eps + atoms.error

    def _width(self) -> float:
        gp = self._posterior.gp
        return self.beta.width(self._posterior.information_gain, gp.ridge, self.setting.events)

    def _maximise(
        self, posterior: GridPosterior, beta: float, p: FloatArray, eps: float, feasible: FloatArray | None
    ) -> tuple[FloatArray, int | None, float, FloatArray | None]:
        """Return the action of the largest robust score: its point, its index if any, the score, worst cases met."""
        if isinstance(self.actions, FiniteSet):
            bounds = upper_bound(posterior, beta) if beta >= 0.0 else lower_bound(posterior, -beta)
            choice = best_action(bounds, self.ambiguity, p, eps, feasible)
            i = choice.action_index
            return posterior.actions[i], i, float(choice.worst_case.expectation), choice.visited
        objective = Objective(posterior, beta, self.ambiguity, p, eps)
        avoid = [] if beta < 0.0 or self.setting.picks_context else self._under_way()
        known, kept_away = self._known_actions(), np.array(avoid).reshape(-1, self.actions.dimension)
        with _one_thread():
            x = best_in_box(self.actions, objective, known, kept_away, self.seed + self._asked)
        return x, None, float(objective.scores(x[None])[0]), None

    def _known_actions(self) -> FloatArray:
        """Return the actions that a search over a box starts near: the best so far, and the last ones."""
        known = [] if self._best is None else [self._best.action_point]
        known += [o.action for o in self._observations[-2:]]
        assert isinstance(self.actions, Box)
        return np.unique(np.array(known).reshape(-1, self.actions.dimension), axis=0)

    def _under_way(self) -> list[FloatArray]:
        """Return the actions that are pending or failed, in contexts that nobody knows: no ask should repeat them."""
        failed = [o.action for o in self._observations if o.outcome is None]
        return failed + [s.action_point for s in self._pending.values()]

    def _certify(self, x: FloatArray, index: int | None, beta: float, p: FloatArray, eps: float) -> Recommendation:
        if index is not None:
            mean, variance = self._posterior.mean[index], self._posterior.variance[index]
        else:
            mean, variance = (rows[0] for rows in self._posterior.over_contexts(x[None]))
        worst = self.ambiguity.worst_case(mean - beta * np.sqrt(variance), p, eps)
        return Recommendation(
            action=self._decode_action(x, index),
            action_index=index,
            value=self._outward(float(worst.lower_bound)),
            weights=validation.frozen(worst.weights),
            contexts=self._conditions.values,
            reference=p,
            radius=eps,
            maximize=self.maximize,
            beta=beta,
            delta=self.beta.delta if isinstance(self.beta, TheoreticalBeta) else None,
            action_point=validation.frozen(x),
        )

    def _with_pending(self) -> GridPosterior:
        """Return the posterior in which pending evaluations gave their posterior mean: only the variance is smaller."""
        if not self._pending:
            return self._posterior
        posterior = self._posterior.copy()
        known = [s for s in self._pending.values() if s.context_point is not None]
        for s in known:
            assert s.context_point is not None
            posterior.anticipate(s.action_point, s.context_point)
        for s in self._pending.values():
            if s.context_point is None:
                still_there = len(s.reference) == len(posterior.contexts)  # or new samples have moved the atoms
                weights = s.reference if still_there else self._conditions.atoms.reference
                posterior.anticipate_average(s.action_point, weights)
        return posterior

    def _take_in(self, observation: Observation) -> None:
        self._observations.append(observation)
        self._teach(self._posterior, observation)

    def _teach(self, posterior: GridPosterior, o: Observation) -> None:
        """Show an observation to a posterior; a failed one counts as under way for ever, and is not asked for again."""
        if o.outcome is None:
            posterior.anticipate(o.action, o.context)
        else:
            posterior.observe(o.action, o.context, (o.outcome - self._fit.offset) / self._fit.scale)

    def _set_atoms(self) -> None:
        """Make the atoms anew; those of samples hold the contexts seen since in the data-driven setting."""
        growing = isinstance(self.setting, DataDriven)
        self._conditions.update([o.context for o in self._observations if o.seen] if growing else [])
        self._atoms_at = len(self._observations)

    def _refresh(self) -> None:
        """Bring atoms and hyper-parameters up to date with what has been told."""
        growing = self._conditions.sampled and isinstance(self.setting, DataDriven)
        moved = growing and any(o.seen for o in self._observations[self._atoms_at :])
        if moved:
            self._set_atoms()
        refit = isinstance(self.surrogate, LearnedGP) and self._refit()
        if moved or refit:
            self._feasible = None
            self._posterior = self._new_posterior()
        if refit and self._best is not None:  # its certificate was the old model's: make it anew
            old, atoms = self._best, self._conditions.atoms
            p = old.reference if len(old.reference) == len(atoms.points) else atoms.reference
            self._best = self._certify(old.action_point, old.action_index, self._width(), p, old.radius)

    def _refit(self) -> bool:
        """Learn the hyper-parameters anew if there is enough more to learn from; return whether they changed."""
        assert isinstance(self.surrogate, LearnedGP)
        told = [o for o in self._observations if o.outcome is not None]
        if not should_refit(len(told), self._fitted_at):
            return False
        x, c, y = (np.array(column) for column in zip(*((o.action, o.context, o.outcome) for o in told), strict=True))
        with _one_thread():
            self._fit = self.surrogate.fit(x, c, y, self._fit if self._fitted_at >= 3 else None)
        self._fitted_at = len(told)
        return True

    def _first_fit(self) -> FittedGP:
        if isinstance(self.surrogate, GP):
            return FittedGP(self.surrogate, 0.0, 1.0, 0.0)
        d_x = self.actions.dimension if isinstance(self.actions, Box) else self.actions.points.shape[1]
        return self.surrogate.fit(np.zeros((1, d_x)), np.zeros((1, self._conditions.atoms.points.shape[1])), [0.0])

    def _new_posterior(self) -> GridPosterior:
        """Return the posterior of all observations, taken in the order in which they were told."""
        atoms = self._conditions.atoms.points
        if isinstance(self.actions, Box):
            posterior = self._fit.gp.prior_off_grid(self.actions.dimension, atoms)
        else:
            assert self._grid is not None
            posterior = self._fit.gp.prior(self._grid, atoms)
        for observation in self._observations:
            self._teach(posterior, observation)
        return posterior

    # --- the user's units, and the model's --------------------------------------------------------------------------

    def _inward(self, outcome: Any) -> float:
        y = validation.finite_float("outcome", outcome)
        if abs(y) > LARGEST_OUTCOME:
            raise ValueError(f"outcome must not exceed {LARGEST_OUTCOME:g} in size, got {y}")
        return self._sign * y

    def _outward(self, value: float) -> float:
        if isinstance(self.surrogate, LearnedGP) and self._fitted_at == 0:
            return math.copysign(math.inf, value * self._sign)  # nobody knows the scale of the outcomes yet
        return self._sign * (self._fit.offset + self._fit.scale * value)

    def _decode_action(self, x: FloatArray, index: int | None) -> Any:
        if isinstance(self.actions, Box):
            return self.actions.decode(x)
        assert index is not None
        return self.actions.points[index]

    def _encode_action(self, action: Any) -> FloatArray:
        if isinstance(self.actions, Box):
            return self.actions.encode("action", action)
        if isinstance(action, int | float | list | tuple | np.ndarray | np.number):
            assert self._grid is not None
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
        if own is None or not own.same_as(suggestion):
            raise ValueError(f"suggestion {suggestion.number} is not one of this optimizer's")


def _one_thread() -> Any:
    """Return a context in which linear algebra uses one thread: on matrices of a few hundred rows more only wait."""
    return _threads().limit(limits=1, user_api="blas")


@functools.cache
def _threads() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
