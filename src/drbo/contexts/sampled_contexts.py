"""Samples of contexts, and the atoms that represent them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from drbo import validation
from drbo._messages import printable
from drbo.ambiguity.family import AmbiguitySet, SupportsScenarios
from drbo.ambiguity.metric import Metric
from drbo.contexts.compression import Compression, compress, quantise
from drbo.contexts.nature import (
    EVERYTHING,
    NOTHING_SEEN,
    Contexts,
    FiniteContexts,
    Indices,
    Memory,
    Reference,
    in_words,
    times_of,
)
from drbo.kernels import RBF, Kernel
from drbo.spaces.box import Box
from drbo.spaces.rows import KeyedRows
from drbo.spaces.samples import DataRange, Samples, all_alike
from drbo.spaces.space import Point
from drbo.validation import FloatArray

SPREAD = 128
"""Number of points of a box of contexts that are atoms from the start."""
_KEPT = 4
"""Cache size for references: compressing samples again takes about a second."""


class SampledContexts(Contexts):
    """Samples of past conditions, or a box without samples, conditioned on what is `known` by column name."""

    def __init__(
        self, samples: Samples, ambiguity: AmbiguitySet, seed: int, known: Mapping[Any, Any] | None = None
    ) -> None:
        self.samples, self.space = samples, samples.space
        self._ambiguity, self._seed = ambiguity, seed
        self._part, self.range = samples.space, samples.within  # the part that agrees with `known`
        if known:
            self._part = samples.space.narrowed(known)
            self.known = self._part.known
            self.range = None if samples.within is None else samples.within.narrowed(known)
        self.enumerated = not self._part.continuous.any()
        if self.enumerated and self._part.discrete_parts(samples.support) is not None:
            self.range = None  # every combination of labels is an atom: no context lies between the atoms
        # Cache of samples, contexts seen, memory, and their reference.
        self._kept: list[tuple[Samples, bytes, Memory, Reference]] = []
        if not known:
            self.seen([])  # raises now if the configuration is wrong

    @property
    def columns(self) -> Sequence[Any]:
        return self.samples.names or range(self.samples.dimension)

    @property
    def years(self) -> float | None:
        return self.samples.years

    def narrowed(self, known: Mapping[Any, Any]) -> SampledContexts:
        return SampledContexts(self.samples, self._ambiguity, self._seed, known)

    def holds(self, coordinates: FloatArray) -> NDArray[np.bool_]:
        return self._part.holds(coordinates)

    def part_of(self, ambiguity: AmbiguitySet) -> AmbiguitySet:
        if not (self.known and isinstance(ambiguity, SupportsScenarios)):
            return ambiguity
        return ambiguity.agreeing(lambda samples: self.holds(self._coordinates(samples)) & (samples.weights > 0.0))

    def own(self) -> Reference | None:
        return self._matching(self.samples) if len(self.samples.points) else None

    def given(self, reference: Samples) -> Reference:
        self.check(reference)
        return self._matching(reference)

    def check(self, reference: Any) -> None:
        """Raise unless the reference is samples with the columns of the contexts."""
        if not isinstance(reference, Samples):
            kind = type(reference).__name__
            raise TypeError(f"reference must be Samples of this round's possible contexts, got {kind}")
        if not len(reference.points):
            raise TypeError("reference is empty: give Samples of this round's possible contexts")
        self._coordinates(reference)

    def chosen(self, weights: Any, history: Indices) -> Reference:
        if weights is not None or history.size:
            raise TypeError("reference must not be given to Simulator: the samples are the reference")
        return self._matching(self.samples)

    def seen(self, contexts: Sequence[Point], memory: Memory = EVERYTHING) -> Reference:
        return self._reference(self.samples, contexts, memory)

    def decode_all(self, reference: Reference) -> Sequence[Any]:
        return self.space.decode_all(reference.points)

    def _encode(self, name: str, value: Any) -> Point:
        return self.samples.encode(name, value)

    def _matching(self, samples: Samples) -> Reference:
        """Return the reference of samples; raise if none agrees with `known`."""
        if self.known and len(samples.points):
            points = self._coordinates(samples)
            if not (self.holds(points) & (samples.weights > 0.0)).any():
                rows = self.space.decode_all(points)
                there = "; ".join(f"{printable(name)} = {_distinct(row[name] for row in rows)}" for name in self.known)
                raise ValueError(f"given says {in_words(self.known)}, which no sample has; the samples have {there}")
        return self._reference(samples, [], EVERYTHING)

    def _reference(self, samples: Samples, seen: Sequence[Point], memory: Memory) -> Reference:
        """Return the reference of samples and contexts seen, cached."""
        coordinates = np.array([point.coordinates for point in seen]).reshape(-1, self.space.dimension)
        key = coordinates.tobytes()
        for kept_samples, kept_key, kept_memory, kept in self._kept:
            if kept_samples is samples and kept_key == key and kept_memory == memory:
                return kept
        made = self._make(samples, coordinates, memory)
        self._kept = [*self._kept[1 - _KEPT :], (samples, key, memory, made)]
        return made

    def _make(self, samples: Samples, seen: FloatArray, memory: Memory) -> Reference:
        """Return the atoms of the samples and contexts seen (k, d) that agree with `known`.

        Without samples and contexts seen, the further points share the reference equally. Without the kernel of an MMD
        there is no bound on compression: all contexts seen are kept, and the samples must fit.
        """
        of_set = self._ambiguity.atoms if isinstance(self._ambiguity, SupportsScenarios) else ()
        scenarios = [self._coordinates(scenario) for scenario in of_set]
        spread = _well_spread(self._part, self.samples.support, self._seed)
        further = np.concatenate([spread, *(points[self.holds(points)] for points in scenarios)])
        points, limit = self._coordinates(samples), samples.atoms
        n = len(points)
        every = np.concatenate([points, seen])
        shares = np.concatenate([samples.weights * n, np.ones(len(seen))]) * memory.weights(len(every))
        counted = self.holds(every) & (shares > 0.0)
        times = times_of(samples, len(seen))
        times = None if times is None else validation.frozen(times[counted])
        n, every, shares = int(counted[:n].sum()), every[counted], shares[counted]
        if not len(every):
            if not len(further):
                raise ValueError("support must be at least 1 where there are no samples")
            equal = np.full(len(further), 1.0 / len(further))
            return Reference(validation.frozen(further), validation.frozen(equal), 0.0, NOTHING_SEEN, None, further[:0])
        bounded = self._ambiguity.compression(self.space.measured(every), self.space.scales)
        if bounded is None:
            distinct = len(np.unique(every[:n], axis=0))
            if distinct > limit:
                raise ValueError(
                    f"ambiguity={self._ambiguity!r} needs every sample as an atom, and there are {distinct} different "
                    f"ones: give Samples(..., atoms={distinct}), or drbo.MMD() or drbo.Wasserstein(), whose samples "
                    "can be compressed"
                )
            bounded, limit = (every, RBF()), len(every)
        parts = shares / len(every)
        small = compressed(*bounded, parts / parts.sum(), limit)
        atoms = validation.frozen(every[small.index])
        nearest = nearest_of(small, atoms, every) if samples.observed else NOTHING_SEEN
        represented = every if small.error > 0.0 else every[:0]
        unequal = None if all_alike(shares) else validation.frozen(shares)
        made = Reference(
            atoms,
            small.weights,
            small.error,
            nearest,
            None,
            validation.frozen(represented),
            unequal,
            history_times=times,
        )
        # A combination of labels that is an atom already is not added.
        return made.and_also(_new_rows(further, atoms) if self.enumerated else further)

    def _coordinates(self, samples: Samples) -> FloatArray:
        """Return the coordinates (n, d) of samples in the space of these contexts."""
        if samples is self.samples:
            return samples.points
        rows = [self._encode("reference", samples.space.decode(Point(point))).coordinates for point in samples.points]
        return np.array(rows).reshape(-1, self.space.dimension)


def compressed(points: FloatArray, by: Kernel | Metric, weights: FloatArray, atoms: int) -> Compression:
    """Return at most `atoms` of points (n, d) with weights (n,), by the MMD of a kernel or by a distance."""
    if isinstance(by, Metric):
        return quantise(points, by, weights, atoms)
    return compress(points, by, weights, atoms)


def nearest_of(small: Compression, atoms: FloatArray, points: FloatArray) -> Indices:
    """Return the atom (n,) that each of points (n, d) with weight belongs to: the nearest one."""
    if small.nearest is not None and small.error > 0.0:
        return small.nearest
    return np.asarray(cKDTree(atoms).query(points)[1], dtype=np.intp)


def _well_spread(space: Box | DataRange, count: int, seed: int) -> FloatArray:
    """Return every combination of labels and integers if there are at most `count`, else `count` points.

    The points are distinct if the space has only labels and integers.
    """
    if space.continuous.any():
        return space.sample(count, seed)
    every = space.discrete_parts(count)
    return _new_rows(space.sample(count, seed), np.empty((0, space.dimension))) if every is None else every


def _new_rows(rows: FloatArray, known: FloatArray) -> FloatArray:
    """Return the distinct rows (k, d), in order, that are not among the known rows (n, d)."""
    _, first = np.unique(np.concatenate([known, rows]), axis=0, return_index=True)
    return rows[np.sort(first[first >= len(known)]) - len(known)]


def _distinct(values: Iterable[Any]) -> str:
    """Return the distinct values, at most ten, as text."""
    different = list(dict.fromkeys(values))
    return ", ".join(map(repr, different[:10])) + (", ..." if len(different) > 10 else "")


_KEPT = 4
"""Cache size for references: compressing samples again takes about a second."""


class ReplayedContexts(FiniteContexts):
    """The rows of samples with keys. Up to `samples.atoms` rows are atoms each; of more, some are chosen."""

    space: KeyedRows

    def __init__(self, samples: Samples, ambiguity: AmbiguitySet) -> None:
        super().__init__(KeyedRows(samples))
        self._ambiguity, self._limit = ambiguity, samples.atoms
        self.enumerated = not samples.space.continuous.any()  # whether days can occur again
        self._kept: list[tuple[bytes, Reference]] = []
        self.own()  # raises now if the configuration is wrong

    @property
    def years(self) -> float | None:
        return self.space.samples.years

    def seen(self, contexts: Sequence[Point], memory: Memory = EVERYTHING) -> Reference:
        made, times = super().seen(contexts, memory), times_of(self.space.samples, len(contexts))
        if times is None or len(times) != len(made.history):  # some do not count
            return made
        return replace(made, history_times=times)

    def own(self) -> Reference:
        weights = self.space.samples.weights
        made = self._weighted(weights, self.space.history)  # raises if no row with weight agrees with `known`
        return made if self.space.history_weights is None and self.space.samples.time is None else self.seen([])

    def given(self, reference: Any) -> Reference:
        """Return the reference of weights by row or by key, or of samples with keys of these rows."""
        if not isinstance(reference, Samples):
            return super().given(reference)
        if reference.keys is None:
            raise TypeError(
                "reference must name the rows by their keys: weights by key, {key: 0.5, ...}, or Samples(..., keys=...)"
            )
        return super().given(dict(zip(reference.keys, reference.weights.tolist(), strict=True)))

    def chosen(self, weights: Any, history: Indices) -> Reference:
        if history.size:
            raise TypeError("history must not be given to Simulator: the samples are the past, in order of time")
        return super().chosen(weights, history)

    def anywhere(self, name: str, value: Any) -> Point:
        return self._checked(name, self.space.anywhere(name, self._completed(value)))

    def _on_atoms(self, weights: FloatArray, history: Indices, unequal: FloatArray | None) -> Reference:
        if len(self._rows) <= self._limit:
            return super()._on_atoms(weights, history, unequal)
        key = weights.tobytes() + history.tobytes()
        for known, reference in self._kept:
            if known == key:
                return reference
        made = self._compressed(weights, history, unequal)
        self._kept = [*self._kept[1 - _KEPT :], (key, made)]
        return made

    def _compressed(self, weights: FloatArray, history: Indices, unequal: FloatArray | None) -> Reference:
        """Return a reference on some of the rows, which represent all of them."""
        bounded = self._ambiguity.compression(self.space.measured(self._points), self.space.scales)
        if bounded is None or isinstance(self._ambiguity, SupportsScenarios):
            raise ValueError(
                f"ambiguity={self._ambiguity!r} needs every row as an atom: give Samples(..., atoms={len(self._rows)})"
            )
        small = compressed(*bounded, weights, self._limit)
        order = np.argsort(small.index)
        at, shares = small.index[order], validation.frozen(small.weights[order])
        atoms = validation.frozen(self._points[at])
        past = np.argsort(order)[nearest_of(small, self._points[small.index], self._points)[history]]
        return Reference(atoms, shares, small.error, past, self._rows[at], self._points, unequal, self._rows)


def contexts_of(samples: Samples, ambiguity: AmbiguitySet, seed: int = 0) -> Contexts:
    """Return the contexts of samples: rows that are replayed if they have keys."""
    if samples.keys is not None:
        return ReplayedContexts(samples, ambiguity)
    return SampledContexts(samples, ambiguity, seed)
