"""What an optimizer answers from what it knows: queries, which append no fact and never change the next `ask`."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from drbo import validation
from drbo._messages import require
from drbo.analysis import checks, probabilities
from drbo.analysis.answers import (
    Classification,
    Probability,
    Recommendation,
    RegretBound,
    TargetRecommendation,
    ValueAtRisk,
)
from drbo.analysis.checks import Comparison, LeaveOneOut, Narrowing
from drbo.analysis.recommend import Guaranteed, best_for, best_iterate, best_now, certified, explain, reachable
from drbo.knowledge import claims, telling
from drbo.knowledge.explanation import Deferred
from drbo.knowledge.state import State, Terms
from drbo.knowledge.suggestion import Prediction
from drbo.optimizer.view import View, computing
from drbo.rounds.chance import Chance, Event, Of
from drbo.rounds.satisficing import Goal, check_goal
from drbo.spaces.samples import Samples
from drbo.spaces.space import Point


class Answers(View):
    """An optimizer as those see it who ask and do not tell."""

    _certified: tuple[int, Recommendation] | None  # the iterate of eq. 10, after so many facts
    _best: tuple[int, Terms, Guaranteed] | None  # the best action now, after so many facts, for these terms

    @computing
    def recommend(
        self,
        reference: ArrayLike | Mapping[Any, float] | Samples | None = None,
        radius: float | None = None,
        *,
        given: Mapping[Any, Any] | None = None,
        subject_to: Chance | None = None,
    ) -> Recommendation:
        """Return the best guaranteed action now: the largest worst-case lower confidence bound under all outcomes told.

        It is for the set of the last ask, unless `reference`, `radius` or `given` say otherwise. `given` is what is
        known of the context, as for `ask`, and {} if nothing is. An action that failed is never recommended.

        With `subject_to=Chance(0.9, above=2.0)` it is the best of the actions that are certified to have f above 2 with
        a probability of 0.9 in every distribution of the set; `chance` of the answer says how likely it is at least.
        `NotCertifiedError` is raised if there is none.
        """
        state = self._known.state
        terms = self._terms(state, reference, radius, given)
        if subject_to is None:
            return self._recommendation(self._best_now(state, terms))
        found, likely = probabilities.best_with(self._known, state, _checked_chance("subject_to", subject_to), terms)
        return dataclasses.replace(self._recommendation(found), chance=likely)

    @computing
    def recommend_for(
        self,
        target: float,
        goal: Goal = "radius",
        *,
        reference: ArrayLike | Mapping[Any, float] | Samples | None = None,
        given: Mapping[Any, Any] | None = None,
    ) -> TargetRecommendation:
        """Return the action that reaches a target on average under the largest shift: no radius need be chosen.

        `target` is in the units of the outcomes: at least this, or at most where outcomes are minimised. With the goal
        "radius" the action is the one whose certified critical radius is largest: up to it the target is reached. With
        the goal "fragility" it is the one that misses the target by least per unit of radius, in the worst case over
        all radii (RoBOS: Saday, Yildirim and Tekin, NeurIPS 2023). Both numbers are returned, certified by the lower
        confidence bounds of `recommend`. An action that failed is never recommended.

        `NotCertifiedError` is raised if no action is certified to reach the target under the reference itself.
        """
        chosen, wanted = check_goal(goal), validation.finite_float("target", target)
        state = self._known.state
        found = best_for(self._known, state, wanted, chosen, self._terms(state, reference, None, given))
        at = self._recommendation(found.guaranteed)
        return TargetRecommendation(
            action=at.action,
            action_index=at.action_index,
            target=wanted,
            goal=chosen,
            radius=found.radius,
            fragility=found.guaranteed.units.length_outward(found.fragility),
            recommendation=at,
        )

    @computing
    def probability(
        self,
        action: Any,
        *,
        above: float | None = None,
        below: float | None = None,
        of: Of = "f",
        reference: ArrayLike | Mapping[Any, float] | Samples | None = None,
        radius: float | None = None,
        given: Mapping[Any, Any] | None = None,
    ) -> Probability:
        """Return how likely f(action, context) is above (or below) a threshold, in the worst distribution of the set.

        The set is that of `recommend`; with radius 0 it is the reference itself. The worst distribution is the one in
        which the event is least likely, so name what should happen. `of="outcome"` is for a noisy outcome in place of
        f. Contexts must be a finite set, or samples that are all atoms. The bounds hold in all contexts at once, and
        are wider than those of `predict` unless beta is a `TheoreticalBeta` (docs/claims.md).
        """
        state, event = self._known.state, Event(above, below, of)
        terms = self._terms(state, reference, radius, given)
        return probabilities.probability(self._known, state, self._encode_action(action), event, terms)

    @computing
    def value_at_risk(
        self,
        action: Any,
        level: float,
        *,
        of: Of = "f",
        reference: ArrayLike | Mapping[Any, float] | Samples | None = None,
        radius: float | None = None,
        given: Mapping[Any, Any] | None = None,
    ) -> ValueAtRisk:
        """Return what f(action, context) reaches in all but a share `level` of cases, in the worst distribution.

        With radius 0 it is the value at risk under the reference: the quantile at `level` (at 1 - level for outcomes
        that are minimised). Set, contexts and bounds are those of `probability`.
        """
        state = self._known.state
        terms = self._terms(state, reference, radius, given)
        return probabilities.value_at_risk(self._known, state, self._encode_action(action), level, of, terms)

    @computing
    def classify(
        self,
        chance: Chance,
        actions: Any = None,
        *,
        reference: ArrayLike | Mapping[Any, float] | Samples | None = None,
        radius: float | None = None,
        given: Mapping[Any, Any] | None = None,
    ) -> Classification:
        """Return which actions meet a chance constraint in every distribution of the set: in, out, or open still.

        All actions of a finite set by default; of a box a table of `actions` must be given. Set and contexts are those
        of `probability`. The bounds hold for all of these actions and all contexts at once.
        """
        own, state = self._configuration, self._known.state
        space = own.search.space
        if actions is None and not own.search.exhaustive:
            raise TypeError("actions must be given where they are a box: a table of those to classify")
        if actions is None:
            every = own.search.candidates(self._known.rows([]), 0)
            points = [every.point(row) for row in range(len(every.points))]
        else:
            many = space.many("actions", actions)
            if many is None and (isinstance(actions, str | Mapping) or not np.iterable(actions)):
                raise TypeError(f"actions must be a table or a sequence of actions, got {actions!r}")
            rows = enumerate(actions if many is None else many)
            points = [space.encode(f"actions[{i}]", one) for i, one in rows]
        terms = self._terms(state, reference, radius, given)
        return probabilities.classify(self._known, state, _checked_chance("chance", chance), points, terms)

    @computing
    def recommend_iterate(self) -> Recommendation:
        """Return the iterate whose worst-case lower confidence bound at its own time was largest (eq. 10).

        The certificate is computed now, from all outcomes told, for the set of that iterate's round. General setting:
        the sets of different rounds are compared as they are; `recommend` is for one set.
        """
        if self._certified is None or self._certified[0] != len(self._facts):
            found = self._recommendation(best_iterate(self._known, self._known.state))
            self._certified = len(self._facts), found
        return self._certified[1]

    @computing
    def certify(
        self,
        action: Any,
        reference: ArrayLike | Mapping[Any, float] | Samples | None = None,
        radius: float | None = None,
        *,
        given: Mapping[Any, Any] | None = None,
    ) -> Recommendation:
        """Return what is guaranteed of an action of one's own: as `recommend`, but for this action."""
        state = self._known.state
        terms = self._terms(state, reference, radius, given)
        return self._recommendation(certified(self._known, state, self._encode_action(action), terms))

    @computing
    def regret_bound(
        self,
        reference: ArrayLike | Mapping[Any, float] | Samples | None = None,
        radius: float | None = None,
        *,
        given: Mapping[Any, Any] | None = None,
    ) -> RegretBound:
        """Return how far the recommended action may be from the best one: a reason to stop, or to go on.

        It is the largest worst-case upper confidence bound of any action, less what is certified of the recommended
        one. Set and width are those of `recommend`.
        """
        state = self._known.state
        best = self._best_now(state, self._terms(state, reference, radius, given))
        most, least, units = reachable(self._known, state, best), best.certificate.lower_bound, best.units
        return RegretBound(
            value=units.length_outward(most - least) if units.known else math.inf,
            guaranteed=units.outward(least),
            reachable=units.outward(most),
            certified=self._configuration.search.exhaustive,
            claim=claims.certificate(self.surrogate, self._configuration.certificate_beta),
        )

    @computing
    def predict(self, action: Any, context: Any) -> Any:
        """Return mean, standard deviation and bounds of f(action, context), in the user's units.

        For one action in one context it is a `Prediction` of numbers. Either may be a table of many: an array (m, d), a
        list of mappings, or a pandas frame with the parameters' columns. Tables are paired row by row. One action is
        paired with every row of a table of contexts, and one context with every row of a table of actions. The answer
        is then a `Prediction` of arrays (m,). If a frame was given, it is a frame with the same index and the columns
        mean, std, lower and upper.

        Model and bounds are those that a certificate rests on: hyper-parameters learned from every outcome, and the
        width of `certificate_beta`.
        """
        own = self._configuration
        given = (
            telling.rows("action", action, own.search.space, own.search.space.encode),
            telling.rows("context", context, own.nature.space, own.nature.encode),
        )
        x, c = telling.paired(*given)
        belief = self._known.belief(self._known.state, fresh=True)
        predicted = belief.prediction(x, c, self._known.width(belief, own.certificate_beta))
        if all(part.single for part in given):
            return Prediction(*(float(column[0]) for column in predicted))
        index = next((part.index for part in given if part.index is not None), None)
        if index is None:
            return Prediction(*(validation.frozen(column) for column in predicted))
        columns = dict(zip(("mean", "std", "lower", "upper"), predicted, strict=True))
        return require("pandas", "frame").DataFrame(columns, index=index)

    @computing
    def compare(
        self,
        action: Any,
        other: Any = None,
        reference: ArrayLike | Mapping[Any, float] | Samples | None = None,
        radius: float | None = None,
        *,
        given: Mapping[Any, Any] | None = None,
    ) -> Comparison:
        """Return how much better an action is than another one, by default than the baseline.

        The bounds are those of the joint posterior: what is unknown about both alike cancels. Model, width and set are
        those of `recommend`.
        """
        if other is None and self._configuration.baseline is None:
            raise TypeError("other must be given: there is no baseline to compare with")
        state = self._known.state
        against = self._configuration.baseline if other is None else self._encode_action(other, "other")
        terms = self._terms(state, reference, radius, given)
        return checks.compare(self._known, state, self._encode_action(action), cast(Point, against), terms)

    @computing
    def leave_one_out(self) -> LeaveOneOut:
        """Return every outcome beside what the model predicts for it from all the others."""
        return checks.leave_one_out(self._known, self._known.state)

    @computing
    def narrowing(
        self,
        action: Any,
        reference: ArrayLike | Mapping[Any, float] | Samples | None = None,
        radius: float | None = None,
        *,
        given: Mapping[Any, Any] | None = None,
        steps: int = 60,
    ) -> Narrowing:
        """Return the worst-case bounds of an action after the first evaluations: whether more of them still help.

        Model, width and set are those of `recommend`. `steps` is for how many numbers of evaluations at most.
        """
        state = self._known.state
        terms, most = (
            self._terms(state, reference, radius, given),
            validation.whole_number("steps", steps, least=1, most=10_000),
        )
        return checks.narrowing(self._known, state, self._encode_action(action), terms, most)

    def _best_now(self, state: State, terms: Terms) -> Guaranteed:
        """Return the best guaranteed action, from what is kept if it was asked for before."""
        kept = self._best
        if kept is None or kept[0] != len(self._facts) or not kept[1].same_as(terms):
            kept = self._best = len(self._facts), terms, best_now(self._known, state, terms)
        return kept[2]

    def _recommendation(self, found: Guaranteed) -> Recommendation:
        """Return an action and its certificate in the user's units."""
        made, units = found.certificate, found.units
        beta, nature = self._configuration.certificate_beta, self._known.nature(found.given)
        action, contexts = self._configuration.search.space.decode(found.action), nature.decode_all(made.reference)
        return Recommendation(
            action=action,
            action_index=found.action.index,
            value=units.outward(made.lower_bound),
            gap=units.length_outward(float(made.worst_case.expectation - made.lower_bound)),
            weights=validation.frozen(made.worst_case.weights),
            contexts=contexts,
            reference=made.reference.weights,
            radius=found.ball.radius,
            maximize=self.maximize,
            beta=found.width,
            delta=beta.delta if beta.proven else None,
            diameter=found.ball.diameter,
            within=found.ball.words,
            claim=claims.certificate(self.surrogate, beta),
            unseen=found.unseen,
            action_point=found.action,
            explanation=Deferred(functools.partial(explain, found, action, contexts, nature.space.columns)),
            given=found.given,
        )


def _checked_chance(name: str, chance: Any) -> Chance:
    """Return a chance constraint; raise if it is none."""
    if not isinstance(chance, Chance):
        raise TypeError(f"{name} must be a drbo.Chance, such as Chance(0.9, above=2.0), got {chance!r}")
    return chance
