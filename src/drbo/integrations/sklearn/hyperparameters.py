"""The hyper-parameters of an estimator as a box, with scikit-learn's values."""

from __future__ import annotations

import itertools
import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import qmc

import drbo
from drbo._messages import listed, printable
from drbo.validation import label


@dataclass(frozen=True, eq=False)
class Hyperparameters:
    """What is searched.

    Attributes
    ----------
    box : the parameters that have several values
    constants : the values of the other parameters, by name
    objects : for parameters whose choices cannot be saved, such as estimators: the choices by their label
    """

    box: drbo.Box
    constants: dict[str, Any]
    objects: dict[str, dict[str, Any]]

    @classmethod
    def of(cls, given: Any, known: Mapping[str, Any]) -> Hyperparameters:
        """Return the checked search space; `known` are the parameters of the estimator."""
        if not isinstance(given, Mapping):
            raise TypeError(f"param_space must map names of hyper-parameters to ranges or choices, got {given!r}")
        parameters: dict[str, drbo.spaces.Parameter] = {}
        constants: dict[str, Any] = {}
        objects: dict[str, dict[str, Any]] = {}
        for name, value in given.items():
            _check_name(name, known, given)
            where = f"param_space[{name!r}]"
            if isinstance(value, list | np.ndarray):
                choices = _choices(where, value)
                if len(choices) == 1:
                    constants[name] = choices[0]
                    continue
                labels = _labels(choices)
                if labels is None:
                    objects[name] = {f"{type(one).__name__} {i}": one for i, one in enumerate(choices)}
                    labels = list(objects[name])
                value = drbo.Categorical.from_arguments((*labels,))
            parameters[name] = _parameter(where, value)
        if not parameters:
            raise ValueError(
                "param_space must hold at least one hyper-parameter with several values, such as "
                f"{{'alpha': drbo.Log(1e-4, 1.0)}}, got {given!r}"
            )
        return cls(drbo.Box(parameters), constants, objects)

    @property
    def count(self) -> float:
        """The number of different candidates; infinite if a parameter is continuous."""
        return math.prod(math.inf if p.count is None else p.count for p in self.box.parameters.values())

    def values(self, action: Mapping[str, Any]) -> dict[str, Any]:
        """Return the hyper-parameters of an action, in the form that `set_params` takes."""
        chosen = {name: self.objects[name][v] if name in self.objects else v for name, v in action.items()}
        return {**chosen, **self.constants}

    def spread(self, count: int, seed: int) -> list[dict[str, Any]]:
        """Return well-spread actions, `count` of a scrambled Sobol' sequence; some may be equal."""
        parameters = self.box.parameters
        size = 1 << max(count - 1, 0).bit_length()
        shares = qmc.Sobol(len(parameters), rng=np.random.default_rng(seed)).random(size)[:count]
        return [
            {name: _at(parameter, share) for (name, parameter), share in zip(parameters.items(), row, strict=True)}
            for row in shares
        ]

    def unseen(self, seen: set[tuple[Any, ...]], seed: int) -> dict[str, Any] | None:
        """Return an action that is none of the seen ones; None if there is no other."""
        parameters = self.box.parameters
        for action in self.spread(4 * len(seen) + 4, seed):
            if key(action) not in seen:
                return action
        if self.count > 4.0 * len(seen) + 4.0:
            return self.unseen(seen, seed + 1)
        levels = [[_level(p, i) for i in range(p.count or 0)] for p in parameters.values()]
        for values in itertools.product(*levels):
            if (action := dict(zip(parameters, values, strict=True))) and key(action) not in seen:
                return action
        return None


def key(action: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the values of an action, by which equal actions are found."""
    return tuple(action.values())


def _at(parameter: drbo.spaces.Parameter, share: float) -> Any:
    """Return the value at a share of the range, from 0 to 1."""
    if parameter.count is None:
        return parameter.decode(np.array([share]))
    return _level(parameter, min(int(share * parameter.count), parameter.count - 1))


def _level(parameter: drbo.spaces.Parameter, index: int) -> Any:
    """Return a value of a parameter by its index."""
    return parameter.decode(parameter.levels(np.array([index]))[0])


def _check_name(name: Any, known: Mapping[str, Any], given: Mapping[Any, Any]) -> None:
    """Raise unless the estimator has the parameter, or its owner is itself searched: `clf` beside `clf__alpha`."""
    if not isinstance(name, str):
        raise TypeError(f"param_space must name hyper-parameters by text, got {name!r}")
    parts = name.split("__")
    owners = {"__".join(parts[:i]) for i in range(1, len(parts))}
    if name not in known and not owners & set(given):
        raise ValueError(
            f"param_space names {name!r}, which the estimator does not have; its parameters are {listed(sorted(known))}"
        )


def _choices(where: str, value: Any) -> list[Any]:
    choices = [one.item() if isinstance(one, np.generic) else one for one in value]
    if not choices:
        raise ValueError(f"{where} must hold at least one choice, got {value!r}")
    return choices


def _labels(choices: list[Any]) -> list[Any] | None:
    """Return choices as labels that can be saved; None if they cannot."""
    try:
        return [label("choices", one) for one in choices]
    except (TypeError, ValueError):
        return None


def _parameter(where: str, value: Any) -> drbo.spaces.Parameter:
    """Return one entry of the search space as a parameter of a box."""
    if isinstance(value, drbo.spaces.Parameter):
        return value
    if hasattr(value, "dist") and hasattr(value, "support"):
        return _of_distribution(where, value)
    if isinstance(value, tuple) and len(value) == 2 and all(isinstance(end, numbers.Real) for end in value):
        whole = all(isinstance(end, numbers.Integral) and not isinstance(end, bool) for end in value)
        return (drbo.Integer if whole else drbo.Real)(*value)
    raise TypeError(
        f"{where} must be (low, high), a list of choices, drbo.Log, Integer, Categorical or Ordinal, or a distribution "
        f"of scipy.stats, got {value!r}"
    )


def _of_distribution(where: str, frozen: Any) -> drbo.spaces.Parameter:
    """Return the range of a frozen distribution of scipy.stats; logarithmic for loguniform."""
    name = printable(frozen.dist.name)
    low, high = (float(end) for end in frozen.support())
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ValueError(
            f"{where} must have a range, but scipy.stats.{name} goes from {low} to {high}: give (low, high) instead"
        )
    if hasattr(frozen.dist, "pmf"):
        return drbo.Integer(round(low), round(high))
    return (drbo.Log if name in ("loguniform", "reciprocal") else drbo.Real)(low, high)
