"""A generator of the Generator Standard (gest-api), for libEnsemble, Xopt and other hosts; `pip install 'drbo[gest]'`.

A host describes a problem by a `VOCS`. Conditions that the generator picks are variables of it, those that nature picks
are observables. A constraint is a limit: it must hold on average in every distribution of the set.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import drbo
from drbo._messages import listed, require
from drbo.knowledge import Suggestion
from drbo.models import Surrogate

__all__ = ["RobustGenerator"]

_generator = require("gest_api.generator", "gest")
_vocs = require("gest_api.vocs", "gest")

_LIMITS = {"LessThanConstraint": drbo.AtMost, "GreaterThanConstraint": drbo.AtLeast}


class RobustGenerator(_generator.Generator):  # type: ignore[misc, name-defined]  # gest-api has no types
    """A generator of points that are robust to changing conditions.

    `generator.optimizer` is the `drbo.Optimizer`: its `recommend()` is the point to deploy, `report(path)` the report.

    Parameters
    ----------
    vocs : the problem: one objective to minimise or maximise, and constraints with one threshold each
    contexts : past conditions with named columns, `drbo.Samples(frame)`, or a `drbo.Box` of possible ones
    setting : `drbo.Simulator(radius=...)`: the generator picks the conditions, which are variables of `vocs`;
        `drbo.DataDriven(...)`: nature does, and they are observables of `vocs`
    ambiguity, surrogate, beta, policy, seed : as for `drbo.Optimizer`
    """

    returns_id = True
    """Whether suggested points have an identifier, which is ingested with the outcome."""

    def __init__(
        self,
        vocs: Any,
        *,
        contexts: drbo.Samples | drbo.Box,
        setting: drbo.Setting,
        ambiguity: drbo.AmbiguitySet | None = None,
        surrogate: Surrogate | None = None,
        beta: float | drbo.TheoreticalBeta = 2.0,
        policy: drbo.Policy | None = None,
        seed: int = 0,
    ) -> None:
        if not getattr(contexts, "names", None):
            raise TypeError(f"contexts must have names, such as drbo.Samples(frame), got {contexts!r}")
        if getattr(contexts, "keys", None) is not None:
            raise TypeError("contexts must have no keys: a point holds the values of its conditions, and not their row")
        if not isinstance(setting, drbo.Simulator | drbo.DataDriven):
            raise TypeError(f"setting must be drbo.Simulator(...) or drbo.DataDriven(...), got {setting!r}")
        self._picks = isinstance(setting, drbo.Simulator)
        self._names = tuple(contexts.names or ())
        self._validate_vocs(vocs)
        self.vocs = vocs
        ((self._objective, goal),) = vocs.objectives.items()
        self._constants = {name: one.value for name, one in vocs.constants.items()}
        limits = {name: _LIMITS[type(one).__name__](one.value) for name, one in vocs.constraints.items()}
        variables = {name: _parameter(one) for name, one in vocs.variables.items() if name not in self._names}
        self._parameters = tuple(variables)
        self._optimizer = drbo.Optimizer(
            drbo.Box(variables),
            contexts,
            setting=setting,
            ambiguity=ambiguity,
            surrogate=surrogate,
            beta=beta,
            policy=policy,
            seed=seed,
            maximize=isinstance(goal, _vocs.MaximizeObjective),
            limits=limits or None,
        )
        self._limits = tuple(limits)

    @property
    def optimizer(self) -> drbo.Optimizer:
        """The optimizer with all results."""
        return self._optimizer

    def _validate_vocs(self, vocs: Any) -> None:
        """Raise a ValueError if the generator cannot solve a problem."""
        goals = list(vocs.objectives.values())
        for kind, found in (("variable", {*vocs.variables} - {*self._names}), ("objective", goals)):
            if not found:
                raise ValueError(f"vocs must have at least one {kind}")
        if len(goals) != 1 or not isinstance(goals[0], _vocs.MinimizeObjective | _vocs.MaximizeObjective):
            raise ValueError("vocs must have one objective, MINIMIZE or MAXIMIZE")
        if wrong := [name for name, one in vocs.constraints.items() if type(one).__name__ not in _LIMITS]:
            raise ValueError(f"constraints must be LESS_THAN or GREATER_THAN a value, and {listed(wrong)} is not")
        kind, known = ("variables", vocs.variables) if self._picks else ("observables", vocs.observables)
        if missing := [name for name in self._names if name not in known]:
            who = "the generator picks" if self._picks else "nature picks"
            raise ValueError(f"conditions that {who} must be {kind} of vocs, and {listed(missing)} is not")

    def suggest(self, num_points: int | None = None) -> list[dict[str, Any]]:
        """Return points to evaluate, one by default; each has an `_id`, which its result must repeat."""
        count = 1 if num_points is None else drbo.validation.whole_number("num_points", num_points, least=0)
        asked = [self._optimizer.ask() for _ in range(count)]
        return [{**_point(one), **self._constants, "_id": one.number} for one in asked]

    def ingest(self, results: list[dict[str, Any]]) -> None:
        """Record results. An objective that is not finite is a failed evaluation. Points of others have no `_id`.

        A point that the host has moved is told as it was evaluated, and its suggestion is cancelled.
        """
        pending = {one.number: one for one in self._optimizer.pending}
        found = []
        for result in map(_plain, results):
            number = result.get("_id")
            if number is not None and number not in pending:
                raise ValueError(f"_id {number!r} must belong to a suggestion without a result")
            if missing := [name for name in (*self._parameters, *self._names) if name not in result]:
                raise ValueError(
                    f"a result must have values of all variables and conditions, and lacks {listed(missing)}"
                )
            found.append((None if number is None else pending.pop(number), result))
        for suggestion, result in found:
            self._tell(suggestion, result)

    def _tell(self, suggestion: Suggestion | None, result: Mapping[str, Any]) -> None:
        value = result.get(self._objective)
        more: dict[str, Any] = {"failed": True}
        if value is not None and math.isfinite(value):
            more = {"outcome": value}
            limits = {name: result.get(name) for name in self._limits}
            if limits:
                more["limits"] = {name: one for name, one in limits.items() if one is not None and math.isfinite(one)}
        context = {name: result[name] for name in self._names}
        if suggestion is not None and _point(suggestion).items() <= result.items():
            if not suggestion.contexts:
                more["context"] = context
            self._optimizer.tell(suggestion, **more)
            return
        by_nature = suggestion is not None and not suggestion.contexts
        action = {name: result[name] for name in self._parameters}
        self._optimizer.tell(action, context=context, drawn=by_nature, **more)
        if suggestion is not None:
            self._optimizer.cancel(suggestion)


def _point(suggestion: Suggestion) -> dict[str, Any]:
    """Return a suggestion as the standard has it: parameters and, if the generator picks them, conditions."""
    return {**suggestion.action, **(suggestion.context or {})}


def _plain(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result without numpy's scalars, which hosts with structured arrays hand over."""
    return {name: value.item() if hasattr(value, "item") else value for name, value in result.items()}


def _parameter(variable: Any) -> Any:
    """Return the parameter of a variable."""
    if hasattr(variable, "domain"):
        low, high = variable.domain
        return drbo.Integer(int(low), int(high)) if variable.dtype in (int, "int", "int64") else (low, high)
    values = list(variable.values)
    numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in values)
    return drbo.Ordinal(*sorted(values)) if numbers else drbo.Categorical(*sorted(values, key=str))
