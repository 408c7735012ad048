"""Confidence bounds on f: the width beta_t, bounds with a side, and the information gain behind them."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, ndtri_exp

from drbo import validation
from drbo._compiled import announce, in_order
from drbo._fast_record import fast_record
from drbo.models.curve import Curve
from drbo.models.data import Observation, Scatter, Units
from drbo.models.gp import GP
from drbo.models.regression import ExactPosterior
from drbo.models.surrogate import (
    AnyCurve,
    Posterior,
    SupportsAverages,
    SupportsCovariance,
    SupportsGrid,
    curve_of,
    moments_in,
    of_action,
    supports,
)
from drbo.spaces.space import Point
from drbo.validation import FloatArray

__all__ = ["TheoreticalBeta"]

_LARGEST_BETA = 1e100


@dataclass(frozen=True)
class TheoreticalBeta:
    """The width with which the confidence bounds hold at all times with probability 1 - delta (Lemma 1).

    beta_t = (sigma / sqrt(ridge)) sqrt(log det(I + K_t / ridge) + 2 log(events / delta)) + B

    N is the covariance of the errors in the model, with known standard errors and `noise_correlation`. Where N is not
    ridge I, the log det is that of I + N^-1/2 K_t N^-1/2, and sigma / sqrt(ridge) is at least 1 once a standard error
    is known. The lemma then assumes that the errors of an evaluation are jointly sub-Gaussian with the matrix (sigma^2
    / ridge) N, or N for known standard errors. It also assumes that N was fixed before the outcomes were seen
    (docs/claims.md).

    The paper states the case ridge = 1. `events` is the number of events that share delta: 1 for the lemma itself and
    the simulator setting (Theorem 5), 2 for the general setting (Theorem 2), 3 for the data-driven setting (Corollary
    4). The setting provides this number.

    The width is safe and large. In 60 runs on functions of norm 2 every bound was at least 0.28 from the truth;
    with beta = 2 the average distance was 0.03 to 0.23 (docs/reproduction.md).

    Parameters
    ----------
    bound : B, a bound on the norm of f in the Hilbert space of the GP's kernel
    noise : sigma, the standard deviation (or sub-Gaussian constant) of the outcomes' noise
    delta : the probability that the guarantee fails
    """

    bound: float
    noise: float
    delta: float = 0.1
    proven: ClassVar[bool] = True
    """Whether a theorem gives the probability that the bounds fail."""

    def __post_init__(self) -> None:
        validation.positive_float("bound", self.bound)
        validation.positive_float("noise", self.noise)
        validation.probability("delta", self.delta)

    def at_least(self, width: float) -> TheoreticalBeta:
        """Return this rule: theory determines its width."""
        del width
        return self

    def hidden_variance(self, scatter: Scatter, ridge: float, units: Units) -> float:
        """Return the extra error variance in the model of an outcome whose context was never revealed.

        The values of f in the contexts lie in an interval of length 2 s = `bound` * `scatter.diameter`. By Hoeffding's
        lemma f less its average is sub-Gaussian with s^2, so the total error is sub-Gaussian with

            sigma^2 + s^2 = (sigma^2 / ridge) (ridge + s^2 ridge / sigma^2).

        Lemma 1 holds with the same beta_t if the model's error variance grows by s^2 ridge / sigma^2.
        """
        half = 0.5 * units.length_inward(self.bound) * scatter.diameter
        return half**2 * ridge / units.length_inward(self.noise) ** 2

    def width(
        self,
        information_gain: float,
        ridge: float,
        events: int = 1,
        units: Units | None = None,
        errors_known: bool = False,
    ) -> float:
        """Return beta_t for log det(I + K_t / ridge) = information_gain.

        `bound` and `noise` are in the units of the outcomes, the ridge in the units of the model. `errors_known`:
        whether any outcome has a known standard error.
        """
        own = Units() if units is None else units
        inside = information_gain + 2.0 * math.log(events / self.delta)
        noise, bound = own.length_inward(self.noise), own.length_inward(self.bound)
        ratio = noise / math.sqrt(ridge)
        return (max(ratio, 1.0) if errors_known else ratio) * math.sqrt(inside) + bound


@dataclass(frozen=True)
class ConstantBeta:
    """The same width at all times; the paper's experiments use 2. A plain number is converted to this rule."""

    value: float
    delta: ClassVar[float | None] = None
    proven: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", _constant("beta", self.value))

    def at_least(self, width: float) -> ConstantBeta:
        """Return the constant rule of this width if it is larger, otherwise this rule."""
        return self if self.value >= width else ConstantBeta(width)

    def hidden_variance(self, scatter: Scatter, ridge: float, units: Units) -> float:
        """Return the prior variance of f over the possible contexts: the best linear estimate."""
        del ridge, units
        return scatter.variance

    def width(
        self,
        information_gain: float,
        ridge: float,
        events: int = 1,
        units: Units | None = None,
        errors_known: bool = False,
    ) -> float:
        """Return the constant."""
        del information_gain, ridge, events, units, errors_known
        return self.value


Beta = ConstantBeta | TheoreticalBeta


_USUAL, _NARROW, _MANY = 2.0, 0.5, 15
"""The default widths of a search, and the number of action coordinates from which a learned model has the narrow one.

With many coordinates most of a box is far from all outcomes, and a wide bound sends the search from corner to corner
(docs/evidence.md).
"""


def default_beta(learns: bool, dimension: int) -> Beta:
    """Return the default width of a search over actions of so many coordinates, by a model that learns or does not."""
    return ConstantBeta(_NARROW if learns and dimension >= _MANY else _USUAL)


def as_beta(beta: Any, name: str = "beta") -> Beta:
    """Return a width rule unchanged, and a plain number as the constant rule; errors use `name`."""
    if isinstance(beta, TheoreticalBeta | ConstantBeta):
        return beta
    return ConstantBeta(_constant(name, beta))


def _constant(name: str, value: Any) -> float:
    """Return a checked constant width."""
    width = validation.finite_float(name, value)
    if not 0.0 <= width <= _LARGEST_BETA:
        raise ValueError(f"{name} must be from zero to {_LARGEST_BETA:g}, got {width}")
    return width


def simultaneous(width: float, count: int) -> float:
    """Return the width at which bounds hold at `count` points at once as surely as bounds of `width` at one point.

    By the union bound, for a Gaussian f with the posterior's moments: P(|Z| > returned) = P(|Z| > width) / count.
    """
    return max(width, -float(ndtri_exp(log_ndtr(-width) - math.log(count))))


class Side(IntEnum):
    """The side of a confidence bound."""

    UPPER = 1
    LOWER = -1


UPPER, LOWER = Side.UPPER, Side.LOWER


@fast_record
class Bound:
    """A confidence bound on f: ucb_t = mean + width std, or lcb_t = mean - width std, of one posterior or of several.

    The bound of several posteriors is the lowest lower bound, or the highest upper bound, in each context.

    Attributes
    ----------
    posterior : of f
    width : beta_t, zero or more
    side : UPPER or LOWER
    others : further posteriors of f, by models that the outcomes do not rule out
    for_one : further posteriors that only the bound of one action counts (`of_action`, `curve`, and `difference` of one
        action), because a search with all of them would take too long
    """

    posterior: Posterior
    width: float
    side: Side
    others: tuple[Posterior, ...] = field(default=(), kw_only=True)
    for_one: tuple[Posterior, ...] = field(default=(), kw_only=True)

    @functools.cached_property
    def slope(self) -> float:
        """The derivative of the bound in the standard deviation: width or -width."""
        return self.side * self.width

    @property
    def amplitude(self) -> float:
        """The prior standard deviation of f, the scale of the bound's values."""
        return self.posterior.amplitude

    def on_grid(self, rows: NDArray[np.intp] | slice = slice(None), actions: FloatArray | None = None) -> FloatArray:
        """Return the bound of the actions `rows` of a grid (n_actions, d_x), by default of all, in every context."""
        found = None
        for posterior in (self.posterior, *self.others):
            if supports(posterior, SupportsGrid):
                mean, variance = posterior.on_grid()
                mean, variance = mean[rows], variance[rows]
            elif actions is not None:
                mean, variance = posterior.moments(actions[rows])
            else:
                raise TypeError("actions must be given: the posterior keeps no moments on a grid")
            values = np.empty(mean.shape)  # numpy puts large arrays on large memory pages
            announce(_fill_bound)
            _fill_bound(mean, variance, self.slope, values)
            found = values if found is None else self._outer(found, values)
        return cast(FloatArray, found)

    def _outer(self, values: FloatArray, others: FloatArray) -> FloatArray:
        """Return the lower ones of the values, or the higher ones for an upper bound."""
        return np.asarray(np.minimum(values, others) if self.side is LOWER else np.maximum(values, others))

    def of_action(self, action: Point) -> FloatArray:
        """Return the bound of one action in every context, (n_contexts,)."""
        models = (self.posterior, *self.others, *self.for_one)
        return self.outermost(map(of_action, models, itertools.repeat(action)))

    def outermost(self, moments: Iterable[tuple[FloatArray, FloatArray]]) -> FloatArray:
        """Return the bound from mean and variance of each of its posteriors, the first one first."""
        slope = self.slope
        (mean, variance), *others = moments
        found = np.asarray(mean + slope * np.sqrt(variance))
        for mean, variance in others:
            found = self._outer(found, mean + slope * np.sqrt(variance))
        return found

    def at(self, actions: FloatArray, used: NDArray[np.intp] | None = None) -> FloatArray:
        """Return the bound (m, k) at actions (m, d_x) anywhere, in the contexts `used` (k,); by default in all."""
        found: FloatArray | None = None
        for one in (self.posterior, *self.others):
            mean, variance = one.moments(actions) if used is None else moments_in(one, actions, used)
            values = np.asarray(mean + self.slope * np.sqrt(variance))
            found = values if found is None else self._outer(found, values)
        assert found is not None  # there is one posterior at least
        return found

    def difference(self, actions: FloatArray, other: FloatArray) -> FloatArray:
        """Return the bound (m, n_contexts) of f(x, c) - f(other, c), for actions (m, d_x) and an action (d_x,)."""
        models = (self.posterior, *self.others, *(self.for_one if len(actions) == 1 else ()))
        posteriors = (cast(SupportsCovariance, posterior) for posterior in models)
        return self.outermost([posterior.difference(actions, other) for posterior in posteriors])

    def gradient(self, action: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the gradient in x of sum_j w_j bound(x, c_j) at one action (d_x,), shape (d_x,)."""
        if not self.others:
            return self.posterior.gradient(action, weights, self.slope)
        posteriors = (self.posterior, *self.others)
        moments = [posterior.moments(action[None, :]) for posterior in posteriors]
        values = self.side * np.array([(mean + self.slope * np.sqrt(variance))[0] for mean, variance in moments])
        outermost = values.argmax(axis=0)
        found = np.zeros(len(action))
        for k in np.unique(outermost[weights > 0.0]).tolist():
            found += posteriors[k].gradient(action, np.where(outermost == k, weights, 0.0), self.slope)
        return found

    def curve(self, action: FloatArray) -> AnyCurve:
        """Return the bound of one action (d_x,) as a function of the context."""
        first = curve_of(self.posterior, action, self.slope)
        others = (*self.others, *self.for_one)
        if not others:
            return first
        return Outermost((first, *(curve_of(other, action, self.slope) for other in others)), self.side)

    def ceilings(self, actions: FloatArray, weights: FloatArray) -> FloatArray:
        """Return upper bounds (m,) of sum_j w_j bound(x, c_j) at actions (m, d_x), for weights w (n_contexts,).

        <w, mean> + width sqrt(<w, variance>)                     UPPER: the root is concave
        <w, mean> - width <w, variance> / sqrt(prior variance)    LOWER: std <= sqrt(prior variance)
        """
        if self.others and self.side is UPPER:
            return np.asarray(self.at(actions) @ weights)
        mean, variance = self.posterior.averages(actions, weights)  # the lowest bound is not above the first one
        std = np.sqrt(variance) if self.side is UPPER else variance / self.amplitude
        return np.asarray(mean + self.slope * std)


@dataclass(frozen=True, eq=False)
class Outermost:
    """The lowest of several curves in each context, or the highest for upper bounds; the moments are of the first."""

    curves: tuple[AnyCurve, ...]
    side: Side

    @property
    def steepness(self) -> FloatArray:
        """The largest standard deviation of each partial derivative, up to a common factor, (d,)."""
        return np.asarray(np.max([cast(Curve, curve).steepness for curve in self.curves], axis=0))

    def __call__(self, contexts: FloatArray) -> FloatArray:
        """Return the bound (m,) in contexts (m, d_c)."""
        values = [curve(contexts) for curve in self.curves]
        return np.asarray(np.min(values, axis=0) if self.side is LOWER else np.max(values, axis=0))

    def moments(self, contexts: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of f by the first model, each (m,), in contexts (m, d_c)."""
        return self.curves[0].moments(contexts)

    def variance(self, contexts: FloatArray) -> FloatArray:
        """Return the variance of f by the first model (m,) in contexts (m, d_c)."""
        return self.curves[0].variance(contexts)

    def lowest(self, centres: FloatArray, halves: FloatArray, tilt: FloatArray) -> FloatArray:
        """Return a lower bound (m,) of v(c) - tilt'(c - centre) over the cells |c - centre| <= half, for slope <= 0."""
        if self.side is UPPER:
            raise TypeError("the highest of several curves has no bound over cells")
        return np.asarray(np.min([curve.lowest(centres, halves, tilt) for curve in self.curves], axis=0))


@in_order
def _fill_bound(mean: FloatArray, variance: FloatArray, slope: float, found: FloatArray) -> None:
    """Fill mean + slope sqrt(variance) (m, n) in one pass, with the same bits as numpy's three passes."""
    for i in range(mean.shape[0]):
        for j in range(mean.shape[1]):
            found[i, j] = mean[i, j] + slope * math.sqrt(variance[i, j])


@fast_record
class AverageBound(Bound):
    """A confidence bound on the average of f over contexts, which share this value: no set lowers it."""

    n_contexts: int

    @classmethod
    def of(cls, posterior: SupportsAverages, weights: FloatArray, width: float, side: Side) -> AverageBound:
        """Return the bound of sum_j w_j f(x, c_j), for weights w (n_contexts,) of the posterior's contexts."""
        return cls(posterior.averaged(weights), width, side, len(weights))

    def on_grid(self, rows: NDArray[np.intp] | slice = slice(None), actions: FloatArray | None = None) -> FloatArray:
        return self._everywhere(super().on_grid(rows, actions))

    def of_action(self, action: Point) -> FloatArray:
        return self._everywhere(super().of_action(action))

    def at(self, actions: FloatArray, used: NDArray[np.intp] | None = None) -> FloatArray:
        values = self._everywhere(super().at(actions))
        return values if used is None else values[:, used]

    def gradient(self, action: FloatArray, weights: FloatArray) -> FloatArray:
        return super().gradient(action, np.array([weights.sum()]))

    def curve(self, action: FloatArray) -> AnyCurve:
        """Raise: an average has no context."""
        del action
        raise TypeError("the bound of an average over contexts is not a function of the context")

    def ceilings(self, actions: FloatArray, weights: FloatArray) -> FloatArray:
        return super().ceilings(actions, np.array([weights.sum()]))

    def _everywhere(self, values: FloatArray) -> FloatArray:
        return np.repeat(values, self.n_contexts, axis=-1)


def information_gain(gram: ArrayLike, ridge: float) -> float:
    """Return log det(I + K / ridge) of a kernel matrix K (t, t); 0 for no points."""
    K = validation.finite_array("gram", gram, ndim=2)
    if K.shape[0] != K.shape[1]:
        raise ValueError(f"gram must be a square matrix, got shape {K.shape}")
    eigenvalues = np.linalg.eigvalsh(K)
    if len(K) and eigenvalues[0] < -1e-8 * max(eigenvalues[-1], 0.0):
        raise ValueError(f"gram must be positive semi-definite, got an eigenvalue of {eigenvalues[0]:g}")
    return float(np.linalg.slogdet(np.eye(len(K)) + K / validation.positive_float("ridge", ridge))[1])


@dataclass(frozen=True)
class MaximumInformationGain:
    """Bounds on gamma_T = max over T points of log det(I + K_T / ridge) (eq. 4), for T = 1..horizon.

    Attributes
    ----------
    greedy : (horizon,) attained by adding the point of largest variance T times; gamma_T is at least this
    upper : (horizon,) gamma_T is at most this
    """

    greedy: FloatArray
    upper: FloatArray


def maximum_information_gain(gp: GP, actions: ArrayLike, contexts: ArrayLike, horizon: int) -> MaximumInformationGain:
    """Return bounds on the maximum information gain over the finite set actions x contexts.

    The information gain is monotone and submodular in the set of points, so with g_t the greedy value after t points
    and m_t the largest gain from one further point,

        gamma_T <= g_T / (1 - 1/e)   and   gamma_T <= g_t + T m_t for every t.

    The smallest of these is `upper`.
    """
    horizon = validation.whole_number("horizon", horizon, least=1, most=10**6)
    validation.of_kind("gp", gp, GP, "a drbo.GP")
    posterior = ExactPosterior.prior(gp, actions, contexts)
    greedy = np.zeros(horizon + 1)
    marginal = np.zeros(horizon + 1)
    for t in range(horizon + 1):
        i, j = np.unravel_index(np.argmax(posterior.variance), posterior.variance.shape)
        greedy[t] = posterior.information_gain
        marginal[t] = math.log1p(posterior.variance[i, j] / gp.ridge)
        if t < horizon:
            posterior = posterior.with_more([Observation.of(posterior.actions[i], posterior.contexts[j], None)])
    T = np.arange(1, horizon + 1)
    data_dependent = [(greedy[: t + 1] + t * marginal[: t + 1]).min() for t in T]
    return MaximumInformationGain(greedy[1:], np.minimum(greedy[1:] / (1.0 - math.exp(-1.0)), data_dependent))
