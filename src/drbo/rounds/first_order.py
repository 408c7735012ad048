"""The worst case to first order in the radius: what it is at the reference, less its sensitivity there.

    V(eps) ~ V(0) - S(0) eps^a,   S = -dV / d(eps^a)   (`AmbiguitySet.sensitivity`, a its `radius_power`)

This is the fast approximation of Tay et al., "Efficient Distributionally Robust Bayesian Optimization with Worst-case
Sensitivity" (ICML 2022). Where V is convex in eps^a, as for the MMD, total variation and Wasserstein sets, it is never
above the worst case, and may lie below the lowest value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from drbo.models.bounds import UPPER, Bound
from drbo.rounds.ball import TIE, Ball, first_of_the_best
from drbo.rounds.beliefs import Beliefs
from drbo.rounds.policies import ActionFirst, Choice, Round, picked
from drbo.rounds.search import Candidates, Found
from drbo.validation import FloatArray


def first_order(ball: Ball, values: FloatArray) -> FloatArray:
    """Return the approximate worst case (m,) of each row of values (m, n); the exact one if the radius is infinite."""
    if math.isinf(ball.radius):
        return ball.worst_cases(values).expectation
    centre = ball.at(0.0)
    slopes = ball.ambiguity.slopes(values, ball.weights, centre.radius)
    return np.asarray(centre.worst_cases(values).expectation - slopes * further(ball))


def further(ball: Ball) -> float:
    """Return how far the ball reaches beyond the reference: eps^a, less that of what compression costs."""
    power = ball.ambiguity.radius_power
    return float(ball.radius**power - ball.at(0.0).radius ** power)


@dataclass(frozen=True)
class FirstOrder(ActionFirst):
    """The action whose upper confidence bound has the best worst case to first order in the radius.

    It is the fast approximation of Tay et al. (ICML 2022), for every set that has a sensitivity. At a radius that is
    infinite, as before the first context of the data-driven setting, the worst case itself is taken.

    Parameters
    ----------
    contexts : the rule that picks the context; None where nature does
    """

    def choose(self, round: Round, beliefs: Beliefs) -> Choice:
        """Return x_t = argmax_x V_x(0) - S_x(0) eps^a for the upper bounds of x, and its contexts."""
        ball = round.ball
        bound = Bound(beliefs.expected(ball), beliefs.width, UPPER)

        def pick(candidates: Candidates) -> Found:
            values = candidates.values(bound, np.arange(len(candidates.points)))
            scores = first_order(ball, values)
            best = first_of_the_best(scores, TIE * float(np.ptp(values)))
            return Found(candidates.point(best), float(scores[best]))

        found = round.search.best_by(ball, pick, round.near)
        assert found is not None  # some candidate has the best score
        score = float(ball.worst_case(bound.of_action(found.action)).expectation)
        ball, score = ball.widened(Bound(beliefs.certain(ball), beliefs.width, UPPER), found.action, score)
        return picked(self.contexts, round, beliefs, ball, Found(found.action, score))
