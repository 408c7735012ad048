"""Observations as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from drbo.models.data import LARGEST_ERROR, LEAST_ERROR, Observation
from drbo.spaces.space import Displacement
from drbo.validation import FloatArray

Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Rows:
    """Observations as arrays, one row each, in their order.

    Attributes
    ----------
    x, c : (n, d_x) and (n, d_c) the action and the context; of an average over contexts their mean
    y : (n,) the outcome, nan without one
    noise : (n,) the standard deviation of the error, nan where it is the model's noise
    scatter : (n,) the extra error variance
    first : (n,) the row of the first observation of the same evaluation
    averages : the observations of several contexts, by row
    """

    x: FloatArray
    c: FloatArray
    y: FloatArray
    noise: FloatArray
    scatter: FloatArray
    first: Indices
    averages: Mapping[int, Observation]

    def __len__(self) -> int:
        return len(self.y)

    @cached_property
    def place(self) -> Indices:
        """A number (n,) per row, the same for rows of the same action and context."""
        return np.unique(np.column_stack([self.x, self.c]), axis=0, return_inverse=True)[1].reshape(-1)

    @classmethod
    def of(cls, observations: Sequence[Observation], d_x: int, d_c: int) -> Rows:
        """Return observations of actions (d_x,) and contexts (d_c,)."""
        n = len(observations)
        averages = {i: one for i, one in enumerate(observations) if len(one.weights) > 1}
        contexts = [one.contexts[0] for one in observations]
        for i, one in averages.items():
            contexts[i] = one.weights @ one.contexts
        return cls(
            np.array([one.action for one in observations]).reshape(n, d_x),
            np.array(contexts).reshape(n, d_c),
            np.array([one.outcome for one in observations], dtype=float),
            np.array([one.noise for one in observations], dtype=float),
            np.array([one.scatter for one in observations], dtype=float),
            np.arange(n) - np.array([one.before for one in observations], dtype=np.intp),
            averages,
        )

    def and_also(self, more: Rows) -> Rows:
        """Return these rows and further ones."""
        n = len(self)
        return Rows(
            np.concatenate([self.x, more.x]),
            np.concatenate([self.c, more.c]),
            np.concatenate([self.y, more.y]),
            np.concatenate([self.noise, more.noise]),
            np.concatenate([self.scatter, more.scatter]),
            np.concatenate([self.first, n + more.first]),
            {**self.averages, **{n + i: one for i, one in more.averages.items()}},
        )

    def at(self, rows: Indices) -> Rows:
        """Return some of the rows, given by increasing indices."""
        _, index, inverse = np.unique(self.first[rows], return_index=True, return_inverse=True)
        averages = {}
        if self.averages:
            averages = {i: self.averages[j] for i, j in enumerate(rows.tolist()) if j in self.averages}
        return self.ordered(rows, index[inverse], averages)

    def ordered(self, rows: Indices, first: Indices, averages: Mapping[int, Observation]) -> Rows:
        """Return the rows in another order, with `first` and `averages` in this order."""
        return Rows(self.x[rows], self.c[rows], self.y[rows], self.noise[rows], self.scatter[rows], first, averages)

    def moved(self, shift: Displacement) -> Rows:
        """Return the rows at the places of perturbed actions, which are contexts of no action."""
        places = {}
        for i, one in self.averages.items():
            places[i] = replace(one, action=one.action[:0], contexts=shift.places(one.action[None, :], one.contexts))
        return replace(self, x=self.x[:, :0], c=self.x + shift.steps(self.c), averages=places)

    def variances(self, ridge: float, amplitude: float) -> FloatArray:
        """Return the variance of the error of each row, (n,) (`Factor.error_variance`)."""
        known = np.square(np.clip(self.noise, LEAST_ERROR * amplitude, LARGEST_ERROR * amplitude))
        return np.asarray(np.where(np.isnan(self.noise), ridge, known) + self.scatter)
