"""Spaces of actions and contexts: user values <-> model coordinates."""

from drbo.spaces.finite import FiniteSet, Labels
from drbo.spaces.parameters import Parameter
from drbo.spaces.space import Point, Space

__all__ = ["FiniteSet", "Labels", "Parameter", "Point", "Space"]
