"""Saved and resumed: a loaded optimizer goes on exactly as the saved one; other files are refused.

Format 3: one record per line, each with a checksum that goes on from the line before.
"""

import copy
import json
import math
import os
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drbo
import robos
from bits import bits
from drbo import GP, MMD, RBF, DataDriven, LearnedGP, Optimizer, Setting, Simulator
from heating import FIXED, SETTINGS, ask, make, run, tell

OF_0_1 = "was saved by drbo 0.1, whose files this version does not read"


@pytest.mark.parametrize("setting", SETTINGS, ids=repr)
@pytest.mark.parametrize("surrogate", [FIXED, LearnedGP()], ids=["fixed", "learned"])
def test_a_loaded_optimizer_goes_on_as_the_saved_one(setting: Setting, surrogate: Any, tmp_path: Path) -> None:
    opt = make(setting, surrogate=surrogate)
    path = tmp_path / "state.json"
    for number in range(7):
        opt.save(path)
        loaded = Optimizer.load(path)
        a, b = ask(opt), ask(loaded)
        assert a.same_as(b), number
        assert a.score == b.score
        assert opt.recommend_iterate().value == loaded.recommend_iterate().value
        opt.save(path)  # with a pending suggestion
        opt = Optimizer.load(path)
        assert len(opt.pending) == 1 + (number > 3)
        if number == 3:
            tell(opt, ask(opt), number)  # one stays pending for ever
            opt.tell(ask(opt), failed=True)
        else:
            tell(opt, a, number)


SETS = [
    MMD(robos.C, robos.MMD_KERNEL), MMD(gram=RBF(5.0)(robos.C[:, None], robos.C[:, None])), drbo.TotalVariation(),
    drbo.KL(), drbo.ChiSquare(), drbo.CVaR(), drbo.Wasserstein(robos.C), drbo.Expectation(),
    drbo.Neighbourhood(robos.C),
]  # fmt: skip


@pytest.mark.parametrize("ambiguity", SETS, ids=repr)
def test_every_set_and_rule_can_be_saved(ambiguity: drbo.AmbiguitySet, tmp_path: Path) -> None:
    rules: list[Any] = [
        0.2,
        math.inf,
        drbo.radius.Theoretical(0.1, 0.5),
        drbo.radius.Bootstrap(0.1, 20),
        drbo.radius.Decaying(1.0),
    ]
    surrogate = GP(robos.GP_KERNEL, 0.05)
    for number, rule in enumerate(rules):
        path = tmp_path / f"{number}.json"
        opt = Optimizer(
            robos.X, robos.C, ambiguity=ambiguity, setting=DataDriven(radius=rule), surrogate=surrogate,
            beta=drbo.TheoreticalBeta(bound=1.0, noise=0.05),
        )  # fmt: skip
        for j in range(4):
            opt.tell(opt.ask(), 0.1 * j, context_index=3 * j)
        opt.save(path)
        loaded = Optimizer.load(path)
        np.testing.assert_array_equal(robos.posterior(loaded).mean, robos.posterior(opt).mean)
        assert opt.ask().same_as(loaded.ask())
    for line in path.read_text().splitlines():
        json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def test_saving_is_legal_before_the_first_result(tmp_path: Path) -> None:
    opt = make(Simulator(radius=0.2, pick="uncertain"))
    opt.save(tmp_path / "state.json")
    assert ask(Optimizer.load(tmp_path / "state.json")).same_as(ask(opt))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not a saved optimizer"),
        ("[1, 2]", "is not a saved optimizer"),
        ('{"format": "something else"}', "is not a saved optimizer"),
        ('{"format": "drbo optimizer", "version": 1}', f"state.json {OF_0_1}"),
        ('{\n "format": "drbo optimizer",\n "version": 2,\n "actions": {"kind": "Bomb"}}', f"state.json {OF_0_1}"),
    ],
)
def test_damaged_and_foreign_files(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        Optimizer.load(path)
    assert path.read_text() == text
    with pytest.raises(ValueError, match=message):
        make(Simulator(radius=0.2, pick="uncertain")).resume(path)


def test_what_0_2_had_imported_from_0_1_is_refused(tmp_path: Path) -> None:
    opt, path = make(Simulator(radius=0.2, pick="uncertain")), tmp_path / "state.json"
    opt.save(path)
    configuration = json.loads(path.read_text())["record"]
    imported: dict[str, Any] = {"kind": "imported", "told": [], "pending": [], "best": None, "n_asked": 0}
    path.write_text(with_checksums([configuration, imported]))
    with pytest.raises(ValueError, match=r"^\S*state\.json holds results that were imported from drbo 0\.1, which"):
        Optimizer.load(path)
    with pytest.raises(ValueError, match=r"^holds results that were imported from drbo 0\.1, which"):
        opt.replay([imported])
    items = configuration["configuration"]["items"]
    beta = next(item for item in items if item[0] == "beta")
    beta[1] = {"kind": "UnprovenBeta", "arguments": {"kind": "mapping", "items": []}}
    path.write_text(with_checksums([configuration]))
    with pytest.raises(ValueError, match=r"^\S*state\.json holds a width of drbo 0\.1, which"):
        Optimizer.load(path)
    function = {"kind": "family", "of": "Wasserstein", "given": {"kind": "mapping", "items": []}}
    beta[1] = 2.0
    items[:] = [item if item[0] != "ambiguity" else ["ambiguity", function] for item in items]
    path.write_text(with_checksums([configuration]))
    with pytest.raises(ValueError, match=r"^\S*state\.json holds a function as ambiguity, as drbo 0\.1 took it, which"):
        Optimizer.load(path)
    policy = {"kind": "FirstOrder", "arguments": {"kind": "mapping", "items": [["contexts", None]]}}
    items[:] = [["policy", policy]]
    path.write_text(with_checksums([configuration]))
    with pytest.raises(ValueError, match=r"^\S*state\.json holds the policy FirstOrder of drbo 0\.2, which"):
        Optimizer.load(path)


def test_a_folder_is_named_as_one(tmp_path: Path) -> None:
    opt = drbo.Optimizer([0.0, 1.0], ["a", "b"], setting=drbo.Simulator([0.5, 0.5], radius=0.1))
    with pytest.raises(RuntimeError, match="is a folder, a pipe or a device, so nothing was saved: name a file"):
        opt.save(tmp_path)


def test_what_cannot_be_saved_is_said_before_anything_is_written(tmp_path: Path) -> None:
    class Own(drbo.TotalVariation):
        """No dataclass, and without arguments()."""

    opt = make(Simulator(radius=0.2, pick="uncertain"), ambiguity=Own())
    path = tmp_path / "state.json"
    with pytest.raises(TypeError, match="save cannot write"):
        opt.save(path)
    assert not path.exists()


# --- format 4 -------------------------------------------------------------------------------------------------------


def saved(path: Path, rounds: int = 3) -> Optimizer:
    opt = make(Simulator(radius=0.2, pick="uncertain"))
    run(opt, rounds)
    opt.save(path)
    return opt


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line)["record"] for line in path.read_text().splitlines()]


def with_checksums(lines: list[dict[str, Any]]) -> str:
    """Return the text of records as the docstring of the format describes it."""
    crc, text = 0, ""
    for record in lines:
        body = json.dumps(record, separators=(",", ":"))
        crc = zlib.crc32(body.encode(), crc)
        text += f'{{"crc":"{crc:08x}","record":{body}}}\n'
    return text


def test_one_line_per_record(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    opt = saved(path)
    lines = records(path)
    assert [line["kind"] for line in lines] == ["optimizer", *["asked", "told"] * 3]
    assert lines[0]["format"] == 4
    assert path.read_text() == with_checksums(lines)
    told = lines[2]
    assert told["number"] == 0
    assert told["outcomes"].keys() == {""}
    assert len(told["outcomes"][""]["values"]) == len(told["contexts"]) == 1
    opt.cancel(opt.ask())
    opt.save(path)
    assert [line["kind"] for line in records(path)[-2:]] == ["asked", "cancelled"]


def test_saving_appends(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    opt = saved(path)
    before, inode = path.read_bytes(), path.stat().st_ino
    opt.save(path)
    assert path.read_bytes() == before
    tell(opt, ask(opt), 3)
    opt.save(path)
    assert path.read_bytes().startswith(before)
    assert path.stat().st_ino == inode
    loaded = Optimizer.load(path)
    tell(loaded, ask(loaded), 4)
    loaded.save(path)
    assert path.stat().st_ino == inode
    assert len(records(path)) == 1 + 2 * 5
    after = path.read_bytes()
    with pytest.raises(RuntimeError, match="has changed since it was read or written here"):
        opt.save(path)  # the file is no longer the one that it wrote: what another one saved would be lost
    assert path.read_bytes() == after
    opt.save(tmp_path / "other.json")
    assert len(records(tmp_path / "other.json")) == 1 + 2 * 4
    assert sorted(p.name for p in tmp_path.iterdir() if p.suffix != ".lock") == ["other.json", "state.json"]


def test_many_appended_records_are_compacted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state.json"
    monkeypatch.setattr("drbo.knowledge.storage._COMPACT", 4)
    opt = saved(path, 1)
    inodes = set()
    for number in range(8):
        tell(opt, ask(opt), number)
        opt.save(path)
        inodes.add(path.stat().st_ino)
    assert len(inodes) > 1
    assert bits(Optimizer.load(path).history) == bits(opt.history)


def test_equal_references_are_stored_once(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    opt = robos.make(drbo.General())
    for number in range(6):
        s = opt.ask(reference=robos.REFERENCE.copy() if number % 3 else robos.TRUTH, radius=0.1)
        opt.tell(s, 0.1 * number, context_index=number)
        opt.save(path)
    kinds = [line["kind"] for line in records(path)]
    assert kinds.count("reference") == 2
    loaded = Optimizer.load(path)
    assert bits(loaded.history) == bits(opt.history)
    loaded.ask(reference=robos.TRUTH, radius=0.2)
    loaded.save(path)
    assert [line["kind"] for line in records(path)].count("reference") == 2


def test_a_last_line_without_its_end_is_dropped(tmp_path: Path) -> None:
    """A save was interrupted, so it had not returned: all saves before it are there."""
    path = tmp_path / "state.json"
    opt = saved(path)
    before = path.read_bytes()
    tell(opt, ask(opt), 3)
    opt.save(path)
    whole = path.read_bytes()
    for end in (len(before) + 1, len(before) + 40, len(whole) - 2):
        path.write_bytes(whole[:end])
        with pytest.warns(RuntimeWarning, match="ends in the middle of a record"):
            loaded = Optimizer.load(path)
        assert 3 <= loaded.n_told <= 4
        complete = whole[:end].count(b"\n") - 1
        assert bits(loaded.history) == bits(opt.history[:complete])
        tell(loaded, ask(loaded) if not loaded.pending else loaded.pending[0], 3)
        loaded.save(path)  # whole again
        assert bits(Optimizer.load(path).history) == bits(loaded.history)


def test_a_last_line_that_lacks_nothing_but_its_end_counts(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    opt = saved(path)
    path.write_bytes(path.read_bytes()[:-1])
    loaded = Optimizer.load(path)
    assert bits(loaded.history) == bits(opt.history)
    tell(loaded, ask(loaded), 3)
    loaded.save(path)
    assert bits(Optimizer.load(path).history) == bits(loaded.history)


def test_any_other_damage_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    saved(path)
    whole = path.read_text()
    lines = whole.splitlines(keepends=True)
    rng = np.random.default_rng(0)
    damaged = ["".join(lines[:2] + lines[3:]), "".join([*lines[:2], lines[3], lines[2], *lines[4:]]), lines[0] * 2]
    damaged += ["".join(lines[1:]), whole + lines[-1]]
    for _ in range(60):
        at = int(rng.integers(2, len(whole) - 2))
        other = chr((ord(whole[at]) - 31) % 95 + 32)
        damaged.append(whole[:at] + other + whole[at + 1 :])
    for text in damaged:
        if text == whole:
            continue
        path.write_text(text)
        with pytest.raises(ValueError, match=r"is damaged|is not a saved optimizer") as error:
            Optimizer.load(path)
        assert str(path) in str(error.value)
        assert error.value.__cause__ is None


HOPELESS: list[tuple[str, Any]] = [
    ("number", -1), ("number", "first"), ("action", {"at": [0.5]}), ("action", {"at": [0.5, float("1e400")] * 3}),
    ("action", {"index": 3}), ("contexts", []), ("contexts", [{"at": ["a", "b"]}]), ("outcomes", ["good"]),
    ("outcomes", [1.0, 2.0]), ("kind", "retracted"), ("time", "noon"), ("action", None), ("outcomes", None),
    ("outcomes", {"": {"values": []}}), ("outcomes", {"": [1.0]}), ("outcomes", {"peak": {"values": [1.0]}}),
    ("outcomes", {"": {"values": [1.0], "stderrs": [1.0, 2.0]}}),
    ("outcomes", {"": {"values": [1.0], "stderrs": [-1.0]}}),
]  # fmt: skip


@pytest.mark.parametrize(("field", "value"), HOPELESS, ids=lambda value: str(value)[:20])
def test_records_that_make_no_sense(field: str, value: Any, tmp_path: Path) -> None:
    """F6: with checksums that fit, as a program that is wrong would write them."""
    path = tmp_path / "state.json"
    saved(path)
    lines = records(path)
    lines[2][field] = value
    path.write_text(with_checksums(lines))
    with pytest.raises(ValueError, match="is damaged: "):
        Optimizer.load(path)


def in_format_3(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record as version 0.2 wrote it."""
    if record["kind"] == "optimizer":
        return {**record, "format": 3}
    if "outcomes" not in record:
        return record
    objective = record["outcomes"].get("", {"values": []})
    return {**record, "outcomes": objective["values"], "stderrs": objective.get("stderrs", [])}


def test_format_3_loads_and_is_saved_as_format_4(tmp_path: Path) -> None:
    path, old = tmp_path / "state.json", tmp_path / "old.json"
    opt = saved(path)
    s = opt.ask()
    opt.tell(s, 2.0, stderr=0.5)
    opt.tell(opt.results[0].action, failed=True, context=opt.results[0].context)
    opt.amend(0, 1.5, stderr=0.25)
    opt.save(path)
    old.write_text(with_checksums([in_format_3(record) for record in records(path)]))
    loaded = Optimizer.load(old)
    assert bits(loaded.history) == bits(opt.history)
    assert old.read_text() != path.read_text()
    loaded.save(old)
    assert old.read_text() == path.read_text()


def test_a_file_from_the_future_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    saved(path)
    lines = records(path)
    lines[0]["format"] = 5
    path.write_text(with_checksums(lines))
    with pytest.raises(ValueError, match="is of format 5; this drbo reads formats 3 and 4"):
        Optimizer.load(path)


def test_a_line_after_the_configuration_says_more(tmp_path: Path) -> None:
    """A file is written as a whole first, so a file without its first line's end holds nothing."""
    path = tmp_path / "state.json"
    saved(path)
    path.write_text(path.read_text().splitlines()[0][:-1])
    with pytest.raises(ValueError, match="is damaged: its first record is not complete"):
        Optimizer.load(path)


def test_saving_keeps_a_link_and_a_mode(tmp_path: Path) -> None:
    """F5."""
    target, link = tmp_path / "real.json", tmp_path / "link.json"
    saved(target)
    target.chmod(0o600)
    link.symlink_to(target)
    opt = Optimizer.load(link)
    tell(opt, ask(opt), 3)
    opt.save(link)
    assert link.is_symlink()
    assert target.stat().st_mode & 0o777 == 0o600
    copy.deepcopy(opt).save(link)  # it does not know the file: written as a whole
    assert link.is_symlink()
    assert target.stat().st_mode & 0o777 == 0o600


# --- what another one saved is never lost (U1, F5) ------------------------------------------------------------------


def refused(opt: Optimizer, path: Path, why: str) -> None:
    """The file is as it was, and the error names it, the reason and the remedy."""
    before = path.read_bytes()
    with pytest.raises(RuntimeError, match=why) as caught:
        opt.save(path)
    assert str(path) in str(caught.value)
    assert "Optimizer.load" in str(caught.value)
    assert "drbo.integrations.optuna" in str(caught.value)
    assert path.read_bytes() == before


def test_a_file_that_another_optimizer_has_written_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    first, second = make(Simulator(radius=0.2, pick="uncertain")), make(Simulator(radius=0.2, pick="uncertain"))
    first.save(path)
    second.save(path)  # nothing but the same configuration: nothing would be lost
    run(first, 1)
    first.save(path)
    run(second, 2)
    refused(second, path, "has changed since it was read or written here")
    refused(make(Simulator(radius=0.2, pick="uncertain")), path, "was not written by this optimizer")
    refused(make(Simulator(radius=0.3, pick="uncertain")), path, "was not written by this optimizer")
    second.save(tmp_path / "other.json")
    assert Optimizer.load(path).n_told == 1
    assert Optimizer.load(tmp_path / "other.json").n_told == 2


def test_a_foreign_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("to buy: apples")
    refused(make(Simulator(radius=0.2, pick="uncertain")), path, "was not written by this optimizer")


def test_a_copy_may_write_where_it_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    opt = saved(path, 1)
    twin = copy.deepcopy(opt)
    run(twin, 1)
    twin.save(path)
    assert bits(Optimizer.load(path).history) == bits(twin.history)
    run(opt, 1)
    refused(opt, path, "has changed since it was read or written here")


def test_a_new_date_of_the_file_is_no_change(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    opt = saved(path, 1)
    os.utime(path, (1.0, 1.0))
    run(opt, 1)
    opt.save(path)
    assert bits(Optimizer.load(path).history) == bits(opt.history)
    path.unlink()
    opt.save(path)  # somebody removed it
    assert bits(Optimizer.load(path).history) == bits(opt.history)


def test_a_save_that_failed_in_the_middle_is_made_good_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, write = tmp_path / "state.json", os.write
    opt = saved(path, 1)
    run(opt, 1)

    def full(descriptor: int, data: bytes) -> int:
        write(descriptor, data[:7])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match=r"state\.json could not be written: No space left on device"):
        opt.save(path)
    monkeypatch.undo()
    opt.save(path)
    assert bits(Optimizer.load(path).history) == bits(opt.history)
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.parametrize("length", [250, 251, 255])
def test_names_as_long_as_the_disk_allows(length: int, tmp_path: Path) -> None:
    """F5: neither the lock nor the temporary file has a longer name than the file."""
    path = tmp_path / ("n" * length)
    opt = saved(path, 1)
    assert bits(Optimizer.load(path).history) == bits(opt.history)


def test_a_file_of_a_folder_that_cannot_be_written_loads(tmp_path: Path) -> None:
    """Reading makes no file."""
    path = tmp_path / "state.json"
    saved(path, 1)
    Optimizer.load(path)
    assert [p.name for p in tmp_path.iterdir()] == ["state.json"]


def test_loading_many_results_takes_each_in_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The work of `load` and of the first `ask` after it is counted: it grows with the results, and no faster."""
    taken, rows = [], []
    column, read = drbo.models.factor.Factor._column, json.loads

    def counted(*arguments: Any) -> Any:
        taken.append(arguments)
        return column(*arguments)

    def parsed(text: Any, *arguments: Any, **more: Any) -> Any:
        rows.append(text)
        return read(text, *arguments, **more)

    x, c = np.linspace(0.0, 1.0, 6), np.linspace(0.0, 1.0, 5)
    opt = Optimizer(x, c, setting=drbo.General(), surrogate=GP(drbo.Product(RBF(0.3), RBF(0.3)), 0.1))
    rng = np.random.default_rng(0)
    for i in range(120):
        outcome = None if i % 3 == 1 else float(rng.normal())
        opt.tell(float(rng.choice(x)), outcome, context=float(rng.choice(c)), failed=outcome is None)
    opt.save(tmp_path / "state.json")
    with monkeypatch.context() as patched:
        patched.setattr(json, "loads", parsed)
        loaded = Optimizer.load(tmp_path / "state.json")
    assert len(rows) <= 2 * 120  # each line once, and few others
    monkeypatch.setattr(drbo.models.factor.Factor, "_column", counted)
    loaded.ask(reference=np.full(5, 0.2), radius=0.2)
    # The first outcome enters both posteriors at once, then 79 outcomes the one and all other 119 results the other.
    assert len(taken) == 1 + 79 + 119
    posterior = loaded.posterior
    assert isinstance(posterior, drbo.models.ExactPosterior)
    assert posterior.n_observations == 80
    assert posterior.n_points <= 30


def test_thousands_of_results_load_at_once(tmp_path: Path) -> None:
    """Version 0.1 took 38 s for these: it replayed them all. Nothing is derived here before somebody asks for it."""
    points, rng = np.linspace(0.0, 1.0, 50), np.random.default_rng(0)
    opt = Optimizer(points, points, setting=drbo.DataDriven(radius=0.1))
    for i, j in rng.integers(50, size=(3000, 2)).tolist():
        opt.tell(points[i], float(rng.normal()), context_index=j)
    opt.save(tmp_path / "run.json")
    before = time.process_time()
    loaded = Optimizer.load(tmp_path / "run.json")
    assert time.process_time() - before < 2.0
    assert loaded.n_told == 3000
    assert bits(loaded.history) == bits(opt.history)
