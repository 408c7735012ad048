"""The reader of wind data: each defect is an error that names its place, or a repair that is stated and warned of."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from drbo.problems import WindDataError, WindDataWarning, WindSeries, la_haute_borne, read_wind_csv

GOOD = """\
# Attribution: somebody.
time_utc,power_mw
2020-01-01T00:00:00Z,10.0
2020-01-01T01:00:00Z,12.0
2020-01-01T02:00:00Z,8.0
2020-01-01T03:00:00Z,0.0
2020-01-01T04:00:00Z,4.0
"""
TIMES = np.arange("2020-01-01T00", "2020-01-01T05", dtype="datetime64[h]")
POWER = [10.0, 12.0, 8.0, 0.0, 4.0]


def write(folder: Path, text: str) -> Path:
    path = folder / "wind.csv"
    path.write_text(text, encoding="utf-8")
    return path


def repaired(path: Path, message: str, max_gap: int = 24) -> WindSeries:
    """Return a series that needs exactly one kind of repair, after checking that it is stated and warned of once."""
    with pytest.warns(WindDataWarning, match=message) as caught:
        series = read_wind_csv(path, max_gap=max_gap)
    assert len(caught) == len(series.repairs) == 1
    assert caught[0].filename == __file__
    assert series.repairs[0] in str(caught[0].message)
    return series


class TestGoodFiles:
    def test_values_times_and_notes(self, tmp_path: Path) -> None:
        series = read_wind_csv(write(tmp_path, GOOD))
        np.testing.assert_array_equal(series.times, TIMES)
        np.testing.assert_array_equal(series.power, POWER)
        assert series.name == "wind.csv"
        assert series.repairs == ()
        assert series.notes == ("Attribution: somebody.",)

    @pytest.mark.parametrize(
        "change",
        [
            lambda text: "\ufeff" + text,
            lambda text: text.replace(",", ";"),
            lambda text: text.replace(",", "\t"),
            lambda text: text.replace("\n", "\r\n"),
            lambda text: text.replace("\n2", "\n\n2") + "\n\n",
            lambda text: text.replace("time_utc", "Date").replace("power_mw", "DE_wind_generation_actual"),
            lambda text: text.replace("Z,", ","),
            lambda text: text.replace(":00:00Z", "Z"),
            lambda text: text.replace("T0", "T1").replace("Z,", "+10:00,"),
            lambda text: text.replace("\n2020", "\nx,2020").replace("time_utc", "note,time_utc"),
            lambda text: text.replace(",power_mw", ", power_mw ").replace(",1", ", 1"),
        ],
        ids=["bom", "semicolon", "tab", "crlf", "blank", "names", "naive", "short", "offset", "extra", "spaces"],
    )
    def test_the_same_data_written_otherwise(self, tmp_path: Path, change: object) -> None:
        assert callable(change)
        series = read_wind_csv(write(tmp_path, change(GOOD)))
        np.testing.assert_array_equal(series.times, TIMES)
        np.testing.assert_array_equal(series.power, POWER)

    def test_columns_given_by_name(self, tmp_path: Path) -> None:
        text = "a,b,c\n" + "".join(f"{hour},1.0,{p}\n" for hour, p in zip(TIMES, POWER, strict=True))
        series = read_wind_csv(write(tmp_path, text), time_column="a", power_column="c")
        np.testing.assert_array_equal(series.power, POWER)

    def test_utc_goes_before_local_time(self, tmp_path: Path) -> None:
        text = "cet_cest_timestamp,utc_timestamp,power\n2020-01-01T01,2020-01-01T00,1.0\n"
        assert read_wind_csv(write(tmp_path, text)).times[0] == np.datetime64("2020-01-01T00")

    def test_only_the_years_wanted_are_looked_at(self, tmp_path: Path) -> None:
        text = GOOD + "2021-01-01T00:00:00Z,broken\n"
        assert len(read_wind_csv(write(tmp_path, text), years=[2020])) == 5
        with pytest.raises(WindDataError, match="line 8, column 'power_mw': 'broken' is not a number"):
            read_wind_csv(tmp_path / "wind.csv")


class TestRepairs:
    def test_rows_out_of_order_are_sorted(self, tmp_path: Path) -> None:
        lines = GOOD.splitlines(keepends=True)
        lines[3], lines[5] = lines[5], lines[3]
        series = repaired(write(tmp_path, "".join(lines)), r"out of order \(first at line 5\)")
        np.testing.assert_array_equal(series.power, POWER)

    def test_a_repeated_row_is_dropped(self, tmp_path: Path) -> None:
        row = "2020-01-01T01:00:00Z,12.0\n"
        series = repaired(write(tmp_path, GOOD.replace(row, 2 * row)), r"1 row\(s\) .* dropped \(first .*T01, line 5\)")
        np.testing.assert_array_equal(series.power, POWER)

    @pytest.mark.parametrize("first", ["12.0", ""])
    def test_an_hour_repeated_without_a_value_keeps_the_value(self, tmp_path: Path, first: str) -> None:
        second = {"12.0": "", "": "12.0"}[first]
        rows = f"2020-01-01T01:00:00Z,{first}\n2020-01-01T01:00:00Z,{second}\n"
        series = repaired(write(tmp_path, GOOD.replace("2020-01-01T01:00:00Z,12.0\n", rows)), "repeat an hour")
        np.testing.assert_array_equal(series.power, POWER)

    @pytest.mark.parametrize("cell", ["", "nan", "NaN", "N/A", "null"])
    def test_an_empty_cell_is_interpolated(self, tmp_path: Path, cell: str) -> None:
        text = GOOD.replace(",12.0", f",{cell}")
        series = repaired(write(tmp_path, text), r"1 missing hour\(s\) in 1 gap\(s\) .* \(first after 2020-01-01T00")
        np.testing.assert_array_equal(series.power, [10.0, 9.0, 8.0, 0.0, 4.0])

    def test_an_absent_hour_is_interpolated(self, tmp_path: Path) -> None:
        text = GOOD.replace("2020-01-01T01:00:00Z,12.0\n", "")
        series = repaired(write(tmp_path, text), r"1 missing hour\(s\)", max_gap=1)
        np.testing.assert_array_equal(series.times, TIMES)
        np.testing.assert_array_equal(series.power, [10.0, 9.0, 8.0, 0.0, 4.0])

    def test_missing_values_at_the_ends_are_cut_off(self, tmp_path: Path) -> None:
        text = GOOD.replace(",10.0", ",").replace(",4.0", ",nan")
        series = repaired(write(tmp_path, text), r"2 row\(s\) without a value at the ends")
        np.testing.assert_array_equal(series.power, POWER[1:-1])

    def test_small_negative_values_are_set_to_zero(self, tmp_path: Path) -> None:
        text = GOOD.replace(",0.0", ",-0.5")
        series = repaired(write(tmp_path, text), r"1 negative value\(s\) were set to 0 \(lowest -0.5, line 6\)")
        np.testing.assert_array_equal(series.power, POWER)

    def test_several_repairs_come_in_one_warning(self, tmp_path: Path) -> None:
        text = GOOD.replace(",0.0", ",-0.5").replace(",12.0", ",")
        with pytest.warns(WindDataWarning) as caught:
            series = read_wind_csv(write(tmp_path, text))
        assert len(caught) == 1
        assert len(series.repairs) == 2
        assert all(repair in str(caught[0].message) for repair in series.repairs)


class TestErrors:
    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            (",12.0", ",twelve", r"line 4, column 'power_mw': 'twelve' is not a number"),
            (",12.0", ",inf", r"line 4, column 'power_mw': 'inf' is not finite"),
            (",12.0", ";12.0", r"line 4 has 1 cells, the header has 2"),
            ("T01:00:00Z", "T01:10:00Z", r"line 4, column 'time_utc': .* is not a full hour"),
            ("2020-01-01T01:00:00Z", "yesterday", r"line 4, column 'time_utc': 'yesterday' is not a time"),
            ("T01:00:00Z", "T01:00:00", r"line 4, column 'time_utc': times with and without an offset"),
            ("T02:00:00Z", "T01:00:00Z", r"lines 4 and 5 give 12.0 and 8.0 for the same hour, 2020-01-01T01"),
            (",0.0", ",-3.0", r"line 6, column 'power_mw': -3.0 is negative beyond 5% of the maximum, 12.0"),
            ("01-01T04", "01-03T04", r"48 hours are missing after 2020-01-01T03 \(line 6\), more than max_gap = 24"),
            ("power_mw", "load", r"cannot tell the power_column by its name \(none fits\).*'time_utc', 'load'"),
            ("time_utc", "moment", r"cannot tell the time_column by its name \(none fits\).*'moment', 'power_mw'"),
            ("power_mw", "power_mw,wind_mw", r"columns 'power_mw', 'wind_mw' could all be meant"),
        ],
    )
    def test_what_is_wrong_and_where(self, tmp_path: Path, old: str, new: str, message: str) -> None:
        assert old in GOOD
        with pytest.raises(WindDataError, match=f"wind.csv: .*{message}"):
            read_wind_csv(write(tmp_path, GOOD.replace(old, new, 1)))

    def test_a_longer_gap_may_be_allowed(self, tmp_path: Path) -> None:
        with pytest.warns(WindDataWarning, match="longest 48 h"):
            assert len(read_wind_csv(write(tmp_path, GOOD.replace("01-01T04", "01-03T04")), max_gap=48)) == 53

    def test_an_unknown_column_suggests_the_nearest(self, tmp_path: Path) -> None:
        with pytest.raises(WindDataError, match=r"no column is called 'power_kw'; did you mean 'power_mw'\?"):
            read_wind_csv(write(tmp_path, GOOD), power_column="power_kw")
        with pytest.raises(WindDataError, match=r"no column is called 'zzz'\. Columns: 'time_utc', 'power_mw'"):
            read_wind_csv(tmp_path / "wind.csv", time_column="zzz")

    def test_a_column_that_comes_twice_cannot_be_chosen(self, tmp_path: Path) -> None:
        with pytest.raises(WindDataError, match="more than one column is called 'power'"):
            read_wind_csv(write(tmp_path, "time,power,power\n2020-01-01T00,1,2\n"), power_column="power")

    @pytest.mark.parametrize("text", ["", "# note\n", "time,power\n"])
    def test_no_rows(self, tmp_path: Path, text: str) -> None:
        with pytest.raises(WindDataError, match="no rows below a header"):
            read_wind_csv(write(tmp_path, text))

    def test_no_number_in_the_column(self, tmp_path: Path) -> None:
        with pytest.raises(WindDataError, match="column 'power' holds no number"):
            read_wind_csv(write(tmp_path, "time,power\n2020-01-01T00,\n2020-01-01T01,nan\n"))

    @pytest.mark.parametrize("power", ["0", "-1"])
    def test_nothing_above_zero(self, tmp_path: Path, power: str) -> None:
        with pytest.raises(WindDataError, match=r"zero in every hour|negative beyond"):
            read_wind_csv(write(tmp_path, f"time,power\n2020-01-01T00,{power}\n2020-01-01T01,{power}\n"))

    def test_no_row_of_the_years(self, tmp_path: Path) -> None:
        with pytest.raises(WindDataError, match=r"no row of the years \[2019\]"):
            read_wind_csv(write(tmp_path, GOOD), years=[2019])

    def test_a_binary_file(self, tmp_path: Path) -> None:
        (tmp_path / "wind.xlsx").write_bytes(b"PK\x03\x04\xff\xfe\x80")
        with pytest.raises(WindDataError, match=r"wind.xlsx: not a text file in UTF-8 .*byte 4"):
            read_wind_csv(tmp_path / "wind.xlsx")

    def test_no_such_file(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            read_wind_csv(tmp_path / "absent.csv")


class TestLaHauteBorne:
    def test_the_facts_of_the_source(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            series = la_haute_borne()
        assert len(series) == 17_520
        assert str(series.times[0]) == "2014-01-01T01"
        assert str(series.times[-1]) == "2016-01-01T00"
        assert series.maximum == 8198.1
        assert series.repairs == ()
        # 1413.6 before negative hours were set to zero.
        assert series.power.mean() == pytest.approx(1413.6, abs=2.0)

    def test_the_attribution_goes_with_the_data(self) -> None:
        notes = " ".join(la_haute_borne().notes)
        for words in ("ENGIE", "Licence Ouverte / Open Licence 2.0", "opendata-renewables.engie.com", "Changes"):
            assert words in notes
