"""The 20 cheap problems of screen.py: the ten of efficiency_problems.py, and ten that are less friendly.

| problem | dimensions | what is unfriendly |
|---|---|---|
| RoBOS, benchmark 1 and 2 | 1+1 | functions of `drbo.problems`; anything in their range may come |
| Branin-Williams | 2+2 | of `drbo.problems`; several optima |
| cliff at the edge | 2+1 | falls by 3 where c > 0.85, which draws do not reach; anything in [0, 1] may come |
| cliff inside | 2+1 | falls by 2 at a context that depends on the action |
| flat | 2+1 | constant for c < 0.9, then as steep as it gets; anything in [0, 1] may come |
| two optima | 1+1 | the higher one is fragile |
| uneven noise | 2+1 | the deviation of the noise is 5 times larger at c = 1 than at c = 0 |
| corner | 2+2 | bad where both contexts are high; anything in the square may come |

Where "anything may come", the samples have a range (`within`), and the truth is solved on a grid of it, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

import drbo
from drbo.ambiguity import PlacedSet
from drbo.validation import FloatArray
from efficiency_problems import PROBLEMS as FRIENDLY
from efficiency_problems import RADIUS, Function, Objective, Problem, Task, normal

N_DRAWS = 60
_SIDE = {1: 51, 2: 13}
"""Points per side of the grid of a range."""


def _published(name: str) -> Function:
    """Return a function of `drbo.problems` on the unit cubes of its actions and contexts."""
    problem = getattr(drbo.problems, name)()
    low_x, span_x = problem.actions.min(axis=0), np.ptp(problem.actions, axis=0)
    low_c, span_c = problem.contexts.min(axis=0), np.ptp(problem.contexts, axis=0)
    return lambda x, c: np.asarray(problem.function(low_x + x * span_x, low_c + c * span_c))


def _bowl(x: FloatArray, c: FloatArray) -> FloatArray:
    return np.asarray(1.0 - 4.0 * (x[..., 0] - 0.3 - 0.3 * c[..., 0]) ** 2 - 2.0 * (x[..., 1] - 0.6) ** 2)


def _edge_cliff(x: FloatArray, c: FloatArray) -> FloatArray:
    return np.asarray(_bowl(x, c) - 3.0 * x[..., 0] * (c[..., 0] > 0.85))


def _inner_cliff(x: FloatArray, c: FloatArray) -> FloatArray:
    return np.asarray(_bowl(x, c) + x[..., 1] - 2.0 * (c[..., 0] > 0.9 - 0.5 * x[..., 1]))


def _flat(x: FloatArray, c: FloatArray) -> FloatArray:
    return np.asarray(_bowl(x, np.zeros(1)) - 30.0 * x[..., 1] * np.maximum(c[..., 0] - 0.9, 0.0))


def _two_optima(x: FloatArray, c: FloatArray) -> FloatArray:
    fragile = np.exp(-0.5 * ((x[..., 0] - 0.75) / 0.06) ** 2) * (1.4 - 4.0 * np.abs(c[..., 0] - 0.5))
    return np.asarray(fragile + 0.8 * np.exp(-0.5 * ((x[..., 0] - 0.25) / 0.12) ** 2))


def _corner(x: FloatArray, c: FloatArray) -> FloatArray:
    bad = 1.0 / (1.0 + np.exp(-20.0 * (c[..., 0] + c[..., 1] - 1.5)))
    return np.asarray(_bowl(x, c) - 2.0 * x[..., 1] * bad)


@dataclass(frozen=True)
class Cheap:
    """A problem, whether anything in the unit cube of its contexts may come, and how its noise varies."""

    problem: Problem
    ranged: bool = False
    noise: Callable[[FloatArray], float] | None = None
    """From a context (d_c,) to a factor; 1 if None."""


def _uneven(context: FloatArray) -> float:
    return 0.5 + 2.0 * float(context[0])


_OTHERS = (
    Cheap(Problem("RoBOS", "reported", 1, 1, _published("robos"), normal(0.15, 1)), ranged=True),
    Cheap(Problem("benchmark 1", "reported", 1, 1, _published("benchmark_1"), normal(0.15, 1)), ranged=True),
    Cheap(Problem("benchmark 2", "reported", 1, 1, _published("benchmark_2"), normal(0.15, 1)), ranged=True),
    Cheap(Problem("Branin-Williams", "reported", 2, 2, _published("branin_williams"), normal(0.2, 2))),
    Cheap(Problem("cliff at the edge", "reported", 2, 1, _edge_cliff, normal(0.1, 1)), ranged=True),
    Cheap(Problem("cliff inside", "reported", 2, 1, _inner_cliff, normal(0.15, 1))),
    Cheap(Problem("flat", "reported", 2, 1, _flat, normal(0.15, 1)), ranged=True),
    Cheap(Problem("two optima", "reported", 1, 1, _two_optima, normal(0.15, 1))),
    Cheap(Problem("uneven noise", "reported", 2, 1, _bowl, normal(0.2, 1)), noise=_uneven),
    Cheap(Problem("corner", "reported", 2, 2, _corner, normal(0.12, 2)), ranged=True),
)
CHEAP = {one.problem.name: one for one in (*(Cheap(problem) for problem in FRIENDLY.values()), *_OTHERS)}


@dataclass(frozen=True)
class CheapTask(Task):
    """A cheap problem with fewer draws than the tasks of efficiency.py, and with its range."""

    cheap: Cheap

    @cached_property
    def draws(self) -> FloatArray:
        """The contexts (60, d_c) that every variant of this seed is given."""
        return self.problem.draw(np.random.default_rng([self.seed, 1]), N_DRAWS)

    @cached_property
    def samples(self) -> drbo.Samples:
        """The draws, with their range if there is one."""
        if not self.cheap.ranged:
            return drbo.Samples(self.draws, support=0)
        names = [f"c{k + 1}" for k in range(self.problem.d_c)]
        within = drbo.Box(dict.fromkeys(names, (0.0, 1.0)))
        return drbo.Samples(dict(zip(names, self.draws.T.tolist(), strict=True)), within=within)

    def outcome(self, action: FloatArray, context: FloatArray, rng: np.random.Generator) -> float:
        """Return a noisy evaluation."""
        factor = 1.0 if self.cheap.noise is None else self.cheap.noise(context)
        return float(self.problem.function(action, context)) + factor * self.noise * float(rng.normal())

    def value(self, objective: Objective, actions: FloatArray) -> FloatArray:
        """Return the true values (m,) of actions (m, d_x)."""
        if objective == "risk-neutral":
            return np.asarray(self.problem.function(actions[:, None, :], self.draws).mean(axis=1))
        values = self.problem.function(actions[:, None, :], self._points)
        weights = np.zeros(len(self._points))
        weights[:N_DRAWS] = 1.0 / N_DRAWS
        return self._set.worst_case(np.asarray(values), weights, RADIUS).expectation

    @cached_property
    def _points(self) -> FloatArray:
        """The contexts (n, d_c) of the truth: the draws, then the grid of the range."""
        if not self.cheap.ranged:
            return self.draws
        d = self.problem.d_c
        grid = np.array(list(itertools.product(np.linspace(0.0, 1.0, _SIDE[d]), repeat=d)))
        return np.concatenate([self.draws, grid])

    @cached_property
    def _set(self) -> PlacedSet:
        scales = np.ones(self.problem.d_c) if self.cheap.ranged else np.ptp(self.draws, axis=0)
        return drbo.MMD().on(self._points, scales)


def task_of(name: str, seed: int) -> CheapTask:
    """Return a problem of `CHEAP` with the draws of a seed."""
    return CheapTask(CHEAP[name].problem, seed, CHEAP[name])
