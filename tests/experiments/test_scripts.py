"""The scripts that make tables of the documents beside the figures, at small size."""

import importlib.util
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from drbo import ChiSquare
from drbo.experiments.records import to_csv
from drbo.problems import benchmark_1

SCRIPTS = Path(__file__).parents[2] / "scripts"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def reproduction() -> ModuleType:
    return load("reproduction")


def test_a_table_is_printed_row_by_row(reproduction: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    rows = iter([{"problem": "a", "regret": 1.5}, {"problem": "b", "regret": "2 +- 1"}])
    reproduction._print(rows)
    assert capsys.readouterr().out == "| problem | regret |\n|---|---|\n| a | 1.5 |\n| b | 2 +- 1 |\n"
    reproduction._print(iter([]))
    assert capsys.readouterr().out == ""


def test_readings(reproduction: ModuleType) -> None:
    """The row of the benchmark as it is shipped, and a row in which solutions coincide."""
    rows = list(reproduction.readings())
    assert len(rows) == 2 * 2 * 8
    own = benchmark_1()
    shipped = next(
        r for r in rows if r["benchmark"] == "1" and r["0.05 is a"] == "deviation" and r["lengthscale"] == 0.1
    )
    assert shipped["radius"] == f"{own.radius:.3f}"
    assert shipped["robust x"] == f"{float(own.robust_optimum.action[0]):.2f}"
    lost = own.robust_optimum.value - own.robust_values[own.stochastic_optimum.action_index]
    assert shipped["regret of stochastic"] == f"{lost:.3f}"
    assert shipped["all differ"] == "yes"
    assert {r["all differ"] for r in rows if r["benchmark"] == "2"} == {"no"}


def test_radius_says_how_often_the_truth_is_held(reproduction: ModuleType) -> None:
    rows = list(reproduction.radius(samples=400))
    assert [row["contexts seen"] for row in rows] == [1, 2, 5, 10, 20, 50, 100, 200]
    shares = [float(row["a fifth holds the truth"].rstrip("%")) for row in rows]
    assert shares[0] < shares[-1]
    assert {row["the full radius"] for row in rows} == {"100.0%"}


def test_stableopt_counts_both_regrets_from_records(reproduction: ModuleType, tmp_path: Path) -> None:
    """Records in which StableOpt always takes the robust action: no robust regret, and some in its own objective."""
    problem = benchmark_1()
    best = problem.robust_optimum.action_index
    names = ("benchmark_1", "benchmark_2"), ("StableOpt", "StableOpt (own contexts)")
    rows = [
        (p, "simulator", m, run, t, best, 0.0) for p in names[0] for m in names[1] for run in (0, 1) for t in (1, 2)
    ]
    columns = ("problem", "setting", "method", "run", "round", "action", "regret")
    table = dict(zip(columns, map(np.array, zip(*rows, strict=True)), strict=True))
    (tmp_path / "figure2.csv").write_text(to_csv(table))
    first = next(iter(reproduction.stableopt(tmp_path)))
    own = 2.0 * (problem.worst_case_optimum.value - problem.worst_case_values[best])
    assert first["runs"] == 2
    assert first["robust regret"] == "0.0 +- 0.0"
    assert first["regret in its own objective"] == f"{own:.1f} +- 0.0"


def test_hours_are_scaled_to_a_year_and_have_errors(reproduction: ModuleType) -> None:
    few = replace(reproduction.PAPER, rounds=3, size=10)
    told = list(reproduction.solved({"few": few, "noisy": replace(few, noise=0.3)}, every=4380, runs=2))
    assert [row["variant"] for row in told] == ["few", "noisy"]
    for row in told:
        assert (row["hours"], row["seeds"]) == (2, 2)
        mean, error = map(float, row["robust regret per year"].split(" +- "))
        assert mean >= 0.0
        assert error >= 0.0
    (one,) = reproduction.solved({"few": few}, every=4380, runs=1)
    assert "+-" not in one["revenue per year"]


def test_every_variant_of_the_ablation_differs_from_the_first(reproduction: ModuleType) -> None:
    variants = list(reproduction.ABLATION.values())
    assert all(variant != variants[0] for variant in variants[1:])
    assert len(set(map(repr, variants))) == len(variants)


def test_the_loss_to_first_order() -> None:
    script, problem = load("sensitivity"), benchmark_1(12)
    found = script.row(problem, "chi2")
    aim = script.Goal.of(problem, "chi2")
    assert isinstance(aim.ambiguity, ChiSquare)
    f, p = problem.values, problem.reference
    exact = aim.ambiguity.worst_case(f, p, aim.radius).expectation
    deviations = np.sqrt(((f - (f @ p)[:, None]) ** 2) @ p)
    best = int(np.argmax(exact))
    assert found.lost == pytest.approx(float(f[best] @ p - exact[best]), rel=1e-9)
    assert found.lost_to_first_order == pytest.approx(float(deviations[best]) * aim.radius**0.5, rel=1e-9)
    chosen = int(np.argmax(f @ p - deviations * aim.radius**0.5))
    assert found.regret == pytest.approx(float(exact[best] - exact[chosen]), abs=1e-12)
    text = script.table("ratio", [problem], lambda row: f"{row.lost:.2f}")
    assert text.splitlines()[0] == "| ratio | `benchmark_1` |"
    assert len(text.splitlines()) == 2 + 6
