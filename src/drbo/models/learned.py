"""Hyper-parameters learned from the outcomes: a maximum a posteriori fit, and when to repeat it.

The objective log p(y, theta) and the prior of theta are in `drbo.models.log_posterior`.

log p(y, theta) may have several local maxima ("summits"), so a fit climbs from several starts. A climb that comes close
to a known summit is stopped. With many outcomes, all climbs begin on half of the data, and continue on all data from
every summit found. In 54 deliberately hard fits to 160 to 440 outcomes (steps, high frequencies, bumps, repeated
points, a trend; noise of 2% to 100%) the best summit was never missed. With half of the data alone, one of 45 fits
missed it; with a start on a quarter, two of 36.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from drbo import validation
from drbo._threads import one_thread
from drbo.kernels import RBF, ConstantKernel, Kernel, Matern
from drbo.models.data import Outcomes, standardisation
from drbo.models.gp import FittedGP, GPPosterior, exact_posterior
from drbo.models.log_posterior import LARGEST_GIVEN, LogPosterior, Summit
from drbo.models.surrogate import Data, Inputs
from drbo.spaces.parameters import MOST_COORDINATES
from drbo.spaces.space import AnySpace
from drbo.validation import FloatArray

__all__ = ["LearnedGP"]

LEAST_HALVED = 200
"""Number of outcomes from which climbs begin on half of the data."""


@dataclass(frozen=True)
class LearnedGP:
    """A Gaussian process whose hyper-parameters are learned by maximum a posteriori.

    Parameters
    ----------
    family : the kind of the learned kernels, `Matern(nu=2.5)`, `Matern(nu=1.5)` or `RBF()`; its lengthscale and
        amplitude are ignored
    noise : the known standard deviation of an outcome's noise in the user's units; by default it is learned. Values
        below 1e-4 of the outcomes' standard deviation, 0 included, are raised to this limit
    action, context : a fixed kernel, with lengthscales in unit-cube coordinates and the amplitude in standardised
        outcomes. The amplitude of f is learned with the other kernel, if that is learned
    noise_correlation : the correlation of the errors of two outcomes of one evaluation, from 0 to 0.99, if known; by
        default it is learned. See `GP`
    """

    learns: ClassVar[bool] = True
    """Whether anything is learned from the outcomes: always the offset and the scale."""
    certificate_width: ClassVar[float] = 3.0
    """The least default width of a certificate, chosen by measured coverage (docs/evidence.md)."""

    family: RBF | Matern = Matern(nu=2.5)  # noqa: RUF009 (frozen)
    noise: float | None = None
    action: Kernel | None = None
    context: Kernel | None = None
    noise_correlation: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.family, RBF | Matern):
            raise TypeError(f"family must be RBF() or Matern(nu=...), got {self.family!r}")
        if self.noise is not None:
            object.__setattr__(self, "noise", validation.finite_float("noise", self.noise))
            if self.noise < 0.0:
                raise ValueError(f"noise must be zero or more, or None to learn it, got {self.noise}")
        if self.noise_correlation is not None:
            object.__setattr__(
                self, "noise_correlation", validation.finite_float("noise_correlation", self.noise_correlation)
            )
            if not 0.0 <= self.noise_correlation <= LARGEST_GIVEN:
                raise ValueError(
                    f"noise_correlation must be from 0 to {LARGEST_GIVEN}, or None to learn it, got "
                    f"{self.noise_correlation}"
                )
        for name, kernel in (("action", self.action), ("context", self.context)):
            if kernel is not None and not isinstance(kernel, Kernel):
                raise TypeError(f"{name} must be a kernel such as RBF(0.2), or None to learn it, got {kernel!r}")

    def adapted(self, space: AnySpace) -> AnySpace:
        """Return the space in unit-cube coordinates."""
        return space.in_unit_cube()

    def of_actions(self) -> Self:
        """Return this model for an f of the perturbed action alone; raise if a context kernel is given."""
        if not (self.context is None or isinstance(self.context, ConstantKernel)):
            raise TypeError(
                "surrogate must have no context kernel where contexts are a Perturbation: f is a function of the "
                f"perturbed action alone, got context={self.context!r}"
            )
        return replace(self, context=ConstantKernel())

    def first(self, inputs: Inputs, sign: float) -> FittedGP:
        """Return the model before any outcome: the mode of the prior of the hyper-parameters."""
        del sign
        d_x, d_c = inputs.d_action, inputs.d_kernel
        if d_x + d_c > MOST_COORDINATES:
            raise ValueError(
                f"actions and contexts must have at most {MOST_COORDINATES:,} coordinates together, as LearnedGP "
                f"learns the length of each, got {d_x + d_c:,}: give a GP with a kernel of your own"
            )
        one = np.zeros(1, dtype=np.intp)
        fit = self._fit(Outcomes(np.zeros((1, d_x)), np.zeros((1, d_c)), np.zeros(1), np.full(1, np.nan), one), None)
        return replace(fit, n_outcomes=0, known=False)

    def due(self, n_outcomes: int, last: FittedGP) -> bool:
        """Return whether there are enough new outcomes for another fit."""
        return should_refit(n_outcomes, last.n_outcomes)

    def refit(self, outcomes: Outcomes, last: FittedGP) -> FittedGP:
        """Return the fit to all outcomes so far, started from the last fit."""
        return self._fit(outcomes, last if last.n_outcomes >= 3 else None)

    def posterior(
        self, fit: FittedGP, data: Data, contexts: FloatArray, last: GPPosterior | None = None
    ) -> GPPosterior:
        """Return the posterior of the observations of `data` on contexts (n, d_c)."""
        return exact_posterior(fit.gp, data, contexts, last)

    def fit(
        self,
        x: ArrayLike,
        c: ArrayLike,
        y: ArrayLike,
        start: FittedGP | None = None,
        *,
        stderr: ArrayLike | None = None,
        evaluation: ArrayLike | None = None,
    ) -> FittedGP:
        """Return the GP that maximises log p(y, theta), for actions x (t, d_x), contexts c (t, d_c), outcomes y (t,).

        With fewer than three outcomes the result is the mode of the prior. An earlier fit as `start` is a warm start.
        `stderr` (t,) holds the standard errors of the outcomes, nan where unknown. `evaluation` (t,) holds an integer
        per outcome, the same for all outcomes of an evaluation, which must be adjacent.
        """
        with one_thread():
            return self._fit(Outcomes.of(x, c, y, stderr, evaluation), start)

    def _fit(self, outcomes: Outcomes, start: FittedGP | None) -> FittedGP:
        offset, scale = standardisation(outcomes)
        standardised = outcomes.standardised(offset, scale)
        posterior = LogPosterior(self, standardised, scale)
        if len(outcomes.y) < 3 or not posterior.free.any():
            best = Summit(posterior.mode, posterior(posterior.mode)[0])
        else:
            starts = posterior.starts() if start is None else [posterior.theta_of(start.gp), posterior.mode]
            if posterior.dense and len(outcomes.y) >= LEAST_HALVED:
                half, summits = LogPosterior(self, standardised.half(), scale), list[Summit]()
                for summit in sorted(half.summits(starts, tolerance=1e-6), key=lambda summit: -summit.value):
                    summits += posterior.climb(summit.theta, summits, axes=half.axes(summit) / math.sqrt(2.0))
            else:
                summits = posterior.summits(starts)
            best = max(summits, key=lambda summit: summit.value)
        return FittedGP(posterior.gp(best.theta), offset, scale, best.value, len(outcomes.y))


def should_refit(n_observations: int, n_at_last_fit: int) -> bool:
    """Return whether to fit again: after every outcome up to ten, then whenever the data has grown by a tenth.

    From n_0 to n outcomes there are about log(n / n_0) / log(1.1) fits, 32 from 10 to 200. So few calls of `ask` pay
    for a fit, and the hyper-parameters lag by at most a tenth of the data.
    """
    return n_observations > n_at_last_fit and (n_observations <= 10 or 10 * n_observations >= 11 * n_at_last_fit)
