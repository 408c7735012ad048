"""The frozen problem of one round: all distributions within a radius of a reference, and the worst one for a bound.

    the action        x_t = argmax_x min_w <w, ucb_t(x, .)>                       lines 3 and 4 of algorithm 1
    the certificate   min_w <w, lcb_t(x_t, .)>                                    eq. 10

with w over the set. Here the set is on a finite set of atoms; `drbo.rounds.range_ball` is for a whole range.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np

from drbo import validation
from drbo._fast_record import fast_record
from drbo.ambiguity.placed import Dual, PlacedSet, WorstCase, check_size, on_range
from drbo.contexts.nature import Reference
from drbo.models.bounds import Bound
from drbo.models.surrogate import AnyDraw, Estimate, SupportsDraws
from drbo.spaces.space import Point, Space
from drbo.validation import FloatArray

TIE = 1e-10
"""Scores closer than this share of the values' range are a tie; the first one wins, so rounding decides nothing."""


def first_of_the_best(scores: FloatArray, tolerance: float) -> int:
    """Return the first index with a score within `tolerance` of the largest one."""
    return int(np.argmax(scores >= scores.max() - tolerance))


@dataclass(frozen=True, eq=False)
class Certificate:
    """The certified worst case of a bound for one action.

    Attributes
    ----------
    reference : the atoms of the worst case: those of the ball, and possibly further ones
    worst_case : on these atoms; its distribution is feasible, so its expectation is attained
    lower_bound : of all distributions of the set, on the whole range of the contexts
    """

    reference: Reference
    worst_case: WorstCase
    lower_bound: float


@fast_record
class Ball:
    """All distributions within `radius` of `reference`, on its atoms.

    Attributes
    ----------
    ambiguity : the set, placed on the atoms
    reference : the atoms and their weights
    radius : including the error of compression
    space : the space of the contexts
    seed : of the starting points of searches
    """

    ambiguity: PlacedSet
    reference: Reference
    radius: float
    space: Space
    seed: int
    weights: FloatArray = field(init=False)
    """The weights of the reference, (n,)."""
    contexts: FloatArray = field(init=False)
    """The atoms (n, d) in the model's coordinates."""
    on_atoms: ClassVar[bool] = True
    """Whether no distribution of the set puts mass outside the atoms."""

    def __post_init__(self) -> None:
        if self.ambiguity.n_contexts != len(self.reference.points):  # None fits any number
            check_size(self.ambiguity, len(self.reference.points))
        object.__setattr__(self, "weights", self.reference.weights)
        object.__setattr__(self, "contexts", self.reference.points)

    @property
    def diameter(self) -> float:
        """The radius beyond which the set stops growing."""
        return self.ambiguity.diameter(self.weights, self._hull())

    @property
    def words(self) -> str:
        """A description of the distributions in the set that follows "in every distribution"."""
        if math.isinf(self.radius):
            return f"that the set can hold, as the radius is infinite: {self.ambiguity.everything}"
        words, diameter = self.ambiguity.words(self.radius), self.diameter
        if not 0.0 < diameter <= self.radius:
            return words
        return f"{words} (that is {self.ambiguity.everything}: none is further away than {diameter:.3g})"

    def _hull(self) -> FloatArray | None:
        """Return points (k, d) in the user's units whose hull has contexts besides atoms; None if there are none."""
        return None

    def at(self, radius: float) -> Self:
        """Return the ball with another radius, plus the error of compression."""
        return replace(self, radius=radius + self.reference.error)

    @property
    def reach(self) -> float:
        """The size of the ball beyond the reference: eps^a minus the error of compression to the same power.

        a is the power of the set's `growth`.
        """
        power = self.ambiguity.growth.power
        return float(self.radius**power - self.at(0.0).radius ** power)

    @property
    def reference_alone(self) -> bool:
        """Whether the set holds the reference alone, apart from the error of compression."""
        growth = self.ambiguity.growth
        return growth.from_reference and (not growth.matters or self.reach == 0.0)

    def same_set_as(self, other: Ball) -> bool:
        """Return whether the other ball holds the same distributions on the same atoms, to the last bit."""
        return (
            self.radius == other.radius
            and self.weights.tobytes() == other.weights.tobytes()  # faster than comparing few numbers
            and (self.contexts is other.contexts or np.array_equal(self.contexts, other.contexts))
        )

    def worst_cases(self, values: FloatArray) -> WorstCase:
        """Return the worst case of each row of values (m, n)."""
        return self.ambiguity.certified(values, self.weights, self.radius)

    def worst_case(self, values: FloatArray) -> WorstCase:
        """Return the worst case of values (n,)."""
        worst = self.ambiguity.certified(values[None, :], self.weights, self.radius)
        return WorstCase(worst.expectation[0], worst.weights[0], worst.lower_bound[0])

    def certificate(self, bound: Bound, action: Point) -> Certificate:
        """Return the worst case of a bound for one action, certified for every distribution of the set."""
        worst = self.worst_case(bound.of_action(action))
        return Certificate(self.reference, worst, float(worst.lower_bound))

    def widened(self, bound: Estimate, action: Point, score: float) -> tuple[Self, float]:
        """Return the ball with the contexts that the adversary needs for one action, and the action's score in it."""
        del bound, action
        return self, score

    def elsewhere(self) -> FloatArray:
        """Return well spread contexts (k, d) besides the atoms that can be evaluated; none here."""
        return self.contexts[:0]

    def probes(self) -> FloatArray:
        """Return contexts (k, d) besides the atoms at which a cliff is looked for; none here."""
        return self.contexts[:0]

    def draw_of(self, posterior: SupportsDraws, rng: np.random.Generator) -> AnyDraw:
        """Return a draw of f on the atoms."""
        return posterior.draw(rng)

    def extended(self, further: FloatArray) -> Self:
        """Return the ball with further contexts (k, d) as atoms without weight in the reference."""
        if not len(further):
            return self
        ambiguity = on_range(self.ambiguity).extended(self.space.measured(further))
        return replace(self, ambiguity=ambiguity, reference=self.reference.and_also(further))

    def adopting(self, certificate: Certificate) -> Self:
        """Return the ball with the further contexts of a certificate that carry weight in its worst case."""
        del certificate
        return self

    def best_context(
        self, at_atoms: FloatArray, worth: Callable[[], Callable[[FloatArray], FloatArray]], tie: float
    ) -> Point:
        """Return the context of the largest worth: of each atom (n,), or of any contexts, by `worth()`."""
        del worth
        return self.reference.atom(first_of_the_best(at_atoms, tie))


def frozen_copy(point: Point) -> Point:
    """Return an immutable copy of a point; a point of a finite set is one already."""
    if point.index is not None and not point.coordinates.flags.writeable:
        return point
    return Point(validation.frozen(point.coordinates), point.index)


@dataclass(frozen=True, eq=False)
class Prices:
    """The price list of a dual point for contexts in the model's coordinates; the set uses the user's units."""

    dual: Dual
    space: Space

    def at(self, contexts: FloatArray) -> FloatArray:
        """Return the value (m,) below which each context (m, d) lowers the worst case."""
        return self.dual.threshold(self.space.measured(contexts), np.zeros_like(contexts))[0]

    def in_cells(self, centres: FloatArray, halves: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return level (m,) and slope (m, d) of an upper bound on the threshold over cells |c - centre| <= half."""
        level, slope = self.dual.threshold(self.space.measured(centres), self.space.widths(halves))
        return level, slope * self.space.units
