"""What chooses the next evaluation, and what it would deploy: drbo's policies and their opponents.

A method has `ask() -> (action, context)`, `tell(action, context, outcome)` and `deploy() -> action`; all in the unit
cube. Every method is given the draws of the context, and none is given the noise or the formula. Methods that do not
see the objective run once for both.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

import drbo
from drbo.validation import FloatArray
from efficiency_problems import RADIUS, Objective, Task

Pair = tuple[FloatArray, FloatArray]


class Method(ABC):
    """One run of a method; the task gives the draws and the seed."""

    sees_objective: ClassVar[bool] = True

    def __init__(self, task: Task, objective: Objective) -> None:
        self.task, self.objective = task, objective
        self.d_x, self.draws = task.problem.d_x, task.draws
        self.rng = np.random.default_rng([task.seed, 3])

    @abstractmethod
    def ask(self) -> Pair:
        """Return the action (d_x,) and the context (d_c,) to evaluate next."""

    @abstractmethod
    def tell(self, action: FloatArray, context: FloatArray, outcome: float) -> None:
        """Take in an outcome."""

    @abstractmethod
    def deploy(self) -> FloatArray:
        """Return the action (d_x,) that the method would use for good if it had to stop here."""


class Drbo(Method):
    """drbo in the simulator setting, with all defaults but the ones given; it deploys `recommend()`."""

    def __init__(
        self,
        task: Task,
        objective: Objective,
        policy: drbo.Policy | None = None,
        beta: float | None = None,
        **simulator: Any,
    ) -> None:
        super().__init__(task, objective)
        robust = objective == "robust"
        self.box = drbo.Box({f"x{k + 1}": (0.0, 1.0) for k in range(self.d_x)})
        self.optimizer = drbo.Optimizer(
            self.box,
            drbo.Samples(self.draws, support=0),
            ambiguity=drbo.MMD() if robust else drbo.Expectation(),
            setting=drbo.Simulator(radius=RADIUS if robust else 0.0, **simulator),
            policy=policy,
            beta=beta,
            seed=1000 * task.seed,
        )
        self.pending: drbo.knowledge.Suggestion | None = None

    def ask(self) -> Pair:
        """Return what `ask` of drbo suggests."""
        self.pending = suggestion = self.optimizer.ask()
        return _array(suggestion.action), np.asarray(suggestion.context)

    def tell(self, action: FloatArray, context: FloatArray, outcome: float) -> None:
        """Tell the outcome of the suggestion, or of another pair."""
        if self.pending is not None:
            self.optimizer.tell(self.pending, outcome)
        else:
            named = dict(zip(self.box.names, action.tolist(), strict=True))
            self.optimizer.tell(named, outcome, context=context)
        self.pending = None

    def deploy(self) -> FloatArray:
        """Return `recommend()`."""
        return _array(self.optimizer.recommend().action)


class RandomPairs(Drbo):
    """Random actions in drawn contexts; drbo's model of all outcomes says what to deploy."""

    def ask(self) -> Pair:
        """Return a random action, and one of the draws."""
        return self.rng.random(self.d_x), self.rng.choice(self.draws)


class RandomSearch(Method):
    """Random actions in drawn contexts; the action of the best outcome is deployed."""

    sees_objective = False

    def __init__(self, task: Task, objective: Objective) -> None:
        super().__init__(task, objective)
        self.best = (-math.inf, np.full(self.d_x, 0.5))

    def ask(self) -> Pair:
        """Return a random action, and one of the draws."""
        return self.rng.random(self.d_x), self.rng.choice(self.draws)

    def tell(self, action: FloatArray, context: FloatArray, outcome: float) -> None:
        """Keep the action of the best outcome."""
        del context
        if outcome > self.best[0]:
            self.best = (outcome, action)

    def deploy(self) -> FloatArray:
        """Return the action of the best outcome."""
        return self.best[1]


class Optuna(RandomSearch):
    """A sampler of Optuna over the actions; contexts are drawn at random, and the best trial is deployed."""

    sampler: ClassVar[str]

    def __init__(self, task: Task, objective: Objective) -> None:
        import optuna

        super().__init__(task, objective)
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        sampler = getattr(optuna.samplers, self.sampler)(seed=task.seed)
        self.study = optuna.create_study(direction="maximize", sampler=sampler)
        self.parameters: dict[str, Any] = {
            f"x{k + 1}": optuna.distributions.FloatDistribution(0.0, 1.0) for k in range(self.d_x)
        }
        self.trial: Any = None

    def ask(self) -> Pair:
        """Return what the study asks for, and one of the draws."""
        self.trial = self.study.ask(self.parameters)
        return np.array([self.trial.params[name] for name in self.parameters]), self.rng.choice(self.draws)

    def tell(self, action: FloatArray, context: FloatArray, outcome: float) -> None:
        """Tell the study."""
        super().tell(action, context, outcome)
        self.study.tell(self.trial, outcome)


class OptunaTPE(Optuna):
    """Optuna's default."""

    sampler = "TPESampler"


class OptunaGP(Optuna):
    """Optuna's Gaussian process."""

    sampler = "GPSampler"


class BoTorch(Method):
    """BoTorch's SingleTaskGP on (x, c), `optimize_acqf` over x, contexts drawn at random.

    Risk-neutral: the logarithm of the expected improvement of the expectation over all draws, above the best posterior
    mean of an action evaluated. Robust: the exact worst case of the pointwise upper confidence bound (beta 2) over all
    draws. It deploys the maximum of the objective of its posterior mean. The first points are max(5, d + 1) Sobol
    points; it is refitted after every outcome.
    """

    def __init__(self, task: Task, objective: Objective) -> None:
        import torch

        super().__init__(task, objective)
        torch.set_num_threads(1)
        torch.manual_seed(task.seed)
        first = max(5, self.d_x + task.problem.d_c + 1)
        sobol = torch.quasirandom.SobolEngine(self.d_x, scramble=True, seed=task.seed)
        self.first: list[FloatArray] = list(sobol.draw(first, dtype=torch.double).numpy())
        self.points: list[FloatArray] = []
        self.outcomes: list[float] = []
        self.learned: FloatArray | None = None

    def ask(self) -> Pair:
        """Return a Sobol point at first, then the maximiser of the acquisition function; and one of the draws."""
        import efficiency_botorch as botorch

        context = self.rng.choice(self.draws)
        if len(self.points) < len(self.first):
            return self.first[len(self.points)], context
        model = botorch.Factorised(self._model(), self.d_x, self.draws)
        if self.objective == "robust":
            return botorch.maximum(botorch.RobustBound(model, self.draws, RADIUS, beta=2.0), 64), context
        return botorch.maximum(botorch.log_improvement(model), 64), context

    def tell(self, action: FloatArray, context: FloatArray, outcome: float) -> None:
        """Keep the outcome."""
        self.points.append(np.concatenate([action, context]))
        self.outcomes.append(outcome)

    def deploy(self) -> FloatArray:
        """Return the action whose posterior mean has the best expectation, or worst case, over all draws."""
        import efficiency_botorch as botorch

        radius = RADIUS if self.objective == "robust" else 0.0
        model = botorch.Factorised(self._model(), self.d_x, self.draws)
        return botorch.maximum(botorch.RobustBound(model, self.draws, radius, beta=0.0), 128)

    def _model(self) -> Any:
        """Return the model, fitted to all outcomes."""
        import efficiency_botorch as botorch

        model = botorch.fitted(np.array(self.points), np.array(self.outcomes), self.learned)
        self.learned = botorch.hyperparameters(model)
        return model


def _array(action: Any) -> FloatArray:
    return np.array(list(action.values()))


METHODS: dict[str, Callable[[Task, Objective], Method]] = {
    "random search": RandomSearch,
    "random + drbo's model": RandomPairs,
    "Optuna TPE": OptunaTPE,
    "Optuna GP": OptunaGP,
    "BoTorch": BoTorch,
    "drbo joint": lambda task, objective: Drbo(task, objective, policy=drbo.JointOptimism(drbo.Informative())),
    "drbo uncertain": lambda task, objective: Drbo(task, objective, pick="uncertain"),
    "drbo informative": lambda task, objective: Drbo(task, objective, pick="informative"),
    "drbo valuable": lambda task, objective: Drbo(task, objective, pick="valuable"),
    "drbo default": Drbo,
}
