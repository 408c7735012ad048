"""The meaning of a radius in the user's units: shifts, replaced days or likelier days at that distance.

An MMD of 0.3 means nothing to a user. So three questions are answered by computation:

    What is that far away?      the shift of each column, the share of replaced days, or the factor by which bad days
                                become likelier
    How much is that?           the radius relative to the diameter, beyond which the set stops growing
    Did the past move so far?   the past windows that were further from the days before them, and how often chance
                                gives such a distance
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import brentq

from drbo import validation
from drbo.ambiguity.family import AmbiguitySet
from drbo.ambiguity.mmd import MMD
from drbo.ambiguity.placed import PlacedSet, SupportsEvents, SupportsShift, supports
from drbo.analysis.radius_explanation import Likelier, RadiusExplanation, Relabelled, Shift, Window
from drbo.contexts.nature import Contexts, Indices, Reference, empirical
from drbo.contexts.sampled_contexts import contexts_of
from drbo.knowledge.snapshot import Snapshot
from drbo.rounds.past import autocorrelation, block_length
from drbo.rounds.range_ball import make_ball
from drbo.spaces.samples import Samples
from drbo.spaces.space import Column, Space
from drbo.validation import FloatArray

__all__ = ["explain_radius"]

SHARES = (0.01, 0.1, 0.5)
"""Shares of worst days whose increase is reported."""
_FURTHEST = 4.0
"""Largest shift that is searched, in ranges of a column."""
_STEPS = 64
_NONE = 1e-9
"""Smallest shift that counts, in ranges of a column."""
_WINDOWS = 20
"""Largest number of past windows."""
_RESAMPLES = 100
"""Number of random pairs of windows."""


def explain_radius(
    radius: float, samples: Samples, ambiguity: AmbiguitySet | None = None, window: int | None = None
) -> RadiusExplanation:
    """Return the meaning of a radius for samples of past conditions, oldest first.

    `window` is the number of days that are compared with as many before them; the default is a fifth of all. The
    default set is an MMD, as in the optimizer.
    """
    if not isinstance(samples, Samples):
        raise TypeError(f"samples must be Samples of past conditions, got {type(samples).__name__}")
    family = MMD() if ambiguity is None else ambiguity
    validation.of_kind("ambiguity", family, AmbiguitySet, "an ambiguity set")
    family = family.with_columns(samples.columns)
    contexts = contexts_of(samples, family)
    reference, space = contexts.seen([]), contexts.space
    placed = family.on(space.measured(reference.points), space.scales)
    return _explained(Explained(placed, reference, contexts), radius, window)


def explain_present(asked: Snapshot, window: int | None) -> RadiusExplanation:
    """Return the meaning of the query's radius for the set around its reference."""
    (told,) = explain_all(asked, [asked.ball.radius if asked.radius is None else asked.radius], window)
    return told


def explain_all(asked: Snapshot, radii: Sequence[float], window: int | None) -> tuple[RadiusExplanation, ...]:
    """Return the meaning of each radius; distances that do not depend on the radius are computed once."""
    bare, nature = asked.known.bare(asked.state, asked.terms), asked.nature
    about = Explained(asked.known.on(bare.points, nature), bare, nature)
    return tuple(_explained(about, radius, window) for radius in radii)


@dataclass(frozen=True, eq=False)
class Past:
    """Windows of the past, distances of random windows, the autocorrelation of neighbouring days, and their block."""

    windows: tuple[Window, ...]
    by_chance: FloatArray
    resemblance: float
    block: int


@dataclass(frozen=True, eq=False)
class Explained:
    """A set to explain.

    Attributes
    ----------
    ambiguity : the set on the atoms of the reference
    reference : the reference
    nature : the possible contexts
    """

    ambiguity: PlacedSet
    reference: Reference
    nature: Contexts
    _distances: dict[tuple[int, Any], float] = field(default_factory=dict)
    _past: dict[int, Past] = field(default_factory=dict)

    @property
    def space(self) -> Space:
        """The space of the contexts."""
        return self.nature.space

    def moved(self, column: Column, key: Any, move: Callable[[FloatArray], None]) -> float:
        """Return the distance of the reference from itself after `move` changed a column of all positions (n, d)."""
        at = column.first, key
        if at not in self._distances:
            assert supports(self.ambiguity, SupportsShift)  # checked before
            self._distances[at] = self.ambiguity.moved(self.reference.weights, self._after(move))
        return self._distances[at]

    def largest_share(self, move: Callable[[FloatArray], None], radius: float) -> float:
        """Return the largest share of days that `move` may change inside the set; 0 if none."""
        assert supports(self.ambiguity, SupportsShift)  # checked before
        inside = self.ambiguity.shares_inside(self.reference.weights, self._after(move), radius)
        return 0.0 if inside is None else inside[1]

    def _after(self, move: Callable[[FloatArray], None]) -> FloatArray:
        """Return the positions (n, d) of the reference after a move."""
        positions = self.space.measured(self.reference.points).copy()
        move(positions)
        return positions

    def past(self, length: int) -> Past:
        """Return the windows of this many days and their distances."""
        if length not in self._past:
            days, ambiguity, n = self.reference.history, self.ambiguity, len(self.reference.points)
            self._past[length] = Past(
                _windows(days, ambiguity, n, length),
                _by_chance(days, ambiguity, n, length),
                float(autocorrelation(days, ambiguity, n, 1)[0]),
                block_length(days, ambiguity, n),
            )
        return self._past[length]


def _explained(about: Explained, radius: float, window: int | None) -> RadiusExplanation:
    eps = validation.radius(radius)
    ambiguity, reference = about.ambiguity, about.reference
    ball = make_ball(ambiguity, reference, eps, about.space, 0, about.nature.range)
    carrying = reference.weights > 0.0
    positions = about.space.measured(reference.points)
    numbers = [column for column in about.nature.free_columns if column.labels is None]
    labels = [column for column in about.nature.free_columns if column.labels is not None]
    shifts, relabelled = [], []
    if 0.0 < eps < math.inf and supports(ambiguity, SupportsShift):
        shifts = [
            _shift(about, column, float(span), eps)
            for column in numbers
            if (span := np.ptp(positions[carrying, column.first])) > 0
        ]
        relabelled = [one for column in labels for one in _relabelled(about, column, eps)]
    anything: float | None = None
    likelier: tuple[Likelier, ...] = ()
    if supports(ambiguity, SupportsEvents):
        anything = ambiguity.most_likely(eps, 0.0)
        likelier = tuple(Likelier(share, ambiguity.most_likely(eps, share)) for share in SHARES) if eps > 0.0 else ()
    diameter = ball.diameter
    growth = ambiguity.growth
    known = (about.nature.enumerated or not growth.instead_of_a_rule) and not growth.never_learned
    fixed = growth.own == 0.0  # bounds that do not depend on the past
    steps = "Days move onto listed conditions only: the worst case is a step function of the radius."
    compares = about.nature.in_order and diameter > 0.0 and known and not fixed
    length = window_length(len(reference.history), window) if compares else 0
    past = about.past(length) if length else Past((), np.array([math.nan]), math.nan, 1)
    return RadiusExplanation(
        radius=eps,
        diameter=diameter,
        set_words=ambiguity.words(eps),
        means=" ".join(filter(None, (growth.means, steps if growth.steps and ball.on_atoms else ""))),
        shifts=tuple(shifts),
        relabelled=tuple(relabelled),
        replaced=anything if anything else None,
        likelier=likelier,
        stays=anything == 0.0,
        window=length,
        windows=past.windows,
        by_chance=float(np.mean(past.by_chance > eps)) if length else math.nan,
        resemblance=past.resemblance,
        block=past.block,
        years=about.nature.years,
    )


def window_length(count: int, window: int | None) -> int:
    """Return the number of days of a window: the default is a fifth of all; 0 if there are too few for two windows."""
    if window is not None:
        length = validation.whole_number("window", window, least=1)
        if 2 * length > count:
            raise ValueError(f"window must be at most half of the {count} days seen, got {length}")
        return length
    return count // 5


def _shift(about: Explained, column: Column, span: float, radius: float) -> Shift:
    """Return the smallest shifts down and up at the radius, for a column of range `span`."""

    def away(ranges: float) -> float:
        def move(positions: FloatArray) -> None:
            positions[:, column.first] += ranges * span

        return about.moved(column, ranges, move)

    lower = _as_far(lambda ranges: away(-ranges), radius)
    # Up is searched only if it may differ from down. Means of exponentials and some kernels are not symmetric.
    there = _FURTHEST if lower is None else lower
    alike = there > 0.0 and math.isclose(away(there), away(-there), rel_tol=1e-9, abs_tol=1e-9 * radius)
    higher = lower if alike and not column.logarithmic else _as_far(away, radius)

    def amount(ranges: float | None) -> float | None:
        if ranges is None:
            return None
        return math.exp(ranges * span) if column.logarithmic else ranges * span

    furthest = max(away(-_FURTHEST), away(_FURTHEST))
    return Shift(_named(column, about), amount(lower), amount(higher), furthest, column.logarithmic)


def _as_far(away: Callable[[float], float], radius: float) -> float | None:
    """Return the smallest shift at the radius, in ranges of the column.

    Return 0 if every shift is outside the set, as when it breaks bounds, and None if no shift is that far.
    """
    inside, outside = 0.0, None
    for ranges in np.geomspace(1.0 / 512.0, _FURTHEST, _STEPS).tolist():
        if away(ranges) >= radius:
            outside = ranges
            break
        inside = ranges
    if outside is None:
        return None
    if away(outside) < math.inf:
        return float(brentq(lambda ranges: away(ranges) - radius, inside, outside, xtol=1e-9 * outside, rtol=1e-9))
    while outside - inside > 1e-9 * outside and outside > _NONE:  # the border lies between them
        ranges = 0.5 * (inside + outside)
        inside, outside = (ranges, outside) if away(ranges) <= radius else (inside, ranges)
    return inside


def _relabelled(about: Explained, column: Column, radius: float) -> list[Relabelled]:
    """Return per label the share of random days that must turn to it to reach the radius."""
    found = []
    at = slice(column.first, column.first + column.width)
    levels = column.levels if column.levels is not None else ()
    for i, (label, level) in enumerate(zip(column.labels or (), levels, strict=True)):

        def turned(positions: FloatArray, level: FloatArray = level) -> None:
            positions[:, at] = level

        distance = about.moved(column, i, turned)
        share = about.largest_share(turned, radius) if distance >= (1.0 - 1e-9) * radius else None
        found.append(Relabelled(_named(column, about), label, share, distance))
    return found


def _named(column: Column, about: Explained) -> str:
    """Return the name of a column, or "context" for a single column without a name."""
    return "context" if column.name is None and len(about.space.columns) == 1 else str(column)


def _windows(days: Indices, ambiguity: PlacedSet, n_contexts: int, length: int) -> tuple[Window, ...]:
    """Return past windows, half a window apart, with their distances."""
    last = len(days) - length
    starts = np.unique(np.linspace(length, last, min((last - length) // max(length // 2, 1) + 1, _WINDOWS)).astype(int))
    return tuple(
        Window(
            int(i),
            int(i) + length,
            ambiguity.distance(
                empirical(days[i : i + length], n_contexts), empirical(days[i - length : i], n_contexts)
            ),
        )
        for i in starts
    )


def _by_chance(days: Indices, ambiguity: PlacedSet, n_contexts: int, length: int) -> FloatArray:
    """Return the distances of random pairs of windows, drawn from all days."""
    rng = np.random.default_rng(0)
    draws = rng.choice(days, size=(_RESAMPLES, 2, length))
    return np.array([ambiguity.distance(empirical(a, n_contexts), empirical(b, n_contexts)) for a, b in draws])
