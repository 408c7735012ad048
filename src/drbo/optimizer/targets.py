"""Which action to deploy for a target: the one that reaches it under the largest shift, with a certificate of now."""

from __future__ import annotations

from dataclasses import dataclass

from drbo.models.bounds import LOWER, Bound
from drbo.optimizer.incumbent import PASSES, Guaranteed, guaranteed
from drbo.optimizer.knowledge import Knowledge
from drbo.optimizer.state import State, Terms
from drbo.optimizer.suggestion import NotCertifiedError
from drbo.rounds.satisficing import Goal, WorstByRadius, check_set, critical_radius, fragility, satisfy


@dataclass(frozen=True, eq=False)
class Satisfied:
    """An action that is certified to reach a target, in the model's units.

    Attributes
    ----------
    radius : up to which the target is certified, without what compression costs
    fragility : a certified upper bound
    guaranteed : the certificate at that radius
    """

    radius: float
    fragility: float
    guaranteed: Guaranteed


def best_for(known: Knowledge, state: State, target: float, goal: Goal, terms: Terms) -> Satisfied:
    """Return the action that serves a goal best, by lower confidence bounds under all outcomes told.

    `target` is in the user's units. Actions are compared on the atoms. The radius and the fragility of the action
    returned are certified for every distribution, also where contexts have a range.
    """
    ball = known.ball_at(state, terms, 0.0)
    check_set(ball)
    beliefs, search = known.certifying(state, ball), known.configuration.search
    units, failed = beliefs.units, list(state.failed.values())
    if not units.known:
        raise NotCertifiedError("no action is certified to reach the target: the model has seen no outcome yet")
    level, best, near = units.inward(target), None, known.near(state)
    for _ in range(PASSES):
        bound = Bound(beliefs.certain(ball), beliefs.certificate_width, LOWER)
        found = satisfy(search, ball, bound, level, goal, near, failed)
        if found is None:
            break
        worst = WorstByRadius.certified(ball, bound, found.action)
        radius = critical_radius(worst, level)
        made = guaranteed(found.action, ball.at(max(radius, 0.0)), bound, units, terms.given)
        if radius >= 0.0:
            one = Satisfied(radius, fragility(worst, level).value, made)
            if best is None or _rank(goal, one) > _rank(goal, best):
                best = one
        wider = ball.adopting(made.certificate)
        if wider is ball:
            break
        ball = wider
    if best is None:
        bound = Bound(beliefs.certain(ball), beliefs.certificate_width, LOWER)
        closest = search.best(ball.at(0.0), bound, near, known.rows([]), failed)
        reached = units.outward(ball.at(0.0).certificate(bound, closest.action).lower_bound)
        raise NotCertifiedError(
            f"no action is certified to reach the target {target:.6g}: the best one is certified to have "
            f"{reached:.6g} under the reference itself. Give an easier target, or evaluate more"
        )
    return best


def _rank(goal: Goal, one: Satisfied) -> float:
    return one.radius if goal == "radius" else -one.fragility
