"""What nature may do: ambiguity sets, and the worst distribution within a radius of a reference."""

from drbo.ambiguity.any_of import AnyOf
from drbo.ambiguity.chi_square import ChiSquare
from drbo.ambiguity.cvar import CVaR
from drbo.ambiguity.divergence import Divergence, Expectation
from drbo.ambiguity.family import AmbiguitySet, sensitivity
from drbo.ambiguity.intersection import Intersection
from drbo.ambiguity.kl import KL
from drbo.ambiguity.mmd import MMD
from drbo.ambiguity.moments import Moments
from drbo.ambiguity.neighbourhood import Neighbourhood
from drbo.ambiguity.placed import Dual, Growth, PlacedSet, Witness, WorstCase, WorstCaseError
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
    "Divergence",
    "Dual",
    "Expectation",
    "Growth",
    "Intersection",
    "Moments",
    "Neighbourhood",
    "PlacedSet",
    "Shares",
    "TotalVariation",
    "Wasserstein",
    "Witness",
    "WorstCase",
    "WorstCaseError",
    "sensitivity",
]
