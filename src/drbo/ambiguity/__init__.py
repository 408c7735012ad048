"""Ambiguity sets: the worst distribution within a radius of a reference."""

from drbo.ambiguity._baselines import Expectation, Neighbourhood
from drbo.ambiguity._contract import AmbiguitySet, WorstCase, WorstCaseError
from drbo.ambiguity._mmd import MMD

__all__ = ["MMD", "AmbiguitySet", "Expectation", "Neighbourhood", "WorstCase", "WorstCaseError"]
