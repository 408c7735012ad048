"""Intervals of what the benches report: shares of false bounds, and paired ratios."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import beta

LEVEL = 0.95
_RESAMPLES = 4000


def clopper_pearson(count: int, total: int, level: float = LEVEL) -> tuple[float, float]:
    """Return the two-sided Clopper-Pearson limits of a share, count of total."""
    if not 0 <= count <= total or total < 1:
        raise ValueError(f"count must be between 0 and a positive total, got {count} of {total}")
    tail = (1.0 - level) / 2.0
    low = 0.0 if count == 0 else float(beta.ppf(tail, count, total - count + 1))
    high = 1.0 if count == total else float(beta.ppf(1.0 - tail, count + 1, total - count))
    return low, high


def paired_ratio(
    ours: ArrayLike, theirs: ArrayLike, floor: float = 0.0, level: float = LEVEL
) -> tuple[float, float, float]:
    """Return the geometric mean of ours / theirs over pairs (n,), and the bootstrap limits over resampled pairs.

    Numbers below `floor` count as the floor.
    """
    mine, other = (np.maximum(np.asarray(values, dtype=float), floor) for values in (ours, theirs))
    if mine.shape != other.shape or mine.ndim != 1 or not len(mine):
        raise ValueError(f"ours and theirs must be pairs, got the shapes {mine.shape} and {other.shape}")
    if not (mine.min() > 0.0 and other.min() > 0.0):
        raise ValueError("ours and theirs must be positive, or floor must be")
    logs = np.log(mine / other)
    picked = np.random.default_rng(0).integers(len(logs), size=(_RESAMPLES, len(logs)))
    tail = (1.0 - level) / 2.0
    low, high = np.exp(np.quantile(logs[picked].mean(axis=1), [tail, 1.0 - tail]))
    return float(np.exp(logs.mean())), float(low), float(high)
