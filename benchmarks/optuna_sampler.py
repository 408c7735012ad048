"""`python benchmarks/optuna_sampler.py`: the sampler's own share of a trial, beside `opt.ask` of the same history.

A study of 200 trials on SQLite. Per trial we take the CPU time of `study.ask` with a RobustSampler, less that with a
RandomSampler (Optuna's own share), and the CPU time of `opt.ask` of an optimizer that was told the same results.
"""

from __future__ import annotations

import one_core  # noqa: F401  # imported for its effect, before numpy

import argparse  # isort: skip
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.distributions import FloatDistribution

import drbo
from drbo.integrations.optuna import RobustSampler

SPACE: Any = {"setpoint": FloatDistribution(18.0, 24.0), "gain": FloatDistribution(1e-3, 1.0, log=True)}
CONDITIONS: Any = {"outdoor": FloatDistribution(-20.0, 35.0), "load": FloatDistribution(0.0, 1.0)}


def cost(setpoint: float, gain: float, outdoor: float, load: float) -> float:
    return float((setpoint - 20.5 - load) ** 2 + 0.4 * (np.log10(gain) + 1.5 - 0.04 * outdoor) ** 2)


def measure(trials: int, asks: int) -> tuple[list[float], list[float], list[float]]:
    """Return CPU seconds per trial: of the sampler, of Optuna alone, and of `opt.ask`."""
    rng = np.random.default_rng(0)
    history = {"outdoor": rng.normal(5.0, 8.0, 60).clip(-20.0, 35.0), "load": rng.random(60)}
    sampler = RobustSampler(drbo.Samples(history), setting=drbo.Simulator(radius=0.1, pick="uncertain"))
    with tempfile.TemporaryDirectory() as folder:
        address = f"sqlite:///{Path(folder) / 'study.db'}"
        study = optuna.create_study(storage=address, sampler=optuna.samplers.RandomSampler(seed=0), study_name="one")
        for _ in range(trials):
            trial = study.ask({**SPACE, **CONDITIONS})
            study.tell(trial, cost(**trial.params) + 0.01 * float(rng.normal()))
        alone = []
        for _ in range(asks):
            begun = time.process_time()
            trial = study.ask({**SPACE, **CONDITIONS})
            alone.append(time.process_time() - begun)
            study.tell(trial, cost(**trial.params))
        study = optuna.load_study(storage=address, sampler=sampler, study_name="one")
        opt = sampler.optimizer(study)
        with_sampler, plain = [], []
        for _ in range(asks + 1):
            begun = time.process_time()
            trial = study.ask({**SPACE, **CONDITIONS})
            middle = time.process_time()
            s = opt.ask()
            plain.append(time.process_time() - middle)
            with_sampler.append(middle - begun)
            opt.tell(s, cost(**s.action, **s.context))
            study.tell(trial, cost(**trial.params))
        return with_sampler[1:], alone, plain[1:]  # the first of each fits and compiles


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--asks", type=int, default=15)
    given = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler_time, optuna_time, ask_time = (statistics.median(times) for times in measure(given.trials, given.asks))
    share = sampler_time - optuna_time
    print(f"study.ask with the sampler {1e3 * sampler_time:.0f} ms, Optuna alone {1e3 * optuna_time:.0f} ms,")
    print(f"opt.ask {1e3 * ask_time:.0f} ms: the sampler's own share is {share / ask_time:.2f} times opt.ask")
