"""The package for OptunaHub, loaded as its registry loads it: `make doors`."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drbo

optunahub = pytest.importorskip("optunahub", reason="pip install optunahub")
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
REGISTRY = Path(__file__).parents[2] / "integrations" / "optunahub" / "package"


def test_the_hub_loads_and_runs_our_sampler() -> None:
    import optuna

    module: Any = optunahub.load_local_module("samplers/drbo", registry_root=str(REGISTRY))
    past = drbo.Samples({"outdoor": np.linspace(-5.0, 20.0, 20)})
    sampler = module.RobustSampler(past, setting=drbo.Simulator(radius=0.1))

    def objective(trial: optuna.Trial) -> float:
        setpoint = trial.suggest_float("setpoint", 18.0, 24.0)
        outdoor = trial.suggest_float("outdoor", -20.0, 35.0)
        return float((setpoint - 20.5 - 0.05 * outdoor) ** 2)

    study = optuna.create_study(sampler=sampler)
    study.optimize(objective, n_trials=4)
    assert set(module.get_robust_params(study)) == {"setpoint"}
    assert module.get_robust_trial(study).number < 4
    assert "deploy" in str(sampler.recommend(study))
