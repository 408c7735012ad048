"""A searcher for Ray Tune; `pip install 'drbo[ray]'`.

A trial's configuration is flat: the parameters of the action, and the conditions if the optimizer picks them. A trial
reports the outcome, further outcomes that have limits, and the conditions if nature picks them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import drbo
from drbo import validation
from drbo._messages import listed, require
from drbo.knowledge import Suggestion

__all__ = ["RobustSearcher"]

_search = require("ray.tune.search", "ray")


class RobustSearcher(_search.Searcher):  # type: ignore[misc, name-defined]  # Ray has no types for it
    """A search algorithm of Ray Tune whose points are robust to changing conditions.

    `searcher.optimizer` is the `drbo.Optimizer`: its `recommend()` is the point to deploy, `report(path)` the report.
    Ray's best trial is the luckiest one. `Tuner.restore` continues with a copy of the searcher. A searcher that is made
    again from the same arguments reads the results by `restore_from_dir(path_of_the_experiment)`.

    Parameters
    ----------
    optimizer : an optimizer over a `drbo.Box`, with conditions that have names
    metric : the name of the outcome in what a trial reports
    mode : "min" or "max", as the optimizer has it; None takes it from the optimizer
    """

    def __init__(self, optimizer: drbo.Optimizer, metric: str, mode: str | None = None) -> None:
        validation.of_kind("optimizer", optimizer, drbo.Optimizer, "a drbo.Optimizer")
        own = optimizer.configuration
        if not isinstance(own.actions, drbo.Box):
            raise TypeError(f"optimizer must have a drbo.Box of actions, got {own.actions!r}")
        columns = own.nature.space.columns
        self._conditions = tuple(column.name for column in columns if column.name is not None)
        if len(self._conditions) < len(columns):
            raise TypeError("optimizer must have conditions with names, such as drbo.Samples(frame)")
        if both := [name for name in self._conditions if name in own.actions.parameters]:
            raise ValueError(f"a parameter and a condition must not have the same name, got {listed(both)}")
        expected = "max" if own.maximize else "min"
        if mode not in (None, expected):
            raise ValueError(f"mode must be {expected!r}, as the optimizer has it, got {mode!r}")
        super().__init__(metric=metric, mode=expected)
        self._optimizer, self._limits = optimizer, tuple(own.limits)
        self._numbers: dict[str, int] = {}

    @property
    def optimizer(self) -> drbo.Optimizer:
        """The optimizer with all results."""
        return self._optimizer

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any) -> bool:
        """Return whether metric, mode and search space of a `Tuner` are those of the optimizer."""
        del spec
        if config:
            raise ValueError("param_space must be empty: the box of the optimizer is the search space")
        return metric in (None, self._metric) and mode in (None, self._mode)

    def suggest(self, trial_id: str) -> dict[str, Any]:
        """Return the configuration of a new trial."""
        suggestion = self._optimizer.ask()
        self._numbers[trial_id] = suggestion.number
        return {**suggestion.action, **(suggestion.context or {})}

    def on_trial_complete(self, trial_id: str, result: Mapping[str, Any] | None = None, error: bool = False) -> None:
        """Record the end of a trial: its outcome, a failure, or that it was stopped before it reported anything."""
        number = self._numbers.get(trial_id)
        suggestion = next((one for one in self._optimizer.pending if one.number == number), None)
        if suggestion is None:  # a trial of somebody else
            return
        if error:
            self._tell(suggestion, result or {}, failed=True)
        elif result is None or self._metric not in result:
            self._optimizer.cancel(suggestion)
        else:
            self._tell(suggestion, result, failed=not math.isfinite(result[self._metric]))
        del self._numbers[trial_id]

    def _tell(self, suggestion: Suggestion, result: Mapping[str, Any], failed: bool) -> None:
        more: dict[str, Any] = {"failed": True} if failed else {"outcome": float(result[self._metric])}
        if self._limits and not failed:
            known = {name: float(result[name]) for name in self._limits if result.get(name) is not None}
            more["limits"] = {name: value for name, value in known.items() if math.isfinite(value)}
        if suggestion.context is None and not failed:
            if missing := [name for name in self._conditions if name not in result]:
                raise ValueError(f"a trial must report the conditions that nature picked, but lacks {listed(missing)}")
            more["context"] = {name: result[name] for name in self._conditions}
        self._optimizer.tell(suggestion, **more)

    def save(self, checkpoint_path: str) -> None:
        """Write all results and running trials to a file, as Ray does from time to time."""
        held = {"records": self._optimizer.records(), "running": self._numbers}
        Path(checkpoint_path).write_text(json.dumps(held), encoding="utf-8")

    def restore(self, checkpoint_path: str) -> None:
        """Read a file of `save`, into an optimizer of the same configuration."""
        held = json.loads(Path(checkpoint_path).read_text(encoding="utf-8"))
        self._optimizer.replay(held["records"])
        self._numbers = {str(name): int(number) for name, number in held["running"].items()}
