"""The benchmark of limits: its true worst cases, and what its methods may and may not do."""

import numpy as np
import pytest

import limits
from limits import DAYS, METHODS, PROBLEMS, FunctionTask


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


@pytest.mark.parametrize("method", ["drbo", "glue", "penalty", "random", "tpe"])
def test_methods(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if method == "tpe":
        pytest.importorskip("optuna")
    monkeypatch.setattr(limits, "CHECKPOINTS", (3, 5))
    monkeypatch.setattr(limits, "SHOWN", (3, 5))
    monkeypatch.setattr(limits, "_CANDIDATES", 2)
    assert set(METHODS) >= {method}
    rows = limits.run("plant", method, 0, 5)
    assert [row["evaluations"] for row in rows] == [3, 5]
    for row in rows:
        assert ("feasible" in row) == ("value" in row)
