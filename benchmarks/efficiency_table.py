"""The tables of docs/evidence.md on evaluations needed, computed from the records of efficiency.py."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import wilcoxon

from drbo.experiments._store import Table, select
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

    def worse_than(self, other: Curves, evaluations: int) -> float:
        """Return the p-value of Wilcoxon's test, paired by seed, that the regrets exceed those of another method."""
        common = [seed for seed in self.seeds if seed in other.seeds]
        k = self.evaluations.index(evaluations)
        mine, theirs = (curves.regrets[[curves.seeds.index(s) for s in common], k] for curves in (self, other))
        if len(common) == 0 or np.array_equal(mine, theirs):
            return 1.0
        return float(wilcoxon(mine, theirs, alternative="greater").pvalue)


Key = tuple[str, str, str]
"""Method, problem, objective."""


def curves(records: Table) -> dict[Key, Curves]:
    """Return the curves of every method, problem and objective.

    The best action of a seed is the best that was found by the search for it or deployed by any method.
    """
    found: dict[Key, Curves] = {}
    for problem, objective in itertools.product(_values(records, "problem"), OBJECTIVES):
        here = select(records, problem=problem, objective=objective)
        of_seed = {seed: select(here, seed=seed) for seed in _values(here, "seed")}
        best = {seed: max(rows["best"].max(), rows["value"].max()) for seed, rows in of_seed.items()}
        for method in _values(here, "method"):
            own = select(here, method=method)
            checkpoints, seeds = _values(own, "evaluations"), _values(own, "seed")
            runs = [select(own, seed=seed) for seed in seeds]
            regrets = [
                100.0 * (best[s] - r["value"]) / (best[s] - r["median"]) for s, r in zip(seeds, runs, strict=True)
            ]
            seconds = float(np.mean([run["seconds"].max() for run in runs]))
            found[method, problem, objective] = Curves(tuple(checkpoints), tuple(seeds), np.array(regrets), seconds)
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
    """How often a method is worse than random search from 20 evaluations on: paired tests at 5%."""
    lines = [_row("method", "objective", "tests", "worse at 5%", "where"), "|---" * 5 + "|"]
    for method, objective in itertools.product(ours, OBJECTIVES):
        tests = {}
        for problem in problems:
            mine, random = found.get((method, problem, objective)), found.get(("random search", problem, objective))
            if mine is not None and random is not None:
                for t in mine.evaluations:
                    if t >= SHOWN[0]:
                        tests[f"{problem} at {t}"] = mine.worse_than(random, t)
        worse = [where for where, p in tests.items() if p < LEVEL]
        lines.append(_row(method, objective, str(len(tests)), str(len(worse)), ", ".join(worse) or "-"))
    return "\n".join(lines)


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
