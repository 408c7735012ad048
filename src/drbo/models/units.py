"""Conversion between the units of the user and of the model."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Units:
    """The relation between the user's outcome y and the model's value v: sign * y = offset + scale * v.

    Attributes
    ----------
    sign : 1 if outcomes are maximised, -1 if they are minimised; the model always maximises
    offset, scale : of the model's standardisation; 0 and 1 for a model with fixed hyper-parameters
    known : False if the scale is learned and there is no outcome yet; bounds are then infinite
    """

    sign: float = 1.0
    offset: float = 0.0
    scale: float = 1.0
    known: bool = True

    def inward(self, outcome: float) -> float:
        """Return an outcome in the model's units."""
        return (self.sign * outcome - self.offset) / self.scale

    def outward(self, value: float) -> float:
        """Return a value of the model in the user's units."""
        if not self.known:
            return self.sign * math.copysign(math.inf, value)
        return self.sign * (self.offset + self.scale * value)

    def length_outward(self, length: float) -> float:
        """Return a difference or a standard deviation of the model in the user's units."""
        return self.scale * length

    def length_inward(self, length: float) -> float:
        """Return the user's noise, or norm bound of f minus its offset, in the model's units."""
        return length / self.scale
