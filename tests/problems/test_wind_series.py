"""A wind series: consecutive hours, nothing negative, cut into calendar years."""

from __future__ import annotations

import numpy as np
import pytest

from drbo.problems import WindDataError, WindSeries

HOURS = np.arange("2014-12-31T22", "2015-01-01T03", dtype="datetime64[h]")


def test_years_are_calendar_years_in_utc() -> None:
    series = WindSeries("farm", HOURS, np.array([1.0, 2.0, 3.0, 4.0, 8.0]), repairs=("One.",), notes=("Two.",))
    assert series.years == (2014, 2015)
    first, second = series.year(2014), series.year(2015)
    np.testing.assert_array_equal(first.power, [1.0, 2.0])
    np.testing.assert_array_equal(second.power, [3.0, 4.0, 8.0])
    np.testing.assert_array_equal(second.normalised(), [0.375, 0.5, 1.0])
    assert (second.name, second.repairs, second.notes) == ("farm 2015", ("One.",), ("Two.",))
    with pytest.raises(WindDataError, match="farm: has no hour of 2016, only of 2014, 2015"):
        series.year(2016)


def test_arrays_are_copies_and_cannot_be_changed() -> None:
    power = np.ones(5)
    series = WindSeries("farm", HOURS, power)
    power[0] = 7.0
    assert series.maximum == 1.0
    with pytest.raises(ValueError, match="read-only"):
        series.power[0] = 2.0


@pytest.mark.parametrize(
    ("hours", "power", "message"),
    [
        (HOURS[::2], [1.0, 1.0, 1.0], "hours must be consecutive, got 2015-01-01T00 after 2014-12-31T22"),
        (HOURS[[0, 0]], [1.0, 1.0], "hours must be consecutive"),
        (HOURS[:2], [1.0, -1.0], "power must not be negative, got -1.0 at 2014-12-31T23"),
        (HOURS[:2], [0.0, 0.0], "power is zero in every hour"),
        (HOURS[:2], [1.0], "times and power must be equally long, got 2 and 1"),
        (HOURS[:0], [], "times and power must be equally long, got 0 and 0"),
        (HOURS[:1], [np.nan], "power must be finite"),
    ],
)
def test_what_is_no_series(hours: np.ndarray, power: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WindSeries("farm", hours, np.array(power))
