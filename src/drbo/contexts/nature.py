"""What nature chooses from, and how the reference of a round is made of it.

A finite set of contexts is its own atoms (`finite_contexts.py`). Samples are compressed to a few hundred weighted atoms
if there are more, with a bound on the MMD that this costs (`sampled_contexts.py`). Further points of their range, which
no sample shows, are atoms without weight in the reference.

Where contexts have a range (a `Box`), the further points are only a beginning: `drbo.rounds.range_ball` adds those that
the adversary would want. Otherwise the atoms are all there is.
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
    return ", ".join(f"{printable(name)} = {value!r}" for name, value in known.items())
