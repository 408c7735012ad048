"""`python benchmarks/run.py [--quick]`: measure everything, print the table, write RESULTS.md and the plot.

One core: the threads of all libraries are limited before any of them is imported.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable
from pathlib import Path

import one_core  # noqa: F401  # imported for its effect, before numpy
from adversaries import adversary_rows
from boxes import answer_rows, box_rows
from many_outcomes import many_outcome_rows
from measure import load, machine
from plot import draw
from rows import (
    Row,
    growth_rows,
    large_rows,
    long_rows,
    measure_actions,
    measure_contexts,
    warm_start_rows,
    whole_round_rows,
    wind_rows,
    worst_case_rows,
)
from vectors import vector_rows

HERE = Path(__file__).parent
NOTE = """\
Each row with an opponent was checked for equality before it was timed: the same optimum to 1e-6 of the values' range,
the same chosen action, the same posterior. Times are CPU times of one core (on an idle machine the same as the time
that passes; this one was shared), per value vector or per round, and the best of several runs: of 100 for our batches,
10 for our rounds, 3 for the opponents, which take longer (1 for the reference loop on 1000x100 and for dense factors).
The verdict is on the first opponent named, for a round the faster of two loops. Solvers are given the low-rank factor
that drbo computes, and a model that is built once and kept. "Dense factor" is what one writes without drbo, the
Cholesky factor of the Gram matrix. Warm and cold solves are differences of public calls, see `rows.py`."""


def amount(value: float, unit: str) -> str:
    """Return a time in the unit that suits it, or another quantity in its own."""
    if unit != "s":
        return f"{value:.3g} {unit}".strip()
    if value >= 120.0:
        return f"{value / 60:.1f} min"
    for scale, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if value >= scale:
            return f"{value / scale:.3g} {name}"
    return f"{value * 1e6:.2g} us"


def line(row: Row) -> str:
    """Return the row as a line of the table."""
    targets = [f"<= {amount(row.limit, row.unit)}"] if row.limit is not None else []
    if row.factor is not None:
        targets.append(f">= {row.factor:,.0f}x {next(iter(row.opponents), '')}".strip())
    verdict = {None: "", True: "met", False: "**missed**"}[row.met]
    if row.limit is not None and row.ours > row.limit:
        verdict += f" by {row.ours / row.limit:.2f}x"
    if row.factor is not None and row.ratio is not None and row.ratio < row.factor:
        verdict += f", {row.ratio:,.0f}x"
    against = "; ".join(f"{name} {amount(t, 's')} ({t / row.ours:,.3g}x)" for name, t in row.opponents.items())
    cells = (row.work, amount(row.ours, row.unit), ", ".join(targets), verdict, against, row.note)
    return "| " + " | ".join(cells) + " |"


def report(rows: list[Row], loads: tuple[str, str], seconds: float) -> str:
    """Return RESULTS.md."""
    goals = [row for row in rows if row.met is not None]
    missed = [row for row in goals if not row.met]
    summary = f"{len(goals) - len(missed)} of {len(goals)} rows with a target meet it."
    if missed:
        summary += " Missed: " + "; ".join(row.work for row in missed) + ". docs/performance.md says what binds."
    head = [
        "# Results of `make bench`",
        "",
        *machine(),
        f"- one process, one core; load average {loads[0]} at the start, {loads[1]} at the end; {seconds / 60:.0f} min",
        "",
        summary,
        "",
        NOTE,
        "",
        "| work | drbo | target | | opponents (their time, and how many times ours) | |",
        "|---|---|---|---|---|---|",
    ]
    return "\n".join([*head, *(line(row) for row in rows), ""])


def main() -> None:
    """Run the suite, or one measurement that needs a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repeats and smaller sets; writes nothing")
    parser.add_argument("--many", action="store_true", help="the rows of many outcomes alone; writes nothing")
    parser.add_argument("--measure", choices=["contexts", "actions"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure_contexts() if arguments.measure == "contexts" else measure_actions(arguments.quick)))
        return
    before, start = load(), time.perf_counter()
    rows: list[Row] = []

    def add(new: Iterable[Row]) -> None:
        for row in new:
            print(line(row), flush=True)
            rows.append(row)

    if arguments.many:
        add(box_rows(arguments.quick))
        add(answer_rows(arguments.quick))
        add(long_rows(arguments.quick))
        add(many_outcome_rows(arguments.quick))
        return
    add(worst_case_rows(arguments.quick))
    add(warm_start_rows(arguments.quick))
    add(whole_round_rows(arguments.quick))
    growth, curve = growth_rows(arguments.quick)
    add(growth)
    add(large_rows(arguments.quick))
    add(adversary_rows(arguments.quick))
    add(vector_rows(arguments.quick))
    add(box_rows(arguments.quick))
    add(answer_rows(arguments.quick))
    add(long_rows(arguments.quick))
    add(many_outcome_rows(arguments.quick))
    add(wind_rows(arguments.quick))
    if not arguments.quick:
        (HERE / "RESULTS.md").write_text(report(rows, (before, load()), time.perf_counter() - start))
        draw(rows, curve, HERE.parent / "docs" / "figures" / "performance.png")


if __name__ == "__main__":
    main()
