"""Constraints on the actions of a box, in the user's units.

    Total("a", "b", "c", equals=1.0)                            a + b + c = 1: shares, budgets
    LinearConstraint({"off": 1, "on": -1}, at_least=0.5)        off - on >= 0.5: an order, a distance
    AtMostActive("x1", ..., "x9", count=3)                      at most three of the nine are not zero
    def fits(action): return action["width"] * action["height"] <= 40.0          any function of the action

`drbo.spaces.feasible` has the geometry of the actions that satisfy them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from drbo import validation
from drbo._messages import printable

__all__ = ["AtMostActive", "LinearConstraint", "Total"]


@dataclass(frozen=True)
class LinearConstraint:
    """A bound on a weighted sum of numbers: `LinearConstraint({"off": 1, "on": -1}, at_least=0.5)`.

    Parameters
    ----------
    coefficients : the factor of each parameter, by name
    at_least, at_most : bounds of the sum, one or both
    equals : the value of the sum, instead of bounds
    """

    coefficients: Mapping[str, float]
    at_least: float | None = None
    at_most: float | None = None
    equals: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.coefficients, Mapping) or not self.coefficients:
            raise TypeError(f"coefficients must map names to numbers, such as {{'x': 1.0}}, got {self.coefficients!r}")
        named = {
            _name("coefficients", name): validation.finite_float(f"coefficients[{name!r}]", factor)
            for name, factor in self.coefficients.items()
        }
        if not any(named.values()):
            raise ValueError(f"coefficients must not all be zero, got {self.coefficients!r}")
        object.__setattr__(self, "coefficients", named)
        for side in ("at_least", "at_most", "equals"):
            if getattr(self, side) is not None:
                object.__setattr__(self, side, validation.finite_float(side, getattr(self, side)))
        if self.at_least is None and self.at_most is None and self.equals is None:
            raise TypeError(f"{type(self).__name__} needs at_least, at_most or equals")
        if self.equals is not None and not (self.at_least is None and self.at_most is None):
            raise TypeError("equals must not be given together with at_least or at_most")
        low, high = self.bounds
        if low > high:
            raise ValueError(f"at_least must not exceed at_most, got {low} and {high}")

    def __repr__(self) -> str:
        factors = ", ".join(f"{printable(name)!r}: {factor:g}" for name, factor in self.coefficients.items())
        return f"LinearConstraint({{{factors}}}, {self._sides()})"

    def _sides(self) -> str:
        sides = {side: getattr(self, side) for side in ("at_least", "at_most", "equals")}
        return ", ".join(f"{side}={value:g}" for side, value in sides.items() if value is not None)

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest permitted sum."""
        if self.equals is not None:
            return self.equals, self.equals
        return (
            -math.inf if self.at_least is None else self.at_least,
            math.inf if self.at_most is None else self.at_most,
        )


class Total(LinearConstraint):
    """A bound on the sum of numbers: `Total("a", "b", "c", equals=1.0)`.

    Parameters
    ----------
    names : the parameters
    equals : the value of the sum
    at_least, at_most : bounds of the sum instead, one or both
    """

    def __init__(
        self, *names: str, equals: float | None = None, at_least: float | None = None, at_most: float | None = None
    ) -> None:
        super().__init__(dict.fromkeys(_several("Total", names), 1.0), at_least, at_most, equals)

    def __repr__(self) -> str:
        return f"Total({', '.join(repr(printable(name)) for name in self.coefficients)}, {self._sides()})"

    def arguments(self) -> dict[str, Any]:
        """Return the constructor arguments, for `from_arguments`."""
        sides = {"equals": self.equals, "at_least": self.at_least, "at_most": self.at_most}
        return {"names": tuple(self.coefficients), **sides}

    @classmethod
    def from_arguments(cls, names: tuple[str, ...], **sides: float | None) -> Self:
        """Return the constraint with these arguments."""
        return cls(*names, **sides)


@dataclass(frozen=True, init=False)
class AtMostActive:
    """At most `count` of several numbers differ from zero: `AtMostActive("x1", "x2", "x3", count=2)`.

    Parameters
    ----------
    names : the parameters; zero must be a value of each
    count : the largest number of them that are not zero
    """

    names: tuple[str, ...]
    count: int

    def __init__(self, *names: str, count: int) -> None:
        object.__setattr__(self, "names", _several("AtMostActive", names))
        object.__setattr__(self, "count", validation.whole_number("count", count, least=0, most=len(names)))

    def __repr__(self) -> str:
        return f"AtMostActive({', '.join(repr(printable(name)) for name in self.names)}, count={self.count})"

    @classmethod
    def from_arguments(cls, names: tuple[str, ...], count: int) -> Self:
        """Return the constraint with these arguments."""
        return cls(*names, count=count)


Function = Callable[[dict[str, Any]], bool]
Constraint = LinearConstraint | AtMostActive | Function


def checked(given: Any) -> tuple[Constraint, ...]:
    """Return the constraints of a box; raise if one is none."""
    if isinstance(given, LinearConstraint | AtMostActive) or callable(given):
        return (given,)
    if not isinstance(given, list | tuple):
        raise TypeError(f"constraints must be a list such as [drbo.Total('a', 'b', equals=1.0)], got {given!r}")
    for i, one in enumerate(given):
        if not (isinstance(one, LinearConstraint | AtMostActive) or (callable(one) and not isinstance(one, type))):
            raise TypeError(
                f"constraints[{i}] must be a Total, a LinearConstraint, an AtMostActive or a function of the action, "
                f"got {one!r}; a parameter with the name constraints goes into a mapping, Box({{'constraints': ...}})"
            )
    return tuple(given)


def called(constraint: Any) -> str:
    """Return the name of a constraint in a message."""
    name = getattr(constraint, "__qualname__", None)
    return repr(constraint) if name is None else f"the function {printable(name)}"


def _name(of: str, name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"{of} must be named by text, got {name!r}")
    return name


def _several(kind: str, names: tuple[Any, ...]) -> tuple[str, ...]:
    """Return checked names, at least one, each once."""
    if not names:
        raise TypeError(f"{kind} needs the names of parameters, such as {kind}('a', 'b', ...)")
    for name in names:
        _name(f"the parameters of {kind}", name)
    if len(set(names)) != len(names):
        raise ValueError(f"{kind} must name each parameter once, got {', '.join(map(repr, names))}")
    return names
