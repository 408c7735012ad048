"""The derivative of a convex function phi as a table, and the masses that a table gives for two prices.

The symbols are those of `phi_divergence.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drbo._compiled import jit
from drbo.ambiguity.placed import EPSILON
from drbo.validation import FloatArray

Function = Callable[[FloatArray], FloatArray]

LEAST, _MOST = 1e-300, 1e306
"""The range of t in the table, besides 0."""
_RATIO = 1.01
"""Of neighbouring nodes. The error of the worst case is of the order of (ratio - 1)^4."""
_NEAREST = 1e-7
"""Distance of the nodes next to 1 from 1. Closer nodes would show the rounding of phi."""
_KINK = 30.0
"""A node is at a kink if the curvature there is this many times that of its neighbours."""


@jit
def _lower_hull(t: FloatArray, values: FloatArray) -> NDArray[np.intp]:
    """Return the nodes below which no chord passes, and 1: rounding of phi must not bend the derivative."""
    kept = np.empty(len(t), np.intp)
    n = 0
    for k in range(len(t)):
        while n > 1 and t[kept[n - 1]] != 1.0:
            a, b = kept[n - 2], kept[n - 1]
            if (values[b] - values[a]) / (t[b] - t[a]) <= (values[k] - values[b]) / (t[k] - t[b]):
                break
            n -= 1
        kept[n] = k
        n += 1
    return kept[:n]


@jit
def _ratio(y: float, nodes: FloatArray, slopes: FloatArray) -> float:
    """Return t with the derivative y, between the nodes on a straight line."""
    last = len(slopes) - 1
    low, high = (0, last) if y >= slopes[0] else (0, 0)
    if y >= slopes[last]:
        low = high
    while high - low > 1:  # slopes[low] <= y < slopes[high]
        middle = (low + high) // 2
        if slopes[middle] <= y:
            low = middle
        else:
            high = middle
    found: float = nodes[low]
    if high > low:
        found += (y - slopes[low]) / (slopes[high] - slopes[low]) * (nodes[high] - nodes[low])
    return found


@jit
def masses(
    rate: FloatArray,
    u: FloatArray,
    cheapest: FloatArray,
    p: FloatArray,
    nodes: FloatArray,
    slopes: FloatArray,
    below: float,
    above: float,
    slope: float,
) -> tuple[FloatArray, FloatArray]:
    """Return weights (m, n + 1) that minimise <q, u> + rate * divergence, and the price of mass (m,).

    Bisection finds the price at which the masses sum to one. At a jump both sides are mixed. With the price at its
    limit, cheapest + rate * slope, the rest of the mass is off the support, in the last column.
    """
    m, n = u.shape
    weights, tops = np.zeros((m, n + 1)), np.empty(m)
    small, large = np.empty(n), np.empty(n)
    for i in range(m):
        least, most = u[i].min(), u[i].max()
        rounding = 4.0 * EPSILON * (1.0 + rate[i])
        low = least + rate[i] * below - rounding
        high = most + rate[i] * above + rounding
        limit = cheapest[i] + rate[i] * slope
        limited = limit < high
        if limited:
            high = limit
        low = min(low, high)
        for j in range(n):
            small[j] = p[j] * _ratio((low - u[i, j]) / rate[i], nodes, slopes)
        for j in range(n):
            large[j] = p[j] * _ratio((high - u[i, j]) / rate[i], nodes, slopes)
        if limited and large.sum() <= 1.0:
            weights[i, :n] = large
            weights[i, n] = 1.0 - large.sum()
            tops[i] = high
            continue
        for _ in range(200):
            middle = 0.5 * (low + high)
            if middle <= low or middle >= high:
                break
            total = 0.0
            for j in range(n):
                total += p[j] * _ratio((middle - u[i, j]) / rate[i], nodes, slopes)
            if total <= 1.0:
                low = middle
            else:
                high = middle
        for j in range(n):
            small[j] = p[j] * _ratio((low - u[i, j]) / rate[i], nodes, slopes)
        for j in range(n):
            large[j] = p[j] * _ratio((high - u[i, j]) / rate[i], nodes, slopes)
        share, step = 0.0, large.sum() - small.sum()
        if step > 0.0:
            share = min(max((1.0 - small.sum()) / step, 0.0), 1.0)
        mixed = small + share * (large - small)
        weights[i, :n] = mixed / mixed.sum()
        tops[i] = min(low, least + rate[i] * slope - rounding)  # the conjugate is inf beyond the slope
    return weights, tops


@dataclass(frozen=True, eq=False)
class Table:
    """The derivative of phi as a table, from which t is read for a price y.

    Attributes
    ----------
    nodes, slopes : increasing t and the derivative there, less phi'(1); a kink is there twice
    at_one : phi'(1), or a number between both derivatives at 1
    around_one : the derivatives on both sides of 1, less `at_one`
    ends : of the domain, within the range of the table
    most : the largest value of phi if its domain is bounded and phi finite there; otherwise inf
    """

    nodes: FloatArray
    slopes: FloatArray
    at_one: float
    around_one: tuple[float, float]
    ends: tuple[float, float]
    most: float

    @classmethod
    def of(cls, phi: Function) -> Table:
        """Return the table of a function; raise if it is not convex or not zero at 1."""
        at_one = float(phi(np.array([1.0]))[0])
        if not abs(at_one) <= 1e-12:
            raise ValueError(f"phi must be 0 at t = 1, got {at_one!r}")
        t, bounded = _within_domain(phi, _grid(bool(np.isinf(phi(np.array([0.0]))[0]))))
        t = _with_kinks(phi, t)
        values = phi(t)
        _check_convex(t, values)
        kept = _lower_hull(t, values)
        t, values = t[kept], values[kept]
        chords, _, kinks = _curvature(t, values)
        width = np.diff(t)
        inner = (width[1:] * chords[:-1] + width[:-1] * chords[1:]) / (width[:-1] + width[1:])
        slopes = np.concatenate([[2.0 * chords[0] - inner[0]], inner, [2.0 * chords[-1] - inner[-1]]])
        sides = np.stack([slopes, slopes], axis=1)
        sides[1:-1][kinks] = np.stack([chords[:-1], chords[1:]], axis=1)[kinks]
        sides = np.maximum.accumulate(sides.ravel()).reshape(-1, 2)  # averages of unequal widths may cross
        below, above = sides[int(np.searchsorted(t, 1.0))].tolist()
        centre = 0.5 * (below + above)
        centre = 0.0 if abs(centre) < 1e-9 else centre
        largest = float(max(values[0] - centre * (t[0] - 1.0), values[-1] - centre * (t[-1] - 1.0)))
        return cls(
            np.repeat(t, 2),
            sides.ravel() - centre,
            centre,
            (min(below - centre, 0.0), max(above - centre, 0.0)),
            (float(t[0]), float(t[-1])),
            largest if bounded else math.inf,
        )


def _grid(open_at_zero: bool) -> FloatArray:
    """Return the nodes of the table: closer near 1; near 0 as far as differences of phi can be told from rounding."""
    offsets = _NEAREST * 1.25 ** np.arange(64)
    offsets = offsets[offsets < 0.05]
    step = math.log(_RATIO)
    smallest = LEAST if open_at_zero else 1e-12
    up = np.exp(np.arange(math.log1p(float(offsets[-1])) + step, math.log(_MOST), step))
    down = np.exp(-np.arange(-math.log1p(-float(offsets[-1])) + step, -math.log(smallest), step))
    return np.concatenate([[0.0, smallest], down[::-1], 1.0 - offsets[::-1], [1.0], 1.0 + offsets, up])


def _within_domain(phi: Function, t: FloatArray) -> tuple[FloatArray, bool]:
    """Return the nodes in the domain of phi, with its ends, and whether the domain has an upper end."""
    finite = np.isfinite(phi(t))
    first, last = int(finite.argmax()), len(t) - 1 - int(finite[::-1].argmax())
    if not finite[first : last + 1].all() or not t[first] <= 1.0 <= t[last]:
        raise ValueError("phi must be finite on an interval of ratios around t = 1, and inf elsewhere")
    inside = t[first : last + 1]
    if last < len(t) - 1:
        inside = np.append(inside, _end(phi, float(t[last]), float(t[last + 1])))
    if first > 0 and t[first] > LEAST:
        inside = np.append(_end(phi, float(t[first]), float(t[first - 1])), inside)
    inside = np.unique(inside)
    bounded = last < len(t) - 1 and float(phi(inside[-1:])[0]) < 1e280
    return inside, bounded


def _end(phi: Function, inside: float, outside: float) -> float:
    """Return the last number of the domain between one inside and one outside."""
    while True:
        middle = 0.5 * (inside + outside)
        if middle in (inside, outside):
            return inside
        inside, outside = (middle, outside) if np.isfinite(phi(np.array([middle]))[0]) else (inside, middle)


def _curvature(t: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
    """Return the slopes of the chords (k - 1,), their rounding (k - 1,), and which inner nodes (k - 2,) are kinks."""
    width = np.diff(t)
    chords = np.diff(values) / width
    rounding = 8.0 * EPSILON * (1.0 + np.maximum(t[1:], np.maximum(np.abs(values[1:]), np.abs(values[:-1])))) / width
    jumps = np.diff(chords)
    curved = np.maximum(jumps, 0.0) / ((width[1:] + width[:-1]) / t[1:-1])  # phi'' itself may overflow near 0
    beside = np.minimum(np.append(curved[1:], np.inf), np.append(np.inf, curved[:-1]))
    return chords, rounding, (jumps > 1e3 * (rounding[1:] + rounding[:-1])) & (curved > _KINK * beside)


def _with_kinks(phi: Function, t: FloatArray) -> FloatArray:
    """Return the nodes, and one at each kink between two of them."""
    _, _, kinks = _curvature(t, phi(t))
    inside = np.flatnonzero(kinks[1:] & kinks[:-1]) + 1  # a kink between nodes k and k + 1 bends at both of them
    found = [_kink(phi, float(t[k]), float(t[k + 1])) for k in inside]
    kept = np.ones(len(t), dtype=bool)
    for at, k in zip(found, inside.tolist(), strict=True):
        for near in (k, k + 1):
            kept[near] &= t[near] == 1.0 or abs(t[near] - at) > 1e-6 * (t[k + 1] - t[k])
    return np.union1d(t[kept], np.array(found))


def _kink(phi: Function, low: float, high: float) -> float:
    """Return the kink between two numbers: where the lines from both sides meet, closer and closer."""
    middle, half = 0.5 * (low + high), 0.5 * (high - low)
    while half > 1e-9 * high:
        a, b, c, d = x = np.array([middle - 2.0 * half, middle - half, middle + half, middle + 2.0 * half])
        value = phi(x)
        left, right = (value[1] - value[0]) / (b - a), (value[3] - value[2]) / (d - c)
        if not right > left:
            break
        meet = (value[1] - value[2] + right * c - left * b) / (right - left)
        middle, half = float(np.clip(meet, b, c)), half / 8.0
    return middle


def _check_convex(t: FloatArray, values: FloatArray) -> None:
    """Raise if the slopes of the chords fall by more than rounding."""
    chords, rounding, _ = _curvature(t, values)
    falls = chords[:-1] - chords[1:] - rounding[:-1] - rounding[1:]
    if falls.max() > 0.0:
        k = int(falls.argmax())
        raise ValueError(
            f"phi must be convex, but its slope falls from {chords[k]:.6g} before t = {t[k + 1]:.6g} to "
            f"{chords[k + 1]:.6g} after it"
        )
