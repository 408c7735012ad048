"""A small problem for tests of studies: two parameters, two conditions, a cost."""

import math
from typing import Any

import numpy as np
import optuna

import drbo
from drbo.integrations.optuna import RobustSampler
from drbo.integrations.optuna.studies import sampler_of

RNG = np.random.default_rng(0)
HISTORY = {"outdoor": np.round(RNG.normal(5.0, 8.0, 30).clip(-20.0, 35.0), 1), "load": np.round(RNG.random(30), 2)}
ROWS = {tuple(row) for row in np.column_stack(list(HISTORY.values())).tolist()}
FIXED = drbo.GP(drbo.Product(drbo.RBF(0.4), drbo.RBF(0.5)), noise=0.1)


def cost(setpoint: float, gain: float, outdoor: float, load: float) -> float:
    return (setpoint - 20.5 - load) ** 2 + 0.4 * (math.log10(gain) + 1.5 - 0.04 * outdoor) ** 2


def objective(trial: optuna.Trial) -> float:
    setpoint = trial.suggest_float("setpoint", 18.0, 24.0)
    gain = trial.suggest_float("gain", 1e-3, 1.0, log=True)
    outdoor = trial.suggest_float("outdoor", -20.0, 35.0)
    load = trial.suggest_float("load", 0.0, 1.0)
    return cost(setpoint, gain, outdoor, load)


def make(**more: Any) -> RobustSampler:
    arguments = {"setting": drbo.Simulator(radius=0.1, pick="uncertain"), "surrogate": FIXED, **more}
    return RobustSampler(drbo.Samples(HISTORY, support=8), **arguments)


def study_of(sampler: Any, **more: Any) -> optuna.Study:
    return optuna.create_study(sampler=sampler, **{"direction": "minimize", **more})


def derived(study: optuna.Study) -> drbo.Optimizer:
    return sampler_of(study).optimizer(study)


def recommended(study: optuna.Study) -> drbo.analysis.Recommendation:
    return sampler_of(study).recommend(study)
