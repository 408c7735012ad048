"""Ask, tell, recommend: the loop of algorithms 1 and 2, turned inside out. The only mutable object of the library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from drbo import validation
from drbo.ambiguity import AmbiguitySet
from drbo.confidence import Beta, ConstantBeta, TheoreticalBeta, lower_bound, upper_bound
from drbo.policy import TIE, best_action, first_of_the_best
from drbo.radius import Indices
from drbo.settings import Setting
from drbo.space import FiniteSet
from drbo.surrogate import GP, GridPosterior
from drbo.validation import FloatArray

LARGEST_OUTCOME = 1e100
"""Larger outcomes are refused: a model of such values would overflow."""


@dataclass(frozen=True, eq=False)
class Suggestion:
    """What to evaluate next.

    Attributes
    ----------
    number : counts the suggestions of this optimizer from 0
    action, action_index : (d_x,) the action, and its index
    context, context_index : (d_c,) the context to evaluate it in, and its index; None where nature picks it
    reference, radius : the ambiguity set of this round
    score : the optimistic worst-case expectation that the action was chosen for
    """

    number: int
    action: FloatArray
    action_index: int
    context: FloatArray | None
    context_index: int | None
    reference: FloatArray
    radius: float
    score: float

    def same_as(self, other: Suggestion) -> bool:
        """Return whether the other one asks for the same evaluation; it may be a copy from another process."""
        return (
            (self.number, self.action_index, self.context_index, self.radius)
            == (other.number, other.action_index, other.context_index, other.radius)
        ) and np.array_equal(self.reference, other.reference)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Recommendation:
    """What to deploy.

    Attributes
    ----------
    action, action_index : (d_x,) the action, and its index
    value : certified: in every distribution of the set the expected reward is at least this, as far as the confidence
        bound holds (`TheoreticalBeta`: with probability 1 - delta)
    weights : (n_contexts,) the distribution in which it would do worst
    reference, radius : the ambiguity set that the value is for
    """

    action: FloatArray
    action_index: int
    value: float
    weights: FloatArray
    reference: FloatArray
    radius: float


class Optimizer:
    """Distributionally robust Bayesian optimization of an unknown f(x, c) over finite actions and contexts.

    Parameters
    ----------
    actions : (n_actions, d_x) what we choose from
    contexts : (n_contexts, d_c) what nature chooses from
    ambiguity : the family of ambiguity sets, such as `MMD(contexts)`
    setting : `General()`, `DataDriven(...)` or `Simulator(...)`
    surrogate : the model of f, a `GP`
    beta : the width of the confidence bounds, a number or a `TheoreticalBeta`
    seed : of whatever is drawn at random; nothing is for finite sets
    """

    def __init__(
        self,
        actions: ArrayLike,
        contexts: ArrayLike,
        *,
        ambiguity: AmbiguitySet,
        setting: Setting,
        surrogate: GP,
        beta: float | TheoreticalBeta = 2.0,
        seed: int = 0,
    ) -> None:
        for name, value, kind in (
            ("ambiguity", ambiguity, AmbiguitySet),
            ("setting", setting, Setting),
            ("surrogate", surrogate, GP),
        ):
            if not isinstance(value, kind):
                raise TypeError(f"{name} must be a {kind.__name__}, got {value!r}")
        self.actions = FiniteSet("actions", actions)
        self.contexts = FiniteSet("contexts", contexts)
        if ambiguity.n_contexts not in (None, len(self.contexts)):
            raise ValueError(f"ambiguity is for {ambiguity.n_contexts} contexts, but there are {len(self.contexts)}")
        setting.check(len(self.contexts))
        self.ambiguity = ambiguity
        self.setting = setting
        self.beta: Beta = beta if isinstance(beta, TheoreticalBeta) else ConstantBeta(beta)
        self.seed = seed
        self._posterior = surrogate.prior(self.actions.points, self.contexts.points)
        self._seen: list[int] = []
        self._pending: dict[int, Suggestion] = {}
        self._asked = 0
        self._best: Recommendation | None = None
        self._last: Suggestion | None = None
        self._feasible = np.empty((0, len(self.contexts)))  # last round's worst cases, for the set of `_last`

    @property
    def posterior(self) -> GridPosterior:
        """The posterior of the outcomes told so far; not to be changed."""
        return self._posterior

    @property
    def pending(self) -> tuple[Suggestion, ...]:
        """The suggestions that have been neither told nor cancelled, the oldest first."""
        return tuple(self._pending.values())

    def ask(self, reference: ArrayLike | None = None, radius: float | None = None) -> Suggestion:
        """Return the next evaluation. It stays pending, and counts for later asks, until it is told or cancelled.

        General setting: `reference` (n_contexts,) and `radius` are those of this round. Otherwise: neither.
        """
        p, eps = self._ball(reference, radius)
        beta = self._width()
        posterior = self._with_pending()
        ucb = upper_bound(posterior, beta)
        unchanged = self._last is not None and eps == self._last.radius and np.array_equal(p, self._last.reference)
        choice = best_action(ucb, self.ambiguity, p, eps, self._feasible if unchanged else None)
        x = choice.action_index
        j = None
        if self.setting.picks_context:  # the context of largest sigma_t(x_t, c), line 5 of algorithm 2
            j = first_of_the_best(posterior.variance[x], TIE * posterior.gp.kernel.variance)
        suggestion = Suggestion(
            number=self._asked,
            action=self.actions.points[x],
            action_index=x,
            context=None if j is None else self.contexts.points[j],
            context_index=j,
            reference=p,
            radius=eps,
            score=float(choice.worst_case.expectation),
        )
        # Eq. (10): the iterate of the largest worst-case lcb at its own time, of results alone: nothing pending counts.
        iterate = self._certify(x, lower_bound(self._posterior, beta)[x], p, eps)
        if self._best is None or iterate.value > self._best.value:
            self._best = iterate
        self._asked += 1
        self._pending[suggestion.number] = suggestion
        self._last = suggestion
        self._feasible = choice.visited
        return suggestion

    def tell(
        self,
        suggestion: Suggestion,
        outcome: float,
        *,
        context: ArrayLike | None = None,
        context_index: int | None = None,
    ) -> None:
        """Take in the outcome of a suggestion, and the context that it was observed in where nature picked it."""
        self._check_pending(suggestion)
        y = validation.finite_float("outcome", outcome)
        if abs(y) > LARGEST_OUTCOME:
            raise ValueError(f"outcome must not exceed {LARGEST_OUTCOME:g} in size, got {y}")
        if self.setting.picks_context:
            if context is not None or context_index is not None:
                raise TypeError("context must not be given: the simulator setting picked it, see suggestion.context")
            assert suggestion.context_index is not None
            j = suggestion.context_index
        elif (context is None) == (context_index is None):
            raise TypeError("tell needs the observed context, either as context=c or as context_index=j")
        elif context_index is not None:
            j = self.contexts.check_index("context_index", context_index)
        else:
            assert context is not None
            j = self.contexts.index_of(context)
        self._posterior.observe(self.actions.points[suggestion.action_index], self.contexts.points[j], y)
        self._seen.append(j)
        del self._pending[suggestion.number]

    def cancel(self, suggestion: Suggestion) -> None:
        """Forget a pending suggestion that will not be evaluated."""
        self._check_pending(suggestion)
        del self._pending[suggestion.number]

    def recommend(self) -> Recommendation:
        """Return the iterate whose worst-case lower confidence bound at its own time was largest (eq. 10)."""
        if self._best is None:
            raise RuntimeError("recommend needs an iterate to choose from: call ask first")
        return self._best

    def recommend_final(self, reference: ArrayLike | None = None, radius: float | None = None) -> Recommendation:
        """Return the action of the largest worst-case lower confidence bound of all, under the present posterior.

        General setting: for the set of the last ask, unless `reference` and `radius` are given.
        """
        if reference is None and radius is None and self._last is not None and self.setting.needs_ball:
            reference, radius = self._last.reference, self._last.radius
        p, eps = self._ball(reference, radius)
        lcb = lower_bound(self._posterior, self._width())
        x = best_action(lcb, self.ambiguity, p, eps).action_index
        return self._certify(x, lcb[x], p, eps)

    def _certify(self, x: int, lcb: FloatArray, p: FloatArray, eps: float) -> Recommendation:
        worst = self.ambiguity.worst_case(lcb, p, eps)
        weights = validation.frozen(worst.weights)
        return Recommendation(self.actions.points[x], x, float(worst.lower_bound), weights, p, eps)

    def _width(self) -> float:
        ridge = self._posterior.gp.ridge
        return self.beta.width(self._posterior.information_gain, ridge, self.setting.events)

    def _ball(self, reference: ArrayLike | None, radius: Any) -> tuple[FloatArray, float]:
        seen: Indices = np.array(self._seen, dtype=np.intp)
        return self.setting.ball(reference, radius, seen, self.ambiguity, len(self.contexts))

    def _with_pending(self) -> GridPosterior:
        """Return the posterior in which pending evaluations gave their posterior mean: only the variance is smaller."""
        if not self._pending:
            return self._posterior
        posterior = self._posterior.copy()
        for s in self._pending.values():
            if s.context is None:
                posterior.anticipate_average(s.action, s.reference)
            else:
                posterior.anticipate(s.action, s.context)
        return posterior

    def _check_pending(self, suggestion: Suggestion) -> None:
        if not isinstance(suggestion, Suggestion):
            raise TypeError(f"suggestion must be what ask returned, got {suggestion!r}")
        own = self._pending.get(suggestion.number)
        if own is None and 0 <= suggestion.number < self._asked:
            raise ValueError(f"suggestion {suggestion.number} has been told or cancelled already")
        if own is None or not own.same_as(suggestion):
            raise ValueError(f"suggestion {suggestion.number} is not one of this optimizer's")
