"""The compared methods, by name: one optimizer with different sets, policies and settings.

A new method is one more entry of `METHODS`. `drbo compare` then accepts its name. Methods of other papers are settings
and policies of this module, which are not part of the public interface:

SBO-KDE    x_t = argmax_x E_{c ~ p_t} ucb_t(x, c)                      p_t: kernel density estimate of the contexts seen
DRBO-KDE   x_t = argmax_x min E_{c ~ q} ucb_t(x, c), TV(q, p_t) <= r_t     (Huang et al., AAAI 2024)
WDRBO      x_t = argmax_x E_{c ~ p_t} ucb_t(x, c) - r_t L_t(x)         p_t: empirical distribution of the contexts seen,
                                                                       L_t(x): Lipschitz constant of ucb_t(x, .)
                                                                       (Micheli et al., AISTATS 2025)
first order  x_t = argmax_x V_x(0) - S_x(0) r_t^a                      V_x: worst case of ucb_t(x, .), S_x: its
                                                                       sensitivity -dV_x / d(r^a), a: the set's power
                                                                       (Tay et al., ICML 2022)

`_recent` has RRGP-UCB (Inatsu 2025) and an ensemble of surrogates (Lu et al. 2023).

Contexts are a finite set here. The kernel density estimate is evaluated on its points and normalised. The Lipschitz
constant is the largest slope between two points. The penalty of WDRBO is a lower bound of the worst case in the
Wasserstein ball of radius r_t, which drbo computes exactly (`Wasserstein`). If V is convex in r^a, as for MMD, total
variation and Wasserstein sets, the first-order V never exceeds the worst case, and may lie below the lowest value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

import drbo
from drbo.ambiguity import PlacedSet
from drbo.ambiguity.placed import with_slopes
from drbo.contexts.nature import Contexts, Reference
from drbo.experiments._recent import Ensemble, RandomWidth
from drbo.experiments._tasks import SETTINGS, ForeignMethod, Goal, Task
from drbo.knowledge.configuration import UNNAMED
from drbo.models import UPPER, Bound, SupportsGrid
from drbo.names import MethodName, SettingName
from drbo.problems import Problem
from drbo.radius import Bootstrap
from drbo.rounds import Beliefs, Candidates, Choice, Round, Winner
from drbo.rounds.ball import TIE, Ball, first_of_the_best
from drbo.rounds.policies import ActionFirst, picked
from drbo.spaces import Point
from drbo.validation import FloatArray

__all__ = ["METHODS", "Method"]


def kernel_density(seen: FloatArray, points: FloatArray) -> FloatArray:
    """Return the normalised kernel density estimate of contexts seen (t, d) on points (n, d); uniform if t = 0.

    Normal kernels, with Scott's bandwidth per column: its standard deviation times t^(-1 / (d + 4)). If all values of a
    column are equal, the bandwidth is a hundredth of the range of the points.
    """
    t, d = seen.shape
    if t == 0:
        return np.full(len(points), 1.0 / len(points))
    ranges = np.ptp(points, axis=0)
    least = 0.01 * np.where(ranges > 0.0, ranges, 1.0)
    spread = seen.std(axis=0, ddof=1) if t > 1 else np.zeros(d)
    width = np.maximum(spread * t ** (-1.0 / (d + 4)), least)
    exponents = -0.5 * (((points[:, None] - seen) / width) ** 2).sum(axis=2)
    density = np.exp(exponents - exponents.max()).sum(axis=1)
    return np.asarray(density / density.sum())


@dataclass(frozen=True)
class KernelDensity(drbo.Setting):
    """A setting whose reference is a kernel density estimate of the t contexts seen, with d columns.

    Parameters
    ----------
    scale : the radius is scale * t^(-2 / (d + 4)), the rate at which the estimate converges. Before the first context
        the radius is infinite, unless the scale is 0
    """

    scale: float = 0.0

    def reference_of(self, given: Any, contexts: Contexts, seen: Sequence[Point]) -> Reference:
        del given
        base = contexts.seen(seen)
        points = np.array([point.coordinates for point in seen]).reshape(-1, base.points.shape[1])
        return replace(base, weights=kernel_density(points, base.points))

    def radius_of(self, given: Any, reference: Reference, ambiguity: PlacedSet) -> float:
        """Return the radius for the number of contexts seen."""
        del given, ambiguity
        t, d = len(reference.history), reference.points.shape[1]
        if self.scale == 0.0:
            return 0.0
        return self.scale * t ** (-2.0 / (d + 4)) if t else math.inf


@dataclass(frozen=True)
class LipschitzPenalty(drbo.Policy):
    """The action with the largest expected upper bound minus radius * Lipschitz constant; nature picks the context."""

    def choose(self, round: Round, beliefs: Beliefs) -> Choice:
        """Return argmax_x <p, ucb(x, .)> - radius max_ij |ucb(x, c_i) - ucb(x, c_j)| / |c_i - c_j|."""
        ball = round.ball
        bound = Bound(beliefs.expected(ball), beliefs.width, UPPER)
        found = _best_by(round, bound, lambda ucb: lipschitz_scores(ucb, ball.contexts, ball.weights, ball.radius))
        return Choice(found.action, None, found.score, ball)


def lipschitz_scores(values: FloatArray, contexts: FloatArray, weights: FloatArray, radius: float) -> FloatArray:
    """Return <w, v_x> - radius L(v_x) (m,) for values (m, n) on contexts (n, d); the lowest value if radius is inf."""
    if math.isinf(radius):
        return np.asarray(values.min(axis=1))
    apart = np.sqrt(((contexts[:, None] - contexts) ** 2).sum(axis=2))
    apart[apart == 0.0] = np.inf
    slopes = np.array([(np.abs(v[:, None] - v) / apart).max() for v in values])
    return np.asarray(values @ weights - radius * slopes)


@dataclass(frozen=True)
class FirstOrder(ActionFirst):
    """The action with the best worst case of its upper bound, to first order in the radius; exact at radius inf."""

    def choose(self, round: Round, beliefs: Beliefs) -> Choice:
        """Return x_t = argmax_x V_x(0) - S_x(0) eps^a for the upper bounds of x, and its contexts."""
        ball = round.ball
        bound = Bound(beliefs.expected(ball), beliefs.width, UPPER)
        found = _best_by(round, bound, lambda ucb: first_order(ball, ucb))
        score = float(ball.worst_case(bound.of_action(found.action)).expectation)
        ball, score = ball.widened(Bound(beliefs.certain(ball), beliefs.width, UPPER), found.action, score)
        return picked(self.contexts, round, beliefs, ball, Winner(found.action, score))


def first_order(ball: Ball, values: FloatArray) -> FloatArray:
    """Return the first-order worst case (m,) of each row of values (m, n); the exact one at an infinite radius."""
    if math.isinf(ball.radius):
        return ball.worst_cases(values).expectation
    centre = ball.at(0.0)
    slopes = with_slopes(ball.ambiguity).slopes(values, ball.weights, centre.radius)
    return np.asarray(centre.worst_cases(values).expectation - slopes * ball.reach)


def _best_by(round: Round, bound: Bound, scores: Callable[[FloatArray], FloatArray]) -> Winner:
    """Return the action whose upper bounds (n,) have the best score; the baseline if none meets the round's floor."""

    def best(candidates: Candidates) -> Winner:
        ucb = candidates.values(bound, np.arange(len(candidates.points)))
        found = scores(ucb)
        first = first_of_the_best(found, TIE * float(np.ptp(ucb)))
        return Winner(candidates.point(first), float(found[first]))

    found = round.search.best_by(round.ball, best, round.near)
    return round.search.best(round.ball, bound, round.near, round.under_way[:0]) if found is None else found


RobustTo = Callable[[Problem, Goal], tuple[drbo.AmbiguitySet, float]]
"""The set of a method and its radius, for a problem and the aim that all methods are measured by."""


def _reference(*_: object) -> tuple[drbo.AmbiguitySet, float]:
    """Return the set that holds only the reference."""
    return drbo.Expectation(), 0.0


def _neighbourhood(problem: Problem, _: Goal) -> tuple[drbo.AmbiguitySet, float]:
    """Return StableOpt's set: every distribution on the contexts near the mean of the reference."""
    return drbo.Neighbourhood(problem.contexts), problem.radius


def _recommended(optimizer: drbo.Optimizer, task: Task) -> int:
    """Return the action with the best bound under the method's own set; the closest one if none meets the limits."""
    del task
    try:
        return int(optimizer.recommend().action_index)
    except drbo.NotReachedError as error:
        if error.closest is None:
            raise
        return int(error.closest.action_index)


def _of_the_paper(task: Task) -> drbo.Policy:
    """Return optimism; in a simulator, with the least known context of the action (algorithms 1 and 2)."""
    return drbo.Optimism(drbo.Uncertain() if task.picks else None)


def _satisficing(task: Task) -> drbo.Policy:
    """Return RoBOS with the best worst case in the common set as its target."""
    best = float(task.aim.worst_cases(task.problem, task.problem.values).max())
    return drbo.Satisficing(best, contexts=drbo.Uncertain() if task.picks else None)


def _for_the_target(optimizer: drbo.Optimizer, task: Task) -> int:
    """Return the least fragile action; the one of the best bound while no bound reaches the target."""
    policy = optimizer.configuration.policy
    assert isinstance(policy, drbo.Satisficing)
    try:
        return int(optimizer.under().recommend_for(policy.target, policy.goal).action_index)
    except drbo.NotReachedError:
        return _recommended(optimizer, task)


def _level_set(task: Task) -> drbo.Policy:
    """Return the policy that classifies the actions by the constraint of the task."""
    return drbo.LevelSet(task.constraint, drbo.Undecided(task.constraint) if task.picks else None)


def _within_the_constraint(optimizer: drbo.Optimizer, task: Task) -> int:
    """Return the action of the best bound within the task's constraint; if there is none, as if the mean were f."""
    try:
        return int(_limited(optimizer, task).recommend().action_index)
    except drbo.NotReachedError:
        mean, _ = cast(SupportsGrid, optimizer.posterior).on_grid()
        return task.constrained_solution(mean)


def _limited(optimizer: drbo.Optimizer, task: Task) -> drbo.Optimizer:
    """Return an optimizer that keeps the constraint of the task as a limit of its objective."""
    own = optimizer.configuration
    if UNNAMED in own.limits:
        return optimizer
    twin = drbo.Optimizer(**{**own.arguments, "limits": {**own.limits, **_limits(task)}})
    twin.replay(optimizer.records())
    return twin


def _limits(task: Task) -> dict[str, drbo.AtLeast]:
    """Return the constraint of the task as a limit of the objective."""
    assert task.constraint.above is not None  # `constraint` sets it
    return {UNNAMED: drbo.AtLeast(task.constraint.above, task.constraint.at_least)}


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
    limits : returns limits of its optimizer in a task, besides those of the problem
    """

    name: str
    label: str
    robust_to: RobustTo = lambda _, aim: (aim.ambiguity, aim.radius)
    policy: Callable[[Task], drbo.Policy] = _of_the_paper
    protocol: Callable[[Task, float], drbo.Setting] = Task.protocol
    settings: tuple[str, ...] = SETTINGS
    recommended: Callable[[drbo.Optimizer, Task], int] = _recommended
    hidden: bool = False
    constrained: bool = False
    limits: Callable[[Task], dict[str, drbo.AtLeast] | None] = lambda _: None

    def optimizer(self, task: Task, seed: int = 0) -> drbo.Optimizer:
        """Return its optimizer for a task, with the problem's kernel and noise, and beta = 2."""
        ambiguity, radius = self.robust_to(task.problem, task.aim)
        return drbo.Optimizer(
            task.problem.actions,
            task.problem.contexts,
            ambiguity=ambiguity,
            setting=self.protocol(task, radius),
            surrogate=task.problem.surrogate,
            beta=2.0,
            policy=self.policy(task),
            seed=seed,
            limits=(self.limits(task) or {}) | {name: limit for name, (_, limit) in task.problem.limits.items()}
            or None,
        )


OF_DRBO: dict[str, Method] = {
    method.name: method
    for method in (
        Method(MethodName.DRBO, "DRBO"),
        Method(
            MethodName.INFORMATIVE,
            "DRBO informative",
            policy=lambda _: drbo.Optimism(drbo.Informative()),
            settings=(SettingName.SIMULATOR,),
        ),
        Method(
            MethodName.JOINT,
            "DRBO joint",
            policy=lambda _: drbo.JointOptimism(drbo.Informative()),
            settings=(SettingName.SIMULATOR,),
        ),
        Method(MethodName.UCB, "UCB", robust_to=_reference),
        Method(MethodName.STABLEOPT, "StableOpt", robust_to=_neighbourhood),
        Method(MethodName.EMBEDDING, "embedding", robust_to=_reference, policy=lambda _: drbo.MeanEmbedding()),
        Method(
            MethodName.EMBEDDING_HIDDEN,
            "embedding hidden",
            robust_to=_reference,
            policy=lambda _: drbo.MeanEmbedding(),
            settings=(SettingName.GENERAL, SettingName.SIMULATOR),
            hidden=True,
        ),
        Method(
            MethodName.STABLEOPT_OWN,
            "StableOpt (own contexts)",
            robust_to=_neighbourhood,
            policy=lambda _: drbo.Optimism(drbo.Pessimistic()),
            settings=(SettingName.SIMULATOR,),
        ),
        Method(
            MethodName.THOMPSON,
            "Thompson",
            policy=lambda task: drbo.Thompson(drbo.Informative() if task.picks else None),
        ),
        Method(MethodName.SATISFICING, "Satisficing", policy=_satisficing, recommended=_for_the_target),
        Method(
            MethodName.SENSITIVITY,
            "Sensitivity",
            policy=lambda task: FirstOrder(drbo.Uncertain() if task.picks else None),
        ),
        Method(
            MethodName.CHANCE,
            "Chance",
            limits=_limits,
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
            robust_to=_reference,
            protocol=lambda *_: KernelDensity(),
            settings=(SettingName.DATA_DRIVEN,),
        ),
        Method(
            MethodName.DRBO_KDE,
            "DRBO-KDE",
            robust_to=lambda *_: (drbo.TotalVariation(), math.nan),
            protocol=lambda *_: KernelDensity(scale=0.5),
            settings=(SettingName.DATA_DRIVEN,),
        ),
        Method(
            MethodName.WDRBO,
            "WDRBO",
            robust_to=lambda problem, _: (drbo.Wasserstein(problem.contexts), math.nan),
            policy=lambda _: LipschitzPenalty(),
            protocol=lambda *_: drbo.DataDriven(radius=Bootstrap(delta=0.1, resamples=100)),
            settings=(SettingName.DATA_DRIVEN,),
        ),
        Method(
            MethodName.RRGP_UCB,
            "RRGP-UCB",
            policy=lambda task: RandomWidth(
                drbo.Uncertain() if task.picks else None, len(task.problem.actions) * len(task.problem.contexts)
            ),
        ),
    )
}
"""The methods that are an optimizer of drbo, by name."""

METHODS: dict[str, Method | ForeignMethod] = {
    **OF_DRBO,
    MethodName.ENSEMBLE: ForeignMethod(MethodName.ENSEMBLE, "ensemble", Ensemble.of),
}
"""All methods by name."""

OF_THE_PAPER = (MethodName.DRBO, MethodName.UCB, MethodName.STABLEOPT)
"""The names of the methods compared in the paper."""
