"""Let Ray Tune run the evaluations: drbo suggests parameters and conditions, and says what to deploy."""

import os
import tempfile
from typing import Any

import numpy as np

os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
from ray import tune

import drbo
from drbo.integrations.ray import RobustSearcher


def day(config: dict[str, Any]) -> dict[str, float]:
    """Return the cost and the coldest temperature of a day; yours is a simulation of an hour."""
    warmth = config["setpoint"] - 0.5 * config["night"]
    coldest = warmth + 0.1 * config["outdoor"] - 1.0
    return {"cost": (warmth - 20.5 - 0.05 * config["outdoor"]) ** 2 + 0.2 * config["setpoint"], "coldest": coldest}


def main(evaluations: int = 16, workers: int = 2) -> drbo.analysis.Recommendation:
    """Return what to deploy after this many trials, so many at a time."""
    past = drbo.Samples({"outdoor": np.random.default_rng(0).normal(5.0, 8.0, 60)})
    optimizer = drbo.Optimizer(
        drbo.Box(setpoint=(17.0, 24.0), night=(0.0, 4.0)),
        past,
        setting=drbo.Simulator(radius=0.1),
        limits={"coldest": drbo.AtLeast(18.0)},
        maximize=False,
    )
    searcher = RobustSearcher(optimizer, metric="cost")
    with tempfile.TemporaryDirectory() as folder:
        tune.Tuner(
            day,
            tune_config=tune.TuneConfig(search_alg=searcher, num_samples=evaluations, max_concurrent_trials=workers),
            run_config=tune.RunConfig(storage_path=folder, verbose=0),
        ).fit()
    return optimizer.recommend()


if __name__ == "__main__":
    print(main())
