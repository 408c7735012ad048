"""Ask, tell, recommend: the loop of algorithms 1 and 2, turned inside out.

An optimizer is its configuration and a history of facts (`drbo.knowledge.history`). Commands (`ask`, `tell`, `cancel`,
`retract`, `amend`) append one record each; `append` adds one per row of a table. All other state is derived from the
history: the state (`state.py`), the posteriors (`belief.py`), bounds. Queries never append, and never change the next
`ask`. Queries under other terms than those of the last `ask`, and all further analyses, belong to a `Question`:
`opt.under(radius=0.2).compare(action)`.
"""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np
from numpy.typing import ArrayLike

from drbo import validation
from drbo._messages import printable, require
from drbo.ambiguity.family import AmbiguitySet
from drbo.analysis import checks
from drbo.analysis.answers import Recommendation
from drbo.analysis.checks import LeaveOneOut
from drbo.analysis.recommend import best_iterate, recommendation
from drbo.analysis.watch import Watch, watch
from drbo.knowledge import history, storage, telling, trial_table
from drbo.knowledge.configuration import LEAST_SUCCESS, Configuration
from drbo.knowledge.encoding import classes_in, handed_over
from drbo.knowledge.explanation import as_html
from drbo.knowledge.fact_json import facts_of, records_of, told_as
from drbo.knowledge.history import Asked, Cancelled, Fact, Proposal, Retracted
from drbo.knowledge.knowledge import Knowledge
from drbo.knowledge.production import Wishes
from drbo.knowledge.propose import propose, suggestion_of
from drbo.knowledge.snapshot import Snapshot
from drbo.knowledge.state import Iterate
from drbo.knowledge.suggestion import Prediction, Result, Suggestion, results_of
from drbo.knowledge.telling import Where
from drbo.models.bounds import TheoreticalBeta
from drbo.models.known import Known
from drbo.models.surrogate import Posterior, Surrogate
from drbo.optimizer.question import Guard, Question, alone, computing
from drbo.rounds.limits import AnyLimit
from drbo.rounds.policies import Policy
from drbo.rounds.radius_rules import RadiusRule
from drbo.rounds.settings import DataDriven, Setting
from drbo.spaces.box import Box
from drbo.spaces.finite import FiniteGiven
from drbo.spaces.samples import Samples

if TYPE_CHECKING:
    from drbo.report.plots import Plots

__all__ = ["Optimizer"]

_MOST_AT_ONCE = 10_000
"""Largest number of suggestions per ask, and of contexts per suggestion."""


class Optimizer:
    """Distributionally robust Bayesian optimization of an unknown f(x, c).

    Thread-safe: calls run one at a time. `copy.deepcopy`, `pickle` and a fork give an independent optimizer with the
    same history.

    Parameters
    ----------
    actions : points (n_actions, d_x), labels such as `["a", "b"]`, or a `Box` of named parameters
    contexts : points (n_contexts, d_c); labels, `["young", "old"]` or with their weights or counts
        `{"young": 120, "old": 40}` (docs/contexts.md); `Samples` of past conditions; a `Box` of named parameters, whose
        well-spread points are the reference until contexts have been seen; or a `Perturbation` xi of the action itself,
        so that f is evaluated at x + xi
    ambiguity : the family of ambiguity sets, such as `MMD(kernel=RBF(0.2))` or `Wasserstein()`. Distances and
        lengthscales are in the units of the contexts. The default is an MMD with an RBF lengthscale of 0.2 sqrt(d_c)
        of each column's range
    setting : `General()`, `DataDriven(...)` or `Simulator(...)`
    surrogate : the model of f: a `GP` with fixed hyper-parameters, or a `LearnedGP` (default). Kernels use the
        coordinates of a finite set, and the unit cube for labels, boxes, samples and learned models
    beta : the width of the confidence bounds of the search, a number or a `TheoreticalBeta`. The default is 2, and 0.5
        for a model that learns and actions of 15 or more coordinates
    bound_beta : the width of the confidence bounds of a recommendation. The default is `beta`, but at least 3 for
        a surrogate that learns, and at least 2 for limits: it is enlarged by the size of earlier prediction errors
        (docs/claims.md), and docs/evidence.md says how often bounds were false
    maximize : False to minimise outcomes
    policy : the choice of the next evaluation; the default is that of the setting
    seed : the seed of the candidates of a search over a box; nothing is random for finite sets
    baseline : the current action, which `ask(floor=...)` and `explore_budget` fall back to
    limits : limits of further outcomes by name, `{"peak": drbo.AtMost(68.0), "pressure": drbo.AtLeast(21.0,
        probability=0.95)}`. They hold in every distribution of the set, each under its own worst distribution
        (docs/limits.md). A limit with the name of the objective limits the objective itself
    outcome, unit : the name of the objective, "outcome" by default, and its unit, for texts and tables
    explore_budget : the largest total loss of suggestions against the baseline over all rounds, in the units of the
        outcomes. A suggestion's loss is bounded in expectation, in the worst distribution of its round's set, by the
        bounds of `bound_beta`. One suggestion may use a tenth of the remaining budget. The baseline is suggested
        if no other action fits
    least_success : once an evaluation has failed, actions of a smaller estimated probability of success are not
        recommended. If no evaluated action reaches it, those about as likely to succeed as the best one may be
        recommended
    known : a function of an action and a context that returns the known part of the outcome, in the user's units:
        outcome = known(action, context) + f(action, context), such as wages or a physical model. f alone is learned,
        and all bounds are of the sum. `drbo.Known` has more: `lipschitz=`, which contexts with a range need
    outcome_range : a range (low, high) in which every outcome must lie, known before the outcomes: `(0.0, None)` for a
        cost that cannot be negative. Bounds, means and expectations are cut at it, and `tell` refuses other outcomes.
        Do not read it off the outcomes: a bound that rests on it would then be wrong
    """

    def __init__(
        self,
        actions: FiniteGiven | Box,
        contexts: FiniteGiven | Mapping[Any, float] | Samples | Box,
        *,
        ambiguity: AmbiguitySet | None = None,
        setting: Setting,
        surrogate: Surrogate | None = None,
        beta: float | TheoreticalBeta | None = None,
        bound_beta: float | TheoreticalBeta | None = None,
        maximize: bool = True,
        policy: Policy | None = None,
        seed: int = 0,
        baseline: Any = None,
        explore_budget: float | None = None,
        limits: Mapping[str, AnyLimit] | None = None,
        outcome: str | None = None,
        unit: str | None = None,
        least_success: float = LEAST_SUCCESS,
        known: Known | Callable[[Any, Any], float] | None = None,
        outcome_range: tuple[float | None, float | None] | None = None,
    ) -> None:
        self._configuration = Configuration.of(
            actions=actions,
            contexts=contexts,
            ambiguity=ambiguity,
            setting=setting,
            surrogate=surrogate,
            beta=beta,
            bound_beta=bound_beta,
            maximize=maximize,
            policy=policy,
            seed=seed,
            baseline=baseline,
            explore_budget=explore_budget,
            limits=limits,
            outcome=outcome,
            unit=unit,
            least_success=least_success,
            known=known,
            outcome_range=outcome_range,
        )
        self._facts: list[Fact] = []
        self._file = storage.File()
        self._guard = Guard()
        self._start_anew()
        _alive.add(self)

    def _start_anew(self) -> None:
        """Drop all derived state; it is rebuilt from the facts on demand."""
        self._guard.renew()
        self._known = Knowledge(self._configuration, self._facts)
        self._question: tuple[int, Snapshot, Question] | None = None  # cache: number of facts, query
        self._iterate: tuple[int, Recommendation] | None = None  # cache: number of facts, eq. 10

    def __getstate__(self) -> dict[str, Any]:
        with self._guard.lock:
            return {"arguments": self._configuration.arguments, "facts": list(self._facts)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the first constructor has warned
            Optimizer.__init__(self, **state["arguments"])
        self._facts.extend(state["facts"])

    def __repr__(self) -> str:
        own, told, waiting = self._configuration, self.n_told, len(self.pending)
        return f"Optimizer(actions={own.actions!r}, setting={own.setting!r}: {told} told, {waiting} pending)"

    def _repr_html_(self) -> str:
        own = self._configuration
        cells = {
            "told": self.n_told,
            "failed": sum(result.failed for result in self.results),
            "pending": len(self.pending),
            own.objective.name: "maximised" if own.maximize else "minimised",
            **{name: str(limit) for name, limit in own.limits.items()},
            "actions": repr(own.actions),
            "contexts": repr(own.contexts),
            "setting": repr(own.setting),
        }
        return as_html("Optimizer", cells.items())

    # --- commands: each appends one record --------------------------------------------------------------------------

    @overload
    def ask(
        self,
        n: None = None,
        *,
        reference: Any = None,
        radius: float | None = None,
        action: Any = None,
        floor: float | None = None,
        safe: bool = False,
        n_contexts: int = 1,
        given: Any = None,
    ) -> Suggestion: ...

    @overload
    def ask(
        self,
        n: int,
        *,
        reference: Any = None,
        radius: float | None = None,
        action: Any = None,
        floor: float | None = None,
        safe: bool = False,
        n_contexts: int = 1,
        given: Any = None,
    ) -> list[Suggestion]: ...

    @computing
    def ask(
        self,
        n: int | None = None,
        *,
        reference: ArrayLike | Mapping[Any, float] | Samples | None = None,
        radius: float | None = None,
        action: Any = None,
        floor: float | None = None,
        safe: bool = False,
        n_contexts: int = 1,
        given: Mapping[Any, Any] | None = None,
    ) -> Suggestion | list[Suggestion]:
        """Return the next evaluation. It stays pending, and counts for later asks, until it is told or cancelled.

        `ask(3)` returns a list of three evaluations, each chosen as if those before it were pending.

        `reference` and `radius` are the terms of this round. The general setting takes both: the reference as weights
        (n_contexts,) of a finite set, as a mapping from labels to weights, or as `Samples` of this round's contexts.
        They may override those of a simulator. The data-driven setting takes neither.

        `action` is an action that you choose, such as `recommend().action`; the policy still picks the context.

        `floor` is a floor for production: the worst-case expectation of a suggestion, under the set of this round,
        must be at least this good (at most, if outcomes are minimised) by the bounds of `bound_beta`. If no
        action meets the floor, the baseline is suggested, which may itself be below the floor. The floor is for an
        expectation, not for the outcome of one day. Bounds of a fixed width sometimes fail, so over many rounds some
        suggestions will be below the floor. A learned model needs five outcomes of at least two actions; until then
        the baseline is suggested. So tell the results of a log first. With a learned model an action may also exceed
        the tried range of each parameter by at most a quarter of that range, or by 5% of the whole.

        Where the optimizer has limits, the action is the best of those whose limits may hold. If none may hold, it is
        the one that comes closest, and `suggestion.reason` is "limits". `safe=True`: only actions whose limits hold
        by their bounds, otherwise the baseline; the rules of `floor` apply.

        `n_contexts`: the number of contexts to evaluate the action in, if the optimizer picks them. Each is picked as
        if those before it were told. They are `suggestion.contexts`.

        `given` is the known part of the context, by column name (by position in a finite set of points):
        `ask(given={"weekday": "Mon"})`. The reference, the set and a radius rule then use only the contexts that agree
        with it. Labels and whole numbers can be given. `tell` takes the whole context, or the part that was not known.
        """
        if n is not None and (np.ndim(n) > 0 or isinstance(n, Samples)):
            raise TypeError("reference must be given by its name: ask(reference=..., radius=...)")
        count = 1 if n is None else validation.whole_number("n", n, least=1, most=_MOST_AT_ONCE)
        each = validation.whole_number("n_contexts", n_contexts, least=1, most=_MOST_AT_ONCE)
        if reference is not None and self._configuration.setting.computes_reference:
            raise TypeError(
                "reference must not be given: the data-driven setting computes it from the contexts seen. Queries take "
                "one: opt.recommend(reference=..., radius=...)"
            )
        state = self._known.state
        wishes = Wishes.of(self._configuration, action, floor, safe)
        fits, new = self._known.fits(state, fresh=wishes.fresh)
        terms = self._known.terms(reference, radius, given)
        bare = self._known.bare(state, terms)
        iterates: list[Iterate] = []
        proposals: list[Proposal] = []
        suggestions: list[Suggestion] = []
        for _ in range(count):
            iterates.append(propose(self._known, state, fits, terms, bare, iterates, wishes, each))
            proposals.append(iterates[-1].proposal)
            suggestions.append(suggestion_of(self._configuration, iterates[-1], bare))
        kept_radius = None if radius is None else float(radius)
        self._facts.append(Asked(history.now(), terms.reference, kept_radius, new, tuple(proposals), given=terms.given))
        return suggestions[0] if n is None else suggestions

    @alone
    def tell(
        self,
        suggestion: Suggestion | Any,
        outcome: ArrayLike | Mapping[Any, float] | None = None,
        *,
        context: Any = None,
        context_index: int | None = None,
        contexts: Any = None,
        stderr: ArrayLike | Mapping[Any, float] | None = None,
        failed: bool = False,
        drawn: bool = True,
        distribution: ArrayLike | Mapping[Any, float] | Samples | None = None,
        limits: Mapping[str, Any] | None = None,
    ) -> None:
        """Record the outcome of a suggestion, with its context if nature picked it.

        An action with its context may replace the suggestion, for results without an `ask`.
        `limits`: the values of limited outcomes by name, each in the form of `outcome`: `{"peak": 61.0}`. One that was
        not measured is omitted, or None; so may be the outcome. `drbo.Measured(61.0, stderr=0.5)` has a standard error.
        One evaluation in several contexts has one outcome per context: in the order of `suggestion.contexts` if the
        optimizer picked them; otherwise with `contexts=`, a sequence, an array (k, d) or a table with one row per
        context; or as a mapping from contexts, such as labels, to outcomes. It is one result. Its errors share a shock,
        the `noise_correlation` of the surrogate.
        `stderr`: the known standard error of the outcome, or one per outcome. It replaces the model's noise. The
        smallest value used is 1e-5 of the amplitude of f.
        `failed=True` instead of an outcome: the evaluation failed. The probability of success is learned from it: a
        region in which evaluations fail is avoided, and accidents, which happen anywhere, are repeated. No bound uses a
        failure. If a poor outcome was the reason, tell a poor outcome instead: otherwise every bound is too good.
        `drawn=False`: nature did not draw the contexts, so a data-driven reference does not count them.
        `distribution` instead of a context: the context was drawn from it and stays hidden. It has the forms of
        `ask(reference=...)`; `distribution=s.reference` is the reference of the round in a finite set. The model treats
        the outcome as one of the average of f over the distribution (its kernel mean embedding), with an error enlarged
        by the variation of f. A data-driven reference does not count it. The surrogate must have fixed
        hyper-parameters, such as a `GP`.
        """
        where = Where(context, context_index, contexts, distribution)
        self._facts.append(telling.told(self._known, suggestion, outcome, where, stderr, failed, drawn, limits))

    @alone
    def cancel(self, suggestion: Suggestion) -> None:
        """Drop a pending suggestion that will not be evaluated."""
        iterate = telling.pending_iterate(self._known, self._known.state, suggestion)
        self._facts.append(Cancelled(history.now(), iterate.proposal.number))

    @alone
    def retract(self, result: Result | int) -> None:
        """Remove a mistaken result: one of `results`, or its `id`.

        Outcomes told together share an `id`, and are removed together. The suggestion of the result does not become
        pending again.
        """
        id_, _ = telling.told_before(self._known.state, result)
        self._facts.append(Retracted(history.now(), id_))

    @alone
    def amend(
        self,
        result: Result | int,
        outcome: ArrayLike | Mapping[Any, float] | None = None,
        *,
        context: Any = None,
        context_index: int | None = None,
        contexts: Any = None,
        stderr: ArrayLike | Mapping[Any, float] | None = None,
        distribution: ArrayLike | Mapping[Any, float] | Samples | None = None,
        limits: Mapping[str, Any] | None = None,
    ) -> None:
        """Correct a result: one of `results`, or its `id`. Omitted arguments keep their values.

        Outcomes told together must all be given again, in the forms of `tell`. Their standard errors stay with their
        contexts. A hidden context may be given now, and a `distribution` may replace a context. `limits` replaces the
        values of the outcomes that it names; None removes them.
        """
        where = Where(context, context_index, contexts, distribution)
        self._facts.append(telling.amended(self._known, result, outcome, where, stderr, limits))

    # --- queries ----------------------------------------------------------------------------------------------------

    @alone
    def under(
        self,
        reference: ArrayLike | Mapping[Any, float] | Samples | None = None,
        radius: float | None = None,
        given: Mapping[Any, Any] | None = None,
    ) -> Question:
        """Return a `Question` on the present state, with all queries: `opt.under(radius=0.2).compare(x)`.

        The default of each argument is that of the last ask. `given` is the known part of the context, {} for none. Any
        radius is allowed in any setting. Later results do not change the answers.
        """
        eps = None if radius is None else validation.radius(radius)
        terms = self._known.terms(reference, None, given, self._known.state.terms)
        kept = self._question
        if kept is None or kept[0] != len(self._facts) or not kept[1].same_as(terms, eps):
            asked = Snapshot.of(self._known, terms, eps)
            kept = self._question = len(self._facts), asked, Question(asked, self._guard)
        return kept[2]

    @computing
    def recommend(
        self,
        reference: ArrayLike | Mapping[Any, float] | Samples | None = None,
        radius: float | None = None,
        *,
        given: Mapping[Any, Any] | None = None,
    ) -> Recommendation:
        """Return the action to deploy: `Question.recommend` for the set of the last ask, or for these arguments."""
        return self.under(reference, radius, given).recommend()

    @computing
    def bound(
        self,
        action: Any,
        reference: ArrayLike | Mapping[Any, float] | Samples | None = None,
        radius: float | None = None,
        *,
        given: Mapping[Any, Any] | None = None,
    ) -> Recommendation:
        """Return the worst-case bound of an action: as `recommend`, but for this action."""
        return self.under(reference, radius, given).bound(action)

    @computing
    def recommend_iterate(self) -> Recommendation:
        """Return the iterate whose worst-case lower confidence bound was largest when it was asked (eq. 10).

        The bound is recomputed from all outcomes, for the set of that iterate's round. In the general setting, the
        rounds have different sets; `recommend` uses one set. Eq. 10 has no limits, so an optimizer with limits refuses.
        """
        if self._configuration.limits:
            raise TypeError("recommend_iterate is eq. 10 of the paper, which has no limits: call recommend")
        if self._iterate is None or self._iterate[0] != len(self._facts):
            asked = Snapshot.of(self._known, self._known.state.terms)
            self._iterate = len(self._facts), recommendation(asked, best_iterate(asked))
        return self._iterate[1]

    @computing
    def predict(self, action: Any, context: Any, *, outcome: str | None = None, bounds: bool = True) -> Any:
        """Return mean, standard deviation and bounds of f(action, context), in the user's units.

        `outcome` is the name of the predicted outcome; the default is the objective. With `bounds=False`, the bounds
        are nan, and a learned model is several times faster: they are the outermost ones of several models.

        One action in one context gives a `Prediction` of numbers. Either may be a table: an array (m, d), a list of
        mappings, or a pandas frame with the parameters' columns. Tables are paired row by row; a single action or
        context is paired with every row of the other table. The result is then a `Prediction` of arrays (m,). A frame
        gives a frame with the same index and the columns mean, std, lower and upper.

        Model and bounds are those of a recommendation: hyper-parameters learned from every outcome, and the width of
        `bound_beta`.
        """
        own, bounds = self._configuration, validation.flag("bounds", bounds)
        given = (
            telling.rows("action", action, own.search.space, own.search.space.encode),
            telling.rows("context", context, own.nature.space, own.nature.anywhere),
        )
        x, c = telling.paired(*given)
        belief = self._known.belief(self._known.state, name=own.key(outcome), fresh=True)
        models = self._known.models(self._known.state, belief.name, belief.fit, belief.contexts) if bounds else ()
        predicted = belief.prediction(x, c, self._known.bound_width(self._known.state, belief), models)
        if not bounds:
            predicted = (*predicted[:2], *np.full((2, len(x)), np.nan))
        if all(part.single for part in given):
            return Prediction(*(float(column[0]) for column in predicted))
        index = next((part.index for part in given if part.index is not None), None)
        if index is None:
            return Prediction(*(validation.frozen(column) for column in predicted))
        columns = dict(zip(("mean", "std", "lower", "upper"), predicted, strict=True))
        return require("pandas", "frame").DataFrame(columns, index=index)

    @computing
    def watch(
        self,
        contexts: Any,
        *,
        radius: float | None = None,
        reference: Any = None,
        alpha: float = 0.05,
        given: Mapping[Any, Any] | None = None,
    ) -> Watch:
        """Return an alarm if contexts, in order of arrival, have left the present set.

        The probability of a false alarm is at most `alpha` over all times together, so the alarm may be checked after
        every context. The null hypothesis is that each context, given those before it, is drawn from some distribution
        of the set. `contexts` must not be part of the reference, so do not tell them before.
        """
        terms = self._known.terms(reference, None, given, self._known.state.terms)
        return watch(Snapshot.of(self._known, terms, radius), contexts, alpha)

    @computing
    def leave_one_out(self, outcome: str | None = None, *, most: int | None = None) -> LeaveOneOut:
        """Return every value of an outcome, by default of the objective, and its prediction from all the others.

        With too many outcomes for one exact posterior, `most` predicts a random sample of about so many, which takes
        less time.
        """
        key = self._configuration.key(outcome)
        count = None if most is None else validation.whole_number("most", most, least=1)
        return checks.leave_one_out(Snapshot.of(self._known, self._known.state.terms), key, count)

    # --- the state --------------------------------------------------------------------------------------------------

    @property
    def configuration(self) -> Configuration:
        """The checked arguments: `configuration.actions`, `.setting`, `.surrogate`, and so on."""
        return self._configuration

    @property
    @computing
    def posterior(self) -> Posterior:
        """The posterior given the outcomes so far, in the model's coordinates and units.

        It is on the present atoms of the contexts. Later outcomes do not change it.
        """
        state = self._known.state
        return self._known.belief(state, self._known.atoms(state)).certain

    @property
    @alone
    def n_told(self) -> int:
        """The number of results, failed ones included."""
        return len(self._known.state.told_so_far)

    @property
    @alone
    def pending(self) -> tuple[Suggestion, ...]:
        """The suggestions that have been neither told nor cancelled, the oldest first."""
        waiting = self._known.state.pending.values()
        return tuple(suggestion_of(self._configuration, one, self._known.reference_of(one)) for one in waiting)

    @property
    @alone
    def history(self) -> tuple[Fact, ...]:
        """The facts: one record per command, in order (`drbo.knowledge.history`)."""
        return tuple(self._facts)

    @property
    @alone
    def results(self) -> tuple[Result, ...]:
        """The results in order and in the user's units, one per outcome. Outcomes told together share an `id`."""
        spaces = self._configuration.search.space, self._configuration.nature.space
        told = self._known.state.results.items()
        return tuple(result for id_, record in told for result in results_of(id_, record, *spaces))

    @alone
    def to_frame(self) -> Any:
        """Return a pandas DataFrame of the results: one row per context, in the user's units, with its time (UTC).

        Outcomes have the columns of their names; one that is called "time" has the column "outcome.time".
        """
        pandas = require("pandas", "frame")
        own = self._configuration
        return pandas.DataFrame.from_records([telling.result_row(result, own, pandas) for result in self.results])

    def report(self, path: str | Path, title: str | None = None, against: Optimizer | None = None) -> Path:
        """Write one HTML page about the run and the recommended action; return its path.

        The page needs no network. The default of `title` is the file's name. `against` is another run, or an earlier
        moment of this one: the page then says what changed.
        """
        from drbo.report import write

        return write(self, path, title, against)

    @property
    def plot(self) -> Plots:
        """Matplotlib figures of the run: `opt.plot.progress()`, `opt.plot.dial()`, `opt.plot.worst_case()`."""
        from drbo.report.plots import Plots

        return Plots(self)

    # --- tables, files and copies -----------------------------------------------------------------------------------

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        actions: Sequence[str] | str | Box,
        contexts: Sequence[str] | str | Box,
        outcome: str,
        *,
        radius: RadiusRule | float | None = None,
        setting: Setting | None = None,
        failed: str | None = None,
        stderr: str | None = None,
        time: str | None = None,
        ambiguity: AmbiguitySet | None = None,
        surrogate: Surrogate | None = None,
        beta: float | TheoreticalBeta | None = None,
        bound_beta: float | TheoreticalBeta | None = None,
        maximize: bool = True,
        policy: Policy | None = None,
        seed: int = 0,
        baseline: Any = None,
        explore_budget: float | None = None,
        limits: Mapping[str, AnyLimit] | None = None,
        unit: str | None = None,
        least_success: float = LEAST_SUCCESS,
        known: Known | Callable[[Any, Any], float] | None = None,
        outcome_range: tuple[float | None, float | None] | None = None,
    ) -> Self:
        """Return an optimizer with the rows of a log as its results: `from_frame(...).recommend()` is a decision.

        `frame` is a table of any library with named columns, one trial per row. `actions` and `contexts` are column
        names, or a `Box` that has these names. The ranges of named columns come from the data: numbers from the
        smallest to the largest, whole numbers for integer columns, and the labels that occur. A constant action column
        keeps its value, with a warning.

        The contexts of all rows are the reference, as `Samples`, oldest first: rows are sorted by the column `time`
        (dates, or seconds since 1970) if there is one. The default setting is `DataDriven(radius=radius)`, so either a
        radius (a number or a rule of `drbo.radius`) or a setting must be given.

        `outcome` is the column of the objective, and its name. Each limit has the column of its name, and possibly the
        column "name.stderr". A row failed if it has no outcome at all, or if the column `failed` is True. `stderr` is a
        column of the objective's standard errors. All other arguments are those of `Optimizer`.
        """
        if (radius is None) == (setting is None):
            raise TypeError(
                "from_frame needs a radius, such as 0.1 or drbo.radius.Bootstrap(), or a setting, but not both"
            )
        limited = [name for name in limits if name != outcome] if isinstance(limits, Mapping) else []
        log = trial_table.read(frame, actions, contexts, outcome, failed, stderr, time, limited)
        opt = cls(
            log.actions,
            log.contexts,
            ambiguity=ambiguity,
            setting=DataDriven(radius=radius) if setting is None else setting,
            surrogate=surrogate,
            beta=beta,
            bound_beta=bound_beta,
            maximize=maximize,
            policy=policy,
            seed=seed,
            baseline=baseline,
            explore_budget=explore_budget,
            limits=limits,
            outcome=outcome,
            unit=unit,
            least_success=least_success,
            known=known,
            outcome_range=outcome_range,
        )
        # The samples already hold these contexts, so they must not count twice.
        opt._facts.extend(telling.told_rows(opt._configuration, log.rows, drawn=False))
        return opt

    @alone
    def append(
        self,
        frame: Any,
        outcome: str | None = None,
        *,
        failed: str | None = None,
        stderr: str | None = None,
        time: str | None = None,
        drawn: bool = True,
    ) -> None:
        """Add the rows of a further log: all of them, or none if one is wrong.

        Columns have the names of the parameters, as in `to_frame`, or "action" and "context" if these have no names.
        `outcome` is the column of the objective; the default is its name. Limited outcomes have the columns of their
        names, which may be absent.
        The column "key" names contexts that have keys.
        All values must lie within the optimizer's ranges. The other arguments are those of `from_frame`. Rows are
        sorted by `time` if it is given. `drawn=False`: nature did not draw the contexts, so a data-driven reference
        does not count them.
        """
        own, by_nature = self._configuration, validation.flag("drawn", drawn)
        names = own.search.space.names, own.nature.space.names
        limited = telling.columns_of(own)
        column = limited.pop(history.OBJECTIVE)
        columns = {"outcome": column if outcome is None else outcome, "failed": failed, "stderr": stderr, "time": time}
        keyed = getattr(own.contexts, "keys", None) is not None
        rows = trial_table.further(frame, *names, limited, keyed, **columns)
        self._facts.extend(telling.told_rows(own, rows, drawn=by_nature))

    @alone
    def save(self, path: str | Path) -> None:
        """Write configuration and facts to one file, at any time.

        Records are appended to a file that this optimizer wrote or loaded before. Raise, and leave the file as it is,
        if it holds anything unknown to this optimizer: results of another process are never lost.
        """
        self._file.save(validation.path("path", path), self._configuration.arguments, self._facts)

    @classmethod
    def load(cls, path: str | Path, classes: Sequence[Callable[..., Any]] = ()) -> Self:
        """Return a saved optimizer, which continues as the saved one would.

        `classes` are your own sets, kernels, settings and policies that the file names; no other code is run.
        """
        contents = storage.read(validation.path("path", path), handed_over(classes))
        with storage.told_as_damage(path):
            opt = cls(**contents.configuration)
            own = opt._configuration
            opt._facts.extend(contents.facts(own.search.space, own.nature.space))
            opt._known.check()
        opt._file = contents.file
        return opt

    @alone
    def resume(self, path: str | Path) -> None:
        """Continue from a file saved by an optimizer with the same arguments. Without a file, do nothing.

        One history must be a prefix of the other; a new optimizer takes over the whole file.
        """
        where, own = validation.path("path", path), self._configuration
        if not where.exists() or self._file.is_at(where):
            return
        contents = storage.read(where, tuple(classes_in(own.arguments)), like=own.arguments)
        with storage.told_as_damage(path):
            facts = list(contents.facts(own.search.space, own.nature.space))
            Knowledge(own, facts).state  # noqa: B018  # raises if the facts are wrong
        mine, theirs = records_of(self._facts), records_of(facts)
        common = min(len(mine), len(theirs))
        if mine[:common] != theirs[:common]:
            raise RuntimeError(
                f"{printable(path)} holds another history than this optimizer: resume with a new optimizer, or save "
                "under another name"
            )
        self._facts.extend(facts[common:])
        self._file = contents.file

    @alone
    def records(self, start: int = 0) -> list[dict[str, Any]]:
        """Return the facts from number `start` as JSON, one mapping each, for a store other than a file."""
        return records_of(self._facts[validation.whole_number("start", start, least=0) :])

    @alone
    def replay(self, records: Sequence[dict[str, Any]], *, keep: int = 0) -> None:
        """Replace the history by its first `keep` facts, followed by these records of `records`.

        A store with several writers, such as a database of trials, defines the order of the history. A record may give
        a point by its value: `{"value": {"setpoint": 21.0}}`.
        """
        kept = validation.whole_number("keep", keep, least=0)
        if kept > len(self._facts):
            raise ValueError(f"keep must be at most {len(self._facts)}, the number of facts, got {kept}")
        own = self._configuration
        validation.of_kind("records", records, Sequence, "a sequence of records, as `records` gives them")
        new = facts_of(records, own.search.space, own.nature.space, tuple(classes_in(own.arguments)))
        facts = [*self._facts[:kept], *new]
        known = Knowledge(own, facts)
        with told_as("records are inconsistent: "):
            known.check()
        if kept < len(self._facts):
            # In one step, so that Ctrl-C cannot separate the facts from the derived state.
            vars(self).update(_facts=facts, _file=storage.File(), _known=known, _question=None, _iterate=None)
        else:
            self._facts.extend(new)


_alive: weakref.WeakSet[Optimizer] = weakref.WeakSet()


def _after_fork() -> None:
    """Drop the derived state of a forked child's optimizers: another thread may have been changing it."""
    for opt in list(_alive):
        opt._start_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
