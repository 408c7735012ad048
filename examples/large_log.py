"""A log of 50,000 trials in a CSV file becomes a decision and a report."""

from pathlib import Path

import numpy as np
import pandas as pd

import drbo


def write_log(path: Path, count: int) -> None:
    """Write a log as a plant has it: three settings, two conditions that nobody controls, and the yield."""
    rng = np.random.default_rng(0)
    log = pd.DataFrame(
        {
            "temperature": rng.uniform(60.0, 90.0, count).round(1),
            "pressure": rng.uniform(1.0, 3.0, count).round(2),
            "feed": rng.uniform(0.0, 1.0, count).round(3),
            "humidity": rng.beta(2.0, 5.0, count).round(3),
            "grade": rng.normal(5.0, 1.0, count).round(2),
        }
    )
    best = 72.0 + 10.0 * log.humidity + log.grade
    log["yield"] = (
        90.0
        - 0.05 * (log.temperature - best) ** 2
        - 6.0 * (log.pressure - 1.5 - log.feed) ** 2
        + rng.normal(0.0, 1.0, count)
    )
    log.to_csv(path, index=False)


def main(folder: Path = Path("."), count: int = 50_000) -> drbo.analysis.Recommendation:
    """Return the settings whose yield is best in the worst conditions near those of the log; write a report."""
    path = folder / "trials.csv"
    if not path.exists():
        write_log(path, count)
    opt = drbo.Optimizer.from_frame(
        pd.read_csv(path),
        actions=["temperature", "pressure", "feed"],
        contexts=["humidity", "grade"],
        outcome="yield",
        radius=0.05,
    )
    opt.report(folder / "trials.html")
    return opt.recommend()


if __name__ == "__main__":
    print(main())
