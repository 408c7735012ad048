"""The Gaussian process model of f: an exact posterior on actions x contexts, updated one observation at a time.

    k_t(z)   kernel of z = (x, c) with the t points observed      (t,)
    U        Cholesky factor, U'U = K_t + ridge I                  (t, t)     ridge = noise^2
    W        U'^-1, so that W'W = (K_t + ridge I)^-1               (t, t)
    b        (K_t + ridge I)^-1 k_t(z_new)                        (t,)
    mean     k_t(z)' (K_t + ridge I)^-1 y                         (n_actions, n_contexts)
    variance k(z, z) - k_t(z)' (K_t + ridge I)^-1 k_t(z)          (n_actions, n_contexts)

This is the ridge regression of eq. (3) and its confidence width (appendix A of the paper) for any ridge. Mean and
variance are those of f itself, never of a noisy outcome.

A new observation changes both by a rank-one term, for which we need the posterior covariance of every grid point with
the new one. With a product kernel that is one small matrix product,

    cov = k_X(:, x) k_C(c, :) - K_X[:, S] diag(b) K_C[S, :],       S: the points observed,

so that no (t, n_actions n_contexts) matrix is ever kept: memory is O(n_actions n_contexts).
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular

from drbo import validation
from drbo._compiled import announce, jit
from drbo.kernels import Product
from drbo.models._cholesky import append_point, solve
from drbo.validation import FloatArray


@dataclass(frozen=True)
class GP:
    """A Gaussian process prior of mean zero on actions x contexts, with fixed hyper-parameters.

    Parameters
    ----------
    kernel : the covariance of f, a product of an action kernel and a context kernel
    noise : the standard deviation of the noise of an outcome y = f(x, c) + noise * N(0, 1)
    """

    kernel: Product
    noise: float

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, Product):
            raise TypeError(f"kernel must be a Product(action kernel, context kernel), got {self.kernel!r}")
        object.__setattr__(self, "noise", validation.positive_float("noise", self.noise))
        if self.ridge < 1e-14 * self.kernel.variance:
            least = 1e-7 * math.sqrt(self.kernel.variance)
            raise ValueError(f"noise must be at least 1e-7 of the kernel's amplitude, {least:.3g}, got {self.noise}")

    @property
    def ridge(self) -> float:
        """The noise variance: the ridge of the regression of which the posterior mean is the solution."""
        return self.noise**2

    def prior(self, actions: ArrayLike, contexts: ArrayLike) -> GridPosterior:
        """Return the posterior of no observation on the grid actions (n_actions, d_x) x contexts (n_contexts, d_c)."""
        x = validation.frozen(validation.points("actions", actions))
        c = validation.frozen(validation.points("contexts", contexts))
        self.kernel.action(x[:1], x[:1]), self.kernel.context(c[:1], c[:1])  # do the lengthscales fit the points?
        return GridPosterior(self, x, c)

    def prior_off_grid(self, dimension: int, contexts: ArrayLike) -> GridPosterior:
        """Return the posterior of no observation for actions anywhere in R^dimension, in the contexts given."""
        nowhere = np.empty((0, dimension))
        self.kernel.action(np.zeros((1, dimension)), np.zeros((1, dimension)))  # do the lengthscales fit?
        return GridPosterior(self, nowhere, validation.frozen(validation.points("contexts", contexts)))


class GridPosterior:
    """The posterior of a GP on a grid; the observations may lie anywhere.

    Attributes
    ----------
    mean, variance : (n_actions, n_contexts) of f on the grid; `variance` is never negative
    n_observations : how many observations it holds
    information_gain : log det(I + K_t / ridge) of the observations (eq. 4 without the maximum)
    """

    def __init__(self, gp: GP, actions: FloatArray, contexts: FloatArray) -> None:
        self.gp = gp
        self.actions = actions
        self.contexts = contexts
        self.mean = np.zeros((len(actions), len(contexts)))
        self.variance = np.full_like(self.mean, gp.kernel.variance)
        self.n_observations = 0
        self.information_gain = 0.0
        room = 16
        # The grid, and below it what was observed: a new observation's kernel with both is one call.
        self._action_points = np.concatenate([actions, np.empty((room, actions.shape[1]))])
        self._context_points = np.concatenate([contexts, np.empty((room, contexts.shape[1]))])
        self._k_actions = np.empty((room, len(actions)))  # k_X(observed, grid)
        self._k_contexts = np.empty((room, len(contexts)))  # k_C(observed, grid)
        self._U = np.zeros((room, room))
        self._white = np.empty(room)  # U'^-1 y
        self._covariance = np.empty_like(self.mean)
        self._inverse: FloatArray | None = None  # of U', once somebody asks for it

    @property
    def std(self) -> FloatArray:
        """The posterior standard deviation of f on the grid, (n_actions, n_contexts)."""
        return np.sqrt(self.variance)

    @property
    def _observed_actions(self) -> FloatArray:
        return self._action_points[len(self.actions) :][: self.n_observations]

    @property
    def _observed_contexts(self) -> FloatArray:
        return self._context_points[len(self.contexts) :][: self.n_observations]

    def copy(self) -> Self:
        """Return an independent posterior of the same observations."""
        return copy.deepcopy(self)

    def observe(self, action: FloatArray, context: FloatArray, outcome: float) -> None:
        """Take in the outcome of action (d_x,) in context (d_c,)."""
        x = validation.finite_array("action", action, ndim=1)
        c = validation.finite_array("context", context, ndim=1)
        self._take_in(x, c, validation.finite_float("outcome", outcome))

    def anticipate(self, action: FloatArray, context: FloatArray) -> None:
        """Take in an evaluation that is under way, as if it gave its posterior mean: only the variance changes."""
        self._take_in(action, context, None)

    def anticipate_average(self, action: FloatArray, weights: FloatArray) -> None:
        """Take in an evaluation that is under way in an unknown context, distributed as `weights` (n_contexts,).

        It counts as an observation of the average sum_j w_j f(x, c_j), the linear functional whose kernel is the mean
        embedding of the weights: k_C(c, w) = sum_j w_j k_C(c, c_j).
        """
        t, n, m = self.n_observations, *self.mean.shape
        k_X, k_C = self.gp.kernel.action, self.gp.kernel.context
        support = weights > 0.0
        embedding = weights[support] @ k_C(self.contexts[support], self.contexts)
        k_action = k_X(action[None, :], self._action_points[: n + t])[0]
        own = k_X.variance * float(embedding @ weights)
        self._append(k_action[:n], embedding, k_action[n:] * (self._k_contexts[:t] @ weights), own, None)
        self._action_points[n + t] = action
        self._context_points[m + t] = math.nan  # no single context: only further averages may follow

    def over_contexts(self, actions: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance (m, n_contexts) of f at actions (m, d_x) anywhere, in every context of the grid."""
        m, n, t = len(actions), len(self.contexts), self.n_observations
        mean, variance = np.zeros((m, n)), np.full((m, n), self.gp.kernel.variance)
        if t == 0:
            return mean, variance
        k_action = self.gp.kernel.action(self._observed_actions, actions)
        block = max(2**18 // (t * n), 1)  # 2 MB at a time: they stay in the cache
        for start in range(0, m, block):
            rows = slice(start, start + block)
            k = k_action[:, rows, None] * self._k_contexts[:t, None, :]
            white = self._whitening() @ k.reshape(t, -1)
            mean[rows] = (self._white[:t] @ white).reshape(-1, n)
            variance[rows] -= np.einsum("ij,ij->j", white, white).reshape(-1, n)
        return mean, np.maximum(variance, 0.0)

    def averages(self, actions: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return sum_j w_j mean(x, c_j) and sum_j w_j variance(x, c_j), each (m,), at actions (m, d_x) anywhere.

        With W'W = (K_t + ridge I)^-1 and weights that sum to one, both from k_X(x) (t,) alone, in O(t^2) an action:

            k_X(x)' (alpha * K_C w)      and      k(z, z) - k_X(x)' (W'W * K_C diag(w) K_C') k_X(x)

        The latter is exact to 1e-6 or better, relative to k(z, z), at a noise of 1e-4 of the amplitude.
        """
        t = self.n_observations
        used = np.flatnonzero(weights)
        k_contexts, w = self._k_contexts[:t, used], weights[used]
        k = self.gp.kernel.action(self._observed_actions, actions)
        W = self._whitening()
        mean = (self._white[:t] @ W * (k_contexts @ w)) @ k
        explained = np.einsum("ij,ij->j", k, (W.T @ W * ((k_contexts * w) @ k_contexts.T)) @ k)
        return mean, np.maximum(self.gp.kernel.variance - explained, 0.0)

    def gradient(self, action: FloatArray, weights: FloatArray, beta: float) -> FloatArray:
        """Return the gradient in x of sum_j w_j (mean + beta std)(x, c_j) at one action (d_x,), shape (d_x,).

        With u_j = (K_t + ridge I)^-1 k_t(x, c_j) and alpha = (K_t + ridge I)^-1 y, summed over the points observed:

            sum_s (alpha_s sum_j w_j k_C(c_s, c_j) - sum_j (beta w_j / std_j) u_js k_C(c_s, c_j)) dk_X(x, x_s) / dx
        """
        t = self.n_observations
        if t == 0:
            return np.zeros_like(action)
        used = np.flatnonzero(weights)
        k_contexts, w = self._k_contexts[:t, used], weights[used]
        k = self.gp.kernel.action(self._observed_actions, action[None, :]) * k_contexts
        W = self._whitening()
        white = W @ k
        variance = self.gp.kernel.variance - np.einsum("ij,ij->j", white, white)
        std = np.sqrt(np.maximum(variance, 1e-12 * self.gp.kernel.variance))
        alpha, u = self._white[:t] @ W, W.T @ white
        per_point = alpha * (k_contexts @ w) - (u * k_contexts) @ (beta * w / std)
        return np.asarray(per_point @ self.gp.kernel.action.gradient(action[None], self._observed_actions)[0])

    def curve(self, action: FloatArray, beta: float) -> Curve:
        """Return the bound mean + beta std of f(x, .) for one action (d_x,), to be called with contexts anywhere."""
        if not np.isfinite(self._observed_contexts).all():
            raise ValueError("a posterior with averages over contexts has no curve: it knows its own contexts only")
        k_action = self.gp.kernel.action(self._observed_actions, action[None, :])[:, 0]
        return Curve(self, k_action, beta)

    def predict(self, actions: ArrayLike, contexts: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return the mean (m,) and variance (m,) of f at the points (x_i, c_i), actions (m, d_x), contexts (m, d_c)."""
        x, c = validation.points("actions", actions), validation.points("contexts", contexts)
        for name, given, own in (("actions", x, self.actions), ("contexts", c, self.contexts)):
            if given.shape[1] != own.shape[1] or len(given) != len(x):
                raise ValueError(f"{name} must have shape ({len(x)}, {own.shape[1]}), got {given.shape}")
        t = self.n_observations
        variance = np.full(len(x), self.gp.kernel.variance)
        if t == 0:
            return np.zeros(len(x)), variance
        k_X, k_C = self.gp.kernel.action, self.gp.kernel.context
        k = k_X(self._observed_actions, x) * k_C(self._observed_contexts, c)
        white = solve_triangular(self._U[:t, :t], k, trans="T", check_finite=False)
        variance -= np.einsum("ij,ij->j", white, white)
        return self._white[:t] @ white, np.maximum(variance, 0.0)

    def _take_in(self, action: FloatArray, context: FloatArray, outcome: float | None) -> None:
        t, n, m = self.n_observations, *self.mean.shape
        k_action = self.gp.kernel.action(action[None, :], self._action_points[: n + t])[0]
        k_context = self.gp.kernel.context(context[None, :], self._context_points[: m + t])[0]
        self._append(k_action[:n], k_context[:m], k_action[n:] * k_context[m:], self.gp.kernel.variance, outcome)
        self._action_points[n + t] = action
        self._context_points[m + t] = context

    def _append(
        self, k_action: FloatArray, k_context: FloatArray, cross: FloatArray, own: float, outcome: float | None
    ) -> None:
        """Condition on one more linear functional of f, given its kernel with the grid and the earlier ones.

        No outcome stands for the posterior mean.
        """
        t = self.n_observations
        if t == len(self._white):
            self._grow()
        ridge = self.gp.ridge
        announce(append_point)
        pivot = append_point(self._U, t, cross, own + ridge, ridge)
        k_white = self._U[:t, t]  # U'^-1 k_t(z_new)
        innovation = 0.0 if outcome is None else outcome - float(k_white @ self._white[:t])
        self._white[t] = innovation / self._U[t, t]
        b = solve(self._U, t, k_white)
        np.matmul(self._k_actions[:t].T, b[:, None] * self._k_contexts[:t], out=self._covariance)
        _rank_one(self.mean, self.variance, self._covariance, k_action, k_context, pivot, innovation)
        self._k_actions[t] = k_action
        self._k_contexts[t] = k_context
        self.information_gain += math.log(pivot / ridge)
        self.n_observations = t + 1
        self._inverse = None

    def _whitening(self) -> FloatArray:
        """Return W = U'^-1 (t, t), kept until the next observation: a product is several times faster than a solve."""
        if self._inverse is None:
            t = self.n_observations
            if t == 0:  # scipy 1.13 solves nothing without rows
                self._inverse = np.empty((0, 0))
            else:
                self._inverse = solve_triangular(self._U[:t, :t], np.eye(t), check_finite=False).T
        return self._inverse

    def _grow(self) -> None:
        """Double the room for observations."""
        room = len(self._white)
        for name in ("_action_points", "_context_points", "_k_actions", "_k_contexts", "_white"):
            old = getattr(self, name)
            setattr(self, name, np.concatenate([old, np.empty((room, *old.shape[1:]))]))
        U = np.zeros((2 * room, 2 * room))
        U[:room, :room] = self._U
        self._U = U


class Curve:
    """The bound v(c) = mean + beta std of f(x, .) for one action x, in any context, and in whole cells of contexts."""

    def __init__(self, posterior: GridPosterior, k_action: FloatArray, beta: float) -> None:
        t = posterior.n_observations
        self._kernel = posterior.gp.kernel
        self._contexts = posterior._observed_contexts.copy()
        self._k_action, self.beta, self._ridge = k_action, beta, posterior.gp.ridge
        self._W, self._white = posterior._whitening(), posterior._white[:t].copy()
        # Where the ridge is tiny, W is huge and its products cancel: a bound allows for what rounding leaves of them.
        epsilon = 2.0 * np.finfo(float).eps
        k_observed = self._kernel.context(self._contexts, self._contexts)
        a, sizes = k_action * (self._white @ self._W), k_action * (np.abs(self._white) @ np.abs(self._W))
        square = float(a @ k_observed @ a) + t * epsilon * float(sizes @ k_observed @ sizes)
        # |m|^2 = a' K_C a <= k_X y' (K_t + ridge I)^-1 y
        self._mean_norm = math.sqrt(min(square, self._kernel.action.variance * float(self._white @ self._white)))
        k_0 = self._kernel.context.variance
        self._mean_rounding = epsilon * k_0 * float(sizes.sum())
        off = epsilon * k_0 * float(np.linalg.norm(np.abs(self._W) @ k_action))  # of U'^-1 k_t(x, c), as a vector
        self._variance_rounding = 2.0 * off / math.sqrt(self._kernel.variance) + epsilon  # as a share of the prior's
        self.steepness = np.sqrt(np.broadcast_to(self._kernel.context.curvature, self._contexts.shape[1]))

    def __call__(self, contexts: FloatArray) -> FloatArray:
        """Return the bound (m,) in contexts (m, d_c)."""
        white = self._whitened(self._kernel.context(self._contexts, contexts))
        return np.asarray(self._white @ white + self.beta * np.sqrt(self._unexplained(white)))

    def variance(self, contexts: FloatArray) -> FloatArray:
        """Return the variance of f alone (m,) in contexts (m, d_c)."""
        return self._unexplained(self._whitened(self._kernel.context(self._contexts, contexts)))

    def information(self, contexts: FloatArray, atoms: FloatArray, weights: FloatArray) -> FloatArray:
        """Return by how much an outcome in each context (m, d_c) would lower the variance of g = sum_j w_j f(x, a_j).

        Cov(f(x, c), g)^2 / (variance(x, c) + ridge), (m,), for atoms (n, d_c) of weights (n,).
        """
        k_C = self._kernel.context
        white = self._whitened(k_C(self._contexts, contexts))
        explained = (self._whitened(k_C(self._contexts, atoms)) @ weights) @ white
        prior = self._kernel.action.variance * (k_C(contexts, atoms) @ weights)
        return np.asarray((prior - explained) ** 2 / (self._unexplained(white) + self._ridge))

    def lowest(self, centres: FloatArray, halves: FloatArray, tilt: FloatArray) -> FloatArray:
        """Return a lower bound (m,) of v(c) - tilt'(c - centre) over the cells |c - centre| <= half, for beta <= 0.

        Mean and deviation are an inner product <m, phi(c)> and a norm |S phi(c)|, S <= I, of the same feature of c.
        With its tangent phi(c) = phi(centre) + D_s phi + rest, s = c - centre, and |rest| <= `linear_error`(half),

            mean(c) >= mean + grad mean's - |m| |rest|
            std(c)  <= |S (phi + D_s phi)| + |rest|,   a root of q(s) = var + 2 cov(f, grad f)'s + s' Cov(grad f) s

        where s' Cov s <= half' |Cov| half = R^2, so sqrt(q(s)) <= std + cov's / std + R^2 / (2 std), or <= std + R,
        or std(c) <= the prior's, whichever serves best; what is linear in s is least in a corner.
        """
        m, d = centres.shape
        k_C = self._kernel.context
        white = self._whitened(k_C(self._contexts, centres))
        slope = -k_C.gradient(self._contexts, centres)  # of k_C(c_s, c) in c
        white_slope = self._whitened(slope.reshape(len(slope), m * d)).reshape(-1, m, d)
        std = np.sqrt(self._unexplained(white) + self._variance_rounding * self._kernel.variance)
        covariance = -np.einsum("sj,sjk->jk", white, white_slope)
        prior = self._kernel.action.variance * np.broadcast_to(k_C.curvature, d)
        by_cell = white_slope.transpose(1, 2, 0)
        spread = np.abs(np.diag(prior) - by_cell @ by_cell.transpose(0, 2, 1))
        reach2 = np.einsum("jk,jkl,jl->j", halves, spread, halves)
        reach2 += self._variance_rounding * (halves @ np.sqrt(prior)) ** 2
        linear = np.einsum("s,sjk->jk", self._white, white_slope) - tilt
        joint = -(np.abs(linear + self.beta * covariance / std[:, None]) * halves).sum(axis=1)
        joint += self.beta * (std + reach2 / (2.0 * std))
        apart = -(np.abs(linear) * halves).sum(axis=1)
        rest = k_C.linear_error(halves)
        deviating = np.maximum(joint, apart + self.beta * (std + np.sqrt(reach2)))
        deviating += self.beta * math.sqrt(self._kernel.action.variance) * rest
        known = self._white @ white - self._mean_norm * rest - self._mean_rounding
        return np.asarray(known + np.maximum(deviating, apart + self.beta * math.sqrt(self._kernel.variance)))

    def _whitened(self, k_context: FloatArray) -> FloatArray:
        """Return U'^-1 k_t for columns k_C (t, m) of the kernel, (t, m)."""
        return self._W @ (self._k_action[:, None] * k_context)

    def _unexplained(self, white: FloatArray) -> FloatArray:
        """Return the variance (m,) that the outcomes leave, for whitened columns (t, m)."""
        return np.asarray(np.maximum(self._kernel.variance - np.einsum("ij,ij->j", white, white), 0.0))


@jit
def _rank_one(
    mean: FloatArray,
    variance: FloatArray,
    explained: FloatArray,
    k_action: FloatArray,
    k_context: FloatArray,
    pivot: float,
    innovation: float,
) -> None:
    """Update mean and variance in place by the covariance with a new observation, prior less explained."""
    for i in range(mean.shape[0]):
        for j in range(mean.shape[1]):
            covariance = k_action[i] * k_context[j] - explained[i, j]
            mean[i, j] += covariance * (innovation / pivot)
            variance[i, j] = max(variance[i, j] - covariance * (covariance / pivot), 0.0)
