"""The facts: one record per command, in order, and what users see of them."""

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import drbo
import heating
import robos
from bits import bits
from drbo import Optimizer, Simulator
from drbo.knowledge.history import Asked, Cancelled, Told


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the first record be of second 1000, the next one of 1001, and so on."""
    ticks = itertools.count(1000)
    monkeypatch.setattr("drbo.knowledge.history.now", lambda: float(next(ticks)))


@pytest.mark.usefixtures("clock")
def test_every_command_appends_one_record(tmp_path: Path) -> None:
    opt = heating.make(Simulator(radius=0.2, pick="uncertain"))
    first, second = opt.ask(2)
    opt.tell(second, 1.0)
    opt.cancel(first)
    third = opt.ask()
    opt.tell(third, failed=True)
    opt.tell(third.action, 2.0, context=third.context)
    facts = opt.history
    assert [type(fact) for fact in facts] == [Asked, Told, Cancelled, Asked, Told, Told]
    assert [fact.time for fact in facts] == [1000.0, 1001.0, 1002.0, 1003.0, 1004.0, 1005.0]
    assert isinstance(facts[0], Asked)
    assert [p.number for p in facts[0].proposals] == [0, 1]
    assert isinstance(facts[2], Cancelled)
    assert facts[2].number == 0
    opt.save(tmp_path / "state.json")
    assert bits(Optimizer.load(tmp_path / "state.json").history) == bits(facts)
    for fact in facts:
        with pytest.raises(dataclasses.FrozenInstanceError):
            fact.number = 7  # type: ignore[misc,union-attr]


@pytest.mark.usefixtures("clock")
def test_results_are_what_was_told(tmp_path: Path) -> None:
    """U3: in the user's units, in order, with numbers and times."""
    opt = heating.make(Simulator(radius=0.2, pick="uncertain"), maximize=False, surrogate=drbo.LearnedGP())
    first, second = opt.ask(), opt.ask()
    opt.tell(second, 40.0)
    opt.tell(first, failed=True)
    opt.tell({"setpoint": 20.0, "gain": 0.01, "stages": 2, "mode": "eco"}, 41, context={"outdoor": 3.0, "load": 0.4})
    opt.save(tmp_path / "state.json")
    for some in (opt, Optimizer.load(tmp_path / "state.json")):
        a, b, c = some.results
        assert (a.number, a.outcome, a.failed, a.time) == (second.number, 40.0, False, 1002.0)
        assert (a.action, a.context) == (second.action, second.context)
        assert (b.number, b.outcome, b.failed, b.time) == (first.number, None, True, 1003.0)
        assert (b.action, b.context) == (first.action, first.context)
        assert (c.number, c.outcome, c.failed, c.time) == (None, 41.0, False, 1004.0)
        assert c.action == pytest.approx({"setpoint": 20.0, "gain": 0.01, "stages": 2, "mode": "eco"})
        assert c.context == pytest.approx({"outdoor": 3.0, "load": 0.4})


@pytest.mark.usefixtures("clock")
def test_a_table_of_the_results() -> None:
    opt = heating.make(Simulator(radius=0.2, pick="uncertain"))
    heating.run(opt, 3)
    opt.tell(opt.ask(), failed=True)
    frame = opt.to_frame()
    columns = "result number setpoint gain stages mode outdoor load outcome stderr failed time"
    assert frame.columns.tolist() == columns.split()
    assert frame["number"].tolist() == [0, 1, 2, 3]
    assert frame["failed"].tolist() == [False] * 3 + [True]
    assert frame["outcome"].isna().tolist() == [False] * 3 + [True]
    assert frame["time"].iloc[0] == pd.Timestamp(1001.0, unit="s", tz="UTC")
    assert frame["mode"].iloc[0] == opt.results[0].action["mode"]


def test_a_table_of_a_grid() -> None:
    opt = robos.make(drbo.General())
    robos.run(opt, 3)
    frame = opt.to_frame()
    assert frame["action"].tolist() == [r.action[0] for r in opt.results]
    assert frame["context"].tolist() == [r.context[0] for r in opt.results]
    assert frame["outcome"].tolist() == [r.outcome for r in opt.results]


def test_a_table_of_nothing() -> None:
    assert len(robos.make(drbo.General()).to_frame()) == 0


def test_refits_are_recorded_with_the_ask_that_needed_them() -> None:
    opt = heating.make(Simulator(radius=0.2, pick="uncertain"), surrogate=drbo.LearnedGP())
    heating.run(opt, 5)
    fits = [fact.fits for fact in opt.history if isinstance(fact, Asked)]
    assert fits[0] == {}
    learned = [fit.n_outcomes for by_name in fits for fit in by_name.values()]
    assert learned
    assert learned == sorted(set(learned))


def test_a_record_keeps_what_was_given() -> None:
    opt = robos.make(drbo.General())
    given: Any = robos.REFERENCE.copy()
    opt.ask(reference=given, radius=0.3)
    given[:] = 0.02
    (fact,) = opt.history
    assert isinstance(fact, Asked)
    np.testing.assert_array_equal(fact.reference, robos.REFERENCE)
    assert fact.radius == 0.3
