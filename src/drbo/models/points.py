"""The distinct points of many observations, and the factor of their covariance in one go.

Observations of the same point with independent errors are one observation of it: with u_i the variances of their
errors, their average with weights 1 / u_i has an error of variance v = 1 / sum 1 / u_i, and nothing else about f is
lost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import lapack, solve_triangular

from drbo.models.curve import Embedding
from drbo.models.data import Observation
from drbo.models.factor import LEAST_SHARED, Factor, Process
from drbo.models.observation_rows import Indices, Rows
from drbo.validation import FloatArray

_ROWS = 128
"""Rows of a covariance that are computed at once."""


@dataclass(frozen=True, eq=False)
class DistinctPoints:
    """Distinct observed points, those with an outcome first.

    Attributes
    ----------
    rows : one row per point; the outcome is the average of its observations
    variance : (t,) the variance of the error of each
    of : (n,) the point of each observation
    n_known : the number of points with an outcome
    """

    rows: Rows
    variance: FloatArray
    of: Indices
    n_known: int

    def __len__(self) -> int:
        return len(self.variance)

    @classmethod
    def merged(cls, rows: Rows, gp: Process) -> DistinctPoints:
        """Return the distinct points of rows; errors that depend on one another, and averages, stay apart."""
        n, failed = len(rows), np.isnan(rows.y)
        own = failed.copy()
        own[list(rows.averages)] = True
        if gp.noise_correlation > 0.0:
            shared = rows.first != np.arange(n)
            own |= shared
            own[rows.first[shared]] = True
        group = np.empty(n, dtype=np.intp)
        alone, others = np.flatnonzero(own), np.flatnonzero(~own)
        _, index, inverse = np.unique(rows.place[others], return_index=True, return_inverse=True)
        group[others], group[alone] = others[index][inverse], alone
        heads = np.flatnonzero(group == np.arange(n))
        heads = np.concatenate([heads[~failed[heads]], heads[failed[heads]]])
        place = np.empty(n, dtype=np.intp)
        place[heads] = np.arange(len(heads))
        of = place[group]
        variances = rows.variances(gp.ridge, math.sqrt(gp.kernel.variance))
        precision = np.bincount(of, 1.0 / variances, minlength=len(heads))
        y = np.bincount(of, np.where(failed, 0.0, rows.y) / variances, minlength=len(heads)) / precision
        n_known = int((~failed[heads]).sum())
        y[n_known:] = np.nan
        first = place[rows.first[heads]] if gp.noise_correlation > 0.0 else np.arange(len(heads))
        averages = {int(place[i]): one for i, one in rows.averages.items()}
        kept = replace(rows.ordered(heads, first, averages), y=y)
        variance = np.maximum(1.0 / precision, np.minimum(LEAST_SHARED * gp.kernel.variance, variances[heads]))
        return cls(kept, variance, of, n_known)

    def embedding(self, gp: Process) -> Embedding:
        """Return the observed contexts."""
        return Embedding(gp.kernel.context, self.rows.c, self.rows.averages)

    def at(self, rows: Indices) -> DistinctPoints:
        """Return some of the points, by increasing indices, each as one observation."""
        some = self.rows.at(rows)
        return DistinctPoints(some, self.variance[rows], np.arange(len(rows)), int((rows < self.n_known).sum()))

    def and_also(self, more: DistinctPoints) -> DistinctPoints:
        """Return these points and further ones, none of which is merged with an earlier one."""
        n = len(self)
        known = np.concatenate([np.arange(self.n_known), n + np.arange(more.n_known)])
        failed = np.concatenate([np.arange(self.n_known, n), n + np.arange(more.n_known, len(more))])
        order = np.concatenate([known, failed])
        place = np.empty(len(order), dtype=np.intp)
        place[order] = np.arange(len(order))
        both = self.rows.and_also(more.rows)
        averages = {int(place[i]): one for i, one in both.averages.items()}
        rows = both.ordered(order, place[both.first[order]], averages)
        variance = np.concatenate([self.variance, more.variance])[order]
        return DistinctPoints(rows, variance, place[np.concatenate([self.of, n + more.of])], len(known))

    def factor(
        self, gp: Process, actions: FloatArray, contexts: FloatArray, observations: Sequence[Observation] = ()
    ) -> Factor:
        """Return the factor of the points and of later `observations`, in one Cholesky decomposition, for queries."""
        rows, t = self.rows, len(self)
        K = self._gram(gp)
        K.flat[:: t + 1] += self.variance
        deviation, least, r = np.sqrt(self.variance), self.variance.copy(), gp.noise_correlation
        for i in np.flatnonzero(rows.first != np.arange(t)).tolist():
            j = np.flatnonzero(rows.first[:i] == rows.first[i])
            K[j, i] += r * deviation[i] * deviation[j]
            least[i] *= (1.0 - r) * (1.0 + len(j) * r) / (1.0 + (len(j) - 1) * r)
        L, failed = lapack.dpotrf(K.T, lower=1, clean=1, overwrite_a=1)
        if failed:
            raise np.linalg.LinAlgError(f"the covariance of {t} outcomes is not positive definite")
        U, known = L.T, self.n_known
        white = np.zeros(t)
        white[:known] = solve_triangular(U[:known, :known], rows.y[:known], trans="T", check_finite=False)
        y = np.append(rows.y[:known], U[:known, known:].T @ white[:known])
        gain = 2.0 * float(np.log(np.diag(U)).sum()) - float(np.log(least).sum())
        return Factor.made(
            gp, actions, contexts, points=(rows.x, rows.c, rows.averages), U=U, white=white, outcomes=y,
            variances=self.variance, first=rows.first, gain=gain, errors_known=bool(np.isfinite(rows.noise).any()),
            observations=observations, of=self.of.tolist() if len(observations) else (),
        )  # fmt: skip

    def kernel(self, gp: Process, x: FloatArray, c: FloatArray) -> FloatArray:
        """Return the prior covariance (t, m) of the points with f at x (m, d_x), c (m, d_c)."""
        rows = self.rows
        if rows.averages:
            return np.asarray(gp.kernel.action(rows.x, x) * self.embedding(gp)(c))
        return gp.kernel.between(rows.x, rows.c, x, c)

    def _gram(self, gp: Process) -> FloatArray:
        """Return the prior covariance (t, t) of the points, on and above the diagonal."""
        rows, t = self.rows, len(self)
        if rows.averages:
            return np.asarray(gp.kernel.action(rows.x, rows.x) * self.embedding(gp).gram())
        K = np.zeros((t, t))
        for i in range(0, t, _ROWS):
            some = slice(i, i + _ROWS)
            K[some, i:] = gp.kernel.between(rows.x[some], rows.c[some], rows.x[i:], rows.c[i:])
        return K
