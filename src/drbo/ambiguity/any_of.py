"""One of several scenarios: a union of sets, each round a reference of its own."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drbo import validation
from drbo.ambiguity.contract import NEXT, AmbiguitySet, Dual, WorstCase
from drbo.ambiguity.expectation import Expectation
from drbo.ambiguity.scenarios import scenario
from drbo.kernels import Kernel
from drbo.spaces.columns import Column
from drbo.spaces.samples import Samples
from drbo.validation import FloatArray

__all__ = ["AnyOf"]


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
        self.base = Expectation() if within is None else within
        self.own_radius = 0.0 if within is None else within.own_radius
        self.has_radius, self.radius_power = self.base.has_radius, self.base.radius_power
        self.instead_of_a_rule = self.base.instead_of_a_rule
        self.n_contexts = self.base.n_contexts
        self._columns: tuple[Column, ...] = ()
        self._weights: FloatArray | None = None

    def __repr__(self) -> str:
        return f"AnyOf({len(self.scenarios)} scenario(s), within={self.base!r})"

    def arguments(self) -> dict[str, Any]:
        """Return what the set was made of, by the names of the arguments."""
        given = tuple(one.given for one in self.scenarios)
        return {"scenarios": given, "within": None if type(self.base) is Expectation else self.base}

    def within(self, radius: float) -> str:
        """Return which distributions the set holds, in words."""
        return f"{self.base.within(radius)}, or so with {self._which} in place of the reference"

    @property
    def _which(self) -> str:
        k = len(self.scenarios)
        return "the scenario" if k == 1 else f"one of {k} scenarios"

    @property
    def radius_means(self) -> str:
        """What the radius is a number of."""
        around = f"round the reference and round each of {len(self.scenarios)} scenario(s)"
        return f"The radius is that of the set {around}; what follows is told round the reference."

    def moved(self, reference: FloatArray, points: FloatArray) -> float | None:
        """Return how far the reference is from the same weights on moved contexts; a scenario may be closer."""
        return self.base.moved(reference, points)

    def shares_inside(self, reference: FloatArray, points: FloatArray, radius: float) -> tuple[float, float] | None:
        """Return which shares of the mass may move in the set round the reference."""
        return self.base.shares_inside(reference, points, radius)

    def most_likely(self, radius: float, share: float) -> float | None:
        """Return None: it depends on which scenario has the event."""
        del radius, share
        return None

    @property
    def everything(self) -> str:
        """What the set holds from its diameter on, in words."""
        every = self.base.everything
        if every == super().everything:
            return every
        return f"{every}, or so with {self._which} in place of the reference"

    @property
    def scale(self) -> float:
        """The unit of the radius."""
        return self.base.scale

    @property
    def atoms(self) -> tuple[Samples, ...]:
        """The scenarios that are samples: their points must be among the contexts."""
        return tuple(samples for one in self.scenarios for samples in one.atoms)

    def with_columns(self, columns: Sequence[Column]) -> AnyOf:
        """Return the set for contexts with these columns."""
        made = copy.copy(self)
        made.base, made._columns = self.base.with_columns(columns), tuple(columns)
        return made

    def on(self, points: ArrayLike, scales: ArrayLike | None = None) -> AnyOf:
        """Return the set on contexts (n, d), or this one if it is on contexts already."""
        if self._weights is not None:
            super().on(points, scales)
            return self
        c = validation.points("points", points)
        made = copy.copy(self)
        made.base = self.base.on(c, scales)
        made.n_contexts = len(c)
        made._weights = np.array([one.on(c, self._columns) for one in self.scenarios])
        return made

    def extended(self, further: FloatArray) -> AnyOf:
        """Return the set on its contexts and further ones (k, d), which no scenario has."""
        made = copy.copy(self)
        weights = self._placed()
        made.base = self.base.extended(further)
        made.n_contexts = weights.shape[1] + len(further)
        made._weights = np.concatenate([weights, np.zeros((len(weights), len(further)))], axis=1)
        return made

    def among(self, rows: NDArray[np.intp]) -> AmbiguitySet:
        """Return the set on some of the contexts (k,): each scenario given that one of them happens.

        A scenario in which none of them can happen says nothing, and is left out.
        """
        base = self.base.among(rows)
        shares = [one.on_set(self._columns)[rows] for one in self.scenarios]
        possible = [share / share.sum() for share in shares if share.sum() > 0.0]
        if not possible:
            return base
        made = AnyOf(possible, base)
        made.own_radius, made._columns = self.own_radius, self._columns
        if self._weights is not None:
            made._weights, made.n_contexts = np.array(possible), len(rows)
        return made

    def agreeing(self, holds: Callable[[Samples], NDArray[np.bool_]]) -> AmbiguitySet:
        """Return the set where a part of the context is known: each scenario given that part.

        A scenario that has no such sample says nothing, and is left out.
        """
        base = self.base.agreeing(holds)
        possible = tuple(left for one in self.scenarios if (left := one.agreeing(holds)) is not None)
        if not possible:
            return base
        made = copy.copy(self)
        made.base, made.scenarios = base, possible
        return made

    def compression(self, points: FloatArray, scales: FloatArray) -> tuple[FloatArray, Kernel] | None:
        """Return the points and the kernel in which the samples of the reference may be compressed."""
        return self.base.compression(points, scales)

    def dual(self, values: FloatArray, reference: FloatArray, radius: float, worst: WorstCase) -> Dual | None:
        """Return the duals of all scenarios in one.

        A scenario whose bound is higher by h than the lowest one has that much room: its thresholds count less by
        h / share, and a further context does harm where it is below one of the thresholds.
        """
        del worst
        duals = []
        for p in self._references(reference):
            one = self.base.certified(values[None], p, radius)
            alone = WorstCase(one.expectation[0], one.weights[0], one.lower_bound[0])
            found = self.base.dual(values, p, radius, alone)
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
        worst = np.array([self.base.certified(values, one, radius).expectation for one in references])
        slopes = np.array([self.base.slopes(values, one, radius) for one in references])
        worst_of_all = worst <= worst.min(axis=0) + NEXT * np.ptp(values, axis=1)
        return np.asarray(np.where(worst_of_all, slopes, 0.0).max(axis=0))

    def _placed(self) -> FloatArray:
        """Return the weights (k, n) of the scenarios, or say that there are no contexts."""
        if self._weights is None:
            raise TypeError(f"{self!r} has no contexts yet: use .on(points)")
        return self._weights

    def _references(self, reference: FloatArray) -> FloatArray:
        """Return the scenarios and the reference itself (k + 1, n)."""
        return np.concatenate([self._placed(), reference[None]])

    def _distance(self, p: FloatArray, q: FloatArray) -> float:
        return min(self.base.distance(p, one) for one in self._references(q))

    def _to_vertices(self, reference: FloatArray) -> FloatArray:
        return np.asarray(np.min([self.base._to_vertices(one) for one in self._references(reference)], axis=0))

    def _diameter_in(self, reference: FloatArray, hull: FloatArray) -> float:
        return min(self.base.diameter(one, hull) for one in self._references(reference))

    def _solve(self, values: FloatArray, reference: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        found = [self.base.certified(values, one, radius) for one in self._references(reference)]
        worst = np.argmin([one.expectation for one in found], axis=0)
        weights = np.array([one.weights for one in found])[worst, np.arange(len(values))]
        return weights, np.min([one.lower_bound for one in found], axis=0)
