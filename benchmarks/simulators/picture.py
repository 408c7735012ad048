"""Where evaluations went before and after `drbo.Checked`: a picture for docs/evidence.md.

    PYTHONPATH=benchmarks python benchmarks/simulators/picture.py BEFORE AFTER --out docs/figures/simulators.png

BEFORE and AFTER are folders that `run.py --out` wrote, by two versions of drbo. One panel per simulator with one
condition shows the condition of every evaluation in order; one with two conditions shows both.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt

import drbo
from drbo.experiments.records import read_csv
from simulators import load


def main() -> None:
    """Draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--names", nargs="+", default=["battery", "pendulum"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("simulators.png"))
    given = parser.parse_args()
    figure, rows = plt.subplots(len(given.names), 2, figsize=(9.0, 3.2 * len(given.names)), squeeze=False)
    for axes, name in zip(rows, given.names, strict=True):
        simulator = load(name)
        assert isinstance(simulator.contexts, drbo.Samples), "labels have no range"
        assert simulator.contexts.within is not None, "there is no range"
        low, high = simulator.contexts.points.min(axis=0), simulator.contexts.points.max(axis=0)
        names = list(simulator.contexts.within.parameters)
        for ax, folder, title in zip(axes, (given.before, given.after), ("before", "after"), strict=True):
            (file,) = (folder / name).glob(f"{simulator.radii[0]:g}, {given.seed}, *.evaluations")
            table = read_csv(file)
            second = table["c2"] if "c2" in table else table["evaluation"]
            ax.scatter(second, table["c1"], c="#0072B2", s=22, linewidths=0.0, zorder=3)
            ax.axhspan(
                low[0], high[0], color="#D55E00", alpha=0.13, linewidth=0.0, label="range of the reference's samples"
            )
            ax.set(ylim=(-0.03, 1.03), title=f"{name}, {title}", ylabel=f"{names[0]}, share of its range")
            ax.set_xlabel("evaluation" if "c2" not in table else f"{names[1]}, share of its range")
            if "c2" in table:
                ax.set_xlim(-0.03, 1.03)
    figure.legend(*rows[0][0].get_legend_handles_labels(), loc="lower center", fontsize=9)
    figure.tight_layout(rect=(0.0, 0.03, 1.0, 1.0))
    figure.savefig(given.out, dpi=120)


if __name__ == "__main__":
    main()
