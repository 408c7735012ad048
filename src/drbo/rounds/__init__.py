"""One round: the ball that nature chooses from, who gives it, and what to evaluate next."""

from drbo.rounds.contexts import ContextRule, Informative, Uncertain
from drbo.rounds.policies import Choice, MeanEmbedding, Optimism, Policy, Round
from drbo.rounds.satisficing import Satisficing
from drbo.rounds.settings import DataDriven, General, Setting, Simulator

__all__ = [
    "Choice",
    "ContextRule",
    "DataDriven",
    "General",
    "Informative",
    "MeanEmbedding",
    "Optimism",
    "Policy",
    "Round",
    "Satisficing",
    "Setting",
    "Simulator",
    "Uncertain",
]
