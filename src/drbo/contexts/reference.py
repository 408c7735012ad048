"""The reference of a round: its atoms, their weights, and the error of compression.

The adversary works on a finite set of atoms. `drbo.contexts.nature` makes references from contexts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from drbo import validation
from drbo.spaces.space import Point
from drbo.validation import FloatArray

__all__ = ["empirical"]

Indices = NDArray[np.intp]

NOTHING_SEEN = np.empty(0, dtype=np.intp)
"""The history of a reference that is not made from past contexts."""


@dataclass(frozen=True, eq=False)
class Reference:
    """A distribution on a finite set of atoms.

    Attributes
    ----------
    points : (n, d) the atoms in the model's coordinates
    weights : (n,) the weight of each; zero on further points
    error : a bound on the MMD between the samples and the weighted atoms
    history : (t,) the atom of each past context, in time order, for rules that learn a radius
    index : (n,) the position of each atom in a finite set, ascending; None for other contexts
    represented : (k, d) the samples that the atoms represent; no row if every sample is an atom
    history_weights : (t,) the weight of each past context; None if all are equal
    """

    points: FloatArray
    weights: FloatArray
    error: float
    history: Indices
    index: Indices | None
    represented: FloatArray
    history_weights: FloatArray | None = None

    def atom(self, j: int) -> Point:
        """Return atom j."""
        return Point(self.points[j], None if self.index is None else int(self.index[j]))

    def atoms_of(self, indices: Indices) -> Indices:
        """Return the atoms at these positions of a finite set; positions without an atom are dropped."""
        if self.index is None:
            return indices[:0]
        return np.searchsorted(self.index, indices[np.isin(indices, self.index)])

    def and_also(self, further: FloatArray) -> Reference:
        """Return the reference with further atoms (k, d) of zero weight."""
        if not len(further):
            return self
        points = validation.frozen(np.concatenate([self.points, further]))
        weights = validation.frozen(np.append(self.weights, np.zeros(len(further))))
        return replace(self, points=points, weights=weights)


def empirical(seen: Indices, n_contexts: int, weights: FloatArray | None = None) -> FloatArray:
    """Return the distribution (n_contexts,) of past contexts with weights (t,); uniform if there is no weight."""
    if len(seen) == 0:
        return np.full(n_contexts, 1.0 / n_contexts)
    if weights is None:
        return np.bincount(seen, minlength=n_contexts) / len(seen)
    counted = np.bincount(seen, weights=weights, minlength=n_contexts)
    return np.asarray(counted / counted.sum())


def all_equal(weights: FloatArray) -> bool:
    """Return whether weights (t,) are all equal, up to rounding."""
    return float(np.ptp(weights)) <= 1e-12 * float(weights.max()) if len(weights) else True


@dataclass(frozen=True)
class Memory:
    """The weight of a past context by its age in contexts: 1 for the newest one, and 1 for all by default.

    Attributes
    ----------
    window : the number of newest contexts that count
    half_life : the age difference in contexts that halves the weight
    """

    window: int | None = None
    half_life: float | None = None

    def __post_init__(self) -> None:
        if self.window is not None and self.half_life is not None:
            raise TypeError("window and half_life must not both be given: choose one way to forget the past")
        if self.window is not None:
            object.__setattr__(self, "window", validation.whole_number("window", self.window, least=1))
        if self.half_life is not None:
            object.__setattr__(self, "half_life", validation.positive_float("half_life", self.half_life))

    @property
    def forgets(self) -> bool:
        """Whether older contexts count less."""
        return self.window is not None or self.half_life is not None

    def weights(self, count: int) -> FloatArray:
        """Return the weights (count,) of contexts in time order, the oldest first."""
        age = np.arange(count - 1.0, -1.0, -1.0)
        if self.window is not None:
            return (age < self.window).astype(float)
        with np.errstate(over="ignore"):  # weights that underflow are 0
            return np.ones(count) if self.half_life is None else np.exp2(-age / self.half_life)


EVERYTHING = Memory()
"""Nothing is forgotten."""
