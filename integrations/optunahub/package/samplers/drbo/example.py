"""Tune a heating controller for weather that may differ from that of the past."""

import numpy as np
import optuna
import optunahub

import drbo


def objective(trial: optuna.Trial) -> float:
    """Return the cost of a day."""
    setpoint = trial.suggest_float("setpoint", 18.0, 24.0)
    outdoor = trial.suggest_float("outdoor", -20.0, 35.0)  # a condition: the sampler picks it
    return (setpoint - 20.5 - 0.05 * outdoor) ** 2


if __name__ == "__main__":
    module = optunahub.load_module("samplers/drbo")
    days = np.random.default_rng(0).normal(5.0, 6.0, 100).clip(-20.0, 35.0)
    past = drbo.Samples({"outdoor": days})
    sampler = module.RobustSampler(past, setting=drbo.Simulator(radius=0.1))
    study = optuna.create_study(sampler=sampler)
    study.optimize(objective, n_trials=20)
    print(module.get_robust_params(study), sampler.recommend(study))
