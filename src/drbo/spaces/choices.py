"""Parameters that are one of several labels: choices, and choices in an order."""

from __future__ import annotations

import contextlib
import math
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from drbo import validation
from drbo.spaces.columns import Column
from drbo.spaces.parameters import MOST_COORDINATES, Parameter
from drbo.validation import FloatArray

__all__ = ["Categorical", "Ordinal"]


class Labelled(Parameter):
    """One of several labels, given one by one.

    A label is text, a number, True or False, None, a tuple of these, a member of an Enum, or a frozen dataclass: what
    can be saved, and compared with what is told later.
    """

    def __init__(self, *choices: Any) -> None:
        if len(choices) == 1 and isinstance(choices[0], list | tuple | set):
            kind = type(self).__name__
            raise TypeError(f"choices must be given one by one, {kind}('a', 'b'), got {choices[0]!r}")
        self._take(choices)

    def _take(self, choices: tuple[Any, ...]) -> None:
        """Take the choices, after checking that they are labels and different."""
        self.choices = tuple(validation.label("choices", choice) for choice in choices)
        self._positions = {choice: i for i, choice in enumerate(self.choices)}
        if not choices or len(self._positions) != len(choices):
            raise ValueError(f"choices must be different from one another, and at least one, got {choices!r}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.choices))})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Labelled) and type(self) is type(other) and self.choices == other.choices

    def __hash__(self) -> int:
        return hash((type(self), self.choices))

    def arguments(self) -> dict[str, Any]:
        """Return what the parameter was made of, for `from_arguments`."""
        return {"choices": self.choices}

    @classmethod
    def from_arguments(cls, choices: tuple[Any, ...]) -> Self:
        """Return the parameter of these choices, of which a single one may be a tuple."""
        made = cls.__new__(cls)
        made._take(choices)
        return made

    @property
    def origin(self) -> float:
        """Zero: the first label of an order; without one, labels have no position, only distances."""
        return 0.0

    @property
    def count(self) -> int:
        """How many choices there are."""
        return len(self.choices)

    def index(self, name: str, value: Any) -> int:
        """Return the position of a value among the choices."""
        with contextlib.suppress(KeyError, TypeError):  # TypeError: what cannot be hashed, such as an array
            return self._positions[value]
        raise ValueError(f"{name} must be one of {', '.join(map(repr, self.choices))}, got {value!r}")

    def encode(self, name: str, value: Any) -> list[float]:
        """Return the coordinates of a choice."""
        coordinates: list[float] = self.levels(np.array([self.index(name, value)]))[0].tolist()
        return coordinates

    def column(self, name: str | None, first: int) -> Column:
        """Return the column of the labels."""
        levels = self.origin + self.unit * self.levels(np.arange(self.count))
        return Column(name, first, self.width, labels=self.choices, levels=levels)


class Categorical(Labelled):
    """One of several choices, none of them closer to one than to another."""

    def _take(self, choices: tuple[Any, ...]) -> None:
        if len(choices) > MOST_COORDINATES:
            raise ValueError(
                f"choices of a Categorical must be at most {MOST_COORDINATES:,}, as each is a coordinate of its own, "
                f"got {len(choices):,}: group them, or use an Ordinal where they have an order"
            )
        super()._take(choices)
        self.width = len(choices)

    @property
    def unit(self) -> float:
        """The number that puts two choices, sqrt(2) apart in the unit cube, at a distance of 1."""
        return math.sqrt(0.5)

    @property
    def extent(self) -> float:
        """One: two choices are equal or not."""
        return 1.0

    def decode(self, coordinates: FloatArray) -> Any:
        """Return the choice of the largest coordinate."""
        return self.choices[int(np.argmax(coordinates))]

    @property
    def ends(self) -> FloatArray:
        """The coordinates of every choice."""
        return self.levels(np.arange(self.count))

    def levels(self, indices: NDArray[np.intp]) -> FloatArray:
        """Return 1 at each choice, 0 elsewhere, (n, count)."""
        return np.eye(self.count)[indices]


class Ordinal(Labelled):
    """One of several choices in an order, neighbours one step apart: `Ordinal("young", "middle", "old")`."""

    @property
    def unit(self) -> float:
        """How many steps lie between the first choice and the last; 1 if there is one choice only."""
        return float(max(self.count - 1, 1))

    def decode(self, coordinates: FloatArray) -> Any:
        """Return the choice at the coordinate."""
        return self.choices[min(max(round(float(coordinates[0]) * self.unit), 0), self.count - 1)]

    def levels(self, indices: NDArray[np.intp]) -> FloatArray:
        """Return i / (count - 1), (n, 1): evenly spaced from 0 to 1."""
        return np.asarray(indices[:, None] / self.unit)
