"""The runs of `runs.py` on the drbo that is installed, against what version 0.1 chose and saved."""

import copy
import json
import math
from typing import Any

import pytest

from drbo import Optimizer
from golden.runs import BY_NAME, RECORD, RUNS, Axes, Run, as_in_0_1, drive, named, recommendations

RECORDED: dict[str, Any] = json.loads(RECORD.read_text())
SAVED = [run for run in RUNS if run.saved_at is not None]
ROUNDING = 1e-9
"""Relative and absolute, for numbers that no search comes before."""

every_run = pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
every_file = pytest.mark.parametrize("run", SAVED, ids=lambda run: run.name)


def differences(run: Run, old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[str]:
    """Return in words where choices or recommendations differ; nothing if they agree."""
    if len(old) != len(new):
        return [f"{len(old)} of them are now {len(new)}"]
    found = []
    for number, (a, b) in enumerate(zip(old, new, strict=True)):
        where = f"{number} (step {a['step']})" if "step" in a else f"{number}"
        if a.keys() != b.keys():
            found.append(f"{where}: {sorted(a)} are now {sorted(b)}")
            continue
        found += [f"{where}: {name} {a[name]!r} is now {b[name]!r}" for name in a if not _same(run, name, a, b)]
    return found


def _same(run: Run, name: str, old: dict[str, Any], new: dict[str, Any]) -> bool:
    a, b = old[name], new[name]
    if name == "action":
        return _near(run.actions, a, b, ROUNDING if old["action_index"] is not None else run.tolerance)
    if name == "context":
        return _near(run.contexts, a, b, ROUNDING if old["context_index"] is not None else run.tolerance)
    if name == "radius":
        return _close(a, b, ROUNDING)
    if name in ("score", "value", "gap"):
        return _close(a, b, run.tolerance, run.scale)
    return bool(a == b)  # numbers of steps and indices


def _near(axes: Axes, old: Any, new: Any, tolerance: float) -> bool:
    """Return whether two actions or contexts agree to a share of each range; whole numbers and choices exactly."""
    if old is None or new is None:
        return old is new
    a, b = named(old), named(new)
    if not a.keys() == b.keys() == axes.keys():
        return False
    return all(
        a[name] == b[name]
        if axis.kind in ("integer", "choice")
        else abs(axis.share(a[name]) - axis.share(b[name])) <= tolerance
        for name, axis in axes.items()
    )


def _close(old: Any, new: Any, tolerance: float, scale: float = 1.0) -> bool:
    a, b = float(old), float(new)
    return a == b or math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance * scale)


def certificates(recorded: dict[str, Any]) -> list[dict[str, Any]]:
    """Return both recommendations as they are compared: how they are printed is for readers."""
    return [{k: v for k, v in recorded[kind].items() if k != "printed"} for kind in ("iterate", "final")]


@pytest.fixture(scope="module")
def replayed() -> dict[str, tuple[list[dict[str, Any]], dict[str, Any]]]:
    """What has been replayed so far: a run is judged in two tests, and made once."""
    return {}


def replay(run: Run, known: dict[str, Any]) -> Any:
    if run.name not in known:
        opt = run.make()
        known[run.name] = (drive(run, opt), recommendations(opt))
    return known[run.name]


@every_run
def test_choices(run: Run, replayed: dict[str, Any]) -> None:
    assert differences(run, RECORDED[run.name]["choices"], replay(run, replayed)[0]) == []


@every_run
def test_recommendations(run: Run, replayed: dict[str, Any]) -> None:
    old, new = certificates(RECORDED[run.name]["at_the_end"]), certificates(replay(run, replayed)[1])
    assert differences(run, old, new) == []


@every_file
def test_saved_files_go_on(run: Run) -> None:
    assert run.saved_at is not None
    with as_in_0_1():
        opt = Optimizer.load(run.file)
    later = [one for one in RECORDED[run.name]["choices"] if one["step"] >= run.saved_at]
    assert len(later) >= 3
    assert differences(run, later, drive(run, opt, run.saved_at)) == []


@every_file
def test_saved_files_recommend(run: Run) -> None:
    with as_in_0_1():
        opt = Optimizer.load(run.file)
    old, new = certificates(RECORDED[run.name]["when_saved"]), certificates(recommendations(opt))
    assert differences(run, old, new) == []


def test_the_record_is_complete() -> None:
    assert list(RECORDED) == [run.name for run in RUNS]
    assert len(RUNS) == len(BY_NAME) == 20
    assert len(SAVED) >= 8
    assert {run.file for run in SAVED} == set(SAVED[0].file.parent.glob("*.json"))


@pytest.mark.parametrize(
    ("name", "field", "change"),
    [
        ("grid_general_mmd", "action_index", 1),
        ("grid_general_mmd", "action", [0.5, 0.5]),
        ("grid_general_mmd", "score", 1e-8),
        ("grid_general_mmd", "radius", 1e-8),
        ("grid_simulator_cvar", "context_index", 1),
        ("grid_simulator_cvar", "context", [0.5, 0.5]),
        ("grid_simulator_cvar", "context", None),
        ("box_general_mmd_pending", "action", {"setpoint": 2e-5}),
        ("box_general_mmd_pending", "action", {"stages": 1}),
        ("box_general_mmd_pending", "action", {"mode": "other"}),
        ("box_general_mmd_pending", "score", 1e-5),
        ("range_simulator_mmd_box", "context", {"wind": 1e-4}),
        ("range_data_mmd_box_learned", "action", {"setpoint": 2e-3}),
        ("range_data_mmd_box_learned", "score", 1e-2),
    ],
)
def test_a_difference_is_found(name: str, field: str, change: Any) -> None:
    """Numbers are changed by little more than the tolerance, everything else is replaced."""
    run, old = BY_NAME[name], RECORDED[name]["choices"][2:]
    assert differences(run, old, copy.deepcopy(old)) == []
    assert differences(run, old, old[:-1]) != []
    new = copy.deepcopy(old)
    new[0][field] = _changed(old[0][field], change)
    found = differences(run, old, new)
    assert len(found) == 1
    assert f": {field} " in found[0]


def _changed(value: Any, change: Any) -> Any:
    if isinstance(change, dict):
        return {**value, **{name: _changed(value[name], by) for name, by in change.items()}}
    return value + change if isinstance(change, float | int) else change


def test_small_differences_pass() -> None:
    run, old = BY_NAME["box_general_mmd_pending"], RECORDED["box_general_mmd_pending"]["choices"]
    new = copy.deepcopy(old)
    for one in new:
        one["action"]["setpoint"] += 1e-7
        one["score"] += 1e-8
    assert differences(run, old, new) == []
