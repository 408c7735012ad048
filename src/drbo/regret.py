"""Robust regret of a run on a known f, and the paper's bounds on it.

The bounds hold for k <= 1 and any ridge: sum_t sigma_t^2 <= 2 max(1, ridge) gamma_T, where gamma_T is the maximum of
log det(I + K_T / ridge). The paper has ridge 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from drbo import validation
from drbo.ambiguity.family import AmbiguitySet, SetOrFamily, as_placed
from drbo.ambiguity.mmd import MMD, PlacedMMD
from drbo.ambiguity.placed import PlacedSet
from drbo.rounds.grid_search import robust_scores
from drbo.validation import FloatArray

__all__ = [
    "RobustRegret",
    "crude_shift_norm",
    "data_driven_bound",
    "general_bound",
    "matern_information_rate",
    "printed_data_driven_bound",
    "printed_general_bound",
    "rbf_information_rate",
    "robust_regret",
    "shift_norm",
    "simple_regret",
    "simple_regret_bound",
    "simulator_bound",
]


@dataclass(frozen=True)
class RobustRegret:
    """The robust regret of T rounds.

    Attributes
    ----------
    instantaneous : (T,) r_t = max_x min_Q E_Q f(x, c) - min_Q E_Q f(x_t, c), Q in the set of round t
    cumulative : (T,) R_t, the sum of the rounds up to t (eq. 2)
    """

    instantaneous: FloatArray

    @property
    def cumulative(self) -> FloatArray:
        """The cumulative robust regret after every round, (T,)."""
        return np.cumsum(self.instantaneous)


def robust_regret(
    values: ArrayLike, ambiguity: SetOrFamily, references: ArrayLike, radii: ArrayLike, action_indices: ArrayLike
) -> RobustRegret:
    """Return the robust regret of the actions chosen in T rounds on a known f (eq. 2).

    values (n_actions, n_contexts) is f. references (T, n_contexts) and radii (T,) are given per round, or as
    (n_contexts,) and a number if they never change. action_indices (T,) are the chosen actions.
    """
    f = validation.finite_array("values", values, ndim=2)
    validation.of_kind("ambiguity", ambiguity, (AmbiguitySet, PlacedSet), "an ambiguity set")
    chosen = validation.indices("action_indices", action_indices, "integers")
    if chosen.size and not 0 <= chosen.min() <= chosen.max() < len(f):
        raise ValueError(f"action_indices must be from 0 to {len(f) - 1}, got {chosen.min()} to {chosen.max()}")
    T = len(chosen)
    p = validation.finite_array("references", references)
    if p.shape not in ((f.shape[1],), (T, f.shape[1])):
        raise ValueError(f"references must have shape ({f.shape[1]},) or ({T}, {f.shape[1]}), got {p.shape}")
    eps = validation.radii(radii)
    same = p.ndim == 1 and np.ndim(radii) == 0
    if not (np.ndim(radii) == 0 or len(eps) == T):
        raise ValueError(f"radii must be a number or have shape ({T},), got {eps.shape}")
    instantaneous = np.empty(T)
    p, eps = np.broadcast_to(p, (T, f.shape[1])), np.broadcast_to(eps, T)
    for t in range(T):
        if t == 0 or not same:
            scores = robust_scores(f, ambiguity, p[t], float(eps[t]))
        instantaneous[t] = scores.max() - scores[chosen[t]]
    return RobustRegret(instantaneous)


def simple_regret(
    values: ArrayLike, ambiguity: SetOrFamily, reference: ArrayLike, radius: float, action_index: int
) -> float:
    """Return the simple robust regret of deploying one action: the instantaneous regret of a recommendation."""
    f = validation.finite_array("values", values, ndim=2)
    index = validation.whole_number("action_index", action_index, least=0, most=max(len(f) - 1, 0))
    return float(robust_regret(f, ambiguity, reference, validation.radius(radius), [index]).instantaneous[0])


def shift_norm(values: ArrayLike, ambiguity: MMD | PlacedMMD) -> float:
    """Return B' = max_x ||f_x||_{M^-1}, the largest cost of a shift per unit of MMD; values (n_actions, n_contexts).

    ||v||_{M^-1} is the norm of the smallest function of the MMD's Hilbert space with the values v: sqrt(v' M^-1 v) for
    a regular M; inf if M is singular and no such function exists.
    """
    f = validation.finite_array("values", values, ndim=2)
    F = _mmd(ambiguity).features
    if f.shape[1] != len(F):
        raise ValueError(f"values must have {len(F)} columns, one per context, got shape {f.shape}")
    y, *_ = np.linalg.lstsq(F, f.T, rcond=1e-15)
    missed = np.abs(F @ y - f.T).max(axis=0)
    norms = np.where(missed > 1e-6 * np.abs(f).max(axis=1), math.inf, np.linalg.norm(y, axis=0))
    return float(norms.max())


def crude_shift_norm(bound: float, ambiguity: MMD | PlacedMMD) -> float:
    """Return the paper's crude bound on B', which needs only the contexts and the norm of f.

    B' <= B sqrt(lambda_max(M^-1) n_contexts),   `bound` = B >= ||f||, for a kernel k <= 1 of the regression.

    The bound holds because |f(x, c)| <= B. The inverse of a smooth kernel's matrix M is huge; `shift_norm` uses f
    itself. A matrix that is singular up to rounding gives inf.
    """
    F = _mmd(ambiguity).features
    B = validation.positive_float("bound", bound)
    least = np.linalg.svd(F, compute_uv=False)[-1] if F.shape[1] >= len(F) else 0.0
    return float(B * math.sqrt(len(F)) / least) if least > 0.0 else math.inf


def rbf_information_rate(horizon: float, dimension: int) -> float:
    """Return log(T)^(d + 1), the growth rate O(.) of gamma_T for an RBF kernel on [0, 1]^d; T = `horizon`.

    d = `dimension` counts actions and contexts together. The constant factor depends on kernel and ridge;
    `maximum_information_gain` gives numbers. Srinivas et al. (ICML 2010); Vakili et al. (AISTATS 2021).
    """
    _check_rate(horizon, dimension)
    return math.log(horizon) ** (dimension + 1)


def matern_information_rate(horizon: float, dimension: int, nu: float) -> float:
    """Return the growth rate O(.) of gamma_T for a Matern kernel of smoothness nu on [0, 1]^d; T = `horizon`.

    T^(d / (2 nu + d)) log(T)^(2 nu / (2 nu + d))   (Vakili et al., AISTATS 2021)

    The kernel is one Matern kernel of the distance in all d = `dimension` coordinates. The constant factor depends on
    kernel and ridge. The exponent of T was d (d + 1) / (2 nu + d (d + 1)) in Srinivas et al. (ICML 2010).
    """
    _check_rate(horizon, dimension)
    power = dimension / (2.0 * validation.positive_float("nu", nu) + dimension)
    return float(horizon**power * math.log(horizon) ** (1.0 - power))


def general_bound(
    beta: float, gamma: float, radii: ArrayLike, shift_norm: float, delta: float, ridge: float = 1.0
) -> float:
    """Return the bound on R_T from the proof of Theorem 2; radii (T,), T = len(radii).

    R_T <= 4 beta_T sqrt(T (gamma_T + 2 log(12 / delta))) + 2 B' sum_t eps_t

    The bound holds with probability 1 - delta. The printed theorem has 4 log(12 / delta) (`printed_general_bound`).
    Lemma 7 gives sum_t <w_t, sigma_t^2> <= 4 gamma_T + 8 log(12 / delta) = 4 (gamma_T + 2 log(12 / delta)).
    """
    eps = validation.radii(radii)
    return _statistical_term(beta, gamma, len(eps), 12.0, delta, ridge) + _shift_term(shift_norm, float(eps.sum()))


def printed_general_bound(
    beta: float, gamma: float, radii: ArrayLike, shift_norm: float, delta: float, ridge: float = 1.0
) -> float:
    """Return the bound of Theorem 2 as printed; it holds, and is never below `general_bound`.

    R_T <= 4 beta_T sqrt(T (gamma_T + 4 log(12 / delta))) + 2 B' sum_t eps_t
    """
    eps = validation.radii(radii)
    _check(beta, gamma, len(eps), delta)
    conditional = 2.0 * _variance_sum(gamma, ridge) + 16.0 * math.log(12.0 / delta)
    return 2.0 * beta * math.sqrt(len(eps) * conditional) + _shift_term(shift_norm, float(eps.sum()))


def data_driven_bound(
    beta: float, gamma: float, horizon: int, shift_norm: float, delta: float, ridge: float = 1.0
) -> float:
    """Return the bound on R_T in the data-driven setting that follows from the proof of Theorem 2.

    R_T <= 4 beta_T sqrt(T (gamma_T + 2 log(18 / delta))) + 4 B' sqrt(T) (2 + sqrt(2 log(6 T^2 / delta)))

    The bound holds with probability 1 - delta. The first term differs from that of Corollary 4 as printed, which does
    not follow: see `printed_data_driven_bound`.
    """
    return _statistical_term(beta, gamma, horizon, 18.0, delta, ridge) + _estimation_term(horizon, shift_norm, delta)


def printed_data_driven_bound(beta: float, gamma: float, horizon: int, shift_norm: float, delta: float) -> float:
    """Return the right-hand side of Corollary 4 as printed, for ridge 1; its first term has no proof.

    2 beta_T sqrt(T) sqrt(gamma_T (1 + log(3 / delta))) + 4 B' sqrt(T) (2 + sqrt(2 log(6 T^2 / delta)))
    """
    _check(beta, gamma, horizon, delta)
    first = 2.0 * beta * math.sqrt(horizon) * math.sqrt(gamma * (1.0 + math.log(3.0 / delta)))
    return first + _estimation_term(horizon, shift_norm, delta)


def simulator_bound(beta: float, gamma: float, horizon: int, ridge: float = 1.0) -> float:
    """Return the bound of Theorem 5 on R_T, with the factor that its proof gives.

    R_T <= 2 beta_T sqrt(2 gamma_T T)

    The printed statement lacks the factor sqrt(2), which comes from sum_t sigma_t^2 <= 2 gamma_T in the proof.
    """
    _check(beta, gamma, horizon)
    return 2.0 * beta * math.sqrt(_variance_sum(gamma, ridge) * horizon)


def simple_regret_bound(beta: float, gamma: float, horizon: int, ridge: float = 1.0) -> float:
    """Return the bound of Corollary 6 on the simple regret of the recommendation, with the same factor sqrt(2).

    r_T <= 2 beta_T sqrt(2 gamma_T / T)
    """
    return simulator_bound(beta, gamma, horizon, ridge) / horizon


def _mmd(ambiguity: MMD | PlacedMMD) -> PlacedMMD:
    placed = as_placed(ambiguity) if isinstance(ambiguity, MMD | PlacedMMD) else None
    if not isinstance(placed, PlacedMMD):
        raise TypeError(f"ambiguity must be an MMD, whose kernel defines the norm, got {ambiguity!r}")
    return placed


def _variance_sum(gamma: float, ridge: float) -> float:
    """Return the bound 2 max(1, ridge) gamma_T on sum_t sigma_t(x_t, c_t)^2."""
    return 2.0 * max(1.0, validation.positive_float("ridge", ridge)) * gamma


def _statistical_term(beta: float, gamma: float, horizon: int, events: float, delta: float, ridge: float) -> float:
    """Return 2 beta_T sqrt(T sum_t <w_t, sigma_t^2>), bounded by Lemma 7: 4 beta_T sqrt(T (gamma_T + 2 log(...)))."""
    _check(beta, gamma, horizon, delta)
    conditional = 2.0 * _variance_sum(gamma, ridge) + 8.0 * math.log(events / delta)
    return 2.0 * beta * math.sqrt(horizon * conditional)


def _estimation_term(horizon: int, shift_norm: float, delta: float) -> float:
    """Return the bound 2 B' sum_t eps_t <= 4 B' sqrt(T) (2 + sqrt(2 log(6 T^2 / delta))) for Corollary 4's radii."""
    radii = 2.0 * math.sqrt(horizon) * (2.0 + math.sqrt(2.0 * math.log(6.0 * horizon**2 / delta)))
    return _shift_term(shift_norm, radii)


def _shift_term(shift_norm: float, radii: float) -> float:
    """Return 2 B' sum_t eps_t; 0 without a shift, even if B' is infinite."""
    return 2.0 * validation.radius(shift_norm, "shift_norm") * radii if radii > 0.0 else 0.0


def _check(beta: float, gamma: float, horizon: int, delta: float = 0.5) -> None:
    validation.radius(beta, "beta")
    validation.radius(gamma, "gamma")
    validation.probability("delta", delta)
    validation.whole_number("horizon", horizon, least=1, most=10**15)


def _check_rate(horizon: float, dimension: int) -> None:
    if validation.finite_float("horizon", horizon) < 1.0:
        raise ValueError(f"horizon must be at least 1, got {horizon}")
    validation.whole_number("dimension", dimension, least=1)
