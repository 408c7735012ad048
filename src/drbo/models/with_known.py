"""The posterior of an outcome with a known part: that of f, with the mean shifted by the known part.

All values are in the model's units. The capabilities are those of the posterior of f
(`drbo.models.surrogate.supports`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from drbo.models.curve import Curve
from drbo.models.data import Observation
from drbo.models.known import KnownOn, KnownPart
from drbo.models.surrogate import (
    AnyCurve,
    AnyDraw,
    Posterior,
    SupportsAverages,
    SupportsCovariance,
    SupportsDraws,
    SupportsGrid,
    SupportsManyOutcomes,
    Values,
    curve_of,
    moments_in,
)
from drbo.spaces.space import Point
from drbo.validation import FloatArray

_UNCHANGED = {
    "scatter", "covariance", "check_draw", "check_draws", "leave_one_out", "n_inducing", "n_nearest",
    "information_gain", "errors_known",
}  # fmt: skip
"""Members of the posterior of f that a known part does not change."""
_UNCHANGED_OF_CURVE = {"slope", "variance", "information", "variance_after"}
"""Members of a curve of f that a known part does not change."""


@dataclass(frozen=True, eq=False)
class WithKnown:
    """The posterior of known(x, c) + f(x, c).

    Attributes
    ----------
    of_f : the posterior of f
    known : the known part in its contexts
    factor : the model's units per unit of the user, with the sign of the outcomes
    grid : (n_actions, d_x) the grid of actions; no row where they may lie anywhere
    """

    of_f: Posterior
    known: KnownOn
    factor: float
    grid: FloatArray

    @classmethod
    def of(cls, of_f: Posterior, part: KnownPart, factor: float, grid: FloatArray) -> WithKnown:
        """Return the posterior with a known part."""
        return cls(of_f, part.on(of_f.contexts), factor, grid)

    def _at(self, actions: FloatArray) -> FloatArray:
        return self.factor * self.known.at(actions)

    def __getattr__(self, name: str) -> Any:
        if name not in _UNCHANGED:
            raise AttributeError(name)
        return getattr(self.of_f, name)

    # --- the contract -----------------------------------------------------------------------------------------------

    @property
    def contexts(self) -> FloatArray:
        """The contexts (n, d_c) of the queries."""
        return self.of_f.contexts

    @property
    def amplitude(self) -> float:
        """The prior standard deviation of f."""
        return self.of_f.amplitude

    @property
    def noise(self) -> float:
        """The standard deviation of the error of an outcome."""
        return self.of_f.noise

    def with_more(self, observations: Sequence[Observation]) -> WithKnown:
        """Return the posterior with further observations of f, without the known part."""
        return replace(self, of_f=self.of_f.with_more(observations))

    def moments(self, actions: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance (m, n_contexts) at actions (m, d_x) anywhere, in every context."""
        mean, variance = self.of_f.moments(actions)
        return mean + self._at(actions), variance

    def averages(self, actions: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return sum_j w_j mean(x, c_j) and sum_j w_j variance(x, c_j), each (m,), at actions (m, d_x) anywhere."""
        mean, variance = self.of_f.averages(actions, weights)
        return mean + self._at(actions) @ weights, variance

    def gradient(self, action: FloatArray, weights: FloatArray, slope: float) -> FloatArray:
        """Return the gradient in x of sum_j w_j (mean + slope std)(x, c_j) at one action (d_x,), shape (d_x,)."""
        own = self.of_f.gradient(action, weights, slope)
        return np.asarray(own + self.factor * self.known.gradient(action, weights))

    def predict(self, actions: ArrayLike, contexts: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return mean (m,) and variance (m,) at the points (x_i, c_i), actions (m, d_x), contexts (m, d_c)."""
        mean, variance = self.of_f.predict(actions, contexts)
        known = self.known.part.pairs(np.asarray(actions, dtype=float), np.asarray(contexts, dtype=float))
        return mean + self.factor * known, variance

    # --- capabilities -----------------------------------------------------------------------------------------------

    def moments_in(self, actions: FloatArray, used: NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance (m, k) at actions (m, d_x), in the contexts of the indices `used` (k,)."""
        mean, variance = moments_in(self.of_f, actions, used)
        return mean + self._at(actions)[:, used], variance

    def on_grid(self) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance (n_actions, n_contexts) on the grid of actions."""
        mean, variance = cast(SupportsGrid, self.of_f).on_grid()
        return mean + self._at(self.grid), variance

    def of_action(self, action: Point) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance (n_contexts,) for one action, possibly on the grid."""
        mean, variance = cast(SupportsGrid, self.of_f).of_action(action)
        return mean + self._at(action.coordinates[None])[0], variance

    def curve(self, action: FloatArray, slope: float) -> Curve:
        """Return mean + slope std for one action (d_x,), as a function of any contexts."""
        made = CurveWithKnown(curve_of(self.of_f, action, slope), self.known.part, self.factor, action)
        return cast(Curve, made)

    def difference(self, actions: FloatArray, other: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance (m, n_contexts) of the advantage of actions (m, d_x) over another (d_x,)."""
        mean, variance = cast(SupportsCovariance, self.of_f).difference(actions, other)
        return mean + self._at(actions) - self._at(other[None]), variance

    def averaged(self, weights: FloatArray) -> WithKnown:
        """Return the posterior of the average over contexts, weights w (n_contexts,), as for one context."""
        of_f = cast(SupportsAverages, self.of_f).averaged(weights)
        return replace(self, of_f=of_f, known=self.known.averaged(weights))

    def draw(self, rng: Generator, *, between: bool = False) -> AnyDraw:
        """Return one draw; `between`: also for contexts between those of the posterior."""
        drawn = cast(SupportsDraws, self.of_f).draw(rng, between=between)
        return DrawWithKnown(drawn, self.known, self.factor, self.grid)

    def draws(self, rng: Generator, count: int, actions: FloatArray | None = None) -> FloatArray:
        """Return joint draws (count, m, n_contexts) at actions (m, d_x), by default the grid."""
        drawn = cast(SupportsDraws, self.of_f).draws(rng, count, actions)
        return np.asarray(drawn + self._at(self.grid if actions is None else actions))

    @property
    def searched(self) -> WithKnown:
        """The posterior that a search uses (`SupportsManyOutcomes`)."""
        return replace(self, of_f=cast(SupportsManyOutcomes, self.of_f).searched)


@dataclass(frozen=True, eq=False)
class CurveWithKnown:
    """Mean + slope std of one action (d_x,) with a known part, from the curve of f (`residual`), in any context."""

    residual: AnyCurve
    part: KnownPart
    factor: float
    action: FloatArray

    def _at(self, contexts: FloatArray) -> FloatArray:
        if not len(contexts):
            return np.empty(0)
        decoded = self.part.contexts.decode_all(contexts)
        return np.asarray(self.factor * self.part.values(self.action[None], decoded)[0])

    def __getattr__(self, name: str) -> Any:
        if name not in _UNCHANGED_OF_CURVE:
            raise AttributeError(name)
        return getattr(self.residual, name)

    @property
    def steepness(self) -> FloatArray:
        """A measure of how fast the values change along each coordinate of a context, (d_c,)."""
        own = cast(Curve, self.residual).steepness
        if self.part.given.lipschitz is None:
            return own
        return np.asarray(own + abs(self.factor) * self.part.steepness() * self.part.contexts.units)

    def __call__(self, contexts: FloatArray) -> FloatArray:
        """Return the bound (m,) in contexts (m, d_c)."""
        return np.asarray(self.residual(contexts) + self._at(contexts))

    def moments(self, contexts: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance, each (m,), in contexts (m, d_c)."""
        mean, variance = self.residual.moments(contexts)
        return mean + self._at(contexts), variance

    def lowest(self, centres: FloatArray, halves: FloatArray, tilt: FloatArray) -> FloatArray:
        """Return a lower bound (m,) of v(c) - tilt'(c - centre) over the cells |c - centre| <= half.

        The known part is at least its value at the centre minus sum_j lipschitz_j half_j, half_j in the user's units.
        Nothing bounds it without `lipschitz`, and every sample of a cell is then evaluated.
        """
        if self.part.given.lipschitz is None:
            return np.full(len(centres), -np.inf)
        widths = self.part.contexts.widths(halves)
        loss = abs(self.factor) * (widths @ self.part.steepness())
        return np.asarray(self.residual.lowest(centres, halves, tilt) + self._at(centres) - loss)


@dataclass(frozen=True, eq=False)
class DrawWithKnown:
    """One draw of an outcome with a known part, from a draw of f; the other fields are those of `WithKnown`."""

    residual: AnyDraw
    known: KnownOn
    factor: float
    grid: FloatArray

    @property
    def amplitude(self) -> float:
        """The prior standard deviation of f."""
        return self.residual.amplitude

    def on(self, contexts: FloatArray) -> DrawWithKnown:
        """Return the same draw in other contexts (n, d_c)."""
        return replace(self, residual=self.residual.on(contexts), known=self.known.part.on(contexts))

    def on_grid(self, rows: Any = slice(None), actions: FloatArray | None = None) -> FloatArray:
        """Return the draw for the actions `rows` of its grid, by default for all, in every context."""
        return np.asarray(self.residual.on_grid(rows, actions) + self.factor * self.known.at(self.grid)[rows])

    def of_action(self, action: Point) -> FloatArray:
        """Return the draw for one action in every context, (n_contexts,)."""
        return np.asarray(self.residual.of_action(action) + self.factor * self.known.at(action.coordinates[None])[0])

    def at(self, actions: FloatArray, used: NDArray[np.intp] | None = None) -> FloatArray:
        """Return the draw (m, k) at actions (m, d_x) anywhere, in the contexts `used` (k,); by default in all."""
        known = self.known.at(actions)
        return np.asarray(self.residual.at(actions, used) + self.factor * (known if used is None else known[:, used]))

    def gradient(self, action: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the gradient in x of sum_j w_j value(x, c_j) at one action (d_x,), shape (d_x,)."""
        own = self.residual.gradient(action, weights)
        return np.asarray(own + self.factor * self.known.gradient(action, weights))

    def curve(self, action: FloatArray) -> Values:
        """Return the values of one action (d_x,) as a function of the context."""
        own, part = self.residual.curve(action), self.known.part

        def values(contexts: FloatArray) -> FloatArray:
            decoded = part.contexts.decode_all(contexts)
            return np.asarray(own(contexts) + self.factor * part.values(action[None], decoded)[0])

        return values

    def ceilings(self, actions: FloatArray, weights: FloatArray) -> FloatArray:
        """Return upper bounds (m,) of sum_j w_j value(x, c_j) at actions (m, d_x), for weights w (n_contexts,)."""
        own = self.residual.ceilings(actions, weights)
        return np.asarray(own + self.factor * self.known.at(actions) @ weights)
