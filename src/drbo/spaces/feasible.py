"""The actions of a box that satisfy its constraints: points inside, moves that stay inside, and the nearest ones.

Actions with the same whole numbers and the same zeros form a part (`drbo.spaces.parts`), which is convex if no `Log`
parameter is constrained. From a point well inside each part we walk by *hit and run*: a random direction, then a
uniform point on the line inside.

Every point comes from a feasible one by a move that ends at the first constraint (`towards`), so no point is infeasible
by more than rounding. `Log` parameters and functions of the action are not linear: such a move is halved until
they hold.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drbo._messages import printable
from drbo.spaces.constraints import AtMostActive, Constraint, LinearConstraint, called
from drbo.spaces.parameters import Parameter
from drbo.spaces.parts import MOST_PARTS, ConstraintRows, Indices, Mask
from drbo.spaces.space import Point
from drbo.validation import FloatArray

_SLACK = 1e-10
"""Largest violation that a move may add, smaller than the tolerance of a constraint."""
_STILL = 1e-13
"""A sum that changes by less along a move does not change."""
_POOL = 512
"""Number of points that walks start from."""
_STEPS = 8
"""Number of steps of a walk from the pool."""
_HALVINGS = 8
"""Number of times that a move is halved before the point stays where it is."""
_BATCHES, _LEAST = 40, 16
"""Number of batches of `_POOL` points that functions are tried on, and the least number of points that must pass."""


Patterns = NDArray[np.object_]
"""One `Pattern` per point."""


@dataclass(frozen=True, eq=False)
class Pattern:
    """The directions in which points of a part may move.

    Attributes
    ----------
    free : (d,) the coordinates that may move
    held : (e, d) orthonormal directions in which equalities hold the point
    back : (d, r) the shortest move that lowers the sum of each equality by 1
    """

    free: Mask
    held: FloatArray
    back: FloatArray

    @classmethod
    def of(cls, rows: ConstraintRows, free: Mask, equal: Mask) -> Pattern:
        """Return the pattern of free coordinates (d,) and equalities (r,)."""
        slopes = np.zeros((len(rows.linear), rows.dimension))
        slopes[:, rows.at] = rows.straight
        slopes = np.where(free, slopes, 0.0)
        _, sizes, directions = np.linalg.svd(slopes[equal], full_matrices=False)
        back = np.zeros((rows.dimension, len(rows.linear)))
        if equal.any():
            back[:, equal] = np.linalg.pinv(slopes[equal], rcond=1e-10)
        return cls(free, directions[sizes > 1e-10 * sizes.max(initial=0.0)], back)

    def along(self, moves: FloatArray) -> FloatArray:
        """Return the possible parts of moves (m, d)."""
        moves = np.where(self.free, moves, 0.0)
        return np.asarray(moves - (moves @ self.held.T) @ self.held)


class Feasible:
    """The actions of a box that satisfy all constraints.

    Parameters
    ----------
    parameters, slices : the parameters of the box by name, and their coordinates
    constraints : the constraints
    decode : returns the user's action at a point
    spread : returns well-spread points (count, d) of the whole box, given a count and a seed
    """

    def __init__(
        self,
        parameters: Mapping[str, Parameter],
        slices: Mapping[str, slice],
        constraints: Sequence[Constraint],
        decode: Callable[[Point], dict[str, Any]],
        spread: Callable[[int, int], FloatArray],
    ) -> None:
        self._decode, self._spread = decode, spread
        self._rows = rows = ConstraintRows(parameters, slices, constraints)
        self._functions = {
            i: one for i, one in enumerate(constraints) if not isinstance(one, LinearConstraint | AtMostActive)
        }
        self.dimension = rows.dimension
        self.continuous = np.concatenate([np.full(p.width, p.count is None) for p in parameters.values()])
        self._linear_only = np.ones(self.dimension, dtype=bool)  # coordinates without a linear constraint
        self._linear_only[rows.at] = False
        self._apart = self._linear_only & (not self._functions)  # coordinates without any constraint
        logs = rows.log & self.continuous[rows.at]
        self._bent = (rows.factors[:, logs] != 0.0).any(axis=1)
        self._starts, self._start_patterns, self._zeros_of_parts = self._parts()
        self._others: dict[bytes, Pattern] = {}  # cache: patterns of points with other zeros, by their zeros
        if self._functions:
            self._pool  # noqa: B018  # raises if too little is left

    def _parts(self) -> tuple[FloatArray, Patterns, Mask]:
        """Return a point well inside each part (k, d), its pattern (k,), and the coordinates that are zero (k, d)."""
        rows, starts, patterns, known = self._rows, list[FloatArray](), list[Pattern](), dict[bytes, Pattern]()
        zeros = list[Mask]()
        for x in rows.assignments():
            found = rows.inside(x)
            if found is None:
                continue
            inside, implied, stuck = found
            free, fixed = self.continuous.copy(), np.zeros(self.dimension, dtype=bool)
            fixed[rows.at[~np.isnan(x)]] = True
            zeros.append(fixed & self.continuous)
            free[rows.at[~np.isnan(x) | stuck]] = False
            key = np.concatenate([free, implied]).tobytes()
            if key not in known:
                known[key] = Pattern.of(rows, free, rows.equal | implied)
            patterns.append(known[key])
            starts.append(self._exact(rows.point(inside)[None], known[key])[0])
        if not starts:
            names = ", ".join(map(repr, rows.linear))
            if rows.inside(np.where(rows.top == 0, 0.0, np.nan)) is None:
                raise ValueError(f"constraints leave no action: {names} cannot hold together")
            why = "and the numbers that must be zero" if rows.groups else "for whole numbers"
            raise ValueError(f"constraints leave no action: {names} cannot hold {why}")
        return np.array(starts), np.array(patterns, dtype=object), np.array(zeros)

    # --- which actions are feasible ---------------------------------------------------------------------------------

    def holds(self, points: FloatArray) -> Mask:
        """Return a mask (m,) of the points (m, d) that satisfy every constraint."""
        held = self._rows.hold(points)
        for row in np.flatnonzero(held) if self._functions else ():
            held[row] = all(self._call(i, points[row]) for i in self._functions)
        return held

    @property
    def slow(self) -> bool:
        """Whether a constraint is a function of the user, which is called for every point."""
        return bool(self._functions)

    def broken(self, point: FloatArray) -> str | None:
        """Return the first constraint that a point (d,) breaks as text; None if it satisfies all."""
        found = self._rows.broken(point)
        failing = (called(one) for i, one in self._functions.items() if not self._call(i, point))
        return next(failing, None) if found is None else found

    def _call(self, i: int, point: FloatArray) -> bool:
        function, action = self._functions[i], self._decode(Point(point))
        try:
            held = function(action)
        except Exception as error:
            text = f"constraints[{i}], {called(function)}, raised {type(error).__name__}: {error} for {action!r}"
            raise ValueError(printable(text)) from error
        if not isinstance(held, bool | np.bool_):
            raise TypeError(f"constraints[{i}], {called(function)}, must return True or False, got {held!r}")
        return bool(held)

    def zeroed(self, action: dict[str, Any]) -> dict[str, Any]:
        """Return an action without a rounding residue in numbers that should be zero."""
        rows = self._rows
        for j in {int(j) for members, _ in rows.groups for j in members}:
            if rows.is_zero(j, action[rows.names[j]]):
                action[rows.names[j]] = type(action[rows.names[j]])(0)
        return action

    # --- moves that stay inside -------------------------------------------------------------------------------------

    def towards(self, points: FloatArray, targets: FloatArray) -> FloatArray:
        """Return points on the way from feasible points (m, d) to targets (m, d), as far as the constraints hold."""
        patterns = self._patterns(points)
        moves = self._along(patterns, targets - points)
        share = np.minimum(self._reach(points, moves, _SLACK)[1], 1.0)
        reached = np.clip(points + share[:, None] * moves, 0.0, 1.0)
        for _ in range(_HALVINGS):
            wrong = ~self.holds(reached)
            if not wrong.any():
                return reached
            share[wrong] *= 0.5
            reached[wrong] = np.clip(points[wrong] + share[wrong, None] * moves[wrong], 0.0, 1.0)
        return np.where(self.holds(reached)[:, None], reached, points)

    def nearest(self, points: FloatArray) -> FloatArray:
        """Return feasible points near points (m, d): a feasible point itself, otherwise one on the way from inside."""
        found = np.array(points)
        for row in np.flatnonzero(~self.holds(points)):
            others = self._from_inside(points[row])
            found[row] = others[np.argmin(((others - points[row]) ** 2).sum(axis=1))]
        return found

    def elsewhere(self, point: FloatArray) -> FloatArray:
        """Return a point near a given one (d,) in every part: (k, d), with other whole numbers and zeros."""
        if self.continuous.all() and not self._rows.groups:
            return np.empty((0, self.dimension))
        return self._from_inside(point)

    def _from_inside(self, point: FloatArray) -> FloatArray:
        """Return the ends (k, d) of moves towards a point (d,), one from inside each part."""
        starts = (self._pool[:MOST_PARTS] if self._functions else self._starts).copy()
        starts[:, self._apart] = point[self._apart]
        return self.towards(starts, np.where(self.continuous, point, starts))

    def neighbours(self, point: FloatArray) -> FloatArray:
        """Return feasible points (k, d) with one or two whole numbers changed; others keep equalities."""
        whole, top = self._rows.whole.tolist(), self._rows.top
        steps: list[dict[int, int]] = [
            {j: sign * 2**i} for j in whole for i in range(int(math.log2(top[j])) + 1) for sign in (1, -1)
        ]
        steps += [{j: 1, k: -1} for j, k in itertools.permutations(whole[:12], 2)]
        change = np.zeros((len(steps), len(top)))
        for row, step in enumerate(steps):
            change[row, list(step)] = list(step.values())
        patterns = np.repeat(self._patterns(point[None]), len(steps))
        moved, possible = self._stepped(np.tile(point, (len(steps), 1)), change, patterns)
        moved = moved[possible]
        return moved[self.holds(moved)]

    def completed(self, points: FloatArray, fixed: Mask) -> tuple[FloatArray, Mask]:
        """Return points (m, d) moved to restore equalities, except in `fixed` (d,), and which of them are feasible."""
        pattern = Pattern.of(self._rows, self.continuous & ~fixed, self._rows.equal)
        moved = self._exact(points, pattern)
        inside = ((moved >= -_SLACK) & (moved <= 1.0 + _SLACK)).all(axis=1)
        moved = np.clip(moved, 0.0, 1.0)
        return moved, inside & self.holds(moved)

    def outward(self, point: FloatArray, move: FloatArray) -> FloatArray:
        """Return a move (d,) of one coordinate from a feasible point that keeps equalities; zero if forbidden."""
        rows, moving = self._rows, self.continuous & (move == 0.0) & (point > _SLACK) & (point < 1.0 - _SLACK)
        slope = np.zeros((len(rows.linear), self.dimension))
        slope[:, rows.at] = rows.factors * rows.unit * np.where(rows.log, rows.numbers(point[None])[0], 1.0)
        pattern = Pattern.of(rows, moving, rows.equal)
        whole = move - pattern.back @ np.where(rows.equal, slope @ move, 0.0)
        sums, change = rows.sums(point[None])[0], slope @ whole
        blocked = ((change > _SLACK) & (sums >= rows.high - rows.tolerance)) | (
            (change < -_SLACK) & (sums <= rows.low + rows.tolerance)
        )
        return np.zeros(self.dimension) if blocked.any() else whole

    def limits(self, point: FloatArray) -> ClimbConstraints:
        """Return the constraints of a climb from a feasible point (d,)."""
        rows, pattern = self._rows, self._patterns(point[None])[0]
        moving = (rows.factors[:, pattern.free[rows.at]] != 0.0).any(axis=1)
        return ClimbConstraints(rows, pattern, np.flatnonzero(~rows.equal & moving))

    def _patterns(self, points: FloatArray) -> Patterns:
        """Return the directions (m,) in which feasible points (m, d) may move."""
        if len(self._starts) == 1:
            return np.repeat(self._start_patterns, len(points))
        zero = np.zeros(points.shape, dtype=bool)
        for members, _ in self._rows.groups:
            zero[:, self._rows.at[members]] |= ~self._rows.active(points, members)
        return np.array([self._pattern(one) for one in zero], dtype=object)

    def _pattern(self, zero: Mask) -> Pattern:
        """Return the pattern of points with some zeros (d,): those of the first part with the same zeros, or fewer."""
        key = zero.tobytes()
        if key not in self._others:
            parts = self._zeros_of_parts
            fitting = np.flatnonzero((zero | ~parts).all(axis=1))
            held = parts[fitting[0]] if len(fitting) else zero
            self._others[key] = Pattern.of(self._rows, self.continuous & ~held, self._rows.equal)
        return self._others[key]

    @staticmethod
    def _along(patterns: Patterns, moves: FloatArray) -> FloatArray:
        made = np.empty_like(moves)
        for pattern in set(patterns):
            made[patterns == pattern] = pattern.along(moves[patterns == pattern])
        return made

    def _reach(self, points: FloatArray, moves: FloatArray, slack: float) -> tuple[FloatArray, FloatArray]:
        """Return how far (m,) points may go back and ahead along moves (m, d), by the straight sums: <= 0 and >= 0."""
        rows = self._rows
        slopes = np.where(self._bent, 0.0, moves[:, rows.at] @ rows.straight.T)
        sums, slopes = rows.sums(points), np.concatenate([moves, slopes], axis=1)
        down = np.minimum(np.concatenate([-points, rows.low - sums], axis=1) - slack, 0.0)
        up = np.maximum(np.concatenate([1.0 - points, rows.high - sums], axis=1) + slack, 0.0)
        still = np.abs(slopes) <= _STILL
        slopes[still] = 1.0
        one, other = down / slopes, up / slopes
        ahead = np.where(still, np.inf, np.maximum(one, other)).min(axis=1)
        back = np.where(still, -np.inf, np.minimum(one, other)).max(axis=1)
        return np.where(np.isfinite(back), back, 0.0), np.where(np.isfinite(ahead), ahead, 0.0)

    def _exact(self, points: FloatArray, pattern: Pattern) -> FloatArray:
        """Return points (m, d) after the shortest move that restores the equalities."""
        off = np.where(self._rows.equal, self._rows.sums(points) - self._rows.high, 0.0)
        return np.asarray(points - off @ pattern.back.T)

    def _stepped(self, points: FloatArray, change: FloatArray, patterns: Patterns) -> tuple[FloatArray, Mask]:
        """Return points (m, d) with whole numbers changed by steps (m, q), and which of them are in the box."""
        rows = self._rows
        moved, possible, numbers = points.copy(), np.ones(len(points), dtype=bool), rows.numbers(points)
        for j in rows.whole.tolist():
            some = np.flatnonzero(change[:, j])
            index = np.rint((numbers[some, j] - rows.base[j]) / rows.span[j]) + change[some, j]
            possible[some] &= (index >= 0) & (index <= rows.top[j])
            levels = np.clip(index, 0, rows.top[j]).astype(np.intp)
            moved[some, rows.at[j]] = rows.given[j].levels(levels)[:, 0]
        if rows.equal.any():
            for pattern in set(patterns):
                moved[patterns == pattern] = self._exact(moved[patterns == pattern], pattern)
        possible &= ((moved >= -_SLACK) & (moved <= 1.0 + _SLACK)).all(axis=1)
        return np.clip(moved, 0.0, 1.0), possible

    # --- points inside ----------------------------------------------------------------------------------------------

    def sample(self, count: int, seed: int) -> FloatArray:
        """Return feasible points (count, d), spread over all parts."""
        pool, patterns = self._pool, self._pool_patterns
        rows = np.arange(count) % len(pool)
        found = self._drawn(pool[rows], patterns[rows], seed)
        if self._functions:
            held = self.holds(found)
            found[~held] = pool[rows[~held]]
        return found

    def _drawn(self, points: FloatArray, patterns: Patterns, seed: int) -> FloatArray:
        """Return points (m, d) after a short walk; functions may not hold."""
        if self._apart.any():
            points[:, self._apart] = self._spread(len(points), seed)[:, self._apart]
        return self._walked(points, patterns, _STEPS, np.random.default_rng(seed))

    @cached_property
    def _pool(self) -> FloatArray:
        """Feasible points that walks start from."""
        rows = np.arange(_POOL) % len(self._starts)
        points, patterns = self._starts[rows], self._start_patterns[rows]
        points[:, self._linear_only] = self._spread(_POOL, 0)[:, self._linear_only]
        steps = min(max(100, 20 * int((~self._apart).sum())), 400)
        self._pool_patterns = patterns
        points = self._walked(points, patterns, steps, np.random.default_rng(0))
        return self._passing(points, patterns) if self._functions else points

    def _passing(self, points: FloatArray, patterns: Patterns) -> FloatArray:
        """Return a pool of points that satisfy the functions, by rejection."""
        kept, which, tried, found = list[FloatArray](), list[Patterns](), 0, 0
        choices = self._linear_only & ~self.continuous
        for batch in range(_BATCHES):
            points[:, choices] = self._spread(_POOL, batch)[:, choices]
            held = self.holds(points)
            kept.append(points[held])
            which.append(patterns[held])
            tried, found = tried + _POOL, found + int(held.sum())
            if found >= _POOL:
                break
            points = self._drawn(points, patterns, batch)
        if found < _LEAST:
            raise ValueError(
                f"constraints leave too few actions: {found} of {tried:,} actions tried satisfy "
                f"{' and '.join(map(called, self._functions.values()))}. Narrow the ranges, or give what is linear as "
                "a LinearConstraint, which needs no sampling"
            )
        self._pool_patterns = np.concatenate(which)[:_POOL]
        return np.concatenate(kept)[:_POOL]

    def _walked(self, points: FloatArray, patterns: Patterns, steps: int, rng: np.random.Generator) -> FloatArray:
        """Return the ends of walks from points (m, d): hit and run, and random steps of whole numbers."""
        moving, bent, start = ~self._apart & self.continuous, bool(self._bent.any()), points
        for _ in range(steps):
            if moving.any():
                moves = self._along(patterns, rng.normal(size=points.shape) * moving)
                size = np.sqrt((moves**2).sum(axis=1, keepdims=True))
                moves = np.divide(moves, size, out=np.zeros_like(moves), where=size > 1e-9)
                back, ahead = self._reach(points, moves, 0.0)
                share = back + rng.random(len(points)) * (ahead - back)
                new = np.clip(points + share[:, None] * moves, 0.0, 1.0)
                for _ in range(_HALVINGS if bent else 0):
                    wrong = ~self._rows.hold(new)
                    share[wrong] *= rng.random(int(wrong.sum()))
                    new[wrong] = np.clip(points[wrong] + share[wrong, None] * moves[wrong], 0.0, 1.0)
                points = np.where(self._rows.hold(new)[:, None], new, points) if bent else new
            if len(self._rows.whole):
                points = self._jumped(points, patterns, rng)
        return np.where(self._rows.hold(points)[:, None], points, start)

    def _jumped(self, points: FloatArray, patterns: Patterns, rng: np.random.Generator) -> FloatArray:
        """Return points (m, d) after a random step of one or two whole numbers, where it is feasible."""
        m, top = len(points), self._rows.top
        change = np.zeros((m, len(top)))
        first, second = rng.choice(self._rows.whole, m), rng.choice(self._rows.whole, m)
        step = rng.choice((-1, 1), m) * np.ceil(rng.random(m) ** 3 * np.maximum(top[first] / 2.0, 1.0))
        change[np.arange(m), first] = step
        pairs = np.flatnonzero((rng.random(m) < 0.5) & (first != second))
        change[pairs, second[pairs]] = -step[pairs]
        moved, possible = self._stepped(points, change, patterns)
        possible &= self._rows.hold(moved)
        return np.where(possible[:, None], moved, points)


@dataclass(frozen=True, eq=False)
class ClimbConstraints:
    """All linear constraints of a climb, the pattern of its moves, and the inequalities on a free coordinate."""

    rows: ConstraintRows
    pattern: Pattern
    bounded: Indices

    @property
    def _finite(self) -> Mask:
        return np.asarray(np.isfinite(np.concatenate([self.rows.low[self.bounded], self.rows.high[self.bounded]])))

    def room(self, point: FloatArray) -> FloatArray:
        """Return the distances (k,) of the sums of the inequalities from their bounds; negative beyond them."""
        sums = self.rows.sums(point[None])[0, self.bounded]
        both = np.concatenate([sums - self.rows.low[self.bounded], self.rows.high[self.bounded] - sums])
        return both[self._finite]

    def slopes(self, point: FloatArray) -> FloatArray:
        """Return the gradient (k, d) of `room`."""
        rows = self.rows
        slope = rows.unit * np.where(rows.log, rows.numbers(point[None])[0], 1.0)
        made = np.zeros((len(self.bounded), rows.dimension))
        made[:, rows.at] = rows.factors[self.bounded] * slope
        return np.concatenate([made, -made])[self._finite]
