"""The posterior of f(x + xi): the context is a perturbation of the action itself.

f is modelled as a function of the place z = x + xi, so an outcome informs about every action and perturbation that lead
near its place. With M the directions of perturbations and c the coordinates of a perturbation,

    z(x, c) = x + s + c M        s: the shift at c = 0

and every query at (x, c) is a query at z. In the inner Gaussian process a place is a context and there is no action, so
an average over perturbations is an average over its contexts.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drbo.kernels import ConstantKernel, Product
from drbo.models.curve import Curve
from drbo.models.data import Observation, Scatter, checked_pairs
from drbo.models.draws import Anchored, DrawOfRound, Fourier, Functions, Prior, check_features
from drbo.models.factor import Factor, Inverse, Process
from drbo.models.regression import ExactPosterior
from drbo.models.surrogate import Values
from drbo.spaces.space import Displacement, Point
from drbo.validation import FloatArray

_NO_ACTION = np.empty(0)
_AT_ONCE = 2**18
"""Kernel entries of observations and places computed at once; 2 MB stay in the cache."""


def of_places(gp: Process) -> Process:
    """Return a prior of f(x) as one of places, which are contexts without an action."""
    return gp.with_kernel(Product(ConstantKernel(), gp.kernel.action))


class PerturbedPosterior:
    """The posterior of f(x + xi) for actions anywhere, on a finite set of perturbations and at any other one.

    It has the methods of `ExactPosterior`.

    Attributes
    ----------
    gp : the prior; its context kernel is `ConstantKernel()`
    amplitude, noise : the prior standard deviation of f, and that of the error of an outcome
    n_observations, n_data, n_based, information_gain, errors_known : as in `ExactPosterior`, of the observed places
    shift : the map from perturbations to places
    actions : (n_actions, d_x) the grid of actions; no row where they may lie anywhere
    contexts : (n, d_c) the perturbations of the queries
    """

    def __init__(self, gp: Process, shift: Displacement, actions: FloatArray, contexts: FloatArray) -> None:
        self.gp, self.shift, self.actions, self.contexts = gp, shift, actions, contexts
        self.amplitude, self.noise = math.sqrt(gp.kernel.variance), gp.noise
        self._hold(ExactPosterior(of_places(gp), np.empty((0, 0)), np.empty((0, len(shift.start)))))

    @classmethod
    def of(cls, gp: Process, shift: Displacement, actions: FloatArray, contexts: FloatArray, inner: Factor) -> Self:
        """Return the posterior of the observations of a factor of places (`of_places`)."""
        made = cls(gp, shift, actions, contexts)
        made._hold(ExactPosterior.of(inner))
        return made

    def _hold(self, inner: ExactPosterior) -> None:
        """Keep the posterior of f as a function of places."""
        self._inner = inner
        self.n_observations = self.n_data = inner.n_observations
        self.n_based = inner.n_based
        self.information_gain, self.errors_known = inner.information_gain, inner.errors_known
        self._on_grid: tuple[FloatArray, FloatArray] | None = None

    @property
    def inverse(self) -> Inverse:
        """The inverse of the covariance of the observations."""
        return self._inner.inverse

    # --- observations -----------------------------------------------------------------------------------------------

    def with_more(self, observations: Sequence[Observation]) -> Self:
        """Return the posterior with further observations of actions and perturbations."""
        places = [self.shift.places(one.action[None, :], one.contexts) for one in observations]
        made = copy.copy(self)
        made._hold(
            self._inner.with_more(
                [replace(one, action=_NO_ACTION, contexts=z) for one, z in zip(observations, places, strict=True)]
            )
        )
        return made

    def on(self, contexts: FloatArray) -> Self:
        """Return the posterior of the same observations on other perturbations (n, d_c)."""
        moved = copy.copy(self)
        moved.contexts, moved._on_grid = contexts, None
        return moved

    # --- queries ----------------------------------------------------------------------------------------------------

    def moments(self, actions: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance (m, n_contexts) of f(x + xi) at actions (m, d_x) anywhere."""
        return self._moments(actions, self.contexts)

    def moments_in(self, actions: FloatArray, used: NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance (m, k) of f(x + xi) at actions (m, d_x), for the perturbations `used` (k,)."""
        return self._moments(actions, self.contexts[used])

    def _moments(self, actions: FloatArray, contexts: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance (m, n) of f(x + xi) at actions (m, d_x) and perturbations (n, d_c)."""
        mean, variance = np.empty((2, len(actions), len(contexts)))
        curve = self._inner.curve(_NO_ACTION, 0.0)
        step = max(_AT_ONCE // max(self._inner.n_points * len(contexts), 1), 1)
        for start in range(0, len(actions), step):
            rows = slice(start, start + step)
            there = curve.moments(self.shift.places(actions[rows], contexts))
            mean[rows], variance[rows] = (part.reshape(-1, len(contexts)) for part in there)
        return mean, variance

    def difference(self, actions: FloatArray, other: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance (m, n_contexts) of f(x + xi) - f(other + xi), for actions (m, d_x), other (d_x,)."""
        mean, variance = np.empty((2, len(actions), len(self.contexts)))
        curve, there = self._inner.curve(_NO_ACTION, 0.0), self.shift.places(other[None, :], self.contexts)
        for row, action in enumerate(actions):
            here = self.shift.places(action[None, :], self.contexts)
            mean[row], variance[row] = curve.difference(here, there)
        return mean, variance

    def on_grid(self) -> tuple[FloatArray, FloatArray]:
        """Return the cached mean and variance (n_actions, n_contexts) of f(x + xi) on the grid of actions."""
        if self._on_grid is None:
            self._on_grid = self.moments(self.actions)
        return self._on_grid

    def of_action(self, action: Point) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance (n_contexts,) of f(x + xi) for one action."""
        mean, variance = self.moments(action.coordinates[None, :])
        return mean[0], variance[0]

    def averages(self, actions: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return sum_j w_j mean(x + xi_j) and sum_j w_j variance(x + xi_j), each (m,), at actions (m, d_x)."""
        used = np.flatnonzero(weights)
        mean, variance = self._moments(actions, self.contexts[used])
        return mean @ weights[used], variance @ weights[used]

    def covariance(
        self, actions: FloatArray, weights: FloatArray, rows: NDArray[np.intp], columns: NDArray[np.intp]
    ) -> FloatArray:
        """Return the covariance (p, m, k) of f at p points with k averages for each of m actions."""
        m, k, n = weights.shape
        places = self.shift.places(actions, self.contexts)
        points = places.reshape(m, n, -1)[rows, columns]
        found = np.empty((len(rows), m, k))
        size = max(_AT_ONCE // (m * n), 1)
        for start in range(0, len(rows), size):
            some = slice(start, start + size)
            prior = self.gp.kernel.action(points[some], places).reshape(-1, m, n)
            found[some] = np.einsum("pmn,mkn->pmk", prior, weights, optimize=True)
        if self._inner.n_points:
            found -= self._inner.explained(points, places, weights)
        return found

    def scatter(self, observation: Observation) -> Scatter:
        """Return the scatter of f(x + xi), for one perturbation of an observation, about its average."""
        places = self.shift.places(observation.action[None, :], observation.contexts)
        return Scatter.of(self.gp.kernel.action, places, observation.weights)

    def gradient(self, action: FloatArray, weights: FloatArray, slope: float) -> FloatArray:
        """Return the gradient in x of sum_j w_j (mean + slope std)(x + xi_j) at one action (d_x,), shape (d_x,)."""
        used = np.flatnonzero(weights)
        places = self.shift.places(action[None, :], self.contexts[used])
        return np.asarray(weights[used] @ self._inner.curve(_NO_ACTION, slope).gradient(places))

    def curve(self, action: FloatArray, slope: float) -> Curve:
        """Return mean + slope std of f(x + xi) for one action (d_x,), as a function of any perturbations."""
        return self._inner.curve(_NO_ACTION, slope).along(action + self.shift.start, self.shift.directions)

    def predict(self, actions: ArrayLike, contexts: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return mean (m,) and variance (m,) of f(x_i + xi_i), for actions (m, d_x) and perturbations (m, d_c)."""
        x, c = checked_pairs(actions, contexts, len(self.shift.start), len(self.shift.directions))
        return self._inner.curve(_NO_ACTION, 0.0).moments(x + self.shift.steps(c))

    def draws(self, rng: np.random.Generator, count: int, actions: FloatArray | None = None) -> FloatArray:
        """Return joint draws of f(x + xi) (count, m, n_contexts) at actions (m, d_x), by default the grid.

        Every draw has its own random frequencies, as there are too many places for exact draws. The draws have the mean
        and covariance of the posterior.
        """
        x = self.actions if actions is None else actions
        drawn = [self.draw(rng) for _ in range(count)]
        prior = np.array([one.prior_at(x) for one in drawn])
        weights = np.array([one.weights for one in drawn])
        return prior + _update_at(weights, drawn[0].seen, self.shift.steps(self.contexts), x)

    def draw(self, rng: np.random.Generator, *, between: bool = False) -> PerturbedDraw:
        """Return one draw of f(x + xi), made of random frequencies, as a function of action and perturbation."""
        del between  # places may lie anywhere for any perturbations
        k = self.gp.kernel.action
        fourier = Fourier(k, len(self.shift.start), rng)
        prior = Prior.drawn(rng, Anchored(ConstantKernel(), _NO_ACTION[None, :]), fourier)
        _, update = self._inner.moved(prior, rng).terms
        return PerturbedDraw(
            self.amplitude,
            self.actions,
            self.contexts,
            self.shift,
            fourier,
            prior.of_action(_NO_ACTION),
            update.right,
            update.of_action(_NO_ACTION),
        )

    def check_draw(self, *, between: bool) -> None:
        """Raise if `draw` is not possible with the kernel of this posterior."""
        del between
        check_features(self.gp.kernel.action, self.shift.start[None, :], anywhere=True)

    def check_draws(self) -> None:
        """Raise if `draws` are not possible with the kernel of this posterior."""
        self.check_draw(between=False)

    def leave_one_out(self) -> tuple[FloatArray, FloatArray]:
        """Return for every observation the outcome minus its prediction from all others, and the variance."""
        return self._inner.leave_one_out()


@dataclass(frozen=True, eq=False)
class PerturbedDraw(DrawOfRound):
    """One draw of f(x + xi); the contexts are perturbations xi.

    Attributes
    ----------
    shift : the map from perturbations to places
    fourier, coefficients : the draw of the prior at a place z is coefficients' fourier(z)
    seen, weights : the outcomes add weights' seen(z)
    """

    shift: Displacement
    fourier: Fourier
    coefficients: FloatArray
    seen: Functions
    weights: FloatArray

    @cached_property
    def _steps(self) -> FloatArray:
        return self.shift.steps(self.contexts)

    @cached_property
    def _by_step(self) -> FloatArray:
        return self.fourier.moved(self.coefficients, self._steps)

    def at(self, actions: FloatArray, used: NDArray[np.intp] | None = None) -> FloatArray:
        if used is not None:
            return self.on(self.contexts[used]).at(actions)
        return self.prior_at(actions) + _update_at(self.weights, self.seen, self._steps, actions)

    def prior_at(self, actions: FloatArray) -> FloatArray:
        """Return the underlying draw of the prior, (m, n_contexts)."""
        return np.asarray(self.fourier(actions).T @ self._by_step)

    def gradient(self, action: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the gradient in x of sum_j w_j f(x + xi_j) at one action (d_x,), shape (d_x,)."""
        used = np.flatnonzero(weights)
        prior = (self._by_step[:, used] @ weights[used]) @ self.fourier.slope(action[None, :])[:, 0]
        slopes = self.seen.slope(action + self._steps[used])
        return np.asarray(prior + np.einsum("s,j,sjk->k", self.weights, weights[used], slopes))

    def curve(self, action: FloatArray) -> Values:
        """Return the draw for one action (d_x,) as a function of the perturbation."""

        def values(contexts: FloatArray) -> FloatArray:
            places = action + self.shift.steps(contexts)
            return np.asarray(self.coefficients @ self.fourier(places) + self.weights @ self.seen(places))

        return values

    def ceilings(self, actions: FloatArray, weights: FloatArray) -> FloatArray:
        """Return sum_j w_j f(x + xi_j) (m,) at actions (m, d_x), for weights w (n_contexts,)."""
        used = np.flatnonzero(weights)
        return self.at(actions, used) @ weights[used]


def _update_at(weights: FloatArray, seen: Functions, steps: FloatArray, actions: FloatArray) -> FloatArray:
    """Return weights' seen(z), (..., m, n), at the places of actions (m, d_x) and steps (n, d_x), weights (..., t)."""
    found = np.empty((*weights.shape[:-1], len(actions), len(steps)))
    size = max(_AT_ONCE // max(weights.shape[-1] * len(steps), 1), 1)
    for start in range(0, len(actions), size):
        some = actions[start : start + size]
        places = (some[:, None, :] + steps).reshape(-1, steps.shape[1])
        found[..., start : start + size, :] = (weights @ seen(places)).reshape(*weights.shape[:-1], len(some), -1)
    return found
