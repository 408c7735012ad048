"""Choose a set and a radius for a newsvendor from 180 days of demand, and say why."""

import numpy as np

import drbo


def past() -> drbo.Samples:
    """Return the demand of 180 days, in the order of time."""
    return drbo.Samples(np.random.default_rng(0).normal(100.0, 20.0, 180), names=["demand"])


def profit(order: float, day: dict[str, float]) -> float:
    """Return the profit of a day: a paper costs 1 and sells for 2."""
    return 2.0 * min(order, day["demand"]) - order


def main(rounds: int = 15) -> tuple[float, drbo.analysis.RadiusExplanation, drbo.analysis.RadiusProfile]:
    """Return the radius, what it means, and what radii around it cost and buy."""
    days = past()
    # Demand may drift a little, and near days are alike: a set that knows positions. The past says how far it moves.
    radius = drbo.radius.Calibrated(quantile=0.9, block="auto").for_samples(days)
    opt = drbo.Optimizer(drbo.Box(order=(0.0, 200.0)), days, setting=drbo.Simulator(radius=radius))
    for _ in range(rounds):
        s = opt.ask()
        opt.tell(s, profit(s.action["order"], s.context))
    return radius, opt.under().explain_radius(), opt.under().profile([0.0, radius, 2 * radius, 4 * radius])


if __name__ == "__main__":
    radius, meaning, table = main()
    print(f"radius {radius:.3f}\n{meaning}\n")
    print(*table.rows(), sep="\n")
