"""The posterior of f given any observations, for actions and contexts anywhere.

In addition to the notation of `drbo.models.factor`:

    mean        k_t(z)' (K_t + ridge I)^-1 y
    variance    k(z, z) - k_t(z)' (K_t + ridge I)^-1 k_t(z)

This is the ridge regression of eq. (3) and its confidence width (appendix A of the paper) for any ridge. Mean and
variance are those of f itself, never of a noisy outcome.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular

from drbo import validation
from drbo.kernels import ConstantKernel, Product
from drbo.models.curve import Curve
from drbo.models.draws import Draw, DrawnErrors, Features, Matheron, Path, Prior, check_features, features_of
from drbo.models.factor import GrowingFactor
from drbo.models.observation import Embedding, Observation, Scatter
from drbo.spaces.space import Point
from drbo.validation import FloatArray

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
        """The value."""
        return self.value


class Posterior(GrowingFactor):
    """The posterior of f for actions anywhere, on a finite set of contexts and, through `curve`, in any context.

    Its attributes are those of `GrowingFactor`.
    """

    @property
    def n_data(self) -> int:
        """The number of observations of the data that this posterior holds."""
        return self.n_observations

    @property
    def amplitude(self) -> float:
        """The prior standard deviation of f."""
        return math.sqrt(self.gp.kernel.variance)

    @property
    def noise(self) -> float:
        """The standard deviation of the error of an outcome."""
        return self.gp.noise

    def moments(self, actions: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance (m, n_contexts) of f at actions (m, d_x) anywhere, in every context."""
        k_X = self.gp.kernel.action
        return self._moments(k_X(self.observed_actions, actions), np.full(len(actions), k_X.variance))

    def difference(self, actions: FloatArray, other: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance (m, n_contexts) of f(x, c) - f(other, c), for actions (m, d_x), other (d_x,).

        Both are of the joint posterior: the uncertainty about two similar actions is mostly shared, and cancels.
        """
        k_X, seen = self.gp.kernel.action, self.observed_actions
        k_other = k_X(seen, other[None, :])
        own = 2.0 * (k_X.variance - k_X(actions, other[None, :])[:, 0])
        return self._moments(k_X(seen, actions) - k_other, np.maximum(own, 0.0))

    def _moments(self, k_action: FloatArray, own: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance (m, n_contexts) of m linear functionals of f(., c), in every context c.

        `k_action` (t, m) is the action kernel of each with the observations, and `own` (m,) with itself.
        """
        m, n, t = len(own), len(self.contexts), self.n_points
        mean, variance = np.zeros((m, n)), np.repeat((own * self.gp.kernel.context.variance)[:, None], n, axis=1)
        if t == 0:
            return mean, variance
        block = max(2**18 // (t * n), 1)  # blocks of 2 MB stay in the cache
        k_action, k_contexts = np.ascontiguousarray(k_action.T), np.ascontiguousarray(self._k_contexts[:t].T)
        for start in range(0, m, block):
            rows = slice(start, start + block)
            white = self._made().whitened(k_action[rows, None, :] * k_contexts)
            mean[rows] = white @ self._white[:t]
            variance[rows] -= np.einsum("mnt,mnt->mn", white, white)
        return mean, np.maximum(variance, 0.0)

    def on_grid(self) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance (n_actions, n_contexts) of f on the grid of actions."""
        return self.moments(self.actions)

    def of_action(self, action: Point) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance (n_contexts,) of f for one action, in every context."""
        mean, variance = self.moments(action.coordinates[None, :])
        return mean[0], variance[0]

    def averages(self, actions: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return sum_j w_j mean(x, c_j) and sum_j w_j variance(x, c_j), each (m,), at actions (m, d_x) anywhere.

        With W'W = (K_t + ridge I)^-1 and weights that sum to one, both depend on k_X(x) (t,) alone, in O(t^2) per
        action:

            k_X(x)' (alpha * K_C w)      and      k(z, z) - k_X(x)' (W'W * K_C diag(w) K_C') k_X(x)

        The variance is exact to 1e-6 or better, relative to k(z, z), at a noise of 1e-4 of the amplitude.
        """
        t = self.n_points
        if t == 0:
            return np.zeros(len(actions)), np.full(len(actions), self.gp.kernel.variance)
        used = np.flatnonzero(weights)
        k_contexts, w = self._k_contexts[:t, used], weights[used]
        k = self.gp.kernel.action(self.observed_actions, actions)
        made = self._made()
        mean = (made.alpha * (k_contexts @ w)) @ k
        explained = np.einsum("ij,ij->j", k, made.times_product(k_contexts * w, k_contexts, k))
        return mean, np.maximum(self.gp.kernel.variance - explained, 0.0)

    def averaged(self, weights: FloatArray) -> Self:
        """Return the posterior of sum_j w_j f(x, c_j), weights w (n_contexts,), as for one context.

        Only `moments`, `on_grid`, `of_action`, `averages` and `gradient` are valid: the contexts are gone.
        """
        used = np.flatnonzero(weights)
        w, c = weights[used], self.contexts[used]
        k_X, k_C = self.gp.kernel.action, self.gp.kernel.context
        made = copy.copy(self)
        made.gp = self.gp.with_kernel(Product(k_X, _AverageKernel(float(w @ k_C(c, c) @ w))))
        made.contexts = np.zeros((1, c.shape[1]))
        made._k_contexts = np.empty((len(self._k_contexts), 1))
        made._k_contexts[: self.n_points] = self._k_contexts[: self.n_points, used] @ w[:, None]
        return made

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

    def _explained(
        self, actions: FloatArray, weights: FloatArray, rows: NDArray[np.intp], columns: NDArray[np.intp]
    ) -> FloatArray:
        """Return the part (p, m, k) of `covariance` that the observations explain."""
        t = self.n_points
        if t == 0:
            return np.zeros((len(rows), *weights.shape[:2]))
        k_action = np.ascontiguousarray(self.gp.kernel.action(self.observed_actions, actions).T)
        k_contexts = self._k_contexts[:t]
        averages = k_action[:, None, :] * (weights @ k_contexts.T)
        return self._common(k_action[rows] * k_contexts[:, columns].T, averages)

    def explained(self, points: FloatArray, places: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the explained part of the covariance (p, m, k) of f in contexts (p, d_c) with averages.

        The averages are of f in m groups of n contexts, places (m n, d_c), with weights (m, k, n). The action kernel
        must be constant, so actions do not matter.
        """
        embedding = self._embedding()
        m, _, n = weights.shape
        averages = weights @ embedding(places).T.reshape(m, n, -1)
        return self._common(np.ascontiguousarray(embedding(points).T), averages)

    def _common(self, points: FloatArray, averages: FloatArray) -> FloatArray:
        """Return k'(K_t + ridge I)^-1 k' (p, m, k) of kernels with the observations, (p, t) and (m, k, t); in place."""
        made = self._made()
        return np.tensordot(made.whitened(points), made.whitened(averages), axes=(1, 2))

    def scatter(self, observation: Observation) -> Scatter:
        """Return the scatter of f in one of an observation's contexts about their average."""
        kernel = self.gp.kernel
        return Scatter.of(kernel.context, observation.contexts, observation.weights, math.sqrt(kernel.action.variance))

    def gradient(self, action: FloatArray, weights: FloatArray, slope: float) -> FloatArray:
        """Return the gradient in x of sum_j w_j (mean + slope std)(x, c_j) at one action (d_x,), shape (d_x,).

        With u_j = (K_t + ridge I)^-1 k_t(x, c_j) and alpha = (K_t + ridge I)^-1 y, summed over the observations s:

            sum_s (alpha_s sum_j w_j k_C(c_s, c_j) - sum_j (slope w_j / std_j) u_js k_C(c_s, c_j)) dk_X(x, x_s) / dx
        """
        t = self.n_points
        if t == 0:
            return np.zeros_like(action)
        used = np.flatnonzero(weights)
        k_contexts, w = self._k_contexts[:t, used], weights[used]
        k_action = self.gp.kernel.action(self.observed_actions, action[None, :])[:, 0]
        made = self._made()
        white = made.whitened(k_action * np.ascontiguousarray(k_contexts.T))
        variance = self.gp.kernel.variance - np.einsum("jt,jt->j", white, white)
        std = np.sqrt(np.maximum(variance, 1e-12 * self.gp.kernel.variance))
        u = made.unwhitened(white).T
        per_point = made.alpha * (k_contexts @ w) - (u * k_contexts) @ (slope * w / std)
        return np.asarray(per_point @ self.gp.kernel.action.gradient(action[None], self.observed_actions)[0])

    def curve(self, action: FloatArray, slope: float) -> Curve:
        """Return mean + slope std of f(x, .) for one action (d_x,), as a function of any contexts."""
        t = self.n_points
        k_action = self.gp.kernel.action(self.observed_actions, action[None, :])[:, 0]
        whitening, white = self._whitening(), self._white[:t].copy()
        return Curve(self.gp.kernel, self.gp.ridge, k_action, self._embedding(), whitening, white, slope)

    def predict(self, actions: ArrayLike, contexts: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return the mean (m,) and variance (m,) of f at the points (x_i, c_i), actions (m, d_x), contexts (m, d_c)."""
        x, c = validation.points("actions", actions), validation.points("contexts", contexts)
        for name, given, own in (("actions", x, self._action_points), ("contexts", c, self._context_points)):
            if given.shape[1] != own.shape[1] or len(given) != len(x):
                raise ValueError(f"{name} must have shape ({len(x)}, {own.shape[1]}), got {given.shape}")
        return self._predict(x, c)

    def _predict(self, x: FloatArray, c: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the mean (m,) and variance (m,) of f at the points (x_i, c_i), of checked shapes."""
        t = self.n_points
        variance = np.full(len(x), self.gp.kernel.variance)
        if t == 0:
            return np.zeros(len(x)), variance
        k = self.gp.kernel.action(self.observed_actions, x) * self._embedding()(c)
        white = solve_triangular(self._U[:t, :t], k, trans="T", check_finite=False)
        variance -= np.einsum("ij,ij->j", white, white)
        return self._white[:t] @ white, np.maximum(variance, 0.0)

    def leave_one_out(self) -> tuple[FloatArray, FloatArray]:
        """Return for every observation the outcome minus its prediction from all others, and the variance.

        Both are (n_observations,); the variance is of the outcome, noise included. With Q the inverse of the covariance
        of all outcomes, they are (Q y)_i / Q_ii and 1 / Q_ii. If several observations share a row of average y and
        error variance v, f at its point has mean m = y - v (Q y) and variance s^2 = v - v^2 Q. An observation y_i with
        error variance v_i then has (Q y)_i = (y_i - m) / v_i and Q_ii = (1 - s^2 / v_i) / v_i.
        """
        W, t = self._whitening(), self.n_points
        alpha, own = self._white[:t] @ W, np.einsum("ij,ij->j", W, W)
        if t < self.n_observations:
            rows, v = np.array(self._log.rows[: self.n_observations]), self._variances[:t]
            m, s2 = (self._outcomes[:t] - v * alpha)[rows], (v - v**2 * own)[rows]
            alone = np.bincount(rows)[rows] == 1
            observations = self._log.observations[: self.n_observations]
            variances = np.array([self._error_variance(one) for one in observations])
            given = np.array([np.nan if one.outcome is None else one.outcome for one in observations])
            above = np.where(np.isnan(given), 0.0, given - m)
            alpha = np.where(alone, alpha[rows], above / variances)
            own = np.where(alone, own[rows], (1.0 - s2 / variances) / variances)
        return alpha / own, 1.0 / own

    # --- draws ------------------------------------------------------------------------------------------------------

    def draws(self, rng: np.random.Generator, count: int, actions: FloatArray | None = None) -> FloatArray:
        """Return joint draws of f (count, m, n_contexts) at actions (m, d_x) in all contexts.

        The default actions are the grid. Draws are exact for up to `features.EXACT` actions and as many contexts. They
        cost one Cholesky factor each of the actions, the contexts and the observations.
        """
        x = self.actions if actions is None else actions
        left, right = self._draw_features(rng, x, anywhere=False, between=False)
        most = left.count * max(right.count, len(self.contexts), self.n_points)
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

    def _draw_features(
        self, rng: np.random.Generator, actions: FloatArray, *, anywhere: bool, between: bool
    ) -> tuple[Features, Features]:
        """Return features of actions (m, d_x), and of the contexts of the posterior."""
        left = features_of(self.gp.kernel.action, actions, rng, anywhere=anywhere)
        return left, features_of(self.gp.kernel.context, self.contexts, rng, anywhere=between)

    def moved(self, prior: Prior, rng: np.random.Generator) -> Path:
        """Return draws of the posterior: draws of the prior, updated by the outcomes."""
        return self._matheron().path(prior, rng)

    def _matheron(self) -> Matheron:
        n, t = len(self.actions), self.n_points
        seen = Embedding(self.gp.kernel.action, self._action_points[n : n + t].copy(), {})
        errors = DrawnErrors(np.sqrt(self._variances[:t]), self._first[:t], self.gp.noise_correlation)
        return Matheron(seen, self._embedding(), self._U[:t, :t], self._white[:t], errors)
