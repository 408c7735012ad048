"""Order every day for a shop that must not lose: learn the best order, but only try what is known to earn enough."""

import numpy as np

import drbo

TODAY = {"order": 90.0}
"""What the shop orders now."""
LEAST = 120.0
"""An order must be expected to earn this per day, whatever demand does within the set."""


def demand(day: int) -> float:
    """Return the demand of a day; days before 0 are the past. It grows, which nobody has told the shop."""
    return float(np.random.default_rng(1000 + day).normal(100.0 + 0.3 * max(day, 0), 20.0))


def profit(order: float, demand: float) -> float:
    """Return what a day earns: 5 for each piece sold, less 3 for each piece ordered."""
    return 5.0 * min(order, demand) - 3.0 * order


def start() -> drbo.Optimizer:
    """Return an optimizer that knows the demand of sixty days, and what twenty orders earned."""
    past = [demand(day) for day in range(-60, 0)]
    opt = drbo.Optimizer(
        actions=drbo.Box(order=(40.0, 200.0)),
        contexts=drbo.Samples({"demand": past}),
        setting=drbo.DataDriven(radius=0.1),
        baseline=TODAY,
    )
    for day in range(-20, 0):
        order, seen = 80.0 + 10.0 * (day % 3), demand(day)
        opt.tell({"order": order}, profit(order, seen), context={"demand": seen}, drawn=False)  # among the samples
    return opt


def main(days: int = 10) -> list[float]:
    """Return what each day earned."""
    opt, earned = start(), []
    for day in range(days):
        s = opt.ask(floor=LEAST)
        seen = demand(day)
        earned.append(profit(s.action["order"], seen))
        opt.tell(s, earned[-1], context={"demand": seen})
        print(f"day {day}: {s}, demand {seen:.0f}, earned {earned[-1]:.0f}")
    return earned


if __name__ == "__main__":
    main()
