"""Ask, tell, recommend: the loop of algorithms 1 and 2, turned inside out.

An optimizer is its configuration and a history of facts (`drbo.knowledge.history`). Commands (`ask`, `tell`, `cancel`,
`retract`, `amend`) append one record each. Everything else is derived from the history and may be dropped at any
moment: the bookkeeping (`state.py`), the posteriors (`belief.py`), certificates. Queries never append, and never change
the next `ask`.

The class has five layers, one file each: what it shows of itself (`view.py`), what it answers (`answers.py`), what
other rooms make of it (`analyses.py`), how it is kept and copied (`stored.py`), and here its commands.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Self, overload

import numpy as np
from numpy.typing import ArrayLike

from drbo import validation
from drbo.ambiguity.family import AmbiguitySet
from drbo.knowledge import history, telling, trial_table
from drbo.knowledge.history import Amended, Asked, Cancelled, Proposal, Retracted, Told
from drbo.knowledge.knowledge import propose
from drbo.knowledge.production import Wishes
from drbo.knowledge.state import Iterate, State, Terms, kept
from drbo.knowledge.suggestion import Result, Suggestion
from drbo.models.bounds import TheoreticalBeta
from drbo.models.gp import GP
from drbo.models.learned import LearnedGP
from drbo.optimizer.stored import Stored
from drbo.optimizer.view import alone, computing
from drbo.rounds.policies import Policy
from drbo.rounds.radius_rules import RadiusRule
from drbo.rounds.settings import DataDriven, Setting, Simulator
from drbo.spaces.box import Box
from drbo.spaces.labels import FiniteGiven
from drbo.spaces.samples import Samples
from drbo.spaces.space import Point

_MOST_AT_ONCE = 10_000
"""So many suggestions, or contexts of one, may be asked for at once."""


class Optimizer(Stored):
    """Distributionally robust Bayesian optimization of an unknown f(x, c).

    Safe to use from several threads: one call at a time runs, and the others wait for it. `copy.deepcopy`, `pickle` and
    a fork give an independent optimizer with the same history.

    Parameters
    ----------
    actions : what we choose from: points (n_actions, d_x), labels such as `["a", "b"]`, or a `Box` of named parameters
    contexts : what nature chooses from: points (n_contexts, d_c); labels, `["young", "old"]` or with their weights or
        counts `{"young": 120, "old": 40}` (docs/contexts.md); `Samples` of past conditions; or a `Box` of named
        parameters, of which nothing has been seen yet; its well-spread points are the reference until something has; or
        a `Perturbation` of the action itself, where f is evaluated at x + xi
    ambiguity : the family of ambiguity sets, such as `MMD(kernel=RBF(0.2))` or `Wasserstein()`. Distances and
        lengthscales are in the units of the contexts. By default an MMD of RBF lengthscale 0.2 sqrt(d_c) of each
        column's range
    setting : `General()`, `DataDriven(...)` or `Simulator(...)`
    surrogate : the model of f: a `GP` with fixed hyper-parameters, or a `LearnedGP`, which is the default. Kernels are
        on the coordinates of a finite set as they are; on the unit cube for labels, boxes, samples and learned models
    beta : the width of the confidence bounds, a number or a `TheoreticalBeta`
    certificate_beta : the width of the bounds that a recommendation rests on. By default that of `beta`; for a
        surrogate that learns at least 3, with which fewer than 1 in 100 certificates were false (docs/evidence.md)
    maximize : False if outcomes are to be minimised
    policy : what to evaluate next; that of the setting by default
    seed : of the candidates of a search over a box; nothing is random for finite sets
    baseline : the action of today, which `ask(guarantee=...)` and `explore_budget` fall back to
    explore_budget : the most that suggestions may lose against the baseline, summed over rounds, in the units of the
        outcomes. A suggestion's loss is that of its expectation in the worst distribution of its round's set, as far
        as the bounds of `certificate_beta` leave it open. One suggestion may use a tenth of what is left. Where no
        other action fits into that, the baseline is suggested
    """

    def __init__(
        self,
        actions: FiniteGiven | Box,
        contexts: FiniteGiven | Mapping[Any, float] | Samples | Box,
        *,
        ambiguity: AmbiguitySet | None = None,
        setting: Setting,
        surrogate: GP | LearnedGP | None = None,
        beta: float | TheoreticalBeta = 2.0,
        certificate_beta: float | TheoreticalBeta | None = None,
        maximize: bool = True,
        policy: Policy | None = None,
        seed: int = 0,
        baseline: Any = None,
        explore_budget: float | None = None,
    ) -> None:
        super().__init__(
            actions=actions,
            contexts=contexts,
            ambiguity=ambiguity,
            setting=setting,
            surrogate=surrogate,
            beta=beta,
            certificate_beta=certificate_beta,
            maximize=maximize,
            policy=policy,
            seed=seed,
            baseline=baseline,
            explore_budget=explore_budget,
        )

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
        surrogate: GP | LearnedGP | None = None,
        beta: float | TheoreticalBeta = 2.0,
        certificate_beta: float | TheoreticalBeta | None = None,
        maximize: bool = True,
        policy: Policy | None = None,
        seed: int = 0,
        baseline: Any = None,
        explore_budget: float | None = None,
    ) -> Self:
        """Return an optimizer whose results are the rows of a log: `from_frame(...).recommend()` is a decision.

        `frame` is a table of any library with named columns, one trial per row. `actions` and `contexts` are the names
        of columns, or a `Box` that names them. Of names the ranges are those of the data: numbers from the least to the
        largest, whole numbers where the column holds integers, and the labels that occur. An action that never varied
        keeps its value, with a warning.

        The contexts of all rows are the reference, as `Samples`, the oldest first: rows are sorted by the column `time`
        (dates, or seconds since 1970) if there is one. The setting is `DataDriven(radius=radius)` by default, so either
        a radius (a number or a rule of `drbo.radius`) or a setting must be given.

        A row without an outcome is a failed trial, as is one where the column `failed` is True. `stderr` is a column of
        the outcomes' standard errors. All other arguments are those of `Optimizer`.
        """
        if (radius is None) == (setting is None):
            raise TypeError(
                "from_frame needs a radius, such as 0.1 or drbo.radius.Bootstrap(), or a setting in its place; not both"
            )
        table = trial_table.read(frame, actions, contexts, outcome, failed, stderr, time)
        opt = cls(
            table.actions,
            table.contexts,
            ambiguity=ambiguity,
            setting=DataDriven(radius=radius) if setting is None else setting,
            surrogate=surrogate,
            beta=beta,
            certificate_beta=certificate_beta,
            maximize=maximize,
            policy=policy,
            seed=seed,
            baseline=baseline,
            explore_budget=explore_budget,
        )
        own = opt._configuration
        for i, row in enumerate(table.rows):
            action = own.search.space.encode(f"row {i} of actions", row.action)
            where = (own.nature.encode(f"row {i} of contexts", row.context),)
            outcomes = () if row.outcome is None else telling.checked_outcomes(row.outcome, 1)
            stderrs = () if row.outcome is None else telling.checked_stderrs(row.stderr, 1)
            # The samples hold the context already, so it is not drawn once more.
            opt._facts.append(Told(row.time, None, action, where, outcomes, False, stderrs))
        return opt

    # --- commands: each appends one record --------------------------------------------------------------------------

    @overload
    def ask(
        self,
        n: None = None,
        *,
        reference: Any = None,
        radius: float | None = None,
        action: Any = None,
        guarantee: float | None = None,
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
        guarantee: float | None = None,
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
        guarantee: float | None = None,
        n_contexts: int = 1,
        given: Mapping[Any, Any] | None = None,
    ) -> Suggestion | list[Suggestion]:
        """Return the next evaluation. It stays pending, and counts for later asks, until it is told or cancelled.

        `ask(3)` returns a list of three evaluations, each chosen as if those before it were under way.

        General setting: `reference` and `radius` are those of this round, the reference as weights (n_contexts,) of a
        finite set, as a mapping from labels to weights, or as `Samples` of what the contexts of this round may be.
        Simulator: both may be given, in place of those that it was made with, for this round. Data-driven: neither.

        `action` is an action of your own choice, such as `recommend().action`; the context is picked as ever.

        `guarantee` is a floor for production: only actions are suggested whose worst-case expectation, under the set of
        this round, is at least so good (at most, where outcomes are minimised) as far as the bounds of
        `certificate_beta` hold. If there is none, it is the baseline, which may itself be below the floor. The floor is
        for an expectation and not for the outcome of one day. Bounds of a fixed width fail now and then: over many
        rounds some suggestions will be below it. A learned model that has seen one action only knows nothing of others:
        the baseline is suggested until there are five outcomes, of two actions or more. Tell those of a log at first.
        With a learned model an action may also leave the range of each parameter that has been tried by a quarter of it
        at most, or by 5% of the whole.

        `n_contexts`, where the optimizer picks the context: how many contexts the action is to be evaluated in, each
        picked as if those before it were told. They are `suggestion.contexts`.

        `given` is what is known of the context before the choice, by the names of its columns (by their positions in a
        finite set of points): `ask(given={"weekday": "Mon"})`. The reference is then the distribution of the contexts
        that agree, nature can choose no others, and a rule for the radius sees these alone. Labels and whole numbers
        can be known. `tell` is given the context as a whole, or the part of it that was not known.
        """
        if n is not None and (np.ndim(n) > 0 or isinstance(n, Samples)):
            raise TypeError("reference must be given by its name: ask(reference=..., radius=...)")
        count = 1 if n is None else validation.whole_number("n", n, least=1, most=_MOST_AT_ONCE)
        each = validation.whole_number("n_contexts", n_contexts, least=1, most=_MOST_AT_ONCE)
        state = self._known.state
        wishes = Wishes.of(self._configuration, action, guarantee)
        fit = self._known.fit(state, fresh=wishes.fresh)
        terms = Terms(kept(reference), radius, self._known_values(given))
        proposals: list[Proposal] = []
        iterates: list[Iterate] = []
        for _ in range(count):
            proposals.append(propose(self._known, terms, proposals, wishes, each))
            iterates.append(state.iterate(proposals[-1], terms))
        kept_radius = None if radius is None else float(radius)
        learned = None if fit is state.fit else fit
        suggestions = [self._suggestion(iterate) for iterate in iterates]
        record = Asked(history.now(), terms.reference, kept_radius, learned, tuple(proposals), given=terms.given)
        self._facts.append(record)
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
    ) -> None:
        """Take in the outcome of a suggestion, and the context that it was observed in where nature picked it.

        In place of a suggestion an action may be given, with its context, for results that were never asked for.
        One evaluation in several contexts is told with one outcome per context: in the order of `suggestion.contexts`
        where these were picked; else with `contexts=`, a sequence, an array (k, d) or a table with a row per context;
        or as a mapping from contexts, such as labels, to outcomes. It is one result. Its errors share a shock, the
        `noise_correlation` of the surrogate.
        `stderr`: the standard error of the outcome, or one per outcome, if it is known. It takes the place of the
        model's noise. Less than 1e-5 of the amplitude of f, 0 included, counts as that.
        `failed=True` in place of an outcome: the evaluation gave nothing, by accident. The model learns no value from
        it, will not ask for the same again, and recommends another action. Where actions themselves cannot work, tell a
        poor outcome instead: the model learns nothing from failures about what is near them.
        `drawn=False`: the contexts were evaluated, but nature did not draw them; a data-driven reference does not count
        them.
        `distribution`, in place of a context: the context was drawn from it and never revealed. It has the forms of
        `ask(reference=...)`; `distribution=s.reference` is the reference of the round in a finite set. The model takes
        the outcome as one of the average of f over the distribution (its kernel mean embedding), and its error as
        larger by what f varies in it. A data-driven reference does not count it. The surrogate must be a `GP`.
        """
        state = self._known.state
        if validation.flag("failed", failed) == (outcome is not None):
            raise TypeError("tell needs an outcome, or failed=True in its place, and not both")
        if failed and stderr is not None:
            raise TypeError("stderr must not be given with failed=True: there is no outcome")
        outcome, contexts, stderr = telling.by_context(outcome, contexts, stderr)
        number, iterate, by_nature = None, None, True
        if isinstance(suggestion, Suggestion):
            iterate = self._own(state, suggestion)
            number, action = suggestion.number, iterate.proposal.action
        else:
            action = self._encode_action(suggestion, "suggestion")
        nature = self._known.nature(None if iterate is None else iterate.given)
        weights: tuple[float, ...] = ()
        if distribution is not None:
            if failed:
                raise TypeError("distribution must not be given with failed=True: there is no outcome")
            if iterate is not None and iterate.proposal.contexts:
                raise TypeError("distribution must not be given: the context was picked with the suggestion")
            telling.refuse_beside_distribution(context, context_index, contexts)
            where, weights = telling.hidden_context(nature, self.surrogate, distribution)
        elif iterate is not None:
            where, by_nature = self._contexts_of(iterate, context, context_index, contexts, failed)
        else:
            where = telling.observed_contexts(nature, context, context_index, contexts)
        count = 1 if weights else len(where)
        outcomes = () if outcome is None else telling.checked_outcomes(outcome, count)
        stderrs = telling.checked_stderrs(stderr, count)
        self._warn_if_far(where)
        by_nature = validation.flag("drawn", drawn) and by_nature
        self._facts.append(Told(history.now(), number, action, where, outcomes, by_nature, stderrs, weights))

    @alone
    def cancel(self, suggestion: Suggestion) -> None:
        """Forget a pending suggestion that will not be evaluated."""
        iterate = self._own(self._known.state, suggestion)
        self._facts.append(Cancelled(history.now(), iterate.proposal.number))

    @alone
    def retract(self, result: Result | int) -> None:
        """Take back a result that was a mistake: one of `results`, or its `id`. It counts no more, as if never told.

        Outcomes that were told together have one `id`, and are taken back together. The suggestion that the result
        answered stays answered.
        """
        id_, _ = self._told(result)
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
    ) -> None:
        """Correct a result: one of `results`, or its `id`. What is not given stays as it was told.

        Of outcomes that were told together all are given anew, in the forms of `tell`. Their standard errors stay with
        their contexts. A context may be given where it was not revealed at first, and a `distribution` in place of a
        context.
        """
        (id_, old), nature = self._told(result), self._configuration.nature
        if all(one is None for one in (outcome, context, context_index, contexts, stderr, distribution)):
            raise TypeError("amend needs what is to be corrected: an outcome, a context, a context_index or a stderr")
        outcome, contexts, stderr = telling.by_context(outcome, contexts, stderr)
        where, weights = old.contexts, old.weights
        if distribution is not None:
            telling.refuse_beside_distribution(context, context_index, contexts)
            if outcome is None and len(old.outcomes) != 1:
                raise TypeError("distribution must not be given for a result that has no outcome, or several")
            where, weights = telling.hidden_context(nature, self.surrogate, distribution)
            self._warn_if_far(where)
        elif not (context is None and context_index is None and contexts is None):
            where, weights = telling.observed_contexts(nature, context, context_index, contexts), ()
            self._warn_if_far(where)
        count = 1 if weights else len(where)
        failed = outcome is None and old.failed
        given = old.outcomes if outcome is None else outcome
        outcomes = () if failed else telling.checked_outcomes(given, count)
        if failed and stderr is not None:
            raise TypeError("stderr must not be given for a result that failed: there is no outcome")
        if stderr is None and outcome is not None and not (old.hidden or weights):
            stderr = telling.kept_stderrs(old, where)
        elif stderr is None:
            stderr = old.stderrs or None
        stderrs = telling.checked_stderrs(stderr, count)
        self._facts.append(Amended(history.now(), id_, where, outcomes, stderrs, weights))

    # --- the user's side --------------------------------------------------------------------------------------------

    def _contexts_of(
        self, iterate: Iterate, context: Any, context_index: int | None, contexts: Any, failed: bool
    ) -> tuple[tuple[Point, ...], bool]:
        """Return the contexts in which a suggestion was evaluated, and whether nature drew them."""
        nature, picked = self._known.nature(iterate.given), iterate.proposal.contexts
        unknown = context is None and context_index is None
        if picked:
            if not unknown:
                raise TypeError("context must not be given: it was picked with the suggestion, see suggestion.context")
            # An evaluation may tell of more contexts than were picked.
            return picked if contexts is None else telling.observed_contexts(nature, None, None, contexts), False
        if failed and unknown and contexts is None and not nature.all_known:
            # Nobody knows in which context it failed: the likeliest one keeps it from being asked again.
            reference = self._known.reference_of(iterate)
            return (reference.atom(int(np.argmax(reference.weights))),), False
        if unknown and contexts is None and not nature.all_known and isinstance(self.setting, Simulator):
            raise TypeError(
                f"tell needs the observed context, either as context=c or as context_index=j: policy={self.policy!r} "
                "picks none. A policy with a rule picks it, such as contexts=drbo.Informative()"
            )
        return telling.observed_contexts(nature, context, context_index, contexts), True

    def _told(self, result: Result | int) -> tuple[int, Told]:
        """Return the id of a result and what was told."""
        id_ = result.id if isinstance(result, Result) else validation.whole_number("result", result, least=0)
        told = self._known.state.results.get(id_)
        if told is None:
            raise ValueError(f"result {id_} is none of this optimizer's, or has been retracted; see opt.results")
        return id_, told

    def _warn_if_far(self, contexts: Sequence[Point]) -> None:
        """Warn of contexts that are far outside of what the samples show; it may be a slip."""
        for context in contexts:
            far = self._configuration.nature.space.far_outside(context)
            if far is not None:
                warnings.warn(f"context {far}; if it is a mistake, see opt.amend", UserWarning, stacklevel=4)

    def _own(self, state: State, suggestion: Suggestion) -> Iterate:
        """Return the pending suggestion that `suggestion` is, or a copy of; raise if it is none of this optimizer."""
        if not isinstance(suggestion, Suggestion):
            raise TypeError(f"suggestion must be what ask returned, got {suggestion!r}")
        own = state.pending.get(suggestion.number)
        if own is None and 0 <= suggestion.number < state.n_asked:
            raise ValueError(f"suggestion {suggestion.number} has been told or cancelled already")
        if own is not None and own.proposal.action is suggestion.action_point:
            return own
        if own is None or not self._suggestion(own).same_as(suggestion):
            raise ValueError(f"suggestion {suggestion.number} is not one of this optimizer's")
        return own
