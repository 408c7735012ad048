"""Constraints on the parameters of a study."""

import pickle
from typing import Any

import optuna
import pytest

import drbo
from drbo.integrations.optuna import RobustSampler
from drbo.integrations.optuna.search_spaces import box_of

optuna.logging.set_verbosity(optuna.logging.ERROR)
SPACE = {
    "a": optuna.distributions.FloatDistribution(0.0, 1.0),
    "b": optuna.distributions.FloatDistribution(0.0, 1.0),
    "n": optuna.distributions.IntDistribution(1, 64, log=True),
}
CONSTRAINTS = [drbo.Total("a", "b", equals=1.0), drbo.LinearConstraint({"n": 1.0, "a": 10.0}, at_most=20.0)]


def sampler(**more: Any) -> RobustSampler:
    given: dict[str, Any] = {"constraints": CONSTRAINTS, "seed": 1, **more}
    return RobustSampler(drbo.Samples({"t": [0.0, 0.5, 1.0]}), setting=drbo.Simulator(radius=0.1), **given)


def objective(trial: optuna.Trial) -> float:
    a, b = trial.suggest_float("a", 0.0, 1.0), trial.suggest_float("b", 0.0, 1.0)
    n = trial.suggest_int("n", 1, 64, log=True)
    return float(a * b + 0.01 * n - 0.2 * trial.suggest_float("t", 0.0, 1.0) * a)


def permitted(values: dict[str, Any]) -> bool:
    return bool(abs(values["a"] + values["b"] - 1.0) <= 1e-9 and values["n"] + 10.0 * values["a"] <= 20.0 + 1e-7)


def test_trials_keep_the_constraints_once_the_space_is_known() -> None:
    study = optuna.create_study(sampler=sampler(), direction="maximize")
    study.enqueue_trial({"a": 0.5, "b": 0.5, "n": 2})
    study.optimize(objective, n_trials=6)
    assert all(permitted(trial.params) for trial in study.trials)
    made = study.sampler
    assert isinstance(made, RobustSampler)
    assert permitted(made.recommend(study).action)
    again = RobustSampler.from_study(study)
    assert again.recommend(study).action == made.recommend(study).action
    assert pickle.loads(pickle.dumps(made)).recommend(study).action == made.recommend(study).action
    with pytest.raises(ValueError, match="started with another constraints"):
        sampler(constraints=()).before_trial(study, study.trials[-1])


def test_values_that_break_a_constraint_are_the_users_choice() -> None:
    study = optuna.create_study(sampler=sampler(), direction="maximize")
    study.enqueue_trial({"a": 0.5, "b": 0.5, "n": 2})
    study.enqueue_trial({"a": 0.9, "b": 0.9})
    study.enqueue_trial({"a": 0.25})
    study.optimize(objective, n_trials=4)
    params = [trial.params for trial in study.trials]
    assert (params[1]["a"], params[1]["b"]) == (0.9, 0.9)  # taken, as a fact
    assert params[2]["a"] == 0.25
    assert permitted(params[2])
    assert permitted(params[3])
    made = study.sampler
    assert isinstance(made, RobustSampler)
    assert permitted(made.recommend(study).action)
    assert permitted(made.optimizer(study).recommend_iterate().action)


def test_constraints_that_cannot_hold_are_refused() -> None:
    with pytest.raises(ValueError, match="constraints leave no action"):
        box_of(SPACE, {}, [drbo.Total("a", "b", equals=3.0)])
    with pytest.raises(TypeError, match="constraints must be a list"):
        sampler(constraints="total")
