"""Input and output of the command line: runs, tables of at most 80 columns or JSON, and notes on standard error.

Whatever needs numpy or rich is imported inside of the functions, so that `drbo --help` does not wait for it.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import json
import math
import os
import re
import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

import typer

from drbo._messages import printable, require

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from drbo import Optimizer
    from drbo.experiments import Output
    from drbo.problems import Problem, WindSeries


_LISTED = 5
"""Number of results and pending evaluations that are listed."""
_PAUSE = 0.5
"""Seconds between two checks of a file."""
_WIDTH = 30
"""Largest number of bars in a line, so that it fits 80 columns."""
_BARS, _PLAIN_BARS = "▁▂▃▄▅▆▇█", "_.-=+*#@"


def show_table(outcome: Output, as_json: bool) -> None:
    """Print the table on standard output, as JSON or as text, and the paths of the files."""
    if as_json:
        print_json(outcome.rows)
    elif outcome.rows:
        from rich.console import Console
        from rich.table import Table

        rows = [_for_a_person(row) for row in outcome.rows]
        table = Table(box=None, pad_edge=False, header_style="bold")
        for name, value in rows[0].items():
            justify: Any = "left" if isinstance(value, str | list) else "right"
            longest = max(len(_cell(row[name])) for row in rows)
            table.add_column(_head(name, longest), justify=justify, overflow="fold")
        for row in rows:
            table.add_row(*(_cell(value) for value in row.values()))
        Console().print(table)
    say_files(outcome)


def say_files(outcome: Output) -> None:
    """Print the paths of an experiment's files."""
    for path in outcome.files:
        say(f"wrote {os.path.relpath(path)}")


def print_json(tables: Any) -> None:
    """Print tables as JSON."""
    print(json.dumps(_plain(tables), indent=2, allow_nan=False))


def _plain(value: Any) -> Any:
    """Return a value as a JSON type, which excludes infinity."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _for_a_person(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row that fits 80 columns: the problem size in one cell, and an optimum as "value (action)".

    Actions of several numbers are shown only by --json. In a comparison, the mean is followed by its standard error. If
    methods have a constraint, simple regret and wins are shown only by --json.
    """
    if "wins" in row:
        short = {
            "problem": row["problem"],
            "method": row["method"],
            "cumulative regret": _with_error(row["regret"], row["standard error"]),
        }
        if "infeasible runs" in row:
            error = row["standard error of constrained regret"]
            short["constrained regret"] = _with_error(row["constrained regret"], error)
            short |= {name: row[name] for name in ("infeasible runs", "open actions")}
        else:
            short["simple regret"] = _with_error(row["simple regret"], row["its standard error"])
            short["wins"] = row["wins"]
        return short | {"seconds per run": f"{row['seconds per run']:.2g}"}
    if "actions" not in row:
        return row
    short = {"problem": row["problem"], "size": f"{row['actions']} x {row['contexts']}"}
    for name, x in row.items():
        if name.endswith(" x"):
            label = name.removesuffix(" x")
            where = f" ({x[0]:.2g})" if len(x) == 1 else ""
            value = row[f"{label} value"]
            short[label] = f"{value:.0f}{where}" if abs(value) >= 100.0 else f"{value:.2g}{where}"
    return short


def _with_error(mean: float | None, error: float | None) -> str:
    """Return a mean followed by its standard error in brackets."""
    return "-" if mean is None else f"{mean:.3g} ({_cell(error, 2)})"


def _head(name: str, width: int) -> str:
    """Return a column head, wrapped so that it is no wider than the cells or its longest word."""
    words = name.replace("_", " ")
    return textwrap.fill(words, max(width, *map(len, words.split())), break_on_hyphens=False)


def _cell(value: Any, digits: int = 4) -> str:
    if value is None:
        return "-"
    if isinstance(value, list):
        return ", ".join(_cell(item, digits) for item in value)
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)


def say(text: str) -> None:
    """Print a line on standard error, with control characters escaped."""
    print(printable(text, lines=True), file=sys.stderr, flush=True)


@contextlib.contextmanager
def notes(kind: type[Warning]) -> Iterator[None]:
    """Print each warning of a kind in one line."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", kind)
        yield
    for warning in caught:
        say(f"note: {warning.message}")


def known(kind: str, given: str, names: tuple[str, ...]) -> str:
    """Return the known name that matches the user's, ignoring case."""
    name = given.lower()
    if name not in names:
        (nearest,) = difflib.get_close_matches(name, names, n=1, cutoff=0.0)
        raise typer.BadParameter(f"unknown {kind} {given!r}; did you mean {nearest!r}? Known: {', '.join(names)}")
    return name


def named_object(option: str, text: str, form: str = "module:name, such as my_methods:Mine") -> Any:
    """Return what is named as module:name; the current folder is searched, too."""
    module, _, name = text.partition(":")
    if not (module and name):
        raise ValueError(f"{option} must be {form}, got {text!r}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"{option} {text}: {error}") from None


def classes_named(given: Sequence[str] | None) -> list[Any]:
    """Return the classes and functions named as module:Class."""
    found = [
        (text, named_object("--class", text, "module:Class, such as my_sets:Contamination")) for text in given or ()
    ]
    for text, made in found:
        if not isinstance(made, type | FunctionType):
            raise TypeError(f"--class {text}: {text.partition(':')[2]} is neither a class nor a function")
    return [made for _, made in found]


def problem_named(text: str) -> Problem:
    """Return a problem of drbo by its name, or one of the user's as module:name: a problem, or a function of none."""
    from drbo.problems import Problem, by_name

    if ":" not in text:
        return by_name(text)
    made = named_object("PROBLEM", text)
    made = made() if isinstance(made, FunctionType) else made
    if not isinstance(made, Problem):
        raise TypeError(f"PROBLEM {text}: must be a drbo.problems.Problem or a function that returns one, got {made!r}")
    return made


def load(file: Path, classes: Sequence[Callable[..., Any]]) -> Optimizer:
    """Return the optimizer stored in a file."""
    from drbo import Optimizer

    try:
        return Optimizer.load(file, classes)
    except ValueError as error:
        if not re.search("needs the (class|function)", str(error)):
            raise
        raise ValueError(f"{error}; use --class module:Class") from None


def load_study(storage: str, study: str | None, classes: Sequence[Callable[..., Any]]) -> tuple[Optimizer, str]:
    """Return the optimizer of an Optuna study, and the name of the study."""
    optuna = require("optuna", "optuna")
    from drbo.integrations.optuna import RobustSampler

    _, sqlite, database = storage.partition("sqlite:///")
    if sqlite and database and not Path(database).is_file():  # Optuna would create an empty one
        raise ValueError(f"--storage {storage}: there is no file {database}")
    try:
        names = optuna.get_all_study_names(storage)
    except Exception as error:  # from the database library
        raise ValueError(f"--storage {storage} cannot be read: {str(error).splitlines()[0]}") from None
    if study is None and len(names) != 1:
        raise ValueError(f"--study must be given: {storage} holds {', '.join(names) or 'no study'}")
    name = names[0] if study is None else study
    if name not in names:
        raise ValueError(f"--study {name}: {storage} holds {', '.join(names) or 'no study'}")
    found = optuna.load_study(study_name=name, storage=storage)
    with notes(UserWarning):
        return RobustSampler.from_study(found, classes=classes).optimizer(found), name


def wind_series(
    data: Path | None, time_column: str | None, power_column: str | None, max_gap: int | None
) -> WindSeries:
    """Return the wind power of a CSV file, or of La Haute Borne."""
    from drbo.problems import WindDataError, WindDataWarning, la_haute_borne, read_wind_csv

    if data is None:
        return la_haute_borne()
    gap = 24 if max_gap is None else max_gap
    try:
        with notes(WindDataWarning):
            return read_wind_csv(data, time_column=time_column, power_column=power_column, max_gap=gap)
    except WindDataError as error:
        said = re.sub(r"\b(time_column|power_column|max_gap)\b", lambda m: f"--{m[0].replace('_', '-')}", str(error))
        raise ValueError(said) from None


def summary(opt: Optimizer) -> dict[str, Any]:
    """Return the displayed data of a run, by JSON types; a bound may be infinite."""
    from drbo.report.plots import course
    from drbo.spaces.space import row

    run, own = course(opt), opt.configuration
    results = [
        {
            "result": result.id,
            "suggestion": result.number,
            "action": row(result.action, "action"),
            "context": row(result.context, "context"),
            "outcome": result.outcome,
            "failed": result.failed,
            **({"limits": _values(result.limits)} if own.measured else {}),
            "time": None if result.time is None else datetime.fromtimestamp(result.time, UTC).isoformat("T", "seconds"),
        }
        for result in opt.results
    ]
    found = run.recommended
    deploy: dict[str, Any] = {"why not": run.why_not}
    if found is not None:
        statement = f"{found.statement} on average in every distribution {found.set_words}"
        action = row(found.action, "action")
        deploy = {"action": action, "value": found.value, "proven": found.claim.proven, "statement": statement}
        if found.limits:
            deploy["limits"] = {
                name: {"value": one.value, "threshold": one.threshold, "holds": one.holds, "text": f"{one.word}: {one}"}
                for name, one in found.limits.items()
            }
        deploy |= {} if found.success is None else {"success": found.success}
    return {
        "deploy": deploy,
        "outcomes": len(results) - len(run.failed),
        "failed": [one for one in results if one["failed"]],
        "pending": [
            {
                "suggestion": s.number,
                "action": row(s.action, "action"),
                "contexts": [row(context, "context") for context in s.contexts],
            }
            for s in opt.pending
        ],
        "evaluation": run.at.tolist(),
        "bound": run.bound.tolist(),
        "optimistic": run.optimistic.tolist(),
        "maximize": opt.configuration.maximize,
        "last results": results[-_LISTED:],
    }


def _values(limits: Mapping[str, Any]) -> dict[str, float]:
    """Return the values of limited outcomes without standard errors."""
    return {name: getattr(value, "value", value) for name, value in limits.items()}


def view(told: dict[str, Any], name: str, *, ascii_only: bool = False) -> RenderableType:
    """Return a summary for rich. User text is shown without markup or control characters."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from drbo.spaces.space import words

    def line(text: str, style: str = "") -> Text:
        return Text(printable(text), style)

    deploy = told["deploy"]
    parts = [line(name, "bold")]
    if "why not" in deploy:
        parts.append(line(f"nothing to deploy: {deploy['why not']}"))
    else:
        parts += [line(f"deploy {words(deploy['action'])}", "bold green"), line(deploy["statement"])]
        parts += [line(one["text"]) for one in deploy.get("limits", {}).values()]
    counts = f"{told['outcomes']} outcomes, {len(told['failed'])} failed, {len(told['pending'])} pending"
    parts.append(line(counts))
    for name, key in (("the model's bound over time", "bound"), ("its optimistic bound", "optimistic")):
        values = [value for value in told[key] if math.isfinite(value)]
        if values:
            bars = _bars(values[-_WIDTH:], _PLAIN_BARS if ascii_only else _BARS)
            parts.append(line(f"{name:<28}{bars}  {values[0]:.4g} to {values[-1]:.4g}"))
    rows = [
        (f"suggestion {one['suggestion']}", "pending", one["action"], *(one["contexts"] or [{}])[:1])
        for one in told["pending"][:_LISTED]
    ]
    for one in reversed(told["last results"]):
        came = "failed" if one["failed"] else "not measured" if one["outcome"] is None else f"{one['outcome']:.4g}"
        came += "".join(f", {name} {value:.4g}" for name, value in one.get("limits", {}).items())
        rows.append((f"result {one['result']}", came, one["action"], one["context"]))
    if rows:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for head in ("", "outcome", "action", "context"):
            table.add_column(head, justify="right" if head == "outcome" else "left", overflow="fold")
        for number, came, action, context in rows:
            style = {"failed": "red", "pending": "yellow"}.get(came, "")
            table.add_row(*(line(cell, style) for cell in (number, came, words(action), words(context))))
        parts.append(Text(""))
        return Group(*parts, table)
    return Group(*parts)


def watch(path: Path, load: Callable[[], Optimizer], console: Console) -> None:
    """Show the run of a file, and update it whenever the file has grown, until the user interrupts it."""
    from rich.live import Live

    shown = None
    with Live(console=console, auto_refresh=False, vertical_overflow="visible") as live:
        while True:
            found = path.stat()
            now = found.st_mtime_ns, found.st_size, found.st_ino
            if now != shown:
                told = summary(load())
                live.update(view(told, str(path), ascii_only=console.options.ascii_only), refresh=True)
                shown = now
            time.sleep(_PAUSE)


def _bars(values: list[float], levels: str) -> str:
    """Return numbers as a row of bars, scaled from the smallest to the largest."""
    low, high = min(values), max(values)
    scale = (len(levels) - 1) / (high - low) if high > low else 0.0
    return "".join(levels[round((value - low) * scale)] for value in values)
