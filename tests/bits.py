"""Whether two optimizers gave the same answer, field by field and to the last bit; and where they differ."""

import dataclasses
from typing import Any

import numpy as np

from drbo import AmbiguitySet
from drbo.ambiguity import PlacedSet
from drbo.knowledge.explanation import Deferred
from drbo.spaces.space import Point


def bits(value: Any) -> Any:
    """Return a suggestion, recommendation, fact or any part of one in a form that compares bit for bit."""
    if isinstance(value, Deferred):
        return bits(value.get())
    if isinstance(value, Point):
        return ("point", value.index, value.coordinates.tobytes())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return (type(value).__name__, {f.name: bits(getattr(value, f.name)) for f in dataclasses.fields(value)})
    if hasattr(value, "arguments"):
        return (type(value).__name__, bits(value.arguments()))
    if isinstance(value, np.ndarray):
        return (value.shape, value.dtype.str, value.tobytes())
    if isinstance(value, float | np.floating):
        return float(value).hex()
    if isinstance(value, dict):
        return {name: bits(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [bits(item) for item in value]
    return ("plain", repr(value)) if isinstance(value, AmbiguitySet | PlacedSet) else value


def first_difference(left: Any, right: Any, path: str = "") -> str:
    """Return where two results of `bits` differ first, and what is there; nothing where they are equal."""
    if isinstance(left, dict) and isinstance(right, dict) and left.keys() == right.keys():
        pairs = [(f"{path}.{key}", left[key], right[key]) for key in left]
    elif isinstance(left, list | tuple) and isinstance(right, list | tuple) and len(left) == len(right):
        pairs = [(f"{path}[{i}]", one, other) for i, (one, other) in enumerate(zip(left, right, strict=True))]
    else:
        return "" if left == right else f"{path or 'the whole'}: {_readable(left)} and {_readable(right)}"
    return next(filter(None, (first_difference(one, other, where) for where, one, other in pairs)), "")


def _readable(value: Any) -> str:
    """Return a part of a result of `bits` in a form that tells how far two of them are apart."""
    if isinstance(value, bytes) and len(value) % 8 == 0:
        return str(np.frombuffer(value).tolist())
    return repr(value)
