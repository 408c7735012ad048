"""The wind year at small size: radii from the first year, decisions on the second."""

import numpy as np
import pytest

from drbo.experiments.wind_year import MMD_RADII, WindYear, backtest_table, choose_radius, decide
from drbo.problems import WindSeries, la_haute_borne, revenue, wind

YEAR = WindYear(la_haute_borne())


def test_hours_are_those_of_the_two_years() -> None:
    first, second = YEAR.hours(0), YEAR.hours(1)
    assert first[0] == 48
    assert len(first) == 8759 - 48
    assert len(second) == 8760
    assert str(YEAR.series.times[second[0]]) == "2015-01-01T00"


def test_a_backtest_prefers_some_robustness() -> None:
    """An exact solve of the first 20 days: a small radius earns more than none, and a huge one nothing but 10%."""
    hours = YEAR.hours(0)[:480]
    result = choose_radius(YEAR.power, hours, "drbo")
    assert result.radii.tolist() == list(MMD_RADII)
    assert 0.0 < result.best_radius < 0.2
    assert result.revenue[-1] == pytest.approx(0.1 * YEAR.power[hours].sum())
    table = backtest_table(YEAR.power, hours, "drbo", "2014")
    np.testing.assert_allclose(table["revenue"], result.revenue)


def test_decisions_are_near_the_exact_ones() -> None:
    hours = YEAR.hours(1)[300:304]  # with wind
    table = decide(YEAR.power, hours, {"DRBO": 0.08, "StableOpt": 0.3}, 30, 0)
    assert len(table["hour"]) == 5 * 4
    assert (table["action"][table["method"] == "DRBO"] > 0).all()
    actions = wind().actions[:, 0]
    np.testing.assert_allclose(
        table["revenue"],
        [revenue(actions[x], YEAR.power[h]) for x, h in zip(table["action"], table["hour"], strict=True)],
    )
    regret = {name: table["regret"][table["method"] == name].mean() for name in np.unique(table["method"])}
    assert regret["exact DRO"] == 0.0
    assert regret["DRBO"] < 0.03
    assert (table["action"][table["method"] == "no commitment"] == 0).all()
    again, other = (decide(YEAR.power, hours, {"DRBO": 0.08, "StableOpt": 0.3}, 30, *seed) for seed in ((0,), (2, 3)))
    assert all(np.array_equal(a, b) for a, b in zip(table.values(), again.values(), strict=True))
    seeded = decide(YEAR.power, hours, {"DRBO": 0.08, "StableOpt": 0.3}, 30, 5)
    np.testing.assert_array_equal(other["action"], seeded["action"])  # run 3 of seed 2 has the noise of seed 5
    assert (other["run"] == 3).all()
    assert not np.array_equal(other["action"], table["action"])


def test_one_year_is_not_enough() -> None:
    series = la_haute_borne().year(2014)
    with pytest.raises(ValueError, match="must cover two calendar years"):
        WindYear(WindSeries(series.name, series.times[:200], series.power[:200]))
