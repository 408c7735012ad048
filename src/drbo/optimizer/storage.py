"""Facts <-> file. No pickle: loading a file executes nothing but constructors of drbo and of classes handed over.

Format 3 is text, one record per line:

    {"crc":"9a0b1c2d","record":{"kind":"optimizer","format":3,"configuration":{...}}}
    {"crc":"5e6f7a8b","record":{"kind":"reference","value":{...}}}
    {"crc":"3c4d5e6f","record":{"kind":"asked","time":1.79e9,"reference":0,"proposals":[...]}}
    {"crc":"7a8b9c0d","record":{"kind":"told","number":0,"action":{...},"contexts":[...],"outcomes":[...]}}

The checksum (CRC-32) of a line goes on from that of the line before, so that no line can be changed, lost or moved
unseen. Equal references are stored once; records name them by their position. `save` appends the new records. A crash
in the middle leaves a last line without its end; `load` drops it and warns, as `save` had not returned. From time to
time, and whenever the file is not the one that was written last, the whole file is written anew, atomically.

Two processes may use one file, and none loses what the other saved: each holds a lock while it reads or writes, and
`save` refuses to replace a file that holds anything beyond a beginning of its own history.

A point of a finite set is stored by its index, any other by its coordinates; a record that others wrote may give its
value, {"value": {"setpoint": 21.0}}. Outcomes and contexts are lists: one record may hold
several. Records of an unknown kind come from a later version and are refused.
"""

from __future__ import annotations

import contextlib
import json
import math
import warnings
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from drbo import _files
from drbo.models.gp import FittedGP
from drbo.optimizer import storage_0_1
from drbo.optimizer.encoding import UnknownClassError, decode, encode
from drbo.optimizer.history import Amended, Asked, Cancelled, Fact, Imported, Proposal, Retracted, Told
from drbo.spaces.space import Point, Space
from drbo.validation import FloatArray

FORMAT = 3
_COMPACT = 1000
"""After so many records were appended, the file is written anew."""
_HEAD, _TAIL = '{"crc":"%08x","record":', "}"
_HEAD_LENGTH = len(_HEAD % 0)


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
        target = path.resolve()
        return self.path == target and _files.signature(target) == self.signature

    def save(self, path: Path, configuration: dict[str, Any], facts: Sequence[Fact]) -> None:
        """Bring a file up to date with the facts: append what is new if the file is ours, else write all of it.

        A file that holds anything that these facts do not is left as it is, with an error.
        """
        target = path.resolve()
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
        if "".join(lines.text).encode().startswith(target.read_bytes()):
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
        self.crc = zlib.crc32(text.encode(), self.crc)
        self.text.append(f"{_HEAD % self.crc}{text}{_TAIL}\n")

    def add_fact(self, fact: Fact) -> None:
        """Add a fact, and before it the references that it names for the first time."""
        record = _WRITERS[type(fact)](fact, self._position)
        self.add(record)

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


def _point(point: Point | None) -> Any:
    if point is None:
        return None
    return {"index": point.index} if point.index is not None else {"at": point.coordinates.tolist()}


def _write_asked(fact: Asked, position: Any) -> dict[str, Any]:
    return {
        "kind": "asked",
        "time": fact.time,
        "reference": position(fact.reference),
        "radius": encode(fact.radius),
        "fit": encode(fact.fit),
        "proposals": [
            {
                "number": p.number,
                "action": _point(p.action),
                "context": _point(p.context),
                "more_contexts": [_point(context) for context in p.more_contexts],
                "radius": encode(p.radius),
                "score": encode(p.score),
                "guarantee": encode(p.guarantee),
                "further": p.further.tolist(),
                **({"loss": p.loss} if p.loss else {}),
                **({"fallback": True} if p.fallback else {}),
            }
            for p in fact.proposals
        ],
        **({"awaited": list(fact.awaited)} if fact.awaited else {}),
        **({} if fact.given is None else {"given": encode(dict(fact.given))}),
    }


def _write_told(fact: Told, position: Any) -> dict[str, Any]:
    del position
    return {
        "kind": "told",
        "time": fact.time,
        "number": fact.number,
        "action": _point(fact.action),
        "contexts": [_point(context) for context in fact.contexts],
        "outcomes": list(fact.outcomes),
        "drawn": fact.drawn,
        "stderrs": list(fact.stderrs),
        **({"weights": list(fact.weights)} if fact.weights else {}),
    }


def _write_cancelled(fact: Cancelled, position: Any) -> dict[str, Any]:
    del position
    return {"kind": "cancelled", "time": fact.time, "number": fact.number}


def _write_retracted(fact: Retracted, position: Any) -> dict[str, Any]:
    del position
    return {"kind": "retracted", "time": fact.time, "result": fact.result}


def _write_amended(fact: Amended, position: Any) -> dict[str, Any]:
    del position
    contexts = [_point(context) for context in fact.contexts]
    return {
        "kind": "amended",
        "time": fact.time,
        "result": fact.result,
        "contexts": contexts,
        "outcomes": list(fact.outcomes),
        "stderrs": list(fact.stderrs),
        **({"weights": list(fact.weights)} if fact.weights else {}),
    }


def _write_imported(fact: Imported, position: Any) -> dict[str, Any]:
    return {
        "kind": "imported",
        "told": [_write_told(told, position) for told in fact.told],
        "pending": [_write_asked(asked, position) for asked in fact.pending],
        "best": None if fact.best is None else _write_asked(fact.best, position),
        "n_asked": fact.n_asked,
        "reference": position(fact.reference),
        "radius": encode(fact.radius),
        "fit": encode(fact.fit),
        "further": fact.further.tolist(),
    }


_WRITERS: dict[type, Any] = {
    Asked: _write_asked,
    Told: _write_told,
    Cancelled: _write_cancelled,
    Retracted: _write_retracted,
    Amended: _write_amended,
    Imported: _write_imported,
}


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
        reader = _Reader(actions, contexts, self.classes)
        for record in self.records:
            fact = reader.read(record)
            if fact is not None:
                yield fact


@dataclass
class _Reader:
    """What turns records into facts."""

    actions: Space
    contexts: Space
    classes: Sequence[type]
    references: list[Any] = field(default_factory=list)

    def read(self, record: dict[str, Any]) -> Fact | None:
        """Return the fact of a record; None if it holds a reference for later ones."""
        kind = record["kind"]
        if kind == "reference":
            self.references.append(decode(record["value"], self.classes))
            return None
        if kind == "asked":
            return self._asked(record)
        if kind == "told":
            return self._told(record)
        if kind == "cancelled":
            return Cancelled(_time(record), _count(record["number"]))
        if kind == "retracted":
            return Retracted(_time(record), _count(record["result"]))
        if kind == "amended":
            number, stderrs = _count(record["result"]), self._stderrs(record)
            return Amended(_time(record), number, *self._outcomes(record), stderrs, _weights(record))
        if kind == "imported":
            return self._imported(record)
        if kind == "0.1":
            return storage_0_1.imported(record["state"], self.actions, self.contexts)
        raise ValueError(f"it holds a record of the unknown kind {kind!r}, perhaps of a later version of drbo")

    def _asked(self, record: dict[str, Any]) -> Asked:
        proposals = tuple(
            Proposal(
                number=_count(p["number"]),
                action=_read_point(p["action"], self.actions),
                context=None if p["context"] is None else _read_point(p["context"], self.contexts),
                radius=_float(p["radius"]),
                score=_float(p["score"]),
                guarantee=_float(p["guarantee"]),
                further=self._further(p),
                loss=_loss(p.get("loss", 0.0)),
                fallback=p.get("fallback", False) is True,
                more_contexts=tuple(_read_point(context, self.contexts) for context in p.get("more_contexts", ())),
            )
            for p in record["proposals"]
        )
        radius = None if record["radius"] is None else _float(record["radius"])
        awaited = tuple(_count(number) for number in record.get("awaited", ()))
        given = decode(record.get("given"), self.classes)
        if not (given is None or (isinstance(given, dict) and given)):
            raise ValueError(f"it holds {given!r} in place of what was known of a context")
        fit = self._fit(record["fit"])
        return Asked(_time(record), self._reference(record), radius, fit, proposals, awaited, given)

    def _outcomes(self, record: dict[str, Any]) -> tuple[tuple[Point, ...], tuple[float, ...]]:
        contexts = tuple(_read_point(context, self.contexts) for context in record["contexts"])
        outcomes = tuple(_finite(outcome) for outcome in record["outcomes"])
        expected = 1 if _weights(record) else len(contexts)
        if not contexts or (outcomes and len(outcomes) != expected):
            raise ValueError(f"it holds a result with {len(outcomes)} outcomes in {len(contexts)} contexts")
        return contexts, outcomes

    def _stderrs(self, record: dict[str, Any]) -> tuple[float, ...]:
        stderrs = tuple(_float(stderr) for stderr in record.get("stderrs", ()))
        if stderrs and (len(stderrs) != len(record["outcomes"]) or not all(0.0 <= e < math.inf for e in stderrs)):
            raise ValueError(f"it holds {stderrs} as the standard errors of {len(record['outcomes'])} outcomes")
        return stderrs

    def _told(self, record: dict[str, Any]) -> Told:
        contexts, outcomes = self._outcomes(record)
        number = None if record["number"] is None else _count(record["number"])
        action = _read_point(record["action"], self.actions)
        stderrs = self._stderrs(record)
        drawn, weights = bool(record["drawn"]), _weights(record)
        return Told(_time(record), number, action, contexts, outcomes, drawn, stderrs, weights)

    def _imported(self, record: dict[str, Any]) -> Imported:
        fit = self._fit(record["fit"])
        if fit is None:
            raise ValueError("it holds an import without hyper-parameters")
        return Imported(
            tuple(self._told(told) for told in record["told"]),
            tuple(self._asked(asked) for asked in record["pending"]),
            None if record["best"] is None else self._asked(record["best"]),
            _count(record["n_asked"]),
            self._reference(record),
            None if record["radius"] is None else _float(record["radius"]),
            fit,
            self._further(record),
        )

    def _further(self, record: dict[str, Any]) -> FloatArray:
        points = np.array(record["further"], dtype=float).reshape(-1, self.contexts.dimension)
        if not np.isfinite(points).all():
            raise ValueError("it holds further contexts that are not finite")
        return points

    def _reference(self, record: dict[str, Any]) -> Any:
        value = record["reference"]
        return self.references[_count(value)] if isinstance(value, int) else decode(value, self.classes)

    def _fit(self, value: Any) -> FittedGP | None:
        fit = decode(value, self.classes)
        if not (fit is None or isinstance(fit, FittedGP)):
            raise ValueError(f"it holds hyper-parameters that are none: {fit!r}")
        return fit


def _read_point(value: dict[str, Any], space: Space) -> Point:
    if "index" in value:
        return space.at("index", value["index"])
    if "value" in value:
        return space.encode("value", value["value"])
    return space.stored(np.array(value["at"], dtype=float))


def _weights(record: dict[str, Any]) -> tuple[float, ...]:
    """Return the distribution of a context that was never revealed; nothing if each outcome has its context."""
    weights = tuple(_float(weight) for weight in record.get("weights", ()))
    if not weights:
        return ()
    whole = len(weights) == len(record["contexts"]) and len(record["outcomes"]) == 1
    if not (whole and all(w > 0.0 for w in weights) and abs(math.fsum(weights) - 1.0) <= 1e-6):
        raise ValueError(f"it holds {weights} as the distribution of a context that was not revealed")
    return weights


def _loss(value: Any) -> float:
    loss = _float(value)
    if not 0.0 <= loss < math.inf:
        raise ValueError(f"it holds a loss of {loss}, which must be zero or more")
    return loss


def records_of(facts: Sequence[Fact]) -> list[dict[str, Any]]:
    """Return facts as JSON, one mapping each, as a file has them; references stand in the records themselves."""
    return [_WRITERS[type(fact)](fact, encode) for fact in facts]


def facts_of(records: Sequence[dict[str, Any]], actions: Space, contexts: Space, classes: Sequence[type]) -> list[Fact]:
    """Return the facts of records as `records_of` makes them; an error names the record."""
    reader, facts = _Reader(actions, contexts, classes), []
    for i, record in enumerate(records):
        with told_as(f"records[{i}] is no record: "):
            fact = reader.read(record)
            if fact is None:
                raise ValueError("it is a reference, which stands in the record that uses it")
            facts.append(fact)
    return facts


def _float(value: Any) -> float:
    number = decode(value, ())
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise ValueError(f"it holds {value!r} in place of a number")
    return float(number)


def _finite(value: Any) -> float:
    number = _float(value)
    if not math.isfinite(number):
        raise ValueError(f"it holds {number} in place of a finite number")
    return number


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"it holds {value!r} in place of a count")
    return value


def _time(record: dict[str, Any]) -> float | None:
    return None if record["time"] is None else _finite(record["time"])


def read(path: Path, classes: Sequence[type], like: dict[str, Any] | None = None) -> Contents:
    """Return what a file holds; a clear error if it is not one of ours, damaged, or from a later version.

    `like`: the configuration that the file must have.
    """
    target = path.resolve()
    with _files.locked(path, reading=True):
        signature = _files.signature(target)  # before the text: a file that changes in between is noticed by `save`
        text = path.read_bytes()
    with told_as_damage(path):
        if not text.startswith(_HEAD.split("%", maxsplit=1)[0].encode()):
            if like is not None:
                raise _RefusedError(f"{path} is not of format {FORMAT}: go on from it with Optimizer.load")
            configuration, state = storage_0_1.read(text, str(path))
            return Contents(configuration, [{"kind": "0.1", "state": state}], File(target, signature), classes)
        records, crc = _checked_lines(path, text)
        head = records[0]
        if head.get("kind") != "optimizer":
            raise ValueError("it does not begin with a configuration")
        if head["format"] != FORMAT:
            raise _RefusedError(f"{path} is of format {head['format']!r}; this drbo reads formats up to {FORMAT}")
        if like is not None:
            _check_alike(path, head["configuration"], encode(like))
        configuration = decode(head["configuration"], classes)
        references = [r["value"] for r in records if r["kind"] == "reference"]
        file = File(
            target,
            signature,
            text.endswith(b"\n"),  # after a line without its end the next save writes all anew
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
        raise _RefusedError(
            f"{path} was saved by an optimizer that differs in {', '.join(differ)}: make the optimizer as it was made "
            "then, go on from the file with Optimizer.load, or save under another name"
        )


def _checked_lines(path: Path, text: bytes) -> tuple[list[dict[str, Any]], int]:
    """Return the records of a file and the checksum of the last one."""
    *lines, rest = text.split(b"\n")
    crc, records = 0, []
    for number, line in enumerate(lines, start=1):
        found = _checked(line, crc)
        if found is None:
            raise ValueError(f"line {number} does not fit its checksum")
        crc, record = found
        records.append(record)
    last = _checked(rest, crc)  # it may lack nothing but the end of its line
    if last is not None:
        crc, record = last
        records.append(record)
    elif rest:
        warnings.warn(
            f"{path} ends in the middle of a record: a save was interrupted. What was saved before it is loaded",
            RuntimeWarning,
            stacklevel=4,
        )
    if not records:
        raise ValueError("its first record is not complete")
    return records, crc


def _checked(line: bytes, crc: int) -> tuple[int, dict[str, Any]] | None:
    """Return the checksum and the record of a line; None if it does not fit its checksum."""
    body = line[_HEAD_LENGTH : -len(_TAIL)]
    crc = zlib.crc32(body, crc)
    if line != f"{_HEAD % crc}".encode() + body + _TAIL.encode():
        return None
    return crc, json.loads(body)


class _RefusedError(ValueError):
    """A file that is in order, but that cannot be loaded."""


@contextlib.contextmanager
def told_as_damage(path: str | Path) -> Iterator[None]:
    """Turn any error in what a file holds into one sentence that names the file."""
    try:
        with told_as(f"{path} is damaged: "):
            yield
    except UnknownClassError as error:
        raise ValueError(f"{path} {error}") from None


@contextlib.contextmanager
def told_as(beginning: str) -> Iterator[None]:
    """Turn any error in a record into one sentence."""
    try:
        yield
    except (_RefusedError, storage_0_1.RefusedError, UnknownClassError):
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        what = str(error) if isinstance(error, ValueError | TypeError) else repr(error)
        raise ValueError(beginning + what) from None
