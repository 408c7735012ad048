"""Decisions of 17 to 60 parameters: regrets at the robust goal, and whether printed bounds hold.

    export OPENBLAS_NUM_THREADS=1
    python benchmarks/many_parameters.py OUT --seeds 100 104 --methods "drbo" "drbo with width 2" "drbo at radius 0"
    python benchmarks/many_parameters.py OUT --table    # of what is there already

All methods are judged by the robust goal: the exact worst case over an MMD ball of radius 0.1. Two of them optimise the
expectation. The opponents "BoTorch" have its model with priors scaled by the dimension; the robust one has our
acquisition function and our adversary (efficiency_methods.py). "swimmer" needs gymnasium and MuJoCo. One file per run
goes to OUT, so that a sweep that was stopped goes on where it was.

| problem | parameters + conditions | what it is |
|---|---|---|
| Rosenbrock | 17 + 3 | a curved valley; conditions are three of the inputs |
| Ackley | 30 + 2 | many local optima; conditions move two of the inputs |
| Hartmann-6 | 25 + 1 | 20 of the parameters do nothing |
| gait | 25 + 1 | a bowl whose best place depends on the condition; six parameters cost more in a bad one (our own) |
| schedule | 60 + 3 | 60 hours, three of them hot: load is moved, at a cost (our own) |
| swimmer | 25 + 2 | a gait in MuJoCo; viscosity and mass |
"""

from __future__ import annotations

import argparse
import functools
import itertools
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from drbo.experiments.records import Table, read_csv, select, stack, write_csv
from drbo.problems import hartmann6
from drbo.validation import FloatArray
from efficiency_methods import BoTorch, Drbo, Method, RandomSearch
from efficiency_problems import Problem, normal, rosenbrock
from intervals import clopper_pearson, paired_ratio
from screen_problems import Cheap, CheapTask

FLOOR = 0.1
"""The least regret in per cent that ratios distinguish."""
COLUMNS = ("method", "problem", "seed", "evaluations", "value", "bound", "best", "median", "seconds")
_HARTMANN = hartmann6().function


def _ackley(x: FloatArray, c: FloatArray) -> FloatArray:
    z = 2.0 * x - 1.3 + np.zeros((*c.shape[:-1], 1))
    z[..., :2] += c - 0.5
    far = 20.0 * np.exp(-0.2 * np.sqrt((z**2).mean(axis=-1)))
    return np.asarray(far + np.exp(np.cos(2.0 * np.pi * z).mean(axis=-1)) - 20.0 - np.e)


def _few_of_many(x: FloatArray, c: FloatArray) -> FloatArray:
    return np.asarray(_HARTMANN(x[..., :5], c))


def _gait(x: FloatArray, c: FloatArray) -> FloatArray:
    places = np.arange(x.shape[-1])
    bowl = -4.0 * ((x - 0.35 - 0.3 * np.sin(places)) ** 2 / np.sqrt(1.0 + places)).sum(axis=-1)
    effort = x[..., :6].mean(axis=-1)
    return np.asarray(bowl + 2.0 * c[..., 0] * effort - 12.0 * np.maximum(c[..., 0] - 0.5, 0.0) * effort)


def _schedule(x: FloatArray, c: FloatArray) -> FloatArray:
    hours = np.arange(x.shape[-1])
    usual = 0.5 + 0.3 * np.sin(2.0 * np.pi * hours / 24.0)
    moved = ((x - usual) ** 2).sum(axis=-1)
    hot = sum(c[..., k] * x[..., 20 * k : 20 * k + 4].sum(axis=-1) for k in range(3))
    return np.asarray(-moved - 1.5 * hot)


@functools.cache
def _swimmer() -> Callable[[FloatArray, FloatArray], FloatArray]:
    from simulators import load

    made = load("swimmer")
    within = made.contexts.within  # type: ignore[union-attr]  # samples
    assert within is not None
    intervals: list[Any] = [*made.actions.parameters.values(), *within.parameters.values()]

    def one(row: FloatArray) -> float:
        values = [one.low + (one.high - one.low) * u for one, u in zip(intervals, row.tolist(), strict=True)]
        names = [*made.actions.parameters], [*within.parameters]
        action = dict(zip(names[0], values, strict=False))
        return made.evaluate(action, dict(zip(names[1], values[len(names[0]) :], strict=True)))

    def function(x: FloatArray, c: FloatArray) -> FloatArray:
        shape = np.broadcast_shapes(x.shape[:-1], c.shape[:-1])
        both = [np.broadcast_to(part, (*shape, part.shape[-1])) for part in (x, c)]
        rows = np.concatenate(both, axis=-1).reshape(-1, x.shape[-1] + c.shape[-1])
        return np.array([one(row) for row in rows]).reshape(shape)

    return function


PROBLEMS = {
    problem.name: problem
    for problem in (
        Problem("Rosenbrock", "reported", 17, 3, rosenbrock(17, (2, 8, 14)), normal(0.15, 3)),
        Problem("Ackley", "reported", 30, 2, _ackley, normal(0.15, 2)),
        Problem("Hartmann-6", "reported", 25, 1, _few_of_many, normal(0.1, 1)),
        Problem("gait", "reported", 25, 1, _gait, normal(0.15, 1)),
        Problem("schedule", "reported", 60, 3, _schedule, normal(0.15, 3)),
        Problem("swimmer", "reported", 25, 2, lambda x, c: _swimmer()(x, c), normal(0.12, 2)),
    )
}
METHODS: dict[str, Callable[[CheapTask], Method]] = {
    "random search": lambda task: RandomSearch(task, "robust"),
    "BoTorch robust": lambda task: BoTorch(task, "robust"),
    "BoTorch expectation": lambda task: BoTorch(task, "risk-neutral"),
    "drbo at radius 0": lambda task: Drbo(task, "risk-neutral"),
    "drbo with width 2": lambda task: Drbo(task, "robust", beta=2.0),
    "drbo": lambda task: Drbo(task, "robust"),
}


def run(name: str, problem: str, seed: int, checkpoints: list[int]) -> Table:
    """Return a row per checkpoint of one run."""
    task = CheapTask(PROBLEMS[problem], seed, Cheap(PROBLEMS[problem]))
    best, median = (0.0, 0.0) if problem == "swimmer" else task.best_and_median("robust")
    rng, seconds, rows = np.random.default_rng([seed, 2]), 0.0, []
    method = METHODS[name](task)
    for evaluation in range(1, checkpoints[-1] + 1):
        start = time.process_time()
        action, context = method.ask()
        seconds += time.process_time() - start
        method.tell(action, context, task.outcome(action, context, rng))
        if evaluation in checkpoints:
            value = float(task.value("robust", method.deploy()[None])[0])
            stated = isinstance(method, Drbo) and method.objective == "robust"
            bound = method.optimizer.recommend().value if stated else np.nan  # type: ignore[attr-defined]  # of Drbo
            rows.append((name, problem, seed, evaluation, value, bound, best, median, seconds))
    return {column: np.array(values) for column, values in zip(COLUMNS, zip(*rows, strict=True), strict=True)}


def table(records: Table, against: str) -> str:
    """Return mean values by problem, ratios of regrets to those of one method, and false bounds, as Markdown."""
    names = [name for name in METHODS if name in records["method"]]
    lines = ["| problem | evaluations | runs | " + " | ".join(names) + " |", "|---" * (len(names) + 3) + "|"]
    for problem, t in itertools.product(PROBLEMS, np.unique(records["evaluations"]).tolist()):
        parts = [select(records, problem=problem, evaluations=t, method=name)["value"] for name in names]
        if any(map(len, parts)):
            cells = " | ".join(f"{part.mean():.4g}" if len(part) else "-" for part in parts)
            lines.append(f"| {problem} | {t} | {max(map(len, parts))} | {cells} |")
    lines += [
        "",
        f"| method | evaluations | pairs | regret / that of {against} (95%) | false bounds |",
        "|---" * 5 + "|",
    ]
    known = {key: value[records["best"] != records["median"]] for key, value in records.items()}
    for name, t in itertools.product(names, np.unique(known["evaluations"]).tolist()):
        ours, theirs = (select(known, method=one, evaluations=t) for one in (name, against))
        regrets = [_regrets(one) for one in (ours, theirs)]
        both = sorted(regrets[0].keys() & regrets[1].keys())
        stated = select(records, method=name, evaluations=t)
        stated = {key: value[np.isfinite(stated["bound"])] for key, value in stated.items()}
        false, total = int((stated["bound"] > stated["value"] + 1e-9).sum()), len(stated["bound"])
        share = "-" if not total else f"{false} of {total} (at most {clopper_pearson(false, total)[1]:.1%})"
        if both:
            mine, other = ([one[key] for key in both] for one in regrets)
            ratio, low, high = paired_ratio(mine, other, floor=FLOOR)
            lines.append(f"| {name} | {t} | {len(both)} | {ratio:.2f} ({low:.2f} to {high:.2f}) | {share} |")
    return "\n".join(lines)


def _regrets(records: Table) -> dict[tuple[str, int], float]:
    """Return regrets in per cent of (best - median action) by problem and seed."""
    scale = np.maximum(records["best"] - records["median"], 1e-12)
    regrets = 100.0 * np.maximum(records["best"] - records["value"], 0.0) / scale
    keys = zip(records["problem"].tolist(), records["seed"].tolist(), strict=True)
    return dict(zip(keys, regrets.tolist(), strict=True))


def main() -> None:
    """Run what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", nargs=2, type=int, default=[100, 104], help="the first, and the one after the last")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), metavar="METHOD")
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS), metavar="PROBLEM")
    parser.add_argument("--checkpoints", nargs="+", type=int, default=[20, 40, 60])
    parser.add_argument("--against", choices=METHODS, default="drbo at radius 0")
    parser.add_argument("--table", action="store_true", help="run nothing")
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # of the opponents
    for seed, problem, name in itertools.product(range(*given.seeds), given.problems, given.methods):
        file = given.out / name / f"{problem}, {seed}, {given.checkpoints[-1]}.csv"
        if not (given.table or file.is_file()):
            file.parent.mkdir(parents=True, exist_ok=True)
            write_csv(file, run(name, problem, seed, given.checkpoints))
    print(table(stack(read_csv(file) for file in sorted(given.out.glob("*/*.csv"))), given.against))


if __name__ == "__main__":
    main()
