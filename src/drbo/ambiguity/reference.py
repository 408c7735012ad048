"""The reference of a round: the atoms that carry it, their weights, and what compression costs.

The adversary works on a finite set of atoms. A finite set of contexts is its own atoms. Samples are compressed to a few
hundred weighted atoms if there are more, with a bound on the MMD that this costs. Further points of their range, which
no sample shows, are atoms without weight in the reference.

Where contexts have a range (a `Box`), the further points are only a beginning: `drbo.rounds.range` adds those that the
adversary would want. Otherwise the atoms are all there is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import cKDTree

from drbo import validation
from drbo.ambiguity.compression import compress
from drbo.ambiguity.contract import AmbiguitySet
from drbo.kernels import RBF
from drbo.spaces.box import Box
from drbo.spaces.columns import Column
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
    index : (n,) the position of each atom in a finite set, in its order; None where contexts are no finite set
    represented : (k, d) the samples that the atoms stand for; no row if every sample is an atom
    history_weights : (t,) how much each past context counts; None if all count the same
    """

    points: FloatArray
    weights: FloatArray
    error: float
    history: Indices
    index: Indices | None
    represented: FloatArray
    history_weights: FloatArray | None = None

    def atom(self, j: int) -> Point:
        """Return atom number j."""
        return Point(self.points[j], None if self.index is None else int(self.index[j]))

    def atoms_of(self, indices: Indices) -> Indices:
        """Return the atoms of those points of a finite set, given by their positions, that are atoms."""
        if self.index is None:
            return indices[:0]
        return np.searchsorted(self.index, indices[np.isin(indices, self.index)])

    def and_also(self, further: FloatArray) -> Reference:
        """Return these atoms and further ones (k, d) without weight."""
        if not len(further):
            return self
        points = validation.frozen(np.concatenate([self.points, further]))
        weights = validation.frozen(np.append(self.weights, np.zeros(len(further))))
        return replace(self, points=points, weights=weights)


def empirical(seen: Indices, n_contexts: int, weights: FloatArray | None = None) -> FloatArray:
    """Return the distribution (n_contexts,) of the contexts seen, which count by weights (t,); uniform if none does."""
    if len(seen) == 0:
        return np.full(n_contexts, 1.0 / n_contexts)
    if weights is None:
        return np.bincount(seen, minlength=n_contexts) / len(seen)
    counted = np.bincount(seen, weights=weights, minlength=n_contexts)
    return np.asarray(counted / counted.sum())


@dataclass(frozen=True)
class Memory:
    """How much a past context counts, by the number of contexts since: 1 for the newest one, and 1 for all by default.

    Attributes
    ----------
    window : only so many of the newest contexts count
    half_life : a context counts half as much as one that came so many contexts later
    """

    window: int | None = None
    half_life: float | None = None

    def __post_init__(self) -> None:
        if self.window is not None and self.half_life is not None:
            raise TypeError("window and half_life must not both be given: each says how the past is forgotten")
        if self.window is not None:
            object.__setattr__(self, "window", validation.whole_number("window", self.window, least=1))
        if self.half_life is not None:
            object.__setattr__(self, "half_life", validation.positive_float("half_life", self.half_life))

    @property
    def forgets(self) -> bool:
        """Whether older contexts count less."""
        return self.window is not None or self.half_life is not None

    def weights(self, count: int) -> FloatArray:
        """Return the weights (count,) of contexts in the order of time, the oldest first."""
        age = np.arange(count - 1.0, -1.0, -1.0)
        if self.window is not None:
            return (age < self.window).astype(float)
        with np.errstate(over="ignore"):  # what is too many half-lives ago for a float counts 0
            return np.ones(count) if self.half_life is None else np.exp2(-age / self.half_life)


EVERYTHING = Memory()
"""Nothing is forgotten."""


class Contexts(ABC):
    """What nature chooses from, and how a reference is made of it.

    Where a part of the context is known before the choice, `narrowed` returns the contexts that agree with it. Their
    references are conditional distributions: of what matches, with weights that sum to one.

    Attributes
    ----------
    space : user's values <-> coordinates
    range : the box in which the adversary may put mass anywhere; None if the atoms are all there is
    enumerated : whether every context that there can be is one of a list
    known : the values that are known before the choice, by the names of the columns
    """

    space: Space
    range: Box | None = None
    enumerated: bool = False
    known: Mapping[Any, Any] = MappingProxyType({})

    @property
    @abstractmethod
    def columns(self) -> Sequence[Any]:
        """What the columns of a context are called: their names, or their positions if they have none."""

    @abstractmethod
    def narrowed(self, known: Mapping[Any, Any]) -> Self:
        """Return the contexts that agree with what is known, by the names of the columns."""

    @abstractmethod
    def holds(self, coordinates: FloatArray) -> NDArray[np.bool_]:
        """Return which contexts (n, d) agree with what is known, (n,)."""

    @abstractmethod
    def part_of(self, ambiguity: AmbiguitySet) -> AmbiguitySet:
        """Return the family of sets for the contexts that agree with what is known."""

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
    def check(self, reference: Any) -> None:
        """Raise unless `given` takes this reference; that is known before its atoms are."""

    @abstractmethod
    def chosen(self, weights: Any, history: Indices) -> Reference:
        """Return the reference of a simulator that was made with weights, or with indices of past contexts.

        Samples are the reference themselves.
        """

    @abstractmethod
    def seen(self, contexts: Sequence[Point], memory: Memory = EVERYTHING) -> Reference:
        """Return the reference of what the contexts give and of those observed since, in the order of time.

        Each observed one counts as one sample. The memory says how much the older ones count.
        """

    @abstractmethod
    def decode_all(self, reference: Reference) -> Sequence[Any]:
        """Return the user's values at the atoms of a reference."""

    def encode(self, name: str, value: Any) -> Point:
        """Return the point of a user's context; the part of it that is known may be left out."""
        return self._checked(name, self._encode(name, self._completed(value)))

    def many(self, name: str, value: Any) -> Sequence[Any] | None:
        """Return the contexts of a table in order, None if `value` is one; known columns of a frame may be missing."""
        if self.known and hasattr(value, "assign"):
            value = value.assign(**{k: v for k, v in self.known.items() if k not in value.columns})
        return self.space.many(name, value)

    def at(self, name: str, index: Any) -> Point:
        """Return the context of this index in a finite set."""
        return self._checked(name, self.space.at(name, index))

    @property
    def free_columns(self) -> tuple[Column, ...]:
        """The columns of the space of which more than one value is left."""
        columns = self.space.columns
        if len(columns) != len(self.columns):  # parts of a label are no columns of their own for the model
            return columns
        return tuple(c for name, c in zip(self.columns, columns, strict=True) if name not in self.known)

    @property
    def all_known(self) -> bool:
        """Whether nothing of the context is left to be revealed."""
        return len(self.known) == len(self.columns)

    def _encode(self, name: str, value: Any) -> Point:
        """Return the point of a whole context."""
        return self.space.encode(name, value)

    def _whole(self, values: Mapping[Any, Any]) -> Any:
        """Return the context of these values, by the names of the columns, as a user would give it."""
        return values

    def _completed(self, value: Any) -> Any:
        """Return a context with its known part, where only the rest was given: by names, or as values in order."""
        if not self.known:
            return value
        named = validation.by_name(value)
        if isinstance(named, Mapping):
            return self._whole({**self.known, **named})
        rest = np.atleast_1d(np.asarray(value, dtype=object))
        left = [column for column in self.columns if column not in self.known]
        if rest.shape != (len(left),):
            return value
        return self._whole({**self.known, **dict(zip(left, rest, strict=True))})

    def _checked(self, name: str, point: Point) -> Point:
        """Return the point if it agrees with what is known; raise if it does not."""
        if self.known and not self.holds(point.coordinates[None, :])[0]:
            value = self.space.decode(point)
            raise ValueError(f"{name} contradicts what was given with ask, {in_words(self.known)}: got {value!r}")
        return point


def in_words(known: Mapping[Any, Any]) -> str:
    """Return what is known as text: weekday = 'Mon'."""
    return ", ".join(f"{name} = {value!r}" for name, value in known.items())


def _distinct(values: Iterable[Any]) -> str:
    """Return the different values, at most ten of them, as text."""
    different = list(dict.fromkeys(values))
    return ", ".join(map(repr, different[:10])) + (", ..." if len(different) > 10 else "")


class FiniteContexts(Contexts):
    """A finite set of contexts: every reference is a vector of weights on its points."""

    space: FiniteSet
    enumerated = True

    def __init__(self, space: FiniteSet) -> None:
        self.space = space
        self._points, self._rows = space.coordinates, np.arange(len(space))  # those that agree with what is known
        self._last: tuple[Any, Reference] | None = None  # what was given last, and its reference

    @property
    def in_order(self) -> bool:
        """Whether what was seen in the past is in the order of time; counts of labels are not."""
        return self.space.in_order or not self.space.history.size

    @property
    def columns(self) -> Sequence[Any]:
        """The positions of the columns."""
        return self.space.positions

    def narrowed(self, known: Mapping[Any, Any]) -> FiniteContexts:
        """Return the points that have the values known, by the position of their column."""
        made = FiniteContexts(self.space)
        made.known, made._rows = self.space.matching(known)
        made._points = validation.frozen(self.space.coordinates[made._rows])
        return made

    def holds(self, coordinates: FloatArray) -> NDArray[np.bool_]:
        """Return which contexts (n, d) agree with what is known, (n,)."""
        return np.asarray((coordinates[:, None] == self._points).all(axis=2).any(axis=1))

    def part_of(self, ambiguity: AmbiguitySet) -> AmbiguitySet:
        """Return the family of sets on the points that agree with what is known."""
        return ambiguity.among(self._rows) if self.known else ambiguity

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

    def check(self, reference: Any) -> None:
        """Raise unless these are weights of the contexts."""
        self.given(reference)

    def chosen(self, weights: Any, history: Indices) -> Reference:
        """Return the reference of the weights, or else of the history, or else the contexts' own."""
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
        """Return the empirical distribution of contexts in the data and observed since; uniform if there is none."""
        observed = np.array([point.index for point in contexts], dtype=np.intp)
        indices = np.concatenate([self.space.history, observed])
        shares = memory.weights(len(indices))
        counted = np.isin(indices, self._rows) & (shares > 0.0)
        history, shares = np.searchsorted(self._rows, indices[counted]), shares[counted]
        unequal = None if _equal(shares) else validation.frozen(shares)
        return self._on_atoms(empirical(history, len(self._rows), unequal), history, unequal)

    def _whole(self, values: Mapping[Any, Any]) -> Any:
        """Return the point or the label of these values, by the positions of the columns."""
        return self.space.of_columns("context", values)

    def decode_all(self, reference: Reference) -> Sequence[Any]:
        """Return the points of the atoms as they were given."""
        del reference
        every = self.space.decode_all(self.space.coordinates)
        return tuple(every[int(i)] for i in self._rows) if self.known else every

    def _weighted(self, weights: FloatArray, history: Indices) -> Reference:
        """Return the reference of weights (n,) on the whole set, and a history of indices of it."""
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


_NOTHING_SEEN = np.empty(0, dtype=np.intp)


def _equal(weights: FloatArray) -> bool:
    """Return whether weights (t,) are all equal, up to rounding."""
    return float(np.ptp(weights)) <= 1e-12 * float(weights.max()) if len(weights) else True


class SampledContexts(Contexts):
    """Samples of past conditions, or a box of which nothing has been seen yet.

    Parameters
    ----------
    samples : the samples
    ambiguity : the set, which says in which kernel compression is bounded
    seed : of the further points
    known : what is known before the choice, by the names of the columns
    """

    def __init__(
        self, samples: Samples, ambiguity: AmbiguitySet, seed: int, known: Mapping[Any, Any] | None = None
    ) -> None:
        self.samples, self.space = samples, samples.space
        self._ambiguity, self._seed = ambiguity, seed
        self._part, self.range = samples.space, samples.within  # what agrees with what is known
        if known:
            self._part = samples.space.narrowed(known)
            self.known = self._part.known
            self.range = None if samples.within is None else samples.within.narrowed(known)
        self.enumerated = not self._part.continuous.any()
        if self.enumerated and self._part.discrete_parts(samples.support) is not None:
            self.range = None  # where every combination of labels is an atom, no context is left between the atoms
        # Samples, contexts seen, how they count, and their reference.
        self._kept: list[tuple[Samples, bytes, Memory, Reference]] = []
        if not known:
            self.seen([])  # an error in the configuration shows now

    @property
    def columns(self) -> Sequence[Any]:
        """The names of the columns, or their positions if they have none."""
        return self.samples.names or range(self.samples.dimension)

    def narrowed(self, known: Mapping[Any, Any]) -> SampledContexts:
        """Return the samples that have the values known, and the part of their range that has them."""
        return SampledContexts(self.samples, self._ambiguity, self._seed, known)

    def holds(self, coordinates: FloatArray) -> NDArray[np.bool_]:
        """Return which contexts (n, d) agree with what is known, (n,)."""
        return self._part.holds(coordinates)

    def part_of(self, ambiguity: AmbiguitySet) -> AmbiguitySet:
        """Return the family of sets, with those samples of its scenarios that agree with what is known."""
        if not self.known:
            return ambiguity
        return ambiguity.agreeing(lambda samples: self.holds(self._coordinates(samples)) & (samples.weights > 0.0))

    def own(self) -> Reference | None:
        """Return the reference of the samples; None if there is no sample yet."""
        return self._matching(self.samples) if len(self.samples.points) else None

    def given(self, reference: Samples) -> Reference:
        """Return the reference of other samples, in the units of these."""
        self.check(reference)
        return self._matching(reference)

    def check(self, reference: Any) -> None:
        """Raise unless these are samples with the columns of the contexts."""
        if not isinstance(reference, Samples):
            kind = type(reference).__name__
            raise TypeError(f"reference must be Samples of what this round's contexts may be, got {kind}")
        if not len(reference.points):
            raise TypeError("reference is empty: give Samples of what this round's contexts may be")
        self._coordinates(reference)

    def chosen(self, weights: Any, history: Indices) -> Reference:
        """Return the reference of the samples; neither weights nor a history may be given."""
        if weights is not None or history.size:
            raise TypeError("reference must not be given to Simulator: the samples are the reference")
        return self._matching(self.samples)

    def seen(self, contexts: Sequence[Point], memory: Memory = EVERYTHING) -> Reference:
        """Return the reference of the samples and of contexts observed since; samples are older."""
        return self._reference(self.samples, contexts, memory)

    def decode_all(self, reference: Reference) -> Sequence[Any]:
        """Return the user's values at the atoms of a reference."""
        return self.space.decode_all(reference.points)

    def _encode(self, name: str, value: Any) -> Point:
        return self.samples.encode(name, value)

    def _matching(self, samples: Samples) -> Reference:
        """Return the reference of samples, some of which must agree with what is known."""
        if self.known and len(samples.points):
            points = self._coordinates(samples)
            if not (self.holds(points) & (samples.weights > 0.0)).any():
                rows = self.space.decode_all(points)
                there = "; ".join(f"{name} = {_distinct(row[name] for row in rows)}" for name in self.known)
                raise ValueError(f"given says {in_words(self.known)}, which no sample has; the samples have {there}")
        return self._reference(samples, [], EVERYTHING)

    def _reference(self, samples: Samples, seen: Sequence[Point], memory: Memory) -> Reference:
        """Return the reference of samples and contexts seen, from what is kept if it was made before."""
        coordinates = np.array([point.coordinates for point in seen]).reshape(-1, self.space.dimension)
        key = coordinates.tobytes()
        for kept_samples, kept_key, kept_memory, kept in self._kept:
            if kept_samples is samples and kept_key == key and kept_memory == memory:
                return kept
        made = self._make(samples, coordinates, memory)
        self._kept = [*self._kept[1 - _KEPT :], (samples, key, memory, made)]
        return made

    def _make(self, samples: Samples, seen: FloatArray, memory: Memory) -> Reference:
        """Return the atoms of samples and of contexts seen (k, d), of those that agree with what is known.

        Where there is neither, nothing is known: the further points share the reference equally. Without a kernel of an
        MMD nothing bounds what compression costs: contexts seen are then all kept, and so must samples be.
        """
        scenarios = [self._coordinates(scenario) for scenario in self._ambiguity.atoms]
        spread = _well_spread(self._part, self.samples.support, self._seed)
        further = np.concatenate([spread, *(points[self.holds(points)] for points in scenarios)])
        points, limit = self._coordinates(samples), samples.atoms
        n = len(points)
        every = np.concatenate([points, seen])
        shares = np.concatenate([samples.weights * n, np.ones(len(seen))]) * memory.weights(len(every))
        counted = self.holds(every) & (shares > 0.0)
        n, every, shares = int(counted[:n].sum()), every[counted], shares[counted]
        if not len(every):
            if not len(further):
                raise ValueError("support must be at least 1 where there are no samples")
            equal = np.full(len(further), 1.0 / len(further))
            return Reference(
                validation.frozen(further), validation.frozen(equal), 0.0, _NOTHING_SEEN, None, further[:0]
            )
        bounded = self._ambiguity.compression(self.space.measured(every), self.space.scales)
        if bounded is None:
            if len(np.unique(every[:n], axis=0)) > limit:
                raise ValueError("ambiguity must be an MMD for compressed samples; or give Samples room: atoms=...")
            bounded, limit = (every, RBF()), len(every)
        positions, kernel = bounded
        parts = shares / len(every)
        small = compress(positions, kernel, parts / parts.sum(), limit)
        atoms = validation.frozen(every[small.index])
        _, history = cKDTree(atoms).query(every)
        nearest = np.asarray(history, dtype=np.intp) if samples.observed else _NOTHING_SEEN
        represented = every if small.error > 0.0 else every[:0]
        unequal = None if _equal(shares) else validation.frozen(shares)
        made = Reference(atoms, small.weights, small.error, nearest, None, validation.frozen(represented), unequal)
        # A combination of labels that is an atom is no further one.
        return made.and_also(_new_rows(further, atoms) if self.enumerated else further)

    def _coordinates(self, samples: Samples) -> FloatArray:
        """Return the coordinates (n, d) of samples in the space of these contexts."""
        if samples is self.samples:
            return samples.points
        rows = [self._encode("reference", samples.space.decode(Point(point))).coordinates for point in samples.points]
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
