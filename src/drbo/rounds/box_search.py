"""The action of a box that maximises the robust score: many points at once, then uphill from the best of them.

score(x) = min_w sum_j w_j bound(x, c_j) over the ambiguity set. By Danskin's theorem its gradient is that
of the sum with the worst-case weights held fixed, so a step costs one solve of the adversary and one of the posterior.

Most points need no score. A distribution w that is worst for one of them bounds the scores of all others from above,
score(x) <= <w, bound(x, .)>, and averages of mean and variance bound that in a hundredth of the time,

    ceiling(x) = <w, mean> + beta sqrt(<w, variance>)        (`Bound.ceilings`, which has the lower bound, too)

We visit points by decreasing ceiling and stop when no other can be among the best: these are the best of all.

Whole numbers and choices are never rounded: free coordinates move with the others fixed, then every combination of the
others is tried where they came to rest, until neither helps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from drbo.ambiguity.placed import WorstCase
from drbo.models.surrogate import Estimate
from drbo.rounds.ball import Ball
from drbo.rounds.search import Candidates, Found, Indices, NoActionLeftError, WholeSearch
from drbo.spaces.box import Box
from drbo.spaces.space import Point
from drbo.validation import FloatArray

CANDIDATES = 512
"""Well-spread points that the search begins with."""
_NEIGHBOURS = 16
"""Points tried around each known good action, at each of three distances."""
_CLIMBS = 8
"""How many of the best points are climbed from."""
_APART = 0.05
"""Points that differ by less in every coordinate lead to the same summit: only the best of them is climbed from."""
_AWAY = 0.01
"""By how much the answer differs from actions to avoid, in some coordinate that moves freely."""
_AT_ONCE = 16
"""How many points are scored before others are ruled out. They are apart if enough are: the best of those close to it
rules out the rest."""
_TIE = 1e-9
"""Scores closer than this share of the amplitude of f are taken as equal."""


class BoxSearch(WholeSearch):
    """The search for the best action of a box."""

    space: Box

    def __init__(self, actions: Box) -> None:
        self.space = actions

    def best(
        self, ball: Ball, bound: Estimate, near: FloatArray, away: FloatArray, failed: Sequence[Point] = ()
    ) -> Found:
        """Return the best action found, which is none of those under way or failed."""
        bad = np.array([point.coordinates for point in failed]).reshape(-1, self.space.dimension)
        objective = Objective(ball, bound)
        x = best_in_box(self.space, objective, np.unique(near, axis=0), away, ball.seed, bad)
        return Found(Point(x), float(objective.scores(x[None])[0]))

    def candidates(self, near: FloatArray, seed: int) -> Candidates:
        """Return the points that a search begins with."""
        return Candidates(_candidates(self.space, np.unique(near, axis=0), seed))

    def around(self, action: Point, distance: float, seed: int) -> Candidates:
        """Return points around an action; in half of them whole numbers and choices are drawn anew."""
        near = _near(self.space, action.coordinates, distance, np.random.default_rng(seed))
        fixed = ~self.space.continuous
        near[::2, fixed] = self.space.sample(len(near), seed)[::2, fixed]
        return Candidates(near)

    def beyond(self, low: FloatArray, high: FloatArray, step: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the cell enlarged by a step, or to the next whole number if that is larger; any choice is next."""
        least = np.maximum(step, self.space.spacings)
        return low - least, high + least


@dataclass(frozen=True, eq=False)
class Objective:
    """The robust score of actions anywhere: the worst-case expectation of a bound in a ball."""

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
        """Return the `count` best of actions (m, d) that are apart, or fewer, and their scores, the best one first.

        They are what remains if we go through all actions by decreasing score and pass over those that are close to one
        taken before; differences in score below `_TIE` aside, that is so although few are scored.
        """
        tie = _TIE * self.bound.amplitude
        scores, ceilings = np.full(len(actions), -np.inf), np.full(len(actions), np.inf)
        visited: list[int] = []
        may_lead = np.arange(len(actions))
        while len(may_lead):
            batch = _batch(actions, ceilings, may_lead)
            worst = self._worst_cases(actions[batch])
            scores[batch] = worst.expectation
            visited.extend(batch)
            self._lower(ceilings, actions, may_lead, batch, worst)
            leaders = _apart(actions, scores, np.array(visited), count)
            # To lead, an action must beat the leaders that it is close to, and the last one once they are complete.
            least = scores[leaders[-1]] if len(leaders) == count else -np.inf
            to_beat = np.where(_close(actions, actions[leaders], _APART), scores[leaders], least).max(axis=1)
            ceilings[visited] = -np.inf
            may_lead = np.flatnonzero(ceilings > to_beat + tie)
        return actions[leaders], scores[leaders]

    def _lower(
        self, ceilings: FloatArray, actions: FloatArray, rows: Indices, batch: Sequence[int], worst: WorstCase
    ) -> None:
        """Lower the ceilings of the actions `rows` by the worst cases of a batch of them.

        The worst case of an action is nearly that of one close by. All others get that of the best one.
        """
        distances = np.abs(actions[rows, None, :] - actions[None, batch, :]).max(axis=2)
        by = np.where(distances.min(axis=1) < _APART, distances.argmin(axis=1), np.argmax(worst.expectation))
        for i in np.unique(by):
            some = rows[by == i]
            ceilings[some] = np.minimum(ceilings[some], self.bound.ceilings(actions[some], worst.weights[i]))

    def _worst_cases(self, actions: FloatArray) -> WorstCase:
        return self.ball.worst_cases(self.bound.at(actions))


def best_in_box(
    box: Box, objective: Objective, known: FloatArray, away: FloatArray, seed: int, failed: FloatArray | None = None
) -> FloatArray:
    """Return the coordinates (dimension,) of the best action found.

    `known` (k, dimension) are good places to start. `away` (l, dimension) are actions under way, from which the answer
    differs if there is another one. `failed` (m, dimension) are actions from which it must differ.
    """
    failed = away[:0] if failed is None else failed
    candidates = _candidates(box, known, seed)
    candidates = candidates[~_same_action(box, candidates, failed)]
    if not len(candidates):
        raise NoActionLeftError
    taboo = _same_action(box, candidates, away)
    if taboo.all():  # repeat the best one rather than fail
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
    """Return (m,): which points (m, d) are as good as one of the others (k, d).

    Whole numbers and choices are equal, and free coordinates differ by less than `_AWAY`.
    """
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
    """Return `_AT_ONCE` of the indices, or all: those of highest ceilings that are apart, then the highest others."""
    chosen = _apart(points, ceilings, indices, _AT_ONCE)
    others = np.setdiff1d(indices, chosen)
    highest = others[np.lexsort((others, -ceilings[others]))]
    return [*chosen, *map(int, highest[: _AT_ONCE - len(chosen)])]


def _close(points: FloatArray, others: FloatArray, distance: float) -> np.ndarray:
    """Return (m, k): which of points (m, d) differ by less than a distance from others (k, d) in every coordinate."""
    return np.asarray(np.abs(points[:, None, :] - others[None, :, :]).max(axis=2) < distance)


def _candidates(box: Box, known: FloatArray, seed: int) -> FloatArray:
    """Return the known points that are possible, points all over the box, and points near the known ones."""
    known = known[box.possible(known)]
    rng = np.random.default_rng(seed)
    near = [_near(box, point, scale, rng) for point in known for scale in (0.1, 0.02, 0.004)]
    return np.concatenate([known, box.sample(CANDIDATES, seed), *near])


def _near(box: Box, point: FloatArray, scale: float, rng: np.random.Generator) -> FloatArray:
    """Return points near one, which differ from it in the free coordinates."""
    free = box.continuous
    near = np.tile(point, (_NEIGHBOURS, 1))
    near[:, free] += scale * rng.normal(size=(_NEIGHBOURS, int(free.sum())))
    return np.clip(near, 0.0, 1.0)


def _climb(box: Box, objective: Objective, point: FloatArray, score: float) -> tuple[FloatArray, float]:
    """Return the local maximum reached from a point of known score, and its score."""
    free = box.continuous
    parts = box.discrete_parts()
    for _ in range(5):
        before = score
        if free.any():
            point, score = _climb_free(objective, point, score, free)
        if parts is not None and len(parts) > 1:
            others = parts.copy()
            others[:, free] = point[free]
            best, scores = objective.leaders(others, 1)
            if scores[0] > score:
                point, score = best[0], float(scores[0])
        if score <= before + 1e-9 * abs(before) or parts is None or len(parts) == 1:
            break
    return point, score


def _climb_free(objective: Objective, start: FloatArray, score: float, free: np.ndarray) -> tuple[FloatArray, float]:
    """Return the maximum over the free coordinates by L-BFGS-B, and its score; never worse than the start."""

    def descent(coordinates: FloatArray) -> tuple[float, FloatArray]:
        point = start.copy()
        point[free] = coordinates
        value, gradient = objective.score_and_gradient(point)
        return -value, -gradient[free]

    bounds = [(0.0, 1.0)] * int(free.sum())
    found = minimize(descent, start[free], jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 40})
    if -found.fun <= score:
        return start, score
    point = start.copy()
    point[free] = np.clip(found.x, 0.0, 1.0)
    return point, float(-found.fun)
