"""What to deploy: the best guaranteed action now, and the iterate of eq. 10, each with a certificate of now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from drbo import validation
from drbo.models.bounds import LOWER, UPPER, Bound
from drbo.models.posterior import AnyPosterior
from drbo.models.units import Units
from drbo.optimizer.knowledge import Knowledge
from drbo.optimizer.state import State, Terms
from drbo.rounds.ball import Ball, Certificate
from drbo.spaces.space import Point
from drbo.validation import FloatArray

_LITTLE = 0.25
"""Where the posterior variance exceeds this share of the prior's, the outcomes say little."""
PASSES = 4
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
    mean, variance : (n,) of f for the action on the atoms of the certificate
    posterior : what the bound is of
    unseen : the share of the worst distribution on contexts of which the outcomes say little
    given : what is known of the context; None if nothing is
    """

    action: Point
    certificate: Certificate
    ball: Ball
    width: float
    units: Units
    mean: FloatArray
    variance: FloatArray
    posterior: AnyPosterior
    unseen: float
    given: Mapping[Any, Any] | None


def guaranteed(
    action: Point, ball: Ball, bound: Bound, units: Units, given: Mapping[Any, Any] | None = None
) -> Guaranteed:
    """Return the certificate of an action."""
    made = ball.certificate(bound, action)
    weights = made.worst_case.weights
    if made.reference is ball.reference:
        mean, variance = (validation.frozen(part) for part in bound.posterior.of_action(action))
    else:
        curve = bound.posterior.curve(action.coordinates, 0.0)
        mean, variance = curve(made.reference.points), curve.variance(made.reference.points)
    unseen = float(weights[variance > _LITTLE * bound.amplitude**2].sum())
    return Guaranteed(action, made, ball, bound.width, units, mean, variance, bound.posterior, unseen, given)


def best_now(known: Knowledge, state: State, terms: Terms) -> Guaranteed:
    """Return the action of the largest worst-case lower confidence bound of all that have not failed."""
    return best_in(known, state, known.ball(state, terms), known.near(state), terms.given)


def best_in(
    known: Knowledge, state: State, ball: Ball, near: FloatArray, given: Mapping[Any, Any] | None = None
) -> Guaranteed:
    """Return what `best_now` does, for any set; `near` (k, d) are actions that a search over a box starts near.

    `given` is what is known of the context, which the set is for.
    """
    beliefs = known.certifying(state, ball)
    search, failed = known.configuration.search, list(state.failed.values())
    found = []
    for _ in range(PASSES):
        bound = Bound(beliefs.certain(ball), beliefs.certificate_width, LOWER)
        action = search.best(ball, bound, near, known.rows([]), failed).action
        found.append(guaranteed(action, ball, bound, beliefs.belief.units, given))
        wider = ball.adopting(found[-1].certificate)
        if wider is ball:  # the adversary asked for no further context
            break
        ball = wider
    return max(found, key=lambda one: one.certificate.lower_bound)


def reachable(known: Knowledge, state: State, best: Guaranteed) -> float:
    """Return the largest worst-case upper confidence bound of all actions that have not failed, in the model's units.

    It is for the set and the width of `best`, whose own upper bound counts, too. On a range of contexts the worst case
    on the atoms alone is taken, which is larger: the result is an upper bound still.
    """
    beliefs, search = known.certifying(state, best.ball), known.configuration.search
    bound = Bound(beliefs.certain(best.ball), best.width, UPPER)
    near = np.concatenate([known.near(state), known.rows([best.action])])
    found = search.best(best.ball, bound, near, known.rows([]), list(state.failed.values()))
    return max(found.score, float(best.ball.worst_case(bound.of_action(best.action)).expectation))


def certified(known: Knowledge, state: State, action: Point, terms: Terms) -> Guaranteed:
    """Return an action with its certificate of now."""
    ball = known.ball(state, terms)
    beliefs = known.certifying(state, ball)
    bound = Bound(beliefs.certain(ball), beliefs.certificate_width, LOWER)
    return guaranteed(action, ball, bound, beliefs.belief.units, terms.given)


def best_iterate(known: Knowledge, state: State) -> Guaranteed:
    """Return the iterate of the largest worst-case lower confidence bound at its own time (eq. 10), certified now."""
    iterate = state.incumbent
    if iterate is None:
        raise RuntimeError("recommend_iterate needs an iterate that has not failed: call ask first")
    ball = known.ball_of(state, iterate)
    beliefs = known.certifying(state, ball)
    bound = Bound(beliefs.certain(ball), beliefs.certificate_width, LOWER)
    return guaranteed(iterate.proposal.action, ball, bound, beliefs.belief.units, iterate.given)
