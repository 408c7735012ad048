"""The groups of rows whose mix may change, the folds that hold all of them, and their means with standard errors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, t
from sklearn.model_selection import PredefinedSplit

import drbo
from drbo._messages import listed
from drbo.validation import FloatArray, finite_array, finite_float, label, missing, whole_number

Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Groups:
    """The groups of the rows: what the optimizer calls contexts.

    Attributes
    ----------
    contexts : each group in the form in which its outcome is told: a label, or a mapping from columns to labels
    of : (n_rows,) the group of each row; None if the folds are the groups
    columns : the labels of each column, by name; one column is called ""
    """

    contexts: tuple[Any, ...]
    of: Indices | None
    columns: dict[str, drbo.Categorical | drbo.Ordinal]

    @classmethod
    def folds(cls, count: int) -> Groups:
        """Return the groups 0, 1, ... of folds."""
        return cls(tuple(range(count)), None, {"": drbo.Categorical(*range(count))})

    @classmethod
    def read(cls, given: Any, bins: Any, n_rows: int) -> Groups:
        """Return the groups of one label per row, or of the combinations of several columns that occur."""
        table = _columns(given)
        if isinstance(bins, Mapping) and (unknown := set(bins) - set(table)):
            raise ValueError(f"bins names {listed(unknown)}, but the columns of contexts are {listed(table)}")
        if bins is not None and not isinstance(bins, Mapping) and len(table) > 1:
            raise TypeError(f"bins must be given by column for several columns, such as {{'age': 4}}, got {bins!r}")
        columns: dict[str, drbo.Categorical | drbo.Ordinal] = {}
        codes = []
        for name, values in table.items():
            where = f"contexts[{name!r}]" if name else "contexts"
            if len(values) != n_rows:
                raise ValueError(f"{where} must have one label per row, {n_rows}, got {len(values)}")
            cut = bins.get(name) if isinstance(bins, Mapping) else bins
            columns[name], code = _labelled(where, values) if cut is None else _binned(where, values, cut)
            codes.append(code)
        present, of = np.unique(np.stack(codes, axis=1), axis=0, return_inverse=True)
        choices = [column.choices for column in columns.values()]
        rows = [[labels[i] for labels, i in zip(choices, row, strict=True)] for row in present]
        contexts = tuple(row[0] if len(table) == 1 else dict(zip(table, row, strict=True)) for row in rows)
        return cls(contexts, of.ravel(), columns)

    @property
    def names(self) -> list[str]:
        """The name of each group in `cv_results_` and in texts; that of Python where two would have the same."""
        plain = [", ".join(map(str, one.values())) if isinstance(one, dict) else str(one) for one in self.contexts]
        return plain if len(set(plain)) == len(plain) else [repr(one) for one in self.contexts]

    def problem(self, weights: FloatArray, radius: float | None) -> dict[str, Any]:
        """Return the arguments of an optimizer for these groups with these weights."""
        shares = weights / weights.sum()
        if "" in self.columns:
            reference = dict(zip(self.contexts, shares.tolist(), strict=True))
            return {"contexts": self.columns[""], "setting": drbo.Simulator(reference, radius)}
        data = {name: [one[name] for one in self.contexts] for name in self.columns}
        room = max(len(self.contexts), 1)
        samples = drbo.Samples(data, shares, labels=self.columns, atoms=room, support=0)
        return {"contexts": samples, "setting": drbo.Simulator(radius=radius)}

    def split(self, n_splits: int, y: Any) -> PredefinedSplit:
        """Return folds that hold the same share of every group and, if `y` is given, of every class in it."""
        assert self.of is not None
        classes = np.zeros(len(self.of), dtype=np.intp) if y is None else np.unique(y, return_inverse=True)[1].ravel()
        blocks = np.unique(np.stack([self.of, classes], axis=1), axis=0, return_inverse=True)[1].ravel()
        ordered = np.sort(blocks)
        fold = np.empty(len(blocks), dtype=np.intp)
        counts = [np.bincount(ordered[i::n_splits], minlength=blocks.max() + 1) for i in range(n_splits)]
        for block, allotted in enumerate(np.transpose(counts)):
            fold[blocks == block] = np.repeat(np.arange(n_splits), allotted)
        return PredefinedSplit(fold)

    def check(self, splits: Sequence[tuple[Any, Any]]) -> None:
        """Raise if a group has fewer rows than there are folds, or is missing from the test rows of a fold."""
        if self.of is None:
            return
        for group, (name, size) in enumerate(zip(self.names, np.bincount(self.of), strict=True)):
            if size < len(splits):
                raise ValueError(
                    f"contexts must have at least {len(splits)} rows in every group, one per fold, but {name!r} has "
                    f"{size}: merge groups, give bins for a number, or use fewer folds"
                )
            for i, (_, test) in enumerate(splits):
                if not (self.of[test] == group).any():
                    raise ValueError(
                        f"contexts must have rows of every group in the test rows of every fold, but {name!r} is "
                        f"missing from fold {i}: give cv as a number, or contexts='folds' if a fold is a group"
                    )


def _columns(given: Any) -> dict[str, Any]:
    """Return the columns of contexts by name; one column without a name is called ""."""
    if hasattr(given, "columns"):
        table = {name: list(given[name]) for name in given.columns}
    elif isinstance(given, Mapping):
        table = {name: list(values) for name, values in given.items()}
    else:
        if isinstance(given, str) or not np.iterable(given) or getattr(given, "ndim", 1) != 1:
            got = f"an array of shape {np.shape(given)}" if hasattr(given, "shape") else repr(given)
            raise TypeError(
                "contexts must be one label per row, a table with one column per condition, or 'folds', got " + got
            )
        return {"": list(given)}
    if not table or not all(isinstance(name, str) and name for name in table):
        raise ValueError(f"contexts must have columns that are named by text, got {listed(map(repr, table))}")
    return {"": next(iter(table.values()))} if len(table) == 1 else table


def _labelled(where: str, values: Sequence[Any]) -> tuple[drbo.Categorical, Indices]:
    """Return the labels of a column in sorted order if they have one, and the position of each value."""
    for row, value in enumerate(values):
        if missing(value):
            raise ValueError(f"{where} must not hold missing values, but row {row} is one: drop it, or give it a label")
    labels = [label(where, value) for value in values]
    different = list(dict.fromkeys(labels))
    if len({type(one) for one in different}) == 1:
        different = sorted(different)
    at = {one: i for i, one in enumerate(different)}
    return drbo.Categorical.from_arguments((*different,)), np.array([at[one] for one in labels], dtype=np.intp)


def _binned(where: str, values: Sequence[Any], bins: Any) -> tuple[drbo.Ordinal, Indices]:
    """Return the bins of a numeric column as ordered labels, and the bin of each value; `bins`: number or edges."""
    numbers = finite_array(where, values, ndim=1)
    if np.ndim(bins) == 0:
        count = whole_number("bins", bins, least=2)
        edges = np.unique(np.quantile(numbers, np.arange(1, count) / count))
    else:
        edges = finite_array("bins", bins, ndim=1)
        if not len(edges) or (np.diff(edges) <= 0.0).any():
            raise ValueError(f"bins must be a number of bins, or edges that increase, got {bins!r}")
    at = np.searchsorted(edges, numbers, side="right")
    ends = [f"{edge:.6g}" for edge in edges]
    labels = [f"below {ends[0]}", *(f"{a} to {b}" for a, b in itertools.pairwise(ends)), f"from {ends[-1]}"]
    used = np.unique(at)
    if len(set(labels)) < len(labels) or len(used) < 2:
        raise ValueError(f"bins must divide {where} into at least two different bins, got {bins!r}")
    return drbo.Ordinal(*(labels[i] for i in used)), np.searchsorted(used, at)


@dataclass(frozen=True, eq=False)
class Means:
    """The mean score of each group over its rows, (n_groups,), with its standard error."""

    mean: FloatArray
    stderr: FloatArray

    @classmethod
    def of(
        cls, values: FloatArray, weights: FloatArray, groups: Indices, clusters: Indices, least: float | None
    ) -> Means:
        """Return the weighted mean of values (k,) in each group, and the standard error of that mean.

        Values of one cluster are dependent: repeated tests of one row, or rows of one person. With residuals
        r_i = w_i (v_i - mean) and C clusters of a group,

            stderr^2 = C / (C - 1) sum_c (sum_{i in c} r_i)^2 / (sum_i w_i)^2.

        `least` is the worst score of a row. One further row of this score is then counted in the standard error, so
        that 67 right answers of 67 are no certainty.
        """
        made = []
        for group in range(int(groups.max()) + 1):
            own = groups == group
            v, w = values[own], weights[own]
            mean = float(w @ v / w.sum())
            sums = np.bincount(np.unique(clusters[own], return_inverse=True)[1].ravel(), w * (v - mean))
            count = len(sums)
            squares = float(sums @ sums) * count / (count - 1)
            if least is not None:
                squares += (float(w.mean()) * (mean - least)) ** 2
            made.append((mean, math.sqrt(squares) / float(w.sum())))
        mean, stderr = np.array(made).T
        return cls(mean, stderr)


def widths(z: float, counts: Sequence[int]) -> FloatArray:
    """Return the number of standard errors for each group: z, or Student's t at the same level for few clusters."""
    level = norm.cdf(z)
    return np.array([t.ppf(level, count - 1) for count in counts])


def checked_z(z: Any) -> float:
    """Return the number of standard errors, from 0 to 8."""
    number = finite_float("z", z)
    if not 0.0 <= number <= 8.0:
        raise ValueError(f"z must be from 0 to 8, got {number}")
    return number
