"""The contexts that nature chooses from, and how the reference of a round is made from them.

A finite set of contexts is its own set of atoms (`finite_contexts.py`). More than a few hundred samples are compressed
to weighted atoms, with a bound on the MMD error (`sampled_contexts.py`). Further points of the range, beyond the
samples, are atoms without weight in the reference.

If contexts have a range (a `Box`), `drbo.rounds.range_ball` adds the points that the adversary needs. Otherwise there
are no contexts besides the atoms.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from drbo import validation
from drbo._messages import printable
from drbo.ambiguity.family import AmbiguitySet
from drbo.contexts.reference import EVERYTHING, Indices, Memory, Reference
from drbo.spaces.box import Box
from drbo.spaces.columns import Column
from drbo.spaces.space import Point, Space
from drbo.validation import FloatArray


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

    @abstractmethod
    def own(self) -> Reference | None:
        """Return the contexts' own reference; None if they have none."""

    @abstractmethod
    def given(self, reference: Any) -> Reference:
        """Return the reference that the caller gives for a round."""

    @abstractmethod
    def check(self, reference: Any) -> None:
        """Raise unless `given` accepts this reference, without computing its atoms."""

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
