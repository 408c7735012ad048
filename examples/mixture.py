"""A concrete of five shares that sum to one, with a limit on its price, for any weather at the building site."""

from typing import Any

import numpy as np

import drbo

SHARES = ("cement", "ash", "slag", "water", "sand")
PRICE = {"cement": 120.0, "ash": 40.0, "slag": 60.0, "water": 2.0, "sand": 15.0}  # per ton
BOX = drbo.Box(
    {"cement": (0.05, 0.5), "ash": (0.0, 0.3), "slag": (0.0, 0.3), "water": (0.05, 0.25), "sand": (0.2, 0.8)},
    constraints=[
        drbo.Total(*SHARES, equals=1.0),
        drbo.LinearConstraint(PRICE, at_most=45.0),  # a price limit per ton
        drbo.LinearConstraint({"water": 1.0, "cement": -0.6, "ash": -0.2, "slag": -0.3}, at_most=0.0),  # it must set
        drbo.AtMostActive("ash", "slag", count=1),  # one silo is left
    ],
)


def strength(mix: dict[str, float], weather: dict[str, float]) -> float:
    """Return the strength after a week: binder helps, water beyond what evaporates harms, frost slows the setting."""
    binder = mix["cement"] + 0.45 * mix["ash"] + 0.75 * mix["slag"]
    left = mix["water"] - 0.004 * max(weather["temperature"], 0.0)
    frost = 1.0 / (1.0 + np.exp(-(weather["temperature"] + 2.0) / 3.0))
    return float(80.0 * binder * (0.6 + 0.4 * frost) - 900.0 * (left - 0.42 * binder) ** 2)


def main(evaluations: int = 20) -> Any:
    """Return the recommendation after some evaluations of a simulator."""
    past = np.random.default_rng(0).normal(12.0, 6.0, 120)
    opt = drbo.Optimizer(
        BOX, drbo.Samples({"temperature": past}), ambiguity=drbo.Wasserstein(), setting=drbo.Simulator(radius=3.0)
    )
    for _ in range(evaluations):
        s = opt.ask()
        opt.tell(s, strength(s.action, s.context))
    r = opt.recommend()
    print(r)
    price = sum(PRICE[name] * share for name, share in r.action.items())
    print(f"the shares sum to {sum(r.action.values()):.9f}, the price is {price:.2f}")
    return r


if __name__ == "__main__":
    main()
