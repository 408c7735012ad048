"""Ambiguity sets: the worst distribution within a radius of a reference."""

from drbo.ambiguity._baselines import Expectation, Neighbourhood
from drbo.ambiguity._contract import AmbiguitySet, Dual, WorstCase, WorstCaseError
from drbo.ambiguity._divergences import KL, ChiSquare, CVaR, TotalVariation
from drbo.ambiguity._mmd import MMD
from drbo.ambiguity._transport import Wasserstein

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
