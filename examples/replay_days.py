"""Replay real days by key: the simulator gets the 24 hours of a day of wind, the model two numbers that sum it up."""

import numpy as np
import pandas as pd

import drbo


def archive(first: str = "2014-01-01", last: str = "2014-03-31") -> dict[pd.Timestamp, np.ndarray]:
    """Return the mean power of a wind farm in MW, hour by hour, for each day of a winter."""
    power = drbo.problems.la_haute_borne().power / 1000.0
    every = pd.date_range("2014-01-01", periods=len(power) // 24)
    courses = power[: 24 * len(every)].reshape(-1, 24)
    return {
        day: course
        for day, course in zip(every, courses, strict=True)
        if pd.Timestamp(first) <= day <= pd.Timestamp(last)
    }


def income(promise: float, battery: float, course: np.ndarray) -> float:
    """Return the income of a day: a constant power is promised, a battery fills gaps, and what is missing is fined."""
    charge, total = 0.5 * battery, 0.0
    for power in course:
        surplus = power - promise
        flow = min(surplus, battery - charge) if surplus > 0.0 else -min(-surplus, charge)
        charge += flow
        total += 60.0 * promise - 150.0 * max(promise - power + flow, 0.0) + 10.0 * max(surplus - flow, 0.0)
    return total - 120.0 * battery


def main(rounds: int = 15) -> tuple[drbo.Optimizer, drbo.analysis.Recommendation]:
    """Return the optimizer, and the promise and the battery for winters whose days move by half a step."""
    courses = archive()
    table = pd.DataFrame(
        {"mean": {d: c.mean() for d, c in courses.items()}, "swing": {d: np.ptp(c) for d, c in courses.items()}}
    )
    opt = drbo.Optimizer(
        actions=drbo.Box(promise=(0.0, 4.0), battery=(0.0, 8.0)),
        contexts=drbo.Samples(table, keys=table.index, time=table.index),
        ambiguity=drbo.Wasserstein(order=2, scale={"mean": 1.0, "swing": 1.0}),
        setting=drbo.Simulator(radius=0.5),
    )
    for _ in range(rounds):
        s = opt.ask()
        opt.tell(s, income(s.action["promise"], s.action["battery"], courses[s.key]))
    return opt, opt.recommend()


if __name__ == "__main__":
    optimizer, best = main()
    print(optimizer.to_frame()[["key", "promise", "battery", "outcome"]])
    print(best)
