"""Which context to evaluate in: the rules against their formulas."""

import numpy as np
import pytest

from drbo import KL, MMD, RBF, AmbiguitySet, Informative, Neighbourhood, Pessimistic, TotalVariation, Uncertain
from drbo.ambiguity.family import as_placed
from drbo.models.data import Observation
from drbo.models.regression import ExactPosterior
from drbo.rounds.ball import Ball
from drbo.rounds.context_rules import ContextRule
from drbo.spaces import Point
from rounds.beliefs import ACTIONS, CONTEXTS, REFERENCE, beliefs
from tolerances import CLOSED_FORM

SETS: list[AmbiguitySet] = [MMD(CONTEXTS.points, RBF(0.2)), TotalVariation()]


@pytest.mark.parametrize("seed", range(4))
def test_the_context_of_which_we_know_least(seed: int) -> None:
    known, ball = beliefs(seed), Ball(as_placed(SETS[0]), REFERENCE, 0.2, CONTEXTS, seed)
    for i in range(len(ACTIONS)):
        action = ACTIONS.at("action_index", i)
        _, variance = known.ahead.of_action(action)  # pending evaluations count
        assert Uncertain().pick(ball, known, action).index == int(np.argmax(variance))


def of_average(posterior: ExactPosterior, action: Point, w: np.ndarray) -> float:
    """The variance of <w, f(x, .)>, from what an average over the contexts would still tell."""
    ahead = posterior.with_more([Observation(action.coordinates, CONTEXTS.coordinates, w, None)])
    return float(ahead.gp.ridge * np.expm1(ahead.information_gain - posterior.information_gain))


@pytest.mark.parametrize("ambiguity", SETS, ids=repr)
@pytest.mark.parametrize("seed", range(4))
def test_the_context_that_tells_most_of_the_worst_case(seed: int, ambiguity: AmbiguitySet) -> None:
    """By the variance that is left after one more outcome in each context, from a posterior that took it in."""
    known, ball = beliefs(seed), Ball(as_placed(ambiguity), REFERENCE, 0.2, CONTEXTS, seed)
    for i in (0, 4, 8):
        action = ACTIONS.at("action_index", i)
        mean, variance = known.ahead.of_action(action)
        w = ambiguity.worst_case(mean - 2.0 * np.sqrt(variance), REFERENCE.weights, 0.2).weights

        left = []
        for c in CONTEXTS.coordinates:
            told = known.ahead.with_more([Observation.of(action.coordinates, c, None)])
            left.append(of_average(told, action, w))
        picked = Informative().pick(ball, known, action).index
        assert picked is not None
        assert left[picked] == pytest.approx(min(left), abs=CLOSED_FORM)
        assert left[picked] < of_average(known.ahead, action, w)


@pytest.mark.parametrize("radius", [0.0, 0.2, 0.35, np.inf])
@pytest.mark.parametrize("seed", range(4))
def test_the_rule_of_stableopt(seed: int, radius: float) -> None:
    """argmin lcb over Delta_t: the contexts within the radius of the reference's mean, or the nearest one."""
    known, ball = beliefs(seed), Ball(as_placed(Neighbourhood(CONTEXTS.points)), REFERENCE, radius, CONTEXTS, seed)
    distance = np.abs(CONTEXTS.points[:, 0] - REFERENCE.weights @ CONTEXTS.points[:, 0])
    near = distance <= max(radius, distance.min())
    for i in range(len(ACTIONS)):
        action = ACTIONS.at("action_index", i)
        mean, variance = known.ahead.of_action(action)
        lcb = np.where(near, mean - 2.0 * np.sqrt(variance), np.inf)
        assert Pessimistic().pick(ball, known, action).index == int(np.argmin(lcb))


@pytest.mark.parametrize("ambiguity", [*SETS, KL()], ids=repr)
def test_a_pessimist_picks_the_lowest_context_of_the_worst_case(ambiguity: AmbiguitySet) -> None:
    known, ball = beliefs(1), Ball(as_placed(ambiguity), REFERENCE, 0.1, CONTEXTS, 0)
    for i in range(len(ACTIONS)):
        action = ACTIONS.at("action_index", i)
        mean, variance = known.ahead.of_action(action)
        lcb = mean - 2.0 * np.sqrt(variance)
        w = ambiguity.worst_case(lcb, REFERENCE.weights, 0.1).weights
        assert Pessimistic().pick(ball, known, action).index == int(np.argmin(np.where(w > 0.0, lcb, np.inf)))


@pytest.mark.parametrize("rule", [Uncertain(), Informative(), Pessimistic()], ids=repr)
def test_before_the_first_outcome_ties_go_to_the_first_context(rule: ContextRule) -> None:
    ball = Ball(as_placed(SETS[0]), REFERENCE, 0.0, CONTEXTS, 0)
    known = beliefs(n=0, pending=0)
    if isinstance(rule, Uncertain):
        assert rule.pick(ball, known, ACTIONS.at("action_index", 3)).index == 0
    again = [rule.pick(ball, known, ACTIONS.at("action_index", 3)).index for _ in range(2)]
    assert again[0] == again[1]
