"""Shared parts of figures: colours, panels, and lines against the radius. matplotlib is imported on first use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from drbo._messages import require
from drbo.validation import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, PINK, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#7F7F7F"
"""The colours of Okabe and Ito, safe for colour-blind readers."""


def panels(rows: int, columns: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """Return a figure with empty panels of `width` x `height` inches. No display is needed."""
    require("matplotlib", "experiments")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    made = list(figure.subplots(rows, columns, squeeze=False).ravel())
    for axes in made:
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    return figure, made


def against_radius(radii: FloatArray, lines: Mapping[str, Mapping[str, FloatArray]], mark: float | None) -> Figure:
    """Return a figure with one panel per title: two named lines against the radius, and a mark at one radius.

    Infinite values are omitted. No display is needed.
    """
    figure, made = panels(1, len(lines), 4.2, 3.4)
    order = np.argsort(radii)
    for axes, (title, named) in zip(made, lines.items(), strict=True):
        for colour, (name, values) in zip((BLUE, ORANGE), named.items(), strict=False):
            there = order[np.isfinite(radii[order]) & np.isfinite(values[order])]
            axes.plot(radii[there], values[there], "o-", color=colour, markersize=4, label=name)
        if mark is not None and np.isfinite(mark):
            axes.axvline(mark, color="0.6", linestyle="--", linewidth=1, label="radius of now")
        axes.set(title=title, xlabel="radius")
        axes.legend(frameon=False)
    return figure
