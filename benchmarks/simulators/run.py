"""Whether printed bounds hold on real simulators: runs of the default, and a table of false bounds.

    export OPENBLAS_NUM_THREADS=1 PYTHONPATH=benchmarks
    python benchmarks/simulators/run.py battery reactor --seeds 10 --checkpoints 20 40 60 --radius-zero
    python benchmarks/simulators/run.py battery reactor --table      # what is there already

A run evaluates one simulator with the defaults of drbo at one radius. At each checkpoint the bound of `recommend()` is
compared with the true worst case of the recommended action (`Simulator.truth`). One file per run goes to `--out`, so
that a sweep that was stopped goes on where it was. `--radius-zero` runs the decision of radius 0 beside, and judges it
by the goals of both radii. The slack of a bound is how far it is on the safe side of the truth, in standard deviations
of the outcomes of the run.
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import drbo
from drbo.experiments.records import Table, read_csv, select, stack, write_csv
from drbo.validation import FloatArray
from intervals import clopper_pearson
from simulators import NAMES, Simulator, load

CHECKPOINTS = (20, 40, 60)
COLUMNS = (
    *("simulator", "method", "radius", "seed", "evaluations", "bound", "truth", "shifted"),
    *("spread", "outside", "verdict", "guess", "seconds"),
)
_ROUNDING = 1e-9
"""A bound counts as false from this share of the spread of the outcomes on."""


def run(
    simulator: Simulator, radius: float, seed: int, checkpoints: tuple[int, ...], **arguments: Any
) -> tuple[Table, Table]:
    """Return a row per checkpoint, and a row per evaluation that says where it was.

    A run at radius 0 has a row per checkpoint and radius, with a bound for radius 0 alone.
    """
    rng = np.random.default_rng([seed, 2])
    optimizer = simulator.optimizer(radius, seed, **arguments)
    method = "default" if radius > 0.0 else "radius zero"
    goals = (radius,) if radius > 0.0 else (0.0, *simulator.radii)
    rows, asked, outcomes = [], [], []
    seconds = 0.0
    for evaluation in range(1, max(checkpoints) + 1):
        start = time.process_time()
        suggestion = optimizer.ask()
        seconds += time.process_time() - start
        error = simulator.noise * float(rng.normal())
        outcomes.append(simulator.evaluate(suggestion.action, suggestion.context) + error)
        start = time.process_time()
        optimizer.tell(suggestion, outcomes[-1])
        asked.append(place(simulator, suggestion.context))
        if evaluation in checkpoints:
            r = optimizer.recommend()
            seconds += time.process_time() - start
            used = [c for c, w in zip(r.contexts, r.weights, strict=True) if w > 1e-9] if _ranged(simulator) else []
            shifted = simulator.in_shifted(r.action)
            trust = r.trust
            outside = _outside(simulator, np.array(asked))
            rest = (float(np.std(outcomes)), outside, trust.verdict, trust.guess, seconds)
            for goal in goals:
                bound = r.value if goal == radius else np.nan
                truth = simulator.truth(r.action, goal, used)
                rows.append((simulator.name, method, goal, seed, evaluation, bound, truth, shifted, *rest))
    places = {f"c{k + 1}": column for k, column in enumerate(np.array(asked).T)}
    where = {"evaluation": np.arange(1, len(asked) + 1), **places, "outcome": np.array(outcomes)}
    return {name: np.array(column) for name, column in zip(COLUMNS, zip(*rows, strict=True), strict=True)}, where


def place(simulator: Simulator, context: Any) -> FloatArray:
    """Return where a context is: its coordinates (d,) in the unit cube of the range, or the index of its label."""
    if isinstance(simulator.contexts, Mapping):
        return np.array([float(list(simulator.contexts).index(context))])
    return simulator.contexts.encode("context", context).coordinates


def _ranged(simulator: Simulator) -> bool:
    return isinstance(simulator.contexts, drbo.Samples)


def _outside(simulator: Simulator, places: FloatArray) -> float:
    """Return the share of evaluations (n, d) outside the box of the reference's samples; 0 for labels."""
    if isinstance(simulator.contexts, Mapping):
        return 0.0
    low, high = simulator.contexts.points.min(axis=0), simulator.contexts.points.max(axis=0)
    return float(((places < low) | (places > high)).any(axis=1).mean())


def sweep(
    out: Path, names: list[str], seeds: range, checkpoints: tuple[int, ...], radius_zero: bool = False
) -> list[str]:
    """Run what has no file yet, all simulators of one seed before the next; return those that are not installed."""
    found: dict[str, Simulator] = {}
    missing = []
    for name in names:
        try:
            found[name] = load(name)
        except ImportError as error:
            missing.append(f"{name}: {error}")
    for seed, (name, simulator) in itertools.product(seeds, found.items()):
        for radius in (*simulator.radii, *((0.0,) if radius_zero else ())):
            stem = out / name / f"{radius:g}, {seed}, {' '.join(map(str, checkpoints))}"
            if not stem.with_name(stem.name + ".csv").is_file():
                stem.parent.mkdir(parents=True, exist_ok=True)
                rows, where = run(simulator, radius, seed, checkpoints)
                write_csv(stem.with_name(stem.name + ".evaluations"), where)
                write_csv(stem.with_name(stem.name + ".csv"), rows)
    return missing


def read(out: Path, names: list[str]) -> Table:
    """Return all rows of these simulators."""
    return stack(read_csv(file) for name in names for file in sorted((out / name).glob("*.csv")))


def slack(table: Table, maximize: Mapping[str, bool], of: str = "bound") -> FloatArray:
    """Return how far bounds are on the safe side of the truth, (n,), in deviations of the outcomes.

    `of` is "bound", or "guess" for the bounds of the model alone.
    """
    signs = np.array([1.0 if maximize[name] else -1.0 for name in table["simulator"].tolist()])
    spread = np.where(table["spread"] > 0.0, table["spread"], 1.0)
    return np.asarray(signs * (table["truth"] - table[of]) / spread)


def tables(table: Table, maximize: Mapping[str, bool]) -> str:
    """Return false bounds per simulator and pooled, and the true robust values, as Markdown."""
    heads = (
        "simulator",
        "radius",
        "bounds",
        "false",
        "share (95%)",
        "false at each checkpoint",
        "by the model alone",
        "median slack",
    )
    more = ("median slack", "false of those checked", "evaluated outside the samples", "s per run")
    lines = [_row(*heads, *more), "|---" * (len(heads) + len(more)) + "|"]
    own = select(table, method="default")
    names = list(dict.fromkeys(own["simulator"].tolist()))
    for name in names:
        here = select(own, simulator=name)
        radii = np.unique(here["radius"]).tolist()
        lines += [_bounds(name, f"{radius:g}", select(here, radius=radius), maximize) for radius in radii]
        lines.append(_bounds(name, "both", here, maximize))
    lines.append(_bounds("pooled", "both", own, maximize))
    goals = ("simulator", "radius", "evaluations", "true worst case", "of radius zero", "pairs", "better", "worse")
    lines += ["", _row(*goals, "in the shifted world", "of radius zero"), "|---" * (len(goals) + 2) + "|"]
    for name, t in itertools.product(names, np.unique(own["evaluations"]).tolist()):
        here = select(table, simulator=name, evaluations=t)
        for radius in np.unique(select(here, method="default")["radius"]).tolist():
            lines.append(_values(name, radius, t, here, 1.0 if maximize[name] else -1.0))
    return "\n".join(lines)


def _bounds(name: str, radius: str, table: Table, maximize: Mapping[str, bool]) -> str:
    slacks = slack(table, maximize)
    false = slacks < -_ROUNDING
    low, high = clopper_pearson(int(false.sum()), len(false))
    times = np.unique(table["evaluations"]).tolist()
    by_time = " / ".join(f"{int(false[table['evaluations'] == t].sum())}" for t in times)
    share = f"{false.mean():.1%} ({low:.1%} to {high:.1%})"
    checked = table["verdict"] == "checked"
    last = select(table, evaluations=times[-1])
    cells = (
        share,
        by_time,
        str(int((slack(table, maximize, "guess") < -_ROUNDING).sum())),
        f"{np.median(slacks):.2f}",
        f"{int((false & checked).sum())} of {int(checked.sum())}",
        f"{last['outside'].mean():.0%}",
        f"{last['seconds'].mean():.1f}",
    )
    return _row(name, radius, str(len(false)), str(int(false.sum())), *cells)


def _values(name: str, radius: float, evaluations: int, table: Table, sign: float) -> str:
    """Return a row: the true worst case of the robust decision, and that of the decision of radius 0."""
    mine, zero = (select(table, method=method, radius=radius) for method in ("default", "radius zero"))
    cells = [name, f"{radius:g}", str(evaluations), _mean(mine["truth"])]
    seeds = sorted(set(mine["seed"].tolist()) & set(zero["seed"].tolist()))
    if not seeds:
        return _row(*cells, "-", "0", "-", "-", _mean(mine["shifted"]), "-")
    gains = np.array([sign * (_of(mine, seed) - _of(zero, seed)) for seed in seeds])
    counts = (str(len(seeds)), str(int((gains > 0.0).sum())), str(int((gains < 0.0).sum())))
    return _row(*cells, _mean(zero["truth"]), *counts, _mean(mine["shifted"]), _mean(zero["shifted"]))


def _of(table: Table, seed: int) -> float:
    return float(select(table, seed=seed)["truth"][0])


def _mean(values: FloatArray) -> str:
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{values.mean():.4g} +- {error:.2g}"


def _row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Run what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(NAMES), metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--checkpoints", nargs="+", type=int, default=list(CHECKPOINTS))
    parser.add_argument("--radius-zero", action="store_true", help="run the decision of radius 0 beside")
    parser.add_argument("--out", type=Path, default=Path("out/simulators/runs"))
    parser.add_argument("--table", action="store_true", help="run nothing")
    given = parser.parse_args()
    names = given.names or list(NAMES)
    for name in names:
        if name not in NAMES:
            parser.error(f"NAME must be one of {', '.join(NAMES)}, got {name!r}")
    warnings.simplefilter("ignore")  # of the simulators
    if not given.table:
        seeds = range(given.first_seed, given.first_seed + given.seeds)
        for line in sweep(given.out, names, seeds, tuple(sorted(given.checkpoints)), given.radius_zero):
            print(f"not installed: {line}")
    found = read(given.out, names)
    if found:
        print(tables(found, {name: load(name).maximize for name in np.unique(found["simulator"]).tolist()}))
    else:
        print("no runs yet")


if __name__ == "__main__":
    main()
