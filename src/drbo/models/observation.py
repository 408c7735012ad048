"""An observation, from which a model learns: an action, context points and weights, and an outcome.

One point of weight 1 is an outcome in that context. Several points are an average over contexts, with the kernel of the
mean embedding, k_C(c, w) = sum_j w_j k_C(c, c_j).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from drbo._compiled import announce, in_order
from drbo.kernels import Kernel
from drbo.models.outcomes import Outcomes
from drbo.validation import FloatArray

_ONE = np.ones(1)


@dataclass(frozen=True, eq=False)
class Observation:
    """A linear functional of f, and its outcome if there is one.

    Attributes
    ----------
    action : (d_x,)
    contexts, weights : (k, d_c) and (k,): the functional is sum_j weights_j f(action, contexts_j)
    outcome : its noisy value; None stands for the posterior mean, so that only the variance shrinks
    noise : the standard deviation of the error, if known; None stands for the model's noise
    before, after : the number of observations just before and just after this one that belong to the same evaluation.
        Their errors have the correlation `noise_correlation` with this error
    scatter : an extra error variance, for an outcome not of the average, but of one context that was drawn by the
        weights and never revealed
    """

    action: FloatArray
    contexts: FloatArray
    weights: FloatArray
    outcome: float | None
    noise: float | None = None
    before: int = 0
    after: int = 0
    scatter: float = 0.0

    @classmethod
    def of(
        cls,
        action: FloatArray,
        context: FloatArray,
        outcome: float | None,
        noise: float | None = None,
        before: int = 0,
        after: int = 0,
    ) -> Self:
        """Return the observation of one outcome in one context (d_c,)."""
        return cls(action, context[None, :], _ONE, outcome, noise, before, after)

    @property
    def together(self) -> bool:
        """Whether other observations belong to the same evaluation."""
        return self.before + self.after > 0

    @cached_property
    def point(self) -> bytes:
        """The key of the observed functional: the bits of action, contexts and weights."""
        return self.action.tobytes() + self.contexts.tobytes() + self.weights.tobytes()


@dataclass(frozen=True)
class Scatter:
    """The distance of f(x, c) from its average over contexts, for c drawn from them by weight.

    Attributes
    ----------
    variance : E (f(x, c) - sum_j w_j f(x, c_j))^2 = k(z, z) - sum_ij w_i w_j k(z_i, z_j) under the prior of f
    diameter : the largest distance of two contexts in the kernel's space, max_ij |k(z_i, .) - k(z_j, .)|. The values
        of f in the contexts differ by no more than this times the norm of f
    """

    variance: float
    diameter: float

    @classmethod
    def of(cls, kernel: Kernel, contexts: FloatArray, weights: FloatArray, amplitude: float = 1.0) -> Self:
        """Return the scatter of f over contexts (k, d_c) of weights (k,), for amplitude^2 times a kernel."""
        k = kernel(contexts, contexts)
        variance = max(kernel.variance - float(weights @ k @ weights), 0.0)
        widest = math.sqrt(2.0 * max(kernel.variance - float(k.min()), 0.0))
        return cls(amplitude**2 * variance, amplitude * widest)


def averaged(weights: FloatArray, rows: FloatArray) -> FloatArray:
    """Return sum_j w_j rows_j (m,) for weights (k,) and rows (k, m).

    The bits of a column do not depend on the other columns. In a BLAS matrix product they would: on some processors
    rounding depends on the position of a column.
    """
    announce(_averaged)
    return np.asarray(_averaged(weights, rows))


@in_order
def _averaged(weights: FloatArray, rows: FloatArray) -> FloatArray:
    found = np.zeros(rows.shape[1])
    for j in range(rows.shape[0]):
        for i in range(rows.shape[1]):
            found[i] += weights[j] * rows[j, i]
    return found


def observations_of(outcomes: Outcomes) -> list[Observation]:
    """Return the outcomes as a list of observations."""
    found: list[Observation] = []
    y, stderr = outcomes.y.tolist(), outcomes.stderr.tolist()
    for _, group in itertools.groupby(range(len(y)), outcomes.evaluation.__getitem__):
        rows = list(group)
        for before, i in enumerate(rows):
            noise = None if math.isnan(stderr[i]) else stderr[i]
            after = len(rows) - 1 - before
            found.append(Observation.of(outcomes.x[i], outcomes.c[i], y[i], noise, before, after))
    return found


def outcomes_of(observations: Sequence[Observation]) -> Outcomes:
    """Return observations of one context each, all with outcomes, as arrays."""
    return Outcomes(
        np.array([one.action for one in observations]),
        np.array([one.contexts[0] for one in observations]),
        np.array([one.outcome for one in observations], dtype=float),
        np.array([np.nan if one.noise is None else one.noise for one in observations]),
        np.cumsum([one.before == 0 for one in observations]),
    )


@dataclass(frozen=True, eq=False)
class Embedding:
    """The kernel functions of t observed contexts (t, d_c), points or averages over several contexts."""

    kernel: Kernel
    points: FloatArray
    averages: dict[int, Observation]

    @property
    def dimension(self) -> int:
        """The number of coordinates of a context."""
        return int(self.points.shape[1])

    def __call__(self, contexts: FloatArray) -> FloatArray:
        """Return the kernel of every observation's context with contexts (m, d_c), (t, m)."""
        k = self.kernel(self.points, contexts)
        for i, average in self.averages.items():
            k[i] = averaged(average.weights, self.kernel(average.contexts, contexts))
        return k

    def slope(self, contexts: FloatArray) -> FloatArray:
        """Return the gradient of the kernel in the context, at contexts (m, d_c), (t, m, d_c)."""
        slope = -self.kernel.gradient(self.points, contexts)
        for i, average in self.averages.items():
            slope[i] = -np.einsum("s,sjk->jk", average.weights, self.kernel.gradient(average.contexts, contexts))
        return slope

    def through(self, features: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """Return features (r, t) of the observed contexts; `features` maps contexts (m, d_c) to (r, m)."""
        found = features(self.points)
        for i, average in self.averages.items():
            found[:, i] = features(average.contexts) @ average.weights
        return found

    def gram(self) -> FloatArray:
        """Return the kernel of the observed contexts with each other, (t, t)."""
        k = self(self.points)
        for i, average in self.averages.items():
            k[:, i] = self(average.contexts) @ average.weights
        return k


@dataclass(frozen=True, eq=False)
class EmbeddingAlong:
    """The same observations as a function of c' (d',), where the context is start + c' M, M (d', d_c)."""

    inner: Embedding | EmbeddingAlong
    start: FloatArray
    directions: FloatArray

    @property
    def dimension(self) -> int:
        """The number of coordinates of c'."""
        return len(self.directions)

    def __call__(self, contexts: FloatArray) -> FloatArray:
        """Return the kernel of every observed context with that of c' (m, d'), (t, m)."""
        return self.inner(self.start + contexts @ self.directions)

    def slope(self, contexts: FloatArray) -> FloatArray:
        """Return the gradient of the kernel in c', at c' (m, d'), (t, m, d')."""
        return np.asarray(self.inner.slope(self.start + contexts @ self.directions) @ self.directions.T)

    def gram(self) -> FloatArray:
        """Return the kernel of the observed contexts with each other, (t, t)."""
        return self.inner.gram()
