"""A controller under other loads: the program of docs/stories/pendulum.md (needs gymnasium and mujoco)."""

import math

import matplotlib.pyplot as plt
import numpy as np
from drawing import along, save

import drbo
from simulators.pendulum import value

rng = np.random.default_rng(2)


def loads(n: int, mass: tuple[float, float], damping: tuple[float, float]) -> dict[str, np.ndarray]:
    """Return n loads: the mass of the upper pole as a factor, and the damping of the joints."""
    return {"mass": np.clip(rng.normal(*mass, n), 0.4, 2.4), "damping": np.clip(rng.normal(*damping, n), 0.0, 0.6)}


past = loads(40, (1.0, 0.12), (0.1, 0.04))
heavier = loads(60, (1.5, 0.15), (0.2, 0.06))  # nobody knows these two yet
heaviest = loads(60, (2.25, 0.1), (0.2, 0.06))
TODAY = {"position": 1.0, "angles": 10.0, "rates": 0.1, "effort": 1.0}


def tuned(ambiguity: drbo.AmbiguitySet, radius: float, evaluations: int = 70) -> drbo.Optimizer:
    """Return an optimizer after its evaluations."""
    opt = drbo.Optimizer(
        drbo.Box(
            position=drbo.Log(0.01, 100.0),
            angles=drbo.Log(0.1, 1000.0),
            rates=drbo.Log(0.001, 10.0),
            effort=drbo.Log(0.01, 100.0),
        ),
        drbo.Samples(past, within=drbo.Box(mass=(0.4, 2.4), damping=(0.0, 0.6))),
        ambiguity=ambiguity,
        setting=drbo.Simulator(radius=radius),
        baseline=TODAY,
        outcome="score",
        unit="points",
        outcome_range=(None, 100.0),
    )
    drbo.run(opt, value, evaluations=evaluations, workers=1, progress=False, on_error="raise")
    return opt


def scores(action: dict[str, float], days: dict[str, np.ndarray]) -> np.ndarray:
    """Return the score of an action for each pair of mass and damping."""
    pairs = zip(days["mass"].tolist(), days["damping"].tolist(), strict=True)
    return np.array([value(action, {"mass": mass, "damping": damping}) for mass, damping in pairs])


everywhere = drbo.Wasserstein(order=math.inf, scale={"mass": 0.5, "damping": 0.1})
runs = {"for the past": tuned(everywhere, 0.0), "robust": tuned(everywhere, 1.0)}
found = {name: opt.recommend() for name, opt in runs.items()}
print(found["robust"])
print()
print(runs["robust"].under().compare(found["robust"].action))
print()
print("score              bound     past  heavier  heaviest   falls at the heaviest")
actions = {"today's": TODAY, **{name: r.action for name, r in found.items()}}
for name, action in actions.items():
    bound = f"{found[name].value:8.1f}" if name in found else "        "
    a, b, c = (scores(action, one) for one in (past, heavier, heaviest))
    print(f"{name:14s} {bound} {a.mean():8.1f} {b.mean():8.1f} {c.mean():9.1f} {np.mean(c < 70.0):12.0%}")

masses = np.linspace(0.4, 2.4, 50)
figure, ax = plt.subplots(figsize=(7.0, 3.6))
curves = {n: [value(x, {"mass": m, "damping": 0.15}) for m in masses.tolist()] for n, x in actions.items()}
along(ax, masses, curves, past["mass"], np.r_[heavier["mass"], heaviest["mass"]])
ax.set(xlabel="mass of the upper pole, as a factor", ylabel="score (100: up for 6 seconds)")
save(figure, "pendulum")
