"""The inverse of the covariance of observations, in the forms that answers need (symbols: `drbo.models.factor`)."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.linalg import blas, lapack

from drbo.validation import FloatArray


class Inverse:
    """(K_t + ridge I)^-1 of t observations in the forms that answers need, each made when it is first asked for.

    Attributes
    ----------
    W : (t, t) U'^-1, lower triangular
    alpha : (t,) W'W y
    """

    def __init__(self, U: FloatArray, white: FloatArray) -> None:
        """`U` (t, t) and `white` (t,) may change afterwards."""
        self.W: FloatArray = np.array(U).T
        if len(U):  # the inverse of U' rather than of U: W U' is then closer to I, and so is W k to what k whitens to
            self.W, _ = lapack.dtrtri(self.W, lower=1, overwrite_c=1)
        self.alpha: FloatArray = white @ self.W

    def __deepcopy__(self, memo: Any) -> Self:
        """Return the inverse itself: nobody changes it."""
        del memo
        return self

    @cached_property
    def lower(self) -> FloatArray:
        """The lower triangle of W'W (t, t), with zeros above it."""
        return np.asarray(lapack.dlauum(self.W, lower=1)[0])

    def times_product(self, a: FloatArray, b: FloatArray, k: FloatArray) -> FloatArray:
        """Return (W'W * a b') k for columns k (t, m), elementwise product, where a b' is symmetric."""
        product = (b @ a.T).T  # by columns, as LAPACK wants it
        product *= self.lower
        return np.asarray(blas.dsymm(1.0, product, k, lower=1))

    def whitened(self, rows: FloatArray) -> FloatArray:
        """Return W k for every row k (..., t), in their place: W is triangular, which halves the work."""
        return self._times(rows, transposed=0)

    def unwhitened(self, rows: FloatArray) -> FloatArray:
        """Return W'k for every row k (..., t), in their place."""
        return self._times(rows, transposed=1)

    def _times(self, rows: FloatArray, transposed: int) -> FloatArray:
        t = len(self.W)
        found = blas.dtrmm(1.0, self.W, rows.reshape(-1, t).T, lower=1, trans_a=transposed, overwrite_b=1)
        return np.asarray(found.T.reshape(rows.shape))
