"""The posterior of more outcomes than one exact posterior can take: pseudo-data for searches, neighbours for bounds.

    Z            t distinct observed points, with outcomes y and errors of covariance N
    u            m inducing points among them; Kuu = L L', and Kuf (m, t) their kernel with all points
    A            L^-1 Kuf N^-1/2                                                         (m, t)
    B, v         A A' and A N^-1/2 y

**A search** over many actions uses the sparse posterior of Titsias (2009). It is the exact posterior of m
pseudo-outcomes at the inducing points, whose errors have the covariance S:

    outcomes  L B^-1 v,        S = L B^-1 L',        U'U = Kuu + S = L (I + B^-1) L'.

So everything that an exact posterior can do is done by the same code, and further outcomes are taken in on top.

**A bound** never uses it, because its variance may be too small. What is said of one action or of one point rests on an
exact posterior of some of the outcomes, those nearest to it: Var(f | y_S) >= Var(f | y) for any subset S, which depends
on inputs and hyper-parameters alone. Ties, as with few different actions, are broken so that contexts are covered.

A posterior with more outcomes has the same bits whether it was extended or made from scratch. The first observations,
whose number is a multiple of `REBUILT`, form the pseudo-data, and the others come on top.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import lapack, solve_triangular

from drbo._messages import counted
from drbo.models.curve import Curve
from drbo.models.data import LEAST_COMMON, Observation, checked_pairs
from drbo.models.factor import Factor, Process
from drbo.models.gp import GP, GPPosterior, assembled, distinct, exact_posterior, in_block
from drbo.models.observation_rows import Indices
from drbo.models.perturbed import PerturbedPosterior, of_places
from drbo.models.points import DistinctPoints
from drbo.models.regression import ExactPosterior, left_out
from drbo.models.surrogate import Data
from drbo.spaces.space import Point
from drbo.validation import FloatArray

INDUCING = 500
"""Largest number of inducing points."""
POOL = 4 * INDUCING
"""Number of random points among which the inducing points are chosen."""
NEAREST = 1000
"""Number of outcomes nearest to an action that a bound of the action rests on."""
NEAREST_OF_CURVE = 600
"""The same for contexts with a range, where thousands of contexts are looked at."""
NEIGHBOURS = 500
"""Number of outcomes nearest to an inducing point that predictions close to it rest on."""
REBUILT = 256
"""The pseudo-data are recomputed when the number of observations reaches a multiple of this."""
REBASED = 64
"""The same for the part of an exact posterior that is put together in one go, from `REBUILT` observations on."""
KEPT = 4
"""Cache size for the posteriors of single actions."""
KEPT_CELLS = 8
"""Cache size for the posteriors around inducing points, 2 MB each."""
_RESOLVED = 1e-6
"""Least variance of an inducing point given the earlier ones, as a share of the prior variance."""
_AT_ONCE = 2**21
"""Kernel entries of inducing points and outcomes computed at once, 16 MB."""


def posterior_of_any(
    gp: GP, data: Data, contexts: FloatArray, last: GPPosterior | SparsePosterior | None, exact_up_to: int
) -> GPPosterior | SparsePosterior:
    """Return the posterior of observations on contexts (n, d_c): exact up to a number of distinct points."""
    n = len(data.observations)
    base = n - n % REBUILT
    if isinstance(last, SparsePosterior):
        if last.n_base == base:
            return last.on(contexts).after(data)
        last = None
    on_grid = bool(len(data.inputs.actions))  # rank-one changes of the grid take longer than the factor
    if n <= exact_up_to or (last is not None and last.n_data == n):
        in_one_go = 0 if on_grid or n > exact_up_to or n < REBUILT else n - n % REBASED
        return exact_posterior(gp, data, contexts, last, base=in_one_go)
    if data.inputs.shift is None and 2 * data.n_together >= max(n, 2 * LEAST_COMMON):
        block = in_block(gp, data, contexts)
        if block is not None and len(block.block_actions) <= exact_up_to:
            return block
    if isinstance(last, ExactPosterior | PerturbedPosterior) and last.n_based == base:
        return exact_posterior(gp, data, contexts, last, base=base)
    points = distinct(gp, data, base)
    if len(points) <= exact_up_to:
        return exact_posterior(gp, data, contexts, None, base=base)
    return SparsePosterior(gp, data, contexts, points)


def _by_pseudo_data(name: str) -> Any:
    """Return a method of a sparse posterior that is the method of its posterior of pseudo-data."""
    return property(lambda self: getattr(self.searched, name))


class SparsePosterior:
    """The posterior of many observations: by pseudo-data for many actions, exact given the nearest outcomes for one.

    `moments`, `averages`, `gradient`, `on_grid`, `covariance`, `averaged` and draws are those of the pseudo-data, and
    so is `difference` for several actions. `of_action`, `curve`, `predict`, `leave_one_out`, and `difference` for one
    action are exact given the nearest outcomes.

    Attributes
    ----------
    gp : the prior
    data : the observations
    contexts : (n, d_c) the contexts of the queries
    amplitude, noise : the prior standard deviation of f, and that of the error of an outcome
    n_data, n_base : the number of observations, and of those behind the pseudo-data
    """

    def __init__(self, gp: GP, data: Data, contexts: FloatArray, points: DistinctPoints) -> None:
        """`points` are the distinct ones of the first observations."""
        self.gp, self.data, self.contexts = gp, data, contexts
        self.amplitude, self.noise = math.sqrt(gp.kernel.variance), gp.noise
        self.n_data, self.n_base = len(data.observations), len(points.of)
        self._first_points = points
        self._inducing: list[tuple[Indices, FloatArray]] = []  # cache, shared by all views: the points, and L
        self._near: dict[bytes, ExactPosterior | PerturbedPosterior] = {}  # cache, by action; any contexts
        self._cells: dict[int, ExactPosterior | PerturbedPosterior] = {}  # cache, by inducing point
        self._searched: GPPosterior | None = None  # cache

    # --- observations -----------------------------------------------------------------------------------------------

    def on(self, contexts: FloatArray) -> Self:
        """Return the posterior of the same observations on other contexts (n, d_c)."""
        if contexts is self.contexts or np.array_equal(contexts, self.contexts):
            return self
        made = copy.copy(self)
        made.contexts = contexts
        made._searched = None if self._searched is None else self._searched.on(contexts)
        return made

    def after(self, data: Data) -> Self:
        """Return the posterior of data that begin with those of this one; the pseudo-data stay."""
        if len(data.observations) == self.n_data:
            return self
        made = copy.copy(self)
        new = data.observations[self.n_data :]
        made.data, made.n_data = data, len(data.observations)
        made._near, made._cells = {}, {}
        made.__dict__.pop("_points", None)
        made._searched = None if self._searched is None else self._searched.with_more(new)
        return made

    def with_more(self, observations: Sequence[Observation]) -> Self:
        """Return the posterior with further observations of checked shapes."""
        return self.after(self.data.and_also(observations))

    @cached_property
    def _points(self) -> DistinctPoints:
        """All points: those of the first observations, then one per further observation."""
        return self._first_points.and_also(distinct(self.gp, self.data, self.n_data, self.n_base))

    @property
    def _prior(self) -> Process:
        return self.gp if self.data.inputs.shift is None else of_places(self.gp)

    # --- pseudo-data ------------------------------------------------------------------------------------------------

    @property
    def n_inducing(self) -> int:
        """The number of inducing points."""
        return len(self._induced()[0])

    def _induced(self) -> tuple[Indices, FloatArray]:
        """Return the inducing points, as indices of the first points, and L (m, m) with L L' = Kuu."""
        if not self._inducing:
            self._inducing.append(_inducing(self._prior, self._first_points))
        return self._inducing[0]

    @property
    def searched(self) -> GPPosterior:
        """The posterior of the pseudo-data and the observations on top, which a search uses."""
        if self._searched is None:
            inputs, (at, L) = self.data.inputs, self._induced()
            if inputs.shift is None:
                factor = _pseudo(self.gp, self._first_points, at, L, inputs.actions, self.contexts)
                made: GPPosterior = ExactPosterior.of(factor)
            else:
                places = self._first_points.rows.c[:0]
                factor = _pseudo(self._prior, self._first_points, at, L, places[:, :0], places)
                made = PerturbedPosterior.of(self.gp, inputs.shift, inputs.actions, self.contexts, factor)
            self._searched = made.with_more(self.data.observations[self.n_base :])
        return self._searched

    moments = _by_pseudo_data("moments")
    moments_in = _by_pseudo_data("moments_in")
    averages = _by_pseudo_data("averages")
    gradient = _by_pseudo_data("gradient")
    on_grid = _by_pseudo_data("on_grid")
    covariance = _by_pseudo_data("covariance")
    averaged = _by_pseudo_data("averaged")
    scatter = _by_pseudo_data("scatter")
    draw = _by_pseudo_data("draw")
    draws = _by_pseudo_data("draws")
    check_draw = _by_pseudo_data("check_draw")
    check_draws = _by_pseudo_data("check_draws")

    # --- nearest outcomes -------------------------------------------------------------------------------------------

    @property
    def n_nearest(self) -> int:
        """The number of points that a bound of one action rests on."""
        return min(NEAREST, len(self._points))

    def near(self, *actions: FloatArray, count: int | None = None) -> ExactPosterior | PerturbedPosterior:
        """Return the exact posterior given the outcomes nearest to any of some actions (d_x,) (cached)."""
        most = NEAREST if count is None else count
        key = b"".join(action.tobytes() for action in actions) + str(most).encode()
        found = self._near.get(key)
        if found is None:
            rows, shift, kernel = self._points.rows, self.data.inputs.shift, self._prior.kernel
            at = np.array(actions)
            if shift is None:
                k = kernel.action(rows.x, at)
            else:  # the place of the mean perturbation
                k = kernel.context(rows.c, at + shift.steps(self.contexts.mean(axis=0)[None]))
            found = self._given(_largest(k.max(axis=1), most, rows.c), self.contexts)
        elif found.contexts is not self.contexts:
            found = found.on(self.contexts)
        self._near.pop(key, None)
        while len(self._near) >= KEPT:
            self._near.pop(next(iter(self._near)))
        self._near[key] = found
        return found

    def _given(self, points: Indices, contexts: FloatArray) -> ExactPosterior | PerturbedPosterior:
        """Return the exact posterior given some of the points, on contexts (n, d_c), without a grid."""
        inputs = replace(self.data.inputs, actions=self.data.inputs.actions[:0])
        return assembled(self.gp, inputs, contexts, self._points.at(points))

    def _cell(self, cell: int) -> ExactPosterior | PerturbedPosterior:
        """Return the exact posterior given the outcomes nearest to an inducing point, without contexts (cached)."""
        found = self._cells.pop(cell, None)
        if found is None:
            near = _largest(self._k_inducing(cell), NEIGHBOURS, self._points.rows.c)
            found = self._given(near, self.contexts[:0])
        while len(self._cells) >= KEPT_CELLS:
            self._cells.pop(next(iter(self._cells)))
        self._cells[cell] = found
        return found

    def of_action(self, action: Point) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance (n_contexts,) of f for one action, given the nearest outcomes."""
        mean, variance = self.near(action.coordinates).moments(action.coordinates[None, :])
        return mean[0], variance[0]

    def curve(self, action: FloatArray, slope: float) -> Curve:
        """Return mean + slope std of f(x, .) for one action (d_x,), given the nearest outcomes."""
        return self.near(action, count=min(NEAREST, NEAREST_OF_CURVE)).curve(action, slope)

    def difference(self, actions: FloatArray, other: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance (m, n_contexts) of f(x, c) - f(other, c), for actions (m, d_x), other (d_x,).

        For one action they are exact given the outcomes nearest to either, otherwise by the pseudo-data.
        """
        inner = self.near(actions[0], other) if len(actions) == 1 else self.searched
        return inner.difference(actions, other)

    def predict(self, actions: ArrayLike, contexts: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return the mean (m,) and variance (m,) of f at the points (x_i, c_i), actions (m, d_x), contexts (m, d_c).

        They are exact given the outcomes nearest to the inducing point that is nearest to (x_i, c_i).
        """
        inputs = self.data.inputs
        x, c = checked_pairs(actions, contexts, inputs.d_action, inputs.d_context)
        own = (x, c) if inputs.shift is None else (x[:, :0], x + inputs.shift.steps(c))
        cells = self._cells_of(*own)
        mean, variance = np.empty((2, len(x)))
        for cell in np.unique(cells).tolist():
            there = cells == cell
            mean[there], variance[there] = self._cell(cell).predict(x[there], c[there])
        return mean, variance

    def _cells_of(self, x: FloatArray, c: FloatArray) -> Indices:
        """Return the inducing point nearest to each point (x_i, c_i), as an index among them, (m,)."""
        at, _ = self._induced()
        rows, kernel = self._first_points.rows, self._prior.kernel
        found = np.empty(len(x), dtype=np.intp)
        for part in _slices(len(x), len(at)):
            k = kernel.between(x[part], c[part], rows.x[at], rows.c[at])
            found[part] = k.argmax(axis=1)
        return found

    def _k_inducing(self, cell: int) -> FloatArray:
        """Return the kernel (t,) of an inducing point with all points."""
        at, rows = self._induced()[0][cell], self._points.rows
        return self._points.kernel(self._prior, rows.x[at][None], rows.c[at][None])[:, 0]

    def leave_one_out(self, most: int | None = None) -> tuple[FloatArray, FloatArray]:
        """Return every outcome minus its prediction from the others near it, and the variance, in the order told.

        With `most` these are the outcomes near random inducing points, about so many; the others are nan.
        """
        points = self._points
        alpha, own = np.full((2, len(points)), np.nan)
        cells = self._cells_of(points.rows.x, points.rows.c)
        chosen = np.unique(cells) if most is None else _some_cells(cells, most)
        parts = [part for cell in chosen.tolist() for part in _chunks(cell, np.flatnonzero(cells == cell))]
        for cell, part in counted(parts, len(parts), "predicting each outcome from the others"):
            near = np.union1d(part, _largest(self._k_inducing(cell), NEIGHBOURS, points.rows.c))
            made = self._given(near, self.contexts[:0])
            inverse, place = made.inverse, np.searchsorted(near, part)
            W = inverse.W
            alpha[part] = inverse.alpha[place]
            own[part] = np.einsum("ij,ij->j", W[:, place], W[:, place])
        rows = self.data.rows
        variances = rows.variances(self.gp.ridge, self.amplitude)
        outcomes = np.where(np.isnan(points.rows.y), 0.0, points.rows.y)
        return left_out(alpha, own, outcomes, points.variance, points.of, rows.y, variances)


def _some_cells(cells: Indices, most: int) -> Indices:
    """Return random cells, increasing, that hold at least `most` of the points (t,) together, or all of them."""
    found, counts = np.unique(cells, return_counts=True)
    order = np.random.default_rng(0).permutation(len(found))
    return np.sort(found[order[: int(np.searchsorted(np.cumsum(counts[order]), most)) + 1]])


def _chunks(cell: int, points: Indices) -> Iterable[tuple[int, Indices]]:
    """Yield the points of a cell, up to as many at once as there are neighbours."""
    for start in range(0, len(points), NEIGHBOURS):
        yield cell, points[start : start + NEIGHBOURS]


def _slices(count: int, width: int) -> Iterable[slice]:
    """Yield parts of `count` rows with up to `_AT_ONCE` entries, each row having `width` of them."""
    step = max(_AT_ONCE // max(width, 1), 1)
    return (slice(start, start + step) for start in range(0, count, step))


def _largest(k: FloatArray, count: int, contexts: FloatArray) -> Indices:
    """Return the indices of the `count` largest k (t,), increasing; ties are broken by coverage of contexts (t, d)."""
    if len(k) <= count:
        return np.arange(len(k))
    least = np.partition(k, len(k) - count)[len(k) - count]
    above, tied = np.flatnonzero(k > least), np.flatnonzero(k == least)
    return np.sort(np.concatenate([above, tied[_covering(contexts[tied], count - len(above))]]))


def _covering(contexts: FloatArray, count: int) -> Indices:
    """Return `count` of the contexts (t, d): a quarter far from one another, extremes included, then random ones."""
    if count >= len(contexts):
        return np.arange(len(contexts))
    spread = np.ptp(contexts, axis=0)
    z = contexts / np.where(spread > 0.0, spread, 1.0)
    order = np.random.default_rng(0).permutation(len(z))
    apart, chosen = np.full(len(z), np.inf), [int(order[0])]
    for _ in range(count // 4 - 1):
        apart = np.minimum(apart, np.square(z - z[chosen[-1]]).sum(axis=1))
        chosen.append(int(apart.argmax()))
    rest = order[~np.isin(order, chosen)]
    return np.concatenate([np.unique(chosen), rest])[:count]


def _inducing(gp: Process, points: DistinctPoints) -> tuple[Indices, FloatArray]:
    """Return m inducing points by greedy pivots, each where the earlier ones explain f least, and L (m, m)."""
    single = np.setdiff1d(np.arange(points.n_known), list(points.rows.averages))
    pool = np.sort(np.random.default_rng(0).permutation(single)[:POOL])
    x, c = points.rows.x[pool], points.rows.c[pool]
    K = gp.kernel.between(x, c, x, c)
    L, order, rank, _ = lapack.dpstrf(K, lower=1, tol=_RESOLVED * gp.kernel.variance, overwrite_a=1)
    m = min(int(rank), INDUCING)
    return pool[order[:m] - 1], np.tril(L[:m, :m])


def _pseudo(
    gp: Process, points: DistinctPoints, at: Indices, L: FloatArray, actions: FloatArray, contexts: FloatArray
) -> Factor:
    """Return the factor of the pseudo-data: the points `at` (m,) stand for all points, also for those that failed."""
    m = len(at)
    B, v = _information(gp, points, at, L, np.arange(points.n_known))
    if points.n_known < len(points):
        unknown, _ = _information(gp, points, at, L, np.arange(points.n_known, len(points)))
        mean = np.linalg.solve(np.eye(m) + B, v)
        B += unknown
        v = np.asarray(mean + B @ mean)
    # B may be singular to rounding. The share of the prior that is added to it changes the posterior by less than that.
    B.flat[:: m + 1] += max(1e-10, 1e-14 * float(np.trace(B)))
    root = solve_triangular(np.linalg.cholesky(B), np.eye(m), lower=True, check_finite=False)
    inverse = root.T @ root
    outcomes = inverse @ v
    inner = np.linalg.cholesky(np.eye(m) + inverse)
    white = solve_triangular(inner, outcomes, lower=True, check_finite=False)
    mixing = L @ root.T
    rows = points.rows
    return Factor.made(
        gp, actions, contexts, points=(rows.x[at], rows.c[at], {}), U=(L @ inner).T, white=white, outcomes=L @ outcomes,
        variances=np.einsum("ij,ij->i", mixing, mixing), first=np.arange(m), gain=math.nan,
        errors_known=bool(np.isfinite(rows.noise).any()), mixing=mixing,
    )  # fmt: skip


def _information(
    gp: Process, points: DistinctPoints, at: Indices, L: FloatArray, some: Indices
) -> tuple[FloatArray, FloatArray]:
    """Return B (m, m) and v (m,) of some of the points; a missing outcome counts as 0."""
    rows, m = points.rows, len(at)
    B, v = np.zeros((m, m)), np.zeros(m)
    starts = some[rows.first[some] == some]  # of evaluations, which stay together
    cuts = np.searchsorted(some, starts[:: max(_AT_ONCE // m, 1)])
    parts = np.split(some, cuts[1:])
    for part in counted(parts, len(parts), "reading the outcomes, blocks"):
        own = points.at(part)
        K = own.kernel(gp, rows.x[at], rows.c[at])
        A = solve_triangular(L, _independent(K, own, gp.noise_correlation).T, lower=True, check_finite=False)
        B += A @ A.T
        v += A @ _independent(np.nan_to_num(own.rows.y)[:, None], own, gp.noise_correlation)[:, 0]
    return B, v


def _independent(columns: FloatArray, points: DistinctPoints, correlation: float) -> FloatArray:
    """Return N^-1/2 times columns (t, m), N the covariance of the errors of the points.

    For k errors of one evaluation, deviations e and correlation r, N = diag(e) ((1 - r) I + r 11') diag(e), and the
    symmetric root of the inverse of the middle is a I + b 11' with a = (1 - r)^-1/2 and a + k b = (1 - r + k r)^-1/2.
    """
    scaled = columns / np.sqrt(points.variance)[:, None]
    if correlation == 0.0:
        return np.asarray(scaled)
    starts = np.flatnonzero(points.rows.first == np.arange(len(points)))
    sizes = np.diff(np.append(starts, len(points)))
    a = 1.0 / math.sqrt(1.0 - correlation)
    b = (1.0 / np.sqrt(1.0 - correlation + sizes * correlation) - a) / sizes
    sums = np.add.reduceat(scaled, starts, axis=0)
    return np.asarray(a * scaled + np.repeat(b[:, None] * sums, sizes, axis=0))
