"""A log of past trials becomes a decision: which dose and rate to use, whoever the next patients are."""

import numpy as np
import pandas as pd

import drbo


def past_trials(count: int = 120) -> pd.DataFrame:
    """Return a log as hospitals have it: nobody planned it, and some trials were broken off."""
    rng = np.random.default_rng(0)
    log = pd.DataFrame(
        {
            "dose": rng.uniform(10.0, 50.0, count),
            "rate": rng.choice([1, 2, 3], count),
            "age": rng.normal(55.0, 12.0, count).clip(20.0, 90.0),
            "ward": rng.choice(["A", "B"], count, p=[0.8, 0.2]),
        }
    )
    best = 42.0 - 0.25 * log.age - 4.0 * (log.ward == "B")
    log["score"] = 80.0 - 0.05 * (log.dose - best) ** 2 - 2.0 * (log.rate - 2) ** 2 + rng.normal(0.0, 1.0, count)
    log.loc[rng.choice(count, 5, replace=False), "score"] = np.nan  # broken off
    return log


def main() -> drbo.analysis.Recommendation:
    """Return the dose and rate whose score is best in the worst mix of patients near the one of the log."""
    return drbo.Optimizer.from_frame(
        past_trials(), actions=["dose", "rate"], contexts=["age", "ward"], outcome="score", radius=0.1
    ).recommend()


if __name__ == "__main__":
    print(main())
