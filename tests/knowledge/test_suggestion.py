"""What the optimizer hands out: how it is compared and printed."""

import dataclasses
import math
import pickle
from typing import Any

import numpy as np
import pytest

from drbo.analysis import Recommendation
from drbo.analysis.trust import Check, Surprises, Trust
from drbo.knowledge import Suggestion, claims
from drbo.knowledge.explanation import Deferred, Explanation, NextEvaluation, summary
from drbo.spaces.space import Point

S = Suggestion(
    number=3,
    action={"setpoint": 21.23456, "stages": 2, "mode": "eco"},
    action_index=None,
    contexts=(np.array([0.5, 2.0]),),
    reference=np.array([0.25, 0.75]),
    radius=0.1,
    score=1.5,
    action_point=Point(np.array([0.5, 0.3])),
    context_points=(Point(np.array([0.5, 2.0]), 1),),
)
REFERENCE, WORST = np.full(6, 1 / 6), np.array([0.1, 0.3, 0.2, 0.25, 0.15, 0.0])
WHY = Explanation(
    expected=2.5,
    value=1.23456,
    shift=0.7,
    ignorance=0.56544,
    left_open=0.0,
    columns=(summary("context", list(np.arange(6.0)), False, REFERENCE, WORST),),
    evaluation=NextEvaluation(np.array([0.25]), np.array([3.0]), 1.5),
)
R = Recommendation(
    action=np.array([0.25]),
    action_index=1,
    value=1.23456,
    gap=0.0,
    weights=WORST,
    contexts=np.arange(6.0)[:, None],
    reference=REFERENCE,
    radius=0.2,
    diameter=1.2,
    maximize=True,
    beta=2.0,
    delta=None,
    set_words="within an MMD of 0.2 of the reference",
    claim=claims.FIXED,
    check=Check(np.array([0.25]), np.array([3.0])),
    action_point=Point(np.array([0.25]), 1),
    explanation=Deferred(lambda: WHY),
    trusted=Deferred(
        lambda: Trust("checked", ("checked 2 times",), 1.2346, 1.2346, 0.0, 2, Surprises(20, 0, 0.05, (), False, False))
    ),
    at_edges=Deferred(lambda: ()),
)


def test_a_suggestion_in_one_line() -> None:
    assert str(S) == repr(S) == "suggestion 3: setpoint = 21.23, stages = 2, mode = eco in 0.5, 2"
    assert (
        str(dataclasses.replace(S, contexts=(), context_points=()))
        == "suggestion 3: setpoint = 21.23, stages = 2, mode = eco"
    )


def test_a_copy_is_the_same_suggestion() -> None:
    assert S.same_as(pickle.loads(pickle.dumps(S)))
    assert pickle.loads(pickle.dumps(S)) in (S,)
    assert len({S, pickle.loads(pickle.dumps(S))}) == 1
    assert S != 3
    assert (S.context is S.contexts[0], S.context_index, S.context_point) == (True, 1, S.context_points[0])
    two = dataclasses.replace(S, contexts=S.contexts * 2, context_points=S.context_points * 2)
    assert (two.context, two.context_index, two.context_point) == (None, None, None)
    assert S.same_as(dataclasses.replace(S, score=9.0))


@pytest.mark.parametrize(
    "change",
    [
        {"number": 4},
        {"radius": 0.2},
        {"reference": np.array([0.75, 0.25])},
        {"action_point": Point(np.array([0.5, 0.4]))},
        {"context_points": ()},
        {"context_points": (Point(np.array([0.5, 2.0]), 0),)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_another_evaluation_is_another_suggestion(change: dict[str, Any]) -> None:
    other = dataclasses.replace(S, **change)
    assert not S.same_as(other)
    assert not other.same_as(S)


def test_a_recommendation_says_what_it_promises() -> None:
    assert str(R).splitlines() == [
        "deploy 0.25",
        "estimated: at least 1.235 on average in every distribution within an MMD of 0.2",
        "  of the reference,",
        "  an estimate (2 standard deviations), valid if the given kernel is right",
        "the model expects 2.5 on average under the reference",
        "the bound is worse than this by 1.265:",
        "         0.7  for a shift of the conditions",
        "      0.5654  for the model's uncertainty",
        "the worst distribution for this action, beside the reference:",
        "                           mean  std. dev.         5%     median        95%",
        "  context  reference        2.5      1.708          0          2          5",
        "           worst           2.05      1.244          0          2          4",
        "checked 2 times",
        "the most informative next evaluation of this action is in context 3: if its",
        "  outcome is as expected, the bound moves from 1.235 to 1.5",
    ]
    assert R.explain() is WHY


def test_a_recommendation_of_a_cost_with_theory() -> None:
    cost = dataclasses.replace(R, maximize=False, radius=math.inf, gap=0.5, set_words="as the radius is infinite")
    text = " ".join(str(dataclasses.replace(cost, delta=0.05, claim=claims.LEMMA_1)).split())
    assert "at most 1.235" in text
    assert "with probability 0.95" in text
    assert "as the radius is infinite" in text
    assert "the worst one found gives 0.7346" in text
