"""Ambiguity sets: the worst distribution within a radius of a reference."""

from drbo.ambiguity.baselines import Expectation, Neighbourhood
from drbo.ambiguity.contract import AmbiguitySet, Dual, WorstCase, WorstCaseError
from drbo.ambiguity.divergences import KL, ChiSquare, CVaR, TotalVariation
from drbo.ambiguity.mmd import MMD
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
