"""The wind problem: revenue, windows, and the reference sums of shared/data/README.md on two series."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from drbo.problems import (
    WindDataError,
    WindSeries,
    la_haute_borne,
    nearest_context,
    read_wind_csv,
    revenue,
    wind,
    window_distributions,
    windows,
)
from drbo.validation import FloatArray

DENMARK = Path(__file__).parents[3] / "shared/data/wind_dk_2013_2014.csv"
GRID = np.linspace(0.0, 1.0, 50)[:, None]


def sums(series: WindSeries) -> list[float]:
    """Return the year's revenue of five ways to commit: 0, minimum, 0.153 quantile, last value, and clairvoyance."""
    past, following = windows(series.normalised())
    quantile = np.quantile(past, 0.153, axis=1, method="inverted_cdf")
    ways = (np.zeros_like(following), past.min(axis=1), quantile, past[:, -1], following)
    return [float(revenue(x, following).sum()) for x in ways]


class TestReferenceSums:
    @pytest.mark.parametrize(
        ("year", "expected"),
        [(2014, [139.3, 250.3, 178.0, 297.6, 1392.6]), (2015, [164.3, 328.2, 210.8, 473.2, 1642.7])],
    )
    def test_la_haute_borne(self, year: int, expected: list[float]) -> None:
        assert sums(la_haute_borne().year(year)) == pytest.approx(expected, abs=0.0501)

    @pytest.mark.skipif(not DENMARK.exists(), reason=f"{DENMARK} is not part of the project")
    @pytest.mark.parametrize(
        ("year", "expected"),
        [(2013, [256.0, 950.7, 624.9, 2047.2, 2559.8]), (2014, [291.9, 1310.8, 947.7, 2391.9, 2918.8])],
    )
    def test_denmark(self, year: int, expected: list[float]) -> None:
        assert sums(read_wind_csv(DENMARK).year(year)) == pytest.approx(expected, abs=0.0501)


class TestRevenue:
    def test_the_papers_formula(self) -> None:
        assert float(revenue(np.array(0.3), np.array(0.5))) == pytest.approx(0.1 * 0.2 + 0.3)
        assert float(revenue(np.array(0.5), np.array(0.3))) == pytest.approx(0.3 - 5.0 * 0.2)
        assert float(revenue(np.array(0.4), np.array(0.4))) == pytest.approx(0.4)

    def test_the_best_commitment_is_the_153_quantile(self) -> None:
        window = np.random.default_rng(0).random(48)
        means = [float(revenue(x, window).mean()) for x in window]
        assert window[np.argmax(means)] == np.quantile(window, 0.9 / 5.9, method="inverted_cdf")


class TestWindows:
    def test_each_window_ends_before_the_hour_that_it_serves(self) -> None:
        past, following = windows(np.arange(6.0), hours=4)
        np.testing.assert_array_equal(past, [[0, 1, 2, 3], [1, 2, 3, 4]])
        np.testing.assert_array_equal(following, [4, 5])

    @pytest.mark.parametrize("hours", [0, 6, 7])
    def test_impossible_lengths(self, hours: int) -> None:
        with pytest.raises(ValueError, match="hours must be at least 1 and less than the 6 hours"):
            windows(np.arange(6.0), hours)

    def test_values_go_to_the_nearest_context(self) -> None:
        contexts = np.array([[0.0], [0.5], [1.0]])
        values = np.array([-0.1, 0.0, 0.24, 0.25, 0.26, 0.74, 0.76, 1.0, 1.2])
        np.testing.assert_array_equal(nearest_context(values, contexts), [0, 0, 0, 0, 1, 1, 2, 2, 2])
        dense = np.random.default_rng(0).random(1000)
        np.testing.assert_array_equal(nearest_context(dense, GRID), np.abs(dense - GRID).argmin(axis=0))

    def test_a_windows_distribution_counts_its_values(self) -> None:
        contexts = np.array([[0.0], [0.5], [1.0]])
        past = np.array([[0.1, 0.1, 0.6, 0.9], [0.5, 0.5, 0.5, 0.5]])
        np.testing.assert_array_equal(window_distributions(past, contexts), [[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]])
        np.testing.assert_array_equal(window_distributions(past[0], contexts), [0.5, 0.25, 0.25])


class TestProblem:
    def test_the_three_solutions_differ_at_the_default_hour(self) -> None:
        problem = wind()
        chosen = {
            float(optimum.action[0])
            for optimum in (problem.stochastic_optimum, problem.robust_optimum, problem.worst_case_optimum)
        }
        assert len(chosen) == 3
        assert problem.robust_optimum.action[0] < problem.stochastic_optimum.action[0]

    def test_reference_and_truth_are_the_window_and_the_hour(self) -> None:
        series = la_haute_borne().year(2014)
        problem = wind(series, "2014-03-01T12")
        at = int(np.flatnonzero(series.times == np.datetime64("2014-03-01T12"))[0])
        power = series.power / series.power.max()
        counts: FloatArray = np.zeros(50)
        for value in power[at - 48 : at]:
            counts[np.abs(GRID[:, 0] - value).argmin()] += 1.0 / 48.0
        np.testing.assert_allclose(problem.reference, counts, atol=1e-12)
        truth = np.flatnonzero(problem.true_distribution)
        assert truth.tolist() == [np.abs(GRID[:, 0] - power[at]).argmin()]
        assert "2014-03-01T12Z" in problem.description
        np.testing.assert_array_equal(wind(series, "2014-03-01T12Z").reference, problem.reference)

    def test_values_are_the_revenue(self) -> None:
        problem = wind(size=7)
        np.testing.assert_array_equal(problem.values, revenue(problem.actions, problem.contexts.T))

    def test_the_first_and_the_last_hour_possible(self) -> None:
        series = la_haute_borne().year(2014)
        assert wind(series).description == wind(series, "2014-01-03T01").description
        assert "2014-12-31T23Z" in wind(series, "2014-12-31T23").description
        for outside in ("2014-01-03T00", "2015-01-01T00"):
            with pytest.raises(WindDataError, match="time must be from 2014-01-03T01 to 2014-12-31T23"):
                wind(series, outside)
