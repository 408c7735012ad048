"""Comparisons: every method in every setting that it is for, on the same noise and the same contexts."""

from pathlib import Path

import numpy as np
import pytest

from drbo.experiments import METHODS, SETTINGS, Method, compare, methods_for, run, style
from drbo.experiments._compare import compare_rows
from drbo.experiments._tasks import Task
from drbo.experiments.records import generator, mean_and_error, read_csv
from drbo.names import MethodName
from drbo.problems import benchmark_1, robos
from drbo.regret import robust_regret
from drbo.rounds.satisficing import Satisficing
from tolerances import ROUNDING


def test_names_of_the_command_line_are_those_of_the_methods() -> None:
    assert list(METHODS) == [name.value for name in MethodName]
    assert all("," not in method.label for method in METHODS.values())  # labels are cells of a CSV file
    assert len({method.label for method in METHODS.values()}) == len(METHODS)


@pytest.mark.parametrize(("setting", "method"), [(s, m) for s in SETTINGS for m in methods_for(s)])
def test_every_method_on_the_same_noise_and_contexts(setting: str, method: str) -> None:
    """The random numbers of a run are recomputed here: noise and contexts of nature are those of the seed alone."""
    problem, rounds = benchmark_1(10), 6
    record = run(problem, setting, method, rounds, 0, 1, recommend=True)
    rng = generator(0, 1)
    (simulation,) = rng.spawn(1)
    for t in range(rounds):
        natural = rng.choice(10, p=problem.true_distribution)
        noise = problem.noise * rng.normal()
        simulated = simulation.choice(10, p=problem.reference)
        x, c = record["action"][t], record["context"][t]
        assert record["outcome"][t] == pytest.approx(problem.values[x, c] + noise, abs=1e-12)
        if setting != "simulator":
            assert c == natural
        elif method.startswith("embedding"):
            assert c == simulated
    assert (record["regret"] >= -1e-9).all()
    assert (record["simple regret"] >= -1e-9).all()
    assert (record["seconds"] > 0.0).all()


@pytest.mark.parametrize("method", ["drbo", "stableopt"])
def test_simple_regret_is_that_of_the_recommendation(method: str) -> None:
    problem = benchmark_1(12)
    record = run(problem, "simulator", method, 8, 0, 0, recommend=True)
    again = METHODS[method]
    assert again.label == record["method"][0]
    expected = robust_regret(
        problem.values, problem.ambiguity, problem.reference, problem.radius, record["recommended"]
    ).instantaneous
    np.testing.assert_array_equal(record["simple regret"], expected)
    without = run(problem, "simulator", method, 8, 0, 0)
    assert "seconds" not in without
    np.testing.assert_array_equal(record["action"], without["action"])  # to recommend changes nothing


def test_a_comparison_goes_on_with_more_methods_and_counts_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(style, "save", lambda *_: [])  # figures are drawn in test_cli.py
    problems = [robos(), benchmark_1(10)]
    first = compare(problems[:1], ["drbo"], seeds=3, rounds=5, out=tmp_path, workers=1)
    before = (tmp_path / "compare-robos-simulator-drbo.csv").read_bytes()
    rows = compare(problems, ["drbo", "ucb"], seeds=3, rounds=5, out=tmp_path, workers=1).rows
    assert (tmp_path / "compare-robos-simulator-drbo.csv").read_bytes() == before
    assert {**first.rows[0], "wins": rows[0]["wins"]} == rows[0]
    assert [(row["problem"], row["method"]) for row in rows] == [
        (problem.name, label) for problem in problems for label in ("DRBO", "UCB")
    ]
    totals = [
        read_csv(tmp_path / f"compare-robos-simulator-{name}.csv")["regret"].reshape(3, 5).sum(axis=1)
        for name in ("drbo", "ucb")
    ]
    for row, total, other in zip(rows, totals, totals[::-1], strict=False):
        assert row["regret"] == pytest.approx(total.mean(), rel=1e-12)
        assert row["standard error"] == pytest.approx(np.sqrt(total.var(ddof=1) / 3), abs=1e-12)
        assert row["wins"] == (total <= other).sum()


def test_one_run_has_no_standard_error() -> None:
    (row,) = compare_rows(run(robos(), "general", "ucb", 3, 0, 0, recommend=True))
    assert row["standard error"] is None
    assert row["its standard error"] is None


def test_equal_runs_have_an_error_of_zero() -> None:
    mean, error = mean_and_error(np.full((3, 2), 0.1))
    np.testing.assert_allclose(mean, 0.1, rtol=ROUNDING)
    assert (error == 0.0).all()


def test_unknown_and_unfit_methods_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown method 'nobody'; known: drbo"):
        compare(robos(), ["nobody"], out=tmp_path)
    with pytest.raises(ValueError, match="'informative' is not for the general setting; these are: drbo, ucb"):
        compare(robos(), ["informative"], setting="general", out=tmp_path)
    assert not any(tmp_path.iterdir())


def test_rows_need_no_order_of_methods() -> None:
    tables = [run(robos(), "general", name, 3, 0, 0, recommend=True) for name in ("ucb", "drbo")]
    rows = compare_rows({name: np.concatenate([table[name] for table in tables]) for name in tables[0]})
    assert [row["method"] for row in rows] == ["UCB", "DRBO"]
    assert sum(row["wins"] for row in rows) >= 1


def test_satisficing_has_the_best_worst_case_as_its_target() -> None:
    problem = robos()
    task = Task.of(problem, "simulator")
    method = METHODS["satisficing"]
    assert isinstance(method, Method)
    policy = method.optimizer(task).configuration.policy
    assert isinstance(policy, Satisficing)
    assert policy.target == pytest.approx(problem.robust_optimum.value, rel=1e-9)
    assert policy.goal == "fragility"
