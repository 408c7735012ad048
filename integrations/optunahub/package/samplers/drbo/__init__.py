"""Distributionally robust Bayesian optimization for Optuna: the sampler of the package drbo."""

from drbo.integrations.optuna import RobustSampler, get_robust_params, get_robust_trial, observe

__all__ = ["RobustSampler", "get_robust_params", "get_robust_trial", "observe"]
