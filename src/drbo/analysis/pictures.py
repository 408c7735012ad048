"""Pictures of tables: lines against the radius. matplotlib is imported when one is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from drbo._extras import require
from drbo.validation import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
"""Of Okabe and Ito, safe for colour-blind readers."""


def against_radius(radii: FloatArray, panels: Mapping[str, Mapping[str, FloatArray]], mark: float | None) -> Figure:
    """Return a figure with one panel per title, each with named lines against the radius, and a mark at one radius.

    What is infinite is left out. No display is needed.
    """
    require("matplotlib", "experiments")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2 * len(panels), 3.4), layout="constrained")
    order = np.argsort(radii)
    for axes, (title, lines) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        for colour, (name, values) in zip(_COLOURS, lines.items(), strict=False):
            there = order[np.isfinite(radii[order]) & np.isfinite(values[order])]
            axes.plot(radii[there], values[there], "o-", color=colour, markersize=4, label=name)
        if mark is not None and np.isfinite(mark):
            axes.axvline(mark, color="0.6", linestyle="--", linewidth=1, label="radius of now")
        axes.set(title=title, xlabel="radius")
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
    return figure
