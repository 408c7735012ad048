"""The task of a method: a problem, the ambiguity set that all methods are measured by, and a setting."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Protocol, cast

import numpy as np
from numpy.typing import NDArray

import drbo
from drbo.names import SetName, SettingName
from drbo.problems import Problem
from drbo.radius import Bootstrap, RadiusRule, Theoretical
from drbo.rounds.ball import TIE, first_of_the_best
from drbo.validation import FloatArray

__all__ = ["SETS", "SETTINGS", "AskTell", "ForeignMethod", "Goal", "Task"]

SETTINGS = tuple(name.value for name in SettingName)

SETS: dict[str, Callable[[Problem], drbo.AmbiguitySet]] = {
    SetName.MMD: lambda problem: problem.ambiguity,
    SetName.TV: lambda _: drbo.TotalVariation(),
    SetName.KL: lambda _: drbo.KL(),
    SetName.CHI2: lambda _: drbo.ChiSquare(),
    SetName.CVAR: lambda _: drbo.CVaR(),
    SetName.WASSERSTEIN: lambda problem: drbo.Wasserstein(problem.contexts),
}
"""The sets that DRBO can use."""


@dataclass(frozen=True, eq=False)
class Goal:
    """The ambiguity set of a comparison: DRBO's objective, and the measure of every method's regret."""

    ambiguity: drbo.AmbiguitySet
    radius: float

    @classmethod
    def of(cls, problem: Problem, set_name: str) -> Goal:
        """Return the named set; at its radius the robust solution loses as much as in the problem's MMD ball."""
        ambiguity = SETS[set_name](problem)
        if set_name == SetName.MMD:
            return cls(ambiguity, problem.radius)
        best = problem.robust_optimum
        loss = float(problem.stochastic_values[best.action_index]) - best.value
        return cls(ambiguity, radius_for_loss(problem.values[best.action_index], ambiguity, problem.reference, loss))

    def worst_cases(self, problem: Problem, values: FloatArray) -> FloatArray:
        """Return the worst-case expectation (m,) of values (m, n_contexts) in the ball of the problem's reference."""
        return self.ambiguity.worst_case(values, problem.reference, self.radius).expectation


def radius_for_loss(values: FloatArray, ambiguity: drbo.AmbiguitySet, reference: FloatArray, loss: float) -> float:
    """Return the smallest radius at which the worst case of values (n_contexts,) is `loss` below the mean; or inf."""
    target = float(drbo.Expectation().worst_case(values, reference, 0.0).expectation) - loss

    def reached(radius: float) -> bool:
        return float(ambiguity.worst_case(values, reference, radius).expectation) <= target

    if not reached(math.inf):
        return math.inf
    if reached(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while not reached(high):
        low, high = high, 2.0 * high
    while high - low > 1e-12 * high and high > 1e-300:  # the answer may be any positive radius
        middle = 0.5 * (low + high)
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


SHARE = 0.2
"""The share of Corollary 4's radius that comparisons use in the data-driven setting."""


def data_driven_radius(set_name: str, share: float = SHARE) -> RadiusRule:
    """Return the rule for the data-driven setting.

    For the MMD it is a share of Corollary 4's radius. With a fifth of it, the ball of benchmark 1 holds the truth with
    probability 0.95 after 2 contexts and 0.996 after 200. With the full radius, share = 1, the ball holds every
    distribution for 28 rounds, so that only the worst case counts in these rounds (docs/reproduction.md). For other
    sets, which the corollary does not cover, it is the bootstrap.
    """
    return Theoretical(delta=0.1, factor=share) if set_name == "mmd" else Bootstrap(delta=0.1, resamples=100)


PROBABILITY = 0.7
"""The required probability that f exceeds the threshold of a constraint."""

FEASIBLE = 0.1
"""The share of actions that meet a constraint."""


def constraint(problem: Problem, aim: Goal) -> drbo.Chance:
    """Return the chance constraint that comparisons use for a problem.

    In every distribution of the set around the problem's reference, f exceeds a threshold with a probability of at
    least `PROBABILITY`. A share `FEASIBLE` of the actions, and at least one, is feasible. Sort the actions by the
    largest value that each reaches with that probability: the threshold is midway between the last feasible action and
    the next. Of actions with equal values, all are feasible or none.
    """
    reached = np.sort(reached_values(problem, aim, PROBABILITY))[::-1]
    gaps = -np.diff(reached, append=reached[-1] - 2.0 * problem.noise)
    wanted = max(round(FEASIBLE * len(reached)), 1)
    apart = np.flatnonzero(gaps > 1e-9 * np.ptp(problem.values))
    last = int(apart[np.searchsorted(apart, wanted - 1)])
    return drbo.Chance(PROBABILITY, above=float(reached[last] - 0.5 * gaps[last]))


def reached_values(problem: Problem, aim: Goal, probability: float) -> FloatArray:
    """Return the largest value (n_actions,) that f reaches with a probability in every distribution of the set."""
    values = problem.values
    levels, rows = np.sort(values, axis=1), np.arange(len(values))
    low, high = np.zeros(len(values), dtype=int), np.full(len(values), values.shape[1])  # the lowest is always reached
    while (high - low).max() > 1:
        middle = (low + high) // 2
        reached = (values >= levels[rows, middle, None]).astype(float)
        enough = drbo.Chance(probability, above=0.0).met(aim.worst_cases(problem, reached))
        low, high = np.where(enough, middle, low), np.where(enough, high, middle)
    return np.asarray(levels[rows, low])


@dataclass(frozen=True, eq=False)
class Task:
    """The task that a method solves.

    Attributes
    ----------
    problem : the reward, and the known distributions of the contexts
    aim : DRBO's ambiguity set, and the measure of every method's regret
    setting : its name, one of `SETTINGS`
    rule : the radius rule of the data-driven setting
    """

    problem: Problem
    aim: Goal
    setting: str
    rule: RadiusRule

    @classmethod
    def of(cls, problem: Problem, setting: str, set_name: str = "mmd", share: float = SHARE) -> Task:
        """Return the task with the named ambiguity set and a share of Corollary 4's radius."""
        return cls(problem, Goal.of(problem, set_name), setting, data_driven_radius(set_name, share))

    @property
    def picks(self) -> bool:
        """Whether the learner picks the contexts, as in a simulator."""
        return self.setting == SettingName.SIMULATOR

    @cached_property
    def constraint(self) -> drbo.Chance:
        """The chance constraint, for methods that have one, in the ball around the problem's reference."""
        return constraint(self.problem, self.aim)

    @cached_property
    def feasible(self) -> NDArray[np.bool_]:
        """Whether each action meets the limits of the problem, or otherwise the constraint, (n_actions,)."""
        if self.problem.limits:
            return np.asarray(self._margins.min(axis=0) >= 0.0)
        return self.constraint.met(self._probabilities(self.problem.values))

    @cached_property
    def _margins(self) -> FloatArray:
        """How far each action is from each limit of the problem in its worst distribution, (n_limits, n_actions)."""
        rows = []
        for name, (_, limit) in self.problem.limits.items():
            values = limit.sign * (self.problem.limit_values[name] - limit.threshold)
            if limit.probability is None:
                rows.append(self.aim.worst_cases(self.problem, values))
            else:
                rows.append(self.aim.worst_cases(self.problem, (values >= 0.0).astype(float)) - limit.probability)
        return np.array(rows)

    def constrained_solution(self, values: FloatArray) -> int:
        """Return the index of the feasible action with the best worst case.

        The values of f are given, (n_actions, n_contexts). If no action is feasible, return the one with the largest
        worst-case probability, or the one that misses its limits by least.
        """
        if self.problem.limits:
            probabilities, meeting = self._margins.min(axis=0), np.flatnonzero(self.feasible)
        else:
            probabilities = self._probabilities(values)
            meeting = np.flatnonzero(self.constraint.met(probabilities))
        if not len(meeting):
            return int(np.argmax(probabilities))
        return int(meeting[np.argmax(self.aim.worst_cases(self.problem, values[meeting]))])

    def _probabilities(self, values: FloatArray) -> FloatArray:
        """Return the worst-case probability (n_actions,) that values exceed the threshold of the constraint."""
        assert self.constraint.above is not None  # `constraint` sets it
        return self.aim.worst_cases(self.problem, (values > self.constraint.above).astype(float))

    def protocol(self, radius: float) -> drbo.Setting:
        """Return the setting, with the radius of a method if the setting needs one."""
        if self.setting == SettingName.GENERAL:
            return drbo.General()
        if self.setting == SettingName.DATA_DRIVEN:
            return drbo.DataDriven(radius=self.rule)
        return drbo.Simulator(self.problem.reference, radius)


class AskTell(Protocol):
    """An optimizer of any library, for a reward to maximise.

    `ask` returns an action, or a tuple of an action and a context where the method picks it. `tell` takes the outcome
    and, if it has a second argument, the context. `recommend`, if there is one, returns the action to deploy.
    """

    def ask(self) -> Any:
        """Return the action to evaluate, or a tuple (action, context)."""

    @property
    def tell(self) -> Callable[..., Any]:
        """A method that takes the outcome of the last action asked for, and possibly its context and limits."""


@dataclass(frozen=True)
class ForeignMethod:
    """A method that is an ask-tell object.

    Attributes
    ----------
    name : on the command line and in the names of files
    label : the name in tables, figures and records
    made : a function or class that takes the task and a seed and returns an `AskTell`; or an object, of which every
        run gets a copy
    """

    name: str
    label: str
    made: Any
    settings: ClassVar[tuple[str, ...]] = SETTINGS
    constrained: ClassVar[bool] = False

    def session(self, task: Task, seed: int) -> AskTell:
        """Return the object for one run."""
        made = self.made(task, seed) if callable(self.made) else copy.deepcopy(self.made)
        for name in ("ask", "tell"):
            if not callable(getattr(made, name, None)):
                raise TypeError(f"method {self.name!r} must have ask() and tell(outcome), but has no {name}: {made!r}")
        return cast(AskTell, made)


@dataclass(frozen=True, eq=False)
class RadiusDial:
    """One row per radius, k of them.

    Attributes
    ----------
    radius : (k,) increasing
    action_index : (k,) the action with the best worst case
    worst_case : (k,) its worst-case expectation
    expected : (k,) its expectation under the reference
    price : (k,) the best expectation of any action, less `expected`
    protection : (k,) `worst_case`, less that of the action with the best expectation
    best_until : (k,) the radius up to which it stays the best, to a relative error of about 1e-9; inf for the last one
    weights : (k, n_contexts) its worst distribution
    """

    radius: FloatArray
    action_index: NDArray[np.intp]
    worst_case: FloatArray
    expected: FloatArray
    price: FloatArray
    protection: FloatArray
    best_until: FloatArray
    weights: FloatArray

    @classmethod
    def of(cls, problem: Problem, goal: Goal, radii: FloatArray) -> RadiusDial:
        """Return the dial of a problem for increasing radii (k,)."""
        f, p = problem.values, problem.reference
        tie = TIE * float(np.ptp(f))
        expected = f @ p
        stochastic = first_of_the_best(expected, tie)

        def scores(radius: float) -> FloatArray:
            return goal.ambiguity.worst_case(f, p, radius).expectation

        def leads(action: int, radius: float) -> bool:
            found = scores(radius)
            return bool(found[action] >= found.max() - tie)

        table = np.array([scores(radius) for radius in radii])
        best = np.array([first_of_the_best(row, tie) for row in table], dtype=np.intp)
        until = np.full(len(radii), math.inf)
        for i, (inside, outside) in reversed(list(enumerate(itertools.pairwise(radii.tolist())))):
            until[i] = until[i + 1]
            if best[i] != best[i + 1]:
                while outside - inside > 1e-9 * outside:
                    middle = 0.5 * (inside + outside)
                    inside, outside = (middle, outside) if leads(int(best[i]), middle) else (inside, middle)
                until[i] = inside
        worst = table[np.arange(len(radii)), best]
        chosen = zip(best, radii.tolist(), strict=True)
        return cls(
            radius=radii,
            action_index=best,
            worst_case=worst,
            expected=expected[best],
            price=expected.max() - expected[best],
            protection=worst - table[:, stochastic],
            best_until=until,
            weights=np.array([goal.ambiguity.worst_case(f[x], p, radius).weights for x, radius in chosen]),
        )

    def row(self, i: int) -> dict[str, float]:
        """Return one row, without the weights."""
        return {f.name: getattr(self, f.name)[i].item() for f in fields(self) if f.name != "weights"}
