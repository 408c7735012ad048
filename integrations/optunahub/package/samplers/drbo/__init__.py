"""Distributionally robust Bayesian optimization for Optuna: the sampler of the package drbo."""

from drbo.integrations.optuna import get_robust_params
from drbo.integrations.optuna import get_robust_trial
from drbo.integrations.optuna import observe
from drbo.integrations.optuna import RobustSampler


__all__ = ["RobustSampler", "get_robust_params", "get_robust_trial", "observe"]
