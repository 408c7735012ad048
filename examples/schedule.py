"""A pump that runs twice a day: hours in order, an energy price that is known, and a tank whose demand is not."""

from typing import Any

import numpy as np

import drbo

BOX = drbo.Box(
    {"on 1": (0.0, 24.0), "off 1": (0.0, 24.0), "on 2": (0.0, 24.0), "off 2": (0.0, 24.0)},
    constraints=[  # every run lasts an hour or more, with a pause of two hours, and the pump rests for ten hours
        drbo.LinearConstraint({"off 1": 1, "on 1": -1}, at_least=1.0),
        drbo.LinearConstraint({"on 2": 1, "off 1": -1}, at_least=2.0),
        drbo.LinearConstraint({"off 2": 1, "on 2": -1}, at_least=1.0),
        drbo.LinearConstraint({"off 1": 1, "on 1": -1, "off 2": 1, "on 2": -1}, at_most=14.0),
    ],
)
HOURS = np.arange(0.0, 24.0, 0.25)
PRICES = 10.0 + 8.0 * ((HOURS >= 7.0) & (HOURS < 20.0))  # the day is expensive


def runs(action: dict[str, Any]) -> Any:
    """Return the share of each quarter of an hour in which the pump runs, for one action or a table of them."""
    times = {name: np.asarray(value)[..., None] for name, value in action.items()}
    both = ((times["on 1"], times["off 1"]), (times["on 2"], times["off 2"]))
    return sum(np.clip((np.minimum(HOURS + 0.25, off) - np.maximum(HOURS, on)) / 0.25, 0.0, 1.0) for on, off in both)


def energy(action: dict[str, Any], day: dict[str, Any]) -> Any:
    """Return the price of the energy, which is known exactly."""
    del day
    return runs(action) @ (0.25 * PRICES)


def shortage(action: dict[str, Any], day: dict[str, Any]) -> float:
    """Return the cost of an empty or overflowing tank: an expensive simulation."""
    demand = 0.5 + day["demand"] * np.exp(-0.5 * ((HOURS - 18.0) / 3.0) ** 2)
    level = 5.0 + np.cumsum(0.25 * (1.6 * runs(action) - demand))
    return float(40.0 * np.mean(np.maximum(2.0 - level, 0.0) + np.maximum(level - 10.0, 0.0)))


def main(evaluations: int = 30) -> Any:
    """Return the recommendation after some days of simulation."""
    past = np.random.default_rng(0).gamma(9.0, 0.1, 60)
    known = drbo.Known(energy, vectorised=True)
    opt = drbo.Optimizer(
        BOX, drbo.Samples({"demand": past}), setting=drbo.Simulator(radius=0.1), maximize=False, known=known
    )
    for _ in range(evaluations):
        s = opt.ask()
        opt.tell(s, energy(s.action, s.context) + shortage(s.action, s.context))
    r = opt.recommend()
    print(r, f"of which {energy(r.action, {}):.1f} are energy", sep="\n")
    return r


if __name__ == "__main__":
    main()
