"""Runs of methods on problems, one record per round: tables, their files, means over runs, and sweeps of many runs."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import json
import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drbo import GP, MMD, RBF, Optimizer, Product, Simulator, regret, validation
from drbo._files import write_atomically
from drbo._messages import require
from drbo.experiments._methods import METHODS, Method
from drbo.experiments._players import player_of
from drbo.experiments._tasks import SETS, SHARE, ForeignMethod, Task
from drbo.names import SettingName
from drbo.problems import Problem
from drbo.radius import empirical
from drbo.validation import FloatArray

__all__ = ["Execution", "Output", "Plan", "run"]


def per_run(records: Table, column: str) -> FloatArray:
    """Return a column of the records of one method, problem and setting as (runs, rounds)."""
    return np.asarray(records[column], dtype=float).reshape(len(np.unique(records["run"])), -1)


def mean_and_error(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mean over the runs of values (runs, ...), and its standard error; nan for one run."""
    if len(values) == 1:
        return values[0], np.full(values.shape[1:], np.nan)
    error = values.std(axis=0, ddof=1) / math.sqrt(len(values))
    return np.asarray(values.mean(axis=0)), np.where(np.ptp(values, axis=0) > 0.0, error, 0.0)  # no rounding residue


def number(value: FloatArray) -> float | None:
    """Return a number for a table; None if it is nan."""
    return None if math.isnan(value) else float(value)


Table = dict[str, NDArray[Any]]
"""Columns of equal length."""


def to_csv(table: Table) -> str:
    """Return the table as CSV text; floats keep all their digits."""
    lines = [",".join(table)]
    columns = [column.tolist() for column in table.values()]
    lines.extend(",".join(map(str, row)) for row in zip(*columns, strict=True))
    return "\n".join(lines) + "\n"


def read_csv(path: Path) -> Table:
    """Return the table of a CSV file; numeric columns become integers or floats."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    columns = zip(*rows[1:], strict=True) if len(rows) > 1 else ([] for _ in rows[0])
    return {name: _typed(np.array(column)) for name, column in zip(rows[0], columns, strict=True)}


def write_csv(path: Path, table: Table) -> None:
    """Write a table as a CSV file, completely or not at all."""
    write_atomically(path, to_csv(table))


def stack(tables: Iterable[Table]) -> Table:
    """Return the tables stacked vertically."""
    parts = list(tables)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if parts else {}


def select(table: Table, **values: Any) -> Table:
    """Return the rows in which every named column has the given value."""
    keep = np.ones(len(next(iter(table.values()))), dtype=bool)
    for name, value in values.items():
        keep &= table[name] == value
    return {name: column[keep] for name, column in table.items()}


class Store:
    """The records of one sweep; finished jobs are kept, so that an interrupted sweep can continue."""

    def __init__(self, out: Path, name: str, settings: dict[str, Any]) -> None:
        self.records = out / f"{name}.csv"
        self._settings_file = out / f"{name}.json"
        self._parts = out / f"{name}.parts"
        self._text = json.dumps(settings, indent=2, sort_keys=True) + "\n"
        if self._settings_file.is_file() and self._settings_file.read_text(encoding="utf-8") != self._text:
            self._move(self._digest(self._settings_file.read_text(encoding="utf-8")), aside=True)
        if not self._settings_file.is_file():
            self._move(self._digest(self._text), aside=False)
        if not self._settings_file.is_file():
            write_atomically(self._settings_file, self._text)
        self._complete = self.records.is_file() and not self._parts.is_dir()

    def _move(self, digest: str, aside: bool) -> None:
        """Rename the records of other settings, or restore those of the current settings."""
        for path in (self.records, self._parts, self._settings_file):
            other = path.with_name(f"{path.stem}-{digest}{path.suffix}")
            source, target = (path, other) if aside else (other, path)
            if source.exists():
                source.replace(target)

    @staticmethod
    def _digest(settings: str) -> str:
        return hashlib.sha256(settings.encode()).hexdigest()[:8]

    def has(self, job: str) -> bool:
        """Return whether the job's records exist."""
        return self._complete or (self._parts / f"{job}.csv").is_file()

    def add(self, job: str, table: Table) -> None:
        """Store the records of a finished job."""
        write_csv(self._parts / f"{job}.csv", table)

    def collect(self, jobs: Iterable[str]) -> Table:
        """Return the records of the finished jobs, in the given order, after writing them to one file."""
        if self._complete:
            return read_csv(self.records)
        wanted = list(jobs)
        present = [job for job in wanted if self.has(job)]
        table = stack(read_csv(self._parts / f"{job}.csv") for job in present)
        if table:
            write_csv(self.records, table)
        if len(present) == len(wanted):
            shutil.rmtree(self._parts)
            self._complete = True
        return table


def _typed(column: NDArray[np.str_]) -> NDArray[Any]:
    for kind in (np.int64, np.float64):
        try:
            return column.astype(kind)
        except ValueError:
            continue
    return column


def generator(seed: int, run: int) -> np.random.Generator:
    """Return the random generator of a run, spawned from the seed: the same for all methods and workers."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(run,)))


def run(
    problem: Problem,
    setting_name: str,
    method: str | Method | ForeignMethod,
    rounds: int,
    seed: int,
    number: int,
    set_name: str = "mmd",
    recommend: bool = False,
    share: float = SHARE,
) -> Table:
    """Return a row per round: the choice, its outcome, and its robust regret in the ball of the round.

    Methods with the same seed and run have the same noise, and the same contexts if nature draws them. In a simulator,
    if a method does not pick the context, it is drawn from the reference.

    `recommend`: add the recommended action after each round, its regret in the ball of the round, and the processor
    seconds of `ask` and `tell`. Only the seconds depend on the machine. For a method with a constraint, also add the
    number of actions labelled as feasible and as infeasible, and the number of false labels.

    `share`: the share of Corollary 4's radius, in the data-driven setting.
    """
    task = Task.of(problem, setting_name, set_name, share)
    method = METHODS[method] if isinstance(method, str) else method
    rng = generator(seed, number)
    (simulation,) = rng.spawn(1)
    own = np.random.SeedSequence(seed, spawn_key=(number, 1)).generate_state(1)
    player = player_of(method, task, int(own[0]))
    rows: dict[str, list[Any]] = {name: [] for name in ("action", "context", "outcome", "recommended", "seconds")}
    labels: list[tuple[str, ...]] = []
    for _ in range(rounds):
        started = time.process_time()
        i, picked = player.ask()
        asked = time.process_time()
        natural = int(rng.choice(len(problem.contexts), p=problem.true_distribution))
        noise = problem.noise * rng.normal()
        simulated = int(simulation.choice(len(problem.contexts), p=problem.reference))
        by_chance = simulated if task.picks else natural
        j = by_chance if picked is None else picked
        outcome = float(problem.values[i, j]) + noise
        limits = {
            name: float(values[i, j]) + problem.noise * rng.normal() for name, values in problem.limit_values.items()
        }
        told = time.process_time()
        player.tell(outcome, j, limits)
        rows["seconds"].append(time.process_time() - told + asked - started)
        rows["recommended"].append(player.recommended() if recommend else None)
        if recommend and method.constrained:
            labels.append(player.labels())
        for name, value in (("action", i), ("context", j), ("outcome", outcome)):
            rows[name].append(value)
    contexts = np.array(rows["context"])
    table = {
        "problem": np.full(rounds, problem.name),
        "setting": np.full(rounds, setting_name),
        "method": np.full(rounds, method.label),
        "run": np.full(rounds, number),
        "round": np.arange(1, rounds + 1),
        "action": np.array(rows["action"]),
        "context": contexts,
        "outcome": np.array(rows["outcome"]),
        "regret": _robust_regret(task, contexts, rows["action"]),
    }
    if recommend:
        table["recommended"] = np.array(rows["recommended"])
        table["simple regret"] = _robust_regret(task, contexts, rows["recommended"])
        table["seconds"] = np.array(rows["seconds"])
    return table | _counted(task, labels) if labels else table


def _counted(task: Task, labels: list[tuple[str, ...]]) -> Table:
    """Return the number of actions labelled in and out after each round, and the number of false labels."""
    inside, outside = (np.array(labels) == label for label in ("in", "out"))
    wrong = (inside & ~task.feasible) | (outside & task.feasible)
    return {"in": inside.sum(axis=1), "out": outside.sum(axis=1), "false labels": wrong.sum(axis=1)}


def _robust_regret(task: Task, contexts: Any, actions: list[int]) -> FloatArray:
    """Return the robust regret (rounds,) of one action per round, in the ball that DRBO sees in the round."""
    problem, aim = task.problem, task.aim
    references, radii = problem.reference, np.array(aim.radius)
    if task.setting == SettingName.DATA_DRIVEN:
        seen, n = [contexts[:t].astype(np.intp) for t in range(len(actions))], len(problem.contexts)
        references = np.array([empirical(s, n) for s in seen])
        radii = np.array([task.rule.radius(s, aim.ambiguity, n) for s in seen])
    return regret.robust_regret(problem.values, aim.ambiguity, references, radii, actions).instantaneous


_MOST_WORKERS = 10_000
RECORDS = 1
"""Version of the records; increase it when a code change makes old records invalid."""


@dataclass(frozen=True)
class Execution:
    """Where the jobs run: worker processes of this machine (joblib's loky), or a Dask cluster.

    `workers` is the number of processes; 0 means all cores. `scheduler` is the address of a Dask scheduler.
    """

    workers: int = 0
    scheduler: str | None = None

    def __post_init__(self) -> None:
        validation.whole_number("workers", self.workers, least=0, most=_MOST_WORKERS)
        validation.of_kind("scheduler", self.scheduler, (str, type(None)), "the address of a Dask scheduler, or None")


@dataclass(frozen=True)
class Plan:
    """The size, seed, ambiguity set and execution of a sweep, and the folder `out` for its results."""

    out: Path
    runs: int = 50
    rounds: int = 200
    seed: int = 0
    ambiguity: str = "mmd"
    execution: Execution = field(default_factory=Execution)

    def __post_init__(self) -> None:
        validation.of_kind("out", self.out, Path, 'a pathlib.Path such as Path("results")')
        validation.whole_number("runs", self.runs, least=1)
        validation.whole_number("rounds", self.rounds, least=1)
        validation.whole_number("seed", self.seed, least=0)
        validation.one_of("ambiguity", self.ambiguity, *SETS)
        validation.of_kind("execution", self.execution, Execution, "an Execution such as Execution(workers=2)")

    def named(self, figure: str) -> str:
        """Return the file name of a figure; for sets other than the MMD the name differs from the paper's."""
        return figure if self.ambiguity == "mmd" else f"{figure}-{self.ambiguity}"

    def job(self, problem: Problem, setting: str, method: str | Method | ForeignMethod, number: int) -> tuple[Any, ...]:
        """Return the arguments of `run` for one run of a method."""
        return problem, setting, method, self.rounds, self.seed, number, self.ambiguity

    def description(self) -> dict[str, Any]:
        """Return what the records of this plan depend on."""
        own = {name: getattr(self, name) for name in ("ambiguity", "runs", "rounds", "seed")}
        return {**own, "records": RECORDS}


@dataclass(frozen=True)
class Output:
    """The result of an experiment: the files written, and the rows of a table to print."""

    files: list[Path]
    rows: list[dict[str, Any]]


def required(*modules: str) -> None:
    """Raise if an optional package is missing; called before a sweep."""
    for module in modules:
        require(module, "experiments")


def sweep(
    title: str,
    store: Store,
    function: Callable[..., Table],
    jobs: Mapping[str, tuple[Any, ...]],
    execution: Execution,
) -> Table:
    """Run `function(*arguments)` for every job missing from the store, and return all records.

    The records do not depend on the number of workers. On an interrupt, finished jobs are collected first.
    """
    joblib = require("joblib", "experiments")
    todo = {name: arguments for name, arguments in jobs.items() if not store.has(name)}
    try:
        if todo:
            _compile()
            with _backend(execution), _progress(title, len(jobs), len(jobs) - len(todo)) as advance:
                parallel = joblib.Parallel(return_as="generator_unordered", batch_size=1)
                for name, table in parallel(joblib.delayed(_named)(name, function, a) for name, a in todo.items()):
                    store.add(name, table)
                    advance()
    except BaseException:
        store.collect(jobs)
        raise
    return store.collect(jobs)


def _compile() -> None:
    """Compile the solvers once, here, so that workers find them in the cache."""
    points = np.linspace(0.0, 1.0, 3)
    setting, kernel = Simulator(np.full(3, 1.0 / 3.0), 0.1, pick="uncertain"), Product(RBF(1.0), RBF(1.0))
    opt = Optimizer(points, points, ambiguity=MMD(points), setting=setting, surrogate=GP(kernel, 0.1))
    opt.tell(opt.ask(), 0.0)
    opt.ask()


def _named(name: str, function: Callable[..., Table], arguments: tuple[Any, ...]) -> tuple[str, Table]:
    return name, function(*arguments)


@contextlib.contextmanager
def _backend(execution: Execution) -> Iterator[None]:
    joblib = require("joblib", "experiments")
    if execution.scheduler is None:
        with joblib.parallel_config(backend="loky", n_jobs=execution.workers or os.cpu_count()):
            yield
        return
    try:
        from distributed import Client
    except ImportError:
        raise RuntimeError("the dask backend needs the package distributed: pip install 'drbo[dask]'") from None
    with Client(execution.scheduler), joblib.parallel_config(backend="dask"):
        yield


@contextlib.contextmanager
def _progress(title: str, total: int, done: int) -> Iterator[Callable[[], None]]:
    """Yield a function that advances a progress bar on stderr, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    require("rich", "experiments")
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(title, total=total, completed=done)
        yield lambda: progress.advance(task)
