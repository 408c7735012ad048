"""Methods with a chance constraint in comparisons: the constraint, what meets it, and how all methods are judged by it.

Total variation is the oracle's set: the worst case of a probability p below 1 is max(p - radius, 0), and that of an
expectation moves a mass of `radius` from the best contexts to the worst one.
"""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from drbo import NotReachedError
from drbo.console import show_table
from drbo.experiments import METHODS, Method, Output, Task, compare, run, style
from drbo.experiments._compare import compare_rows, judged
from drbo.experiments._methods import _limited
from drbo.experiments._tasks import reached_values
from drbo.experiments.records import _counted, read_csv, stack
from drbo.problems import Problem, benchmark_1, robos
from drbo.validation import FloatArray
from exact import exact
from tolerances import ROUNDING


def task_of(problem: Problem) -> Task:
    return Task.of(problem, "simulator", "tv")


def probability(task: Task, event: np.ndarray) -> float:
    return 1.0 if event.all() else max(float(task.problem.reference[event].sum()) - task.aim.radius, 0.0)


def worst_case(task: Task, values: FloatArray) -> float:
    weights, left = task.problem.reference.copy(), task.aim.radius
    for j in np.argsort(-values):
        moved = min(weights[j], left)
        weights[j] -= moved
        left -= moved
    weights[np.argmin(values)] += task.aim.radius - left
    return float(weights @ values)


@pytest.mark.parametrize("problem", [benchmark_1(20), robos()], ids=lambda problem: problem.name)
def test_a_tenth_of_the_actions_meets_the_constraint(problem: Problem) -> None:
    task = task_of(problem)
    reached = [max(v for v in row if probability(task, row >= v) >= 0.7 - 1e-9) for row in problem.values]
    np.testing.assert_array_equal(reached_values(problem, task.aim, 0.7), reached)
    threshold = task.constraint.above
    assert threshold is not None
    meeting = [probability(task, row > threshold) >= 0.7 - 1e-9 for row in problem.values]
    np.testing.assert_array_equal(task.feasible, meeting)
    assert sum(meeting) == max(round(0.1 * len(problem.actions)), 1)
    last, following = np.sort(reached)[::-1][[sum(meeting) - 1, sum(meeting)]]
    assert threshold == pytest.approx(0.5 * (last + following), rel=ROUNDING)


def test_equal_actions_meet_the_constraint_together() -> None:
    flat = replace(robos(), function=lambda x, c: np.zeros(np.broadcast_shapes(x.shape[:-1], c.shape[:-1])))
    task = Task(flat, Task.of(robos(), "simulator").aim, "simulator", Task.of(robos(), "simulator").rule)
    assert task.feasible.all()
    assert task.constraint.above is not None
    assert task.constraint.above < 0.0


def test_the_constrained_solution_is_the_best_of_those_that_meet_it() -> None:
    task, rng = task_of(benchmark_1(12)), np.random.default_rng(0)
    threshold = task.constraint.above
    assert threshold is not None
    some_meet_it = set()
    for shift in (0.0, 0.3, -10.0):
        values = task.problem.values + shift + 0.1 * rng.normal(size=task.problem.values.shape)
        chances = np.array([probability(task, row > threshold) for row in values])
        worst = np.array([worst_case(task, row) for row in values])
        met = chances >= 0.7 - 1e-9
        expected = np.where(met, worst, -np.inf).argmax() if met.any() else chances.argmax()
        assert task.constrained_solution(values) == expected
        some_meet_it.add(bool(met.any()))
    assert some_meet_it == {False, True}


@pytest.mark.parametrize("method", ["chance", "level-set"])
def test_what_is_recommended_meets_the_constraint_by_certificate_or_by_estimate(method: str) -> None:
    task, own = Task.of(robos(), "simulator"), METHODS[method]
    assert isinstance(own, Method)
    opt, certified = own.optimizer(task), set()
    for _ in range(30):
        s = opt.ask()
        opt.tell(s, float(task.problem.values[s.action_index, s.context_index]))
        try:
            expected = _limited(opt, task).recommend().action_index
            certified.add(True)
        except NotReachedError:
            expected = task.constrained_solution(exact(opt.posterior).on_grid()[0])
            certified.add(False)
        assert own.recommended(opt, task) == expected
    assert certified == {False, True}


def test_all_methods_are_judged_by_the_constraint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(style, "save", lambda *_: [])  # figures are drawn in test_figures.py
    problem, names = robos(), ("drbo", "chance", "level-set")
    sized = {"seeds": 2, "rounds": 15, "out": tmp_path, "workers": 1}
    compare(problem, names[:1], **sized)  # type: ignore[arg-type]
    before = (tmp_path / "compare-robos-simulator-drbo.csv").read_bytes()
    outcome = compare(problem, names, **sized)  # type: ignore[arg-type]
    assert (tmp_path / "compare-robos-simulator-drbo.csv").read_bytes() == before
    task = Task.of(problem, "simulator")
    robust = problem.robust_values
    best = robust[task.feasible].max()
    for name, row in zip(names, outcome.rows, strict=True):
        records = read_csv(tmp_path / f"compare-robos-simulator-{name}.csv")
        last = records["recommended"].reshape(2, 15)[:, -1]
        feasible = task.feasible[last]
        assert row["infeasible runs"] == (~feasible).sum()
        if feasible.any():
            assert row["constrained regret"] == pytest.approx((best - robust[last[feasible]]).mean(), abs=1e-12)
        else:
            assert row["constrained regret"] is None
        if name == "drbo":
            assert row["open actions"] is None
            assert row["false labels"] is None
            assert "in" not in records
        else:
            settled = (records["in"] + records["out"]).reshape(2, 15)[:, -1]
            assert row["open actions"] == pytest.approx((len(problem.actions) - settled).mean(), rel=ROUNDING)
            assert row["false labels"] == records["false labels"].reshape(2, 15)[:, -1].max()
            assert "constraint" in json.loads((tmp_path / f"compare-robos-simulator-{name}.json").read_text())
    assert outcome.rows == compare(problem, names, **sized).rows  # type: ignore[arg-type]  # from the records
    show_table(Output([], outcome.rows), as_json=False)
    said = capsys.readouterr().out
    assert "constrained" in said
    assert "infeasible" in said
    assert max(map(len, said.splitlines())) <= 80


@pytest.mark.parametrize("setting", ["general", "simulator"])
def test_open_actions_and_recommendations_that_miss_the_constraint_are_counted(setting: str) -> None:
    problem = robos()
    record = run(problem, setting, "chance", 20, 0, 0, recommend=True)
    assert record["in"][-1] + record["out"][-1] > 0
    assert record["false labels"].max() == 0
    task = Task.of(problem, setting)
    missing = np.flatnonzero(~task.feasible)[0]
    table = judged({**record, "recommended": np.full(20, missing)}, task)
    assert (table["infeasible"] == 1).all()
    np.testing.assert_array_equal(table["open"], len(problem.actions) - record["in"] - record["out"])
    (row,) = compare_rows(stack([table]))
    assert row["infeasible runs"] == 1
    assert row["constrained regret"] is None


def test_false_labels_are_counted() -> None:
    task = Task.of(robos(), "simulator")
    n = len(task.feasible)
    right = tuple("in" if feasible else "out" for feasible in task.feasible)
    wrong = tuple("out" if feasible else "in" for feasible in task.feasible)
    counted = _counted(task, [right, wrong, ("open",) * n])
    assert counted["false labels"].tolist() == [0, n, 0]
    assert (counted["in"] + counted["out"]).tolist() == [n, n, 0]
    assert counted["in"].tolist() == [task.feasible.sum(), (~task.feasible).sum(), 0]


def test_constraints_are_not_for_references_that_change(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'chance' is not for the data-driven setting"):
        compare(robos(), ["chance"], setting="data-driven", out=tmp_path)
