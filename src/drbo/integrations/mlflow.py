"""Runs in MLflow; `pip install 'drbo[mlflow]'`.

A tracker is a callback of a run, or of a study with a `RobustSampler`::

    with Tracker("heating") as tracker:
        drbo.run(opt, simulate, evaluations=40, callback=tracker)
        study.optimize(objective, n_trials=40, callbacks=[tracker.on_trial])

One run of MLflow holds the whole optimization, and each evaluation is a run inside of it: parameters, conditions, the
outcome. In the end the outer run gets the recommendation, its bound, the report and, without Optuna, the saved file.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import drbo
from drbo import Measured
from drbo._messages import require

if TYPE_CHECKING:
    import optuna

    from drbo.knowledge import Result

__all__ = ["Tracker"]

_mlflow = require("mlflow", "mlflow")

_LONGEST = 500
"""Largest number of characters of a parameter that every MLflow takes."""


class Tracker:
    """A callback that writes an optimization to MLflow; a context manager that ends the run.

    Parameters
    ----------
    experiment : the name of the experiment; it is created if it does not exist
    run_name : the name of the outer run; MLflow invents one by default
    tracking_uri : the address of the server or the folder; by default that of `mlflow.set_tracking_uri`
    """

    def __init__(self, experiment: str, *, run_name: str | None = None, tracking_uri: str | None = None) -> None:
        self._client = _mlflow.MlflowClient(tracking_uri)
        known = self._client.get_experiment_by_name(experiment)
        self._experiment: str = self._client.create_experiment(experiment) if known is None else known.experiment_id
        self._run_name = run_name
        self._run: str | None = None
        self._source: Any = None

    @property
    def run_id(self) -> str:
        """The outer run."""
        if self._run is None:
            self._run = self._client.create_run(self._experiment, run_name=self._run_name).info.run_id
        return self._run

    def __call__(self, opt: drbo.Optimizer, result: Result) -> None:
        """Write a result of `drbo.run`."""
        if self._source is None:
            self._describe(opt)
        self._source = opt
        values = {**_named("action", result.action), **_named("context", result.context)}
        measured = {name: _number(value) for name, value in result.limits.items()}
        if result.outcome is not None:
            measured = {"outcome": result.outcome, **measured}
        number = result.id if result.number is None else result.number
        self._evaluation(number, values, None if result.failed else measured)

    def on_trial(self, study: optuna.Study, trial: optuna.trial.FrozenTrial) -> None:
        """Write a finished trial of a study; its user attributes are conditions, or outcomes if they are numbers."""
        from drbo.integrations.optuna.studies import sampler_of

        self._source = study
        attributes = {name: value for name, value in trial.user_attrs.items() if not name.startswith("drbo:")}
        names = sampler_of(study).names
        observed = {name: attributes.pop(name) for name in names if name in attributes}
        further = {name: float(value) for name, value in attributes.items() if isinstance(value, int | float)}
        measured = None if trial.value is None else {"outcome": trial.value, **further}
        self._evaluation(trial.number, {**trial.params, **observed}, measured)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.finish("FINISHED" if kind is None else "KILLED" if kind is KeyboardInterrupt else "FAILED")

    def finish(self, status: str = "FINISHED") -> None:
        """Write the recommendation and the report, if there is an outcome, and end the outer run."""
        try:
            opt = self._optimizer()
            if opt is not None and any(not result.failed for result in opt.results):
                self._conclude(opt)
        finally:
            self._client.set_terminated(self.run_id, status)

    def _optimizer(self) -> drbo.Optimizer | None:
        if self._source is None or isinstance(self._source, drbo.Optimizer):
            return self._source
        from drbo.integrations.optuna.studies import sampler_of

        try:
            return sampler_of(self._source).optimizer(self._source)
        except RuntimeError:  # no trial has completed
            return None

    def _describe(self, opt: drbo.Optimizer) -> None:
        own = opt.configuration
        for name in ("setting", "ambiguity", "surrogate", "policy", "maximize"):
            self._client.log_param(self.run_id, name, _short(getattr(own, name)))

    def _evaluation(self, number: int, values: dict[str, Any], measured: dict[str, float] | None) -> None:
        """Write a run of one evaluation; None if it failed."""
        tags = {"mlflow.parentRunId": self.run_id}
        made = self._client.create_run(self._experiment, tags=tags, run_name=f"evaluation {number}")
        for name, value in values.items():
            self._client.log_param(made.info.run_id, _key(name), _short(value))
        for name, value in (measured or {}).items():
            self._client.log_metric(made.info.run_id, _key(name), value)
            self._client.log_metric(self.run_id, _key(name), value, step=number)
        self._client.set_terminated(made.info.run_id, "FAILED" if measured is None else "FINISHED")

    def _conclude(self, opt: drbo.Optimizer) -> None:
        try:
            best = opt.recommend()
        except drbo.NotReachedError as error:
            self._client.set_tag(self.run_id, "recommendation", str(error))
        else:
            for name, value in _named("action", best.action).items():
                self._client.log_param(self.run_id, _key(f"recommended.{name}"), _short(value))
            self._client.log_metric(self.run_id, "bound", best.value)
            self._client.set_tag(self.run_id, "recommendation", str(best))
        with tempfile.TemporaryDirectory() as folder:
            files = [opt.report(Path(folder) / "report.html")]
            if isinstance(self._source, drbo.Optimizer):
                opt.save(Path(folder) / "optimizer.json")
                files.append(Path(folder) / "optimizer.json")
            for file in files:
                self._client.log_artifact(self.run_id, str(file))


def _named(what: str, value: Any) -> dict[str, Any]:
    """Return the values by name; those of a point without names by `action` or `context`."""
    if value is None:
        return {}
    return dict(value) if hasattr(value, "items") else {what: value}


def _number(value: float | Measured) -> float:
    return value.value if isinstance(value, Measured) else value


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def _key(name: str) -> str:
    """Return a name that MLflow takes: letters, digits, and a few signs."""
    return "".join(letter if letter.isalnum() or letter in "_-. /" else "_" for letter in name)[:250]
