"""The linear constraints of a box as rows of numbers, and the parts of the feasible set, by linear programs.

A row is low <= sum_j a_j v_j <= high for numbers v_j in the user's units. It is divided by
sum_j |a_j| (largest v_j - smallest v_j), so that a tolerance is a share of the range of the sum. Linear programs use
v_j = base_j + span_j x_j with x_j from 0 to top_j, and x_j whole for whole numbers.

Actions with the same whole numbers and the same zeros form a *part*. It is a polytope in the numbers v_j.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from drbo._messages import listed, printable
from drbo.spaces.constraints import AtMostActive, Constraint, LinearConstraint
from drbo.spaces.parameters import Fixed, Parameter
from drbo.validation import FloatArray

TOLERANCE = 1e-9
"""Largest violation of a constraint, as a share of the range of its sum."""
MOST_PARTS = 128
"""Largest number of parts: all combinations of whole numbers and zeros, or well-spread ones if there are more."""
_PROGRAMS = 32
"""Number of mixed-integer programs that find well-spread parts; walks find others from there."""
_GAP = 0.1
"""Relative accuracy of the mixed-integer programs."""
_ROUNDING = 64.0 * np.finfo(float).eps
_ZERO = 1e-12
"""Numbers smaller than this share of their range are zero."""
_FLAT = 1e-8
"""A part is flat in a direction in which it is no wider than this share of the range."""

Mask = NDArray[np.bool_]
Indices = NDArray[np.intp]


class ConstraintRows:
    """The constrained numbers of a box, and linear constraints on them.

    Attributes
    ----------
    names, given : the q constrained parameters
    at : (q,) their coordinates
    log : (q,) whether a number is on a logarithmic scale
    top : (q,) the largest x
    whole : the numbers that are whole and have several values
    groups : the members of each `AtMostActive`, and its count
    linear : the r linear constraints
    factors : (r, q) a_j
    low, high : (r,) the bounds of the sums
    tolerance : (r,) the largest violation, TOLERANCE and rounding
    equal : (r,) whether a constraint is an equality
    straight : (r, q) the change of the sums per coordinate, for numbers that are not on a logarithmic scale
    """

    def __init__(
        self, parameters: Mapping[str, Parameter], slices: Mapping[str, slice], constraints: Sequence[Constraint]
    ) -> None:
        self.names = names = _names(parameters, constraints)
        self.given = given = [parameters[name] for name in names]
        self.dimension = sum(p.width for p in parameters.values())
        self.at = np.array([slices[name].start for name in names], dtype=np.intp)
        self.log = np.array([_bare(p).column(None, 0).logarithmic for p in given], dtype=bool)
        self.origin, self.unit = (np.array([getattr(p, what) for p in given]) for what in ("origin", "unit"))
        low, high = np.array([[float(p.decode(p.ends[i])) for p in given] for i in (0, -1)]).reshape(2, len(names))
        counts = np.array([p.count or 0 for p in given], dtype=np.intp)
        self.top = np.where(counts > 0, counts - 1, 1)
        self.base, self.span = low, (high - low) / np.maximum(self.top, 1)
        self.whole = np.flatnonzero(counts > 1)
        self.groups = [
            (np.array([names.index(name) for name in one.names], dtype=np.intp), one.count)
            for one in constraints
            if isinstance(one, AtMostActive)
        ]
        self.linear = [one for one in constraints if isinstance(one, LinearConstraint)]
        factors = np.array([[one.coefficients.get(name, 0.0) for name in names] for one in self.linear])
        factors = factors.reshape(len(self.linear), len(names))
        largest = np.abs(factors) @ np.maximum(np.abs(low), np.abs(high))
        sizes = np.abs(factors) @ (high - low)
        self._sizes = sizes = np.where(sizes > 0.0, sizes, np.where(largest > 0.0, largest, 1.0))
        self.factors = factors / sizes[:, None]
        self.low, self.high = np.array([one.bounds for one in self.linear]).reshape(-1, 2).T / sizes
        self.tolerance = TOLERANCE + _ROUNDING * largest / sizes
        self.equal = self.low == self.high
        self.straight = np.where(self.log, 0.0, self.factors * self.unit)
        self._check()

    def numbers(self, points: FloatArray) -> FloatArray:
        """Return the constrained numbers (m, q) at points (m, d), in the user's units."""
        positions = self.origin + points[:, self.at] * self.unit
        return np.asarray(np.where(self.log, np.exp(np.where(self.log, positions, 0.0)), positions))

    def sums(self, points: FloatArray) -> FloatArray:
        """Return the sum of each linear constraint (m, r) at points (m, d), as a share of its range."""
        return np.asarray(self.numbers(points) @ self.factors.T)

    def active(self, points: FloatArray, members: Indices) -> Mask:
        """Return whether numbers (m, k) differ from zero at points (m, d)."""
        wide = self.span[members] * self.top[members]
        return np.asarray(np.abs(self.numbers(points)[:, members]) > _ZERO * np.where(wide > 0.0, wide, 1.0))

    def is_zero(self, j: int, number: float) -> bool:
        """Return whether a value of number j is zero up to rounding."""
        return bool(abs(number) <= _ZERO * (self.span[j] * self.top[j] or 1.0))

    def hold(self, points: FloatArray) -> Mask:
        """Return a mask (m,) of the points (m, d) that satisfy every constraint but the functions."""
        sums = self.sums(points)
        held = ((sums <= self.high + self.tolerance) & (sums >= self.low - self.tolerance)).all(axis=1)
        for members, count in self.groups:
            held &= self.active(points, members).sum(axis=1) <= count
        return np.asarray(held)

    def broken(self, point: FloatArray) -> str | None:
        """Return the first constraint that a point (d,) breaks as text; None if it breaks none."""
        sums = self.sums(point[None])[0]
        off = np.maximum(sums - self.high, self.low - sums) > self.tolerance
        for i in np.flatnonzero(off).tolist():
            return f"{self.linear[i]!r}: the sum is {float(sums[i] * self._sizes[i]):.6g}"
        for members, count in self.groups:
            active = int(self.active(point[None], members).sum())
            if active > count:
                names = listed(self.names[j] for j in members.tolist())
                return f"at most {count} of {names} differ from zero: {active} do"
        return None

    def point(self, x: FloatArray) -> FloatArray:
        """Return the coordinates (d,) of numbers base + span x; other coordinates are zero."""
        point = np.zeros(self.dimension)
        for j, p in enumerate(self.given):
            if p.count is not None:
                point[self.at[j]] = p.levels(np.array([round(float(x[j]))]))[0, 0]
            elif self.log[j]:
                number = self.base[j] + self.span[j] * x[j]
                point[self.at[j]] = (math.log(number) - self.origin[j]) / self.unit[j]
            else:
                point[self.at[j]] = x[j]
        return np.clip(point, 0.0, 1.0)

    def _check(self) -> None:
        """Raise if a constraint cannot hold by itself, or names a parameter that it must not name."""
        first, last = self.base, self.base + self.span * self.top
        for i, one in enumerate(self.linear):
            logs = [self.names[j] for j in np.flatnonzero(self.log & (self.factors[i] != 0.0))]
            if self.equal[i] and logs:
                raise TypeError(
                    f"{one!r} must not name {listed(logs)} on a logarithmic scale: an equality is not linear "
                    "there. Give at_least and at_most, or a range (low, high)"
                )
            ends = np.stack([self.factors[i] * first, self.factors[i] * last])
            least, most = float(ends.min(axis=0).sum()), float(ends.max(axis=0).sum())
            if least > self.high[i] + self.tolerance[i] or most < self.low[i] - self.tolerance[i]:
                raise ValueError(
                    f"constraints leave no action: {one!r} cannot hold, because the sum is from "
                    f"{least * self._sizes[i]:.6g} to {most * self._sizes[i]:.6g} within the ranges"
                )
        for members, _ in self.groups:
            for j in members.tolist():
                zero = self._zeros(np.array([j]))[0]
                between = j in self.whole and abs(zero - round(zero)) > 1e-9
                if self.log[j] or not first[j] <= 0.0 <= last[j] or between:
                    raise ValueError(
                        f"AtMostActive must name numbers that can be zero, and {printable(self.names[j])!r} is "
                        f"{self.given[j]!r}"
                    )

    # --- the parts --------------------------------------------------------------------------------------------------

    def assignments(self) -> list[FloatArray]:
        """Return the whole numbers and zeros of the parts to try, as x (q,); nan where a number is free."""
        blank = np.where(self.top == 0, 0.0, np.nan)
        if not len(self.whole) and not self.groups:
            return [blank]
        values = math.prod(int(self.top[j]) + 1 for j in self.whole)
        if values * math.prod(math.comb(len(members), count) for members, count in self.groups) > MOST_PARTS:
            return self._well_spread(blank)
        numbers = [range(int(self.top[j]) + 1) for j in self.whole]
        zeros = [itertools.combinations(members.tolist(), len(members) - count) for members, count in self.groups]
        found: dict[bytes, FloatArray] = {}
        for chosen, off in itertools.product(itertools.product(*numbers), list(itertools.product(*zeros))):
            x = blank.copy()
            x[self.whole] = chosen
            at = np.array(sorted(set(itertools.chain(*off))), dtype=np.intp)
            zero = self._zeros(at)
            if np.all(np.isnan(x[at]) | (np.abs(x[at] - zero) < 1e-9)):
                x[at] = zero
                found.setdefault(x.tobytes(), x)
        return list(found.values())

    def _zeros(self, at: Indices) -> FloatArray:
        """Return the x of zero, (k,), of the numbers `at` (k,)."""
        return np.asarray(-self.base[at] / np.where(self.span[at] == 0.0, 1.0, self.span[at]))

    def _well_spread(self, blank: FloatArray) -> list[FloatArray]:
        """Return well-spread whole numbers and zeros: mixed-integer programs find those nearest to random points.

        The variables are x, its distances from the point, and whether each member of a group is active.
        """
        from scipy.optimize import Bounds, milp
        from scipy.optimize import LinearConstraint as Between

        q = len(self.names)
        members = np.array(sorted({int(j) for group, _ in self.groups for j in group}), dtype=np.intp)
        k = len(members)
        scale, zero = np.diag(1.0 / np.maximum(self.top, 1)), self._zeros(members)
        offset, nothing = self.factors @ self.base, np.zeros
        chosen = np.eye(q)[members]
        counted = np.array([np.isin(members, group) for group, _ in self.groups], dtype=float)
        counted = counted.reshape(len(self.groups), k)
        rows = np.concatenate(
            [
                np.concatenate([self.factors * self.span, nothing((len(self.linear), q + k))], axis=1),
                np.concatenate([chosen, nothing((k, q)), np.diag(zero - self.top[members])], axis=1),  # x <= top if on
                np.concatenate([chosen, nothing((k, q)), np.diag(zero)], axis=1),  # x >= 0 if on
                np.concatenate([nothing((len(counted), 2 * q)), counted], axis=1),
                np.concatenate([scale, -np.eye(q), nothing((q, k))], axis=1),  # the distance from the point
                np.concatenate([scale, np.eye(q), nothing((q, k))], axis=1),
            ]
        )
        counts = np.array([count for _, count in self.groups], dtype=float)
        never = np.full(k + len(counts) + q, -np.inf)
        whole = np.concatenate([np.isin(np.arange(q), self.whole), nothing(q), np.ones(k)])
        bounds = Bounds(nothing(2 * q + k), np.concatenate([self.top, np.full(q, np.inf), np.ones(k)]))
        rng, found = np.random.default_rng(0), dict[bytes, FloatArray]()
        for _ in range(_PROGRAMS):
            target = rng.random(q)
            low = np.concatenate([self.low - offset, never[:k], zero, never[k:], target])
            high = np.concatenate([self.high - offset, zero, np.full(k, np.inf), counts, target, np.full(q, np.inf)])
            cost = np.concatenate([nothing(q), np.ones(q), -1e-6 * rng.random(k)])  # as many active as possible
            made = milp(
                cost,
                constraints=Between(rows, low, high),
                integrality=whole,
                bounds=bounds,
                options={"mip_rel_gap": _GAP},
            )
            if made.x is None:
                break
            x = blank.copy()
            x[self.whole] = np.rint(made.x[self.whole])
            off = members[made.x[2 * q :] < 0.5]
            x[off] = self._zeros(off)
            found.setdefault(x.tobytes(), x)
        return list(found.values())

    def inside(self, x: FloatArray) -> tuple[FloatArray, Mask, Mask] | None:
        """Return a point well inside the part of given numbers x (q,), nan where free; None if the part is empty.

        Besides: which inequalities hold as equalities in the whole part (r,), and which numbers are stuck there (q,).
        """
        free = np.flatnonzero(np.isnan(x))
        known = np.where(np.isnan(x), 0.0, x)
        rest = self.factors @ (self.base + self.span * known)
        low, high = self.low - rest - 0.1 * self.tolerance, self.high - rest + 0.1 * self.tolerance
        implied, stuck = np.zeros(len(self.linear), dtype=bool), np.zeros(len(x), dtype=bool)
        if not len(free):
            return (known, implied, stuck) if (low <= 0.0).all() and (high >= 0.0).all() else None
        part = _FreePart(self.factors[:, free] * self.span[free], low, high, self.top[free].astype(float))
        found = part.deepest(self.equal, np.zeros(len(free), dtype=bool))
        if found is None:
            return None
        inside, depth = found
        if depth < _FLAT:
            implied, stuck[free] = part.flat(~self.equal), part.stuck()
            deeper = part.deepest(self.equal | implied, stuck[free])
            inside = inside if deeper is None else deeper[0]
        known[free] = inside
        return known, implied, stuck


class _FreePart:
    """The polytope low <= rows x <= high, 0 <= x <= top."""

    def __init__(self, rows: FloatArray, low: FloatArray, high: FloatArray, top: FloatArray) -> None:
        self.rows, self.low, self.high, self.top = rows, low, high, top

    def deepest(self, equal: Mask, stuck: Mask) -> tuple[FloatArray, float] | None:
        """Return the point farthest from all bounds that may move, and this distance; None if there is no point."""
        n, away = len(self.top), np.sqrt((self.rows**2).sum(axis=1)) * ~equal
        rows = np.concatenate(
            [
                np.column_stack([self.rows, away]),
                np.column_stack([-self.rows, away]),
                np.column_stack([np.eye(n), ~stuck]),
                np.column_stack([-np.eye(n), ~stuck]),
            ]
        )
        limit = np.concatenate([self.high, -self.low, self.top, np.zeros(n)])
        found = _least(np.append(np.zeros(n), -1.0), rows, limit, np.append(self.top, 1.0))
        return None if found is None else (np.clip(found[:n], 0.0, self.top), float(found[n]))

    def flat(self, some: Mask) -> Mask:
        """Return which of some rows (r,) have one value in the whole polytope."""
        return np.array([bool(one) and self._width(row) < _FLAT for one, row in zip(some, self.rows, strict=True)])

    def stuck(self) -> Mask:
        """Return which numbers (n,) have one value in the whole polytope."""
        return np.array([self._width(row) < _FLAT for row in np.eye(len(self.top))])

    def _width(self, direction: FloatArray) -> float:
        rows, limit = np.concatenate([self.rows, -self.rows]), np.concatenate([self.high, -self.low])
        ends = [_least(sign * direction, rows, limit, self.top) for sign in (1.0, -1.0)]
        return math.inf if ends[0] is None or ends[1] is None else float(direction @ (ends[1] - ends[0]))


def _least(cost: FloatArray, rows: FloatArray, limit: FloatArray, top: FloatArray) -> FloatArray | None:
    """Return the x with the least cost'x, for rows x <= limit and 0 <= x <= top; None if there is none."""
    from scipy.optimize import linprog

    finite = np.isfinite(limit)
    bounds = [(0.0, float(one)) for one in top]
    made = linprog(cost, A_ub=rows[finite], b_ub=limit[finite], bounds=bounds, method="highs")
    return None if made.x is None else np.asarray(made.x)


def _bare(parameter: Parameter) -> Parameter:
    return parameter.of if isinstance(parameter, Fixed) else parameter


def _names(parameters: Mapping[str, Parameter], constraints: Sequence[Constraint]) -> list[str]:
    """Return the names of the constrained numbers, in the order of the box."""
    used = set[str]()
    for i, one in enumerate(constraints):
        if not isinstance(one, LinearConstraint | AtMostActive):
            continue
        for name in one.coefficients if isinstance(one, LinearConstraint) else one.names:
            if name not in parameters:
                raise ValueError(
                    f"constraints[{i}] names {printable(name)!r}, which is not a parameter; the parameters are "
                    f"{listed(parameters)}"
                )
            if _bare(parameters[name]).column(None, 0).labels is not None:
                raise TypeError(
                    f"constraints[{i}] names {printable(name)!r}, which is {parameters[name]!r}: only numbers have a "
                    "sum. Use a function of the action for choices"
                )
            used.add(name)
    return [name for name in parameters if name in used]
