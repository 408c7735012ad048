"""Bounds on the shares of groups of contexts with labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from drbo import validation
from drbo._messages import listed, printable
from drbo.ambiguity.linear import Linear, PlacedLinear, certificate
from drbo.ambiguity.placed import Dual, Growth, WorstCase, expectations
from drbo.spaces.space import Column, named
from drbo.validation import FloatArray

__all__ = ["Shares"]

Bounds = tuple[float, float]
_SAME = 1e-9
"""Tolerance for equal distributions inside a group."""


@dataclass(frozen=True, eq=False)
class _ShareBounds:
    """The contexts with one value in one column, and the bounds on their share."""

    column: Column
    value: Any
    low: float
    high: float


class PlacedShares(PlacedLinear["Shares"]):
    """Bounds on shares, on contexts."""

    def words(self, radius: float) -> str:
        """Return a description of the distributions in the set."""
        parts = []
        for key, value in self.family.shares.items():
            for label, (low, high) in value.items() if isinstance(value, dict) else [(key, value)]:
                least, most = max(low - radius, 0.0), min(high + radius, 1.0)
                share = f"{least:.1%}" if least == most else f"from {least:.1%} to {most:.1%}"
                group = f"{key} = {label}" if isinstance(value, dict) else label
                parts.append(f"share of {printable(group)} is {share}")
        inside = "" if self.family.free_inside else ", with the reference's proportions inside each group"
        return "whose " + " and whose ".join(parts) + inside

    @property
    def everything(self) -> str:
        return super().everything if self.family.free_inside else "every mixture of the groups"

    def bounds(self, reference: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        del reference
        low, high = (np.array([getattr(group, end) for group in self.family.groups]) for end in ("low", "high"))
        return low - radius, high + radius

    def ceiling(self, points: FloatArray, half: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the price of each point's groups; in a cell of several labels, the largest one."""
        level = self._features(points) @ y
        for column in {group.column.first: group.column for group in self.family.groups}.values():
            several = half[:, column.first : column.first + column.width].any(axis=1)
            if several.any():
                own = np.array([group.column.first == column.first for group in self.family.groups])
                here = self._features(points[several])[:, own] @ y[own]
                level[several] += max(float(y[own].max()), 0.0) - here
        return level, np.zeros_like(points)

    def dual(self, values: FloatArray, reference: FloatArray, radius: float, worst: WorstCase) -> Dual:
        """Return the dual point; further contexts do not matter inside a group with fixed relative weights."""
        made = super().dual(values, reference, radius, worst)
        if self.family.free_inside:
            return made
        cells = _GroupCells(self.features, reference)
        shown = cells.features[cells.mass > 0.0]
        columns = np.unique(
            [i for g in self.family.groups for i in range(g.column.first, g.column.first + g.column.width)]
        )

        def threshold(points: FloatArray, half: FloatArray) -> tuple[FloatArray, FloatArray]:
            level, slope = made.threshold(points, half)
            known = ~half[:, columns].any(axis=1)
            closed = known & (self._features(points)[:, None] == shown).all(axis=2).any(axis=1)
            return np.where(closed, -np.inf, level), slope

        return replace(made, threshold=threshold)

    def _reduced(self, values: FloatArray, reference: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the variables of the linear program: whole cells if the relative weights inside are fixed."""
        if self.family.free_inside:
            return super()._reduced(values, reference)
        cells = _GroupCells(self.features, reference)
        return cells.values(values)[0], cells.features

    def refuse(self, features: FloatArray, lower: FloatArray, upper: FloatArray) -> None:
        """Raise an error that names a group without contexts, or states that the bounds are contradictory."""
        del upper
        for group, feature, low in zip(self.family.groups, features.T, lower, strict=True):
            if low > 0.0 and not feature.any():
                raise ValueError(
                    f"Shares needs a context with {printable(group.column)} = {group.value!r}, whose share must be at "
                    f"least {low:.3g}, but there is none"
                )
        raise ValueError(f"{self!r} contradicts itself: no distribution on these contexts satisfies all bounds")

    def _features(self, points: FloatArray) -> FloatArray:
        return np.stack([group.column.holds(points, group.value) for group in self.family.groups], axis=1)

    def _outside(self, shares: FloatArray) -> FloatArray:
        """Return the largest violation (...,) of the bounds by shares (..., k)."""
        low, high = self.bounds(shares, 0.0)
        return np.asarray(np.maximum(np.maximum(low - shares, shares - high), 0.0).max(axis=-1))

    def _distance(self, p: FloatArray, q: FloatArray) -> float:
        if not self.family.free_inside:
            cells = _GroupCells(self.features, q)
            share = np.bincount(cells.of, p, minlength=len(cells.mass))
            expected = share[cells.of] * cells.inside
            if (np.abs(p - expected)[cells.mass[cells.of] > 0.0] > _SAME).any():
                return float("inf")
        outside = float(self._outside(p @ self.features))
        return 0.0 if outside < 1e-15 * len(p) else outside

    def _diameter(self, reference: FloatArray) -> float:
        del reference
        return float(self._outside(self.features).max())

    def _solve(self, values: FloatArray, reference: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        if self.family.free_inside:
            return super()._solve(values, reference, radius)
        cells = _GroupCells(self.features, reference)
        u, at = cells.values(values)
        lower, upper = self.bounds(reference, radius)
        shares, y = self.solved(u, cells.features, lower, upper)
        weights = shares[:, cells.of] * cells.inside
        empty = np.flatnonzero(cells.mass == 0.0)
        for cell in empty:
            weights[np.arange(len(values)), at[:, cell]] += shares[:, cell]
        return weights, certificate(u, cells.features, y, lower, upper)


class Shares(Linear):
    """All distributions in which the shares of given groups lie between given bounds.

    `Shares(old=(0.2, 0.5))`: "the share of old is from 20 to 50%". If several columns have labels, `Shares(age={"old":
    (0.2, 0.5)}, region={"north": 0.4})` names the columns; one number is a known share.

    Only the shares of the groups change. Inside each group, and outside of all groups, contexts keep the relative
    weights of the reference. With bounds on several columns this holds inside every combination of their groups, and
    the shares of combinations are free within the bounds of each column. In a group without reference weight, mass goes
    anywhere. `free_inside=True` lets mass go anywhere inside every group.

    The bounds do not depend on the reference, which may violate them. The radius is the largest violation of a bound,
    as a share of the whole; the default is 0, the set as stated. distance(q, p) is the smallest such radius; inf if the
    relative weights inside a group differ from those of the reference p.

    Parameters
    ----------
    shares : a mapping, for labels that are not Python identifiers: `Shares({3: (0.2, 0.5)})`
    free_inside : whether mass goes anywhere inside a group
    named : for each group the bounds of its share; or for each column a mapping from its groups to bounds
    """

    growth = Growth(
        own=0.0,
        from_reference=False,
        convex=True,
        means="The radius is how far a group may be outside of its bounds, as a share of all days: 0 is the set as "
        "stated. The bounds do not depend on the past.",
    )

    def __init__(self, shares: Mapping[Any, Any] | None = None, /, *, free_inside: bool = False, **named: Any) -> None:
        if shares is not None and not isinstance(shares, Mapping):
            raise TypeError(f"shares must map groups to bounds, such as {{'old': (0.2, 0.5)}}, got {shares!r}")
        if twice := set(shares or {}) & set(named):
            raise TypeError(f"Shares must be given each name once, got {listed(twice)} twice")
        given = {**(shares or {}), **named}
        if not given:
            raise TypeError("Shares needs the bounds of a group, such as Shares(old=(0.2, 0.5))")
        self.free_inside = validation.flag("free_inside", free_inside)
        self.shares: dict[Any, Bounds | dict[Any, Bounds]] = {}
        for key, value in given.items():
            if isinstance(value, Mapping):
                if not value:
                    raise TypeError(f"Shares[{key!r}] must map groups to bounds, got none")
                self.shares[key] = {label: _bounds(f"Shares[{key!r}][{label!r}]", of) for label, of in value.items()}
            else:
                self.shares[key] = _bounds(f"Shares[{key!r}]", value)
        self.groups: tuple[_ShareBounds, ...] = ()

    def __repr__(self) -> str:
        inside = ", ".join(f"{key!r}: {value!r}" for key, value in self.shares.items())
        return f"Shares({{{inside}}}{', free_inside=True' if self.free_inside else ''})"

    def arguments(self) -> dict[str, Any]:
        """Return the arguments for `from_arguments`."""
        return {"shares": self.shares, "free_inside": self.free_inside}

    @classmethod
    def from_arguments(cls, shares: Any, free_inside: bool) -> Self:
        """Return the set of these bounds."""
        return cls(shares, free_inside=free_inside)

    def _choose(self, columns: tuple[Column, ...]) -> None:
        groups = []
        for key, value in self.shares.items():
            if isinstance(value, dict):
                column = named(key, columns)
                groups += [_ShareBounds(column, _value(column, label), *of) for label, of in value.items()]
            else:
                column = self._only(columns)
                groups.append(_ShareBounds(column, _value(column, key), *value))
        self.groups = tuple(groups)
        for column in {group.column.first: group.column for group in groups}.values():
            own = [group for group in groups if group.column.first == column.first]
            least, most = sum(group.low for group in own), sum(group.high for group in own)
            whole = column.labels is not None and len(own) == len(column.labels)
            if least > 1.0 + 1e-12 or (whole and most < 1.0 - 1e-12):
                raise ValueError(
                    f"Shares of {printable(column)} must be able to sum to 1, but their bounds sum to {least:.3g} and "
                    f"{most:.3g}"
                )

    def _only(self, columns: tuple[Column, ...]) -> Column:
        """Return the column of groups without a column: the only one with labels, or the only one."""
        labelled = [column for column in columns if column.labels is not None]
        if len(labelled) == 1 or (not labelled and len(columns) == 1):
            return (labelled or columns)[0]
        names = listed(labelled or columns)
        raise ValueError(
            f"Shares needs the column of the groups, one of {names}, such as "
            f"Shares({{{str((labelled or columns)[0])!r}: {{...}}}})"
        )

    def _at(self, points: FloatArray) -> PlacedShares:
        return PlacedShares(self, points)


class _GroupCells:
    """Cells: the combinations of groups of the contexts.

    Attributes
    ----------
    features : (n_cells, k) the groups of each cell
    of : (n,) the cell of each context
    mass : (n_cells,) of the reference
    inside : (n,) the reference's relative weight of each context in its cell; zero in a cell without mass
    """

    def __init__(self, features: FloatArray, reference: FloatArray) -> None:
        self.features, of = np.unique(features, axis=0, return_inverse=True)
        self.of = of.ravel()
        self._reference = reference
        self.mass = np.bincount(self.of, reference, minlength=len(self.features))
        mass = self.mass[self.of]
        self.inside = np.where(mass > 0.0, reference / np.where(mass > 0.0, mass, 1.0), 0.0)

    def values(self, values: FloatArray) -> tuple[FloatArray, Any]:
        """Return the mean of each cell (m, n_cells), its lowest value without reference mass; and where that is."""
        worth = np.empty((len(values), len(self.mass)))
        at = np.empty((len(values), len(self.mass)), dtype=np.intp)
        for cell, mass in enumerate(self.mass):
            members = np.flatnonzero(self.of == cell)
            lowest = np.argmin(values[:, members], axis=1)
            at[:, cell] = members[lowest]
            if mass > 0.0:
                inside = np.ascontiguousarray(np.broadcast_to(self.inside[members], (len(values), len(members))))
                worth[:, cell] = expectations(inside, np.ascontiguousarray(values[:, members]))
            else:
                worth[:, cell] = values[np.arange(len(values)), at[:, cell]]
        return worth, at


def _bounds(name: str, value: Any) -> Bounds:
    """Return the bounds of a share: a pair, or a number for a known share."""
    pair = value if isinstance(value, tuple | list) else (value, value)
    if len(pair) != 2:
        raise TypeError(f"{name} must be (least, most), or the share itself, got {value!r}")
    low, high = validation.finite_float(name, pair[0]), validation.finite_float(name, pair[1])
    if not 0.0 <= low <= high <= 1.0:
        raise ValueError(f"{name} must be shares from 0 to 1, the least first, got {value!r}")
    return low, high


def _value(column: Column, value: Any) -> Any:
    """Return a value of the column, or raise."""
    if column.labels is None:
        return validation.finite_float(f"a group of {printable(column)}", value)
    if value not in column.labels:
        labels = ", ".join(map(repr, column.labels))
        raise ValueError(f"Shares names the unknown group {value!r} of {printable(column)}: expected {labels}")
    return value
