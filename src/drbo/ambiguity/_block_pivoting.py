"""The MMD solver for hundreds of contexts with weight: block pivoting on finer and finer sets of contexts.

`_mmd_solver` changes one atom of the active set at a time, which is best if few atoms carry weight. With a rough kernel
nearly all contexts may: Matern 3/2 of lengthscale 0.1 on 1000 contexts of a line has 900 active atoms. Here the active
set A changes by many atoms at once. On the affine hull of A the program

    minimise <d, w>   s.t.   sum w = 1,   (w - p)' M (w - p) <= eps^2,   w = 0 outside of A

has a closed form by one Cholesky factor of M_AA. Then all atoms of negative weight leave A, and all contexts cheaper
than A enter, until there are neither. A cold start takes many steps, because the border of A moves by a few contexts
per step. So the program is solved on the first 64 pivots of the factor of M, which are spread over all contexts, then
on 128, 256, ... pivots, and finally on all contexts. Each solve starts from the previous solution and takes two to five
steps.

Such steps need not terminate, and entries of M round distances to 1e-8. So the method gives up after a few steps, if
the optimum has few atoms, and if the certificate does not close. The certificate is that of `_mmd_solver`, computed
from the features.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtrs

from drbo.validation import FloatArray

Indices = NDArray[np.intp]

CLOSED = 1e-10
"""The largest gap of a certificate, as a share of the values' range."""
SMALLEST = 1e-4
"""The least radius, as a share of the furthest context's distance; entries of M are too coarse for smaller radii."""
_COARSEST = 64
_DENSE = 0.2
"""The least share of a set's contexts with weight; below it, one atom at a time is faster."""
_ROUNDING = 1e-14
"""The rounding error of a distance, as a share of the furthest context's."""
_STEPS = 8
"""Steps per set of contexts; three times as many on the coarsest sets, which have a cold start."""
_PRICE = 1e-13
"""A price below the active set's by less than this share of the largest price is ignored."""


@dataclass(eq=False)
class _Hull:
    """Solutions x of M_AA x_A = r_A for active sets A that change by a few atoms, from one Cholesky factor."""

    gram: FloatArray
    _base: Indices = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    _factor: FloatArray = field(default_factory=lambda: np.empty((0, 0)))

    def solve(self, active: Indices, right: FloatArray) -> FloatArray | None:
        """Return x (k, m) for the rows `active` (k,), sorted, of right (n, m); None if M_AA has no Cholesky factor.

        Atoms that entered (P) or left (Z) since the last factorisation border the factor: x_Z = 0 has a multiplier z,
        and [M_BB, M_BP, I_Z; M_PB, M_PP, 0; I_Z', 0, 0] (x_B, x_P, z) = (r_B, r_P, 0) is solved by its Schur
        complement.
        """
        came = np.setdiff1d(active, self._base, assume_unique=True)
        went = np.flatnonzero(np.isin(self._base, active, assume_unique=True, invert=True))
        if 8 * (len(came) + len(went)) > len(active):
            self._factor, failed = dpotrf(self.gram[active][:, active], lower=1, overwrite_a=1)
            if failed:
                return None
            self._base, came, went = active, active[:0], active[:0]
        base, q = self._base, len(came)
        x = dpotrs(self._factor, right[base], lower=1)[0]
        if not q + len(went):
            return np.asarray(x)
        border = np.zeros((len(base), q + len(went)))
        border[:, :q] = self.gram[base][:, came]
        border[went, np.arange(q, border.shape[1])] = 1.0
        half = dtrtrs(self._factor, border, lower=1)[0]
        schur = -half.T @ half
        schur[:q, :q] += self.gram[came][:, came]
        aside = np.zeros((border.shape[1], right.shape[1]))
        aside[:q] = right[came]
        try:
            aside = np.linalg.solve(schur, aside - border.T @ x)
        except np.linalg.LinAlgError:
            return None
        x = x - dtrtrs(self._factor, half @ aside, lower=1, trans=1)[0]
        whole = np.empty((len(self.gram), right.shape[1]))
        whole[base], whole[came] = x, aside[:q]
        return np.asarray(whole[active])


class BlockPivoting:
    """The solver on contexts of features F (n, r) in the `order` (n,) of pivots first; `gram` is M in this order."""

    def __init__(self, features: FloatArray, pivots: list[int]) -> None:
        rest = np.setdiff1d(np.arange(len(features)), pivots)
        self.order = np.concatenate([np.array(pivots, dtype=np.intp), rest])
        self._features = features
        ordered = features[self.order]
        self.gram = ordered @ ordered.T
        self._rank = len(pivots)

    def solve(self, values: FloatArray, reference: FloatArray, radius: float) -> tuple[FloatArray, float] | None:
        """Return worst-case weights (n,) and a certified lower bound for values (n,); None if the method gives up."""
        low, high = float(values.min()), float(values.max())
        half = 0.5 * high - 0.5 * low  # half the range cannot overflow
        p, gram = reference[self.order], self.gram
        mean = gram @ p
        square = float(p @ mean)
        lowest = int(np.argmin(values[self.order]))
        norms = np.sqrt(np.maximum(gram.diagonal() - 2.0 * mean + square, 0.0))
        if half == 0.0 or radius < SMALLEST * norms.max() or norms[lowest] <= radius:
            return None
        d = (0.5 * values[self.order] - 0.5 * low) / half
        expected = float(p @ d)
        d -= expected
        found = self._on_finer_sets(d, mean, square, radius)
        certified = None if found is None else self._certified(*found, reference, d, radius)
        return None if certified is None else (certified[0], low + 2.0 * half * (expected + certified[1]))

    def _on_finer_sets(
        self, d: FloatArray, mean: FloatArray, square: float, radius: float
    ) -> tuple[FloatArray, float] | None:
        """Return the weights (n,) in the order of the pivots and the length of the step along the hull, or None.

        `mean` (n,) is M p and `square` is p'Mp. The multiplier of the ball is F'(w - p) / step.
        """
        gram, n = self.gram, len(d)
        right = np.stack([np.ones(n), d, mean], axis=1)
        active = np.ones(_COARSEST, dtype=np.bool_)
        size = _COARSEST
        hull = _Hull(gram)
        while True:
            for _ in range(_STEPS if size > 2 * _COARSEST else 3 * _STEPS):
                rows = np.flatnonzero(active)
                x = hull.solve(rows, right)
                if x is None:
                    return None
                one, slope, near = x.T
                near = near + one * ((1.0 - near.sum()) / one.sum())  # the point of the hull nearest to the reference
                slope = slope - one * (slope.sum() / one.sum())
                distance2 = float((1.0 - x[:, 2].sum()) / one.sum() - near @ mean[rows]) + square
                steepness = float(slope @ d[rows])
                if not (distance2 < radius**2 and steepness > 0.0):
                    break  # this set of contexts has no distribution within the radius
                step = math.sqrt((radius**2 - distance2) / steepness)
                w = np.zeros(size)
                w[rows] = near - step * slope
                price = d[:size] + (gram[:size, :size] @ w - mean[:size]) / step
                own = price[np.argmax(w)]
                negative = w < 0.0
                cheap = ~active & (price < own - _PRICE * np.abs(price).max())
                if not (negative.any() or cheap.any()):
                    break
                active = (active & ~negative) | cheap
            else:
                return None
            outside = not (distance2 < radius**2 and steepness > 0.0)
            if size == n:
                return None if outside else (w, step)
            if not outside and active.sum() < _DENSE * size:
                return None
            before, size = size, (2 * size if 2 * size < self._rank else n)
            if outside:
                active = np.ones(size, dtype=np.bool_)
            else:
                price = d[before:size] + (gram[before:size, :before] @ w - mean[before:size]) / step
                active = np.concatenate([active, price < own])

    def _certified(
        self, ordered: FloatArray, step: float, reference: FloatArray, d: FloatArray, radius: float
    ) -> tuple[FloatArray, float] | None:
        """Return the weights within the radius, by context, and their bound for d; None if it is not tight."""
        weights = np.empty(len(ordered))
        weights[self.order] = ordered / ordered.sum()
        centre = reference @ self._features
        shift = weights @ self._features - centre
        distance = float(np.linalg.norm(shift))
        if distance > radius + _ROUNDING * math.sqrt(float(self.gram.diagonal().max())):
            weights = reference + (radius / distance) * (weights - reference)
        prices = (self._features @ shift - centre @ shift)[self.order] / step + d
        bound = float(prices.min()) - radius * distance / step
        if not float(weights[self.order] @ d) - bound <= CLOSED:
            return None
        return np.maximum(weights, 0.0), bound
