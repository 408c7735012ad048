"""Optuna's distributions as parameters of a box, with Optuna's values."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
    distribution_to_json,
)

import drbo
from drbo.spaces.parameters import Fixed
from drbo.spaces.space import Column
from drbo.validation import FloatArray

_SLACK = 1e-9
"""Tolerance outside a range, as a share of it: rounding of a change of units."""


@dataclass(frozen=True)
class Levels(drbo.spaces.Parameter):
    """Numbers low, low + step, ..., high; on a logarithmic scale if `log`, and whole if `whole`."""

    low: float
    high: float
    step: float
    log: bool
    whole: bool

    @property
    def origin(self) -> float:
        return math.log(self.low) if self.log else float(self.low)

    @property
    def unit(self) -> float:
        return math.log(self.high / self.low) if self.log else float(self.high - self.low)

    @property
    def count(self) -> int:
        return round((self.high - self.low) / self.step) + 1

    def column(self, name: str | None, first: int) -> Column:
        return replace(super().column(name, first), logarithmic=self.log)

    def levels(self, indices: NDArray[np.intp]) -> FloatArray:
        values = self.low + indices[:, None] * self.step
        return np.asarray(np.log(values / self.low) / self.unit if self.log else indices[:, None] / (self.count - 1))

    def encode(self, name: str, value: Any) -> list[float]:
        """Return the coordinate of a number, which must be one of the levels."""
        index = round((float(value) - self.low) / self.step)
        off = abs(float(value) - self.low - index * self.step)
        if not 0 <= index < self.count or off > 1e-6 * self.step:
            raise ValueError(f"{name} must be {self.low}, {self.low + self.step}, ..., {self.high}, got {value!r}")
        return [float(self.levels(np.array([index]))[0, 0])]

    def decode(self, coordinates: FloatArray) -> float | int:
        """Return the number nearest to a coordinate."""
        share = float(coordinates[0]) * self.unit
        position = self.low * math.expm1(share) if self.log else share
        index = min(max(round(position / self.step), 0), self.count - 1)
        value = min(self.low + index * self.step, self.high)
        return round(value) if self.whole else float(value)


class Pinned(Fixed):
    """A parameter that is searched at one value in this trial. Results at other values keep their coordinates."""

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        return {"of": self.of, "name": "value", "value": self.value}

    def encode(self, name: str, value: Any) -> list[float]:
        return self.of.encode(name, value)

    def decode(self, coordinates: FloatArray) -> Any:
        return self.of.decode(coordinates)


def parameter_of(distribution: BaseDistribution) -> drbo.spaces.Parameter:
    """Return the box parameter with the values and the scale of a distribution of several values."""
    if isinstance(distribution, CategoricalDistribution):
        return drbo.Categorical(*dict.fromkeys(distribution.choices))
    if isinstance(distribution, IntDistribution):
        if distribution.step == 1 and not distribution.log:
            return drbo.Integer(distribution.low, distribution.high)
        return Levels(distribution.low, distribution.high, distribution.step, distribution.log, whole=True)
    assert isinstance(distribution, FloatDistribution)  # Optuna has these three
    if distribution.step is not None:
        return Levels(distribution.low, distribution.high, distribution.step, log=False, whole=False)
    return (drbo.Log if distribution.log else drbo.Real)(distribution.low, distribution.high)


def value_at(distribution: BaseDistribution, share: float) -> Any:
    """Return the value of a distribution at a share of its range, from 0 to 1."""
    if distribution.single():
        return distribution.choices[0] if isinstance(distribution, CategoricalDistribution) else distribution.low  # type: ignore[attr-defined]
    parameter = parameter_of(distribution)
    if parameter.count is None:
        return parameter.decode(np.array([share]))
    index = min(int(share * parameter.count), parameter.count - 1)
    return parameter.decode(parameter.levels(np.array([index]))[0])


def well_spread(seed: int, position: int, number: int) -> float:
    """Return coordinate `position` of point `number` of the Richtmyer sequence, which fills the unit cube evenly."""
    shift = float(np.random.default_rng([seed, position]).random())
    return (shift + number * math.sqrt(_prime(position))) % 1.0


def _prime(position: int) -> int:
    """Return the prime number of a position, 2 at 0."""
    found: list[int] = []
    candidate = 2
    while len(found) <= position:
        if all(candidate % prime for prime in found):
            found.append(candidate)
        candidate += 1
    return found[-1]


def fitted(value: Any, distribution: BaseDistribution) -> tuple[bool, Any]:
    """Return whether a distribution has a value, and the value rounded and clipped to the distribution."""
    if isinstance(distribution, CategoricalDistribution):
        return value in distribution.choices, value
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return False, value
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    slack = _SLACK * (abs(distribution.low) + abs(distribution.high))
    number = min(max(value, distribution.low), distribution.high)
    if isinstance(distribution, IntDistribution):
        number = round(number)
    elif distribution.step is not None:
        index = round((number - distribution.low) / distribution.step)
        number = min(distribution.low + index * distribution.step, distribution.high)
    on_a_step = not isinstance(distribution, IntDistribution) or (number - distribution.low) % distribution.step == 0
    return on_a_step and abs(number - value) <= slack, number


def box_of(
    space: Mapping[str, BaseDistribution], pinned: Mapping[str, Any], constraints: Sequence[Any] = ()
) -> drbo.Box:
    """Return the box of a search space; constraints that fixed values contradict do not apply."""
    parameters = {name: parameter_of(distribution) for name, distribution in space.items()}
    whole = drbo.Box(parameters, constraints=constraints)  # raises if the constraints cannot hold at all
    if not pinned:
        return whole
    fixed = {name: Pinned(p, name, pinned[name]) if name in pinned else p for name, p in parameters.items()}
    try:
        return drbo.Box(fixed, constraints=constraints)
    except ValueError:
        return drbo.Box(fixed)


def digest(space: Mapping[str, BaseDistribution]) -> str:
    """Return a digest of a search space."""
    text = json.dumps({name: distribution_to_json(distribution) for name, distribution in space.items()})
    return hashlib.sha256(text.encode()).hexdigest()[:16]
