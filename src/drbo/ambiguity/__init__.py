"""What nature may do: ambiguity sets, and the worst distribution within a radius of a reference."""

from drbo.ambiguity.any_of import AnyOf
from drbo.ambiguity.chi_square import ChiSquare
from drbo.ambiguity.contract import AmbiguitySet, Dual, WorstCase, WorstCaseError
from drbo.ambiguity.cvar import CVaR
from drbo.ambiguity.expectation import Expectation
from drbo.ambiguity.intersection import Intersection
from drbo.ambiguity.kl import KL
from drbo.ambiguity.mmd import MMD
from drbo.ambiguity.moments import Moments
from drbo.ambiguity.neighbourhood import Neighbourhood
from drbo.ambiguity.shares import Shares
from drbo.ambiguity.total_variation import TotalVariation
from drbo.ambiguity.wasserstein import Wasserstein

__all__ = [
    "KL",
    "MMD",
    "AmbiguitySet",
    "AnyOf",
    "CVaR",
    "ChiSquare",
    "Dual",
    "Expectation",
    "Intersection",
    "Moments",
    "Neighbourhood",
    "Shares",
    "TotalVariation",
    "Wasserstein",
    "WorstCase",
    "WorstCaseError",
]
