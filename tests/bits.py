"""Whether two optimizers gave the same answer, field by field and to the last bit."""

import dataclasses
from typing import Any

import numpy as np

from drbo import AmbiguitySet
from drbo.optimizer.explanation import Deferred
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
        return np.float64(value).tobytes()
    if isinstance(value, dict):
        return {name: bits(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [bits(item) for item in value]
    return ("plain", repr(value)) if isinstance(value, AmbiguitySet) else value
