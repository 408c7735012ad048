"""Runs and sweeps: reproducible, independent of workers and backend, resumable."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drbo.experiments import SETS, SETTINGS, Execution, Plan, corollary4, run
from drbo.experiments._reproduce import regret_rows, regret_sweep
from drbo.experiments._tasks import Goal
from drbo.experiments.records import Store, Table, select, sweep
from drbo.names import MethodName
from drbo.problems import benchmark_1, benchmark_2
from drbo.regret import robust_regret
from tolerances import CLOSED_FORM


def same(a: Table, b: Table) -> bool:
    return list(a) == list(b) and all(np.array_equal(a[k], b[k]) for k in a)


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_run_is_reproducible_and_runs_differ(setting: str) -> None:
    problem = benchmark_1(20)
    one = run(problem, setting, "drbo", 15, 0, 3)
    assert same(one, run(problem, setting, "drbo", 15, 0, 3))
    assert not np.array_equal(one["outcome"], run(problem, setting, "drbo", 15, 0, 4)["outcome"])
    assert not np.array_equal(one["outcome"], run(problem, setting, "drbo", 15, 1, 3)["outcome"])


@pytest.mark.parametrize("set_name", list(SETS))
@pytest.mark.parametrize("setting", SETTINGS)
def test_every_set_in_every_setting(set_name: str, setting: str) -> None:
    record = run(benchmark_1(12), setting, "drbo", 8, 0, 0, set_name)
    assert (record["regret"] >= -1e-9).all()


@pytest.mark.parametrize("set_name", ["tv", "kl", "wasserstein"])
def test_radii_of_all_sets_lose_the_same(set_name: str) -> None:
    problem = benchmark_1(30)
    x, aim = problem.robust_optimum.action_index, Goal.of(problem, set_name)
    worst = aim.ambiguity.worst_case(problem.values[x], problem.reference, aim.radius).expectation
    assert worst == pytest.approx(problem.robust_optimum.value, abs=1e-8)


def test_regret_of_a_run_is_that_of_its_actions() -> None:
    problem = benchmark_1(20)
    record = run(problem, "simulator", "ucb", 20, 0, 0)
    expected = robust_regret(problem.values, problem.ambiguity, problem.reference, problem.radius, record["action"])
    np.testing.assert_allclose(record["regret"], expected.instantaneous, atol=CLOSED_FORM)


def test_the_papers_claims_at_small_size() -> None:
    """Benchmark 1, simulator: DRBO's regret flattens; that of UCB and of StableOpt stays linear."""
    problem = benchmark_1()
    late = {
        method: np.mean([run(problem, "simulator", method, 150, 0, k)["regret"][-30:].mean() for k in range(3)])
        for method in ("drbo", "ucb", "stableopt")
    }
    assert late["drbo"] < 0.03
    assert late["ucb"] > 0.09
    assert late["stableopt"] > 0.09


def test_the_literal_radius_of_corollary_4_is_five_times_that_of_the_comparisons() -> None:
    """Regret is measured in the ball of the round: with a ball of everything it is that of the worst context."""
    problem = benchmark_1(20)
    literal = run(problem, "data-driven", "drbo", 10, 0, 0, share=1.0)
    worst = problem.values.min(axis=1)
    np.testing.assert_allclose(literal["regret"], worst.max() - worst[literal["action"]], atol=CLOSED_FORM)
    fifth = run(problem, "data-driven", "drbo", 10, 0, 0)
    assert not np.allclose(fifth["regret"], worst.max() - worst[fifth["action"]], atol=1e-3)


def test_corollary_4_counts_the_rounds_in_which_the_ball_holds_every_distribution(tmp_path: Path) -> None:
    plan = Plan(tmp_path, runs=1, rounds=40, execution=Execution(1))
    rows = corollary4(plan).rows
    assert [(row["problem"], row["method"]) for row in rows] == [
        (problem, method) for problem in ("benchmark_1", "benchmark_2") for method in ("DRBO", "UCB", "StableOpt")
    ]
    # The farthest distribution is nearer than sqrt(2), which the radius exceeds up to 21 contexts: 22 rounds.
    assert all(22 < row["rounds with every distribution"] < 40 for row in rows)


def test_a_sweep_leaves_out_methods_that_are_not_for_a_setting(tmp_path: Path) -> None:
    plan = Plan(tmp_path, runs=1, rounds=2, execution=Execution(1))
    methods = (MethodName.STABLEOPT, MethodName.STABLEOPT_OWN)
    records = regret_sweep("two", plan, [benchmark_1(10)], ["general", "simulator"], methods)
    assert list(dict.fromkeys(zip(records["setting"], records["method"], strict=True))) == [
        ("general", "StableOpt"), ("simulator", "StableOpt"), ("simulator", "StableOpt (own contexts)"),
    ]  # fmt: skip


def small_sweep(out: Path, execution: Execution) -> Table:
    plan = Plan(out, runs=2, rounds=6, seed=5, execution=execution)
    return regret_sweep("small", plan, [benchmark_1(10), benchmark_2(10)], ["simulator", "data-driven"])


def test_records_are_independent_of_the_number_of_workers(tmp_path: Path) -> None:
    one = small_sweep(tmp_path / "one", Execution(1))
    two = small_sweep(tmp_path / "two", Execution(2))
    assert same(one, two)
    assert (tmp_path / "one" / "small.csv").read_bytes() == (tmp_path / "two" / "small.csv").read_bytes()
    assert (tmp_path / "one" / "small.json").read_bytes() == (tmp_path / "two" / "small.json").read_bytes()
    assert len(one["round"]) == 2 * 2 * 3 * 2 * 6


@pytest.mark.slow  # tests/optimizer/test_parallel.py starts a cluster in every run
def test_a_dask_cluster_gives_the_same_records(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="the dask backend is optional")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, processes=True) as cluster:
        on_cluster = small_sweep(tmp_path / "dask", Execution(scheduler=cluster.scheduler_address))
    assert same(on_cluster, small_sweep(tmp_path / "loky", Execution(1)))


def test_an_interrupt_keeps_what_is_finished(tmp_path: Path) -> None:
    calls: list[int] = []

    def job(number: int) -> Table:
        calls.append(number)
        if number == 2 and len(calls) == 3:
            raise KeyboardInterrupt
        return {"number": np.array([number])}

    jobs: dict[str, tuple[Any, ...]] = {f"job-{i}": (i,) for i in range(4)}
    with pytest.raises(KeyboardInterrupt):
        sweep("test", Store(tmp_path, "s", {}), job, jobs, Execution(1))
    assert (tmp_path / "s.csv").read_text() == "number\n0\n1\n"
    result = sweep("test", Store(tmp_path, "s", {}), job, jobs, Execution(1))
    assert calls == [0, 1, 2, 2, 3]  # nothing is computed twice
    assert result["number"].tolist() == [0, 1, 2, 3]


def test_rows_summarise_the_records(tmp_path: Path) -> None:
    records = small_sweep(tmp_path, Execution(1))
    rows = regret_rows(records)
    assert len(rows) == 2 * 2 * 3
    own = select(records, problem="benchmark_2", setting="simulator", method="UCB")
    row = next(r for r in rows if (r["problem"], r["setting"], r["method"]) == ("benchmark_2", "simulator", "UCB"))
    assert row["regret"] == pytest.approx(own["regret"].sum() / 2)
    assert math.isfinite(row["standard error"])


def test_a_missing_cluster_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import builtins

    real: Callable[..., Any] = builtins.__import__

    def refuse(name: str, *rest: Any, **more: Any) -> Any:
        if name == "distributed":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(RuntimeError, match="needs the package distributed"):
        small_sweep(tmp_path, Execution(scheduler="tcp://127.0.0.1:1"))
