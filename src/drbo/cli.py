"""The command line: `drbo demo`, `drbo reproduce`, `drbo problems`. It has no logic of its own, and loads it late."""

from __future__ import annotations

import contextlib
import difflib
import json
import math
import os
import sys
import time
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drbo._extras import MissingExtraError
from drbo.names import SetName

if TYPE_CHECKING:
    from drbo.experiments import Execution, Outcome

FIGURES = ("figure1", "figure2", "figure3", "dial", "sets")
SETS = tuple(name.value for name in SetName)
WITH_ANY_SET = ("figure2", "dial")
"""The figures of one set, which may be another one than the paper's MMD."""

app = typer.Typer(
    help="Distributionally robust Bayesian optimization: the paper's experiments, and a demonstration.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Backend(StrEnum):
    """Where a sweep runs."""

    LOKY = "loky"
    DASK = "dask"


Out = Annotated[Path, typer.Option(help="Folder for records and figures.")]
Json = Annotated[bool, typer.Option("--json", help="Print the table as JSON on standard output.")]
Ambiguity = Annotated[str, typer.Option(help=f"The set to be robust to: {', '.join(SETS)}.")]
Seed = Annotated[int, typer.Option(min=0, help="All randomness comes from this.")]
Workers = Annotated[int, typer.Option(min=0, help="Worker processes; 0: all cores.")]


@app.command()
def demo(
    out: Out = Path("out"),
    seed: Seed = 0,
    workers: Workers = 0,
    ambiguity: Ambiguity = SetName.MMD.value,
    as_json: Json = False,
) -> None:
    """Compare DRBO, UCB and StableOpt on benchmark 1, in under a minute: a table and a picture."""
    robust_to = _known("ambiguity set", ambiguity, SETS)
    with _told_in_one_line():
        from drbo.experiments import Plan, demo

        _say(f"benchmark 1 in the simulator setting, 10 runs of 100 rounds, three methods; results go to {out}/")
        execution = _execution(workers, Backend.LOKY, None)
        _show(demo(Plan(out, runs=10, rounds=100, seed=seed, ambiguity=robust_to, execution=execution)), as_json)


@app.command()
def reproduce(
    figure: Annotated[str, typer.Argument(help=f"{', '.join(FIGURES)}, or all.")],
    runs: Annotated[int | None, typer.Option(min=1, help="Runs of each method in figure 2; 50.")] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Rounds of a run; 200 for figure 2, 100 for each hour of figure 3.")
    ] = None,
    seed: Seed = 0,
    workers: Workers = 0,
    out: Out = Path("out"),
    quick: Annotated[bool, typer.Option(help="Small: 10 runs of 100 rounds; two weeks of wind.")] = False,
    data: Annotated[
        Path | None, typer.Option(help="CSV file with a time and a power column, instead of La Haute Borne.")
    ] = None,
    column: Annotated[str | None, typer.Option(help="The power column of --data, if it cannot be told.")] = None,
    ambiguity: Annotated[
        str, typer.Option(help=f"The set to be robust to in {' and '.join(WITH_ANY_SET)}: {', '.join(SETS)}.")
    ] = SetName.MMD.value,
    backend: Annotated[Backend, typer.Option(help="Worker processes here, or a Dask cluster.")] = Backend.LOKY,
    scheduler: Annotated[str | None, typer.Option(help="Address of the Dask scheduler.")] = None,
    as_json: Json = False,
) -> None:
    """Reproduce a figure of the paper. An interrupted sweep goes on where it stopped when called again."""
    wanted = FIGURES if figure == "all" else (_known("figure", figure, (*FIGURES, "all")),)
    robust_to = _known("ambiguity set", ambiguity, SETS)
    if robust_to != SetName.MMD and not {*wanted} <= {*WITH_ANY_SET}:
        raise typer.BadParameter(
            f"--ambiguity {robust_to} is for {', '.join(WITH_ANY_SET)} and drbo demo: figure1 and figure3 are about "
            "the paper's MMD ball, and sets shows all sets at once"
        )
    if column is not None and data is None:
        raise typer.BadParameter("--column names a column of --data, which is missing")
    if data is not None and "figure3" not in wanted:
        raise typer.BadParameter("--data is for figure3")
    with _told_in_one_line():
        execution = _execution(workers, backend, scheduler)
        from drbo import experiments

        for name in wanted:
            small = runs or (10 if quick else 50)
            length = rounds or (100 if quick or name == "figure3" else 200)
            plan = experiments.Plan(out, runs=small, rounds=length, seed=seed, ambiguity=robust_to, execution=execution)
            started = time.perf_counter()
            if name == "figure3":
                outcome = experiments.figure3(plan, _wind_series(data, column), hours=336 if quick else None)
            else:
                outcome = getattr(experiments, name)(plan)
            _show(outcome, as_json)
            _say(f"{name}: {time.perf_counter() - started:.0f} s")


@app.command()
def problems(as_json: Json = False) -> None:
    """List all problems with their stochastic, distributionally robust and worst-case (StableOpt) optimum."""
    with _told_in_one_line():
        from drbo.experiments import Outcome, problem_row
        from drbo.problems import ALL

        _show(Outcome([], [problem_row(make()) for make in ALL]), as_json)


@contextlib.contextmanager
def _told_in_one_line() -> Iterator[None]:
    """Turn an interrupt, an error in what the user gave, or a missing package into one line and an exit code."""
    try:
        yield
    except BaseException as error:
        if _comes_from_an_interrupt(error):
            _say("interrupted; finished records are kept, call again to go on")
            raise typer.Exit(130) from None
        if isinstance(error, MissingExtraError | ValueError | TypeError | RuntimeError | OSError):
            _say(f"error: {error}")
            raise typer.Exit(1) from None
        raise


def _comes_from_an_interrupt(error: BaseException) -> bool:
    """Return whether an interrupt is the error, its cause or its context.

    An interrupt inside compiled code may surface as a SystemError of numba or as a TypeError of numpy.
    """
    to_see, seen = [error], set[int]()
    while to_see:
        one = to_see.pop()
        if isinstance(one, KeyboardInterrupt):
            return True
        seen.add(id(one))
        to_see += [e for e in (one.__cause__, one.__context__) if e is not None and id(e) not in seen]
    return False


def _execution(workers: int, backend: Backend, scheduler: str | None) -> Execution:
    if (backend is Backend.DASK) != (scheduler is not None):
        raise typer.BadParameter("--backend dask and --scheduler ADDRESS go together")
    from drbo.experiments import Execution

    return Execution(workers, scheduler)


def _known(kind: str, name: str, names: tuple[str, ...]) -> str:
    if name not in names:
        (nearest,) = difflib.get_close_matches(name, names, n=1, cutoff=0.0)
        raise typer.BadParameter(f"unknown {kind} {name!r}; did you mean {nearest!r}? Known: {', '.join(names)}")
    return name


def _wind_series(data: Path | None, column: str | None) -> Any:
    import warnings

    from drbo.problems import WindDataWarning, la_haute_borne, read_wind_csv

    if data is None:
        return la_haute_borne()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", WindDataWarning)
        series = read_wind_csv(data, power_column=column)
    for warning in caught:
        _say(f"note: {warning.message}")
    return series


def _show(outcome: Outcome, as_json: bool) -> None:
    """Print the table on standard output, as JSON or for a person, and say where the files are."""
    if as_json:
        print(json.dumps([{k: _plain(v) for k, v in row.items()} for row in outcome.rows], indent=2, allow_nan=False))
    elif outcome.rows:
        from rich.console import Console
        from rich.table import Table

        table = Table(box=None, pad_edge=False, header_style="bold")
        for name, value in outcome.rows[0].items():
            left = isinstance(value, str | list)
            table.add_column(name.replace("_", " "), justify="left" if left else "right", overflow="fold")
        for row in outcome.rows:
            table.add_row(*(_cell(value) for value in row.values()))
        console = Console(width=None if sys.stdout.isatty() else 240)  # a pipe has room for the whole width
        console.print(table)
    for path in outcome.files:
        _say(f"wrote {os.path.relpath(path)}")


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: it knows no infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, list):
        return ", ".join(_cell(item) for item in value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
