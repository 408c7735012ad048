"""A common style for all figures: one colour per method, safe for colour-blind readers, and labels at the lines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLOURS = {  # Okabe and Ito
    "DRBO": "#0072B2",
    "UCB": "#D55E00",
    "StableOpt": "#009E73",
    "StableOpt (own contexts)": "#E69F00",
    "no commitment": "#7F7F7F",
    "exact DRO": "#000000",
}
MORE_COLOURS = (
    "#CC79A7", "#56B4E9", "#882255", "#999933", "#332288", "#661100", "#AA4499", "#117733", "#7F7F7F", "#B8860B",
    "#44AA99", "#DDCC77", "#6699CC", "#994455", "#004488",
)  # fmt: skip
"""Colours for other methods, in the order of a comparison (Tol, Okabe, Ito)."""
REFERENCE, TRUTH = "#56B4E9", "#E69F00"
DARK = {REFERENCE: "#1F78A8", TRUTH: "#9A6A00"}
"""Darker versions of pale colours, for text on white."""
MARKERS = {"UCB": "^", "DRBO": "*", "StableOpt": "s"}

STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.8,
    "figure.dpi": 110,
    "savefig.dpi": 160,
    "pdf.fonttype": 42,
    "legend.frameon": False,
}


@mpl.rc_context(STYLE)
def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of this size in inches; no display is needed."""
    return Figure(figsize=(width, height), layout="constrained")


@mpl.rc_context(STYLE)
def save(figure: Figure, path: Path) -> list[Path]:
    """Write the figure as PNG and PDF; return both paths."""
    path.parent.mkdir(parents=True, exist_ok=True)
    written = {path.with_suffix(".png"): "Software", path.with_suffix(".pdf"): "CreationDate"}
    for target, undated in written.items():
        figure.savefig(target, metadata={undated: None})
    return list(written)


def label_ends(
    axes: Axes, ends: dict[str, tuple[float, float]], gap: float = 0.055, colours: Mapping[str, str] = COLOURS
) -> None:
    """Write each name beside the end (x, y) of its line, shifted to avoid overlaps."""
    low, high = axes.get_ylim()
    least = gap * (high - low)
    names = sorted(ends, key=lambda name: ends[name][1])
    heights = np.array([ends[name][1] for name in names])
    for i in range(1, len(names)):
        heights[i] = max(heights[i], heights[i - 1] + least)
    shift = max(heights[-1] - (high - 0.3 * least), 0.0) if len(names) else 0.0
    for i in range(len(names) - 1, -1, -1):  # push back down the labels that left at the top
        ceiling = heights[i] - shift if i == len(names) - 1 else min(heights[i], heights[i + 1] - least)
        heights[i] = min(heights[i], ceiling)
    for name, y in zip(names, heights, strict=True):
        axes.annotate(
            name, (ends[name][0], y), xytext=(5, 0), textcoords="offset points", color=colours.get(name, "black"),
            va="center", fontsize=8.5, annotation_clip=False,
        )  # fmt: skip
