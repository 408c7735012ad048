"""What a dual point says of contexts that are no atoms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drbo.ambiguity.contract import Dual
from drbo.spaces.space import Space
from drbo.validation import FloatArray


@dataclass(frozen=True, eq=False)
class Prices:
    """The price list of a dual point for contexts in the model's coordinates; the set measures in the user's units."""

    dual: Dual
    space: Space

    def at(self, contexts: FloatArray) -> FloatArray:
        """Return the value (m,) below which each context (m, d) does harm."""
        return self.dual.threshold(self.space.measured(contexts), np.zeros_like(contexts))[0]

    def in_cells(self, centres: FloatArray, halves: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return level (m,) and slope (m, d) of a bound on the threshold over cells |c - centre| <= half."""
        level, slope = self.dual.threshold(self.space.measured(centres), self.space.widths(halves))
        return level, slope * self.space.units
