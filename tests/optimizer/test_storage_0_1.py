"""Files of version 0.1 load as one record of what was imported; `golden` checks that they go on as 0.1 did."""

import json
from pathlib import Path
from typing import Any

import pytest

from bits import bits
from drbo import Optimizer
from drbo.optimizer.history import Imported
from golden.runs import FILES, RUNS, Run, as_in_0_1, drive

SAVED = [run for run in RUNS if run.saved_at is not None]
every_file = pytest.mark.parametrize("run", SAVED, ids=lambda run: run.name)


def load(path: Path) -> Optimizer:
    with as_in_0_1():
        return Optimizer.load(path)


@every_file
def test_one_record_without_times(run: Run) -> None:
    opt = load(run.file)
    (fact,) = opt.history
    assert isinstance(fact, Imported)
    done = run.script[: run.saved_at]
    assert opt.n_told == sum(letter in "trf" for letter in done)
    assert len(opt.pending) == done.count("a") - sum(letter in "rfc" for letter in done)
    assert fact.n_asked == done.count("a")
    assert all(result.time is None for result in opt.results)
    assert [r.failed for r in opt.results] == [letter == "f" for letter in done if letter in "trf"]


@every_file
def test_saved_again_it_is_of_format_3(run: Run, tmp_path: Path) -> None:
    opt, path = load(run.file), tmp_path / "state.json"
    before = run.file.read_bytes()
    opt.save(path)
    assert run.file.read_bytes() == before
    assert path.read_text().startswith('{"crc":"')
    again = load(path)
    assert bits(again.history) == bits(opt.history)
    stop = run.saved_at + 2  # type: ignore[operator]  # all of them have one
    assert bits(drive(run, again, run.saved_at or 0, stop)) == bits(drive(run, opt, run.saved_at or 0, stop))


def test_saving_over_the_file_of_0_1(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(SAVED[0].file.read_bytes())
    opt = load(path)
    opt.save(path)
    assert bits(load(path).history) == bits(opt.history)


def document() -> Any:
    return json.loads((FILES / "grid_general_tv_pending_failed_cancelled.json").read_text())


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("told", 99, "is damaged: it says 99 results"),
        ("actions", {"kind": "Bomb"}, "is damaged: it holds an unknown 'Bomb'"),
        ("observations", None, "is damaged"),
        ("fit", 3, "is damaged"),
        ("version", 99, "is of version 99; this drbo reads version 2"),
        ("format", "else", "is not a saved optimizer"),
    ],
)
def test_damage(field: str, value: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_text(json.dumps({**document(), field: value}))
    with pytest.raises(ValueError, match=message):
        load(path)


def test_a_file_cut_short_is_refused(tmp_path: Path) -> None:
    whole, path = SAVED[0].file.read_text(), tmp_path / "state.json"
    for share in (0.2, 0.5, 0.9):
        path.write_text(whole[: int(share * len(whole))])
        with pytest.raises(ValueError, match="is not a saved optimizer"):
            load(path)
