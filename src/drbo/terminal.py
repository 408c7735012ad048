"""A run in a terminal: recommendation, progress, pending and failed evaluations. `drbo show` prints it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drbo import Optimizer
from drbo._messages import printable
from drbo.report.plots import Course, course
from drbo.spaces.space import row, words
from drbo.validation import FloatArray

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_LISTED = 5
"""Number of results and pending evaluations that are listed."""
_PAUSE = 0.5
"""Seconds between two checks of a file."""
_WIDTH = 30
"""Largest number of bars in a line, so that it fits 80 columns."""
_BARS, _PLAIN_BARS = "▁▂▃▄▅▆▇█", "_.-=+*#@"


def summary(opt: Optimizer) -> dict[str, Any]:
    """Return the displayed data of a run, as JSON types."""
    run = course(opt)
    results = [
        {
            "result": result.id,
            "suggestion": result.number,
            "action": row(result.action, "action"),
            "context": row(result.context, "context"),
            "outcome": result.outcome,
            "time": None if result.time is None else datetime.fromtimestamp(result.time, UTC).isoformat("T", "seconds"),
        }
        for result in opt.results
    ]
    return {
        "deploy": _deploy(run),
        "outcomes": len(results) - len(run.failed),
        "failed": [one for one in results if one["outcome"] is None],
        "pending": [
            {
                "suggestion": s.number,
                "action": row(s.action, "action"),
                "contexts": [row(context, "context") for context in s.contexts],
            }
            for s in opt.pending
        ],
        "evaluation": run.at.tolist(),
        "guarantee": _finite(run.guarantee),
        "optimistic": _finite(run.optimistic),
        "maximize": opt.configuration.maximize,
        "last results": results[-_LISTED:],
    }


def _finite(values: FloatArray) -> list[float | None]:
    """Return numbers as JSON types, with None for infinity."""
    return [value if math.isfinite(value) else None for value in values.tolist()]


def _deploy(run: Course) -> dict[str, Any]:
    """Return the recommendation and its bound, or the reason why there is none."""
    found = run.recommended
    if found is None:
        return {"why not": run.why_not}
    value = found.value if math.isfinite(found.value) else None
    return {
        "action": row(found.action, "action"),
        "value": value,
        "proven": found.claim.proven,
        "promise": f"{found.promise} on average in every distribution {found.within}",
    }


def view(told: dict[str, Any], name: str, *, ascii_only: bool = False) -> RenderableType:
    """Return a summary for rich. User text is shown without markup or control characters."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    def line(text: str, style: str = "") -> Text:
        return Text(printable(text), style)

    deploy = told["deploy"]
    parts = [line(name, "bold")]
    if "why not" in deploy:
        parts.append(line(f"nothing to deploy: {deploy['why not']}"))
    else:
        parts += [line(f"deploy {words(deploy['action'])}", "bold green"), line(deploy["promise"])]
    counts = f"{told['outcomes']} outcomes, {len(told['failed'])} failed, {len(told['pending'])} pending"
    parts.append(line(counts))
    for name, key in (("its guarantee by evaluation", "guarantee"), ("its optimistic bound", "optimistic")):
        values = [value for value in told[key] if value is not None]
        if values:
            bars = _bars(values[-_WIDTH:], _PLAIN_BARS if ascii_only else _BARS)
            parts.append(line(f"{name:<28}{bars}  {values[0]:.4g} to {values[-1]:.4g}"))
    rows = [
        (f"suggestion {one['suggestion']}", "pending", one["action"], *(one["contexts"] or [{}])[:1])
        for one in told["pending"][:_LISTED]
    ]
    for one in reversed(told["last results"]):
        came = "failed" if one["outcome"] is None else f"{one['outcome']:.4g}"
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
