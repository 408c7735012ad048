"""Every setting through one contract, and what each of them adds."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from drbo import (
    MMD,
    RBF,
    DataDriven,
    Expectation,
    General,
    Informative,
    Optimism,
    Pessimistic,
    Samples,
    Setting,
    Simulator,
    Uncertain,
    ValueOfInformation,
)
from drbo.contexts.nature import Contexts, FiniteContexts
from drbo.contexts.sampled_contexts import SampledContexts
from drbo.radius import Bootstrap, Constant, Theoretical, empirical
from drbo.rounds.policies import Policy
from drbo.spaces import FiniteSet

MMD3 = MMD([0.0, 0.5, 1.0])
LINE = FiniteContexts(FiniteSet("contexts", [0.0, 0.5, 1.0]))
SAMPLED = SampledContexts(Samples([0.0, 1.0, 1.0, 3.0]), MMD(), seed=0)


def ball(
    setting: Setting, reference: Any, radius: Any, seen: Sequence[int] = (), contexts: Contexts = LINE
) -> tuple[np.ndarray, float]:
    """The weights and the radius of one round."""
    points = [contexts.space.at("context_index", i) for i in seen]
    made = setting.reference_of(reference, contexts, points)
    return made.weights, setting.radius_of(radius, made, MMD3.placed)


@pytest.mark.parametrize(
    ("setting", "policy", "events"),
    [
        (General(), Optimism(), 2),
        (DataDriven(), Optimism(), 3),
        (Simulator([0.2, 0.3, 0.5], 0.1, pick="uncertain"), Optimism(Uncertain()), 1),
        (Simulator([0.2, 0.3, 0.5], 0.1, pick="informative"), Optimism(Informative()), 1),
        (Simulator([0.2, 0.3, 0.5], 0.1, pick="pessimistic"), Optimism(Pessimistic()), 1),
        (Simulator([0.2, 0.3, 0.5], 0.1, pick="valuable"), ValueOfInformation(), 1),
        (Simulator([0.2, 0.3, 0.5], 0.1), Optimism(Informative()), 1),
    ],
    ids=repr,
)
def test_contract(setting: Setting, policy: Policy, events: int) -> None:
    assert setting.policy == policy
    assert setting.events == events
    setting.check(LINE)
    reference, radius = ([0.2, 0.3, 0.5], 0.1) if isinstance(setting, General) else (None, None)
    p, eps = ball(setting, reference, radius, [1, 1, 2])
    assert p.shape == (3,)
    assert p.sum() == pytest.approx(1.0)
    assert eps >= 0.0


def test_general_needs_both() -> None:
    with pytest.raises(TypeError, match="reference is missing"):
        ball(General(), None, 0.1)
    with pytest.raises(TypeError, match="radius is missing"):
        ball(General(), [0.2, 0.3, 0.5], None)
    with pytest.raises(ValueError, match="reference must hold 3 weights"):
        ball(General(), [0.5, 0.5], 0.1)
    with pytest.raises(ValueError, match="radius must be zero or more"):
        ball(General(), [0.2, 0.3, 0.5], -0.1)
    assert General() == General()
    assert hash(General()) == hash(General())


def test_samples_are_the_reference_of_the_general_setting() -> None:
    own = SAMPLED.own()
    assert own is not None
    np.testing.assert_array_equal(ball(General(), None, 0.1, contexts=SAMPLED)[0], own.weights)
    other, _ = ball(General(), Samples([0.0, 3.0]), 0.1, contexts=SAMPLED)
    assert sorted(other[other > 0.0].tolist()) == [0.5, 0.5]


def test_data_driven_reference_is_empirical() -> None:
    p, eps = ball(DataDriven(delta=0.2), None, None, [1, 1, 2, 0])
    np.testing.assert_array_equal(p, [0.25, 0.5, 0.25])
    assert eps == pytest.approx((2 + math.sqrt(2 * math.log(6 * 16 / 0.2))) / 2)


def test_before_the_first_context_everything_is_possible() -> None:
    p, eps = ball(DataDriven(), None, None)
    np.testing.assert_allclose(p, 1 / 3)
    assert eps == math.inf


def test_data_driven_takes_any_rule() -> None:
    assert ball(DataDriven(radius=0.3), None, None)[1] == 0.3
    assert ball(DataDriven(radius=Constant(0.4)), None, None)[1] == 0.4
    seen = np.array([0, 1])
    full = Theoretical(0.1).radius(seen, MMD3, 3)
    assert Theoretical(0.1, factor=0.25).radius(seen, MMD3, 3) == pytest.approx(full / 4)


def test_theoretical_radius_scales_with_the_kernel() -> None:
    seen = np.array([0, 1])
    large = MMD([0.0, 0.5, 1.0], RBF(0.1, amplitude=3.0))
    assert Theoretical().radius(seen, large, 3) == pytest.approx(3 * Theoretical().radius(seen, MMD3, 3))
    assert Theoretical().radius(seen, Expectation(), 3) == Theoretical().radius(seen, MMD3, 3)


def test_the_truth_is_within_the_theoretical_radius_at_all_times() -> None:
    """Corollary 4 gives the radius a third of delta; every run of 200 should be covered, and a tenth of it not."""
    rng = np.random.default_rng(0)
    contexts = np.linspace(0, 1, 20)
    mmd, truth = MMD(contexts, RBF(0.1)), rng.dirichlet(np.ones(20))
    covered = {1.0: 0, 0.1: 0}
    for _ in range(200):
        seen = rng.choice(20, size=30, p=truth)
        distances = [mmd.distance(empirical(seen[:t], 20), truth) for t in range(1, 31)]
        for factor in covered:
            radii = [Theoretical(0.1, factor).radius(seen[:t], mmd, 20) for t in range(1, 31)]
            covered[factor] += bool((np.array(distances) <= radii).all())
    assert covered[1.0] == 200
    assert covered[0.1] < 100


def test_simulator_from_history() -> None:
    p, eps = ball(Simulator(radius=0.2, history=[0, 0, 2, 2], pick="uncertain"), None, None)
    np.testing.assert_array_equal(p, [0.5, 0.0, 0.5])
    assert eps == 0.2


def test_a_rule_learns_the_simulators_radius_from_its_history() -> None:
    history = np.tile([0, 0, 2, 1], 10)
    rule = Bootstrap(resamples=50)
    expected = rule.radius(history, MMD3, 3)
    assert ball(Simulator(radius=rule, history=history, pick="uncertain"), None, None)[1] == expected
    weighted = Simulator([0.2, 0.3, 0.5], rule, history=history, pick="uncertain")
    np.testing.assert_array_equal(ball(weighted, None, None)[0], [0.2, 0.3, 0.5])
    assert ball(weighted, None, None)[1] == expected
    sampled = Simulator(radius=rule, pick="uncertain").reference_of(None, SAMPLED, [])
    placed = MMD().on(SAMPLED.space.measured(sampled.points), SAMPLED.space.scales)
    learned = Simulator(radius=rule, pick="uncertain").radius_of(None, sampled, placed)
    assert learned == rule.radius(sampled.history, placed, len(sampled.points))


def test_a_ball_that_the_data_give_must_not_be_given() -> None:
    with pytest.raises(TypeError, match="radius must not be given"):
        ball(DataDriven(), None, 0.1)


def test_a_simulator_takes_the_ball_of_one_round() -> None:
    """P_t and epsilon_t of algorithm 2, each alone or both; without them it is as it was made."""
    setting = Simulator([0.2, 0.3, 0.5], 0.1, pick="uncertain")
    for reference, radius in (([0.5, 0.5, 0.0], None), (None, 0.4), ([0.5, 0.5, 0.0], 0.4), (None, None)):
        p, eps = ball(setting, reference, radius)
        np.testing.assert_array_equal(p, [0.2, 0.3, 0.5] if reference is None else reference)
        assert eps == (0.1 if radius is None else radius)
    with pytest.raises(ValueError, match="reference must hold 3 weights"):
        ball(setting, [0.5, 0.5], None)
    with pytest.raises(ValueError, match="radius must be zero or more"):
        ball(setting, None, -1.0)


def test_bad_construction() -> None:
    with pytest.raises(ValueError, match="delta must lie strictly between 0 and 1"):
        DataDriven(delta=0.0)
    with pytest.raises(ValueError, match="radius must be zero or more"):
        DataDriven(radius=-0.1)
    with pytest.raises(TypeError, match="radius must be a number"):
        DataDriven(radius="large")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="radius must be zero or more"):
        Simulator([1.0], float("nan"), pick="uncertain")
    with pytest.raises(TypeError, match="radius must be given"):
        Simulator([1.0], pick="uncertain").check_radius(LINE, MMD())
    with pytest.raises(TypeError, match="Simulator needs a reference"):
        Simulator(radius=0.1, pick="uncertain").check(LINE)
    with pytest.raises(TypeError, match="reference must not be given to Simulator: the samples are"):
        Simulator([1.0], radius=0.1, pick="uncertain").check(SAMPLED)
    with pytest.raises(
        ValueError, match='pick must be "uncertain", "informative", "pessimistic" or "valuable", got \'best\''
    ):
        Simulator([1.0], 0.1, pick="best")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="history must be a flat sequence"):
        Simulator(radius=0.1, history=[0.5], pick="uncertain")
    with pytest.raises(ValueError, match="history must hold indices from 0 to 2"):
        Simulator(radius=0.1, history=[3], pick="uncertain").check(LINE)
    with pytest.raises(ValueError, match="reference must hold 3 weights"):
        Simulator([0.5, 0.5], radius=0.1, pick="uncertain").check(LINE)
    with pytest.raises(TypeError, match="samples are given as contexts=Samples"):
        Simulator(Samples([0.0]), radius=0.1, pick="uncertain")  # type: ignore[arg-type]
