"""Problems with a limit on a second outcome: how often an action is called feasible that is not, and what it costs.

    export OPENBLAS_NUM_THREADS=1
    python benchmarks/limits.py out/limits.jsonl --seeds 12            # all problems and methods
    python benchmarks/limits.py out/limits.jsonl --table               # what is there already
    python benchmarks/limits.py out/limits.jsonl --needed              # evaluations needed for the best peer's median
    python benchmarks/limits.py --cost                                 # an ask with two limits beside one without

Every problem has an objective to minimise, limits, and 40 past conditions. The set is a Wasserstein ball on them. The
true worst cases are solved exactly from the true functions, so an action is truly feasible if each limit holds in its
own true worst distribution. Two problems are simulators (limits_simulators.py), which need PyBaMM and pandapower; their
conditions have a range, and the true worst case is solved on a grid of it. All methods have the same conditions and
evaluate one action in one condition at a time:

    drbo       `Optimizer(limits=...)`, the default policy
    glue       two or more optimizers that share evaluations: the objective's suggests, all are told, and the best bound
               is taken among candidate actions whose limits hold by the bounds of the others (of the models alone)
    penalty    one optimizer of objective + 10 deviations per unit of violation
    random     random actions and conditions, told to `Optimizer(limits=...)`
    tpe, gp    Optuna's TPESampler and GPSampler (which needs torch) with constraints, in random conditions; the best
               feasible trial
    botorch    BoTorch's constrained LogEI with its risk measures over the 40 past conditions (limits_botorch.py)
    botorch_set  the same with the worst cases of the set itself, by drbo.integrations.botorch

A row has the recommended action's true worst-case value and whether it is truly feasible. The regret is in per cent of
(best - median truly feasible action); a run counts as the median if it recommends nothing, or something infeasible.
`--needed` compares drbo with each peer on the seeds that both have run: after how many evaluations its median regret is
that of the peer at 40 (or 60), and stays so.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import time
import warnings
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

import drbo
from drbo.validation import FloatArray
from intervals import clopper_pearson

CHECKPOINTS = (10, 15, 20, 25, 30, 35, 40, 50, 60)
SHOWN = (20, 40, 60)
"""The checkpoints of the table."""
DAYS = 40
PENALTY = 10.0
_CANDIDATES = 200
FLOOR = 0.01
"""The least regret in per cent that is told apart."""
NEVER = 1.5
"""What counts as the share where drbo does not get there."""
_TORCH = ("gp", "botorch", "botorch_set")

Outcome = Callable[[FloatArray, FloatArray], Any]
"""A function of an action (d,) in [0, 1]^d and of conditions (n,), with values (n,)."""


@dataclass(frozen=True)
class Problem:
    """An objective to minimise, limited outcomes with their limits, and the radius of the set.

    `labels` are the names of conditions that are labels; a condition is then its number.
    """

    d: int
    objective: Outcome
    limited: dict[str, tuple[Outcome, drbo.AtMost | drbo.AtLeast]]
    radius: float
    labels: tuple[str, ...] = ()
    noise: float = 0.01


def _plant(x: FloatArray, c: FloatArray) -> Any:
    return 40.0 + 3.0 * (10.0 - 6.0 * c) + 60.0 * (0.2 + 0.8 * x[0]) ** 2


def _peak(x: FloatArray, c: FloatArray) -> Any:
    return 48.0 + 12.0 / (0.2 + 0.8 * x[0]) + 3.0 * np.maximum(c, 0.0)


def _gramacy(x: FloatArray, c: FloatArray) -> Any:
    """Gramacy et al. (Technometrics 2016): a linear objective; here a condition shifts the second coordinate."""
    return x[0] + x[1] + 0.1 * c


def _gramacy_wave(x: FloatArray, c: FloatArray) -> Any:
    a, b = x[0], x[1] + 0.05 * c
    return 1.5 - a - 2.0 * b - 0.5 * np.sin(2.0 * math.pi * (a**2 - 2.0 * b))


def _gramacy_disc(x: FloatArray, c: FloatArray) -> Any:
    return x[0] ** 2 + (x[1] - 0.05 * c) ** 2


def _gardner(x: FloatArray, c: FloatArray) -> Any:
    """Gardner et al. (ICML 2014), first problem, on [0, 6]^2; a condition moves the first coordinate.

    Their limit is 0.5, at which the best action is feasible anyway; here it is -0.5.
    """
    a, b = 6.0 * x[0] + 0.2 * c, 6.0 * x[1]
    return np.cos(2.0 * a) * np.cos(b) + np.sin(a)


def _gardner_limit(x: FloatArray, c: FloatArray) -> Any:
    a, b = 6.0 * x[0], 6.0 * x[1] - 0.2 * c
    return np.cos(a) * np.cos(b) - np.sin(a) * np.sin(b)


def _model_cost(x: FloatArray, c: FloatArray) -> Any:
    """Return the loss of a model per group of people; groups 0 to 3 want different trade-offs."""
    best = np.array([0.2, 0.5, 0.7, 0.9])[c.astype(int)]
    return (x[0] - best) ** 2 + 0.5 * (1.0 - x[1])


def _latency(x: FloatArray, c: FloatArray) -> Any:
    return 20.0 + np.array([40.0, 60.0, 30.0, 90.0])[c.astype(int)] * x[1] ** 2


def _branin(x: FloatArray, c: FloatArray) -> Any:
    a, b = 15.0 * x[0] - 5.0, 15.0 * x[1] + c
    return (b - 5.1 / (4.0 * math.pi**2) * a**2 + 5.0 / math.pi * a - 6.0) ** 2 + 10.0 * np.cos(a) + 10.0


def _ring(x: FloatArray, c: FloatArray) -> Any:
    return np.hypot(x[0] - 0.5, x[1] - 0.5 - 0.03 * c)


SIMULATED = ("battery", "feeder")
PROBLEMS: dict[str, Problem] = {
    "plant": Problem(1, _plant, {"peak": (_peak, drbo.AtMost(75.0))}, 0.5),
    "gramacy": Problem(
        2,
        _gramacy,
        {"wave": (_gramacy_wave, drbo.AtMost(0.0)), "disc": (_gramacy_disc, drbo.AtMost(1.5))},
        0.3,
    ),
    "gardner": Problem(2, _gardner, {"limit": (_gardner_limit, drbo.AtMost(-0.5))}, 0.3),
    "groups": Problem(2, _model_cost, {"latency": (_latency, drbo.AtMost(60.0))}, 0.15, ("a", "b", "c", "d")),
    "branin": Problem(2, _branin, {"ring": (_ring, drbo.AtMost(0.35))}, 0.3),
    "likely": Problem(1, _plant, {"peak": (_peak, drbo.AtMost(77.0, probability=0.8))}, 0.3),
}


class Task(Protocol):
    """A problem with its past conditions for one seed."""

    @property
    def d(self) -> int:
        """The number of parameters."""

    @property
    def limits(self) -> dict[str, drbo.AtMost | drbo.AtLeast]:
        """The limits by name."""

    def optimizer(self, **more: Any) -> drbo.Optimizer:
        """Return an optimizer of the problem, to minimise."""

    def named(self, x: FloatArray) -> dict[str, float]:
        """Return an action (d,) of the unit cube as an action of the optimizer."""

    def array(self, action: Any) -> FloatArray:
        """Return an action of the optimizer as one (d,) of the unit cube."""

    def condition(self, context: Any) -> Any:
        """Return a context of an optimizer as a condition."""

    def context(self, condition: Any) -> Any:
        """Return a condition as a context of an optimizer."""

    def draw(self, index: int) -> Any:
        """Return a past condition."""

    def draws(self) -> FloatArray:
        """Return the past conditions (DAYS, d_c) as coordinates, about from 0 to 1."""

    def tail(self) -> float:
        """Return the share of the worst draws whose mean is shifted about as far as the set allows."""

    def ball(self) -> tuple[drbo.AmbiguitySet, FloatArray, float]:
        """Return the family, the past conditions (DAYS, d_c) in its units, and the radius."""

    def evaluate(self, x: FloatArray, c: Any, rng: np.random.Generator) -> tuple[float, dict[str, float]]:
        """Return noisy outcomes; the noise is a share of the spread of each outcome."""

    def spread(self, name: str) -> float:
        """Return the standard deviation of an outcome over random actions and conditions."""

    def truth(self, actions: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the true worst-case objective (m,) and the true least margin (m,) of actions (m, d)."""

    def samples(self) -> int:
        """Return the number of random actions that the best one is searched among."""


def task_of(name: str, seed: int) -> Task:
    """Return the task of a problem and a seed."""
    if name in SIMULATED:
        from limits_simulators import SimulatedTask

        return SimulatedTask.of(name)
    return FunctionTask.of(name, seed)


def tail_of(shift: float) -> float:
    """Return the share of a normal distribution whose mean is so many deviations above the mean of all."""
    return float(brentq(lambda p: norm.pdf(norm.ppf(p)) / p - shift, 1e-6, 1.0 - 1e-6))


@dataclass(frozen=True, eq=False)
class FunctionTask:
    """A problem of functions with its past conditions for one seed."""

    problem: Problem
    days: FloatArray

    @classmethod
    def of(cls, name: str, seed: int) -> FunctionTask:
        """Return the task of a seed."""
        rng, problem = np.random.default_rng([seed, 1]), PROBLEMS[name]
        days = (
            rng.choice(len(problem.labels), DAYS, p=[0.4, 0.3, 0.2, 0.1]) if problem.labels else rng.normal(size=DAYS)
        )
        return cls(problem, np.asarray(days, dtype=float))

    @property
    def contexts(self) -> Any:
        """The contexts of an optimizer."""
        names = self.problem.labels
        if names:
            return {name: float((self.days == i).sum()) for i, name in enumerate(names)}
        return drbo.Samples({"c": self.days}, atoms=DAYS)

    @property
    def ambiguity(self) -> drbo.AmbiguitySet:
        """The family of sets."""
        return drbo.TotalVariation() if self.problem.labels else drbo.Wasserstein()

    def optimizer(self, **more: Any) -> drbo.Optimizer:
        """Return an optimizer of the problem, to minimise."""
        box = drbo.Box({f"x{k}": (0.0, 1.0) for k in range(self.problem.d)})
        setting = drbo.Simulator(radius=self.problem.radius)
        arguments = {"ambiguity": self.ambiguity, "setting": setting, "maximize": False, **more}
        return drbo.Optimizer(box, self.contexts, **arguments)

    @property
    def d(self) -> int:
        """The number of parameters."""
        return self.problem.d

    @property
    def limits(self) -> dict[str, drbo.AtMost | drbo.AtLeast]:
        """The limits by name."""
        return {name: limit for name, (_, limit) in self.problem.limited.items()}

    def named(self, x: FloatArray) -> dict[str, float]:
        """Return an action (d,) as an action of the optimizer."""
        return {f"x{k}": float(value) for k, value in enumerate(x)}

    def array(self, action: Any) -> FloatArray:
        """Return an action of the optimizer as an array (d,)."""
        return np.array(list(action.values()))

    def condition(self, context: Any) -> float:
        """Return a context of an optimizer as a condition."""
        return float(self.problem.labels.index(context)) if self.problem.labels else float(context["c"])

    def context(self, condition: float) -> Any:
        """Return a condition as a context of an optimizer."""
        return self.problem.labels[int(condition)] if self.problem.labels else {"c": condition}

    def draw(self, index: int) -> float:
        """Return a past condition."""
        return float(self.days[index])

    def draws(self) -> FloatArray:
        """Return the past conditions (DAYS, d_c) as coordinates; a label has a column of its own."""
        if self.problem.labels:
            return np.asarray(np.eye(len(self.problem.labels))[self.days.astype(int)])
        return (self.days[:, None] + 3.0) / 6.0

    def tail(self) -> float:
        """Return the share of the worst draws whose mean is shifted about as far as the set allows."""
        return 1.0 - self.problem.radius if self.problem.labels else tail_of(self.problem.radius)

    def ball(self) -> tuple[drbo.AmbiguitySet, FloatArray, float]:
        """Return the family, the past conditions (DAYS, d_c) in its units, and the radius."""
        return self.ambiguity, self.draws() if self.problem.labels else self.days[:, None], self.problem.radius

    def samples(self) -> int:
        """Return the number of random actions that the best one is searched among."""
        return 800 if self.problem.d > 1 else 200

    def evaluate(self, x: FloatArray, c: float, rng: np.random.Generator) -> tuple[float, dict[str, float]]:
        """Return noisy outcomes; the noise is a share of the spread of each outcome."""
        one = np.array([c])
        noisy = {}
        for name, function in self.functions.items():
            noisy[name] = float(function(x, one)[0]) + self.problem.noise * self.spread(name) * float(rng.normal())
        return noisy.pop(""), noisy

    @property
    def functions(self) -> dict[str, Outcome]:
        """The outcomes by name; the objective has the empty name."""
        return {"": self.problem.objective, **{name: one for name, (one, _) in self.problem.limited.items()}}

    def spread(self, name: str) -> float:
        """Return the standard deviation of an outcome over random actions and conditions."""
        rng = np.random.default_rng(7)
        function, x = self.functions[name], rng.random((64, self.problem.d))
        return float(np.std([function(one, self.days) for one in x]))

    def worst(self, values: Any) -> FloatArray:
        """Return the exact worst cases of rows of values (m, n) by condition, to be maximised."""
        points = np.arange(len(self.problem.labels), dtype=float) if self.problem.labels else self.days
        weights = (
            np.array([(self.days == c).mean() for c in points]) if self.problem.labels else np.full(DAYS, 1 / DAYS)
        )
        placed = self.ambiguity.on(points[:, None], np.ones(1))
        return np.asarray(placed.worst_case(values, weights, self.problem.radius).expectation)

    def truth(self, actions: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the true worst-case objective (m,) and the true least margin (m,) of actions (m, d)."""
        at = np.arange(len(self.problem.labels), dtype=float) if self.problem.labels else self.days
        costs = -self.worst(-np.array([self.problem.objective(x, at) for x in actions]))
        margins = np.full(len(actions), np.inf)
        for function, limit in self.problem.limited.values():
            values = limit.sign * (np.array([function(x, at) for x in actions]) - limit.threshold)
            if limit.probability is None:
                margins = np.minimum(margins, self.worst(values))
            else:
                margins = np.minimum(margins, self.worst((values >= 0.0) * 1.0) - limit.probability + 1e-9)
        return costs, margins


Method = Callable[[Task, int, Container[int]], Iterator[FloatArray | None]]
"""Yields the recommended action after each evaluation, and None at counts that it was not asked `at`."""


def _recommended(task: Task, opt: drbo.Optimizer) -> FloatArray | None:
    try:
        return task.array(opt.recommend().action)
    except drbo.NotReachedError:
        return None


def with_limits(task: Task, seed: int, at: Container[int]) -> Iterator[FloatArray | None]:
    """Yield what `Optimizer(limits=...)` recommends after each evaluation."""
    opt, rng = task.optimizer(limits=task.limits, seed=1000 * seed), np.random.default_rng([seed, 2])
    while True:
        s = opt.ask()
        cost, limits = task.evaluate(task.array(s.action), task.condition(s.context), rng)
        opt.tell(s, cost, limits=limits)
        yield _recommended(task, opt) if opt.n_told in at else None


def at_random(task: Task, seed: int, at: Container[int]) -> Iterator[FloatArray | None]:
    """Yield what `Optimizer(limits=...)` recommends from random evaluations."""
    opt, rng = task.optimizer(limits=task.limits, seed=1000 * seed), np.random.default_rng([seed, 2])
    while True:
        x, c = rng.random(task.d), task.draw(int(rng.integers(DAYS)))
        cost, limits = task.evaluate(x, c, rng)
        opt.tell(task.named(x), cost, context=task.context(c), limits=limits)
        yield _recommended(task, opt) if opt.n_told in at else None


def by_penalty(task: Task, seed: int, at: Container[int]) -> Iterator[FloatArray | None]:
    """Yield what one optimizer of a penalised objective recommends; it always recommends something."""
    opt, rng = task.optimizer(seed=1000 * seed), np.random.default_rng([seed, 2])
    scale = {name: PENALTY * task.spread("") / task.spread(name) for name in task.limits}
    while True:
        s = opt.ask()
        cost, limits = task.evaluate(task.array(s.action), task.condition(s.context), rng)
        for name, limit in task.limits.items():
            cost += scale[name] * max(-limit.sign * (limits[name] - limit.threshold), 0.0)
        opt.tell(s, cost)
        yield _recommended(task, opt) if opt.n_told in at else None


def by_glue(task: Task, seed: int, at: Container[int]) -> Iterator[FloatArray | None]:
    """Yield what optimizers that share evaluations recommend: the best bound of candidates whose limits hold."""
    opt, rng = task.optimizer(seed=1000 * seed), np.random.default_rng([seed, 2])
    others = {name: task.optimizer(maximize=limit.sign > 0.0) for name, limit in task.limits.items()}
    tried: list[FloatArray] = []
    while True:
        s = opt.ask()
        tried.append(task.array(s.action))
        cost, limits = task.evaluate(tried[-1], task.condition(s.context), rng)
        opt.tell(s, cost)
        for name, other in others.items():
            other.tell(s.action, limits[name], context=s.context)
        if opt.n_told not in at:
            yield None
            continue
        candidates = [*tried, *np.random.default_rng(opt.n_told).random((_CANDIDATES, task.d))]
        best: tuple[float, FloatArray] | None = None
        for x in candidates:
            action, holds = task.named(x), True
            for name, limit in task.limits.items():
                if limit.probability is None:
                    holds = holds and limit.sign * (_by_the_model(others[name], action) - limit.threshold) >= 0.0
                elif holds:
                    event: dict[str, Any] = {"above" if limit.sign > 0.0 else "below": limit.threshold}
                    holds = others[name].under().probability(action, **event).lower >= limit.probability
            if holds and (best is None or _by_the_model(opt, action) < best[0]):
                best = _by_the_model(opt, action), x
        yield None if best is None else best[1]


def _by_the_model(opt: drbo.Optimizer, action: dict[str, float]) -> float:
    """Return the bound of the model alone, as in 0.2: the evaluations of others check nothing for this outcome."""
    return opt.bound(action).trust.guess


def by_optuna(kind: str) -> Method:
    """Return a method of Optuna: conditions are drawn at random, and the best feasible trial counts."""

    def method(task: Task, seed: int, at: Container[int]) -> Iterator[FloatArray | None]:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        warnings.simplefilter("ignore")
        rng, limits = np.random.default_rng([seed, 2]), task.limits

        def constraints(trial: optuna.trial.FrozenTrial) -> list[float]:
            return list(trial.user_attrs["beyond"])

        maker = optuna.samplers.TPESampler if kind == "tpe" else optuna.samplers.GPSampler
        study = optuna.create_study(sampler=maker(seed=seed, constraints_func=constraints))
        box: dict[str, Any] = {f"x{k}": optuna.distributions.FloatDistribution(0.0, 1.0) for k in range(task.d)}
        for count in itertools.count(1):
            trial = study.ask(box)
            cost, values = task.evaluate(np.array(list(trial.params.values())), task.draw(int(rng.integers(DAYS))), rng)
            beyond = [-limit.sign * (values[name] - limit.threshold) for name, limit in limits.items()]
            trial.set_user_attr("beyond", beyond)
            study.tell(trial, cost)
            feasible = [t for t in study.trials if t.values and max(t.user_attrs["beyond"]) <= 0.0]
            best = min(feasible, key=lambda t: t.value or 0.0, default=None) if count in at else None
            yield None if best is None else np.array(list(best.params.values()))

    return method


def by_botorch(task: Task, seed: int, at: Container[int]) -> Iterator[FloatArray | None]:
    """Yield what BoTorch's constrained LogEI recommends."""
    from limits_botorch import by_risk_measures

    return by_risk_measures(task, seed, at)


def by_botorch_set(task: Task, seed: int, at: Container[int]) -> Iterator[FloatArray | None]:
    """Yield the same with the worst cases of the set."""
    from limits_botorch import by_set

    return by_set(task, seed, at)


METHODS: dict[str, Method] = {
    "drbo": with_limits,
    "glue": by_glue,
    "penalty": by_penalty,
    "random": at_random,
    "tpe": by_optuna("tpe"),
    "gp": by_optuna("gp"),
    "botorch": by_botorch,
    "botorch_set": by_botorch_set,
}


def run(problem: str, method: str, seed: int, largest: int) -> list[dict[str, Any]]:
    """Return a row per checkpoint of one run."""
    task, rows, at = task_of(problem, seed), [], CHECKPOINTS if method == "drbo" else SHOWN
    for count, x in enumerate(METHODS[method](task, seed, at), start=1):
        if count in at:
            row: dict[str, Any] = {"problem": problem, "method": method, "seed": seed, "evaluations": count}
            if x is not None:
                cost, margin = task.truth(x[None])
                row |= {"value": float(cost[0]), "feasible": bool(margin[0] >= 0.0), "margin": float(margin[0])}
            rows.append(row)
        if count >= largest:
            break
    return rows


def best_of(problem: str, seed: int) -> tuple[float, float]:
    """Return the best true value of a truly feasible action, and the median of feasible ones, by a dense sample."""
    task = task_of(problem, seed)
    actions = np.random.default_rng(0).random((task.samples(), task.d))
    costs, margins = task.truth(actions)
    return float(costs[margins >= 0.0].min()), float(np.median(costs[margins >= 0.0]))


Row = dict[str, Any]


def read(path: Path) -> list[Row]:
    """Return the rows of a file, with the regret of each in per cent of (best - median feasible action).

    The best action of a problem and seed is the best of a dense sample and of all that was recommended.
    """
    rows: list[Row] = [json.loads(line) for line in path.read_text().splitlines()]
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["problem"], 0 if row["problem"] in SIMULATED else row["seed"]), []).append(row)
    for key, some in groups.items():
        best, median = best_of(*key)
        best = min([best, *(row["value"] for row in some if row.get("feasible"))])
        for row in some:  # nothing recommended, or an action that is not feasible, counts as the median action
            good = row.get("feasible", False)
            row["regret"] = 100.0 * (min(row["value"], median) - best) / (median - best) if good else 100.0
    return rows


def table(rows: list[Row]) -> None:
    """Print false feasibility and regrets by method and number of evaluations, and by problem for drbo at 40."""
    heads = ("method", "evaluations", "runs", "recommended", "false", "share (95% limits)", "median regret %")
    print("| " + " | ".join((*heads, "mean regret %")) + " |")
    print("|---" * (len(heads) + 1) + "|")
    for method, count in itertools.product(METHODS, SHOWN):
        _line(method, str(count), [row for row in rows if (row["method"], row["evaluations"]) == (method, count)])
    for problem in (*PROBLEMS, *SIMULATED):
        for method in METHODS:
            here = (problem, method, 40)
            some = [row for row in rows if (row["problem"], row["method"], row["evaluations"]) == here]
            _line(f"{problem}, {method}", "40", some)


def _line(name: str, count: str, some: list[Row]) -> None:
    made = [row for row in some if "value" in row]
    if not some:
        return
    false = sum(not row["feasible"] for row in made)
    low, high = clopper_pearson(false, len(made)) if made else (0.0, 1.0)
    regrets = [row["regret"] for row in some]
    cells = f"{false} | {false / max(len(made), 1):.1%} ({low:.1%} to {high:.1%})"
    numbers = f"{np.median(regrets):.2f} | {np.mean(regrets):.2f}"
    print(f"| {name} | {count} | {len(some)} | {len(made)} | {cells} | {numbers} |")


def needed(rows: list[Row], target: int) -> None:
    """Print the evaluations that drbo needs for each peer's median regret at `target`, per problem and pooled."""
    print("| peer | problem | pairs | its median regret % | that of drbo | drbo needs | share |")
    print("|---|---|---|---|---|---|---|")
    for peer in METHODS:
        shares = []
        for problem in (*PROBLEMS, *SIMULATED):
            here = [row for row in rows if row["problem"] == problem]
            theirs = {r["seed"]: r["regret"] for r in here if (r["method"], r["evaluations"]) == (peer, target)}
            own = [row for row in here if row["method"] == "drbo" and row["seed"] in theirs]
            counts = sorted({row["evaluations"] for row in own})
            if peer == "drbo" or target not in counts:
                continue
            goal = float(np.median([theirs[row["seed"]] for row in own if row["evaluations"] == target]))
            medians = [float(np.median([r["regret"] for r in own if r["evaluations"] == n])) for n in counts]
            above = [n for n, median in zip(counts, medians, strict=True) if median > max(goal, FLOOR)]
            enough = next((n for n in counts if n > max(above, default=0)), None)
            shares.append(NEVER if enough is None else enough / target)
            own_median = medians[counts.index(target)]
            cells = (f"{goal:.2f}", f"{own_median:.2f}", "-" if enough is None else str(enough), f"{shares[-1]:.2f}")
            seeds = len({row["seed"] for row in own})
            print(f"| {peer} | {problem} | {seeds} | " + " | ".join(cells) + " |")
        if shares:
            print(f"| {peer} | geometric mean | | | | | {math.exp(float(np.mean(np.log(shares)))):.2f} |")


def cost(rounds: int = 30, pairs: int = 2) -> None:
    """Print CPU seconds of a round (ask and tell) without limits and with two, from the ninth round on."""
    axis = np.linspace(0.0, 1.0, 20)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    days = drbo.Samples({"c": np.random.default_rng(1).random(60)})
    spaces: dict[str, dict[str, Any]] = {
        "400 actions, 60 contexts": {
            "actions": grid,
            "contexts": np.linspace(0.0, 1.0, 60),
            "ambiguity": drbo.MMD(),
            "setting": drbo.Simulator(np.full(60, 1.0 / 60.0), 0.1),
        },
        "a box of three, 60 samples": {
            "actions": drbo.Box(x=(0.0, 1.0), y=(0.0, 1.0), z=(0.0, 1.0)),
            "contexts": days,
            "ambiguity": drbo.Wasserstein(),
            "setting": drbo.Simulator(radius=0.1),
        },
    }
    for name, arguments in spaces.items():
        for _ in range(pairs + 1):  # the first pair warms up
            seconds = []
            for limits in (None, {"a": drbo.AtMost(1.5), "b": drbo.AtLeast(0.2)}):
                opt, spent = drbo.Optimizer(**arguments, limits=limits), []
                for _ in range(rounds):
                    start = time.process_time()
                    s = opt.ask()
                    spent.append(time.process_time() - start)
                    x = np.array(list(s.action.values()) if isinstance(s.action, dict) else s.action)
                    c = float(s.context["c"]) if isinstance(s.context, dict) else float(np.squeeze(s.context))
                    values = {"a": float(x.sum() + 0.2 * c), "b": float(np.cos(2.0 * x[0]) + 0.1 * c)}
                    outcome = float(np.sin(3.0 * x.sum()) + 0.3 * x[0] * c)
                    start = time.process_time()
                    opt.tell(s, outcome, limits=values if limits else None)
                    spent[-1] += time.process_time() - start
                seconds.append(float(np.mean(spent[8:])))
            print(f"{name}: {seconds[0]:.4f} s without, {seconds[1]:.4f} s with two: {seconds[1] / seconds[0]:.2f}")


def main() -> None:
    """Run what is missing in the file, or print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--evaluations", type=int, default=CHECKPOINTS[-1], choices=CHECKPOINTS)
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS), choices=[*PROBLEMS, *SIMULATED])
    parser.add_argument(
        "--methods", nargs="+", default=[name for name in METHODS if name not in _TORCH], choices=list(METHODS)
    )
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--needed", action="store_true")
    parser.add_argument("--cost", action="store_true")
    given = parser.parse_args()
    if given.cost:
        cost()
        return
    if given.out is None:
        parser.error("out is missing")
    if given.table or given.needed:
        rows = read(given.out)
        if given.table:
            table(rows)
        for target in (40, 60) if given.needed else ():
            print(f"\nat {target} evaluations")
            needed(rows, target)
        return
    given.out.parent.mkdir(parents=True, exist_ok=True)
    lines = given.out.read_text().splitlines() if given.out.exists() else []
    done = {(row["problem"], row["method"], row["seed"]) for row in map(json.loads, lines)}
    for seed in range(given.first_seed, given.first_seed + given.seeds):
        for problem in given.problems:
            for method in given.methods:
                if (problem, method, seed) not in done:
                    rows = run(problem, method, seed, given.evaluations)
                    with given.out.open("a") as file:
                        file.writelines(json.dumps(row) + "\n" for row in rows)


if __name__ == "__main__":
    main()
