"""Observations of f, and the Cholesky factor of their covariance, which grows with them.

    z = (x, c)  an action and a context; k(z, z') = k_X(x, x') k_C(c, c')
    k_t(z)      kernel of z with the t points observed             (t,)
    U           Cholesky factor, U'U = K_t + ridge I               (t, t)     ridge = noise^2
    W           U'^-1, so that W'W = (K_t + ridge I)^-1            (t, t)
    white       U'^-1 y                                            (t,)

Where the errors of the observations differ or are correlated, ridge I is their covariance (`drbo.models.data`).

Observations of the same point are equivalent to their average, weighted by 1 / error variance, so they share one row of
the factor. With v the variance of the average's error so far, and u that of a new observation y',

    y  <-  y + (y' - y) v / (v + u),        v  <-  v u / (v + u),

and one diagonal entry of the covariance falls by v^2 / (v + u). The cost of a round thus depends on the number of
distinct points, which a grid limits, not on the number of observations.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from drbo._compiled import announce
from drbo.kernels import Product
from drbo.models._cholesky import LANES, append_point, append_points, lower_diagonal, solve, solve_points, whitened
from drbo.models.curve import Embedding
from drbo.models.data import LARGEST_ERROR, LEAST_ERROR, Observation, averaged
from drbo.models.draws import DrawnErrors
from drbo.validation import FloatArray

BLOCK = 32
"""Observations per block; the columns of U of one block stay in the cache."""
LEAST_SHARED = 1e-8
"""Least error variance of an average, as a share of the prior variance. Further observations start a new average."""
LOOKED_UP = 512
"""Number of points whose mutual kernels are cached, for repeated observations of a point."""


class Process(Protocol):
    """The prior of a Gaussian process such as `drbo.GP`, in the units of the kernel."""

    @property
    def kernel(self) -> Product: ...

    @property
    def noise(self) -> float: ...

    @property
    def ridge(self) -> float: ...

    @property
    def noise_correlation(self) -> float: ...

    def with_kernel(self, kernel: Product) -> Self:
        """Return the same process with another kernel."""


class Inverse:
    """(K_t + ridge I)^-1 of t observations: W = U'^-1 (t, t), lower triangular, and alpha = W'W y (t,)."""

    def __init__(self, U: FloatArray, white: FloatArray) -> None:
        """`U` (t, t) and `white` (t,) may change afterwards."""
        self.W: FloatArray = np.array(U).T
        if len(U):  # invert U', not U: W U' is then closer to I, and W k closer to the whitened k
            self.W, _ = lapack.dtrtri(self.W, lower=1, overwrite_c=1)
        self.alpha: FloatArray = white @ self.W

    @cached_property
    def lower(self) -> FloatArray:
        """The lower triangle of W'W (t, t), with zeros above it."""
        return np.asarray(lapack.dlauum(self.W, lower=1)[0])

    def times_product(self, a: FloatArray, b: FloatArray, k: FloatArray) -> FloatArray:
        """Return (W'W * a b') k for columns k (t, m), elementwise product, where a b' is symmetric."""
        product = (b @ a.T).T  # in column order, for LAPACK
        product *= self.lower
        return np.asarray(blas.dsymm(1.0, product, k, lower=1))

    def whitened(self, rows: FloatArray) -> FloatArray:
        """Return W k for every row k (..., t), in place; the triangular W halves the work."""
        return self._times(rows, transposed=0)

    def unwhitened(self, rows: FloatArray) -> FloatArray:
        """Return W'k for every row k (..., t), in place."""
        return self._times(rows, transposed=1)

    def _times(self, rows: FloatArray, transposed: int) -> FloatArray:
        t = len(self.W)
        found = blas.dtrmm(1.0, self.W, rows.reshape(-1, t).T, lower=1, trans_a=transposed, overwrite_b=1)
        return np.asarray(found.T.reshape(rows.shape))


class Factor:
    """Observations of f, the factor of their covariance, and their kernels with the points of queries.

    A factor never changes under its holder. `with_more` returns a view with more observations. Both views share arrays,
    and new rows are appended. A repeated observation of a point changes earlier rows, so the view first gets arrays of
    its own for them.

    Attributes
    ----------
    gp : the prior
    actions, contexts : (n_actions, d_x) and (n, d_c) the points of queries; either may have no row
    n_observations : the number of observations
    n_points : the number of rows of the factor, one per distinct point
    information_gain : log det(I + K_t / ridge) of the observations (eq. 4 without the maximum), or, for errors of
        covariance N, log det(I + N^-1/2 K_t N^-1/2)
    errors_known : whether any observation has a known standard error instead of the model's noise
    averages : the observations of several contexts, by row
    base : the factor of the first observations, if they were put together in one go
    """

    def __init__(self, gp: Process, actions: FloatArray, contexts: FloatArray) -> None:
        self.gp = gp
        self.actions = actions
        self.contexts = contexts
        self.n_observations = self.n_points = 0
        self.information_gain = 0.0
        self.errors_known = False
        self.averages: Mapping[int, Observation] = {}
        self.base: Factor | None = None
        room = 16
        # The points of queries, then the observed ones: one call gives a new observation's kernel with both.
        self._action_points = np.concatenate([actions, np.empty((room, actions.shape[1]))])
        self._context_points = np.concatenate([contexts, np.empty((room, contexts.shape[1]))])
        self._k_actions = np.empty((room, len(actions)))
        self._k_contexts = np.empty((room, len(contexts)))
        self._K = np.empty((room, room))  # k(observed, observed) below the diagonal, for the first points
        self._U = np.zeros((room, room + LANES))
        self._white = np.empty(room)
        self._outcomes = np.empty(room)
        self._variances = np.empty(room)  # of the errors
        self._first = np.empty(room, dtype=np.intp)  # the first observation of the same evaluation
        self._mixing: FloatArray | None = None  # of the errors of the first rows
        self._inverse: Inverse | None = None
        self._observations: list[Observation] = []
        self._rows: list[int] = []  # of the observations
        self._last: dict[bytes, int] = {}  # the last row of a point that may be shared
        # The right to append to the arrays, which several views share: only the view with all observations has it. It
        # takes its number of observations from this list, and puts the new number back when it has appended. After an
        # interruption the list is empty, and other views continue with copies.
        self._latest = [0]
        self._rows_owned = False  # whether no other view has the arrays that a repeated observation changes

    @classmethod
    def made(
        cls,
        gp: Process,
        actions: FloatArray,
        contexts: FloatArray,
        *,
        points: tuple[FloatArray, FloatArray, Mapping[int, Observation]],
        U: FloatArray,
        white: FloatArray,
        outcomes: FloatArray,
        variances: FloatArray,
        first: NDArray[np.intp],
        gain: float,
        errors_known: bool,
        mixing: FloatArray | None = None,
        observations: Sequence[Observation] = (),
        of: Sequence[int] = (),
    ) -> Self:
        """Return the factor of t rows that were put together elsewhere; further observations may follow.

        `points` are the actions (t, d_x), the contexts (t, d_c) and the averages of the rows. `gain` is the information
        gain. If `mixing` (t, t) is given, the errors are this times independent ones of variance 1. `observations` are
        those behind the rows, and `of` the row of each; without them, only those that follow are counted, and none of
        them shares a row.
        """
        made = cls(gp, actions, contexts)
        x, c, averages = points
        t = len(white)
        made._action_points, made._context_points = np.concatenate([actions, x]), np.concatenate([contexts, c])
        made.averages, made._k_actions = averages, gp.kernel.action(x, actions)
        made._k_contexts = Embedding(gp.kernel.context, c, averages)(contexts)
        made._K = np.empty((0, 0))
        made._U = _with_room(U, t, _room(t)) if len(actions) else U  # the next observation makes room
        made._white, made._outcomes, made._variances, made._first = white, outcomes, variances, first
        made.n_points, made.n_observations = t, len(observations)
        made.information_gain, made.errors_known = gain, errors_known
        for observation, row in zip(observations, of, strict=True):
            made._note(observation, row, made._point(observation))
        made._latest, made.base, made._mixing = [len(observations)], made, mixing
        return made

    # --- what is known ----------------------------------------------------------------------------------------------

    @property
    def observed_actions(self) -> FloatArray:
        """The observed actions, (t, d_x)."""
        return self._action_points[len(self.actions) :][: self.n_points]

    @property
    def k_actions(self) -> FloatArray:
        """The kernel of the observed actions with `actions`, (t, n_actions)."""
        return self._k_actions[: self.n_points]

    @property
    def k_contexts(self) -> FloatArray:
        """The kernel of the observed contexts with `contexts`, (t, n)."""
        return self._k_contexts[: self.n_points]

    @property
    def U(self) -> FloatArray:  # noqa: N802
        """The Cholesky factor, (t, t)."""
        return self._U[: self.n_points, : self.n_points]

    @property
    def white(self) -> FloatArray:
        """U'^-1 y, (t,)."""
        return self._white[: self.n_points]

    @property
    def outcomes(self) -> FloatArray:
        """The outcome of each row, (t,): the average of its observations."""
        return self._outcomes[: self.n_points]

    @property
    def variances(self) -> FloatArray:
        """The error variance of each row, (t,)."""
        return self._variances[: self.n_points]

    @property
    def observations(self) -> Sequence[Observation]:
        """The observations in their order of arrival."""
        return self._observations[: self.n_observations]

    @property
    def rows(self) -> Sequence[int]:
        """The row of each observation."""
        return self._rows[: self.n_observations]

    def embedding(self) -> Embedding:
        """Return the observed contexts."""
        n, t = len(self.contexts), self.n_points
        return Embedding(self.gp.kernel.context, self._context_points[n : n + t], self.averages)

    def errors(self) -> DrawnErrors:
        """Return the distribution of the errors."""
        return DrawnErrors(
            np.sqrt(self.variances), self._first[: self.n_points], self.gp.noise_correlation, self._mixing
        )

    def inverse(self) -> Inverse:
        """Return the inverse of K_t + ridge I, made once: a product is faster than a solve."""
        if self._inverse is None:
            self._inverse = Inverse(self.U, self.white)
        return self._inverse

    def rank_one_terms(self, first: int) -> Iterable[tuple[FloatArray, FloatArray, FloatArray, float, float]]:
        """Return what each row t from `first` on adds to a posterior on the grid of `actions` and `contexts`.

        These are its kernels and those of earlier rows, (t + 1, n_actions) and (t + 1, n), b = (K_t + ridge I)^-1 k_t
        (t,), U_tt and white_t.
        """
        end = self.n_points
        if end - first > 1:
            return self._rank_one_terms_in_blocks(first, end)
        if end == first:
            return ()
        announce(solve)
        b, root, white = solve(self._U, first), self._U[first, first], self._white[first]
        return ((self._k_actions[:end], self._k_contexts[:end], b, root, white),)

    def _rank_one_terms_in_blocks(
        self, first: int, end: int
    ) -> Iterator[tuple[FloatArray, FloatArray, FloatArray, float, float]]:
        k_actions, k_contexts, U, white = self._k_actions, self._k_contexts, self._U, self._white
        for start in range(first, end, BLOCK):
            announce(solve_points)
            columns = solve_points(U, start, min(BLOCK, end - start))
            for t in range(start, start + columns.shape[1]):
                yield k_actions[: t + 1], k_contexts[: t + 1], columns[:t, t - start], U[t, t], white[t]

    def error_variance(self, observation: Observation) -> float:
        """Return the variance of the error of an observation."""
        variance = self.gp.ridge
        if observation.noise is not None:
            amplitude = math.sqrt(self.gp.kernel.variance)
            variance = min(max(observation.noise, LEAST_ERROR * amplitude), LARGEST_ERROR * amplitude) ** 2
        return variance + observation.scatter

    # --- other contexts ---------------------------------------------------------------------------------------------

    def on(self, contexts: FloatArray) -> Self:
        """Return the same observations for queries on other contexts (n, d_c); the factor is kept."""
        return self._with_contexts(contexts, self.embedding()(contexts))

    def averaged(self, gp: Process, weights: FloatArray) -> Self:
        """Return the same observations for queries of averages over contexts of weights (n,); no more may follow."""
        used = np.flatnonzero(weights)
        averages = self.k_contexts[:, used] @ weights[used, None]
        made = self._with_contexts(np.zeros((1, self.contexts.shape[1])), averages)
        made.gp = gp
        return made

    def _with_contexts(self, contexts: FloatArray, k_contexts: FloatArray) -> Self:
        made = copy.copy(self)
        made.contexts = contexts
        made._context_points = np.concatenate([contexts, self._context_points[len(self.contexts) :]])
        made._k_contexts = np.empty((len(self._white), len(contexts)))
        made._k_contexts[: self.n_points] = k_contexts
        return made

    # --- more observations ------------------------------------------------------------------------------------------

    def opened(self) -> Self:
        """Return a view that can take in more observations; its arrays are copies if another view did so before."""
        made = object.__new__(type(self))  # copy.copy takes ten times as long
        made.__dict__.update(self.__dict__)
        made._inverse = None
        try:
            latest = self._latest.pop()  # only one thread gets it
        except IndexError:
            latest = -1
        made._rows_owned = latest != self.n_observations
        if made._rows_owned:
            if latest >= 0:
                self._latest.append(latest)
            for name, value in vars(self).items():
                if name.startswith("_") and isinstance(value, np.ndarray):
                    setattr(made, name, value.copy())
            made._observations, made._rows, made._last = [], [], {}
            for observation, row in zip(self.observations, self.rows, strict=True):
                made._note(observation, row, self._point(observation))
            made._latest = []
        return made

    def close(self) -> None:
        """Let the next view append to the arrays of this one."""
        self._latest.append(self.n_observations)

    def with_more(self, observations: Sequence[Observation], update: Callable[[Factor, int], None]) -> Self:
        """Return a view with more observations of checked shapes.

        A batch gives the same bits as one observation after the other, in less time. `update(view, start)` is called
        when new points have the rows from `start` on, before one of them is merged into an earlier row.
        """
        made = self.opened()
        if len(observations) == 1:
            made._take_in_one(observations[0], update)
        else:
            made._take_in(observations, update)
        made.close()
        return made

    def _take_in(self, observations: Sequence[Observation], update: Callable[[Factor, int], None]) -> None:
        """Condition on several observations: in blocks, as long as their points are new."""
        new: list[Observation] = []
        points: set[bytes] = set()
        for one in observations:
            known = self._point(one) is not None and (one.point in points or one.point in self._last)
            if known or len(new) == BLOCK:
                self._take_in_block(new, update)
                new, points = [], set()
            if known:
                self._take_in_one(one, update)
            else:
                new.append(one)
                points.add(one.point)
        self._take_in_block(new, update)

    def _take_in_one(self, observation: Observation, update: Callable[[Factor, int], None]) -> None:
        """Condition on one more observation."""
        t, point = self.n_points, self._point(observation)
        self.append(observation, *self._column(observation, t))
        update(self, t)
        row = t if point is None else self._last.get(point, t)
        if row < t and self._may_share(row, t):
            self._share(row, t)
        else:
            row = t
        self._note(observation, row, point)

    def _take_in_block(self, block: Sequence[Observation], update: Callable[[Factor, int], None]) -> None:
        """Condition on a block of new points; the factor has the same bits as one by one."""
        if len(block) < 2:
            for observation in block:
                self._take_in_one(observation, update)
            return
        start = self.n_points
        while start + len(block) > len(self._white):
            self._grow()
        if start + len(block) > len(self._U):
            self._U = _with_room(self._U, start, _room(start + len(block)))
        columns = np.zeros((start + len(block), len(block)))
        own, noise, least = np.empty((3, len(block)))
        for i, observation in enumerate(block):
            t = start + i
            columns[:t, i], own[i] = self._column(observation, t)
            noise[i], least[i] = self._add_noise(observation, t, columns[:t, i])
        announce(append_points)
        pivots = append_points(self._U, start, columns, own + noise, least)
        for i, observation in enumerate(block):
            self._whiten(observation, start + i, float(pivots[i]), float(least[i]))
        update(self, start)
        for i, observation in enumerate(block):
            self._note(observation, start + i, self._point(observation))

    def _note(self, observation: Observation, row: int, point: bytes | None) -> None:
        """Keep an observation and its row, for later observations of the same point."""
        self._observations.append(observation)
        self._rows.append(row)
        if point is not None:
            self._last[point] = row

    def append(self, observation: Observation, column: FloatArray, own: float) -> None:
        """Append a row: `column` (t,) is the prior covariance with earlier rows, and `own` the prior variance."""
        t = self.n_points
        if t == len(self._U):
            self._U = _with_room(self._U, t, _room(t))
        noise, least = self._add_noise(observation, t, column)
        announce(append_point)
        self._whiten(observation, t, append_point(self._U, t, column, own + noise, least), least)

    def _point(self, observation: Observation) -> bytes | None:
        """Return the key of the point if the observation may share a row: its error is independent of all others."""
        return observation.point if self.gp.noise_correlation == 0.0 or not observation.together else None

    def _may_share(self, row: int, t: int) -> bool:
        """Return whether row t may be merged into an earlier row of the same point.

        The conditions keep the update of the factor well conditioned: the update removes at most half of the row's
        variance given the other points.
        """
        v, new = self._variances[row], self._variances[t]
        return bool(new >= v and v * (new / (v + new)) >= LEAST_SHARED * self.gp.kernel.variance)

    def _share(self, row: int, t: int) -> None:
        """Merge row t, the last one, into an earlier row of the same point."""
        if not self._rows_owned:
            self._U, self._white = self._U.copy(), self._white.copy()
            self._outcomes, self._variances = self._outcomes.copy(), self._variances.copy()
            self._rows_owned = True
        v, new = float(self._variances[row]), float(self._variances[t])
        share = v / (v + new)
        announce(lower_diagonal)
        lower_diagonal(self._U, t, row, v * share)
        self._variances[row] = v * (new / (v + new))
        self._outcomes[row] += share * (self._outcomes[t] - self._outcomes[row])
        announce(whitened)
        self._white[:t] = whitened(self._U, t, self._outcomes[:t])
        self.n_points = t
        if t in self.averages:
            self.averages = {i: one for i, one in self.averages.items() if i != t}

    def _column(self, observation: Observation, t: int) -> tuple[FloatArray, float]:
        """Return the kernel of observation t with earlier ones, (t,), and with itself; repeated points are cached."""
        if t == len(self._white):
            self._grow()
        row = self._last.get(observation.point)
        if row is None or t >= len(self._K) or self.averages:
            k_action, k_context, own = self.kernels(observation, t)
            column = k_action * k_context
        else:
            own = self.gp.kernel.variance
            column = np.empty(t)
            column[:row], column[row], column[row + 1 :] = self._K[row, :row], own, self._K[row + 1 : t, row]
            self._remember(observation, t, self._k_actions[row], self._k_contexts[row])
        if t < len(self._K):
            self._K[t, :t] = column
        return column, own

    def kernels(self, observation: Observation, t: int) -> tuple[FloatArray, FloatArray, float]:
        """Return the kernels of observation t with earlier ones, both (t,), and with itself; store the others."""
        if t == len(self._white):
            self._grow()
        k_X, k_C = self.gp.kernel.action, self.gp.kernel.context
        m, n = len(self.actions), len(self.contexts)
        k_action = k_X(observation.action[None, :], self._action_points[: m + t])[0]
        k_places = k_C(observation.contexts, self._context_points[: n + t])
        for i, average in self.averages.items():
            k_places[:, n + i] = k_C(observation.contexts, average.contexts) @ average.weights
        if len(observation.weights) == 1:
            k_context, own = k_places[0], self.gp.kernel.variance
        else:
            k_context = averaged(observation.weights, k_places)
            itself = observation.weights @ k_C(observation.contexts, observation.contexts) @ observation.weights
            own = k_X.variance * float(itself)
        self._remember(observation, t, k_action[:m], k_context[:n])
        return k_action[m:], k_context[n:], own

    def _remember(self, observation: Observation, t: int, k_action: FloatArray, k_context: FloatArray) -> None:
        """Store the action and the contexts of observation t, and its kernels with the points of queries."""
        self._action_points[len(self.actions) + t] = observation.action
        self._context_points[len(self.contexts) + t] = observation.contexts[0]
        if len(observation.weights) > 1:
            self.averages = {**self.averages, t: observation}
        self._k_actions[t] = k_action
        self._k_contexts[t] = k_context

    def _add_noise(self, observation: Observation, t: int, column: FloatArray) -> tuple[float, float]:
        """Add to `column` (t,) the covariance of the error of observation t with earlier errors.

        Return the variance of the error, and its variance given the n other errors of the evaluation: the share (1 - r)
        (1 + n r) / (1 + (n - 1) r) for correlation r.
        """
        n, r = observation.before, self.gp.noise_correlation
        self._first[t] = t - n if r > 0.0 else t
        self.errors_known = self.errors_known or observation.noise is not None
        self._variances[t] = variance = self.error_variance(observation)
        if n == 0 or r == 0.0:
            return variance, variance
        column[t - n :] += r * math.sqrt(variance) * np.sqrt(self._variances[t - n : t])
        return variance, variance * (1.0 - r) * (1.0 + n * r) / (1.0 + (n - 1) * r)

    def _whiten(self, observation: Observation, t: int, pivot: float, least: float) -> None:
        """Add the outcome of observation t, whose column of U exists already, and count it."""
        expected = float(self._U[:t, t] @ self._white[:t])
        outcome = expected if observation.outcome is None else observation.outcome
        self._outcomes[t] = outcome
        self._white[t] = (outcome - expected) / self._U[t, t]
        self.information_gain += math.log(pivot / least)
        self.n_points = t + 1
        self.n_observations += 1

    def _grow(self) -> None:
        """Double the room for observations."""
        room = len(self._white)
        for name in (
            "_action_points", "_context_points", "_k_actions", "_k_contexts", "_white", "_outcomes", "_variances",
            "_first",
        ):  # fmt: skip
            old = getattr(self, name)
            setattr(self, name, np.concatenate([old, np.empty((room, *old.shape[1:]), dtype=old.dtype)]))
        if len(self._K) == room < LOOKED_UP:
            K = np.empty((2 * room, 2 * room))
            K[:room, :room] = self._K
            self._K = K


def _room(t: int) -> int:
    """Return the number of points for which room is made if there are t of them: an eighth more, and a few."""
    return t + t // 8 + 16


def _with_room(U: FloatArray, n: int, room: int) -> FloatArray:
    """Return a copy of the first n rows and columns of U with room for more: a repeated point copies it."""
    made = np.zeros((room, room + LANES))
    made[:n, :n] = U[:n, :n]
    return made
