"""Days that are replayed: every context is a row of the samples with its key, and no other is ever asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from drbo import validation
from drbo.ambiguity.family import AmbiguitySet, SupportsScenarios
from drbo.contexts.nature import EVERYTHING, Contexts, FiniteContexts, Indices, Memory, Reference, times_of
from drbo.contexts.sampled_contexts import SampledContexts, compressed, nearest_of
from drbo.spaces.rows import KeyedRows
from drbo.spaces.samples import Samples
from drbo.spaces.space import Point
from drbo.validation import FloatArray

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
