"""An hourly series of wind power: consecutive hours, no holes, nothing negative, and what was repaired to get there."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from drbo import validation
from drbo.validation import FloatArray

HourArray = NDArray[np.datetime64]


class WindDataError(ValueError):
    """Wind data that cannot be used as they are; the message names the line and the column, or the hour."""


class WindDataWarning(UserWarning):
    """Wind data that were repaired; the message states every repair."""


@dataclass(frozen=True, eq=False)
class WindSeries:
    """Wind power in consecutive hours.

    Attributes
    ----------
    name : where it is from
    times : (n,) the start of each hour, UTC, as datetime64[h]
    power : (n,) mean power in that hour, zero or more, in the unit of the source
    repairs : one sentence for each kind of repair that the reader made
    notes : the comment lines of the source (attribution, licence)
    """

    name: str
    times: HourArray
    power: FloatArray
    repairs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        try:
            times = np.array(self.times, dtype="datetime64[h]")
        except (ValueError, TypeError, OverflowError) as error:
            raise WindDataError(f"{self.name}: times must be hours, as datetime64: {error}") from None
        power = validation.finite_array("power", self.power, ndim=1).copy()
        if times.shape != power.shape or times.size == 0:
            raise WindDataError(f"{self.name}: times and power must be as many, got {times.size} and {power.size}")
        steps = np.diff(times).astype(int)
        if (steps != 1).any():
            at = int(np.argmax(steps != 1))
            raise WindDataError(f"{self.name}: hours must be consecutive, got {times[at + 1]} after {times[at]}")
        if power.min() < 0.0:
            lowest = int(power.argmin())
            raise WindDataError(f"{self.name}: power must not be negative, got {power[lowest]} at {times[lowest]}")
        if power.max() == 0.0:
            raise WindDataError(f"{self.name}: power is zero in every hour, so it has no scale")
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
        """The calendar years (UTC) that the series touches."""
        return tuple((np.unique(self.times.astype("datetime64[Y]")).astype(int) + 1970).tolist())

    def year(self, year: int) -> WindSeries:
        """Return the hours of one calendar year (UTC)."""
        inside = self.times.astype("datetime64[Y]").astype(int) + 1970 == year
        if not inside.any():
            raise WindDataError(f"{self.name}: has no hour of {year}, only of {', '.join(map(str, self.years))}")
        return replace(self, name=f"{self.name} {year}", times=self.times[inside], power=self.power[inside])

    def normalised(self) -> FloatArray:
        """Return power / maximum, between 0 and 1; (n,)."""
        return self.power / self.maximum
