"""Contexts from data: past conditions as the reference, and the atoms that stand for them.

The adversary works on a finite set of atoms: the samples themselves (compressed to a few hundred weighted ones if there
are more, with a bound on the MMD that this costs), and further points of their range that no sample shows, without
weight in the reference. Coordinates are those of the unit cube: each column is scaled by its least and largest sample.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import cKDTree

from drbo import validation
from drbo.compression import compress
from drbo.kernels import Kernel
from drbo.validation import FloatArray


class Samples:
    """Past conditions, in the order of time: their distribution is the reference.

    Parameters
    ----------
    data : (n, d) a DataFrame, whose columns name the conditions, or an array
    weights : (n,) a probability vector; uniform by default
    names : of the columns of an array
    atoms : the largest number of weighted atoms that stand for the samples
    support : how many further points of the samples' range the adversary may use
    """

    def __init__(
        self,
        data: Any,
        weights: ArrayLike | None = None,
        *,
        names: Sequence[str] | None = None,
        atoms: int = 300,
        support: int = 64,
    ) -> None:
        columns = getattr(data, "columns", None)
        self.values = validation.frozen(validation.points("data", data if columns is None else data.to_numpy()))
        n = len(self.values)
        if columns is not None and names is None:
            names = columns
        self.names = None if names is None else [str(name) for name in names]
        if self.names is not None and len(set(self.names)) != self.dimension:
            raise ValueError(f"names must be {self.dimension} different ones, one a column, got {self.names}")
        given = np.full(n, 1.0 / n) if weights is None else validation.distribution("weights", weights, n)
        self.weights = validation.frozen(given)
        for name, value, least in (("atoms", atoms, 1), ("support", support, 0)):
            if not isinstance(value, int) or value < least:
                raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")
        self.atoms, self.support = atoms, support
        self._low = self.values.min(axis=0)
        span = np.ptp(self.values, axis=0)
        self._span = np.where(span > 0.0, span, 1.0)

    def __repr__(self) -> str:
        return f"Samples({len(self.values)} of {', '.join(self.names or [f'{self.dimension} numbers'])})"

    @property
    def dimension(self) -> int:
        """How many conditions a sample has."""
        return int(self.values.shape[1])

    def encode(self, name: str, value: Any) -> FloatArray:
        """Return the coordinates (d,) of a context: in the unit cube unless it lies outside the samples' range."""
        if isinstance(value, Mapping):
            if self.names is None or set(value) != set(self.names):
                expected = "be an array, as the samples are" if self.names is None else f"name {', '.join(self.names)}"
                raise ValueError(f"{name} must {expected}, got {value!r}")
            value = [value[key] for key in self.names]
        given = np.atleast_1d(validation.finite_array(name, value))
        if given.shape != (self.dimension,):
            raise ValueError(f"{name} must have {self.dimension} number(s), got {value!r}")
        return np.asarray((given - self._low) / self._span)

    def decode(self, point: FloatArray) -> Any:
        """Return a context in the user's units: a mapping if the columns have names, otherwise an array (d,)."""
        values = self._low + point * self._span
        return values if self.names is None else dict(zip(self.names, values.tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class Atoms:
    """The finite set of contexts that an adversary works on.

    Attributes
    ----------
    points : (n, d) in the unit cube
    reference : (n,) the weights of the samples on them; zero on further points
    error : a bound on the MMD between the samples and the weighted atoms
    history : (t,) for each sample in the order of time the nearest atom with weight, for rules that learn a radius
    """

    points: FloatArray
    reference: FloatArray
    error: float
    history: NDArray[np.intp]


def atoms_of(samples: Samples, seen: FloatArray, kernel: Kernel, seed: int) -> Atoms:
    """Return the atoms of the samples and of contexts `seen` since (k, d), each of which counts as one more sample."""
    from scipy.stats import qmc  # it takes as long to import as the rest of the library

    n = len(samples.values)
    points = np.concatenate([(samples.values - samples._low) / samples._span, seen.reshape(-1, samples.dimension)])
    weights = np.concatenate([samples.weights * n, np.ones(len(points) - n)]) / len(points)
    small = compress(points, kernel, weights / weights.sum(), samples.atoms)
    further = np.empty((0, samples.dimension))
    if samples.support:
        engine = qmc.Sobol(samples.dimension, seed=seed)
        further = engine.random_base2(int(np.ceil(np.log2(samples.support))))[: samples.support]
    _, history = cKDTree(small.atoms).query(points)
    return Atoms(
        validation.frozen(np.concatenate([small.atoms, further])),
        validation.frozen(np.concatenate([small.weights, np.zeros(len(further))])),
        small.error,
        np.asarray(history, dtype=np.intp),
    )
