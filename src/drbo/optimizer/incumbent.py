"""What to deploy: the best guaranteed action now, and the iterate of eq. 10, each with a certificate of now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from drbo.models.bounds import LOWER, Bound
from drbo.models.units import Units
from drbo.optimizer.knowledge import Knowledge
from drbo.optimizer.state import State
from drbo.rounds.ball import Ball, Certificate
from drbo.spaces.space import Point

_PASSES = 4
"""How often the best action is searched anew at most, because the adversary asked for further contexts."""


@dataclass(frozen=True, eq=False)
class Guaranteed:
    """An action and its certificate.

    Attributes
    ----------
    action : to deploy
    certificate : of the lower confidence bound under all outcomes told
    ball : the set that it is for
    width : of the confidence bound
    units : of the outcomes
    """

    action: Point
    certificate: Certificate
    ball: Ball
    width: float
    units: Units


def best_now(known: Knowledge, state: State, given: Any, radius: Any) -> Guaranteed:
    """Return the action of the largest worst-case lower confidence bound of all that have not failed."""
    ball = known.ball(state, given, radius)
    beliefs = known.beliefs(state, ball)
    search, failed = known.configuration.search, [record.action for record in state.failed]
    found = []
    for _ in range(_PASSES):
        bound = Bound(beliefs.certain(ball), beliefs.width, LOWER)
        action = search.best(ball, bound, known.near(state), known.rows([]), failed).action
        made = ball.certificate(bound, action)
        found.append(Guaranteed(action, made, ball, beliefs.width, beliefs.belief.units))
        wider = ball.adopting(made)
        if wider is ball:  # the adversary asked for no further context
            break
        ball = wider
    return max(found, key=lambda one: one.certificate.lower_bound)


def best_iterate(known: Knowledge, state: State) -> Guaranteed:
    """Return the iterate of the largest worst-case lower confidence bound at its own time (eq. 10), certified now."""
    iterate = state.incumbent
    if iterate is None:
        raise RuntimeError("recommend_iterate needs an iterate that has not failed: call ask first")
    ball = known.ball_of(state, iterate)
    beliefs = known.beliefs(state, ball)
    bound = Bound(beliefs.certain(ball), beliefs.width, LOWER)
    action = iterate.proposal.action
    return Guaranteed(action, ball.certificate(bound, action), ball, beliefs.width, beliefs.belief.units)
