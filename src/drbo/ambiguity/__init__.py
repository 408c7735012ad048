"""Ambiguity sets: the worst distribution within a radius of a reference."""

from drbo.ambiguity.divergence import Divergence
from drbo.ambiguity.family import sensitivity
from drbo.ambiguity.placed import Dual, Growth, PlacedSet, Witness, WorstCase, WorstCaseError

__all__ = ["Divergence", "Dual", "Growth", "PlacedSet", "Witness", "WorstCase", "WorstCaseError", "sensitivity"]
