"""Run a boiler as cheaply as possible, with a peak temperature that keeps its limit whatever the weather does."""

import numpy as np

import drbo

LIMIT = 75.0
"""The peak temperature must be at most this on average, in every distribution of the set."""


def archive(days: int = 60) -> np.ndarray:
    """Return the outdoor temperature of past days."""
    return np.random.default_rng(0).normal(5.0, 6.0, days)


def plant(action: dict[str, float], weather: dict[str, float]) -> tuple[float, dict[str, float]]:
    """Return the cost of a day, and the peak temperature of the boiler."""
    flow, outdoor = action["flow"], weather["outdoor"]
    cost = 40.0 + 3.0 * (15.0 - outdoor) + 60.0 * flow**2
    return cost, {"peak": 48.0 + 12.0 / flow + 0.5 * max(outdoor, 0.0)}


def main(evaluations: int = 20) -> drbo.analysis.Recommendation:
    """Return the recommended flow; its cost and its peak are each bounded in their own worst weather."""
    opt = drbo.Optimizer(
        actions=drbo.Box(flow=(0.2, 1.0)),
        contexts=drbo.Samples({"outdoor": archive()}),
        ambiguity=drbo.Wasserstein(),
        setting=drbo.Simulator(radius=3.0),  # the mean of the weather may shift by 3 degrees
        maximize=False,
        limits={"peak": drbo.AtMost(LIMIT, unit="degC")},
        outcome="cost",
        unit="EUR",
    )
    r = drbo.run(opt, plant, evaluations, workers=1, progress=False)
    print(r)
    return r


if __name__ == "__main__":
    main()
