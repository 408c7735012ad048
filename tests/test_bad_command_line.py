"""Every option of every command refuses what makes no sense: one line that names it, and no file is made."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
import typer
from typer.testing import CliRunner

import drbo
from drbo.cli import app

NO_WHOLE_NUMBER = ("junk", "0.5", "", "nan")
GOOD = {
    "show": ("run.drbo", "--once"),
    "report": ("run.drbo",),
    "demo": (),
    "reproduce": ("figure3",),
    "compare": ("robos",),
    "problems": (),
}
"""A call of each command that would be right."""
NO_FILES = (("absent", "absent"), ("folder", "folder"), ("text.txt", "text.txt"), ("half.drbo", "half.drbo"))
CLASSES = (
    ("junk", "--class must be module:Class"),
    (":Set", "--class must be module:Class"),
    ("no_such_module:Set", "no_such_module"),
    ("math:NoSuchClass", "NoSuchClass"),
    ("math:sqrt", "sqrt is neither a class nor a function"),
)
OUT = (("text.txt", "--out"), ("run.drbo", "--out"))
SETS = (("junk", "unknown ambiguity set 'junk'"), ("", "unknown ambiguity set ''"))
BACKEND = (("junk", "--backend"), ("dask", "--backend dask and --scheduler ADDRESS go together"))
SCHEDULER = (("tcp://nowhere:1", "--backend dask and --scheduler ADDRESS go together"),)
CSV = "--data series.csv "


def numbers(option: str, least: int) -> tuple[tuple[str, str], ...]:
    """Return what an option that takes a whole number refuses."""
    return tuple((value, option) for value in (*NO_WHOLE_NUMBER, str(least - 1)))


ROWS: dict[tuple[str, str], tuple[tuple[str, str], ...]] = {
    ("show", "file"): NO_FILES,
    ("show", "--class"): CLASSES,
    ("report", "file"): NO_FILES,
    ("report", "--output"): (
        ("folder", "folder could not be written: Is a directory"),
        ("text.txt/page.html", "text.txt/page.html could not be written"),
        ("run.drbo", "--output must differ from the file"),
    ),
    ("report", "--storage"): (
        ("junk", "--storage junk cannot be read"),
        ("sqlite:///absent.db", "there is no file absent.db"),
        ("sqlite:///text.txt", "--storage sqlite:///text.txt cannot be read"),
        ("nosuchdialect://host/db", "--storage nosuchdialect://host/db cannot be read"),
    ),
    ("report", "--study"): (("junk", "--study"), ("--storage sqlite:///study.db --study junk", "--study junk")),
    ("report", "--against"): (
        ("absent.drbo", "absent.drbo"),
        ("text.txt", "text.txt"),
        ("folder", "folder"),
    ),
    ("report", "--title"): (("--storage sqlite:///study.db --title x run.drbo", "give either a FILE"),),
    ("report", "--class"): CLASSES,
    ("demo", "--out"): OUT,
    ("demo", "--seed"): numbers("--seed", 0),
    ("demo", "--workers"): numbers("--workers", 0),
    ("demo", "--ambiguity"): SETS,
    ("reproduce", "figures"): (("junk", "unknown figure 'junk'"), ("figure2 figur3", "did you mean 'figure3'")),
    ("reproduce", "--runs"): numbers("--runs", 1),
    ("reproduce", "--rounds"): numbers("--rounds", 1),
    ("reproduce", "--seed"): numbers("--seed", 0),
    ("reproduce", "--workers"): numbers("--workers", 0),
    ("reproduce", "--out"): OUT,
    ("reproduce", "--data"): (
        ("absent.csv", "absent.csv"),
        ("folder", "folder"),
        ("text.txt", "text.txt"),
        ("run.drbo", "run.drbo"),
    ),
    ("reproduce", "--time-column"): (
        ("time", "--time-column needs --data"),
        (f"{CSV}--time-column junk", "no column is called 'junk'"),
        (f"{CSV}--time-column power", "power"),
    ),
    ("reproduce", "--power-column"): (
        ("power", "--power-column needs --data"),
        (f"{CSV}--power-column junk", "no column is called 'junk'"),
        (f"{CSV}--power-column time", "time"),
    ),
    ("reproduce", "--max-gap"): (
        ("3", "--max-gap needs --data"),
        *numbers("--max-gap", 0),
    ),
    ("reproduce", "--every"): numbers("--every", 1),
    ("reproduce", "--ambiguity"): (*SETS, ("kl", "figure3 are about the paper's MMD ball")),
    ("reproduce", "--backend"): BACKEND,
    ("reproduce", "--scheduler"): SCHEDULER,
    ("compare", "names"): (("junk", "unknown problem 'junk'"), ("robos junk", "unknown problem 'junk'")),
    ("compare", "--methods"): (
        ("junk", "unknown method 'junk'"),
        ("drbo,", "unknown method ''"),
        ("", "unknown method ''"),
        ("drbo;ucb", "unknown method 'drbo;ucb'"),
    ),
    ("compare", "--setting"): (("junk", "unknown setting 'junk'"), ("", "unknown setting ''")),
    ("compare", "--runs"): numbers("--runs", 1),
    ("compare", "--rounds"): numbers("--rounds", 1),
    ("compare", "--seed"): numbers("--seed", 0),
    ("compare", "--workers"): numbers("--workers", 0),
    ("compare", "--out"): OUT,
    ("compare", "--ambiguity"): SETS,
    ("compare", "--backend"): BACKEND,
    ("compare", "--scheduler"): SCHEDULER,
}
"""Of every command and option, values and a part of what is said; a text with spaces is a line of its own."""


def commands() -> dict[str, Any]:
    """Return the commands that the parser knows."""
    return {"": typer.main.get_command(app), **typer.main.get_command(app).commands}  # type: ignore[attr-defined]


def is_flag(option: Any) -> bool:
    return bool(getattr(option, "is_flag", False))


def name_of(option: Any) -> str:
    return str(option.opts[0])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a run, a study, and files that are neither."""
    made = tmp_path_factory.mktemp("bad")
    opt = drbo.Optimizer([0.0, 1.0], [0.0, 1.0], setting=drbo.Simulator(np.ones(2) / 2, 0.1, pick="uncertain"))
    opt.tell([0.0], 1.0, context_index=0)
    with contextlib.chdir(made):
        opt.save("run.drbo")
        Path("half.drbo").write_bytes(Path("run.drbo").read_bytes()[:40])
        Path("text.txt").write_text("no run, no database, no table\n")
        Path("folder").mkdir()
        Path("series.csv").write_text("time,power\n" + "".join(f"2020-01-01 {h:02}:00,{h}\n" for h in range(24)))
        optuna.create_study(study_name="weather", storage="sqlite:///study.db")
        yield made


def invoke(*arguments: str) -> tuple[int, str]:
    """Return the exit code and all that was said, in one line; an error that is no exit goes on."""
    done = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "400", "NO_COLOR": "1", "TERM": "dumb"})
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, " ".join(done.output.replace("│", " ").split())


def line_of(command: str, option: str, value: str) -> list[str]:
    """Return the arguments of a call with a value that makes no sense."""
    good = list(GOOD[command])
    if " " in value:
        words = [] if command == "report" else good
        return [command, *words, *value.split()] if option.startswith("-") else [command, *value.split()]
    if not option.startswith("-"):
        return [command, value]
    return [command, *(good if option != "--storage" else []), option, value]


CASES = [(command, option, value, words) for (command, option), rows in ROWS.items() for value, words in rows]


@pytest.mark.parametrize(("command", "option", "value", "words"), CASES)
def test_what_makes_no_sense_is_refused(folder: Path, command: str, option: str, value: str, words: str) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"}
    code, said = invoke(*line_of(command, option, value))
    assert code in (1, 2), said
    assert words in said
    assert "Traceback" not in said
    after = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"}
    assert after == before


def test_every_option_has_a_row() -> None:
    """A new option without a row fails here."""
    found = {
        (name, name_of(option))
        for name, command in commands().items()
        for option in command.params
        if not is_flag(option)
    }
    assert found == set(ROWS)
    assert len(CASES) > 100


@pytest.mark.parametrize(
    ("command", "option"),
    [(name, name_of(p)) for name, command in commands().items() for p in command.params if is_flag(p)],
)
def test_a_flag_takes_no_value(folder: Path, command: str, option: str) -> None:
    del folder
    code, said = invoke(*([command, *GOOD[command]] if command else []), f"{option}=junk")
    assert code == 2
    assert f"Option '{option}' does not take a value" in said


@pytest.mark.parametrize("command", ["show", "reproduce", "compare", "report", "junk", "--junk"])
def test_what_is_missing_or_unknown_is_named(folder: Path, command: str) -> None:
    del folder
    code, said = invoke(command)
    assert code == 2
    assert any(word in said for word in ("Missing argument", "give either a FILE", "No such command", "No such option"))


@pytest.mark.parametrize("command", GOOD)
def test_an_unknown_option_and_one_argument_too_many(folder: Path, command: str) -> None:
    del folder
    assert "No such option: --junk" in invoke(command, *GOOD[command], "--junk")[1]
    if command not in ("reproduce", "compare"):
        assert "unexpected extra argument" in invoke(command, *GOOD[command], "one", "two")[1]
