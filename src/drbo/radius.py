"""Rules for the radius, and what radii would have earned in the past."""

from drbo.ambiguity.reference import empirical
from drbo.analysis.backtest import Backtest, backtest
from drbo.rounds.learned_radius import Bootstrap, Calibrated
from drbo.rounds.radius import Constant, Decaying, EmpiricalLikelihood, RadiusRule, Theoretical

__all__ = [
    "Backtest",
    "Bootstrap",
    "Calibrated",
    "Constant",
    "Decaying",
    "EmpiricalLikelihood",
    "RadiusRule",
    "Theoretical",
    "backtest",
    "empirical",
]
