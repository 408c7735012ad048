"""What the programs of the stories share: the simulators of benchmarks/, and a figure of two decisions."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).parents[2]
FIGURES = ROOT / "docs" / "figures"
sys.path.insert(0, str(ROOT / "benchmarks"))  # simulators
COLOURS = {"for the past": "#8a8f98", "robust": "#3b8fc4", "today's": "#e08a00"}


def save(figure: Any, name: str) -> None:
    """Write a figure to docs/figures."""
    figure.savefig(FIGURES / f"story_{name}.png", dpi=110, bbox_inches="tight")
    plt.close(figure)


def along(
    ax: Any, x: Sequence[float], curves: Mapping[str, Sequence[float]], past: Sequence[float], later: Sequence[float]
) -> None:
    """Draw the outcome of each decision along a condition, above the past and the later days."""
    for name, values in curves.items():
        ax.plot(x, values, label=name, color=COLOURS[name], linewidth=2)
    low, high = ax.get_ylim()
    for days, colour, label, level in ((past, "#8a8f98", "past days", 0.02), (later, "#d1542c", "later days", 0.06)):
        at = [low + level * (high - low)] * len(days)
        ax.plot(list(days), at, "|", color=colour, markersize=9, label=label)
    ax.set_ylim(low, high)
    ax.legend(frameon=False, fontsize="small")
