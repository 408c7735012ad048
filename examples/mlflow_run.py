"""Follow a run in MLflow: one run for the whole, one inside of it per evaluation, and the report as an artefact."""

import sys

import numpy as np

import drbo
from drbo.integrations.mlflow import Tracker


def simulate(action: dict[str, float], context: dict[str, float]) -> float:
    """Return the cost of a day; yours takes an hour."""
    return (action["setpoint"] - 20.5 - 0.05 * context["outdoor"]) ** 2


def main(tracking_uri: str | None = None, evaluations: int = 12) -> str:
    """Return the identifier of the run; `mlflow ui` shows it."""
    archive = np.random.default_rng(0).normal(5.0, 8.0, (60, 1))
    opt = drbo.Optimizer(
        drbo.Box(setpoint=(18.0, 24.0)),
        drbo.Samples(archive, names=["outdoor"]),
        setting=drbo.Simulator(radius=0.1),
        maximize=False,
    )
    with Tracker("heating", run_name="twelve days", tracking_uri=tracking_uri) as tracker:
        print(drbo.run(opt, simulate, evaluations, workers=2, callback=tracker))
    return tracker.run_id


if __name__ == "__main__":
    print(main(*sys.argv[1:]))
