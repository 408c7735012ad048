"""A log of past trials becomes an optimizer: what its columns mean, and what is refused."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import drbo
from bits import bits
from drbo import GP, RBF, Box, Categorical, DataDriven, Integer, Optimizer, Perturbation, Product, Real, Simulator

FIXED = GP(Product(RBF(0.5), RBF(0.5)), 0.1)
LOG = pd.DataFrame(
    {
        "dose": [1.0, 2.0, 3.0, 2.5],
        "stages": [1, 3, 2, 1],
        "mode": ["eco", "boost", "eco", "eco"],
        "age": [30.0, 60.0, 45.0, 50.0],
        "ward": pd.Categorical(["A", "B", "A", "A"], categories=["A", "B", "C"]),
        "score": [5.0, np.nan, 7.0, 6.0],
        "error": [0.1, 0.2, np.nan, 0.3],
        "broken": [False, False, False, True],
        "day": pd.to_datetime(["2024-01-04", "2024-01-01", "2024-01-02", "2024-01-03"]),
    }
)


def read(frame: Any = LOG, **more: Any) -> Optimizer:
    names = {"actions": ["dose", "stages", "mode"], "contexts": ["age", "ward"], "outcome": "score"}
    arguments: dict[str, Any] = {**names, "radius": 0.1, "surrogate": FIXED, **more}
    return Optimizer.from_frame(frame, **arguments)


def test_columns_become_spaces_and_rows_results() -> None:
    opt = read()
    assert isinstance(opt.configuration.actions, Box)
    assert opt.configuration.actions.parameters == {
        "dose": Real(1.0, 3.0),
        "stages": Integer(1, 3),
        "mode": Categorical("eco", "boost"),
    }
    assert [r.outcome for r in opt.results] == [5.0, None, 7.0, 6.0]
    assert [r.failed for r in opt.results] == [False, True, False, False]
    assert opt.results[0].action == {"dose": 1.0, "stages": 1, "mode": "eco"}
    assert opt.results[1].context == {"age": 60.0, "ward": "B"}
    assert [r.time for r in opt.results] == [None] * 4
    s = opt.ask()
    assert np.count_nonzero(s.reference) == 4, "each context counts once"
    assert isinstance(opt.configuration.setting, DataDriven)


def test_it_equals_an_optimizer_that_was_told_row_by_row() -> None:
    opt = read()
    assert isinstance(opt.configuration.actions, Box)
    contexts = {"age": LOG.age.tolist(), "ward": LOG.ward.tolist()}
    labels = {"ward": Categorical("A", "B", "C")}
    other = Optimizer(
        opt.configuration.actions,
        drbo.Samples(contexts, labels=labels),
        setting=DataDriven(radius=0.1),
        surrogate=FIXED,
    )
    for row in LOG.to_dict("records"):
        action = {name: row[name] for name in ("dose", "stages", "mode")}
        context = {"age": row["age"], "ward": row["ward"]}
        if np.isnan(row["score"]):
            other.tell(action, failed=True, context=context, drawn=False)
        else:
            other.tell(action, row["score"], context=context, drawn=False)
    one, two = opt.recommend(), other.recommend()
    assert (one.action, one.value) == (two.action, two.value)
    assert opt.ask().action == other.ask().action


def test_optional_columns() -> None:
    opt = read(failed="broken", stderr="error", time="day")
    assert [r.outcome for r in opt.results] == [None, 7.0, None, 5.0], "in the order of time"
    assert [r.stderr for r in opt.results] == [None, None, None, 0.1]
    assert [r.time for r in opt.results] == [1704067200.0 + 86400.0 * i for i in range(4)]
    assert opt.configuration.contexts.data["age"] == [60.0, 45.0, 50.0, 30.0]  # type: ignore[union-attr, call-overload]
    zoned = read(LOG.assign(day=LOG.day.dt.tz_localize("UTC")), time="day")
    assert [r.time for r in zoned.results] == [r.time for r in opt.results]


def test_an_action_that_never_varied_is_told() -> None:
    still = LOG.assign(stages=2)
    with pytest.warns(UserWarning, match="'stages' is 2 in every row, so nothing can be learned about it; it stays"):
        opt = read(still)
    assert opt.recommend().action["stages"] == 2
    box = Box(dose=(0.0, 5.0), stages=Integer(1, 4))
    with pytest.warns(UserWarning, match="'stages' is 2 in every row.*may be chosen"):
        opt = read(still, actions=box)
    assert opt.configuration.actions is box


def test_boxes_name_columns() -> None:
    opt = read(actions=Box(dose=(0.0, 5.0)), contexts=Box(age=(0.0, 100.0)))
    assert opt.results[0].action == {"dose": 1.0}
    assert opt.recommend().contexts[0].keys() == {"age"}
    with pytest.raises(ValueError, match=r"dose.* must be from 2\.0 to 5\.0, got 1\.0"):
        read(actions=Box(dose=(2.0, 5.0)))


def test_other_tables_settings_and_files(tmp_path: Path) -> None:
    columns = {name: LOG[name].tolist() for name in LOG}
    columns["stages"] = np.array(columns["stages"])
    opt = read(columns, setting=Simulator(radius=0.1, pick="uncertain"), radius=None, actions="dose")
    assert opt.ask().context is not None
    opt.save(tmp_path / "a.json")
    loaded = Optimizer.load(tmp_path / "a.json")
    assert loaded.recommend().value == opt.recommend().value
    assert loaded.ask() == opt.ask()
    cost = read(maximize=False)
    assert "at most" in str(cost.recommend())
    assert read().ask(given={"ward": "B"}).given == {"ward": "B"}


@pytest.mark.parametrize(
    ("more", "error", "text"),
    [
        ({"radius": None}, TypeError, "from_frame needs a radius"),
        ({"setting": DataDriven()}, TypeError, "from_frame needs a radius.* not both"),
        ({"outcome": "points"}, ValueError, "outcome must name columns of the frame, dose, .*got 'points'"),
        ({"actions": ["dose", "x"]}, ValueError, "actions must name columns of the frame, .*got 'x'"),
        ({"actions": []}, TypeError, "actions must be a list of columns"),
        (
            {"contexts": Perturbation(dose=[0.1])},
            TypeError,
            "got a Perturbation.*tell.action, outcome, context=perturba",
        ),
        ({"contexts": ["dose"]}, ValueError, "'dose' has two"),
        ({"failed": "error"}, TypeError, "failed, row 0, must be True or False"),
        ({"outcome": "mode"}, ValueError, "'mode' has two"),
        ({"time": "mode", "actions": ["dose"]}, ValueError, "time, row 0 of column 'mode', must be a date in ISO form"),
        ({"contexts": ["day"]}, TypeError, "column 'day' holds dates"),
        ({"frame": LOG.iloc[:0]}, ValueError, "frame must have at least one row"),
        ({"frame": [1, 2]}, TypeError, "frame must be a table with named columns"),
        ({"frame": LOG.assign(dose=[1.0, np.nan, 2.0, 3.0])}, ValueError, "row 1 of column 'dose'"),
        ({"frame": LOG.assign(score=[1.0, np.inf, 2.0, 3.0])}, ValueError, "outcome, row 1 of column 'score', must be"),
    ],
)
def test_what_is_wrong_is_named(more: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        read(more.pop("frame", LOG), **more)


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_a_missing_time_is_named_by_its_row(zone: str | None) -> None:
    days = LOG.day.where(LOG.index != 2).dt.tz_localize(zone)
    with pytest.raises(ValueError, match="time must not be missing, but row 2 of column 'day' is"):
        read(LOG.assign(day=days), time="day")


def test_columns_of_the_same_name_are_refused() -> None:
    with pytest.raises(ValueError, match="actions must name one column of the frame, but 2 are called 'dose'"):
        read(pd.concat([LOG, LOG[["dose"]]], axis=1))


NEW = pd.DataFrame(
    {
        "dose": [2.0, 1.5, 2.5],
        "stages": [2, 1, 3],
        "mode": ["boost", "eco", "eco"],
        "age": [35.0, 58.0, 44.0],
        "ward": ["C", "B", "A"],
        "score": [6.5, np.nan, 5.5],
        "error": [0.1, np.nan, 0.2],
        "day": [3.0, 1.0, 2.0],
    }
)


@pytest.mark.parametrize("drawn", [True, False])
def test_further_rows_are_told_in_the_order_of_time(drawn: bool) -> None:
    opt, other = read(), read()
    opt.append(NEW, "score", stderr="error", time="day", drawn=drawn)
    for row in NEW.sort_values("day").to_dict("records"):
        action = {name: row[name] for name in ("dose", "stages", "mode")}
        more: dict[str, Any] = {"context": {"age": row["age"], "ward": row["ward"]}, "drawn": drawn}
        more |= {"failed": True} if np.isnan(row["score"]) else {"outcome": row["score"], "stderr": row["error"]}
        other.tell(action, **more)
    assert [r.time for r in opt.results[4:]] == [1.0, 2.0, 3.0]
    assert [dataclasses.replace(r, time=None) for r in opt.results] == [
        dataclasses.replace(r, time=None) for r in other.results
    ]
    assert bits(opt.recommend()) == bits(other.recommend())
    assert np.count_nonzero(opt.ask().reference) == (7 if drawn else 4)


def test_a_table_of_results_can_be_appended() -> None:
    """Also where actions and contexts have no names, or share one."""
    grid = Optimizer([0.0, 0.5, 1.0], ["a", "b"], setting=DataDriven(radius=0.1), surrogate=FIXED)
    grid.tell(0.5, 1.0, context="b")
    grid.tell(1.0, failed=True, context="a")
    moved = Optimizer(
        Box(x=(0.0, 1.0)),
        Perturbation(x=drbo.Normal(0.0, 0.1)),
        setting=Simulator(radius=0.1),
    )
    moved.tell({"x": 0.5}, 2.0, context={"x": 0.02})
    for opt in (grid, moved):
        table, before = opt.to_frame(), opt.results
        opt.append(table)
        assert [(r.action, r.context, r.outcome, r.failed) for r in opt.results] == [
            (r.action, r.context, r.outcome, r.failed) for r in (*before, *before)
        ]


@pytest.mark.parametrize(
    ("frame", "outcome", "error", "match"),
    [
        (NEW.drop(columns="dose"), "score", ValueError, "actions must name columns of the frame"),
        (NEW, "points", ValueError, "outcome must name columns of the frame"),
        (NEW.assign(dose=[1.0, 2.0, 9.0]), "score", ValueError, "row 2 of actions"),
        (NEW.assign(ward="X"), "score", ValueError, "row 0 of contexts"),
        (NEW.assign(score=["a", "b", "c"]), "score", TypeError, "outcome, row 0"),
        (NEW.iloc[:0], "score", ValueError, "at least one row"),
        (3.0, "score", TypeError, "frame must be a table"),
    ],
)
def test_wrong_further_rows_change_nothing(frame: Any, outcome: str, error: type[Exception], match: str) -> None:
    opt = read()
    with pytest.raises(error, match=match):
        opt.append(frame, outcome)
    assert opt.n_told == 4
