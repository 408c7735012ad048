"""The compared methods, by name: one optimizer with different sets, policies and settings.

A new method is one more entry of `METHODS`. `drbo compare` then accepts its name.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from drbo import (
    GP,
    AmbiguitySet,
    ChanceConstrained,
    DataDriven,
    Expectation,
    Informative,
    JointOptimism,
    LevelSet,
    MeanEmbedding,
    Neighbourhood,
    NotCertifiedError,
    Optimism,
    Optimizer,
    Pessimistic,
    Policy,
    Satisficing,
    Setting,
    Thompson,
    TotalVariation,
    Uncertain,
    Undecided,
    Wasserstein,
)
from drbo.experiments._competitors import FirstOrder, KernelDensity, LipschitzPenalty
from drbo.experiments._tasks import SETTINGS, Goal, Task
from drbo.models import SupportsGrid
from drbo.names import MethodName, SettingName
from drbo.problems import Problem
from drbo.radius import Bootstrap


def the_aim(problem: Problem, aim: Goal) -> tuple[AmbiguitySet, float]:
    """Return the set that all methods are measured by, and its radius."""
    del problem
    return aim.ambiguity, aim.radius


def the_reference(problem: Problem, aim: Goal) -> tuple[AmbiguitySet, float]:
    """Return the set that holds only the reference."""
    del problem, aim
    return Expectation(), 0.0


def _neighbourhood(problem: Problem, aim: Goal) -> tuple[AmbiguitySet, float]:
    """Return StableOpt's set: every distribution on the contexts near the mean of the reference."""
    del aim
    return Neighbourhood(problem.contexts), problem.radius


def _recommended(optimizer: Optimizer, task: Task) -> int:
    """Return the action with the best guaranteed value under the method's own set."""
    del task
    return int(optimizer.recommend().action_index)


def _of_the_paper(task: Task) -> Policy:
    """Return optimism; in a simulator, with the least known context of the action (algorithms 1 and 2)."""
    return Optimism(Uncertain() if task.picks else None)


def _satisficing(task: Task) -> Policy:
    """Return RoBOS with the best worst case in the common set as its target."""
    best = float(task.aim.worst_cases(task.problem, task.problem.values).max())
    return Satisficing(best, contexts=Uncertain() if task.picks else None)


def _for_the_target(optimizer: Optimizer, task: Task) -> int:
    """Return the least fragile action; the best guaranteed one while no action is certified to reach the target."""
    policy = optimizer.configuration.policy
    assert isinstance(policy, Satisficing)
    try:
        return int(optimizer.under().recommend_for(policy.target, policy.goal).action_index)
    except NotCertifiedError:
        return _recommended(optimizer, task)


def _level_set(task: Task) -> Policy:
    """Return the policy that classifies the actions by the constraint of the task."""
    return LevelSet(task.constraint, Undecided(task.constraint) if task.picks else None)


def _within_the_constraint(optimizer: Optimizer, task: Task) -> int:
    """Return the best guaranteed action among those certified to meet the constraint of the task.

    If there is none, return the best action if the posterior mean were f.
    """
    try:
        return int(optimizer.recommend(subject_to=task.constraint).action_index)
    except NotCertifiedError:
        mean, _ = cast(SupportsGrid, optimizer.posterior).on_grid()
        return task.constrained_solution(mean)


@dataclass(frozen=True)
class Method:
    """One method that chooses actions.

    Attributes
    ----------
    name : the name on the command line
    label : the name in tables, figures and records
    robust_to : its set and radius, for a problem and an aim; the radius is nan if the setting has a rule
    policy : its policy in a task
    protocol : the setting of its optimizer in a task, for its radius
    settings : the settings that it supports
    recommended : the index of the action that it would deploy now
    hidden : whether it is told only the distribution of a context that it did not pick
    constrained : whether it searches for actions that meet the constraint of the task
    """

    name: str
    label: str
    robust_to: Callable[[Problem, Goal], tuple[AmbiguitySet, float]] = the_aim
    policy: Callable[[Task], Policy] = _of_the_paper
    protocol: Callable[[Task, float], Setting] = Task.protocol
    settings: tuple[str, ...] = SETTINGS
    recommended: Callable[[Optimizer, Task], int] = _recommended
    hidden: bool = False
    constrained: bool = False

    def optimizer(self, task: Task, seed: int = 0) -> Optimizer:
        """Return its optimizer for a task, with the problem's kernel and noise, and beta = 2.

        The seed matters only to methods that draw at random.
        """
        ambiguity, radius = self.robust_to(task.problem, task.aim)
        return Optimizer(
            task.problem.actions,
            task.problem.contexts,
            ambiguity=ambiguity,
            setting=self.protocol(task, radius),
            surrogate=GP(task.problem.gp_kernel, task.problem.noise),
            beta=2.0,
            policy=self.policy(task),
            seed=seed,
        )


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(MethodName.DRBO, "DRBO"),
        Method(
            MethodName.INFORMATIVE,
            "DRBO informative",
            policy=lambda _: Optimism(Informative()),
            settings=(SettingName.SIMULATOR,),
        ),
        Method(
            MethodName.JOINT,
            "DRBO joint",
            policy=lambda _: JointOptimism(Informative()),
            settings=(SettingName.SIMULATOR,),
        ),
        Method(MethodName.UCB, "UCB", robust_to=the_reference),
        Method(MethodName.STABLEOPT, "StableOpt", robust_to=_neighbourhood),
        Method(MethodName.EMBEDDING, "embedding", robust_to=the_reference, policy=lambda _: MeanEmbedding()),
        Method(
            MethodName.EMBEDDING_HIDDEN,
            "embedding hidden",
            robust_to=the_reference,
            policy=lambda _: MeanEmbedding(),
            settings=(SettingName.GENERAL, SettingName.SIMULATOR),
            hidden=True,
        ),
        Method(
            MethodName.STABLEOPT_OWN,
            "StableOpt (own contexts)",
            robust_to=_neighbourhood,
            policy=lambda _: Optimism(Pessimistic()),
            settings=(SettingName.SIMULATOR,),
        ),
        Method(
            MethodName.THOMPSON,
            "Thompson",
            policy=lambda task: Thompson(Informative() if task.picks else None),
        ),
        Method(MethodName.SATISFICING, "Satisficing", policy=_satisficing, recommended=_for_the_target),
        Method(
            MethodName.SENSITIVITY,
            "Sensitivity",
            policy=lambda task: FirstOrder(Uncertain() if task.picks else None),
        ),
        Method(
            MethodName.CHANCE,
            "Chance",
            policy=lambda task: ChanceConstrained(task.constraint, Uncertain() if task.picks else None),
            settings=(SettingName.GENERAL, SettingName.SIMULATOR),
            recommended=_within_the_constraint,
            constrained=True,
        ),
        Method(
            MethodName.LEVEL_SET,
            "Level set",
            policy=_level_set,
            settings=(SettingName.GENERAL, SettingName.SIMULATOR),
            recommended=_within_the_constraint,
            constrained=True,
        ),
        Method(
            MethodName.SBO_KDE,
            "SBO-KDE",
            robust_to=the_reference,
            protocol=lambda *_: KernelDensity(),
            settings=(SettingName.DATA_DRIVEN,),
        ),
        Method(
            MethodName.DRBO_KDE,
            "DRBO-KDE",
            robust_to=lambda *_: (TotalVariation(), math.nan),
            protocol=lambda *_: KernelDensity(scale=0.5),
            settings=(SettingName.DATA_DRIVEN,),
        ),
        Method(
            MethodName.WDRBO,
            "WDRBO",
            robust_to=lambda problem, _: (Wasserstein(problem.contexts), math.nan),
            policy=lambda _: LipschitzPenalty(),
            protocol=lambda *_: DataDriven(radius=Bootstrap(delta=0.1, resamples=100)),
            settings=(SettingName.DATA_DRIVEN,),
        ),
    )
}
"""All methods by name."""

OF_THE_PAPER = (MethodName.DRBO, MethodName.UCB, MethodName.STABLEOPT)
"""The names of the methods compared in the paper."""
