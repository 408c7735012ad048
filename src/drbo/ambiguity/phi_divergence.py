"""Any phi-divergence, given by its function: a table of derivatives finds the worst case, and the dual certifies it.

Symbols, besides those of `placed.py`:

    phi          convex on t >= 0, phi(1) = 0; here without its slope at 1, which changes no divergence
    t_i          q_i / p_i
    (rate, top)  the dual point: the prices of divergence and of mass
    y_i          (top - v_i) / rate, the price at which t_i maximises y_i t - phi(t)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drbo import validation
from drbo.ambiguity._phi_table import LEAST, Function, Table, masses
from drbo.ambiguity.divergence import MassDivergence
from drbo.ambiguity.placed import EPSILON, Dual, Growth, WorstCase, in_unit_range, reference_alone
from drbo.validation import FloatArray

__all__ = ["PhiDivergence"]

_LADDER = 4e-8 * 16.0 ** np.arange(8)
"""Distances, as shares of t, of the chords that bound the conjugate."""
_SMALLEST_SCALE = 0.005
"""The value of t from which these distances no longer shrink: there phi has the rounding of phi(0)."""
_EDGE = 1e-10
"""Tolerance for a ratio q / p beyond the ends of phi's domain, as a share of it."""
_ITERATIONS = 200
"""Limit of the search for the rate, enough for bisection alone."""
_RATES = (1e18, 1e-18)
"""Of the distribution nearest to the reference, and of the furthest one."""


@dataclass(frozen=True)
class PhiDivergence(MassDivergence):
    """All distributions q with a phi-divergence sum_i p_i phi(q_i / p_i) of at most eps, for a phi of your own.

    worst case = max_{rate >= 0, top}  top - rate eps - rate sum_i p_i phi*((top - v_i) / rate),

    with the conjugate phi*(y) = sup_{t >= 0} y t - phi(t). Mass q_j on a context of zero reference weight costs
    slope_at_infinity * q_j; the dual then has top - v_j <= rate * slope_at_infinity. The adversary's distribution is
    the first argument of `distance(q, p)`, the reference the second. Radius 0 gives the expectation, radius inf the
    lowest value that a finite divergence can approach.

    The dual value is the certificate. Without `conjugate` the conjugate is bounded from above: outside of an interval a
    convex function lies above the line through the interval's ends, so chords to the left and to the right of the
    maximiser bound y t - phi(t) everywhere. The bound is exact up to the rounding of `phi`. `KL()`, `ChiSquare()`,
    `TotalVariation()` and `CVaR()` are special cases with faster solvers of their own.

    Parameters
    ----------
    phi : takes an array of ratios t >= 0 and returns an array: convex, phi(1) = 0, inf outside of its domain. It is
        checked on a grid. `save` needs a function with a name, and `load` takes it in `classes=`
    conjugate : phi*, if there is a formula; takes an array, and returns inf outside of its domain. It is checked on the
        same grid
    slope_at_infinity : lim phi(t) / t; inf keeps the mass on the reference's support
    """

    phi: Function
    conjugate: Function | None = None
    slope_at_infinity: float = math.inf

    growth = Growth(
        convex=True,
        instead_of_a_rule="Give the radius as a number; drbo.radius.EmpiricalLikelihood(confidence) has rules for "
        "drbo.KL() and drbo.ChiSquare().",
    )

    def __post_init__(self) -> None:
        if not callable(self.phi):
            raise TypeError(f"phi must be a function of an array, got {self.phi!r}")
        if self.conjugate is not None and not callable(self.conjugate):
            raise TypeError(f"conjugate must be a function of an array or None, got {self.conjugate!r}")
        slope = self.slope_at_infinity
        if not (isinstance(slope, float) and slope == math.inf):  # an array would compare entry by entry
            slope = validation.finite_float("slope_at_infinity", slope)
        object.__setattr__(self, "slope_at_infinity", float(slope))
        self._check()

    def __repr__(self) -> str:
        given = [getattr(self.phi, "__name__", repr(self.phi))]
        if self.conjugate is not None:
            given.append(f"conjugate={getattr(self.conjugate, '__name__', repr(self.conjugate))}")
        if self.slope_at_infinity < math.inf:
            given.append(f"slope_at_infinity={self.slope_at_infinity!r}")
        return f"PhiDivergence({', '.join(given)})"

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("phi", "conjugate", "slope_at_infinity")}

    def words(self, radius: float) -> str:
        name = getattr(self.phi, "__name__", "phi")
        return f"within a phi-divergence of {radius:.3g} of the reference (phi: {name})"

    @property
    def everything(self) -> str:
        if self.slope_at_infinity < math.inf:
            return "every distribution on the contexts of a finite divergence"
        return "every distribution of a finite divergence on the contexts that the reference shows"

    def dual(self, values: FloatArray, reference: FloatArray, radius: float, worst: WorstCase) -> Dual | None:
        """Return the dual point: a further context lowers the worst case if its value is below top - rate * slope."""
        if radius == 0.0 or self.slope_at_infinity == math.inf:
            return None
        u, lowest, scale = in_unit_range(values[None])
        level = float(lowest[0])
        if radius < math.inf:
            found = self._solved(u, reference, radius)
            level += float(scale[0] * (found.top[0] - found.rate[0] * self._slope))
        bound = float(worst.lower_bound)

        def threshold(points: FloatArray, half: FloatArray) -> tuple[FloatArray, FloatArray]:
            del half
            return np.full(len(points), level), np.zeros_like(points)

        return Dual(bound, 1.0, threshold)

    def _distance(self, p: FloatArray, q: FloatArray) -> float:
        return float(self._divergence(p[None], q)[0])

    def _divergence(self, weights: FloatArray, reference: FloatArray) -> FloatArray:
        """Return the divergence (m,) of weights (m, n) from a reference (n,)."""
        support = reference > 0.0
        off = weights[:, ~support].sum(axis=1)
        t = weights[:, support] / reference[support]
        low, high = self._table.ends
        t = np.where((t > high) & (t <= high * (1.0 + _EDGE)), high, t)
        t = np.where((t < low) & (t >= low * (1.0 - _EDGE)), low, t)
        with np.errstate(over="ignore", invalid="ignore"):
            terms = reference[support] * self._centred(t)
            paid = np.where(off > 0.0, off * self._slope, 0.0)
        return np.asarray(np.maximum(terms.sum(axis=1) + paid, 0.0))

    def _diameter(self, reference: FloatArray) -> float:
        """Return the largest divergence, inf if there is none; an upper bound if the domain of phi is bounded."""
        reachable = len(reference) if self._slope < math.inf else np.count_nonzero(reference)
        if reachable == 1:
            return 0.0
        if math.isfinite(self._largest):
            return self._largest
        distances = self._to_vertices(reference)
        return float(distances.max() if self._slope < math.inf else distances[reference > 0.0].max())

    def _solve(self, values: FloatArray, reference: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        if radius == 0.0:
            return reference_alone(values, reference)
        usable = reference > 0.0 if self._slope == math.inf else np.ones(len(reference), dtype=bool)
        u, lowest, scale = in_unit_range(values[:, usable])
        found = self._solved(u, reference[usable], radius)
        weights = np.zeros_like(values)
        weights[:, usable] = found.weights
        return weights, lowest + scale * found.bound

    # --- phi and its table -------------------------------------------------------------------------------------------

    def _evaluated(self, function: Function, name: str, at: FloatArray) -> FloatArray:
        """Return the function's values at an array, or raise a sentence about them."""
        with np.errstate(all="ignore"):
            found = np.asarray(function(at))
        if found.shape != at.shape or found.dtype.kind not in "fiu":
            raise TypeError(
                f"{name} must return one number per entry of its argument, an array of shape {at.shape}, got "
                f"{found.dtype} of shape {found.shape}; numpy.vectorize makes such a function from one of a number"
            )
        bad = np.isnan(found) | (found == -math.inf)
        if bad.any():
            raise ValueError(
                f"{name} must be a number or inf everywhere, got {found[bad][0]} at {at[bad][0]:.6g}; for t log t at "
                "0 there is scipy.special.xlogy(t, t)"
            )
        return found.astype(float)

    def _centred(self, t: FloatArray) -> FloatArray:
        """Return phi(t) - phi'(1) (t - 1), which is never negative."""
        return self._evaluated(self.phi, "phi", t) - self._table.at_one * (t - 1.0)

    @property
    def _slope(self) -> float:
        return self.slope_at_infinity - self._table.at_one

    @cached_property
    def _table(self) -> Table:
        return Table.of(lambda t: self._evaluated(self.phi, "phi", t))

    def _check(self) -> None:
        """Raise unless phi fits its slope at infinity and its conjugate; making the table checks phi itself."""
        nodes, slopes = self._table.nodes, self._table.slopes + self._table.at_one
        if self.slope_at_infinity < slopes[-1] - 1e-9 * max(1.0, abs(slopes[-1])):
            raise ValueError(
                f"slope_at_infinity must be at least the slope of phi, {slopes[-1]:.6g} at t = {nodes[-1]:.3g}, got "
                f"{self.slope_at_infinity!r}"
            )
        if self.conjugate is None:
            return
        some = np.flatnonzero((nodes >= 1e-6) & (nodes <= 1e6))[::16]
        t, y = nodes[some], slopes[some]
        value, phi = self._evaluated(self.conjugate, "conjugate", y), self._evaluated(self.phi, "phi", t)
        own = y[:, None] * t - phi
        short = own - value[:, None] - 1e-9 * (1.0 + np.abs(y[:, None] * t) + np.abs(phi))
        if short.max() > 0.0:
            i, j = np.unravel_index(np.argmax(short), short.shape)
            raise ValueError(
                f"conjugate must be at least y t - phi(t) for every t, but conjugate({y[i]:.6g}) = {value[i]:.6g}, "
                f"and y t - phi(t) is {own[i, j]:.6g} at t = {t[j]:.6g}"
            )

    # --- the worst case ----------------------------------------------------------------------------------------------

    def _solved(self, u: FloatArray, reference: FloatArray, radius: float) -> _Solved:
        """Return weights (m, n), lower bounds (m,) and the dual point for values u (m, n) in [0, 1]."""
        m, support = len(u), reference > 0.0
        found = _Solved(self._on_lowest(u, reference), np.zeros(m), np.zeros(m), np.zeros(m))
        inside = self._divergence(found.weights, reference) > radius
        if math.isinf(radius):
            inside = np.full(m, math.isfinite(self._table.most))
        inside &= (u > 0.0).any(axis=1)
        if inside.any():
            off, nature = u[inside][:, ~support], np.flatnonzero(~support)
            cheapest = off.min(axis=1, initial=math.inf)
            on = np.ascontiguousarray(u[inside][:, support])
            weights, *dual = self._interior(on, cheapest, reference[support], min(radius, self._largest))
            whole = np.zeros((len(on), len(reference)))
            whole[:, support] = weights[:, :-1]
            if len(nature):
                whole[np.arange(len(on)), nature[off.argmin(axis=1)]] = weights[:, -1]
            found.weights[inside] = whole
            found.bound[inside], found.rate[inside], found.top[inside] = dual
        return found

    @property
    def _largest(self) -> float:
        """The largest divergence if the domain of phi is bounded; otherwise inf."""
        return max(self._table.most, self._slope if self._slope < math.inf else 0.0)

    @staticmethod
    def _on_lowest(u: FloatArray, reference: FloatArray) -> FloatArray:
        """Return the nearest distribution (m, n) with all mass on the lowest values; the reference for a flat row."""
        shares = np.where(u == 0.0, reference, 0.0)
        mass = shares.sum(axis=1, keepdims=True)
        first = np.eye(u.shape[1])[np.argmin(u, axis=1)]
        onto = np.where(mass > 0.0, shares / np.where(mass > 0.0, mass, 1.0), first)
        onto[(u == 0.0).all(axis=1)] = reference
        return onto

    def _interior(
        self, u: FloatArray, cheapest: FloatArray, p: FloatArray, radius: float
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return weights (m, n + 1), bounds, rates and tops (m,) for values u (m, n) on the support.

        The last column is the mass off the support, on a context of value `cheapest` (m,). The divergence falls with
        the rate: the rate is found between a `near` distribution inside of the radius and a `far` one outside.
        """
        table, slope, reference = self._table, self._slope, np.append(p, 0.0)

        def at(rate: FloatArray, rows: NDArray[np.intp]) -> _DualPoint:
            weights, top = masses(rate, u[rows], cheapest[rows], p, table.nodes, table.slopes, *table.around_one, slope)
            return _DualPoint(rate, top, weights, self._divergence(weights, reference))

        rows = np.arange(len(u))
        near, far = (at(np.full(len(u), rate), rows) for rate in _RATES)
        rate = np.ones(len(u))
        open_rows = rows[(far.divergence > radius) & (near.divergence <= radius)]
        for k in range(_ITERATIONS):
            if not open_rows.size:
                break
            now = at(rate[open_rows], open_rows)
            inside = now.divergence <= radius
            near.replace(open_rows, now, inside)
            far.replace(open_rows, now, ~inside)
            closed = near.rate[open_rows] <= far.rate[open_rows] * (1.0 + 4.0 * EPSILON)
            closed |= radius - near.divergence[open_rows] <= 1e-13 * radius + EPSILON
            open_rows = open_rows[~closed]
            rate[open_rows] = _between(near, far, open_rows, radius, k)
        # The divergence is convex, so a mixture of both is within the radius.
        share = np.ones(len(u))
        outside = far.divergence > radius
        with np.errstate(all="ignore"):
            step = (radius - near.divergence[outside]) / (far.divergence[outside] - near.divergence[outside])
        share[outside] = np.clip(np.nan_to_num(step), 0.0, 1.0)
        weights = share[:, None] * far.weights + (1.0 - share[:, None]) * near.weights
        bounds = [self._bounds(u, p, radius, one) for one in (near, far)]
        better = bounds[1] > bounds[0]
        return (
            weights,
            np.where(better, *bounds[::-1]),
            np.where(better, far.rate, near.rate),
            np.where(better, far.top, near.top),
        )

    def _bounds(self, u: FloatArray, p: FloatArray, radius: float, at: _DualPoint) -> FloatArray:
        """Return the dual value (m,) at a dual point, from ratios t near the maximisers and what these miss.

        top - rate eps - rate sum p phi*(y) = top (1 - sum p t) + sum p t u + rate (sum p (phi(t) - missed) - eps), with
        missed = phi*(y) - (y t - phi(t)). So written, nothing large cancels.
        """
        y = (at.top[:, None] - u) / at.rate[:, None]
        t = np.clip(at.weights[:, :-1] / p, *self._table.ends)
        phi = self._centred(t)
        with np.errstate(all="ignore"):
            if self.conjugate is None:
                missed = self._missed(y, t, phi, p)
            else:
                value = self._evaluated(self.conjugate, "conjugate", y + self._table.at_one) - self._table.at_one
                missed = np.maximum(value - (y * t - phi), 0.0)
            mass = p * t
            price = (p * (phi - missed)).sum(axis=1) - radius
            dual = at.top * (1.0 - mass.sum(axis=1)) + (mass * u).sum(axis=1) + at.rate * price
        return np.where(np.isnan(dual), -math.inf, dual)

    @np.errstate(all="ignore")
    def _missed(self, y: FloatArray, t: FloatArray, phi: FloatArray, p: FloatArray) -> FloatArray:
        """Return an upper bound (m, n) of phi*(y) - (y t - phi(t)) by chords; q <= 1, so no ratio exceeds 1 / p.

        g(x) = y x - phi(x) is concave: beyond an interval it lies below the line through the interval's ends. So on
        each interval of a ladder around t it is bounded by the lines of its neighbours, and by the last ones beyond.
        """
        low, high = self._table.ends
        far = np.maximum(np.minimum(high, 1.0 / p), t)
        scale = np.maximum(t, _SMALLEST_SCALE if low == 0.0 else 0.0)
        middle = self._improved(y, t, phi, scale, far)[..., None]
        offsets = scale[..., None] * _LADDER
        x = np.clip(
            np.concatenate([middle - offsets[..., ::-1], middle, middle + offsets], axis=-1), low, far[..., None]
        )
        g = y[..., None] * (x - t[..., None]) - (self._centred(x) - phi[..., None])
        width = np.diff(x, axis=-1)
        slope = np.where(width > 0.0, np.diff(g, axis=-1) / width, 0.0)
        known = width > 0.0
        # Line of the interval before, at the right end of this one; line of the interval after, at its left end.
        before, after = (np.full_like(width, np.inf) for _ in range(2))
        node = g[..., 1:-1]
        before[..., 1:] = np.where(known[..., :-1], node + np.maximum(slope[..., :-1] * width[..., 1:], 0.0), np.inf)
        after[..., :-1] = np.where(known[..., 1:], node + np.maximum(-slope[..., 1:] * width[..., :-1], 0.0), np.inf)
        either = np.minimum(before, after)
        inner = np.where(known, either, g[..., :-1]).max(axis=-1)
        left = g[..., 0] + np.maximum(-_first(slope, known), 0.0) * (x[..., 0] - (low if low > LEAST else 0.0))
        right = g[..., -1] + np.maximum(_first(slope[..., ::-1], known[..., ::-1]), 0.0) * (far - x[..., -1])
        found = np.maximum(np.maximum(inner, 0.0), np.maximum(left, right))
        return np.where(np.isnan(found), np.inf, found)

    def _improved(
        self, y: FloatArray, t: FloatArray, phi: FloatArray, scale: FloatArray, far: FloatArray
    ) -> FloatArray:
        """Return the ratio (m, n) after one step of Newton's method towards the maximum, if it gains anything."""
        low, step = self._table.ends[0], 1e-4 * scale
        before, after = (self._centred(np.clip(t + way, low, far)) for way in (-step, step))
        bend = (after - 2.0 * phi + before) / step
        gain = np.clip(y - 0.5 * (after - before) / step, -50.0 * bend, 50.0 * bend) * step / bend
        there = np.clip(t + np.where(bend > 0.0, gain, 0.0), low, far)
        return np.where(y * (there - t) > self._centred(there) - phi, there, t)


def _first(slope: FloatArray, known: NDArray[np.bool_]) -> FloatArray:
    """Return the first slope of an interval with a width."""
    return np.take_along_axis(slope, known.argmax(axis=-1)[..., None], axis=-1)[..., 0]


@dataclass(frozen=True, eq=False)
class _Solved:
    """Weights (m, n), lower bounds (m,), and the dual point of each row."""

    weights: FloatArray
    bound: FloatArray
    rate: FloatArray
    top: FloatArray


@dataclass(frozen=True, eq=False)
class _DualPoint:
    """The best distributions (m, n + 1) for given rates (m,), with the price of mass and their divergence."""

    rate: FloatArray
    top: FloatArray
    weights: FloatArray
    divergence: FloatArray

    def replace(self, rows: NDArray[np.intp], other: _DualPoint, where: NDArray[np.bool_]) -> None:
        """Take over the rows of another point of which `where` holds."""
        for name in ("rate", "top", "weights", "divergence"):
            getattr(self, name)[rows[where]] = getattr(other, name)[where]


def _between(near: _DualPoint, far: _DualPoint, rows: NDArray[np.intp], radius: float, k: int) -> FloatArray:
    """Return rates between two points: by a straight line of the logarithms, every second time by bisection."""
    low, high = np.log(far.rate[rows]), np.log(near.rate[rows])
    with np.errstate(all="ignore"):
        above, below = np.log(far.divergence[rows] / radius), np.log(near.divergence[rows] / radius)
        line = low + (high - low) * above / (above - below)
    straight = np.isfinite(line) & (line > low) & (line < high) & (k % 2 == 0)
    return np.exp(np.where(straight, line, 0.5 * (low + high)))
