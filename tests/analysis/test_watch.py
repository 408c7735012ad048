"""The alarm: false alarms at the border of the set, what it finds, and the bounds that it bets on."""

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest

import drbo
from drbo import KL, MMD, RBF, ChiSquare, CVaR, Optimizer, Samples, Simulator, TotalVariation, Wasserstein
from drbo.ambiguity import PlacedSet
from drbo.ambiguity.placed import SupportsShift, SupportsWitness, on_range, supports
from drbo.analysis.watch import ContinuousBets, FiniteBets, Watched, gamble
from tolerances import STANDARD_ERRORS

P = np.array([0.4, 0.3, 0.2, 0.1])
WHERE = np.array([[0.0], [1.0], [2.0], [3.0]])
FINITE: list[tuple[PlacedSet, float]] = [
    (MMD(WHERE, RBF(1.0)).placed, 0.2),
    (TotalVariation(), 0.1),
    (KL(), 0.05),
    (ChiSquare(), 0.1),
    (CVaR(), 0.3),
    (Wasserstein().on(WHERE), 0.3),
]
PAST = np.random.default_rng(0).normal(size=30)
CONTINUOUS = [one.on(PAST) for one in (MMD(kernel=RBF(0.8)), Wasserstein(), Wasserstein(order=2.0))]
ALPHA, RUNS = 0.2, 60
MOST = ALPHA + STANDARD_ERRORS * math.sqrt(ALPHA * (1 - ALPHA) / RUNS)


@pytest.mark.parametrize(("ambiguity", "radius"), FINITE, ids=repr)
def test_false_alarms_at_the_border_of_a_finite_set(ambiguity: PlacedSet, radius: float) -> None:
    """Contexts are drawn from the worst distribution of the set for a random reward, which lies at the border."""
    rng = np.random.default_rng(1)
    alarms = 0
    for _ in range(RUNS):
        border = ambiguity.worst_case(rng.normal(size=4), P, radius).weights
        arrived = rng.choice(4, size=40, p=border / border.sum())
        alarms += gamble(FiniteBets(Watched(ambiguity, P, radius), arrived), 40, ALPHA, radius, "").alarm
    assert alarms / RUNS <= MOST
    far = rng.choice(4, size=200, p=[0.0, 0.05, 0.05, 0.9])
    assert gamble(FiniteBets(Watched(ambiguity, P, radius), far), 200, ALPHA, radius, "").alarm


@pytest.mark.parametrize("ambiguity", CONTINUOUS, ids=repr)
def test_false_alarms_at_the_border_of_samples(ambiguity: PlacedSet) -> None:
    """Contexts are those of the past, shifted by as much as the radius allows."""
    rng, p, shift = np.random.default_rng(2), np.full(30, 1 / 30), 0.5
    placed = ambiguity
    assert supports(placed, SupportsShift)
    radius = placed.moved(p, PAST[:, None] + shift)
    alarms = 0
    for _ in range(RUNS):
        arrived = rng.choice(PAST, size=(20, 1)) + shift
        alarms += gamble(ContinuousBets(Watched(ambiguity, p, radius), arrived), 20, ALPHA, radius, "").alarm
    assert alarms / RUNS <= MOST
    far = rng.choice(PAST, size=(100, 1)) + 4 * shift
    assert gamble(ContinuousBets(Watched(ambiguity, p, radius), far), 100, ALPHA, radius, "").alarm


@pytest.mark.parametrize("ambiguity", CONTINUOUS, ids=repr)
def test_no_distribution_of_the_set_has_a_larger_mean(ambiguity: PlacedSet) -> None:
    """The bound of a witness, against the worst case on atoms anywhere that a solver finds."""
    rng, p = np.random.default_rng(3), np.full(30, 1 / 30)
    further = rng.normal(scale=3.0, size=(40, 1))
    points = np.concatenate([PAST[:, None], further])
    wide = on_range(ambiguity).extended(further)
    assert supports(ambiguity, SupportsWitness)
    for radius in (0.1, 0.4):
        for arrived in (rng.normal(1.0, 1.0, (20, 1)), rng.normal(0.0, 4.0, (20, 1)), rng.normal(0.0, 0.1, (20, 1))):
            witness = ambiguity.witness(p, radius, arrived)
            assert witness is not None
            values = witness.values(points)
            reference = np.append(p, np.zeros(40))
            assert -wide.worst_case(-values, reference, radius).lower_bound <= witness.most + 1e-6
            assert values.min() >= witness.least - 1e-12


def optimizer(**more: Any) -> Optimizer:
    options: dict[str, Any] = {"setting": Simulator(radius=0.25, pick="uncertain"), **more}
    return Optimizer([0.0, 1.0], Samples(PAST, names=["load"]), **options)


def test_a_late_change_is_found_and_dated() -> None:
    rng, opt = np.random.default_rng(4), optimizer()
    twin = copy.deepcopy(opt)
    arrived = np.concatenate([rng.choice(PAST, 150), rng.normal(3.0, 0.5, 60)])
    told = opt.watch(arrived)
    assert told.alarm
    assert told.at is not None
    assert told.since is not None
    assert 150 <= told.at <= 200
    assert 100 <= told.since <= told.at
    assert told.evidence >= 1 / 0.05
    assert f"Alarm at context {told.at}" in str(told)
    assert "have left the set" in str(told)
    before = opt.watch(arrived[:150])
    assert not before.alarm
    assert before.at is before.since is None
    assert "No alarm after 150 contexts." in str(before)
    assert "No alarm after 1 context." in str(opt.watch(arrived[:1]))
    assert told.wealth[:100] == before.wealth[:100]  # what came later does not change what was known then
    assert opt.ask() == twin.ask()
    assert pickle.loads(pickle.dumps(told)) == told


def test_every_form_of_contexts_and_sets_that_have_no_test() -> None:
    opt = optimizer()
    values = [0.1, 2.0, -1.0, 5.0, 5.0, 5.0]
    told = opt.watch(values)
    for form in (np.array(values), np.array(values)[:, None], [{"load": v} for v in values], Samples(values)):
        if not isinstance(form, Samples):
            assert opt.watch(form) == told
    assert opt.watch({"load": values}) == told
    assert opt.watch([]).evidence == 1.0
    assert opt.watch([0.1]).evidence == 1.0
    for ambiguity in (TotalVariation(), KL(), CVaR(), drbo.Neighbourhood()):
        with pytest.raises(TypeError, match="watch has no test for"):
            optimizer(ambiguity=ambiguity).watch(values)
    with pytest.raises(ValueError, match="alpha must lie strictly between"):
        opt.watch(values, alpha=0.0)
    for one in (3.0, {"load": 3.0}, {"load": "Mon"}):
        with pytest.raises(TypeError, match="contexts must be a sequence"):
            opt.watch(one)


def test_labels_and_other_settings() -> None:
    rng = np.random.default_rng(5)
    arrived = rng.choice(["a", "b"], size=100, p=[0.1, 0.9])
    opt = Optimizer([0.0, 1.0], ["a", "b"], ambiguity=TotalVariation(), setting=drbo.General())
    with pytest.raises(TypeError, match="reference is missing"):
        opt.watch(arrived, radius=0.1)
    assert opt.watch(arrived, radius=0.1, reference=[0.6, 0.4]).alarm
    assert not opt.watch(arrived, radius=0.9, reference=[0.6, 0.4]).alarm
    fresh = Optimizer([0.0, 1.0], ["a", "b"], ambiguity=TotalVariation(), setting=drbo.DataDriven())
    assert not fresh.watch(arrived).alarm  # nothing is known: every distribution is in the set
