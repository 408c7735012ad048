"""Facts <-> file. No pickle: loading a file executes nothing but constructors of drbo and of classes handed over.

Format 4 is text, one record per line:

    {"crc":"9a0b1c2d","record":{"kind":"optimizer","format":4,"configuration":{...}}}
    {"crc":"5e6f7a8b","record":{"kind":"reference","value":{...}}}
    {"crc":"3c4d5e6f","record":{"kind":"asked","time":1.79e9,"reference":0,"proposals":[...]}}
    {"crc":"7a8b9c0d","record":{"kind":"told","number":0,"action":{...},"contexts":[...],"outcomes":{...}}}

The checksum (CRC-32) of a line goes on from that of the line before, so that no line can be changed, lost or moved
unseen. Equal references are stored once; records name them by their position. `save` appends the new records. A crash
in the middle leaves a last line without its end; `load` drops it and warns, as `save` had not returned. From time to
time, and whenever the file is not the one that was written last, the whole file is written anew, atomically.

Two processes may use one file, and none loses what the other saved: each holds a lock while it reads or writes, and
`save` refuses to replace a file that holds anything beyond a beginning of its own history.

What stands in a record is in `drbo.knowledge.fact_json`. Format 3, of version 0.2, loads: outcomes have no names in it.
The next `save` writes the whole file in format 4.
"""

from __future__ import annotations

import contextlib
import json
import warnings
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from drbo import _files
from drbo._messages import printable
from drbo.knowledge.encoding import RefusedError, TooOldError, UnknownClassError, decode, encode, parsed, shortened
from drbo.knowledge.fact_json import Reader, record_of, told_as
from drbo.knowledge.history import Fact
from drbo.spaces.space import Space

FORMAT = 4
READABLE = (3, FORMAT)
_COMPACT = 1000
"""After so many records were appended, the file is written anew."""
_LARGEST = 100_000_000
"""A line has at most so many bytes: whatever is in the place of a file, it does not fill the memory."""
_HEAD, _TAIL = '{"crc":"%08x","record":', "}"
_HEAD_LENGTH = len(_HEAD % 0)
_BEGINNING = _HEAD.split("%", maxsplit=1)[0].encode()
_BEGINNING_0_1 = b'{"format":"drbooptimizer"'
"""How a file of version 0.1 begins, without its spaces."""


# --- writing --------------------------------------------------------------------------------------------------------


@dataclass
class File:
    """What is known of the file that an optimizer was saved to or loaded from.

    Attributes
    ----------
    path, signature : the file, and what tells that nobody has changed it since
    appendable : whether its last line is complete and of this format, so that more may follow
    written : how many facts it holds
    appended : how many records were appended since it was written as a whole
    crc : the checksum of its last line
    references : the references that it holds, as text, with their positions
    """

    path: Path | None = None
    signature: tuple[int, int, int] | None = None
    appendable: bool = False
    written: int = 0
    appended: int = 0
    crc: int = 0
    references: dict[str, int] = field(default_factory=dict)

    def is_at(self, path: Path) -> bool:
        """Return whether this is the file at a path, and nobody has changed it since."""
        target = _files.resolved(path)
        return self.path == target and _files.signature(target) == self.signature

    def save(self, path: Path, configuration: dict[str, Any], facts: Sequence[Fact]) -> None:
        """Bring a file up to date with the facts: append what is new if the file is ours, else write all of it.

        A file that holds anything that these facts do not is left as it is, with an error.
        """
        target = _files.resolved(path)
        with _files.locked(path):
            known = self.is_at(path)
            if known and self.appendable and self.appended < _COMPACT:
                lines = _Lines(self.crc, dict(self.references))
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
        self.written, self.appended, self.crc, self.references = len(facts), appended, lines.crc, lines.references
        self.appendable = True

    def _refuse_to_lose(self, path: Path, target: Path, lines: _Lines) -> None:
        """Raise if a file holds anything but a beginning of these lines."""
        ours = "".join(lines.text).encode()
        if _files.is_plain(target) and target.stat().st_size <= len(ours) and ours.startswith(target.read_bytes()):
            return
        has_changed = "has changed since it was read or written here"
        raise RuntimeError(
            f"{path} {has_changed if self.path == target else 'was neither read nor written here'}, and holds what "
            "saving would lose, so nothing was saved: go on from it with Optimizer.load, or save under another name. "
            "Several processes on one study need a database: drbo.integrations.optuna (docs/workers.md)"
        )


def _whole(configuration: dict[str, Any], facts: Sequence[Fact]) -> _Lines:
    """Return the lines of a whole file."""
    lines = _Lines(0, {})
    lines.add({"kind": "optimizer", "format": FORMAT, "configuration": encode(configuration)})
    for fact in facts:
        lines.add_fact(fact)
    return lines


class _Lines:
    """The lines of a file, each with its checksum."""

    def __init__(self, crc: int, references: dict[str, int]) -> None:
        self.crc, self.references = crc, references
        self.text: list[str] = []

    def add(self, record: dict[str, Any]) -> None:
        """Add a record."""
        text = json.dumps(record, separators=(",", ":"), allow_nan=False)
        if len(text) > _LARGEST - 100:
            raise ValueError(f"save cannot write a record of {len(text):,} bytes: {_LARGEST:,} are the most of a line")
        self.crc = zlib.crc32(text.encode(), self.crc)
        self.text.append(f"{_HEAD % self.crc}{text}{_TAIL}\n")

    def add_fact(self, fact: Fact) -> None:
        """Add a fact, and before it the references that it names for the first time."""
        self.add(record_of(fact, self._position))

    def _position(self, reference: Any) -> int | None:
        """Return the position of a reference among those of the file."""
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
class Contents:
    """What a file holds: the configuration, and records that become facts once the spaces are known."""

    configuration: dict[str, Any]
    records: list[dict[str, Any]]
    file: File
    classes: Sequence[type]

    def facts(self, actions: Space, contexts: Space) -> Iterator[Fact]:
        """Yield the facts, with points of these spaces."""
        reader = Reader(actions, contexts, self.classes)
        for record in self.records:
            fact = reader.read(record)
            if fact is not None:
                yield fact


def read(path: Path, classes: Sequence[type], like: dict[str, Any] | None = None) -> Contents:
    """Return what a file holds; a clear error if it is not one of ours, damaged, or from a later version.

    `like`: the configuration that the file must have.
    """
    target = _files.resolved(path)
    if not _files.is_plain(path):
        raise RefusedError(f"{path} is not a saved optimizer: it is a folder, a pipe or a device")
    with _files.locked(path, reading=True), told_as_damage(path), path.open("rb") as text:
        signature = _files.signature(target)  # before the text: a file that changes in between is noticed by `save`
        beginning = text.read(100)
        if not beginning.startswith(_BEGINNING):
            if b"".join(beginning.split()).startswith(_BEGINNING_0_1):
                raise TooOldError("was saved by drbo 0.1, whose files this version does not read")
            raise RefusedError(f"{path} is not a saved optimizer")
        text.seek(0)
        texts, crc, ended = _checked_lines(path, text)
    with told_as_damage(path):
        records = [parsed(text) for text in texts]
        head = records[0]
        if head.get("kind") != "optimizer":
            raise ValueError("it does not begin with a configuration")
        if head["format"] not in READABLE:
            other = shortened(repr(head["format"]))
            raise RefusedError(f"{path} is of format {other}; this drbo reads formats 3 and 4")
        if like is not None:
            _check_alike(path, head["configuration"], encode(like))
        configuration = decode(head["configuration"], classes)
        references = [r["value"] for r in records if r["kind"] == "reference"]
        file = File(
            target,
            signature,
            ended and head["format"] == FORMAT,  # otherwise the next save writes all anew
            sum(r["kind"] != "reference" for r in records[1:]),
            0,
            crc,
            {json.dumps(value, allow_nan=False): i for i, value in enumerate(references)},
        )
        return Contents(configuration, records[1:], file, classes)


def _check_alike(path: Path, theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    """Raise unless two configurations, as JSON, are equal; the error names the arguments that differ."""
    in_file, here = dict(theirs["items"]), dict(json.loads(json.dumps(ours))["items"])
    differ = sorted(name for name in in_file.keys() | here.keys() if in_file.get(name) != here.get(name))
    if differ:
        raise RefusedError(
            f"{path} was saved by an optimizer that differs in {', '.join(differ)}: make the optimizer as it was made "
            "then, go on from the file with Optimizer.load, or save under another name"
        )


def _checked_lines(path: Path, file: BinaryIO) -> tuple[list[bytes], int, bool]:
    """Return the records of a file as text, the checksum of the last one, and whether the end of its line is there.

    The first line that is damaged ends it, so that damage to a large file takes little time and memory.
    """
    crc, texts, line = 0, [], b""
    for number, line in enumerate(iter(lambda: file.readline(_LARGEST), b""), start=1):
        found = _checked(line.removesuffix(b"\n"), crc)
        if found is not None:  # the last line may lack nothing but its end
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
    """Turn any error in what a file holds into one sentence that names the file."""
    try:
        with told_as(f"{path} is damaged: "):
            yield
    except (UnknownClassError, TooOldError) as error:
        raise ValueError(f"{path} {shortened(str(error))}") from None
