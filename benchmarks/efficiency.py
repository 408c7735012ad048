"""How many evaluations drbo and others need: runs with a known truth, and the tables of docs/evidence.md.

    export OPENBLAS_NUM_THREADS=1
    python benchmarks/efficiency.py run OUT --seeds 100 112 --methods "BoTorch" "drbo default"
    python benchmarks/efficiency.py table OUT --methods "BoTorch" "drbo default"    # on seeds that all have run
    python benchmarks/efficiency.py ask OUT --methods "drbo default"    # the time of one ask

A run has 60 evaluations of one problem (efficiency_problems.py) by one method (efficiency_methods.py). At each
checkpoint the method says what it would deploy, and the true value of that action is recorded. One file per run goes to
OUT, so that a sweep that was stopped goes on where it was, and several may fill one folder. Runs of the same seed have
the same draws of the context. The methods that need torch or Optuna fail where these are not installed.
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from drbo.experiments.records import Table, read_csv, stack, write_csv
from efficiency_methods import METHODS
from efficiency_problems import OBJECTIVES, PROBLEMS, TIMED, Objective, Task
from efficiency_table import tables

CHECKPOINTS = (10, 20, 30, 40, 50, 60)


class Truth:
    """The value of the best action and of the median one, for problem, seed and objective; methods share it."""

    def __init__(self, records: Table) -> None:
        columns = (records[name].tolist() for name in ("problem", "seed", "objective", "best", "median") if records)
        self._known = {(problem, seed, judged): rest for problem, seed, judged, *rest in zip(*columns, strict=True)}

    def best_and_median(self, task: Task, objective: Objective) -> tuple[float, float]:
        """Return what regrets are measured by."""
        key = (task.problem.name, task.seed, objective)
        if key not in self._known:
            self._known[key] = list(task.best_and_median(objective))
        best, median = self._known[key]
        return best, median


def run(name: str, problem: str, seed: int, objective: Objective, truth: Truth) -> Table:
    """Return the records of one run: a row per checkpoint, and per objective if the method does not see it."""
    task = Task(PROBLEMS[problem], seed)
    rng = np.random.default_rng([seed, 2])
    start = time.process_time()
    method = METHODS[name](task, objective)
    seconds = time.process_time() - start
    rows = []
    for evaluations in range(1, CHECKPOINTS[-1] + 1):
        start = time.process_time()
        action, context = method.ask()
        method.tell(action, context, float(task.problem.function(action, context)) + task.noise * float(rng.normal()))
        seconds += time.process_time() - start
        if evaluations in CHECKPOINTS:
            deployed = method.deploy()[None]
            for judged in (objective,) if method.sees_objective else OBJECTIVES:
                value, (best, median) = task.value(judged, deployed)[0], truth.best_and_median(task, judged)
                rows.append((name, problem, judged, seed, evaluations, value, best, median, seconds))
    columns = ("method", "problem", "objective", "seed", "evaluations", "value", "best", "median", "seconds")
    return {column: np.array(values) for column, values in zip(columns, zip(*rows, strict=True), strict=True)}


def sweep(out: Path, methods: list[str], problems: list[str], seeds: range) -> None:
    """Run what has no file yet, all methods and problems of one seed before the next seed."""
    truth = Truth(read(out))
    for seed, problem, name in itertools.product(seeds, problems, methods):
        for objective in OBJECTIVES:
            blind = not getattr(METHODS[name], "sees_objective", True)
            file = out / name / f"{problem}, {'both' if blind else objective}, {seed}.csv"
            if not file.is_file():
                file.parent.mkdir(parents=True, exist_ok=True)
                write_csv(file, run(name, problem, seed, objective, truth))


def time_ask(name: str, objective: Objective, seed: int = 0) -> list[float]:
    """Return the CPU seconds of 12 asks in a row, the first after 60 outcomes; 4 + 2 dimensions, 200 atoms."""
    task, rng = Task(TIMED, seed), np.random.default_rng(seed)
    method, seconds = METHODS[name](task, objective), []
    for number in range(72):
        action, context = rng.random(task.problem.d_x), rng.choice(task.draws)
        if number == 0 or number >= 60:  # the first one compiles
            start = time.process_time()
            action, context = method.ask()
            seconds.append(time.process_time() - start)
        method.tell(action, context, float(task.problem.function(action, context)) + task.noise * float(rng.normal()))
    return seconds[1:]


def read(out: Path, methods: Iterable[str] = METHODS) -> Table:
    """Return all records of these methods."""
    return stack(read_csv(file) for name in methods for file in sorted((out / name).glob("*.csv")))


def main() -> None:
    """Run a sweep, print the tables, or time asks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["run", "table", "ask"])
    parser.add_argument("out", type=Path)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), metavar="METHOD")
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS), metavar="PROBLEM")
    parser.add_argument("--seeds", nargs=2, type=int, default=[100, 112], help="the first, and the one after the last")
    given = parser.parse_args()
    if given.action == "table":
        print(tables(read(given.out, given.methods)))
        return
    warnings.simplefilter("ignore")  # of the opponents
    if given.action == "ask":
        for name, objective in itertools.product(given.methods, OBJECTIVES):
            seconds = time_ask(name, objective)
            print(f"{name}, {objective}: mean {np.mean(seconds):.3f} s, largest {max(seconds):.3f} s", flush=True)
        return
    sweep(given.out, given.methods, given.problems, range(*given.seeds))


if __name__ == "__main__":
    main()
