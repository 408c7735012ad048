"""Implementation of `drbo reproduce` and `drbo compare`: run or resume a sweep, then draw its figure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from drbo._messages import printable
from drbo.experiments._methods import METHODS, OF_THE_PAPER
from drbo.experiments._tasks import SETS, SETTINGS, SHARE, Dial, Goal, Task, data_driven_radius, radius_for_loss
from drbo.experiments.records import (
    Outcome,
    Plan,
    Store,
    Table,
    mean_and_error,
    number,
    per_run,
    required,
    run,
    select,
    stack,
    sweep,
)
from drbo.names import MethodName, SettingName
from drbo.problems import Problem, benchmark_1, benchmark_2
from drbo.radius import empirical

__all__ = ["compare", "corollary4", "demo", "dial", "figure1", "figure2", "methods_for", "problem_row", "sets"]


def figure1(plan: Plan) -> Outcome:
    """Draw both benchmark functions with their distributions and solutions."""
    required("matplotlib")
    from drbo.experiments import _figures, style

    problems = [benchmark_1(), benchmark_2()]
    files = style.save(_figures.figure1(problems), plan.out / "figure1")
    return Outcome(files, [problem_row(problem) for problem in problems])


def figure2(plan: Plan) -> Outcome:
    """Run three methods in three settings on both benchmarks, and draw their robust regret.

    In a simulator StableOpt runs twice: with DRBO's context rule, and with the rule of its own paper.
    """
    required("matplotlib", "joblib")
    from drbo.experiments import _figures, style

    problems = [benchmark_1(), benchmark_2()]
    name = plan.named("figure2")
    records = regret_sweep(name, plan, problems, SETTINGS, (*OF_THE_PAPER, MethodName.STABLEOPT_OWN))
    files = style.save(_figures.figure2(records, [p.name for p in problems], plan.seed), plan.out / name)
    return Outcome([plan.out / f"{name}.csv", *files], regret_rows(records))


def corollary4(plan: Plan) -> Outcome:
    """Run three methods in the data-driven setting with the literal radius of Corollary 4, and draw their regret."""
    required("matplotlib", "joblib")
    from drbo.experiments import _figures, style

    problems = [benchmark_1(), benchmark_2()]
    records = regret_sweep("corollary4", plan, problems, [SettingName.DATA_DRIVEN.value], share=1.0)
    files = style.save(_figures.corollary4(records, [p.name for p in problems], plan.seed), plan.out / "corollary4")
    rows = regret_rows(records)
    for problem in problems:
        everything = _rounds_of_everything(problem, select(records, problem=problem.name, method="DRBO"))
        for row in rows:
            if row["problem"] == problem.name:
                row["rounds with every distribution"] = everything
    return Outcome([plan.out / "corollary4.csv", *files], rows)


def _rounds_of_everything(problem: Problem, records: Table) -> float:
    """Return the mean number of rounds per run in which the ball of Corollary 4 holds every distribution."""
    rule, n = data_driven_radius("mmd", share=1.0), len(problem.contexts)
    vertices = np.eye(n)
    counts = []
    for contexts in per_run(records, "context").astype(np.intp):
        held = 0
        for t in range(len(contexts)):
            seen = contexts[:t]
            reference = empirical(seen, n)
            farthest = max(problem.ambiguity.distance(reference, vertex) for vertex in vertices)
            if rule.radius(seen, problem.ambiguity, n) < farthest:
                break  # the radius shrinks faster than the reference moves
            held += 1
        counts.append(held)
    return float(np.mean(counts))


def demo(plan: Plan) -> Outcome:
    """Run three methods on benchmark 1 in the simulator setting, and draw the function and their regret."""
    required("matplotlib", "joblib")
    from drbo.experiments import _figures, style

    problem = benchmark_1()
    name = plan.named("demo")
    records = regret_sweep(name, plan, [problem], ["simulator"])
    files = style.save(_figures.demo(problem, records, plan.seed), plan.out / name)
    return Outcome(files, regret_rows(records))


def regret_sweep(
    name: str,
    plan: Plan,
    problems: Sequence[Problem],
    settings: Sequence[str],
    methods: Sequence[MethodName] = OF_THE_PAPER,
    share: float = SHARE,
) -> Table:
    """Return the records of every problem, setting, method that supports the setting, and run."""
    jobs = {
        f"{problem.name}-{setting}-{METHODS[method].label}-{number}": (
            *plan.job(problem, setting, method, number),
            False,
            share,
        )
        for problem in problems
        for setting in settings
        for method in methods
        if setting in METHODS[method].settings
        for number in range(plan.runs)
    }
    description = {
        "problems": [problem.name for problem in problems],
        "settings": list(settings),
        "methods": [METHODS[name].label for name in methods],
        "radii": [Goal.of(problem, plan.ambiguity).radius for problem in problems],
        "data-driven radius": repr(data_driven_radius(plan.ambiguity, share)),
        **plan.description(),
    }
    return sweep(name, Store(plan.out, name, description), run, jobs, plan.execution)


def regret_rows(records: Table) -> list[dict[str, Any]]:
    """Return the total robust regret per problem, setting and method, and the regret per round in the last quarter."""
    rows = []
    seen = dict.fromkeys(zip(records["problem"], records["setting"], records["method"], strict=True))
    for problem, setting, method in seen:
        own = select(records, problem=problem, setting=setting, method=method)
        regret = per_run(own, "regret")
        total, error = mean_and_error(regret.sum(axis=1))
        late = regret[:, -max(regret.shape[1] // 4, 1) :]
        rows.append(
            {
                "problem": str(problem),
                "setting": str(setting),
                "method": str(method),
                "runs": len(regret),
                "rounds": regret.shape[1],
                "regret": float(total),
                "standard error": number(error),
                "per round, last quarter": float(late.mean()),
            }
        )
    return rows


def dial(plan: Plan) -> Outcome:
    """Draw the robust choice as a function of the radius, from stochastic to worst case."""
    required("matplotlib")
    from drbo.experiments import _figures, style

    problem = benchmark_1()
    aim = Goal.of(problem, plan.ambiguity)
    largest = _radius_of_nearly_the_worst(problem, plan.ambiguity)
    result = Dial.of(problem, aim, np.linspace(0.0, largest, 121))
    files = style.save(_figures.dial(problem, result, aim), plan.out / plan.named("dial"))
    rows = []
    for i in sorted({int(np.argmax(result.action_index == x)) for x in result.action_index}):
        rows.append({"action": float(problem.actions[result.action_index[i], 0]), **result.row(i)})
    return Outcome(files, rows)


def sets(plan: Plan) -> Outcome:
    """Draw the worst distributions of all sets side by side, at radii with an equal loss of the robust solution."""
    required("matplotlib")
    from drbo.experiments import _figures, style

    problem = benchmark_1()
    x = problem.robust_optimum.action_index
    rows, weights, radii = [], {}, {}
    for name in SETS:
        aim = Goal.of(problem, name)
        worst = aim.ambiguity.worst_case(problem.values[x], problem.reference, aim.radius)
        weights[name], radii[name] = worst.weights, aim.radius
        rows.append(
            {
                "set": name,
                "radius": aim.radius,
                "expected": float(problem.stochastic_values[x]),
                "worst case": float(worst.expectation),
                "contexts used": int(np.count_nonzero(worst.weights > problem.reference + 1e-9)),
            }
        )
    files = style.save(_figures.sets(problem, x, weights, radii), plan.out / "sets")
    return Outcome(files, rows)


def _radius_of_nearly_the_worst(problem: Problem, set_name: str) -> float:
    """Return a radius slightly beyond the one at which the stochastic solution has lost 99% of its possible loss."""
    ambiguity = SETS[set_name](problem)
    v = problem.values[problem.stochastic_optimum.action_index]
    most = float(v @ problem.reference - ambiguity.worst_case(v, problem.reference, np.inf).expectation)
    return 1.2 * radius_for_loss(v, ambiguity, problem.reference, 0.99 * most)


def problem_row(problem: Problem) -> dict[str, Any]:
    """Return a problem's size and its optima: stochastic, distributionally robust, pure worst case, and StableOpt's."""
    row: dict[str, Any] = {"problem": problem.name, "actions": len(problem.actions), "contexts": len(problem.contexts)}
    row["radius"] = problem.radius
    for label, optimum in (
        ("stochastic", problem.stochastic_optimum),
        ("robust", problem.robust_optimum),
        ("worst case", problem.pure_worst_case_optimum),
        ("StableOpt", problem.worst_case_optimum),
    ):
        row[f"{label} x"] = optimum.action.tolist()
        row[f"{label} value"] = optimum.value
    return row


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
            raise ValueError(f"method {name!r} is not for the {printable(setting)} setting; these are: {known}")
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
    jobs = {f"{number}": (*plan.job(problem, setting, method, number), True) for number in range(plan.runs)}
    description = {
        "problem": problem.name,
        "setting": setting,
        "method": method,
        "radius": task.aim.radius,
        "data-driven radius": repr(task.rule),
        **plan.description(),
    }
    if METHODS[method].constrained:
        description["constraint"] = str(task.constraint)
    title = f"{problem.name}: {METHODS[method].label}"
    return sweep(title, Store(plan.out, name, description), run, jobs, plan.execution)


def judged(table: Table, task: Task) -> Table:
    """Return the records of a method, extended by the constraint of the task.

    `infeasible` : 1 if the recommended action violates the constraint, otherwise 0
    `constrained regret` : the worst case of the best feasible action, less that of the recommended one
    `open`, `false labels` : the numbers of actions without a label, and with a false one; nan if not recorded
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
