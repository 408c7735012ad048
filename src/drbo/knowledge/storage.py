"""Facts <-> file. No pickle: loading a file only runs constructors of drbo and of the classes that the caller passed.

Format 4 is text, one record per line:

    {"crc":"9a0b1c2d","record":{"kind":"optimizer","format":4,"configuration":{...}}}
    {"crc":"5e6f7a8b","record":{"kind":"reference","value":{...}}}
    {"crc":"3c4d5e6f","record":{"kind":"asked","time":1.79e9,"reference":0,"proposals":[...]}}
    {"crc":"7a8b9c0d","record":{"kind":"told","number":0,"action":{...},"contexts":[...],"outcomes":{...}}}

The checksum (CRC-32) of a line continues that of the line before, so a changed, lost or moved line is detected. Equal
references are stored once; records name them by position. `save` appends the new records. A crash during `save` leaves
an incomplete last line; `load` drops it and warns. The whole file is rewritten atomically from time to time, and
whenever it is not the file that was written last.

Two processes may use one file without losing records: each holds a lock while it reads or writes, and `save` refuses to
replace a file that holds anything beyond a prefix of its own history.

`drbo.knowledge.fact_json` defines the records. Files of format 3 (version 0.2) load; the next `save` writes format 4.
"""

from __future__ import annotations

import contextlib
import json
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from drbo import _files
from drbo._messages import listed, printable
from drbo.knowledge.encoding import RefusedError, TooOldError, UnknownClassError, decode, encode, parsed, shortened
from drbo.knowledge.fact_json import Reader, record_of, told_as
from drbo.knowledge.history import Fact
from drbo.spaces.space import Space

FORMAT = 4
READABLE = (3, FORMAT)
_COMPACT = 1000
"""Number of appended records after which the whole file is rewritten."""
_LARGEST = 100_000_000
"""Largest line in bytes: limits the memory that reading any file can use."""
_HEAD, _TAIL = '{"crc":"%08x","record":', "}"
_HEAD_LENGTH = len(_HEAD % 0)
_BEGINNING = _HEAD.split("%", maxsplit=1)[0].encode()
_BEGINNING_0_1 = b'{"format":"drbooptimizer"'
"""The first characters of a file of version 0.1, without spaces."""


# --- writing --------------------------------------------------------------------------------------------------------


@dataclass
class File:
    """The state of the file that an optimizer was saved to or loaded from.

    Attributes
    ----------
    path, signature : the file, and a signature that detects changes by others
    appendable : whether its last line is complete and of this format
    written : number of facts in the file
    appended : number of records appended since the whole file was written
    crc : the checksum of its last line
    references : the positions of its references, by their text
    """

    path: Path | None = None
    signature: tuple[int, int, int] | None = None
    appendable: bool = False
    written: int = 0
    appended: int = 0
    crc: int = 0
    references: dict[str, int] = field(default_factory=dict)

    def is_at(self, path: Path) -> bool:
        """Return whether this is the unchanged file at a path."""
        target = _files.resolved(path)
        return self.path == target and _files.signature(target) == self.signature

    def save(self, path: Path, configuration: dict[str, Any], facts: Sequence[Fact]) -> None:
        """Append the new facts to a file, or write all; raise if the file holds anything that these facts do not."""
        target = _files.resolved(path)
        with _files.locked(path):
            known = self.is_at(path)
            if known and self.appendable and self.appended < _COMPACT:
                lines = _FileLines(self.crc, dict(self.references))
                for fact in facts[self.written :]:
                    lines.add_fact(fact)
                write, appended = _files.append, self.appended + len(lines.text)
            else:
                lines = _whole(configuration, facts)
                if not known and target.exists():
                    self._refuse_to_lose(path, target, lines)
                write, appended = _files.write_atomically, 0
            self.appendable = False  # until the file is whole again
            try:
                if lines.text:
                    write(path, "".join(lines.text))
            finally:
                self.path, self.signature = target, _files.signature(target)
                _files.remove_lock(path)
        self.written, self.appended, self.crc, self.references = len(facts), appended, lines.crc, lines.references
        self.appendable = True

    def _refuse_to_lose(self, path: Path, target: Path, lines: _FileLines) -> None:
        """Raise if a file is not a prefix of these lines."""
        ours = "".join(lines.text).encode()
        if _files.is_plain(target) and target.stat().st_size <= len(ours) and ours.startswith(target.read_bytes()):
            return
        if not _files.is_plain(target):
            raise RuntimeError(f"{printable(path)} is a folder, a pipe or a device, so nothing was saved: name a file")
        changed, unknown = "has changed since it was read or written here", "was not written by this optimizer"
        raise RuntimeError(
            f"{printable(path)} {changed if self.path == target else unknown}. It holds records that saving would "
            "lose, so nothing was saved. Continue it with Optimizer.load, or save under another name. Several "
            "processes on one study need a database: drbo.integrations.optuna (docs/workers.md)"
        )


def _whole(configuration: dict[str, Any], facts: Sequence[Fact]) -> _FileLines:
    """Return the lines of a whole file."""
    lines = _FileLines(0, {})
    lines.add({"kind": "optimizer", "format": FORMAT, "configuration": encode(configuration)})
    for fact in facts:
        lines.add_fact(fact)
    return lines


class _FileLines:
    """The lines of a file, each with its checksum."""

    def __init__(self, crc: int, references: dict[str, int]) -> None:
        self.crc, self.references = crc, references
        self.text: list[str] = []

    def add(self, record: dict[str, Any]) -> None:
        """Add a record."""
        text = json.dumps(record, separators=(",", ":"), allow_nan=False)
        if len(text) > _LARGEST - 100:
            raise ValueError(f"save cannot write a record of {len(text):,} bytes: a line has at most {_LARGEST:,}")
        self.crc = zlib.crc32(text.encode(), self.crc)
        self.text.append(f"{_HEAD % self.crc}{text}{_TAIL}\n")

    def add_fact(self, fact: Fact) -> None:
        """Add a fact, after its references that are new."""
        self.add(record_of(fact, self._position))

    def _position(self, reference: Any) -> int | None:
        """Return the position of a reference in the file."""
        if reference is None:
            return None
        value = encode(reference)
        key = json.dumps(value, allow_nan=False)
        if key not in self.references:
            self.references[key] = len(self.references)
            self.add({"kind": "reference", "value": value})
        return self.references[key]


# --- reading --------------------------------------------------------------------------------------------------------


@dataclass
class FileContents:
    """The contents of a file: the configuration and the records; `facts` needs the spaces."""

    configuration: dict[str, Any]
    records: list[dict[str, Any]]
    file: File
    classes: Sequence[Callable[..., Any]]

    def facts(self, actions: Space, contexts: Space) -> Iterator[Fact]:
        """Yield the facts, with points of these spaces."""
        reader = Reader(actions, contexts, self.classes)
        for record in self.records:
            fact = reader.read(record)
            if fact is not None:
                yield fact


def read(path: Path, classes: Sequence[Callable[..., Any]], like: dict[str, Any] | None = None) -> FileContents:
    """Return the contents of a file; raise if it is damaged, not from drbo, or not of the configuration `like`."""
    target = _files.resolved(path)
    if not _files.is_plain(path):
        raise RefusedError(f"{printable(path)} is not a saved optimizer: it is a folder, a pipe or a device")
    with _files.locked(path, reading=True), told_as_damage(path), path.open("rb") as text:
        signature = _files.signature(target)  # before reading, so `save` detects a change in between
        beginning = text.read(100)
        if not beginning.startswith(_BEGINNING):
            if b"".join(beginning.split()).startswith(_BEGINNING_0_1):
                raise TooOldError("was saved by drbo 0.1, whose files this version does not read")
            raise RefusedError(f"{printable(path)} is not a saved optimizer")
        text.seek(0)
        texts, crc, ended = _checked_lines(path, text)
    with told_as_damage(path):
        records = [parsed(text) for text in texts]
        head = records[0]
        if head.get("kind") != "optimizer":
            raise ValueError("it does not begin with a configuration")
        if head["format"] not in READABLE:
            other = shortened(repr(head["format"]))
            raise RefusedError(f"{printable(path)} is of format {other}; this drbo reads formats 3 and 4")
        stored = head["configuration"] if head["format"] == FORMAT else of_format_3(head["configuration"])
        if like is not None:
            _check_alike(path, stored, encode(like))
        configuration = decode(stored, classes)
        references = [r["value"] for r in records if r["kind"] == "reference"]
        file = File(
            target,
            signature,
            ended and head["format"] == FORMAT,  # otherwise the next save rewrites the file
            sum(r["kind"] != "reference" for r in records[1:]),
            0,
            crc,
            {json.dumps(value, allow_nan=False): i for i, value in enumerate(references)},
        )
        return FileContents(configuration, records[1:], file, classes)


def of_format_3(stored: Any) -> Any:
    """Return a configuration of format 3 as format 4 writes it."""
    if isinstance(stored, list):
        if stored == ["pick", "informative"]:
            return ["pick", None]
        return ["bound_beta" if part == "certificate_beta" else of_format_3(part) for part in stored]
    if isinstance(stored, dict):
        return {name: of_format_3(part) for name, part in stored.items()}
    return stored


def _check_alike(path: Path, theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    """Raise unless two JSON configurations are equal; the error names the arguments that differ."""
    in_file, here = dict(theirs["items"]), dict(json.loads(json.dumps(ours))["items"])
    differ = sorted(name for name in in_file.keys() | here.keys() if in_file.get(name) != here.get(name))
    if differ:
        raise RefusedError(
            f"{printable(path)} was saved by an optimizer that differs in {listed(differ)}: make the optimizer as it "
            "was made then, continue from the file with Optimizer.load, or save under another name"
        )


def _checked_lines(path: Path, file: BinaryIO) -> tuple[list[bytes], int, bool]:
    """Return the records of a file as text, the checksum of the last one, and whether its line is complete.

    Reading stops at the first damaged line, so a damaged large file takes little time and memory.
    """
    crc, texts, line = 0, [], b""
    for number, line in enumerate(iter(lambda: file.readline(_LARGEST), b""), start=1):
        found = _checked(line.removesuffix(b"\n"), crc)
        if found is not None:  # the last line may lack only its end
            crc, text = found
            texts.append(text)
        elif line.endswith(b"\n") or len(line) == _LARGEST:
            raise ValueError(f"line {number} does not fit its checksum")
        elif texts:
            warnings.warn(
                f"{printable(path)} ends in the middle of a record: a save was interrupted. What was saved before it "
                "is loaded",
                RuntimeWarning,
                stacklevel=4,
            )
    if not texts:
        raise ValueError("its first record is not complete")
    return texts, crc, line.endswith(b"\n")


def _checked(line: bytes, crc: int) -> tuple[int, bytes] | None:
    """Return the checksum and the record of a line; None if it does not fit its checksum."""
    body = line[_HEAD_LENGTH : -len(_TAIL)]
    crc = zlib.crc32(body, crc)
    fits = line.startswith((_HEAD % crc).encode()) and line.endswith(_TAIL.encode())
    return (crc, body) if fits else None


@contextlib.contextmanager
def told_as_damage(path: str | Path) -> Iterator[None]:
    """Turn any error in the contents of a file into a one-sentence error that names the file."""
    try:
        with told_as(f"{printable(path)} is damaged: "):
            yield
    except (UnknownClassError, TooOldError) as error:
        raise ValueError(f"{printable(path)} {shortened(str(error))}") from None
