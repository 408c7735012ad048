"""Two processes tune a heating controller: Optuna keeps the study in SQLite, drbo suggests what to simulate."""

import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import optuna
from optuna.study import MaxTrialsCallback
from optuna.trial import TrialState

import drbo
from drbo.integrations.optuna import RobustSampler, get_robust_params


def simulate(setpoint: float, gain: float, outdoor: float, load: float) -> float:
    """Return the cost of a day. Yours takes minutes, and nobody knows its formula."""
    return float((setpoint - 20.5 - load) ** 2 + 0.4 * (np.log10(gain) + 1.5 - 0.04 * outdoor) ** 2)


def objective(trial: optuna.Trial) -> float:
    """Simulate one controller in the weather that the sampler picked for this trial."""
    setpoint = trial.suggest_float("setpoint", 18.0, 24.0)
    gain = trial.suggest_float("gain", 1e-3, 1.0, log=True)
    outdoor = trial.suggest_float("outdoor", -20.0, 35.0)
    load = trial.suggest_float("load", 0.0, 1.0)
    return simulate(setpoint, gain, outdoor, load)


def open_study(address: str) -> optuna.Study:
    """Return the study; every process opens it in the same way. Heartbeats tell when a worker was killed."""
    rng = np.random.default_rng(0)
    days = {"outdoor": np.clip(rng.normal(5.0, 8.0, 60), -20.0, 35.0), "load": rng.random(60)}
    sampler = RobustSampler(drbo.Samples(days), setting=drbo.Simulator(radius=0.1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        storage = optuna.storages.RDBStorage(address, heartbeat_interval=10)
    return optuna.create_study(storage=storage, study_name="heating", load_if_exists=True, sampler=sampler)


def main(path: Path = Path("heating.db"), trials: int = 20) -> drbo.analysis.Recommendation:
    """Let two processes run trials, and return what to deploy."""
    address = f"sqlite:///{path}"
    study = open_study(address)
    workers = [subprocess.Popen([sys.executable, __file__, address, str(trials)]) for _ in range(2)]
    if any(worker.wait() for worker in workers):
        raise RuntimeError("a worker failed")
    print(get_robust_params(study))  # not study.best_params: these are the luckiest weather's
    return RobustSampler.from_study(study).recommend(study)


if __name__ == "__main__":
    if len(sys.argv) > 1:  # a worker
        enough = MaxTrialsCallback(int(sys.argv[2]), states=(TrialState.COMPLETE,))
        open_study(sys.argv[1]).optimize(objective, callbacks=[enough])
    else:
        print(main())
