"""Rules for the radius, and what radii would have earned in the past."""

from drbo.rounds.radius import (
    Backtest,
    Bootstrap,
    Calibrated,
    Constant,
    Decaying,
    RadiusRule,
    Theoretical,
    as_rule,
    backtest,
    empirical,
)

__all__ = [
    "Backtest",
    "Bootstrap",
    "Calibrated",
    "Constant",
    "Decaying",
    "RadiusRule",
    "Theoretical",
    "as_rule",
    "backtest",
    "empirical",
]
