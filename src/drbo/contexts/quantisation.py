"""Many samples as a few weighted atoms, with the exact Wasserstein distance between the two.

Each of N samples c_i with weights p_i goes to its nearest atom a(i). With the weights that arrive there,

    W_r(samples, atoms)^r = sum_i p_i D(c_i, a(i))^r,

as no plan moves a sample less far. A ball of radius eps around the samples lies in the ball of radius eps + W_r around
the atoms. Atoms are chosen by k-means++ and a few steps of Lloyd's algorithm; each is the sample nearest to the mean of
its cell.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from drbo.ambiguity.metric import Metric
from drbo.contexts.compression import Compression, grouped, record
from drbo.validation import FloatArray

_STEPS = 8
"""Number of steps of Lloyd's algorithm: later ones change little."""


def quantise(points: FloatArray, metric: Metric, weights: FloatArray, atoms: int) -> Compression:
    """Return at most `atoms` of the samples (N, d), in steps of the metric, with weights, and the distance to them.

    The result is deterministic and does not depend on the order of the samples. If there are at most `atoms` distinct
    samples, all are kept, and the error is 0.
    """
    distinct, index, p, group = grouped(points, weights)
    if len(index) <= atoms:
        return record(points, index, p, 0.0, group)
    chosen = _seeds(distinct, p, metric, atoms)
    for _ in range(_STEPS):
        _, cell = _nearest(distinct, chosen, metric)
        mass = np.bincount(cell, weights=p, minlength=len(chosen))
        sums = np.stack([np.bincount(cell, weights=p * x, minlength=len(chosen)) for x in distinct.T], axis=1)
        means = sums / np.maximum(mass, np.finfo(float).tiny)[:, None]
        closest = np.asarray(cKDTree(distinct).query(means, p=metric.norm)[1], dtype=np.intp)
        moved = np.unique(np.where(mass > 0.0, closest, chosen))
        if np.array_equal(moved, chosen):
            break
        chosen = moved
    way, cell = _nearest(distinct, chosen, metric)
    shares = np.bincount(cell, weights=p, minlength=len(chosen)).astype(np.float64, copy=False)
    largest = float(way.max()) or 1.0
    error = largest * float(p @ (way / largest) ** metric.order) ** (1.0 / metric.order) * (1.0 + 1e-12)
    used = shares > 0.0
    place = np.cumsum(used) - 1
    return record(points, index[chosen[used]], shares[used], error, np.where(group < 0, -1, place[cell][group]))


def _nearest(points: FloatArray, chosen: NDArray[np.intp], metric: Metric) -> tuple[FloatArray, NDArray[np.intp]]:
    """Return the distance (n,) of each point from the nearest chosen one, and its position among these (n,)."""
    way, cell = cKDTree(points[chosen]).query(points, p=metric.norm)
    return np.asarray(way), np.asarray(cell, dtype=np.intp)


def _seeds(points: FloatArray, p: FloatArray, metric: Metric, count: int) -> NDArray[np.intp]:
    """Return `count` points by k-means++: each is drawn by its weight and its cost from those before; ascending."""
    rng = np.random.default_rng(0)
    chosen = [int(np.argmax(p))]
    cost = np.full(len(points), np.inf)
    for _ in range(count - 1):
        way = np.linalg.norm(points - points[chosen[-1]], metric.norm, axis=1)
        cost = np.minimum(cost, way**2)
        reached = np.cumsum(p * cost)
        if reached[-1] == 0.0:
            break
        chosen.append(int(np.searchsorted(reached, rng.random() * reached[-1], side="right")))
    return np.unique(np.minimum(chosen, len(points) - 1))
