"""Values in units of their own range, so that one tolerance fits values of any size; and running sums.

lowest, scale   (m,)     of each row of values, over the contexts that the adversary may use
u               (m, n)   (v - lowest) / scale, so 0 <= u <= 1
p, mass         (n,)     the reference on those contexts, and its sum (one, up to the rounding of whoever made it)
"""

from __future__ import annotations

import numpy as np

from drbo.ambiguity.contract import expectations
from drbo.validation import FloatArray


def in_unit_range(values: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return u (m, n) in [0, 1] with its offset and scale (m,): values = lowest + scale u; flat rows are all zero."""
    lowest = values.min(axis=1)
    above = values - lowest[:, None]
    scale = above.max(axis=1)
    u = above / np.where(scale > 0.0, scale, 1.0)[:, None]
    u[u < 1e-50] = 0.0  # so that squares do not underflow
    return u, lowest, scale


def reference_alone(values: FloatArray, reference: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the answer at radius zero: the reference as weights (m, n), the expectations under it as bounds (m,)."""
    weights = np.broadcast_to(reference, values.shape).copy()
    return weights, expectations(weights, values)


def sum_before(terms: FloatArray) -> FloatArray:
    """Return for each entry the sum of those before it in its row."""
    return sum_from_zero(terms[:, :-1])


def sum_from_zero(terms: FloatArray) -> FloatArray:
    """Return the running sums (m, k + 1) of terms (m, k), the first of them zero."""
    sums = np.zeros((terms.shape[0], terms.shape[1] + 1))
    np.cumsum(terms, axis=1, out=sums[:, 1:])
    return sums
