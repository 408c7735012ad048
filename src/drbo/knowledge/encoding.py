"""Values <-> JSON: arrays, and objects by their class and arguments.

A class of drbo is stored by its name. A class of the user's is stored by its qualified name, and is loaded only if it
is handed over. In both cases the arguments are the fields of a dataclass, or what the method `arguments()` returns;
`from_arguments(**arguments)` makes the object, or else the class itself.
"""

from __future__ import annotations

import dataclasses
import enum
import importlib
import inspect
import json
import math
import pkgutil
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drbo import ambiguity, kernels, models, rounds, spaces
from drbo.models.bounds import ConstantBeta
from drbo.models.gp import FittedGP
from drbo.rounds.radius_rules import Own
from drbo.spaces.labels import Labels


def _collected() -> dict[str, type]:
    """Return the classes that a file may name: the public ones of the folders, and a few that stand for arguments."""
    folders = (spaces, models, ambiguity, rounds)
    found = [(folder, one.name) for folder in folders for one in pkgutil.iter_modules(folder.__path__)]
    modules = [kernels, *(importlib.import_module(f"{folder.__name__}.{name}") for folder, name in found)]
    public = [getattr(module, name) for module in modules for name in getattr(module, "__all__", ())]
    classes = [one for one in public if isinstance(one, type) and not inspect.isabstract(one)]
    return {cls.__name__: cls for cls in (*classes, ConstantBeta, FittedGP, Own, Labels)}


_OWN = _collected()
_DROPPED = {
    "UnprovenBeta": "a width of drbo 0.1",
    "family": "a function as ambiguity, as drbo 0.1 took it",
    "FirstOrder": "the policy FirstOrder of drbo 0.2",
}
"""What files of 0.2 may hold that this version has not, by its kind."""

_LONGEST = 500
"""Characters of an error that are told."""


class UnknownClassError(TypeError):
    """A file names a class that was not handed over."""


class RefusedError(ValueError):
    """A file that is in order but cannot be loaded: none of ours, of another version, or of another optimizer."""


class TooOldError(RefusedError):
    """A file or a record that only version 0.1 or 0.2 reads; the text goes on from the name of the file."""


def shortened(text: str) -> str:
    """Return the beginning of an error's text: it may show a value of the file, however long."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


def encode(value: Any) -> Any:
    """Return a value as JSON: numbers, text, arrays, mappings, and objects of drbo such as a set or a setting."""
    if isinstance(value, enum.Enum):
        return {"kind": "enum", "of": _qualified(type(value)), "name": value.name}
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else {"kind": "float", "value": str(float(value))}
    if isinstance(value, np.integer | np.bool_):
        return value.item()
    if isinstance(value, np.ndarray):
        return {"kind": "array", "shape": value.shape, "type": value.dtype.kind, "values": value.ravel().tolist()}
    if isinstance(value, list | tuple):
        return {"kind": "tuple", "items": [encode(item) for item in value]}
    if isinstance(value, dict):
        return {"kind": "mapping", "items": [[encode(name), encode(item)] for name, item in value.items()]}
    own = _OWN.get(type(value).__name__)
    arguments = encode(_arguments(value))
    if own is type(value):
        return {"kind": own.__name__, "arguments": arguments}
    return {"kind": "class", "name": _qualified(type(value)), "arguments": arguments}


def decode(value: Any, classes: Sequence[type] = ()) -> Any:
    """Return what `encode` was given; `classes` are those of the user's that the value may name."""
    if isinstance(value, list):
        raise ValueError("it holds a list in place of a value")
    if not isinstance(value, dict):
        return value
    if "kind" not in value:
        raise ValueError(f"value must be what to_json returned, but a mapping in it has no kind: {value!r}")
    kind = value["kind"]
    if kind in PLAIN:
        return PLAIN[kind](value, lambda part: decode(part, classes))
    if kind == "enum":
        return _handed_over(value["of"], classes)[value["name"]]  # type: ignore[index]
    if kind == "class":
        return _made(_handed_over(value["name"], classes), decode(value["arguments"], classes))
    if kind in _DROPPED:
        raise TooOldError(f"holds {_DROPPED[kind]}, which this version does not read")
    if kind not in _OWN:
        raise ValueError(f"it holds an object of the unknown kind {kind!r}")
    return _made(_OWN[kind], decode(value["arguments"], classes))


def parsed(text: bytes) -> Any:
    """Return the JSON of a text; raise if it names anything twice, or holds what only Python takes for JSON."""
    return _STRICT.decode(text.decode())


def _unique(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise ValueError("it holds a mapping that names something twice")
    return mapping


def _refuse_constant(token: str) -> None:
    raise ValueError(f"it holds {token}, which is no JSON")


_STRICT = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse_constant)


def _array(value: dict[str, Any]) -> NDArray[Any]:
    types: dict[str, Any] = {"f": np.float64, "i": np.intp, "u": np.intp, "b": np.bool_}
    array: NDArray[Any] = np.array(value["values"], dtype=types[value["type"]]).reshape(value["shape"])
    array.flags.writeable = False
    return array


PLAIN: dict[str, Callable[[dict[str, Any], Callable[[Any], Any]], Any]] = {
    "float": lambda value, _: float(value["value"]),
    "array": lambda value, _: _array(value),
    "tuple": lambda value, decoded: tuple(decoded(item) for item in value["items"]),
    "mapping": lambda value, decoded: _unique([(decoded(name), decoded(item)) for name, item in value["items"]]),
}
"""How JSON that is no object of a class is read, by its kind; the second argument reads its parts."""


def classes_in(value: Any) -> set[type]:
    """Return the classes of the user's that `encode` would name."""
    if isinstance(value, list | tuple):
        return set().union(*map(classes_in, value))
    if isinstance(value, dict):
        return classes_in(list(value.values()))
    if value is None or isinstance(value, bool | str | int | float | np.generic | np.ndarray | type):
        return set()
    own = {type(value)} - set(_OWN.values())
    return own | classes_in(_arguments(value))


def _arguments(value: Any) -> dict[str, Any]:
    """Return what an object is made of, by the names of its arguments."""
    if hasattr(value, "arguments") and not isinstance(value, type):
        return dict(value.arguments())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}
    if type(value) in _OWN.values():
        return {}
    raise TypeError(
        f"save cannot write {value!r}: make its class a frozen dataclass, or give it a method arguments() that returns "
        "what its constructor takes"
    )


def _made(cls: Any, arguments: dict[str, Any]) -> Any:
    return cls.from_arguments(**arguments) if hasattr(cls, "from_arguments") else cls(**arguments)


def handed_over(classes: Any) -> Sequence[type]:
    """Return the classes that a user hands over for a file; raise if they are none."""
    if not (isinstance(classes, list | tuple | set | frozenset) and all(isinstance(one, type) for one in classes)):
        raise TypeError(f"classes must be a list of classes, such as [MySet], got {classes!r}")
    return tuple(classes)


def _handed_over(name: Any, classes: Sequence[type]) -> type:
    for cls in classes:
        if _qualified(cls) == name:
            return cls
    short = str(name).rsplit(".", maxsplit=1)[-1]
    raise UnknownClassError(f"needs the class {name}: hand it over, Optimizer.load(path, classes=[{short}])")


def _qualified(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
