"""Parameters with labels as values: Categorical (unordered) and Ordinal (ordered)."""

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
    """One of several labels, passed as separate arguments.

    A label is text, a number, True or False, None, a tuple of these, a member of an Enum, or a frozen dataclass. Such
    values can be saved and compared with later ones.
    """

    def __init__(self, *choices: Any) -> None:
        if len(choices) == 1 and isinstance(choices[0], list | tuple | set):
            kind = type(self).__name__
            raise TypeError(f"choices must be given one by one, {kind}('a', 'b'), got {choices[0]!r}")
        self._take(choices)

    def _take(self, choices: tuple[Any, ...]) -> None:
        """Store the choices, after checking that they are distinct labels."""
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
        """Return the constructor arguments, for `from_arguments`."""
        return {"choices": self.choices}

    @classmethod
    def from_arguments(cls, choices: tuple[Any, ...]) -> Self:
        """Return the parameter with these choices; a single choice may be a tuple."""
        made = cls.__new__(cls)
        made._take(choices)
        return made

    @property
    def origin(self) -> float:
        """Zero: the position of the first ordered label. Unordered labels have distances but no positions."""
        return 0.0

    @property
    def count(self) -> int:
        """The number of choices."""
        return len(self.choices)

    def index(self, name: str, value: Any) -> int:
        """Return the position of a value among the choices."""
        with contextlib.suppress(KeyError, TypeError):  # TypeError: unhashable values, such as an array
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
    """One of several unordered choices; all pairs are equally far apart."""

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
        """The factor that scales the distance of two choices, sqrt(2) in the unit cube, to 1."""
        return math.sqrt(0.5)

    @property
    def extent(self) -> float:
        """One: the distance between two different choices."""
        return 1.0

    def decode(self, coordinates: FloatArray) -> Any:
        """Return the choice with the largest coordinate."""
        return self.choices[int(np.argmax(coordinates))]

    @property
    def ends(self) -> FloatArray:
        """The coordinates of every choice."""
        return self.levels(np.arange(self.count))

    def levels(self, indices: NDArray[np.intp]) -> FloatArray:
        """Return one-hot coordinates (n, count)."""
        return np.eye(self.count)[indices]


class Ordinal(Labelled):
    """One of several ordered choices, neighbours one step apart: `Ordinal("young", "middle", "old")`."""

    @property
    def unit(self) -> float:
        """The number of steps from the first choice to the last; 1 if there is only one choice."""
        return float(max(self.count - 1, 1))

    def decode(self, coordinates: FloatArray) -> Any:
        """Return the choice at the coordinate."""
        return self.choices[min(max(round(float(coordinates[0]) * self.unit), 0), self.count - 1)]

    def levels(self, indices: NDArray[np.intp]) -> FloatArray:
        """Return i / (count - 1), (n, 1): evenly spaced from 0 to 1."""
        return np.asarray(indices[:, None] / self.unit)
