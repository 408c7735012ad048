"""The action of a box that maximises the robust score: many points at once, then local ascent from the best of them.

score(x) = min_w sum_j w_j bound(x, c_j) over the ambiguity set. By Danskin's theorem its gradient is that
of the sum with the worst-case weights held fixed, so a step costs one solve of the adversary and one of the posterior.

Most points need no score. The worst distribution w of one point bounds the scores of all others from above,
score(x) <= <w, bound(x, .)>, and averages of mean and variance bound that in a hundredth of the time,

    ceiling(x) = <w, mean> + beta sqrt(<w, variance>)        (`Bound.ceilings`, also for the lower bound)

We visit points by decreasing ceiling and stop when no other can be among the best. So the result is exact. Where w has
few contexts, <w, bound(x, .)> itself is computed for the points that their ceilings leave.

Discrete values are never rounded. First the continuous coordinates move with the others fixed. Then every combination
of the discrete values is tried at the result. Both steps repeat until neither helps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from drbo.ambiguity.placed import WorstCase
from drbo.models.draws import DrawOfRound
from drbo.models.surrogate import Estimate
from drbo.models.with_known import DrawWithKnown
from drbo.rounds.ball import Ball
from drbo.rounds.search import Candidates, Indices, NoActionLeftError, Smooth, WholeSearch, Winner
from drbo.spaces.box import Box
from drbo.spaces.space import Point
from drbo.validation import FloatArray

CANDIDATES = 512
"""Number of well-spread initial points."""
_NEIGHBOURS = 16
"""Number of points tried around each known good action, per distance, for three distances."""
_CLIMBS = 8
"""Number of best points that start a local ascent."""
_APART = 0.05
"""Points that differ by less in every coordinate have the same local maximum; only the best starts an ascent."""
_SPARSE = 0.25
"""Largest share of the contexts in a worst distribution at which its average is computed before a worst case."""
_AWAY = 0.01
"""Least distance from the actions to avoid, in at least one continuous coordinate."""
_ASCENT = 15
"""Largest number of steps of an ascent under limits."""
_STEPS_BACK = np.array([0.0, 1e-4, 1e-3, 0.01, 0.1, 0.3])
"""Shares of the way back from the end of an ascent under limits, where requirements may fail by rounding."""
_AT_ONCE = 16
"""Batch size of scoring, before others are ruled out. The points of a batch are apart if possible, because the best of
several close points rules out the rest."""
_DRAWS = (DrawOfRound, DrawWithKnown)
"""Estimates whose average over few contexts costs as much as their values in all of them: ceilings gain nothing."""
_TRIED = 256
"""Largest number of combinations of discrete values that are tried if each calls a constraint of the user."""
_TIE = 1e-9
"""Scores with a smaller difference, as a share of the amplitude of f, are equal."""


class BoxSearch(WholeSearch):
    """The search for the best action of a box."""

    space: Box

    def __init__(self, actions: Box) -> None:
        self.space = actions

    def best(
        self, ball: Ball, bound: Estimate, near: FloatArray, away: FloatArray, failed: Sequence[Point] = ()
    ) -> Winner:
        bad = np.array([point.coordinates for point in failed]).reshape(-1, self.space.dimension)
        objective = Objective(ball, bound)
        x = best_in_box(self.space, objective, np.unique(near, axis=0), away, ball.seed, bad)
        return Winner(Point(x), float(objective.scores(x[None])[0]))

    def permits(self, action: Point) -> bool:
        return bool(self.space.permits(action.coordinates[None])[0])

    def permitted(self, name: str, value: Any) -> Point:
        return self.space.check_permitted(name, self.space.encode(name, value))

    def candidates(self, near: FloatArray, seed: int) -> Candidates:
        return Candidates(_candidates(self.space, np.unique(near, axis=0), seed))

    def around(self, action: Point, distance: float, seed: int) -> Candidates:
        """Return points around an action; half of them have new random discrete values."""
        box, rng = self.space, np.random.default_rng(seed)
        start = np.tile(action.coordinates, (_NEIGHBOURS, 1))
        others, fixed = box.sample(_NEIGHBOURS, seed), ~box.continuous
        near = _moved(box, start, distance, rng)
        near[::2, fixed] = others[::2, fixed]
        start[::2] = others[::2]
        return Candidates(box.inside(start, near))

    def climb(self, start: FloatArray, score: Smooth, margins: Sequence[Smooth]) -> FloatArray:
        """Return points (k, d) on the way back from the end of a local ascent over continuous coordinates, by SLSQP."""
        free, rules = _rules(self.space, start)
        if not free.any():
            return start[None]

        def at(coordinates: FloatArray) -> FloatArray:
            point = start.copy()
            point[free] = np.clip(coordinates, 0.0, 1.0)
            return point

        def parts(function: Smooth, sign: float) -> dict[str, Any]:
            last: list[tuple[bytes, float, FloatArray]] = []  # value and gradient are asked for one after the other

            def both(coordinates: FloatArray) -> tuple[float, FloatArray]:
                key = coordinates.tobytes()
                if not last or last[0][0] != key:
                    value, gradient = function(at(coordinates))
                    last[:] = [(key, sign * value, sign * gradient[free])]
                return last[0][1], last[0][2]

            return {"fun": lambda c: both(c)[0], "jac": lambda c: both(c)[1]}

        constraints: Any = [{"type": "ineq", **parts(margin, 1.0)} for margin in margins] + rules
        bounds: Any = [(0.0, 1.0)] * int(free.sum())
        options: Any = {"maxiter": _ASCENT}
        goal: dict[str, Any] = parts(score, -1.0)
        found: Any = minimize(
            **goal, x0=start[free], method="SLSQP", bounds=bounds, constraints=constraints, options=options
        )
        end = at(np.where(np.isfinite(found.x), found.x, start[free]))
        end = self.space.inside(start[None], end[None])
        end = end if self.space.possible(end)[0] else start[None]
        way = end + _STEPS_BACK[:, None] * (start - end)
        return way[self.space.permits(way)]

    def repeats(self, points: FloatArray, away: FloatArray) -> NDArray[np.bool_]:
        return _same_action(self.space, points, away)

    def beyond(self, low: FloatArray, high: FloatArray, step: FloatArray) -> tuple[FloatArray, FloatArray]:
        least = np.maximum(step, self.space.spacings)
        return low - least, high + least


@dataclass(frozen=True, eq=False)
class Objective:
    """The robust score of any action: the worst-case expectation of a bound in a ball."""

    ball: Ball
    bound: Estimate

    def scores(self, actions: FloatArray) -> FloatArray:
        """Return the robust score (m,) of actions (m, d)."""
        return self._worst_cases(actions).expectation

    def score_and_gradient(self, action: FloatArray) -> tuple[float, FloatArray]:
        """Return the robust score of one action (d,) and its gradient (d,)."""
        worst = self._worst_cases(action[None, :])
        return float(worst.expectation[0]), self.bound.gradient(action, worst.weights[0])

    def leaders(self, actions: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
        """Return the `count` best actions of (m, d) that are apart, or fewer, and their scores, best first.

        The result is that of a pass through all actions by decreasing score that skips those close to an earlier one,
        up to differences in score below `_TIE`. Few actions are actually scored: first those of the highest ceilings
        under the reference, which only orders them. A draw scores all actions at once.
        """
        tie = _TIE * self.bound.amplitude
        scores, ceilings = np.full(len(actions), -np.inf), np.full(len(actions), np.inf)
        whole = isinstance(self.bound, _DRAWS)
        ordered = len(actions) > _AT_ONCE and not whole
        order = self.bound.ceilings(actions, self.ball.weights) if ordered else ceilings
        visited: list[int] = []
        may_lead = np.arange(len(actions))
        while len(may_lead):
            batch = may_lead.tolist() if whole else _batch(actions, order, may_lead)
            worst = self._worst_cases(actions[batch])
            scores[batch] = worst.expectation
            visited.extend(batch)
            leaders = _apart(actions, scores, np.array(visited), count)
            # A new leader must beat the leaders close to it, and the last leader if there are `count` of them.
            least = scores[leaders[-1]] if len(leaders) == count else -np.inf
            to_beat = np.where(_close(actions, actions[leaders], _APART), scores[leaders], least).max(axis=1) + tie
            ceilings[visited] = -np.inf
            weights, order = worst.weights[np.argmax(worst.expectation)], ceilings
            for lowered in (self.bound.ceilings, self._averages):
                may_lead = np.flatnonzero(ceilings > to_beat)
                if len(may_lead):
                    ceilings[may_lead] = np.minimum(ceilings[may_lead], lowered(actions[may_lead], weights))
            may_lead = np.flatnonzero(ceilings > to_beat)
        return actions[leaders], scores[leaders]

    def _averages(self, actions: FloatArray, weights: FloatArray) -> FloatArray:
        """Return sum_j w_j bound(x, c_j) (m,) at actions (m, d), for weights w (n,); infinite if it takes too long."""
        used = np.flatnonzero(weights)
        if len(used) > _SPARSE * len(weights):
            return np.full(len(actions), np.inf)
        return np.asarray(self.bound.at(actions, used) @ weights[used])

    def _worst_cases(self, actions: FloatArray) -> WorstCase:
        ball = self.ball
        return ball.ambiguity.certified(self.bound.at(actions), ball.weights, ball.radius)


def best_in_box(
    box: Box, objective: Objective, known: FloatArray, away: FloatArray, seed: int, failed: FloatArray | None = None
) -> FloatArray:
    """Return the coordinates (dimension,) of the best action found.

    `known` (k, dimension) are good starting points. `away` (l, dimension) are pending actions, which the answer avoids
    if possible. `failed` (m, dimension) are actions that the answer must avoid.
    """
    failed = away[:0] if failed is None else failed
    candidates = _candidates(box, known, seed)
    candidates = candidates[~_same_action(box, candidates, failed)]
    if not len(candidates):
        raise NoActionLeftError
    taboo = _same_action(box, candidates, away)
    if taboo.all():  # repeat the best pending action rather than fail
        away = away[:0]
    else:
        candidates = candidates[~taboo]
    starts, scores = objective.leaders(candidates, _CLIMBS)
    climbed = [_climb(box, objective, *start) for start in zip(starts, scores, strict=True)]
    points = np.concatenate([starts, *(point[None] for point, _ in climbed)])
    scores = np.append(scores, [score for _, score in climbed])
    taboo = _same_action(box, points, np.concatenate([away, failed]))
    return np.asarray(points[int(np.argmax(np.where(taboo, -np.inf, scores)))])


def _same_action(box: Box, points: FloatArray, others: FloatArray) -> np.ndarray:
    """Return a mask (m,) of points (m, d) equal to one of the others (k, d), numbers to within `_AWAY`."""
    distance = np.where(box.continuous, _AWAY, 1e-9)
    close = np.abs(points[:, None, :] - others[None, :, :]) < distance
    return np.asarray(np.any(np.all(close, axis=2), axis=1))


def _apart(points: FloatArray, scores: FloatArray, indices: Indices, count: int) -> list[int]:
    """Return the `count` best of the indices, or fewer, whose points are not close to a better one, best first."""
    left = indices[np.lexsort((indices, -scores[indices]))]
    chosen: list[int] = []
    while len(left) and len(chosen) < count:
        chosen.append(int(left[0]))
        left = left[~_close(points[left], points[left[:1]], _APART)[:, 0]]
    return chosen


def _batch(points: FloatArray, ceilings: FloatArray, indices: Indices) -> list[int]:
    """Return `_AT_ONCE` of the indices, or all: the highest ceilings that are apart, then the highest others."""
    chosen = _apart(points, ceilings, indices, _AT_ONCE)
    others = np.setdiff1d(indices, chosen)
    highest = others[np.lexsort((others, -ceilings[others]))]
    return [*chosen, *map(int, highest[: _AT_ONCE - len(chosen)])]


def _close(points: FloatArray, others: FloatArray, distance: float) -> np.ndarray:
    """Return a mask (m, k) of the points (m, d) and others (k, d) closer than a distance in every coordinate."""
    return np.asarray(np.abs(points[:, None, :] - others[None, :, :]).max(axis=2) < distance)


def _candidates(box: Box, known: FloatArray, seed: int) -> FloatArray:
    """Return the known points that are possible, points spread over the box, and points near the known ones."""
    known = known[box.possible(known)]
    if box.feasible is not None:
        known = box.feasible.nearest(known)
    rng = np.random.default_rng(seed)
    near = [_near(box, point, scale, rng) for point in known for scale in (0.1, 0.02, 0.004)]
    return np.concatenate([known, box.sample(CANDIDATES, seed), *near])


def _near(box: Box, point: FloatArray, scale: float, rng: np.random.Generator) -> FloatArray:
    """Return points near one, with different continuous coordinates."""
    points = np.tile(point, (_NEIGHBOURS, 1))
    return box.inside(points, _moved(box, points, scale, rng))


def _moved(box: Box, points: FloatArray, scale: float, rng: np.random.Generator) -> FloatArray:
    """Return points (m, d) with random changes of the continuous coordinates; constraints may not hold."""
    free, moved = box.continuous, points.copy()
    moved[:, free] += scale * rng.normal(size=(len(points), int(free.sum())))
    return np.clip(moved, 0.0, 1.0)


def _climb(box: Box, objective: Objective, point: FloatArray, score: float) -> tuple[FloatArray, float]:
    """Return the local maximum reached from a point with a known score, and its score."""
    for _ in range(5):
        before = score
        point, score = _climb_free(box, objective, point, score)
        others = _other_parts(box, point)
        if len(others):
            best, scores = objective.leaders(others, 1)
            if scores[0] > score:
                point, score = best[0], float(scores[0])
        if score <= before + 1e-9 * abs(before) or not len(others):
            break
    return point, score


def _other_parts(box: Box, point: FloatArray) -> FloatArray:
    """Return points (k, d) like one, with other discrete values."""
    parts, feasible = box.discrete_parts(), box.feasible
    others = np.empty((0, box.dimension))
    if parts is not None and len(parts) > 1:
        others = np.where(box.continuous, point, parts)
    if feasible is None:
        return others
    if feasible.slow:  # every point costs a call of a function
        others = others[:: len(others) // _TRIED + 1]
    return np.concatenate([others[feasible.holds(others)], feasible.elsewhere(point), feasible.neighbours(point)])


def _rules(box: Box, start: FloatArray) -> tuple[NDArray[np.bool_], list[Any]]:
    """Return the coordinates (d,) that a climb from a point may move, and the constraints of the box for SLSQP."""
    if box.feasible is None:
        return box.continuous, []
    limits = box.feasible.limits(start)
    free, rules = limits.pattern.free, list[Any]()

    def whole(coordinates: FloatArray) -> FloatArray:
        point = start.copy()
        point[free] = coordinates
        return point

    held = limits.pattern.held[:, free]
    if len(held):
        rules.append({"type": "eq", "fun": lambda x: held @ (x - start[free]), "jac": lambda _: held})
    if len(limits.room(start)):
        jac = lambda x: limits.slopes(whole(x))[:, free]  # noqa: E731
        rules.append({"type": "ineq", "fun": lambda x: limits.room(whole(x)), "jac": jac})
    return free, rules


def _climb_free(box: Box, objective: Objective, start: FloatArray, score: float) -> tuple[FloatArray, float]:
    """Return the maximum over the continuous coordinates, and its score: by L-BFGS-B, or SLSQP with constraints."""
    free, rules = _rules(box, start)
    if not free.any():
        return start, score

    def whole(coordinates: FloatArray) -> FloatArray:
        point = start.copy()
        point[free] = coordinates
        return point

    def descent(coordinates: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = objective.score_and_gradient(whole(coordinates))
        return -value, -gradient[free]

    bounds = [(0.0, 1.0)] * int(free.sum())
    if box.feasible is None:
        found = minimize(descent, start[free], jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 40})
        return (start, score) if -found.fun <= score else (whole(np.clip(found.x, 0.0, 1.0)), float(-found.fun))
    found = minimize(
        descent,
        start[free],
        jac=True,
        method="SLSQP",
        bounds=bounds,
        constraints=rules,
        options={"maxiter": 40, "ftol": _TIE * objective.bound.amplitude},
    )
    if not np.isfinite(found.x).all():
        return start, score
    end = box.feasible.towards(start[None], whole(np.clip(found.x, 0.0, 1.0))[None])
    reached = float(objective.scores(end)[0])
    return (end[0], reached) if reached > score else (start, score)
