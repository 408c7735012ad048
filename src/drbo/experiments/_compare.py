"""What `drbo compare` does: run or resume methods on problems with paired seeds, then draw and count their regret."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from drbo.experiments._methods import METHODS
from drbo.experiments._reproduce import Outcome, Plan, required
from drbo.experiments._runs import run
from drbo.experiments._sweep import sweep
from drbo.experiments._tasks import Goal, data_driven_radius
from drbo.experiments.records import Store, Table, select, stack
from drbo.experiments.statistics import mean_and_error, number, per_run
from drbo.problems import Problem

RECORDS = 1
"""Counts the changes of the code after which old records no longer hold."""


def methods_for(setting: str) -> list[str]:
    """Return the names of the methods that are for a setting."""
    return [name for name, method in METHODS.items() if setting in method.settings]


def compare(plan: Plan, problems: Sequence[Problem], methods: Sequence[str], setting: str) -> Outcome:
    """Run methods on problems in one setting; return their simple and cumulative robust regret, and draw both.

    Every method of a problem is a sweep of its own: its records are found again in a comparison with other methods.
    """
    required("matplotlib", "joblib")
    from drbo.experiments import _figures, style

    for name in methods:
        if name not in METHODS:
            raise ValueError(f"unknown method {name!r}; known: {', '.join(METHODS)}")
        if setting not in METHODS[name].settings:
            known = ", ".join(methods_for(setting))
            raise ValueError(f"method {name!r} is not for the {setting} setting; these are: {known}")
    tables = [_sweep(plan, problem, name, setting) for problem in problems for name in methods]
    records = stack(tables)
    names = "-".join(problem.name for problem in problems)
    if len(problems) > 3:
        names = f"{len(problems)}-problems-{hashlib.sha256(names.encode()).hexdigest()[:8]}"
    figure = _figures.compare(records, [problem.name for problem in problems])
    files = style.save(figure, plan.out / plan.named(f"compare-{names}-{setting}"))
    return Outcome(files, compare_rows(records))


def _sweep(plan: Plan, problem: Problem, method: str, setting: str) -> Table:
    """Return the records of all runs of one method on one problem."""
    name = plan.named(f"compare-{problem.name}-{setting}-{method}")
    jobs = {
        f"{number}": (problem, setting, method, plan.rounds, plan.seed, number, plan.ambiguity, True)
        for number in range(plan.runs)
    }
    description = {
        "problem": problem.name,
        "setting": setting,
        "method": method,
        "ambiguity": plan.ambiguity,
        "radius": Goal.of(problem, plan.ambiguity).radius,
        "data-driven radius": repr(data_driven_radius(plan.ambiguity)),
        "runs": plan.runs,
        "rounds": plan.rounds,
        "seed": plan.seed,
        "records": RECORDS,
    }
    title = f"{problem.name}: {METHODS[method].label}"
    return sweep(title, Store(plan.out, name, description), run, jobs, plan.execution)


def compare_rows(records: Table) -> list[dict[str, Any]]:
    """Return a row per problem and method: both regrets with their standard errors, and the seconds of a run.

    `wins` counts the runs in which no other method had a smaller cumulative regret: the runs are paired.
    """
    rows = []
    for problem in dict.fromkeys(records["problem"].tolist()):
        own = select(records, problem=problem)
        totals = {
            method: per_run(select(own, method=method), "regret").sum(axis=1)
            for method in dict.fromkeys(own["method"].tolist())
        }
        least = np.min(list(totals.values()), axis=0)
        for method, total in totals.items():
            table = select(own, method=method)
            regret, error = mean_and_error(total)
            simple, simple_error = mean_and_error(per_run(table, "simple regret")[:, -1])
            rows.append(
                {
                    "problem": problem,
                    "setting": str(table["setting"][0]),
                    "method": method,
                    "runs": len(total),
                    "rounds": int(table["round"].max()),
                    "regret": float(regret),
                    "standard error": number(error),
                    "wins": int((total <= least).sum()),
                    "simple regret": float(simple),
                    "its standard error": number(simple_error),
                    "seconds per run": float(per_run(table, "seconds").sum(axis=1).mean()),
                }
            )
    return rows
