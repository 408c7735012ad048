"""A target in place of a radius: what is recommended for it on every kind of space, and the policy for it."""

import copy
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drbo
import ranges
import robos
from bits import bits
from drbo import (
    GP,
    KL,
    MMD,
    RBF,
    Box,
    DataDriven,
    Expectation,
    General,
    NotReachedError,
    Optimizer,
    Product,
    Samples,
    Satisficing,
    Simulator,
    TotalVariation,
    Uncertain,
)
from optimizer.middling import ACTIONS, CONTEXTS, f, grid

ROUND: dict[str, Any] = {"reference": np.array([0.3, 0.3, 0.2, 0.1, 0.1]), "radius": 0.2}


@pytest.mark.parametrize("ambiguity", [TotalVariation(), KL(), MMD(kernel=RBF(0.3))], ids=repr)
@pytest.mark.parametrize("goal", ["radius", "fragility"])
def test_against_bounds_of_every_action_at_many_radii(ambiguity: drbo.AmbiguitySet, goal: Any) -> None:
    opt = grid(ambiguity=ambiguity)
    p, target = ROUND["reference"], 0.9
    found = opt.under(reference=p).recommend_for(target, goal)
    radii = np.linspace(0.0, opt.configuration.placed.diameter(p), 81)[1:]
    lower = np.array([opt.predict(x, CONTEXTS[:, None]).lower for x in ACTIONS])
    values = np.array([opt.configuration.placed.worst_case(lower, p, r).expectation for r in radii]).T
    at_0 = lower @ p
    reached = np.array([radii[row >= target].max(initial=0.0) for row in values])
    fragile = np.where(at_0 >= target, ((target - values) / radii).max(axis=1), np.inf)
    i = found.action_index
    assert found.recommendation.value >= target
    assert found.recommendation.radius == found.radius
    assert opt.bound(found.action, reference=p, radius=found.radius).value >= target
    if goal == "radius":
        assert found.radius >= reached.max()
        assert reached[i] >= reached.max() - radii[0]
    else:
        assert fragile[i] <= fragile.min() * 1.05
    assert found.fragility >= fragile[i] * (1.0 - 1e-9)
    # What a fragility promises: at every radius the miss is at most fragility * radius.
    assert (values[i] >= target - found.fragility * radii - 1e-9).all()
    assert lower[i] @ p >= target


@pytest.mark.parametrize("goal", ["radius", "fragility"])
def test_the_two_goals_differ_and_minimising_mirrors_both(goal: Any) -> None:
    up, down = grid(), grid(maximize=False)
    a = up.under(reference=ROUND["reference"]).recommend_for(0.9, goal)
    b = down.under(reference=ROUND["reference"]).recommend_for(-0.9, goal)
    assert a.action_index == b.action_index
    assert b.radius == pytest.approx(a.radius, rel=1e-9)
    assert b.fragility == pytest.approx(a.fragility, rel=1e-9)
    assert "at most -0.9" in str(b)
    assert "at least 0.9" in str(a)


def test_scaled_outcomes_scale_the_fragility_and_not_the_radius() -> None:
    plain = grid().under(reference=ROUND["reference"]).recommend_for(0.9, "fragility")
    opt = Optimizer(
        ACTIONS, CONTEXTS, ambiguity=TotalVariation(), setting=General(),
        surrogate=GP(Product(RBF(0.5), RBF(0.5)), 0.05, offset=50.0, scale=10.0),
    )  # fmt: skip
    rng = np.random.default_rng(0)
    for _ in range(25):
        i, j = int(rng.integers(9)), int(rng.integers(5))
        opt.tell(ACTIONS[i], 50.0 + 10.0 * f(ACTIONS[i], CONTEXTS[j]), context_index=j)
    scaled = opt.under(reference=ROUND["reference"]).recommend_for(59.0, "fragility")
    assert scaled.action_index == plain.action_index
    assert scaled.radius == pytest.approx(plain.radius, rel=1e-6)
    assert scaled.fragility == pytest.approx(10.0 * plain.fragility, rel=1e-6)


def test_a_target_that_is_met_everywhere_and_one_that_is_met_nowhere() -> None:
    opt = grid()
    easy = opt.under(reference=ROUND["reference"]).recommend_for(-5.0)
    assert (easy.radius, easy.fragility) == (math.inf, 0.0)
    assert easy.recommendation.value >= -5.0
    with pytest.raises(NotReachedError, match="no bound reaches the target 9"):
        opt.under(reference=ROUND["reference"]).recommend_for(9.0)
    empty = Optimizer(ACTIONS, CONTEXTS, setting=General())
    with pytest.raises(NotReachedError, match="no outcome"):
        empty.under(reference=ROUND["reference"]).recommend_for(1.0)


def test_what_cannot_be_is_refused() -> None:
    opt = grid(ambiguity=Expectation())
    with pytest.raises(TypeError, match="the same at every radius"):
        opt.under(reference=ROUND["reference"]).recommend_for(0.5)
    with pytest.raises(ValueError, match="goal must be"):
        grid().under(reference=ROUND["reference"]).recommend_for(0.5, "robust")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="target must be finite"):
        grid().under(reference=ROUND["reference"]).recommend_for(math.inf)
    with pytest.raises(TypeError, match="reference is missing"):
        grid().under().recommend_for(0.5)


def test_a_query_changes_nothing_and_survives_copies_and_files(tmp_path: Path) -> None:
    policy = Satisficing(0.9, "fragility")
    opt, other = grid(policy=policy), grid(policy=policy)
    for one in (opt, other):
        one.tell(one.ask(**ROUND), failed=True, context_index=2)
        one.ask(**ROUND)
    first = opt.under().recommend_for(0.9)
    assert len(opt.history) == len(other.history)
    assert first.action_index != opt.results[-1].action  # a failure is never recommended
    opt.save(tmp_path / "run.json")
    for again in (opt, copy.deepcopy(opt), pickle.loads(pickle.dumps(opt)), Optimizer.load(tmp_path / "run.json")):
        assert again.configuration.policy == policy
        assert bits(again.under().recommend_for(0.9)) == bits(first)
        again._start_anew()
        assert bits(again.under().recommend_for(0.9)) == bits(first)
    assert bits(opt.ask(**ROUND)) == bits(other.ask(**ROUND))
    assert bits(Optimizer.load(tmp_path / "run.json").ask(**ROUND)) == bits(opt.pending[-1])


@pytest.mark.parametrize("goal", ["radius", pytest.param("fragility", marks=pytest.mark.slow)])
def test_a_box_with_compressed_samples(goal: Any) -> None:
    """The radius is beside what compression costs, and holds for the samples themselves."""
    rng = np.random.default_rng(1)
    samples = Samples({"demand": rng.normal(0.4, 0.15, 300)}, atoms=12)
    opt = Optimizer(
        Box(x=(0.0, 1.0)), samples, setting=Simulator(radius=0.1),
        surrogate=GP(Product(RBF(0.4), RBF(0.4)), 0.05),
        policy=Satisficing(0.8, goal, Uncertain()),
    )  # fmt: skip
    for _ in range(12):
        s = opt.ask()
        opt.tell(s, f(s.action["x"], s.context["demand"]))
    target = opt.recommend(radius=0.2).value
    found = opt.under().recommend_for(target, goal)
    again = opt.bound(found.action, radius=found.radius)
    assert again.value >= target
    assert found.recommendation.radius == again.radius > found.radius
    assert 0.0 < found.fragility < math.inf


@pytest.mark.parametrize("ambiguity", [pytest.param(None, marks=pytest.mark.slow), TotalVariation()], ids=repr)
def test_contexts_with_a_range(ambiguity: Any) -> None:
    opt = Optimizer(
        ranges.GRID, ranges.SAMPLES, ambiguity=ambiguity, setting=Simulator(radius=0.1),
        surrogate=ranges.FIXED,
        policy=Satisficing(-3.0, "radius", Uncertain()),
    )  # fmt: skip
    ranges.run(opt, 8)
    target = opt.recommend(radius=0.05).value
    found = opt.under().recommend_for(target)
    assert found.recommendation.value >= target
    assert opt.bound(found.action, radius=found.radius).value >= target
    assert found.radius >= 0.045
    beyond = 3.0 * found.radius
    assert opt.bound(found.action, radius=beyond).value >= target - found.fragility * beyond - 1e-2


def test_labels_learned_models_and_what_is_known() -> None:
    opt = Optimizer(
        ["low", "high"], {"calm": 6, "storm": 4}, ambiguity=TotalVariation(), setting=DataDriven(radius=0.1)
    )
    for i in range(8):
        label = "calm" if i % 2 else "storm"
        outcome = {"lowcalm": 1.0, "lowstorm": 0.8, "highcalm": 2.0, "highstorm": -1.0}
        action = "low" if i % 4 < 2 else "high"
        opt.tell(action, outcome[action + label] + 0.01 * i, context=label, drawn=False)
    assert opt.under().recommend_for(0.3).action == "low"
    assert opt.under().recommend_for(0.3, "fragility").action == "low"
    assert opt.under(given={0: "calm"}).recommend_for(1.0).action == "high"


def test_the_policy_learns_to_reach_the_target() -> None:
    """On RoBOS' own function the target 0.3 is reached at every radius by x = -0.5, and by no other action."""
    for goal in ("fragility", "radius"):
        policy = Satisficing(0.3, goal, Uncertain())
        opt = robos.make(Simulator(robos.REFERENCE, robos.RADIUS), policy=policy)
        asked = robos.run(opt, 20)
        assert [s.action_index for s in asked[-6:]] == [3] * 6
        assert opt.under().recommend_for(0.22).action_index == 3


def test_the_policy_with_limits_in_production() -> None:
    opt = grid(baseline=0.5, policy=Satisficing(0.9))
    safe = opt.ask(floor=0.8, **ROUND)
    assert safe.fallback or opt.bound(safe.action).value >= 0.8 - 1e-9
    assert opt.ask(floor=50.0, **ROUND).fallback
    assert opt.ask(action=0.25, **ROUND).action[0] == 0.25
    boxed = heating_with_limits()
    with pytest.raises(TypeError, match="every context as an atom"):
        boxed.ask(floor=-5.0)


def heating_with_limits() -> Optimizer:
    opt = Optimizer(
        ranges.GRID, ranges.SAMPLES, setting=Simulator(radius=0.1),
        surrogate=ranges.FIXED, baseline=ranges.GRID[10],
        policy=Satisficing(-3.0, "radius", Uncertain()),
    )  # fmt: skip
    ranges.run(opt, 2)
    return opt
