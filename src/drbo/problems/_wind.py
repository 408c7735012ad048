"""The paper's wind power problem: commit an amount of energy one hour ahead, given the last 48 hours."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from drbo import RBF, Matern, Product, validation
from drbo.problems._problem import Problem
from drbo.problems._wind_csv import WindDataError, WindSeries, la_haute_borne
from drbo.validation import FloatArray

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
    if not 1 <= validation.integer("hours", hours) < len(series):
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
        raise WindDataError(f"{series.name}: time must be from {times[0]} to {times[-1]}, got {time}")
    points = np.linspace(0.0, 1.0, side)[:, None]
    return Problem(
        name="wind",
        description=f"wind power committed an hour ahead ({series.name}, {times[row]}Z)",
        actions=points,
        contexts=points,
        function=_revenue_of_points,
        reference=window_distributions(past[row], points),
        true_distribution=window_distributions(following[row : row + 1], points),
        radius=radius,
        mmd_kernel=RBF(0.1),
        gp_kernel=Product(Matern(0.3, amplitude=1.5, nu=2.5), Matern(0.3, nu=2.5)),
        noise=0.01,
    )


def _revenue_of_points(x: FloatArray, c: FloatArray) -> FloatArray:
    return revenue(x[..., 0], c[..., 0])
