"""Implementation of `drbo compare`: run or resume methods on problems with paired seeds, then report their regret."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from drbo.experiments._methods import METHODS
from drbo.experiments._reproduce import Outcome, Plan, required
from drbo.experiments._runs import run, sweep
from drbo.experiments._tasks import Task
from drbo.experiments.records import Store, Table, mean_and_error, number, per_run, select, stack
from drbo.problems import Problem

RECORDS = 1
"""Version of the records; increase it when a code change makes old records invalid."""


def methods_for(setting: str) -> list[str]:
    """Return the names of the methods that support a setting."""
    return [name for name, method in METHODS.items() if setting in method.settings]


def compare(plan: Plan, problems: Sequence[Problem], methods: Sequence[str], setting: str) -> Outcome:
    """Run methods on problems in one setting; return their simple and cumulative robust regret, and draw both.

    Every method of a problem is a separate sweep, so a comparison with other methods finds its records again. If one
    method has a constraint, all methods are also judged by the constraint.
    """
    required("matplotlib", "joblib")
    from drbo.experiments import _figures, style

    for name in methods:
        if name not in METHODS:
            raise ValueError(f"unknown method {name!r}; known: {', '.join(METHODS)}")
        if setting not in METHODS[name].settings:
            known = ", ".join(methods_for(setting))
            raise ValueError(f"method {name!r} is not for the {setting} setting; these are: {known}")
    constrained = any(METHODS[name].constrained for name in methods)
    tables = []
    for problem in problems:
        task = Task.of(problem, setting, plan.ambiguity)
        own = [_sweep(plan, task, name) for name in methods]
        tables += [judged(table, task) for table in own] if constrained else own
    records = stack(tables)
    names = "-".join(problem.name for problem in problems)
    if len(problems) > 3:
        names = f"{len(problems)}-problems-{hashlib.sha256(names.encode()).hexdigest()[:8]}"
    figure = _figures.compare(records, [problem.name for problem in problems])
    files = style.save(figure, plan.out / plan.named(f"compare-{names}-{setting}"))
    return Outcome(files, compare_rows(records))


def _sweep(plan: Plan, task: Task, method: str) -> Table:
    """Return the records of all runs of one method on one task."""
    problem, setting = task.problem, task.setting
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
        "radius": task.aim.radius,
        "data-driven radius": repr(task.rule),
        "runs": plan.runs,
        "rounds": plan.rounds,
        "seed": plan.seed,
        "records": RECORDS,
    }
    if METHODS[method].constrained:
        description["constraint"] = str(task.constraint)
    title = f"{problem.name}: {METHODS[method].label}"
    return sweep(title, Store(plan.out, name, description), run, jobs, plan.execution)


def judged(table: Table, task: Task) -> Table:
    """Return the records of a method, extended by the constraint of the task.

    `infeasible` : 1 if the recommended action violates the constraint, otherwise 0
    `constrained regret` : the worst case of the best feasible action, less that of the recommended one
    `open`, `false labels` : the numbers of actions not certified either way, and falsely certified; nan if not recorded
    """
    own, chosen = task.problem, table["recommended"]
    robust = task.aim.worst_cases(own, own.values)
    absent = np.full(len(chosen), np.nan)
    inside, outside, wrong = (table.get(name, absent) for name in ("in", "out", "false labels"))
    rest = {name: column for name, column in table.items() if name not in ("in", "out", "false labels")}
    return rest | {
        "infeasible": (~task.feasible[chosen]).astype(int),
        "constrained regret": robust[task.constrained_solution(own.values)] - robust[chosen],
        "open": len(own.actions) - inside - outside,
        "false labels": wrong,
    }


def compare_rows(records: Table) -> list[dict[str, Any]]:
    """Return a row per problem and method: both regrets with standard errors, and the seconds per run.

    `wins` counts the runs in which no other method had a smaller cumulative regret; the runs are paired. For `judged`
    records, the row also summarises the constraint.
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
                    **(_constrained(table) if "infeasible" in table else {}),
                }
            )
    return rows


def _constrained(table: Table) -> dict[str, Any]:
    """Return a summary of the last round of each run under the constraint.

    The constrained regret is the mean over the runs that recommend a feasible action; the other runs are counted. Open
    actions are averaged. False labels are the largest number in any run.
    """
    missed = per_run(table, "infeasible")[:, -1] > 0.0
    lost = per_run(table, "constrained regret")[~missed, -1]
    mean, error = mean_and_error(lost) if len(lost) else (np.array(np.nan), np.array(np.nan))
    return {
        "constrained regret": number(mean),
        "standard error of constrained regret": number(error),
        "infeasible runs": int(missed.sum()),
        "open actions": number(per_run(table, "open")[:, -1].mean()),
        "false labels": number(per_run(table, "false labels")[:, -1].max()),
    }
