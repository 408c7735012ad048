"""Permitted actions: what an exhaustive check of every action permits, and the best of them."""

import numpy as np
import pytest

from drbo import GP, MMD, RBF, Box, Product, Samples, TotalVariation
from drbo.contexts.nature import FiniteContexts, Reference
from drbo.contexts.sampled_contexts import SampledContexts
from drbo.models.bounds import LOWER, UPPER, Bound
from drbo.models.regression import ExactPosterior
from drbo.rounds.ball import Ball
from drbo.rounds.box_search import BoxSearch
from drbo.rounds.floors import Budget, Floor
from drbo.rounds.grid_search import GridSearch
from drbo.rounds.limited_search import FewActions, LimitedSearch
from drbo.rounds.range_ball import make_ball
from drbo.spaces import FiniteSet, Point
from rounds.beliefs import FixedBeliefs

KERNEL = Product(RBF(0.3), RBF(0.4))
WIDTH = 2.0
CONTEXTS = FiniteSet("contexts", np.linspace(0.0, 1.0, 7))
NONE = np.empty((0, 1))


def observed(posterior: ExactPosterior, count: int = 12, seed: int = 0) -> ExactPosterior:
    rng = np.random.default_rng(seed)
    for _ in range(count):
        x, c = 0.3 + 0.3 * rng.random(1), rng.random(1)
        posterior = posterior.with_outcome(
            x, c, float(np.sin(5.0 * x[0]) + 0.5 * np.cos(4.0 * c[0]) + 0.05 * rng.normal())
        )
    return posterior


def ball(radius: float = 0.2) -> Ball:
    reference = FiniteContexts(CONTEXTS).given(np.arange(1.0, 8.0) / 28.0)
    return make_ball(MMD(kernel=RBF(0.3)).on(CONTEXTS.points), reference, radius, CONTEXTS, 0, None)


def test_a_difference_has_the_joint_posterior() -> None:
    posterior = observed(ExactPosterior(GP(KERNEL, 0.1), np.empty((0, 1)), CONTEXTS.coordinates))
    actions, other = np.array([[0.1], [0.45], [0.9]]), np.array([0.4])
    mean, variance = posterior.difference(actions, other)
    # Dense oracle: the joint posterior of all points, and differences of its entries.
    seen_x, seen_c = posterior.observed_actions, posterior.factor.embedding().points
    K = KERNEL.action(seen_x, seen_x) * KERNEL.context(seen_c, seen_c) + 0.01 * np.eye(12)
    for i, x in enumerate(actions):
        for j, c in enumerate(CONTEXTS.coordinates):
            pair = np.array([x, other])
            k = KERNEL.action(seen_x, pair) * KERNEL.context(seen_c, c[None, :])
            prior = KERNEL.action(pair, pair) * KERNEL.context.variance
            covariance = prior - k.T @ np.linalg.solve(K, k)
            contrast = np.array([1.0, -1.0])
            assert variance[i, j] == pytest.approx(contrast @ covariance @ contrast, abs=1e-10)
            centre = posterior.predict(pair, np.repeat(c[None, :], 2, axis=0))[0]
            assert mean[i, j] == pytest.approx(centre[0] - centre[1], abs=1e-10)


def test_nothing_differs_from_itself() -> None:
    posterior = observed(ExactPosterior(GP(KERNEL, 0.1), np.empty((0, 1)), CONTEXTS.coordinates))
    mean, variance = posterior.difference(np.array([[0.4]]), np.array([0.4]))
    assert not mean.any()
    assert not variance.any()


@pytest.mark.parametrize("below", [2.0, 0.5, 0.05, -0.1])
@pytest.mark.parametrize("left", [np.inf, 2.0, 0.3])
def test_the_best_permitted_action_of_a_grid(below: float, left: float) -> None:
    actions = FiniteSet("actions", np.linspace(0.0, 1.0, 41))
    search, b = GridSearch(actions), ball()
    posterior = observed(ExactPosterior.prior(GP(KERNEL, 0.1), actions.points, CONTEXTS.points))
    beliefs = FixedBeliefs(posterior, posterior, WIDTH)
    today = actions.at("baseline", 16)
    lowest = b.worst_cases(Bound(posterior, WIDTH, LOWER).on_grid()).lower_bound
    level = float(lowest.max()) - below
    requirements = [Floor(beliefs, level), Budget(beliefs, today, left)]
    bound = Bound(posterior, WIDTH, UPPER)
    found = LimitedSearch(search, requirements, today).best(b, bound, NONE, NONE)

    mean, variance = posterior.difference(actions.coordinates, today.coordinates)
    losses = -b.worst_cases(mean - WIDTH * np.sqrt(variance)).lower_bound
    permitted = (lowest >= level) & (losses <= left)
    scores = b.worst_cases(bound.on_grid()).expectation
    assert permitted.any() == (below > 0.0)
    if permitted.any():
        best = int(np.argmax(np.where(permitted, scores, -np.inf)))
        assert found.action.index == best
        assert found.score == pytest.approx(scores[best], abs=1e-9)
    else:
        assert found.action.index == 16


def test_an_action_that_failed_is_left_out() -> None:
    actions = FiniteSet("actions", np.linspace(0.0, 1.0, 11))
    posterior = observed(ExactPosterior.prior(GP(KERNEL, 0.1), actions.points, CONTEXTS.points))
    today, bound = actions.at("baseline", 4), Bound(posterior, WIDTH, UPPER)
    search = LimitedSearch(GridSearch(actions), [Floor(FixedBeliefs(posterior, posterior, WIDTH), -1.0)], today)
    first = search.best(ball(), bound, NONE, NONE).action
    second = search.best(ball(), bound, NONE, NONE, [first]).action
    assert first.index != second.index


@pytest.mark.parametrize("below", [0.01, 0.1, 1.0])
def test_a_box_is_searched_as_well_as_a_fine_grid(below: float) -> None:
    box, b = Box(x=(0.0, 1.0)), ball()
    posterior = observed(ExactPosterior(GP(KERNEL, 0.1), np.empty((0, 1)), CONTEXTS.coordinates))
    beliefs = FixedBeliefs(posterior, posterior, WIDTH)
    fine = np.linspace(0.0, 1.0, 2001)[:, None]
    lowest = b.worst_cases(Bound(posterior, WIDTH, LOWER).at(fine)).lower_bound
    level = float(lowest.max()) - below
    bound, floor = Bound(posterior, WIDTH, UPPER), Floor(beliefs, level)
    found = LimitedSearch(BoxSearch(box), [floor], Point(np.array([0.4]))).best(b, bound, NONE, NONE)
    best = b.worst_cases(bound.at(fine[lowest >= level])).expectation.max()
    assert floor.margin(b, found.action) >= 0.0
    assert found.score >= best - 0.02


def test_the_floor_holds_on_the_whole_range() -> None:
    """The atoms alone would permit more than the range between them does."""
    contexts = SampledContexts(Samples([[0.4], [0.6]], within=Box(c=(0.0, 1.0)), support=0), TotalVariation(), 0)
    reference = contexts.own()
    assert isinstance(reference, Reference)
    b = make_ball(TotalVariation(), reference, 0.5, contexts.space, 0, contexts.range)
    posterior = ExactPosterior(GP(Product(RBF(0.3), RBF(0.1)), 0.1), np.empty((0, 1)), b.contexts)
    for c in (0.4, 0.6):
        for x in (0.3, 0.5):
            posterior = posterior.with_outcome(np.array([x]), np.array([c]), 1.0)
    beliefs, today = FixedBeliefs(posterior, posterior, WIDTH), Point(np.array([0.4]))
    lower, upper = Bound(posterior, WIDTH, LOWER), Bound(posterior, WIDTH, UPPER)
    on_atoms = float(b.worst_case(lower.of_action(today)).lower_bound)
    in_range = b.certificate(lower, today).lower_bound
    assert in_range < on_atoms - 0.3

    below = Floor(beliefs, in_range - 0.2)
    found = LimitedSearch(BoxSearch(Box(x=(0.0, 1.0))), [below], today).best(b, upper, NONE, NONE)
    assert below.margin(b, found.action) >= 0.0
    between = Floor(beliefs, 0.5 * (in_range + on_atoms))
    found = LimitedSearch(BoxSearch(Box(x=(0.0, 1.0))), [between], today).best(b, upper, NONE, NONE)
    assert between.margin(b, found.action) >= 0.0 or np.array_equal(found.action.coordinates, [0.4])


def test_few_actions_are_compared_as_they_are() -> None:
    posterior = observed(ExactPosterior(GP(KERNEL, 0.1), np.empty((0, 1)), CONTEXTS.coordinates))
    bound, few = Bound(posterior, WIDTH, UPPER), [Point(np.array([0.2])), Point(np.array([0.5]))]
    found = FewActions(BoxSearch(Box(x=(0.0, 1.0))), few).best(ball(), bound, NONE, NONE)
    scores = [float(ball().worst_case(bound.of_action(point)).expectation) for point in few]
    assert found.action is few[int(np.argmax(scores))]
    assert found.score == pytest.approx(max(scores))
