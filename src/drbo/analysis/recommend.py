"""Recommendations: the action with the best bound, and the iterate of eq. 10, each with its present bound."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from drbo import validation
from drbo._threads import one_thread
from drbo.analysis.answers import NotReachedError, Recommendation, RegretBound, TargetRecommendation
from drbo.analysis.edges import Edge, edges_of
from drbo.analysis.trust import Check, Trust, trust
from drbo.knowledge.explanation import AnyColumn, Deferred, Evaluation, Explanation, summary
from drbo.knowledge.snapshot import Snapshot
from drbo.knowledge.state import Terms
from drbo.models.bounds import LOWER, Bound
from drbo.models.data import Units
from drbo.models.surrogate import Posterior, SupportsCurve, curve_of, of_action, supports
from drbo.rounds.ball import Ball, Certificate
from drbo.rounds.checked import Gap
from drbo.rounds.grid_search import best_action
from drbo.rounds.satisficing import Goal, WorstByRadius, check_goal, check_set, critical_radius, fragility, satisfy
from drbo.spaces.space import Column, Point, Space
from drbo.validation import FloatArray

PASSES = 4
"""Largest number of searches for the best action; each adds contexts of the adversary."""


@dataclass(frozen=True, eq=False)
class ActionBound:
    """An action and its bound.

    Attributes
    ----------
    action : the action
    certificate : the certified worst case of its lower confidence bound, given all outcomes
    ball : the set of the bound
    width : the width of the confidence bound
    units : the units of the outcomes
    mean, variance : (n,) of f for the action on the atoms of the certificate
    posterior : the posterior of the bound
    assumed_noise : a noise that the bound assumes because no outcome shows it, in the model's units; None if shown
    given : the known part of the context; None if nothing is known
    """

    action: Point
    certificate: Certificate
    ball: Ball
    width: float
    units: Units
    mean: FloatArray
    variance: FloatArray
    posterior: Posterior
    assumed_noise: float | None
    given: Mapping[Any, Any] | None


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
    least = min((other.noise for other in bound.others), default=0.0)
    assumed = least if least > bound.posterior.noise else None
    return ActionBound(action, made, ball, bound.width, units, mean, variance, bound.posterior, assumed, given)


def best_in(asked: Snapshot, ball: Ball, near: FloatArray | None = None) -> ActionBound:
    """Return the action of the largest worst-case lower confidence bound among those that have not failed.

    `near` (k, d) are actions that a search over a box starts near.
    """
    start = asked.near if near is None else near
    search, failed, found = asked.configuration.search, asked.failed, []
    for _ in range(PASSES):
        action = search.best(ball, asked.lower(ball), start, asked.rows([]), failed).action
        found.append(action_bound(asked, action, ball))
        wider = ball.adopting(found[-1].certificate)
        if wider is ball:  # no further contexts
            break
        ball = wider
    return max(found, key=lambda one: one.certificate.lower_bound)


def regret_bound(asked: Snapshot, best: ActionBound) -> RegretBound:
    """Return the bound on the distance of the recommended action from the best one."""
    most, least, units, own = _reachable(asked, best), best.certificate.lower_bound, best.units, asked.configuration
    return RegretBound(
        value=units.length_outward(most - least) if units.known else math.inf,
        bound=units.outward(least),
        reachable=units.outward(most),
        exhaustive=own.search.exhaustive,
        claim=own.objective.claim,
    )


def _reachable(asked: Snapshot, best: ActionBound) -> float:
    """Return the largest worst-case upper confidence bound of all actions that have not failed, in the model's units.

    The set is that of `best`, whose own upper bound is included. On a range of contexts the worst case on the atoms
    alone is used; it is larger, so the result is still an upper bound.
    """
    bound = asked.upper(best.ball)
    near = np.concatenate([asked.near, asked.rows([best.action])])
    found = asked.configuration.search.best(best.ball, bound, near, asked.rows([]), asked.failed)
    return max(found.score, float(best.ball.worst_case(bound.of_action(best.action)).expectation))


def best_iterate(asked: Snapshot) -> ActionBound:
    """Return the iterate of the largest worst-case lower confidence bound at its ask (eq. 10), bounded now."""
    iterate = asked.state.incumbent_among(lambda one: asked.configuration.search.permits(one.proposal.action))
    if iterate is None:
        raise RuntimeError("recommend_iterate needs an iterate that has not failed: call ask first")
    its_round = replace(asked, terms=Terms(iterate.reference, None, iterate.given))
    return action_bound(its_round, iterate.proposal.action, asked.known.ball_of(asked.state, iterate))


def recommendation(asked: Snapshot, found: ActionBound) -> Recommendation:
    """Return an action and its bound in the user's units."""
    made, units, own = found.certificate, found.units, asked.configuration
    beta, nature = own.bound_beta, asked.known.nature(found.given)
    action, contexts = asked.actions.decode(found.action), nature.decode_all(made.reference)
    evaluations = asked.known.evaluations(asked.state, failures=False)
    gap = Gap.of(made.reference.points, made.worst_case.weights, found.action.coordinates, evaluations)
    gained = made.worst_case.weights - made.reference.weights
    check = Check(action, contexts[gap.at if gap.open else int(np.argmax(gained))])
    return Recommendation(
        action=action,
        action_index=found.action.index,
        value=units.outward(made.lower_bound),
        gap=units.length_outward(float(made.worst_case.expectation - made.lower_bound)),
        weights=validation.frozen(made.worst_case.weights),
        contexts=contexts,
        reference=made.reference.weights,
        radius=found.ball.radius,
        maximize=own.maximize,
        beta=found.width,
        delta=beta.delta if beta.proven else None,
        diameter=found.ball.diameter,
        within=found.ball.words,
        claim=own.objective.claim,
        check=check,
        trusted=Deferred(functools.partial(_trust, asked, found, gap, check)),
        action_point=found.action,
        explanation=Deferred(functools.partial(explain, found, action, contexts, nature.space.columns)),
        at_edges=Deferred(functools.partial(_edges, asked.actions, found, asked.lower(found.ball))),
        given=found.given,
    )


def _edges(space: Space, found: ActionBound, bound: Bound) -> tuple[Edge, ...]:
    """Return the parameters whose range limits the bound."""
    with one_thread():
        return edges_of(space, found.action, found.ball, bound, found.units)


def _trust(asked: Snapshot, found: ActionBound, gap: Gap, check: Check) -> Trust:
    """Return the verdict on a bound."""
    noise = found.assumed_noise
    assumed = None if noise is None else found.units.length_outward(noise)
    with one_thread():
        return trust(asked, asked.ahead(), gap, found.ball.radius, check, assumed)


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
    search, units, failed = asked.configuration.search, asked.units, asked.failed
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
        reached = units.outward(ball.at(0.0).certificate(bound, closest.action).lower_bound)
        raise NotReachedError(
            f"no bound reaches the target {target:.6g}: the best one is "
            f"{reached:.6g} under the reference itself. Give an easier target, or evaluate more"
        )
    return best


def _rank(goal: Goal, one: Satisfied) -> float:
    return one.radius if goal == "radius" else -one.fragility


_CANDIDATES = 64
"""Number of candidate contexts whose next bound is computed: those of the largest upper bounds."""
_AT_ONCE = 2**20
"""Batch size for variances."""


def explain(found: ActionBound, action: Any, contexts: Sequence[Any], columns: Sequence[Column]) -> Explanation:
    """Return the explanation of a bound, in the user's units.

    `action` and `contexts` (n,) are the action and the atoms of the certificate in the user's form; `columns` are the
    columns of the contexts.
    """
    with one_thread():
        made, units = found.certificate, found.units
        p, w = made.reference.weights, made.worst_case.weights
        summaries = _summaries(contexts, columns, p, w)
        evaluation = _evaluation(found, action, contexts)
        value = units.outward(made.lower_bound)
        if not units.known:
            return Explanation(math.nan, value, 0.0, math.inf, 0.0, summaries, evaluation)
        expected = float(p @ found.mean)
        left_open = float(made.worst_case.expectation) - made.lower_bound
        rest = expected - float(made.worst_case.expectation)
        # The worst case of a set without its reference may be better: the rest is negative, and the ignorance is 0.
        shift = min(max(expected - _worst_mean(found, expected), 0.0), rest)
        return Explanation(
            units.outward(expected),
            value,
            units.length_outward(shift),
            units.length_outward(rest - shift),
            units.length_outward(left_open),
            summaries,
            evaluation,
        )


def _worst_mean(found: ActionBound, expected: float) -> float:
    """Return the worst case of the mean; contexts without outcomes count as no worse than `expected`."""
    made, bound = found.certificate, Bound(found.posterior, 0.0, LOWER)
    atoms = len(made.reference.points)
    ball = found.ball.extended(made.reference.points[len(found.ball.contexts) :])
    ball, _ = ball.widened(bound, found.action, 0.0)  # adds the contexts of an adversary of the mean
    mean, variance = found.mean, found.variance
    if len(ball.contexts) > atoms:
        curve = bound.curve(found.action.coordinates)
        mean = np.append(mean, curve(ball.contexts[atoms:]))
        variance = np.append(variance, curve.variance(ball.contexts[atoms:]))
    left = np.minimum(variance / bound.amplitude**2, 1.0)
    return float(ball.worst_case(mean + left * np.maximum(expected - mean, 0.0)).expectation)


def _evaluation(found: ActionBound, action: Any, contexts: Sequence[Any]) -> Evaluation | None:
    """Return the evaluation of the action that raises its bound most if the outcome equals the posterior mean.

    Such an outcome in context c leaves the mean unchanged, and lowers the variance to `Curve.variance_after`. The bound
    becomes min_w <w, mean - width std_c>, which the present worst distribution bounds from above. The candidates are
    the contexts of the largest upper bounds.
    """
    made, atoms = found.certificate, found.certificate.reference.points
    w = made.worst_case.weights
    used = np.flatnonzero(w)
    amplitude = found.posterior.amplitude
    if not supports(found.posterior, SupportsCurve):
        return None
    curve = found.posterior.curve(found.action.coordinates, 0.0)
    std, step = np.sqrt(found.variance), max(_AT_ONCE // len(atoms), 1)

    def after(rows: FloatArray, columns: FloatArray) -> FloatArray:
        return np.sqrt(curve.variance_after(rows, columns))

    gains = np.concatenate(
        [
            found.width * ((std[used] - after(atoms[i : i + step], atoms[used])) @ w[used])
            for i in range(0, len(atoms), step)
        ]
    )
    best = np.argsort(-gains, kind="stable")[:_CANDIDATES]
    if not gains[best[0]] > 1e-9 * amplitude * found.width:
        return None
    ball = found.ball.extended(atoms[len(found.ball.contexts) :])
    values = found.mean - found.width * after(atoms[best], atoms)
    choice = best_action(values, ball.ambiguity, ball.weights, ball.radius, w[None, :])
    now = float(ball.worst_case(found.mean - found.width * std).expectation)  # of this model alone, as after
    rise = float(choice.worst_case.expectation) - now
    # If one outcome raises nothing because another context is as bad, take the context of the largest upper bound.
    at = best[choice.action_index] if rise > 1e-9 * amplitude * found.width else best[0]
    return Evaluation(action, contexts[int(at)], found.units.outward(made.lower_bound + max(rise, 0.0)))


def _summaries(values: Sequence[Any], columns: Sequence[Column], p: FloatArray, w: FloatArray) -> tuple[AnyColumn, ...]:
    """Return the summary of each column of contexts (n,) under the reference p and in the worst distribution w."""
    made = []
    for i, column in enumerate(columns):
        if column.name is not None:
            name, cells = column.name, [value[column.name] for value in values]
        elif column.labels is not None:
            name, cells = "context", list(values)
        else:
            name = "context" if len(columns) == 1 else f"context[{i}]"
            cells = [value[i] for value in values]
        made.append(summary(name, cells, column.labels is not None, p, w))
    return tuple(made)
