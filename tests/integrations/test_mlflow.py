"""Runs in a real MLflow, kept in a database of SQLite: `make doors`."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drbo

mlflow = pytest.importorskip("mlflow", reason="pip install 'drbo[mlflow]'")

from drbo.integrations.mlflow import Tracker  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # MLflow's own
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
FIXED = drbo.GP(drbo.Product(drbo.RBF(0.4), drbo.RBF(0.5)), noise=0.1)


@pytest.fixture
def uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)  # where MLflow keeps artefacts
    return f"sqlite:///{tmp_path / 'runs.db'}"


def optimizer(**more: Any) -> drbo.Optimizer:
    past = drbo.Samples({"outdoor": np.linspace(-1.0, 1.0, 9)}, support=0)
    setting = drbo.Simulator(radius=0.1, pick="uncertain")
    return drbo.Optimizer(drbo.Box(x=(0.0, 1.0)), past, setting=setting, surrogate=FIXED, **more)


def cost(action: dict[str, float], context: dict[str, float]) -> float:
    return (action["x"] - 0.5 * context["outdoor"]) ** 2


def inner(client: Any, run_id: str) -> list[Any]:
    run = client.get_run(run_id)
    found = client.search_runs([run.info.experiment_id], f"tags.`mlflow.parentRunId` = '{run_id}'")
    return sorted(found, key=lambda one: int(one.info.run_name.split()[-1]))


def test_a_run_of_drbo(uri: str) -> None:
    opt = optimizer()
    with Tracker("heating", run_name="one", tracking_uri=uri) as tracker:
        best = drbo.run(opt, cost, 4, workers=1, progress=False, callback=tracker)
    client = mlflow.MlflowClient(uri)
    run = client.get_run(tracker.run_id)
    assert (run.info.status, run.info.run_name) == ("FINISHED", "one")
    assert run.data.metrics["bound"] == best.value
    assert run.data.params["recommended.x"] == str(best.action["x"])
    assert {one.path for one in client.list_artifacts(tracker.run_id)} == {"report.html", "optimizer.json"}
    runs = inner(client, tracker.run_id)
    assert [one.data.metrics["outcome"] for one in runs] == [r.outcome for r in opt.results]
    assert [float(one.data.params["x"]) for one in runs] == [r.action["x"] for r in opt.results]
    assert [float(one.data.params["outdoor"]) for one in runs] == [r.context["outdoor"] for r in opt.results]
    assert len(client.get_metric_history(tracker.run_id, "outcome")) == 4


def test_failures_limits_and_a_run_that_breaks(uri: str) -> None:
    def fails(action: dict[str, float], context: dict[str, float]) -> tuple[float, dict[str, float]]:
        if action["x"] > 0.5:
            raise RuntimeError("too hot")
        return cost(action, context), {"peak [%]": 2.0}

    tracker = Tracker("heating", tracking_uri=uri)
    opt = optimizer(limits={"peak [%]": drbo.AtMost(3.0)})

    def break_off() -> None:
        with tracker:
            drbo.run(opt, fails, 5, workers=1, progress=False, callback=tracker)
            raise KeyError("mine")

    with pytest.raises((KeyError, drbo.NotReachedError)):
        break_off()
    client = mlflow.MlflowClient(uri)
    assert client.get_run(tracker.run_id).info.status == "FAILED"
    states = [one.info.status for one in inner(client, tracker.run_id)]
    assert states == ["FAILED" if r.failed else "FINISHED" for r in opt.results]
    done = [one for one in inner(client, tracker.run_id) if one.info.status == "FINISHED"]
    assert all(one.data.metrics["peak ___"] == 2.0 for one in done)


def test_nothing_was_evaluated(uri: str) -> None:
    with Tracker("heating", tracking_uri=uri) as tracker:
        pass
    assert mlflow.MlflowClient(uri).get_run(tracker.run_id).info.status == "FINISHED"


def test_a_study_of_optuna(uri: str) -> None:
    import optuna

    from integrations.weather import make, objective, study_of

    study = study_of(make())
    with Tracker("study", tracking_uri=uri) as tracker:
        study.optimize(objective, n_trials=4, callbacks=[tracker.on_trial])
    client = mlflow.MlflowClient(uri)
    run = client.get_run(tracker.run_id)
    assert {"recommended.setpoint", "recommended.gain"} <= set(run.data.params)
    assert [one.path for one in client.list_artifacts(tracker.run_id)] == ["report.html"]
    trials = [t for t in study.trials if t.state == optuna.trial.TrialState.COMPLETE]
    assert [one.data.metrics["outcome"] for one in inner(client, tracker.run_id)] == [t.value for t in trials]


def test_a_study_with_observed_conditions_limits_and_a_failure(uri: str) -> None:
    import optuna

    from drbo.integrations.optuna import observe
    from integrations.weather import make, study_of

    def evaluate(trial: optuna.Trial) -> float:
        setpoint = trial.suggest_float("setpoint", 18.0, 24.0)
        observe(trial, {"outdoor": 3.5, "load": 0.25})
        if trial.number == 1:
            raise ValueError("it broke")
        trial.set_user_attr("peak", 40.0 + setpoint)
        trial.set_user_attr("operator", "night shift")
        return (setpoint - 20.5) ** 2

    study = study_of(make(setting=drbo.DataDriven(radius=0.1), limits={"peak": drbo.AtMost(90.0)}))
    with Tracker("study", tracking_uri=uri) as tracker:
        study.optimize(evaluate, n_trials=4, callbacks=[tracker.on_trial], catch=ValueError)
    runs = inner(mlflow.MlflowClient(uri), tracker.run_id)
    assert [one.info.status for one in runs] == ["FINISHED", "FAILED", "FINISHED", "FINISHED"]
    assert all(
        {name: one.data.params[name] for name in ("outdoor", "load")} == {"outdoor": "3.5", "load": "0.25"}
        for one in runs
    )
    done = [t for t in study.trials if t.value is not None]
    assert [one.data.metrics for one in runs if one.data.metrics] == [
        {"outcome": t.value, "peak": t.user_attrs["peak"]} for t in done
    ]
