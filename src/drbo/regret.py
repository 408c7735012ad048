"""Robust regret of a run on a known f, and the paper's bounds on it."""

from drbo.analysis.robust_regret import (
    RobustRegret,
    crude_shift_norm,
    data_driven_bound,
    general_bound,
    matern_information_rate,
    printed_data_driven_bound,
    printed_general_bound,
    rbf_information_rate,
    robust_regret,
    shift_norm,
    simple_regret,
    simple_regret_bound,
    simulator_bound,
)

__all__ = [
    "RobustRegret",
    "crude_shift_norm",
    "data_driven_bound",
    "general_bound",
    "matern_information_rate",
    "printed_data_driven_bound",
    "printed_general_bound",
    "rbf_information_rate",
    "robust_regret",
    "shift_norm",
    "simple_regret",
    "simple_regret_bound",
    "simulator_bound",
]
