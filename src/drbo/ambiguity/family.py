"""An ambiguity set as frozen configuration, before it is placed `on` contexts."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drbo import validation
from drbo.ambiguity.metric import Metric
from drbo.ambiguity.placed import Growth, PlacedSet, WorstCase, check_size, checked, with_slopes
from drbo.kernels import Kernel
from drbo.spaces.samples import Samples
from drbo.spaces.space import Column
from drbo.validation import FloatArray

__all__ = ["AmbiguitySet"]


class AmbiguitySet(ABC):
    """A family of sets of distributions, to be placed `on` contexts.

    A family may be constructed with contexts: `MMD(contexts, kernel)`. It then fits only these, and has `worst_case`
    and `distance` itself. A new set is a subclass of `Divergence` if it does not depend on where contexts lie.
    Otherwise it is a family with `_place`, which returns a `PlacedSet`.
    """

    growth: Growth = Growth()
    """The dependence of the set on its radius."""

    _placed: PlacedSet | None = None
    """The set on the contexts given to the constructor."""

    @property
    def n_contexts(self) -> int | None:
        """The number of contexts given to the constructor; None if there are none."""
        return None if self._placed is None else self._placed.n_contexts

    @property
    def placed(self) -> PlacedSet:
        """The set on the contexts given to the constructor; raises if there are none."""
        if self._placed is None:
            raise TypeError(f"{self!r} has no contexts yet: give them when you make it, or use .on(points)")
        return self._placed

    def with_columns(self, columns: Sequence[Column]) -> AmbiguitySet:
        """Return the family for contexts with these columns; this family if it does not depend on columns.

        An optimizer calls this once, before `on`.
        """
        del columns
        return self

    def on(self, points: ArrayLike, scales: ArrayLike | None = None) -> PlacedSet:
        """Return the set on contexts (n, d) in the user's units, whose columns have the ranges `scales` (d,).

        The default ranges are 1. A family constructed with contexts stays on them, and n must be their number.
        """
        c = validation.points("points", points)
        ranges = np.ones(c.shape[1]) if scales is None else validation.finite_array("scales", scales, ndim=1)
        if ranges.shape != (c.shape[1],) or ranges.min() <= 0.0:
            raise ValueError(f"scales must be {c.shape[1]} positive number(s), one per column, got {scales!r}")
        if self._placed is None:
            return self._place(c, ranges)
        check_size(self._placed, len(c))
        return self._placed

    def compression(self, points: FloatArray, scales: FloatArray) -> tuple[FloatArray, Kernel | Metric] | None:
        """Return points, and the kernel or metric in which their compression is bounded; None if there is no bound."""
        del points, scales
        return None

    def worst_case(self, values: ArrayLike, reference: ArrayLike, radius: float) -> WorstCase:
        """Return the worst expectation of each row of `values` (..., n) within `radius` of `reference` (n,)."""
        return self.placed.worst_case(values, reference, radius)

    def distance(self, p: ArrayLike, q: ArrayLike) -> float:
        """Return the distance between the distributions p (n,) and q (n,); inf if they are not comparable."""
        return self.placed.distance(p, q)

    @abstractmethod
    def _place(self, points: FloatArray, scales: FloatArray) -> PlacedSet:
        """Return the set on valid points (n, d) of ranges (d,)."""


@runtime_checkable
class SupportsGiven(Protocol):
    """A family on a finite set of contexts that can be restricted to some of them by a known part of the context."""

    def among(self, rows: NDArray[np.intp]) -> AmbiguitySet:
        """Return the family for the contexts with these positions (k,)."""


@runtime_checkable
class SupportsScenarios(Protocol):
    """A family with scenarios that are samples."""

    atoms: tuple[Samples, ...]
    """Samples whose points must be atoms, if contexts are samples."""

    def agreeing(self, holds: Callable[[Samples], NDArray[np.bool_]]) -> AmbiguitySet:
        """Return the family for a known part of the context: `holds` selects the samples (n,) that agree."""


def among(family: AmbiguitySet, rows: NDArray[np.intp]) -> AmbiguitySet:
    """Return a family for the contexts of a finite set with these positions (k,)."""
    if isinstance(family, SupportsGiven):
        return family.among(rows)
    if family.n_contexts in (None, len(rows)):
        return family
    raise TypeError(f"{family!r} has no `among`, which ask(given=...) needs: give a set without contexts of its own")


SetOrFamily = AmbiguitySet | PlacedSet
"""The argument of functions of known values: a set on contexts, or a family constructed with contexts."""


def as_placed(ambiguity: SetOrFamily) -> PlacedSet:
    """Return the set on contexts: the argument, or the set of a family constructed with contexts."""
    if isinstance(ambiguity, PlacedSet):
        return ambiguity
    validation.of_kind("ambiguity", ambiguity, AmbiguitySet, "an ambiguity set")
    return ambiguity.placed


def sensitivity(ambiguity: SetOrFamily, values: ArrayLike, reference: ArrayLike, radius: float = 0.0) -> FloatArray:
    """Return the rate (...) >= 0 at which the worst case of each row of values (..., n) falls with the radius.

    With V(eps) the worst case, the rate is the right derivative -dV / d(eps^power) at `radius`. At radius 0 it is the
    worst-case sensitivity of Gotoh, Kim and Lim (2020) and of Tay et al. (ICML 2022): V(eps) is about V(0) -
    sensitivity * eps^power. The power, `ambiguity.growth.power`, is 1/2 for KL and chi-square, whose derivative in the
    radius is infinite at 0, and the order of a Wasserstein set.
    """
    one = as_placed(ambiguity)
    v, p = checked(one, values, reference)
    eps, rows = validation.radius(radius), v.reshape(-1, p.size)
    steep = with_slopes(one)
    slopes = np.zeros(len(rows)) if math.isinf(eps) else steep.slopes(rows, p, eps)
    return np.asarray(slopes.reshape(v.shape[:-1])[()])
