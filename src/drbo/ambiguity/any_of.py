"""One of several scenarios: a union of sets, each round a reference of its own.

A scenario is a distribution of contexts, given as weights, by label, or as samples.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from drbo import validation
from drbo.ambiguity.divergence import Expectation
from drbo.ambiguity.family import AmbiguitySet, SupportsScenarios, among
from drbo.ambiguity.placed import (
    NEXT,
    Dual,
    Growth,
    PlacedSet,
    SupportsShift,
    WorstCase,
    advice_of,
    on_range,
    supports,
    unit_of,
    with_slopes,
)
from drbo.kernels import Kernel
from drbo.spaces.columns import Column
from drbo.spaces.samples import Samples
from drbo.validation import FloatArray

__all__ = ["AnyOf"]
_EQUAL = 1e-9
"""A scenario's context is one of the contexts if it is this close to it, as a share of each column's range."""


class Scenario(ABC):
    """One scenario.

    Attributes
    ----------
    name : what an error calls it
    given : what the user gave
    """

    name: str
    given: Any

    @property
    def atoms(self) -> tuple[Samples, ...]:
        """The samples whose points must be among the contexts."""
        return ()

    @abstractmethod
    def on(self, points: FloatArray, columns: Sequence[Column]) -> FloatArray:
        """Return the weights (n,) of contexts (n, d), which have these columns."""

    @abstractmethod
    def on_set(self, columns: Sequence[Column]) -> FloatArray:
        """Return the weights of all contexts of a finite set, which has these columns."""

    def agreeing(self, holds: Callable[[Samples], NDArray[np.bool_]]) -> Scenario | None:
        """Return the scenario given what is known, by which of its samples agree with that; None if none does."""
        del holds
        return self


class Weighted(Scenario):
    """Weights (n,), one per context of a finite set."""

    def __init__(self, name: str, weights: Any) -> None:
        self.name, self.given = name, validation.frozen(validation.distribution(name, weights))

    def on(self, points: FloatArray, columns: Sequence[Column]) -> FloatArray:
        """Return the weights, if there are as many contexts."""
        if len(self.given) != len(points):
            raise ValueError(f"{self.name} must hold {len(points)} weights, one per context, got {len(self.given)}")
        return self.on_set(columns)

    def on_set(self, columns: Sequence[Column]) -> FloatArray:
        """Return the weights."""
        del columns
        return np.asarray(self.given)


class ByLabel(Scenario):
    """A mapping from labels to weights; a label that is not in it has none."""

    def __init__(self, name: str, weights: Mapping[Any, float]) -> None:
        validation.distribution(name, [*weights.values()])
        self.name, self.given = name, dict(weights)

    def on(self, points: FloatArray, columns: Sequence[Column]) -> FloatArray:
        """Return the weights of contexts that are the labels of one column."""
        column = columns[0] if len(columns) == 1 else None
        if column is None or column.labels is None or len(points) != len(column.labels):
            raise TypeError(f"{self.name} must be weights, one per context: a mapping is for contexts that are labels")
        unknown = [label for label in self.given if label not in column.labels]
        if unknown:
            raise ValueError(
                f"{self.name} has the label {unknown[0]!r}, which is none of {', '.join(map(repr, column.labels))}"
            )
        weights = sum(share * column.holds(points, label) for label, share in self.given.items())
        return validation.distribution(self.name, np.asarray(weights))

    def on_set(self, columns: Sequence[Column]) -> FloatArray:
        """Return the weights of all labels."""
        levels = columns[0].levels if len(columns) == 1 else None
        return self.on(np.empty((0, 0)) if levels is None else levels, columns)


class Sampled(Scenario):
    """Samples of contexts, of which those count that agree with what is known."""

    def __init__(self, name: str, samples: Samples, agree: NDArray[np.bool_] | None = None) -> None:
        if not len(samples.points):
            raise ValueError(f"{name} must hold at least one sample, got none")
        self.name, self.given = name, samples
        self._agree = np.ones(len(samples.points), dtype=bool) if agree is None else agree

    @property
    def atoms(self) -> tuple[Samples, ...]:
        """The samples."""
        return (self.given,)

    def on(self, points: FloatArray, columns: Sequence[Column]) -> FloatArray:
        """Return the weights of contexts, among which every sample must be."""
        space = self.given.space
        positions = space.measured(self.given.points[self._agree])
        own = [(column.name, column.labels, column.width) for column in columns]
        its = [(column.name, column.labels, column.width) for column in space.columns]
        if positions.shape[1] != points.shape[1] or (own and own != its):
            raise ValueError(
                f"{self.name} must have the columns of the contexts, with the same labels in the same order: "
                f"{_in_words(columns) or 'all in order'}; got {_in_words(space.columns)}"
            )
        span = np.ptp(points, axis=0)
        unit = np.where(span > 0.0, span, 1.0)
        found = cKDTree(points / unit).query(positions / unit, p=np.inf)
        apart, nearest = np.asarray(found[0]), np.asarray(found[1], dtype=np.intp)
        if (apart > _EQUAL).any():
            row = int(np.argmax(apart))
            raise ValueError(
                f"{self.name} has a sample that is none of the contexts, in row {row}: {positions[row].tolist()}"
            )
        weights = np.zeros(len(points))
        shares = self.given.weights[self._agree]
        np.add.at(weights, nearest, shares / shares.sum())
        return weights

    def on_set(self, columns: Sequence[Column]) -> FloatArray:
        """Raise: the contexts of a finite set have weights."""
        del columns
        raise TypeError(f"{self.name} must be weights, one per context, where a part of the context is given")

    def agreeing(self, holds: Callable[[Samples], NDArray[np.bool_]]) -> Scenario | None:
        """Return the samples that agree with what is known; None if there are none."""
        agree = holds(self.given)
        return Sampled(self.name, self.given, agree) if agree.any() else None


def scenario(name: str, given: Any) -> Scenario:
    """Return what a user gave as a scenario: samples, weights by label, or weights (n,)."""
    if isinstance(given, Samples):
        return Sampled(name, given)
    values = validation.by_name(given)
    return ByLabel(name, values) if isinstance(values, Mapping) else Weighted(name, values)


def _in_words(columns: Sequence[Column]) -> str:
    """Return columns and their labels as text."""
    return ", ".join(
        str(one) if one.labels is None else f"{one} ({', '.join(map(repr, one.labels))})" for one in columns
    )


class PlacedAnyOf(PlacedSet):
    """The union of sets round scenarios, on contexts.

    Attributes
    ----------
    inner : the set round each scenario
    weights : (k, n) of the scenarios
    """

    n_contexts: int

    def __init__(self, inner: PlacedSet, weights: FloatArray, growth: Growth) -> None:
        self.inner, self.weights, self.growth = inner, weights, growth
        self.n_contexts = weights.shape[1]

    def __repr__(self) -> str:
        return f"AnyOf({len(self.weights)} scenario(s), within={self.inner!r})"

    def words(self, radius: float) -> str:
        """Return which distributions the set holds, in words."""
        return f"{self.inner.words(radius)}, or so with {self._which} in place of the reference"

    @property
    def everything(self) -> str:
        """What the set holds from its diameter on, in words."""
        every = self.inner.everything
        if every == super().everything:
            return every
        return f"{every}, or so with {self._which} in place of the reference"

    @property
    def _which(self) -> str:
        k = len(self.weights)
        return "the scenario" if k == 1 else f"one of {k} scenarios"

    @property
    def radius_means(self) -> str:
        """What the radius is a number of."""
        around = f"round the reference and round each of {len(self.weights)} scenario(s)"
        return f"The radius is that of the set {around}; what follows is told round the reference."

    @property
    def instead_of_a_rule(self) -> str:
        """What to do in place of a rule that learns the radius from continuous samples."""
        return advice_of(self.inner)

    @property
    def unit(self) -> float:
        """The unit of the radius."""
        return unit_of(self.inner)

    def moved(self, reference: FloatArray, points: FloatArray) -> float:
        """Return how far the reference is from the same weights on moved contexts; a scenario may be closer."""
        return _shifting(self.inner).moved(reference, points)

    def shares_inside(self, reference: FloatArray, points: FloatArray, radius: float) -> tuple[float, float] | None:
        """Return which shares of the mass may move in the set round the reference."""
        return _shifting(self.inner).shares_inside(reference, points, radius)

    def extended(self, further: FloatArray) -> PlacedAnyOf:
        """Return the set on its contexts and further ones (k, d), which no scenario has."""
        without = np.zeros((len(self.weights), len(further)))
        inner = on_range(self.inner).extended(further)
        return PlacedAnyOf(inner, np.concatenate([self.weights, without], axis=1), self.growth)

    def dual(self, values: FloatArray, reference: FloatArray, radius: float, worst: WorstCase) -> Dual | None:
        """Return the duals of all scenarios in one.

        A scenario whose bound is higher by h than the lowest one has that much room: its thresholds count less by
        h / share, and a further context does harm where it is below one of the thresholds.
        """
        del worst
        duals = []
        for p in self._references(reference):
            one = self.inner.certified(values[None], p, radius)
            alone = WorstCase(one.expectation[0], one.weights[0], one.lower_bound[0])
            found = on_range(self.inner).dual(values, p, radius, alone)
            # Without a dual no distribution round this scenario uses further contexts: its bound stands.
            duals.append((float(alone.lower_bound), None) if found is None else (found.bound, found))
        bound = min(one for one, _ in duals)
        used = [found for _, found in duals if found is not None]
        if not used:
            return None
        share = max(found.share for found in used)

        def threshold(points: FloatArray, half: FloatArray) -> tuple[FloatArray, FloatArray]:
            levels = []
            for found in used:
                level, slope = found.threshold(points, half)
                levels.append(level + (np.abs(slope) * half).sum(axis=1) - (found.bound - bound) / share)
            return np.max(levels, axis=0), np.zeros_like(points)

        return Dual(bound, share, threshold)

    def slopes(self, values: FloatArray, reference: FloatArray, radius: float) -> FloatArray:
        """Return the sensitivity of the worst scenario (m,), the largest one if several are the worst."""
        references = self._references(reference)
        worst = np.array([self.inner.certified(values, one, radius).expectation for one in references])
        slopes = np.array([with_slopes(self.inner).slopes(values, one, radius) for one in references])
        worst_of_all = worst <= worst.min(axis=0) + NEXT * np.ptp(values, axis=1)
        return np.asarray(np.where(worst_of_all, slopes, 0.0).max(axis=0))

    def _references(self, reference: FloatArray) -> FloatArray:
        """Return the scenarios and the reference itself (k + 1, n)."""
        return np.concatenate([self.weights, reference[None]])

    def _distance(self, p: FloatArray, q: FloatArray) -> float:
        return min(self.inner.distance(p, one) for one in self._references(q))

    def _to_vertices(self, reference: FloatArray) -> FloatArray:
        return np.asarray(np.min([self.inner._to_vertices(one) for one in self._references(reference)], axis=0))

    def _diameter_in(self, reference: FloatArray, hull: FloatArray) -> float:
        return min(self.inner.diameter(one, hull) for one in self._references(reference))

    def _solve(self, values: FloatArray, reference: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        found = [self.inner.certified(values, one, radius) for one in self._references(reference)]
        worst = np.argmin([one.expectation for one in found], axis=0)
        weights = np.array([one.weights for one in found])[worst, np.arange(len(values))]
        return weights, np.min([one.lower_bound for one in found], axis=0)


def _shifting(one: PlacedSet) -> SupportsShift:
    assert supports(one, SupportsShift)  # `supports` asks the inner set, too
    return one


class AnyOf(AmbiguitySet):
    """One of several scenarios, each with a set round it: `AnyOf([weekday, weekend, strike], within=MMD())`.

    The set of radius eps is the union of the sets `within` of radius eps round the scenarios and round the round's own
    reference, which counts as one more scenario. (A reference that is a mixture of the scenarios adds nothing: the
    expectation is linear, so it is lowest in one of them.)

    worst case = min_k  worst case of `within` round scenario k,  distance(q, p) = min_k distance of q from scenario k.

    Parameters
    ----------
    scenarios : for a finite set of contexts weights (n,) of each, or for labels a mapping from labels to weights. For
        sampled contexts `Samples` with the same columns, whose points become atoms
    within : the set round each scenario; by default `Expectation()`, the scenarios themselves, which needs no radius
    """

    def __init__(self, scenarios: Iterable[Any], within: AmbiguitySet | None = None) -> None:
        if isinstance(scenarios, Samples | Mapping | str) or not isinstance(scenarios, Iterable):
            raise TypeError(f"scenarios must be a list of weights or of Samples, got {scenarios!r}")
        if not (within is None or isinstance(within, AmbiguitySet)):
            raise TypeError(f"within must be an ambiguity set such as drbo.MMD(), got {within!r}")
        self.scenarios = tuple(scenario(f"scenarios[{k}]", given) for k, given in enumerate(scenarios))
        if not self.scenarios:
            raise ValueError("scenarios must hold at least one, got none")
        self.inner = Expectation() if within is None else within
        self.growth = replace(self.inner.growth, own=0.0 if within is None else within.growth.own, convex=False)
        self._columns: tuple[Column, ...] = ()

    def __repr__(self) -> str:
        return f"AnyOf({len(self.scenarios)} scenario(s), within={self.inner!r})"

    def arguments(self) -> dict[str, Any]:
        """Return what the set was made of, by the names of the arguments."""
        given = tuple(one.given for one in self.scenarios)
        return {"scenarios": given, "within": None if type(self.inner) is Expectation else self.inner}

    @property
    def n_contexts(self) -> int | None:
        """The number of contexts that the set round each scenario was given, if it was."""
        return self.inner.n_contexts

    @property
    def instead_of_a_rule(self) -> str:
        """What to do in place of a rule that learns the radius from continuous samples."""
        return advice_of(self.inner)

    @property
    def atoms(self) -> tuple[Samples, ...]:
        """The scenarios that are samples: their points must be among the contexts."""
        return tuple(samples for one in self.scenarios for samples in one.atoms)

    def with_columns(self, columns: Sequence[Column]) -> AnyOf:
        """Return the set for contexts with these columns."""
        made = copy.copy(self)
        made.inner, made._columns = self.inner.with_columns(columns), tuple(columns)
        return made

    def among(self, rows: NDArray[np.intp]) -> AmbiguitySet:
        """Return the family for some of the contexts (k,): each scenario given that one of them happens.

        A scenario in which none of them can happen says nothing, and is left out.
        """
        inner = among(self.inner, rows)
        shares = [one.on_set(self._columns)[rows] for one in self.scenarios]
        possible = [share / share.sum() for share in shares if share.sum() > 0.0]
        if not possible:
            return inner
        made = AnyOf(possible, inner)
        made.growth, made._columns = self.growth, self._columns
        return made

    def agreeing(self, holds: Callable[[Samples], NDArray[np.bool_]]) -> AmbiguitySet:
        """Return the family where a part of the context is known: each scenario given that part.

        A scenario that has no such sample says nothing, and is left out.
        """
        inner = self.inner.agreeing(holds) if isinstance(self.inner, SupportsScenarios) else self.inner
        possible = tuple(left for one in self.scenarios if (left := one.agreeing(holds)) is not None)
        if not possible:
            return inner
        made = copy.copy(self)
        made.inner, made.scenarios = inner, possible
        return made

    def compression(self, points: FloatArray, scales: FloatArray) -> tuple[FloatArray, Kernel] | None:
        """Return the points and the kernel in which the samples of the reference may be compressed."""
        return self.inner.compression(points, scales)

    def _place(self, points: FloatArray, scales: FloatArray) -> PlacedAnyOf:
        weights = np.array([one.on(points, self._columns) for one in self.scenarios])
        return PlacedAnyOf(self.inner.on(points, scales), weights, self.growth)
