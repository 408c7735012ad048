"""What an ambiguity set is: a distance between distributions, and the worst case within a radius of a reference.

Symbols and shapes used by every set:

    v    values (..., n)     reward of one action in each of the n contexts; any number of actions at once
    p    reference (n,)      the distribution that we believe in
    eps  radius >= 0         how far the world may be from it; inf: any distribution of the set's support
    w    weights (..., n)    the worst distribution found: feasible, so <w, v> bounds the worst case from above
         lower_bound (...)   value of a dual feasible point, so it bounds the worst case from below

Nature minimises: the worst case is min <w, v> over the distributions w with distance(w, p) <= eps.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drbo import validation
from drbo._compiled import announce, jit
from drbo.kernels import Kernel
from drbo.spaces.columns import Column
from drbo.spaces.samples import Samples
from drbo.validation import FloatArray

__all__ = ["AmbiguitySet"]

GAP_TOLERANCE = 1e-8
"""The largest accepted gap of a solve, as a share of the range of its values. Beside it, 8 roundings of their size."""


EPSILON = float(np.finfo(float).eps)
NEXT = 1e-9
"""Derivatives to the right of a radius are taken this share further out: radii closer than that count as one."""
LARGEST_VALUE = 1e300
"""Larger values are refused: differences of such could overflow."""


class WorstCaseError(RuntimeError):
    """A worst case that could not be certified; the message holds the residuals."""


@dataclass(frozen=True)
class WorstCase:
    """The worst expectation within an ambiguity set, with its evidence from both sides.

    Attributes
    ----------
    expectation : (...) the attained value <weights, values>
    weights : (..., n) the feasible distribution that attains it; also the gradient of `expectation` in the values
    lower_bound : (...) certified by a dual feasible point: no distribution of the set does worse than this
    """

    expectation: FloatArray
    weights: FloatArray
    lower_bound: FloatArray

    @property
    def gap(self) -> FloatArray:
        """How far the certificate is from the attained value, (...), zero or more."""
        return self.expectation - self.lower_bound


@dataclass(frozen=True, eq=False)
class Dual:
    """A dual feasible point as a price list: what contexts beyond the n given ones would do to the worst case.

    For any further contexts C of values v(c), no distribution on all of them does worse than

        bound + share * min(0, min_{c in C} v(c) - threshold(c)).

    Attributes
    ----------
    bound : the lower bound that it certifies for the n contexts themselves
    share : the largest mass that could move to further contexts
    threshold : called with points (m, d) and half (m, d), returns levels (m,) and slopes (m, d) of affine bounds: a
        context c of the cell |c - point| <= half does harm only if v(c) < level + slope'(c - point). With half = 0 the
        level is the threshold of the point itself, -inf where no value does harm
    """

    bound: float
    share: float
    threshold: Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]


@dataclass(frozen=True, eq=False)
class Witness:
    """A bounded function of the context whose mean no distribution of a set exceeds, wherever its mass lies.

    Attributes
    ----------
    values : from contexts (m, d) in the user's units to numbers (m,)
    most : the largest mean of any distribution of the set
    least : no number is below this
    """

    values: Callable[[FloatArray], FloatArray]
    most: float
    least: float


class AmbiguitySet(ABC):
    """A family of sets of distributions on a finite set of contexts, indexed by reference and radius.

    A set that depends on where the contexts lie is a configuration until it is put `on` them. A new set is a subclass
    with `_distance` and `_solve`; with `on` if it depends on the contexts; with `dual` and `extended` if contexts may
    have a range.
    """

    n_contexts: int | None = None
    """How many contexts the set was made for; None if it fits any number."""

    own_radius: float | None = None
    """The radius at which the set is what its own words say; None if a radius must be given."""

    has_radius: bool = True
    """Whether the set depends on the radius at all."""

    convex_in_radius: bool = False
    """Whether the worst case is a convex function of the radius.

    It is wherever mixtures of a distribution within a and one within b of the reference are within the same mixture of
    a and b, as for every distance that is convex.
    """

    radius_power: float = 1.0
    """The power of the radius that `sensitivity` is a derivative in: near radius 0 losses grow with this power."""

    rows_alone: int = 1
    """Up to how many rows are solved with the bits that each has alone. With more, one may start from another."""

    has_shift_norm: bool = False
    """Whether Theorem 2 and Corollary 4 bound the regret in the set: they are for the MMD."""

    bounds_means: bool = False
    """Whether the set has a `witness`, which bounds the mean of a function of contexts that are not its own."""

    instead_of_a_rule: str = ""
    """What to do in place of a rule that learns the radius from continuous samples, if the set has no such rule.

    It is for sets that know no positions: two contexts are the same or not, however close they are.
    """

    @property
    def radius_means(self) -> str:
        """What the radius is a number of, as a sentence; empty where `within` says it all."""
        return ""

    def moved(self, reference: FloatArray, points: FloatArray) -> float | None:
        """Return how far the reference (n,) is from the same weights on moved contexts (n, d), in the user's units.

        None if the set does not know where its contexts lie.
        """
        del reference, points
        return None

    def shares_inside(self, reference: FloatArray, points: FloatArray, radius: float) -> tuple[float, float] | None:
        """Return the least and the largest share of each context's mass that may move to `points` (n, d).

        The set holds (1 - s) reference + s moved reference for all shares s between them. None if it holds no such
        mixture. The set must have `moved`. A distance that is convex in the mixture is at most in proportion to s.
        """
        distance = self.moved(reference, points)
        assert distance is not None  # the set was asked before
        return 0.0, 1.0 if distance <= radius else radius / distance

    def most_likely(self, radius: float, share: float) -> float | None:
        """Return the largest probability of an event in the set, whose reference probability is `share`.

        None if it depends on where the contexts of the event lie.
        """
        if not self.instead_of_a_rule:
            return None
        return -float(self.worst_case([-1.0, 0.0], [share, 1.0 - share], radius).expectation)

    def witness(self, reference: FloatArray, radius: float, arrived: FloatArray) -> Witness | None:
        """Return a function that is large on contexts that arrived (m, d), in the user's units, and small on the set.

        It is what a test bets on: their mean exceeds `most` only if they were drawn from outside of the set. None if
        the set bounds no mean of a function of contexts that are not its own.
        """
        del reference, radius, arrived
        return None

    def likelihood_radius(self, z: float) -> float:
        """Return t times the radius that covers an expectation at z standard errors, t contexts being seen.

        KL and chi-square have one, `drbo.radius.EmpiricalLikelihood`.
        """
        del z
        instead = self.instead_of_a_rule or "Use drbo.radius.Bootstrap or drbo.radius.Calibrated."
        raise TypeError(
            f"radius=EmpiricalLikelihood(...) is for drbo.KL() and drbo.ChiSquare(), got {self!r}. {instead}"
        )

    def within(self, radius: float) -> str:
        """Return which distributions the set holds, in words that follow "in every distribution"."""
        return f"within {radius:.3g} of the reference, as {type(self).__name__} measures it"

    @property
    def scale(self) -> float:
        """The unit of the radius: an MMD of a kernel that exceeds 1 has larger distances in proportion."""
        return 1.0

    def distance(self, p: ArrayLike, q: ArrayLike) -> float:
        """Return the distance of the distributions p (n,) and q (n,); inf where they cannot be compared."""
        first = validation.distribution("p", p, self.n_contexts)
        return self._distance(first, validation.distribution("q", q, first.size))

    def worst_case(self, values: ArrayLike, reference: ArrayLike, radius: float) -> WorstCase:
        """Return the worst expectation of each row of `values` (..., n) within `radius` of `reference` (n,)."""
        v, p = self._checked(values, reference)
        worst = self.certified(v.reshape(-1, p.size), p, validation.radius(radius))
        fields = (worst.expectation, worst.weights, worst.lower_bound)
        return WorstCase(*(rows.reshape(v.shape[:-1] + rows.shape[1:])[()] for rows in fields))

    def sensitivity(self, values: ArrayLike, reference: ArrayLike, radius: float = 0.0) -> FloatArray:
        """Return how fast the worst case of each row of values (..., n) falls as the radius grows, (...): zero or more.

        With V(eps) the worst case it is -dV / d(eps^radius_power), to the right of `radius`: at a kink of V that is
        what a larger radius costs. At radius 0 it is the worst-case sensitivity of Gotoh, Kim and Lim (2020) and of Tay
        et al. (ICML 2022), so that V(eps) is about V(0) - sensitivity * eps^radius_power. The power is 1/2 for KL and
        chi-square, whose derivative in the radius is infinite at 0, and the order of a Wasserstein set.
        """
        v, p = self._checked(values, reference)
        eps, rows = validation.radius(radius), v.reshape(-1, p.size)
        slopes = np.zeros(len(rows)) if math.isinf(eps) else self.slopes(rows, p, eps)
        return np.asarray(slopes.reshape(v.shape[:-1])[()])

    def slopes(self, values: FloatArray, reference: FloatArray, radius: float) -> FloatArray:
        """Return what `sensitivity` does, (m,), for valid values (m, n), reference (n,) and finite radius."""
        del values, reference, radius
        raise TypeError(
            f"{self!r} has no `slopes`, which a sensitivity needs: compare worst cases at two radii instead"
        )

    def _checked(self, values: ArrayLike, reference: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return values (..., n) and a reference (n,) that fit each other, or raise."""
        p = validation.distribution("reference", reference, self.n_contexts)
        v = validation.finite_array("values", values)
        if v.shape[-1:] != (p.size,):
            raise ValueError(f"values must have shape (..., {p.size}) to match reference, got {v.shape}")
        largest = max(v.max(initial=0.0), -v.min(initial=0.0))
        if largest > LARGEST_VALUE:
            raise ValueError(f"values must not exceed {LARGEST_VALUE:g} in size, got {largest:g}")
        return v, p

    def diameter(self, reference: ArrayLike, hull: FloatArray | None = None) -> float:
        """Return the largest finite distance of a distribution on the contexts from `reference` (n,).

        From this radius on the set holds `everything`. With `hull` (k, d) contexts may also lie anywhere between these
        points and the set's own; the radius returned is then large enough, and may be larger than need be.
        """
        p = validation.distribution("reference", reference, self.n_contexts)
        return self._diameter(p) if hull is None else self._diameter_in(p, hull)

    @property
    def everything(self) -> str:
        """What the set holds from its diameter on, in words."""
        return "every distribution on the contexts"

    @property
    def atoms(self) -> tuple[Samples, ...]:
        """Samples whose points must be among the contexts, where contexts are made of samples."""
        return ()

    def with_columns(self, columns: Sequence[Column]) -> AmbiguitySet:
        """Return the set for contexts with these columns; this set if it does not go by columns.

        An optimizer says so once, before it puts the set `on` contexts.
        """
        del columns
        return self

    def on(self, points: ArrayLike, scales: ArrayLike | None = None) -> AmbiguitySet:
        """Return the set on contexts (n, d) in the user's units, whose columns have the ranges `scales` (d,).

        This set if it does not depend on where the contexts lie.
        """
        del scales
        self.check_size(len(validation.points("points", points)))
        return self

    def check_size(self, n_contexts: int) -> None:
        """Raise if the set was made for another number of contexts."""
        if self.n_contexts not in (None, n_contexts):
            raise ValueError(f"ambiguity is for {self.n_contexts} contexts, but there are {n_contexts}")

    def among(self, rows: NDArray[np.intp]) -> AmbiguitySet:
        """Return the set on those of its contexts that have these positions (k,); this set if it fits any number."""
        if self.n_contexts in (None, len(rows)):
            return self
        raise TypeError(f"{self!r} has no `among`, which ask(given=...) needs: give a set without contexts of its own")

    def agreeing(self, holds: Callable[[Samples], NDArray[np.bool_]]) -> AmbiguitySet:
        """Return the set where a part of the context is known: `holds` says which samples (n,) agree with it."""
        del holds
        return self

    def compression(self, points: FloatArray, scales: FloatArray) -> tuple[FloatArray, Kernel] | None:
        """Return points and kernel in which the compression of samples is bounded; None if nothing bounds it."""
        del points, scales
        return None

    def certified(self, values: FloatArray, reference: FloatArray, radius: float) -> WorstCase:
        """Return what `worst_case` does, for values (m, n), reference (n,) and radius known to be valid."""
        announce(_certify)
        values = np.ascontiguousarray(values)  # compiled code for another layout rounds otherwise
        weights, lower_bound = self._solve(values, reference, radius)
        expectation, lower_bound, failed = _certify(values, weights, lower_bound)
        if failed >= 0:
            raise WorstCaseError(
                f"{self!r} at radius {radius!r} left a gap of {expectation[failed] - lower_bound[failed]:.3g} for "
                f"values of range {np.ptp(values[failed]):.3g} in row {failed}; the tolerance is {GAP_TOLERANCE} of "
                "the range"
            )
        return WorstCase(expectation, weights, lower_bound)

    def dual(self, values: FloatArray, reference: FloatArray, radius: float, worst: WorstCase) -> Dual | None:
        """Return the dual point for values (n,), of which `worst` is the worst case.

        None if no distribution of the set uses further contexts. That is so for the sets that stay on the reference's
        support, and for all of them at radius 0.
        """
        del values, reference, radius, worst
        raise TypeError(f"{self!r} has no `dual`, which contexts with a range need: give a finite set of them")

    def extended(self, further: FloatArray) -> Self:
        """Return the set on its contexts and further ones (k, d); this set if it fits any number."""
        del further
        if self.n_contexts is not None:
            raise TypeError(f"{self!r} has no `extended`, which contexts with a range need: give a finite set of them")
        return self

    def _diameter(self, reference: FloatArray) -> float:
        """Return the largest finite distance of a distribution from a valid reference.

        The sets are convex, so the distance is quasi-convex and largest at a vertex of the simplex.
        """
        distances = self._to_vertices(reference)
        return float(distances[distances < math.inf].max(initial=0.0))

    def _to_vertices(self, reference: FloatArray) -> FloatArray:
        """Return the distance (n,) from the reference of all mass on each of the contexts."""
        return np.array([self._distance(vertex, reference) for vertex in np.eye(len(reference))])

    def _diameter_in(self, reference: FloatArray, hull: FloatArray) -> float:
        """Return a radius that holds everything on the convex hull of the set's contexts and of points (k, d).

        This is exact for a set whose distance to a context is convex in where that context lies: then it is largest in
        one of the points.
        """
        return self.extended(hull)._diameter(np.append(reference, np.zeros(len(hull))))

    @abstractmethod
    def _distance(self, p: FloatArray, q: FloatArray) -> float:
        """Return the distance of two valid distributions of equal length."""

    @abstractmethod
    def _solve(self, values: FloatArray, reference: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        """Return worst-case weights (m, n) and certified lower bounds (m,) for values (m, n)."""


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
    """Return the expectations (m,), the bounds (m,), and the first row whose gap between them is too large, or -1."""
    expectation = expectations(weights, values)
    bound = lower_bound.copy()
    failed = -1
    for i in range(len(values) - 1, -1, -1):
        if bound[i] > expectation[i]:  # rounding may leave a certificate an ulp above the value that it certifies
            bound[i] = expectation[i]
        lowest, highest = values[i].min(), values[i].max()
        if bound[i] < lowest:  # no distribution is below the lowest value: so equal values need no tolerance
            bound[i] = lowest
        tolerance = GAP_TOLERANCE * (highest - lowest) + 8.0 * EPSILON * max(abs(lowest), abs(highest))
        if not expectation[i] - bound[i] <= tolerance < np.inf:  # written so that NaN fails it
            failed = i
    return expectation, bound, failed
