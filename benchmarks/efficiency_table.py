"""The tables of docs/evidence.md on evaluations needed, computed from the records of efficiency.py."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import wilcoxon

from drbo.experiments.records import Table, select
from drbo.validation import FloatArray
from efficiency_problems import OBJECTIVES, PROBLEMS

TARGETS = (40, 60)
SHOWN = (20, 40, 60)
FLOOR = 0.01
"""The least regret in per cent that geometric means and ratios distinguish."""
NEVER = 1.5
"""What counts as the ratio where a method does not get there within 60 evaluations."""
LEVEL = 0.05


@dataclass(frozen=True)
class Curves:
    """The regrets (runs, checkpoints) of one method on one problem, in per cent of (best - median action)."""

    evaluations: tuple[int, ...]
    seeds: tuple[int, ...]
    regrets: FloatArray
    seconds: float
    """Of the processor, for all asks and tells of a run; the mean over the runs."""

    @property
    def medians(self) -> FloatArray:
        """The median regret (checkpoints,) over the runs, not below `FLOOR`."""
        return np.maximum(np.median(self.regrets, axis=0), FLOOR)

    def at(self, evaluations: int) -> float:
        """Return the median regret at a checkpoint."""
        return float(self.medians[self.evaluations.index(evaluations)])

    def needed(self, target: float) -> float:
        """Return after how many evaluations the median regret is at most the target and stays so; inf for never.

        Between checkpoints its logarithm is interpolated linearly. No less than the first checkpoint is returned.
        """
        logs, goal = np.log(self.medians), math.log(max(target, FLOOR))
        above = np.flatnonzero(logs > goal)
        if not len(above):
            return float(self.evaluations[0])
        k = int(above[-1])
        if k + 1 == len(logs):
            return math.inf
        share = (logs[k] - goal) / (logs[k] - logs[k + 1])
        return float(self.evaluations[k] + share * (self.evaluations[k + 1] - self.evaluations[k]))

    def log_ratios(self, other: Curves, evaluations: int) -> FloatArray:
        """Return log(regret / regret of another method) at a checkpoint, (runs,), paired by seed."""
        k = self.evaluations.index(evaluations)
        return np.asarray(np.log(np.maximum(self.regrets[:, k], FLOOR) / np.maximum(other.regrets[:, k], FLOOR)))


Key = tuple[str, str, str]
"""Method, problem, objective."""


def curves(records: Table) -> dict[Key, Curves]:
    """Return the curves of every method, problem and objective, for the seeds that all methods have run there.

    The best action of a seed is the best that was found by the search for it or deployed by any method.
    """
    found: dict[Key, Curves] = {}
    for problem, objective in itertools.product(_values(records, "problem"), OBJECTIVES):
        here = select(records, problem=problem, objective=objective)
        of_method = {method: select(here, method=method) for method in _values(here, "method")}
        seeds = sorted(set(_values(here, "seed")).intersection(*(_values(own, "seed") for own in of_method.values())))
        of_seed = [select(here, seed=seed) for seed in seeds]
        best = [max(rows["best"].max(), rows["value"].max()) for rows in of_seed]
        for method, own in of_method.items() if seeds else ():
            runs = [select(own, seed=seed) for seed in seeds]
            regrets = [100.0 * (b - r["value"]) / (b - r["median"]) for b, r in zip(best, runs, strict=True)]
            seconds = float(np.mean([run["seconds"].max() for run in runs]))
            checkpoints = tuple(_values(own, "evaluations"))
            found[method, problem, objective] = Curves(checkpoints, tuple(seeds), np.array(regrets), seconds)
    return found


def geometric_mean(values: Iterable[float]) -> float:
    """Return the geometric mean; nan of nothing."""
    logs = [math.log(v) for v in values]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def ratio(mine: Curves, theirs: Curves, target: int) -> float:
    """Return the evaluations needed for the median regret of another method at `target`, as a share of `target`."""
    return min(mine.needed(theirs.at(target)) / target, NEVER)


def tables(records: Table) -> str:
    """Return all tables in Markdown."""
    found = curves(records)
    methods = sorted({method for method, _, _ in found}, key=lambda m: (m.startswith("drbo"), m))
    problems = [name for name in PROBLEMS if any(problem == name for _, problem, _ in found)]
    groups = {half: [p for p in problems if PROBLEMS[p].half == half] for half in ("chosen", "reported")}
    groups = {"all": problems, **groups}
    parts = [_regret_table(found, methods, groups)]
    ours = [m for m in methods if m.startswith("drbo")]
    others = [m for m in methods if not m.startswith(("drbo", "random"))]
    parts += [_ratio_table(found, ours, others, groups), _random_table(found, ours, problems)]
    parts += [_problem_table(found, methods, problems, objective) for objective in OBJECTIVES]
    return "\n\n".join(parts)


def _regret_table(found: dict[Key, Curves], methods: list[str], groups: dict[str, list[str]]) -> str:
    """Geometric means over problems of the median regrets at 20 / 40 / 60 evaluations."""
    columns = list(itertools.product(OBJECTIVES, groups))
    lines = [_row("method", *(f"{objective}, {group}" for objective, group in columns), "runs", "CPU s per run")]
    lines.append("|---" * (len(columns) + 3) + "|")
    for method in methods:
        cells = []
        for objective, group in columns:
            own = [found[key] for p in groups[group] if (key := (method, p, objective)) in found]
            complete = len(own) == len(groups[group])
            means = [f"{geometric_mean(c.at(t) for c in own):.2g}" for t in SHOWN]
            cells.append(" / ".join(means) + ("" if complete else f" ({len(own)} problems)") if own else "-")
        every = [c for (m, _, _), c in found.items() if m == method]
        runs = sorted({len(c.seeds) for c in every})
        cells.append(f"{runs[0]}" if len(runs) == 1 else f"{runs[0]} to {runs[-1]}")
        lines.append(_row(method, *cells, f"{np.mean([c.seconds for c in every]):.1f}"))
    return "\n".join(lines)


def _ratio_table(found: dict[Key, Curves], ours: list[str], others: list[str], groups: dict[str, list[str]]) -> str:
    """Evaluations needed for each opponent's median regret at 40 / at 60, as ratios: geometric means over problems."""
    columns = list(itertools.product(OBJECTIVES, groups))
    lines = [_row("method", "opponent", *(f"{objective}, {group}" for objective, group in columns))]
    lines.append("|---" * (len(columns) + 2) + "|")
    for method, other in itertools.product(ours, others):
        cells = []
        for objective, group in columns:
            pairs = [
                (found[method, p, objective], found[other, p, objective])
                for p in groups[group]
                if (method, p, objective) in found and (other, p, objective) in found
            ]
            by_target = [[ratio(mine, theirs, target) for mine, theirs in pairs] for target in TARGETS]
            never = " + ".join(str(sum(r == NEVER for r in ratios)) for ratios in by_target)
            means = " / ".join(_with_interval(ratios) for ratios in by_target if ratios)
            cells.append(f"{means}; {never} of {len(pairs)} not reached" if pairs else "-")
        lines.append(_row(method, other, *cells))
    return "\n".join(lines)


def _with_interval(ratios: list[float]) -> str:
    """Return the geometric mean, and between what it lies in 80% of resampled sets of problems."""
    picked = np.random.default_rng(0).integers(len(ratios), size=(2000, len(ratios)))
    low, high = np.exp(np.quantile(np.log(ratios)[picked].mean(axis=1), [0.1, 0.9]))
    return f"{geometric_mean(ratios):.2f} ({low:.2f} to {high:.2f})"


def _random_table(found: dict[Key, Curves], ours: list[str], problems: list[str]) -> str:
    """Tests whether a method is worse than random search from 20 evaluations on: all problems together, and each alone.

    One-sided tests of Wilcoxon, paired by problem and seed.
    """
    heads = ("method", "objective", "evaluations", "runs", "worse runs", "p that it is worse", "problems worse at 5%")
    lines = [_row(*heads), "|---" * len(heads) + "|"]
    for method, objective in itertools.product(ours, OBJECTIVES):
        pairs = {
            problem: (found[method, problem, objective], found["random search", problem, objective])
            for problem in problems
            if {(method, problem, objective), ("random search", problem, objective)} <= found.keys()
        }
        checkpoints = {t for mine, _ in pairs.values() for t in mine.evaluations if t >= SHOWN[0]}
        for t in sorted(checkpoints):
            by_problem = {problem: mine.log_ratios(random, t) for problem, (mine, random) in pairs.items()}
            every = np.concatenate(list(by_problem.values()))
            worse = [problem for problem, ratios in by_problem.items() if _worse(ratios) < LEVEL]
            counts = (str(t), str(len(every)), str(int((every > 0.0).sum())), f"{_worse(every):.2g}")
            lines.append(_row(method, objective, *counts, ", ".join(worse) or "none"))
    return "\n".join(lines)


def _worse(log_ratios: FloatArray) -> float:
    """Return the p-value of the test that logarithms of ratios are not larger than 0."""
    return float(wilcoxon(log_ratios, alternative="greater").pvalue) if log_ratios.any() else 1.0


def _problem_table(found: dict[Key, Curves], methods: list[str], problems: list[str], objective: str) -> str:
    """Return the median regrets at 20 / 40 / 60 evaluations, problem by problem."""
    lines = [_row(f"{objective}: problem", "dimensions", "half", *methods), "|---" * (len(methods) + 3) + "|"]
    for name in problems:
        problem = PROBLEMS[name]
        cells = [_shown(found.get((method, name, objective))) for method in methods]
        lines.append(_row(name, f"{problem.d_x} + {problem.d_c}", problem.half, *cells))
    return "\n".join(lines)


def _shown(curves: Curves | None) -> str:
    return "-" if curves is None else " / ".join(f"{curves.at(t):.2g}" for t in SHOWN)


def _row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def _values(table: Table, column: str) -> list[Any]:
    """Return the different values of a column, in order, as Python objects."""
    return [value.item() for value in np.unique(table[column])]
