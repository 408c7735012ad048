"""The checked arguments of an optimizer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from drbo import validation
from drbo._messages import listed, printable
from drbo.ambiguity.family import AmbiguitySet
from drbo.ambiguity.mmd import MMD
from drbo.ambiguity.placed import PlacedSet
from drbo.contexts.nature import Contexts, FiniteContexts
from drbo.contexts.sampled_contexts import SPREAD, contexts_of
from drbo.knowledge import claims
from drbo.knowledge.claims import Claim
from drbo.knowledge.history import OBJECTIVE, Readings, Told
from drbo.models.bounds import Beta, TheoreticalBeta, as_beta, default_beta
from drbo.models.data import Units
from drbo.models.known import KnownPart, as_known
from drbo.models.learned import LearnedGP
from drbo.models.surrogate import (
    Data,
    Fit,
    Inputs,
    Posterior,
    SupportsCovariance,
    SupportsCurve,
    SupportsInformationGain,
    SupportsPerturbations,
    Surrogate,
    check_surrogate,
    require,
    supports,
)
from drbo.models.with_known import WithKnown
from drbo.rounds.ball import frozen_copy
from drbo.rounds.box_search import BoxSearch
from drbo.rounds.checked import Checked
from drbo.rounds.context_rules import Beliefs
from drbo.rounds.floors import Limit
from drbo.rounds.grid_search import GridSearch
from drbo.rounds.limits import AnyLimit, check_unit, in_unit
from drbo.rounds.policies import Policy
from drbo.rounds.search import WholeSearch
from drbo.rounds.settings import Setting
from drbo.spaces.box import Box
from drbo.spaces.finite import FiniteSet, finite_set
from drbo.spaces.samples import CONTEXTS_UNCONSTRAINED, Samples
from drbo.spaces.space import Column, Displacement, Point, Space
from drbo.validation import FloatArray

UNNAMED = "outcome"
"""The name of an objective without a name."""
LEAST_SUCCESS = 0.5
"""The least estimated probability of success of a recommended action, by default."""
_LIMIT_WIDTH = 2.0
"""The least default width of the bounds of a limit, for a model that learns, chosen by measured false feasibility
(docs/evidence_limits.md)."""
_COMBINATIONS = 1024
"""Largest number of combinations of a discrete box of contexts at which every combination is an atom."""


@dataclass(frozen=True, eq=False)
class ModelledOutcome:
    """One modelled outcome.

    Attributes
    ----------
    surrogate : its model
    sign : 1 if it is maximised, -1 if it is minimised
    beta, bound_beta : the width rules of its confidence bounds: of the search, and of a recommendation
    first_fit : its hyper-parameters before any value is known
    name, unit : its name, and its unit or None, in texts
    known : the part of it that is known; None if nothing is
    range : the declared range of its values, in the user's units
    """

    surrogate: Surrogate
    sign: float
    beta: Beta
    bound_beta: Beta
    first_fit: Fit
    name: str = UNNAMED
    unit: str | None = None
    known: KnownPart | None = None
    range: tuple[float, float] = (-math.inf, math.inf)

    def units(self, fit: Fit) -> Units:
        """Return the units of the outcome under a fit, with its declared range."""
        return replace(fit.units(self.sign), least=self.range[0], most=self.range[1])

    def posterior(self, fit: Fit, data: Data, contexts: FloatArray, last: Posterior | None = None) -> Posterior:
        """Return the posterior of the outcome, its known part included, on contexts (n, d) (`Surrogate.posterior`)."""
        if self.known is None:
            return self.surrogate.posterior(fit, data, contexts, last)
        before = last.of_f if isinstance(last, WithKnown) else None
        of_f = self.surrogate.posterior(fit, data, contexts, before)
        factor = self.sign * fit.units(self.sign).length_inward(1.0)
        return WithKnown.of(of_f, self.known, factor, data.inputs.actions)

    def unknown(self, name: str, record: Told) -> Told:
        """Return a result without the known part of this outcome, called `name`: what the model learns from."""
        if self.known is None or name not in record.outcomes:
            return record
        contexts = np.array([context.coordinates for context in record.contexts])
        actions = np.repeat(record.action.coordinates[None], len(contexts), axis=0)
        known, found = self.known.pairs(actions, contexts).tolist(), record.outcomes[name]
        left = tuple(value - part for value, part in zip(found.values, known, strict=True))
        return replace(record, outcomes={**record.outcomes, name: replace(found, values=left)})

    @property
    def widths(self) -> tuple[Beta, Beta]:
        """The width rules of all confidence bounds."""
        return self.beta, self.bound_beta

    @property
    def claim(self) -> Claim:
        """The claim of its bounds."""
        return claims.bound(self.surrogate, self.bound_beta)

    def text(self, value: float) -> str:
        """Return a value with the unit, as text."""
        return in_unit(value, self.unit)


@dataclass(frozen=True, eq=False)
class Configuration:
    """The configuration of an optimizer.

    Attributes
    ----------
    arguments : the constructor's arguments by name, ready to be saved
    actions, contexts : the given spaces: a finite set, samples or a box
    inputs : the inputs of f
    search : the search over the actions
    nature : the contexts, and the way from them to references
    ambiguity : the family of ambiguity sets
    setting, surrogate, policy, beta, bound_beta, maximize, seed : as for `Optimizer`
    baseline : the current action, None if there is none
    explore_budget : the largest total loss against the baseline over all rounds; infinite if there is no limit
    least_success : the least estimated probability of success of a recommended action
    outcomes : the modelled outcomes by name; the objective has the empty name
    limits : the limits by name; a limit that has the name of the objective limits the objective
    """

    arguments: dict[str, Any]
    actions: FiniteSet | Box
    contexts: FiniteSet | Samples | Box
    inputs: Inputs
    search: WholeSearch
    nature: Contexts
    ambiguity: AmbiguitySet
    setting: Setting
    surrogate: Surrogate
    policy: Policy
    beta: Beta
    bound_beta: Beta
    maximize: bool
    seed: int
    baseline: Point | None
    explore_budget: float
    least_success: float
    outcomes: Mapping[str, ModelledOutcome]
    limits: Mapping[str, AnyLimit] = field(default_factory=dict)

    @property
    def objective(self) -> ModelledOutcome:
        """The optimised outcome."""
        return self.outcomes[OBJECTIVE]

    @property
    def measured(self) -> tuple[str, ...]:
        """The names of the outcomes beside the objective, in the order of the limits."""
        return tuple(name for name in self.outcomes if name != OBJECTIVE)

    @property
    def delta(self) -> float | None:
        """The probability that any proven bound fails; None if that of the objective is not proven."""
        if not self.bound_beta.proven:
            return None
        shares = [one.bound_beta.delta for one in self.outcomes.values() if one.bound_beta.delta is not None]
        return shares[0] if len(shares) == 1 else math.fsum(shares)

    def key(self, name: str | None) -> str:
        """Return the name of an outcome in facts; the empty one for the objective, the default."""
        if name is None:
            return OBJECTIVE
        if isinstance(name, str) and name == self.objective.name:
            return OBJECTIVE
        if isinstance(name, str) and name in self.measured:
            return name
        known = listed([self.objective.name, *self.measured])
        raise ValueError(f"outcome must be one of {known}, got {printable(repr(name))}")

    def check_range(self, outcomes: Mapping[str, Readings], where: str = "") -> None:
        """Raise if a value of the objective is outside the declared range; `where` is the start of the error."""
        (low, high), found = self.objective.range, outcomes.get(OBJECTIVE)
        for value in () if found is None else found.values:
            if not low <= value <= high:
                allowed = range_in_words((low, high))
                raise ValueError(
                    f"{where}outcome must lie in the outcome_range, {allowed}, got {value:g}: correct the outcome, or "
                    "make an optimizer without the range"
                )

    def in_round(self, beliefs: Callable[[str], Beliefs]) -> tuple[Limit, ...]:
        """Return the limits of a round, given the beliefs of an outcome by its name in facts."""
        return tuple(
            limit.in_round(name, beliefs(key), proven=self.outcomes[key].bound_beta.proven)
            for name, limit in self.limits.items()
            for key in (self.key(name),)
        )

    @property
    def placed(self) -> PlacedSet:
        """The ambiguity set on the given contexts."""
        space = self.nature.space
        return self.ambiguity.on(space.measured(self.nature.seen([]).points), space.scales)

    @classmethod
    def of(
        cls,
        actions: Any,
        contexts: Any,
        ambiguity: Any,
        setting: Any,
        surrogate: Any,
        beta: Any,
        bound_beta: Any,
        maximize: Any,
        policy: Any,
        seed: Any,
        baseline: Any,
        explore_budget: Any,
        limits: Any,
        outcome: Any,
        unit: Any,
        least_success: Any,
        known: Any,
        outcome_range: Any,
    ) -> Self:
        """Return the configuration of these arguments; an error names the wrong argument."""
        model = check_surrogate(LearnedGP() if surrogate is None else surrogate)
        if not isinstance(setting, Setting):
            raise TypeError(f"setting must be General(), DataDriven(...) or Simulator(...), got {setting!r}")
        if not (policy is None or isinstance(policy, Policy)):
            raise TypeError(f"policy must be a Policy such as drbo.Optimism(), or None, got {policy!r}")
        if not (ambiguity is None or isinstance(ambiguity, AmbiguitySet)):
            raise TypeError(f"ambiguity must be an AmbiguitySet such as drbo.MMD(kernel=...), got {ambiguity!r}")
        number = validation.whole_number("seed", seed, least=0)
        chosen_from = _chosen_from(actions, model)
        shift = contexts.shift(chosen_from) if isinstance(contexts, Samples) else None
        model = model if shift is None else _of_actions(model)
        search = BoxSearch(chosen_from) if isinstance(chosen_from, Box) else GridSearch(chosen_from)
        nature, drawn_from, family = _nature(contexts, ambiguity, model, number)
        setting.check(nature)
        setting.check_radius(nature, family)
        rule = default_beta(model.learns, chosen_from.dimension) if beta is None else as_beta(beta)
        bounding = rule.at_least(model.bound_width) if bound_beta is None else as_beta(bound_beta, "bound_beta")
        of_limits = rule.at_least(_limit_width(model)) if bound_beta is None else bounding
        for one in (rule, bounding):
            claims.bound(model, one)  # raises if there is no such claim
        upward = validation.flag("maximize", maximize)
        sign = 1.0 if upward else -1.0
        grid = chosen_from.coordinates if isinstance(chosen_from, FiniteSet) else np.empty((0, chosen_from.dimension))
        inputs = Inputs(grid, nature.space.dimension, shift)
        named = _name("outcome", outcome)
        check_unit(unit)
        declared = _range(outcome_range)
        limited = _limits(limits, named, sign, declared)
        part = None if known is None else _known(known, search.space, nature, shift)
        if part is not None:
            some = grid[:1] if len(grid) else search.candidates(grid, number).points[:1]
            part.pairs(some[: len(nature.seen([]).points)], nature.seen([]).points[:1])  # raises if it does not work
        outcomes = {
            OBJECTIVE: ModelledOutcome(
                model, sign, rule, bounding, model.first(inputs, sign), named, unit, part, declared
            ),
            **{
                name: _limited(name, one, model, (rule, of_limits), inputs)
                for name, one in limited.items()
                if name != named
            },
        }
        outcomes = {name: _sharing(one, len(outcomes)) for name, one in outcomes.items()}
        objective = outcomes[OBJECTIVE]
        if policy is not None:
            setting.check_policy(policy)
        chosen = setting.policy if policy is None else policy
        if policy is None and model.learns and setting.checked:
            chosen = Checked(chosen)
        prior = objective.posterior(objective.first_fit, Data(inputs), nature.seen([]).points)
        require(prior, chosen.needs, f"the policy {chosen!r}", model)
        chosen.check(prior, nature)
        for name, each in outcomes.items():
            _check_outcome(each, prior if name == OBJECTIVE else None, inputs, nature)
            if name != OBJECTIVE:
                _check_coordinates(name, each.surrogate, chosen_from, drawn_from)
        if any(one.probability is not None for one in limited.values()):
            _check_every_context(nature)
        if explore_budget is not None:
            require(prior, (SupportsCovariance,), "explore_budget", model)
        today = None if baseline is None else frozen_copy(search.permitted("baseline", baseline))
        budget = _budget(explore_budget, today, nature)
        least = validation.finite_float("least_success", least_success)
        if not 0.0 <= least <= 1.0:
            raise ValueError(f"least_success must be a probability from 0 to 1, got {least}")
        arguments = {
            "actions": _as_given(chosen_from),
            "contexts": _as_given(drawn_from),
            "ambiguity": ambiguity,
            "setting": setting,
            "surrogate": model,
            "beta": rule,
            "bound_beta": None if bound_beta is None else bounding,
            "maximize": upward,
            "policy": policy,
            "seed": number,
            "baseline": None if today is None else search.space.decode(today),
            "explore_budget": None if explore_budget is None else budget,
            **({"limits": limited} if limited else {}),
            **({} if outcome is None else {"outcome": named}),
            **({} if unit is None else {"unit": unit}),
        }
        if least != LEAST_SUCCESS:  # files without it have the default
            arguments["least_success"] = least
        if part is not None:
            arguments["known"] = part.given
        if outcome_range is not None:
            arguments["outcome_range"] = tuple(None if math.isinf(end) else end for end in declared)
        return cls(
            arguments=arguments,
            actions=chosen_from,
            contexts=drawn_from,
            inputs=inputs,
            search=search,
            nature=nature,
            ambiguity=family,
            setting=setting,
            surrogate=model,
            policy=chosen,
            beta=rule,
            bound_beta=bounding,
            maximize=upward,
            seed=number,
            baseline=today,
            explore_budget=budget,
            least_success=least,
            outcomes=outcomes,
            limits=limited,
        )


def _name(argument: str, name: Any) -> str:
    """Return the name of an outcome."""
    if name is None:
        return UNNAMED
    if not isinstance(name, str) or not name:
        raise TypeError(f'{argument} must be the name of the outcome, such as "cost", got {name!r}')
    return name


def _range(given: Any) -> tuple[float, float]:
    """Return the declared range of outcomes; an end of None is infinite."""
    if given is None:
        return -math.inf, math.inf
    if not isinstance(given, tuple | list) or len(given) != 2 or all(end is None for end in given):
        raise TypeError(
            "outcome_range must be a pair (low, high) of numbers, None for an end that is not known, such as (0.0, "
            f"None), got {given!r}"
        )
    low, high = (
        infinite if end is None else validation.finite_float(f"outcome_range[{i}]", end)
        for i, (end, infinite) in enumerate(zip(given, (-math.inf, math.inf), strict=True))
    )
    if not low < high:
        raise ValueError(f"outcome_range must have a low end below its high end, got {given!r}")
    return low, high


def range_in_words(ends: tuple[float, float]) -> str:
    """Return a range with at least one finite end as text."""
    low, high = ends
    if math.isinf(high):
        return f"at least {low:g}"
    return f"at most {high:g}" if math.isinf(low) else f"from {low:g} to {high:g}"


def _limits(limits: Any, objective: str, sign: float, declared: tuple[float, float]) -> dict[str, AnyLimit]:
    """Return the limits by name; raise if they are wrong."""
    if limits is None:
        return {}
    if not isinstance(limits, Mapping) or not limits:
        raise TypeError(f'limits must map names to limits, such as {{"peak": drbo.AtMost(68.0)}}, got {limits!r}')
    for name, limit in limits.items():
        shown = printable(repr(name))
        if not isinstance(name, str) or not name:
            raise TypeError(f"limits must map names of outcomes to limits, got {shown} as a name")
        if not isinstance(limit, AnyLimit):
            raise TypeError(f"limits[{shown}] must be a drbo.AtMost or a drbo.AtLeast, got {limit!r}")
    own = limits.get(objective)
    if own is not None and own.sign != sign:
        fits = "AtLeast for an outcome to maximise" if sign > 0.0 else "AtMost for an outcome to minimise"
        raise TypeError(
            f"limits[{printable(repr(objective))}] limits the objective itself, so it must be a drbo.{fits}, got {own}"
        )
    if own is not None and not declared[0] <= own.threshold <= declared[1]:
        raise ValueError(
            f"limits[{printable(repr(objective))}] must lie in the outcome_range, {range_in_words(declared)}, got {own}"
        )
    if own is not None and not (own.surrogate is None and own.beta is None):
        raise TypeError(
            f"limits[{printable(repr(objective))}] limits the objective itself, whose surrogate and beta are those of "
            "the optimizer"
        )
    return dict(limits)


def _limit_width(model: Surrogate) -> float:
    """Return the least default width of the bounds of a limit."""
    return min(model.bound_width, _LIMIT_WIDTH)


def _limited(name: str, limit: AnyLimit, model: Surrogate, rules: tuple[Beta, Beta], inputs: Inputs) -> ModelledOutcome:
    """Return the outcome of a limit; model and widths are those of the objective unless the limit has its own."""
    own = model
    if limit.surrogate is not None:
        own = limit.surrogate if inputs.shift is None else _of_actions(limit.surrogate)
    rule, bounding = rules if limit.beta is None else (limit.beta, limit.beta.at_least(_limit_width(own)))
    for one in (rule, bounding):
        try:
            claims.bound(own, one)
        except TypeError as error:
            raise TypeError(f"limits[{printable(repr(name))}]: {error}") from None
    return ModelledOutcome(own, limit.sign, rule, bounding, own.first(inputs, limit.sign), name, limit.unit)


def _sharing(outcome: ModelledOutcome, count: int) -> ModelledOutcome:
    """Return an outcome with its share of delta, so that the guarantees of `count` outcomes hold jointly."""
    if count == 1:
        return outcome
    beta, bounding = (
        replace(one, delta=one.delta / count) if isinstance(one, TheoreticalBeta) else one for one in outcome.widths
    )
    return replace(outcome, beta=beta, bound_beta=bounding)


def _check_outcome(outcome: ModelledOutcome, prior: Posterior | None, inputs: Inputs, nature: Contexts) -> None:
    """Raise if the model of an outcome lacks a capability that contexts or widths need."""
    model = outcome.surrogate
    if prior is None:
        prior = model.posterior(outcome.first_fit, Data(inputs), nature.seen([]).points)
    if nature.range is not None:
        require(prior, (SupportsCurve,), "contexts with a range", model)
    for one in outcome.widths:
        if one.proven:
            require(prior, (SupportsInformationGain,), f"{one!r}", model)


def _check_coordinates(name: str, model: Surrogate, *spaces: FiniteSet | Samples | Box) -> None:
    """Raise if the model of a limit needs other coordinates of a finite set than the model of the objective."""
    for made in spaces:
        if type(made) is FiniteSet:
            own = model.adapted(finite_set("points", made.points))
            if not np.array_equal(own.coordinates, made.coordinates):
                raise TypeError(
                    f"limits[{printable(repr(name))}].surrogate must use the coordinates of the objective's: give both "
                    "a GP with fixed hyper-parameters, or both a model that learns"
                )


def _as_given(chosen_from: FiniteSet | Samples | Box) -> Any:
    """Return the constructor argument for a space: the points of a set without names, otherwise the space itself."""
    return chosen_from.points if type(chosen_from) is FiniteSet and not chosen_from.names else chosen_from


def _of_actions(model: Surrogate) -> Surrogate:
    """Return the model for an f of the perturbed action alone."""
    if not supports(model, SupportsPerturbations):
        raise TypeError(
            f"contexts as a Perturbation need a surrogate with the capability SupportsPerturbations, which "
            f"{model!r} lacks"
        )
    return model.of_actions()


def _chosen_from(actions: Any, model: Surrogate) -> FiniteSet | Box:
    """Return the actions."""
    if isinstance(actions, Box):
        return actions
    space = model.adapted(finite_set("actions", actions))
    if space.weights is not None:
        raise TypeError("actions must be points, or labels without weights or counts: the optimizer chooses among them")
    return space


def _known(known: Any, actions: Space, nature: Contexts, shift: Displacement | None) -> KnownPart:
    """Return the known part of the objective; raise if it does not suit the contexts."""
    part = KnownPart(as_known(known), actions, nature.space)
    if shift is not None:
        raise TypeError("known must not be given with contexts as a Perturbation, where f has no context of its own")
    if nature.range is not None or part.given.lipschitz is not None:
        part.steepness()  # raises if there is none, or a column is missing
    return part


def _check_every_context(nature: Contexts) -> None:
    """Raise if limits with a probability do not see every context: an indicator has no bound between atoms."""
    if nature.range is not None:
        raise TypeError(
            "limits must not have a probability where contexts have a range: give a finite set of contexts, or Samples "
            "without within="
        )
    if len(represented := nature.seen([]).represented):
        raise TypeError(
            f"limits must not have a probability where samples are compressed: give Samples(..., "
            f"atoms={len(represented)}), or fewer samples"
        )


def _budget(explore_budget: Any, baseline: Point | None, nature: Contexts) -> float:
    """Return the largest total loss of exploration against the baseline; infinite if there is no limit."""
    if explore_budget is None:
        return math.inf
    if baseline is None:
        raise TypeError("explore_budget needs a baseline: the current action, which losses are measured against")
    if nature.range is not None:
        raise TypeError(
            "explore_budget must not be given where contexts have a range: the loss against the baseline is bounded on "
            "atoms alone. Give a finite set of contexts, or Samples without within="
        )
    budget = validation.finite_float("explore_budget", explore_budget)
    if budget < 0.0:
        raise ValueError(f"explore_budget must be zero or more, got {budget}")
    return budget


def _nature(
    contexts: Any, ambiguity: Any, model: Surrogate, seed: int
) -> tuple[Contexts, FiniteSet | Samples | Box, AmbiguitySet]:
    """Return the nature of the contexts, their space, and the family of sets."""
    if isinstance(contexts, Box) and contexts.constraints:
        raise TypeError(f"{CONTEXTS_UNCONSTRAINED}, got {contexts!r}")
    samples = Samples([], within=contexts, support=_spread(contexts)) if isinstance(contexts, Box) else contexts
    if not isinstance(samples, Samples):
        space = model.adapted(finite_set("contexts", contexts))
        family = _family(ambiguity, space.columns)
        family.on(space.points, space.scales)  # raises early if the configuration is wrong
        return FiniteContexts(space), space, family
    listed = not samples.space.continuous.any()  # labels in the order of the samples
    if (samples.within is not None or listed) and getattr(ambiguity, "n_contexts", None) is not None:
        raise TypeError(
            f"ambiguity must not have contexts of its own where these have a range or are labels of a table, got "
            f"{ambiguity!r}: give drbo.Wasserstein() or drbo.MMD(kernel=...), or labels with their counts as contexts"
        )
    family = _family(ambiguity, samples.columns)
    return contexts_of(samples, family, seed), contexts, family


def _spread(box: Box) -> int:
    """Return the initial number of atoms of a box: all points of a small discrete box."""
    every = None if box.continuous.any() else box.discrete_parts(_COMBINATIONS)
    return SPREAD if every is None else max(len(every), 1)


def _family(ambiguity: AmbiguitySet | None, columns: Sequence[Column]) -> AmbiguitySet:
    """Return the family of sets; the default is an MMD in units of each column's range."""
    return MMD() if ambiguity is None else ambiguity.with_columns(columns)
