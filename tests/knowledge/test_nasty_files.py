"""Files that no accident makes: each is one ValueError that names the file and says what is wrong, in little memory.

Most have checksums that fit, as a program that is wrong or means harm would write them (REVIEW F6).
"""

import contextlib
import gzip
import json
import os
import pickle
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import drbo
from drbo import Optimizer
from interrupts import enters
from knowledge.damage import checksummed

TELLS = (1.0, 0.5)


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The records of a file as text: a configuration, and what was asked and told twice, with one suggestion left."""
    path = tmp_path_factory.mktemp("whole") / "whole"
    opt = Optimizer(
        [0.0, 1.0], {"a": 3, "b": 2}, setting=drbo.Simulator(radius=0.1), surrogate=drbo.LearnedGP(noise=0.1)
    )
    for outcome in TELLS:
        opt.tell(opt.ask(), outcome)
    opt.retract(opt.results[0])
    opt.cancel(opt.ask())
    opt.ask()
    opt.save(path)
    return [json.dumps(json.loads(line)["record"]) for line in path.read_text().splitlines()]


def refused(data: bytes, path: Path, message: str) -> None:
    """Load a file of these bytes, which must be refused; nothing but the file itself may be large."""
    path.write_bytes(data)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=message) as caught:
            Optimizer.load(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert str(caught.value).startswith(str(path))
    assert len(str(caught.value)) < 1000
    assert peak < 100e6


def position(texts: list[str], kind: str) -> int:
    return next(i for i, text in enumerate(texts) if f'"kind": "{kind}"' in text)


def with_field(texts: list[str], kind: str, field: str, value: str) -> bytes:
    """Return a file in which a field of the first record of a kind has this value, which need not be JSON."""
    i = position(texts, kind)
    record = json.loads(texts[i])
    at = record["proposals"][0] if "proposals" in record and field in record["proposals"][0] else record
    at[field] = "@"
    return checksummed([*texts[:i], json.dumps(record).replace('"@"', value), *texts[i + 1 :]])


NAN = '{"kind": "float", "value": "nan"}'


@pytest.mark.parametrize(
    ("kind", "field", "value", "message"),
    [
        ("told", "outcomes", "[NaN]", "it holds NaN, which is not JSON"),
        ("told", "time", "-Infinity", "it holds -Infinity, which is not JSON"),
        ("told", "outcomes", "[1e999]", "it holds inf instead of a finite number"),
        ("told", "outcomes", f"[{NAN}]", "it holds nan instead of a finite number"),
        ("told", "outcomes", f"[1{'0' * 4000}]", "int too large"),
        ("told", "outcomes", f"[{'9' * 5_000_000}]", "4300 digits"),
        ("told", "outcomes", f'["{"x" * 1_000_000}"]', r"it holds 'xxx.* \.\.\.$"),
        ("told", "outcomes", "{" * 100_000, "is damaged"),
        ("told", "outcomes", "[" * 100_000 + "]" * 100_000, "it is nested too deeply"),
        ("told", "outcomes", '{"": {"values": [1.0], "stderrs": [-1.0]}}', "standard errors"),
        ("told", "outcomes", f'{{"": {{"values": [1.0], "stderrs": [{NAN}]}}}}', "standard errors"),
        ("told", "number", "1", "suggestion 1 is told or cancelled twice"),
        ("cancelled", "number", "0", "suggestion 0 is cancelled, but was not pending"),
        ("retracted", "result", "5", "result 5 is corrected, but does not exist"),
        ("asked", "radius", "-1.0", "radius must be zero or more"),
        ("asked", "bound", NAN, "it holds nan instead of a number"),
        ("asked", "number", "-1", "it holds -1 instead of a count"),
        ("asked", "number", "true", "it holds True instead of a count"),
        ("optimizer", "format", f"1{'0' * 4000}", r"is of format 1000.* \.\.\.; this drbo reads"),
        ("optimizer", "configuration", "[1]", "it holds a list instead of a value"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_field(kind: str, field: str, value: str, message: str, texts: list[str], tmp_path: Path) -> None:
    refused(with_field(texts, kind, field, value), tmp_path / "state.json", message)


def test_names_that_stand_twice(texts: list[str], tmp_path: Path) -> None:
    i = position(texts, "told")
    told = texts[i].replace('"values": [1.0]', '"values": [1.0], "values": [9.0]')
    assert told != texts[i]
    refused(checksummed([*texts[:i], told, *texts[i + 1 :]]), tmp_path / "told", "names something twice")
    head = json.loads(texts[0])
    head["configuration"]["items"].append(["maximize", False])
    refused(checksummed([json.dumps(head), *texts[1:]]), tmp_path / "configuration", "names something twice")


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("asked", "suggestion 0 is made twice"),
        ("told", "suggestion 0 is told or cancelled twice"),
        ("cancelled", "suggestion 2 is cancelled, but was not pending"),
        ("retracted", "result 0 is corrected, but does not exist"),
        ("optimizer", "unknown kind 'optimizer'"),
    ],
)
def test_a_record_that_stands_twice(kind: str, message: str, texts: list[str], tmp_path: Path) -> None:
    i = position(texts, kind)
    refused(checksummed([*texts[: i + 1], *texts[i:]]), tmp_path / "state.json", message)


def an_object(kind: str, **arguments: Any) -> dict[str, Any]:
    return {"kind": kind, "arguments": {"kind": "mapping", "items": [list(item) for item in arguments.items()]}}


def a_mapping(items: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "mapping", "items": [list(item) for item in items.items()]}


MANY = {
    "parameters": an_object(
        "Box", parameters=a_mapping({f"x{i}": an_object("Real", low=0.0, high=1.0) for i in range(5000)})
    ),
    "choices": an_object(
        "Box",
        parameters=a_mapping(
            {"x": an_object("Categorical", choices={"kind": "tuple", "items": [f"c{i}" for i in range(50_000)]})}
        ),
    ),
    "coordinates": {"kind": "array", "shape": [2, 5000], "type": "f", "values": [0.0] * 5000 + [1.0] * 5000},
    "shape": {"kind": "array", "shape": [10**12, 10**12], "type": "f", "values": [0.0]},
    "dimensions": {"kind": "array", "shape": [1] * 100, "type": "f", "values": [0.0]},
    "rows": {"kind": "array", "shape": [0, 10**12], "type": "f", "values": []},
    "integers": an_object("Box", parameters=a_mapping({"x": an_object("Integer", low=0, high=10**18)})),
}


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("parameters", "parameters must have at most 2,000 coordinates, .* got 5,000"),
        ("choices", "choices of a Categorical must be at most 2,000, .* got 50,000"),
        ("coordinates", "actions and contexts must have at most 2,000 coordinates together, .* got 5,002"),
        ("shape", "cannot reshape"),
        ("dimensions", "dimension"),
        ("rows", "actions must be points"),
        ("integers", r"high must not exceed 2\*\*53"),
    ],
)
def test_more_than_a_machine_can_hold(what: str, message: str, texts: list[str], tmp_path: Path) -> None:
    head = json.loads(texts[0])
    configuration = dict(head["configuration"]["items"])
    head["configuration"] = a_mapping({**configuration, "actions": MANY[what]})
    refused(checksummed([json.dumps(head)]), tmp_path / "state.json", message)


def test_more_points_than_a_machine_can_hold(texts: list[str], tmp_path: Path) -> None:
    head = json.loads(texts[0])
    data = {"kind": "array", "shape": [2, 1], "type": "f", "values": [0.0, 1.0]}
    samples = an_object("Samples", data=data, within=None, atoms=300, support=10**7, weights=None)
    head["configuration"] = a_mapping({**dict(head["configuration"]["items"]), "contexts": samples})
    refused(checksummed([json.dumps(head)]), tmp_path / "state.json", "support must be at most 10000, got 10000000")


WHOLE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda _: b"", "is not a saved optimizer"),
    "an empty line": (lambda _: b"\n", "is not a saved optimizer"),
    "zeros": (lambda _: bytes(1000), "is not a saved optimizer"),
    "gzip": (gzip.compress, "is not a saved optimizer"),
    "pickle": (pickle.dumps, "is not a saved optimizer"),
    "UTF-16": (lambda data: data.decode().encode("utf-16"), "is not a saved optimizer"),
    "a byte-order mark": (lambda data: b"\xef\xbb\xbf" + data, "is not a saved optimizer"),
    "a line before": (lambda data: b"\n" + data, "is not a saved optimizer"),
    "a line between": (lambda data: data.replace(b"\n", b"\n\n", 1), "line 2 does not fit its checksum"),
    "ends of lines of Windows": (lambda data: data.replace(b"\n", b"\r\n"), "line 1 does not fit its checksum"),
    "twice": (lambda data: data * 2, "does not fit its checksum"),
    "another checksum": (lambda data: data[:8] + b"00000000" + data[16:], "line 1 does not fit its checksum"),
    "a capital checksum": (lambda data: data[:8] + data[8:16].upper() + data[16:], "line 1 does not fit"),
    "another outcome": (lambda data: data.replace(b"[1.0]", b"[9.0]", 1), "does not fit its checksum"),
    "a part of the first line": (lambda data: data.split(b"\n")[0][:-5], "its first record is not complete"),
    "no end": (lambda _: b'{"crc":"00000000","record":' + b"1" * 10_000_000, "its first record is not complete"),
    "half a letter": (lambda _: checksummed([b'{"kind": "optimi\xc3"}']), "can't decode"),
}


@pytest.mark.parametrize("what", WHOLE)
def test_a_file_that_is_something_else(what: str, texts: list[str], tmp_path: Path) -> None:
    change, message = WHOLE[what]
    data = checksummed(texts)
    if what == "a capital checksum" and data[8:16].isdigit():
        pytest.skip("a checksum without letters")
    refused(change(data), tmp_path / "state.json", message)


@pytest.mark.parametrize("beginning", [b"", b'{"crc":"', None], ids=["nothing", "a beginning", "a whole file"])
def test_a_file_of_two_gigabytes(beginning: bytes | None, texts: list[str], tmp_path: Path) -> None:
    """Sparse: it takes no room on the disk. It is not read into memory as a whole."""
    path = tmp_path / "state.json"
    path.write_bytes(checksummed(texts) if beginning is None else beginning)
    os.truncate(path, 2 * 1024**3)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=f"{path} is (not a saved optimizer|damaged)"):
            Optimizer.load(path)
        assert tracemalloc.get_traced_memory()[1] < 500e6
    finally:
        tracemalloc.stop()


def not_a_file(kind: str, folder: Path) -> Path:
    path = folder / "state.json"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to({"device": "/dev/zero", "circle": str(path)}[kind])
    return path


@pytest.mark.skipif(os.name != "posix", reason="pipes and devices are files on POSIX systems")
@pytest.mark.parametrize("kind", ["pipe", "folder", "device", "circle"])
def test_what_is_no_file(kind: str, tmp_path: Path) -> None:
    """Neither `load` nor `save` waits for it, reads it for ever or replaces it."""
    path, said = not_a_file(kind, tmp_path), []
    opt = Optimizer([0.0, 1.0], [0.0, 1.0], setting=drbo.DataDriven(radius=0.1))

    def use() -> None:
        calls: list[Callable[[Path], object]] = [Optimizer.load, opt.save]
        for call in calls + ([opt.resume] if path.exists() else []):
            with contextlib.suppress(ValueError, OSError, RuntimeError):
                call(path)
                said.append(f"{call} took it")

    assert enters(use)
    assert said == []
    assert not path.is_file()
    with pytest.raises((ValueError, OSError), match=str(path)):
        Optimizer.load(path)
    with pytest.raises((RuntimeError, OSError), match=str(path)):
        opt.save(path)


def test_a_record_that_load_would_refuse_is_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drbo.knowledge.storage, "_LARGEST", 1000)
    opt = Optimizer(list(range(1000)), [0.0, 1.0], setting=drbo.DataDriven(radius=0.1))
    with pytest.raises(ValueError, match=r"save cannot write a record of .* bytes: a line has at most 1,000"):
        opt.save(tmp_path / "state.json")
    assert not (tmp_path / "state.json").exists()
