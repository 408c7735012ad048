"""Means over runs, with their standard errors."""

from __future__ import annotations

import math

import numpy as np

from drbo.experiments.records import Table
from drbo.validation import FloatArray


def per_run(records: Table, column: str) -> FloatArray:
    """Return a column of the records of one method, problem and setting as (runs, rounds)."""
    return np.asarray(records[column], dtype=float).reshape(len(np.unique(records["run"])), -1)


def mean_and_error(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mean over the runs of values (runs, ...), and its standard error; nan for one run."""
    if len(values) == 1:
        return values[0], np.full(values.shape[1:], np.nan)
    error = values.std(axis=0, ddof=1) / math.sqrt(len(values))
    return np.asarray(values.mean(axis=0)), np.where(np.ptp(values, axis=0) > 0.0, error, 0.0)  # not that of rounding


def number(value: FloatArray) -> float | None:
    """Return a number of a table; None if it is not known."""
    return None if math.isnan(value) else float(value)
