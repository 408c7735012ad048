"""Thompson sampling: the action of the largest robust value of a draw, by brute force."""

import numpy as np
import pytest

from drbo import KL, MMD, RBF, AmbiguitySet, Box, Informative, Thompson, TotalVariation, Uncertain
from drbo.ambiguity.family import as_placed
from drbo.rounds.ball import Ball
from drbo.rounds.box_search import BoxSearch
from drbo.rounds.context_rules import ContextRule
from drbo.rounds.grid_search import GridSearch, robust_scores
from drbo.rounds.policies import Round
from rounds.beliefs import ACTIONS, CONTEXTS, REFERENCE, beliefs

SETS: list[AmbiguitySet] = [MMD(CONTEXTS.points, RBF(0.2)), TotalVariation(), KL()]
NOWHERE = np.empty((0, 1))


@pytest.mark.parametrize("ambiguity", SETS, ids=repr)
@pytest.mark.parametrize("rule", [None, Uncertain(), Informative()], ids=repr)
def test_the_best_action_of_a_draw(ambiguity: AmbiguitySet, rule: ContextRule | None) -> None:
    chosen = []
    for number in range(6):
        known = beliefs(1)
        ball = Ball(as_placed(ambiguity), REFERENCE, 0.2, CONTEXTS, 3)
        round = Round(ball, GridSearch(ACTIONS), NOWHERE, NOWHERE, seed=(5, number))
        choice = Thompson(rule).choose(round, known)
        drawn = known.ahead.draw(np.random.default_rng((5, number))).on_grid()
        scores = robust_scores(drawn, ambiguity, REFERENCE.weights, 0.2)
        assert choice.action.index == int(np.argmax(scores))
        assert choice.score == pytest.approx(scores.max(), abs=1e-12)
        if rule is None:
            assert choice.context is None
        else:
            assert choice.context is not None
            assert choice.context.same_as(rule.pick(ball, known, choice.action))
        chosen.append(choice.action.index)
    assert len(set(chosen)) > 1  # every number of a suggestion has a draw of its own


def test_the_best_action_of_a_box_for_a_draw() -> None:
    """Against a fine grid: the search climbs the draw itself."""
    known, fine = beliefs(2), np.linspace(0.0, 1.0, 2001)[:, None]
    ball = Ball(as_placed(SETS[0]), REFERENCE, 0.2, CONTEXTS, 0)
    for number in range(3):
        round = Round(ball, BoxSearch(Box(x=(0.0, 1.0))), NOWHERE, NOWHERE, seed=(0, number))
        choice = Thompson().choose(round, known)
        drawn = known.ahead.draw(np.random.default_rng((0, number)))
        best = robust_scores(drawn.at(fine), ball.ambiguity, REFERENCE.weights, 0.2).max()
        assert choice.score >= best - 1e-6
        own = robust_scores(drawn.at(choice.action.coordinates[None]), ball.ambiguity, REFERENCE.weights, 0.2)
        assert choice.score == pytest.approx(float(own[0]), abs=1e-9)


def test_nothing_under_way_is_repeated_where_nature_picks_the_context() -> None:
    known, ball = beliefs(), Ball(as_placed(SETS[1]), REFERENCE, 0.2, CONTEXTS, 0)
    search = BoxSearch(Box(x=(0.0, 1.0)))
    free = Thompson().choose(Round(ball, search, NOWHERE, NOWHERE), known).action.coordinates
    again = Thompson().choose(Round(ball, search, NOWHERE, free[None]), known).action.coordinates
    assert np.abs(again - free).max() >= 0.01


def test_no_theorem_is_claimed() -> None:
    assert Thompson().theorem("Theorem 2") is None
    assert Thompson(Uncertain()).theorem("Theorem 5") is None
    assert Thompson(Uncertain()) == Thompson(Uncertain()) != Thompson(Informative())
