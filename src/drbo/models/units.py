"""The units of outcomes: the user's on one side, the model's on the other."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Units:
    """How an outcome y of the user is a value v of the model: sign * y = offset + scale * v.

    Attributes
    ----------
    sign : 1 if outcomes are maximised, -1 if they are minimised; the model always maximises
    offset, scale : of the model's standardisation; 0 and 1 for a model with fixed hyper-parameters
    known : False as long as a model that learns its scale has seen no outcome; bounds are then infinite
    """

    sign: float = 1.0
    offset: float = 0.0
    scale: float = 1.0
    known: bool = True

    def inward(self, outcome: float) -> float:
        """Return the model's value of an outcome."""
        return (self.sign * outcome - self.offset) / self.scale

    def outward(self, value: float) -> float:
        """Return the user's value of a value of the model."""
        if not self.known:
            return self.sign * math.copysign(math.inf, value)
        return self.sign * (self.offset + self.scale * value)

    def length_outward(self, length: float) -> float:
        """Return a difference or a standard deviation of the model in the user's units."""
        return self.scale * length

    def length_inward(self, length: float) -> float:
        """Return the user's noise, or bound on a norm of f less its offset, in the model's units."""
        return length / self.scale
