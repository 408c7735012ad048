"""What a past shows of itself: heavy tails and days that resemble each other, and what rules do about them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy import stats

import drbo
from drbo.radius import Bootstrap, Calibrated
from drbo.rounds.past import Tail, tail

LEVELS = (np.arange(200) + 0.5) / 200
SHUFFLED = np.random.default_rng(0).permutation(200)
NORMAL, LOGNORMAL = (stats.norm.ppf(LEVELS)[SHUFFLED], np.exp(stats.norm.ppf(LEVELS))[SHUFFLED])
HEAVY = stats.t.ppf(LEVELS, 0.9)[SHUFFLED]
RULES = (Bootstrap(0.1, 20), Calibrated(0.9, resamples=20))


def of(days: Any, order: float = 1.0) -> Tail:
    placed = drbo.Wasserstein(order=order).on(np.asarray(days))
    found = tail(np.arange(len(days)), placed, len(days))
    assert found is not None
    return found


@pytest.mark.parametrize("order", [1.0, 2.0])
def test_the_index_is_the_literal_formula(order: float) -> None:
    days = np.random.default_rng(1).standard_t(2.0, 101)
    apart = np.abs(days[:, None] - days)
    far = np.sort(apart[np.argmin((apart**order).sum(axis=1))])[::-1]
    k = 10
    assert of(days, order).index == pytest.approx(order * np.mean(np.log(far[:k] / far[k])), rel=1e-12)
    assert of(days, order).limit == pytest.approx(0.5 * stats.gamma.ppf(0.95, k) / k, rel=1e-10)


def test_false_alarms_at_the_border_are_five_in_a_hundred() -> None:
    """Distances from the centre with a Pareto tail of index 1/2: variance is just infinite."""
    rng, runs = np.random.default_rng(2), 600
    alarms = 0
    for _ in range(runs):
        near, far = rng.uniform(0.1, 1.0, 90), rng.random(10) ** -0.5  # a power law beyond the threshold of 1
        days = np.concatenate([near, [1.0], far]) * rng.choice([-1.0, 1.0], 101)
        alarms += of(np.append(days, np.zeros(9))).heavy  # zeros keep the centre at zero
    assert abs(alarms / runs - 0.05) < 4.0 * np.sqrt(0.05 * 0.95 / runs)


def test_light_tails_pass_and_heavy_ones_do_not() -> None:
    assert not of(NORMAL).heavy
    assert not of(NORMAL, 2.0).heavy
    assert not of(LOGNORMAL).heavy
    assert of(LOGNORMAL, 2.0).heavy  # the fourth moment counts
    assert of(HEAVY).heavy


def test_few_days_and_days_alike_have_no_tail() -> None:
    placed = drbo.Wasserstein().on(np.arange(39.0))
    assert tail(np.arange(39), placed, 39) is None
    assert tail(np.zeros(100, dtype=np.intp), placed, 39) is None
    assert tail(np.zeros(0, dtype=np.intp), placed, 39) is None


@pytest.mark.parametrize("rule", RULES)
def test_heavy_tails_are_refused_where_the_rule_is_given(rule: Any) -> None:
    days = drbo.Samples(HEAVY)
    with pytest.raises(ValueError, match=r"holds less often than it says .* a finite variance is refuted"):
        rule.for_samples(days, drbo.Wasserstein())
    with pytest.raises(ValueError, match=r"With unfit='warn' the rule only warns"):
        drbo.Optimizer([0.0, 1.0], days, ambiguity=drbo.Wasserstein(), setting=drbo.Simulator(radius=rule))
    with pytest.warns(UserWarning, match="a finite variance is refuted"):
        assert np.isfinite(rule.lenient.for_samples(days, drbo.Wasserstein()))


def test_what_does_not_depend_on_the_tail_is_accepted() -> None:
    days = drbo.Samples(HEAVY)
    for rule in RULES:
        assert rule.for_samples(days, drbo.MMD()) < 1.0
        assert np.isfinite(rule.for_samples(drbo.Samples(NORMAL), drbo.Wasserstein()))
    assert np.isfinite(Calibrated(0.9, target="window").for_samples(days, drbo.Wasserstein()))


def test_bounds_of_an_intersection_do_not_hide_the_tail() -> None:
    both = drbo.Intersection(drbo.Wasserstein(), drbo.Moments(x=5.0))
    with pytest.raises(ValueError, match="a finite variance is refuted"):
        RULES[0].for_samples(drbo.Samples(HEAVY, names=["x"]), both)


def test_days_that_resemble_the_next_are_refused_if_their_order_is_that_of_time() -> None:
    days = np.cumsum(np.random.default_rng(3).normal(size=100)) * 0.3
    timed = drbo.Samples(days, time=np.datetime64("2020-01-01") + 45 * np.arange(100))
    with pytest.raises(ValueError, match=r"one day resembles the next.*block='auto'"):
        Bootstrap(0.1, 20).for_samples(timed, drbo.Wasserstein())
    wide = Bootstrap(0.1, 20, block="auto").for_samples(timed, drbo.Wasserstein())
    assert wide > Bootstrap(0.1, 20).for_samples(drbo.Samples(days), drbo.Wasserstein())


@pytest.mark.parametrize("persistence", [0.0, 0.1, 0.25, 0.4, 0.7])
def test_the_text_on_a_radius_advises_blocks_where_the_rule_refuses(persistence: float) -> None:
    rng, days = np.random.default_rng(5), [0.0]
    for error in rng.normal(size=119):
        days.append(persistence * days[-1] + error)
    timed = drbo.Samples(days, time=np.datetime64("2020-01-01") + 45 * np.arange(120))
    told = drbo.explain_radius(0.3, timed, drbo.Wasserstein())
    refused = False
    try:
        Bootstrap(0.1, 20).for_samples(timed, drbo.Wasserstein())
    except ValueError:
        refused = True
    assert (told.block > 1) == refused == ("One day resembles the next" in str(told))


def test_a_backtest_judges_rules_that_would_be_refused() -> None:
    found = drbo.backtest_radius(drbo.Samples(HEAVY), drbo.Wasserstein(), RULES[0], horizon=40)
    assert found.answers.tolist() == [3]


def test_a_rule_of_an_older_file_warns_in_place_of_refusing() -> None:
    assert Bootstrap.from_arguments(delta=0.2) == Bootstrap(0.2, unfit="warn")
    assert Calibrated.from_arguments(unfit="refuse", quantile=0.8) == Calibrated(0.8)
    with pytest.raises(ValueError, match="unfit must be"):
        Bootstrap(unfit="ignore")  # type: ignore[arg-type]


def test_listed_contexts_have_no_tail() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drbo.Optimizer(
            [0.0, 1.0],
            [1.0, 10.0, 1e3, 1e6],
            ambiguity=drbo.Wasserstein(),
            setting=drbo.DataDriven(radius=Bootstrap(0.1, 20)),
        )
