"""Many jobs on many workers, with progress, and with nothing lost on an interrupt."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from drbo import GP, MMD, RBF, Optimizer, Product, Simulator, validation
from drbo._extras import require
from drbo.experiments.records import Store, Table

_MOST_WORKERS = 10_000


@dataclass(frozen=True)
class Execution:
    """Where the jobs run: worker processes of this machine (joblib's loky), or a Dask cluster.

    `workers` counts processes; 0 stands for all cores. `scheduler` is the address of a Dask scheduler.
    """

    workers: int = 0
    scheduler: str | None = None

    def __post_init__(self) -> None:
        validation.whole_number("workers", self.workers, least=0, most=_MOST_WORKERS)
        validation.of_kind("scheduler", self.scheduler, (str, type(None)), "the address of a Dask scheduler, or None")


def sweep(
    title: str,
    store: Store,
    function: Callable[..., Table],
    jobs: Mapping[str, tuple[Any, ...]],
    execution: Execution,
) -> Table:
    """Run `function(*arguments)` for every job that the store does not have, and return all records.

    The records do not depend on the number of workers. On an interrupt what is finished is collected first.
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
    """Compile what the jobs will need, here and once, so that workers find it in the cache."""
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
    """Yield a function that advances a bar with the time left, on stderr, if that is a terminal."""
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
