"""Rules for the radius."""

from drbo.ambiguity.reference import empirical
from drbo.rounds.learned_radius import Bootstrap, Calibrated
from drbo.rounds.radius import Constant, Decaying, EmpiricalLikelihood, RadiusRule, Theoretical

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
