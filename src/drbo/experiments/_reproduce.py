"""Implementation of `drbo reproduce`: run or resume a sweep, then draw its figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from drbo.experiments._methods import METHODS, OF_THE_PAPER
from drbo.experiments._tasks import SETS, SETTINGS, SHARE, Goal, RadiusDial, data_driven_radius, radius_for_loss
from drbo.experiments.records import (
    Output,
    Plan,
    Store,
    Table,
    mean_and_error,
    number,
    per_run,
    required,
    run,
    select,
    sweep,
)
from drbo.names import MethodName, SettingName
from drbo.problems import Problem, benchmark_1, benchmark_2
from drbo.radius import empirical

__all__ = ["corollary4", "demo", "dial", "figure1", "figure2", "problem_row", "sets"]


def figure1(plan: Plan) -> Output:
    """Draw both benchmark functions with their distributions and solutions."""
    required("matplotlib")
    from drbo.experiments import _figures, style

    problems = [benchmark_1(), benchmark_2()]
    files = style.save(_figures.figure1(problems), plan.out / "figure1")
    return Output(files, [problem_row(problem) for problem in problems])


def figure2(plan: Plan) -> Output:
    """Run three methods in three settings on both benchmarks, and draw their robust regret.

    In a simulator StableOpt runs twice: with DRBO's context rule, and with the rule of its own paper.
    """
    required("matplotlib", "joblib")
    from drbo.experiments import _figures, style

    problems = [benchmark_1(), benchmark_2()]
    name = plan.named("figure2")
    records = regret_sweep(name, plan, problems, SETTINGS, (*OF_THE_PAPER, MethodName.STABLEOPT_OWN))
    files = style.save(_figures.figure2(records, [p.name for p in problems], plan.seed), plan.out / name)
    return Output([plan.out / f"{name}.csv", *files], regret_rows(records))


def corollary4(plan: Plan) -> Output:
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
    return Output([plan.out / "corollary4.csv", *files], rows)


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


def demo(plan: Plan) -> Output:
    """Run three methods on benchmark 1 in the simulator setting, and draw the function and their regret."""
    required("matplotlib", "joblib")
    from drbo.experiments import _figures, style

    problem = benchmark_1()
    name = plan.named("demo")
    records = regret_sweep(name, plan, [problem], ["simulator"])
    files = style.save(_figures.demo(problem, records, plan.seed), plan.out / name)
    return Output(files, regret_rows(records))


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


def dial(plan: Plan) -> Output:
    """Draw the robust choice as a function of the radius, from stochastic to worst case."""
    required("matplotlib")
    from drbo.experiments import _figures, style

    problem = benchmark_1()
    aim = Goal.of(problem, plan.ambiguity)
    largest = _radius_of_nearly_the_worst(problem, plan.ambiguity)
    result = RadiusDial.of(problem, aim, np.linspace(0.0, largest, 121))
    files = style.save(_figures.dial(problem, result, aim), plan.out / plan.named("dial"))
    rows = []
    for i in sorted({int(np.argmax(result.action_index == x)) for x in result.action_index}):
        rows.append({"action": float(problem.actions[result.action_index[i], 0]), **result.row(i)})
    return Output(files, rows)


def sets(plan: Plan) -> Output:
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
    return Output(files, rows)


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
