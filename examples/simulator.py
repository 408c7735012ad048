"""Tune a heating controller in a simulator, so that it still does well when the weather is not that of the archive."""

from typing import Any

import numpy as np

import drbo


def archive(days: int = 60) -> np.ndarray:
    """Return what past days were like: outdoor temperature in degrees C, and occupancy from 0 to 1."""
    rng = np.random.default_rng(0)
    day = np.arange(days)
    outdoor = 4.0 + 7.0 * np.sin(day / 9.0) + rng.normal(0.0, 2.0, days)
    occupancy = np.where(day % 7 < 5, 0.8, 0.2) + rng.normal(0.0, 0.05, days)
    return np.column_stack([outdoor, np.clip(occupancy, 0.0, 1.0)])


def simulate(action: dict[str, Any], context: dict[str, float]) -> float:
    """Return the cost of a day. Yours takes minutes, and nobody knows its formula."""
    comfort = (action["setpoint"] - 20.5 - 0.8 * context["occupancy"]) ** 2
    sluggish = 0.4 * (np.log10(action["gain"]) + 1.5 - 0.04 * context["outdoor"]) ** 2
    energy = 0.03 * max(action["setpoint"] - context["outdoor"], 0.0) * (0.9 if action["mode"] == "eco" else 1.0)
    pumps = 0.15 * abs(action["stages"] - 1 - 2 * context["occupancy"]) + (0.1 if action["mode"] == "eco" else 0.0)
    return float(comfort + sluggish + energy + pumps)


def main(rounds: int = 20) -> drbo.analysis.Recommendation:
    """Return what to deploy after this many simulations."""
    opt = drbo.Optimizer(
        actions=drbo.Box(
            setpoint=(18.0, 24.0),
            gain=drbo.Log(1e-3, 1.0),
            stages=drbo.Integer(1, 4),
            mode=drbo.Categorical("eco", "boost"),
        ),
        contexts=drbo.Samples(archive(), names=["outdoor", "occupancy"]),
        setting=drbo.Simulator(radius=0.1),  # how far, in MMD, next winter may be from the archive
        maximize=False,
    )
    for _ in range(rounds):
        s = opt.ask()  # which controller to simulate next, and in which weather
        opt.tell(s, simulate(s.action, s.context))
    return opt.recommend()


if __name__ == "__main__":
    print(main())
