"""A variant against the default on 20 cheap problems: paired regrets, false bounds and slack.

    export OPENBLAS_NUM_THREADS=1
    python benchmarks/screen.py uncertain --seeds 10              # a variant of VARIANTS
    python benchmarks/screen.py module:function --seeds 10        # one of your own
    python benchmarks/screen.py old --old OLD/src --seeds 10      # the default of another version
    python benchmarks/screen.py uncertain --table                 # what is there already

A variant is a function of the radius that returns further arguments of `drbo.Optimizer` (policy, surrogate, setting,
bound_beta). Runs have 60 evaluations; runs of the same problem, seed and objective have the same draws and the
same errors, so that regrets are paired. One file per run goes to `--out/VARIANT`, so that a sweep that was stopped goes
on where it was. The default is run too, once for all variants; empty its folder after a change of the library.

The regret is that of the recommended action, in per cent of (best - median action). Regrets below 0.1% count as that.
A change is adopted after confirmation on fresh seeds (`--first-seed`): say how many variants were tried.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import drbo
from another_version import AnotherVersion
from drbo.experiments.records import Table, read_csv, select, stack, write_csv
from drbo.validation import FloatArray
from efficiency_problems import OBJECTIVES, RADIUS, Objective
from intervals import clopper_pearson, paired_ratio
from screen_problems import CHEAP, CheapTask, task_of

CHECKPOINTS = (20, 40, 60)
FLOOR = 0.1
"""The least regret in per cent that ratios distinguish."""
COLUMNS = ("problem", "objective", "seed", "evaluations", "value", "bound", "spread", "best", "median")

Variant = Callable[[float], dict[str, Any]]
VARIANTS: dict[str, Variant] = {
    "default": lambda radius: {},  # noqa: ARG005  # it does not depend on the radius
    "uncertain": lambda radius: {"setting": drbo.Simulator(radius=radius, pick="uncertain")},
    "valuable": lambda radius: {"setting": drbo.Simulator(radius=radius, pick="valuable")},
    "joint": lambda radius: {"policy": drbo.JointOptimism(drbo.Informative())},  # noqa: ARG005  # it does not depend on the radius
    "wide": lambda radius: {"bound_beta": 4.0},  # noqa: ARG005  # it does not depend on the radius
}
OLD = "old"
"""The variant that runs the default of another version."""


def variant(name: str) -> Variant:
    """Return the variant of a name: one of `VARIANTS`, or `module:function`."""
    if name in VARIANTS:
        return VARIANTS[name]
    module, colon, function = name.partition(":")
    if not colon:
        raise ValueError(f"VARIANT must be module:function or one of {', '.join(VARIANTS)}, got {name!r}")
    found: Variant = getattr(importlib.import_module(module), function)
    return found


def optimizer_of(name: str, task: CheapTask, objective: Objective, old: Path | None = None) -> Any:
    """Return the optimizer of a variant; `old` is the source of the version that the variant "old" runs."""
    radius, seed = (RADIUS if objective == "robust" else 0.0), 1000 * task.seed
    if name == OLD:
        assert old is not None  # checked by main
        return AnotherVersion(old, task.problem.d_x, task.draws.tolist(), task.cheap.ranged, radius, seed)
    ambiguity = drbo.MMD() if objective == "robust" else drbo.Expectation()
    usual = {"ambiguity": ambiguity, "setting": drbo.Simulator(radius=radius)}
    arguments: dict[str, Any] = {**usual, **variant(name)(radius)}
    box = drbo.Box({f"x{k + 1}": (0.0, 1.0) for k in range(task.problem.d_x)})
    return drbo.Optimizer(box, task.samples, seed=seed, **arguments)


def run(
    name: str,
    problem: str,
    seed: int,
    objective: Objective,
    best_and_median: tuple[float, float],
    old: Path | None = None,
) -> Table:
    """Return a row per checkpoint of one run."""
    task = task_of(problem, seed)
    optimizer = optimizer_of(name, task, objective, old)
    rng = np.random.default_rng([seed, 2])
    outcomes, rows = [], []
    for evaluation in range(1, CHECKPOINTS[-1] + 1):
        suggestion = optimizer.ask()
        outcomes.append(task.outcome(_array(suggestion.action), _array(suggestion.context), rng))
        optimizer.tell(suggestion, outcomes[-1])
        if evaluation in CHECKPOINTS:
            r = optimizer.recommend()
            value = float(task.value(objective, _array(r.action)[None])[0])
            rows.append(
                (problem, objective, seed, evaluation, value, r.value, float(np.std(outcomes)), *best_and_median)
            )
    if isinstance(optimizer, AnotherVersion):
        optimizer.close()
    return {column: np.array(values) for column, values in zip(COLUMNS, zip(*rows, strict=True), strict=True)}


def _array(point: Any) -> FloatArray:
    return np.array(list(point.values()) if isinstance(point, dict) else point, dtype=float)


def goal(folder: Path, problem: str, seed: int, objective: Objective) -> tuple[float, float]:
    """Return the value of the best and of the median action, from its file if it is there."""
    file = folder / f"{problem}, {objective}, {seed}.csv"
    if not file.is_file():
        best, median = task_of(problem, seed).best_and_median(objective)
        write_csv(file, {"best": np.array([best]), "median": np.array([median])})
    found = read_csv(file)
    return float(found["best"][0]), float(found["median"][0])


def job(out: Path, old: Path | None, name: str, problem: str, seed: int, objective: Objective) -> None:
    """Run one variant once, and write its file."""
    warnings.simplefilter("ignore")
    rows = run(name, problem, seed, objective, goal(out / "goals", problem, seed, objective), old)
    write_csv(_file(out, name, problem, seed, objective), rows)


def _file(out: Path, name: str, problem: str, seed: int, objective: Objective) -> Path:
    return out / name.replace(":", ".") / f"{problem}, {objective}, {seed}.csv"


def sweep(
    out: Path,
    names: list[str],
    problems: list[str],
    objectives: list[Objective],
    seeds: range,
    processes: int,
    old: Path | None = None,
) -> None:
    """Run what has no file yet, all problems of one seed before the next seed."""
    from joblib import Parallel, delayed

    for name in (*names, "goals"):
        (out / name.replace(":", ".")).mkdir(parents=True, exist_ok=True)
    jobs = [
        (name, problem, seed, objective)
        for seed, problem, objective, name in itertools.product(seeds, problems, objectives, names)
        if not _file(out, name, problem, seed, objective).is_file()
    ]
    Parallel(n_jobs=processes)(delayed(job)(out, old, *one) for one in jobs)


def read(out: Path, name: str) -> Table:
    """Return all rows of a variant."""
    return stack(read_csv(file) for file in sorted((out / name.replace(":", ".")).glob("*.csv")))


def paired(ours: Table, theirs: Table) -> tuple[Table, Table]:
    """Return the rows of both variants whose problem, objective, seed and checkpoint both have, in the same order."""
    places = [{key: i for i, key in enumerate(_keys(table))} for table in (ours, theirs)]
    both = sorted(places[0].keys() & places[1].keys())
    mine, other = ([place[key] for key in both] for place in places)
    return {k: v[mine] for k, v in ours.items()}, {k: v[other] for k, v in theirs.items()}


def _keys(table: Table) -> list[tuple[Any, ...]]:
    return list(zip(*(table[name].tolist() for name in ("problem", "objective", "seed", "evaluations")), strict=True))


def regrets(ours: Table, theirs: Table) -> tuple[FloatArray, FloatArray]:
    """Return the regrets of paired rows, (n,) each, in per cent of (best - median action).

    The best action of a problem, seed and objective is the best that was found by the search for it, or that either
    variant recommended at any checkpoint.
    """
    best: dict[tuple[Any, ...], float] = {}
    keys = [key[:3] for key in _keys(ours)]
    for key, *values in zip(keys, ours["best"], ours["value"], theirs["value"], strict=True):
        best[key] = max(best.get(key, -np.inf), *map(float, values))
    highest = np.array([best[key] for key in keys])
    scale = np.maximum(highest - ours["median"], 1e-12)
    return 100.0 * (highest - ours["value"]) / scale, 100.0 * (highest - theirs["value"]) / scale


def tables(name: str, ours: Table, theirs: Table) -> str:
    """Return ratios of regrets with intervals, false bounds and slack, and each problem alone, as Markdown."""
    ours, theirs = paired(ours, theirs)
    for table, regret in zip((ours, theirs), regrets(ours, theirs), strict=True):
        table["regret"] = regret
    heads = ("objective", "evaluations", "pairs", f"regret of {name} / default's (95%)", "false (95%)", "default's")
    lines = [_row(*heads, "median slack", "default's"), "|---" * (len(heads) + 2) + "|"]
    for objective, t in itertools.product(OBJECTIVES, CHECKPOINTS):
        mine, other = (select(table, objective=objective, evaluations=t) for table in (ours, theirs))
        if len(mine["value"]):
            ratio, low, high = paired_ratio(mine["regret"], other["regret"], floor=FLOOR)
            cells = (str(t), str(len(mine["value"])), f"{ratio:.2f} ({low:.2f} to {high:.2f})")
            lines.append(_row(objective, *cells, _false(mine), _false(other), _slack(mine), _slack(other)))
    columns = [f"{objective}: ratios at 20 / 40 / 60, false, default's" for objective in OBJECTIVES]
    lines += ["", _row("problem", *columns), "|---" * 3 + "|"]
    for problem in np.unique(ours["problem"]).tolist():
        wanted = [{"problem": problem, "objective": objective} for objective in OBJECTIVES]
        both = [_cell(select(ours, **one), select(theirs, **one)) for one in wanted]
        lines.append(_row(problem, *both))
    return "\n".join(lines)


def _cell(ours: Table, theirs: Table) -> str:
    if not len(ours["value"]):
        return "-"
    ratios = []
    for t in np.unique(ours["evaluations"]).tolist():
        mine, other = (select(table, evaluations=t)["regret"] for table in (ours, theirs))
        ratios.append(f"{paired_ratio(mine, other, floor=FLOOR)[0]:.2f}")
    false, total = (int((_slacks(table) < -1e-9).sum()) for table in (ours, theirs)), len(ours["value"])
    return f"{' / '.join(ratios)}, {next(false)}, {next(false)} of {total}"


def _slacks(table: Table) -> FloatArray:
    """Return how far bounds are below the truth, in deviations of the outcomes."""
    return np.asarray((table["value"] - table["bound"]) / np.maximum(table["spread"], 1e-300))


def _false(table: Table) -> str:
    false = int((_slacks(table) < -1e-9).sum())
    low, high = clopper_pearson(false, len(table["value"]))
    return f"{false} ({low:.1%} to {high:.1%})"


def _slack(table: Table) -> str:
    return f"{np.median(_slacks(table)):.2f}"


def _row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Run what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("variant", help=f"module:function, or one of {', '.join(VARIANTS)}")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--problems", nargs="+", choices=CHEAP, default=list(CHEAP), metavar="PROBLEM")
    parser.add_argument("--objectives", nargs="+", choices=OBJECTIVES, default=list(OBJECTIVES))
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--out", type=Path, default=Path("out/screen"))
    parser.add_argument("--old", type=Path, help="the source of another version, for the variant old")
    parser.add_argument("--table", action="store_true", help="run nothing")
    given = parser.parse_args()
    if given.variant != OLD:
        variant(given.variant)
    elif given.old is None and not given.table:
        parser.error("the variant old needs --old OLD/src")
    if not given.table:
        seeds = range(given.first_seed, given.first_seed + given.seeds)
        names = list(dict.fromkeys((given.variant, "default")))
        sweep(given.out, names, given.problems, given.objectives, seeds, given.processes, given.old)
    ours, theirs = read(given.out, given.variant), read(given.out, "default")
    print(tables(given.variant, ours, theirs) if ours and theirs else "no pairs yet")


if __name__ == "__main__":
    main()
