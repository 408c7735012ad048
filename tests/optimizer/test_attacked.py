"""What an attack on version 0.2 found, each with the test that would have found it."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from drbo import (
    GP,
    RBF,
    Box,
    Categorical,
    DataDriven,
    General,
    Integer,
    Optimizer,
    Product,
    Samples,
    Simulator,
    TheoreticalBeta,
    radius,
)

KERNEL = Product(RBF(0.3), RBF(0.3))
X, C = np.linspace(0.0, 1.0, 6), np.linspace(0.0, 1.0, 4)


def make(actions: Any = X, contexts: Any = C, *, setting: Any = None, **more: Any) -> Optimizer:
    chosen = Simulator(np.full(4, 0.25), 0.1, pick="uncertain") if setting is None else setting
    return Optimizer(actions, contexts, setting=chosen, **{"surrogate": GP(KERNEL, 0.05), **more})


def test_minimising_with_an_offset_is_maximising_its_mirror_image() -> None:
    """Costs near 20 had a prior mean of -20, and a guarantee by theorem that was false."""
    beta = TheoreticalBeta(bound=1.0, noise=0.05)
    cost = make(surrogate=GP(KERNEL, 0.05, offset=20.0, scale=2.0), maximize=False, beta=beta)
    gain = make(surrogate=GP(KERNEL, 0.05, offset=-20.0, scale=2.0), beta=beta)
    assert cost.predict(0.0, 0.0).mean == 20.0
    for _ in range(8):
        s, t = cost.ask(), gain.ask()
        assert (s.action_index, s.context_index) == (t.action_index, t.context_index)
        y = 20.0 + float(np.sin(4 * s.action[0]) * s.context[0])
        cost.tell(s, y)
        gain.tell(t, -y)
    assert cost.recommend().value == -gain.recommend().value
    assert cost.recommend().value >= 20.0


@pytest.mark.parametrize("weights", [pd.Series([1.0, 2.0, 3.0, 4.0]), range(1, 5), np.array([1, 2, 3, 4])], ids=type)
def test_a_reference_is_a_fact_that_nobody_can_change(weights: Any, tmp_path: Path) -> None:
    opt = make(setting=General())
    s = opt.ask(reference=weights, radius=0.1)
    if not isinstance(weights, range):
        weights[:] = [9, 1, 0, 0]
    np.testing.assert_allclose(opt.pending[0].reference, [0.1, 0.2, 0.3, 0.4])
    opt.tell(pickle.loads(pickle.dumps(s)), 1.0, context_index=0)
    opt.save(tmp_path / "state.drbo")
    np.testing.assert_allclose(Optimizer.load(tmp_path / "state.drbo").recommend().reference, [0.1, 0.2, 0.3, 0.4])


def test_a_history_of_unsigned_numbers_can_be_saved(tmp_path: Path) -> None:
    past = np.array([0, 1, 2], dtype=np.uint8)
    opt = make(setting=Simulator(radius=0.1, history=past, pick="uncertain"))
    past[:] = 3
    opt.save(tmp_path / "state.drbo")
    loaded = Optimizer.load(tmp_path / "state.drbo")
    np.testing.assert_array_equal(loaded.ask().reference, opt.ask().reference)
    assert opt.ask().reference[3] == 0.0


def test_recommend_raises_only_if_nothing_has_succeeded() -> None:
    opt = make(Box(mode=Categorical("a", "b")), surrogate=GP(KERNEL, 0.05))
    opt.tell({"mode": "a"}, failed=True, context=0.0)
    assert opt.recommend().action == {"mode": "b"}
    opt.tell({"mode": "b"}, failed=True, context=0.0)
    with pytest.raises(RuntimeError, match="nothing has succeeded: every action has failed"):
        opt.recommend()
    opt.tell({"mode": "a"}, 1.0, context=0.0)
    assert opt.recommend().action == {"mode": "a"}


def test_equal_actions_fail_and_work_together() -> None:
    opt = make(np.array([0.0, 0.0, 0.5, 1.0]))
    opt.tell(0.0, failed=True, context=0.0)
    assert opt.recommend().action != 0.0
    for c in C:
        opt.tell(0.0, 5.0, context=c)
    assert opt.recommend().action == 0.0


def test_whole_numbers_beside_a_failed_one_are_others() -> None:
    opt = make(Box(k=Integer(0, 200)))
    for k in (99, 100, 101):
        for c in C:
            opt.tell({"k": k}, 5.0 - 0.01 * abs(k - 100), context=c)
    opt.tell({"k": 101}, failed=True, context=0.0)
    assert opt.recommend().action == {"k": 100}


def test_a_radius_learned_from_data_does_not_depend_on_the_search() -> None:
    samples = Samples(np.random.default_rng(0).random(30), within=Box(c=(0.0, 1.0)), support=16)
    opt = make(contexts=samples, setting=Simulator(radius=radius.Bootstrap(resamples=50), pick="uncertain"))
    radii = set()
    for i in range(8):
        s = opt.ask()
        radii.add(s.radius)
        opt.tell(s, float(np.sin(15 * s.context["c"] + i) * s.action[0]))
    assert len(radii) == 1
    assert any(len(proposal.further) for fact in opt.history for proposal in getattr(fact, "proposals", ()))


def test_a_table_keeps_columns_of_one_name_apart() -> None:
    opt = make(Box(x=(0.0, 1.0), time=(0.0, 1.0)), Box(x=(0.0, 1.0)), setting=DataDriven())
    opt.tell({"x": 0.8, "time": 0.3}, 1.0, context={"x": 0.7})
    row = opt.to_frame().iloc[0]
    assert (row["action.x"], row["context.x"], row["action.time"]) == pytest.approx((0.8, 0.7, 0.3))


def test_nothing_is_predicted_before_the_first_outcome() -> None:
    p = Optimizer(X, C, setting=Simulator(np.full(4, 0.25), 0.1, pick="uncertain"), maximize=False).predict(0.0, 0.0)
    assert np.isnan([p.mean, p.std]).all()
    assert (p.lower, p.upper) == (-np.inf, np.inf)


def test_a_certificate_is_not_above_what_is_predicted() -> None:
    """Both rest on hyper-parameters learned from every outcome."""
    rng = np.random.default_rng(0)
    opt = Optimizer(X, C, setting=Simulator(np.full(4, 0.25), 0.0, pick="uncertain"))
    for _ in range(16):
        s = opt.ask()
        opt.tell(s, float(np.sin(4 * s.action[0]) + s.context[0] + 0.1 * rng.normal()))
        r = opt.recommend()
        lower = np.mean([opt.predict(r.action, c).lower for c in C])
        assert r.value <= lower + 1e-9


def test_ranges_beyond_the_floats_are_refused() -> None:
    with pytest.raises(ValueError, match="high - low must be finite"):
        Box(x=(-1e308, 1e308))
    assert GP(KERNEL, 1e-7).noise == 1e-7
