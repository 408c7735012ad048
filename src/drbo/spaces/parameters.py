"""The parameters of a box: real, logarithmic, whole numbers, unordered choices, and ordered choices.

Coordinates in the unit cube, which the model sees, and positions in the user's units, which ambiguity sets use:

    (low, high)         (v - low) / (high - low)           one coordinate       v
    Log(low, high)      log(v / low) / log(high / low)     one coordinate       log(v)
    Integer(low, high)  as a real number, at whole numbers only                 v
    Categorical(...)    1 at the choice, 0 elsewhere       one per choice       choices are 1 apart, or equal
    Ordinal(...)        i / (count - 1) for choice i       one coordinate       i: neighbours are 1 apart
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drbo import validation
from drbo.spaces.space import Column
from drbo.validation import FloatArray

__all__ = ["Integer", "Log", "Real"]

MOST_COORDINATES = 2000
"""Largest number of coordinates of a box, of unordered labels, and of a learned model: cost grows with its square."""

_LARGEST_INTEGER = 2**53
"""Beyond this, not every whole number is a floating-point number."""

_ROUNDING = 1e-9
"""Largest distance of a coordinate from that of a value."""


class Parameter(ABC):
    """One named parameter of a box."""

    width: int = 1
    """The number of unit-cube coordinates."""

    @property
    @abstractmethod
    def origin(self) -> float:
        """The position of coordinate 0 in the user's units."""

    @property
    @abstractmethod
    def unit(self) -> float:
        """The size of one coordinate unit in the user's units."""

    @property
    def extent(self) -> float:
        """The largest distance between two values, in the user's units."""
        return self.unit

    @abstractmethod
    def encode(self, name: str, value: Any) -> list[float]:
        """Return the coordinates of a value; raise if it is not a value of the parameter."""

    @abstractmethod
    def decode(self, coordinates: FloatArray) -> Any:
        """Return the value at coordinates (width,)."""

    @property
    def count(self) -> int | None:
        """The number of values; None if they form an interval."""
        return None

    def has_value_at(self, coordinates: FloatArray) -> bool:
        """Return whether a value lies at coordinates (width,), up to rounding."""
        if self.count is None:
            return bool((np.abs(coordinates - 0.5) <= 0.5 + _ROUNDING).all())
        inside = bool((np.abs(coordinates) <= 2.0).all())
        return inside and np.allclose(self.encode("", self.decode(coordinates)), coordinates, rtol=0.0, atol=_ROUNDING)

    def column(self, name: str | None, first: int) -> Column:
        """Return the column of this parameter; `first` is its first coordinate."""
        return Column(name, first, step=self.extent / math.sqrt(12.0))

    @property
    def ends(self) -> FloatArray:
        """The coordinates (k, width) of the extreme values: the two bounds, or every choice."""
        return np.array([[0.0], [1.0]])

    def levels(self, indices: NDArray[np.intp]) -> FloatArray:
        """Return the coordinates (n, width) of the values with these indices (n,), from 0 to count - 1."""
        del indices
        raise TypeError(f"the values of {self!r} form an interval")


@dataclass(frozen=True)
class Real(Parameter):
    """A real number between two bounds; `(low, high)` in a box means `Real(low, high)`."""

    low: float
    high: float

    def __post_init__(self) -> None:
        low, high = validation.finite_float("low", self.low), validation.finite_float("high", self.high)
        if not low < high:
            raise ValueError(f"low must be less than high, got {low} and {high}")
        if not math.isfinite(high - low):
            raise ValueError(f"high - low must be finite, got {low} and {high}")

    @property
    def origin(self) -> float:
        return self.low

    @property
    def unit(self) -> float:
        return self.high - self.low

    def encode(self, name: str, value: Any) -> list[float]:
        """Return (v - low) / (high - low)."""
        number = _inside(name, value, self.low, self.high)
        return [(number - self.low) / (self.high - self.low)]

    def decode(self, coordinates: FloatArray) -> float:
        share = float(coordinates[0])
        return min(max(self.low + share * (self.high - self.low), self.low), self.high)


@dataclass(frozen=True)
class Observed(Parameter):
    """A number with an observed range; other values may lie outside the range."""

    least: float
    largest: float

    @property
    def origin(self) -> float:
        return self.least

    @property
    def unit(self) -> float:
        return self.largest - self.least or 1.0

    def encode(self, name: str, value: Any) -> list[float]:
        """Return (v - minimum) / range, below 0 or above 1 for a number outside the range."""
        return [(validation.finite_float(name, value) - self.least) / self.unit]

    def has_value_at(self, coordinates: FloatArray) -> bool:
        del coordinates
        return True

    def decode(self, coordinates: FloatArray) -> float:
        return self.least + float(coordinates[0]) * self.unit


@dataclass(frozen=True)
class ObservedWhole(Observed):
    """A whole number with an observed range; other whole numbers may lie outside the range."""

    def encode(self, name: str, value: Any) -> list[float]:
        number = validation.finite_float(name, value)
        if number != round(number):
            raise ValueError(f"{name} must be a whole number, as in the log, got {value!r}")
        return super().encode(name, number)

    def decode(self, coordinates: FloatArray) -> int:
        return round(super().decode(coordinates))

    @property
    def count(self) -> int:
        return round(self.largest - self.least) + 1

    @property
    def ends(self) -> FloatArray:
        return self.levels(np.array([0, self.count - 1]))

    def levels(self, indices: NDArray[np.intp]) -> FloatArray:
        """Return i / range, (n, 1), as `encode` does."""
        return np.asarray(indices[:, None] / self.unit)


@dataclass(frozen=True)
class Log(Parameter):
    """A positive number between two bounds, on a logarithmic scale."""

    low: float
    high: float

    def __post_init__(self) -> None:
        low, high = validation.positive_float("low", self.low), validation.positive_float("high", self.high)
        if not low < high:
            raise ValueError(f"low must be less than high, got {low} and {high}")

    @property
    def origin(self) -> float:
        return math.log(self.low)

    @property
    def unit(self) -> float:
        """The range of the logarithm, log(high / low)."""
        return math.log(self.high) - math.log(self.low)

    def encode(self, name: str, value: Any) -> list[float]:
        """Return log(v / low) / log(high / low)."""
        number = _inside(name, value, self.low, self.high)
        return [math.log(number / self.low) / self.unit]

    def decode(self, coordinates: FloatArray) -> float:
        value = self.low * math.exp(float(coordinates[0]) * self.unit)
        return min(max(value, self.low), self.high)

    def column(self, name: str | None, first: int) -> Column:
        return replace(super().column(name, first), logarithmic=True)


@dataclass(frozen=True)
class Integer(Parameter):
    """A whole number between two bounds, both included."""

    low: int
    high: int

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            value = validation.whole_number(name, getattr(self, name))
            if abs(value) > _LARGEST_INTEGER:
                raise ValueError(f"{name} must not exceed 2**53 in size, got {value!r}")
            object.__setattr__(self, name, value)
        if not self.low <= self.high:
            raise ValueError(f"low must not exceed high, got {self.low} and {self.high}")

    @property
    def origin(self) -> float:
        return float(self.low)

    @property
    def unit(self) -> float:
        return float(max(self.high - self.low, 1))

    def encode(self, name: str, value: Any) -> list[float]:
        """Return (v - low) / (high - low), 0 if there is only one value."""
        number = _inside(name, value, self.low, self.high)
        if number != round(number):
            raise ValueError(f"{name} must be a whole number, got {value!r}")
        return [(number - self.low) / max(self.high - self.low, 1)]

    def decode(self, coordinates: FloatArray) -> int:
        return round(self.low + float(coordinates[0]) * (self.high - self.low))

    @property
    def count(self) -> int:
        return self.high - self.low + 1

    @property
    def ends(self) -> FloatArray:
        return self.levels(np.array([0, self.count - 1]))

    def levels(self, indices: NDArray[np.intp]) -> FloatArray:
        """Return i / (high - low), (n, 1), as `encode` does."""
        return np.asarray(indices[:, None] / max(self.high - self.low, 1))


class Fixed(Parameter):
    """A parameter fixed at one known value, with unchanged coordinates."""

    count = 1

    def __init__(self, of: Parameter, name: str, value: Any) -> None:
        """Fix a discrete parameter at one of its values; an error calls the value `name`."""
        self.of, self.width = of, of.width
        self.coordinates = np.array(of.encode(name, value))
        self.value = of.decode(self.coordinates)

    def __repr__(self) -> str:
        return f"{self.value!r} of {self.of!r}"

    @property
    def origin(self) -> float:
        return self.of.origin

    @property
    def unit(self) -> float:
        return self.of.unit

    @property
    def extent(self) -> float:
        return self.of.extent

    def encode(self, name: str, value: Any) -> list[float]:
        coordinates = self.of.encode(name, value)
        if not np.array_equal(coordinates, self.coordinates):
            raise ValueError(f"{name} must be {self.value!r}, which is known, got {value!r}")
        return coordinates

    def decode(self, coordinates: FloatArray) -> Any:
        del coordinates
        return self.value

    @property
    def ends(self) -> FloatArray:
        return self.coordinates[None, :]

    def levels(self, indices: NDArray[np.intp]) -> FloatArray:
        return np.tile(self.coordinates, (len(indices), 1))


def parameter(name: str, given: tuple[float, float] | Parameter) -> Parameter:
    """Return `(low, high)` or a parameter as a parameter; an error calls it `name`."""
    if isinstance(given, Parameter):
        return given
    if isinstance(given, tuple | list) and len(given) == 2:
        low, high = validation.finite_float(f"{name}[0]", given[0]), validation.finite_float(f"{name}[1]", given[1])
        if not low < high:
            raise ValueError(f"{name} must be (low, high) with low less than high, got {given!r}")
        return Real(low, high)
    raise TypeError(f"{name} must be (low, high), Log, Integer, Categorical or Ordinal, got {given!r}")


def _inside(name: str, value: Any, low: float, high: float) -> float:
    number = validation.finite_float(name, value)
    slack = 1e-9 * (high - low)
    if not low - slack <= number <= high + slack:
        raise ValueError(f"{name} must be from {low} to {high}, got {number}")
    return min(max(number, low), high)
