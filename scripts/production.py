"""What limits in production cost and save: 60 days of a newsvendor, the same demand for every way to order.

    python scripts/production.py --runs 10 --days 60

The shop sells at 5 and buys at 3, and cannot return what is left. Demand is normal with deviation 20 around 100, and
grows by 0.3 per day. The first four ways learn the profit from outcomes. They start with 60 past demands and with the
profits of 20 past orders of 80, 90 and 100.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import numpy as np

from drbo import Box, DataDriven, Optimizer, Samples
from drbo.knowledge import Suggestion

PRICE, COST, SPREAD, GROWTH, FLOOR, TODAY = 5.0, 3.0, 20.0, 0.3, 120.0, 90.0
Way = Callable[[Optimizer, list[float]], Suggestion]


def profit(order: float, demand: float) -> float:
    """Return what a day earns."""
    return PRICE * min(order, demand) - COST * order


def expected(order: float, mean: float) -> float:
    """Return the expected profit of an order where demand is normal."""
    z = (order - mean) / SPREAD
    left_over = SPREAD * (math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi) + z * 0.5 * math.erfc(-z / math.sqrt(2.0)))
    return PRICE * (order - left_over) - COST * order


def by_optimizer(floor: float | None = None) -> Way:
    """Return the way that orders what `ask` suggests."""
    return lambda opt, _: opt.ask(floor=floor)


def by_recommendation(opt: Optimizer, seen: list[float]) -> Suggestion:
    """Order what is recommended: nothing is explored on purpose."""
    del seen
    return opt.ask(action=opt.recommend().action)


def by_quantile(opt: Optimizer, seen: list[float]) -> Suggestion:
    """Order the best quantile of the last 60 demands, for a shop that knows its prices."""
    return opt.ask(action={"order": float(np.quantile(seen[-60:], 1.0 - COST / PRICE))})


WAYS: dict[str, tuple[Way, float | None]] = {
    "`ask()`, as version 0.1": (by_optimizer(), None),
    f"`ask(floor={FLOOR:g})`": (by_optimizer(floor=FLOOR), None),
    "`explore_budget=300`": (by_optimizer(), 300.0),
    "`ask(action=opt.recommend().action)`": (by_recommendation, None),
    "moving quantile, with the prices known": (by_quantile, None),
    "the order of today, 90": (lambda opt, _: opt.ask(action=opt.configuration.arguments["baseline"]), None),
}


def run(way: Way, budget: float | None, seed: int, days: int) -> tuple[float, float, float]:
    """Return the profit per day, the least one, and the share of days whose expected profit was below the floor."""
    rng = np.random.default_rng(seed)
    seen = rng.normal(100.0, SPREAD, 60).tolist()
    opt = Optimizer(
        Box(order=(40.0, 200.0)),
        Samples({"demand": seen}),
        setting=DataDriven(radius=0.1),
        baseline={"order": TODAY},
        explore_budget=budget,
    )
    for day, demand in enumerate(seen[-20:]):
        order = 80.0 + 10.0 * (day % 3)
        opt.tell({"order": order}, profit(order, demand), context={"demand": demand}, drawn=False)
    earned, below = [], 0
    for day in range(days):
        suggestion = way(opt, seen)
        order = suggestion.action["order"]
        mean = 100.0 + GROWTH * day
        demand = float(rng.normal(mean, SPREAD))
        earned.append(profit(order, demand))
        below += expected(order, mean) < FLOOR
        opt.tell(suggestion, earned[-1], context={"demand": demand})
        seen.append(demand)
    return float(np.mean(earned)), min(earned), below / days


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--days", type=int, default=60)
    arguments = parser.parse_args()
    print("| way | profit per day | worst day | days whose expected profit was below the floor |\n|---|---|---|---|")
    for name, (way, budget) in WAYS.items():
        found = np.array([run(way, budget, seed, arguments.days) for seed in range(arguments.runs)])
        mean, error = found[:, 0].mean(), found[:, 0].std(ddof=1) / math.sqrt(len(found))
        print(
            f"| {name} | {mean:.0f} +- {error:.0f} | {found[:, 1].min():.0f} | {found[:, 2].mean():.1%} |", flush=True
        )


if __name__ == "__main__":
    main()
