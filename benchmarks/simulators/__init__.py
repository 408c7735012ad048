"""Real simulators with a decision, conditions that may shift, and a truth to check printed bounds against.

One file per simulator; `load(name)` makes one. A simulator whose package is missing raises ImportError.

| name | package | decision | conditions | outcome |
|---|---|---|---|---|
| battery | PyBaMM | 3: two charging currents and when to switch | ambient temperature | charge, less plating and heat |
| pendulum | gymnasium, MuJoCo | 4: weights of a linear-quadratic controller | mass and damping | steps until it falls |
| swimmer | gymnasium, MuJoCo | 25: a gait as a Fourier series | viscosity, mass | distance |
| feeder | pandapower | 5: voltage set point, reactive power, curtailment | load, feed-in | losses and violations |
| emergency | simpy | 3 whole numbers: nurses, doctors, beds | arrivals, severity | wages, waiting, patients who leave |
| survival | scikit-survival | 4 hyper-parameters of boosting | groups of patients, as labels | concordance |
| reactor | scipy | 3: coolant, feed rate, feed concentration | feed temperature, fouling | yield; it may run away |
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np

import drbo
from drbo.ambiguity import PlacedSet
from drbo.validation import FloatArray

NAMES = ("battery", "pendulum", "swimmer", "feeder", "emergency", "survival", "reactor")
FOLDER = "DRBO_SIMULATORS"
"""The environment variable that names the folder of the cache."""
DIGITS = 9
"""Inputs are rounded to so many significant digits before they are evaluated."""

Action = Mapping[str, Any]
Context = Any
"""A mapping from names to values, or a label."""


def load(name: str) -> Simulator:
    """Return the simulator of this name."""
    if name not in NAMES:
        raise ValueError(f"name must be one of {', '.join(NAMES)}, got {name!r}")
    return cast(Simulator, importlib.import_module(f"simulators.{name}").make())


class Cache:
    """Evaluations on disk: one SQLite file per simulator and version, which processes may share."""

    def __init__(self, name: str, version: int, folder: Path | None = None) -> None:
        folder = Path(os.environ.get(FOLDER, "out/simulators")) if folder is None else folder
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / f"{name}-{version}.sqlite"
        self._connection: sqlite3.Connection | None = None
        self._process = 0

    def get(self, key: str, compute: Callable[[], float]) -> float:
        """Return the number of a key, computed if it is not known."""
        database = self._open()
        row = database.execute("SELECT value FROM evaluations WHERE key = ?", (key,)).fetchone()
        if row is None:
            row = (float(compute()),)
            database.execute("INSERT OR IGNORE INTO evaluations VALUES (?, ?)", (key, *row))
        return float(row[0])

    def __len__(self) -> int:
        return int(self._open().execute("SELECT COUNT(*) FROM evaluations").fetchone()[0])

    def _open(self) -> sqlite3.Connection:
        if self._connection is None or self._process != os.getpid():  # a connection must not cross a fork
            self._connection = sqlite3.connect(self.file, timeout=60.0, isolation_level=None)
            self._process = os.getpid()
            self._connection.execute("PRAGMA synchronous = OFF")
            self._connection.execute("CREATE TABLE IF NOT EXISTS evaluations (key TEXT PRIMARY KEY, value REAL)")
        return self._connection


def rounded(value: Any) -> Any:
    """Return numbers of a mapping or a sequence with `DIGITS` significant digits, as plain Python objects."""
    if isinstance(value, Mapping):
        return {name: rounded(part) for name, part in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [rounded(part) for part in value]
    if isinstance(value, float | np.floating):
        return float(f"{value:.{DIGITS}g}") + 0.0  # not -0.0
    return value.item() if isinstance(value, np.generic) else value


@dataclass(frozen=True)
class Simulator:
    """A simulator with a decision and conditions.

    Attributes
    ----------
    name, version : a changed simulator has a new version, so that it has a new cache
    actions : what is decided
    contexts : the reference: samples, mostly with a range (`within`), or labels with weights
    ambiguity, radii, meaning : the set, two radii, and in words which shift of the world each one stands for
    shifted : contexts of the shifted world, which decisions are judged by
    function : the outcome of an action in a context; deterministic
    maximize : whether outcomes are rewards
    noise : the standard deviation of the normal error that an evaluation of a run has on top
    grid : points per numeric condition of the grid on which the truth is solved
    """

    name: str
    version: int
    actions: drbo.Box
    contexts: drbo.Samples | dict[str, float]
    ambiguity: drbo.AmbiguitySet
    radii: tuple[float, float]
    meaning: tuple[str, str]
    shifted: tuple[Context, ...]
    function: Callable[[Action, Context], float] = field(repr=False)
    maximize: bool = True
    noise: float = 0.0
    grid: int = 41

    @cached_property
    def cache(self) -> Cache:
        """The evaluations on disk."""
        return Cache(self.name, self.version)

    def evaluate(self, action: Action, context: Context) -> float:
        """Return the outcome of an action in a context, both rounded, from the cache if it is there."""
        x, c = rounded(action), rounded(context)
        key = json.dumps([x, c], sort_keys=True)
        return self.cache.get(key, lambda: self.function(x, c))

    def optimizer(self, radius: float, seed: int, **arguments: Any) -> drbo.Optimizer:
        """Return the optimizer that ships, or one with other arguments (policy, surrogate, setting)."""
        chosen = {"setting": drbo.Simulator(radius=radius), "ambiguity": self.ambiguity, **arguments}
        return drbo.Optimizer(self.actions, self.contexts, maximize=self.maximize, seed=seed, **chosen)

    def truth(self, action: Action, radius: float, further: Iterable[Context] = ()) -> float:
        """Return the worst-case expectation of an action: the set on all atoms, the grid of the range, and `further`.

        The adversary of the optimizer may use the whole range. So this is never worse for the action than the truth:
        a bound that it contradicts is false.
        """
        points = self._points(further)
        values = np.array([self.evaluate(action, c) for c in points])
        sign = 1.0 if self.maximize else -1.0
        weights = np.concatenate([self._weights, np.zeros(len(points) - len(self._weights))])
        return sign * float(self._placed(points).worst_case(sign * values, weights, radius).expectation)

    def in_shifted(self, action: Action) -> float:
        """Return the mean outcome of an action in the shifted world."""
        return float(np.mean([self.evaluate(action, c) for c in self.shifted]))

    def distance(self, contexts: Sequence[Context]) -> float:
        """Return how far the set says that these contexts, equally likely, are from the reference."""
        points = self._atoms + list(contexts)
        p = np.concatenate([self._weights, np.zeros(len(contexts))])
        q = np.concatenate([np.zeros(len(self._atoms)), np.full(len(contexts), 1.0 / len(contexts))])
        if isinstance(self.contexts, dict):
            q = np.array([points[len(p) - len(contexts) :].count(c) / len(contexts) for c in self._atoms])
            points, p = self._atoms, self._weights
        return self._placed(points).distance(q, p)

    @cached_property
    def _atoms(self) -> list[Context]:
        if isinstance(self.contexts, dict):
            return list(self.contexts)
        assert isinstance(self.contexts.data, dict), "samples must have names"
        columns = self.contexts.data
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    @cached_property
    def _weights(self) -> FloatArray:
        if isinstance(self.contexts, dict):
            return np.array([*self.contexts.values()]) / sum(self.contexts.values())
        return self.contexts.weights

    def _points(self, further: Iterable[Context]) -> list[Context]:
        """Return the contexts that the truth is solved on: the atoms first."""
        if isinstance(self.contexts, dict):
            return self._atoms
        points = list(self._atoms)
        if self.contexts.within is not None:
            sides = [self._side(parameter) for parameter in self.contexts.within.parameters.values()]
            names = list(self.contexts.within.parameters)
            points += [dict(zip(names, corner, strict=True)) for corner in itertools.product(*sides)]
        known = {json.dumps(rounded(c), sort_keys=True) for c in points}
        return points + [c for c in map(dict, further) if json.dumps(rounded(c), sort_keys=True) not in known]

    def _side(self, parameter: Any) -> list[Any]:
        if parameter.count is not None:
            return [parameter.decode(level) for level in parameter.levels(np.arange(parameter.count))]
        return [parameter.low + (parameter.high - parameter.low) * u for u in np.linspace(0.0, 1.0, self.grid).tolist()]

    def _placed(self, points: list[Context]) -> PlacedSet:
        """Return the set on contexts."""
        if isinstance(self.contexts, dict):
            return self.ambiguity.on(np.eye(len(points)))
        space = self.contexts.space
        encoded = np.array([self.contexts.encode("context", c).coordinates for c in points])
        return self.ambiguity.with_columns(space.columns).on(space.measured(encoded), space.scales)


def normal_samples(rng: np.random.Generator, n: int, **columns: tuple[float, float]) -> dict[str, list[float]]:
    """Return n draws of independent normal columns, given as (mean, deviation); to three digits after the point."""
    return {name: np.round(rng.normal(mean, sd, n), 3).tolist() for name, (mean, sd) in columns.items()}


def clipped(data: Mapping[str, Sequence[float]], within: drbo.Box) -> dict[str, list[float]]:
    """Return columns clipped to the ranges of a box of numbers."""
    ends = {name: cast(Any, within.parameters[name]) for name in data}
    return {name: np.clip(column, ends[name].low, ends[name].high).tolist() for name, column in data.items()}


def rows(data: Mapping[str, Sequence[Any]]) -> tuple[dict[str, Any], ...]:
    """Return columns as contexts."""
    return tuple(dict(zip(data, row, strict=True)) for row in zip(*data.values(), strict=True))
