"""Optimism about the worst-case expectation of an action, by the joint posterior of f in all contexts.

    x_t = argmax_x min_w phi_x(w),   phi_x(w) = <w, mean_t(x, .)> + beta_t sqrt(w' Cov_t(x) w)         w over the set

`Optimism`, the paper's policy, bounds f in each context separately and takes min_w <w, ucb_t(x, .)>. These bounds are
rarely attained together, because errors in different contexts cancel in an expectation. phi_x(w) is the upper
confidence bound of one average of f, and never exceeds <w, ucb_t(x, .)>. The true worst case is at most <w, f(x, .)>
for every w, so phi_x(w) bounds it from above whenever the bound of this average holds.

phi_x is convex in w. With Sigma = Cov_t(x) and the slope h(w) = mean + beta_t Sigma w / sqrt(w' Sigma w),

    min_v <v, h(w)>  <=  min_v phi_x(v)  <=  phi_x(w) = <w, h(w)>,

and the set's worst case of h(w) is the next point from w (`worst_average`). The worst w of one action bounds all other
actions, too. The search maximises the minimum of these bounds, finds the worst w of the resulting action, and adds its
bound, until the score of that action is accurate (`JointOptimism`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from drbo.models.bounds import UPPER, AverageBound, Bound
from drbo.models.surrogate import AnyCurve, Posterior, SupportsAverages, SupportsCovariance, of_action, supports
from drbo.rounds.ball import Ball
from drbo.rounds.context_rules import Beliefs
from drbo.rounds.policies import ActionFirst, Choice, Optimism, Round, picked
from drbo.rounds.search import Winner
from drbo.spaces.space import Point
from drbo.validation import FloatArray

__all__ = ["JointOptimism"]

_SHARE = 0.1
"""A score is accurate if its excess is at most this share of the deviation beta_t sqrt(w' Cov w)."""
_MOST_CONTEXTS = 2000
"""Largest number of contexts; with more, the kernel of all pairs is too slow and `Optimism` is used."""
_SEARCHES = 8
"""Largest number of bounds."""
_STEPS = 20
"""Largest number of steps in the search for the worst distribution of one action."""


@dataclass(frozen=True, eq=False)
class WorstAverage:
    """The distribution of a ball with the least upper confidence bound of an action's expectation.

    Attributes
    ----------
    weights : (n,) the distribution w
    value : phi_x(w), the bound of this expectation
    deviation : beta_t sqrt(w' Cov_t(x) w), the difference between the bound and the mean
    gap : `value` exceeds the minimum of phi_x by at most this
    """

    weights: FloatArray
    value: float
    deviation: float
    gap: float


def worst_average(ball: Ball, posterior: Posterior, action: Point, width: float) -> WorstAverage:
    """Return the least phi_x(w) for one action x, up to half of `_SHARE` of its deviation."""
    mean, _ = of_action(posterior, action)
    known = cast(SupportsCovariance, posterior)
    columns, rows = np.arange(len(mean)), np.zeros(len(mean), dtype=np.intp)

    def times_sigma(w: FloatArray) -> FloatArray:
        return known.covariance(action.coordinates[None], w[None, None, :], rows, columns)[:, 0, 0]

    w = ball.worst_case(mean).weights
    s = times_sigma(w)
    for _ in range(_STEPS):
        std = math.sqrt(max(float(w @ s), 0.0))
        value, deviation = float(w @ mean) + width * std, width * std
        if deviation == 0.0:
            return WorstAverage(w, value, 0.0, 0.0)
        worst = ball.worst_case(mean + (width / std) * s)
        gap = max(value - float(worst.lower_bound), 0.0)
        if gap <= 0.5 * _SHARE * deviation:
            break
        v, s_v = worst.weights, times_sigma(worst.weights)
        b, c = float((v - w) @ mean), float(w @ s)
        step = _least(b, c, float(v @ s) - c, float(v @ s_v) - 2.0 * float(v @ s) + c, width)
        w, s = w + step * (v - w), s + step * (s_v - s)
    return WorstAverage(w, value, deviation, gap)


def _least(b: float, c: float, d: float, e: float, width: float) -> float:
    """Return the r in [0, 1] that minimises b r + width sqrt(c + 2 d r + e r^2), which decreases at r = 0."""
    rest = e * width**2 - b**2
    if e <= 0.0 or rest <= 0.0:  # it decreases everywhere
        return 1.0
    return min(max((-b * math.sqrt(max(c * e - d**2, 0.0) / rest) - d) / e, 0.0), 1.0)


@dataclass(frozen=True, eq=False)
class LeastBound:
    """The minimum of several bounds of averages. All contexts have this same value, so no set lowers it."""

    bounds: tuple[AverageBound, ...]

    @property
    def amplitude(self) -> float:
        """The scale of the values."""
        return self.bounds[0].amplitude

    def on_grid(self, rows: NDArray[np.intp] | slice = slice(None), actions: FloatArray | None = None) -> FloatArray:
        """Return the values (n, n_contexts) of the actions `rows` of a grid; all by default."""
        return np.asarray(np.min([bound.on_grid(rows, actions) for bound in self.bounds], axis=0))

    def of_action(self, action: Point) -> FloatArray:
        """Return the values of one action, (n_contexts,)."""
        return np.asarray(np.min([bound.of_action(action) for bound in self.bounds], axis=0))

    def at(self, actions: FloatArray, used: NDArray[np.intp] | None = None) -> FloatArray:
        """Return the values (m, k) at any actions (m, d_x), in the contexts `used` (k,); by default in all."""
        return np.asarray(np.min([bound.at(actions, used) for bound in self.bounds], axis=0))

    def gradient(self, action: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the gradient in x of the value at one action (d_x,), times the sum of weights (n_contexts,)."""
        values = [bound.at(action[None])[0, 0] for bound in self.bounds]
        return self.bounds[int(np.argmin(values))].gradient(action, weights)

    def curve(self, action: FloatArray) -> AnyCurve:
        """Raise: an average has no context."""
        return self.bounds[0].curve(action)

    def ceilings(self, actions: FloatArray, weights: FloatArray) -> FloatArray:
        """Return upper bounds (m,) of the values at actions (m, d_x), times the sum of weights (n_contexts,)."""
        return np.asarray(np.min([bound.ceilings(actions, weights) for bound in self.bounds], axis=0))


@dataclass(frozen=True)
class JointOptimism(ActionFirst):
    """The action whose worst-case expectation has the largest upper confidence bound, by the joint posterior.

    x_t = argmax_x min_w <w, mean_t(x, .)> + beta_t sqrt(w' Cov_t(x) w)

    with Cov_t(x) the posterior covariance of f(x, .) in all contexts. Errors of f in different contexts cancel in an
    expectation. The paper's policy, `Optimism`, ignores this, and explores more. With the set `Expectation()` the
    action equals that of `MeanEmbedding`. No theorem bounds the regret. Two cases use the action of `Optimism`: models
    without a bound of an average (`SupportsAverages`, `SupportsCovariance`), as for a `Perturbation`, and more than
    2,000 contexts, which would take too long.

    Parameters
    ----------
    contexts : the rule that picks the context; None if nature does
    """

    def choose(self, round: Round, beliefs: Beliefs) -> Choice:
        """Return the action, and its contexts if a rule picks them."""
        posterior = beliefs.expected(round.ball)
        able = supports(posterior, SupportsAverages) and supports(posterior, SupportsCovariance)
        if len(round.ball.weights) > _MOST_CONTEXTS or not able:
            return Optimism(self.contexts).choose(round, beliefs)
        ball, found = self._best(round, beliefs)
        return picked(self.contexts, round, beliefs, ball, found)

    def _best(self, round: Round, beliefs: Beliefs) -> tuple[Ball, Winner]:
        """Return the action and its score, and the ball extended by the adversary's contexts for it."""
        ball, width, away = round.ball, beliefs.width, round.away(self.contexts)
        posterior = beliefs.expected(ball)
        bounds = [AverageBound.of(cast(SupportsAverages, posterior), ball.weights, width, UPPER)]
        weights, tried = [ball.weights], list[Winner]()
        while True:
            found = round.search.best(ball, LeastBound(tuple(bounds)), round.near, away)
            wider, _ = ball.widened(Bound(beliefs.certain(ball), width, UPPER), found.action, found.score)
            if wider is not ball:
                ball, posterior = wider, beliefs.expected(wider)
                weights = [np.append(w, np.zeros(len(ball.weights) - len(w))) for w in weights]
                bounds = [AverageBound.of(cast(SupportsAverages, posterior), w, width, UPPER) for w in weights]
            worst = worst_average(ball, posterior, found.action, width)
            tried.append(Winner(found.action, worst.value))
            if found.score - worst.value <= _SHARE * worst.deviation or len(tried) == _SEARCHES:
                return ball, max(tried, key=lambda one: one.score)
            weights.append(worst.weights)
            bounds.append(AverageBound.of(cast(SupportsAverages, posterior), worst.weights, width, UPPER))
