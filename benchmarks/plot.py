"""Cost against size, drbo and its opponents, for README and docs."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes

from drbo.experiments.style import COLOURS, STYLE, TRUTH, new_figure
from rows import Row
from world import Array

LINES = {
    "drbo": (COLOURS["DRBO"], "o"),
    "CVXPY + Clarabel": (COLOURS["UCB"], "s"),
    "CVXPY + ECOS": (TRUTH, "^"),
    "Clarabel": (COLOURS["StableOpt"], "D"),
    "ECOS": (COLOURS["no commitment"], "v"),
    "reference loop": (COLOURS["UCB"], "s"),
    "scikit-learn GP": (COLOURS["StableOpt"], "D"),
    "BoTorch posterior": (COLOURS["no commitment"], "v"),
}
LABELS = {"scikit-learn GP": "scikit-learn, posterior alone", "BoTorch posterior": "BoTorch, posterior alone"}


def draw(rows: list[Row], growth: Array, path: Path) -> None:
    """Draw worst case against contexts, round against grid points, and round against observations."""
    with mpl.rc_context(STYLE):
        figure = new_figure(11.0, 3.6)
        first, second, third = figure.subplots(1, 3)
        solves = {}
        rounds = {}
        for row in rows:
            if match := re.fullmatch(r"worst case, batch of 100, n=(\d+), lengthscale 0.1", row.work):
                solves[int(match[1])] = row
            if match := re.fullmatch(r"whole round at t=100, (\d+)x(\d+)", row.work):
                rounds[int(match[1]) * int(match[2])] = row
        _lines(first, solves, 1e6)
        first.set(title="One worst case", xlabel="contexts", ylabel="microseconds")
        _lines(second, rounds, 1e3)
        second.set(title="One round at t = 100", xlabel="actions x contexts", ylabel="milliseconds")
        third.plot(growth[0], 1e3 * growth[1], color=COLOURS["DRBO"], marker="o", markersize=3)
        third.set(title="One round on 100 x 100", xlabel="observations t", ylabel="milliseconds", ylim=(0, None))
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Software": None})


def _lines(axes: Axes, rows: dict[int, Row], scale: float) -> None:
    sizes = sorted(rows)
    for name, (colour, marker) in LINES.items():
        times = {n: rows[n].ours if name == "drbo" else rows[n].opponents.get(name) for n in sizes}
        known = [(n, scale * t) for n, t in times.items() if t is not None]
        if known:
            x, y = zip(*known, strict=True)
            axes.loglog(x, y, color=colour, marker=marker, markersize=5, label=LABELS.get(name, name))
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * 30)  # room for the legend
    axes.legend(loc="upper left", fontsize=7.5, ncols=2)
    axes.set_xticks(sizes, [f"{n:,}" for n in sizes])
    axes.minorticks_off()
