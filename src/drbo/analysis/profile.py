"""What robustness costs and what it buys, radius by radius: what to read before choosing a radius."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drbo import validation
from drbo._extras import require
from drbo.ambiguity import AmbiguitySet, Expectation
from drbo.analysis.pictures import against_radius
from drbo.rounds.ball import TIE, first_of_the_best
from drbo.rounds.grid import robust_scores
from drbo.validation import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STEPS = 16
"""Into how many steps the gap between two radii is cut when looking for the place where an action stops being best."""


@dataclass(frozen=True, eq=False)
class RobustnessProfile:
    """One row a radius, k of them.

    Attributes
    ----------
    radius : (k,)
    action_index : (k,) the best robust action
    worst_case : (k,) its worst-case expectation: what it is sure to bring
    expected : (k,) its expectation under the reference
    price : (k,) what robustness costs if the reference is true: the best expectation, less this action's
    protection : (k,) what it buys if the world is as bad as the radius allows: this action's worst case, less that of
        the action that is best under the reference
    best_until : (k,) the largest radius up to which this action stays the best one, to about 1e-9 of it; inf if it
        never stops
    weights : (k, n_contexts) the worst distribution for it
    """

    radius: FloatArray
    action_index: NDArray[np.intp]
    worst_case: FloatArray
    expected: FloatArray
    price: FloatArray
    protection: FloatArray
    best_until: FloatArray
    weights: FloatArray

    def rows(self) -> list[dict[str, float]]:
        """Return the table as a list of rows, without the weights."""
        columns = {f.name: getattr(self, f.name).tolist() for f in fields(self) if f.name != "weights"}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def to_frame(self) -> Any:
        """Return a pandas DataFrame of the rows, one per radius."""
        return require("pandas", "frame").DataFrame.from_records(self.rows())

    def plot(self) -> Figure:
        """Return a matplotlib figure: the worst case and the expectation, and what robustness costs and buys."""
        values = {"worst case": self.worst_case, "expected": self.expected}
        robustness = {"price": self.price, "protection": self.protection}
        return against_radius(self.radius, {"Value": values, "Robustness": robustness}, None)


def profile(values: ArrayLike, ambiguity: AmbiguitySet, reference: ArrayLike, radii: ArrayLike) -> RobustnessProfile:
    """Return what each radius means for the choice among known values (n_actions, n_contexts), exactly.

    The values may be a known f, or a posterior mean or lower confidence bound of a learned one.
    """
    f = validation.finite_array("values", values, ndim=2)
    p = validation.distribution("reference", reference, f.shape[1])
    eps = validation.radii(radii)
    validation.of_kind("ambiguity", ambiguity, AmbiguitySet, "an ambiguity set")
    tie = TIE * float(np.ptp(f))
    expected = f @ p
    stochastic = first_of_the_best(expected, tie)
    scores = np.array([robust_scores(f, ambiguity, p, r) for r in eps])
    best = np.array([first_of_the_best(row, tie) for row in scores], dtype=np.intp)
    chosen = np.arange(len(eps)), best
    weights = np.array([ambiguity.worst_case(f[x], p, r).weights for x, r in zip(best, eps, strict=True)])
    until = np.empty(len(eps))
    start, end, leader = math.inf, -math.inf, -1
    for i in np.argsort(eps):  # radii between two changes of the best action share the second one
        if best[i] != leader or not start <= eps[i] <= end:
            start, leader = float(eps[i]), int(best[i])
            end = _best_until(f, ambiguity, p, leader, start, eps, tie)
        until[i] = end
    return RobustnessProfile(
        radius=eps,
        action_index=best,
        worst_case=scores[chosen],
        expected=expected[best],
        price=expected.max() - expected[best],
        protection=scores[chosen] - scores[:, stochastic],
        best_until=until,
        weights=weights,
    )


def _best_until(
    f: FloatArray, ambiguity: AmbiguitySet, p: FloatArray, x: int, start: float, radii: FloatArray, tie: float
) -> float:
    """Return the largest radius from `start` on up to which action x stays within a tie of the best."""

    def wins(radius: float) -> bool:
        scores = robust_scores(f, ambiguity, p, radius)
        return bool(scores[x] >= scores.max() - tie)

    inside = start
    for outside in _probes(start, radii):
        if not wins(outside):
            while outside - inside > 1e-9 * outside:
                middle = 0.5 * (inside + outside) if math.isfinite(outside) else 2.0 * inside + 1.0
                if wins(middle):
                    inside = middle
                else:
                    outside = middle
            return inside
        inside = outside
    return math.inf


def _probes(start: float, radii: FloatArray) -> list[float]:
    """Return the radii to look at beyond `start`: between those of the table, then doubling, then infinity."""
    knots = np.unique(np.append(radii[(radii > start) & np.isfinite(radii)], start))
    between = [np.linspace(a, b, _STEPS + 1)[1:] for a, b in itertools.pairwise(knots)]
    doubling = max(float(knots[-1]), 1e-3) * 2.0 ** np.arange(1, 12)
    return [*np.concatenate([*between, doubling]).tolist(), math.inf]


def radius_for_loss(values: ArrayLike, ambiguity: AmbiguitySet, reference: ArrayLike, loss: float) -> float:
    """Return the smallest radius at which the worst case of one action is `loss` below its expectation, inf if none is.

    It makes radii of different sets comparable: values (n_contexts,) lose the same in each. Found by bisection to about
    1e-12 of the radius, as the worst case falls monotonically with it.
    """
    v = validation.finite_array("values", values, ndim=1)
    validation.of_kind("ambiguity", ambiguity, AmbiguitySet, "an ambiguity set")
    if not v.size:
        raise ValueError("values must hold one number per context, got none")
    p = validation.distribution("reference", reference, v.size)
    if validation.finite_float("loss", loss) < 0.0:
        raise ValueError(f"loss must be zero or more, got {loss}")
    target = float(Expectation().worst_case(v, p, 0.0).expectation) - loss  # counted as `reached` counts

    def reached(radius: float) -> bool:
        return float(ambiguity.worst_case(v, p, radius).expectation) <= target

    if not reached(math.inf):
        return math.inf
    if reached(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while not reached(high):
        low, high = high, 2.0 * high
    while high - low > 1e-12 * high and high > 1e-300:  # any radius but 0 may do
        middle = 0.5 * (low + high)
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high
