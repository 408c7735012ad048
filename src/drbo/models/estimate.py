"""What a search for the best action asks of a function that stands for f: a confidence bound, or a draw."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from drbo.spaces.space import Point
from drbo.validation import FloatArray

Values = Callable[[FloatArray], FloatArray]
"""A function of contexts (m, d_c), with values (m,)."""


class Estimate(Protocol):
    """A function of action and context that stands for f, in the contexts of a round."""

    @property
    def amplitude(self) -> float:
        """The prior standard deviation of f, the scale of the values."""

    def on_grid(self, rows: NDArray[np.intp] | slice = slice(None)) -> FloatArray:
        """Return the values of the actions `rows` of a grid, by default of all, in every context."""

    def of_action(self, action: Point) -> FloatArray:
        """Return the values of one action in every context, (n_contexts,)."""

    def at(self, actions: FloatArray) -> FloatArray:
        """Return the values at actions (m, d_x) anywhere, in every context, (m, n_contexts)."""

    def gradient(self, action: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the gradient in x of sum_j w_j value(x, c_j) at one action (d_x,), shape (d_x,)."""

    def curve(self, action: FloatArray) -> Values:
        """Return the values of one action (d_x,) as a function of the context."""

    def ceilings(self, actions: FloatArray, weights: FloatArray) -> FloatArray:
        """Return upper bounds (m,) of sum_j w_j value(x, c_j) at actions (m, d_x), for weights w (n_contexts,)."""
