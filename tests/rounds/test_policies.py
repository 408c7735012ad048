"""Optimism: the best worst-case upper confidence bound, and the context of its rule."""

import numpy as np
import pytest

from drbo import MMD, RBF, AmbiguitySet, Box, Informative, Optimism, TotalVariation, Uncertain
from drbo.ambiguity.family import as_placed
from drbo.models.bounds import UPPER, Bound
from drbo.rounds.ball import Ball
from drbo.rounds.box_search import BoxSearch
from drbo.rounds.context_rules import ContextRule
from drbo.rounds.grid_search import GridSearch, robust_scores
from drbo.rounds.policies import Round
from rounds.beliefs import ACTIONS, CONTEXTS, REFERENCE, beliefs

SETS: list[AmbiguitySet] = [MMD(CONTEXTS.points, RBF(0.2)), TotalVariation()]
NOWHERE = np.empty((0, 1))


@pytest.mark.parametrize("ambiguity", SETS, ids=repr)
@pytest.mark.parametrize("rule", [None, Uncertain(), Informative()], ids=repr)
def test_optimism_is_lines_3_to_5_of_the_algorithm(ambiguity: AmbiguitySet, rule: ContextRule | None) -> None:
    for seed in range(4):
        known = beliefs(seed)
        ball = Ball(as_placed(ambiguity), REFERENCE, 0.2, CONTEXTS, seed)
        choice = Optimism(rule).choose(Round(ball, GridSearch(ACTIONS), NOWHERE, NOWHERE), known)
        ucb = Bound(known.ahead, 2.0, UPPER).on_grid()
        scores = robust_scores(ucb, ambiguity, REFERENCE.weights, 0.2)
        assert choice.action.index == int(np.argmax(scores))
        assert choice.score == pytest.approx(scores.max(), abs=1e-12)
        assert choice.ball is ball
        if rule is None:
            assert choice.context is None
        else:
            assert choice.context is not None
            assert choice.context.same_as(rule.pick(ball, known, choice.action))


def test_what_is_under_way_is_not_repeated_where_nature_picks_the_context() -> None:
    """Two evaluations of one action differ in their contexts, if we pick these."""
    known, ball = beliefs(), Ball(as_placed(SETS[1]), REFERENCE, 0.2, CONTEXTS, 0)
    search = BoxSearch(Box(x=(0.0, 1.0)))
    free = Optimism().choose(Round(ball, search, NOWHERE, NOWHERE), known).action.coordinates
    under_way = free[None]
    natures = Optimism().choose(Round(ball, search, NOWHERE, under_way), known).action.coordinates
    assert np.abs(natures - free).max() >= 0.01
    ours = Optimism(Uncertain()).choose(Round(ball, search, NOWHERE, under_way), known).action.coordinates
    np.testing.assert_allclose(ours, free, atol=1e-6)  # a climb stops that near to its summit


def test_policies_are_equal_by_what_they_are_made_of() -> None:
    assert Optimism() == Optimism(None)
    assert Optimism(Uncertain()) == Optimism(Uncertain())
    assert Optimism(Uncertain()) != Optimism(Informative())
