"""The command line as a user meets it."""

import functools
import importlib
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner, Result

import drbo
from drbo import cli, experiments

COMMAND = [sys.executable, "-m", "drbo"]


def call(*arguments: str, cwd: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "120"}
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, cwd=cwd, env=environment, check=False)
    assert done.returncode == code, done.stderr
    return done


def test_help_names_the_commands(tmp_path: Path) -> None:
    out = call("--help", cwd=tmp_path).stdout
    for name in ("show", "report", "demo", "reproduce", "compare", "problems", "completion", "--version"):
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


def test_compare_writes_records_a_figure_and_a_table(tmp_path: Path) -> None:
    small = ("compare", "robos", "--methods", "ucb,DRBO", "--runs", "2", "--rounds", "3", "--out", "o")
    done = call(*small, "--workers", "1", cwd=tmp_path)
    heads, *rows = done.stdout.splitlines()[1:]
    assert heads.split()[:2] == ["problem", "method"]
    assert [row.split()[:2] for row in rows] == [["robos", "UCB"], ["robos", "DRBO"]]
    assert "simulator setting, 2 runs of 3 rounds" in done.stderr
    assert sorted(p.name for p in (tmp_path / "o").iterdir()) == [
        "compare-robos-simulator-drbo.csv",
        "compare-robos-simulator-drbo.json",
        "compare-robos-simulator-ucb.csv",
        "compare-robos-simulator-ucb.json",
        "compare-robos-simulator.pdf",
        "compare-robos-simulator.png",
    ]
    again = json.loads(call(*small, "--json", cwd=tmp_path).stdout)
    assert [(row["method"], row["runs"], row["rounds"]) for row in again] == [("UCB", 2, 3), ("DRBO", 2, 3)]


def test_compare_refuses_what_it_does_not_know() -> None:
    error = run("compare", "robos", "--methods", "drbo,informativ", code=2).output
    assert "did you mean 'informative'" in " ".join(error.split())
    assert "did you mean 'robos'" in run("compare", "robo", code=1).output
    assert (
        "is not for the general setting"
        in run("compare", "robos", "--methods", "informative", "--setting", "general", code=1).output
    )


def test_reproduce_writes_records_figures_and_a_table(tmp_path: Path) -> None:
    done = call("reproduce", "figure2", "--runs", "1", "--rounds", "4", "--workers", "1", "--out", "o", cwd=tmp_path)
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
    again = run("reproduce", "figure2", "--runs", "1", "--rounds", "4", "--out", str(tmp_path / "o"), "--json")
    assert len(json.loads(again.stdout)) == 20  # StableOpt in a simulator twice


@pytest.mark.parametrize(
    ("figure", "options", "name"),
    [("figure1", (), "figure1"), ("dial", ("--ambiguity", "tv"), "dial-tv"), ("sets", (), "sets")],
)
def test_reproduce_the_quick_ones(figure: str, options: tuple[str, ...], name: str, tmp_path: Path) -> None:
    run("reproduce", figure, "--out", str(tmp_path / "o"), *options)
    assert (tmp_path / "o" / f"{name}.png").stat().st_size > 20_000
    assert (tmp_path / "o" / f"{name}.pdf").stat().st_size > 5_000


def test_figure_3_of_ten_days(tmp_path: Path) -> None:
    power = np.random.default_rng(0).uniform(0.0, 900.0, 240).round(1).tolist()
    times = (np.datetime64("2014-12-27T00") + np.arange(240)).astype(str).tolist()
    rows = [f"{time}:00Z,{value}" for time, value in zip(times, power, strict=True)]
    (tmp_path / "wind.csv").write_text("\n".join(["time,power", *rows]))
    options = ("--data", "wind.csv", "--rounds", "3", "--workers", "1", "--runs", "3", "--every", "24")
    check_figure_3(tmp_path, *options, hours=120, runs=3, every=24)


@pytest.mark.slow
def test_figure_3_of_two_weeks(tmp_path: Path) -> None:
    check_figure_3(tmp_path, "--quick", "--rounds", "3", hours=336)


def check_figure_3(tmp_path: Path, *options: str, hours: int, runs: int = 10, every: int = 11) -> None:
    done = call("reproduce", "figure3", *options, "--out", "o", "--json", cwd=tmp_path)
    rows = {row["method"]: row for row in json.loads(done.stdout)}
    assert set(rows) == {"DRBO", "UCB", "StableOpt", "no commitment", "exact DRO"}
    assert rows["exact DRO"]["robust regret"] == 0.0
    assert {row["runs"] for row in rows.values()} == {runs}
    assert rows["DRBO"]["standard error"] >= 0.0
    assert rows["DRBO"]["hours"] * every == pytest.approx(hours, abs=every)
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
    assert "run the command again to continue" in stderr
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
    assert capsys.readouterr().err == "interrupted; finished records are kept, run the command again to continue\n"


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
    assert "did you mean 'figure2'" in flat(run("reproduce", "figur2", code=2).stderr)


def test_wrong_usage() -> None:
    assert "go together" in flat(run("reproduce", "figure2", "--backend", "dask", code=2).stderr)
    for option, given in (("--data", "x.csv"), ("--every", "3")):
        assert f"{option} is for figure3" in flat(run("reproduce", "figure2", option, given, code=2).stderr)
    error = flat(run("reproduce", "figure3", "--ambiguity", "kl", code=2).stderr)
    assert "--ambiguity kl is for figure2, dial and drbo demo" in error
    for option, given in (("--power-column", "x"), ("--time-column", "x"), ("--max-gap", "3")):
        error = flat(run("reproduce", "figure3", option, given, code=2).stderr)
        assert f"{option} needs --data" in error


def test_errors_in_data_name_options_that_exist(tmp_path: Path) -> None:
    data = tmp_path / "bad.csv"
    data.write_text("moment,power\n2014-01-01T00:00Z,1\n2014-01-01T01:00Z,2\n")
    error = flat(run("reproduce", "figure3", "--data", str(data), code=1).stderr)
    assert "cannot tell the --time-column by its name" in error
    assert "time_column" not in error
    assert "--time-column" in run("reproduce", "--help").stdout


def test_bad_data_is_an_error_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("time,power\n2014-01-01T00:00Z,1\n2014-01-01T01:00Z,lots\n")
    error = call("reproduce", "figure3", "--data", "bad.csv", cwd=tmp_path, code=1).stderr
    assert error.startswith("error: ")
    assert "lots" in error
    assert "Traceback" not in error


# --- what is fast enough to run in this process ---------------------------------------------------------------------


def flat(text: str) -> str:
    """Return a message without the box that it stands in and without line breaks."""
    return " ".join(re.sub("[│╭╮╰╯─]", " ", text).split())


def run(*arguments: str, code: int = 0) -> Result:
    done = CliRunner(env={"COLUMNS": "80", "NO_COLOR": "1"}).invoke(cli.app, arguments)
    assert done.exit_code == code, (done.output, done.exception)
    return done


def test_version() -> None:
    assert run("--version").stdout == f"drbo {drbo.__version__}\n"


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, experiments.Plan]]:
    """Replace the figures of one set by a note that they were drawn."""
    made = []

    def figure(name: str) -> Callable[[experiments.Plan], experiments.Output]:
        def draw(plan: experiments.Plan) -> experiments.Output:
            made.append((name, plan))
            return experiments.Output([plan.out / f"{name}.png"], [{"figure": name, "best until": math.inf}])

        return draw

    for name in ("figure2", "dial", "demo"):
        monkeypatch.setattr(experiments, name, figure(name))
    return made


def test_several_figures_in_one_call(drawn: list[tuple[str, experiments.Plan]]) -> None:
    done = run("reproduce", "dial", "Figure2", "dial", "--json")
    assert [name for name, _ in drawn] == ["dial", "figure2"]
    assert json.loads(done.stdout) == {
        "dial": [{"figure": "dial", "best until": None}],
        "figure2": [{"figure": "figure2", "best until": None}],
    }
    assert json.loads(run("reproduce", "dial", "--json").stdout) == [{"figure": "dial", "best until": None}]


def test_names_in_any_case(drawn: list[tuple[str, experiments.Plan]]) -> None:
    run("reproduce", "DIAL", "--ambiguity", "MMD")
    run("reproduce", "dial", "--ambiguity", "Wasserstein", "--backend", "LOKY")
    run("demo", "--ambiguity", "CVaR")
    assert [plan.ambiguity for _, plan in drawn] == ["mmd", "wasserstein", "cvar"]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("drbo demo --ambiguity ", set(cli.SETS)),
        ("drbo demo --ambiguity k", {"kl"}),
        ("drbo compare robos --setting ", set(cli.SETTINGS)),
        ("drbo compare robos --methods drbo,u", {"drbo,ucb"}),
        ("drbo reproduce dial fig", {"figure1", "figure2", "figure3"}),
        ("drbo reproduce figure2 --backend d", {"dask"}),
    ],
)
def test_completion_offers_values(words: str, offered: set[str]) -> None:
    code = "from drbo.cli import app; app(prog_name='drbo')"
    position = str(words.count(" "))
    asked = {"_DRBO_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": position}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **asked})
    assert set(done.stdout.split()) == offered, done.stderr


def test_tables_fit_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of each kind, as wide as they get; no cell is broken."""
    optima = {f"{name} {part}": [0.51] if part == "x" else 0.15723 for name in OPTIMA for part in ("x", "value")}
    problem = {"problem": "three_hump_camel", "actions": 1089, "contexts": 12, "radius": 0.364, **optima}
    monkeypatch.setattr("drbo.experiments.problem_row", lambda _: problem)
    out = run("problems").stdout
    assert max(map(len, out.splitlines())) <= 80
    assert out.splitlines()[1].split() == ["three_hump_camel", "1089", "x", "12", *(["0.16", "(0.51)"] * 4)]
    regret = {
        "problem": "benchmark_1", "setting": "data-driven", "method": "StableOpt", "runs": 50, "rounds": 200,
        "regret": 29.6123, "standard error": 0.25961, "per round, last quarter": 0.14532,
    }  # fmt: skip
    monkeypatch.setattr(experiments, "figure2", lambda _: experiments.Output([], [regret]))
    out = run("reproduce", "figure2").stdout
    assert max(map(len, out.splitlines())) <= 80
    last = "benchmark_1 data-driven StableOpt 50 200 29.61 0.2596 0.1453"
    assert out.splitlines()[-1].split() == last.split()


OPTIMA = ("stochastic", "robust", "worst case", "StableOpt")


# --- runs of one's own ----------------------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    opt = make(ambiguity=drbo.TotalVariation())
    opt.save(tmp_path / "run.json")
    return tmp_path / "run.json"


def make(**more: Any) -> drbo.Optimizer:
    grid, setting = np.linspace(0.0, 1.0, 5), drbo.Simulator(np.full(5, 0.2), 0.1, pick="uncertain")
    surrogate = drbo.GP(drbo.Product(drbo.RBF(0.3), drbo.RBF(0.3)), 0.1)
    opt = drbo.Optimizer(grid, grid, setting=setting, surrogate=surrogate, **more)
    for i in range(4):
        opt.tell(opt.ask(), float(i % 2))
    opt.ask()
    return opt


def test_show(saved: Path) -> None:
    opt = drbo.Optimizer.load(saved)
    before = saved.read_bytes()
    for options in ((), ("--once",)):
        out = run("show", str(saved), *options).stdout
        assert opt.recommend().statement in out
        assert "4 outcomes, 0 failed, 1 pending" in out
        assert "\x1b" not in out
        assert max(map(len, out.splitlines()[1:])) <= 80
    told = json.loads(run("show", str(saved), "--json").stdout)
    assert told["deploy"]["value"] == opt.recommend().value
    assert saved.read_bytes() == before


def test_show_follows_a_file_in_a_terminal(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def watch(path: Path, load: Callable[[], drbo.Optimizer], _: object) -> None:
        seen.append((path, load().n_told))
        raise KeyboardInterrupt

    monkeypatch.setattr("drbo.console.watch", watch)
    monkeypatch.setenv("FORCE_COLOR", "1")
    run("show", str(saved))  # Ctrl-C is no error
    assert seen == [(saved, 4)]


def test_report(saved: Path) -> None:
    done = run("report", str(saved))
    assert "wrote " in done.stderr
    page = saved.with_suffix(".html")
    assert "<title>run</title>" in page.read_text()
    other = saved.parent / "other.html"
    done = run("report", str(saved), "--output", str(other), "--title", "<b>", "--json")
    assert json.loads(done.stdout) == {"report": str(other), "bytes": other.stat().st_size}
    assert "<title>&lt;b&gt;</title>" in other.read_text()


def test_a_report_against_another_run(saved: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_bytes(saved.read_bytes())
    page = tmp_path / "page.html"
    run("report", str(saved), "--against", str(other), "--output", str(page))
    assert "What changed" in page.read_text(encoding="utf-8")
    assert "Both files have the same " in page.read_text(encoding="utf-8")
    assert (
        "must differ from the file"
        in run("report", str(saved), "--against", str(other), "-o", str(other), code=1).stderr
    )
    assert "none.json" in run("report", str(saved), "--against", str(tmp_path / "none.json"), code=1).stderr


def test_reports_and_views_that_cannot_be(saved: Path, tmp_path: Path) -> None:
    assert "give either a FILE" in flat(run("report", code=2).stderr)
    assert "give either a FILE" in flat(run("report", str(saved), "--storage", "sqlite:///x.db", code=2).stderr)
    assert "--study needs --storage" in flat(run("report", str(saved), "--study", "x", code=2).stderr)
    assert "must differ from the file" in run("report", str(saved), "-o", str(saved), code=1).stderr
    for command in ("show", "report"):
        error = run(command, str(tmp_path / "none.json"), code=1).stderr
        assert error.startswith("error: ")
        assert "none.json" in error


def test_files_that_name_classes_of_one_s_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = (
        "import drbo\n\nclass Halves(drbo.TotalVariation):\n    def arguments(self):\n        return {}\n\nvalue = 3\n"
    )
    (tmp_path / "my_sets.py").write_text(f"{source}value = 3\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.syspath_prepend(tmp_path)
    make(ambiguity=importlib.import_module("my_sets").Halves()).save("run.json")
    assert "--class module:Class" in run("show", "run.json", code=1).stderr
    assert "4 outcomes" in run("show", "run.json", "--class", "my_sets:Halves").stdout
    for wrong, said in (("my_sets", "module:Class"), ("my_sets:No", "No"), ("no_such:X", "no_such")):
        assert said in run("show", "run.json", "--class", wrong, code=1).stderr
    assert (
        "value is neither a class nor a function" in run("show", "run.json", "--class", "my_sets:value", code=1).stderr
    )


def test_a_report_of_a_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    optuna = pytest.importorskip("optuna")
    from integrations.weather import make as sampler
    from integrations.weather import objective, study_of

    monkeypatch.chdir(tmp_path)
    storage = "sqlite:///heating.db"
    error = run("report", "--storage", storage, code=1).stderr
    assert error == f"error: --storage {storage}: there is no file heating.db\n"
    assert not (tmp_path / "heating.db").exists()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study_of(sampler(), storage=storage, study_name="heat/ing").optimize(objective, n_trials=4)
    done = run("report", "--storage", storage, "--json")
    assert json.loads(done.stdout)["report"] == "heat_ing.html"
    assert "<title>heat_ing</title>" in (tmp_path / "heat_ing.html").read_text()
    assert "--study none: " in run("report", "--storage", storage, "--study", "none", code=1).stderr
    optuna.create_study(storage=storage, study_name="other")
    assert "--study must be given" in run("report", "--storage", storage, code=1).stderr
    assert "RobustSampler" in run("report", "--storage", storage, "--study", "other", code=1).stderr
    run("report", "--storage", storage, "--study", "heat/ing", "--output", "page.html")
    assert (tmp_path / "page.html").exists()
