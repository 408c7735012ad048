"""The scenarios of `AnyOf`: distributions of contexts, given as weights, by label, or as samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from drbo import validation
from drbo.spaces.columns import Column
from drbo.spaces.samples import Samples
from drbo.validation import FloatArray

_EQUAL = 1e-9
"""A scenario's context is one of the contexts if it is this close to it, as a share of each column's range."""


class Scenario(ABC):
    """One scenario.

    Attributes
    ----------
    name : what an error calls it
    given : what the user gave
    """

    name: str
    given: Any

    @property
    def atoms(self) -> tuple[Samples, ...]:
        """The samples whose points must be among the contexts."""
        return ()

    @abstractmethod
    def on(self, points: FloatArray, columns: Sequence[Column]) -> FloatArray:
        """Return the weights (n,) of contexts (n, d), which have these columns."""

    @abstractmethod
    def on_set(self, columns: Sequence[Column]) -> FloatArray:
        """Return the weights of all contexts of a finite set, which has these columns."""

    def agreeing(self, holds: Callable[[Samples], NDArray[np.bool_]]) -> Scenario | None:
        """Return the scenario given what is known, by which of its samples agree with that; None if none does."""
        del holds
        return self


class Weighted(Scenario):
    """Weights (n,), one per context of a finite set."""

    def __init__(self, name: str, weights: Any) -> None:
        self.name, self.given = name, validation.frozen(validation.distribution(name, weights))

    def on(self, points: FloatArray, columns: Sequence[Column]) -> FloatArray:
        """Return the weights, if there are as many contexts."""
        if len(self.given) != len(points):
            raise ValueError(f"{self.name} must hold {len(points)} weights, one per context, got {len(self.given)}")
        return self.on_set(columns)

    def on_set(self, columns: Sequence[Column]) -> FloatArray:
        """Return the weights."""
        del columns
        return np.asarray(self.given)


class ByLabel(Scenario):
    """A mapping from labels to weights; a label that is not in it has none."""

    def __init__(self, name: str, weights: Mapping[Any, float]) -> None:
        validation.distribution(name, [*weights.values()])
        self.name, self.given = name, dict(weights)

    def on(self, points: FloatArray, columns: Sequence[Column]) -> FloatArray:
        """Return the weights of contexts that are the labels of one column."""
        column = columns[0] if len(columns) == 1 else None
        if column is None or column.labels is None or len(points) != len(column.labels):
            raise TypeError(f"{self.name} must be weights, one per context: a mapping is for contexts that are labels")
        unknown = [label for label in self.given if label not in column.labels]
        if unknown:
            raise ValueError(
                f"{self.name} has the label {unknown[0]!r}, which is none of {', '.join(map(repr, column.labels))}"
            )
        weights = sum(share * column.holds(points, label) for label, share in self.given.items())
        return validation.distribution(self.name, np.asarray(weights))

    def on_set(self, columns: Sequence[Column]) -> FloatArray:
        """Return the weights of all labels."""
        levels = columns[0].levels if len(columns) == 1 else None
        return self.on(np.empty((0, 0)) if levels is None else levels, columns)


class Sampled(Scenario):
    """Samples of contexts, of which those count that agree with what is known."""

    def __init__(self, name: str, samples: Samples, agree: NDArray[np.bool_] | None = None) -> None:
        if not len(samples.points):
            raise ValueError(f"{name} must hold at least one sample, got none")
        self.name, self.given = name, samples
        self._agree = np.ones(len(samples.points), dtype=bool) if agree is None else agree

    @property
    def atoms(self) -> tuple[Samples, ...]:
        """The samples."""
        return (self.given,)

    def on(self, points: FloatArray, columns: Sequence[Column]) -> FloatArray:
        """Return the weights of contexts, among which every sample must be."""
        space = self.given.space
        positions = space.measured(self.given.points[self._agree])
        own = [(column.name, column.labels, column.width) for column in columns]
        its = [(column.name, column.labels, column.width) for column in space.columns]
        if positions.shape[1] != points.shape[1] or (own and own != its):
            raise ValueError(
                f"{self.name} must have the columns of the contexts, with the same labels in the same order: "
                f"{_in_words(columns) or 'all in order'}; got {_in_words(space.columns)}"
            )
        span = np.ptp(points, axis=0)
        unit = np.where(span > 0.0, span, 1.0)
        found = cKDTree(points / unit).query(positions / unit, p=np.inf)
        apart, nearest = np.asarray(found[0]), np.asarray(found[1], dtype=np.intp)
        if (apart > _EQUAL).any():
            row = int(np.argmax(apart))
            raise ValueError(
                f"{self.name} has a sample that is none of the contexts, in row {row}: {positions[row].tolist()}"
            )
        weights = np.zeros(len(points))
        shares = self.given.weights[self._agree]
        np.add.at(weights, nearest, shares / shares.sum())
        return weights

    def on_set(self, columns: Sequence[Column]) -> FloatArray:
        """Raise: the contexts of a finite set have weights."""
        del columns
        raise TypeError(f"{self.name} must be weights, one per context, where a part of the context is given")

    def agreeing(self, holds: Callable[[Samples], NDArray[np.bool_]]) -> Scenario | None:
        """Return the samples that agree with what is known; None if there are none."""
        agree = holds(self.given)
        return Sampled(self.name, self.given, agree) if agree.any() else None


def scenario(name: str, given: Any) -> Scenario:
    """Return what a user gave as a scenario: samples, weights by label, or weights (n,)."""
    if isinstance(given, Samples):
        return Sampled(name, given)
    values = validation.by_name(given)
    return ByLabel(name, values) if isinstance(values, Mapping) else Weighted(name, values)


def _in_words(columns: Sequence[Column]) -> str:
    """Return columns and their labels as text."""
    return ", ".join(
        str(one) if one.labels is None else f"{one} ({', '.join(map(repr, one.labels))})" for one in columns
    )
