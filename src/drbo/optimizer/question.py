"""A question: what is asked of what is known at one moment, for one reference, one radius and one known context."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast, overload

from numpy.typing import ArrayLike

from drbo.analysis.answers import (
    Classification,
    Probability,
    Recommendation,
    RegretBound,
    TargetRecommendation,
    ValueAtRisk,
)
from drbo.analysis.backtest import Backtest, backtest_known
from drbo.analysis.checks import Comparison, Narrowing, compare, narrowing
from drbo.analysis.explain_radius import explain_all, explain_present
from drbo.analysis.probabilities import best_with, checked_chance, classify, probability, value_at_risk
from drbo.analysis.profile import RadiusProfile, profile
from drbo.analysis.radius_explanation import RadiusExplanation
from drbo.analysis.recommend import Guaranteed, best_in, guaranteed, recommend_for, recommendation, regret_bound
from drbo.analysis.sensitivity import RadiusSensitivity, sensitivity
from drbo.knowledge.snapshot import Snapshot
from drbo.optimizer.guard import Guard, computing
from drbo.rounds.chance import Chance, Event, Of
from drbo.rounds.satisficing import Goal
from drbo.spaces.space import Point


@dataclass(frozen=True, eq=False, repr=False)
class Question:
    """What can be asked of an optimizer's knowledge at one moment, `opt.under(reference, radius, given)`.

    Later results do not change its answers. Several threads may ask one question; one call at a time runs.
    """

    _asked: Snapshot
    _guard: Guard

    def __repr__(self) -> str:
        told, given = len(self._asked.state.told_so_far), self._asked.given
        known = "" if given is None else f", given={given!r}"
        return f"a question after {told} results (radius={self._asked.radius or self._asked.terms.radius}{known})"

    def _action(self, action: Any, name: str = "action") -> Point:
        return self._asked.actions.encode(name, action)

    @functools.cached_property
    def _best(self) -> Guaranteed:
        return best_in(self._asked, self._asked.ball)

    @computing
    def recommend(self, *, subject_to: Chance | None = None) -> Recommendation:
        """Return the best action: the largest worst-case lower confidence bound under all outcomes told.

        An action that failed is never recommended. With `subject_to=Chance(0.9, above=2.0)` it is the best of the
        actions that are certified to have f above 2 with a probability of 0.9 in every distribution of the set;
        `chance` of the answer says how likely it is at least. `NotCertifiedError` is raised if there is none.
        """
        if subject_to is None:
            return recommendation(self._asked, self._best)
        return best_with(self._asked, checked_chance("subject_to", subject_to))

    @computing
    def recommend_for(self, target: float, goal: Goal = "radius") -> TargetRecommendation:
        """Return the action that reaches a target on average under the largest shift: no radius need be chosen.

        `target` is in the units of the outcomes: at least this, or at most where outcomes are minimised. With the goal
        "radius" the action is the one whose certified critical radius is largest: up to it the target is reached. With
        the goal "fragility" it is the one that misses the target by least per unit of radius, in the worst case over
        all radii (RoBOS: Saday, Yildirim and Tekin, NeurIPS 2023). Both numbers are returned, by the lower confidence
        bounds of `recommend`. An action that failed is never recommended.

        `NotCertifiedError` is raised if no action is certified to reach the target under the reference itself.
        """
        return recommend_for(self._asked, target, goal)

    @computing
    def bound(self, action: Any) -> Recommendation:
        """Return the worst-case bound of an action of one's own: as `recommend`, but for this action."""
        return recommendation(self._asked, guaranteed(self._asked, self._action(action), self._asked.ball))

    @computing
    def compare(self, action: Any, other: Any = None) -> Comparison:
        """Return how much better an action is than another one, by default than the baseline.

        The bounds are those of the joint posterior: what is unknown about both alike cancels. Model, width and set are
        those of `recommend`.
        """
        baseline = self._asked.configuration.baseline
        if other is None and baseline is None:
            raise TypeError("other must be given: there is no baseline to compare with")
        against = baseline if other is None else self._action(other, "other")
        return compare(self._asked, self._action(action), cast(Point, against))

    @computing
    def probability(
        self, action: Any, *, above: float | None = None, below: float | None = None, of: Of = "f"
    ) -> Probability:
        """Return how likely f(action, context) is above (or below) a threshold, in the worst distribution of the set.

        The set is that of `recommend`; with radius 0 it is the reference itself. The worst distribution is the one in
        which the event is least likely, so name what should happen. `of="outcome"` is for a noisy outcome in place of
        f. Contexts must be a finite set, or samples that are all atoms. The bounds hold in all contexts at once, and
        are wider than those of `predict` unless beta is a `TheoreticalBeta` (docs/claims.md).
        """
        return probability(self._asked, self._action(action), Event(above, below, of))

    @computing
    def value_at_risk(self, action: Any, level: float, *, of: Of = "f") -> ValueAtRisk:
        """Return what f(action, context) reaches in all but a share `level` of cases, in the worst distribution.

        With radius 0 it is the value at risk under the reference: the quantile at `level` (at 1 - level for outcomes
        that are minimised). Set, contexts and bounds are those of `probability`.
        """
        return value_at_risk(self._asked, self._action(action), level, of)

    @computing
    def classify(self, chance: Chance, actions: Any = None) -> Classification:
        """Return which actions meet a chance constraint in every distribution of the set: in, out, or open still.

        All actions of a finite set by default; of a box a table of `actions` must be given. Set and contexts are those
        of `probability`. The bounds hold for all of these actions and all contexts at once.
        """
        return classify(self._asked, chance, actions)

    @computing
    def regret_bound(self) -> RegretBound:
        """Return how far the recommended action may be from the best one: a reason to stop, or to go on.

        It is the largest worst-case upper confidence bound of any action, less the bound of the recommended one. Set
        and width are those of `recommend`.
        """
        return regret_bound(self._asked, self._best)

    @computing
    def profile(self, radii: ArrayLike) -> RadiusProfile:
        """Return what each radius (k,) costs and buys, without a further evaluation.

        One row per radius: what would be recommended, what is guaranteed and expected of it, what robustness costs and
        buys; with `to_frame()` and `plot()`.
        """
        return profile(self._asked, radii)

    @computing
    def sensitivity(self, action: Any = None) -> RadiusSensitivity:
        """Return how fast the bound of an action falls as the radius grows: worst-case sensitivity; print it.

        By default the action is the recommended one. Beside it stands the fast approximation of Tay et al. (ICML 2022),
        the bound at the reference less its sensitivity there times the radius, with its error. The derivative is in the
        radius, and in its square root for KL and chi-square, where the one in the radius is infinite at 0; where the
        bound has a kink it is the one to the right. It comes from the dual point of the worst case. Where contexts have
        a range it is on the atoms that the bound needed.
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
        """Return what a radius means for the reference, in the units of the contexts; print it.

        The radius of the question by default. Several radii give a tuple, which costs less than one by one. `window` is
        how many days of the past are compared with as many days before them, a fifth of all by default.
        """
        if radius is None:
            return explain_present(self._asked, window)
        if isinstance(radius, Sequence) and not isinstance(radius, str):
            return explain_all(self._asked, radius, window)
        return explain_all(self._asked, [radius], window)[0]

    @computing
    def narrowing(self, action: Any, *, steps: int = 60) -> Narrowing:
        """Return the worst-case bounds of an action after the first evaluations: whether more of them still help.

        Model, width and set are those of `recommend`. `steps` is for how many numbers of evaluations at most.
        """
        return narrowing(self._asked, self._action(action), steps)

    @computing
    def backtest(self, radii: ArrayLike, window: int, *, past: Any = None, actions: Any = None) -> Backtest:
        """Return what each radius (k,) would have earned in the past under the posterior of this moment.

        At every step the reference is the `window` contexts before it. The action is the one of the best worst-case
        lower bound, and earns the posterior mean in the context that came. The posterior has seen outcomes of later
        days: this compares radii, and is no forecast.

        `past` are contexts in the order of time, by default those that the optimizer knows. `actions` are those to
        choose from. By default all of a finite set; of a box 128 well-spread ones, those told, and what would be
        recommended for each radius. Where contexts have a range, the adversary is limited to the past and the atoms.
        """
        return backtest_known(self._asked, radii, window, past, actions)
