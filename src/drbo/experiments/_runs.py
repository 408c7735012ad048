"""One run: a problem, a method, a setting and a seed give a record of every round."""

from __future__ import annotations

import numpy as np

from drbo import regret
from drbo.experiments._methods import by_name
from drbo.experiments._store import Table
from drbo.optimizer import Optimizer
from drbo.problems import Problem
from drbo.radius import Theoretical
from drbo.settings import DataDriven, General, Setting, Simulator
from drbo.surrogate import GP

SETTINGS = ("general", "data-driven", "simulator")
DATA_DRIVEN_RADIUS = Theoretical(delta=0.1, factor=0.2)
"""A fifth of Corollary 4's radius: about the 95% quantile of the distance between a sample and its distribution. The
full radius exceeds the diameter of the set for 60 rounds, and then every method would be measured by the worst case."""


def setting_by_name(name: str, problem: Problem) -> Setting:
    """Return the setting of that name for a problem."""
    if name == "general":
        return General()
    if name == "data-driven":
        return DataDriven(radius=DATA_DRIVEN_RADIUS)
    return Simulator(problem.reference, problem.radius)


def generator(seed: int, run: int) -> np.random.Generator:
    """Return the random numbers of a run, spawned from the seed: the same for all methods, whoever computes it."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(run,)))


def run(problem: Problem, setting_name: str, method_name: str, rounds: int, seed: int, number: int) -> Table:
    """Return a row a round: what was chosen, what came out, and its robust regret in the MMD ball of the round."""
    rng = generator(seed, number)
    setting = setting_by_name(setting_name, problem)
    opt = Optimizer(
        problem.actions,
        problem.contexts,
        ambiguity=by_name(method_name).ambiguity(problem),
        setting=setting,
        surrogate=GP(problem.gp_kernel, problem.noise),
        beta=2.0,
    )
    f = problem.values
    actions, contexts, outcomes, references, radii = [], [], [], [], []
    for _ in range(rounds):
        s = opt.ask(problem.reference, problem.radius) if setting.needs_ball else opt.ask()
        natural = int(rng.choice(len(problem.contexts), p=problem.true_distribution))
        noise = problem.noise * rng.normal()
        j = natural if s.context_index is None else s.context_index
        outcome = float(f[s.action_index, j]) + noise
        opt.tell(s, outcome, context_index=None if setting.picks_context else j)
        actions.append(s.action_index)
        contexts.append(j)
        outcomes.append(outcome)
        references.append(s.reference)
        radii.append(s.radius)
    same = setting_name != "data-driven"
    result = regret.robust_regret(
        f,
        problem.ambiguity,
        problem.reference if same else np.array(references),
        problem.radius if same else np.array(radii),
        actions,
    )
    return {
        "problem": np.full(rounds, problem.name),
        "setting": np.full(rounds, setting_name),
        "method": np.full(rounds, method_name),
        "run": np.full(rounds, number),
        "round": np.arange(1, rounds + 1),
        "action": np.array(actions),
        "context": np.array(contexts),
        "outcome": np.array(outcomes),
        "regret": result.instantaneous,
    }
