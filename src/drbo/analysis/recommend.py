"""Recommendations: the action with the best bound, and the iterate of eq. 10, each with its present bound."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from drbo import validation
from drbo._messages import printable
from drbo._threads import one_thread
from drbo.analysis.answers import LimitBound, NotReachedError, Recommendation, RegretBound, TargetRecommendation
from drbo.analysis.edges import Edge, edges_of
from drbo.analysis.explain_bound import ActionBound, explain
from drbo.analysis.trust import Check, Trust, trust
from drbo.knowledge import claims
from drbo.knowledge.explanation import Deferred, readable
from drbo.knowledge.history import OBJECTIVE
from drbo.knowledge.snapshot import Snapshot
from drbo.knowledge.state import Terms
from drbo.models.bounds import LOWER, Bound
from drbo.models.surrogate import Posterior, SupportsManyOutcomes, curve_of, of_action, supports
from drbo.rounds.ball import Ball
from drbo.rounds.chance import check_atoms
from drbo.rounds.checked import Gap
from drbo.rounds.floors import Floor, View
from drbo.rounds.satisficing import Goal, WorstByRadius, check_goal, check_set, critical_radius, fragility, satisfy
from drbo.spaces.space import Point, Space
from drbo.validation import FloatArray

PASSES = 4
"""Largest number of searches for the best action; each adds contexts of the adversary."""


def action_bound(asked: Snapshot, action: Point, ball: Ball) -> ActionBound:
    """Return the bound of an action in a set."""
    bound = asked.lower(ball)
    made = ball.certificate(bound, action)
    if made.reference is ball.reference:
        mean, variance = (validation.frozen(part) for part in of_action(bound.posterior, action))
    else:
        curve = curve_of(bound.posterior, action.coordinates, 0.0)
        mean, variance = curve(made.reference.points), curve.variance(made.reference.points)
    units, given = asked.units, asked.given
    least = min((other.noise for other in (*bound.others, *bound.for_one)), default=0.0)
    assumed = least if least > bound.posterior.noise else None
    gap = Gap.of(ball, bound, action, asked.evaluations())
    own = bound.posterior
    return ActionBound(action, made, ball, bound.width, units, mean, variance, own, assumed, given, asked, gap)


def best_in(asked: Snapshot, ball: Ball, near: FloatArray | None = None) -> ActionBound:
    """Return the action of the largest worst-case lower confidence bound among those that are likely to work.

    With limits it is the best of the actions that are known to meet them; `NotReachedError` is raised if there is none.
    `near` (k, d) are actions that a search over a box starts near.
    """
    start = asked.near if near is None else near
    failed, found = asked.failed, list[ActionBound]()
    for _ in range(PASSES):
        action = best_action_in(asked, ball, asked.lower(ball), start, View.CERTAIN)
        if action is None and found:
            break
        if action is None:
            raise _not_reached(asked, ball, start, failed)
        found.append(action_bound(asked, action, ball))
        wider = ball.adopting(found[-1].certificate)
        if wider is ball:  # no further contexts
            break
        ball = wider
    return max(found, key=lambda one: one.certificate.lower_bound)


def best_action_in(asked: Snapshot, ball: Ball, bound: Bound, near: FloatArray, view: View) -> Point | None:
    """Return the action of the largest worst case of a bound; None if no action meets the limits as viewed."""
    limited, nothing = asked.limited(ball, view), asked.rows([])
    if limited is None:
        return asked.search.best(ball, bound, near, nothing, asked.failed).action
    found = limited.permitted(ball, asked.discouraging(bound), near, asked.failed)
    return None if found is None else found.action


def _not_reached(asked: Snapshot, ball: Ball, near: FloatArray, failed: Sequence[Point]) -> NotReachedError:
    """Return the error that says how close an action comes to meeting all limits."""
    limited = asked.limited(ball, View.CERTAIN)
    assert limited is not None  # there are limits
    closest = recommendation(asked, action_bound(asked, limited.closest(ball, near, failed), ball))
    own = asked.configuration
    never = [name for name in own.measured if not asked.state.counts[name]]
    if never:
        return NotReachedError(
            f"no action is known to meet the limit of {printable(never[0])}: none of its values has been told. Tell "
            f"them, tell(s, outcome, limits={{{never[0]!r}: value}})",
            closest,
        )
    open_ones = "; ".join(str(limit) for limit in closest.limits.values() if not limit.holds)
    return NotReachedError(
        f"no action is known to meet all limits: {readable(closest.action)} comes closest, with {open_ones}. Evaluate "
        "more, or give easier limits",
        closest,
    )


def regret_bound(asked: Snapshot, best: ActionBound | None) -> RegretBound:
    """Return the bound on the distance of the recommended action from the best one; None if there is none."""
    own = asked.configuration
    if best is None:
        worst, best_possible = own.objective.range[:: 1 if own.maximize else -1]
        left = abs(best_possible - worst)
        return RegretBound(left, worst, best_possible, own.search.exhaustive, own.objective.claim, own.objective.unit)
    most, least, units = _reachable(asked, best), best.lower, best.units
    return RegretBound(
        value=units.stated_difference(most, least) if units.known else units.most - units.least,
        bound=units.stated(least),
        reachable=units.stated(most),
        exhaustive=own.search.exhaustive and not supports(best.posterior, SupportsManyOutcomes),
        claim=own.objective.claim,
        unit=own.objective.unit,
    )


def _reachable(asked: Snapshot, best: ActionBound) -> float:
    """Return the largest worst-case upper confidence bound of all actions that may be recommended, in model units.

    With limits these are the actions whose limits may hold.
    The set is that of `best`, whose own upper bound is included. On a range of contexts the worst case on the atoms
    alone is used; it is larger, so the result is still an upper bound.
    """
    bound = asked.upper(best.ball)
    near = np.concatenate([asked.near, asked.rows([best.action])])
    found = best_action_in(asked, best.ball, bound, near, View.POSSIBLE)
    actions = [best.action] if found is None else [found, best.action]
    return max(float(best.ball.worst_case(bound.of_action(action)).expectation) for action in actions)


def best_iterate(asked: Snapshot) -> ActionBound:
    """Return the iterate of the largest worst-case lower confidence bound at its ask (eq. 10), bounded now."""
    iterate = asked.state.incumbent_among(lambda one: asked.configuration.search.permits(one.proposal.action))
    if iterate is None:
        raise RuntimeError(
            "recommend_iterate needs a suggestion whose action has an outcome or has not failed: call ask first"
        )
    its_round = replace(asked, terms=Terms(iterate.reference, None, iterate.given))
    return action_bound(its_round, iterate.proposal.action, asked.known.ball_of(asked.state, iterate))


def recommendation(asked: Snapshot, found: ActionBound) -> Recommendation:
    """Return an action and its bound in the user's units."""
    made, units, own = found.certificate, found.units, asked.configuration
    nature = asked.known.nature(found.given)
    action, contexts = asked.actions.decode(found.action), nature.decode_all(made.reference)
    limits, gap = limit_bounds(found), found.gap
    check = Check(action, nature.space.decode(gap.at), nature.space.key(gap.at))
    noise = found.assumed_noise
    assumed = None if noise is None else units.length_outward(noise)
    bounds = units.stated(made.lower_bound), units.stated(made.lower_bound - gap.loss)
    return Recommendation(
        action=action,
        action_index=found.action.index,
        value=units.stated(found.lower),
        gap=units.stated_difference(float(made.worst_case.expectation), made.lower_bound),
        weights=validation.frozen(made.worst_case.weights),
        contexts=contexts,
        reference=made.reference.weights,
        radius=found.ball.radius,
        maximize=own.maximize,
        beta=found.width,
        delta=own.delta,
        diameter=found.ball.diameter,
        set_words=found.ball.words,
        claim=own.objective.claim,
        check=check,
        trusted=Deferred(functools.partial(_trust, asked, OBJECTIVE, found.ball.radius, gap, bounds, check, assumed)),
        action_point=found.action,
        explanation=Deferred(functools.partial(explain, found, action, contexts, nature.space.columns)),
        at_edges=Deferred(functools.partial(_edges, asked.actions, found, asked.lower(found.ball))),
        given=found.given,
        limits=limits,
        outcome=None if "outcome" not in own.arguments else own.objective.name,
        unit=own.objective.unit,
        success=None if asked.chances is None else float(asked.chances.of_actions(asked.rows([found.action]))[0]),
        rows=_rows_behind(asked, found),
        approximation=_approximation(found.posterior),
    )


def _approximation(posterior: Posterior) -> str | None:
    """Return how many outcomes were searched, and what a bound rests on; None if the posterior is exact."""
    if not supports(posterior, SupportsManyOutcomes):
        return None
    return claims.MANY_OUTCOMES.format(inducing=posterior.n_inducing, nearest=posterior.n_nearest)


def _rows_behind(asked: Snapshot, found: ActionBound) -> int | None:
    """Return the number of past contexts that a conditional reference rests on; None if it is not one."""
    if found.given is None or asked.terms.reference is not None:
        return None
    return len(asked.known.bare(asked.state, replace(asked.terms, given=found.given)).history) or None


def _edges(space: Space, found: ActionBound, bound: Bound) -> tuple[Edge, ...]:
    """Return the parameters whose range limits the bound."""
    with one_thread():
        return edges_of(space, found.action, found.ball, bound, found.units)


def _trust(
    asked: Snapshot,
    name: str,
    radius: float,
    gap: Gap,
    bounds: tuple[float, float],
    check: Check,
    assumed_noise: float | None,
) -> Trust:
    """Return the verdict on a bound of an outcome."""
    with one_thread():
        return trust(asked, name, gap, bounds, radius, check, assumed_noise)


def limit_bounds(found: ActionBound) -> dict[str, LimitBound]:
    """Return the bounds of the limited outcomes for an action, by name."""
    return {name: _limit_bound(found, name) for name in found.asked.configuration.limits}


def _limit_bound(found: ActionBound, name: str) -> LimitBound:
    """Return the bound of a limited outcome for an action, under its own worst distribution."""
    asked, ball, own = found.asked, found.ball, found.asked.configuration
    key, limit = own.key(name), own.limits[name]
    outcome, beliefs = own.outcomes[key], asked.beliefs(ball, key)
    requirement = limit.requirement(beliefs, outcome.bound_beta.proven, View.CERTAIN)
    reference, units, evaluations = ball.reference, beliefs.units, asked.evaluations(key)
    if isinstance(requirement, Floor):
        bound = beliefs.bound(ball, LOWER)
        made = ball.certificate(bound, found.action)
        reference, weights = made.reference, made.worst_case.weights
        value, threshold = units.stated(made.lower_bound), limit.threshold
        holds = units.known and made.lower_bound >= requirement.level
        claim, width = outcome.claim, beliefs.bound_width
        gap = Gap.of(ball, bound, found.action, evaluations)
        guess = float(ball.worst_case(bound.of_action(found.action)).expectation)
        bounds = units.stated(guess), units.stated(guess - gap.loss)
    else:
        check_atoms(ball)
        chances = requirement.chances_of(ball, found.action)
        worst = ball.worst_case(chances)
        weights, threshold = worst.weights, cast(float, limit.probability)
        value = min(max(float(worst.lower_bound), 0.0), 1.0) if units.known else 0.0
        holds = units.known and float(worst.lower_bound) >= requirement.probability
        claim = claims.everywhere(outcome.surrogate, outcome.bound_beta, noisy=limit.of == "outcome")
        width = requirement.view.bound(beliefs, ball, requirement.count(ball)).width
        # An untried condition may fail for sure.
        gap = Gap.of_values(ball, chances, found.action, replace(evaluations, lowest=0.0, spread=1.0))
        bounds = value, max(value - gap.loss, 0.0)
    contexts = asked.known.nature(found.given).decode_all(reference)
    check = Check(asked.actions.decode(found.action), asked.nature.space.decode(gap.at), asked.nature.space.key(gap.at))
    return LimitBound(
        name=name,
        limit=limit,
        value=value,
        threshold=threshold,
        holds=holds,
        weights=validation.frozen(weights),
        contexts=contexts,
        beta=width,
        claim=claim,
        unit=outcome.unit if limit.unit is None else limit.unit,
        check=check,
        trusted=Deferred(functools.partial(_trust, asked, key, ball.radius, gap, bounds, check, None)),
    )


@dataclass(frozen=True, eq=False)
class Satisfied:
    """An action whose bound reaches a target, in the model's units.

    Attributes
    ----------
    radius : the largest radius at which the bound reaches the target, without the cost of compression
    fragility : an upper bound of the fragility
    bound : the bound at that radius
    """

    radius: float
    fragility: float
    bound: ActionBound


def recommend_for(asked: Snapshot, target: float, goal: Goal) -> TargetRecommendation:
    """Return the best action for a goal, in the user's units."""
    wanted, chosen = validation.finite_float("target", target), check_goal(goal)
    if asked.configuration.limits:
        raise TypeError(
            "recommend_for varies the set, so there is no set in which limits could hold: use recommend(radius=...) or "
            "profile(radii), which keep the limits"
        )
    found = _best_for(asked, wanted, chosen)
    at = recommendation(asked, found.bound)
    return TargetRecommendation(
        action=at.action,
        action_index=at.action_index,
        target=wanted,
        goal=chosen,
        radius=found.radius,
        fragility=found.bound.units.length_outward(found.fragility),
        recommendation=at,
    )


def _best_for(asked: Snapshot, target: float, goal: Goal) -> Satisfied:
    """Return the best action for a goal, by lower confidence bounds given all outcomes.

    `target` is in the user's units. Actions are compared on the atoms. The returned radius and fragility hold for every
    distribution, also if contexts have a range.
    """
    ball = asked.ball_at(0.0)
    check_set(ball)
    search, units, failed = asked.search, asked.units, asked.failed
    if not units.known:
        raise NotReachedError("no action is known to reach the target: the model has seen no outcome yet")
    level, best, near = units.inward(target), None, asked.near
    for _ in range(PASSES):
        bound = asked.lower(ball)
        found = satisfy(search, ball, bound, level, goal, near, failed)
        if found is None:
            break
        worst = WorstByRadius.certified(ball, bound, found.action)
        radius = critical_radius(worst, level)
        made = action_bound(asked, found.action, ball.at(max(radius, 0.0)))
        if radius >= 0.0:
            one = Satisfied(radius, fragility(worst, level).value, made)
            if best is None or _rank(goal, one) > _rank(goal, best):
                best = one
        wider = ball.adopting(made.certificate)
        if wider is ball:
            break
        ball = wider
    if best is None:
        bound = asked.lower(ball)
        closest = search.best(ball.at(0.0), bound, near, asked.rows([]), failed)
        reached = units.stated(ball.at(0.0).certificate(bound, closest.action).lower_bound)
        raise NotReachedError(
            f"no bound reaches the target {target:.6g}: the best one is "
            f"{reached:.6g} under the reference itself. Give an easier target, or evaluate more"
        )
    return best


def _rank(goal: Goal, one: Satisfied) -> float:
    return one.radius if goal == "radius" else -one.fragility
