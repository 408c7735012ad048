"""Files damaged in every way: bytes, lines, and values with checksums that fit."""

import json
import math
import random
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 7, 10**6, 10**9, 2**63, -(2**70), 10**400, 0.5, -0.0, 1e-320, 1e300, -1e300, 1e308,
    "", "a", "mmd", "nan", "inf", "drbo", "\ud800", "<script>", "x" * 10_000,
    [], {}, [[]], [None], [0.5], [1, 2, 3], [0.0] * 500, [[0.1, 0.2]] * 40,
    {"index": 0}, {"index": -1}, {"index": 10**9}, {"at": [0.5]}, {"at": []}, {"at": [1e300, -1e300]}, {"value": {}},
    {"kind": "told"}, {"kind": "float", "value": "nan"}, {"kind": "float", "value": "inf"},
    {"kind": "array", "shape": [3], "data": [1, 2, 3]},
)  # fmt: skip
"""What may stand where something else should."""

Path = tuple[Any, ...]


def nodes(value: Any, path: Path = ()) -> Iterator[Path]:
    """Yield where something stands in a record."""
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from nodes(value[key], (*path, key))
    elif isinstance(value, list):
        for i in range(len(value)):
            yield from nodes(value[i], (*path, i))


def at(value: Any, path: Path) -> Any:
    """Return what stands there."""
    for key in path:
        value = value[key]
    return value


def with_value(record: Any, path: Path, value: Any) -> Any:
    """Return a record in which something else stands there."""
    if not path:
        return value
    at(record, path[:-1])[path[-1]] = value
    return record


def deep(levels: int) -> str:
    """Return what `with_checksums` turns into lists in lists: no encoder could write so many levels."""
    return f"{levels} levels"


def odd_value(rng: random.Random, record: Any, path: Path) -> Any:
    """Return a record with an odd value somewhere."""
    return with_value(record, path, json.loads(json.dumps(rng.choice(ODD))))


def near_value(rng: random.Random, record: Any, path: Path) -> Any:
    """Return a record in which a number is another one, or a list shorter or longer."""
    value = at(record, path)
    if isinstance(value, bool) or value is None:
        return with_value(record, path, not value)
    if isinstance(value, int):
        return with_value(record, path, value + rng.choice((-1, 1, 2, 1000)))
    if isinstance(value, float):
        other = value * rng.choice((-1.0, 0.0, 2.0, 1e6, 1e-6)) + rng.choice((0.0, 1.0))
        return with_value(record, path, other if math.isfinite(other) else 0.0)
    if isinstance(value, str):
        return with_value(record, path, value[:-1] if rng.random() < 0.5 else value + rng.choice(("", "x", "0", "\n")))
    if isinstance(value, list) and value:
        return with_value(record, path, value[:-1] if rng.random() < 0.5 else value + value[-1:])
    if isinstance(value, dict) and value:
        del value[rng.choice(list(value))]
    return record


def another_value(rng: random.Random, record: Any, path: Path) -> Any:
    """Return a record in which what stands in one place stands in another, too."""
    other = at(record, rng.choice(list(nodes(record))))
    return with_value(record, path, json.loads(json.dumps(other)))


def renamed(rng: random.Random, record: Any, path: Path) -> Any:
    """Return a record with a key of another name, or one more."""
    value = at(record, path)
    if isinstance(value, dict):
        value[rng.choice(("extra", "kind", "type", "number", "", "__class__"))] = rng.choice(ODD)
    return record


def deeper(rng: random.Random, record: Any, path: Path) -> Any:
    """Return a record with lists in lists in lists."""
    return with_value(record, path, deep(rng.choice((3, 50, 900, 100_000))))


CHANGES: tuple[Callable[[random.Random, Any, Path], Any], ...] = (
    odd_value, odd_value, near_value, near_value, near_value, another_value, renamed, deeper,
)  # fmt: skip


def with_checksums(records: list[Any]) -> bytes:
    """Return a file of these records, as a program that is wrong would write it."""
    texts = [json.dumps(record, separators=(",", ":"), allow_nan=False) for record in records]
    return checksummed(re.sub(r'"(\d+) levels"', lambda m: "[" * int(m[1]) + "]" * int(m[1]), text) for text in texts)


def checksummed(texts: Iterable[str | bytes]) -> bytes:
    """Return a file of records that are given as text, be they JSON or not."""
    crc, lines = 0, []
    for text in texts:
        body = text if isinstance(text, bytes) else text.encode()
        crc = zlib.crc32(body, crc)
        lines.append(b'{"crc":"%08x","record":%b}\n' % (crc, body))
    return b"".join(lines)


def damaged(rng: random.Random, text: bytes) -> bytes:
    """Return a file that is damaged in one place, or in some."""
    kind = rng.random()
    if kind < 0.1:  # bytes
        data = bytearray(text)
        for _ in range(rng.choice((1, 1, 3))):
            data[rng.randrange(len(data))] = rng.randrange(256)
        return bytes(data)
    if kind < 0.15:  # a part of the file
        start, stop = sorted((rng.randrange(len(text)), rng.randrange(len(text))))
        return text[:start] + text[stop:] if rng.random() < 0.5 else text[:stop]
    records = [json.loads(line)["record"] for line in text.splitlines()]
    if kind < 0.25:  # lines
        i, j = rng.randrange(len(records)), rng.randrange(len(records))
        if rng.random() < 0.3:
            del records[i]
        elif rng.random() < 0.5:
            records.insert(i, json.loads(json.dumps(records[j])))
        else:
            records[i], records[j] = records[j], records[i]
        return with_checksums(records)
    for _ in range(rng.choice((1, 1, 1, 2))):
        i = rng.randrange(len(records))
        path = rng.choice(list(nodes(records[i])))
        records[i] = rng.choice(CHANGES)(rng, records[i], path)
    return with_checksums(records)
