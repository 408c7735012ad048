"""A benchmark problem as data, distributions on grids, and the paper's problems: two benchmarks and wind power."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from drbo import GP, MMD, RBF, AtLeast, AtMost, Kernel, LearnedGP, Matern, Neighbourhood, Product, validation
from drbo._messages import printable
from drbo.problems._wind_csv import WindDataError, WindSeries, la_haute_borne
from drbo.validation import FloatArray

__all__ = [
    "WINDOW_HOURS",
    "Function",
    "Optimum",
    "Problem",
    "benchmark_1",
    "benchmark_2",
    "nearest_context",
    "revenue",
    "wind",
    "window_distributions",
    "windows",
]  # fmt: skip

Function = Callable[[FloatArray, FloatArray], FloatArray]
"""f(x, c) for actions x (..., d_x) and contexts c (..., d_c); leading axes broadcast; shape (...)."""


@dataclass(frozen=True, eq=False)
class Optimum:
    """The best action of the grid under one objective.

    Attributes
    ----------
    action_index : its row in the problem's `actions`; the first if several tie
    action : (d_x,) the action itself
    value : the objective's value there
    """

    action_index: int
    action: FloatArray
    value: float


@dataclass(frozen=True, eq=False)
class Problem:
    """A reward f(x, c) to maximise over x while nature picks the distribution of c.

    Arrays are read-only. `values` and the optima are computed on first use, exactly, on the grid. The worst case within
    the MMD ball is solved for every action, with a certificate per solve.

    Attributes
    ----------
    name : a name that can be part of a file name; that of a problem of drbo is the function that makes it
    actions : (n_actions, d_x) the possible actions
    contexts : (n_contexts, d_c) the possible contexts
    function : f(x, c) on and off the grid, for arrays (`Function`)
    reference : (n_contexts,) the reference distribution
    noise : standard deviation of the noise on an observed reward, and on the outcomes of limits
    radius : the largest shift from the reference: as an MMD for the distributionally robust objective, and as a
        Euclidean distance from the reference's mean for StableOpt's, as in the paper; default: the MMD of the two
        distributions
    true_distribution : (n_contexts,) the distribution of the contexts; default: the reference
    mmd_kernel : the kernel of the MMD; default: that of `drbo.MMD()`
    gp_kernel : a product kernel that fits f (signal amplitude included); without one, methods learn it
    limits : outcomes besides the reward, by name: a function like f, and the `drbo.AtMost` or `drbo.AtLeast` that it
        must meet in every distribution of the set
    description : one line
    """

    name: str
    actions: FloatArray
    contexts: FloatArray
    function: Function
    reference: FloatArray
    noise: float
    radius: float = None  # type: ignore[assignment]  # None is replaced: see Attributes
    true_distribution: FloatArray = None  # type: ignore[assignment]  # as above
    mmd_kernel: Kernel = None  # type: ignore[assignment]  # as above
    gp_kernel: Product | None = None
    limits: Mapping[str, tuple[Function, AtMost | AtLeast]] = field(default_factory=dict)
    description: str = ""

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and re.fullmatch(r"[\w.+-]+", self.name)):
            raise ValueError(f"name must be letters, digits, _, ., + and - only, got {self.name!r}")
        if self.true_distribution is None:
            object.__setattr__(self, "true_distribution", self.reference)
        contexts = validation.points("contexts", self.contexts)
        arrays = {
            "actions": validation.points("actions", self.actions),
            "contexts": contexts,
            "reference": validation.distribution("reference", self.reference, len(contexts)),
            "true_distribution": validation.distribution("true_distribution", self.true_distribution, len(contexts)),
        }
        for name, array in arrays.items():
            object.__setattr__(self, name, _frozen(array.copy()))
        if self.mmd_kernel is None:
            ranges = np.ptp(contexts, axis=0)
            lengths = 0.2 * np.sqrt(contexts.shape[1]) * np.where(ranges > 0.0, ranges, 1.0)
            object.__setattr__(self, "mmd_kernel", RBF(lengths))
        shift = self.ambiguity.distance(self.reference, self.true_distribution) if self.radius is None else self.radius
        object.__setattr__(self, "radius", validation.radius(shift))
        object.__setattr__(self, "noise", validation.positive_float("noise", self.noise))

    @cached_property
    def values(self) -> FloatArray:
        """The values of f on the grid, (n_actions, n_contexts)."""
        return self._on_grid("function", self.function)

    @cached_property
    def limit_values(self) -> dict[str, FloatArray]:
        """The values of the limited outcomes on the grid, (n_actions, n_contexts) each."""
        return {name: self._on_grid(f"limits[{name!r}]", function) for name, (function, _) in self.limits.items()}

    def _on_grid(self, name: str, function: Function) -> FloatArray:
        values = np.asarray(function(self.actions[:, None, :], self.contexts[None, :, :]))
        if values.shape != (len(self.actions), len(self.contexts)):
            raise ValueError(
                f"{name} must return an array of shape {len(self.actions), len(self.contexts)} for actions of shape "
                f"{self.actions[:, None, :].shape} and contexts of shape {self.contexts[None, :, :].shape}, got shape "
                f"{values.shape}; numpy.vectorize(f, signature='(d),(e)->()') makes such a function of one for a pair"
            )
        return _frozen(validation.finite_array(name, values).copy())

    @property
    def surrogate(self) -> GP | LearnedGP:
        """The model of f: with the problem's kernel and noise, or one that learns both."""
        return LearnedGP() if self.gp_kernel is None else GP(self.gp_kernel, self.noise)

    @cached_property
    def ambiguity(self) -> MMD:
        """The MMD ambiguity set over the problem's contexts."""
        return MMD(self.contexts, self.mmd_kernel)

    @cached_property
    def stochastic_values(self) -> FloatArray:
        """The expectation of every action, (n_actions,): E_{c ~ reference} f(x, c)."""
        return _frozen(self.values @ self.reference)

    @cached_property
    def robust_values(self) -> FloatArray:
        """The worst case of every action, (n_actions,): min E_{c ~ Q} f(x, c) over MMD(Q, reference) <= radius."""
        return _frozen(self.ambiguity.worst_case(self.values, self.reference, self.radius).expectation)

    @cached_property
    def worst_case_values(self) -> FloatArray:
        """StableOpt's worst case of every action, (n_actions,): min f(x, c) over ||c - E_reference[c]||_2 <= radius."""
        stable = Neighbourhood(self.contexts)
        return _frozen(stable.worst_case(self.values, self.reference, self.radius).expectation)

    @property
    def stochastic_optimum(self) -> Optimum:
        """The best action if the reference is true: the goal of stochastic UCB."""
        return self._best(self.stochastic_values)

    @property
    def robust_optimum(self) -> Optimum:
        """The distributionally robust solution: the best action under the worst distribution of the MMD ball."""
        return self._best(self.robust_values)

    @property
    def worst_case_optimum(self) -> Optimum:
        """The goal of StableOpt: the best action under the worst context within `radius` of the reference's mean."""
        return self._best(self.worst_case_values)

    @property
    def pure_worst_case_optimum(self) -> Optimum:
        """The best action under the worst of all contexts, for any radius."""
        return self._best(self.values.min(axis=1))

    def _best(self, objective: FloatArray) -> Optimum:
        best = int(np.argmax(objective))
        return Optimum(best, self.actions[best], float(objective[best]))


def _frozen(array: FloatArray) -> FloatArray:
    """Return the array, made read-only."""
    array.flags.writeable = False
    return array


def grid(*axes: FloatArray) -> FloatArray:
    """Return every combination of the coordinates, (n_1 n_2 ... n_d, d), last axis fastest."""
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))


def normal_density(contexts: FloatArray, mean: float, std: float) -> FloatArray:
    """Return normalised weights (n,) proportional to the isotropic normal density at contexts (n, d)."""
    density = np.exp(-0.5 * (((contexts - mean) / std) ** 2).sum(axis=1))
    return np.asarray(density / density.sum())


def clamped(axis: FloatArray, cdf: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """Return the distribution (n,) of a random number clamped to [axis[0], axis[-1]] and moved to the nearest point.

    w_i = P(m_{i-1} < C <= m_i) with m_i halfway between axis[i] and axis[i+1], m_0 = -inf and m_n = inf. The first and
    the last point also hold the mass of the tails. The axis (n,) is increasing.
    """
    below = cdf((axis[1:] + axis[:-1]) / 2.0)
    return np.diff(np.concatenate(([0.0], below, [1.0])))


def clamped_normal(axis: FloatArray, mean: float, std: float) -> FloatArray:
    """Return the normal distribution (n,) clamped to the ends of the axis and moved to the nearest points."""
    return clamped(axis, lambda c: np.asarray(ndtr((c - mean) / std)))


Reading = Literal["deviation", "variance"]
"""The meaning of the second number of N(0.5, 0.05)."""


def benchmark_1(size: int = 50, *, lengthscale: float = 0.1, reading: Reading = "deviation") -> Problem:
    """Return the benchmark whose stochastic, distributionally robust and worst-case solutions all differ.

    f(x, c) = b(x - 0.15) e(c; 0.07) + b(x - 0.5) (0.25 + 0.45 e(c; 0.15)) + 0.4 b(x - 0.85),

    b(u) = exp(-u^2 / (2 * 0.12^2)),  e(c; s) = exp(-(c - 0.5)^2 / (2 s^2)).

    A narrow, high ridge under the reference (x = 0.15, the stochastic solution). A lower, wider ridge that survives the
    shift (x = 0.5, distributionally robust, and also the best under the true distribution). A safe plateau (x = 0.85,
    the solution of StableOpt and of the pure worst case). The grid has `size` actions and `size` contexts.
    """
    description = "narrow ridge, wide ridge, safe plateau: the three solutions differ"
    gp_kernel = Product(RBF(0.15, amplitude=0.5), RBF(0.12))
    return _on_unit_square("benchmark_1", description, _three_ridges, size, gp_kernel, lengthscale, reading)


def benchmark_2(size: int = 50, *, lengthscale: float = 0.1, reading: Reading = "deviation") -> Problem:
    """Return the benchmark whose stochastic, distributionally robust and worst-case solutions coincide.

    f(x, c) = exp(-(x - 0.65)^2 / (2 * 0.2^2) - (c - 0.5)^2 / (2 * 0.4^2))
              + 0.6 exp(-(x - 0.2)^2 / (2 * 0.12^2) - (c - 0.5)^2 / (2 * 0.25^2)).

    A wide hill that is the best in every context (x = 0.65), and a smaller, narrower one. The grid has `size` actions
    and `size` contexts.
    """
    description = "one wide hill and a smaller one: the three solutions coincide"
    gp_kernel = Product(RBF(0.2, amplitude=0.5), RBF(0.4))
    return _on_unit_square("benchmark_2", description, _two_hills, size, gp_kernel, lengthscale, reading)


def _on_unit_square(
    name: str, description: str, function: Function, size: int, gp_kernel: Product, lengthscale: float, reading: Reading
) -> Problem:
    """Return a benchmark with the distributions that both benchmarks share."""
    if reading not in ("deviation", "variance"):
        raise ValueError(f"reading must be 'deviation' or 'variance', got {reading!r}")
    power = 1.0 if reading == "deviation" else 0.5
    points = np.linspace(0.0, 1.0, size)[:, None]
    return Problem(
        name=name,
        description=description,
        actions=points,
        contexts=points,
        function=function,
        reference=normal_density(points, 0.5, 0.05**power),
        true_distribution=normal_density(points, 0.45, 0.1**power),
        mmd_kernel=RBF(lengthscale),
        gp_kernel=gp_kernel,
        noise=0.05,
    )


def _three_ridges(x: FloatArray, c: FloatArray) -> FloatArray:
    a, b = x[..., 0], c[..., 0]
    narrow = _bell(a - 0.15, 0.12) * _bell(b - 0.5, 0.07)
    wide = _bell(a - 0.5, 0.12) * (0.25 + 0.45 * _bell(b - 0.5, 0.15))
    safe = 0.4 * _bell(a - 0.85, 0.12)
    return narrow + wide + safe


def _two_hills(x: FloatArray, c: FloatArray) -> FloatArray:
    a, b = x[..., 0], c[..., 0]
    high = _bell(a - 0.65, 0.2) * _bell(b - 0.5, 0.4)
    low = 0.6 * _bell(a - 0.2, 0.12) * _bell(b - 0.5, 0.25)
    return high + low


def _bell(u: FloatArray, width: float) -> FloatArray:
    """Return exp(-u^2 / (2 width^2))."""
    return np.exp(-0.5 * (u / width) ** 2)


WINDOW_HOURS = 48


def revenue(x: FloatArray, c: FloatArray) -> FloatArray:
    """Return the revenue for a commitment x and a generation c, for any shapes that broadcast.

    f(x, c) = 0.1 max(c - x, 0) + min(x, c) - 5 max(x - c, 0)

    Under a known distribution of c the best x is its 0.9 / 5.9 = 0.153 quantile.
    """
    return np.asarray(0.1 * np.maximum(c - x, 0.0) + np.minimum(x, c) - 5.0 * np.maximum(x - c, 0.0))


def windows(power: FloatArray, hours: int = WINDOW_HOURS) -> tuple[FloatArray, FloatArray]:
    """Return every window of past hours (m, hours) and the value of the hour that follows it (m,), m = n - hours."""
    series = validation.finite_array("power", power, ndim=1)
    if len(series) < 2:
        raise ValueError(f"power must have at least two hours, got {len(series)}")
    if not 1 <= validation.whole_number("hours", hours) < len(series):
        raise ValueError(f"hours must be at least 1 and less than the {len(series)} hours of the series, got {hours}")
    past = np.lib.stride_tricks.sliding_window_view(series, hours)[:-1]
    return past, series[hours:]


def nearest_context(values: FloatArray, contexts: FloatArray) -> NDArray[np.intp]:
    """Return the index of the context nearest to each value, the lower one of a tie; same shape as values.

    This puts a measured value on the grid. The contexts (n,) or (n, 1) increase; values beyond their ends
    go to the end.
    """
    axis = contexts.reshape(-1)
    return np.searchsorted((axis[1:] + axis[:-1]) / 2.0, values, side="left")


def window_distributions(past: FloatArray, contexts: FloatArray) -> FloatArray:
    """Return the empirical distribution of each window (..., hours) on the contexts (n, 1); (..., n)."""
    nearest = nearest_context(past, contexts)
    counts = np.zeros((*past.shape[:-1], len(contexts)))
    rows = np.indices(past.shape, sparse=True)[:-1]
    np.add.at(counts, (*rows, nearest), 1.0)
    return np.asarray(counts / past.shape[-1])


def wind(
    series: WindSeries | None = None,
    time: str | None = None,
    *,
    hours: int = WINDOW_HOURS,
    size: int = 50,
    radius: float = 0.1,
) -> Problem:
    """Return the decision for one hour: the amount to commit, with the preceding hours as the reference.

    f(x, c) = 0.1 max(c - x, 0) + min(x, c) - 5 max(x - c, 0), with x and c as shares of the maximum of the series.

    The actions and the contexts are linspace(0, 1, size). The reference is the empirical distribution of the window,
    each value at its nearest context; the true distribution is the value of the hour itself, at its nearest context.

    Parameters
    ----------
    series : the series, scaled by its own maximum; default: La Haute Borne 2014
    time : the start of the hour (UTC), within the series and at least `hours` after its start; default:
        2014-02-10T08 for La Haute Borne 2014, otherwise the first possible hour
    hours : length of the window
    size : the number of actions, and of contexts
    radius : the radius of the ambiguity sets; 0.1 was about the best in hindsight on two series (MMD lengthscale 0.1)
    """
    if time is not None:
        validation.of_kind("time", time, str, "an hour such as 2014-02-10T08")
    side = validation.whole_number("size", size, least=2, most=10_000)
    if series is None:
        series = la_haute_borne().year(2014)
        time = "2014-02-10T08" if time is None else time
    validation.of_kind("series", series, WindSeries, "a WindSeries, such as read_wind_csv returns")
    past, following = windows(series.normalised(), hours)
    times = series.times[hours:]
    row = 0
    if time is not None:
        try:
            row = int((np.datetime64(time.removesuffix("Z"), "h") - times[0]).astype(int))
        except ValueError:
            raise ValueError(f"time must be an hour such as 2014-02-10T08, got {time!r}") from None
    if not 0 <= row < len(times):
        raise WindDataError(f"{printable(series.name)}: time must be from {times[0]} to {times[-1]}, got {time}")
    points = np.linspace(0.0, 1.0, side)[:, None]
    return Problem(
        name="wind",
        description=f"wind power committed an hour ahead ({series.name}, {times[row]}Z)",
        actions=points,
        contexts=points,
        function=_revenue_of_points,
        reference=window_distributions(past[row], points),
        true_distribution=window_distributions(following[row : row + 1], points),
        mmd_kernel=RBF(0.1),
        gp_kernel=Product(Matern(0.3, amplitude=1.5, nu=2.5), Matern(0.3, nu=2.5)),
        noise=0.01,
        radius=radius,
    )


def _revenue_of_points(x: FloatArray, c: FloatArray) -> FloatArray:
    return revenue(x[..., 0], c[..., 0])
