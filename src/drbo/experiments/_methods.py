"""The methods that are compared: one optimizer, different ambiguity sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from drbo.ambiguity import KL, AmbiguitySet, ChiSquare, CVaR, Expectation, Neighbourhood, TotalVariation, Wasserstein
from drbo.analysis.profile import radius_for_loss
from drbo.names import SetName
from drbo.problems import Problem

METHODS = ("DRBO", "UCB", "StableOpt")

SETS: dict[str, Callable[[Problem], AmbiguitySet]] = {
    SetName.MMD: lambda problem: problem.ambiguity,
    SetName.TV: lambda _: TotalVariation(),
    SetName.KL: lambda _: KL(),
    SetName.CHI2: lambda _: ChiSquare(),
    SetName.CVAR: lambda _: CVaR(),
    SetName.WASSERSTEIN: lambda problem: Wasserstein(problem.contexts),
}
"""The sets that DRBO may be robust to."""


@dataclass(frozen=True, eq=False)
class Goal:
    """The ambiguity set that a comparison is about: what DRBO optimises, and what the regret of all is measured in."""

    ambiguity: AmbiguitySet
    radius: float


def goal(problem: Problem, set_name: str) -> Goal:
    """Return the set of that name, with the radius at which the robust solution loses as much as in the MMD ball."""
    ambiguity = SETS[set_name](problem)
    if set_name == SetName.MMD:
        return Goal(ambiguity, problem.radius)
    best = problem.robust_optimum
    loss = float(problem.stochastic_values[best.action_index]) - best.value
    return Goal(ambiguity, radius_for_loss(problem.values[best.action_index], ambiguity, problem.reference, loss))


def method_set(method: str, problem: Problem, aim: Goal) -> tuple[AmbiguitySet, float]:
    """Return the set that a method is robust to, and its radius."""
    if method == "DRBO":
        return aim.ambiguity, aim.radius
    if method == "UCB":
        return Expectation(), 0.0
    return Neighbourhood(problem.contexts), problem.radius
