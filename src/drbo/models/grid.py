"""Mean and variance of f on a whole grid of actions x contexts, kept up to date one observation at a time.

A new observation changes both by a rank-one term, made from the posterior covariance of every grid point with the new
point. With a product kernel this covariance is one small matrix product,

    cov = k_X(:, x) k_C(c, :) - K_X[:, S] diag(b) K_C[S, :],       S: the observations, b = (K_t + ridge I)^-1 k_t(z)

so that no (t, n_actions n_contexts) matrix is ever kept: memory is O(n_actions n_contexts).

Rank-one updates and a solve from scratch differ by rounding errors. An extended posterior and a rebuilt one must agree
to the last bit, so a rebuild does the same rank-one updates; only the factor U is made in blocks.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from drbo import validation
from drbo._compiled import announce, jit
from drbo.models._cholesky import solve, solve_points
from drbo.models.factor import BLOCK, Process
from drbo.models.observation import Observation
from drbo.models.regression import Posterior
from drbo.spaces.space import Point
from drbo.validation import FloatArray


class GridPosterior(Posterior):
    """The posterior of a GP on the grid actions x contexts; the observations may lie anywhere. Immutable.

    Attributes
    ----------
    mean, variance : (n_actions, n_contexts) of f on the grid; `variance` is never negative
    """

    _BY_ROW = (*Posterior._BY_ROW, "_k_actions")

    def __init__(self, gp: Process, actions: FloatArray, contexts: FloatArray) -> None:
        super().__init__(gp, actions, contexts)
        self._k_actions = np.empty((len(self._white), len(actions)))  # k_X(observed, grid)
        self._clear()

    @classmethod
    def prior(cls, gp: Process, actions: ArrayLike, contexts: ArrayLike) -> Self:
        """Return the posterior of no observation on actions (n_actions, d_x) x contexts (n_contexts, d_c)."""
        x = validation.frozen(validation.points("actions", actions))
        c = validation.frozen(validation.points("contexts", contexts))
        gp.kernel.check(x.shape[1], c.shape[1])
        return cls(gp, x, c)

    @property
    def std(self) -> FloatArray:
        """The posterior standard deviation of f on the grid, (n_actions, n_contexts)."""
        return np.sqrt(self.variance)

    def on_grid(self) -> tuple[FloatArray, FloatArray]:
        """Return the stored mean and variance (n_actions, n_contexts) of f on the grid."""
        return self.mean, self.variance

    def of_action(self, action: Point) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance (n_contexts,) of f for one action; the stored ones if it is on the grid."""
        if action.index is None:
            return super().of_action(action)
        return self.mean[action.index], self.variance[action.index]

    def on(self, contexts: FloatArray) -> Self:
        """Return the posterior of the same observations on other contexts (n, d_c)."""
        if self.n_points < self.n_observations:  # merged rows no longer hold the state after each observation
            return type(self)(self.gp, self.actions, contexts).with_more(self._log.observations[: self.n_observations])
        moved = super().on(contexts)
        moved._clear()
        moved._update_all(0)
        return moved

    def averaged(self, weights: FloatArray) -> Self:
        """Return the posterior of sum_j w_j f(x, c_j), as for one context."""
        made = super().averaged(weights)
        made.mean, made.variance = made.moments(made.actions)
        return made

    def _clear(self) -> None:
        """Reset the grid to the prior."""
        self.mean = np.zeros((len(self.actions), len(self.contexts)))
        self.variance = np.full_like(self.mean, self.gp.kernel.variance)
        self._own = True  # whether no other view has this mean and variance
        self._spare: FloatArray | None = None  # an earlier mean of its own, to be written over

    def _start(self) -> None:
        self._own, self._spare = False, None

    def _remember(self, observation: Observation, t: int, k_action: FloatArray, k_context: FloatArray) -> None:
        super()._remember(observation, t, k_action, k_context)
        self._k_actions[t] = k_action

    def _k_grid(self, row: int) -> FloatArray:
        return np.asarray(self._k_actions[row])

    def _update(self, t: int) -> None:
        """Change mean and variance by the rank-one term of observation t."""
        announce(solve)
        self._rank_one(t, solve(self._U, t))

    def _update_all(self, start: int) -> None:
        """Change mean and variance by the rank-one terms of all observations from `start` on."""
        announce(solve_points)
        for first in range(start, self.n_points, BLOCK):
            count = min(BLOCK, self.n_points - first)
            columns = solve_points(self._U, first, count)
            for c in range(count):
                self._rank_one(first + c, columns[: first + c, c])

    def _rank_one(self, t: int, b: FloatArray) -> None:
        mean = np.matmul(self._k_actions[:t].T, b[:, None] * self._k_contexts[:t], out=self._spare)
        variance = self.variance if self._own else np.empty_like(self.variance)
        root = self._U[t, t]
        step, pivot = self._white[t] / root, root * root
        _rank_one(self.mean, self.variance, self._k_actions[t], self._k_contexts[t], pivot, step, mean, variance)
        self._spare = self.mean if self._own else None
        self.mean, self.variance, self._own = mean, variance, True


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
