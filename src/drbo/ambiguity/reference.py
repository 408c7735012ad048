"""The reference of a round: the atoms that carry it, their weights, and what compression costs.

The adversary works on a finite set of atoms. A finite set of contexts is its own atoms. Samples are compressed to a few
hundred weighted atoms if there are more, with a bound on the MMD that this costs. Further points of their range, which
no sample shows, are atoms without weight in the reference.

Where contexts have a range (a `Box`), the further points are only a beginning: `drbo.rounds.range` adds those that the
adversary would want. Otherwise the atoms are all there is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import cKDTree

from drbo import validation
from drbo.ambiguity.compression import compress
from drbo.ambiguity.contract import AmbiguitySet
from drbo.kernels import RBF
from drbo.spaces.box import Box
from drbo.spaces.finite import FiniteSet
from drbo.spaces.samples import DataRange, Samples
from drbo.spaces.space import Point, Space
from drbo.validation import FloatArray

Indices = NDArray[np.intp]

SPREAD = 128
"""How many points of a box of contexts are atoms from the beginning."""
_KEPT = 4
"""How many references are kept: compressing samples again would cost a second."""


@dataclass(frozen=True, eq=False)
class Reference:
    """A distribution on a finite set of atoms.

    Attributes
    ----------
    points : (n, d) the atoms in the model's coordinates
    weights : (n,) the weight of each; zero on further points
    error : a bound on the MMD between the samples and the weighted atoms
    history : (t,) for each past context in the order of time its atom, for rules that learn a radius
    numbered : whether the atoms are the points of a finite set, in its order
    represented : (k, d) the samples that the atoms stand for; no row if every sample is an atom
    """

    points: FloatArray
    weights: FloatArray
    error: float
    history: Indices
    numbered: bool
    represented: FloatArray

    def atom(self, j: int) -> Point:
        """Return atom number j."""
        return Point(self.points[j], j if self.numbered else None)

    def and_also(self, further: FloatArray) -> Reference:
        """Return these atoms and further ones (k, d) without weight."""
        if not len(further):
            return self
        points = validation.frozen(np.concatenate([self.points, further]))
        weights = validation.frozen(np.append(self.weights, np.zeros(len(further))))
        return replace(self, points=points, weights=weights)


def empirical(seen: Indices, n_contexts: int) -> FloatArray:
    """Return the empirical distribution (n_contexts,) of the contexts seen; uniform if there is none."""
    if len(seen) == 0:
        return np.full(n_contexts, 1.0 / n_contexts)
    return np.bincount(seen, minlength=n_contexts) / len(seen)


class Contexts(ABC):
    """What nature chooses from, and how a reference is made of it.

    Attributes
    ----------
    space : user's values <-> coordinates
    range : the box in which the adversary may put mass anywhere; None if the atoms are all there is
    enumerated : whether every context that there can be is one of a list
    """

    space: Space
    range: Box | None = None
    enumerated: bool = False

    @property
    def in_order(self) -> bool:
        """Whether what was seen in the past is in the order of time."""
        return True

    @abstractmethod
    def own(self) -> Reference | None:
        """Return the reference that the contexts themselves give; None if they give none."""

    @abstractmethod
    def given(self, reference: Any) -> Reference:
        """Return the reference that a caller gave for a round."""

    @abstractmethod
    def chosen(self, weights: Any, history: Indices) -> Reference:
        """Return the reference of a simulator that was made with weights, or with indices of past contexts.

        Samples are the reference themselves.
        """

    @abstractmethod
    def seen(self, contexts: Sequence[Point]) -> Reference:
        """Return the reference of what the contexts give and of those observed since, each of which counts as one."""

    def encode(self, name: str, value: Any) -> Point:
        """Return the point of a user's context."""
        return self.space.encode(name, value)


class FiniteContexts(Contexts):
    """A finite set of contexts: every reference is a vector of weights on its points."""

    space: FiniteSet
    enumerated = True

    def __init__(self, space: FiniteSet) -> None:
        self.space = space
        self._last: tuple[Any, Reference] | None = None  # what was given last, and its reference

    @property
    def in_order(self) -> bool:
        """Whether what was seen in the past is in the order of time; counts of labels are not."""
        return self.space.in_order or not self.space.history.size

    def own(self) -> Reference | None:
        """Return the reference of the weights that came with labels; None for points, which have no distribution."""
        weights = self.space.weights
        return None if weights is None else self._weighted(weights, self.space.history)

    def given(self, reference: ArrayLike | Mapping[Any, float]) -> Reference:
        """Return the reference of weights (n,), a probability vector or counts, or of a mapping from labels to them."""
        if self._last is not None and self._last[0] is reference:
            return self._last[1]
        if isinstance(reference, Samples):
            raise TypeError("reference must be weights, one per context: these are a finite set")
        weights = self.space.weights_of("reference", reference)
        made = self._weighted(weights, _NOTHING_SEEN)
        if isinstance(reference, np.ndarray) and not reference.flags.writeable:  # nobody can change it
            self._last = reference, made
        return made

    def chosen(self, weights: Any, history: Indices) -> Reference:
        """Return the reference of the weights, or else of the history, or else the contexts' own."""
        n = len(self.space.coordinates)
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

    def seen(self, contexts: Sequence[Point]) -> Reference:
        """Return the empirical distribution of contexts in the data and observed since; uniform if there is none."""
        observed = np.array([point.index for point in contexts], dtype=np.intp)
        indices = np.concatenate([self.space.history, observed])
        return self._weighted(empirical(indices, len(self.space.coordinates)), indices)

    def _weighted(self, weights: FloatArray, history: Indices) -> Reference:
        if weights.flags.writeable:
            weights = validation.frozen(weights)
        points = self.space.coordinates
        return Reference(points, weights, 0.0, history, numbered=True, represented=points[:0])


_NOTHING_SEEN = np.empty(0, dtype=np.intp)


class SampledContexts(Contexts):
    """Samples of past conditions, or a box of which nothing has been seen yet.

    Parameters
    ----------
    samples : the samples
    ambiguity : the set, which says in which kernel compression is bounded
    seed : of the further points
    """

    def __init__(self, samples: Samples, ambiguity: AmbiguitySet, seed: int) -> None:
        self.samples, self.space = samples, samples.space
        self.enumerated = not samples.space.continuous.any()
        # Where every combination of labels is an atom, no context is left between the atoms.
        every = self.enumerated and samples.space.discrete_parts(samples.support) is not None
        self.range = None if every else samples.within
        self._ambiguity, self._seed = ambiguity, seed
        self._kept: list[tuple[Samples, bytes, Reference]] = []  # samples, contexts seen, and their reference
        self.seen([])  # an error in the configuration shows now

    def encode(self, name: str, value: Any) -> Point:
        """Return the point of a context, given by the names of the columns or by its values in order."""
        return self.samples.encode(name, value)

    def own(self) -> Reference | None:
        """Return the reference of the samples; None if there is no sample yet."""
        return self._reference(self.samples, []) if len(self.samples.points) else None

    def given(self, reference: Samples) -> Reference:
        """Return the reference of other samples, in the units of these."""
        if not isinstance(reference, Samples):
            kind = type(reference).__name__
            raise TypeError(f"reference must be Samples of what this round's contexts may be, got {kind}")
        if not len(reference.points):
            raise TypeError("reference is empty: give Samples of what this round's contexts may be")
        return self._reference(reference, [])

    def chosen(self, weights: Any, history: Indices) -> Reference:
        """Return the reference of the samples; neither weights nor a history may be given."""
        if weights is not None or history.size:
            raise TypeError("reference must not be given to Simulator: the samples are the reference")
        return self._reference(self.samples, [])

    def seen(self, contexts: Sequence[Point]) -> Reference:
        """Return the reference of the samples and of contexts observed since."""
        return self._reference(self.samples, contexts)

    def _reference(self, samples: Samples, seen: Sequence[Point]) -> Reference:
        """Return the reference of samples and contexts seen, from what is kept if it was made before."""
        coordinates = np.array([point.coordinates for point in seen]).reshape(-1, self.space.dimension)
        key = coordinates.tobytes()
        for kept_samples, kept_key, kept in self._kept:
            if kept_samples is samples and kept_key == key:
                return kept
        made = self._make(samples, coordinates)
        self._kept = [*self._kept[1 - _KEPT :], (samples, key, made)]
        return made

    def _make(self, samples: Samples, seen: FloatArray) -> Reference:
        """Return the atoms of samples and of contexts seen (k, d).

        Where there is neither, nothing is known: the further points share the reference equally. Without a kernel of an
        MMD nothing bounds what compression costs: contexts seen are then all kept, and so must samples be.
        """
        further = _well_spread(self.samples.space, self.samples.support, self._seed)
        points, weights, limit = self._coordinates(samples), samples.weights, samples.atoms
        n = len(points)
        every = np.concatenate([points, seen])
        if not len(every):
            if not len(further):
                raise ValueError("support must be at least 1 where there are no samples")
            equal = np.full(len(further), 1.0 / len(further))
            return Reference(
                validation.frozen(further), validation.frozen(equal), 0.0, _NOTHING_SEEN, False, represented=further[:0]
            )
        bounded = self._ambiguity.compression(self.space.measured(every), self.space.scales)
        if bounded is None:
            if len(np.unique(points[weights > 0.0], axis=0)) > limit:
                raise ValueError("ambiguity must be an MMD for compressed samples; or give Samples room: atoms=...")
            bounded, limit = (every, RBF()), len(every)
        positions, kernel = bounded
        shares = np.concatenate([weights * n, np.ones(len(every) - n)]) / len(every)
        small = compress(positions, kernel, shares / shares.sum(), limit)
        atoms = validation.frozen(every[small.index])
        _, history = cKDTree(atoms).query(every)
        nearest = np.asarray(history, dtype=np.intp)
        represented = every if small.error > 0.0 else every[:0]
        made = Reference(atoms, small.weights, small.error, nearest, False, validation.frozen(represented))
        # A combination of labels that is an atom is no further one.
        return made.and_also(_new_rows(further, atoms) if self.enumerated else further)

    def _coordinates(self, samples: Samples) -> FloatArray:
        """Return the coordinates (n, d) of samples in the space of these contexts."""
        if samples is self.samples:
            return samples.points
        rows = [self.encode("reference", samples.space.decode(Point(point))).coordinates for point in samples.points]
        return np.array(rows).reshape(-1, self.space.dimension)


def _well_spread(space: Box | DataRange, count: int, seed: int) -> FloatArray:
    """Return every combination of labels and whole numbers if there are at most `count`, or else so many points.

    The points are different from one another where nothing but labels and whole numbers is in the space.
    """
    if space.continuous.any():
        return space.sample(count, seed)
    every = space.discrete_parts(count)
    return _new_rows(space.sample(count, seed), np.empty((0, space.dimension))) if every is None else every


def _new_rows(rows: FloatArray, known: FloatArray) -> FloatArray:
    """Return the different ones of rows (k, d), in their order, that are none of the known ones (n, d)."""
    _, first = np.unique(np.concatenate([known, rows]), axis=0, return_index=True)
    return rows[np.sort(first[first >= len(known)]) - len(known)]
