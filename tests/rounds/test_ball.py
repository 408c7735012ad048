"""The ball of a round on a finite set of atoms: its worst cases, certificates, and what it leaves alone."""

import numpy as np
import pytest

from drbo import GP, MMD, RBF, AmbiguitySet, Expectation, Product, TotalVariation, Wasserstein
from drbo.ambiguity.family import as_placed
from drbo.contexts.nature import FiniteContexts
from drbo.models import ExactPosterior
from drbo.models.bounds import LOWER, UPPER, Bound
from drbo.rounds.ball import Ball, first_of_the_best, frozen_copy
from drbo.spaces import FiniteSet, Point
from exact import exact
from tolerances import ROUNDING

SPACE = FiniteSet("contexts", np.linspace(0, 1, 7))
REFERENCE = FiniteContexts(SPACE).given(np.random.default_rng(0).dirichlet(np.ones(7)))
SETS: list[AmbiguitySet] = [
    MMD(SPACE.points, RBF(0.2)), TotalVariation(), Wasserstein(SPACE.points), Expectation(),
]  # fmt: skip


def ball_of(ambiguity: AmbiguitySet, radius: float = 0.2) -> Ball:
    return Ball(as_placed(ambiguity), REFERENCE, radius, SPACE, 0)


def bound_of(side: int) -> Bound:
    rng = np.random.default_rng(1)
    posterior = ExactPosterior.prior(GP(Product(RBF(0.3), RBF(0.3)), 0.1), np.linspace(0, 1, 5), SPACE.coordinates)
    for _ in range(10):
        posterior = posterior.with_outcome(rng.random(1), rng.random(1), rng.normal())
    return Bound(posterior, 2.0, UPPER if side > 0 else LOWER)


@pytest.mark.parametrize("ambiguity", SETS, ids=repr)
def test_worst_cases_are_those_of_the_set(ambiguity: AmbiguitySet) -> None:
    values, ball = np.random.default_rng(2).normal(size=(4, 7)), ball_of(ambiguity)
    expected = ambiguity.worst_case(values, REFERENCE.weights, 0.2)
    found = ball.worst_cases(values)
    np.testing.assert_array_equal(found.expectation, expected.expectation)
    np.testing.assert_array_equal(found.weights, expected.weights)
    for row in values:
        alone, one = ball.worst_case(row), ambiguity.worst_case(row, REFERENCE.weights, 0.2)
        assert alone.expectation == one.expectation
        np.testing.assert_array_equal(alone.weights, one.weights)
        assert alone.lower_bound == one.lower_bound


@pytest.mark.parametrize("ambiguity", SETS, ids=repr)
def test_a_certificate_is_the_worst_case_of_the_lower_bound(ambiguity: AmbiguitySet) -> None:
    bound, ball = bound_of(-1), ball_of(ambiguity)
    for i, x in enumerate(exact(bound.posterior).actions):
        made = ball.certificate(bound, Point(x, i))
        expected = ambiguity.worst_case(bound.on_grid()[i], REFERENCE.weights, 0.2)
        assert made.reference is REFERENCE
        assert made.lower_bound == pytest.approx(expected.lower_bound, rel=ROUNDING)
        assert made.worst_case.expectation == pytest.approx(expected.expectation, rel=ROUNDING)


def test_the_atoms_are_all_there_is() -> None:
    bound, ball = bound_of(1), ball_of(SETS[0])
    action = Point(exact(bound.posterior).actions[2], 2)
    assert ball.widened(bound, action, 0.5) == (ball, 0.5)
    assert ball.adopting(ball.certificate(bound_of(-1), action)) is ball
    np.testing.assert_array_equal(ball.contexts, SPACE.coordinates)


def test_the_first_of_the_best_contexts_within_a_tie() -> None:
    ball = ball_of(SETS[1])

    def anywhere() -> None:
        raise AssertionError("there is no context but the atoms")

    worth = np.array([0.1, 0.9, 0.5, 0.9 + 1e-12, 0.2, 0.3, 0.4])
    for tie, expected in ((1e-9, 1), (0.0, 3), (0.5, 1), (0.85, 0)):
        found = ball.best_context(worth, anywhere, tie)  # type: ignore[arg-type]
        assert found.same_as(SPACE.at("context_index", expected))
        assert first_of_the_best(worth, tie) == expected


def test_sizes_that_disagree_never_reach_compiled_code() -> None:
    with pytest.raises(ValueError, match="ambiguity is for 3 contexts, but there are 7"):
        ball_of(MMD([0.0, 0.5, 1.0]))
    for values in (np.zeros((2, 6)), np.zeros((2, 8))):
        with pytest.raises(ValueError, match=r"values must have shape \(m, 7\)"):
            ball_of(SETS[0]).worst_cases(values)


def test_a_frozen_copy_is_nobody_elses() -> None:
    mine = np.ones(2)
    point = frozen_copy(Point(mine, 3))
    mine[0] = 5.0
    assert point.same_as(Point(np.ones(2), 3))
    assert not point.coordinates.flags.writeable
