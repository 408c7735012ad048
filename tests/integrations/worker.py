"""A worker of a study, as a process of its own: `python worker.py kind address log seed trials patience`.

It writes a line to its log for every evaluation that it finished, before Optuna is told: what must be in the study.
"""

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import optuna
from optuna.storages.journal import JournalFileBackend
from optuna.study import MaxTrialsCallback
from optuna.trial import TrialState

from integrations.weather import make, objective


def storage_of(kind: str, address: str) -> optuna.storages.BaseStorage:
    """Return a storage: a database with a heartbeat, or Optuna's journal in a file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        if kind == "journal":
            return optuna.storages.JournalStorage(JournalFileBackend(address))
        more = {"connect_args": {"timeout": 60}} if kind == "sqlite" else {}
        return optuna.storages.RDBStorage(address, engine_kwargs=more, heartbeat_interval=2, grace_period=10)


def main(kind: str, address: str, log: str, seed: str, trials: str, patience: str) -> None:
    rng = np.random.default_rng(int(seed))
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.load_study(
        study_name="workers", storage=storage_of(kind, address), sampler=make(patience=float(patience))
    )

    def slow(trial: optuna.Trial) -> float:
        value = objective(trial)
        time.sleep(0.02 + 0.1 * rng.random())
        with Path(log).open("a") as file:
            file.write(json.dumps([trial.number, value]) + "\n")
        return value

    enough = MaxTrialsCallback(int(trials), states=(TrialState.COMPLETE,))
    study.optimize(slow, n_trials=int(trials), callbacks=[enough])


if __name__ == "__main__":
    main(*sys.argv[1:])
