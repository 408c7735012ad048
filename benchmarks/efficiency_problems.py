"""Ten problems on which the evaluations needed are counted: f(x, c) on the unit cube, and draws of the context c.

The formulas are published; where domains and distributions of the contexts are our own choice, the table says so. f is
maximised. Variants of drbo are chosen on one half of the problems, "chosen", and reported on the other, "reported".

| problem | dimensions | contexts |
|---|---|---|
| newsvendor | 1 + 1 | demand ~ Burr XII(2, 20), clamped |
| modified Branin | 2 + 2 | N(0.5, 0.1), clamped |
| Ackley on [-2, 2]^3 (our domain) | 2 + 1 | the third input, N(0.5, 0.1) |
| controller (our own) | 3 + 2 | gain and time constant of the plant, uniform |
| Hartmann-6 | 5 + 1 | the last input, N(0.5, 0.1), clamped |
| three-hump camel | 1 + 1 | N(0.5, 0.2), clamped |
| Bertsimas | 2 + 2 | errors of the action, N(0, 0.15), clamped to 0.5 (our distribution) |
| Rosenbrock on [-2, 2]^5 (our domain) | 4 + 1 | the third input, N(0.5, 0.15) |
| robot arm, angles to pi (our domain) | 6 + 2 | the lengths of the last two segments, N(0.5, 0.2), clamped |
| Rosenbrock on [-2, 2]^13 (our domain) | 10 + 3 | the inputs 3, 7 and 11, N(0.5, 0.15) |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from scipy.optimize import minimize
from scipy.stats import qmc

import drbo
from drbo.ambiguity import PlacedSet
from drbo.problems import bertsimas, hartmann6, modified_branin, newsvendor, three_hump_camel
from drbo.validation import FloatArray

DRAWS, RADIUS, NOISE = 200, 0.1, 0.02
_BERTSIMAS, _HARTMANN6 = bertsimas().function, hartmann6().function
Function = Callable[[FloatArray, FloatArray], FloatArray]
Draw = Callable[[np.random.Generator, int], FloatArray]
Objective = Literal["risk-neutral", "robust"]
OBJECTIVES: tuple[Objective, ...] = ("risk-neutral", "robust")


@dataclass(frozen=True)
class Problem:
    """f of actions (..., d_x) and contexts (..., d_c) in unit cubes, and what draws contexts (n, d_c)."""

    name: str
    half: Literal["chosen", "reported"]
    d_x: int
    d_c: int
    function: Function
    draw: Draw


def normal(deviation: float, d: int) -> Draw:
    """Return what draws N(0.5, deviation) in d coordinates, clamped to the unit cube."""
    return lambda rng, n: np.clip(rng.normal(0.5, deviation, (n, d)), 0.0, 1.0)


def _burr(rng: np.random.Generator, n: int) -> FloatArray:
    return np.minimum(np.sqrt((1.0 - rng.random((n, 1))) ** (-1.0 / 20.0) - 1.0), 1.0)


def _ackley(x: FloatArray, c: FloatArray) -> FloatArray:
    a, b, e = (4.0 * v - 2.0 for v in np.broadcast_arrays(x[..., 0], x[..., 1], c[..., 0]))
    far = 20.0 * np.exp(-0.2 * np.sqrt((a**2 + b**2 + e**2) / 3.0))
    waves = np.exp(sum(np.cos(2.0 * np.pi * v) for v in (a, b, e)) / 3.0)
    return np.asarray(far + waves - 20.0 - np.e)


def _shifted_bertsimas(x: FloatArray, c: FloatArray) -> FloatArray:
    low, span = np.array([-0.95, -0.45]), np.array([4.15, 4.85])
    return _BERTSIMAS(low + span * x, c - 0.5)


def _controller(x: FloatArray, c: FloatArray) -> FloatArray:
    """Return -log of the mean error of a PID-controlled plant of second order after a step, and a little effort.

    x: the gains on logarithmic scales, 0.1 to 10 (proportional), 0.03 to 3 (integral), 0.03 to 3 (derivative).
    c: the gain of the plant, 0.5 to 1.5, and its time constant, 0.5 to 2.
    """
    log_gains = np.log([0.1, 0.03, 0.03]) + np.log(100.0) * x
    proportional, integral, derivative = np.moveaxis(np.exp(log_gains), -1, 0)
    gain, time_constant = 0.5 + c[..., 0], 0.5 * 4.0 ** c[..., 1]
    shape = np.broadcast_shapes(proportional.shape, gain.shape)
    position, speed, total, loss = (np.zeros(shape) for _ in range(4))
    step, steps = 0.05, 200
    for _ in range(steps):
        error = 1.0 - position
        total += step * error
        effort = np.clip(proportional * error + integral * total - derivative * speed, -10.0, 10.0)
        speed += step * (gain * effort - position - 0.6 * time_constant * speed) / time_constant**2
        position += step * speed
        loss += (np.abs(error) + 0.003 * effort**2) / steps
    return np.asarray(-np.log(loss))


def _robot_arm(x: FloatArray, c: FloatArray) -> FloatArray:
    """Return minus the distance of the end of an arm of four segments from (0.4, 1.1).

    x: four angles between segments, 0 to pi, and the lengths of the first two; c: the lengths of the last two.
    """
    shape = np.broadcast_shapes(x.shape[:-1], c.shape[:-1])
    angles = np.cumsum(np.pi * x[..., :4], axis=-1)
    lengths = [x[..., 4], x[..., 5], c[..., 0], c[..., 1]]
    across = sum(length * np.cos(angles[..., k]) for k, length in enumerate(lengths))
    up = sum(length * np.sin(angles[..., k]) for k, length in enumerate(lengths))
    return np.asarray(np.broadcast_to(-np.hypot(across - 0.4, up - 1.1), shape))


def rosenbrock(d_x: int, contexts: tuple[int, ...]) -> Function:
    """Return Rosenbrock's function on [-2, 2]^d with the inputs of these places as contexts."""
    places = [place for place in range(d_x + len(contexts)) if place not in contexts]

    def function(x: FloatArray, c: FloatArray) -> FloatArray:
        shape = np.broadcast_shapes(x.shape[:-1], c.shape[:-1])
        z = np.empty((*shape, d_x + len(contexts)))
        z[..., places], z[..., list(contexts)] = 4.0 * x - 2.0, 4.0 * c - 2.0
        valley, slope = z[..., 1:] - z[..., :-1] ** 2, 1.0 - z[..., :-1]
        return np.asarray(-(100.0 * valley**2 + slope**2).sum(axis=-1))

    return function


def _hartmann6_of_two(x: FloatArray, c: FloatArray) -> FloatArray:
    fifth = np.broadcast_to(c[..., :1], (*np.broadcast_shapes(x.shape[:-1], c.shape[:-1]), 1))
    first = np.broadcast_to(x, (*fifth.shape[:-1], 4))
    return _HARTMANN6(np.concatenate([first, fifth], axis=-1), c[..., 1:])


TIMED = Problem("Hartmann-6, 4 + 2", "chosen", 4, 2, _hartmann6_of_two, normal(0.1, 2))
"""What the time of an `ask` is measured on."""

PROBLEMS = {
    problem.name: problem
    for problem in (
        Problem("newsvendor", "chosen", 1, 1, newsvendor().function, _burr),
        Problem("modified Branin", "chosen", 2, 2, modified_branin().function, normal(0.1, 2)),
        Problem("Ackley", "chosen", 2, 1, _ackley, normal(0.1, 1)),
        Problem("controller", "chosen", 3, 2, _controller, lambda rng, n: rng.random((n, 2))),
        Problem("Hartmann-6", "chosen", 5, 1, _HARTMANN6, normal(0.1, 1)),
        Problem("three-hump camel", "reported", 1, 1, three_hump_camel().function, normal(0.2, 1)),
        Problem("Bertsimas", "reported", 2, 2, _shifted_bertsimas, normal(0.15, 2)),
        Problem("Rosenbrock 4+1", "reported", 4, 1, rosenbrock(4, (2,)), normal(0.15, 1)),
        Problem("robot arm", "reported", 6, 2, _robot_arm, normal(0.2, 2)),
        Problem("Rosenbrock 10+3", "reported", 10, 3, rosenbrock(10, (2, 6, 10)), normal(0.15, 3)),
    )
}


@dataclass(frozen=True)
class Task:
    """A problem with the draws of one seed: what a run is given, and what it is judged by."""

    problem: Problem
    seed: int

    @cached_property
    def draws(self) -> FloatArray:
        """The contexts (200, d_c) that every method of this seed is given."""
        return self.problem.draw(np.random.default_rng([self.seed, 1]), DRAWS)

    @cached_property
    def noise(self) -> float:
        """The deviation of the noise: 2% of the range of f, between its 5% and 95% quantiles over actions and draws."""
        values = self.problem.function(self._actions(256)[:, None, :], self.draws)
        return NOISE * float(np.ptp(np.quantile(values, [0.05, 0.95])))

    def value(self, objective: Objective, actions: FloatArray) -> FloatArray:
        """Return the true values (m,) of actions (m, d_x): over the draws, with the exact worst case if robust."""
        values = self.problem.function(actions[:, None, :], self.draws)
        if objective == "risk-neutral":
            return np.asarray(values.mean(axis=1))
        return self._set.worst_case(values, np.full(DRAWS, 1.0 / DRAWS), RADIUS).expectation

    def best_and_median(self, objective: Objective) -> tuple[float, float]:
        """Return the largest value of any action, and the median of the values of 256 well-spread actions.

        The largest: uphill from the eight best of 1,024 well-spread actions, which are taken by their expectation.
        """
        actions = self._actions(1024)
        expectations = np.concatenate([self.value("risk-neutral", part) for part in np.split(actions, 16)])
        starts = actions[np.argsort(-expectations)[:64]]
        starts = starts[np.argsort(-self.value(objective, starts))[:8]]
        bounds = [(0.0, 1.0)] * self.problem.d_x

        def loss(x: FloatArray) -> float:
            return -float(self.value(objective, x[None])[0])

        climbs = [minimize(loss, start, bounds=bounds) for start in starts]
        return max(-float(climb.fun) for climb in climbs), float(np.median(self.value(objective, self._actions(256))))

    @cached_property
    def _set(self) -> PlacedSet:
        return drbo.MMD().on(self.draws, np.ptp(self.draws, axis=0))

    def _actions(self, count: int) -> FloatArray:
        return np.asarray(qmc.Sobol(self.problem.d_x, seed=1).random(count))
