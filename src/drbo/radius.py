"""Rules for the radius."""

from drbo.contexts.reference import empirical
from drbo.rounds.learned_radius import Bootstrap, Calibrated
from drbo.rounds.radius_rules import Constant, Decaying, EmpiricalLikelihood, RadiusRule, Theoretical

__all__ = [
    "Bootstrap",
    "Calibrated",
    "Constant",
    "Decaying",
    "EmpiricalLikelihood",
    "RadiusRule",
    "Theoretical",
    "empirical",
]
