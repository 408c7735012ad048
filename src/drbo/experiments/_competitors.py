"""Methods of other papers as baselines: settings and policies for `drbo compare`, and no part of the public interface.

SBO-KDE    x_t = argmax_x E_{c ~ p_t} ucb_t(x, c)                      p_t: kernel density estimate of the contexts seen
DRBO-KDE   x_t = argmax_x min E_{c ~ q} ucb_t(x, c), TV(q, p_t) <= r_t     (Huang et al., AAAI 2024)
WDRBO      x_t = argmax_x E_{c ~ p_t} ucb_t(x, c) - r_t L_t(x)         p_t: empirical distribution of the contexts seen,
                                                                       L_t(x): Lipschitz constant of ucb_t(x, .)
                                                                       (Micheli et al., AISTATS 2025)

Here contexts are a finite set. The kernel density estimate is put on its points and normalised. The Lipschitz constant
is the largest slope between two points. The penalty of WDRBO is a lower bound of the worst case in the Wasserstein ball
of radius r_t, which drbo computes exactly (`Wasserstein`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from drbo import UPPER, AmbiguitySet, Bound, Choice, Policy, Round, Setting
from drbo.ambiguity.contexts import Contexts
from drbo.ambiguity.reference import Reference
from drbo.rounds import Beliefs, Candidates, Found
from drbo.spaces import Point
from drbo.validation import FloatArray

_TIE = 1e-10
"""Scores closer than this share of the range of the bounds are a tie, and the first one wins."""


def kernel_density(seen: FloatArray, points: FloatArray) -> FloatArray:
    """Return the kernel density estimate of contexts seen (t, d) on points (n, d), normalised; uniform if t = 0.

    Normal kernels, with Scott's bandwidth per column: its standard deviation times t^(-1 / (d + 4)). Where all values
    of a column are the same the bandwidth is a hundredth of the range of the points.
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
    """The reference is a kernel density estimate of the t contexts seen, of d columns.

    Parameters
    ----------
    scale : the radius is scale * t^(-2 / (d + 4)), the rate at which the estimate converges. Before the first context
        nothing is known: the radius is infinite, unless the scale is 0
    """

    scale: float = 0.0

    def reference_of(self, given: Any, contexts: Contexts, seen: Sequence[Point]) -> Reference:
        """Return the density estimate on the points of a finite set."""
        del given
        base = contexts.seen(seen)
        points = np.array([point.coordinates for point in seen]).reshape(-1, base.points.shape[1])
        return replace(base, weights=kernel_density(points, base.points))

    def radius_of(self, given: Any, reference: Reference, ambiguity: AmbiguitySet) -> float:
        """Return the radius after so many contexts."""
        del given, ambiguity
        t, d = len(reference.history), reference.points.shape[1]
        if self.scale == 0.0:
            return 0.0
        return self.scale * t ** (-2.0 / (d + 4)) if t else math.inf


@dataclass(frozen=True)
class LipschitzPenalty(Policy):
    """The action of the largest expected upper bound less radius times Lipschitz constant; nature picks the context."""

    def choose(self, round: Round, beliefs: Beliefs) -> Choice:
        """Return argmax_x <p, ucb(x, .)> - radius max_ij |ucb(x, c_i) - ucb(x, c_j)| / |c_i - c_j|."""
        ball = round.ball
        bound = Bound(beliefs.expected(ball), beliefs.width, UPPER)

        def best(candidates: Candidates) -> Found:
            ucb = candidates.values(bound, np.arange(len(candidates.points)))
            scores = lipschitz_scores(ucb, ball.contexts, ball.weights, ball.radius)
            first = int(np.argmax(scores >= scores.max() - _TIE * float(np.ptp(ucb))))
            return Found(candidates.point(first), float(scores[first]))

        found = round.search.best_by(ball, best, round.near)
        assert found is not None  # there is a best of any candidates
        return Choice(found.action, None, found.score, ball)


def lipschitz_scores(values: FloatArray, contexts: FloatArray, weights: FloatArray, radius: float) -> FloatArray:
    """Return <w, v_x> - radius L(v_x) for values (m, n) on contexts (n, d), (m,); the least value for radius inf."""
    if math.isinf(radius):
        return np.asarray(values.min(axis=1))
    apart = np.sqrt(((contexts[:, None] - contexts) ** 2).sum(axis=2))
    apart[apart == 0.0] = np.inf
    slopes = np.array([(np.abs(v[:, None] - v) / apart).max() for v in values])
    return np.asarray(values @ weights - radius * slopes)
