"""The benchmark of limits: its true worst cases, and what its methods may and may not do."""

import json
from pathlib import Path

import numpy as np
import pytest

import limits
import simulators
from limits import DAYS, METHODS, PROBLEMS, SIMULATED, FunctionTask


@pytest.mark.parametrize("name", list(PROBLEMS))
def test_every_problem_has_feasible_and_infeasible_actions(name: str) -> None:
    task = FunctionTask.of(name, 0)
    actions = np.random.default_rng(0).random((200, task.problem.d))
    costs, margins = task.truth(actions)
    assert 0.02 <= float((margins >= 0.0).mean()) <= 0.95
    best = costs[margins >= 0.0].min()
    assert costs.min() < best  # the limit matters


def test_the_true_worst_case_of_the_plant() -> None:
    """The cost is linear in the condition, so a shift of the mean costs its slope; the peak has its kink at 0."""
    task = FunctionTask.of("plant", 3)
    x = np.array([[0.4]])
    cost, margin = task.truth(x)
    mean = float(task.problem.objective(x[0], task.days).mean())
    assert cost[0] == pytest.approx(mean + 18.0 * task.problem.radius, abs=1e-6)
    peak, limit = task.problem.limited["peak"]
    assert margin[0] == pytest.approx(
        limit.threshold - float(peak(x[0], task.days).mean()) - 3.0 * task.problem.radius, abs=1e-6
    )


def test_labels_and_their_weights() -> None:
    task = FunctionTask.of("groups", 0)
    assert sum(task.contexts.values()) == DAYS
    x = np.array([0.5, 0.5])
    values = task.problem.objective(x, np.arange(4.0))
    weights = np.array([(task.days == i).mean() for i in range(4)])
    order, left = np.argsort(values), task.problem.radius  # a cost: mass moves from the smallest to the largest
    for j in order:
        moved = min(weights[j], left)
        weights[j], left = weights[j] - moved, left - moved
    weights[np.argmax(values)] += task.problem.radius - left
    assert task.truth(x[None])[0][0] == pytest.approx(float(weights @ values), abs=1e-8)


@pytest.mark.parametrize("name", SIMULATED)
def test_simulators_with_limits(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip({"battery": "pybamm", "feeder": "pandapower"}[name])
    monkeypatch.setenv(simulators.FOLDER, str(tmp_path))
    task, rng = limits.task_of(name, 0), np.random.default_rng(0)
    x = rng.random(task.d)
    np.testing.assert_allclose(task.array(task.named(x)), x)
    cost, values = task.evaluate(x, task.draw(3), rng)
    assert np.isfinite([cost, *values.values()]).all()
    assert set(values) == set(task.limits)
    assert task.draws().shape == task.ball()[1].shape
    assert 0.0 < task.tail() < 1.0
    costs, margins = task.truth(rng.random((2, task.d)))
    assert np.isfinite([*costs, *margins]).all()


def test_the_tail_of_a_normal_distribution() -> None:
    draws = np.sort(np.random.default_rng(0).normal(size=200_000))
    share = limits.tail_of(0.5)
    assert draws[int((1.0 - share) * len(draws)) :].mean() == pytest.approx(0.5, abs=0.01)


def test_evaluations_needed(capsys: pytest.CaptureFixture[str]) -> None:
    """drbo reaches the peer's median of 5 at 20 evaluations, and stays there; at 10 it was there by chance."""
    medians = {10: 4.0, 15: 9.0, 20: 5.0, 40: 1.0}
    rows = [
        {"problem": "plant", "method": "drbo", "seed": seed, "evaluations": n, "regret": regret + seed - 1.0}
        for n, regret in medians.items()
        for seed in range(3)
    ]
    rows += [{"problem": "plant", "method": "tpe", "seed": s, "evaluations": 40, "regret": 5.0} for s in range(3)]
    limits.needed(rows, 40)
    assert "| tpe | plant | 3 | 5.00 | 1.00 | 20 | 0.50 |" in capsys.readouterr().out


def test_an_infeasible_recommendation_counts_as_the_median(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, key = tmp_path / "rows.jsonl", {"problem": "plant", "method": "tpe", "seed": 0, "evaluations": 40}
    best, median = limits.best_of("plant", 0)
    made = [
        {"value": best - 1.0, "feasible": False, "margin": -1.0},
        {"value": best, "feasible": True, "margin": 0.1},
        {},
    ]
    path.write_text("".join(json.dumps(key | row) + "\n" for row in made))
    rows = limits.read(path)
    assert [row["regret"] for row in rows] == [100.0, 0.0, 100.0]
    assert best < median
    limits.table(rows)
    assert "| tpe | 40 | 3 | 2 | 1 | 50.0% (1.3% to 98.7%) | 100.00 | 66.67 |" in capsys.readouterr().out


@pytest.mark.parametrize("method", METHODS)
def test_methods(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if method in ("tpe", "gp"):
        pytest.importorskip("optuna")
    if method in ("gp", "botorch", "botorch_set"):
        pytest.importorskip("botorch")
    monkeypatch.setattr(limits, "CHECKPOINTS", (3, 5))
    monkeypatch.setattr(limits, "SHOWN", (3, 5))
    monkeypatch.setattr(limits, "_CANDIDATES", 2)
    rows = limits.run("plant", method, 0, 5)
    assert [row["evaluations"] for row in rows] == [3, 5]
    for row in rows:
        assert ("feasible" in row) == ("value" in row)
