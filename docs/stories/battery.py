"""A battery charged in winter: the program of docs/stories/battery.md (needs pybamm)."""

import math

import matplotlib.pyplot as plt
import numpy as np
from drawing import along, save

import drbo
from simulators.battery import value

rng = np.random.default_rng(1)
autumn = np.clip(rng.normal(12.0, 5.0, 40), -25.0, 40.0)
winter = np.clip(rng.normal(-4.0, 7.0, 60), -25.0, 40.0)  # nobody knows it yet

ACTIONS = drbo.Box(first=(1.0, 10.0), second=(1.0, 10.0), switch=(200.0, 1600.0))
CONTEXTS = drbo.Samples({"ambient": autumn}, within=drbo.Box(ambient=(-25.0, 40.0)))


def tuned(ambiguity: drbo.AmbiguitySet, radius: float, evaluations: int = 45) -> drbo.Optimizer:
    """Return an optimizer after its evaluations."""
    opt = drbo.Optimizer(
        ACTIONS,
        CONTEXTS,
        ambiguity=ambiguity,
        setting=drbo.Simulator(radius=radius),
        outcome="charge",
        unit="Ah",
    )
    drbo.run(opt, value, evaluations=evaluations, workers=1, progress=False, on_error="raise")
    return opt


def mean(action: dict[str, float], days: np.ndarray) -> float:
    """Return the mean outcome of an action on days."""
    return float(np.mean([value(action, {"ambient": float(day)}) for day in days]))


runs = {
    "for the past": tuned(drbo.Wasserstein(), 0.0),
    "a few days far, 5 degrees on average": tuned(drbo.Wasserstein(), 5.0),
    "robust": tuned(drbo.Wasserstein(order=math.inf), 16.0),  # every day up to 16 degrees colder
}
decisions = {name: opt.recommend() for name, opt in runs.items()}
print(decisions["robust"])
print()
print("charge in Ah              bound   autumn   winter   worst winter day")
for name, r in decisions.items():
    worst = min(value(r.action, {"ambient": float(day)}) for day in winter)
    print(
        f"{name[:24]:24s} {r.value:6.2f}   {mean(r.action, autumn):6.2f}   {mean(r.action, winter):6.2f}   {worst:6.2f}"
    )

temperatures = np.linspace(-25.0, 40.0, 40)
figure, ax = plt.subplots(figsize=(7.0, 3.6))
curves = {n: [value(decisions[n].action, {"ambient": t}) for t in temperatures] for n in ("for the past", "robust")}
along(ax, temperatures, curves, autumn, winter)
ax.set(xlabel="ambient temperature (degrees Celsius)", ylabel="charge, less damage (Ah)")
save(figure, "battery")
