"""Scales of axes: the positions of values as shares of the length, and the ticks."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from drbo.spaces.space import is_number, text
from drbo.validation import FloatArray

PIXELS = 250
"""Side length of an image of cells, in pixels."""
_LETTERS = 34
"""Number of characters, gaps included, that fit under an axis on a phone."""
_TICKS = 6
"""Largest number of ticks."""
_FEW = 12
"""Largest count of whole numbers that are shown as whole numbers."""


class Scale(ABC):
    """The values of one axis in order; `ruled` says whether to draw grid lines at its ticks."""

    ruled: ClassVar[bool] = True

    @classmethod
    @abstractmethod
    def over(cls, values: Sequence[Any], pad: float) -> Self:
        """Return a scale that covers all values; `pad` is the padding of numbers as a share of their range."""

    @abstractmethod
    def at(self, values: Any) -> FloatArray:
        """Return the positions of values: 0 is the lower end of the axis, 1 is the upper end."""

    @abstractmethod
    def ticks(self) -> list[tuple[float, str]]:
        """Return the ticks: positions and names."""

    @abstractmethod
    def data(self) -> dict[str, Any]:
        """Return the scale for the page's script, which turns positions into values."""


@dataclass(frozen=True)
class Numbers(Scale):
    """Numbers between two ends."""

    low: float
    high: float

    @classmethod
    def over(cls, values: Sequence[Any], pad: float) -> Self:
        low, high = _ends(values)
        more = pad * (high - low)
        return cls(low - more, high + more)

    def at(self, values: Any) -> FloatArray:
        return np.asarray((np.array(values, dtype=float) - self.low) / (self.high - self.low))

    def ticks(self) -> list[tuple[float, str]]:
        """Return the ticks at round numbers, as many as fit."""
        for count in range(_TICKS, 1, -1):
            found = self._ticks(count)
            if sum(len(name) + 2 for _, name in found) <= _LETTERS:
                break
        return found

    def data(self) -> dict[str, Any]:
        return {"kind": type(self).__name__.lower(), "low": self.low, "high": self.high}

    def _ticks(self, count: int) -> list[tuple[float, str]]:
        step = self._step((self.high - self.low) / count)
        multiples = np.arange(math.ceil(self.low / step), math.floor(self.high / step) + 1)
        values = multiples * step
        return list(zip(self.at(values).tolist(), (self._name(value, step) for value in values.tolist()), strict=True))

    def _step(self, least: float) -> float:
        """Return the smallest round number from `least` on."""
        power = 10.0 ** math.floor(math.log10(least))
        return next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= least * (1.0 - 1e-9))

    def _name(self, value: float, step: float) -> str:
        """Return a multiple of `step` as text, with enough digits to differ from its neighbours."""
        largest, last = max(abs(self.low), abs(self.high)), math.floor(math.log10(step) + 1e-9)
        if largest < 1e5 and last >= -4:
            name = f"{value:.{max(0, -last)}f}"
        else:
            name = f"{value:.{max(1, math.floor(math.log10(largest)) - last + 1)}g}"
        return name.replace("e+0", "e").replace("e+", "e").replace("e-0", "e-")


class Whole(Numbers):
    """Whole numbers."""

    def _step(self, least: float) -> float:
        return super()._step(max(1.0, least))


class Percentages(Numbers):
    """Shares of a whole, from 0 on."""

    @classmethod
    def over(cls, values: Sequence[Any], pad: float) -> Self:
        return cls(0.0, (1.0 + pad) * max([value for value in values if value > 0.0], default=1.0))

    def _name(self, value: float, step: float) -> str:
        return f"{value:.{max(0, -2 - math.floor(math.log10(step) + 1e-9))}%}"


@dataclass(frozen=True)
class Logarithmic(Scale):
    """Positive numbers on a logarithmic scale; the ends are logarithms to base 10."""

    low: float
    high: float

    @classmethod
    def over(cls, values: Sequence[Any], pad: float) -> Self:
        low, high = (math.log10(end) for end in _ends(values))
        more = pad * (high - low)
        return cls(low - more, high + more)

    def at(self, values: Any) -> FloatArray:
        return np.asarray((np.log10(np.array(values, dtype=float)) - self.low) / (self.high - self.low))

    def ticks(self) -> list[tuple[float, str]]:
        """Return the ticks at powers of ten, and at their multiples by 2 and 5 if there are few."""
        decades = range(math.ceil(self.low), math.floor(self.high) + 1)
        every = max(1, math.ceil(len(decades) / _TICKS))
        values = [float(f"1e{power}") for power in decades[::every]]
        if len(values) < 3:
            around = range(math.floor(self.low), math.ceil(self.high) + 1)
            values = [float(f"{factor}e{power}") for power in around for factor in (1, 2, 5)]
            values = [value for value in values if self.low <= math.log10(value) <= self.high]
        names = (f"{value:g}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e") for value in values)
        return list(zip(self.at(values).tolist(), names, strict=True))

    def data(self) -> dict[str, Any]:
        return {"kind": "factors", "low": self.low, "high": self.high}


@dataclass(frozen=True)
class Names(Scale):
    """Labels side by side."""

    ruled: ClassVar[bool] = False
    values: tuple[Any, ...]

    @classmethod
    def over(cls, values: Sequence[Any], pad: float) -> Self:  # noqa: ARG003 - labels fill their axis
        return cls(tuple(dict.fromkeys(values)))

    def at(self, values: Any) -> FloatArray:
        places = {value: (i + 0.5) / len(self.values) for i, value in enumerate(self.values)}
        return np.array([places[value] for value in values])

    def ticks(self) -> list[tuple[float, str]]:
        return list(zip(self.at(self.values).tolist(), map(text, self.values), strict=True))

    def data(self) -> dict[str, Any]:
        return {"kind": "labels", "values": list(map(text, self.values))}


def scale_of(values: Sequence[Any]) -> type[Scale]:
    """Return the kind of scale for values: labels, numbers, or factors if the values are spaced geometrically."""
    if not is_number(values):
        return Names
    numbers = np.array(values, dtype=float)
    if len(numbers) > 2 and (numbers > 0.0).all() and np.ptp(np.diff(np.log(numbers))) < 1e-6:
        return Logarithmic
    return Whole if len(values) <= _FEW and all(isinstance(value, int) for value in values) else Numbers


def _ends(values: Sequence[Any]) -> tuple[float, float]:
    """Return the smallest and the largest finite value; equal values are moved apart."""
    numbers = np.array(values, dtype=float)
    numbers = numbers[np.isfinite(numbers)]
    low, high = (float(numbers.min()), float(numbers.max())) if len(numbers) else (0.0, 1.0)
    size = max(abs(low), abs(high))
    if high - low > 1e-9 * size:
        return low, high
    return (0.9 * low, 1.1 * high) if low > 0.0 else (low - (0.1 * size or 1.0), high + (0.1 * size or 1.0))


def edges(places: FloatArray) -> list[float]:
    """Return the edges (n + 1,) of n sorted places: halfway to their neighbours."""
    if len(places) < 2:
        return [edge for place in places.tolist() for edge in (place - 0.5, place + 0.5)]
    middle = 0.5 * (places[1:] + places[:-1])
    return [2.0 * places[0] - middle[0], *middle.tolist(), 2.0 * places[-1] - middle[-1]]


def pixels(places: FloatArray) -> tuple[float, float, Any]:
    """Return the start and the end of cells at these places, and the cell of each pixel between."""
    order = np.unique(places, return_index=True)[1]
    ends = np.array(edges(places[order]))
    middles = ends[0] + (np.arange(PIXELS) + 0.5) / PIXELS * (ends[-1] - ends[0])
    return float(ends[0]), float(ends[-1]), order[np.searchsorted(ends[1:-1], middles)]
