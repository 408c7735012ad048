"""What an optimizer answers: queries, which append no fact and never change the next `ask`."""

from __future__ import annotations

import dataclasses
import functools
import math
import threading
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from drbo import validation
from drbo._extras import require
from drbo.ambiguity.contract import AmbiguitySet
from drbo.models.bounds import Beta
from drbo.models.gp import GP
from drbo.models.learned import LearnedGP
from drbo.models.posterior import AnyPosterior
from drbo.optimizer import chances, checks, claims, tables
from drbo.optimizer.checks import Comparison, LeaveOneOut, Narrowing
from drbo.optimizer.configuration import Configuration
from drbo.optimizer.explain import explain
from drbo.optimizer.explanation import Deferred
from drbo.optimizer.history import Fact
from drbo.optimizer.incumbent import Guaranteed, best_iterate, best_now, certified, reachable
from drbo.optimizer.knowledge import Knowledge
from drbo.optimizer.markup import as_html
from drbo.optimizer.probabilities import Classification, Probability, ValueAtRisk
from drbo.optimizer.state import Iterate, State, Terms
from drbo.optimizer.suggestion import (
    Prediction,
    Recommendation,
    RegretBound,
    Result,
    Suggestion,
    TargetRecommendation,
    results_of,
)
from drbo.optimizer.targets import best_for
from drbo.rounds.chance import Chance, Event, Of
from drbo.rounds.policies import Policy
from drbo.rounds.satisficing import Goal, check_goal
from drbo.rounds.settings import Setting
from drbo.spaces.box import Box
from drbo.spaces.finite import FiniteSet
from drbo.spaces.samples import Samples
from drbo.spaces.space import Point

if TYPE_CHECKING:
    from drbo.analysis.backtest import Backtest
    from drbo.analysis.explain_radius import RadiusExplanation
    from drbo.analysis.plots import Plots
    from drbo.analysis.radius_profile import RadiusProfile
    from drbo.analysis.watch import Watch

Method = TypeVar("Method", bound=Callable[..., Any])


def alone(method: Method) -> Method:
    """Let one thread at a time into an optimizer: a `tell` waits for an `ask` that is running."""

    @functools.wraps(method)
    def locked(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            return method(self, *args, **kwargs)

    return cast(Method, locked)


class Answers:
    """An optimizer as those see it who ask and do not tell. `Optimizer` adds the commands."""

    _configuration: Configuration
    _facts: list[Fact]
    _known: Knowledge
    _lock: threading.RLock
    _certified: tuple[int, Recommendation] | None

    def __repr__(self) -> str:
        told, waiting = self.n_told, len(self.pending)
        return f"Optimizer(actions={self.actions!r}, setting={self.setting!r}: {told} told, {waiting} pending)"

    def _repr_html_(self) -> str:
        failed = sum(result.failed for result in self.results)
        cells = {
            "told": self.n_told,
            "failed": failed,
            "pending": len(self.pending),
            "outcomes": "maximised" if self.maximize else "minimised",
            "actions": repr(self.actions),
            "contexts": repr(self.contexts),
            "setting": repr(self.setting),
        }
        return as_html("Optimizer", cells.items())

    # --- what is known ----------------------------------------------------------------------------------------------

    @property
    def actions(self) -> FiniteSet | Box:
        """What we choose from."""
        return self._configuration.actions

    @property
    def contexts(self) -> FiniteSet | Samples | Box:
        """What nature chooses from."""
        return self._configuration.contexts

    @property
    def setting(self) -> Setting:
        """Who provides the reference and the radius of a round."""
        return self._configuration.setting

    @property
    def surrogate(self) -> GP | LearnedGP:
        """The model of f."""
        return self._configuration.surrogate

    @property
    def policy(self) -> Policy:
        """What chooses the next evaluation."""
        return self._configuration.policy

    @property
    def beta(self) -> Beta:
        """The rule for the width of the confidence bounds."""
        return self._configuration.beta

    @property
    def maximize(self) -> bool:
        """Whether outcomes are maximised."""
        return self._configuration.maximize

    @property
    def baseline(self) -> Any:
        """The action of today, as it was given; None if there is none."""
        return self._configuration.arguments["baseline"]

    @property
    @alone
    def posterior(self) -> AnyPosterior:
        """The posterior of the outcomes told so far, in the model's coordinates and units; not to be changed.

        It is on the contexts of `ambiguity`.
        """
        state = self._known.state
        return self._known.belief(state, self._known.atoms(state)).certain

    @property
    @alone
    def n_told(self) -> int:
        """How many results have been told, failed ones included."""
        return len(self._known.state.told_so_far)

    @property
    @alone
    def ambiguity(self) -> AmbiguitySet:
        """The family of ambiguity sets, put on the present atoms of the contexts."""
        return self._known.on(self._known.atoms(self._known.state), self._configuration.nature)

    @property
    @alone
    def pending(self) -> tuple[Suggestion, ...]:
        """The suggestions that have been neither told nor cancelled, the oldest first."""
        state = self._known.state
        return tuple(self._suggestion(iterate) for iterate in state.pending.values())

    @property
    @alone
    def history(self) -> tuple[Fact, ...]:
        """The facts: one record per command, in order (`drbo.optimizer.history`)."""
        return tuple(self._facts)

    @property
    @alone
    def results(self) -> tuple[Result, ...]:
        """What was told, in the user's units and in order: one per outcome. Outcomes told together have one `id`."""
        spaces = self._configuration.search.space, self._configuration.nature.space
        told = self._known.state.results.items()
        return tuple(result for id_, record in told for result in results_of(id_, record, *spaces))

    # --- queries: they append nothing -------------------------------------------------------------------------------

    @alone
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
            return self._recommendation(best_now(self._known, state, terms))
        found, likely = chances.best_with(self._known, state, _checked_chance("subject_to", subject_to), terms)
        return dataclasses.replace(self._recommendation(found), chance=likely)

    @alone
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

    @alone
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
        return chances.probability(self._known, state, self._encode_action(action), event, terms)

    @alone
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
        return chances.value_at_risk(self._known, state, self._encode_action(action), level, of, terms)

    @alone
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
        return chances.classify(self._known, state, _checked_chance("chance", chance), points, terms)

    @alone
    def recommend_iterate(self) -> Recommendation:
        """Return the iterate whose worst-case lower confidence bound at its own time was largest (eq. 10).

        The certificate is computed now, from all outcomes told, for the set of that iterate's round. General setting:
        the sets of different rounds are compared as they are; `recommend` is for one set.
        """
        if self._certified is None or self._certified[0] != len(self._facts):
            found = self._recommendation(best_iterate(self._known, self._known.state))
            self._certified = len(self._facts), found
        return self._certified[1]

    @alone
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

    @alone
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
        best = best_now(self._known, state, self._terms(state, reference, radius, given))
        most, least, units = reachable(self._known, state, best), best.certificate.lower_bound, best.units
        return RegretBound(
            value=units.length_outward(most - least) if units.known else math.inf,
            guaranteed=units.outward(least),
            reachable=units.outward(most),
            certified=self._configuration.search.exhaustive,
            claim=claims.certificate(self.surrogate, self._configuration.certificate_beta),
        )

    def recommend_final(
        self, reference: ArrayLike | Mapping[Any, float] | Samples | None = None, radius: float | None = None
    ) -> Recommendation:
        """Return `recommend(reference, radius)`, its name since version 0.2."""
        warnings.warn("recommend_final is now called recommend", DeprecationWarning, stacklevel=2)
        return self.recommend(reference, radius)

    @alone
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
            tables.rows("action", action, own.search.space, own.search.space.encode),
            tables.rows("context", context, own.nature.space, own.nature.encode),
        )
        x, c = tables.paired(*given)
        belief = self._known.belief(self._known.state, fresh=True)
        predicted = belief.prediction(x, c, self._known.width(belief, own.certificate_beta))
        if all(part.single for part in given):
            return Prediction(*(float(column[0]) for column in predicted))
        index = next((part.index for part in given if part.index is not None), None)
        if index is None:
            return Prediction(*(validation.frozen(column) for column in predicted))
        columns = dict(zip(("mean", "std", "lower", "upper"), predicted, strict=True))
        return require("pandas", "frame").DataFrame(columns, index=index)

    @alone
    def explain_radius(
        self,
        radius: float | None = None,
        *,
        reference: Any = None,
        window: int | None = None,
        given: Mapping[Any, Any] | None = None,
    ) -> RadiusExplanation:
        """Return what a radius means for the present reference, in the units of the contexts; print it.

        The radius of the present round by default. `window` is how many days of the past are compared with as many days
        before them, a fifth of all by default.
        """
        from drbo.analysis.explain_radius import explain_known

        terms = self._terms(self._known.state, reference, None, given)
        return explain_known(self._known, radius, terms, window)

    @alone
    def profile(
        self, radii: ArrayLike, *, reference: Any = None, given: Mapping[Any, Any] | None = None
    ) -> RadiusProfile:
        """Return what each radius (k,) costs and buys under the present posterior, without a further evaluation.

        One row per radius: what would be recommended, what is guaranteed and expected of it, what robustness costs and
        buys; with `to_frame()` and `plot()`.
        """
        from drbo.analysis.radius_profile import profile_known

        return profile_known(self._known, radii, self._terms(self._known.state, reference, None, given))

    @alone
    def backtest(self, radii: ArrayLike, window: int, *, past: Any = None, actions: Any = None) -> Backtest:
        """Return what each radius (k,) would have earned in the past under the present posterior.

        At every step the reference is the `window` contexts before it. The action is the one of the best worst-case
        lower bound, and earns the posterior mean in the context that came. The posterior has seen outcomes of later
        days: this compares radii, and is no forecast.

        `past` are contexts in the order of time, by default those that the optimizer knows. `actions` are those to
        choose from. By default all of a finite set; of a box 128 well-spread ones, those told, and what would be
        recommended for each radius. Where contexts have a range, the adversary is limited to the past and the atoms.
        """
        from drbo.analysis.backtest import backtest_known

        return backtest_known(self._known, radii, window, past, actions)

    @alone
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

    @alone
    def leave_one_out(self) -> LeaveOneOut:
        """Return every outcome beside what the model predicts for it from all the others."""
        return checks.leave_one_out(self._known, self._known.state)

    @alone
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

    @alone
    def watch(
        self,
        contexts: Any,
        *,
        radius: float | None = None,
        reference: Any = None,
        alpha: float = 0.05,
        given: Mapping[Any, Any] | None = None,
    ) -> Watch:
        """Return whether contexts that arrived, in the order of time, have left the present set: an alarm.

        False alarms are raised with probability at most `alpha` over all times together, so that it may be asked after
        every context. They are for the hypothesis that each context, given those before it, is drawn from some
        distribution of the set. `contexts` must not be part of the reference, so do not tell them before.
        """
        from drbo.analysis.watch import watch_known

        terms = self._terms(self._known.state, reference, None, given)
        return watch_known(self._known, contexts, radius, terms, alpha)

    def report(self, path: str | Path, title: str | None = None) -> Path:
        """Write one HTML page that shows what was learned and what is promised; return where it is.

        It needs no network. `title` is the file's name by default.
        """
        from drbo.report import write

        return write(self, path, title)

    @property
    def plot(self) -> Plots:
        """Matplotlib figures of the run: `opt.plot.progress()`, `opt.plot.dial()`, `opt.plot.worst_case()`."""
        from drbo.analysis.plots import Plots

        return Plots(self)

    @alone
    def to_frame(self) -> Any:
        """Return a pandas DataFrame of the results: one row per outcome, in the user's units, with its time (UTC)."""
        pandas = require("pandas", "frame")
        return pandas.DataFrame.from_records([tables.result_row(result, pandas) for result in self.results])

    # --- the user's side --------------------------------------------------------------------------------------------

    def _suggestion(self, iterate: Iterate) -> Suggestion:
        proposal, space = iterate.proposal, self._configuration.nature.space
        return Suggestion(
            number=proposal.number,
            action=self._configuration.search.space.decode(proposal.action),
            action_index=proposal.action.index,
            contexts=tuple(space.decode(context) for context in proposal.contexts),
            reference=self._known.reference_of(iterate).weights,
            radius=proposal.radius,
            score=proposal.score,
            action_point=proposal.action,
            context_points=proposal.contexts,
            fallback=proposal.fallback,
            loss=proposal.loss,
            given=iterate.given,
        )

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

    def _terms(self, state: State, reference: Any, radius: Any, given: Any) -> Terms:
        """Return what a query is for: what the caller gave, and otherwise what was given with the last ask."""
        last = state.terms
        return Terms(
            last.reference if reference is None else kept(reference),
            last.radius if radius is None else radius,
            last.given if given is None else self._known_values(given),
        )

    def _known_values(self, given: Any) -> Mapping[Any, Any] | None:
        """Return what a caller said to know of the context, as it is kept with the facts; None if nothing."""
        if given is None:
            return None
        values = validation.by_name(given)
        if not isinstance(values, Mapping):
            raise TypeError(f"given must map columns of the context to values, got {given!r}")
        return dict(self._configuration.nature.narrowed(values).known) if values else None

    def _encode_action(self, action: Any, name: str = "action") -> Point:
        return self._configuration.search.space.encode(name, action)


def _checked_chance(name: str, chance: Any) -> Chance:
    """Return a chance constraint; raise if it is none."""
    if not isinstance(chance, Chance):
        raise TypeError(f"{name} must be a drbo.Chance, such as Chance(0.9, above=2.0), got {chance!r}")
    return chance


def kept(reference: Any, name: str = "reference") -> Any:
    """Return a reference as it is kept with the facts: weights of any kind as an array that nobody can change."""
    named = validation.by_name(reference)
    if isinstance(named, Mapping):
        return dict(named)
    if reference is None or isinstance(reference, Samples | str):
        return reference  # what a setting of one's own makes of it is its own affair
    return validation.frozen(validation.finite_array(name, reference))
