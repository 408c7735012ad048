"""A finite set of contexts, and references on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drbo import validation
from drbo.ambiguity.family import AmbiguitySet, among
from drbo.contexts.nature import Contexts, in_words
from drbo.contexts.reference import EVERYTHING, NOTHING_SEEN, Indices, Memory, Reference, all_equal, empirical
from drbo.spaces.finite import FiniteSet
from drbo.spaces.samples import Samples
from drbo.spaces.space import Point
from drbo.validation import FloatArray


class FiniteContexts(Contexts):
    """A finite set of contexts: every reference is a vector of weights on its points."""

    space: FiniteSet
    enumerated = True

    def __init__(self, space: FiniteSet) -> None:
        self.space = space
        self._points, self._rows = space.coordinates, np.arange(len(space))  # the points that agree with `known`
        self._last: tuple[Any, Reference] | None = None  # the last argument of `given`, and its reference

    @property
    def in_order(self) -> bool:
        """Whether past contexts are in time order; counts of labels are not."""
        return self.space.in_order or not self.space.history.size

    @property
    def columns(self) -> Sequence[Any]:
        """The positions of the columns."""
        return self.space.positions

    def narrowed(self, known: Mapping[Any, Any]) -> FiniteContexts:
        """Return the points with the known values, by the position of their column."""
        made = FiniteContexts(self.space)
        made.known, made._rows = self.space.matching(known)
        made._points = validation.frozen(self.space.coordinates[made._rows])
        return made

    def holds(self, coordinates: FloatArray) -> NDArray[np.bool_]:
        """Return whether each context (n, d) agrees with `known`, (n,)."""
        return np.asarray((coordinates[:, None] == self._points).all(axis=2).any(axis=1))

    def part_of(self, ambiguity: AmbiguitySet) -> AmbiguitySet:
        """Return the family of sets on the points that agree with `known`."""
        return among(ambiguity, self._rows) if self.known else ambiguity

    def own(self) -> Reference | None:
        """Return the reference of the weights given with labels; None for points, which have no distribution."""
        weights = self.space.weights
        return None if weights is None else self._weighted(weights, self.space.history)

    def given(self, reference: ArrayLike | Mapping[Any, float]) -> Reference:
        """Return the reference of weights (n,), probabilities or counts, or of a mapping from labels to weights."""
        if self._last is not None and self._last[0] is reference:
            return self._last[1]
        if isinstance(reference, Samples):
            raise TypeError("reference must be weights, one per context: these are a finite set")
        weights = self.space.weights_of("reference", reference)
        made = self._weighted(weights, NOTHING_SEEN)
        if isinstance(reference, np.ndarray) and not reference.flags.writeable:  # immutable
            self._last = reference, made
        return made

    def check(self, reference: Any) -> None:
        """Raise unless the reference is a set of weights of the contexts."""
        self.given(reference)

    def chosen(self, weights: Any, history: Indices) -> Reference:
        """Return the reference of the weights, else of the history, else of the contexts."""
        n = len(self.space)
        if history.size and not 0 <= history.min() <= history.max() < n:
            raise ValueError(f"history must hold indices from 0 to {n - 1}, got {history}")
        if weights is not None:
            return self._weighted(self.space.weights_of("reference", weights), history)
        if history.size:
            return self._weighted(empirical(history, n), history)
        own = self.own()
        if own is None:
            raise TypeError("Simulator needs a reference distribution, or a history of context indices")
        return own

    def seen(self, contexts: Sequence[Point], memory: Memory = EVERYTHING) -> Reference:
        """Return the empirical distribution of past and observed contexts; uniform if there are none."""
        observed = np.array([point.index for point in contexts], dtype=np.intp)
        indices = np.concatenate([self.space.history, observed])
        shares = memory.weights(len(indices))
        counted = np.isin(indices, self._rows) & (shares > 0.0)
        history, shares = np.searchsorted(self._rows, indices[counted]), shares[counted]
        unequal = None if all_equal(shares) else validation.frozen(shares)
        return self._on_atoms(empirical(history, len(self._rows), unequal), history, unequal)

    def _whole(self, values: Mapping[Any, Any]) -> Any:
        """Return the point or the label with these values, by the positions of the columns."""
        return self.space.of_columns("context", values)

    def decode_all(self, reference: Reference) -> Sequence[Any]:
        """Return the user's points at the atoms."""
        del reference
        every = self.space.decode_all(self.space.coordinates)
        return tuple(every[int(i)] for i in self._rows) if self.known else every

    def _weighted(self, weights: FloatArray, history: Indices) -> Reference:
        """Return the reference of weights (n,) on the whole set, with a history of indices."""
        if self.known:
            total = float(weights[self._rows].sum())
            if total == 0.0:
                raise ValueError(f"given says {in_words(self.known)}, which has no weight in the reference")
            weights = weights[self._rows] / total
            history = np.searchsorted(self._rows, history[np.isin(history, self._rows)])
        return self._on_atoms(weights, history, None)

    def _on_atoms(self, weights: FloatArray, history: Indices, unequal: FloatArray | None) -> Reference:
        if weights.flags.writeable:
            weights = validation.frozen(weights)
        return Reference(self._points, weights, 0.0, history, self._rows, self._points[:0], unequal)
