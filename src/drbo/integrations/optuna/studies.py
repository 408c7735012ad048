"""Functions of a study that was run with a `RobustSampler`: what nature did, and what to deploy."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import optuna
from optuna.trial import FrozenTrial

from drbo import validation
from drbo.integrations.optuna.attributes import all_trials, check_study
from drbo.integrations.optuna.sampler import RobustSampler


def observe(trial: optuna.Trial, conditions: Mapping[str, Any]) -> None:
    """Tell the conditions that nature picked for a trial, by name; they become user attributes of the trial."""
    validation.of_kind("trial", trial, optuna.Trial, "a trial of Optuna that is under way")
    validation.of_kind("conditions", conditions, Mapping, "a mapping from names to values")
    sampler = sampler_of(trial.study)
    names = sampler.names
    if set(conditions) != set(names):
        raise ValueError(f"conditions must name {', '.join(names)}, got {', '.join(map(str, conditions)) or 'none'}")
    suggested = [name for name in names if name in trial.params]
    if suggested:
        raise ValueError(f"{', '.join(suggested)} was suggested for trial {trial.number}, and cannot be observed, too")
    sampler.contexts.encode("conditions", dict(conditions))
    for name in names:
        value = conditions[name]
        trial.set_user_attr(name, value.item() if isinstance(value, np.generic) else value)


def get_robust_params(study: optuna.Study) -> dict[str, Any]:
    """Return the parameters to deploy: those of `sampler.recommend(study)`. Conditions are not among them."""
    return dict(sampler_of(study).recommend(study).action)


def get_robust_trial(study: optuna.Study) -> FrozenTrial:
    """Return the completed trial whose action has the best certified worst case, whatever its own conditions were."""
    sampler = sampler_of(study)
    opt = sampler.optimizer(study)
    sign = 1.0 if opt.maximize else -1.0
    done = {result.number: result.action for result in opt.results if not result.failed}
    if not done:
        raise ValueError("no trial has completed with known conditions")
    values: dict[str, float] = {}
    for action in done.values():
        if repr(action) not in values:
            values[repr(action)] = sign * opt.certify(action).value
    best = max(done, key=lambda number: values[repr(done[number])])
    return copy.deepcopy(next(trial for trial in all_trials(study) if trial.number == best))


def sampler_of(study: optuna.Study) -> RobustSampler:
    """Return the sampler of a study, or one made of the configuration that the study holds."""
    check_study(study)
    own = study.sampler
    return own if isinstance(own, RobustSampler) else RobustSampler.from_study(study)
