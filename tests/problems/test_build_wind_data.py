"""The script that builds the shipped wind series, on a made-up table."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[2] / "scripts/build_wind_data.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_wind_data", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def samples(hour: str, power: list[str]) -> list[dict[str, str]]:
    return [{"Date_time": f"2014-03-30T{hour}:10:00+02:00", "P_avg": p} for p in power]


def test_an_hour_is_four_times_the_mean_of_its_valid_samples(script: ModuleType) -> None:
    rows = [
        *samples("05", ["100"] * 24),
        *samples("01", ["10"] * 6 + ["30"] * 6 + [""] * 12),  # just enough
        *samples("02", ["10"] * 11 + ["nan"] * 13),  # too few
        *samples("04", ["-5"] * 24),
    ]
    hours, power = script.hourly(rows)
    assert [str(hour) for hour in hours] == [f"2014-03-30T0{h}" for h in range(1, 6)]
    np.testing.assert_array_equal(power, [80.0, np.nan, np.nan, -20.0, 400.0])
    np.testing.assert_allclose(script.interpolate(power), [80.0, 80 - 100 / 3, 80 - 200 / 3, -20.0, 400.0])


def test_unexpected_facts_stop_the_build(script: ModuleType) -> None:
    script.check("hours", 3, 3)
    with pytest.raises(SystemExit, match="hours is 2, expected 3"):
        script.check("hours", 2, 3)
