"""Draw what three orders of Wasserstein do on one example: `python scripts/wasserstein_orders.py OUT.png`.

Days have a mean temperature, and what is earned falls with the square of the degrees above 18. The worst distribution
within 2 degrees of the past is drawn for the orders 1, 2 and infinity.
"""

import math
import sys

import numpy as np
from matplotlib.figure import Figure

import drbo

RADIUS = 2.0
GRID = np.linspace(0.0, 40.0, 161)
TITLES = {
    1.0: "order 1: a few days far",
    2.0: "order 2: fewer far, more near",
    math.inf: "order infinity: every day",
}


def reference() -> np.ndarray:
    """Return the distribution of past days on the grid: mostly mild, some warm."""
    density = np.exp(-0.5 * ((GRID - 12.0) / 3.5) ** 2) + 0.25 * np.exp(-0.5 * ((GRID - 20.0) / 2.0) ** 2)
    density[density < 0.002] = 0.0
    return np.asarray(density / density.sum())


def worst(order: float) -> np.ndarray:
    """Return the worst distribution within the radius."""
    earned = -(np.maximum(GRID - 18.0, 0.0) ** 2)
    return np.asarray(drbo.Wasserstein(GRID, order=order).worst_case(earned, reference(), RADIUS).weights)


def drawn() -> Figure:
    """Return the figure: one panel per order."""
    p = reference()
    figure = Figure(figsize=(9.0, 2.8), layout="constrained")
    for axes, (order, title) in zip(figure.subplots(1, 3, sharey=True), TITLES.items(), strict=True):
        w = worst(order)
        edges = np.arange(0.0, 42.0) - 0.5
        axes.hist(GRID, edges, weights=p, color="0.8", label="past")
        axes.hist(GRID, edges, weights=w, histtype="step", color="C3", label="worst case")
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("mean temperature of a day")
        axes.text(0.87, 0.75, f"95% of days\nbelow {_quantile(w):.0f}", transform=axes.transAxes, ha="right")
    figure.axes[0].set_ylabel("share of days")
    figure.axes[-1].legend(fontsize=8, loc="upper right", bbox_to_anchor=(1.0, 0.7))
    return figure


def _quantile(weights: np.ndarray) -> float:
    return float(GRID[np.searchsorted(np.cumsum(weights), 0.95)])


if __name__ == "__main__":
    drawn().savefig(sys.argv[1], dpi=110, metadata={"Software": None})
