"""The worst case to first order in the radius, and the policy that takes it for the worst case, by brute force."""

import numpy as np
import pytest

from drbo import (
    GP,
    KL,
    MMD,
    RBF,
    AmbiguitySet,
    Box,
    ChiSquare,
    DataDriven,
    Informative,
    Matern,
    Neighbourhood,
    Optimizer,
    Policy,
    Product,
    TotalVariation,
    Uncertain,
    Wasserstein,
)
from drbo.ambiguity.family import as_placed
from drbo.experiments._methods import FirstOrder, LipschitzPenalty, first_order
from drbo.models.bounds import UPPER, Bound
from drbo.rounds.ball import Ball
from drbo.rounds.box_search import BoxSearch
from drbo.rounds.context_rules import ContextRule
from drbo.rounds.grid_search import GridSearch
from drbo.rounds.policies import Round
from drbo.validation import FloatArray
from rounds.beliefs import ACTIONS, CONTEXTS, REFERENCE, beliefs

SETS: list[AmbiguitySet] = [
    MMD(CONTEXTS.points, Matern(0.2, nu=1.5)),
    TotalVariation(),
    KL(),
    ChiSquare(),
    Wasserstein(CONTEXTS.points),
]
NOWHERE = np.empty((0, 1))
P, C = REFERENCE.weights, CONTEXTS.points[:, 0]


def by_hand(ambiguity: AmbiguitySet, v: FloatArray, radius: float) -> float:
    """Return the mean of v less what a shift of that radius costs to first order, by the formula of each set."""
    deviation = float(np.sqrt(P @ (v - P @ v) ** 2))
    if isinstance(ambiguity, KL | ChiSquare):
        return float(P @ v - deviation * np.sqrt((2.0 if isinstance(ambiguity, KL) else 1.0) * radius))
    if isinstance(ambiguity, TotalVariation):
        return float(P @ v - radius * np.ptp(v))
    if isinstance(ambiguity, Wasserstein):
        steepest = max(abs(v[i] - v[j]) / abs(C[i] - C[j]) for i in range(7) for j in range(i))
        return float(P @ v - radius * steepest)
    inverse, ones = np.linalg.inv(Matern(0.2, nu=1.5)(CONTEXTS.points, CONTEXTS.points)), np.ones(7)
    squared = v @ inverse @ v - (ones @ inverse @ v) ** 2 / (ones @ inverse @ ones)
    return float(P @ v - radius * np.sqrt(squared))


@pytest.mark.parametrize("ambiguity", SETS, ids=repr)
@pytest.mark.parametrize("rule", [None, Uncertain(), Informative()], ids=repr)
def test_the_best_action_to_first_order(ambiguity: AmbiguitySet, rule: ContextRule | None) -> None:
    known, ball = beliefs(1), Ball(as_placed(ambiguity), REFERENCE, 0.1, CONTEXTS, 3)
    upper = Bound(known.ahead, 2.0, UPPER).on_grid()
    scores = [by_hand(ambiguity, v, 0.1) for v in upper]
    np.testing.assert_allclose(first_order(ball, upper), scores, rtol=1e-7)
    choice = FirstOrder(rule).choose(Round(ball, GridSearch(ACTIONS), NOWHERE, NOWHERE), known)
    assert choice.action.index == int(np.argmax(scores))
    exact = ambiguity.worst_case(upper[choice.action.index], P, 0.1).expectation
    assert choice.score == pytest.approx(float(exact), rel=1e-12)
    if rule is None:
        assert choice.context is None
    else:
        assert choice.context is not None
        assert choice.context.same_as(rule.pick(ball, known, choice.action))


def test_the_best_action_of_a_box() -> None:
    """Against a fine grid."""
    known, fine = beliefs(2), np.linspace(0.0, 1.0, 2001)[:, None]
    ball = Ball(KL(), REFERENCE, 0.1, CONTEXTS, 0)
    choice = FirstOrder().choose(Round(ball, BoxSearch(Box(x=(0.0, 1.0))), NOWHERE, NOWHERE), known)
    bound = Bound(known.ahead, 2.0, UPPER)
    best, own = (first_order(ball, bound.at(x)).max() for x in (fine, choice.action.coordinates[None]))
    assert own >= best - 1e-3 * np.ptp(first_order(ball, bound.at(fine)))


def test_at_an_infinite_radius_the_worst_case_itself_is_taken() -> None:
    ball = Ball(TotalVariation(), REFERENCE, np.inf, CONTEXTS, 0)
    values = np.random.default_rng(0).normal(size=(5, 7))
    np.testing.assert_array_equal(first_order(ball, values), values.min(axis=1))


def test_a_set_without_a_derivative_is_refused() -> None:
    ball = Ball(as_placed(Neighbourhood(CONTEXTS.points)), REFERENCE, 0.1, CONTEXTS, 0)
    with pytest.raises(TypeError, match="has no `slopes`, which a sensitivity needs"):
        FirstOrder().choose(Round(ball, GridSearch(ACTIONS), NOWHERE, NOWHERE), beliefs())


@pytest.mark.parametrize(("policy", "ambiguity"), [(FirstOrder(), KL()), (LipschitzPenalty(), Wasserstein())], ids=repr)
def test_a_floor_that_no_action_meets_gives_the_baseline(policy: Policy, ambiguity: AmbiguitySet) -> None:
    """V6."""
    opt = Optimizer(
        ACTIONS.points,
        CONTEXTS.points,
        ambiguity=ambiguity,
        setting=DataDriven(radius=0.1),
        surrogate=GP(Product(RBF(0.3), RBF(0.3)), 0.1),
        policy=policy,
        baseline=ACTIONS.points[2],
    )
    opt.tell(ACTIONS.points[2], 0.0, context_index=0)
    s = opt.ask(floor=1e6)
    assert (s.action_index, s.fallback) == (2, True)
