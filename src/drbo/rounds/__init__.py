"""One round: the ball that nature chooses from, who gives it, and what to evaluate next."""

from drbo.rounds.chance import Chance, ChanceConstrained, LevelSet, Undecided
from drbo.rounds.context_rules import Beliefs, ContextRule, Informative, Pessimistic, Uncertain
from drbo.rounds.joint_optimism import JointOptimism
from drbo.rounds.policies import Choice, MeanEmbedding, Optimism, Policy, Round, Thompson
from drbo.rounds.satisficing import Satisficing
from drbo.rounds.search import Candidates, Found
from drbo.rounds.settings import DataDriven, General, Setting, Simulator
from drbo.rounds.value_of_information import ValueOfInformation

__all__ = [
    "Beliefs",
    "Candidates",
    "Chance",
    "ChanceConstrained",
    "Choice",
    "ContextRule",
    "DataDriven",
    "Found",
    "General",
    "Informative",
    "JointOptimism",
    "LevelSet",
    "MeanEmbedding",
    "Optimism",
    "Pessimistic",
    "Policy",
    "Round",
    "Satisficing",
    "Setting",
    "Simulator",
    "Thompson",
    "Uncertain",
    "Undecided",
    "ValueOfInformation",
]
