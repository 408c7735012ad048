"""Two real simulators with limits: a cell that must not plate or overheat, and a feeder with a band of voltages.

| name | decision | conditions | objective, to minimise | limits |
|---|---|---|---|---|
| battery | 3: two charging currents and when to switch | ambient temperature | minus the charge in Ah | the least potential against lithium is at least 0 V, the peak at most 40 degrees |
| feeder | 3: voltage, reactive power, curtailment | load, sun | kW lost and half the kW curtailed | voltages are at least 0.95 and at most 1.05 |

Conditions have a range, as in the bench of simulators, so the adversary may leave the past conditions. They are the
same for all seeds. In the dark (no power flow, or a bus below 0.85) the feeder reports a least voltage of 0.8, that of
the substation as the largest, and the cost of a blackout. Every outcome is cached (`simulators.Cache`).
"""  # noqa: E501  # a table

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import drbo
from drbo.validation import FloatArray
from limits import tail_of
from simulators import Action, Context, Simulator, battery, feeder

NOISE = 0.01
"""The deviation of the error of an outcome, as a share of its spread."""
_VERSION = 2
"""A changed outcome has a new version, so that it has a new cache."""


@functools.lru_cache(maxsize=100_000)
def _cell(key: str) -> dict[str, float]:
    found = battery.outcomes(*json.loads(key))
    return {"cost": -found["charge"], "potential": 1000.0 * found["potential"], "peak": found["peak"]}


@functools.lru_cache(maxsize=100_000)
def _grid(key: str) -> dict[str, float]:
    action, context = json.loads(key)
    found = feeder.outcomes({**action, **dict.fromkeys(("q1", "q2", "q3"), action["reactive"])}, context)
    if found is None:
        return {"cost": 1500.0, "least": 0.8, "largest": action["voltage"]}
    return {"cost": found["losses"] + 0.5 * found["curtailed"], "least": found["least"], "largest": found["largest"]}


_FOUND: dict[str, tuple[Callable[[str], dict[str, float]], float, int, dict[str, drbo.AtMost | drbo.AtLeast]]] = {
    "battery": (_cell, 5.0, 33, {"potential": drbo.AtLeast(0.0, unit="mV"), "peak": drbo.AtMost(40.0, unit="degC")}),
    "feeder": (_grid, 0.3, 17, {"least": drbo.AtLeast(0.95), "largest": drbo.AtMost(1.05)}),
}
"""By name: the outcomes, the radius, the points per condition of the grid of the truth, and the limits."""


@dataclass(frozen=True, eq=False)
class SimulatedTask:
    """A simulator per outcome, which share a decision, conditions and a set.

    Attributes
    ----------
    outcomes : the simulators by the name of their outcome; the objective has the empty name
    radius : of the set
    limits : by name
    """

    outcomes: dict[str, Simulator]
    radius: float
    limits: dict[str, drbo.AtMost | drbo.AtLeast]

    @classmethod
    @functools.cache
    def of(cls, name: str) -> SimulatedTask:
        """Return the task of a simulator."""
        compute, radius, grid, limits = _FOUND[name]
        whole: Simulator = (battery if name == "battery" else feeder).make()
        if name == "feeder":
            sides = whole.actions.parameters
            box = {"voltage": sides["voltage"], "reactive": sides["q1"], "limit": sides["limit"]}
            whole = replace(whole, actions=drbo.Box(box))

        def simulator(own: str, maximize: bool) -> Simulator:
            def function(action: Action, context: Context) -> float:
                return compute(json.dumps([action, context], sort_keys=True))[own]

            label = f"{name} with limits, {own}"
            return replace(whole, name=label, version=_VERSION, function=function, maximize=maximize, grid=grid)

        outcomes = {"": simulator("cost", False)}
        outcomes |= {one: simulator(one, limit.sign > 0.0) for one, limit in limits.items()}
        return cls(outcomes, radius, limits)

    @property
    def objective(self) -> Simulator:
        """The simulator of the objective."""
        return self.outcomes[""]

    @property
    def d(self) -> int:
        """The number of parameters."""
        return len(self.objective.actions.parameters)

    def optimizer(self, **more: Any) -> drbo.Optimizer:
        """Return an optimizer of the problem, to minimise."""
        setting, own = drbo.Simulator(radius=self.radius), self.objective
        arguments = {"ambiguity": own.ambiguity, "setting": setting, "maximize": False, **more}
        return drbo.Optimizer(own.actions, own.contexts, **arguments)

    def _sides(self) -> tuple[FloatArray, FloatArray]:
        sides: Any = self.objective.actions.parameters.values()
        return np.array([one.low for one in sides]), np.array([one.high for one in sides])

    def named(self, x: FloatArray) -> dict[str, float]:
        """Return an action (d,) of the unit cube as an action of the optimizer."""
        low, high = self._sides()
        return dict(zip(self.objective.actions.parameters, (low + (high - low) * x).tolist(), strict=True))

    def array(self, action: Any) -> FloatArray:
        """Return an action of the optimizer as one (d,) of the unit cube."""
        low, high = self._sides()
        return np.asarray((np.array(list(action.values())) - low) / (high - low))

    def condition(self, context: Any) -> Any:
        """Return a context of an optimizer as a condition."""
        return dict(context)

    def context(self, condition: Any) -> Any:
        """Return a condition as a context of an optimizer."""
        return condition

    def draw(self, index: int) -> Any:
        """Return a past condition."""
        return {name: float(column[index]) for name, column in self._past.items()}

    @property
    def _past(self) -> dict[str, Any]:
        assert isinstance(self.objective.contexts, drbo.Samples), "conditions are samples"
        return dict(self.objective.contexts.data)

    def draws(self) -> FloatArray:
        """Return the past conditions (DAYS, d_c) as coordinates of their range."""
        space = self.objective.contexts
        assert isinstance(space, drbo.Samples), "conditions are samples"
        return np.asarray(space.points)

    def tail(self) -> float:
        """Return the share of the worst draws whose mean is shifted about as far as the set allows."""
        return tail_of(self.radius / float(self.ball()[1].std(axis=0).max()))

    def ball(self) -> tuple[drbo.AmbiguitySet, FloatArray, float]:
        """Return the family, the past conditions (DAYS, d_c) in its units, and the radius; without the range."""
        scales = getattr(self.objective.ambiguity, "scale", None) or {}
        columns = [np.array(column) / scales.get(name, 1.0) for name, column in self._past.items()]
        return drbo.Wasserstein(), np.stack(columns, axis=1), self.radius

    def samples(self) -> int:
        """Return the number of random actions that the best one is searched among."""
        return 150

    def evaluate(self, x: FloatArray, c: Any, rng: np.random.Generator) -> tuple[float, dict[str, float]]:
        """Return noisy outcomes; the noise is a share of the spread of each outcome."""
        action = self.named(x)
        noisy = {
            name: one.evaluate(action, c) + NOISE * self.spread(name) * float(rng.normal())
            for name, one in self.outcomes.items()
        }
        return noisy.pop(""), noisy

    @functools.cache  # noqa: B019  # there are two tasks
    def spread(self, name: str) -> float:
        """Return the standard deviation of an outcome over random actions and past conditions."""
        rng, one = np.random.default_rng(7), self.outcomes[name]
        pairs = [(self.named(rng.random(self.d)), self.draw(int(rng.integers(40)))) for _ in range(64)]
        return float(np.std([one.evaluate(action, c) for action, c in pairs]))

    def truth(self, actions: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the true worst-case objective (m,) and the true least margin (m,) of actions (m, d)."""
        named = [self.named(x) for x in actions]
        costs = np.array([self.objective.truth(action, self.radius) for action in named])
        margins = np.full(len(named), np.inf)
        for name, limit in self.limits.items():
            worst = np.array([self.outcomes[name].truth(action, self.radius) for action in named])
            margins = np.minimum(margins, limit.sign * (worst - limit.threshold))
        return costs, margins
