"""Evaluations that fail: a region that always fails, and failures by accident.

    export OPENBLAS_NUM_THREADS=1
    python benchmarks/failures.py region --out OUT             # 30% of a box always fails, and f grows towards it
    python benchmarks/failures.py accidents --out OUT          # 45% of all evaluations fail, on a grid
    python benchmarks/failures.py region --out OUT --table     # what is there already

Region: the share of failures among the evaluations after the 20th of 45, and the regret of the recommended action among
the actions that work, in per cent of (best - median). Accidents: the regret of a run of 40 evaluations of which 45%
fail by accident, beside that of a run with 55% of the evaluations, none of which fails, by seed.

A run uses the defaults of drbo: Simulator, a learned model, an MMD. One line per run goes to OUT/*.jsonl, so a sweep
that was stopped goes on where it was. An earlier version of drbo is measured by its PYTHONPATH and another OUT.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

import drbo
from world import Array

Mask = NDArray[np.bool_]

EVALUATIONS, FIRST = 45, 20
RADIUS, NOISE = 0.1, 0.02
ACCIDENTS = 0.45
AT_ONCE = 40
CONTEXTS = np.linspace(0.0, 1.0, 6)


@dataclass(frozen=True)
class Problem:
    """f of actions (m, d) and contexts (m,), in the unit cube, and where an evaluation fails."""

    d: int
    f: Callable[[Array, Array], Array]
    fails: Callable[[Array, Array], Mask]


def _corner(x: Array, c: Array) -> Mask:
    """The corner x_0 > 1 - s and x_1 > 1 - s of area 0.3."""
    del c
    return np.asarray((x[:, :2] > 1.0 - np.sqrt(0.3)).all(axis=1))


REGIONS = {
    "corner, d = 2": Problem(2, lambda x, c: x.sum(axis=1) - 0.5 * (x[:, 0] - c) ** 2, _corner),
    "half, d = 2": Problem(
        2,
        lambda x, c: 1.5 * x[:, 0] + x[:, 1] - 2.0 * (x[:, 1] - 0.4 - 0.3 * c) ** 2,
        lambda x, _: x[:, 0] + 0.5 * x[:, 1] > 0.95,
    ),
    "disc, d = 2": Problem(
        2,
        lambda x, c: -((x[:, 0] - 0.6) ** 2) - (x[:, 1] - 0.5) ** 2 - 0.3 * c * x[:, 0],
        lambda x, _: (x[:, 0] - 0.6) ** 2 + (x[:, 1] - 0.5) ** 2 < 0.3 / np.pi,
    ),
    "slab, d = 4": Problem(
        4,
        lambda x, c: 2.0 * x[:, 0] - (x[:, 1] - c) ** 2 - (x[:, 2] - 0.3) ** 2 - (x[:, 3] - 0.6) ** 2,
        lambda x, _: x[:, 0] > 0.7,
    ),
    "with the context, d = 2": Problem(
        2,
        lambda x, c: 2.0 * x[:, 0] - (x[:, 1] - 0.5) ** 2 + 0.3 * c,
        lambda x, c: x[:, 0] + 0.4 * c > 0.9,
    ),
}
GRIDS: dict[str, tuple[int, Callable[[Array, Array], Array]]] = {
    "smooth, 8 x 8": (8, lambda x, c: np.sin(3.0 * x[:, 0]) + np.cos(2.0 * x[:, 1] + c)),
    "ridge, 8 x 8": (8, lambda x, c: -4.0 * (x[:, 0] - 0.3 - 0.4 * c) ** 2 - (x[:, 1] - 0.7) ** 2),
    "bumps, 8 x 8": (8, lambda x, c: np.sin(7.0 * x[:, 0] + c) * np.sin(5.0 * x[:, 1])),
    "trend, 5 x 5": (5, lambda x, c: x[:, 0] * (1.0 - 0.8 * c) + 0.5 * x[:, 1] * c),
    "rare, 5 x 5": (5, lambda x, c: x[:, 0] - 2.0 * x[:, 0] ** 2 * (c > 0.9) - 0.5 * x[:, 1]),
}


def worst_cases(f: Callable[[Array, Array], Array], x: Array) -> Array:
    """Return the true worst case (m,) of actions (m, d) in the set of the runs."""
    values = np.column_stack([f(x, np.full(len(x), c)) for c in CONTEXTS])
    n = len(CONTEXTS)
    placed = drbo.MMD().on(CONTEXTS[:, None])
    return placed.worst_case(values, np.full(n, 1.0 / n), RADIUS).expectation


def regret(values: Array, value: float) -> float:
    """Return a regret in per cent of (best - median)."""
    return float(100.0 * (values.max() - value) / (values.max() - np.median(values)))


def region(name: str, seed: int) -> dict[str, Any]:
    """Return the failures and the regret of one run."""
    problem, rng = REGIONS[name], np.random.default_rng(seed)
    names = [f"x{i}" for i in range(problem.d)]
    setting = drbo.Simulator(np.ones(len(CONTEXTS)), radius=RADIUS)
    opt = drbo.Optimizer(drbo.Box(dict.fromkeys(names, (0.0, 1.0))), CONTEXTS, setting=setting, seed=seed)
    failed, seconds = [], 0.0
    for _ in range(EVALUATIONS):
        start = time.process_time()
        s = opt.ask()
        seconds += time.process_time() - start
        x, c = np.array([[s.action[one] for one in names]]), np.ravel(s.context)
        failed.append(bool(problem.fails(x, c)[0]))
        if failed[-1]:
            opt.tell(s, failed=True)
        else:
            opt.tell(s, float(problem.f(x, c)[0]) + NOISE * rng.standard_normal())
    spread = qmc.Sobol(problem.d, seed=0).random_base2(13)
    bad = np.array([[problem.fails(spread, np.full(len(spread), c))] for c in CONTEXTS]).mean(axis=(0, 1)) > 0.5
    values = worst_cases(problem.f, spread[~bad])
    action = opt.recommend().action
    x = np.array([[action[one] for one in names]])
    works = float(np.mean([not problem.fails(x, np.array([c]))[0] for c in CONTEXTS]))
    late = float(np.mean(failed[FIRST:]))
    return {
        "late": late,
        "early": float(np.mean(failed[:FIRST])),
        "regret": regret(values, float(worst_cases(problem.f, x)[0])),
        "works": works,
        "seconds": seconds / EVALUATIONS,
    }


def accidents(name: str, seed: int) -> dict[str, Any]:
    """Return the regret with accidents, and that of fewer evaluations without."""
    per_side, f = GRIDS[name]
    side = np.linspace(0.0, 1.0, per_side)
    grid = np.array([[a, b] for a in side for b in side])
    values = worst_cases(f, grid)
    found = {}
    for kind, rate, count in (("accidents", ACCIDENTS, AT_ONCE), ("fewer", 0.0, round((1 - ACCIDENTS) * AT_ONCE))):
        rng = np.random.default_rng(seed)
        setting = drbo.Simulator(np.ones(len(CONTEXTS)), radius=RADIUS)
        opt = drbo.Optimizer(grid, CONTEXTS, setting=setting, seed=seed)
        for _ in range(count):
            s = opt.ask()
            if rng.random() < rate:
                opt.tell(s, failed=True)
            else:
                y = f(grid[[s.action_index]], np.ravel(s.context))
                opt.tell(s, float(y[0]) + NOISE * rng.standard_normal())
        try:
            found[kind] = regret(values, float(values[opt.recommend().action_index]))
        except RuntimeError:
            found[kind] = np.nan
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["region", "accidents"])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--problems", nargs="*")
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    run, problems = (region, list(REGIONS)) if args.what == "region" else (accidents, list(GRIDS))
    problems = args.problems or problems
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / f"{args.what}.jsonl"
    done = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    warnings.simplefilter("ignore")
    if not args.table:
        with path.open("a") as file:
            for seed in seeds:
                for name in problems:
                    if not any(one["problem"] == name and one["seed"] == seed for one in done):
                        done.append({"problem": name, "seed": seed, **run(name, seed)})
                        print(done[-1], flush=True)
                        file.write(json.dumps(done[-1]) + "\n")
                        file.flush()
    rows = [one for one in done if one["seed"] in seeds]
    print(table_of_regions(rows, problems) if args.what == "region" else table_of_accidents(rows, problems))


def table_of_regions(rows: list[dict[str, Any]], problems: list[str]) -> str:
    lines = [
        "| problem | failed of 1 to 20 | of 21 to 45 | most in a run | works | regret, median |",
        "|---|---|---|---|---|---|",
    ]
    for name in [*problems, "all"]:
        some = [one for one in rows if name in (one["problem"], "all")]
        late, early, works, lost = (
            np.array([one[key] for one in some]) for key in ("late", "early", "works", "regret")
        )
        lines.append(
            f"| {name} | {early.mean():.0%} | {late.mean():.0%} | {late.max():.0%} | {works.mean():.0%} | "
            f"{np.median(lost):.2g}% |"
        )
    return "\n".join(lines)


def table_of_accidents(rows: list[dict[str, Any]], problems: list[str]) -> str:
    lines = ["| problem | 40 evaluations, 45% fail | 22 evaluations | difference |", "|---|---|---|---|"]
    for name in [*problems, "all"]:
        some = [one for one in rows if name in (one["problem"], "all")]
        with_, without = (np.array([one[key] for one in some], dtype=float) for key in ("accidents", "fewer"))
        apart = with_ - without
        error = apart.std(ddof=1) / np.sqrt(len(apart))
        lines.append(
            f"| {name} | {with_.mean():.1f}% (sd {with_.std(ddof=1):.1f}) | {without.mean():.1f}% "
            f"(sd {without.std(ddof=1):.1f}) | {apart.mean():+.1f} +- {error:.1f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
