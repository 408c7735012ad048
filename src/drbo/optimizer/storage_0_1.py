"""The files of version 0.1 (format version 2): one JSON document, read as one record of what was imported."""

from __future__ import annotations

import dataclasses
import math
import warnings
from typing import Any

import numpy as np

from drbo import kernels
from drbo.ambiguity import KL, MMD, ChiSquare, CVaR, Expectation, Neighbourhood, TotalVariation, Wasserstein
from drbo.models import bounds, gp, learned
from drbo.optimizer.encoding import PLAIN, RefusedError, parsed, shortened
from drbo.optimizer.history import Asked, Imported, Proposal, Told
from drbo.rounds import learned_radius, radius, settings
from drbo.spaces import box, choices, parameters, samples
from drbo.spaces.finite import FiniteSet
from drbo.spaces.space import Point, Space
from drbo.validation import FloatArray

FORMAT = "drbo optimizer"
VERSION = 2
_CONFIGURATION = ("actions", "contexts", "ambiguity", "setting", "surrogate", "beta", "maximize", "seed")

_CLASSES: dict[str, Any] = {
    cls.__name__: cls
    for cls in (
        kernels.RBF, kernels.Matern, kernels.Product, gp.GP, gp.FittedGP, learned.LearnedGP, bounds.TheoreticalBeta,
        bounds.ConstantBeta, radius.Constant, radius.Theoretical, radius.Decaying, learned_radius.Bootstrap,
        learned_radius.Calibrated,
        parameters.Real, parameters.Log, parameters.Integer, samples.Samples, settings.General, settings.DataDriven,
        settings.Simulator, TotalVariation, KL, ChiSquare, CVaR, Wasserstein, Expectation, Neighbourhood,
    )
}  # fmt: skip


def read(text: bytes, source: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return configuration and state of a document."""
    try:
        document = parsed(text)
    except (ValueError, RecursionError) as error:
        raise RefusedError(f"{source} is not a saved optimizer: {shortened(str(error))}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise RefusedError(f"{source} is not a saved optimizer: its format is not {FORMAT!r}")
    if document.get("version") != VERSION:
        other = shortened(repr(document.get("version")))
        raise RefusedError(f"{source} is of version {other}; this drbo reads version {VERSION}")
    state = {name: _decode(value) for name, value in document.items() if name not in ("format", "version")}
    configuration = {name: state[name] for name in _CONFIGURATION}
    beta = configuration["beta"]
    if configuration["surrogate"].learns and beta.proven:
        warnings.warn(
            f"{source} has a TheoreticalBeta with a surrogate that learns, for which there is no theorem: its "
            "recommendations are estimates, without a probability",
            RuntimeWarning,
            stacklevel=4,
        )
        configuration["beta"] = bounds.UnprovenBeta(beta.bound, beta.noise, beta.delta)
    return configuration, state


def imported(state: dict[str, Any], actions: Space, contexts: Space) -> Imported:
    """Return the record of what a document held, with points of these spaces."""
    sign = 1.0 if state["maximize"] else -1.0
    told = []
    for action, context, index, outcome, seen, *_ in state["observations"]:
        where = contexts.at("context_index", index) if index >= 0 else Point(context)
        outcomes = () if outcome is None else (sign * outcome,)
        told.append(Told(None, None, _point(action, actions), (where,), outcomes, bool(seen)))
    if len(told) != state["told"]:
        raise ValueError(f"it says {state['told']} results, and holds {len(told)}")
    given, eps = state["given"]
    own = given if isinstance(given, samples.Samples) else None
    best = state["best"]
    fit = dataclasses.replace(state["fit"], n_outcomes=state["fitted_at"])
    if isinstance(state["surrogate"], learned.LearnedGP):
        fit = dataclasses.replace(fit, known=state["fitted_at"] > 0)
    further = np.asarray(state["further"]).reshape(-1, contexts.dimension)
    none = np.empty((0, contexts.dimension))

    def asked(s: dict[str, Any], number: int, guarantee: float) -> Asked:
        where = s.get("context_point")
        context = None
        if where is not None:
            i = s["context_index"]
            context = Point(where) if i is None else contexts.at("context_index", i)
        action = _point(s["action_point"], actions)
        general = isinstance(state["setting"], settings.General)
        known = general and isinstance(contexts, FiniteSet)  # otherwise the set of its round is not in the file
        radius = s["radius"] if known or "number" in s else math.nan
        proposal = Proposal(number, action, context, radius, s.get("score", guarantee), guarantee, none)
        return Asked(None, s["reference"] if known else own, s["radius"] if general else None, None, (proposal,))

    return Imported(
        told=tuple(told),
        pending=tuple(asked(s, s["number"], -sign * np.inf) for s in state["pending"]),
        best=None if best is None else asked(best, 0, best["value"]),
        n_asked=state["asked"],
        reference=given,
        radius=eps,
        fit=fit,
        further=further,
    )


def _point(coordinates: FloatArray, space: Space) -> Point:
    """Return the point of an action; in a finite set by its place among the others."""
    if not isinstance(space, FiniteSet):
        return Point(coordinates)
    same = np.flatnonzero((space.coordinates == coordinates).all(axis=1))
    if not len(same):
        raise ValueError(f"it holds an action that is none of the actions: {coordinates!r}")
    return space.at("action", int(same[0]))


def _decode(value: Any) -> Any:
    """Return the value of a JSON value of this format; suggestions and recommendations as mappings."""
    if not isinstance(value, dict):
        return value
    kind = value["kind"]
    if kind in PLAIN:
        return PLAIN[kind](value, _decode)
    arguments = {name: _decode(item) for name, item in value.items() if name != "kind"}
    if kind in ("Suggestion", "Recommendation"):
        return arguments
    if kind == "Box":
        return box.Box(arguments["parameters"])
    if kind == "Categorical":
        return choices.Categorical(*arguments["choices"])
    if kind == "MMD":
        return MMD.from_arguments(**arguments)
    if kind == "Simulator":
        history = arguments.pop("history")
        arguments.setdefault("pick", "uncertain")  # the default of 0.1
        return settings.Simulator(**arguments, history=history if history.size else None)
    if kind not in _CLASSES:
        raise ValueError(f"it holds an unknown {kind!r}")
    return _CLASSES[kind](**arguments)
