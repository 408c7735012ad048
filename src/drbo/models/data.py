"""What a model learns from: outcomes, their units and errors, and observations of linear functionals of f.

The errors of different evaluations are independent. The errors of one evaluation in several contexts share a shock:
with e_i the standard deviation of the error of outcome i and r the correlation of two errors of one evaluation,

    Cov(error_i, error_j) = e_i^2  for i = j,    r e_i e_j  for two outcomes of one evaluation,    0 otherwise.

For equal e_i this is s^2 I + t^2 11' with s^2 = (1 - r) e^2, the variance of each outcome's own error, and t^2 = r e^2,
the variance of the shock. An outcome told alone has variance e^2 for any r.

An observation is an action, context points and weights. One point of weight 1 is an outcome in that context. Several
points are an average over contexts, with the kernel of the mean embedding, k_C(c, w) = sum_j w_j k_C(c, c_j).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drbo import validation
from drbo._compiled import announce, in_order
from drbo._fast_record import fast_record
from drbo.kernels import Kernel
from drbo.validation import FloatArray


@dataclass(frozen=True)
class Units:
    """The relation between the user's outcome y and the model's value v: sign * y = offset + scale * v.

    Attributes
    ----------
    sign : 1 if outcomes are maximised, -1 if they are minimised; the model always maximises
    offset, scale : of the model's standardisation; 0 and 1 for a model with fixed hyper-parameters
    known : False if the scale is learned and there is no outcome yet; bounds are then infinite
    least, most : the declared range of outcomes, in the user's units; infinite if there is none
    """

    sign: float = 1.0
    offset: float = 0.0
    scale: float = 1.0
    known: bool = True
    least: float = -math.inf
    most: float = math.inf

    def inward(self, outcome: float) -> float:
        """Return an outcome in the model's units."""
        return (self.sign * outcome - self.offset) / self.scale

    def outward(self, value: float) -> float:
        """Return a value of the model in the user's units."""
        if not self.known:
            return self.sign * math.copysign(math.inf, value)
        return self.sign * (self.offset + self.scale * value)

    def cut(self, outcome: float) -> float:
        """Return a number of the user's units, cut at the declared range; an expectation of outcomes lies in it."""
        return min(max(outcome, self.least), self.most)

    def stated(self, value: float) -> float:
        """Return a bound or an expectation of the model as it is stated: in the user's units, cut at the range."""
        return self.cut(self.outward(value))

    def stated_difference(self, better: float, worse: float) -> float:
        """Return by how much one value of the model is better than another as they are stated."""
        if math.isinf(self.least) and math.isinf(self.most):
            return self.length_outward(better - worse)
        return self.sign * (self.stated(better) - self.stated(worse))

    def length_outward(self, length: float) -> float:
        """Return a difference or a standard deviation of the model in the user's units."""
        return self.scale * length

    def length_inward(self, length: float) -> float:
        """Return the user's noise, or norm bound of f minus its offset, in the model's units."""
        return length / self.scale


LEAST_COMMON = 256
"""Least number of outcomes for which evaluations in the same contexts form a block; below, dense is as fast."""
LEAST_ERROR = 1e-5
"""Least standard error, as a share of the amplitude of f; smaller ones are raised, for numerical reasons."""
LARGEST_ERROR = 1e8
"""Largest standard error, in amplitudes of f; larger ones are lowered, as the outcome has no information."""


@dataclass(frozen=True, eq=False)
class Common:
    """A block (T, k) of outcomes, by evaluation and context, as indices, and the other outcomes (E,) in order."""

    block: NDArray[np.intp]
    rest: NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Outcomes, to be maximised, with their actions and contexts.

    Attributes
    ----------
    x, c : (t, d_x) and (t, d_c) the actions and the contexts
    y : (t,) the outcomes
    stderr : (t,) the standard error of each outcome; nan if unknown
    evaluation : (t,) the evaluation of each outcome; outcomes of one evaluation are adjacent
    """

    x: FloatArray
    c: FloatArray
    y: FloatArray
    stderr: FloatArray
    evaluation: NDArray[np.intp]

    @classmethod
    def of(
        cls, x: ArrayLike, c: ArrayLike, y: ArrayLike, stderr: ArrayLike | None, evaluation: ArrayLike | None
    ) -> Self:
        """Return the outcomes of checked arguments; without `evaluation` every outcome was told alone."""
        x, c, y = validation.points("x", x), validation.points("c", c), validation.finite_array("y", y, ndim=1)
        if not len(x) == len(c) == len(y):
            raise ValueError(f"x, c and y must have one row per outcome, got {len(x)}, {len(c)} and {len(y)}")
        errors = np.full(len(y), np.nan)
        if stderr is not None:
            errors = np.array(np.broadcast_to(np.asarray(stderr, dtype=float), len(y)))
            if not (np.isnan(errors) | ((errors >= 0.0) & np.isfinite(errors))).all():
                raise ValueError("stderr must be zero or more, or nan where it is not known")
        numbers = np.arange(len(y))
        if evaluation is not None:
            numbers = np.asarray(evaluation)
            if numbers.shape != y.shape or not np.issubdtype(numbers.dtype, np.integer):
                raise ValueError(f"evaluation must be {len(y)} whole numbers, got {evaluation!r}")
            first = np.concatenate([[True], np.diff(numbers) != 0]) if len(y) else np.empty(0, dtype=bool)
            if len(np.unique(numbers)) != first.sum():
                raise ValueError("evaluation must list the outcomes of one evaluation next to one another")
        return cls(x, c, y, errors, numbers.astype(np.intp))

    def standardised(self, offset: float, scale: float) -> Outcomes:
        """Return the outcomes minus `offset`, in units of `scale`."""
        return Outcomes(self.x, self.c, (self.y - offset) / scale, self.stderr / scale, self.evaluation)

    @property
    def errors_known(self) -> bool:
        """Whether the standard error of any outcome is known."""
        return bool(np.isfinite(self.stderr).any())

    @property
    def shows_noise(self) -> bool:
        """Whether the outcomes show the size of their noise: repeated points, or standard errors."""
        return self.errors_known or len(np.unique(np.column_stack([self.x, self.c]), axis=0)) < len(self.y)

    @property
    def shares_errors(self) -> bool:
        """Whether any evaluation has several outcomes."""
        return len(self.y) > 1 and bool((np.diff(self.evaluation) == 0).any())

    def common(self) -> Common | None:
        """Return the largest block of evaluations in the same contexts if it has most outcomes, otherwise None.

        A block has no known errors. The rest has at most T + k outcomes, so that it costs no more than the block.
        """
        starts = np.flatnonzero(np.concatenate([[True], np.diff(self.evaluation) != 0]))
        groups: dict[tuple[bytes, ...], list[NDArray[np.intp]]] = {}
        for rows in np.split(np.arange(len(self.y)), starts[1:]):
            one_action = (self.x[rows] == self.x[rows[0]]).all()
            if len(rows) > 1 and one_action and not np.isfinite(self.stderr[rows]).any():
                keys = [row.tobytes() for row in self.c[rows]]
                order = sorted(range(len(keys)), key=keys.__getitem__)
                groups.setdefault(tuple(keys[i] for i in order), []).append(rows[order])
        if not groups:
            return None
        block = np.array(max(groups.values(), key=lambda members: len(members) * len(members[0])))
        rest = np.setdiff1d(np.arange(len(self.y)), block)
        return Common(block, rest) if block.size >= LEAST_COMMON and len(rest) <= sum(block.shape) else None

    def of_rows(self, rows: NDArray[np.intp]) -> Outcomes:
        """Return some of the outcomes."""
        return Outcomes(self.x[rows], self.c[rows], self.y[rows], self.stderr[rows], self.evaluation[rows])

    def and_also(self, more: Outcomes) -> Outcomes:
        """Return these outcomes and further ones of later evaluations."""
        names = ("x", "c", "y", "stderr", "evaluation")
        return Outcomes(*(np.concatenate([getattr(self, name), getattr(more, name)]) for name in names))

    def half(self) -> Outcomes:
        """Return the outcomes of a random half of the evaluations, with a fixed seed."""
        numbers = np.cumsum(np.concatenate([[0], np.diff(self.evaluation) != 0]))
        drawn = np.random.default_rng(0).permutation(numbers[-1] + 1)[: (numbers[-1] + 2) // 2]
        return self.of_rows(np.flatnonzero(np.isin(numbers, drawn)))

    def some(self, most: int) -> Outcomes:
        """Return up to `most` outcomes of random evaluations, with a fixed seed; all of them if there are no more.

        Of evaluations in the same contexts it returns up to `most` evaluations, as their likelihood costs less.
        """
        if len(self.y) <= most:
            return self
        block = self.shares_errors and self.common() is not None
        numbers = np.cumsum(np.concatenate([[0], np.diff(self.evaluation) != 0]))
        order = np.random.default_rng(0).permutation(numbers[-1] + 1)
        sizes = np.ones(len(order)) if block else np.bincount(numbers)[order]
        drawn = order[np.cumsum(sizes) <= most]
        return self.of_rows(np.flatnonzero(np.isin(numbers, drawn if len(drawn) else order[:1])))

    def siblings(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return all pairs of different outcomes of one evaluation, as the first and the second indices."""
        starts = np.flatnonzero(np.concatenate([[True], np.diff(self.evaluation) != 0]))
        sizes = np.diff(np.append(starts, len(self.y)))
        first, second = [np.empty(0, dtype=np.intp)], [np.empty(0, dtype=np.intp)]
        for start, size in zip(starts[sizes > 1], sizes[sizes > 1], strict=True):
            i, j = np.triu_indices(size, 1)
            first.append(start + i)
            second.append(start + j)
        return np.concatenate(first), np.concatenate(second)


def standardisation(outcomes: Outcomes) -> tuple[float, float]:
    """Return the offset and the scale of outcomes: their mean and standard deviation without known errors.

    With known errors e_i these are the maximum likelihood estimates of m and v in y_i ~ N(m, v + e_i^2), by expectation
    maximisation. So one imprecise outcome changes neither. The scale is at least a thousandth of the plain standard
    deviation. If the outcomes are constant up to rounding, as a single one is, it is their size, or 1 if they are zero.
    """
    size = float(np.abs(outcomes.y).max()) or 1.0  # squares and sums of y / size neither overflow nor underflow
    y = outcomes.y / size
    mean, std = float(np.mean(y)), float(np.std(y))
    if std <= 1e-12:
        return mean * size, size
    if outcomes.errors_known:
        error2 = np.square(np.minimum(np.nan_to_num(outcomes.stderr), LARGEST_ERROR * size) / size)
        v = std**2
        for _ in range(50):
            share = v / (v + error2)
            latent = mean + share * (y - mean)
            mean = float(latent.mean())
            v = max(float(np.mean((latent - mean) ** 2 + v * (1.0 - share))), 1e-6 * std**2)
        std = float(np.sqrt(v))
    return mean * size, std * size


_ONE = np.ones(1)


@fast_record
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


def checked_pairs(actions: ArrayLike, contexts: ArrayLike, d_x: int, d_c: int) -> tuple[FloatArray, FloatArray]:
    """Return the points (x_i, c_i) of a prediction as arrays (m, d_x) and (m, d_c); raise on other shapes."""
    x, c = validation.points("actions", actions), validation.points("contexts", contexts)
    for name, given, d in (("actions", x, d_x), ("contexts", c, d_c)):
        if given.shape != (len(x), d):
            raise ValueError(f"{name} must have shape ({len(x)}, {d}), got {given.shape}")
    return x, c


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
