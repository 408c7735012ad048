"""What nature may do: ambiguity sets, and the worst distribution within a radius of a reference."""

from drbo.ambiguity.chi_square import ChiSquare
from drbo.ambiguity.contract import AmbiguitySet, Dual, WorstCase, WorstCaseError
from drbo.ambiguity.cvar import CVaR
from drbo.ambiguity.expectation import Expectation
from drbo.ambiguity.kl import KL
from drbo.ambiguity.mmd import MMD
from drbo.ambiguity.neighbourhood import Neighbourhood
from drbo.ambiguity.total_variation import TotalVariation
from drbo.ambiguity.wasserstein import Wasserstein

__all__ = [
    "KL",
    "MMD",
    "AmbiguitySet",
    "CVaR",
    "ChiSquare",
    "Dual",
    "Expectation",
    "Neighbourhood",
    "TotalVariation",
    "Wasserstein",
    "WorstCase",
    "WorstCaseError",
]
