"""The Gaussian process model of f: a prior, its units, and a noise. What it learns is in `drbo.models.regression`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from drbo import validation
from drbo.kernels import ConstantKernel, Product
from drbo.models.outcomes import Outcomes
from drbo.models.units import Units
from drbo.spaces.space import AnySpace
from drbo.validation import FloatArray

__all__ = ["GP"]


@dataclass(frozen=True)
class GP:
    """A Gaussian process prior of mean zero on actions x contexts, with fixed hyper-parameters.

    Parameters
    ----------
    kernel : the covariance of f, a product of an action kernel and a context kernel
    noise : the standard deviation of the noise of an outcome, y = offset + scale (f(x, c) + noise * N(0, 1))
    offset, scale : the units of the outcomes, if the kernel is not in them; fixed beforehand, from a pilot for instance
    noise_correlation : the correlation of the errors of two outcomes of one evaluation, from 0 to below 1. It is the
        share of the noise variance that one shock, common to all outcomes of the evaluation, brings: t^2 / (s^2 + t^2)
        for errors of covariance s^2 I + t^2 11', where noise^2 = s^2 + t^2. Outcomes told alone do not depend on it
    """

    kernel: Product
    noise: float
    offset: float = 0.0
    scale: float = 1.0
    noise_correlation: float = 0.0
    learns: ClassVar[bool] = False
    """Whether anything is learned from the outcomes."""
    certificate_width: ClassVar[float] = 0.0
    """The least width of a certificate by default; a width that is given is as good as the kernel that is."""

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

    @property
    def ridge(self) -> float:
        """The noise variance: the ridge of the regression of which the posterior mean is the solution."""
        return self.noise**2

    def adapted(self, space: AnySpace) -> AnySpace:
        """Return the space with the coordinates that the model needs: those of the space itself."""
        return space

    def first_fit(self, d_x: int, d_c: int, sign: float) -> FittedGP:
        """Return the model itself, for actions of d_x and contexts of d_c coordinates: nothing is learned.

        `sign` is -1 if outcomes are minimised: the model maximises, so the offset changes its sign with them.
        """
        self.check(d_x, d_c)
        return FittedGP(self, sign * self.offset, self.scale, 0.0)

    def of_actions(self) -> Self:
        """Return the model itself, of an f that depends on a perturbed action alone; raise if contexts matter to it."""
        if not isinstance(self.kernel.context, ConstantKernel):
            raise TypeError(
                "surrogate must have the kernel Product(action kernel, drbo.ConstantKernel()) where contexts are a "
                f"Perturbation: f is a function of the perturbed action alone, got {self.kernel!r}"
            )
        return self

    def due(self, n_outcomes: int, last: FittedGP) -> bool:
        """Return False: there is nothing to learn anew."""
        del n_outcomes, last
        return False

    def refit(self, outcomes: Outcomes, last: FittedGP) -> FittedGP:
        """Return the last fit: hyper-parameters are fixed."""
        del outcomes
        return last

    def check(self, d_x: int, d_c: int) -> None:
        """Raise if the kernels are not for actions of d_x and contexts of d_c coordinates."""
        self.kernel.action(np.zeros((1, d_x)), np.zeros((1, d_x)))
        self.kernel.context(np.zeros((1, d_c)), np.zeros((1, d_c)))


@dataclass(frozen=True)
class FittedGP:
    """A GP on standardised outcomes, where outcome = offset + scale * standardised outcome, to be maximised.

    Attributes
    ----------
    gp : the model, in standardised units
    offset, scale : of the standardisation
    log_posterior : log p(y, theta) of `drbo.models.log_posterior` at the hyper-parameters of `gp`; parameters that were
        not learned are left out of the prior
    n_outcomes : how many outcomes the model was learned from
    known : False as long as the scale of the outcomes is to be learned, and there is none yet
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
        """Return (outcomes - offset) / scale, the outcomes as `gp` takes them, of the same shape."""
        return np.asarray((validation.finite_array("outcomes", outcomes) - self.offset) / self.scale)
