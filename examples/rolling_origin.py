"""Choose a rule for the radius by the past itself: two years of a wind farm, judged month by month."""

import numpy as np

import drbo

RULES = {
    "Bootstrap": drbo.radius.Bootstrap(delta=0.1, resamples=100),
    "Bootstrap, blocks": drbo.radius.Bootstrap(delta=0.1, resamples=100, block="auto"),
    "Calibrated": drbo.radius.Calibrated(quantile=0.9, resamples=100),
    "0.5 MW": drbo.radius.Constant(0.5),
}


def past() -> drbo.Samples:
    """Return the mean power of each day in MW, from January 2014 to December 2015."""
    power = drbo.problems.la_haute_borne().power
    days = power[: len(power) // 24 * 24].reshape(-1, 24).mean(axis=1) / 1000.0
    dates = np.datetime64("2014-01-01") + np.arange(len(days))
    return drbo.Samples({"power": days}, time=dates, atoms=len(days))


def main(horizon: str = "30D") -> tuple[drbo.analysis.RadiusBacktest, str, float]:
    """Return how often each rule held the next month, the smallest one that held in 8 of 10, and its radius now."""
    days, moves = past(), drbo.Wasserstein()
    judged = drbo.backtest_radius(days, moves, RULES, horizon=horizon)
    held = [(row["median_radius"], row["rule"]) for row in judged.rows() if row["held"] >= 0.8]
    if not held:
        raise SystemExit(f"no rule held in 8 of 10 months:\n{judged}")
    _, name = min(held)
    return judged, name, RULES[name].for_samples(days, moves)


if __name__ == "__main__":
    table, rule, radius = main()
    print(table)
    print(f"use {rule}: radius {radius:.2f} MW")
