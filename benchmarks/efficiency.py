"""How many evaluations drbo and others need: runs with a known truth, and the tables of docs/evidence.md.

    export OPENBLAS_NUM_THREADS=1
    python benchmarks/efficiency.py run OUT --seeds 100 112 --methods "BoTorch" "drbo default"
    python benchmarks/efficiency.py table OUT

A run has 60 evaluations of one problem (efficiency_problems.py) by one method (efficiency_methods.py). At each
checkpoint the method says what it would deploy, and the true value of that action is recorded. One file per run goes to
OUT, so that a sweep that was stopped goes on where it was, and several may fill one folder. Runs of the same seed have
the same draws of the context. The methods that need torch or Optuna fail where these are not installed.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import time
import warnings
from pathlib import Path

import numpy as np

from drbo._files import write_atomically
from drbo.experiments._store import Table, read_csv, stack, to_csv
from efficiency_methods import METHODS
from efficiency_problems import OBJECTIVES, PROBLEMS, Objective, Task
from efficiency_table import tables

CHECKPOINTS = (10, 20, 30, 40, 50, 60)


@functools.lru_cache(maxsize=64)
def best_and_median(problem: str, seed: int, objective: Objective) -> tuple[float, float]:
    """Return what regrets are measured by; several methods share it."""
    return Task(PROBLEMS[problem], seed).best_and_median(objective)


def run(name: str, problem: str, seed: int, objective: Objective) -> Table:
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
                value, (best, median) = task.value(judged, deployed)[0], best_and_median(problem, seed, judged)
                rows.append((name, problem, judged, seed, evaluations, value, best, median, seconds))
    columns = ("method", "problem", "objective", "seed", "evaluations", "value", "best", "median", "seconds")
    return {column: np.array(values) for column, values in zip(columns, zip(*rows, strict=True), strict=True)}


def sweep(out: Path, methods: list[str], problems: list[str], seeds: range) -> None:
    """Run what has no file yet, all methods and problems of one seed before the next seed."""
    for seed, problem, name in itertools.product(seeds, problems, methods):
        for objective in OBJECTIVES:
            blind = not getattr(METHODS[name], "sees_objective", True)
            file = out / name / f"{problem}, {'both' if blind else objective}, {seed}.csv"
            if not file.is_file():
                file.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(file, to_csv(run(name, problem, seed, objective)))


def read(out: Path) -> Table:
    """Return all records."""
    return stack(read_csv(file) for file in sorted(out.glob("*/*.csv")))


def main() -> None:
    """Run a sweep, or print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["run", "table"])
    parser.add_argument("out", type=Path)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), metavar="METHOD")
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS), metavar="PROBLEM")
    parser.add_argument("--seeds", nargs=2, type=int, default=[100, 112], help="the first, and the one after the last")
    given = parser.parse_args()
    if given.action == "table":
        print(tables(read(given.out)))
        return
    warnings.simplefilter("ignore")  # of the opponents
    sweep(given.out, given.methods, given.problems, range(*given.seeds))


if __name__ == "__main__":
    main()
