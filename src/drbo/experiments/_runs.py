"""One run: a problem, a method, a setting and a seed give a record of every round."""

from __future__ import annotations

import numpy as np

from drbo import regret
from drbo.experiments._methods import Goal, goal, method_set
from drbo.experiments._store import Table
from drbo.models.gp import GP
from drbo.optimizer.optimizer import Optimizer
from drbo.problems import Problem
from drbo.radius import Bootstrap, RadiusRule, Theoretical, empirical
from drbo.rounds.settings import DataDriven, General, Setting, Simulator

SETTINGS = ("general", "data-driven", "simulator")


def data_driven_radius(set_name: str) -> RadiusRule:
    """Return the rule for the data-driven setting.

    For the MMD a fifth of Corollary 4's radius, about the 95% quantile of the distance between a sample and its
    distribution: the full one exceeds the diameter of the set for 60 rounds, in which every method would be measured
    by the worst case alone. For other sets, which the corollary says nothing about, the bootstrap.
    """
    return Theoretical(delta=0.1, factor=0.2) if set_name == "mmd" else Bootstrap(delta=0.1, resamples=100)


def _setting(name: str, problem: Problem, radius: float, rule: RadiusRule) -> Setting:
    if name == "general":
        return General()
    if name == "data-driven":
        return DataDriven(radius=rule)
    return Simulator(problem.reference, radius)


def generator(seed: int, run: int) -> np.random.Generator:
    """Return the random numbers of a run, spawned from the seed: the same for all methods, whoever computes it."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(run,)))


def run(
    problem: Problem, setting_name: str, method: str, rounds: int, seed: int, number: int, set_name: str = "mmd"
) -> Table:
    """Return a row a round: what was chosen, what came out, and its robust regret in the ball of the round."""
    rng = generator(seed, number)
    aim: Goal = goal(problem, set_name)
    ambiguity, radius = method_set(method, problem, aim)
    rule = data_driven_radius(set_name)
    setting = _setting(setting_name, problem, radius, rule)
    opt = Optimizer(
        problem.actions,
        problem.contexts,
        ambiguity=ambiguity,
        setting=setting,
        surrogate=GP(problem.gp_kernel, problem.noise),
        beta=2.0,
    )
    f = problem.values
    n_contexts = len(problem.contexts)
    actions, contexts, outcomes = [], [], []
    for _ in range(rounds):
        s = opt.ask(reference=problem.reference, radius=radius) if setting_name == "general" else opt.ask()
        natural = int(rng.choice(n_contexts, p=problem.true_distribution))
        noise = problem.noise * rng.normal()
        j = natural if s.context_index is None else s.context_index
        outcome = float(f[s.action_index, j]) + noise
        opt.tell(s, outcome, context_index=j if s.context_index is None else None)
        actions.append(s.action_index)
        contexts.append(j)
        outcomes.append(outcome)
    references, radii = problem.reference, np.array(aim.radius)
    if setting_name == "data-driven":  # the ball that DRBO sees in each round, for every method
        seen = [np.array(contexts[:t], dtype=np.intp) for t in range(rounds)]
        references = np.array([empirical(s, n_contexts) for s in seen])
        radii = np.array([rule.radius(s, aim.ambiguity, n_contexts) for s in seen])
    result = regret.robust_regret(f, aim.ambiguity, references, radii, actions)
    return {
        "problem": np.full(rounds, problem.name),
        "setting": np.full(rounds, setting_name),
        "method": np.full(rounds, method),
        "run": np.full(rounds, number),
        "round": np.arange(1, rounds + 1),
        "action": np.array(actions),
        "context": np.array(contexts),
        "outcome": np.array(outcomes),
        "regret": result.instantaneous,
    }
