"""What `drbo reproduce` does: run or resume a sweep, then draw its figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from drbo.experiments._methods import METHODS
from drbo.experiments._runs import DATA_DRIVEN_RADIUS, SETTINGS, run
from drbo.experiments._store import Store, Table, select
from drbo.experiments._sweep import Execution, sweep
from drbo.experiments._wind import WindYear, backtest_table, decide
from drbo.problems import Problem, WindSeries, benchmark_1, benchmark_2
from drbo.robustness import profile


@dataclass(frozen=True)
class Plan:
    """How much to run, from which seed, where, and where the results go."""

    out: Path
    runs: int = 50
    rounds: int = 200
    seed: int = 0
    execution: Execution = field(default_factory=Execution)


@dataclass(frozen=True)
class Outcome:
    """What came out: the files written, and a table to print, one row each."""

    files: list[Path]
    rows: list[dict[str, Any]]


def figure1(plan: Plan) -> Outcome:
    """Draw both benchmark functions with their distributions and solutions."""
    from drbo.experiments import _figures, _style

    problems = [benchmark_1(), benchmark_2()]
    files = _style.save(_figures.figure1(problems), plan.out / "figure1")
    return Outcome(files, [problem_row(problem) for problem in problems])


def figure2(plan: Plan) -> Outcome:
    """Run three methods in three settings on both benchmarks, and draw their robust regret."""
    problems = [benchmark_1(), benchmark_2()]
    records = regret_sweep("figure2", plan, problems, SETTINGS)
    from drbo.experiments import _figures, _style

    files = _style.save(_figures.figure2(records, [p.name for p in problems]), plan.out / "figure2")
    return Outcome([plan.out / "figure2.csv", *files], regret_rows(records))


def demo(plan: Plan) -> Outcome:
    """Run three methods on benchmark 1 in the simulator setting, and draw the function and their regret."""
    problem = benchmark_1()
    records = regret_sweep("demo", plan, [problem], ["simulator"])
    from drbo.experiments import _figures, _style

    files = _style.save(_figures.demo(problem, records), plan.out / "demo")
    return Outcome(files, regret_rows(records))


def regret_sweep(name: str, plan: Plan, problems: Sequence[Problem], settings: Sequence[str]) -> Table:
    """Return the records of every problem, setting, method and run."""
    jobs = {
        f"{problem.name}-{setting}-{method.name}-{number}": (
            problem,
            setting,
            method.name,
            plan.rounds,
            plan.seed,
            number,
        )
        for problem in problems
        for setting in settings
        for method in METHODS
        for number in range(plan.runs)
    }
    description = {
        "problems": [problem.name for problem in problems],
        "settings": list(settings),
        "methods": [method.name for method in METHODS],
        "data-driven radius": repr(DATA_DRIVEN_RADIUS),
        "runs": plan.runs,
        "rounds": plan.rounds,
        "seed": plan.seed,
    }
    return sweep(name, Store(plan.out, name, description), run, jobs, plan.execution)


def regret_rows(records: Table) -> list[dict[str, Any]]:
    """Return the total robust regret of each problem, setting and method, and that of the last quarter a round."""
    rows = []
    seen = dict.fromkeys(zip(records["problem"], records["setting"], records["method"], strict=True))
    for problem, setting, method in seen:
        own = select(records, problem=problem, setting=setting, method=method)
        regret = own["regret"].reshape(len(np.unique(own["run"])), -1)
        total = regret.sum(axis=1)
        late = regret[:, -max(regret.shape[1] // 4, 1) :]
        rows.append(
            {
                "problem": str(problem),
                "setting": str(setting),
                "method": str(method),
                "runs": len(regret),
                "rounds": regret.shape[1],
                "regret": float(total.mean()),
                "standard error": float(total.std(ddof=1) / np.sqrt(len(total))) if len(total) > 1 else 0.0,
                "per round, last quarter": float(late.mean()),
            }
        )
    return rows


def figure3(plan: Plan, series: WindSeries, hours: int | None = None) -> Outcome:
    """Choose radii on the first year of wind, decide every hour of the second, and draw revenue and regret.

    `hours` limits the second year to its first hours, and the backtest likewise.
    """
    year = WindYear(series)
    first, second = year.hours(0)[:hours], year.hours(1)[:hours]
    names = [str(series.times[h[len(h) // 2]].astype("datetime64[Y]")) for h in (first, second)]
    common = {"series": series.name, "hours": [int(first[0]), len(first), int(second[0]), len(second)]}
    tests = {
        f"{method}-{name}": (year.power, h, method, name)
        for method in ("DRBO", "StableOpt")
        for name, h in zip(names, (first, second), strict=True)
    }
    store = Store(plan.out, "figure3_backtest", common)
    backtests = sweep("wind: radii", store, backtest_table, tests, plan.execution)
    radii = {}
    for method in ("DRBO", "StableOpt"):
        own = select(backtests, method=method, year=_typed(names[0], backtests["year"]))
        radii[method] = float(own["radius"][np.argmax(own["revenue"])])
    parts = np.array_split(second, max(len(second) // 48, 1))
    jobs = {f"hours-{part[0]}": (year.power, part, radii, plan.rounds, plan.seed) for part in parts}
    settings = {**common, "radii": radii, "rounds": plan.rounds, "seed": plan.seed}
    records = sweep("wind: hours", Store(plan.out, "figure3", settings), decide, jobs, plan.execution)
    from drbo.experiments import _figures, _style

    title = f"{series.name}, {names[1]}"
    figure = _figures.figure3(records, backtests, radii, title, series.times[0])
    files = _style.save(figure, plan.out / "figure3")
    rows = []
    for method in ("DRBO", "UCB", "StableOpt", "no commitment", "exact DRO"):
        own = select(records, method=method)
        rows.append(
            {
                "method": method,
                "radius": radii.get("DRBO" if method == "exact DRO" else method),
                "hours": len(own["hour"]),
                "revenue": float(own["revenue"].sum()),
                "robust regret": float(own["regret"].sum()),
                "mean commitment": float(own["action"].mean() / 49.0),
            }
        )
    return Outcome([plan.out / "figure3.csv", plan.out / "figure3_backtest.csv", *files], rows)


def dial(plan: Plan) -> Outcome:
    """Draw how the robust choice moves from stochastic to worst case as the radius grows."""
    from drbo.experiments import _figures, _style

    problem = benchmark_1()
    result = profile(problem.values, problem.ambiguity, problem.reference, np.linspace(0.0, 1.2, 121))
    files = _style.save(_figures.dial(problem, result), plan.out / "dial")
    rows = []
    for i in sorted({int(np.argmax(result.action_index == x)) for x in result.action_index}):
        row = result.rows()[i]
        rows.append({"action": float(problem.actions[result.action_index[i], 0]), **row})
    return Outcome(files, rows)


def problem_row(problem: Problem) -> dict[str, Any]:
    """Return a problem's size and its three optima."""

    def at(action: Any) -> str:
        return ", ".join(f"{a:.3g}" for a in action)

    row: dict[str, Any] = {"problem": problem.name, "actions": len(problem.actions), "contexts": len(problem.contexts)}
    row["radius"] = problem.radius
    for label, optimum in (
        ("stochastic", problem.stochastic_optimum),
        ("robust", problem.robust_optimum),
        ("StableOpt", problem.worst_case_optimum),
    ):
        row[f"{label} x"] = at(optimum.action)
        row[f"{label} value"] = optimum.value
    return row


def _typed(name: str, column: Any) -> Any:
    """Return a year's name in the type that the column has after a round trip through CSV."""
    return column.dtype.type(name)
