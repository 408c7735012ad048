"""A box: named parameters, each with its own range. The model sees it as a unit cube."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drbo import validation
from drbo._messages import listed, printable
from drbo.spaces.constraints import Constraint, called, checked
from drbo.spaces.feasible import Feasible
from drbo.spaces.parameters import MOST_COORDINATES, Fixed, Parameter, parameter
from drbo.spaces.space import Column, Point, Space
from drbo.validation import FloatArray

__all__ = ["Box"]


class Box(Space):
    """Named parameters, each with its own range: `Box(setpoint=(18.0, 24.0), stages=Integer(1, 4))`.

    Use a mapping for names that are not Python identifiers: `Box({"set point": (18.0, 24.0)})`.

    Actions may have constraints: `Box(a=(0, 1), b=(0, 1), constraints=[drbo.Total("a", "b", equals=1.0)])`. A
    constraint is a `Total`, a `LinearConstraint`, an `AtMostActive`, or a function of the action that returns True or
    False (docs/actions.md).

    Attributes
    ----------
    parameters : by name
    constraints : the constraints of the actions
    feasible : the points that satisfy the constraints; None without constraints
    known : the values of the parameters that were fixed by `narrowed`, by name
    """

    def __init__(
        self,
        parameters: Mapping[str, tuple[float, float] | Parameter] | None = None,
        /,
        *,
        constraints: Any = (),
        **named: tuple[float, float] | Parameter,
    ) -> None:
        if parameters is not None and not isinstance(parameters, Mapping):
            raise TypeError(f"parameters must map names to ranges, such as {{'x': (0.0, 1.0)}}, got {parameters!r}")
        given = {**(parameters or {}), **named}
        if not given:
            raise TypeError("Box needs at least one named parameter, such as Box(x=(0.0, 1.0))")
        if len(given) != len(parameters or {}) + len(named):
            raise TypeError(f"parameters must be named once, got {listed(set(parameters or {}) & set(named))} twice")
        for name in given:
            if not isinstance(name, str):
                raise TypeError(f"parameters must be named by text, got {name!r}")
        self.parameters: dict[str, Parameter] = {name: parameter(name, value) for name, value in given.items()}
        widths = [p.width for p in self.parameters.values()]
        self.dimension = sum(widths)
        if self.dimension > MOST_COORDINATES:
            raise ValueError(
                f"parameters must have at most {MOST_COORDINATES:,} coordinates, one per number and one per choice of "
                f"a Categorical, got {self.dimension:,}"
            )
        self.origin, self.units, extents = (
            np.repeat([getattr(p, what) for p in self.parameters.values()], widths)
            for what in ("origin", "unit", "extent")
        )
        self.scales = validation.frozen(extents * math.sqrt(len(widths) / self.dimension))
        self.known = {name: p.value for name, p in self.parameters.items() if isinstance(p, Fixed)}
        ends = np.cumsum([0, *widths])
        self._slices = {
            name: slice(int(a), int(b)) for name, (a, b) in zip(self.parameters, itertools.pairwise(ends), strict=True)
        }
        self.constraints = checked(constraints)
        self.feasible: Feasible | None = None
        if self.constraints:
            self.feasible = Feasible(self.parameters, self._slices, self.constraints, self.decode, self._spread)

    def __repr__(self) -> str:
        parts = [f"{printable(name)}={parameter!r}" for name, parameter in self.parameters.items()]
        if self.constraints:
            parts.append(f"constraints=[{', '.join(map(called, self.constraints))}]")
        return f"Box({', '.join(parts)})"

    @functools.cached_property
    def continuous(self) -> NDArray[np.bool_]:
        """Mask of the continuous coordinates of the unit cube, (dimension,)."""
        return np.concatenate([np.full(p.width, p.count is None) for p in self.parameters.values()])

    @property
    def spacings(self) -> FloatArray:
        """Distance between neighbouring values per coordinate, (d,); 0 if continuous, 1 for categories."""
        steps = [(p.width, 0.0 if p.count is None else 1.0 / max(p.count - 1, 1)) for p in self.parameters.values()]
        return np.concatenate([np.full(width, 1.0 if width > 1 else step) for width, step in steps])

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.parameters)

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(p.column(name, self._slices[name].start) for name, p in self.parameters.items())

    def arguments(self) -> dict[str, Any]:
        """Return the constructor arguments, for `from_arguments`."""
        given: dict[str, Any] = {"parameters": self.parameters}
        return {**given, "constraints": self.constraints} if self.constraints else given

    @classmethod
    def from_arguments(cls, parameters: dict[str, Parameter], constraints: tuple[Constraint, ...] = ()) -> Box:
        """Return a box with these parameters and constraints."""
        return cls(parameters, constraints=constraints)

    def narrowed(self, known: Mapping[Any, Any]) -> Box:
        """Return the box with some parameters fixed at known values; points keep their coordinates."""
        check_columns(known, self.parameters)
        for name in known:
            if self.parameters[name].count is None:
                raise TypeError(not_a_label(name))
        return Box(
            {
                name: Fixed(p, f"given[{name!r}]", known[name]) if name in known else p
                for name, p in self.parameters.items()
            },
            constraints=self.constraints,
        )

    def holds(self, coordinates: FloatArray) -> NDArray[np.bool_]:
        """Return a mask (n,) of the points (n, dimension) that have the known values."""
        held = np.ones(len(coordinates), dtype=bool)
        for name, value in self.known.items():
            at = self.parameters[name].encode(name, value)
            held &= (coordinates[:, self._slices[name]] == at).all(axis=1)
        return held

    def encode(self, name: str, value: Any) -> Point:
        """Return the point for a mapping from parameter names to values."""
        values = validation.by_name(value)
        if not isinstance(values, Mapping):
            raise TypeError(f"{name} must map {listed(self.parameters)} to values, got {values!r}")
        missing, unknown = self.parameters.keys() - values.keys(), values.keys() - self.parameters.keys()
        if missing or unknown:
            in_order = listed(name for name in self.parameters if name in missing)
            wrong = f"lacks {in_order}" if missing else f"has unknown {listed(sorted(map(str, unknown)))}"
            raise ValueError(f"{name} {wrong}; its parameters are {listed(self.parameters)}")
        coordinates = (p.encode(f"{name}[{key!r}]", values[key]) for key, p in self.parameters.items())
        return Point(np.array(list(itertools.chain(*coordinates))))

    def decode(self, point: Point) -> dict[str, Any]:
        action = {name: p.decode(point.coordinates[self._slices[name]]) for name, p in self.parameters.items()}
        return action if self.feasible is None else self.feasible.zeroed(action)

    def stored(self, coordinates: FloatArray) -> Point:
        point = super().stored(coordinates)
        for name, p in self.parameters.items():
            if not p.has_value_at(coordinates[self._slices[name]]):
                raise ValueError(f"{name!r} has no value at the coordinates {coordinates[self._slices[name]].tolist()}")
        return point

    def widths(self, halves: FloatArray) -> FloatArray:
        rounding = 4.0 * np.finfo(float).eps * (np.abs(self.origin) + np.abs(self.units))
        return np.asarray(halves * self.units + np.where(halves > 0.0, rounding, 0.0))

    def movable(self, names: tuple[str, ...] | None, count: int) -> NDArray[np.intp]:
        """Return the coordinates of the named parameters, (count,); they must be real or logarithmic."""
        del count  # equals len(names)
        there = f"the parameters are {listed(self.parameters)}"
        if names is None:
            raise TypeError(f"contexts must name the parameters that they perturb, Perturbation(name=...); {there}")
        for name in names:
            if name not in self.parameters:
                raise ValueError(f"contexts perturb {name!r}, which is not a parameter of the actions; {there}")
            if self.parameters[name].count is not None:
                raise TypeError(
                    f"contexts perturb {name!r}, which is {self.parameters[name]!r}: only real and Log parameters can "
                    "be perturbed"
                )
        return np.array([self._slices[name].start for name in names], dtype=np.intp)

    def discrete_parts(self, most: int = 4096) -> FloatArray | None:
        """Return the combinations of discrete values (k, dimension), zero elsewhere; None if more than `most`."""
        counts = {name: p.count for name, p in self.parameters.items() if p.count is not None}
        total = math.prod(counts.values())
        if total > most:
            return None
        parts = np.zeros((total, self.dimension))
        indices = np.unravel_index(np.arange(total), tuple(counts.values())) if counts else ()
        for name, index in zip(counts, indices, strict=True):
            parts[:, self._slices[name]] = self.parameters[name].levels(index)
        return parts

    def corners(self) -> FloatArray:
        """Return points (k, dimension) whose convex hull contains the box: its corners, for every label.

        If there are more than 4,096 corners, return the 2 d corners of a cross-polytope that encloses the box.
        """
        ends = [p.ends for p in self.parameters.values()]
        if math.prod(len(levels) for levels in ends) > 4096:
            around = 0.5 * self.dimension * np.eye(self.dimension)
            return np.concatenate([0.5 + around, 0.5 - around])
        return np.array([np.concatenate(chosen) for chosen in itertools.product(*ends)])

    def spread(self, count: int, seed: int) -> list[Point]:
        """Return `count` well-spread points of the box."""
        return [Point(row) for row in self.sample(count, seed)]

    def possible(self, points: FloatArray) -> NDArray[np.bool_]:
        """Return a mask (n,) of the points (n, dimension) that match every parameter with a single value."""
        there = np.ones(len(points), dtype=bool)
        for name, p in self.parameters.items():
            if p.count == 1:
                there &= (points[:, self._slices[name]] == p.levels(np.zeros(1, dtype=np.intp))).all(axis=1)
        return there

    def permits(self, points: FloatArray) -> NDArray[np.bool_]:
        """Return a mask (n,) of the points (n, dimension) that satisfy the constraints."""
        return np.ones(len(points), dtype=bool) if self.feasible is None else self.feasible.holds(points)

    def check_permitted(self, name: str, point: Point) -> Point:
        """Return the point; raise if it breaks a constraint. An error calls the point `name`."""
        broken = None if self.feasible is None else self.feasible.broken(point.coordinates)
        if broken is not None:
            raise ValueError(f"{name} must satisfy the constraints of the actions, but breaks {broken}")
        return point

    def completed(self, actions: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[dict[str, Any] | None]:
        """Return actions whose parameters `names` changed, moved to keep equalities; None where that is impossible."""
        if self.feasible is None:
            return [dict(action) for action in actions]
        points = np.array([self.encode("action", action).coordinates for action in actions])
        fixed = np.zeros(self.dimension, dtype=bool)
        for name in names:
            fixed[self._slices[name]] = True
        moved, held = self.feasible.completed(points, fixed)
        return [self.decode(Point(row)) if one else None for row, one in zip(moved, held, strict=True)]

    def outward(self, point: FloatArray, coordinate: int, side: float) -> FloatArray:
        """Return the move (dimension,) of one coordinate beyond its range that keeps equalities; zero if forbidden."""
        move = np.zeros(self.dimension)
        move[coordinate] = side
        return move if self.feasible is None else self.feasible.outward(point, move)

    def inside(self, points: FloatArray, targets: FloatArray) -> FloatArray:
        """Return points on the way from points (m, dimension) of the box to targets, as far as constraints hold."""
        return targets if self.feasible is None else self.feasible.towards(points, targets)

    def sample(self, count: int, seed: int) -> FloatArray:
        """Return well-spread points (count, dimension) of the box that satisfy the constraints."""
        return self._spread(count, seed) if self.feasible is None else self.feasible.sample(count, seed)

    def _spread(self, count: int, seed: int) -> FloatArray:
        """Return well-spread points (count, dimension) of the box: scrambled Sobol points, rounded to valid values."""
        cube = spread(count, len(self.parameters), seed)
        points = np.empty((count, self.dimension))
        for column, (name, p) in enumerate(self.parameters.items()):
            at = cube[:, column]
            if p.count is None:
                points[:, self._slices[name]] = at[:, None]
            else:
                index = np.minimum((at * p.count).astype(np.intp), p.count - 1)
                points[:, self._slices[name]] = p.levels(index)
        return points


def check_columns(known: Mapping[Any, Any], columns: Collection[Any]) -> None:
    """Raise if a column in `given` does not exist."""
    unknown = [key for key in known if key not in columns]
    if unknown:
        raise ValueError(f"given has unknown {unknown[0]!r}; the columns are {listed(map(str, columns))}")


def not_a_label(name: Any) -> str:
    """Return the error message for a continuous parameter in `given`."""
    return (
        f"given[{name!r}] is a continuous number, which no past context equals: only labels and whole numbers "
        "(drbo.Categorical, drbo.Integer) can be given. Pass the possible contexts of this round yourself, "
        "ask(reference=drbo.Samples(...)), in the general or the simulator setting"
    )


def spread(count: int, dimension: int, seed: int) -> FloatArray:
    """Return the first points (count, dimension) of a scrambled Sobol sequence in the unit cube."""
    from scipy.stats import qmc  # imported here because the import is slow

    return qmc.Sobol(dimension, seed=seed).random_base2(max(math.ceil(math.log2(max(count, 1))), 0))[:count]
