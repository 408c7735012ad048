"""The Gaussian process model of f: its configuration, and the posterior of any observations.

    z = (x, c)  an action and a context; k(z, z') = k_X(x, x') k_C(c, c')
    k_t(z)      kernel of z with the t observations                (t,)
    U           Cholesky factor, U'U = K_t + ridge I               (t, t)     ridge = noise^2
    W           U'^-1, so that W'W = (K_t + ridge I)^-1            (t, t)
    white       U'^-1 y                                            (t,)
    mean        k_t(z)' (K_t + ridge I)^-1 y
    variance    k(z, z) - k_t(z)' (K_t + ridge I)^-1 k_t(z)

Where the errors of the observations differ or are correlated, ridge I is their covariance (`drbo.models.outcomes`).
This is the ridge regression of eq. (3) and its confidence width (appendix A of the paper) for any ridge. Mean and
variance are those of f itself, never of a noisy outcome.

An observation is an action, context points and weights. One point of weight 1 is an outcome in that context. Several
points are an average over contexts, sum_j w_j f(x, c_j), whose kernel is the mean embedding of the weights,
k_C(c, w) = sum_j w_j k_C(c, c_j).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import blas, lapack, solve_triangular

from drbo import validation
from drbo._compiled import announce
from drbo.kernels import ConstantKernel, Kernel, Product
from drbo.models._cholesky import LANES, append_point, append_points
from drbo.models.curve import Curve
from drbo.models.features import Features, check_features, features_of
from drbo.models.observation import Embedding, Observation, Scatter
from drbo.models.outcomes import LARGEST_ERROR, LEAST_ERROR, Outcomes
from drbo.models.path import Draw, Errors, Matheron, Path, Prior
from drbo.models.units import Units
from drbo.spaces.space import AnySpace, Point
from drbo.validation import FloatArray

BLOCK = 32
"""How many observations are taken in at once where there are many: their columns of U stay in the cache."""
_AT_ONCE = 2**23
"""So many weights of draws are in memory at once, 64 MB."""


@dataclass(frozen=True)
class GP:
    """A Gaussian process prior of mean zero on actions x contexts, with fixed hyper-parameters.

    Parameters
    ----------
    kernel : the covariance of f, a product of an action kernel and a context kernel
    noise : the standard deviation of the noise of an outcome, y = offset + scale (f(x, c) + noise * N(0, 1))
    offset, scale : the units of the outcomes, if the kernel is not in them; fixed beforehand, from a pilot for instance
    noise_correlation : the correlation of the errors of two outcomes of one evaluation, from 0 to below 1. It is the
        share of the noise variance that one shock, common to all outcomes of the evaluation, brings: t^2 / (s^2 + t^2)
        for errors of covariance s^2 I + t^2 11', where noise^2 = s^2 + t^2. Outcomes told alone do not depend on it
    """

    kernel: Product
    noise: float
    offset: float = 0.0
    scale: float = 1.0
    noise_correlation: float = 0.0
    learns: ClassVar[bool] = False
    """Whether anything is learned from the outcomes."""
    certificate_width: ClassVar[float] = 0.0
    """The least width of a certificate by default; a width that is given is as good as the kernel that is."""

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, Product):
            raise TypeError(f"kernel must be a Product(action kernel, context kernel), got {self.kernel!r}")
        object.__setattr__(self, "noise", validation.positive_float("noise", self.noise))
        object.__setattr__(self, "offset", validation.finite_float("offset", self.offset))
        object.__setattr__(self, "scale", validation.positive_float("scale", self.scale))
        object.__setattr__(
            self, "noise_correlation", validation.finite_float("noise_correlation", self.noise_correlation)
        )
        if not 0.0 <= self.noise_correlation < 1.0:
            raise ValueError(f"noise_correlation must be from 0 to below 1, got {self.noise_correlation}")
        if self.noise > 1e100:
            raise ValueError(f"noise must not exceed 1e100, got {self.noise}")
        least = 1e-7 * math.sqrt(self.kernel.variance)
        if self.noise < (1.0 - 1e-9) * least:
            raise ValueError(f"noise must be at least 1e-7 of the kernel's amplitude, {least:.3g}, got {self.noise}")
        if self.noise * math.sqrt(1.0 - self.noise_correlation) < (1.0 - 1e-9) * least:
            raise ValueError(
                f"noise_correlation must leave every outcome an error of its own of at least {least:.3g}, 1e-7 of the "
                f"kernel's amplitude, got {self.noise_correlation} with noise {self.noise}"
            )

    @property
    def ridge(self) -> float:
        """The noise variance: the ridge of the regression of which the posterior mean is the solution."""
        return self.noise**2

    def adapted(self, space: AnySpace) -> AnySpace:
        """Return the space with the coordinates that the model needs: those of the space itself."""
        return space

    def first_fit(self, d_x: int, d_c: int, sign: float) -> FittedGP:
        """Return the model itself, for actions of d_x and contexts of d_c coordinates: nothing is learned.

        `sign` is -1 if outcomes are minimised: the model maximises, so the offset changes its sign with them.
        """
        self.check(d_x, d_c)
        return FittedGP(self, sign * self.offset, self.scale, 0.0)

    def of_actions(self) -> Self:
        """Return the model itself, of an f that depends on a perturbed action alone; raise if contexts matter to it."""
        if not isinstance(self.kernel.context, ConstantKernel):
            raise TypeError(
                "surrogate must have the kernel Product(action kernel, drbo.ConstantKernel()) where contexts are a "
                f"Perturbation: f is a function of the perturbed action alone, got {self.kernel!r}"
            )
        return self

    def due(self, n_outcomes: int, last: FittedGP) -> bool:
        """Return False: there is nothing to learn anew."""
        del n_outcomes, last
        return False

    def refit(self, outcomes: Outcomes, last: FittedGP) -> FittedGP:
        """Return the last fit: hyper-parameters are fixed."""
        del outcomes
        return last

    def check(self, d_x: int, d_c: int) -> None:
        """Raise if the kernels are not for actions of d_x and contexts of d_c coordinates."""
        self.kernel.action(np.zeros((1, d_x)), np.zeros((1, d_x)))
        self.kernel.context(np.zeros((1, d_c)), np.zeros((1, d_c)))


@dataclass(frozen=True)
class FittedGP:
    """A GP on standardised outcomes, where outcome = offset + scale * standardised outcome, to be maximised.

    Attributes
    ----------
    gp : the model, in standardised units
    offset, scale : of the standardisation
    log_posterior : log p(y, theta) of `drbo.models.learned` at the hyper-parameters of `gp`; parameters that were not
        learned are left out of the prior
    n_outcomes : how many outcomes the model was learned from
    known : False as long as the scale of the outcomes is to be learned, and there is none yet
    """

    gp: GP
    offset: float
    scale: float
    log_posterior: float
    n_outcomes: int = 0
    known: bool = True

    def units(self, sign: float) -> Units:
        """Return the units of the outcomes, `sign` = 1 if they are maximised."""
        return Units(sign, self.offset, self.scale, self.known)

    def standardise(self, outcomes: ArrayLike) -> FloatArray:
        """Return (outcomes - offset) / scale, the outcomes as `gp` takes them, of the same shape."""
        return np.asarray((validation.finite_array("outcomes", outcomes) - self.offset) / self.scale)


@dataclass(frozen=True)
class _AverageKernel(Kernel):
    """The context kernel of one average over contexts with itself, sum_ij w_i w_j k_C(c_i, c_j) = `value`."""

    value: float

    def __call__(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """Return the value everywhere, shape (n, m)."""
        return np.full((len(a), len(b)), self.value)

    def gradient(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """Return zeros, shape (n, m, d)."""
        return np.zeros((len(a), len(b), a.shape[1]))

    @property
    def curvature(self) -> FloatArray:
        """The variance of each partial derivative, 0."""
        return np.zeros(1)

    @property
    def variance(self) -> float:
        """The value."""
        return self.value


class Inverse:
    """(K_t + ridge I)^-1 of t observations in the forms that answers need, each made when it is first asked for.

    Attributes
    ----------
    W : (t, t) U'^-1, lower triangular
    alpha : (t,) W'W y
    """

    def __init__(self, U: FloatArray, white: FloatArray) -> None:
        """`U` (t, t) and `white` (t,) may change afterwards."""
        self.W: FloatArray = np.array(U).T
        if len(U):  # the inverse of U' rather than of U: W U' is then closer to I, and so is W k to what k whitens to
            self.W, _ = lapack.dtrtri(self.W, lower=1, overwrite_c=1)
        self.alpha: FloatArray = white @ self.W

    def __deepcopy__(self, memo: Any) -> Self:
        """Return the inverse itself: nobody changes it."""
        del memo
        return self

    @cached_property
    def lower(self) -> FloatArray:
        """The lower triangle of W'W (t, t), with zeros above it."""
        return np.asarray(lapack.dlauum(self.W, lower=1)[0])

    def times_product(self, a: FloatArray, b: FloatArray, k: FloatArray) -> FloatArray:
        """Return (W'W * a b') k for columns k (t, m), elementwise product, where a b' is symmetric."""
        product = (b @ a.T).T  # by columns, as LAPACK wants it
        product *= self.lower
        return np.asarray(blas.dsymm(1.0, product, k, lower=1))

    def whitened(self, rows: FloatArray) -> FloatArray:
        """Return W k for every row k (..., t), in their place: W is triangular, which halves the work."""
        return self._times(rows, transposed=0)

    def unwhitened(self, rows: FloatArray) -> FloatArray:
        """Return W'k for every row k (..., t), in their place."""
        return self._times(rows, transposed=1)

    def _times(self, rows: FloatArray, transposed: int) -> FloatArray:
        t = len(self.W)
        found = blas.dtrmm(1.0, self.W, rows.reshape(-1, t).T, lower=1, trans_a=transposed, overwrite_b=1)
        return np.asarray(found.T.reshape(rows.shape))


class Posterior:
    """The posterior of f for actions anywhere, on a finite set of contexts and, through `curve`, in any context.

    Attributes
    ----------
    gp : the prior
    actions : (n_actions, d_x) the grid of actions; no row where they may lie anywhere
    contexts : (n, d_c) the contexts that its answers are for
    n_observations : how many observations it holds
    information_gain : log det(I + K_t / ridge) of the observations (eq. 4 without the maximum), or, for errors of
        covariance N, log det(I + N^-1/2 K_t N^-1/2)
    errors_known : whether the error of any observation has a known deviation, in place of the model's noise
    """

    factorises: ClassVar[bool] = True
    """Whether its kernel is a product of one of the actions and one of the contexts that its answers are for."""

    def __init__(self, gp: GP, actions: FloatArray, contexts: FloatArray) -> None:
        """`actions` (n_actions, d_x) are a grid that a subclass keeps up to date; no row if there is none."""
        self.gp = gp
        self.actions = actions
        self.contexts = contexts
        self.n_observations = 0
        self.information_gain = 0.0
        self.errors_known = False
        room = 16
        # The grid, and below it what was observed: a new observation's kernel with both is one call.
        self._action_points = np.concatenate([actions, np.empty((room, actions.shape[1]))])
        self._context_points = np.concatenate([contexts, np.empty((room, contexts.shape[1]))])
        self._averages: dict[int, Observation] = {}  # the observations of several contexts
        self._k_contexts = np.empty((room, len(contexts)))  # k_C(observed, contexts)
        self._U = np.zeros((room, room + LANES))
        self._white = np.empty(room)
        self._deviations = np.empty(room)  # of the errors
        self._first = np.empty(room, dtype=np.intp)  # the first observation of the same evaluation
        self._inverse: Inverse | None = None  # of K_t + ridge I, once somebody asks for it

    # --- what it learns from ----------------------------------------------------------------------------------------

    def observe(self, action: FloatArray, context: FloatArray, outcome: float) -> None:
        """Take in the outcome of action (d_x,) in context (d_c,)."""
        x = validation.finite_array("action", action, ndim=1)
        c = validation.finite_array("context", context, ndim=1)
        for name, given, own in (("action", x, self._action_points), ("context", c, self._context_points)):
            if given.shape != own.shape[1:]:
                raise ValueError(f"{name} must have shape {own.shape[1:]}, got {given.shape}")
        self.take_in(Observation.of(x, c, validation.finite_float("outcome", outcome)))

    def take_in(self, observation: Observation) -> None:
        """Condition on one more observation, whose shapes are known to be right."""
        t = self.n_observations
        if t == len(self._white):
            self._grow()
        k_action, k_context, own = self._kernels(observation, t)
        n_x, n_c = len(self.actions), len(self.contexts)
        column = k_action[n_x:] * k_context[n_c:]
        noise, least = self._add_noise(observation, t, column)
        announce(append_point)
        pivot = append_point(self._U, t, column, own + noise, least)
        self._remember(observation, t, k_action[:n_x], k_context[:n_c])
        self._whiten(observation, t, pivot, least)
        self.n_observations = t + 1
        self._update(t)

    def take_in_all(self, observations: Sequence[Observation]) -> None:
        """Condition on many observations: bit for bit what taking in one after the other gives, but faster."""
        for first in range(0, len(observations), BLOCK):
            block = observations[first : first + BLOCK]
            if len(block) == 1:
                self.take_in(block[0])
            else:
                self._take_in_block(block)

    def _take_in_block(self, block: Sequence[Observation]) -> None:
        """Condition on a block; the factor gets the same bits as from one observation after the other."""
        start, n_x, n_c = self.n_observations, len(self.actions), len(self.contexts)
        while start + len(block) > len(self._white):
            self._grow()
        columns = np.zeros((start + len(block), len(block)))
        own, noise, least = np.empty((3, len(block)))
        for i, observation in enumerate(block):
            t = start + i
            k_action, k_context, own[i] = self._kernels(observation, t)
            columns[:t, i] = k_action[n_x:] * k_context[n_c:]
            noise[i], least[i] = self._add_noise(observation, t, columns[:t, i])
            self._remember(observation, t, k_action[:n_x], k_context[:n_c])
        announce(append_points)
        pivots = append_points(self._U, start, columns, own + noise, least)
        for i, observation in enumerate(block):
            self._whiten(observation, start + i, float(pivots[i]), float(least[i]))
        self.n_observations = start + len(block)
        self._update_all(start)

    def _kernels(self, observation: Observation, t: int) -> tuple[FloatArray, FloatArray, float]:
        """Return the kernels of an observation: (n_actions + t,), (n_contexts + t,), and its own variance."""
        k_X, k_C = self.gp.kernel.action, self.gp.kernel.context
        n = len(self.contexts)
        k_action = k_X(observation.action[None, :], self._action_points[: len(self.actions) + t])[0]
        k_context = k_C(observation.contexts, self._context_points[: n + t])
        for i, average in self._averages.items():
            k_context[:, n + i] = k_C(observation.contexts, average.contexts) @ average.weights
        if len(observation.weights) == 1:
            return k_action, k_context[0], self.gp.kernel.variance
        own = observation.weights @ k_C(observation.contexts, observation.contexts) @ observation.weights
        return k_action, observation.weights @ k_context, k_X.variance * float(own)

    def _remember(self, observation: Observation, t: int, k_action: FloatArray, k_context: FloatArray) -> None:
        """Keep the action and the contexts of observation number t, and its kernels with the grid."""
        del k_action  # there is no grid of actions here
        self._action_points[len(self.actions) + t] = observation.action
        self._context_points[len(self.contexts) + t] = observation.contexts[0]
        if len(observation.weights) > 1:
            self._averages[t] = observation
        self._k_contexts[t] = k_context

    def _add_noise(self, observation: Observation, t: int, column: FloatArray) -> tuple[float, float]:
        """Add to `column` (t,) the covariance of the errors of observation number t and of those before it.

        Return the variance of its error, and what remains of it given the other errors of its evaluation: with n of
        them and correlation r, (1 - r) (1 + n r) / (1 + (n - 1) r) of the variance.
        """
        n, r = observation.before, self.gp.noise_correlation
        self._first[t] = t - n
        deviation, variance = self.gp.noise, self.gp.ridge
        if observation.noise is not None:
            self.errors_known = True
            amplitude = math.sqrt(self.gp.kernel.variance)
            deviation = min(max(observation.noise, LEAST_ERROR * amplitude), LARGEST_ERROR * amplitude)
            variance = deviation**2
        if observation.scatter:
            variance += observation.scatter
            deviation = math.sqrt(variance)
        self._deviations[t] = deviation
        if n == 0 or r == 0.0:
            return variance, variance
        column[t - n :] += r * deviation * self._deviations[t - n : t]
        return variance, variance * (1.0 - r) * (1.0 + n * r) / (1.0 + (n - 1) * r)

    def _whiten(self, observation: Observation, t: int, pivot: float, least: float) -> None:
        """Take in the outcome of observation number t, whose column of U is there already."""
        expected = float(self._U[:t, t] @ self._white[:t])
        innovation = 0.0 if observation.outcome is None else observation.outcome - expected
        self._white[t] = innovation / self._U[t, t]
        self.information_gain += math.log(pivot / least)
        self._inverse = None

    def _update(self, t: int) -> None:
        """Bring the grid up to date with observation number t; there is no grid here."""

    def _update_all(self, start: int) -> None:
        """Bring the grid up to date with all observations from number `start` on; there is no grid here."""

    def _grow(self) -> None:
        """Double the room for observations."""
        room = len(self._white)
        for name in ("_action_points", "_context_points", "_k_contexts", "_white", "_deviations", "_first"):
            old = getattr(self, name)
            setattr(self, name, np.concatenate([old, np.empty((room, *old.shape[1:]), dtype=old.dtype)]))
        U = np.zeros((2 * room, 2 * room + LANES))
        U[:room, : room + LANES] = self._U
        self._U = U

    def copy(self) -> Self:
        """Return an independent posterior of the same observations."""
        return copy.deepcopy(self)

    def snapshot(self) -> Self:
        """Return the posterior of the observations so far, whatever is taken in later; for `curve` and `predict` alone.

        It shares the factor, of which later observations change nothing, and must take in nothing itself.
        """
        still = copy.copy(self)
        still._averages = dict(self._averages)
        return still

    def on(self, contexts: FloatArray) -> Self:
        """Return the posterior of the same observations on other contexts (n, d_c); this one must not be used again.

        The factor is kept: new contexts cost their kernel with the observations.
        """
        moved = copy.copy(self)
        t, n = self.n_observations, len(self.contexts)
        moved.contexts = contexts
        moved._context_points = np.concatenate([contexts, self._context_points[n:]])
        moved._k_contexts = np.empty((len(self._white), len(contexts)))
        moved._k_contexts[:t] = self._embedding()(contexts)
        return moved

    # --- what it answers --------------------------------------------------------------------------------------------

    @property
    def observed_actions(self) -> FloatArray:
        """The actions observed, (t, d_x)."""
        return self._action_points[len(self.actions) :][: self.n_observations]

    def moments(self, actions: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance (m, n_contexts) of f at actions (m, d_x) anywhere, in every context."""
        k_X = self.gp.kernel.action
        return self._moments(k_X(self.observed_actions, actions), np.full(len(actions), k_X.variance))

    def difference(self, actions: FloatArray, other: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance (m, n_contexts) of f(x, c) - f(other, c), for actions (m, d_x) and another (d_x,).

        Both are of the joint posterior: what is unknown about two similar actions is mostly the same, and cancels.
        """
        k_X, seen = self.gp.kernel.action, self.observed_actions
        k_other = k_X(seen, other[None, :])
        own = 2.0 * (k_X.variance - k_X(actions, other[None, :])[:, 0])
        return self._moments(k_X(seen, actions) - k_other, np.maximum(own, 0.0))

    def _moments(self, k_action: FloatArray, own: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance (m, n_contexts) of m linear functionals of f(., c), in every context c.

        `k_action` (t, m) is the action kernel of each with the observations, and `own` (m,) with itself.
        """
        m, n, t = len(own), len(self.contexts), self.n_observations
        mean, variance = np.zeros((m, n)), np.repeat((own * self.gp.kernel.context.variance)[:, None], n, axis=1)
        if t == 0:
            return mean, variance
        block = max(2**18 // (t * n), 1)  # 2 MB at a time stay in the cache
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

        With W'W = (K_t + ridge I)^-1 and weights that sum to one, both from k_X(x) (t,) alone, in O(t^2) per action:

            k_X(x)' (alpha * K_C w)      and      k(z, z) - k_X(x)' (W'W * K_C diag(w) K_C') k_X(x)

        The latter is exact to 1e-6 or better, relative to k(z, z), at a noise of 1e-4 of the amplitude.
        """
        t = self.n_observations
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
        """Return the posterior of sum_j w_j f(x, c_j), weights w (n_contexts,), as that of one context.

        It is for `moments`, `on_grid`, `of_action`, `averages` and `gradient` alone: the contexts are gone.
        """
        used = np.flatnonzero(weights)
        w, c = weights[used], self.contexts[used]
        k_X, k_C = self.gp.kernel.action, self.gp.kernel.context
        made = copy.copy(self)
        made.gp = replace(self.gp, kernel=Product(k_X, _AverageKernel(float(w @ k_C(c, c) @ w))))
        made.contexts = np.zeros((1, c.shape[1]))
        made._k_contexts = self._k_contexts[:, used] @ w[:, None]
        return made

    def scatter(self, observation: Observation) -> Scatter:
        """Return how far f in one of the contexts of an observation is from their average."""
        kernel = self.gp.kernel
        return Scatter.of(kernel.context, observation.contexts, observation.weights, math.sqrt(kernel.action.variance))

    def gradient(self, action: FloatArray, weights: FloatArray, slope: float) -> FloatArray:
        """Return the gradient in x of sum_j w_j (mean + slope std)(x, c_j) at one action (d_x,), shape (d_x,).

        With u_j = (K_t + ridge I)^-1 k_t(x, c_j) and alpha = (K_t + ridge I)^-1 y, summed over the observations s:

            sum_s (alpha_s sum_j w_j k_C(c_s, c_j) - sum_j (slope w_j / std_j) u_js k_C(c_s, c_j)) dk_X(x, x_s) / dx
        """
        t = self.n_observations
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
        """Return mean + slope std of f(x, .) for one action (d_x,), to be called with contexts anywhere."""
        t = self.n_observations
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
        """Return the mean (m,) and variance (m,) of f at the points (x_i, c_i), whose shapes are known to be right."""
        t = self.n_observations
        variance = np.full(len(x), self.gp.kernel.variance)
        if t == 0:
            return np.zeros(len(x)), variance
        k = self.gp.kernel.action(self.observed_actions, x) * self._embedding()(c)
        white = solve_triangular(self._U[:t, :t], k, trans="T", check_finite=False)
        variance -= np.einsum("ij,ij->j", white, white)
        return self._white[:t] @ white, np.maximum(variance, 0.0)

    def leave_one_out(self) -> tuple[FloatArray, FloatArray]:
        """Return for every observation what its outcome exceeds the prediction from all others by, and the variance.

        Both are (t,); the variance is of the outcome, noise included. With Q = (K_t + ridge I)^-1 they are
        (Q y)_i / Q_ii and 1 / Q_ii.
        """
        W = self._whitening()
        own = np.einsum("ij,ij->j", W, W)
        return self._white[: self.n_observations] @ W / own, 1.0 / own

    # --- draws ------------------------------------------------------------------------------------------------------

    def draws(self, rng: np.random.Generator, count: int, actions: FloatArray | None = None) -> FloatArray:
        """Return draws of f (count, m, n_contexts), jointly at actions (m, d_x) in all contexts.

        By default the actions are those of the grid. Draws are exact for up to `features.EXACT` actions and as many
        contexts. They cost a Cholesky factor of the actions, one of the contexts, and one of the observations.
        """
        x = self.actions if actions is None else actions
        left, right = self._draw_features(rng, x, anywhere=False, between=False)
        most = left.count * max(right.count, len(self.contexts), self.n_observations)
        step = max(_AT_ONCE // max(most, 1), 1)
        paths = (
            self.moved(Prior.drawn(rng, left, right, (min(step, count - first),)), rng)
            for first in range(0, count, step)
        )
        return np.concatenate([path.values(x, self.contexts) for path in paths])

    def draw(self, rng: np.random.Generator, *, between: bool = False) -> Draw:
        """Return one draw of f as a function of action and context.

        It is exact on the grid, if there is one, and in the contexts of the posterior. For actions anywhere, and for
        contexts `between` those of the posterior, it is made of random frequencies (`drbo.models.path`).
        """
        left, right = self._draw_features(rng, self.actions, anywhere=not len(self.actions), between=between)
        path = self.moved(Prior.drawn(rng, left, right), rng)
        return Draw(path, math.sqrt(self.gp.kernel.variance), self.actions, self.contexts)

    def check_draw(self, *, between: bool) -> None:
        """Raise if `draw` is not possible with the kernels of this posterior."""
        check_features(self.gp.kernel.action, self.actions, anywhere=not len(self.actions))
        check_features(self.gp.kernel.context, self.contexts, anywhere=between)

    def _draw_features(
        self, rng: np.random.Generator, actions: FloatArray, *, anywhere: bool, between: bool
    ) -> tuple[Features, Features]:
        """Return features of actions (m, d_x), and of the contexts of the posterior."""
        left = features_of(self.gp.kernel.action, actions, rng, anywhere=anywhere)
        return left, features_of(self.gp.kernel.context, self.contexts, rng, anywhere=between)

    def moved(self, prior: Prior, rng: np.random.Generator) -> Path:
        """Return draws of the posterior: draws of the prior, moved by the outcomes."""
        return self._matheron().path(prior, rng)

    def _matheron(self) -> Matheron:
        n, t = len(self.actions), self.n_observations
        seen = Embedding(self.gp.kernel.action, self._action_points[n : n + t].copy(), {})
        errors = Errors(self._deviations[:t], self._first[:t], self.gp.noise_correlation)
        return Matheron(seen, self._embedding(), self._U[:t, :t], self._white[:t], errors)

    def _embedding(self) -> Embedding:
        """Return the contexts of the observations, which stay as they are when others follow."""
        n, t = len(self.contexts), self.n_observations
        return Embedding(self.gp.kernel.context, self._context_points[n : n + t].copy(), dict(self._averages))

    def _made(self) -> Inverse:
        """Return the inverse of K_t + ridge I, kept until the next observation: a product is faster than a solve."""
        if self._inverse is None:
            t = self.n_observations
            self._inverse = Inverse(self._U[:t, :t], self._white[:t])
        return self._inverse

    def _whitening(self) -> FloatArray:
        """Return W = U'^-1 (t, t)."""
        return self._made().W
