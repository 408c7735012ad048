"""The search that leaves regions which fail: its penalty, its choice, and averages over the reference."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from drbo import GP, RBF, Box, Optimizer, Product, Simulator
from drbo.knowledge.knowledge import Knowledge
from drbo.models.bounds import UPPER, Bound
from drbo.rounds.ball import Ball
from drbo.rounds.search import Candidates, Winner
from drbo.rounds.working import LIKELY, Discouraged, SuccessChances, Working, representative
from tolerances import FINITE_DIFFERENCES

C = np.linspace(0.0, 1.0, 4)
FIXED = GP(Product(RBF(0.4), RBF(0.4)), 0.1)


def told(actions: Any, unit: float = 1.0) -> tuple[Optimizer, Knowledge, SuccessChances]:
    """Return an optimizer in which actions beyond 0.6 fail, and the chances under its reference."""
    opt = Optimizer(actions, C * unit, setting=Simulator(np.ones(4), 0.2), surrogate=FIXED)
    rng = np.random.default_rng(0)
    for x in np.linspace(0.0, 1.0, 11):
        action = {"x": x * unit} if isinstance(actions, Box) else x * unit
        for c in rng.choice(C, 2) * unit:
            if x > 0.6:
                opt.tell(action, failed=True, context=c)
            else:
                opt.tell(action, x, context=c)
    known = opt._known
    chances = known.chances(known.state, known.bare(known.state, known.state.terms))
    assert chances is not None
    return opt, known, chances


def ball_of(known: Knowledge) -> Ball:
    return known.ball(known.state, known.state.terms)


def test_probabilities_are_averages_over_the_reference() -> None:
    _, _, chances = told(Box(x=(0.0, 1.0)))
    both = replace(chances, contexts=C[:, None], weights=np.array([0.4, 0.3, 0.2, 0.1]), _known={})
    x = np.array([[0.2], [0.65], [0.9]])
    pairs = [(row, c, w) for row in range(3) for c, w in zip(C, both.weights, strict=True)]
    expected = np.zeros(3)
    for row, c, w in pairs:
        expected[row] += w * both.of_pairs(x[row : row + 1], np.array([[c]]))[0]
    np.testing.assert_allclose(both.of_actions(x), expected, rtol=1e-12)
    assert both.of_actions(x)[0] > 0.8 > 0.3 > both.of_actions(x)[2]


def test_the_gradient_of_the_penalised_bound() -> None:
    _, known, chances = told(Box(x=(0.0, 1.0)))
    ball = ball_of(known)
    bound = Bound(known.belief(known.state, ball.contexts).certain, 2.0, UPPER)
    one, w = Discouraged(bound, chances, LIKELY * chances.best), np.array([0.1, 0.2, 0.3, 0.4])
    some = 0
    for x in np.linspace(0.05, 0.95, 19):
        here, step = np.array([x]), 1e-6
        high, low = (one.at(here[None] + s)[0] @ w for s in (step, -step))
        assert one.gradient(here, w)[0] == pytest.approx(
            (high - low) / (2 * step), abs=1e-2, rel=FINITE_DIFFERENCES * 10
        )
        assert one.ceilings(here[None], w)[0] >= one.at(here[None])[0] @ w - 1e-9
        np.testing.assert_allclose(one.at(here[None], np.array([1, 0])), one.at(here[None])[:, [1, 0]], atol=1e-12)
        some += one.penalty(here[None])[0] > 0.0
    assert 0 < some < 19


@pytest.mark.parametrize("kind", ["grid", "box"])
def test_the_best_action_is_that_of_the_penalised_score(kind: str) -> None:
    actions = np.linspace(0.0, 1.0, 21)
    _, known, chances = told(actions if kind == "grid" else Box(x=(0.0, 1.0)))
    ball, near = ball_of(known), np.empty((0, 1))
    bound = Bound(known.belief(known.state, ball.contexts).certain, 2.0, UPPER)
    least = LIKELY * chances.best
    found = Working(known.configuration.search, chances, least).best(ball, bound, near, near)
    grid = actions[:, None] if kind == "grid" else np.linspace(0.0, 1.0, 2001)[:, None]
    scores = ball.worst_cases(bound.at(grid)).expectation
    penalised = scores - Discouraged(bound, chances, least).penalty(grid)
    assert chances.of_actions(found.action.coordinates[None])[0] >= least
    assert found.action.coordinates[0] == pytest.approx(grid[np.argmax(penalised), 0], abs=1e-3)
    assert found.score == pytest.approx(ball.worst_cases(bound.at(found.action.coordinates[None])).expectation[0])
    assert grid[np.argmax(scores), 0] > found.action.coordinates[0]  # the search without it goes on into the region


def test_comparisons_pass_over_actions_unless_all_are_unlikely() -> None:
    _, known, chances = told(np.linspace(0.0, 1.0, 21))
    near = np.empty((0, 1))

    def largest(candidates: Candidates) -> Winner | None:
        row = int(np.argmax(candidates.points[:, 0]))
        return Winner(candidates.point(row), 0.0)

    def nothing(_: Candidates) -> Winner | None:
        return None

    search = known.configuration.search
    found = Working(search, chances, 0.8).best_by(ball_of(known), largest, near)
    assert found is not None
    assert 0.4 <= found.action.coordinates[0] <= 0.6
    assert Working(search, chances, 0.8).best_by(ball_of(known), nothing, near) is None
    everywhere = Working(search, chances, 1.1).best_by(ball_of(known), largest, near)
    assert everywhere is not None
    assert everywhere.action.coordinates[0] == 1.0


def test_units_do_not_matter() -> None:
    _, _, chances = told(np.linspace(0.0, 1.0, 21))
    for unit in (1e-9, 1e9):
        _, _, other = told(np.linspace(0.0, 1.0, 21) * unit, unit)
        x = np.linspace(0.0, 1.0, 21)[:, None]
        np.testing.assert_allclose(other.of_actions(x * unit), chances.of_actions(x), rtol=1e-6)


def test_many_contexts_are_represented_by_few() -> None:
    contexts, weights = np.arange(1000.0)[:, None], np.full(1000, 1e-3)
    few, of_few = representative(contexts, weights)
    assert len(few) == 16
    assert float(of_few @ few[:, 0]) == pytest.approx(499.5, abs=2.0)
    same, of_same = representative(contexts[:5], np.array([0.5, 0.0, 0.2, 0.3, 0.0]))
    assert (same[:, 0].tolist(), of_same.tolist()) == ([0.0, 2.0, 3.0], [0.5, 0.2, 0.3])
