"""An optimizer as one JSON document, and back: configuration by name and arguments, state by value. No pickle.

A loaded optimizer goes on exactly as the saved one would have: results are shown to the model again in the order in
which they were told, which repeats the same operations on the same numbers.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from drbo import ambiguity, kernels
from drbo.ambiguity import MMD, Neighbourhood, Wasserstein
from drbo.models import bounds as confidence
from drbo.models import gp as surrogate
from drbo.models import learned as hyperparameters
from drbo.optimizer import suggestion
from drbo.rounds import radius, settings
from drbo.spaces import box as space
from drbo.spaces.samples import DataRange, Samples

FORMAT = "drbo optimizer"
VERSION = 2

_PLAIN = {  # frozen records of plain fields
    cls.__name__: cls
    for cls in (
        kernels.RBF, kernels.Matern, kernels.Product, surrogate.GP, hyperparameters.LearnedGP, hyperparameters.FittedGP,
        confidence.TheoreticalBeta, confidence.ConstantBeta, radius.Constant, radius.Theoretical, radius.Decaying,
        radius.Bootstrap, radius.Calibrated, space.Real, space.Log, space.Integer,
    )
}  # fmt: skip
_NO_ARGUMENTS = {
    cls.__name__: cls
    for cls in (
        settings.General, ambiguity.TotalVariation, ambiguity.KL, ambiguity.ChiSquare, ambiguity.CVaR,
        ambiguity.Expectation,
    )
}  # fmt: skip

_FAMILIES = {cls.__name__: cls for cls in (MMD, Neighbourhood, Wasserstein)}  # functions from contexts to a set


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that it is there as a whole or not at all, also after a crash of the machine."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")  # one name: the next write overwrites what a killed one left
    with temporary.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    if os.name == "posix":  # the new name itself must reach the disk
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def dumps(state: dict[str, Any]) -> str:
    """Return the document of an optimizer's configuration and state."""
    document = {"format": FORMAT, "version": VERSION, **{name: encode(value) for name, value in state.items()}}
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def loads(text: bytes, source: str) -> dict[str, Any]:
    """Return configuration and state of a document; a clear error if it is not one of ours."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{source} is not a saved optimizer: {error}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(f"{source} is not a saved optimizer: its format is not {FORMAT!r}")
    if document.get("version") != VERSION:
        raise ValueError(f"{source} is of version {document.get('version')!r}; this drbo reads version {VERSION}")
    try:
        return {name: decode(value) for name, value in document.items() if name not in ("format", "version")}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{source} is damaged: {error}") from None


def encode(value: Any) -> Any:
    """Return a value as JSON: objects as their kind and arguments, arrays as lists, infinity by name."""
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else {"kind": "float", "value": str(float(value))}
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, np.ndarray):
        return {"kind": "array", "shape": value.shape, "type": value.dtype.kind, "values": value.ravel().tolist()}
    if isinstance(value, list | tuple):
        return {"kind": "tuple", "items": [encode(item) for item in value]}
    if isinstance(value, dict):
        return {"kind": "mapping", "items": [[name, encode(item)] for name, item in value.items()]}
    family = value.func if isinstance(value, functools.partial) else value
    if family in _FAMILIES.values() and not getattr(value, "args", ()):
        return {"kind": "family", "of": family.__name__, "given": encode(getattr(value, "keywords", {}))}
    name = type(value).__name__
    if name in _NO_ARGUMENTS:
        return {"kind": name}
    if name in _PLAIN or isinstance(value, suggestion.Suggestion | suggestion.Recommendation):
        return {"kind": name, **{f.name: encode(getattr(value, f.name)) for f in dataclasses.fields(value)}}
    arguments = _arguments(value)
    if arguments is None:
        raise TypeError(
            f"save cannot write {value!r}: only sets, settings and values of drbo itself can be saved; in place of a "
            "function from contexts to a set, functools.partial(drbo.MMD, kernel=...) can"
        )
    return {"kind": name, **{key: encode(item) for key, item in arguments.items()}}


def _arguments(value: Any) -> dict[str, Any] | None:
    """Return what rebuilds an object that is not a plain record."""
    if isinstance(value, space.Box):
        return {"parameters": value.parameters}
    if isinstance(value, space.Categorical):
        return {"choices": value.choices}
    if isinstance(value, Samples):
        names = value.range.names if isinstance(value.range, DataRange) else None
        own = {key: getattr(value, key) for key in ("data", "weights", "within", "atoms", "support")}
        return {**own, "weights": value.weights if len(value.weights) else None, "names": names}
    if isinstance(value, settings.DataDriven):
        return {"delta": value.delta, "radius": value.radius}
    if isinstance(value, settings.Simulator):
        own = {"reference": value.reference, "radius": value.radius, "history": value.history}
        return {**own, "pick": value.pick}
    if type(value) is MMD:
        own = {"contexts": value.contexts, "kernel": value.kernel}
        return {"features": value.features} if value.contexts is None else own
    if type(value) is Neighbourhood:
        return {"contexts": value.contexts}
    if type(value) is Wasserstein:
        points, cost = value.contexts, value.cost if value.contexts is None else None
        return {"contexts": points, "cost": cost, "order": value.order, "norm": value.norm}
    return None


def decode(value: Any) -> Any:
    """Return what `encode` was given."""
    if not isinstance(value, dict):
        return value
    kind = value["kind"]
    if kind == "float":
        return float(value["value"])
    if kind == "array":
        array = np.array(value["values"], dtype={"f": np.float64, "i": np.intp}[value["type"]]).reshape(value["shape"])
        array.flags.writeable = False
        return array
    if kind == "tuple":
        return tuple(decode(item) for item in value["items"])
    if kind == "family":
        return functools.partial(_FAMILIES[value["of"]], **decode(value["given"]))
    if kind == "mapping":
        return {name: decode(item) for name, item in value["items"]}
    arguments = {name: decode(item) for name, item in value.items() if name != "kind"}
    if kind in _NO_ARGUMENTS:
        return _NO_ARGUMENTS[kind]()
    if kind in _PLAIN:
        return _PLAIN[kind](**arguments)
    return _rebuild(kind, arguments)


def _rebuild(kind: str, arguments: dict[str, Any]) -> Any:
    if kind == "Suggestion":
        return suggestion.Suggestion(**arguments)
    if kind == "Recommendation":
        return suggestion.Recommendation(**arguments)
    if kind == "Box":
        return space.Box(**arguments["parameters"])
    if kind == "Categorical":
        return space.Categorical(*arguments["choices"])
    if kind == "Samples":
        return Samples(**arguments)
    if kind == "DataDriven":
        return settings.DataDriven(**arguments)
    if kind == "Simulator":
        history = arguments.pop("history")
        return settings.Simulator(**arguments, history=history if history.size else None)
    if kind == "MMD":
        return MMD.of_features(**arguments) if "features" in arguments else MMD(**arguments)
    if kind == "Neighbourhood":
        return Neighbourhood(**arguments)
    if kind == "Wasserstein":
        return Wasserstein(**arguments)
    raise ValueError(f"it holds an unknown {kind!r}")
