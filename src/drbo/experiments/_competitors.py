"""Methods of other papers as baselines: settings and policies for `drbo compare`, not part of the public interface.

SBO-KDE    x_t = argmax_x E_{c ~ p_t} ucb_t(x, c)                      p_t: kernel density estimate of the contexts seen
DRBO-KDE   x_t = argmax_x min E_{c ~ q} ucb_t(x, c), TV(q, p_t) <= r_t     (Huang et al., AAAI 2024)
WDRBO      x_t = argmax_x E_{c ~ p_t} ucb_t(x, c) - r_t L_t(x)         p_t: empirical distribution of the contexts seen,
                                                                       L_t(x): Lipschitz constant of ucb_t(x, .)
                                                                       (Micheli et al., AISTATS 2025)
first order  x_t = argmax_x V_x(0) - S_x(0) r_t^a                      V_x: worst case of ucb_t(x, .), S_x: its
                                                                       sensitivity -dV_x / d(r^a), a: the set's power
                                                                       (Tay et al., ICML 2022)

Contexts are a finite set here. The kernel density estimate is evaluated on its points and normalised. The Lipschitz
constant is the largest slope between two points. The penalty of WDRBO is a lower bound of the worst case in the
Wasserstein ball of radius r_t, which drbo computes exactly (`Wasserstein`). If V is convex in r^a, as for MMD, total
variation and Wasserstein sets, the first-order V never exceeds the worst case, and may lie below the lowest value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from drbo import Policy, Setting
from drbo.ambiguity import PlacedSet
from drbo.ambiguity.placed import with_slopes
from drbo.contexts.nature import Contexts, Reference
from drbo.models import UPPER, Bound
from drbo.rounds import Beliefs, Candidates, Choice, Found, Round
from drbo.rounds.ball import TIE, Ball, first_of_the_best
from drbo.rounds.policies import ActionFirst, picked
from drbo.spaces import Point
from drbo.validation import FloatArray


def kernel_density(seen: FloatArray, points: FloatArray) -> FloatArray:
    """Return the normalised kernel density estimate of contexts seen (t, d) on points (n, d); uniform if t = 0.

    Normal kernels, with Scott's bandwidth per column: its standard deviation times t^(-1 / (d + 4)). If all values of a
    column are equal, the bandwidth is a hundredth of the range of the points.
    """
    t, d = seen.shape
    if t == 0:
        return np.full(len(points), 1.0 / len(points))
    ranges = np.ptp(points, axis=0)
    least = 0.01 * np.where(ranges > 0.0, ranges, 1.0)
    spread = seen.std(axis=0, ddof=1) if t > 1 else np.zeros(d)
    width = np.maximum(spread * t ** (-1.0 / (d + 4)), least)
    exponents = -0.5 * (((points[:, None] - seen) / width) ** 2).sum(axis=2)
    density = np.exp(exponents - exponents.max()).sum(axis=1)
    return np.asarray(density / density.sum())


@dataclass(frozen=True)
class KernelDensity(Setting):
    """A setting whose reference is a kernel density estimate of the t contexts seen, with d columns.

    Parameters
    ----------
    scale : the radius is scale * t^(-2 / (d + 4)), the rate at which the estimate converges. Before the first context
        the radius is infinite, unless the scale is 0
    """

    scale: float = 0.0

    def reference_of(self, given: Any, contexts: Contexts, seen: Sequence[Point]) -> Reference:
        """Return the density estimate on the points of a finite set."""
        del given
        base = contexts.seen(seen)
        points = np.array([point.coordinates for point in seen]).reshape(-1, base.points.shape[1])
        return replace(base, weights=kernel_density(points, base.points))

    def radius_of(self, given: Any, reference: Reference, ambiguity: PlacedSet) -> float:
        """Return the radius for the number of contexts seen."""
        del given, ambiguity
        t, d = len(reference.history), reference.points.shape[1]
        if self.scale == 0.0:
            return 0.0
        return self.scale * t ** (-2.0 / (d + 4)) if t else math.inf


@dataclass(frozen=True)
class LipschitzPenalty(Policy):
    """The action with the largest expected upper bound minus radius * Lipschitz constant; nature picks the context."""

    def choose(self, round: Round, beliefs: Beliefs) -> Choice:
        """Return argmax_x <p, ucb(x, .)> - radius max_ij |ucb(x, c_i) - ucb(x, c_j)| / |c_i - c_j|."""
        ball = round.ball
        bound = Bound(beliefs.expected(ball), beliefs.width, UPPER)

        def best(candidates: Candidates) -> Found:
            ucb = candidates.values(bound, np.arange(len(candidates.points)))
            scores = lipschitz_scores(ucb, ball.contexts, ball.weights, ball.radius)
            first = first_of_the_best(scores, TIE * float(np.ptp(ucb)))
            return Found(candidates.point(first), float(scores[first]))

        found = _best_by(round, bound, best)
        return Choice(found.action, None, found.score, ball)


def lipschitz_scores(values: FloatArray, contexts: FloatArray, weights: FloatArray, radius: float) -> FloatArray:
    """Return <w, v_x> - radius L(v_x) (m,) for values (m, n) on contexts (n, d); the lowest value if radius is inf."""
    if math.isinf(radius):
        return np.asarray(values.min(axis=1))
    apart = np.sqrt(((contexts[:, None] - contexts) ** 2).sum(axis=2))
    apart[apart == 0.0] = np.inf
    slopes = np.array([(np.abs(v[:, None] - v) / apart).max() for v in values])
    return np.asarray(values @ weights - radius * slopes)


@dataclass(frozen=True)
class FirstOrder(ActionFirst):
    """The action whose upper confidence bound has the best worst case, to first order in the radius.

    At an infinite radius, as before the first context of the data-driven setting, the exact worst case is used.

    Parameters
    ----------
    contexts : the rule that picks the context; None if nature does
    """

    def choose(self, round: Round, beliefs: Beliefs) -> Choice:
        """Return x_t = argmax_x V_x(0) - S_x(0) eps^a for the upper bounds of x, and its contexts."""
        ball = round.ball
        bound = Bound(beliefs.expected(ball), beliefs.width, UPPER)

        def best(candidates: Candidates) -> Found:
            ucb = candidates.values(bound, np.arange(len(candidates.points)))
            scores = first_order(ball, ucb)
            first = first_of_the_best(scores, TIE * float(np.ptp(ucb)))
            return Found(candidates.point(first), float(scores[first]))

        found = _best_by(round, bound, best)
        score = float(ball.worst_case(bound.of_action(found.action)).expectation)
        ball, score = ball.widened(Bound(beliefs.certain(ball), beliefs.width, UPPER), found.action, score)
        return picked(self.contexts, round, beliefs, ball, Found(found.action, score))


def first_order(ball: Ball, values: FloatArray) -> FloatArray:
    """Return the first-order worst case (m,) of each row of values (m, n); the exact one at an infinite radius."""
    if math.isinf(ball.radius):
        return ball.worst_cases(values).expectation
    centre = ball.at(0.0)
    slopes = with_slopes(ball.ambiguity).slopes(values, ball.weights, centre.radius)
    return np.asarray(centre.worst_cases(values).expectation - slopes * ball.reach)


def _best_by(round: Round, bound: Bound, best: Callable[[Candidates], Found]) -> Found:
    """Return the best action by a custom score; the baseline if no action meets the floor of the round."""
    found = round.search.best_by(round.ball, best, round.near)
    return round.search.best(round.ball, bound, round.near, round.under_way[:0]) if found is None else found
