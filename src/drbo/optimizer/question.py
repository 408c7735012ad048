"""Read-only queries of a snapshot, for one reference, one radius and one known part of the context."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast, overload

from numpy.typing import ArrayLike

from drbo._messages import comes_from_an_interrupt
from drbo._threads import one_thread
from drbo.analysis.answers import (
    Classification,
    NotReachedError,
    Probability,
    Recommendation,
    RegretBound,
    TargetRecommendation,
    ValueAtRisk,
)
from drbo.analysis.backtest import Backtest, backtest_known
from drbo.analysis.checks import Comparison, Narrowing, compare, narrowing
from drbo.analysis.explain_bound import ActionBound
from drbo.analysis.explain_radius import explain_all, explain_present
from drbo.analysis.probabilities import classify, probability, value_at_risk
from drbo.analysis.profile import RadiusProfile, profile
from drbo.analysis.radius_explanation import RadiusExplanation
from drbo.analysis.recommend import action_bound, best_in, recommend_for, recommendation, regret_bound
from drbo.analysis.sensitivity import RadiusSensitivity, sensitivity
from drbo.knowledge.snapshot import Snapshot
from drbo.rounds.chance import Chance, Event, Of
from drbo.rounds.satisficing import Goal
from drbo.spaces.space import Point

Method = TypeVar("Method", bound=Callable[..., Any])


class Guard:
    """Holds the lock; a fork gets a new lock, because a thread of the parent may hold the old one."""

    def __init__(self) -> None:
        self.lock = threading.RLock()

    def renew(self) -> None:
        """Replace the lock by an open one."""
        self.lock = threading.RLock()


def alone(method: Method) -> Method:
    """Return the method with the lock held: a `tell` waits for a running `ask`."""

    @functools.wraps(method)
    def locked(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self._guard.lock:
            return method(self, *args, **kwargs)

    return cast(Method, locked)


def computing(method: Method) -> Method:
    """Return the method with the lock held and single-threaded linear algebra, for methods that need a posterior.

    An interrupt inside compiled code is raised as a KeyboardInterrupt, whatever it surfaces as.
    """

    @functools.wraps(method)
    def limited(self: Any, *args: Any, **kwargs: Any) -> Any:
        handled = sys.exc_info()[1]  # by the caller, who may be in `except KeyboardInterrupt`
        try:
            with self._guard.lock, one_thread():
                return method(self, *args, **kwargs)
        except Exception as error:
            if comes_from_an_interrupt(error, handled):
                raise KeyboardInterrupt from error
            raise

    return cast(Method, limited)


@dataclass(frozen=True, eq=False, repr=False)
class Question:
    """Queries of an optimizer's state at one moment, `opt.under(reference, radius, given)`.

    Later results do not change the answers. Thread-safe: calls run one at a time.
    """

    _asked: Snapshot
    _guard: Guard
    _found: list[ActionBound] = field(default_factory=list)  # cache: the best action

    def __repr__(self) -> str:
        told, given = len(self._asked.state.told_so_far), self._asked.given
        known = "" if given is None else f", given={given!r}"
        return f"a question after {told} results (radius={self._asked.radius or self._asked.terms.radius}{known})"

    def __copy__(self) -> Question:
        return self

    def __deepcopy__(self, memo: Any) -> Question:
        del memo
        return self

    def __getstate__(self) -> Any:
        raise TypeError("a Question cannot be pickled: pickle the optimizer, and ask the copy with under(...)")

    def _action(self, action: Any, name: str = "action") -> Point:
        return self._asked.actions.encode(name, action)

    def _best(self) -> ActionBound:
        if not self._found:
            self._found[:] = [best_in(self._asked, self._asked.ball)]
        return self._found[0]

    @computing
    def recommend(self) -> Recommendation:
        """Return the action of the largest worst-case lower confidence bound, given all outcomes.

        If the optimizer has limits, the action is the best of those whose
        limits hold in every distribution of the set by their bounds; `limits` of the answer has these bounds. If there
        is no such action, `NotReachedError` is raised. Its `closest` is the action that comes closest.
        Once an evaluation has failed, actions whose estimated probability of success is below `least_success` are
        passed over; `success` of the answer is that probability. An error is raised only if nothing has succeeded.
        """
        return recommendation(self._asked, self._best())

    @computing
    def recommend_for(self, target: float, goal: Goal = "radius") -> TargetRecommendation:
        """Return the action that reaches a target on average under the largest shift; no radius is needed.

        `target` is in the units of the outcomes: at least this, or at most if outcomes are minimised. The goal "radius"
        maximises the radius up to which the bound reaches the target. The goal "fragility" minimises the shortfall from
        the target per unit of radius, in the worst case over all radii (RoBOS: Saday, Yildirim and Tekin, NeurIPS
        2023). Both numbers are returned, by the lower confidence bounds of `recommend`. Actions that are likely to fail
        are passed over.

        `NotReachedError` is raised if no bound reaches the target under the reference itself.
        """
        return recommend_for(self._asked, target, goal)

    @computing
    def bound(self, action: Any) -> Recommendation:
        """Return the worst-case bound of an action: as `recommend`, but for this action.

        `limits` of the answer says which limits are known to hold.
        """
        return recommendation(self._asked, action_bound(self._asked, self._action(action), self._asked.ball))

    @computing
    def compare(self, action: Any, other: Any = None, *, outcome: str | None = None) -> Comparison:
        """Return the advantage of an action over another; the default is the baseline.

        `outcome` is the name of the compared outcome; the default is the objective. The advantage in a limited outcome
        is the distance by which it is further within its limit.
        The bounds use the joint posterior, so shared uncertainty cancels. Model, width and set are those of
        `recommend`.
        """
        baseline = self._asked.configuration.baseline
        if other is None and baseline is None:
            raise TypeError("other must be given: there is no baseline to compare with")
        against = baseline if other is None else self._action(other, "other")
        key = self._asked.configuration.key(outcome)
        return compare(self._asked, self._action(action), cast(Point, against), key)

    @computing
    def probability(
        self,
        action: Any,
        *,
        above: float | None = None,
        below: float | None = None,
        of: Of = "f",
        outcome: str | None = None,
    ) -> Probability:
        """Return the probability that f(action, context) is above (or below) a threshold, in the worst distribution.

        The set is that of `recommend`; with radius 0 it is the reference itself. The worst distribution makes the event
        least likely, so name the desired event. `of="outcome"` is for a noisy outcome instead of f. Contexts must be a
        finite set, or samples that are all atoms. The bounds hold in all contexts at once, and are wider than those of
        `predict` unless beta is a `TheoreticalBeta` (docs/claims.md). `outcome` is the name of the outcome in place of
        f, the objective.
        """
        key = self._asked.configuration.key(outcome)
        return probability(self._asked, self._action(action), Event(above, below, of), key)

    @computing
    def value_at_risk(self, action: Any, level: float, *, of: Of = "f", outcome: str | None = None) -> ValueAtRisk:
        """Return the value that f(action, context) reaches with probability 1 - level, in the worst distribution.

        With radius 0 it is the value at risk under the reference: the quantile at `level` (at 1 - level if outcomes are
        minimised or limited by `AtMost`). Set, contexts, bounds and `outcome` are those of `probability`.
        """
        return value_at_risk(self._asked, self._action(action), level, of, self._asked.configuration.key(outcome))

    @computing
    def classify(self, chance: Chance, actions: Any = None) -> Classification:
        """Return the actions by a chance constraint in every distribution of the set: in, out, or still open.

        The default is all actions of a finite set; a box needs a table of `actions`. Set and contexts are those of
        `probability`. The bounds hold for all of these actions and all contexts at once.
        """
        return classify(self._asked, chance, actions)

    @computing
    def regret_bound(self) -> RegretBound:
        """Return a bound on the distance of the recommended action from the best one, for a stopping rule.

        The value is the largest worst-case upper confidence bound of any action minus the bound of the recommended one.
        Set and width are those of `recommend`. With limits it is the distance from the best action whose limits may
        hold; infinite if no action is known to meet them.
        """
        try:
            best = self._best()
        except NotReachedError:
            return regret_bound(self._asked, None)
        return regret_bound(self._asked, best)

    @computing
    def profile(self, radii: ArrayLike, *, actions: Any = None) -> RadiusProfile:
        """Return the cost and the benefit of each radius (k,), without a further evaluation.

        One row per radius: the recommendation, its bound and expectation, and the cost and benefit of robustness; with
        `to_frame()` and `plot()`. `actions` is a table of candidates, which is faster than the default, a search over
        all actions for each radius.
        """
        return profile(self._asked, radii, actions)

    @computing
    def sensitivity(self, action: Any = None) -> RadiusSensitivity:
        """Return the derivative of an action's bound in the radius (worst-case sensitivity); print it.

        The default is the recommended action. The answer includes the fast approximation of Tay et al. (ICML 2022), the
        bound at the reference minus its sensitivity there times the radius, with its error. For KL and chi-square the
        derivative is in the square root of the radius, as the one in the radius is infinite at 0. At a kink of the
        bound it is the right derivative. It comes from the dual point of the worst case. If contexts have a range, it
        uses the atoms that the bound needed.
        """
        return sensitivity(self._asked, None if action is None else self._action(action))

    @overload
    def explain_radius(self, radius: float | None = None, *, window: int | None = None) -> RadiusExplanation: ...

    @overload
    def explain_radius(
        self, radius: Sequence[float], *, window: int | None = None
    ) -> tuple[RadiusExplanation, ...]: ...

    @computing
    def explain_radius(
        self, radius: float | Sequence[float] | None = None, *, window: int | None = None
    ) -> RadiusExplanation | tuple[RadiusExplanation, ...]:
        """Return the meaning of a radius in the units of the contexts; print it.

        The default is the radius of the query. Several radii give a tuple, which is faster than one by one. `window` is
        the number of past days that are compared with as many before them; the default is a fifth of all.
        """
        if radius is None:
            return explain_present(self._asked, window)
        if isinstance(radius, Sequence) and not isinstance(radius, str):
            return explain_all(self._asked, radius, window)
        return explain_all(self._asked, [radius], window)[0]

    @computing
    def narrowing(self, action: Any, *, steps: int = 60, outcome: str | None = None) -> Narrowing:
        """Return the worst-case bounds of an action against the number of evaluations.

        Model, width and set are those of `recommend`. `steps` is the largest number of points in time. `outcome` is the
        name of the bounded outcome; the default is the objective.
        """
        return narrowing(self._asked, self._action(action), steps, self._asked.configuration.key(outcome))

    @computing
    def backtest(self, radii: ArrayLike, window: int, *, past: Any = None, actions: Any = None) -> Backtest:
        """Return the past rewards of each radius (k,) under the posterior of this query.

        The reference of every step is the `window` contexts before it. The action has the best worst-case lower bound,
        and earns the posterior mean in the context that occurred. The posterior has seen outcomes of later days: this
        compares radii, and is not a forecast.

        `past` are contexts, oldest first; the default is those that the optimizer knows. `actions` are the candidates.
        The default is all of a finite set; for a box, 128 well-spread ones, the evaluated ones, and the recommendation
        for each radius. If contexts have a range, the adversary is limited to the past and the atoms.
        """
        return backtest_known(self._asked, radii, window, past, actions)
