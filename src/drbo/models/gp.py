"""The Gaussian process model of f: a prior, its units, its noise, and the choice of the posterior class."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from drbo import validation
from drbo.kernels import ConstantKernel, Product
from drbo.models.data import LEAST_COMMON, Observation, Outcomes, Units, observations_of, outcomes_of
from drbo.models.kronecker import KroneckerPosterior
from drbo.models.perturbed import PerturbedPosterior, of_places
from drbo.models.points import DistinctPoints
from drbo.models.regression import ExactPosterior
from drbo.models.surrogate import Data, Inputs
from drbo.spaces.space import AnySpace
from drbo.validation import FloatArray

__all__ = ["GP"]
LARGE = 5000
"""Number of observations from which on the memory of an exact posterior is checked, 600 MB."""
GPPosterior = ExactPosterior | KroneckerPosterior | PerturbedPosterior
"""The posteriors of a Gaussian process: on a grid, of a block of evaluations, or of perturbed actions."""


@dataclass(frozen=True)
class GP:
    """A Gaussian process prior of mean zero on actions x contexts, with fixed hyper-parameters.

    Parameters
    ----------
    kernel : the covariance of f, a product of an action kernel and a context kernel
    noise : the standard deviation of the noise of an outcome, y = offset + scale (f(x, c) + noise * N(0, 1))
    offset, scale : the units of the outcomes, if the kernel has others; fixed beforehand, for instance from a pilot
        study
    noise_correlation : the correlation of the errors of two outcomes of one evaluation, from 0 to below 1. A shock
        common to all outcomes of the evaluation causes this share of the noise variance: t^2 / (s^2 + t^2) for errors
        of covariance s^2 I + t^2 11', where noise^2 = s^2 + t^2. It has no effect on outcomes told alone
    """

    kernel: Product
    noise: float
    offset: float = 0.0
    scale: float = 1.0
    noise_correlation: float = 0.0
    learns: ClassVar[bool] = False
    """Whether anything is learned from the outcomes."""
    bound_width: ClassVar[float] = 0.0
    """The least default width of a bound: 0, since the kernel is given."""

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, Product):
            raise TypeError(f"kernel must be a Product(action kernel, context kernel), got {self.kernel!r}")
        object.__setattr__(self, "noise", validation.positive_float("noise", self.noise))
        object.__setattr__(self, "offset", validation.finite_float("offset", self.offset))
        object.__setattr__(self, "scale", validation.positive_float("scale", self.scale))
        object.__setattr__(
            self, "noise_correlation", validation.finite_float("noise_correlation", self.noise_correlation)
        )
        if not 0.0 <= self.noise_correlation < 1.0:
            raise ValueError(f"noise_correlation must be from 0 to below 1, got {self.noise_correlation}")
        if self.noise > 1e100:
            raise ValueError(f"noise must not exceed 1e100, got {self.noise}")
        least = 1e-7 * math.sqrt(self.kernel.variance)
        if self.noise < (1.0 - 1e-9) * least:
            raise ValueError(f"noise must be at least 1e-7 of the kernel's amplitude, {least:.3g}, got {self.noise}")
        if self.noise * math.sqrt(1.0 - self.noise_correlation) < (1.0 - 1e-9) * least:
            raise ValueError(
                f"noise_correlation must leave every outcome an error of its own of at least {least:.3g}, 1e-7 of the "
                f"kernel's amplitude, got {self.noise_correlation} with noise {self.noise}"
            )

    @functools.cached_property
    def ridge(self) -> float:
        """The noise variance, which is the ridge of the regression behind the posterior mean."""
        return self.noise**2

    def adapted(self, space: AnySpace) -> AnySpace:
        """Return the space unchanged."""
        return space

    def with_kernel(self, kernel: Product) -> Self:
        """Return the same model with another kernel."""
        return replace(self, kernel=kernel)

    def first(self, inputs: Inputs, sign: float) -> FittedGP:
        """Return the model itself: nothing is learned. The offset is that of outcomes to be maximised."""
        self.kernel.check(inputs.d_action, inputs.d_kernel)
        return FittedGP(self, sign * self.offset, self.scale, 0.0)

    def of_actions(self) -> Self:
        """Return this model for an f of the perturbed action alone; raise if the kernel depends on contexts."""
        if not isinstance(self.kernel.context, ConstantKernel):
            raise TypeError(
                "surrogate must have the kernel Product(action kernel, drbo.ConstantKernel()) where contexts are a "
                f"Perturbation: f is a function of the perturbed action alone, got {self.kernel!r}"
            )
        return self

    def due(self, n_outcomes: int, last: FittedGP) -> bool:
        """Return False: nothing is learned."""
        del n_outcomes, last
        return False

    def refit(self, outcomes: Outcomes, last: FittedGP) -> FittedGP:
        """Return the last fit: hyper-parameters are fixed."""
        del outcomes
        return last

    def posterior(
        self, fit: FittedGP, data: Data, contexts: FloatArray, last: GPPosterior | None = None
    ) -> GPPosterior:
        """Return the posterior of the observations of `data` on contexts (n, d_c)."""
        return exact_posterior(fit.gp, data, contexts, last)


@dataclass(frozen=True)
class FittedGP:
    """A GP on standardised outcomes, where outcome = offset + scale * standardised outcome, to be maximised.

    Attributes
    ----------
    gp : the model, in standardised units
    offset, scale : of the standardisation
    log_posterior : log p(y, theta) of `drbo.models.learned` at the hyper-parameters of `gp`; parameters that were
        not learned are left out of the prior
    n_outcomes : the number of outcomes that the model was learned from
    known : False if the scale must be learned and there is no outcome yet
    """

    gp: GP
    offset: float
    scale: float
    log_posterior: float
    n_outcomes: int = 0
    known: bool = True

    def units(self, sign: float) -> Units:
        """Return the units of the outcomes, `sign` = 1 if they are maximised."""
        return Units(sign, self.offset, self.scale, self.known)

    def standardise(self, outcomes: ArrayLike) -> FloatArray:
        """Return (outcomes - offset) / scale, the units of `gp`, in the same shape."""
        return np.asarray((validation.finite_array("outcomes", outcomes) - self.offset) / self.scale)


def exact_posterior(
    gp: GP, data: Data, contexts: FloatArray, last: GPPosterior | None = None, *, base: int = 0
) -> GPPosterior:
    """Return the posterior of a Gaussian process after observations, on contexts (n, d_c).

    Many evaluations in the same contexts form a block, which is rebuilt when it grows. Otherwise the posterior `last`
    of the first observations is extended, with the same bits as a new posterior. The first `base` observations are put
    together in one go, which takes a tenth of the time and rounds otherwise; so `base` depends on their number alone.
    """
    if last is not None and not (last.contexts is contexts or np.array_equal(last.contexts, contexts)):
        last = last.on(contexts)
    if last is not None and last.n_data == len(data.observations):
        return last
    if data.inputs.shift is None and data.n_together >= LEAST_COMMON:
        block = in_block(gp, data, contexts)
        if block is not None:
            return block
    if len(data.observations) >= LARGE:
        check_memory(data)
    if last is None or isinstance(last, KroneckerPosterior) or last.n_based != base:
        last = based(gp, data, contexts, base)
    return last.with_more(data.observations[last.n_data :])


def check_memory(data: Data) -> None:
    """Raise if the factor of all distinct points does not fit into memory."""
    count = len({one.point for one in data.observations})
    needed, available = 3 * 8 * count**2, _available()
    if needed > available:
        raise MemoryError(
            f"{len(data.observations):,} outcomes at {count:,} different points need {needed / 1e9:.1f} GB for one "
            f"exact posterior, and {available / 1e9:.1f} GB are free: use LearnedGP(exact_up_to=1500), which needs "
            "less than 1 GB, or round actions and contexts so that more points are equal"
        )


def _available() -> float:
    """Return the free memory in bytes, infinite where the system does not say."""
    try:
        with Path("/proc/meminfo").open(encoding="ascii") as file:
            return next(1024.0 * float(line.split()[1]) for line in file if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError, IndexError):
        return math.inf


def based(gp: GP, data: Data, contexts: FloatArray, base: int) -> ExactPosterior | PerturbedPosterior:
    """Return the posterior of the first `base` observations, put together in one go."""
    inputs = data.inputs
    if not base and inputs.shift is not None:
        return PerturbedPosterior(gp, inputs.shift, inputs.actions, contexts)
    if not base:
        return ExactPosterior(gp, inputs.actions, contexts)
    return assembled(gp, inputs, contexts, distinct(gp, data, base), data.observations[:base])


def distinct(gp: GP, data: Data, end: int, start: int = 0) -> DistinctPoints:
    """Return the distinct points of some observations, as arguments of f."""
    rows, shift = data.rows.at(np.arange(start, end)) if start else data.first_rows(end), data.inputs.shift
    return DistinctPoints.merged(rows, gp) if shift is None else DistinctPoints.merged(rows.moved(shift), of_places(gp))


def assembled(
    gp: GP, inputs: Inputs, contexts: FloatArray, points: DistinctPoints, observations: Sequence[Observation] = ()
) -> ExactPosterior | PerturbedPosterior:
    """Return the posterior of points (`distinct`); `observations` are theirs, if later ones may share their rows."""
    if inputs.shift is None:
        return ExactPosterior.of(points.factor(gp, inputs.actions, contexts, observations))
    places = points.rows.c[:0]
    inner = points.factor(of_places(gp), places[:, :0], places, observations)
    return PerturbedPosterior.of(gp, inputs.shift, inputs.actions, contexts, inner)


def in_block(gp: GP, data: Data, contexts: FloatArray) -> KroneckerPosterior | None:
    """Return the posterior of a block if most outcomes are in the same contexts, otherwise None.

    A failure in these contexts enters the block with its expected outcomes, which leave the mean unchanged. Other
    failures are added as observations on top.
    """
    if any(len(one.weights) > 1 for one in data.observations):
        return None
    outcomes = outcomes_of([one for one in data.observations if one.outcome is not None])
    common = outcomes.common()
    if common is None:
        return None
    actions, n_data = data.inputs.actions, len(data.observations)
    x, c, y = outcomes.x[common.block[:, 0]], outcomes.c[common.block[0]], outcomes.y[common.block]
    rest = observations_of(outcomes.of_rows(common.rest))
    order = np.concatenate([common.block.ravel(), common.rest])
    made = KroneckerPosterior(gp, actions, contexts, (x, c, y), n_data, order).with_more(rest)
    failed = _evaluations([one for one in data.observations if one.outcome is None])
    if not failed:
        return made
    keys = sorted(row.tobytes() for row in c)
    alike = [group for group in failed if sorted(one.contexts[0].tobytes() for one in group) == keys]
    lost = np.array([group[0].action for group in alike]).reshape(-1, x.shape[1])
    if alike:
        expected, _ = made.predict(np.repeat(lost, len(c), axis=0), np.tile(c, (len(lost), 1)))
        y = np.concatenate([y, expected.reshape(-1, len(c))])
    others = [one for group in failed if not any(group is same for same in alike) for one in group]
    whole = KroneckerPosterior(gp, actions, contexts, (np.concatenate([x, lost]), c, y), n_data)
    return whole.with_more([*rest, *others])


def _evaluations(observations: Sequence[Observation]) -> list[list[Observation]]:
    """Return the observations grouped by evaluation."""
    groups: list[list[Observation]] = []
    for one in observations:
        if one.before == 0:
            groups.append([])
        groups[-1].append(one)
    return groups
