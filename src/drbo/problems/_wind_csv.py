"""An hourly series of wind power: consecutive hours, no gaps, no negative values, and the repairs that were made."""

from __future__ import annotations

import csv
import difflib
import functools
import itertools
import math
import warnings
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from drbo import validation
from drbo._messages import printable
from drbo.validation import FloatArray

__all__ = [
    "WindDataError", "WindDataWarning", "WindSeries", "la_haute_borne", "read_wind_csv",
]  # fmt: skip

HourArray = NDArray[np.datetime64]


class WindDataError(ValueError):
    """Unusable wind data; the message names the line and the column, or the hour."""


class WindDataWarning(UserWarning):
    """Repaired wind data; the message states every repair."""


@dataclass(frozen=True, eq=False)
class WindSeries:
    """Wind power in consecutive hours.

    Attributes
    ----------
    name : its source
    times : (n,) the start of each hour, UTC, as datetime64[h]
    power : (n,) mean power in that hour, zero or more, in the unit of the source
    repairs : one sentence per kind of repair
    notes : the comment lines of the source (attribution, licence)
    """

    name: str
    times: HourArray
    power: FloatArray
    repairs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        name = printable(self.name)
        try:
            times = np.array(self.times, dtype="datetime64[h]")
        except (ValueError, TypeError, OverflowError) as error:
            raise WindDataError(f"{name}: times must be hours, as datetime64: {error}") from None
        power = validation.finite_array("power", self.power, ndim=1).copy()
        if times.shape != power.shape or times.size == 0:
            raise WindDataError(f"{name}: times and power must be equally long, got {times.size} and {power.size}")
        steps = np.diff(times).astype(int)
        if (steps != 1).any():
            at = int(np.argmax(steps != 1))
            raise WindDataError(f"{name}: hours must be consecutive, got {times[at + 1]} after {times[at]}")
        if power.min() < 0.0:
            lowest = int(power.argmin())
            raise WindDataError(f"{name}: power must not be negative, got {power[lowest]} at {times[lowest]}")
        if power.max() == 0.0:
            raise WindDataError(f"{name}: power is zero in every hour, so it has no scale")
        for field, array in (("times", times), ("power", power)):
            array.flags.writeable = False
            object.__setattr__(self, field, array)

    def __len__(self) -> int:
        return len(self.power)

    @property
    def maximum(self) -> float:
        """The largest power of the series."""
        return float(self.power.max())

    @property
    def years(self) -> tuple[int, ...]:
        """The calendar years (UTC) with at least one hour in the series."""
        return tuple((np.unique(self.times.astype("datetime64[Y]")).astype(int) + 1970).tolist())

    def year(self, year: int) -> WindSeries:
        """Return the hours of one calendar year (UTC)."""
        inside = self.times.astype("datetime64[Y]").astype(int) + 1970 == year
        if not inside.any():
            there = ", ".join(map(str, self.years))
            raise WindDataError(f"{printable(self.name)}: has no hour of {year}, only of {there}")
        return replace(self, name=f"{self.name} {year}", times=self.times[inside], power=self.power[inside])

    def normalised(self) -> FloatArray:
        """Return power / maximum, between 0 and 1; (n,)."""
        return self.power / self.maximum


OWN_CONSUMPTION = 0.05
"""Negative values up to this share of the maximum are the farm's own consumption; lower values are an error."""

MISSING = ("", "nan", "na", "n/a", "null", "none")
TIME_WORDS = ("time", "date", "timestamp")
POWER_WORDS = ("power", "generation", "production", "wind")


@functools.cache  # a series is immutable
def la_haute_borne() -> WindSeries:
    """Return the series shipped with drbo: the La Haute Borne wind farm (France), kW, 17,520 hours of 2014 and 2015.

    Measured by ENGIE; Licence Ouverte / Open Licence 2.0 (Etalab). `notes` holds the attribution and the changes.
    """
    file = resources.files("drbo.problems") / "data" / "la_haute_borne_2014_2015.csv"
    return _read("La Haute Borne", file.read_text(encoding="utf-8"), None, None, None, 0)


def read_wind_csv(
    path: str | Path,
    *,
    time_column: str | None = None,
    power_column: str | None = None,
    years: Collection[int] | None = None,
    max_gap: int = 24,
) -> WindSeries:
    """Return the hourly wind series of a CSV file; one `WindDataWarning` lists the repairs.

    Open Power System Data sums two hours into one at the autumn clock changes of some columns. Such a spike cannot be
    distinguished from wind, so it is kept. It sets the maximum if it is the largest value.

    Parameters
    ----------
    path : a file with a header row, cells separated by commas, semicolons or tabs; lines that begin with # are notes
    time_column : the column of times (ISO 8601, the start of each hour); default: detected by its name
    power_column : the column of power, in any unit; default: detected by its name
    years : the calendar years (UTC) to keep; default: all. The power in other rows is ignored
    max_gap : the longest run of missing hours that is interpolated
    """
    file = validation.path("path", path)
    for argument, column in (("time_column", time_column), ("power_column", power_column)):
        if column is not None:
            validation.of_kind(argument, column, str, "the name of a column")
    if years is not None:
        validation.of_kind("years", years, Collection, "calendar years, such as [2014, 2015]")
        years = validation.indices("years", list(years), "calendar years").tolist()
    gap = validation.whole_number("max_gap", max_gap, least=0)
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        why = f"not a text file in UTF-8 ({error.reason} at byte {error.start})"
        raise WindDataError(f"{printable(file.name)}: {why}") from None
    series = _read(file.name, text, time_column, power_column, years, gap)
    if series.repairs:
        warnings.warn(f"{printable(series.name)}: {' '.join(series.repairs)}", WindDataWarning, stacklevel=2)
    return series


@dataclass(frozen=True)
class _Measurement:
    """One measurement and its line number; the power is nan if the cell is empty."""

    line: int
    hour: np.datetime64
    power: float


def _read(
    name: str,
    text: str,
    time_column: str | None,
    power_column: str | None,
    years: Collection[int] | None,
    max_gap: int,
) -> WindSeries:
    """Return the series in the text of a CSV file, with its repairs; no warning is raised."""
    source, name = name, printable(name)
    numbered = list(enumerate(text.splitlines(), start=1))
    notes = tuple(line.removeprefix("#").strip() for _, line in numbered if line.startswith("#"))
    lines = [(number, line) for number, line in numbered if line.strip() and not line.startswith("#")]
    if len(lines) < 2:
        raise WindDataError(f"{name}: no rows below a header")
    header = lines[0][1]
    separator = next((mark for mark in ",;\t" if mark in header), ",")
    columns = [column.strip() for column in next(csv.reader([header], delimiter=separator))]
    time = _column(name, "time_column", columns, time_column, TIME_WORDS)
    power = _column(name, "power_column", columns, power_column, POWER_WORDS, taken=time)

    repairs: list[str] = []
    cells = ((number, next(csv.reader([line], delimiter=separator))) for number, line in lines[1:])
    rows = _rows(name, columns, time, power, cells, years)
    rows = _unique(name, _sorted(rows, repairs), repairs)
    hours, values = _regular(name, columns[power], rows, max_gap, repairs)
    values = _clipped(name, columns[power], rows, values, repairs)
    return WindSeries(source, hours, values, tuple(repairs), notes)


def _column(
    name: str, argument: str, columns: list[str], wanted: str | None, words: Sequence[str], taken: int | None = None
) -> int:
    """Return the position of the wanted column, or of the only column with one of the words in its name."""
    if wanted is not None:
        if columns.count(wanted) == 1:
            return columns.index(wanted)
        problem = "more than one column is" if wanted in columns else "no column is"
        close = difflib.get_close_matches(wanted, columns, n=1)
        hint = f"; did you mean {close[0]!r}?" if close and wanted not in columns else "."
        raise WindDataError(f"{name}: {problem} called {wanted!r}{hint} Columns: {_list(columns)}")
    found = [i for i, column in enumerate(columns) if i != taken and any(word in column.lower() for word in words)]
    if len(found) > 1:  # a file may hold both local time and UTC
        found = [i for i in found if "utc" in columns[i].lower()] or found
    if len(found) != 1:
        problem = f"columns {_list(columns[i] for i in found)} could all be meant" if found else "none fits"
        raise WindDataError(
            f"{name}: cannot tell the {argument} by its name ({problem}): give {argument}. Columns: {_list(columns)}"
        )
    return found[0]


def _list(columns: Iterable[str]) -> str:
    names = [repr(column) for column in columns]
    return ", ".join(names if len(names) <= 12 else [*names[:12], f"and {len(names) - 12} more"])


def _rows(
    name: str,
    columns: list[str],
    time: int,
    power: int,
    lines: Iterable[tuple[int, list[str]]],
    years: Collection[int] | None,
) -> list[_Measurement]:
    """Return the measurements of the wanted years, in file order."""
    rows: list[_Measurement] = []
    with_offset: bool | None = None
    for line, cells in lines:
        if len(cells) != len(columns):
            raise WindDataError(f"{name}: line {line} has {len(cells)} cells, the header has {len(columns)}")
        place = f"{name}: line {line}, column {columns[time]!r}"
        try:
            stamp = datetime.fromisoformat(cells[time].strip())
        except ValueError:
            raise WindDataError(f"{place}: {cells[time]!r} is not a time (ISO 8601 expected)") from None
        if with_offset not in (None, stamp.tzinfo is not None):
            raise WindDataError(f"{place}: times with and without an offset from UTC are mixed")
        with_offset = stamp.tzinfo is not None
        stamp = stamp.astimezone(UTC).replace(tzinfo=None) if with_offset else stamp
        if years is not None and stamp.year not in years:
            continue
        if (stamp.minute, stamp.second, stamp.microsecond) != (0, 0, 0):
            raise WindDataError(f"{place}: {cells[time]!r} is not a full hour; average the data to hours first")
        rows.append(_Measurement(line, np.datetime64(stamp, "h"), _number(name, line, columns[power], cells[power])))
    if not rows:
        raise WindDataError(f"{name}: no row of the years {sorted(years or ())}")
    return rows


def _number(name: str, line: int, column: str, cell: str) -> float:
    """Return the cell as a finite number, or nan if it marks a missing value."""
    if cell.strip().lower() in MISSING:
        return math.nan
    try:
        number = float(cell)
    except ValueError:
        raise WindDataError(f"{name}: line {line}, column {column!r}: {cell!r} is not a number") from None
    if not math.isfinite(number):
        raise WindDataError(f"{name}: line {line}, column {column!r}: {cell!r} is not finite")
    return number


def _sorted(rows: list[_Measurement], repairs: list[str]) -> list[_Measurement]:
    """Return the rows in time order."""
    early = next((b.line for a, b in itertools.pairwise(rows) if b.hour < a.hour), None)
    if early is None:
        return rows
    repairs.append(f"Rows were out of order (first at line {early}) and were sorted by time.")
    return sorted(rows, key=lambda row: row.hour)


def _unique(name: str, rows: list[_Measurement], repairs: list[str]) -> list[_Measurement]:
    """Return the rows with one row per hour."""
    unique: dict[np.datetime64, _Measurement] = {}
    dropped: list[_Measurement] = []
    for row in rows:
        first = unique.setdefault(row.hour, row)
        if first is row:
            continue
        if not (math.isnan(row.power) or math.isnan(first.power) or row.power == first.power):
            raise WindDataError(
                f"{name}: lines {first.line} and {row.line} give {first.power} and {row.power} for the same hour, "
                f"{row.hour} (local time with clock changes? convert it to UTC)"
            )
        dropped.append(first if math.isnan(first.power) else row)
        if math.isnan(first.power):
            unique[row.hour] = row
    if dropped:
        first = dropped[0]
        repairs.append(
            f"{len(dropped)} row(s) that repeat an hour were dropped (first {first.hour}, line {first.line})."
        )
    return list(unique.values())


def _regular(
    name: str, column: str, rows: list[_Measurement], max_gap: int, repairs: list[str]
) -> tuple[np.ndarray[tuple[int], np.dtype[np.datetime64]], FloatArray]:
    """Return consecutive hours and their values, with trimmed ends and interpolated short gaps."""
    known = [row for row in rows if not math.isnan(row.power)]
    if not known:
        raise WindDataError(f"{name}: column {column!r} holds no number")
    ends = sum(row.hour < known[0].hour or row.hour > known[-1].hour for row in rows)
    if ends:
        repairs.append(f"{ends} row(s) without a value at the ends were cut off.")
    at = np.array([(row.hour - known[0].hour).astype(int) for row in known])
    hours = known[0].hour + np.arange(at[-1] + 1)
    gaps = np.diff(at) - 1
    if gaps.max(initial=0) > max_gap:
        first = int(np.argmax(gaps > max_gap))
        raise WindDataError(
            f"{name}: {gaps[first]} hours are missing after {known[first].hour} (line {known[first].line}), "
            f"more than max_gap = {max_gap}"
        )
    if gaps.any():
        first = int(np.argmax(gaps > 0))
        repairs.append(
            f"{gaps.sum()} missing hour(s) in {np.count_nonzero(gaps)} gap(s) were interpolated "
            f"(first after {known[first].hour}, longest {gaps.max()} h)."
        )
    return hours, np.interp(np.arange(len(hours)), at, [row.power for row in known])


def _clipped(name: str, column: str, rows: list[_Measurement], values: FloatArray, repairs: list[str]) -> FloatArray:
    """Return the values with small negative ones set to zero."""
    lowest = min((row for row in rows if not math.isnan(row.power)), key=lambda row: row.power)
    if lowest.power >= 0.0:
        return values
    if lowest.power < -OWN_CONSUMPTION * max(values.max(), 0.0):
        raise WindDataError(
            f"{name}: line {lowest.line}, column {column!r}: {lowest.power} is negative beyond "
            f"{OWN_CONSUMPTION:.0%} of the maximum, {values.max()}; is it the right column and sign?"
        )
    repairs.append(
        f"{np.count_nonzero(values < 0.0)} negative value(s) were set to 0 (lowest {lowest.power}, line {lowest.line})."
    )
    return np.maximum(values, 0.0)
