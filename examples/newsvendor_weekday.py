"""Order newspapers for tomorrow: the weekday is known before the order, the demand is seen after it.

The shop saves after every step. Whenever the computer stops, the program goes on where it was when it is run again.
"""

from pathlib import Path

import numpy as np

import drbo

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def demand_of(day: int) -> float:
    """Return how many people want a newspaper; nobody knows before the day is over."""
    mean = {"Sat": 140.0, "Sun": 110.0}.get(WEEKDAYS[day % 7], 70.0)
    return float(np.random.default_rng(day + 1000).normal(mean, 0.15 * mean))


def start() -> drbo.Optimizer:
    """Return an optimizer that knows the demand of the last eight weeks, and of no order how well it did."""
    past = {"weekday": [WEEKDAYS[day % 7] for day in range(-56, 0)], "demand": [demand_of(d) for d in range(-56, 0)]}
    weekday = drbo.Categorical(*WEEKDAYS)
    return drbo.Optimizer(
        actions=drbo.Box(order=drbo.Integer(0, 250)),
        contexts=drbo.Samples(past, within=drbo.Box(weekday=weekday, demand=(0.0, 250.0))),
        setting=drbo.DataDriven(radius=drbo.radius.Bootstrap(delta=0.1), window=84),  # the last twelve weeks count
    )


def profit(order: int, demand: float) -> float:
    """Return the profit of a day: a newspaper costs 1 and brings 2."""
    return 2.0 * min(order, demand) - order


def main(file: Path = Path("newsvendor.json"), days: int = 14) -> dict[str, drbo.analysis.Recommendation]:
    """Return what to order on a Tuesday and on a Saturday, after so many further days."""
    opt = drbo.Optimizer.load(file) if file.exists() else start()
    for _ in range(days):
        tomorrow = WEEKDAYS[sum(result.number is not None for result in opt.results) % 7]
        s = opt.pending[0] if opt.pending else opt.ask(given={"weekday": tomorrow})  # an order that was placed stays
        opt.save(file)
        seen = {"demand": demand_of(s.number)}
        opt.tell(s, profit(s.action["order"], seen["demand"]), context=seen)  # the weekday is known already
        there = {"weekday": tomorrow, **seen}
        for order in (50, 100, 150):  # what other orders would have brought: the same day, which nature drew once
            opt.tell({"order": order}, profit(order, seen["demand"]), context=there, drawn=False)
        opt.save(file)
    return {weekday: opt.recommend(given={"weekday": weekday}) for weekday in ("Tue", "Sat")}


if __name__ == "__main__":
    for recommendation in main().values():
        print(recommendation)
