"""Two workers tune a heating controller in one Optuna study; the comfort of the rooms is a limit of its own."""

import threading
from pathlib import Path

import numpy as np
import optuna

import drbo
from drbo.integrations.optuna import RobustSampler

COLDEST = 19.0
"""The coldest room must have this temperature on average, in every distribution of the set."""


def simulate(setpoint: float, night: float, outdoor: float) -> tuple[float, float]:
    """Return the cost of a day, and the temperature of the coldest room. Yours takes minutes."""
    cost = (setpoint - outdoor) * 1.2 + 4.0 * night
    return cost, setpoint - 0.05 * (20.0 - outdoor) - 0.8 * (1.0 - night)


def objective(trial: optuna.Trial) -> float:
    """Simulate one controller in the weather that the sampler picked for this trial."""
    setpoint, night = trial.suggest_float("setpoint", 17.0, 24.0), trial.suggest_float("night", 0.0, 1.0)
    cost, coldest = simulate(setpoint, night, trial.suggest_float("outdoor", -20.0, 35.0))
    trial.set_user_attr("coldest", coldest)  # or trial.set_constraint("coldest", COLDEST - coldest)
    return cost


def open_study(address: str) -> optuna.Study:
    """Return the study; every worker opens it in the same way."""
    days = {"outdoor": np.clip(np.random.default_rng(0).normal(5.0, 8.0, 40), -20.0, 35.0)}
    sampler = RobustSampler(
        drbo.Samples(days),
        setting=drbo.Simulator(radius=2.0),  # the mean of the weather may shift by 2 degrees
        ambiguity=drbo.Wasserstein(),
        limits={"coldest": drbo.AtLeast(COLDEST, unit="degC")},
    )
    return optuna.create_study(storage=address, study_name="heating", load_if_exists=True, sampler=sampler)


def main(path: Path = Path("limit.db"), trials: int = 20) -> drbo.analysis.Recommendation:
    """Let two workers run trials, and return what to deploy."""
    address = f"sqlite:///{path}"
    studies = [open_study(address) for _ in range(2)]
    workers = [threading.Thread(target=study.optimize, args=(objective, trials // 2)) for study in studies]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return RobustSampler.from_study(studies[0]).recommend(studies[0])


if __name__ == "__main__":
    print(main())
