"""Values <-> JSON: arrays, and objects by their class and arguments.

A drbo class is stored by its name. A user's class or function is stored by its qualified name, and is loaded only if
the caller passes it. The stored arguments are the fields of a dataclass, or the result of the method `arguments()`. The
object is rebuilt with `from_arguments(**arguments)` if the class has it, otherwise with the constructor.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import importlib
import inspect
import json
import math
import pkgutil
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drbo import ambiguity, kernels, models, rounds, spaces
from drbo._messages import printable
from drbo.models.bounds import ConstantBeta
from drbo.models.gp import FittedGP
from drbo.rounds.radius_rules import Own
from drbo.spaces.finite import FiniteSet, Labels
from drbo.spaces.parameters import ObservedWhole


def _collected() -> dict[str, type]:
    """Return the drbo classes that a file may name: the public ones of the folders and a few argument classes."""
    folders = (spaces, models, ambiguity, rounds)
    found = [(folder, one.name) for folder in folders for one in pkgutil.iter_modules(folder.__path__)]
    modules = [kernels, *(importlib.import_module(f"{folder.__name__}.{name}") for folder, name in found)]
    public = [getattr(module, name) for module in modules for name in getattr(module, "__all__", ())]
    classes = [one for one in public if isinstance(one, type) and not inspect.isabstract(one)]
    return {cls.__name__: cls for cls in (*classes, ConstantBeta, FittedGP, Own, FiniteSet, Labels, ObservedWhole)}


_OWN = _collected()
_DROPPED = {
    "UnprovenBeta": "a width of drbo 0.1",
    "family": "a function as ambiguity, as drbo 0.1 took it",
    "FirstOrder": "the policy FirstOrder of drbo 0.2",
    "ChanceConstrained": "the policy ChanceConstrained of drbo 0.2, which is a limit of the objective now,",
}
"""Kinds of values in files of older versions that this version no longer reads."""

_LONGEST = 500
"""Longest error text, in characters."""


class UnknownClassError(TypeError):
    """A file names a class that the caller did not pass."""


class RefusedError(ValueError):
    """An undamaged file that cannot be loaded: not from drbo, from another version, or from another optimizer."""


class TooOldError(RefusedError):
    """A file or a record that only version 0.1 or 0.2 reads; the text continues after the file name."""


def shortened(text: str) -> str:
    """Return an error text, escaped and cut to the longest length; it may quote a long value of the file."""
    return printable(text) if len(text) <= _LONGEST else f"{printable(text[:_LONGEST])} ..."


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
    if isinstance(value, datetime.date):  # datetime.datetime is one, too
        return {"kind": "datetime" if isinstance(value, datetime.datetime) else "date", "value": value.isoformat()}
    if isinstance(value, np.ndarray):
        return {"kind": "array", "shape": value.shape, "type": value.dtype.kind, "values": value.ravel().tolist()}
    if isinstance(value, list | tuple):
        return {"kind": "tuple", "items": [encode(item) for item in value]}
    if isinstance(value, dict):
        return {"kind": "mapping", "items": [[encode(name), encode(item)] for name, item in value.items()]}
    if isinstance(value, FunctionType):
        return {"kind": "function", "name": _named(value)}
    own = _OWN.get(type(value).__name__)
    arguments = encode(_arguments(value))
    if own is type(value):
        return {"kind": own.__name__, "arguments": arguments}
    return {"kind": "class", "name": _qualified(type(value)), "arguments": arguments}


def decode(value: Any, classes: Sequence[Callable[..., Any]] = ()) -> Any:
    """Return the value that `encode` was given; `classes` are the user's classes that it may name."""
    if isinstance(value, list):
        raise ValueError("it holds a list instead of a value")
    if not isinstance(value, dict):
        return value
    if "kind" not in value:
        raise ValueError(f"value must be what to_json returned, but a mapping in it has no kind: {value!r}")
    kind = value["kind"]
    if kind in PLAIN:
        return PLAIN[kind](value, lambda part: decode(part, classes))
    if kind == "enum":
        return _handed_over(value["of"], classes)[value["name"]]
    if kind == "function":
        return _handed_over(value["name"], classes, "function")
    if kind == "class":
        return _made(_handed_over(value["name"], classes), decode(value["arguments"], classes))
    if kind in _DROPPED:
        raise TooOldError(f"holds {_DROPPED[kind]}, which this version does not read")
    if kind not in _OWN:
        raise ValueError(f"it holds an object of the unknown kind {kind!r}")
    return _made(_OWN[kind], decode(value["arguments"], classes))


def parsed(text: bytes) -> Any:
    """Return the parsed JSON of a text; raise on duplicate keys and on NaN or infinity."""
    return _STRICT.decode(text.decode())


def _unique(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise ValueError("it holds a mapping that names something twice")
    return mapping


def _refuse_constant(token: str) -> None:
    raise ValueError(f"it holds {token}, which is not JSON")


_STRICT = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse_constant)


def _array(value: dict[str, Any]) -> NDArray[Any]:
    types: dict[str, Any] = {"f": np.float64, "i": np.intp, "u": np.intp, "b": np.bool_}
    array: NDArray[Any] = np.array(value["values"], dtype=types[value["type"]]).reshape(value["shape"])
    array.flags.writeable = False
    return array


PLAIN: dict[str, Callable[[dict[str, Any], Callable[[Any], Any]], Any]] = {
    "float": lambda value, _: float(value["value"]),
    "date": lambda value, _: datetime.date.fromisoformat(value["value"]),
    "datetime": lambda value, _: datetime.datetime.fromisoformat(value["value"]),
    "array": lambda value, _: _array(value),
    "tuple": lambda value, decoded: tuple(decoded(item) for item in value["items"]),
    "mapping": lambda value, decoded: _unique([(decoded(name), decoded(item)) for name, item in value["items"]]),
}
"""Readers of values that are not objects, by kind; the second argument decodes the parts."""


def classes_in(value: Any) -> set[Any]:
    """Return the user's classes and functions that `encode` would name."""
    if isinstance(value, FunctionType):
        return {value}
    if isinstance(value, list | tuple):
        return set().union(*map(classes_in, value))
    if isinstance(value, dict):
        return classes_in(list(value.values()))
    if value is None or isinstance(value, bool | str | int | float | datetime.date | np.generic | np.ndarray | type):
        return set()
    own = {type(value)} - set(_OWN.values())
    return own | classes_in(_arguments(value))


def _arguments(value: Any) -> dict[str, Any]:
    """Return the constructor arguments of an object by name."""
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


def handed_over(classes: Any) -> Sequence[Callable[..., Any]]:
    """Return the classes and functions that a user passed; raise if they are something else."""
    several = isinstance(classes, list | tuple | set | frozenset)
    if not (several and all(isinstance(one, type | FunctionType) for one in classes)):
        raise TypeError(f"classes must be a list of classes and functions, such as [MySet], got {classes!r}")
    return tuple(classes)


def _named(function: FunctionType) -> str:
    """Return the qualified name of a function; raise if it has none."""
    if "<lambda>" in function.__qualname__:
        raise TypeError("save cannot write a lambda: give the function a name, def ...")
    return _qualified(function)


def _handed_over(name: Any, classes: Sequence[Callable[..., Any]], what: str = "class") -> Any:
    named = [cls for cls in classes if _qualified(cls) == name] or [
        cls for cls in classes if _in_program(cls, str(name))
    ]
    if named:
        return named[0]
    short = str(name).rsplit(".", maxsplit=1)[-1]
    raise UnknownClassError(
        f"needs the {what} {printable(name)}: pass it, Optimizer.load(path, classes=[{printable(short)}])"
    )


def _in_program(cls: Any, name: str) -> bool:
    """Return whether this is the name of a class or function of a program: "__main__" is its module while it runs."""
    module = name.removesuffix(f".{cls.__qualname__}")
    return module != name and "__main__" in (module, cls.__module__)


def _qualified(cls: Any) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
