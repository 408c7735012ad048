"""Rules for the radius judged by a rolling origin, seasons, and what a past can know."""

import datetime
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

import drbo
from drbo.radius import Bootstrap, Calibrated, Constant
from drbo.spaces.times import read_duration, read_times

DAY = 86_400.0
FIXED = drbo.GP(drbo.Product(drbo.RBF(0.5), drbo.RBF(0.5)), noise=0.1)


def seasonal(years: float, every: int = 5, warmer: float = 0.0, seed: int = 0) -> tuple[Any, Any]:
    """Return the times and the temperatures of a past with a summer, one row per `every` days."""
    rng = np.random.default_rng(seed)
    day = np.arange(0.0, 365.0 * years, every)
    times = pd.Timestamp("2015-01-01") + pd.to_timedelta(day, unit="D")
    return times, 10.0 + 9.0 * np.sin(2.0 * np.pi * day / 365.0) + warmer * day / 365.0 + rng.normal(0.0, 1.0, len(day))


def samples(years: float, **more: Any) -> Any:
    times, values = seasonal(years, **more)
    return drbo.Samples({"t": values}, time=times)


def on_a_line(a: Any, b: Any) -> float:
    """W_1 of two samples by their quantile functions, on a fine grid of levels."""
    levels = (np.arange(40_000) + 0.5) / 40_000
    return float(
        np.abs(np.quantile(a, levels, method="inverted_cdf") - np.quantile(b, levels, method="inverted_cdf")).mean()
    )


def test_the_table_is_what_a_loop_by_hand_gives() -> None:
    times, values = seasonal(3.0)
    days = drbo.Samples({"t": values}, time=times)
    rules: Any = {"boot": Bootstrap(0.1, resamples=30), "five": 5.0}
    found = drbo.backtest_radius(days, drbo.Wasserstein(), rules, horizon=18, first=73)
    assert found.origins.tolist() == list(range(73, len(values) - 17, 18))
    assert found.horizon.tolist() == [18] * len(found.origins)
    for i, origin in enumerate(found.origins):
        by_hand = on_a_line(values[origin : origin + 18], values[:origin])
        assert found.distances[i] == pytest.approx(by_hand, abs=2e-3)
        past = drbo.Samples({"t": values[:origin]})
        assert found.radii[0, i] == rules["boot"].for_samples(past, drbo.Wasserstein())
    assert found.radii[1] == pytest.approx(5.0)
    assert found.held == pytest.approx((found.distances <= found.radii).mean(axis=1))
    assert found.median == pytest.approx(np.median(found.radii, axis=1))
    rows = found.rows()
    assert [row["rule"] for row in rows] == ["boot", "five"]
    assert "loss" not in rows[0]
    assert found.to_frame()["held"].tolist() == found.held.tolist()
    assert "The past covers 3.0 years." in str(found)
    assert found.plot().axes[0].get_xlabel() == "contexts known"


def test_durations_and_a_year_first() -> None:
    days = samples(4.0)
    found = drbo.backtest_radius(days, drbo.Wasserstein(), 3.0, horizon="91D")
    assert found.rules == ("3",)
    assert found.origins[0] == pytest.approx(365.25 / 5, abs=1)
    assert found.horizon.tolist() == pytest.approx([91 / 5] * len(found.horizon), abs=1)
    assert found.origins[-1] + found.horizon[-1] <= len(days.points)
    with pytest.raises(TypeError, match="where samples have no times"):
        drbo.backtest_radius(drbo.Samples([1.0, 2.0, 3.0]), None, 0.1, horizon="91D")
    with pytest.raises(ValueError, match="does not fit after the first"):
        drbo.backtest_radius(drbo.Samples([1.0, 2.0, 3.0]), None, 0.1, horizon=9)
    with pytest.raises(ValueError, match="rules must hold at least one rule"):
        drbo.backtest_radius(days, None, [], horizon=9)


def test_the_loss_of_the_bound_is_that_of_the_optimizer() -> None:
    days = samples(3.0)
    opt = drbo.Optimizer(
        [0.0, 1.0], days, ambiguity=drbo.Wasserstein(), setting=drbo.Simulator(radius=1.0), surrogate=FIXED
    )
    for x in (0.0, 1.0):
        for t in (0.0, 10.0, 20.0):
            opt.tell(x, -abs(t - 10.0) * (0.5 + x), context={"t": t})
    found = drbo.backtest_radius(days, drbo.Wasserstein(), [0.0, 2.0], horizon="91D", optimizer=opt)
    value = opt.recommend(radius=0.0).value
    assert found.losses[0] == pytest.approx(0.0, abs=1e-9)
    assert found.losses[1] == pytest.approx(value - opt.recommend(radius=2.0).value)
    assert found.losses[1] > 0.0
    assert "loss" in found.rows()[0]
    assert "loss" in str(found)


def test_a_seasonal_rule_is_the_quantile_of_the_same_time_of_year() -> None:
    times, values = seasonal(4.0, warmer=1.0)
    days = drbo.Samples({"t": values}, time=times)
    rule = Calibrated(quantile=0.75, season="365D", horizon=18)
    n, year = len(values), 73
    by_hand = [
        on_a_line(values[n - k * year : n - k * year + 18], values[: n - k * year]) for k in (1, 2, 3)
    ]  # each has a year before it
    assert rule.for_samples(days, drbo.Wasserstein()) == pytest.approx(max(by_hand), abs=5e-3)
    low = Calibrated(quantile=0.25, season="365D", horizon=18)
    assert low.for_samples(days, drbo.Wasserstein()) == pytest.approx(min(by_hand), abs=5e-3)


def test_no_level_above_what_the_seasons_support() -> None:
    days = samples(4.0)
    with pytest.raises(ValueError, match=r"m = 3 seasons.*above m / \(m \+ 1\) = 0.75 .*quantile=0.75 or less"):
        Calibrated(season="365D").for_samples(days, drbo.Wasserstein())
    with pytest.raises(ValueError, match="m = 3 seasons"):
        drbo.Optimizer([0.0, 1.0], days, setting=drbo.Simulator(radius=Calibrated(0.8, season="365D")))
    opt = drbo.Optimizer(
        [0.0, 1.0], days, setting=drbo.Simulator(radius=Calibrated(0.75, season="365D")), surrogate=FIXED
    )
    assert 0.0 < opt.ask().radius < math.inf
    with pytest.raises(ValueError, match="m = 0 seasons"):
        Calibrated(0.5, season="365D").for_samples(samples(1.5), drbo.Wasserstein())
    found = drbo.backtest_radius(days, drbo.Wasserstein(), Calibrated(0.5, season="365D"), horizon="91D")
    assert found.answers[0] < len(found.origins)  # early origins have too few seasons
    assert np.isnan(found.radii[0, 0])


@pytest.mark.parametrize("more", [{"window": 10}, {"target": "window"}, {"block": "auto"}])
def test_a_season_replaces_the_other_arguments(more: Any) -> None:
    with pytest.raises(TypeError, match="must not be given with a season"):
        Calibrated(season="365D", **more)


def test_a_season_needs_times_and_a_duration() -> None:
    with pytest.raises(ValueError, match="season must be a duration such as '365D'"):
        Calibrated(season="a year")
    with pytest.raises(TypeError, match=r"needs the times of past contexts: give Samples\(\.\.\., time=\.\.\.\)"):
        Calibrated(0.5, season="365D").for_samples(drbo.Samples(np.arange(9.0)), drbo.Wasserstein())
    with pytest.raises(ValueError, match="horizon must be at most a season"):
        Calibrated(0.5, season="365D", horizon=100).for_samples(samples(4.0), drbo.Wasserstein())


def test_a_past_of_less_than_a_year_is_said() -> None:
    days = samples(0.7)
    words = "The past covers 0.7 of a year: no rule can know next summer."
    rules = (Bootstrap(0.1, resamples=20, block="auto"), Calibrated(0.9, resamples=20))
    for rule in rules:
        with pytest.warns(UserWarning, match=words):
            rule.for_samples(days, drbo.Wasserstein())
    with pytest.warns(UserWarning, match=words):
        drbo.Optimizer([0.0, 1.0], days, setting=drbo.Simulator(radius=rules[0]))
    assert words in str(drbo.explain_radius(1.0, days, drbo.Wasserstein()))
    assert words in str(drbo.backtest_radius(days, None, Constant(0.1), horizon=10))
    assert "The past covers 2.0 years." in str(drbo.explain_radius(1.0, samples(2.0), drbo.Wasserstein()))
    Bootstrap(0.1, resamples=20).for_samples(drbo.Samples({"t": [1.0, 2.0]}), drbo.Wasserstein())  # no times


def test_the_same_weeks_of_past_years_are_a_reference() -> None:
    times, values = seasonal(3.0)
    days = drbo.Samples({"t": values}, time=times, keys=list(range(len(values))))
    part: Any = days.same_weeks("2018-02-15", "2018-04-15")
    inside = [i for i, t in enumerate(times) if 46 <= (t - pd.Timestamp("2015-01-01")).days % 365 < 105]
    assert list(part.keys) == inside
    assert part.data[:, 0].tolist() == values[inside].tolist()
    opt = drbo.Optimizer(
        [0.0, 1.0],
        drbo.Samples({"t": values}, time=times),
        ambiguity=drbo.Wasserstein(),
        setting=drbo.Simulator(radius=0.5),
        surrogate=FIXED,
    )
    s = opt.ask(reference=part)
    assert np.count_nonzero(s.reference) == len(inside)
    with pytest.raises(TypeError, match="same_weeks needs times"):
        drbo.Samples([1.0]).same_weeks("2018-01-01", "2018-02-01")
    with pytest.raises(ValueError, match="end must be after start"):
        days.same_weeks("2018-02-01", "2018-01-01")
    with pytest.raises(ValueError, match="no row is from the same weeks"):
        days.same_weeks("2015-01-01", "2015-02-01")


def test_times_are_saved_and_kept(tmp_path: Any) -> None:
    days = samples(4.0)
    rule = Calibrated(0.5, season="365D")
    opt = drbo.Optimizer([0.0, 1.0], days, setting=drbo.Simulator(radius=rule), surrogate=FIXED)
    radius = opt.ask().radius
    opt.save(tmp_path / "run.drbo")
    again: Any = drbo.Optimizer.load(tmp_path / "run.drbo")
    assert again.configuration.contexts.time.tolist() == days.time.tolist()
    assert again.recommend_iterate().radius == radius
    assert again.configuration.setting.radius == rule


def test_contexts_that_come_later_are_at_the_usual_pace() -> None:
    days = samples(4.0)
    setting = drbo.DataDriven(radius=Calibrated(0.5, season="365D", horizon=18))
    opt = drbo.Optimizer([0.0, 1.0], days, ambiguity=drbo.Wasserstein(), setting=setting, surrogate=FIXED)
    first = opt.ask()
    opt.tell(first, 1.0, context={"t": 30.0})
    later = opt.ask().radius
    times, values = seasonal(4.0)
    more = drbo.Samples({"t": np.append(values, 30.0)}, time=[*times, times[-1] + pd.Timedelta(days=5)])
    assert later == pytest.approx(Calibrated(0.5, season="365D", horizon=18).for_samples(more, drbo.Wasserstein()))
    assert later != first.radius


@pytest.mark.parametrize(
    "times",
    [
        ["2020-01-01", "2020-01-02 12:00", "2020-01-04T00:00+00:00"],
        [datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 2, 12), datetime.datetime(2020, 1, 4)],
        np.array(["2020-01-01T00", "2020-01-02T12", "2020-01-04T00"], dtype="datetime64[h]"),
        pd.date_range("2020-01-01", periods=3, freq="36h"),
        pd.Series(
            [pd.Timestamp("2020-01-01"), pd.Timestamp("2020-01-02 12:00"), pd.Timestamp("2020-01-04")], [5, 6, 7]
        ),
        [1577836800.0, 1577836800.0 + 1.5 * DAY, 1577836800.0 + 3 * DAY],
    ],
)
def test_kinds_of_times(times: Any) -> None:
    assert drbo.Samples([1.0, 2.0, 3.0], time=times).time.tolist() == [  # type: ignore[union-attr]
        1577836800.0,
        1577836800.0 + 1.5 * DAY,
        1577836800.0 + 3.0 * DAY,
    ]


def test_bad_times_are_refused() -> None:
    with pytest.raises(ValueError, match="time must be in ascending order, but row 1 is before row 0"):
        drbo.Samples([1.0, 2.0], time=["2020-01-02", "2020-01-01"])
    with pytest.raises(ValueError, match="time must hold one time per row, 2, got 1"):
        drbo.Samples([1.0, 2.0], time=["2020-01-02"])
    with pytest.raises(ValueError, match="row 0, must be a date in ISO form"):
        drbo.Samples([1.0, 2.0], time=["soon", "later"])
    with pytest.raises(ValueError, match="time must not be missing"):
        drbo.Samples([1.0, 2.0], time=[None, "2020-01-01"])
    assert drbo.Samples({"t": [1.0], "day": ["2020-01-01"]}, time="day").names == ("t",)
    assert read_times("x", [0.5]) == [0.5]
    assert [read_duration("x", one) for one in ("2W", datetime.timedelta(days=1), np.timedelta64(3, "h"))] == [
        14 * DAY,
        DAY,
        3 * 3600.0,
    ]


def test_advice_and_rules_agree() -> None:
    """W9: a past with runs and a drift. The text does not advise what would have given too small a radius."""
    rng = np.random.default_rng(3)
    level = np.repeat(3.0 * rng.normal(size=8), 25)
    days = drbo.Samples({"t": level + rng.normal(size=200)})
    wide, blocks = (Calibrated(0.9, block=b, resamples=60).for_samples(days, drbo.Wasserstein()) for b in (1, "auto"))
    assert blocks < 0.7 * wide
    told = drbo.explain_radius(blocks, days, drbo.Wasserstein(), window=25)
    assert len(told.exceeded) > told.by_chance * len(told.windows)
    assert 'needs block="auto"' not in str(told)
    assert "`drbo.backtest_radius` says which rule would have held" in str(told)
    covering = drbo.explain_radius(30.0, days, drbo.Wasserstein(), window=25)
    assert not covering.exceeded
    assert 'needs block="auto"' in str(covering)
