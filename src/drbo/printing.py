"""What the command line prints: tables that fit 80 columns or JSON on standard output, notes on standard error."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import textwrap
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from drbo._text import printable

if TYPE_CHECKING:
    from drbo.experiments import Outcome


def show_table(outcome: Outcome, as_json: bool) -> None:
    """Print the table on standard output, as JSON or for a person, and say where the files are."""
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


def say_files(outcome: Outcome) -> None:
    """Say where the files of an experiment are."""
    for path in outcome.files:
        say(f"wrote {os.path.relpath(path)}")


def print_json(tables: Any) -> None:
    """Print tables as JSON."""
    print(json.dumps(_plain(tables), indent=2, allow_nan=False))


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: it knows no infinity."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _for_a_person(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row that fits 80 columns: the size of a problem in one cell, and an optimum as "value (action)".

    An action of several numbers is left to --json. Of a comparison, a mean stands before its standard error; beside
    methods with a constraint, simple regret and wins are left to --json.
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
    """Return a mean with its standard error in brackets."""
    return "-" if mean is None else f"{mean:.3g} ({_cell(error, 2)})"


def _head(name: str, width: int) -> str:
    """Return the head of a column, in as many lines as it needs to be no wider than its cells or its longest word."""
    words = name.replace("_", " ")
    return textwrap.fill(words, max(width, *map(len, words.split())), break_on_hyphens=False)


def _cell(value: Any, digits: int = 4) -> str:
    if value is None:
        return "-"
    if isinstance(value, list):
        return ", ".join(_cell(item, digits) for item in value)
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)


def say(text: str) -> None:
    """Print a line on standard error; of what a file or its name holds, no control character reaches the terminal."""
    print(printable(text, lines=True), file=sys.stderr, flush=True)


@contextlib.contextmanager
def notes(kind: type[Warning]) -> Iterator[None]:
    """Tell warnings of a kind in one line each."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", kind)
        yield
    for warning in caught:
        say(f"note: {warning.message}")
