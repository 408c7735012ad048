"""What past contexts show of themselves: whether one day resembles the next, and how heavy their tails are.

Contexts of any kind are compared by the ambiguity set's own distance d between single contexts. Autocorrelation:

    rho(h) = 1 - mean of d(c_i, c_{i+h})^2 / mean of d(c_i, c_j)^2 over independent pairs.

For numbers and d(a, b) = |a - b| it is the usual autocorrelation. For an MMD it is the autocorrelation of the kernel's
features; their long-run variance determines the MMD of empirical distributions.

Their tail is that of the distances from the most central context, to the power r of the set's order. An average of
costs d^r has a bootstrap only if these have a finite variance: their tail index is below 1/2. Hill's estimator is

    H = r / k * sum_{i <= k} log(d_(i) / d_(k+1)),   d_(1) >= d_(2) >= ... the distances that are not zero.

If the tail beyond d_(k+1) is that of a power law of index 1/2, 2 k H is Gamma(k); for lighter tails it is smaller. So
H above 1/2 times the 95% quantile of Gamma(k) / k refutes a finite variance, with a false-alarm rate of 5% at the
border.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv

from drbo.ambiguity.family import SetOrFamily, as_placed
from drbo.ambiguity.placed import PlacedSet
from drbo.contexts.nature import Indices
from drbo.validation import FloatArray

_PAIRS = 200
"""Largest number of pairs of days compared per lag."""


def in_blocks(count: int, block: int, rng: np.random.Generator, times: int = 1) -> Indices:
    """Return positions (times, count) of a circular block bootstrap: blocks of `block` days with random starts."""
    starts = rng.integers(0, count, (times, math.ceil(count / block)))
    days = (starts[:, :, None] + np.arange(block)) % count
    return np.asarray(days.reshape(times, -1)[:, :count])


def autocorrelation(seen: Indices, ambiguity: SetOrFamily, n_contexts: int, lags: int) -> FloatArray:
    """Return rho(1), ..., rho(lags); at most 200 evenly spaced pairs are compared per lag."""
    t, placed = len(seen), as_placed(ambiguity)

    def squared(a: Indices, b: Indices) -> FloatArray:
        distances = placed._between(a, b, n_contexts)
        return np.where(np.isfinite(distances), distances, 1.0) ** 2

    different, counts = np.unique(seen, return_counts=True)
    if len(different) ** 2 <= 2 * _PAIRS:  # few contexts: use all pairs of days
        pairs = np.repeat(different, len(different)), np.tile(different, len(different))
        apart = float(np.outer(counts, counts).ravel() / (t * (t - 1.0)) @ squared(*pairs))
    else:  # random pairs of days approximate independent ones
        rng = np.random.default_rng(0)
        first = rng.integers(0, t, 2 * _PAIRS)
        apart = float(squared(seen[first], seen[(first + rng.integers(1, t, 2 * _PAIRS)) % t]).mean())
    if apart == 0.0:
        return np.zeros(lags)
    found = np.empty(lags)
    for h in range(1, lags + 1):
        at = np.unique(np.linspace(0, t - h - 1, min(t - h, _PAIRS)).astype(np.intp))
        found[h - 1] = 1.0 - float(squared(seen[at], seen[at + h]).mean()) / apart
    return found


def block_length(seen: Indices, ambiguity: SetOrFamily, n_contexts: int) -> int:
    """Return the block length for the autocorrelation, 1 if there is none (Politis and White, 2004).

    b = (3/2)^(1/3) (g / s)^(2/3) t^(1/3),  g = 2 sum_h l(h) h rho(h),  s = 1 + 2 sum_h l(h) rho(h),

    with the flat-top window l(h), which ends at twice the lag after which five autocorrelations are insignificant; at
    most min(3 sqrt(t), t / 3).
    """
    t = len(seen)
    longest = int(min(3.0 * math.sqrt(t), t / 3))
    if longest < 2:
        return 1
    lags = min(math.ceil(math.sqrt(t)) + 5, t - 2)
    rho = autocorrelation(seen, ambiguity, n_contexts, lags)
    insignificant = np.abs(rho) < 2.0 * math.sqrt(math.log10(t) / min(t, _PAIRS))
    runs = [m for m in range(lags - 4) if insignificant[m : m + 5].all()]
    if runs and runs[0] == 0:
        return 1
    end = min(2 * runs[0], lags) if runs else lags
    h = np.arange(1, end + 1)
    flat_top = np.clip(2.0 * (1.0 - h / end), 0.0, 1.0)
    g = 2.0 * float((flat_top * h * rho[:end]).sum())
    s = 1.0 + 2.0 * float((flat_top * rho[:end]).sum())
    if s <= 1.0:  # alternating days: independent ones have the larger error
        return 1
    return int(min(max(math.ceil((1.5 * (g / s) ** 2 * t) ** (1.0 / 3.0)), 1), longest))


_LEVEL = 0.95
"""Confidence at which a finite variance is refuted."""
_FEWEST = 4
"""Least number of distances in the tail: 40 days."""


@dataclass(frozen=True)
class Tail:
    """Hill's estimate of the tail index of the costs d^r, and the largest one that a finite variance permits."""

    index: float
    limit: float

    @property
    def heavy(self) -> bool:
        """Whether a finite variance is refuted."""
        return self.index > self.limit


def tail(seen: Indices, ambiguity: SetOrFamily, n_contexts: int) -> Tail | None:
    """Return the tail of past contexts; None if fewer than 40 of them differ from the most central one.

    The tail is the largest tenth of the distances, and at most the square root of their number: further in, skewed days
    look heavy-tailed.
    """
    placed = as_placed(ambiguity)
    while isinstance(inner := getattr(placed, "inner", None), PlacedSet):  # bounds say nothing about distances
        placed = inner
    shares = np.bincount(seen, minlength=n_contexts) / max(len(seen), 1)
    if not len(seen):
        return None
    there = np.flatnonzero(shares)
    centre = int(there[np.argmin(placed._to_vertices(shares)[there])])
    distances = placed._between(seen, np.full(len(seen), centre), n_contexts)
    distances = np.sort(distances[np.isfinite(distances) & (distances > 0.0)])[::-1]
    k = min(len(distances) // 10, math.isqrt(len(distances)))
    if k < _FEWEST:
        return None
    index = placed.growth.power * float(np.log(distances[:k] / distances[k]).mean())
    return Tail(index, 0.5 * float(gammaincinv(k, _LEVEL)) / k)
