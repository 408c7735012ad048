"""A staffing plan for an emergency department: the program of docs/stories/staffing.md (needs simpy)."""

import math

import matplotlib.pyplot as plt
import numpy as np
from drawing import COLOURS, save

import drbo
from simulators.emergency import cost

rng = np.random.default_rng(5)


def days(n: int, arrivals: tuple[float, float], severe: tuple[float, float]) -> dict[str, np.ndarray]:
    """Return n days: arrivals per hour, and the share of severe cases."""
    return {
        "arrivals": np.clip(rng.normal(*arrivals, n), 2.0, 20.0),
        "severe": np.clip(rng.normal(*severe, n), 0.0, 0.6),
    }


usual, influenza = days(40, (7.0, 1.5), (0.15, 0.05)), days(60, (11.0, 2.0), (0.3, 0.08))


def wages(action: dict[str, int], context: dict[str, float]) -> float:
    """Return what a plan costs per hour whatever happens: this part needs no learning."""
    del context
    return 35.0 * action["nurses"] + 90.0 * action["doctors"] + 12.0 * action["beds"]


def planned(ambiguity: drbo.AmbiguitySet, radius: float, *, known: bool = True) -> drbo.Optimizer:
    """Return an optimizer after 50 evaluations."""
    opt = drbo.Optimizer(
        drbo.Box(nurses=drbo.Integer(1, 6), doctors=drbo.Integer(1, 14), beds=drbo.Integer(2, 24)),
        drbo.Samples(usual),
        ambiguity=ambiguity,
        setting=drbo.Simulator(radius=radius),
        maximize=False,
        outcome="cost",
        unit="EUR per hour",
        outcome_range=(0.0, None),
        known=wages if known else None,
    )
    drbo.run(opt, cost, evaluations=50, workers=1, progress=False, on_error="raise")
    return opt


def mean(action: dict[str, int], some: dict[str, np.ndarray]) -> float:
    """Return the mean cost of a plan on days."""
    rows = [dict(zip(some, row, strict=True)) for row in zip(*some.values(), strict=True)]
    return float(np.mean([cost(action, row) for row in rows]))


def print_row(name: str, r: drbo.analysis.Recommendation) -> None:
    """Print a decision, its bound, and what it really costs."""
    plan = "{nurses} nurses, {doctors} doctors, {beds} beds".format(**r.action)
    print(f"{name:22s} {plan:32s} {r.value:8.0f} {mean(r.action, usual):8.0f} {mean(r.action, influenza):8.0f}")


STEPS = {"arrivals": 4.0, "severe": 0.15}  # what counts as one step: 4 more patients per hour, or 15% more severe cases
print("cost in EUR per hour                                            bound    usual  influenza")
past = planned(drbo.Wasserstein(scale=STEPS), 0.0).recommend()
print_row("for the past", past)
print_row("without known wages", planned(drbo.Wasserstein(scale=STEPS), 0.0, known=False).recommend())
print_row("reweighted days", planned(drbo.ChiSquare(), 2.0).recommend())  # only days that were seen
opt = planned(drbo.Wasserstein(order=math.inf, scale=STEPS), 1.4)
robust = opt.recommend()
print_row("every day may move", robust)
print()
print(robust)

figure, ax = plt.subplots(figsize=(7.0, 3.6))
arrivals = np.linspace(4.0, 15.0, 23)
for name, r in (("for the past", past), ("robust", robust)):
    for share, style in ((0.15, "-"), (0.3, "--")):
        ax.plot(arrivals, [cost(r.action, {"arrivals": a, "severe": share}) for a in arrivals], style,
                color=COLOURS[name], label=f"{name}, {share:.0%} severe")  # fmt: skip
ax.set(xlabel="arrivals per hour", ylabel="cost (EUR per hour)")
ax.legend(frameon=False, fontsize="small")
save(figure, "staffing")
