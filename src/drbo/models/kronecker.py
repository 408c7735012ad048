"""Many evaluations in the same contexts: the posterior of thousands of outcomes in O(T^3 + k^3).

    X, C         the T actions and the k contexts of a block; every action was evaluated in every context
    Y            its outcomes                                                            (T, k)
    K_X, K_C     the kernels of X and of C; the amplitude of f is in K_C                  (T, T), (k, k)
    S            the covariance of the errors of one evaluation, s^2 I + t^2 11'          (k, k)
    Q, lambda    K_X = Q diag(lambda) Q'
    B, gamma     B'S B = I and B'K_C B = diag(gamma): the eigenvectors of K_C, whitened by S
    G            1 / (1 + lambda_i gamma_j)                                              (T, k)

The covariance of all outcomes is the Kronecker product K_X (x) K_C + I (x) S, and its inverse is

    (Q (x) B) diag(G) (Q (x) B)'.

With q(x) = Q'k_X(X, x) (T,) and b(c) = B'k_C(C, c) (k,), the posterior of f is

    mean      q(x)' (G * Q'Y B) b(c)                                       elementwise product
    Cov       k(z, z') - sum_ij q_i(x) q_i(x') G_ij b_j(c) b_j(c').

Outcomes outside the block and pending or failed evaluations are conditioned on one by one. The posterior of the block
is their prior, and their factor is the factor of its Schur complement.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, solve_triangular

from drbo.models.curve import Curve, Embedding
from drbo.models.data import Observation
from drbo.models.draws import Path, PathTerm, Prior
from drbo.models.factor import Factor, Process
from drbo.models.regression import GaussianPosterior, matheron
from drbo.validation import FloatArray

_AT_ONCE = 2**20
"""Largest number of entries of an intermediate result."""


@dataclass(frozen=True, eq=False)
class KroneckerFactors:
    """The two diagonalised factors of a block: Q (T, T), lambda (T,), B (k, k), gamma (k,), G (T, k)."""

    Q: FloatArray
    action_values: FloatArray
    B: FloatArray
    context_values: FloatArray
    G: FloatArray
    log_det_errors: float
    """log det S."""

    @classmethod
    def of(cls, K_X: FloatArray, K_C: FloatArray, ridge: float, correlation: float) -> Self:
        """Return the factors for kernels K_X (T, T) and K_C (k, k), and errors of variance `ridge`."""
        k = len(K_C)
        L = np.linalg.cholesky(ridge * ((1.0 - correlation) * np.eye(k) + correlation))
        half = solve_triangular(L, K_C, lower=True, check_finite=False)
        white = solve_triangular(L, half.T, lower=True, check_finite=False)
        gamma, V = eigh(0.5 * (white + white.T), driver="evd", check_finite=False)
        lam, Q = eigh(K_X, driver="evd", check_finite=False)
        lam, gamma = np.maximum(lam, 0.0), np.maximum(gamma, 0.0)
        B = solve_triangular(L, V, lower=True, trans="T", check_finite=False)
        return cls(Q, lam, B, gamma, 1.0 / (1.0 + np.outer(lam, gamma)), 2.0 * float(np.log(np.diag(L)).sum()))


class KroneckerPosterior(GaussianPosterior):
    """The posterior of a block of evaluations in the same contexts, which is the prior of those `on_top`."""

    def __init__(
        self,
        gp: Process,
        actions: FloatArray,
        contexts: FloatArray,
        block: tuple[FloatArray, FloatArray, FloatArray],
        n_data: int = 0,
        order: NDArray[np.intp] | None = None,
    ) -> None:
        """`block`: actions (T, d_x), contexts (k, d_c) and outcomes (T, k), in the model's units.

        `order` holds the index in the data of each outcome of the block, then of each observation on top; by default
        these are in order.
        """
        self.gp, self.actions, self.contexts = gp, actions, contexts
        self.amplitude, self.noise = math.sqrt(gp.kernel.variance), gp.noise
        self.n_data, self._order = n_data, order
        self.block_actions, self.block_contexts, y = block
        k_X, k_C = gp.kernel.action, gp.kernel.context
        self._factors = own = KroneckerFactors.of(
            k_X(self.block_actions, self.block_actions),
            k_C(self.block_contexts, self.block_contexts),
            gp.ridge,
            gp.noise_correlation,
        )
        self._shrunk = own.G * (own.Q.T @ y @ own.B)
        self.on_top = Factor(gp, actions[:0], contexts)
        self._q, self._b = np.empty((0, len(self.block_actions))), np.empty((0, len(self.block_contexts)))
        self._b_contexts = self._features(contexts)
        self._on_grid: tuple[FloatArray, FloatArray] | None = None

    # --- observations -----------------------------------------------------------------------------------------------

    def with_more(self, observations: Sequence[Observation]) -> Self:
        if not observations:
            return self
        made = copy.copy(self)
        made.on_top, made._on_grid = self.on_top.opened(), None
        for observation in observations:
            made._take_in(observation)
        made.on_top.close()
        return made

    def _take_in(self, observation: Observation) -> None:
        """Condition on one more observation."""
        k_action, k_context, own = self.on_top.kernels(observation, self.on_top.n_points)
        G = self._factors.G
        q = self._factors.Q.T @ self.gp.kernel.action(self.block_actions, observation.action[None, :])[:, 0]
        b = self._features(observation.contexts) @ observation.weights
        column = k_action * k_context - self._pairs(q) @ b
        if observation.outcome is not None:
            observation = replace(observation, outcome=observation.outcome - float(q @ self._shrunk @ b))
        self.on_top.append(observation, column, own - float((q * q) @ G @ (b * b)))
        self._q, self._b = np.vstack([self._q, q]), np.vstack([self._b, b])

    @property
    def n_observations(self) -> int:
        """The number of observations on top."""
        return self.on_top.n_observations

    @property
    def information_gain(self) -> float:
        """The information gain of all observations, as in `Factor`."""
        return self.on_top.information_gain - float(np.log(self._factors.G).sum())

    @property
    def errors_known(self) -> bool:
        """Whether any observation has a known standard error instead of the model's noise."""
        return self.on_top.errors_known

    @property
    def observed_actions(self) -> FloatArray:
        return np.concatenate([self.block_actions, self.on_top.observed_actions])

    def on(self, contexts: FloatArray) -> Self:
        return self._with(self.on_top.on(contexts), self._features(contexts))

    def averaged(self, weights: FloatArray) -> Self:
        """Return the posterior of sum_j w_j f(x, c_j), as for one context."""
        averaged = self.on_top.averaged(self._average(weights), weights)
        return self._with(averaged, self._b_contexts @ weights[:, None])

    def _with(self, on_top: Factor, b_contexts: FloatArray) -> Self:
        made = copy.copy(self)
        made.on_top, made.gp, made.contexts = on_top, on_top.gp, on_top.contexts
        made.amplitude = math.sqrt(made.gp.kernel.variance)
        made._b_contexts, made._on_grid = b_contexts, None
        return made

    def _features(self, contexts: FloatArray) -> FloatArray:
        """Return b(c) = B'k_C(C, c) of contexts (m, d_c), (k, m)."""
        return np.asarray(self._factors.B.T @ self.gp.kernel.context(self.block_contexts, contexts))

    def _pairs(self, q: FloatArray) -> FloatArray:
        """Return rows v_e (t, k): the block explains v_e'b(c) of Cov(f(x, c), observation e), for q = q(x) (T,)."""
        return np.asarray((self._q * q) @ self._factors.G * self._b)

    # --- queries ----------------------------------------------------------------------------------------------------

    def on_grid(self) -> tuple[FloatArray, FloatArray]:
        if self._on_grid is None:
            self._on_grid = self.moments(self.actions)
        return self._on_grid

    def _moments(
        self, actions: FloatArray, other: FloatArray | None, used: NDArray[np.intp] | slice = slice(None)
    ) -> tuple[FloatArray, FloatArray]:
        return self._moments_at(*self._action_kernels(actions, other), used)

    def _moments_at(
        self, k_action: FloatArray, own: FloatArray, used: NDArray[np.intp] | slice
    ) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance (m, k) of m linear functionals of f(., c), in the contexts `used` (k,)."""
        T, t, G = len(self.block_actions), self.on_top.n_points, self._factors.G
        b, k_contexts = self._b_contexts[:, used], self.on_top.k_contexts[:, used]
        q = self._factors.Q.T @ k_action[:T]
        mean = q.T @ (self._shrunk @ b)
        variance = (own * self.gp.kernel.context.variance)[:, None] - (q * q).T @ (G @ (b * b))
        if t:
            size = max(_AT_ONCE // (t * max(T, b.shape[1])), 1)
            for start in range(0, len(own), size):
                rows = slice(start, start + size)
                joint = (self._q[:, None, :] * q[:, rows].T) @ G * self._b[:, None, :]  # (t, rows, k)
                covariance = k_action[T:, rows, None] * k_contexts[:, None, :] - joint @ b
                white = np.tensordot(self.on_top.inverse().W, covariance, axes=1)
                mean[rows] += np.tensordot(self.on_top.white, white, axes=1)
                variance[rows] -= np.einsum("emn,emn->mn", white, white)
        return mean, np.maximum(variance, 0.0)

    def averages(self, actions: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return sum_j w_j mean(x, c_j) and sum_j w_j variance(x, c_j), each (m,), at actions (m, d_x) anywhere."""
        used = np.flatnonzero(weights)
        k_X = self.gp.kernel.action
        own = np.full(len(actions), k_X.variance)
        mean, variance = self._moments_at(k_X(self.observed_actions, actions), own, used)
        return mean @ weights[used], variance @ weights[used]

    def _explained(
        self, actions: FloatArray, weights: FloatArray, rows: NDArray[np.intp], columns: NDArray[np.intp]
    ) -> FloatArray:
        T, t, G = len(self.block_actions), self.on_top.n_points, self._factors.G
        k_action = self.gp.kernel.action(self.observed_actions, actions)
        q = (self._factors.Q.T @ k_action[:T]).T
        b = weights @ self._b_contexts.T  # of the averages, (m, k, n_block)
        by_pair = np.tensordot(q[:, None, :] * q, G, axes=1)  # (m, m, n_block)
        explained = np.einsum("pmj,mkj->pmk", by_pair[rows] * self._b_contexts.T[columns][:, None, :], b, optimize=True)
        if t:
            pairs = np.array([self._pairs(one) for one in q])  # (m, t, n_block)
            k_contexts = self.on_top.k_contexts
            of_points = k_action[T:].T[rows] * k_contexts[:, columns].T
            of_points -= np.einsum("ptj,jp->pt", pairs[rows], self._b_contexts[:, columns])
            of_averages = k_action[T:].T[:, None, :] * (weights @ k_contexts.T) - b @ pairs.transpose(0, 2, 1)
            W = self.on_top.inverse().W
            explained += np.tensordot(of_points @ W.T, of_averages @ W.T, axes=(1, 2))
        return np.asarray(explained)

    def gradient(self, action: FloatArray, weights: FloatArray, slope: float) -> FloatArray:
        """Return the gradient in x of sum_j w_j (mean + slope std)(x, c_j) at one action (d_x,), shape (d_x,).

        The sum depends on x through k_X(x, .) for the actions of the block, by q(x), and of the observations on top.
        """
        T, G = len(self.block_actions), self._factors.G
        k_X, observed = self.gp.kernel.action, self.observed_actions
        used = np.flatnonzero(weights)
        w, b, k_contexts = weights[used], self._b_contexts[:, used], self.on_top.k_contexts[:, used]
        k_action = k_X(observed, action[None, :])
        _, variance = self._moments_at(k_action, np.array([k_X.variance]), used)
        std = np.sqrt(np.maximum(variance[0], 1e-12 * self.gp.kernel.variance))
        v = slope * w / std  # twice the derivative of the sum in each variance
        q = self._factors.Q.T @ k_action[:T, 0]
        by_q = self._shrunk @ (b @ w) - q * (G @ ((b * b) @ v))
        W = self.on_top.inverse().W
        covariance = k_action[T:] * k_contexts - self._pairs(q) @ b
        by_covariance = np.outer(self.on_top.white @ W, w) - (W.T @ (W @ covariance)) * v
        by_q -= (self._q * ((self._b * (by_covariance @ b.T)) @ G.T)).sum(axis=0)
        per_point = np.concatenate([self._factors.Q @ by_q, (by_covariance * k_contexts).sum(axis=1)])
        return np.asarray(per_point @ k_X.gradient(action[None], observed)[0])

    def curve(self, action: FloatArray, slope: float) -> Curve:
        """Return mean + slope std of f(x, .) for one action (d_x,), as a function of any contexts.

        For one action the block is equivalent to k observations: with h_j = sum_i q_i(x)^2 G_ij its whitened kernel is
        sqrt(h_j) b_j(c), and its mean sum_j p_j b_j(c), p = (G * Q'Y B)'q(x), where |p_j| <= sqrt(h_j) |y|.
        """
        T, t = len(self.block_actions), self.on_top.n_points
        k_action = self.gp.kernel.action(self.observed_actions, action[None, :])[:, 0]
        q = self._factors.Q.T @ k_action[:T]
        root = np.sqrt((q * q) @ self._factors.G)
        p = q @ self._shrunk
        W, B = self.on_top.inverse().W, self._factors.B
        upper = np.concatenate([root[:, None] * B.T, np.zeros((len(root), t))], axis=1)
        lower = np.concatenate([-W @ (self._pairs(q) @ B.T), W * k_action[T:]], axis=1)
        white = np.concatenate([np.divide(p, root, out=np.zeros_like(p), where=root > 0.0), self.on_top.white])
        embedding = self.on_top.embedding()
        both = Embedding(
            self.gp.kernel.context,
            np.concatenate([self.block_contexts, embedding.points]),
            {len(root) + i: average for i, average in embedding.averages.items()},
        )
        whitening = np.concatenate([upper, lower])
        return Curve(self.gp.kernel, self.gp.ridge, np.ones(len(white)), both, whitening, white, slope)

    def moved(self, prior: Prior, rng: np.random.Generator) -> Path:
        """Return draws of the posterior: draws of the prior, updated by the block, then by the observations on top."""
        own, r = self._factors, self.gp.noise_correlation
        Q, B, G, q, b = own.Q, own.B, own.G, self._q, self._b
        drawn = prior.left(self.block_actions).T @ prior.weights @ prior.right(self.block_contexts)
        alone, shock = rng.standard_normal(drawn.shape), rng.standard_normal((*drawn.shape[:-1], 1))
        drawn = drawn + self.gp.noise * (math.sqrt(1.0 - r) * alone + math.sqrt(r) * shock)
        known = G * (Q.T @ drawn @ B)  # for the draw; `_shrunk` is the same for the outcomes
        on_top = matheron(self.on_top)
        values = on_top.values(prior, rng) - (q @ known * b).sum(axis=-1)
        update = on_top.update(values + on_top.errors.drawn(rng, prior.shape))
        shrunk = self._shrunk - known - G * ((update.weights[..., :, None] * q).swapaxes(-1, -2) @ b)
        block_x = Embedding(self.gp.kernel.action, self.block_actions, {})
        block_c = Embedding(self.gp.kernel.context, self.block_contexts, {})
        return Path((prior, PathTerm(block_x, Q @ shrunk @ B.T, block_c), update))

    def leave_one_out(self) -> tuple[FloatArray, FloatArray]:
        """Return for every observation the outcome minus its prediction from all others, and the variance.

        Both are (T k + t,), in the order told.
        """
        own, W = self._factors, self.on_top.inverse().W
        alpha, diagonal = self.on_top.white @ W, np.einsum("ij,ij->j", W, W)
        Z = own.G * self._q[:, :, None] * self._b[:, None, :]
        b = own.Q @ (self._shrunk - np.tensordot(alpha, Z, axes=1)) @ own.B.T
        in_block = (own.Q * own.Q) @ own.G @ (own.B * own.B).T  # diagonal of the inverse, without observations on top
        for row in np.tensordot(W, Z, axes=1):
            in_block += np.square(own.Q @ row @ own.B.T)
        inverse = np.concatenate([in_block.ravel(), diagonal])
        back = slice(None) if self._order is None else np.argsort(self._order)
        return (np.concatenate([b.ravel(), alpha]) / inverse)[back], (1.0 / inverse)[back]

    def _predict(self, x: FloatArray, c: FloatArray) -> tuple[FloatArray, FloatArray]:
        T, t, G = len(self.block_actions), self.on_top.n_points, self._factors.G
        k_action = self.gp.kernel.action(self.observed_actions, x)
        q, b = self._factors.Q.T @ k_action[:T], self._features(c)
        mean = np.einsum("jm,jm->m", self._shrunk.T @ q, b)
        variance = self.gp.kernel.variance - np.einsum("jm,jm->m", G.T @ (q * q), b * b)
        if t:
            covariance = k_action[T:] * self.on_top.embedding()(c)
            for e in range(t):
                covariance[e] -= np.einsum("jm,jm->m", G.T @ (self._q[e, :, None] * q), self._b[e, :, None] * b)
            white = self.on_top.inverse().W @ covariance
            mean = mean + self.on_top.white @ white
            variance -= np.einsum("em,em->m", white, white)
        return mean, np.maximum(variance, 0.0)
