"""The command line as a user meets it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "drbo"]


def call(*arguments: str, cwd: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "120"}
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, cwd=cwd, env=environment, check=False)
    assert done.returncode == code, done.stderr
    return done


def test_help_names_the_commands(tmp_path: Path) -> None:
    out = call("--help", cwd=tmp_path).stdout
    for name in ("demo", "reproduce", "problems", "completion"):
        assert name in out


def test_help_loads_nothing_heavy() -> None:
    code = "import sys, drbo.cli; print([m for m in ('numba', 'scipy', 'matplotlib', 'numpy') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_problems_as_json(tmp_path: Path) -> None:
    done = call("problems", "--json", cwd=tmp_path)
    rows = json.loads(done.stdout)
    assert [row["problem"] for row in rows[:3]] == ["benchmark_1", "benchmark_2", "wind"]
    assert "\x1b" not in done.stdout + done.stderr


def test_reproduce_writes_records_figures_and_a_table(tmp_path: Path) -> None:
    done = call("reproduce", "figure2", "--runs", "1", "--rounds", "4", "--workers", "2", "--out", "o", cwd=tmp_path)
    assert sorted(p.name for p in (tmp_path / "o").iterdir()) == [
        "figure2.csv",
        "figure2.json",
        "figure2.pdf",
        "figure2.png",
    ]
    assert "StableOpt" in done.stdout
    assert "wrote o/figure2.png" in done.stderr
    assert json.loads((tmp_path / "o" / "figure2.json").read_text())["rounds"] == 4
    again = call("reproduce", "figure2", "--runs", "1", "--rounds", "4", "--out", "o", "--json", cwd=tmp_path)
    assert len(json.loads(again.stdout)) == 18


@pytest.mark.parametrize("figure", ["figure1", "dial"])
def test_reproduce_the_quick_ones(figure: str, tmp_path: Path) -> None:
    call("reproduce", figure, "--out", "o", cwd=tmp_path)
    assert (tmp_path / "o" / f"{figure}.png").stat().st_size > 20_000
    assert (tmp_path / "o" / f"{figure}.pdf").stat().st_size > 5_000


def test_an_unknown_name_suggests_the_nearest(tmp_path: Path) -> None:
    assert "did you mean 'figure2'" in call("reproduce", "figur2", cwd=tmp_path, code=2).stderr


def test_wrong_usage(tmp_path: Path) -> None:
    assert "go together" in call("reproduce", "figure2", "--backend", "dask", cwd=tmp_path, code=2).stderr
    assert "--column names a column" in call("reproduce", "figure3", "--column", "x", cwd=tmp_path, code=2).stderr


def test_bad_data_is_an_error_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("time,power\n2014-01-01T00:00Z,1\n2014-01-01T01:00Z,lots\n")
    error = call("reproduce", "figure3", "--data", "bad.csv", cwd=tmp_path, code=1).stderr
    assert error.startswith("error: ")
    assert "lots" in error
    assert "Traceback" not in error
