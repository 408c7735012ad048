"""Contexts from data: past conditions as the reference, and the atoms that stand for them.

The adversary works on a finite set of atoms: the samples themselves (compressed to a few hundred weighted ones if there
are more, with a bound on the MMD that this costs), and further points of their range that no sample shows, without
weight in the reference. Coordinates are those of the unit cube.

Where a `Box` says what the conditions may be, the range is the box, and the further points are only a beginning:
`drbo.refinement` adds those that the adversary would want. Otherwise the range is from the least to the largest sample
of each column, and the atoms are all there is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import cKDTree

from drbo import validation
from drbo.ambiguity.compression import compress
from drbo.kernels import RBF, Kernel
from drbo.spaces.box import Box, spread
from drbo.validation import FloatArray


@dataclass(frozen=True, eq=False)
class DataRange:
    """The range of numeric columns, from the least to the largest sample, as a unit cube; contexts may lie outside."""

    low: FloatArray
    span: FloatArray
    names: tuple[str, ...] | None

    @property
    def dimension(self) -> int:
        """How many columns there are."""
        return len(self.low)

    def encode(self, name: str, value: Any) -> FloatArray:
        """Return the coordinates (d,) of a context: a mapping from the columns' names, or its numbers in order."""
        value = value if self.names is None else validation.by_name(value)
        if isinstance(value, Mapping):
            if self.names is None or set(value) != set(self.names):
                expected = "be an array, as the samples are" if self.names is None else f"name {', '.join(self.names)}"
                raise ValueError(f"{name} must {expected}, got {value!r}")
            value = [value[key] for key in self.names]
        given = np.atleast_1d(validation.finite_array(name, value))
        if given.shape != (self.dimension,):
            raise ValueError(f"{name} must have {self.dimension} number(s), got {value!r}")
        return np.asarray((given - self.low) / self.span)

    def decode(self, point: FloatArray) -> Any:
        """Return a context in the user's units: a mapping if the columns have names, otherwise an array (d,)."""
        values = self.low + point * self.span
        return values if self.names is None else dict(zip(self.names, values.tolist(), strict=True))

    def sample(self, count: int, seed: int) -> FloatArray:
        """Return well-spread points (count, d) of the unit cube."""
        return spread(count, self.dimension, seed)


class Samples:
    """Past conditions, in the order of time: their distribution is the reference.

    Parameters
    ----------
    data : (n, d) a DataFrame or a mapping from names to columns, which name the conditions, or an array. It may be
        empty where `within` says what the conditions are: nothing has been seen yet
    weights : (n,) a probability vector; uniform by default
    names : of the columns of an array
    within : a `Box` of what the conditions may be, whose parameters are the columns. The adversary may then put mass
        anywhere in it; without it, on the atoms and the further points alone
    atoms : the largest number of weighted atoms that stand for the samples
    support : how many further points of the range the adversary may use, or begin with
    """

    def __init__(
        self,
        data: Any,
        weights: ArrayLike | None = None,
        *,
        names: Sequence[str] | None = None,
        within: Box | None = None,
        atoms: int = 300,
        support: int = 64,
    ) -> None:
        if within is not None and not isinstance(within, Box):
            raise TypeError(f"within must be a Box, got {within!r}")
        if within is not None and names is not None:
            raise TypeError("names must not be given with within, whose parameters name the columns")
        self.within = within
        self.range: Box | DataRange
        self.data: FloatArray | dict[str, list[Any]]
        if within is None:
            self.data, self.range = _numbers(data, names)
            self.points = validation.frozen((self.data - self.range.low) / self.range.span)
        else:
            self.data, self.range = _columns(data, within), within
            rows = [dict(zip(self.data, row, strict=True)) for row in zip(*self.data.values(), strict=True)]
            self.points = validation.frozen(_encoded(rows, within))
        n = len(self.points)
        if weights is None:
            self.weights = np.full(n, 1.0 / max(n, 1))
        else:
            self.weights = validation.distribution("weights", weights, n)
        self.weights = validation.frozen(self.weights)
        self.atoms = validation.whole_number("atoms", atoms, least=1)
        self.support = validation.whole_number("support", support, least=0)

    def __repr__(self) -> str:
        if self.within is not None:
            return f"Samples({len(self.points)} within {self.within!r})"
        assert isinstance(self.range, DataRange)
        return f"Samples({len(self.points)} of {', '.join(self.range.names or [f'{self.dimension} number(s)'])})"

    @property
    def dimension(self) -> int:
        """How many coordinates a sample has."""
        return self.range.dimension

    def encode(self, name: str, value: Any) -> FloatArray:
        """Return the coordinates (d,) of a context, in the unit cube unless it lies outside the samples' range."""
        value = value if self.within is None else validation.by_name(value)
        if self.within is not None and not isinstance(value, Mapping):
            parts = np.atleast_1d(np.asarray(value, dtype=object))
            if parts.shape != (len(self.within.parameters),):
                raise ValueError(f"{name} must give {', '.join(self.within.parameters)}, got {value!r}")
            value = dict(zip(self.within.parameters, parts, strict=True))
        return self.range.encode(name, value)

    def decode(self, point: FloatArray) -> Any:
        """Return a context in the user's units: a mapping if the columns have names, otherwise an array (d,)."""
        return self.range.decode(point)


def _numbers(data: Any, names: Sequence[str] | None) -> tuple[FloatArray, DataRange]:
    """Return the data as an array (n, d), and its range."""
    if isinstance(data, Mapping) or hasattr(data, "columns"):
        columns = {str(name): np.atleast_1d(np.asarray(data[name])) for name in data}
        _check_lengths(columns)
        for name, column in columns.items():
            if column.dtype.kind not in "iufb":
                raise TypeError(
                    f"data must be numbers, but column {name!r} is not; with conditions of other kinds, say what they "
                    f"may be: within=drbo.Box({name}=drbo.Categorical(...), ...)"
                )
        names = list(columns) if names is None else names
        data = np.column_stack(list(columns.values()))
    values = validation.frozen(validation.points("data", data))
    named = None if names is None else tuple(str(name) for name in names)
    if named is not None and len(set(named)) != values.shape[1]:
        raise ValueError(f"names must be {values.shape[1]} different ones, one a column, got {list(named)}")
    span = np.ptp(values, axis=0)
    return values, DataRange(values.min(axis=0), np.where(span > 0.0, span, 1.0), named)


def _columns(data: Any, within: Box) -> dict[str, list[Any]]:
    """Return the column of each parameter of the box, in its order."""
    names = list(within.parameters)
    if isinstance(data, Mapping) or hasattr(data, "columns"):
        missing = [name for name in names if name not in data]
        if missing:
            raise ValueError(f"data lacks {', '.join(missing)}; its columns are {', '.join(map(str, data))}")
        columns = {name: np.atleast_1d(np.asarray(data[name], dtype=object)).tolist() for name in names}
    else:
        if np.ma.isMaskedArray(data):
            raise TypeError("data must be an array of values, got a masked array")
        table = np.asarray(data, dtype=object)
        if table.ndim == 1 and len(names) == 1:
            table = table[:, None]
        if table.size == 0:
            table = table.reshape(0, len(names))
        if table.ndim != 2 or table.shape[1] != len(names):
            raise ValueError(f"data must have a column for each of {', '.join(names)}, got shape {table.shape}")
        columns = dict(zip(names, table.T.tolist(), strict=True))
    _check_lengths(columns)
    # numpy's own numbers and truth values as Python's, which can be saved
    return {
        name: [value.item() if isinstance(value, np.generic) else value for value in column]
        for name, column in columns.items()
    }


def _check_lengths(columns: Mapping[str, Sequence[Any] | NDArray[Any]]) -> None:
    if len({len(column) for column in columns.values()}) > 1:
        raise ValueError(f"data must have columns of equal length, got {[len(c) for c in columns.values()]}")


def _encoded(rows: Sequence[Mapping[str, Any]], within: Box) -> FloatArray:
    """Return the coordinates (n, d) of all rows; an error names the first that is none, and counts the others."""
    encoded, errors = [], []
    for i, row in enumerate(rows):
        try:
            encoded.append(within.encode(f"data[{i}]", row))
        except (TypeError, ValueError) as error:
            errors.append(error)
    if errors:
        others = f" (and {len(errors) - 1} more of {len(rows)} rows)" if len(errors) > 1 else ""
        raise type(errors[0])(f"{errors[0]}{others}")
    return np.array(encoded).reshape(-1, within.dimension)


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

    def and_also(self, further: FloatArray) -> Atoms:
        """Return these atoms and further ones (k, d) without weight in the reference."""
        if not len(further):
            return self
        points = validation.frozen(np.concatenate([self.points, further]))
        reference = validation.frozen(np.append(self.reference, np.zeros(len(further))))
        return Atoms(points, reference, self.error, self.history)


def atoms_of(
    samples: Samples, seen: FloatArray, kernel: Kernel | None, seed: int, in_place: Samples | None = None
) -> Atoms:
    """Return the atoms of the samples and of contexts `seen` since (k, d), each of which counts as one more sample.

    Other samples may take the place of these, in the same units and range. Where there is neither sample nor context,
    nothing is known: the further points share the reference equally. Without a kernel of an MMD nothing bounds what
    compression costs: contexts seen are then all kept, and so must samples be.
    """
    further = samples.range.sample(samples.support, seed)
    points, weights, limit = samples.points, samples.weights, samples.atoms
    if in_place is not None:
        limit = in_place.atoms
        rows = [samples.encode("reference", in_place.decode(point)) for point in in_place.points]
        points, weights = np.array(rows).reshape(-1, samples.dimension), in_place.weights
    n = len(points)
    if kernel is None:
        if len(np.unique(points[weights > 0.0], axis=0)) > limit:
            raise ValueError("ambiguity must be an MMD for compressed samples; or give Samples room: atoms=...")
        limit = n + len(seen)
    points = np.concatenate([points, seen.reshape(-1, samples.dimension)])
    if not len(points):
        if not len(further):
            raise ValueError("support must be at least 1 where there are no samples")
        equal = np.full(len(further), 1.0 / len(further))
        return Atoms(validation.frozen(further), validation.frozen(equal), 0.0, np.empty(0, dtype=np.intp))
    weights = np.concatenate([weights * n, np.ones(len(points) - n)]) / len(points)
    small = compress(points, kernel or RBF(), weights / weights.sum(), limit)
    _, history = cKDTree(small.atoms).query(points)
    return Atoms(small.atoms, small.weights, small.error, np.asarray(history, dtype=np.intp)).and_also(further)
