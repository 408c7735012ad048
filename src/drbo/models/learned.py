"""Hyper-parameters learned from the outcomes: a maximum a posteriori fit, and when to repeat it.

    x, c     actions (t, d_x) and contexts (t, d_c) observed, in unit-cube coordinates;   d = d_x + d_c
    y        outcomes (t,), standardised to (y - offset) / scale
    l        one lengthscale per dimension (d,);  R_X, R_C the correlations of the two kernels (t, t)
    a, s     amplitude of f and standard deviation of the noise, in standardised units
    r        correlation of the errors of two outcomes of one evaluation
    theta    (log l_1, ..., log l_d, log a, log s, log(r / (1 - r)))                      (d + 3,)

The model is y ~ N(0, A) with A = a^2 R_X * R_C + N, elementwise product. N is s^2 I if every outcome was told alone,
and in general the covariance of `drbo.models.data`. The fit maximises

    log p(y, theta) = -1/2 y' A^-1 y - 1/2 log det A - t/2 log 2 pi + log N(theta; m, V),
    d/d theta_j     =  1/2 tr((b b' - A^-1) dA/d theta_j) - (V^-1 (theta - m))_j,        b = A^-1 y.

The prior of theta is normal. The table gives the mode, and the standard deviation of the logarithm:

    l_k   exp(sqrt(2) - 3) sqrt(d), sqrt(3)   Hvarfner, Hellsten, Nardi (2024), "Vanilla Bayesian optimization performs
                                              great in high dimensions": l ~ LogNormal(sqrt(2) + log(d)/2, 3). As there
                                              and in BoTorch, the density of l itself is maximised; its mode lies
                                              one variance, 3, below the mean of log l. Distances in the cube and
                                              lengthscales both grow as sqrt(d), so smoothness does not depend on d.
    a     1, 1.5                              the outcomes are standardised; wide, as they may show only part of a trend
    s     0.03, 3                             a noise variance of 1e-3 of that of the outcomes; wide enough for both a
                                              noise-free simulator and pure noise
    r     1/2, 2 (of its logit)               shared and own errors have the same size, within a factor of 3;
                                              learned only if an evaluation has several outcomes

All entries are independent except the log l_k, whose correlation is 0.9: a smooth function is smooth in most
dimensions, and few outcomes must not mark a dimension as irrelevant. Each l_k alone has the published prior. Compared
with independent l_k, the held-out log density of 15 to 20 outcomes of four functions in 4 to 6 dimensions rose by 0.3
to 1.8 nats per point, and fell by 0.2 for a function of two of six dimensions.

log p(y, theta) may have several local maxima ("summits"), so a fit climbs from several starts. A climb that comes close
to a known summit is stopped. With many outcomes, all climbs begin on half of the data, and continue on all data from
every summit found. From 800 outcomes on they begin on a quarter. In 54 deliberately hard fits to 160 to 440
outcomes (steps, high frequencies, bumps, repeated points, a trend; noise of 2% to 100%) the best summit was never
missed. With half of the data alone, one of 45 fits missed it; with a start on a quarter, two of 36.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from drbo import validation
from drbo._messages import counted
from drbo._threads import one_thread
from drbo.kernels import RBF, ConstantKernel, Kernel, Matern, Product
from drbo.models.data import Outcomes, standardisation
from drbo.models.gp import GP, FittedGP, GPPosterior
from drbo.models.likelihood import Correlation, DenseLikelihood, KroneckerLikelihood, parts
from drbo.models.sparse import SparsePosterior, posterior_of_any
from drbo.models.surrogate import Data, Inputs
from drbo.spaces.parameters import MOST_COORDINATES
from drbo.spaces.space import AnySpace
from drbo.validation import FloatArray

__all__ = ["LearnedGP"]

LOG_LENGTHSCALE = (math.sqrt(2.0) - 3.0, math.sqrt(3.0))
"""Mode (for d = 1) and standard deviation of log l under its prior."""
CORRELATION = 0.9
"""Correlation of any two log l under their prior."""
LOG_AMPLITUDE = (0.0, 1.5)
"""Mode and standard deviation of log a under its prior."""
LOG_NOISE = (math.log(0.03), 3.0)
"""Mode and standard deviation of log s under its prior."""
LOGIT_CORRELATION = (0.0, 2.0)
"""Mode and standard deviation of log(r / (1 - r)) under its prior."""

LENGTHSCALES = (0.01, 1000.0)
"""Bounds of l: closer points are not resolved, and dimensions with longer lengthscales do not matter."""
AMPLITUDES = (0.01, 10.0)
"""Bounds of a."""
NOISES = (1e-4, 3.0)
"""Bounds of s. The least s^2 exceeds the rounding error of A, about 2e-16 t a^2, for t up to 10^5 at the largest a."""
CORRELATIONS = (1e-3, 1.0 - 1e-8)
"""Bounds of a learned r; the upper bound means errors of 1e-4 and a shock of 1."""
BASIN, BELOW = 0.3, 3.0
"""A climb stops within `BASIN` of a known summit in every entry of theta and less than `BELOW` nats below it."""
STEEP, LEAST_GAIN = 0.5, 1e-3
"""A climb that ends with a gradient above `STEEP` restarts, unless it gained less than `LEAST_GAIN` nats."""
LARGEST_GIVEN = 0.99
"""The largest r that may be given, or learned with known standard errors, for numerical reasons."""
PAIRS = 2
"""Number of pairs of alternative fits."""
ASSUMED_NOISE = 1e-3
"""The least noise of an alternative fit, in standard deviations of the outcomes, unless the outcomes show it."""
MOST_FITTED = 1000
"""Largest number of outcomes that hyper-parameters are learned from, drawn at random with a fixed seed."""
LEAST_HALVED = 200
"""Number of outcomes from which climbs begin on half of the data."""
LEAST_QUARTERED = 400
"""Number of outcomes in a half from which its own climbs begin on half of it."""
_CLIMBING = "learning hyper-parameters, climbs"
"""What a fit says that takes long."""
_ROUGH = 1e-6
"""The tolerance of climbs on a part of the data."""


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
    exact_up_to : the largest number of different evaluated points at which all of them enter one exact posterior.
        Beyond it a search uses an approximation, and a bound rests on the outcomes nearest to its action
        (docs/large.md)
    """

    learns: ClassVar[bool] = True
    """Whether anything is learned from the outcomes: always the offset and the scale."""
    bound_width: ClassVar[float] = 3.0
    """The least default width of a stated bound, chosen by measured coverage (docs/evidence.md)."""

    family: RBF | Matern = Matern(nu=2.5)  # noqa: RUF009 (frozen)
    noise: float | None = None
    action: Kernel | None = None
    context: Kernel | None = None
    noise_correlation: float | None = None
    exact_up_to: int = 1500

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
        object.__setattr__(self, "exact_up_to", validation.whole_number("exact_up_to", self.exact_up_to, least=1))
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

    def alternatives(self, fit: FittedGP, outcomes: Outcomes) -> tuple[FittedGP, ...]:
        """Return further fits that the outcomes do not rule out, each in the units of `fit`.

        They are draws of theta from the normal distribution around the fit with the curvature of log p(y, theta)
        (Laplace's approximation), in pairs on opposite sides. Their noise is at least `ASSUMED_NOISE` unless the
        outcomes show it (repeats, standard errors) or it was given: outcomes without repeats cannot show that noise is
        smaller. If the noise of the fit is below that, the fit with the assumed noise is one more.
        """
        with one_thread():
            some = outcomes.some(MOST_FITTED).standardised(fit.offset, fit.scale)
            posterior = LogPosterior(self, some, fit.scale)
            theta = posterior.theta_of(fit.gp)
            part = posterior.half(some) or posterior
            axes = part.axes(Summit(theta, fit.log_posterior)) / (1.0 if part is posterior else math.sqrt(2.0))
        draws = np.random.default_rng(len(outcomes.y)).normal(size=(PAIRS, axes.shape[1])) @ axes.T
        thetas = []
        for draw in (*draws, *-draws):
            moved = theta.copy()
            moved[posterior.free] += draw
            thetas.append(np.clip(moved, posterior.lower, posterior.upper))
        shown = self.noise is not None or outcomes.shows_noise
        gps = [posterior.gp(one) for one in thetas]
        if not shown:
            gps = [replace(gp, noise=max(gp.noise, ASSUMED_NOISE)) for gp in gps]
            if fit.gp.noise < ASSUMED_NOISE:
                gps.append(replace(fit.gp, noise=ASSUMED_NOISE))
        return tuple(replace(fit, gp=gp) for gp in gps)

    def posterior(
        self,
        fit: FittedGP,
        data: Data,
        contexts: FloatArray,
        last: GPPosterior | SparsePosterior | None = None,
    ) -> GPPosterior | SparsePosterior:
        """Return the posterior of the observations of `data` on contexts (n, d_c)."""
        return posterior_of_any(fit.gp, data, contexts, last, self.exact_up_to)

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
        standardised = outcomes.some(MOST_FITTED).standardised(offset, scale)
        posterior = LogPosterior(self, standardised, scale)
        if len(outcomes.y) < 3 or not posterior.free.any():
            best = Summit(posterior.mode, posterior(posterior.mode)[0])
        else:
            starts = posterior.starts() if start is None else [posterior.theta_of(start.gp), posterior.mode]
            best = max(posterior.summits_by_halves(standardised, starts), key=lambda summit: summit.value)
        return FittedGP(posterior.gp(best.theta), offset, scale, best.value, len(outcomes.y))


def should_refit(n_observations: int, n_at_last_fit: int) -> bool:
    """Return whether to fit again: after every outcome up to ten, then whenever the data has grown by a tenth.

    From n_0 to n outcomes there are about log(n / n_0) / log(1.1) fits, 32 from 10 to 200. So few calls of `ask` pay
    for a fit, and the hyper-parameters lag by at most a tenth of the data.
    """
    return n_observations > n_at_last_fit and (n_observations <= 10 or 10 * n_observations >= 11 * n_at_last_fit)


@dataclass(frozen=True, eq=False)
class Summit:
    """A local maximiser theta (d + 3,) of log p(y, theta), and its value."""

    theta: FloatArray
    value: float


class _GivenUp(Exception):  # noqa: N818  # it ends a climb, and nothing went wrong
    """A climb came close to a known summit."""


class _Outside(Exception):  # noqa: N818  # it ends a climb that goes on otherwise
    """A climb without bounds left the bounds."""


class LogPosterior:
    """log p(y, theta) and its gradient for one data set; entries of theta that are not free are constants.

    Attributes
    ----------
    mode, lower, upper : (d + 3,) the mode m of the prior of theta, and its bounds
    free : (d + 3,) which entries are learned
    precision : (n_free, n_free) V^-1 of the free entries
    likelihood : log p(y | theta)
    dense : whether the likelihood uses one dense factor
    """

    def __init__(self, config: LearnedGP, outcomes: Outcomes, scale: float) -> None:
        """`outcomes` are standardised, with `scale`."""
        self.config, self.scale = config, scale
        self.d = d = outcomes.x.shape[1] + outcomes.c.shape[1]
        self.parts = parts(outcomes)
        self.kernels = (config.action, config.context)
        correlations = (Correlation(config.family, config.action), Correlation(config.family, config.context))
        common = outcomes.common()
        self.dense = common is None
        self.likelihood: DenseLikelihood | KroneckerLikelihood = (
            DenseLikelihood(correlations, outcomes)
            if common is None
            else KroneckerLikelihood(correlations, outcomes, common)
        )
        modes = [LOG_AMPLITUDE[0], LOG_NOISE[0], LOGIT_CORRELATION[0]]
        self.mode = np.array([LOG_LENGTHSCALE[0] + 0.5 * math.log(d)] * d + modes)
        self.lower, self.upper = np.log([LENGTHSCALES] * d + [AMPLITUDES, NOISES, CORRELATIONS]).T
        largest = LARGEST_GIVEN if outcomes.errors_known else CORRELATIONS[1]
        self.lower[-1], self.upper[-1] = _logit(CORRELATIONS[0]), _logit(largest)
        self.free = np.ones(d + 3, dtype=bool)
        for kernel, part in zip(self.kernels, self.parts, strict=True):
            self.free[part] = kernel is None
        if config.action is not None and config.context is not None:
            self.free[d] = False
            self.mode[d] = 0.5 * math.log(config.action.variance * config.context.variance)
            self.lower[d + 1] = max(self.lower[d + 1], self.mode[d] + math.log(NOISES[0] / AMPLITUDES[1]))
            self.upper[d + 1] = max(self.upper[d + 1], self.lower[d + 1])
        self.free[d + 2] = config.noise_correlation is None and outcomes.shares_errors
        if config.noise_correlation is not None and outcomes.shares_errors:
            self.lower[d + 1] -= 0.5 * math.log1p(-config.noise_correlation)  # the part of each outcome's own
            self.upper[d + 1] = max(self.upper[d + 1], self.lower[d + 1])
        if config.noise is not None:
            self.free[d + 1] = False
            self.mode[d + 1] = math.log(max(config.noise / scale, math.exp(self.lower[d + 1])))
            own = min(2.0 * (self.mode[d + 1] - self.lower[d + 1]), 100.0)  # log of s^2 over the least own part of it
            self.upper[-1] = min(self.upper[-1], math.log(max(math.expm1(own), CORRELATIONS[0])))
            self.lower[-1] = min(self.lower[-1], self.upper[-1])
            self.mode[-1] = min(self.mode[-1], self.upper[-1])
        self.mode[d + 1] = max(self.mode[d + 1], self.lower[d + 1])
        # If s and r are both learned, log s is that of the errors' own part, (1 - r) s^2, whose bounds keep A positive.
        self.own_part = bool(self.free[d + 1] and self.free[d + 2])
        deviations = [LOG_AMPLITUDE[1], LOG_NOISE[1], LOGIT_CORRELATION[1]]
        V = np.diag([LOG_LENGTHSCALE[1] ** 2 * (1.0 - CORRELATION)] * d + [one**2 for one in deviations])
        V[:d, :d] += LOG_LENGTHSCALE[1] ** 2 * CORRELATION
        self.precision = np.linalg.inv(V[np.ix_(self.free, self.free)])
        self.log_normaliser = 0.5 * (np.linalg.slogdet(self.precision)[1] - self.free.sum() * math.log(2.0 * math.pi))

    def half(self, outcomes: Outcomes) -> LogPosterior | None:
        """Return log p(y, theta) for half of the outcomes of this one; None if that is no faster, or learns less."""
        if not self.dense or len(outcomes.y) < LEAST_HALVED:
            return None
        made = LogPosterior(self.config, outcomes.half(), self.scale)
        return made if (made.free == self.free).all() else None  # perhaps no evaluation with several outcomes is left

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return log p(y, theta) and its gradient (d + 3,), zero where theta is not free."""
        r = self.noise_correlation(theta)
        value, gradient = self.likelihood(self._total(theta), r)
        if self.own_part:
            gradient[-1] += 0.5 * r * gradient[-2]
        u = (theta - self.mode)[self.free]
        pull = self.precision @ u
        value += self.log_normaliser - 0.5 * u @ pull
        gradient[~self.free] = 0.0
        gradient[self.free] -= pull
        return float(value), gradient

    def _total(self, theta: FloatArray) -> FloatArray:
        """Return theta with log s of the total errors instead of their own part."""
        if not self.own_part:
            return theta
        total = theta.copy()
        total[-2] += 0.5 * math.log1p(math.exp(theta[-1]))  # s^2 = own^2 / (1 - r)
        return total

    def noise_correlation(self, theta: FloatArray) -> float:
        """Return the correlation r of the errors of one evaluation; the mode of its prior if there is no data on it."""
        given = self.config.noise_correlation
        return 1.0 / (1.0 + math.exp(-theta[-1])) if given is None else given

    def starts(self) -> list[FloatArray]:
        """Return the starts of climbs: the mode of the prior, short lengthscales, and long ones with much noise."""
        short, noisy = self.mode.copy(), self.mode.copy()
        short[: self.d] -= math.log(4.0)
        noisy[: self.d] += math.log(4.0)
        noisy[self.d + 1] = math.log(0.5)
        return [self.mode, *(np.where(self.free, theta, self.mode) for theta in (short, noisy))]

    def summits(self, starts: Sequence[FloatArray], tolerance: float = 2e-9) -> list[Summit]:
        """Return the summits that climbs from the starts reach."""
        found = list[Summit]()
        for theta in counted(starts, len(starts), _CLIMBING):
            found += self.climb(theta, found, tolerance)
        return found

    def summits_by_halves(
        self, outcomes: Outcomes, starts: Sequence[FloatArray], tolerance: float = 2e-9
    ) -> list[Summit]:
        """Return the summits that climbs reach from those of half of the outcomes of this one, if there are many."""
        half = self.half(outcomes)
        if half is None:
            return self.summits(starts, tolerance)
        part = outcomes.half()
        if len(part.y) < LEAST_QUARTERED:
            below = half.summits(starts, _ROUGH)
        else:
            below = half.summits_by_halves(part, starts, _ROUGH)
        found = list[Summit]()
        for summit in counted(sorted(below, key=lambda summit: -summit.value), len(below), _CLIMBING):
            found += self.climb(summit.theta, found, tolerance, axes=half.axes(summit) / math.sqrt(2.0))
        return found

    def climb(
        self,
        theta: FloatArray,
        known: Sequence[Summit],
        tolerance: float = 2e-9,
        axes: FloatArray | None = None,
    ) -> list[Summit]:
        """Return the local maximiser that L-BFGS-B reaches from theta within the bounds; none if it is known.

        A climb ends when a step gains less than the share `tolerance` of the value. L-BFGS-B may take such a step on a
        slope next to a bound; the climb then restarts from there. With the `axes` of the summit, (n_free, n_free), the
        steps are scaled, and a climb needs a third of the evaluations. Scaled coordinates have no bounds: a climb that
        leaves the bounds restarts without axes.
        """
        free = self.free
        lower, upper = self.lower[free], self.upper[free]
        inside = np.clip(theta, self.lower, self.upper)[free]
        along = np.eye(len(inside)) if axes is None else axes

        def loss(steps: FloatArray) -> tuple[float, FloatArray]:
            part = inside + along @ steps
            if axes is not None and ((part < lower) | (part > upper)).any():
                raise _Outside
            full = self._with(part)
            value, gradient = self(full)
            for summit in known:
                near = float(np.abs(full - summit.theta).max()) < BASIN
                if near and summit.value - BELOW < value < summit.value + LEAST_GAIN:
                    raise _GivenUp
            return -value, -(gradient[free] @ along)

        bounds = list(zip(lower - inside, upper - inside, strict=True)) if axes is None else None
        zero = np.zeros(len(inside))
        try:
            found = minimize(
                loss, zero, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 200, "ftol": tolerance}
            )
        except _GivenUp:
            return []
        except _Outside:
            return self.climb(theta, known, tolerance)
        reached = np.clip(inside + along @ found.x, lower, upper)
        summit = Summit(self._with(reached), -float(found.fun))
        uphill = -found.jac @ np.linalg.inv(along)
        slope = np.abs(np.clip(reached + uphill, lower, upper) - reached).max()
        if slope > STEEP and summit.value > self(self._with(inside))[0] + LEAST_GAIN:
            return self.climb(summit.theta, known, tolerance)
        return [summit]

    def axes(self, summit: Summit) -> FloatArray:
        """Return the axes (n_free, n_free) of a summit, one per column, along which it falls off by 1/2 within 1.

        The axes are H^-1/2, with H minus the matrix of second derivatives, by differences of the gradient. Curvatures
        are at least those of a normal distribution of standard deviation 1.
        """
        step, free = 1e-4, np.flatnonzero(self.free)
        _, here = self(summit.theta)
        H = np.empty((len(free), len(free)))
        for j, entry in enumerate(free):
            moved = summit.theta.copy()
            moved[entry] += step if moved[entry] + step <= self.upper[entry] else -step
            H[j] = (here - self(moved)[1])[free] / (moved[entry] - summit.theta[entry])
        values, vectors = np.linalg.eigh(0.5 * (H + H.T))
        return np.asarray(vectors / np.sqrt(np.maximum(values, 1.0)))

    def _with(self, part: FloatArray) -> FloatArray:
        """Return theta (d + 3,) with the given free entries (n_free,)."""
        full = self.mode.copy()
        full[self.free] = part
        return full

    def theta_of(self, gp: GP) -> FloatArray:
        """Return the hyper-parameters (d + 3,) of a GP that an earlier fit of the same configuration returned."""
        theta = self.mode.copy()
        for name, kernel, part in zip(
            ("action", "context"), (gp.kernel.action, gp.kernel.context), self.parts, strict=True
        ):
            if self.free[part].any():
                scales: float | Sequence[float] = getattr(kernel, "lengthscale", ())
                if np.shape(scales) != theta[part].shape:
                    raise ValueError(f"start must have {theta[part].size} {name} lengthscale(s), got {kernel!r}")
                theta[part] = np.log(scales)
        theta[self.d : self.d + 2] = 0.5 * math.log(gp.kernel.variance), math.log(gp.noise)
        theta[-1] = _logit(min(max(gp.noise_correlation, CORRELATIONS[0]), CORRELATIONS[1]))
        if self.own_part:
            theta[-2] -= 0.5 * math.log1p(math.exp(theta[-1]))
        return np.where(self.free, theta, self.mode)

    def gp(self, theta: FloatArray) -> GP:
        """Return the GP of these hyper-parameters; the action kernel has the amplitude unless it is fixed."""
        amplitude = math.exp(theta[self.d])
        kernels: list[Kernel] = []
        for fixed, part in zip(self.kernels, self.parts, strict=True):
            if fixed is not None:
                kernels.append(fixed)
            else:
                scales = (*np.exp(theta[part]).tolist(),)
                kernels.append(replace(self.config.family, lengthscale=scales, amplitude=1.0))
        for i in (0, 1):
            if self.kernels[i] is None:
                learned = replace(self.config.family, lengthscale=(*np.exp(theta[self.parts[i]]).tolist(),))
                kernels[i] = replace(learned, amplitude=amplitude / math.sqrt(kernels[1 - i].variance))
                break
        noise = math.exp(self._total(theta)[-2])
        return GP(Product(*kernels), noise, noise_correlation=self.noise_correlation(theta))


def _logit(r: float) -> float:
    return math.log(r / (1.0 - r))
