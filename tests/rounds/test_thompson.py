"""Thompson sampling: the action of the largest robust value of a draw, by brute force."""

from typing import Any

import numpy as np
import pytest

from drbo import (
    KL,
    MMD,
    RBF,
    AmbiguitySet,
    Box,
    Categorical,
    Informative,
    Integer,
    Optimizer,
    Simulator,
    Thompson,
    TotalVariation,
    Uncertain,
)
from drbo.ambiguity.family import as_placed
from drbo.models.draws import Draw
from drbo.rounds.ball import Ball
from drbo.rounds.box_search import BoxSearch
from drbo.rounds.context_rules import ContextRule
from drbo.rounds.grid_search import GridSearch, robust_scores
from drbo.rounds.policies import Round
from drbo.validation import FloatArray
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


def test_a_box_with_many_whole_numbers_is_searched_in_few_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The features of a draw were made anew for every 16 of 1,200 combinations: one suggestion took a minute."""
    box = Box(rate=(0.0, 1.0), leaves=Integer(2, 31), rows=Integer(1, 40))
    opt = Optimizer(
        box,
        Categorical("young", "old"),
        ambiguity=TotalVariation(),
        setting=Simulator({"young": 0.7, "old": 0.3}, radius=0.2),
        policy=Thompson(Informative()),
    )
    for rate, leaves, rows in ((0.1, 3, 20), (0.5, 20, 3), (0.9, 30, 39), (0.3, 12, 10)):
        for group in ("young", "old"):
            opt.tell({"rate": rate, "leaves": leaves, "rows": rows}, rate - (leaves / 30) ** 2, context=group)
    passes: list[int] = []
    values = Draw.at

    def counted(draw: Draw, actions: FloatArray, used: Any = None) -> FloatArray:
        passes.append(len(actions))
        return values(draw, actions, used)

    monkeypatch.setattr(Draw, "at", counted)
    monkeypatch.setattr(Draw, "ceilings", lambda *_: pytest.fail("ceilings of a draw gain nothing"))
    opt.ask()
    assert len(passes) < 1000


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
