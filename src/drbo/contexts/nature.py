"""The contexts that nature chooses from, and how the reference of a round is made from them.

The adversary works on a finite set of atoms, with the weights of the reference. A finite set of contexts is its own set
of atoms. More than a few hundred samples are compressed to weighted atoms, with a bound on the MMD error
(`sampled_contexts.py`). Further points of the range, beyond the samples, are atoms without weight in the reference.

If contexts have a range (a `Box`), `drbo.rounds.range_ball` adds the points that the adversary needs. Otherwise there
are no contexts besides the atoms.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drbo import validation
from drbo._fast_record import fast_record
from drbo._messages import printable
from drbo.ambiguity.family import AmbiguitySet, among
from drbo.spaces.box import Box
from drbo.spaces.finite import FiniteSet
from drbo.spaces.samples import Samples, all_alike
from drbo.spaces.space import Column, Point, Space
from drbo.validation import FloatArray

__all__ = ["empirical"]

Indices = NDArray[np.intp]

NOTHING_SEEN = np.empty(0, dtype=np.intp)
"""The history of a reference that is not made from past contexts."""


@fast_record
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
    represented_index : (k,) the position of each represented sample in a finite set; None for other contexts
    history_times : (t,) the time of each past context, in seconds; None if it is unknown
    """

    points: FloatArray
    weights: FloatArray
    error: float
    history: Indices
    index: Indices | None
    represented: FloatArray
    history_weights: FloatArray | None = None
    represented_index: Indices | None = None
    history_times: FloatArray | None = None

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
        index = self.index
        if index is not None and self.represented_index is not None:
            rows = [int(np.argmax((self.represented == one).all(axis=1))) for one in further]
            index = np.append(index, self.represented_index[rows])
        return replace(self, points=points, weights=weights, index=index)


def empirical(seen: Indices, n_contexts: int, weights: FloatArray | None = None) -> FloatArray:
    """Return the distribution (n_contexts,) of past contexts with weights (t,); uniform if there is no weight."""
    if len(seen) == 0:
        return np.full(n_contexts, 1.0 / n_contexts)
    if weights is None:
        return np.bincount(seen, minlength=n_contexts) / len(seen)
    counted = np.bincount(seen, weights=weights, minlength=n_contexts)
    return np.asarray(counted / counted.sum())


def times_of(samples: Samples, further: int) -> FloatArray | None:
    """Return the times (n + further,) of samples and of contexts seen after them; None if they have none.

    Later contexts come at the usual pace, the median step between the samples.
    """
    if samples.time is None or not len(samples.time):
        return samples.time if not further else None
    pace = float(np.median(np.diff(samples.time))) if len(samples.time) > 1 else 0.0
    return np.append(samples.time, samples.time[-1] + pace * np.arange(1, further + 1))


@dataclass(frozen=True)
class Memory:
    """The weight of a past context by age: of the newest `window`, halved every `half_life` contexts."""

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


class Contexts(ABC):
    """The contexts that nature chooses from, and the references made from them.

    If a part of the context is known before the choice, `narrowed` returns the contexts that agree with it. Their
    references are conditional distributions.

    Attributes
    ----------
    space : user's values <-> coordinates
    range : the box in which the adversary may put mass anywhere; None if mass is on atoms only
    enumerated : whether the possible contexts are a finite list
    known : the values known before the choice, by column name
    """

    space: Space
    range: Box | None = None
    enumerated: bool = False
    known: Mapping[Any, Any] = MappingProxyType({})

    @property
    @abstractmethod
    def columns(self) -> Sequence[Any]:
        """The names of the columns, or their positions if they have none."""

    @abstractmethod
    def narrowed(self, known: Mapping[Any, Any]) -> Self:
        """Return the contexts that agree with `known`, a mapping from column names."""

    @abstractmethod
    def holds(self, coordinates: FloatArray) -> NDArray[np.bool_]:
        """Return whether each context (n, d) agrees with `known`, (n,)."""

    @abstractmethod
    def part_of(self, ambiguity: AmbiguitySet) -> AmbiguitySet:
        """Return the family of sets for the contexts that agree with `known`."""

    @property
    def in_order(self) -> bool:
        """Whether past contexts are in time order."""
        return True

    @property
    def years(self) -> float | None:
        """The years that the past covers; None if its times are not known."""
        return None

    @abstractmethod
    def own(self) -> Reference | None:
        """Return the contexts' own reference; None if they have none."""

    @abstractmethod
    def given(self, reference: Any) -> Reference:
        """Return the reference that the caller gives for a round."""

    def check(self, reference: Any) -> None:
        """Raise unless `given` accepts this reference."""
        self.given(reference)

    @abstractmethod
    def chosen(self, weights: Any, history: Indices) -> Reference:
        """Return the reference of a simulator with weights, or with indices of past contexts.

        Samples are their own reference.
        """

    @abstractmethod
    def seen(self, contexts: Sequence[Point], memory: Memory = EVERYTHING) -> Reference:
        """Return the reference of the contexts' own data and of the contexts observed since, in time order.

        Each observed context counts as one sample. The memory determines the weight of older ones.
        """

    @abstractmethod
    def decode_all(self, reference: Reference) -> Sequence[Any]:
        """Return the user's values at the atoms of a reference."""

    def encode(self, name: str, value: Any) -> Point:
        """Return the point of a user's context, which may omit the known part."""
        return self._checked(name, self._encode(name, self._completed(value)))

    def many(self, name: str, value: Any) -> Sequence[Any] | None:
        """Return the contexts of a table in order, None if `value` is one context; a frame may omit known columns."""
        if self.known and hasattr(value, "assign"):
            value = value.assign(**{k: v for k, v in self.known.items() if k not in value.columns})
        return self.space.many(name, value)

    def anywhere(self, name: str, value: Any) -> Point:
        """Return the point of a context that need not be listed, for queries about other conditions."""
        return self.encode(name, value)

    def at(self, name: str, index: Any) -> Point:
        """Return the context of this index in a finite set."""
        return self._checked(name, self.space.at(name, index))

    @property
    def free_columns(self) -> tuple[Column, ...]:
        """The columns of the space with more than one possible value."""
        columns = self.space.columns
        if len(columns) != len(self.columns):  # for the model, parts of a label are not columns
            return columns
        return tuple(c for name, c in zip(self.columns, columns, strict=True) if name not in self.known)

    @property
    def all_known(self) -> bool:
        """Whether the whole context is known."""
        return len(self.known) == len(self.columns)

    def _encode(self, name: str, value: Any) -> Point:
        """Return the point of a whole context."""
        return self.space.encode(name, value)

    def _whole(self, values: Mapping[Any, Any]) -> Any:
        """Return the context with these values, by column name, in the user's form."""
        return values

    def _completed(self, value: Any) -> Any:
        """Return a context completed with its known part; the rest is given by names, or as values in order."""
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
        """Return the point; raise if it contradicts `known`."""
        if self.known and not self.holds(point.coordinates[None, :])[0]:
            value = self.space.decode(point)
            raise ValueError(f"{name} contradicts what was given with ask, {in_words(self.known)}: got {value!r}")
        return point


def in_words(known: Mapping[Any, Any]) -> str:
    """Return the known values as text: weekday = 'Mon'."""
    return ", ".join(f"{printable(name)} = {value!r}" for name, value in known.items())


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
        return self.space.in_order or not self.space.history.size

    @property
    def columns(self) -> Sequence[Any]:
        return self.space.positions

    def narrowed(self, known: Mapping[Any, Any]) -> FiniteContexts:
        """Return the points with the known values, by the name or the position of their column."""
        made = copy.copy(self)
        made._last = None
        made.known, made._rows = self.space.matching(known)
        made._points = validation.frozen(self.space.coordinates[made._rows])
        return made

    def holds(self, coordinates: FloatArray) -> NDArray[np.bool_]:
        return np.asarray((coordinates[:, None] == self._points).all(axis=2).any(axis=1))

    def part_of(self, ambiguity: AmbiguitySet) -> AmbiguitySet:
        return among(ambiguity, self._rows) if self.known else ambiguity

    def own(self) -> Reference | None:
        weights = self.space.weights
        return None if weights is None else self._weighted(weights, self.space.history)

    def given(self, reference: ArrayLike | Mapping[Any, float]) -> Reference:
        """Return the reference of weights (n,), probabilities or counts, or of a mapping from labels to weights."""
        if self._last is not None and self._last[0] is reference:
            return self._last[1]
        if isinstance(reference, Samples):
            raise TypeError("reference must be weights, one per context: the contexts are a finite set")
        weights = self.space.weights_of("reference", reference)
        made = self._weighted(weights, NOTHING_SEEN)
        if isinstance(reference, np.ndarray) and not reference.flags.writeable:  # immutable
            self._last = reference, made
        return made

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
        if self.space.history_weights is not None:
            shares[: len(self.space.history)] *= self.space.history_weights
        counted = np.isin(indices, self._rows) & (shares > 0.0)
        history, shares = np.searchsorted(self._rows, indices[counted]), shares[counted]
        unequal = None if all_alike(shares) else validation.frozen(shares)
        return self._on_atoms(empirical(history, len(self._rows), unequal), history, unequal)

    def _whole(self, values: Mapping[Any, Any]) -> Any:
        """Return the point or the label with these values, by the positions of the columns."""
        return self.space.of_columns("context", values)

    def decode_all(self, reference: Reference) -> Sequence[Any]:
        every = self.space.decode_all(self.space.coordinates)
        if reference.index is None or len(reference.index) == len(every):
            return every
        return tuple(every[int(i)] for i in reference.index)

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
        """Return the reference of weights on the points that agree with `known`."""
        if weights.flags.writeable:
            weights = validation.frozen(weights)
        return Reference(self._points, weights, 0.0, history, self._rows, self._points[:0], unequal)
