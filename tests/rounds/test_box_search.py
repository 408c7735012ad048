"""The maximiser over boxes against brute force."""

import numpy as np
import pytest

from drbo import (
    GP,
    MMD,
    RBF,
    AmbiguitySet,
    Box,
    Categorical,
    Expectation,
    Integer,
    Log,
    Matern,
    Neighbourhood,
    Product,
    TotalVariation,
)
from drbo.ambiguity.family import as_placed
from drbo.contexts.nature import FiniteContexts
from drbo.models.bounds import LOWER, UPPER, Bound
from drbo.models.regression import ExactPosterior
from drbo.rounds.ball import Ball
from drbo.rounds.box_search import BoxSearch, Objective, best_in_box
from drbo.spaces import FiniteSet, Point
from drbo.spaces.parameters import Parameter
from drbo.validation import FloatArray
from tolerances import CLOSED_FORM, FINITE_DIFFERENCES

CONTEXTS = np.linspace(0, 1, 12)[:, None]
REFERENCE = np.full(12, 1 / 12)


def ball_of(ambiguity: AmbiguitySet, seed: int = 0) -> Ball:
    space = FiniteSet("contexts", CONTEXTS)
    return Ball(as_placed(ambiguity), FiniteContexts(space).given(REFERENCE), 0.2, space, seed)


def bound_of(posterior: ExactPosterior, beta: float) -> Bound:
    """An upper bound of width beta, or a lower one for a negative beta."""
    return Bound(posterior, abs(beta), UPPER if beta >= 0.0 else LOWER)


def random_objective(box: Box, seed: int, beta: float = 2.0) -> Objective:
    rng = np.random.default_rng(seed)
    d = box.dimension
    kernel = Product(Matern(tuple(rng.uniform(0.2, 0.8, d) * np.sqrt(d))), RBF(0.3))
    posterior = ExactPosterior(GP(kernel, 0.05), np.empty((0, d)), CONTEXTS)
    for x in box.sample(5 + 5 * d, seed):
        posterior = posterior.with_outcome(x, rng.random(1), rng.normal())
    ambiguity = MMD(CONTEXTS, RBF(0.2)) if seed % 2 else Expectation()
    return Objective(ball_of(ambiguity), bound_of(posterior, beta))


def test_gradient_of_the_robust_score_by_finite_differences() -> None:
    objective = random_objective(Box(a=(0.0, 1.0), b=(0.0, 1.0)), seed=1)
    rng = np.random.default_rng(0)
    for _ in range(5):
        x = rng.random(2)
        score, gradient = objective.score_and_gradient(x)
        assert score == pytest.approx(objective.scores(x[None])[0], abs=1e-12)
        for i in range(2):
            step = np.eye(2)[i] * 1e-6
            up, down = objective.scores(np.array([x + step, x - step]))
            assert gradient[i] == pytest.approx((up - down) / 2e-6, abs=10 * FINITE_DIFFERENCES)


SETS = [Expectation(), MMD(CONTEXTS, RBF(0.2)), TotalVariation(), Neighbourhood(CONTEXTS)]


@pytest.mark.parametrize("ambiguity", SETS, ids=lambda ambiguity: type(ambiguity).__name__)
@pytest.mark.parametrize("beta", [2.0, 0.0, -2.0])
def test_leaders_are_those_of_all_scores(ambiguity: AmbiguitySet, beta: float) -> None:
    box = Box(x=(0.0, 1.0), y=(0.0, 1.0), n=Integer(0, 3))
    for seed in range(3):
        objective = Objective(ball_of(ambiguity), random_objective(box, seed, beta).bound)
        actions = np.concatenate([box.sample(300, seed), 0.5 + 0.01 * np.random.default_rng(seed).normal(size=(50, 3))])
        all_scores = objective.scores(actions)
        apart = np.abs(actions[:, None] - actions).max(axis=2) > 0.05
        expected: list[int] = []
        for i in np.argsort(-all_scores, kind="stable"):
            if apart[i, expected].all():
                expected.append(int(i))
        for count in (1, 5, 1000):
            points, scores = objective.leaders(actions, count)
            np.testing.assert_array_equal(points, actions[expected[:count]])
            np.testing.assert_allclose(scores, all_scores[expected[:count]], atol=CLOSED_FORM)


@pytest.mark.parametrize("ambiguity", SETS, ids=lambda ambiguity: type(ambiguity).__name__)
@pytest.mark.parametrize("beta", [2.0, -2.0])
def test_no_score_exceeds_its_ceiling(ambiguity: AmbiguitySet, beta: float) -> None:
    box = Box(x=(0.0, 1.0), y=(0.0, 1.0))
    objective = Objective(ball_of(ambiguity), random_objective(box, 1, beta).bound)
    actions = box.sample(64, 0)
    worst = ambiguity.worst_case(objective.bound.at(actions), REFERENCE, objective.ball.radius)
    for w in worst.weights:
        assert (objective.bound.ceilings(actions, w) >= worst.expectation - CLOSED_FORM).all()


def test_few_actions_are_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    box = Box(**{f"x{i}": (0.0, 1.0) for i in range(4)})
    objective = random_objective(box, 1)
    scored = 0

    def counted(self: ExactPosterior, actions: FloatArray) -> tuple[FloatArray, FloatArray]:
        nonlocal scored
        scored += len(actions)
        return moments(self, actions)

    moments = ExactPosterior.moments
    monkeypatch.setattr(ExactPosterior, "moments", counted)
    objective.leaders(box.sample(1024, 0), 8)
    assert scored <= 128


def many_contexts(beta: float) -> Objective:
    """Return a score on 60 contexts, of which a worst distribution has a few."""
    contexts, rng = np.linspace(0, 1, 60)[:, None], np.random.default_rng(5)
    posterior = ExactPosterior(GP(Product(Matern((0.5, 0.6)), RBF(0.3)), 0.05), np.empty((0, 2)), contexts)
    for x in rng.random((40, 2)):
        c = rng.random(1)
        posterior = posterior.with_outcome(x, c, float(-4 * (x[0] - 0.4) ** 2 - 4 * (x[1] - 0.5) ** 2 + c[0] * x[0]))
    space = FiniteSet("contexts", contexts)
    reference = FiniteContexts(space).given(np.full(60, 1 / 60))
    return Objective(Ball(as_placed(MMD(contexts, RBF(0.2))), reference, 0.3, space, 0), bound_of(posterior, beta))


@pytest.mark.parametrize("beta", [2.0, -2.0])
def test_most_actions_are_ruled_out_in_few_contexts(beta: float, monkeypatch: pytest.MonkeyPatch) -> None:
    box, objective = Box(x=(0.0, 1.0), y=(0.0, 1.0)), many_contexts(beta)
    actions, moments, scored = box.sample(600, 0), ExactPosterior.moments, list[int]()
    all_scores = objective.scores(actions)

    def counted(self: ExactPosterior, actions: FloatArray) -> tuple[FloatArray, FloatArray]:
        scored.append(len(actions))
        return moments(self, actions)

    monkeypatch.setattr(ExactPosterior, "moments", counted)
    points, _ = objective.leaders(actions, 8)
    np.testing.assert_array_equal(points[0], actions[all_scores.argmax()])
    assert sum(scored) <= 64


def test_nothing_is_known_before_the_first_outcome() -> None:
    box = Box(x=(0.0, 1.0), kind=Categorical("a", "b"))
    posterior = ExactPosterior(GP(Product(Matern(0.3), RBF(0.3)), 0.05), np.empty((0, 3)), CONTEXTS)
    objective = Objective(ball_of(MMD(CONTEXTS, RBF(0.2))), bound_of(posterior, 2.0))
    point = best_in_box(box, objective, np.empty((0, 3)), np.empty((0, 3)), 0)
    assert objective.scores(point[None])[0] == pytest.approx(2.0, abs=CLOSED_FORM)


def wins(dimension: int, seeds: range) -> float:
    """The share of random posteriors on which the search is at least as good as the best of 20,000 random points."""
    box = Box(**{f"x{i}": (0.0, 1.0) for i in range(dimension)})
    won = 0
    for seed in seeds:
        objective = random_objective(box, seed)
        found = objective.scores(
            best_in_box(box, objective, np.empty((0, dimension)), np.empty((0, dimension)), seed)[None]
        )[0]
        brute = max(
            float(objective.scores(np.random.default_rng([seed, k]).random((2000, dimension))).max()) for k in range(10)
        )
        won += found >= brute - 1e-9
    return won / len(seeds)


@pytest.mark.parametrize("dimension", [1, 2, 4, 6])
def test_it_beats_many_random_points(dimension: int) -> None:
    assert wins(dimension, range(4)) == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("dimension", range(1, 7))
def test_it_beats_many_random_points_in_95_percent_of_cases(dimension: int) -> None:
    assert wins(dimension, range(40)) >= 0.95


def test_whole_numbers_and_choices_are_exact() -> None:
    parameters: dict[str, Parameter] = {"n": Integer(0, 6), "kind": Categorical("a", "b", "c"), "rate": Log(0.01, 1.0)}
    box = Box(**parameters)
    for seed in range(4):
        objective = random_objective(box, seed)
        point = best_in_box(box, objective, np.empty((0, box.dimension)), np.empty((0, box.dimension)), seed)
        np.testing.assert_allclose(box.encode("action", box.decode(Point(point))).coordinates, point, atol=1e-9)
        parts = box.discrete_parts()
        assert parts is not None
        rates = np.linspace(0, 1, 200)
        brute = -np.inf
        for part in parts:
            line = np.tile(part, (200, 1))
            line[:, -1] = rates
            brute = max(brute, float(objective.scores(line).max()))
        assert objective.scores(point[None])[0] >= brute - 1e-6


def test_only_discrete_parameters() -> None:
    box = Box(n=Integer(0, 9), kind=Categorical("a", "b"))
    objective = random_objective(box, 3)
    parts = box.discrete_parts()
    assert parts is not None
    best = objective.scores(best_in_box(box, objective, np.empty((0, 3)), np.empty((0, 3)), 0)[None])[0]
    assert best == pytest.approx(objective.scores(parts).max(), abs=1e-12)


def test_known_actions_are_never_lost() -> None:
    box = Box(x=(0.0, 1.0), y=(0.0, 1.0))
    objective = random_objective(box, 5)
    peak = best_in_box(box, objective, np.empty((0, 2)), np.empty((0, 2)), 0)
    again = best_in_box(box, objective, peak[None], np.empty((0, 2)), 1)
    assert objective.scores(again[None])[0] >= objective.scores(peak[None])[0] - 1e-12
    np.testing.assert_array_equal(again, best_in_box(box, objective, peak[None], np.empty((0, 2)), 1))


def test_what_is_to_be_avoided_is() -> None:
    box = Box(x=(0.0, 1.0), y=(0.0, 1.0))
    objective = random_objective(box, 5)
    avoid = np.empty((0, 2))
    for seed in range(4):
        point = best_in_box(box, objective, avoid, avoid, seed)
        assert (np.abs(avoid - point).max(axis=1) >= 0.01).all()
        avoid = np.concatenate([avoid, point[None]])
    tiny = Box(kind=Categorical("a", "b"))  # nothing else is left: better the best again than nothing
    objective = random_objective(tiny, 1)
    assert best_in_box(tiny, objective, np.eye(2), np.eye(2), 0).sum() == 1.0


def test_the_search_answers_with_a_point_and_its_score() -> None:
    box = Box(x=(0.0, 1.0), y=(0.0, 1.0))
    objective = random_objective(box, 5)
    search, nowhere = BoxSearch(box), np.empty((0, 2))
    found = search.best(objective.ball, objective.bound, nowhere, nowhere)
    directly = best_in_box(box, objective, nowhere, nowhere, objective.ball.seed)
    np.testing.assert_allclose(found.action.coordinates, directly, atol=1e-6)  # a climb stops that near to its summit
    assert found.action.index is None
    assert found.score == pytest.approx(objective.scores(found.action.coordinates[None])[0], rel=CLOSED_FORM)
    other = search.best(objective.ball, objective.bound, nowhere, nowhere, failed=[found.action])
    assert np.abs(other.action.coordinates - found.action.coordinates).max() >= 0.01
    prior = ExactPosterior(GP(Product(RBF(0.2), RBF(0.2)), 0.1), np.empty((0, 2)), CONTEXTS)
    assert prior.n_observations == 0
    np.testing.assert_array_equal(prior.contexts, CONTEXTS)
