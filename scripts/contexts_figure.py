"""The picture of docs/contexts.md: an adversary on a continuous range of contexts.

python scripts/contexts_figure.py        # writes docs/figures/contexts.png
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes

import drbo
from drbo.ambiguity.placed import on_range
from drbo.contexts.nature import Reference
from drbo.experiments import style
from drbo.models.curve import Curve
from drbo.models.regression import ExactPosterior
from drbo.rounds.range_ball import RangeBall, refine
from drbo.validation import FloatArray

RADIUS = 0.35
BOUND, THRESHOLD, WORST = style.COLOURS["DRBO"], style.COLOURS["StableOpt"], style.COLOURS["UCB"]


def family(points: FloatArray) -> drbo.MMD:
    """Return the ambiguity set on contexts."""
    return drbo.MMD(points, drbo.RBF(0.2))


def one_action() -> Curve:
    """Return the lower confidence bound of one action after 22 noisy outcomes."""
    rng = np.random.default_rng(4)
    gp = drbo.GP(drbo.Product(drbo.RBF(0.3), drbo.RBF(0.12)), 0.05)
    posterior = ExactPosterior(gp, np.empty((0, 1)), np.zeros((1, 1)))
    for c in rng.random(22):
        posterior = posterior.with_outcome(np.array([0.5]), np.array([c]), float(np.cos(9 * c) + 0.4 * np.cos(23 * c)))
    return posterior.curve(np.array([0.5]), -2.0)


def draw(panel: Axes, curve: Curve, atoms: FloatArray, reference: FloatArray, title: str) -> None:
    """Draw the bound, the threshold of the dual, and where the worst distribution puts its mass."""
    values, c = curve(atoms), np.linspace(0.0, 1.0, 800)[:, None]
    ball = family(atoms)
    worst = ball.worst_case(values, reference, RADIUS)
    dual = on_range(ball.placed).dual(values, reference, RADIUS, worst)
    assert dual is not None
    v, threshold = curve(c), dual.threshold(c, np.zeros_like(c))[0]
    panel.plot(c, v, color=BOUND, label="v(c): what the action earns at least")
    panel.plot(c, threshold, color=THRESHOLD, ls="--", lw=1.3, label="threshold(c): below it a context does harm")
    panel.fill_between(c[:, 0], v, threshold, where=list(v < threshold), color=WORST, alpha=0.3, lw=0)
    on = reference > 0.0
    panel.plot(atoms[on, 0], np.full(on.sum(), -2.3), "|", color="black", ms=9, label="the samples")
    held = worst.weights > 1e-6
    panel.scatter(
        atoms[held, 0], values[held], s=900 * worst.weights[held], color=WORST, alpha=0.8, zorder=3,
        label="mass of the worst distribution",
    )  # fmt: skip
    panel.set(title=title, xlabel="context c", xlim=(0.0, 1.0), ylim=(-2.45, 1.5))
    panel.text(0.02, 1.3, f"worst case {worst.expectation:.3f}", color=WORST, fontsize=9)


def main() -> None:
    """Draw what the samples alone miss, and what is left after refinement."""
    curve = one_action()
    samples = np.clip(np.random.default_rng(1).normal(0.75, 0.12, 12), 0.0, 1.0)[:, None]
    reference = np.full(len(samples), 1.0 / len(samples))
    box = drbo.Box(c=(0.0, 1.0))
    atoms = Reference(samples, reference, 0.0, np.arange(len(samples)), index=None, represented=samples[:0])
    made = refine(RangeBall(family(samples).placed, atoms, RADIUS, box, 0, box), curve, certify=True)
    further = made.reference.points[len(samples) :]
    figure = style.new_figure(9.6, 3.8)
    with mpl.rc_context(style.STYLE):
        left, right = figure.subplots(1, 2, sharey=True)
        draw(left, curve, samples, reference, "The adversary on the samples alone")
        points, p = made.reference.points, made.reference.weights
        draw(right, curve, points, p, f"{len(further)} contexts priced in: no worse one is left")
        left.set_ylabel("reward")
        right.text(0.02, 1.08, f"certified {made.lower_bound:.3f}", color="black", fontsize=9)
        handles, labels = left.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=8, markerscale=0.7)
    written = style.save(figure, Path("docs/figures/contexts.png"))
    written[1].unlink()  # the page shows the PNG


if __name__ == "__main__":
    main()
