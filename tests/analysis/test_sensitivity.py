"""How fast the bound of an action falls as the radius grows, on every kind of space."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drbo
import ranges
from bits import bits
from drbo import (
    GP,
    KL,
    MMD,
    RBF,
    Box,
    Matern,
    Optimism,
    Optimizer,
    Product,
    Samples,
    Simulator,
    TotalVariation,
    Uncertain,
)
from twins import TWINS

ACTIONS, CONTEXTS = np.linspace(0.0, 1.0, 9), np.linspace(0.0, 1.0, 5)
P = np.array([0.3, 0.3, 0.2, 0.1, 0.1])
SURROGATE = GP(Product(RBF(0.5), RBF(0.5)), 0.05)


def f(x: float, c: float) -> float:
    return float(1.0 + 0.8 * x - 2.5 * x * (c - 0.3) ** 2 - 0.5 * (1.0 - x) ** 2)


def grid(told: int = 12, *, maximize: bool = True, **options: Any) -> Optimizer:
    chosen: dict[str, Any] = {
        "setting": Simulator(P, 0.2, pick="uncertain"),
        "surrogate": SURROGATE,
        "maximize": maximize,
        **options,
    }
    opt = Optimizer(ACTIONS, CONTEXTS, **chosen)
    for _ in range(told):
        s = opt.ask()
        opt.tell(s, (1.0 if maximize else -1.0) * f(float(s.action[0]), float(s.context[0])))
    return opt


@pytest.mark.parametrize("maximize", [True, False], ids=["maximise", "minimise"])
@pytest.mark.parametrize("ambiguity", [TotalVariation(), KL(), MMD(kernel=Matern(0.3, nu=1.5))], ids=repr)
def test_bounds_of_two_radii(ambiguity: drbo.AmbiguitySet, maximize: bool) -> None:
    opt = grid(maximize=maximize, ambiguity=ambiguity)
    found, sign, step = opt.under().sensitivity(), 1.0 if maximize else -1.0, 1e-6
    assert found.action_index == opt.recommend().action_index
    for own, radius in ((found.sensitivity, 0.2), (found.sensitivity_at_reference, 0.0)):
        more = (radius**found.power + step) ** (1.0 / found.power)
        here, there = (opt.bound(found.action, radius=r).value for r in (radius, more))
        assert sign * (here - there) / step == pytest.approx(own, rel=1e-3, abs=1e-6)
    assert found.bound == opt.bound(found.action).value
    assert found.at_reference == pytest.approx(opt.bound(found.action, radius=0.0).value, rel=1e-12)
    lost = found.sensitivity_at_reference * 0.2**found.power
    assert found.approximation == pytest.approx(found.at_reference - sign * lost, rel=1e-12)
    assert found.error == pytest.approx(sign * (found.approximation - found.bound), abs=1e-12)


def test_another_action_radius_and_reference() -> None:
    opt = grid(ambiguity=TotalVariation())
    q = P[::-1].copy()
    lower = opt.predict(ACTIONS[3], CONTEXTS[:, None]).lower
    found = opt.under(radius=0.05, reference=q).sensitivity(ACTIONS[3])
    assert found.action_index == 3
    assert found.radius == 0.05
    assert found.at_reference == pytest.approx(float(q @ lower), rel=1e-9)
    assert found.sensitivity == pytest.approx(float(np.ptp(lower)), rel=1e-9)  # the first 10% have one value
    for other in (
        opt.under().sensitivity(ACTIONS[3]),
        opt.under(radius=0.05).sensitivity(),
        opt.under(reference=q).sensitivity(),
    ):
        assert bits(other) != bits(found)
    assert opt.under(radius=np.inf).sensitivity(ACTIONS[3]).sensitivity == 0.0
    assert opt.under(radius=np.inf).sensitivity(ACTIONS[3]).error == -np.inf


def test_text() -> None:
    assert str(grid(ambiguity=KL()).under().sensitivity()).startswith("bound at radius 0.2: ")
    assert "per unit of the square root of the radius\nto first order" in str(
        grid(ambiguity=KL()).under().sensitivity()
    )


def test_contexts_with_a_range_and_actions_of_a_box() -> None:
    """With total variation: between the highest sample and the lowest point of the whole range."""
    opt = Optimizer(
        Box(x=(0.0, 1.0)),
        Samples(np.linspace(0.3, 0.6, 10), within=Box(c=(0.0, 1.0))),
        ambiguity=TotalVariation(),
        setting=Simulator(radius=0.1),
        surrogate=SURROGATE,
        policy=Optimism(Uncertain()),
    )
    for _ in range(6):
        s = opt.ask()
        opt.tell(s, f(s.action["x"], s.context["c"]))
    found = opt.under().sensitivity()
    lower = opt.predict(found.action, np.linspace(0.0, 1.0, 2001)[:, None]).lower
    samples = opt.predict(found.action, np.linspace(0.3, 0.6, 10)[:, None]).lower
    assert found.sensitivity_at_reference == pytest.approx(float(samples.max() - lower.min()), rel=1e-3)
    more = opt.bound(found.action, radius=0.1001).value
    assert (found.bound - more) / 1e-4 == pytest.approx(found.sensitivity, rel=0.02)


def test_compressed_samples_and_mixed_columns() -> None:
    opt = Optimizer(
        ranges.ACTIONS, ranges.SAMPLES, setting=Simulator(radius=0.2, pick="uncertain"), surrogate=ranges.FIXED
    )
    ranges.run(opt, 4)
    found = opt.under().sensitivity()
    more = opt.bound(found.action, radius=0.21).value
    assert 0.0 < (found.bound - more) / 0.01 < 1.05 * found.sensitivity + 1e-3  # convex, up to the tolerance
    assert found.error < 0.0


def test_a_query_changes_nothing_and_is_the_same_after_a_resume(tmp_path: Path) -> None:
    opt = grid(6, ambiguity=KL(), policy=Optimism(Uncertain()), setting=Simulator(P, 0.2))
    other = copy.deepcopy(opt)
    before, answer = len(opt.history), bits(opt.under().sensitivity())
    assert len(opt.history) == before
    next_one = other.ask()  # of an optimizer that was asked for no sensitivity
    for name, twin in TWINS.items():
        again = twin(opt, tmp_path / f"{name}.drbo")
        assert again.configuration.policy == Optimism(Uncertain())
        assert bits(again.under().sensitivity()) == answer
        s = again.ask()
        assert (s.action_index, s.context_index) == (next_one.action_index, next_one.context_index)
        assert bits(again.under().sensitivity()) == answer  # what is pending does not count
        again.cancel(s)


def test_failures_and_retracted_outcomes() -> None:
    opt = grid(8, ambiguity=KL())
    found = opt.under().sensitivity()
    opt.tell(opt.ask(), failed=True)
    opt.retract(opt.results[-2])
    again = opt.under().sensitivity()
    fewer = grid(7, ambiguity=KL()).under().sensitivity(again.action)
    assert again.sensitivity == pytest.approx(fewer.sensitivity, rel=1e-9)
    assert bits(found) != bits(again)


def test_refused() -> None:
    with pytest.raises(RuntimeError, match="sensitivity needs an outcome"):
        Optimizer(ACTIONS, CONTEXTS, setting=Simulator(P, 0.2, pick="uncertain")).under().sensitivity()
    opt = grid(2, ambiguity=drbo.Neighbourhood())
    with pytest.raises(TypeError, match="has no `slopes`, which a sensitivity needs"):
        opt.under().sensitivity()
    with pytest.raises(ValueError, match="radius"):
        grid(2).under(radius=-1.0).sensitivity()
