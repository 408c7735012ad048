"""Robust regret of a run on a known f, and the paper's bounds on it."""

from drbo.analysis.regret import (
    RobustRegret,
    data_driven_bound,
    general_bound,
    printed_data_driven_bound,
    robust_regret,
    shift_norm,
    simple_regret,
    simple_regret_bound,
    simulator_bound,
)

__all__ = [
    "RobustRegret",
    "data_driven_bound",
    "general_bound",
    "printed_data_driven_bound",
    "robust_regret",
    "shift_norm",
    "simple_regret",
    "simple_regret_bound",
    "simulator_bound",
]
