"""A union of sets, each around the reference of one scenario.

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
from drbo._messages import printable
from drbo.ambiguity.divergence import Expectation
from drbo.ambiguity.family import AmbiguitySet, SupportsScenarios, among
from drbo.ambiguity.metric import Metric
from drbo.ambiguity.placed import NEXT, Dual, PlacedSet, WorstCase, on_range, shifting, with_slopes
from drbo.kernels import Kernel
from drbo.spaces.samples import Samples
from drbo.spaces.space import Column
from drbo.validation import FloatArray

__all__ = ["AnyOf"]
_EQUAL = 1e-9
"""Tolerance for a scenario's context to equal one of the contexts, as a share of each column's range."""


class Scenario(ABC):
    """One scenario: its `name` in errors, and what the user gave."""

    name: str
    given: Any

    @abstractmethod
    def on(self, columns: Sequence[Column], points: FloatArray | None = None) -> FloatArray:
        """Return the weights (n,) of contexts (n, d) with these columns; by default of all contexts of a finite set."""

    def agreeing(self, holds: Callable[[Samples], NDArray[np.bool_]]) -> Scenario | None:
        """Return the scenario given a known part of the context, where `holds` selects samples; None if none agrees."""
        del holds
        return self


class Weighted(Scenario):
    """Weights (n,), one per context of a finite set."""

    def __init__(self, name: str, weights: Any) -> None:
        self.name, self.given = name, validation.frozen(validation.distribution(name, weights))

    def on(self, columns: Sequence[Column], points: FloatArray | None = None) -> FloatArray:
        del columns
        if points is not None and len(self.given) != len(points):
            raise ValueError(f"{self.name} must hold {len(points)} weights, one per context, got {len(self.given)}")
        return np.asarray(self.given)


class ByLabel(Scenario):
    """A mapping from labels to weights; missing labels have weight zero."""

    def __init__(self, name: str, weights: Mapping[Any, float]) -> None:
        validation.distribution(name, [*weights.values()])
        self.name, self.given = name, dict(weights)

    def on(self, columns: Sequence[Column], points: FloatArray | None = None) -> FloatArray:
        """Return the weights of contexts that are the labels of one column."""
        column = columns[0] if len(columns) == 1 else None
        points = column.levels if column is not None and points is None else points
        if column is None or column.labels is None or points is None or len(points) != len(column.labels):
            raise TypeError(f"{self.name} must be weights, one per context: a mapping is for contexts that are labels")
        unknown = [label for label in self.given if label not in column.labels]
        if unknown:
            raise ValueError(
                f"{self.name} has the unknown label {unknown[0]!r}: expected {', '.join(map(repr, column.labels))}"
            )
        weights = sum(share * column.holds(points, label) for label, share in self.given.items())
        return validation.distribution(self.name, np.asarray(weights))


class SampledScenario(Scenario):
    """Samples of contexts; those that disagree with a known part of the context are dropped."""

    def __init__(self, name: str, samples: Samples, agree: NDArray[np.bool_] | None = None) -> None:
        if not len(samples.points):
            raise ValueError(f"{name} must hold at least one sample, got none")
        self.name, self.given = name, samples
        self._agree = np.ones(len(samples.points), dtype=bool) if agree is None else agree

    def on(self, columns: Sequence[Column], points: FloatArray | None = None) -> FloatArray:
        """Return the weights of contexts; every sample must be one of them."""
        if points is None:
            raise TypeError(f"{self.name} must be weights, one per context, where a part of the context is given")
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
                f"{self.name} has a sample that is not one of the contexts, in row {row}: {positions[row].tolist()}"
            )
        weights = np.zeros(len(points))
        shares = self.given.weights[self._agree]
        np.add.at(weights, nearest, shares / shares.sum())
        return weights

    def agreeing(self, holds: Callable[[Samples], NDArray[np.bool_]]) -> Scenario | None:
        agree = holds(self.given)
        return SampledScenario(self.name, self.given, agree) if agree.any() else None


def scenario(name: str, given: Any) -> Scenario:
    """Return the user's argument as a scenario: samples, weights by label, or weights (n,)."""
    if isinstance(given, Samples):
        return SampledScenario(name, given)
    values = validation.by_name(given)
    return ByLabel(name, values) if isinstance(values, Mapping) else Weighted(name, values)


def _in_words(columns: Sequence[Column]) -> str:
    """Return columns and their labels as text."""
    return ", ".join(
        printable(one) + ("" if one.labels is None else f" ({', '.join(map(repr, one.labels))})") for one in columns
    )


class PlacedAnyOf(PlacedSet):
    """The union of the sets `inner` around scenarios of weights (k, n), on contexts."""

    n_contexts: int

    def __init__(self, inner: PlacedSet, weights: FloatArray, own: float | None) -> None:
        self.inner, self.weights = inner, weights
        self.n_contexts = weights.shape[1]
        around = f"around the reference and around each of {len(weights)} scenario(s)"
        means = f"The radius is that of the set {around}; what follows is for the set around the reference."
        self.growth = replace(inner.growth, own=own, from_reference=False, convex=False, means=means)

    def __repr__(self) -> str:
        return f"AnyOf({len(self.weights)} scenario(s), within={self.inner!r})"

    def words(self, radius: float) -> str:
        return f"{self.inner.words(radius)}, or the same with {self._which} in place of the reference"

    @property
    def everything(self) -> str:
        every = self.inner.everything
        if every == super().everything:
            return every
        return f"{every}, or the same with {self._which} in place of the reference"

    @property
    def _which(self) -> str:
        k = len(self.weights)
        return "the scenario" if k == 1 else f"one of {k} scenarios"

    def moved(self, reference: FloatArray, points: FloatArray) -> float:
        """Return the distance of the reference from the same weights on moved contexts; a scenario may be closer."""
        return shifting(self.inner).moved(reference, points)

    def shares_inside(self, reference: FloatArray, points: FloatArray, radius: float) -> tuple[float, float] | None:
        """Return the shares of the mass that may move in the set around the reference."""
        return shifting(self.inner).shares_inside(reference, points, radius)

    def extended(self, further: FloatArray) -> PlacedAnyOf:
        """Return the set with further contexts (k, d), which no scenario has."""
        without = np.zeros((len(self.weights), len(further)))
        inner = on_range(self.inner).extended(further)
        return PlacedAnyOf(inner, np.concatenate([self.weights, without], axis=1), self.growth.own)

    def dual(self, values: FloatArray, reference: FloatArray, radius: float, worst: WorstCase) -> Dual | None:
        """Return the duals of all scenarios combined.

        If a scenario's bound exceeds the lowest one by h, its thresholds fall by h / share. A further context lowers
        the worst case if its value is below any threshold.
        """
        del worst
        duals = []
        for p in self._references(reference):
            alone = self.inner.certified(values[None], p, radius)[0]
            found = on_range(self.inner).dual(values, p, radius, alone)
            # Without a dual the distributions around this scenario use no further contexts: its bound holds.
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
        """Return the sensitivity of the worst scenario (m,), the largest one in a tie."""
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


class AnyOf(AmbiguitySet):
    """One of several scenarios, each with a set around it: `AnyOf([weekday, weekend, strike], within=MMD())`.

    The set of radius eps is the union of the sets `within` of radius eps around the scenarios and around the reference
    of the round. (A reference that is a mixture of the scenarios adds nothing, since the expectation is linear.)

    worst case = min_k worst case of `within` around scenario k, distance(q, p) = min_k distance of q from scenario k.

    Parameters
    ----------
    scenarios : for a finite set of contexts, weights (n,) per scenario, or for labels a mapping from labels to weights.
        For sampled contexts, `Samples` with the same columns, whose points become atoms
    within : the set around each scenario; by default `Expectation()`, the scenarios themselves, without radius
    """

    def __init__(self, scenarios: Iterable[Any], within: AmbiguitySet | None = None) -> None:
        if isinstance(scenarios, Samples | Mapping | str) or not isinstance(scenarios, Iterable):
            raise TypeError(f"scenarios must be a list of weights or of Samples, got {scenarios!r}")
        validation.of_kind("within", within, (AmbiguitySet, type(None)), "an ambiguity set such as drbo.MMD()")
        self.scenarios = tuple(scenario(f"scenarios[{k}]", given) for k, given in enumerate(scenarios))
        if not self.scenarios:
            raise ValueError("scenarios must hold at least one, got none")
        self.inner = Expectation() if within is None else within
        own = 0.0 if within is None else within.growth.own
        self.growth = replace(self.inner.growth, own=own, from_reference=False, convex=False)
        self._columns: tuple[Column, ...] = ()

    def __repr__(self) -> str:
        return f"AnyOf({len(self.scenarios)} scenario(s), within={self.inner!r})"

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the constructor by name."""
        given = tuple(one.given for one in self.scenarios)
        return {"scenarios": given, "within": None if type(self.inner) is Expectation else self.inner}

    @property
    def n_contexts(self) -> int | None:
        return self.inner.n_contexts

    @property
    def atoms(self) -> tuple[Samples, ...]:
        """The scenarios that are samples: their points must be among the contexts."""
        return tuple(one.given for one in self.scenarios if isinstance(one, SampledScenario))

    def with_columns(self, columns: Sequence[Column]) -> AnyOf:
        made = copy.copy(self)
        made.inner, made._columns = self.inner.with_columns(columns), tuple(columns)
        return made

    def among(self, rows: NDArray[np.intp]) -> AmbiguitySet:
        """Return the family for some of the contexts (k,): the scenarios with weight on them, conditioned on them."""
        inner = among(self.inner, rows)
        shares = [one.on(self._columns)[rows] for one in self.scenarios]
        possible = [share / share.sum() for share in shares if share.sum() > 0.0]
        if not possible:
            return inner
        made = AnyOf(possible, inner)
        made.growth, made._columns = self.growth, self._columns
        return made

    def agreeing(self, holds: Callable[[Samples], NDArray[np.bool_]]) -> AmbiguitySet:
        """Return the family for a known part of the context: each scenario conditioned on it, if any sample agrees."""
        inner = self.inner.agreeing(holds) if isinstance(self.inner, SupportsScenarios) else self.inner
        possible = tuple(left for one in self.scenarios if (left := one.agreeing(holds)) is not None)
        if not possible:
            return inner
        made = copy.copy(self)
        made.inner, made.scenarios = inner, possible
        return made

    def compression(self, points: FloatArray, scales: FloatArray) -> tuple[FloatArray, Kernel | Metric] | None:
        return self.inner.compression(points, scales)

    def _place(self, points: FloatArray, scales: FloatArray) -> PlacedAnyOf:
        weights = np.array([one.on(self._columns, points) for one in self.scenarios])
        return PlacedAnyOf(self.inner.on(points, scales), weights, self.growth.own)
