"""The command line: `drbo show` and `drbo report` for your own runs; `demo`, `reproduce`, `compare`, `problems`.

A command checks its arguments, fills in default sizes, and calls the library, which is imported only then.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drbo._messages import MissingExtraError, comes_from_an_interrupt
from drbo.console import (
    classes_named,
    known,
    load,
    load_study,
    named_object,
    print_json,
    problem_named,
    say,
    say_files,
    show_table,
    wind_series,
)
from drbo.names import MethodName, SetName, SettingName

if TYPE_CHECKING:
    from drbo.experiments import Execution

FIGURES = ("figure1", "figure2", "corollary4", "figure3", "dial", "sets", "claims")
SETS = tuple(name.value for name in SetName)
METHODS = tuple(name.value for name in MethodName)
SETTINGS = tuple(name.value for name in SettingName)
WITH_ANY_SET = ("figure2", "dial")
"""The figures of a single set, which need not be the paper's MMD."""

app = typer.Typer(
    help="Distributionally robust Bayesian optimization: views of your runs, and the paper's experiments.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Backend(StrEnum):
    """Where a sweep runs."""

    LOKY = "loky"
    DASK = "dask"


def _offer(names: Sequence[str]) -> Callable[[str], list[str]]:
    """Return a shell completion for one value."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return complete


def _offer_more(names: Sequence[str]) -> Callable[[str], list[str]]:
    """Return a shell completion for the last of several comma-separated values."""

    def complete(incomplete: str) -> list[str]:
        *before, last = incomplete.split(",")
        return [",".join([*before, name]) for name in names if name.startswith(last) and name not in before]

    return complete


Out = Annotated[Path, typer.Option(help="Folder for records and figures.", file_okay=False)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
Ambiguity = Annotated[
    str, typer.Option(help=f"The set to be robust to: {', '.join(SETS)}.", autocompletion=_offer(SETS))
]
Seed = Annotated[int, typer.Option(min=0, help="Random seed.")]
Workers = Annotated[int, typer.Option(min=0, help="Worker processes; 0: all cores.")]
UsedBackend = Annotated[Backend, typer.Option(help="Worker processes here, or a Dask cluster.", case_sensitive=False)]
Scheduler = Annotated[str | None, typer.Option(help="Address of the Dask scheduler.")]
Classes = Annotated[
    list[str] | None,
    typer.Option("--class", help="A class that the file uses, as module:Class; may be repeated."),
]


def _version(wanted: bool) -> None:
    if wanted:
        import drbo

        print(f"drbo {drbo.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version, and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Handle the options before a command."""


@app.command()
def show(
    file: Annotated[Path, typer.Argument(help="File written by opt.save(...).")],
    once: Annotated[bool, typer.Option("--once", help="Print the present state, and exit.")] = False,
    classes: Classes = None,
    as_json: Json = False,
) -> None:
    """Show a run: what to deploy, progress, pending and failed evaluations.

    In a terminal the view follows the file as it grows, until Ctrl-C. In a pipe it is printed once.
    """
    with _told_in_one_line():
        from rich.console import Console

        from drbo.console import summary, view, watch

        own = classes_named(classes)
        if as_json:
            print_json(summary(load(file, own)))
            return
        console = Console(highlight=False)
        if once or not console.is_terminal:
            console.print(view(summary(load(file, own)), str(file), ascii_only=console.options.ascii_only))
            return
        with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C ends the view
            watch(file, lambda: load(file, own), console)


@app.command()
def report(
    file: Annotated[Path | None, typer.Argument(help="File written by opt.save(...).")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The page; default: name of the file or study, with .html.")
    ] = None,
    storage: Annotated[
        str | None, typer.Option(help="Address of an Optuna storage, such as sqlite:///heating.db, instead of a file.")
    ] = None,
    study: Annotated[str | None, typer.Option(help="The study in --storage; optional if there is only one.")] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page; default: the name of the output.")] = None,
    against: Annotated[
        Path | None, typer.Option(help="File of another run, or of an earlier state: the page says what changed.")
    ] = None,
    classes: Classes = None,
    as_json: Json = False,
) -> None:
    """Write one HTML page with the results of a run and their bounds. It needs no network."""
    if (file is None) == (storage is None):
        raise typer.BadParameter("give either a FILE or a study in --storage")
    if study is not None and storage is None:
        raise typer.BadParameter("--study needs --storage")
    with _told_in_one_line():
        own = classes_named(classes)
        if file is not None:
            opt, target = load(file, own), file.with_suffix(".html")
        else:
            opt, name = load_study(str(storage), study, own)
            target = Path(re.sub(r"[^\w.-]+", "_", name) + ".html")
        target = output or target
        for one in filter(None, (file, against)):
            if target.resolve() == one.resolve():
                raise ValueError(f"--output must differ from the file of the run, {one}")
        written = opt.report(target, title, None if against is None else load(against, own))
        if as_json:
            print(json.dumps({"report": str(written), "bytes": written.stat().st_size}))
        say(f"wrote {os.path.relpath(written)}")


@app.command()
def demo(
    out: Out = Path("out"),
    seed: Seed = 0,
    workers: Workers = 0,
    ambiguity: Ambiguity = SetName.MMD.value,
    as_json: Json = False,
) -> None:
    """Compare DRBO, UCB and StableOpt on benchmark 1, in under a minute: a table and a picture."""
    robust_to = known("ambiguity set", ambiguity, SETS)
    with _told_in_one_line():
        from drbo.experiments import Plan, demo

        say(f"benchmark 1 in the simulator setting, 10 runs of 100 rounds, three methods; results go to {out}/")
        execution = _execution(workers, Backend.LOKY, None)
        show_table(demo(Plan(out, runs=10, rounds=100, seed=seed, ambiguity=robust_to, execution=execution)), as_json)


@app.command()
def reproduce(
    figures: Annotated[
        list[str],
        typer.Argument(
            metavar="FIGURE",
            help=f"One or several of {', '.join(FIGURES)}, or all.",
            autocompletion=_offer((*FIGURES, "all")),
        ),
    ],
    runs: Annotated[int | None, typer.Option(min=1, help="Runs per method; default: 50, and 10 in figure3.")] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Rounds per run; default: 200, and 100 per hour of figure 3.")
    ] = None,
    seed: Seed = 0,
    workers: Workers = 0,
    out: Out = Path("out"),
    quick: Annotated[bool, typer.Option(help="Small: 10 runs of 100 rounds; two weeks of wind.")] = False,
    every: Annotated[
        int | None, typer.Option(min=1, help="Solve every N-th hour in figure3, as a sample of N hours; default: 11.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="CSV file with a time and a power column, instead of La Haute Borne.")
    ] = None,
    time_column: Annotated[str | None, typer.Option(help="The time column of --data, if not detected.")] = None,
    power_column: Annotated[
        str | None, typer.Option("--power-column", "--column", help="The power column of --data, if not detected.")
    ] = None,
    max_gap: Annotated[
        int | None, typer.Option(min=0, help="Longest gap of --data that is filled, in hours; default: 24.")
    ] = None,
    ambiguity: Annotated[
        str,
        typer.Option(
            help=f"The set to be robust to in {' and '.join(WITH_ANY_SET)}: {', '.join(SETS)}.",
            autocompletion=_offer(SETS),
        ),
    ] = SetName.MMD.value,
    backend: UsedBackend = Backend.LOKY,
    scheduler: Scheduler = None,
    as_json: Json = False,
) -> None:
    """Reproduce figures of the paper, and list its claims. Run it again to continue an interrupted sweep."""
    named = dict.fromkeys(known("figure", figure, (*FIGURES, "all")) for figure in figures)
    wanted = FIGURES if "all" in named else tuple(named)
    robust_to = known("ambiguity set", ambiguity, SETS)
    if robust_to != SetName.MMD and not {*wanted} <= {*WITH_ANY_SET}:
        raise typer.BadParameter(
            f"--ambiguity {robust_to} is for {', '.join(WITH_ANY_SET)} and drbo demo: figure1, corollary4, "
            "claims and figure3 are about the paper's MMD ball, and sets shows all sets at once"
        )
    for option, value in (("--time-column", time_column), ("--power-column", power_column), ("--max-gap", max_gap)):
        if value is not None and data is None:
            raise typer.BadParameter(f"{option} needs --data")
    for option, given in (("--data", data), ("--every", every)):
        if given is not None and "figure3" not in wanted:
            raise typer.BadParameter(f"{option} is for figure3")
    with _told_in_one_line():
        execution = _execution(workers, backend, scheduler)
        from drbo import experiments

        tables: dict[str, list[dict[str, Any]]] = {}
        for name in sorted(wanted, key="claims".__eq__):  # claims are about the figures before them
            small = runs or (10 if quick or name == "figure3" else 50)
            length = rounds or (100 if quick or name == "figure3" else 200)
            plan = experiments.Plan(out, runs=small, rounds=length, seed=seed, ambiguity=robust_to, execution=execution)
            started = time.perf_counter()
            if name == "claims":
                outcome = experiments.claims(plan, tables)
            elif name == "figure3":
                series = wind_series(data, time_column, power_column, max_gap)
                outcome = experiments.figure3(plan, series, 336 if quick else None, every or experiments.EVERY)
            else:
                outcome = getattr(experiments, name)(plan)
            tables[name] = outcome.rows
            if as_json:
                say_files(outcome)
            else:
                show_table(outcome, as_json)
            say(f"{name}: {time.perf_counter() - started:.0f} s")
        if as_json:
            print_json(tables if len(tables) > 1 else outcome.rows)


@app.command()
def compare(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="PROBLEM", help="One or several of drbo problems, or all; module:name for a problem of your own."
        ),
    ],
    methods: Annotated[
        str | None,
        typer.Option(
            help=f"Comma-separated names: {', '.join(METHODS)}; module:name for a method of your own. "
            "Default: all that the setting allows.",
            autocompletion=_offer_more(METHODS),
        ),
    ] = None,
    setting: Annotated[
        str,
        typer.Option(
            help=f"Who gives reference and radius, and who picks contexts: {', '.join(SETTINGS)}.",
            autocompletion=_offer(SETTINGS),
        ),
    ] = SettingName.SIMULATOR.value,
    runs: Annotated[int, typer.Option(min=1, help="Runs per method; all methods use the same seeds.")] = 20,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds per run.")] = 100,
    seed: Seed = 0,
    workers: Workers = 0,
    out: Out = Path("out"),
    ambiguity: Ambiguity = SetName.MMD.value,
    backend: UsedBackend = Backend.LOKY,
    scheduler: Scheduler = None,
    latex: Annotated[bool, typer.Option("--latex", help="Print the cumulative regret as a LaTeX table.")] = False,
    as_json: Json = False,
) -> None:
    """Compare methods on problems with paired seeds: a table, a figure, and records of every round.

    Run it again to continue an interrupted comparison. docs/methods.md describes the methods, and how to add your own.
    """
    chosen_setting = known("setting", setting, SETTINGS)
    robust_to = known("ambiguity set", ambiguity, SETS)
    named = [] if methods is None else [name.strip() for name in methods.split(",")]
    with _told_in_one_line():
        wanted = {
            name: named_object("--methods", name) if ":" in name else known("method", name, METHODS) for name in named
        }
        from drbo import experiments
        from drbo.problems import ALL

        everything = [make.__name__ for make in ALL] if "all" in map(str.lower, names) else names
        found = [problem_named(name) for name in dict.fromkeys(everything)]
        execution = _execution(workers, backend, scheduler)
        say(f"{chosen_setting} setting, {runs} runs of {rounds} rounds; standard errors in brackets; results: {out}/")
        outcome = experiments.compare(
            found,
            wanted or None,
            setting=chosen_setting,
            seeds=runs,
            rounds=rounds,
            seed=seed,
            ambiguity=robust_to,
            out=out,
            workers=execution.workers,
            scheduler=execution.scheduler,
        )
        if latex:
            print(outcome.to_latex(), end="")
            say_files(outcome)
        else:
            show_table(outcome, as_json)


@app.command()
def problems(as_json: Json = False) -> None:
    """List all problems with their stochastic, distributionally robust and worst-case (StableOpt) optimum."""
    with _told_in_one_line():
        from drbo.experiments import Output, problem_row
        from drbo.problems import ALL

        show_table(Output([], [problem_row(make()) for make in ALL]), as_json)
        if not as_json:
            say("each optimum: its value, and its action x if that is one number; --json prints all digits")


@contextlib.contextmanager
def _told_in_one_line() -> Iterator[None]:
    """Turn an interrupt, an error in the user's input, or a missing package into one line and an exit code."""
    try:
        yield
    except BaseException as error:
        if comes_from_an_interrupt(error):
            say("interrupted; finished records are kept, run the command again to continue")
            raise typer.Exit(130) from None
        if isinstance(error, MissingExtraError | ValueError | TypeError | RuntimeError | OSError):
            say(f"error: {error}")
            raise typer.Exit(1) from None
        raise


def _execution(workers: int, backend: Backend, scheduler: str | None) -> Execution:
    if (backend is Backend.DASK) != (scheduler is not None):
        raise typer.BadParameter("--backend dask and --scheduler ADDRESS go together")
    from drbo.experiments import Execution

    return Execution(workers, scheduler)
