"""The action of a box that maximises the robust score: many points at once, then uphill from the best of them.

score(x) = min_w sum_j w_j (mean + beta std)(x, c_j) over the ambiguity set. By Danskin's theorem its gradient is that
of the sum with the worst-case weights held fixed, so a step costs one solve of the adversary and one of the posterior.

Whole numbers and choices are never rounded: free coordinates move with the others fixed, then every combination of the
others is tried where they came to rest, until neither helps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from drbo.ambiguity import AmbiguitySet
from drbo.space import Box
from drbo.surrogate import GridPosterior
from drbo.validation import FloatArray

CANDIDATES = 512
"""Well-spread points that the search begins with."""
_NEIGHBOURS = 16
"""Points tried around each known good action, at each of three distances."""
_CLIMBS = 4
"""How many of the best points are climbed from."""


@dataclass(frozen=True, eq=False)
class Objective:
    """The robust score of actions anywhere: a posterior, the width of its bounds (negative: lower), and a set."""

    posterior: GridPosterior
    beta: float
    ambiguity: AmbiguitySet
    reference: FloatArray
    radius: float

    def bounds(self, actions: FloatArray) -> FloatArray:
        """Return mean + beta std (m, n_contexts) at actions (m, d)."""
        mean, variance = self.posterior.over_contexts(actions)
        return mean + self.beta * np.sqrt(variance)

    def scores(self, actions: FloatArray) -> FloatArray:
        """Return the robust score (m,) of actions (m, d)."""
        return self.ambiguity.worst_case(self.bounds(actions), self.reference, self.radius).expectation

    def score_and_gradient(self, action: FloatArray) -> tuple[float, FloatArray]:
        """Return the robust score of one action (d,) and its gradient (d,)."""
        worst = self.ambiguity.worst_case(self.bounds(action[None, :])[0], self.reference, self.radius)
        return float(worst.expectation), self.posterior.gradient(action, worst.weights, self.beta)


def best_in_box(box: Box, objective: Objective, known: FloatArray, avoid: FloatArray, seed: int) -> FloatArray:
    """Return the coordinates (dimension,) of the best action found.

    `known` (k, dimension) are good places to start; `avoid` (l, dimension) are actions under way or failed, from which
    the answer differs by 0.01 in some coordinate, if there is such a one.
    """
    candidates = _candidates(box, known, seed)
    scores = objective.scores(candidates)
    climbed = [_climb(box, objective, candidates[i]) for i in _apart(candidates, scores, avoid)]
    points = np.concatenate([candidates, *(point[None] for point, _ in climbed)])
    scores = np.append(scores, [score for _, score in climbed])
    allowed = ~_near(points, avoid)
    return np.asarray(points[int(np.argmax(np.where(allowed, scores, -np.inf) if allowed.any() else scores))])


def _near(points: FloatArray, avoid: FloatArray) -> np.ndarray:
    """Return for each point whether it is within 0.01 of one to avoid in every coordinate."""
    return np.asarray((np.abs(points[:, None, :] - avoid[None, :, :]).max(axis=2) < 0.01).any(axis=1))


def _candidates(box: Box, known: FloatArray, seed: int) -> FloatArray:
    """Return points all over the box, the known ones, and points near them."""
    rng = np.random.default_rng(seed)
    free = box.continuous
    parts = [box.sample(CANDIDATES, seed), known]
    for point in known:
        for scale in (0.1, 0.02, 0.004):
            near = np.tile(point, (_NEIGHBOURS, 1))
            near[:, free] += scale * rng.normal(size=(_NEIGHBOURS, int(free.sum())))
            parts.append(np.clip(near, 0.0, 1.0))
    return np.concatenate(parts)


def _apart(points: FloatArray, scores: FloatArray, avoid: FloatArray) -> list[int]:
    """Return the indices of the best points that are not close to a better one, or to one to avoid."""
    chosen: list[int] = []
    near = _near(points, avoid)
    for i in np.argsort(-scores):
        if not near[i] and all(np.abs(points[i] - points[j]).max() > 0.05 for j in chosen):
            chosen.append(int(i))
        if len(chosen) == _CLIMBS:
            break
    return chosen


def _climb(box: Box, objective: Objective, start: FloatArray) -> tuple[FloatArray, float]:
    """Return the local maximum reached from `start`, and its score."""
    free = box.continuous
    parts = box.discrete_parts()
    point, score = start.copy(), float(objective.scores(start[None, :])[0])
    for _ in range(5):
        before = score
        if free.any():
            point, score = _climb_free(objective, point, score, free)
        if parts is not None and len(parts) > 1:
            others = parts.copy()
            others[:, free] = point[free]
            scores = objective.scores(others)
            if scores.max() > score:
                point, score = others[int(np.argmax(scores))], float(scores.max())
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

    found = minimize(
        descent,
        start[free],
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, 1.0)] * int(free.sum()),
        options={"maxiter": 40},
    )
    if -found.fun <= score:
        return start, score
    point = start.copy()
    point[free] = np.clip(found.x, 0.0, 1.0)
    return point, float(-found.fun)
