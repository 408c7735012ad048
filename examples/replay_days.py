"""Replay real days by key: the simulator gets the whole course of a day, the model two numbers that sum it up."""

import numpy as np
import pandas as pd

import drbo


def archive(count: int = 120) -> dict[pd.Timestamp, np.ndarray]:
    """Return the outdoor temperature of 24 hours for each day, as files of an archive would have it."""
    rng = np.random.default_rng(0)
    days = pd.date_range("2023-01-01", periods=count)
    level = 5.0 - 8.0 * np.cos(2.0 * np.pi * np.arange(count) / 365.0)
    hours = -np.cos(2.0 * np.pi * (np.arange(24) - 3.0) / 24.0)
    return {
        day: level[i] + rng.normal(0.0, 3.0) + rng.uniform(2.0, 6.0) * hours + rng.normal(0.0, 0.5, 24)
        for i, day in enumerate(days)
    }


def cost(setpoint: float, night: float, course: np.ndarray) -> float:
    """Return the cost of a day: heat against the outdoor temperature, and discomfort."""
    target = np.where((np.arange(24) < 6) | (np.arange(24) >= 22), setpoint - night, setpoint)
    heat = np.maximum(target - course, 0.0).sum()
    cold = (np.maximum(21.0 - target, 0.0) ** 2)[6:22].sum() + 0.3 * night**2
    return float(0.05 * heat + 0.4 * cold + 0.02 * np.abs(np.diff(target)).sum() * max(18.0 - course.mean(), 0.0))


def main(rounds: int = 15) -> tuple[drbo.Optimizer, drbo.analysis.Recommendation]:
    """Return the optimizer and the set points for a winter in which the days move by half a step on average."""
    courses = archive()
    table = pd.DataFrame(
        {"mean": {d: c.mean() for d, c in courses.items()}, "swing": {d: np.ptp(c) for d, c in courses.items()}}
    )
    opt = drbo.Optimizer(
        actions=drbo.Box(setpoint=(18.0, 23.0), night=(0.0, 5.0)),
        contexts=drbo.Samples(table, keys=table.index, time=table.index),
        ambiguity=drbo.Wasserstein(order=2, scale={"mean": 3.0, "swing": 3.0}),
        setting=drbo.Simulator(radius=0.5),
        maximize=False,
    )
    for _ in range(rounds):
        s = opt.ask()
        opt.tell(s, cost(s.action["setpoint"], s.action["night"], courses[s.key]))
    return opt, opt.recommend()


if __name__ == "__main__":
    optimizer, best = main()
    print(optimizer.to_frame()[["key", "setpoint", "night", "outcome"]])
    print(best)
