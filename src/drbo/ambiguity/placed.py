"""A set on n contexts: a distance between distributions, and the worst case within a radius of a reference.

Symbols and shapes used by every set:

    v    values (..., n)     reward of one action in each of the n contexts; any number of actions at once
    p    reference (n,)      the assumed distribution
    eps  radius >= 0         the largest distance from it; inf: any distribution of the set's support
    w    weights (..., n)    the worst distribution found: feasible, so <w, v> bounds the worst case from above
         lower_bound (...)   value of a dual feasible point, so it bounds the worst case from below

Nature minimises: the worst case is min <w, v> over the distributions w with distance(w, p) <= eps.

Every set is a `PlacedSet`. Each optional capability is a protocol `Supports...`, and `supports` checks for it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeGuard, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drbo import validation
from drbo._compiled import announce, jit
from drbo.validation import FloatArray

GAP_TOLERANCE = 1e-8
"""Largest accepted gap of a solve, as a share of the values' range, besides 8 roundings of their size."""


EPSILON = float(np.finfo(float).eps)
NEXT = 1e-9
"""Right derivatives are taken this share beyond a radius: closer radii count as one."""
LARGEST_VALUE = 1e300
"""Larger values are refused: their differences could overflow."""


class WorstCaseError(RuntimeError):
    """A worst case that could not be certified; the message has the residuals."""


@dataclass(frozen=True)
class WorstCase:
    """The worst expectation within an ambiguity set, with bounds from both sides.

    Attributes
    ----------
    expectation : (...) the attained value <weights, values>
    weights : (..., n) the feasible distribution that attains it; also the gradient of `expectation` in the values
    lower_bound : (...) certified by a dual feasible point: no distribution of the set is worse
    """

    expectation: FloatArray
    weights: FloatArray
    lower_bound: FloatArray

    @property
    def gap(self) -> FloatArray:
        """The attained value minus the certificate, (...), zero or more."""
        return self.expectation - self.lower_bound

    def __getitem__(self, row: int) -> WorstCase:
        return WorstCase(self.expectation[row], self.weights[row], self.lower_bound[row])


@dataclass(frozen=True, eq=False)
class Dual:
    """A dual feasible point as a price list: the effect of further contexts on the worst case.

    For any further contexts C of values v(c), no distribution on all contexts is worse than

        bound + share * min(0, min_{c in C} v(c) - threshold(c)).

    Attributes
    ----------
    bound : the certified lower bound for the n contexts
    share : the largest mass that could move to further contexts
    threshold : maps points (m, d) and half (m, d) to levels (m,) and slopes (m, d) of affine bounds: a context c of the
        cell |c - point| <= half lowers the worst case only if v(c) < level + slope'(c - point). With half = 0 the level
        is the threshold of the point itself, -inf if no value lowers the worst case
    """

    bound: float
    share: float
    threshold: Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]


@dataclass(frozen=True, eq=False)
class Witness:
    """A bounded function of the context, and its largest mean over a set of distributions on any contexts.

    Attributes
    ----------
    values : maps contexts (m, d) in the user's units to numbers (m,)
    most : the largest mean of any distribution of the set
    least : the lower bound of the numbers
    """

    values: Callable[[FloatArray], FloatArray]
    most: float
    least: float


@dataclass(frozen=True)
class Growth:
    """The dependence of a set on its radius.

    Attributes
    ----------
    own : the default radius, at which the set is as stated; None if a radius must be given
    matters : whether the set depends on the radius at all
    from_reference : whether the set of radius 0 holds the reference alone
    convex : whether the worst case is a convex function of the radius, as it is for every convex distance
    power : the power of the radius in the derivative `sensitivity`: near radius 0 losses grow with this power
    unit : the unit of the radius; MMD distances scale with the kernel
    means : an explanation of the radius beside `words`, if it needs one
    instead_of_a_rule : the alternative to a rule that learns the radius from continuous samples, for sets without
        positions: two contexts are equal or different, however close they are. Empty if rules are fine
    bounded : whether the distance between two contexts is bounded wherever they lie, so that days have no heavy tail
    steps : whether the worst case on a finite set of contexts is a step function of the radius, without a sensitivity
    never_learned : the reason why no rule learns the radius from the past, and no alarm is raised; empty if rules are
        fine
    """

    own: float | None = None
    matters: bool = True
    from_reference: bool = True
    convex: bool = False
    power: float = 1.0
    unit: float = 1.0
    means: str = ""
    instead_of_a_rule: str = ""
    bounded: bool = False
    steps: bool = False
    never_learned: str = ""


class PlacedSet(ABC):
    """A family of sets of distributions on n contexts, indexed by reference and radius.

    `AmbiguitySet.on(points, scales)` returns one. A new set is a subclass with `_distance` and `_solve`.
    """

    n_contexts: int | None = None
    """The number of contexts; None for any number."""

    growth: Growth = Growth()
    """The dependence of the set on its radius."""

    def words(self, radius: float) -> str:
        """Return a description of the distributions in the set that follows "in every distribution"."""
        return f"within {radius:.3g} of the reference, as {type(self).__name__} measures it"

    @property
    def everything(self) -> str:
        """A description of the set from its diameter on."""
        return "every distribution on the contexts"

    def distance(self, p: ArrayLike, q: ArrayLike) -> float:
        """Return the distance between the distributions p (n,) and q (n,); inf if they are not comparable."""
        first = validation.distribution("p", p, self.n_contexts)
        return self._distance(first, validation.distribution("q", q, first.size))

    def worst_case(self, values: ArrayLike, reference: ArrayLike, radius: float) -> WorstCase:
        """Return the worst expectation of each row of `values` (..., n) within `radius` of `reference` (n,)."""
        v, p = checked(self, values, reference)
        worst = self.certified(v.reshape(-1, p.size), p, validation.radius(radius))
        fields = (worst.expectation, worst.weights, worst.lower_bound)
        return WorstCase(*(rows.reshape(v.shape[:-1] + rows.shape[1:])[()] for rows in fields))

    def certified(self, values: FloatArray, reference: FloatArray, radius: float) -> WorstCase:
        """Return the result of `worst_case` for checked values (m, n), reference (n,) and radius."""
        announce(_certify)
        if values.ndim != 2 or values.shape[1:] != reference.shape:  # compiled code does not check bounds
            raise ValueError(f"values must have shape (m, {len(reference)}), got {values.shape}")
        values = np.ascontiguousarray(values)  # compiled code for another layout rounds differently
        weights, lower_bound = self._solve(values, reference, radius)
        expectation, lower_bound, failed = _certify(values, weights, lower_bound)
        if failed >= 0:
            raise WorstCaseError(
                f"{self!r} at radius {radius!r} left a gap of {expectation[failed] - lower_bound[failed]:.3g} for "
                f"values of range {np.ptp(values[failed]):.3g} in row {failed}; the tolerance is {GAP_TOLERANCE} of "
                "the range"
            )
        return WorstCase(expectation, weights, lower_bound)

    def diameter(self, reference: ArrayLike, hull: FloatArray | None = None) -> float:
        """Return the largest finite distance of a distribution on the contexts from `reference` (n,).

        From this radius on the set is `everything`. With `hull` (k, d) contexts may also lie anywhere between these
        points and the set's own; the result is then an upper bound.
        """
        p = validation.distribution("reference", reference, self.n_contexts)
        return self._diameter(p) if hull is None else self._diameter_in(p, hull)

    def _diameter(self, reference: FloatArray) -> float:
        """Return the largest finite distance of a distribution from a valid reference.

        The sets are convex, so the distance is quasi-convex and largest at a vertex of the simplex.
        """
        distances = self._to_vertices(reference)
        return float(distances[distances < math.inf].max(initial=0.0))

    def _to_vertices(self, reference: FloatArray) -> FloatArray:
        """Return the distance (n,) from the reference of all mass on each of the contexts."""
        return np.array([self._distance(vertex, reference) for vertex in np.eye(len(reference))])

    def _distances(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """Return the distances (k,) between valid distributions `first` (k, n) and `second` (k, n), row by row."""
        return np.array([self._distance(p, q) for p, q in zip(first, second, strict=True)])

    def _between(self, first: NDArray[np.intp], second: NDArray[np.intp], n_contexts: int) -> FloatArray:
        """Return the distances (k,) between all mass on the contexts `first` (k,) and all mass on `second` (k,)."""
        known: dict[tuple[int, int], float] = {}
        for pair in set(zip(first.tolist(), second.tolist(), strict=True)):
            vertices = np.zeros((2, n_contexts))
            vertices[[0, 1], pair] = 1.0
            known[pair] = self._distance(*vertices)
        return np.array([known[pair] for pair in zip(first.tolist(), second.tolist(), strict=True)])

    def _diameter_in(self, reference: FloatArray, hull: FloatArray) -> float:
        """Return a radius whose set holds everything on the convex hull of the set's contexts and points (k, d).

        The radius is exact if the distance to a context is convex in its position: the largest distance is then at one
        of the points.
        """
        return on_range(self).extended(hull)._diameter(np.append(reference, np.zeros(len(hull))))

    @abstractmethod
    def _distance(self, p: FloatArray, q: FloatArray) -> float:
        """Return the distance of two valid distributions of equal length."""

    @abstractmethod
    def _solve(self, values: FloatArray, reference: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        """Return worst-case weights (m, n) and certified lower bounds (m,) for values (m, n)."""


# --- capabilities ----------------------------------------------------------------------------------------------------


@runtime_checkable
class SupportsRange(Protocol):
    """A set for contexts with a range: the adversary may use contexts beyond the n given ones."""

    def dual(self, values: FloatArray, reference: FloatArray, radius: float, worst: WorstCase) -> Dual | None:
        """Return the dual point for values (n,) with worst case `worst`; None if no further context is ever used."""

    def extended(self, further: FloatArray) -> PlacedSet:
        """Return the set with further contexts (k, d); this set if it fits any number."""


@runtime_checkable
class SupportsReach(Protocol):
    """A set in which the mass of each context moves by at most the radius, wherever other mass goes."""

    def reaches(self, sources: NDArray[np.intp], points: FloatArray, half: FloatArray, radius: float) -> FloatArray:
        """Return how far within the radius each cell |c - point| <= half (m, d) begins, per source (k, m)."""


@runtime_checkable
class SupportsSlopes(Protocol):
    """A set whose worst case has a derivative in the radius."""

    def slopes(self, values: FloatArray, reference: FloatArray, radius: float) -> FloatArray:
        """Return the `sensitivity` (m,) for checked values (m, n), reference (n,) and finite radius."""


@runtime_checkable
class SupportsWitness(Protocol):
    """A set that bounds the mean of a function of any contexts."""

    def witness(self, reference: FloatArray, radius: float, arrived: FloatArray) -> Witness | None:
        """Return a function that is large on contexts that arrived (m, d), in the user's units, and small on the set.

        A test bets on this function: its mean exceeds `most` only if the contexts were drawn from outside the set. None
        if no function separates them: the radius is infinite, or they are the reference itself.
        """


@runtime_checkable
class SupportsShift(Protocol):
    """A set with positions of contexts, and so with a distance between the reference and its shifted version."""

    def moved(self, reference: FloatArray, points: FloatArray) -> float:
        """Return the distance of the reference (n,) from the same weights on moved contexts (n, d), in user units."""

    def shares_inside(self, reference: FloatArray, points: FloatArray, radius: float) -> tuple[float, float] | None:
        """Return the least and the largest share of each context's mass that may move to `points` (n, d).

        The set holds (1 - s) reference + s moved reference for all shares s between them. None if it holds none.
        """


@runtime_checkable
class SupportsEvents(Protocol):
    """A set in which the largest probability of an event depends on its reference probability alone."""

    def most_likely(self, radius: float, share: float) -> float:
        """Return the largest probability in the set of an event whose reference probability is `share`."""


@runtime_checkable
class SupportsLikelihood(Protocol):
    """A set with a radius for `drbo.radius.EmpiricalLikelihood`: KL and chi-square."""

    def likelihood_radius(self, z: float) -> float:
        """Return t times the radius that covers an expectation at z standard errors, after t contexts."""


Capability = TypeVar("Capability")


def supports(one: object, capability: type[Capability]) -> TypeGuard[Capability]:
    """Return whether a set has a capability; a composite set has it only if its inner set does."""
    if not isinstance(one, capability):
        return False
    inner = getattr(one, "inner", None)
    return inner is None or supports(inner, capability)


def on_range(one: object) -> SupportsRange:
    """Return the set, typed for contexts with a range; raise if it is not for these."""
    if supports(one, SupportsRange):
        return one
    raise TypeError(
        f"{one!r} has no `dual` and `extended`, which contexts with a range need: give a finite set of contexts, or a "
        "set that knows where its contexts lie"
    )


def shifting(one: object) -> SupportsShift:
    """Return the set, typed as one with positions, which `supports` has checked."""
    assert supports(one, SupportsShift)
    return one


def with_slopes(one: object) -> SupportsSlopes:
    """Return the set, typed as one with a sensitivity; raise if it has none."""
    if supports(one, SupportsSlopes):
        return one
    if isinstance(one, PlacedSet) and one.growth.steps:
        raise TypeError(
            f"{one!r} has no sensitivity: on listed contexts its worst case is a step function of the radius. Compare "
            "worst cases at several radii instead, as `profile` does"
        )
    raise TypeError(f"{one!r} has no `slopes`, which a sensitivity needs: compare worst cases at two radii instead")


def check_size(one: PlacedSet, n_contexts: int) -> None:
    """Raise if the set has another number of contexts."""
    if one.n_contexts not in (None, n_contexts):
        raise ValueError(f"ambiguity is for {one.n_contexts} contexts, but there are {n_contexts}")


def checked(one: PlacedSet, values: ArrayLike, reference: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return values (..., n) and a reference (n,) that fit each other and the set, or raise."""
    p = validation.distribution("reference", reference, one.n_contexts)
    v = validation.finite_array("values", values)
    if v.shape[-1:] != (p.size,):
        raise ValueError(f"values must have shape (..., {p.size}) to match reference, got {v.shape}")
    largest = max(v.max(initial=0.0), -v.min(initial=0.0))
    if largest > LARGEST_VALUE:
        raise ValueError(f"values must not exceed {LARGEST_VALUE:g} in size, got {largest:g}")
    return v, p


# --- solvers ---------------------------------------------------------------------------------------------------------


@jit
def expectations(weights: FloatArray, values: FloatArray) -> FloatArray:
    """Return <w_i, v_i> for each row, accurate relative to the range of v_i and never below its minimum; (m,)."""
    found = np.empty(len(values))
    for i in range(len(values)):
        lowest = values[i].min()
        above = 0.0
        for j in range(values.shape[1]):
            above += weights[i, j] * (values[i, j] - lowest)
        found[i] = lowest + above
    return found


@jit
def _certify(values: FloatArray, weights: FloatArray, lower_bound: FloatArray) -> tuple[FloatArray, FloatArray, int]:
    """Return the expectations (m,), the bounds (m,), and the first row with too large a gap between them, or -1."""
    expectation = expectations(weights, values)
    bound = lower_bound.copy()
    failed = -1
    for i in range(len(values) - 1, -1, -1):
        if bound[i] > expectation[i]:  # rounding may leave a certificate an ulp above the value
            bound[i] = expectation[i]
        lowest, highest = values[i].min(), values[i].max()
        if bound[i] < lowest:  # no expectation is below the lowest value: so equal values need no tolerance
            bound[i] = lowest
        tolerance = GAP_TOLERANCE * (highest - lowest) + 8.0 * EPSILON * max(abs(lowest), abs(highest))
        if not expectation[i] - bound[i] <= tolerance < np.inf:  # NaN fails this check, too
            failed = i
    return expectation, bound, failed


def in_unit_range(values: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return u (m, n) in [0, 1] with its offset and scale (m,): values = lowest + scale u; flat rows are all zero."""
    lowest = values.min(axis=1)
    above = values - lowest[:, None]
    scale = above.max(axis=1)
    u = above / np.where(scale > 0.0, scale, 1.0)[:, None]
    u[u < 1e-50] = 0.0  # so that squares do not underflow
    return u, lowest, scale


def reference_alone(values: FloatArray, reference: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the solution at radius zero: the reference as weights (m, n), its expectations as bounds (m,)."""
    weights = np.broadcast_to(reference, values.shape).copy()
    return weights, expectations(weights, values)


def peak(line: Callable[[float], tuple[float, float]], end: tuple[float, float]) -> float:
    """Return the l >= 0 that maximises a concave, piecewise linear function with finitely many pieces.

    `line(l)` returns the value and a slope at l. `end` is the line for l -> inf, as its value at 0 and its negative
    slope. The pieces from both sides are intersected until the function equals them there.
    """
    value, slope = line(0.0)
    if slope <= 0.0:
        return 0.0
    rising, falling = (value, slope), end
    best, highest = 0.0, value
    for _ in range(200):
        at = (falling[0] - rising[0]) / (rising[1] - falling[1])
        value, slope = line(at)
        if value > highest:
            best, highest = at, value
        above = rising[0] + rising[1] * at
        if value >= above - 4.0 * EPSILON * abs(above) or slope == 0.0:
            break
        piece = (value - slope * at, slope)
        rising, falling = (piece, falling) if slope > 0.0 else (rising, piece)
    return best
