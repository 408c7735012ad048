"""The checked arguments of an optimizer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from drbo import validation
from drbo.ambiguity.family import AmbiguitySet
from drbo.ambiguity.mmd import MMD
from drbo.ambiguity.placed import PlacedSet
from drbo.contexts.nature import Contexts, FiniteContexts
from drbo.contexts.sampled_contexts import SPREAD, SampledContexts
from drbo.knowledge import claims
from drbo.knowledge.claims import Claim
from drbo.knowledge.history import OBJECTIVE, Told
from drbo.models.bounds import Beta, as_beta
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
from drbo.rounds.grid_search import GridSearch
from drbo.rounds.policies import Policy
from drbo.rounds.search import WholeSearch
from drbo.rounds.settings import Setting
from drbo.spaces.box import Box
from drbo.spaces.finite import FiniteSet, finite_set
from drbo.spaces.samples import CONTEXTS_UNCONSTRAINED, Samples
from drbo.spaces.space import Displacement, Point, Space
from drbo.validation import FloatArray

_COMBINATIONS = 1024
"""Largest number of combinations of a discrete box of contexts at which every combination is an atom."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """One modelled outcome.

    Attributes
    ----------
    surrogate : its model
    sign : 1 if it is maximised, -1 if it is minimised
    beta, bound_beta : the width rules of its confidence bounds: of the search, and of a recommendation
    first_fit : its hyper-parameters before any value is known
    known : the part of it that is known; None if nothing is
    """

    surrogate: Surrogate
    sign: float
    beta: Beta
    bound_beta: Beta
    first_fit: Fit
    known: KnownPart | None = None

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
    outcomes : the modelled outcomes by name; the objective has the empty name
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
    outcomes: Mapping[str, Outcome]

    @property
    def objective(self) -> Outcome:
        """The optimised outcome."""
        return self.outcomes[OBJECTIVE]

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
        known: Any,
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
        rule = as_beta(beta)
        bounding = rule.at_least(model.bound_width) if bound_beta is None else as_beta(bound_beta, "bound_beta")
        for one in (rule, bounding):
            claims.bound(model, one)  # raises if there is no such claim
        upward = validation.flag("maximize", maximize)
        sign = 1.0 if upward else -1.0
        grid = chosen_from.coordinates if isinstance(chosen_from, FiniteSet) else np.empty((0, chosen_from.dimension))
        inputs = Inputs(grid, nature.space.dimension, shift)
        part = None if known is None else _known(known, search.space, nature, shift)
        if part is not None:
            some = grid[:1] if len(grid) else search.candidates(grid, number).points[:1]
            part.pairs(some[: len(nature.seen([]).points)], nature.seen([]).points[:1])  # raises if it does not work
        objective = Outcome(model, sign, rule, bounding, model.first(inputs, sign), part)
        if policy is not None:
            setting.check_policy(policy)
        chosen = setting.policy if policy is None else policy
        if policy is None and model.learns and setting.checked:
            chosen = Checked(chosen)
        prior = objective.posterior(objective.first_fit, Data(inputs), nature.seen([]).points)
        require(prior, chosen.needs, f"the policy {chosen!r}", model)
        chosen.check(prior, nature)
        if nature.range is not None:
            require(prior, (SupportsCurve,), "contexts with a range", model)
        for one in (rule, bounding):
            if one.proven:
                require(prior, (SupportsInformationGain,), f"{one!r}", model)
        if explore_budget is not None:
            require(prior, (SupportsCovariance,), "explore_budget", model)
        today = None if baseline is None else frozen_copy(search.permitted("baseline", baseline))
        budget = _budget(explore_budget, today, nature)
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
        }
        if part is not None:
            arguments["known"] = part.given
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
            outcomes={OBJECTIVE: objective},
        )


def _as_given(chosen_from: FiniteSet | Samples | Box) -> Any:
    """Return the constructor argument for a space: the points of a finite set, otherwise the space itself."""
    return chosen_from.points if type(chosen_from) is FiniteSet else chosen_from


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
        family = _family(ambiguity, space)
        family.on(space.points, space.scales)  # raises early if the configuration is wrong
        return FiniteContexts(space), space, family
    listed = not samples.space.continuous.any()  # labels in the order of the samples
    if (samples.within is not None or listed) and getattr(ambiguity, "n_contexts", None) is not None:
        raise TypeError(
            f"ambiguity must not have contexts of its own where these have a range or are labels of a table, got "
            f"{ambiguity!r}: give drbo.Wasserstein() or drbo.MMD(kernel=...), or labels with their counts as contexts"
        )
    family = _family(ambiguity, samples.space)
    return SampledContexts(samples, family, seed), contexts, family


def _spread(box: Box) -> int:
    """Return the initial number of atoms of a box: all points of a small discrete box."""
    every = None if box.continuous.any() else box.discrete_parts(_COMBINATIONS)
    return SPREAD if every is None else max(len(every), 1)


def _family(ambiguity: AmbiguitySet | None, space: Space) -> AmbiguitySet:
    """Return the family of sets; the default is an MMD in units of each column's range."""
    return MMD() if ambiguity is None else ambiguity.with_columns(space.columns)
