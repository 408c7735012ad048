"""The command line as a user meets it."""

import functools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from drbo import cli

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
    assert rows[0]["robust x"] == [pytest.approx(0.49, abs=0.01)]
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
    assert [line.split()[0] for line in done.stderr.splitlines()] == ["wrote", "wrote", "wrote", "figure2:"]
    assert "\x1b" not in done.stdout + done.stderr
    assert "wrote o/figure2.png" in done.stderr
    assert json.loads((tmp_path / "o" / "figure2.json").read_text())["rounds"] == 4
    again = call("reproduce", "figure2", "--runs", "1", "--rounds", "4", "--out", "o", "--json", cwd=tmp_path)
    assert len(json.loads(again.stdout)) == 18


@pytest.mark.parametrize(
    ("figure", "options", "name"),
    [("figure1", (), "figure1"), ("dial", ("--ambiguity", "tv"), "dial-tv"), ("sets", (), "sets")],
)
def test_reproduce_the_quick_ones(figure: str, options: tuple[str, ...], name: str, tmp_path: Path) -> None:
    call("reproduce", figure, "--out", "o", *options, cwd=tmp_path)
    assert (tmp_path / "o" / f"{name}.png").stat().st_size > 20_000
    assert (tmp_path / "o" / f"{name}.pdf").stat().st_size > 5_000


def test_figure_3_at_small_size(tmp_path: Path) -> None:
    """Two weeks of wind need a minute; a day's worth of rounds shows that the command works."""
    done = call("reproduce", "figure3", "--quick", "--rounds", "3", "--out", "o", "--json", cwd=tmp_path)
    rows = {row["method"]: row for row in json.loads(done.stdout)}
    assert set(rows) == {"DRBO", "UCB", "StableOpt", "no commitment", "exact DRO"}
    assert rows["exact DRO"]["robust regret"] == 0.0
    assert (tmp_path / "o" / "figure3.png").stat().st_size > 20_000


def test_an_interrupt_leaves_the_finished_records(tmp_path: Path) -> None:
    command = [*COMMAND, "reproduce", "figure2", "--runs", "50", "--rounds", "60", "--out", "o", "--workers", "1"]
    # A shell's background jobs, as some CI runs tests in, ignore SIGINT, and so would their children.
    listen = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, preexec_fn=listen)
    deadline = time.monotonic() + 60
    parts = tmp_path / "o" / "figure2.parts"
    while time.monotonic() < deadline and (not parts.is_dir() or len(list(parts.glob("*.csv"))) < 3):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert "call again to go on" in stderr
    lines = (tmp_path / "o" / "figure2.csv").read_text().splitlines()
    assert (len(lines) - 1) % 60 == 0
    assert len(lines) > 3 * 60
    assert not list((tmp_path / "o").rglob("*.tmp"))


def as_a_cause() -> None:
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt as interrupt:
        raise SystemError("CPUDispatcher returned a result with an exception set") from interrupt


def as_a_context() -> None:
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        raise TypeError("ufunc 'add' did not contain a loop")  # noqa: B904


def two_errors_deep() -> None:
    try:
        as_a_context()
    except TypeError as error:
        raise ValueError("the worst case was not found") from error


def hidden_from_the_traceback() -> None:
    try:
        as_a_cause()
    except SystemError:
        raise ValueError("the worst case was not found") from None


def by_itself() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "surface",
    [by_itself, as_a_cause, as_a_context, two_errors_deep, hidden_from_the_traceback],
    ids=lambda f: f.__name__,
)
def test_an_interrupt_that_surfaces_as_another_error(
    surface: Callable[[], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("drbo.experiments.problem_row", lambda _: surface())
    with pytest.raises(typer.Exit) as caught:
        cli.problems()
    assert caught.value.exit_code == 130
    assert capsys.readouterr().err == "interrupted; finished records are kept, call again to go on\n"


@pytest.mark.parametrize("kind", [SystemError, AssertionError])
def test_an_error_of_our_own_is_no_interrupt(kind: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake in drbo shows its traceback."""

    def fail(_: object) -> None:
        raise kind("a mistake")

    monkeypatch.setattr("drbo.experiments.problem_row", fail)
    with pytest.raises(kind, match="a mistake"):
        cli.problems()


def test_an_error_that_is_its_own_context_ends_the_walk(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: object) -> None:
        one, two = ValueError("one"), ValueError("two")
        one.__cause__, two.__cause__ = two, one
        raise one

    monkeypatch.setattr("drbo.experiments.problem_row", fail)
    with pytest.raises(typer.Exit) as caught:
        cli.problems()
    assert caught.value.exit_code == 1
    assert capsys.readouterr().err == "error: one\n"


def test_an_unknown_name_suggests_the_nearest(tmp_path: Path) -> None:
    assert "did you mean 'wasserstein'" in call("demo", "--ambiguity", "waserstein", cwd=tmp_path, code=2).stderr
    assert "did you mean 'figure2'" in call("reproduce", "figur2", cwd=tmp_path, code=2).stderr


def test_wrong_usage(tmp_path: Path) -> None:
    assert "go together" in call("reproduce", "figure2", "--backend", "dask", cwd=tmp_path, code=2).stderr
    assert "--data is for figure3" in call("reproduce", "figure2", "--data", "x.csv", cwd=tmp_path, code=2).stderr
    error = call("reproduce", "figure3", "--ambiguity", "kl", cwd=tmp_path, code=2).stderr
    assert "--ambiguity kl is for figure2, dial and drbo demo" in error
    assert "--column names a column" in call("reproduce", "figure3", "--column", "x", cwd=tmp_path, code=2).stderr


def test_bad_data_is_an_error_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("time,power\n2014-01-01T00:00Z,1\n2014-01-01T01:00Z,lots\n")
    error = call("reproduce", "figure3", "--data", "bad.csv", cwd=tmp_path, code=1).stderr
    assert error.startswith("error: ")
    assert "lots" in error
    assert "Traceback" not in error
