"""Hyper-parameters learned from the outcomes: a maximum a posteriori fit of the surrogate, and when to repeat it.

    x, c     actions (t, d_x) and contexts (t, d_c) observed, in unit-cube coordinates;   d = d_x + d_c
    y        outcomes (t,), standardised to (y - offset) / scale
    l        one lengthscale per dimension (d,);  R_X, R_C the correlations of the two kernels (t, t)
    a, s     amplitude of f and standard deviation of the noise, in standardised units
    theta    (log l_1, ..., log l_d, log a, log s)                                        (d + 2,)

The model is y ~ N(0, A) with A = a^2 R_X * R_C + s^2 I, elementwise product, and the fit maximises

    log p(y, theta) = -1/2 y' A^-1 y - 1/2 log det A - t/2 log 2 pi + log N(theta; m, V),
    d/d theta_j     =  1/2 tr((b b' - A^-1) dA/d theta_j) - (V^-1 (theta - m))_j,        b = A^-1 y.

The prior of theta is normal. Mode and standard deviation, the latter of the logarithm:

    l_k   exp(sqrt(2) - 3) sqrt(d), sqrt(3)   Hvarfner, Hellsten, Nardi (2024), "Vanilla Bayesian optimization performs
                                              great in high dimensions": l ~ LogNormal(sqrt(2) + log(d)/2, 3). As there
                                              and in BoTorch, the density of l itself is maximised; its mode lies
                                              one variance, 3, below the mean of log l. Distances in the cube grow as
                                              sqrt(d), and so do the lengthscales: the prior is as smooth in any d.
    a     1, 1.5                              the outcomes are standardised; wide, for a trend of which they show a part
    s     0.03, 3                             a noise variance of 1e-3 of that of the outcomes; wide enough for both a
                                              noise-free simulator and pure noise

All are independent but the log l_k, whose correlation is 0.9: a smooth function is smooth in most dimensions, and few
outcomes must not single out a dimension as irrelevant. Each l_k alone still has the published prior. Compared with
independent ones, the held-out log density of 15 to 20 outcomes of four functions in 4 to 6 dimensions rose by 0.3 to
1.8 nats per point, and fell by 0.2 for a function of two of six dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import lapack
from scipy.optimize import minimize

from drbo import validation
from drbo._threads import one_thread
from drbo.kernels import RBF, Kernel, Matern, Product
from drbo.models.gp import GP, FittedGP
from drbo.spaces.space import AnySpace
from drbo.validation import FloatArray

LOG_LENGTHSCALE = (math.sqrt(2.0) - 3.0, math.sqrt(3.0))
"""Mode (for d = 1) and standard deviation of log l under its prior."""
CORRELATION = 0.9
"""Correlation of any two log l under their prior."""
LOG_AMPLITUDE = (0.0, 1.5)
"""Mode and standard deviation of log a under its prior."""
LOG_NOISE = (math.log(0.03), 3.0)
"""Mode and standard deviation of log s under its prior."""

LENGTHSCALES = (0.01, 1000.0)
"""Bounds of l: points closer than the first are not resolved, dimensions beyond the second do not matter."""
AMPLITUDES = (0.01, 10.0)
"""Bounds of a."""
NOISES = (1e-4, 3.0)
"""Bounds of s. The least s^2 exceeds the rounding error of A, about 2e-16 t a^2, for t up to 10^5 at the largest a."""


@dataclass(frozen=True)
class LearnedGP:
    """A Gaussian process whose hyper-parameters are learned by maximum a posteriori.

    Parameters
    ----------
    family : the kind of the kernels that are learned, `Matern(nu=2.5)`, `Matern(nu=1.5)` or `RBF()`; the lengthscale
        and the amplitude that it carries are ignored
    noise : the standard deviation of an outcome's noise in the user's units, if it is known; it is then not learned.
        Less than 1e-4 of the outcomes' standard deviation, 0 included, counts as that
    action, context : a kernel that is fixed, used as it is: its lengthscales in unit-cube coordinates, its amplitude in
        standardised outcomes. The amplitude of f is learned with the kernel that is not fixed, if there is one
    """

    learns: ClassVar[bool] = True
    """Whether anything is learned from the outcomes: offset and scale always are."""
    certificate_width: ClassVar[float] = 3.0
    """The least width of a certificate by default, chosen by its measured coverage (docs/evidence.md)."""

    family: RBF | Matern = Matern(nu=2.5)  # noqa: RUF009 (frozen)
    noise: float | None = None
    action: Kernel | None = None
    context: Kernel | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.family, RBF | Matern):
            raise TypeError(f"family must be RBF() or Matern(nu=...), got {self.family!r}")
        if self.noise is not None:
            object.__setattr__(self, "noise", validation.finite_float("noise", self.noise))
            if self.noise < 0.0:
                raise ValueError(f"noise must be zero or more, or None to learn it, got {self.noise}")
        for name, kernel in (("action", self.action), ("context", self.context)):
            if kernel is not None and not isinstance(kernel, Kernel):
                raise TypeError(f"{name} must be a kernel such as RBF(0.2), or None to learn it, got {kernel!r}")

    def adapted(self, space: AnySpace) -> AnySpace:
        """Return the space with the coordinates that the model needs: those of the unit cube."""
        return space.in_unit_cube()

    def first_fit(self, d_x: int, d_c: int, sign: float) -> FittedGP:
        """Return the model before any outcome, for actions of d_x and contexts of d_c coordinates: the prior's mode."""
        del sign
        fit = self.fit(np.zeros((1, d_x)), np.zeros((1, d_c)), [0.0])
        return replace(fit, n_outcomes=0, known=False)

    def due(self, n_outcomes: int, last: FittedGP) -> bool:
        """Return whether there is enough more to learn from than there was for the last fit."""
        return should_refit(n_outcomes, last.n_outcomes)

    def refit(self, x: FloatArray, c: FloatArray, y: FloatArray, last: FittedGP) -> FittedGP:
        """Return the fit to all outcomes so far, begun from the last one."""
        with one_thread():
            return self.fit(x, c, y, last if last.n_outcomes >= 3 else None)

    def fit(self, x: ArrayLike, c: ArrayLike, y: ArrayLike, start: FittedGP | None = None) -> FittedGP:
        """Return the GP of largest log p(y, theta) for actions x (t, d_x), contexts c (t, d_c) and outcomes y (t,).

        With fewer than three outcomes it is the mode of the prior. An earlier fit as `start` makes this one quicker.
        """
        x, c, y = validation.points("x", x), validation.points("c", c), validation.finite_array("y", y, ndim=1)
        if not len(x) == len(c) == len(y):
            raise ValueError(f"x, c and y must have one row per outcome, got {len(x)}, {len(c)} and {len(y)}")
        offset, scale = _standardisation(y)
        posterior = _Posterior(self, x, c, (y - offset) / scale, scale)
        best = posterior.mode
        if len(y) >= 3 and posterior.free.any():
            starts = posterior.starts() if start is None else [posterior.theta_of(start.gp), posterior.mode]
            best = max((posterior.climb(theta) for theta in starts), key=lambda theta: posterior(theta)[0])
        return FittedGP(posterior.gp(best), offset, scale, posterior(best)[0], len(y))


def should_refit(n_observations: int, n_at_last_fit: int) -> bool:
    """Return whether to fit again: after every outcome up to ten, then whenever there is a tenth more data.

    From n_0 to n outcomes that makes about log(n / n_0) / log(1.1) fits, 32 from 10 to 200: the cost of an `ask`
    is seldom that of a fit, and the hyper-parameters never lag by more than a tenth of the data.
    """
    return n_observations > n_at_last_fit and (n_observations <= 10 or 10 * n_observations >= 11 * n_at_last_fit)


def _standardisation(y: FloatArray) -> tuple[float, float]:
    """Return the mean and the standard deviation of y (t,); 1 for the latter where y is constant up to rounding."""
    size = float(np.abs(y).max()) or 1.0  # squares and sums of y / size neither overflow nor vanish
    mean, std = float(np.mean(y / size)), float(np.std(y / size))
    return mean * size, std * size if std > 1e-12 else 1.0


class _Posterior:
    """log p(y, theta) and its gradient, for one set of data; entries of theta that are not free are constants.

    Attributes
    ----------
    mode, lower, upper : (d + 2,) the mode m of the prior of theta, and its bounds
    free : (d + 2,) which entries are learned
    precision : (n_free, n_free) V^-1 of those entries
    """

    def __init__(self, config: LearnedGP, x: FloatArray, c: FloatArray, y: FloatArray, scale: float) -> None:
        self.config, self.y = config, y
        d_x, d = x.shape[1], x.shape[1] + c.shape[1]
        self.parts = (slice(0, d_x), slice(d_x, d))
        self.kernels = (config.action, config.context)
        self.factors = [
            _squared_differences(z) if kernel is None else kernel(z, z) / kernel.variance
            for z, kernel in zip((x, c), self.kernels, strict=True)
        ]
        self.mode = np.array([LOG_LENGTHSCALE[0] + 0.5 * math.log(d)] * d + [LOG_AMPLITUDE[0], LOG_NOISE[0]])
        self.lower, self.upper = np.log([LENGTHSCALES] * d + [AMPLITUDES, NOISES]).T
        self.free = np.ones(d + 2, dtype=bool)
        for kernel, part in zip(self.kernels, self.parts, strict=True):
            self.free[part] = kernel is None
        if config.action is not None and config.context is not None:
            self.free[d] = False
            self.mode[d] = 0.5 * math.log(config.action.variance * config.context.variance)
            self.lower[-1] = max(self.lower[-1], self.mode[d] + math.log(NOISES[0] / AMPLITUDES[1]))
            self.upper[-1] = max(self.upper[-1], self.lower[-1])
        if config.noise is not None:
            self.free[-1] = False
            self.mode[-1] = math.log(max(config.noise / scale, math.exp(self.lower[-1])))
        self.mode[-1] = max(self.mode[-1], self.lower[-1])
        V = np.diag([LOG_LENGTHSCALE[1] ** 2 * (1.0 - CORRELATION)] * d + [LOG_AMPLITUDE[1] ** 2, LOG_NOISE[1] ** 2])
        V[:d, :d] += LOG_LENGTHSCALE[1] ** 2 * CORRELATION
        self.precision = np.linalg.inv(V[np.ix_(self.free, self.free)])
        self.log_normaliser = 0.5 * (np.linalg.slogdet(self.precision)[1] - self.free.sum() * math.log(2.0 * math.pi))

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return log p(y, theta) and its gradient (d + 2,), zero where theta is not free."""
        t = len(self.y)
        variance, ridge = np.exp(2.0 * theta[-2:])
        weights = np.exp(-2.0 * theta[:-2])  # 1 / l^2
        R, slopes = zip(*(self._factor(i, weights[part]) for i, part in enumerate(self.parts)), strict=True)
        K = variance * R[0] * R[1]
        U, failed = lapack.dpotrf(K + ridge * np.eye(t), lower=0)
        if failed:
            raise np.linalg.LinAlgError(f"the covariance of {t} outcomes is not positive at theta = {theta.tolist()}")
        b, _ = lapack.dpotrs(U, self.y, lower=0)
        inverse, _ = lapack.dpotri(U, lower=0)
        inverse = np.triu(inverse) + np.triu(inverse, 1).T
        Q = np.outer(b, b) - inverse
        value = -0.5 * self.y @ b - np.log(np.diag(U)).sum() - 0.5 * t * math.log(2.0 * math.pi)
        gradient = np.zeros_like(theta)
        for i, part in enumerate(self.parts):
            if self.kernels[i] is None:
                # einsum, not BLAS: its threads wait for one another on a busy machine, for products this small
                trace = np.einsum("kp,p->k", self.factors[i], (Q * R[1 - i] * slopes[i]).ravel())
                gradient[part] = 0.5 * variance * weights[part] * trace
        gradient[-2:] = np.einsum("ij,ij", Q, K), ridge * np.trace(Q)
        u = (theta - self.mode)[self.free]
        pull = self.precision @ u
        value += self.log_normaliser - 0.5 * u @ pull
        gradient[~self.free] = 0.0
        gradient[self.free] -= pull
        return float(value), gradient

    def _factor(self, i: int, weights: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        """Return the correlation R_i (t, t) of a kernel, and -2 dR_i / d(r^2) if it is learned."""
        if self.kernels[i] is not None:
            return self.factors[i], None
        t = len(self.y)
        family = self.config.family
        s, decay = family.decay(np.einsum("k,kp->p", weights, self.factors[i]).reshape(t, t))
        return family.correlation(s, decay), -2.0 * family.slope(s, decay)

    def starts(self) -> list[FloatArray]:
        """Return where to climb from: the mode of the prior, short lengthscales, and long ones with much noise."""
        short, noisy = self.mode.copy(), self.mode.copy()
        short[:-2] -= math.log(4.0)
        noisy[:-2] += math.log(4.0)
        noisy[-1] = math.log(0.5)
        return [self.mode, *(np.where(self.free, theta, self.mode) for theta in (short, noisy))]

    def climb(self, theta: FloatArray) -> FloatArray:
        """Return the local maximiser (d + 2,) that L-BFGS-B reaches from theta, within the bounds."""
        free = self.free

        def loss(part: FloatArray) -> tuple[float, FloatArray]:
            full = self.mode.copy()
            full[free] = part
            value, gradient = self(full)
            return -value, -gradient[free]

        bounds = list(zip(self.lower[free], self.upper[free], strict=True))
        inside = np.clip(theta, self.lower, self.upper)[free]
        found = minimize(loss, inside, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 200})
        best = self.mode.copy()
        best[free] = found.x
        return best

    def theta_of(self, gp: GP) -> FloatArray:
        """Return the hyper-parameters (d + 2,) of a GP that an earlier fit of the same configuration returned."""
        theta = self.mode.copy()
        for name, kernel, part in zip(
            ("action", "context"), (gp.kernel.action, gp.kernel.context), self.parts, strict=True
        ):
            if self.free[part].any():
                scales: float | Sequence[float] = getattr(kernel, "lengthscale", ())
                if np.shape(scales) != theta[part].shape:
                    raise ValueError(f"start must have {theta[part].size} {name} lengthscale(s), got {kernel!r}")
                theta[part] = np.log(scales)
        theta[-2:] = 0.5 * math.log(gp.kernel.variance), math.log(gp.noise)
        return np.where(self.free, theta, self.mode)

    def gp(self, theta: FloatArray) -> GP:
        """Return the GP of these hyper-parameters; the amplitude goes to the action kernel unless that is fixed."""
        amplitude = math.exp(theta[-2])
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
        return GP(Product(*kernels), math.exp(theta[-1]))


def _squared_differences(z: FloatArray) -> FloatArray:
    """Return (z_ik - z_jk)^2 for points z (t, d), one row per dimension k, shape (d, t t)."""
    return np.square(z.T[:, :, None] - z.T[:, None, :]).reshape(z.shape[1], -1)
