"""Means over runs, with their standard errors."""

from __future__ import annotations

import csv
import hashlib
import json
import math
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drbo._files import write_atomically
from drbo.validation import FloatArray


def per_run(records: Table, column: str) -> FloatArray:
    """Return a column of the records of one method, problem and setting as (runs, rounds)."""
    return np.asarray(records[column], dtype=float).reshape(len(np.unique(records["run"])), -1)


def mean_and_error(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mean over the runs of values (runs, ...), and its standard error; nan for one run."""
    if len(values) == 1:
        return values[0], np.full(values.shape[1:], np.nan)
    error = values.std(axis=0, ddof=1) / math.sqrt(len(values))
    return np.asarray(values.mean(axis=0)), np.where(np.ptp(values, axis=0) > 0.0, error, 0.0)  # no rounding residue


def number(value: FloatArray) -> float | None:
    """Return a number for a table; None if it is nan."""
    return None if math.isnan(value) else float(value)


Table = dict[str, NDArray[Any]]
"""Columns of equal length."""


def to_csv(table: Table) -> str:
    """Return the table as CSV text; floats keep all their digits."""
    lines = [",".join(table)]
    columns = [column.tolist() for column in table.values()]
    lines.extend(",".join(map(str, row)) for row in zip(*columns, strict=True))
    return "\n".join(lines) + "\n"


def read_csv(path: Path) -> Table:
    """Return the table of a CSV file; numeric columns become integers or floats."""
    with path.open(newline="") as file:
        rows = list(csv.reader(file))
    columns = zip(*rows[1:], strict=True) if len(rows) > 1 else ([] for _ in rows[0])
    return {name: _typed(np.array(column)) for name, column in zip(rows[0], columns, strict=True)}


def write_csv(path: Path, table: Table) -> None:
    """Write a table as a CSV file, completely or not at all."""
    write_atomically(path, to_csv(table))


def stack(tables: Iterable[Table]) -> Table:
    """Return the tables stacked vertically."""
    parts = list(tables)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if parts else {}


def select(table: Table, **values: Any) -> Table:
    """Return the rows in which every named column has the given value."""
    keep = np.ones(len(next(iter(table.values()))), dtype=bool)
    for name, value in values.items():
        keep &= table[name] == value
    return {name: column[keep] for name, column in table.items()}


class Store:
    """The records of one sweep; finished jobs are kept, so that an interrupted sweep can continue."""

    def __init__(self, out: Path, name: str, settings: dict[str, Any]) -> None:
        self.records = out / f"{name}.csv"
        self._settings_file = out / f"{name}.json"
        self._parts = out / f"{name}.parts"
        self._text = json.dumps(settings, indent=2, sort_keys=True) + "\n"
        if self._settings_file.is_file() and self._settings_file.read_text() != self._text:
            self._move(self._digest(self._settings_file.read_text()), aside=True)
        if not self._settings_file.is_file():
            self._move(self._digest(self._text), aside=False)
        if not self._settings_file.is_file():
            write_atomically(self._settings_file, self._text)
        self._complete = self.records.is_file() and not self._parts.is_dir()

    def _move(self, digest: str, aside: bool) -> None:
        """Rename the records of other settings, or restore those of the current settings."""
        for path in (self.records, self._parts, self._settings_file):
            other = path.with_name(f"{path.stem}-{digest}{path.suffix}")
            source, target = (path, other) if aside else (other, path)
            if source.exists():
                source.replace(target)

    @staticmethod
    def _digest(settings: str) -> str:
        return hashlib.sha256(settings.encode()).hexdigest()[:8]

    def has(self, job: str) -> bool:
        """Return whether the job's records exist."""
        return self._complete or (self._parts / f"{job}.csv").is_file()

    def add(self, job: str, table: Table) -> None:
        """Store the records of a finished job."""
        write_csv(self._parts / f"{job}.csv", table)

    def collect(self, jobs: Iterable[str]) -> Table:
        """Return the records of the finished jobs, in the given order, after writing them to one file."""
        if self._complete:
            return read_csv(self.records)
        wanted = list(jobs)
        present = [job for job in wanted if self.has(job)]
        table = stack(read_csv(self._parts / f"{job}.csv") for job in present)
        if table:
            write_csv(self.records, table)
        if len(present) == len(wanted):
            shutil.rmtree(self._parts)
            self._complete = True
        return table


def _typed(column: NDArray[np.str_]) -> NDArray[Any]:
    for kind in (np.int64, np.float64):
        try:
            return column.astype(kind)
        except ValueError:
            continue
    return column
