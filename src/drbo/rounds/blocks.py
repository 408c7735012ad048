"""Runs of days: resampling that keeps what neighbouring days have in common, and how long such runs must be.

The autocorrelation of contexts of any kind is measured with the ambiguity set's own distance d between single contexts,

    rho(h) = 1 - mean of d(c_i, c_{i+h})^2 / mean of d(c_i, c_j)^2 over independent pairs.

For numbers and d(a, b) = |a - b| it is the usual autocorrelation. For an MMD it is that of the kernel's features, whose
long-run variance is what an MMD of empirical distributions measures.
"""

from __future__ import annotations

import math

import numpy as np

from drbo.ambiguity.contract import AmbiguitySet
from drbo.ambiguity.reference import Indices
from drbo.validation import FloatArray

_PAIRS = 200
"""How many pairs of days are compared per lag at most."""


def in_blocks(count: int, block: int, rng: np.random.Generator) -> Indices:
    """Return `count` positions of a circular block bootstrap: runs of `block` days from random starts."""
    starts = rng.integers(0, count, math.ceil(count / block))
    return np.asarray(((starts[:, None] + np.arange(block)).ravel() % count)[:count])


def autocorrelation(seen: Indices, ambiguity: AmbiguitySet, n_contexts: int, lags: int) -> FloatArray:
    """Return rho(1), ..., rho(lags); at most 200 evenly spaced pairs are compared per lag."""
    t = len(seen)
    known: dict[tuple[int, int], float] = {}

    def squared(a: Indices, b: Indices) -> float:
        total = 0.0
        for pair in zip(a.tolist(), b.tolist(), strict=True):
            i, j = pair
            if i != j and pair not in known:
                known[pair] = _between(ambiguity, i, j, n_contexts) ** 2
            total += known.get(pair, 0.0)
        return total / len(a)

    different, counts = np.unique(seen, return_counts=True)
    if len(different) ** 2 <= 2 * _PAIRS:  # few contexts: all pairs of days
        pairs = np.repeat(different, len(different)), np.tile(different, len(different))
        shares = np.outer(counts, counts).ravel() / (t * (t - 1.0))
        apart = sum(share * squared(*pair) for share, *pair in zip(shares, *(p[:, None] for p in pairs), strict=True))
    else:  # random pairs of days stand for independent ones
        rng = np.random.default_rng(0)
        first = rng.integers(0, t, 2 * _PAIRS)
        apart = squared(seen[first], seen[(first + rng.integers(1, t, 2 * _PAIRS)) % t])
    if apart == 0.0:
        return np.zeros(lags)
    found = np.empty(lags)
    for h in range(1, lags + 1):
        at = np.unique(np.linspace(0, t - h - 1, min(t - h, _PAIRS)).astype(np.intp))
        found[h - 1] = 1.0 - squared(seen[at], seen[at + h]) / apart
    return found


def block_length(seen: Indices, ambiguity: AmbiguitySet, n_contexts: int) -> int:
    """Return the length of blocks that suits the autocorrelation, 1 if there is none (Politis and White, 2004).

    b = (3/2)^(1/3) (g / s)^(2/3) t^(1/3),  g = 2 sum_h l(h) h rho(h),  s = 1 + 2 sum_h l(h) rho(h),

    with the flat-top window l(h), which ends at twice the lag from which on five autocorrelations are insignificant; at
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
    if s <= 1.0:  # days that alternate: independent ones have the larger error
        return 1
    return int(min(max(math.ceil((1.5 * (g / s) ** 2 * t) ** (1.0 / 3.0)), 1), longest))


def _between(ambiguity: AmbiguitySet, i: int, j: int, n_contexts: int) -> float:
    """Return the distance of two contexts: of the distributions that are one of them; 1 where that is infinite."""
    both = np.zeros((2, n_contexts))
    both[0, i] = both[1, j] = 1.0
    distance = ambiguity.distance(both[0], both[1])
    return distance if math.isfinite(distance) else 1.0
