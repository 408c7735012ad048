"""How far f may be from its estimate: the width beta_t, the bounds, and the information gain behind them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from drbo import validation
from drbo.models.gp import GP
from drbo.validation import FloatArray


@dataclass(frozen=True)
class TheoreticalBeta:
    """The width for which the confidence bound holds at all times with probability 1 - delta (Lemma 1).

    beta_t = (sigma / sqrt(ridge)) sqrt(log det(I + K_t / ridge) + 2 log(events / delta)) + B

    The paper writes it for ridge 1. `events` is the number of events that share delta: 1 for the lemma itself and the
    simulator setting (Theorem 5), 2 for the general one (Theorem 2), 3 for the data-driven one (Corollary 4); the
    setting provides it.

    Parameters
    ----------
    bound : B, a bound on the norm of f in the Hilbert space of the GP's kernel
    noise : sigma, the standard deviation (or sub-Gaussian constant) of the outcomes' noise
    delta : the probability that the guarantee may fail with
    """

    bound: float
    noise: float
    delta: float = 0.1

    def __post_init__(self) -> None:
        validation.positive_float("bound", self.bound)
        validation.positive_float("noise", self.noise)
        validation.probability("delta", self.delta)

    def width(self, information_gain: float, ridge: float, events: int = 1) -> float:
        """Return beta_t for log det(I + K_t / ridge) = information_gain."""
        inside = information_gain + 2.0 * math.log(events / self.delta)
        return self.noise / math.sqrt(ridge) * math.sqrt(inside) + self.bound


@dataclass(frozen=True)
class ConstantBeta:
    """The same width at all times; the paper's experiments use 2."""

    value: float

    def __post_init__(self) -> None:
        if validation.finite_float("beta", self.value) < 0.0:
            raise ValueError(f"beta must be zero or more, got {self.value}")

    def width(self, information_gain: float, ridge: float, events: int = 1) -> float:
        """Return the constant."""
        del information_gain, ridge, events
        return self.value


Beta = ConstantBeta | TheoreticalBeta


class Posterior(Protocol):
    """Mean and standard deviation of f, of any one shape."""

    @property
    def mean(self) -> FloatArray:
        """The posterior mean."""

    @property
    def std(self) -> FloatArray:
        """The posterior standard deviation."""


def upper_bound(posterior: Posterior, beta: float) -> FloatArray:
    """Return ucb_t = mean + beta std."""
    return posterior.mean + beta * posterior.std


def lower_bound(posterior: Posterior, beta: float) -> FloatArray:
    """Return lcb_t = mean - beta std."""
    return posterior.mean - beta * posterior.std


def information_gain(gram: ArrayLike, ridge: float) -> float:
    """Return log det(I + K / ridge) of a kernel matrix K (t, t); 0 for no points."""
    K = validation.finite_array("gram", gram, ndim=2)
    if K.shape[0] != K.shape[1]:
        raise ValueError(f"gram must be a square matrix, got shape {K.shape}")
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
    and m_t the largest gain that a single further point would add to it,

        gamma_T <= g_T / (1 - 1/e)   and   gamma_T <= g_t + T m_t for every t.

    The smallest of these is `upper`.
    """
    if not isinstance(horizon, int) or horizon < 1:
        raise ValueError(f"horizon must be a whole number of at least 1, got {horizon!r}")
    posterior = gp.prior(actions, contexts)
    greedy = np.zeros(horizon + 1)
    marginal = np.zeros(horizon + 1)
    for t in range(horizon + 1):
        i, j = np.unravel_index(np.argmax(posterior.variance), posterior.variance.shape)
        greedy[t] = posterior.information_gain
        marginal[t] = math.log1p(posterior.variance[i, j] / gp.ridge)
        if t < horizon:
            posterior.anticipate(posterior.actions[i], posterior.contexts[j])
    T = np.arange(1, horizon + 1)
    data_dependent = [(greedy[: t + 1] + t * marginal[: t + 1]).min() for t in T]
    return MaximumInformationGain(greedy[1:], np.minimum(greedy[1:] / (1.0 - math.exp(-1.0)), data_dependent))
