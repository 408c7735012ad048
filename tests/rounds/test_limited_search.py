"""The search under limits on a box: against a fine grid, and what it finds beyond its candidates."""

from typing import Any

import numpy as np
import pytest

import drbo
from drbo.models.bounds import LOWER, UPPER, Bound
from drbo.models.regression import ExactPosterior
from drbo.rounds.box_search import BoxSearch
from drbo.rounds.floors import Floor, View
from drbo.rounds.limited_search import LimitedSearch
from drbo.rounds.search import Candidates
from drbo.spaces.box import Box
from rounds.beliefs import CONTEXTS, FixedBeliefs
from rounds.test_chance import ball_of

KERNEL = drbo.Product(drbo.RBF(0.4), drbo.RBF(0.5))
NONE = np.empty((0, 2))


def posterior(seed: int) -> ExactPosterior:
    rng = np.random.default_rng(seed)
    made = ExactPosterior(drbo.GP(KERNEL, 0.05), NONE, CONTEXTS.coordinates)
    slope = rng.normal(size=2)
    for _ in range(25):
        x, c = rng.random(2), rng.random(1)
        made = made.with_outcome(x, c, float(np.sin(3.0 * x @ slope) + 0.5 * x[0] * c[0]))
    return made


@pytest.mark.parametrize("view", [View.CERTAIN, View.SEARCHED, View.APPROACHED])
@pytest.mark.parametrize("seed", range(4))
def test_the_best_action_of_a_box_whose_limit_holds(view: View, seed: int) -> None:
    """A grid of 101 x 101 actions finds nothing better, up to its spacing."""
    ball = ball_of(drbo.TotalVariation())
    own, limited = posterior(seed), FixedBeliefs(posterior(seed + 50), posterior(seed + 50), 1.5, 2.0)
    bound = Bound(own, 2.0, UPPER)
    axis = np.linspace(0.0, 1.0, 101)
    every = Candidates(np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2))
    rows = np.arange(len(every.points))
    width = {View.CERTAIN: -2.0, View.SEARCHED: 1.5, View.APPROACHED: -2.0 / 3.0}[view]
    values = Bound(limited.outcomes, abs(width), UPPER if width > 0.0 else LOWER).at(every.points)
    worst = ball.worst_cases(values).lower_bound
    level = float(np.quantile(worst, 0.7))
    scores = ball.worst_cases(every.values(bound, rows)).expectation
    best = scores[worst >= level].max()
    floor = Floor(limited, level, view)
    found = LimitedSearch(BoxSearch(Box(x=(0.0, 1.0), y=(0.0, 1.0))), [floor]).permitted(ball, bound, NONE)
    assert found is not None
    assert floor.margin(ball, found.action) >= 0.0
    assert found.score >= best - 1e-3
    margin, gradient = floor.slope(ball, found.action.coordinates)
    assert margin == pytest.approx(floor.margin(ball, found.action), abs=1e-8)
    for i in range(2):
        step = np.eye(2)[i] * 1e-5
        ends = [floor.slope(ball, found.action.coordinates + sign * step)[0] for sign in (1.0, -1.0)]
        assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(gradient[i], rel=2e-3, abs=2e-3)


def test_the_closest_action_of_a_box() -> None:
    ball = ball_of(drbo.TotalVariation())
    limited = FixedBeliefs(posterior(3), posterior(3), 1.5, 2.0)
    axis = np.linspace(0.0, 1.0, 51)
    every = Candidates(np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2))
    floors = [Floor(limited, 50.0), Floor(FixedBeliefs(posterior(8), posterior(8), 1.5, 2.0), 40.0)]
    search = LimitedSearch(BoxSearch(Box(x=(0.0, 1.0), y=(0.0, 1.0))), floors)
    assert search.permitted(ball, Bound(posterior(1), 2.0, UPPER), NONE) is None
    found = search.closest(ball, NONE)
    least = np.min([floor.margins(ball, every, np.arange(len(every.points))) for floor in floors], axis=0)
    assert min(floor.margin(ball, found) for floor in floors) >= least.max() - 0.02


def test_few_of_many_tried_actions_are_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search over a box starts near the best tried actions; a log has thousands of them."""
    ball, bound = ball_of(drbo.TotalVariation()), Bound(posterior(1), 2.0, UPPER)
    limited = FixedBeliefs(posterior(3), posterior(3), 1.5, 2.0)
    tried = np.unique(np.random.default_rng(0).random((3000, 2)), axis=0)
    candidates, rows = Candidates(tried), np.arange(3000)
    margins = Floor(limited, 0.0).margins(ball, candidates, rows)
    floor = Floor(limited, float(np.quantile(margins, 0.5)) * Bound(limited.outcomes, 2.0, LOWER).amplitude)
    permitted = np.flatnonzero(floor.margins(ball, candidates, rows) >= 0.0)
    scores = ball.worst_cases(candidates.values(bound, permitted)).expectation
    best = [*np.argsort(-margins, kind="stable")[:4], *permitted[np.argsort(-scores, kind="stable")[:4]]]
    solved, values = [], Candidates.values

    def counted(own: Candidates, one: Any, rows: Any) -> Any:
        solved.append(len(rows))
        return values(own, one, rows)

    monkeypatch.setattr(Candidates, "values", counted)
    found = LimitedSearch(BoxSearch(Box(x=(0.0, 1.0), y=(0.0, 1.0))), [floor], tried=tried)._known(ball, NONE, bound)
    np.testing.assert_array_equal(found, tried[best])
    assert sum(solved) < 1500
