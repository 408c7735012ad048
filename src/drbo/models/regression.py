"""The posterior of f given any observations, for actions and contexts anywhere, and on a grid.

In addition to the notation of `drbo.models.factor`:

    mean        k_t(z)' (K_t + ridge I)^-1 y
    variance    k(z, z) - k_t(z)' (K_t + ridge I)^-1 k_t(z)

This is the ridge regression of eq. (3) and its confidence width (appendix A of the paper) for any ridge. Mean and
variance are those of f itself, never of a noisy outcome.

On a grid of actions x contexts mean and variance are kept up to date. A new observation changes both by a rank-one
term, made from the posterior covariance of every grid point with the new point. With a product kernel this covariance
is one small matrix product,

    cov = k_X(:, x) k_C(c, :) - K_X[:, S] diag(b) K_C[S, :],       S: the observations, b = (K_t + ridge I)^-1 k_t(z)

so that no (t, n_actions n_contexts) matrix is ever kept: memory is O(n_actions n_contexts).

Rank-one updates and a solve from scratch differ by rounding errors. An extended posterior and a rebuilt one must agree
to the last bit, so a rebuild does the same rank-one updates; only the factor U is made in blocks.
"""

from __future__ import annotations

import functools
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular

from drbo import validation
from drbo._compiled import jit
from drbo.kernels import ConstantKernel, Product
from drbo.models.curve import Curve, Embedding
from drbo.models.data import Observation, Scatter, checked_pairs
from drbo.models.draws import Draw, Features, Matheron, Path, Prior, check_features, features_of
from drbo.models.factor import Factor, Inverse, Process
from drbo.spaces.space import Point
from drbo.validation import FloatArray

_LARGE = 400
"""Number of points from which on a curve uses that the inverse of the factor is a triangle."""
_AT_ONCE = 2**23
"""Largest number of weights of draws in memory, 64 MB."""


@dataclass(frozen=True)
class _AverageKernel(ConstantKernel):
    """The context kernel of one average over contexts with itself, sum_ij w_i w_j k_C(c_i, c_j) = `value`."""

    value: float

    def __call__(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """Return the value everywhere, shape (n, m)."""
        return np.full((len(a), len(b)), self.value)

    @property
    def variance(self) -> float:
        return self.value


class GaussianPosterior(ABC):
    """What the posteriors of a Gaussian process on actions and contexts have in common.

    They are for actions anywhere, on a finite set of contexts and, through `curve`, in any context. They never change.

    Attributes
    ----------
    gp : the prior
    amplitude, noise : the prior standard deviation of f, and that of the error of an outcome
    actions : (n_actions, d_x) the grid of actions; no row where they may lie anywhere
    contexts : (n, d_c) the contexts of the queries
    block_actions, block_contexts : (T, d_x) and (k, d_c), where every action was evaluated in every context
    """

    gp: Process
    actions: FloatArray
    contexts: FloatArray
    block_actions: FloatArray
    block_contexts: FloatArray
    amplitude: float
    noise: float

    @property
    @abstractmethod
    def observed_actions(self) -> FloatArray:
        """The observed actions, (t, d_x)."""

    @abstractmethod
    def on(self, contexts: FloatArray) -> Self:
        """Return the posterior of the same observations on other contexts (n, d_c)."""

    @abstractmethod
    def with_more(self, observations: Sequence[Observation]) -> Self:
        """Return the posterior with further observations of checked shapes.

        A batch gives the same bits as one observation after the other, in less time.
        """

    def with_outcome(self, action: FloatArray, context: FloatArray, outcome: float) -> Self:
        """Return the posterior with the outcome of action (d_x,) in context (d_c,)."""
        x = validation.finite_array("action", action, ndim=1)
        c = validation.finite_array("context", context, ndim=1)
        for name, given, own in (("action", x, self.actions), ("context", c, self.contexts)):
            if given.shape != own.shape[1:]:
                raise ValueError(f"{name} must have shape {own.shape[1:]}, got {given.shape}")
        return self.with_more([Observation.of(x, c, validation.finite_float("outcome", outcome))])

    # --- queries ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def on_grid(self) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance (n_actions, n_contexts) of f on the grid of actions."""

    @property
    def mean(self) -> FloatArray:
        """The posterior mean of f on the grid, (n_actions, n_contexts)."""
        return self.on_grid()[0]

    @property
    def variance(self) -> FloatArray:
        """The posterior variance of f on the grid, (n_actions, n_contexts), never negative."""
        return self.on_grid()[1]

    @property
    def std(self) -> FloatArray:
        """The posterior standard deviation of f on the grid, (n_actions, n_contexts)."""
        return np.sqrt(self.variance)

    def of_action(self, action: Point) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance (n_contexts,) of f for one action."""
        mean, variance = self.moments(action.coordinates[None, :])
        return mean[0], variance[0]

    def moments(self, actions: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance (m, n_contexts) of f at actions (m, d_x) anywhere, in every context."""
        return self._moments(actions, None)

    def moments_in(self, actions: FloatArray, used: NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance (m, k) of f at actions (m, d_x), in the contexts of the indices `used` (k,)."""
        return self._moments(actions, None, used)

    def difference(self, actions: FloatArray, other: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance (m, n_contexts) of f(x, c) - f(other, c), for actions (m, d_x), other (d_x,).

        Both are of the joint posterior: the uncertainty about two similar actions is mostly shared, and cancels.
        """
        return self._moments(actions, other)

    @abstractmethod
    def _moments(
        self, actions: FloatArray, other: FloatArray | None, used: NDArray[np.intp] | slice = slice(None)
    ) -> tuple[FloatArray, FloatArray]:
        """Return the result of `difference`, or of `moments` if `other` is None, in the contexts `used` (k,)."""

    def _action_kernels(self, actions: FloatArray, other: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        """Return the action kernel (t, m) of f(x, .) - f(other, .) with the observed actions, and (m,) with itself."""
        k_X, seen = self.gp.kernel.action, self.observed_actions
        if other is None:
            return k_X(seen, actions), np.full(len(actions), k_X.variance)
        own = 2.0 * (k_X.variance - k_X(actions, other[None, :])[:, 0])
        return k_X(seen, actions) - k_X(seen, other[None, :]), np.maximum(own, 0.0)

    def predict(self, actions: ArrayLike, contexts: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return the mean (m,) and variance (m,) of f at the points (x_i, c_i), actions (m, d_x), contexts (m, d_c)."""
        return self._predict(*checked_pairs(actions, contexts, self.actions.shape[1], self.contexts.shape[1]))

    @abstractmethod
    def _predict(self, x: FloatArray, c: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the mean (m,) and variance (m,) of f at the points (x_i, c_i), of checked shapes."""

    def covariance(
        self, actions: FloatArray, weights: FloatArray, rows: NDArray[np.intp], columns: NDArray[np.intp]
    ) -> FloatArray:
        """Return the covariance (p, m, k) of f at p points with k averages over contexts for each of m actions.

        Actions (m, d_x) may lie anywhere. An average of action i is sum_j w_j f(x_i, c_j), weights (m, k, n_contexts).
        A point is given by the indices of its action, `rows` (p,), and its context, `columns` (p,).
        """
        k_X, k_C = self.gp.kernel.action, self.gp.kernel.context
        used, where = np.unique(columns, return_inverse=True)
        prior = np.tensordot(k_C(self.contexts[used], self.contexts), weights, axes=(1, 2))[where]
        prior *= k_X(actions, actions)[rows][:, :, None]
        return np.asarray(prior - self._explained(actions, weights, rows, columns))

    @abstractmethod
    def _explained(
        self, actions: FloatArray, weights: FloatArray, rows: NDArray[np.intp], columns: NDArray[np.intp]
    ) -> FloatArray:
        """Return the part (p, m, k) of `covariance` that the observations explain."""

    def scatter(self, observation: Observation) -> Scatter:
        """Return the scatter of f in one of an observation's contexts about their average."""
        kernel = self.gp.kernel
        return Scatter.of(kernel.context, observation.contexts, observation.weights, math.sqrt(kernel.action.variance))

    def _average(self, weights: FloatArray) -> Process:
        """Return the prior of sum_j w_j f(x, c_j), weights w (n_contexts,), for one context."""
        used = np.flatnonzero(weights)
        w, c, kernel = weights[used], self.contexts[used], self.gp.kernel
        return self.gp.with_kernel(Product(kernel.action, _AverageKernel(float(w @ kernel.context(c, c) @ w))))

    # --- draws ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def moved(self, prior: Prior, rng: np.random.Generator) -> Path:
        """Return draws of the posterior: draws of the prior, updated by the outcomes."""

    def _draw_features(
        self, rng: np.random.Generator, actions: FloatArray, *, anywhere: bool, between: bool
    ) -> tuple[Features, Features]:
        """Return features of actions (m, d_x), and of the contexts of the posterior."""
        k_X, k_C = self.gp.kernel.action, self.gp.kernel.context
        left = features_of(k_X, np.concatenate([actions, self.block_actions]), rng, anywhere=anywhere)
        contexts = np.concatenate([self.contexts, self.block_contexts])
        return left, features_of(k_C, contexts, rng, anywhere=between)

    def draws(self, rng: np.random.Generator, count: int, actions: FloatArray | None = None) -> FloatArray:
        """Return joint draws of f (count, m, n_contexts) at actions (m, d_x) in all contexts.

        The default actions are the grid. Draws are exact for up to `features.EXACT` actions and as many contexts. They
        cost one Cholesky factor each of the actions, the contexts and the observations.
        """
        x = self.actions if actions is None else actions
        left, right = self._draw_features(rng, x, anywhere=False, between=False)
        most = left.count * max(right.count, len(self.contexts), len(self.observed_actions))
        step = max(_AT_ONCE // max(most, 1), 1)
        paths = (
            self.moved(Prior.drawn(rng, left, right, (min(step, count - first),)), rng)
            for first in range(0, count, step)
        )
        return np.concatenate([path.values(x, self.contexts) for path in paths])

    def draw(self, rng: np.random.Generator, *, between: bool = False) -> Draw:
        """Return one draw of f as a function of action and context.

        The draw is exact on the grid, if there is one, and in the contexts of the posterior. Actions anywhere, and
        contexts `between` those of the posterior, use random frequencies (`drbo.models.draws`).
        """
        left, right = self._draw_features(rng, self.actions, anywhere=not len(self.actions), between=between)
        path = self.moved(Prior.drawn(rng, left, right), rng)
        return Draw(self.amplitude, self.actions, self.contexts, path)

    def check_draw(self, *, between: bool) -> None:
        """Raise if `draw` is not possible with the kernels of this posterior."""
        check_features(self.gp.kernel.action, self.actions, anywhere=not len(self.actions))
        check_features(self.gp.kernel.context, self.contexts, anywhere=between)

    def check_draws(self) -> None:
        """Raise if `draws` at few actions are not possible with the kernels of this posterior."""
        check_features(self.gp.kernel.context, self.contexts, anywhere=False)


class Grid:
    """Mean and variance (n_actions, n_contexts) of f on the grid of a factor's actions and contexts.

    The arrays never change under another holder: a new grid of the same arrays is updated instead. Large arrays of
    earlier grids are written over once nobody holds them, because new ones cost the clearing of their pages.
    """

    def __init__(self, mean: FloatArray, variance: FloatArray, large: list[FloatArray] | None = None) -> None:
        self.mean, self.variance = mean, variance
        self.large = [] if large is None else large  # the last large arrays of this grid and of those before it
        self._own = False  # whether no other grid has this mean and variance
        self._spare: FloatArray | None = None  # an earlier mean of its own, to be written over

    @classmethod
    def of(cls, factor: Factor) -> Self:
        """Return mean and variance after the rows of a factor, none of which has changed since it was added."""
        mean = np.zeros((len(factor.actions), len(factor.contexts)))
        made = cls(mean, np.full_like(mean, factor.gp.kernel.variance))
        made.update(factor, 0)
        return made

    def update(self, factor: Factor, start: int) -> None:
        """Change mean and variance by the rank-one terms of all rows of the factor from `start` on."""
        for k_actions, k_contexts, b, root, white in factor.rank_one_terms(start):
            if self.mean.nbytes >= _LARGE and not self._own:
                self._spare, variance = self._unheld(), self._unheld()
            else:
                variance = self.variance if self._own else np.empty_like(self.variance)
            mean = np.matmul(k_actions[:-1].T, b[:, None] * k_contexts[:-1], out=self._spare)
            step, pivot = white / root, root * root
            _rank_one(self.mean, self.variance, k_actions[-1], k_contexts[-1], pivot, step, mean, variance)
            self._spare = self.mean if self._own else None
            self.mean, self.variance, self._own = mean, variance, True

    def _unheld(self) -> FloatArray:
        """Return a large array to write over: an earlier one that only the list of them holds, or a new one."""
        for array in self.large:
            if sys.getrefcount(array) <= _ONLY_LISTED:
                return array
        self.large.append(np.empty_like(self.mean))
        del self.large[:-_MOST_LARGE]
        return self.large[-1]


_LARGE = 2**24
"""From so many bytes on, the memory of an array goes back to the operating system when it is freed."""
_MOST_LARGE = 6
"""Number of large arrays that are kept: mean and variance of this grid and of the one before, and two spare ones."""


def _count_listed(arrays: list[FloatArray]) -> int:
    """Return what `sys.getrefcount` says of an array that only a list holds; it depends on the Python version."""
    return next(sys.getrefcount(array) for array in arrays)


_ONLY_LISTED = _count_listed([np.empty(1)])


@jit
def _rank_one(
    mean: FloatArray,
    variance: FloatArray,
    k_action: FloatArray,
    k_context: FloatArray,
    pivot: float,
    step: float,
    new_mean: FloatArray,
    new_variance: FloatArray,
) -> None:
    """Write mean and variance after a new observation; `new_mean` holds the explained part of the covariance before."""
    for i in range(mean.shape[0]):
        for j in range(mean.shape[1]):
            covariance = k_action[i] * k_context[j] - new_mean[i, j]
            new_mean[i, j] = mean[i, j] + covariance * step
            new_variance[i, j] = max(variance[i, j] - covariance * (covariance / pivot), 0.0)


class ExactPosterior(GaussianPosterior):
    """The posterior of any observations, by one growing factor; on a grid, mean and variance are kept up to date.

    Attributes
    ----------
    factor : the observations, and the factor of their covariance
    n_observations, n_data : the number of observations, all of which are data of this posterior
    n_based : the number of observations that were put together in one go
    n_points, information_gain, errors_known : as in `Factor`
    """

    def __init__(self, gp: Process, actions: FloatArray, contexts: FloatArray) -> None:
        """Return the prior on a grid of actions (n_actions, d_x), without rows if there is none."""
        factor = Factor(gp, actions, contexts)
        self._hold(factor, Grid.of(factor) if len(actions) else None)

    @classmethod
    def prior(cls, gp: Process, actions: ArrayLike, contexts: ArrayLike) -> Self:
        """Return the posterior of no observation on actions (n_actions, d_x) x contexts (n_contexts, d_c)."""
        x = validation.frozen(validation.points("actions", actions))
        c = validation.frozen(validation.points("contexts", contexts))
        gp.kernel.check(x.shape[1], c.shape[1])
        return cls(gp, x, c)

    @classmethod
    def of(cls, factor: Factor) -> Self:
        """Return the posterior of the observations of a factor."""
        return object.__new__(cls)._hold(factor, Grid.of(factor) if len(factor.actions) else None)

    def _hold(self, factor: Factor, grid: Grid | None) -> Self:
        self.factor = factor
        self._grid: Grid | None = grid
        self.gp, self.actions, self.contexts = factor.gp, factor.actions, factor.contexts
        self.amplitude, self.noise = math.sqrt(factor.gp.kernel.variance), factor.gp.noise
        self.block_actions, self.block_contexts = self.actions[:0], self.contexts[:0]
        self.n_observations = self.n_data = factor.n_observations
        self.n_based = 0 if factor.base is None else factor.base.n_observations
        self.n_points, self.information_gain = factor.n_points, factor.information_gain
        self.errors_known = factor.errors_known
        return self

    # Searches ask for these thousands of times, and a posterior never changes.

    @functools.cached_property
    def observed_actions(self) -> FloatArray:
        return self.factor.observed_actions

    @functools.cached_property
    def _k_contexts(self) -> FloatArray:
        return self.factor.k_contexts

    @functools.cached_property
    def _white(self) -> FloatArray:
        return self.factor.white

    @functools.cached_property
    def inverse(self) -> Inverse:
        """The inverse of the covariance of the observations."""
        return self.factor.inverse()

    def with_more(self, observations: Sequence[Observation]) -> Self:
        if not observations:
            return self
        if self._grid is None:
            return object.__new__(type(self))._hold(self.factor.with_more(observations, lambda *_: None), None)
        grid = Grid(self._grid.mean, self._grid.variance, self._grid.large)
        return object.__new__(type(self))._hold(self.factor.with_more(observations, grid.update), grid)

    def on(self, contexts: FloatArray) -> Self:
        own = self.factor
        if self._grid is None:
            return object.__new__(type(self))._hold(own.on(contexts), None)
        if own.n_points < own.n_observations:  # merged rows no longer hold the state after each observation
            first = type(self)(self.gp, self.actions, contexts) if own.base is None else self.of(own.base.on(contexts))
            return first.with_more(own.observations[first.n_observations :])
        return self.of(own.on(contexts))

    def averaged(self, weights: FloatArray) -> Self:
        """Return the posterior of sum_j w_j f(x, c_j), weights w (n_contexts,), as for one context.

        Only `moments`, `on_grid`, `of_action`, `averages` and `gradient` are valid: the contexts are gone.
        """
        made = object.__new__(type(self))._hold(self.factor.averaged(self._average(weights), weights), None)
        if self._grid is not None:
            made._grid = Grid(*made.moments(made.actions))
        return made

    # --- queries ----------------------------------------------------------------------------------------------------

    def on_grid(self) -> tuple[FloatArray, FloatArray]:
        return self.moments(self.actions) if self._grid is None else (self._grid.mean, self._grid.variance)

    def of_action(self, action: Point) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance (n_contexts,) of f for one action; the stored ones if it is on the grid."""
        if self._grid is not None and action.index is not None:
            return self._grid.mean[action.index], self._grid.variance[action.index]
        return super().of_action(action)

    def _moments(
        self, actions: FloatArray, other: FloatArray | None, used: NDArray[np.intp] | slice = slice(None)
    ) -> tuple[FloatArray, FloatArray]:
        k_action, own = self._action_kernels(actions, other)
        k_contexts = np.ascontiguousarray(self._k_contexts[:, used].T)
        m, n, t = len(own), len(k_contexts), self.n_points
        mean, variance = np.zeros((m, n)), np.repeat((own * self.gp.kernel.context.variance)[:, None], n, axis=1)
        if t == 0:
            return mean, variance
        block = max(2**18 // (t * n), 1)  # blocks of 2 MB stay in the cache
        inverse, outcomes = self.inverse, self._white
        k_action = np.ascontiguousarray(k_action.T)
        for start in range(0, m, block):
            rows = slice(start, start + block)
            white = inverse.whitened(k_action[rows, None, :] * k_contexts)
            mean[rows] = white @ outcomes
            variance[rows] -= np.einsum("mnt,mnt->mn", white, white)
        return mean, np.maximum(variance, 0.0)

    def averages(self, actions: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return sum_j w_j mean(x, c_j) and sum_j w_j variance(x, c_j), each (m,), at actions (m, d_x) anywhere.

        With W'W = (K_t + ridge I)^-1 and weights that sum to one, both depend on k_X(x) (t,) alone, in O(t^2) per
        action:

            k_X(x)' (alpha * K_C w)      and      k(z, z) - k_X(x)' (W'W * K_C diag(w) K_C') k_X(x)

        The variance is exact to 1e-6 or better, relative to k(z, z), at a noise of 1e-4 of the amplitude.
        """
        if self.n_points == 0:
            return np.zeros(len(actions)), np.full(len(actions), self.gp.kernel.variance)
        used = np.flatnonzero(weights)
        k_contexts, w = self._k_contexts[:, used], weights[used]
        k = self.gp.kernel.action(self.observed_actions, actions)
        made = self.inverse
        mean = (made.alpha * (k_contexts @ w)) @ k
        explained = np.einsum("ij,ij->j", k, made.times_product(k_contexts * w, k_contexts, k))
        return mean, np.maximum(self.gp.kernel.variance - explained, 0.0)

    def _explained(
        self, actions: FloatArray, weights: FloatArray, rows: NDArray[np.intp], columns: NDArray[np.intp]
    ) -> FloatArray:
        if self.n_points == 0:
            return np.zeros((len(rows), *weights.shape[:2]))
        k_action = np.ascontiguousarray(self.gp.kernel.action(self.observed_actions, actions).T)
        k_contexts = self._k_contexts
        averages = k_action[:, None, :] * (weights @ k_contexts.T)
        return self._common(k_action[rows] * k_contexts[:, columns].T, averages)

    def explained(self, points: FloatArray, places: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the explained part of the covariance (p, m, k) of f in contexts (p, d_c) with averages.

        The averages are of f in m groups of n contexts, places (m n, d_c), with weights (m, k, n). The action kernel
        must be constant, so actions do not matter.
        """
        embedding = self.factor.embedding()
        m, _, n = weights.shape
        averages = weights @ embedding(places).T.reshape(m, n, -1)
        return self._common(np.ascontiguousarray(embedding(points).T), averages)

    def _common(self, points: FloatArray, averages: FloatArray) -> FloatArray:
        """Return k'(K_t + ridge I)^-1 k' (p, m, k) of kernels with the observations, (p, t) and (m, k, t); in place."""
        made = self.inverse
        return np.tensordot(made.whitened(points), made.whitened(averages), axes=(1, 2))

    def gradient(self, action: FloatArray, weights: FloatArray, slope: float) -> FloatArray:
        """Return the gradient in x of sum_j w_j (mean + slope std)(x, c_j) at one action (d_x,), shape (d_x,).

        With u_j = (K_t + ridge I)^-1 k_t(x, c_j) and alpha = (K_t + ridge I)^-1 y, summed over the observations s:

            sum_s (alpha_s sum_j w_j k_C(c_s, c_j) - sum_j (slope w_j / std_j) u_js k_C(c_s, c_j)) dk_X(x, x_s) / dx
        """
        if self.n_points == 0:
            return np.zeros_like(action)
        used = np.flatnonzero(weights)
        k_contexts, w = self._k_contexts[:, used], weights[used]
        k_X, made = self.gp.kernel.action, self.inverse
        k_action = k_X(self.observed_actions, action[None, :])[:, 0]
        slopes = k_X.gradient(action[None], self.observed_actions)[0]
        white = made.whitened(k_action * np.ascontiguousarray(k_contexts.T))
        variance = self.gp.kernel.variance - np.einsum("jt,jt->j", white, white)
        std = np.sqrt(np.maximum(variance, 1e-12 * self.gp.kernel.variance))
        u = made.unwhitened(white).T
        per_point = made.alpha * (k_contexts @ w) - (u * k_contexts) @ (slope * w / std)
        return np.asarray(per_point @ slopes)

    def curve(self, action: FloatArray, slope: float) -> Curve:
        """Return mean + slope std of f(x, .) for one action (d_x,), as a function of any contexts."""
        own, kernel = self.factor, self.gp.kernel
        k_action = kernel.action(self.observed_actions, action[None, :])[:, 0]
        large = self.n_points >= _LARGE
        seen = own.embedding()
        return Curve(kernel, self.gp.ridge, k_action, seen, self.inverse.W, self._white, slope, triangular=large)

    def _predict(self, x: FloatArray, c: FloatArray) -> tuple[FloatArray, FloatArray]:
        own, variance = self.factor, np.full(len(x), self.gp.kernel.variance)
        if own.n_points == 0:
            return np.zeros(len(x)), variance
        k = self.gp.kernel.action(own.observed_actions, x) * own.embedding()(c)
        white = solve_triangular(own.U, k, trans="T", check_finite=False)
        variance -= np.einsum("ij,ij->j", white, white)
        return own.white @ white, np.maximum(variance, 0.0)

    def leave_one_out(self) -> tuple[FloatArray, FloatArray]:
        """Return for every observation the outcome minus its prediction from all others, and the variance.

        Both are (n_observations,); the variance is of the outcome, noise included. With Q the inverse of the covariance
        of all outcomes, they are (Q y)_i / Q_ii and 1 / Q_ii. If several observations share a row of average y and
        error variance v, f at its point has mean m = y - v (Q y) and variance s^2 = v - v^2 Q. An observation y_i with
        error variance v_i then has (Q y)_i = (y_i - m) / v_i and Q_ii = (1 - s^2 / v_i) / v_i.
        """
        factor, W = self.factor, self.inverse.W
        alpha, own = factor.white @ W, np.einsum("ij,ij->j", W, W)
        if factor.n_points == factor.n_observations:
            return alpha / own, 1.0 / own
        variances = np.array([factor.error_variance(one) for one in factor.observations])
        given = np.array([one.outcome for one in factor.observations], dtype=float)
        return left_out(alpha, own, factor.outcomes, factor.variances, np.array(factor.rows), given, variances)

    # --- draws ------------------------------------------------------------------------------------------------------

    def moved(self, prior: Prior, rng: np.random.Generator) -> Path:
        return matheron(self.factor).path(prior, rng)


def left_out(
    alpha: FloatArray,
    own: FloatArray,
    outcomes: FloatArray,
    v: FloatArray,
    rows: NDArray[np.intp],
    given: FloatArray,
    variances: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return every observation minus its prediction from all others, and the variance, each (n,).

    `alpha`, `own`, `outcomes` and `v` (t,) are Q y, Q_ii, y and the error variances of the rows; `rows`, `given` and
    `variances` (n,) the row, the outcome or nan, and the error variance of each observation.
    """
    m, s2 = (outcomes - v * alpha)[rows], (v - v**2 * own)[rows]
    alone = np.bincount(rows)[rows] == 1
    above = np.where(np.isnan(given), 0.0, given - m)
    one_alpha = np.where(alone, alpha[rows], above / variances)
    one_own = np.where(alone, own[rows], (1.0 - s2 / variances) / variances)
    return one_alpha / one_own, 1.0 / one_own


def matheron(factor: Factor) -> Matheron:
    """Return Matheron's rule for the observations of a factor."""
    seen = Embedding(factor.gp.kernel.action, factor.observed_actions, {})
    return Matheron(seen, factor.embedding(), factor.U, factor.white, factor.errors())
