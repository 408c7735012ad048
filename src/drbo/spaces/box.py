"""What we choose from, and what nature chooses from: finite sets of points, and boxes of named parameters.

The models behind the optimizer see points of R^d alone. A finite set is used as it is, a box as a unit cube:

    (low, high)       (v - low) / (high - low)                     one coordinate
    Log(low, high)    log(v / low) / log(high / low)               one coordinate
    Integer(low, high)  as a real number, at whole numbers only    one coordinate
    Categorical(...)  1 at the choice, 0 elsewhere                 one coordinate a choice

Values in and out are in the user's units; scaling is nobody else's business.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drbo import validation
from drbo.validation import FloatArray


class FiniteSet:
    """A finite set of points (n, d), in a fixed order; a flat sequence of n numbers is n points on a line."""

    def __init__(self, name: str, points: ArrayLike) -> None:
        self.name = name
        self.points: FloatArray = validation.frozen(validation.points(name, points))
        self._span = np.ptp(self.points, axis=0)

    def __repr__(self) -> str:
        return f"{len(self)} {self.name}"

    def __len__(self) -> int:
        return len(self.points)

    def index_of(self, point: ArrayLike) -> int:
        """Return the index of the point equal to `point` (d,), up to 1e-9 of the set's extent in each dimension."""
        one = self.name.removesuffix("s")
        given = np.atleast_1d(validation.finite_array(one, point))
        if given.shape != self.points.shape[1:]:
            raise ValueError(f"{one} must be a point of {self.points.shape[1]} dimension(s), got {point!r}")
        tolerance = 1e-9 * self._span + 4.0 * np.finfo(float).eps * np.abs(given) + np.finfo(float).tiny
        off = (np.abs(self.points - given) / tolerance).max(axis=1)
        nearest = int(np.argmin(off))
        if off[nearest] > 1.0:
            raise ValueError(
                f"{one} must be one of the {self.name}, got {given.tolist()}; the nearest one is "
                f"{self.points[nearest].tolist()}"
            )
        return nearest

    def check_index(self, name: str, index: Any) -> int:
        """Return `index` as an int that counts from 0 to n - 1."""
        i = validation.integer(name, index)
        if not 0 <= i < len(self):
            raise ValueError(f"{name} must be from 0 to {len(self) - 1}, got {i}")
        return i


@dataclass(frozen=True, eq=False)
class Frame:
    """How the points of a finite set are scaled for the model: (points - low) / span."""

    low: FloatArray
    span: FloatArray

    @classmethod
    def of(cls, space: FiniteSet, unit_cube: bool) -> Self:
        """Return the frame that maps the set to the unit cube, or leaves it as it is."""
        low, span = space.points.min(axis=0), np.ptp(space.points, axis=0)
        if not unit_cube:
            return cls(np.zeros_like(low), np.ones_like(span))
        return cls(low, np.where(span > 0.0, span, 1.0))

    def scaled(self, points: FloatArray) -> FloatArray:
        """Return the points (n, d) in the model's coordinates."""
        return np.asarray((points - self.low) / self.span)


class Parameter(ABC):
    """One named parameter of a box."""

    width: int = 1
    """How many coordinates of the unit cube it takes."""

    @abstractmethod
    def encode(self, name: str, value: Any) -> list[float]:
        """Return the coordinates of a value, which must be one of the parameter's."""

    @abstractmethod
    def decode(self, coordinates: FloatArray) -> Any:
        """Return the value at coordinates (width,)."""

    @property
    def count(self) -> int | None:
        """How many values it has, or None if they form an interval."""
        return None

    def levels(self, indices: NDArray[np.intp]) -> FloatArray:
        """Return the coordinates (n, width) of the values with these indices (n,), from 0 to count - 1."""
        del indices
        raise TypeError(f"the values of {self!r} form an interval")


@dataclass(frozen=True)
class Real(Parameter):
    """A real number between two bounds; in a box, `(low, high)` stands for it."""

    low: float
    high: float

    def __post_init__(self) -> None:
        low, high = validation.finite_float("low", self.low), validation.finite_float("high", self.high)
        if not low < high:
            raise ValueError(f"low must be less than high, got {low} and {high}")

    def encode(self, name: str, value: Any) -> list[float]:
        """Return (v - low) / (high - low)."""
        number = _inside(name, value, self.low, self.high)
        return [(number - self.low) / (self.high - self.low)]

    def decode(self, coordinates: FloatArray) -> float:
        """Return the number, never outside its bounds."""
        share = float(coordinates[0])
        return min(max(self.low + share * (self.high - self.low), self.low), self.high)


@dataclass(frozen=True)
class Log(Parameter):
    """A positive number between two bounds that matters by its order of magnitude."""

    low: float
    high: float

    def __post_init__(self) -> None:
        low, high = validation.positive_float("low", self.low), validation.positive_float("high", self.high)
        if not low < high:
            raise ValueError(f"low must be less than high, got {low} and {high}")

    def encode(self, name: str, value: Any) -> list[float]:
        """Return log(v / low) / log(high / low)."""
        number = _inside(name, value, self.low, self.high)
        return [math.log(number / self.low) / math.log(self.high / self.low)]

    def decode(self, coordinates: FloatArray) -> float:
        """Return the number, never outside its bounds."""
        value = self.low * math.exp(float(coordinates[0]) * math.log(self.high / self.low))
        return min(max(value, self.low), self.high)


@dataclass(frozen=True)
class Integer(Parameter):
    """A whole number between two bounds, both included."""

    low: int
    high: int

    def __post_init__(self) -> None:
        for name, value in (("low", self.low), ("high", self.high)):
            if not isinstance(value, int) or isinstance(value, bool):
                raise TypeError(f"{name} must be a whole number, got {value!r}")
        if not self.low <= self.high:
            raise ValueError(f"low must not exceed high, got {self.low} and {self.high}")

    def encode(self, name: str, value: Any) -> list[float]:
        """Return (v - low) / (high - low), 0 if there is one value only."""
        number = _inside(name, value, self.low, self.high)
        if number != round(number):
            raise ValueError(f"{name} must be a whole number, got {value!r}")
        return [(number - self.low) / max(self.high - self.low, 1)]

    def decode(self, coordinates: FloatArray) -> int:
        """Return the whole number at the coordinate."""
        return round(self.low + float(coordinates[0]) * (self.high - self.low))

    @property
    def count(self) -> int:
        """How many whole numbers there are."""
        return self.high - self.low + 1

    def levels(self, indices: NDArray[np.intp]) -> FloatArray:
        """Return i / (high - low), (n, 1), as `encode` does."""
        return np.asarray(indices[:, None] / max(self.high - self.low, 1))


class Categorical(Parameter):
    """One of several choices, none of them closer to one than to another."""

    def __init__(self, *choices: Any) -> None:
        if len(choices) == 1 and isinstance(choices[0], list | tuple | set):
            raise TypeError(f"choices must be given one by one, Categorical('a', 'b'), got {choices[0]!r}")
        if not choices or len(set(choices)) != len(choices):
            raise ValueError(f"choices must be different from one another, and at least one, got {choices!r}")
        self.choices = choices
        self.width = len(choices)

    def __repr__(self) -> str:
        return f"Categorical({', '.join(map(repr, self.choices))})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Categorical) and self.choices == other.choices

    def __hash__(self) -> int:
        return hash(self.choices)

    def encode(self, name: str, value: Any) -> list[float]:
        """Return 1 at the choice, 0 elsewhere."""
        chosen = [_equal(choice, value) for choice in self.choices]
        if not any(chosen):
            raise ValueError(f"{name} must be one of {', '.join(map(repr, self.choices))}, got {value!r}")
        return [float(one) for one in chosen]

    def decode(self, coordinates: FloatArray) -> Any:
        """Return the choice of the largest coordinate."""
        return self.choices[int(np.argmax(coordinates))]

    @property
    def count(self) -> int:
        """How many choices there are."""
        return len(self.choices)

    def levels(self, indices: NDArray[np.intp]) -> FloatArray:
        """Return 1 at each choice, 0 elsewhere, (n, count)."""
        return np.eye(self.count)[indices]


class Box:
    """Named parameters, each with its own range: `Box(setpoint=(18.0, 24.0), stages=Integer(1, 4))`."""

    def __init__(self, **parameters: tuple[float, float] | Parameter) -> None:
        if not parameters:
            raise TypeError("Box needs at least one named parameter, such as Box(x=(0.0, 1.0))")
        self.parameters: dict[str, Parameter] = {name: _parameter(name, given) for name, given in parameters.items()}
        self.dimension = sum(parameter.width for parameter in self.parameters.values())
        ends = np.cumsum([0, *(parameter.width for parameter in self.parameters.values())])
        self._slices = {
            name: slice(int(a), int(b)) for name, (a, b) in zip(self.parameters, itertools.pairwise(ends), strict=True)
        }

    def __repr__(self) -> str:
        return f"Box({', '.join(f'{name}={parameter!r}' for name, parameter in self.parameters.items())})"

    @property
    def continuous(self) -> NDArray[np.bool_]:
        """Which coordinates of the unit cube move freely, (dimension,)."""
        return np.concatenate([np.full(p.width, p.count is None) for p in self.parameters.values()])

    def encode(self, name: str, values: Mapping[str, Any]) -> FloatArray:
        """Return the coordinates (dimension,) of a mapping from each parameter's name to its value."""
        values = validation.by_name(values)
        if not isinstance(values, Mapping):
            raise TypeError(f"{name} must map {', '.join(self.parameters)} to values, got {values!r}")
        missing, unknown = self.parameters.keys() - values.keys(), values.keys() - self.parameters.keys()
        if missing or unknown:
            in_order = ", ".join(name for name in self.parameters if name in missing)
            wrong = f"lacks {in_order}" if missing else f"has unknown {', '.join(sorted(map(str, unknown)))}"
            raise ValueError(f"{name} {wrong}; its parameters are {', '.join(self.parameters)}")
        coordinates = (p.encode(f"{name}[{key!r}]", values[key]) for key, p in self.parameters.items())
        return np.array(list(itertools.chain(*coordinates)))

    def decode(self, point: FloatArray) -> dict[str, Any]:
        """Return the values at coordinates (dimension,)."""
        return {name: parameter.decode(point[self._slices[name]]) for name, parameter in self.parameters.items()}

    def discrete_parts(self, most: int = 4096) -> FloatArray | None:
        """Return every combination of the whole numbers and choices (k, dimension), free coordinates left at zero.

        None if there are more than `most`; one row of zeros if every coordinate is free.
        """
        counts = {name: p.count for name, p in self.parameters.items() if p.count is not None}
        total = math.prod(counts.values())
        if total > most:
            return None
        parts = np.zeros((total, self.dimension))
        indices = np.unravel_index(np.arange(total), tuple(counts.values())) if counts else ()
        for name, index in zip(counts, indices, strict=True):
            parts[:, self._slices[name]] = self.parameters[name].levels(index)
        return parts

    def sample(self, count: int, seed: int) -> FloatArray:
        """Return well-spread points (count, dimension) of the box: scrambled Sobol points, each on its levels."""
        cube = spread(count, len(self.parameters), seed)
        points = np.empty((count, self.dimension))
        for column, (name, parameter) in enumerate(self.parameters.items()):
            at = cube[:, column]
            if parameter.count is None:
                points[:, self._slices[name]] = at[:, None]
            else:
                index = np.minimum((at * parameter.count).astype(np.intp), parameter.count - 1)
                points[:, self._slices[name]] = parameter.levels(index)
        return points


def spread(count: int, dimension: int, seed: int) -> FloatArray:
    """Return well-spread points (count, dimension) of the unit cube: the first of a scrambled Sobol sequence."""
    from scipy.stats import qmc  # it takes as long to import as the rest of the library

    return qmc.Sobol(dimension, seed=seed).random_base2(max(math.ceil(math.log2(max(count, 1))), 0))[:count]


def _parameter(name: str, given: tuple[float, float] | Parameter) -> Parameter:
    if isinstance(given, Parameter):
        return given
    if isinstance(given, tuple | list) and len(given) == 2:
        low, high = validation.finite_float(f"{name}[0]", given[0]), validation.finite_float(f"{name}[1]", given[1])
        if not low < high:
            raise ValueError(f"{name} must be (low, high) with low less than high, got {given!r}")
        return Real(low, high)
    raise TypeError(f"{name} must be (low, high), Log, Integer or Categorical, got {given!r}")


def _equal(choice: Any, value: Any) -> bool:
    """Return whether a value is that choice; what cannot be compared, such as a missing one, is not."""
    try:
        return bool(choice == value)
    except (TypeError, ValueError):
        return False


def _inside(name: str, value: Any, low: float, high: float) -> float:
    number = validation.finite_float(name, value)
    slack = 1e-9 * (high - low)
    if not low - slack <= number <= high + slack:
        raise ValueError(f"{name} must be from {low} to {high}, got {number}")
    return min(max(number, low), high)
