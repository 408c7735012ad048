"""BoTorch's constrained LogEI over the past conditions, for benchmarks/limits.py: its risk measures, or drbo's sets.

One `SingleTaskGP` per outcome, a model of (x, c) with the hyper-parameters of BoTorch's own priors. For an action x the
joint posterior of f(x, c_j) in all past conditions c_j is sampled, and reduced by a risk measure, as `AppendFeatures`
and `RiskMeasureMCObjective` do:

    objective   CVaR over the draws c_j
    limits      CVaR over the draws; VaR for a limit with a probability
    search      qLogExpectedImprovement with these as `constraints`, above the best action that is probably feasible
    condition   the draw with the largest deviation, summed over standardised outcomes
    recommended the largest mean of the objective among actions that are feasible in 95% of the samples of the posterior

CVaR is the mean over the worst share of the draws. The share is the one whose mean is shifted as far as the radius, for
a normal condition (`Task.tail`). So the risk measure knows the radius, and the set is CVaR's, on the draws. A limit
with a probability p takes the quantile at (1 + p) / 2.

`by_set` is the same with the worst case of each sample over the set of the problem, on the draws, in place of CVaR and
VaR (`drbo.integrations.botorch`). So it knows the set exactly, and only search and judgement are BoTorch's.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from botorch.acquisition import qLogExpectedImprovement
from botorch.acquisition.risk_measures import CVaR, RiskMeasureMCObjective, VaR
from botorch.models.model import Model
from botorch.optim import optimize_acqf
from botorch.posteriors import GPyTorchPosterior
from botorch.posteriors.posterior_list import PosteriorList
from botorch.sampling.list_sampler import ListSampler
from botorch.sampling.normal import SobolQMCNormalSampler
from gpytorch.distributions import MultivariateNormal
from scipy.stats import qmc

from drbo.integrations.botorch import RobustExpectation, WorstCaseExpectation
from drbo.integrations.botorch.robust_outcomes import worst_case_quantile
from drbo.validation import FloatArray
from efficiency_botorch import fitted, hyperparameters

if TYPE_CHECKING:
    from limits import Task

Tensor = Any
_SAMPLES = 32
_FEASIBLE = 0.95
"""Least probability of being feasible for an action to be recommended."""
_CANDIDATES = 200
_JITTER = 1e-6


class OnDraws(Model):  # type: ignore[misc]  # torch has no types here
    """The joint posterior of outcomes at (x, c_j) for all draws c_j (n, d_c): a `SingleTaskGP` per outcome.

    The same as a `ModelListGP` with `AppendFeatures`. The kernel of a `SingleTaskGP` is a product of one over x and one
    over c, so the part of the draws is computed once.
    """

    def __init__(self, models: list[Any], d_x: int, draws: FloatArray) -> None:
        super().__init__()
        self.parts = [_Part(model, d_x, draws) for model in models]

    @property
    def num_outputs(self) -> int:
        """The number of outcomes."""
        return len(self.parts)

    @property
    def batch_shape(self) -> Any:
        """There is one model per outcome."""
        return torch.Size([])

    def posterior(self, X: Tensor, *args: Any, **kwargs: Any) -> PosteriorList:
        """Return the posteriors (b, n, 1) of the outcomes at actions (b, 1, d_x)."""
        del args, kwargs
        return PosteriorList(*(part.posterior(X[..., 0, :]) for part in self.parts))


class _Part:
    """One outcome of `OnDraws`."""

    def __init__(self, model: Any, d_x: int, draws: FloatArray) -> None:
        with torch.no_grad():
            scales, points = model.covar_module.lengthscale[0], model.train_inputs[0]
            self.scales, self.actions, c = scales[:d_x], points[:, :d_x], torch.tensor(draws)
            noise = model.likelihood.noise * torch.eye(len(points), dtype=torch.double)
            self.factor = torch.linalg.cholesky(_rbf(points, points, scales) + noise)
            self.constant = model.mean_module.constant
            residual = (model.train_targets - self.constant)[:, None]
            self.weights = torch.cholesky_solve(residual, self.factor)[:, 0]
            self.across = _rbf(points[:, d_x:], c, scales[d_x:])
            self.own = _rbf(c, c, scales[d_x:]) + _JITTER * torch.eye(len(c), dtype=torch.double)

    def posterior(self, actions: Tensor) -> GPyTorchPosterior:
        near = _rbf(actions, self.actions, self.scales)
        mean = self.constant + (near * self.weights) @ self.across
        solved = torch.linalg.solve_triangular(self.factor, near[..., :, None] * self.across, upper=False)
        return GPyTorchPosterior(MultivariateNormal(mean, self.own - solved.transpose(-1, -2) @ solved))


def _rbf(a: Tensor, b: Tensor, scales: Tensor) -> Tensor:
    difference = (a[..., :, None, :] - b) / scales
    return torch.exp(-0.5 * (difference**2).sum(dim=-1))


class _Output:
    """One standardised outcome in the direction in which it is better when larger."""

    def __init__(self, column: int, sign: float) -> None:
        self.column, self.sign = column, sign

    def __call__(self, samples: Tensor) -> Tensor:
        return self.sign * samples[..., self.column]


class RobustQuantile(RiskMeasureMCObjective):  # type: ignore[misc]  # torch has no types here
    """The largest value that is reached with a probability in every distribution of a set."""

    def __init__(self, worst_case: WorstCaseExpectation, probability: float, output: _Output) -> None:
        super().__init__(n_w=worst_case.n_contexts, preprocessing_function=output)
        self.worst_case, self.probability = worst_case, probability

    def forward(self, samples: Tensor, X: Tensor | None = None) -> Tensor:
        """Return the quantiles of samples."""
        del X
        return worst_case_quantile(self._prepare_samples(samples), self.worst_case, self.probability)


Measure = Callable[[_Output, float | None], RiskMeasureMCObjective]
"""Returns the risk measure of an output; with a probability, that of a quantile."""


def _risk(task: Task) -> Measure:
    alpha, n = 1.0 - task.tail(), len(task.draws())

    def measure(output: _Output, probability: float | None) -> RiskMeasureMCObjective:
        if probability is None:
            return CVaR(alpha, n_w=n, preprocessing_function=output)
        return VaR((1.0 + probability) / 2.0, n_w=n, preprocessing_function=output)

    return measure


def _set(task: Task) -> Measure:
    ambiguity, places, radius = task.ball()

    def measure(output: _Output, probability: float | None) -> RiskMeasureMCObjective:
        if probability is None:
            return RobustExpectation(places, ambiguity, None, radius, preprocessing_function=output)
        return RobustQuantile(WorstCaseExpectation(places, ambiguity, None, radius), probability, output)

    return measure


class Beyond:
    """A constraint of BoTorch: negative where the risk measure of an outcome meets its standardised threshold."""

    def __init__(self, measure: RiskMeasureMCObjective, threshold: float) -> None:
        self.measure, self.threshold = measure, threshold

    def __call__(self, samples: Tensor) -> Tensor:
        return self.threshold - self.measure(samples)


def by_risk_measures(task: Task, seed: int, at: Container[int]) -> Iterator[FloatArray | None]:
    """Yield what is recommended after each evaluation; None if no action is feasible with a probability of 95%."""
    return _run(task, _risk(task), seed, at)


def by_set(task: Task, seed: int, at: Container[int]) -> Iterator[FloatArray | None]:
    """Yield the same with the worst cases over the set of the problem."""
    return _run(task, _set(task), seed, at)


def _run(task: Task, measure: Measure, seed: int, at: Container[int]) -> Iterator[FloatArray | None]:
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    rng, draws = np.random.default_rng([seed, 2]), task.draws()
    first = qmc.Sobol(task.d, seed=seed).random(8)[: 2 * (task.d + 1)]
    points: list[FloatArray] = []
    values: list[list[float]] = []
    learned: list[FloatArray | None] = [None] * (1 + len(task.limits))
    while True:
        number = len(points)
        if number < len(first):
            x, index = first[number], int(rng.integers(len(draws)))
        else:
            x, index = _suggested(task, measure, points, values, learned)
        cost, limits = task.evaluate(x, task.draw(index), rng)
        points.append(np.append(x, draws[index]))
        values.append([cost, *(limits[name] for name in task.limits)])
        yield _recommended(task, measure, points, values, learned) if len(points) in at else None


def _models(task: Task, measure: Measure, points: Any, values: Any, learned: Any) -> tuple[Any, Any, list[Beyond]]:
    """Return the model on the draws, the objective and the constraints."""
    inputs, outcomes = np.array(points), np.array(values)
    models = [fitted(inputs, column, learned[k]) for k, column in enumerate(outcomes.T)]
    learned[:] = [hyperparameters(model) for model in models]
    mean, deviation = outcomes.mean(axis=0), outcomes.std(axis=0, ddof=1)
    constraints = []
    for k, limit in enumerate(task.limits.values(), start=1):
        threshold = limit.sign * (limit.threshold - mean[k]) / (deviation[k] or 1.0)
        constraints.append(Beyond(measure(_Output(k, limit.sign), limit.probability), threshold))
    return OnDraws(models, task.d, task.draws()), measure(_Output(0, -1.0), None), constraints


def _sampler(model: OnDraws) -> ListSampler:
    size = torch.Size([_SAMPLES])
    return ListSampler(*(SobolQMCNormalSampler(size, seed=k) for k in range(model.num_outputs)))


def _judged(model: OnDraws, objective: Any, constraints: list[Beyond], actions: FloatArray) -> tuple[Any, Any]:
    """Return the mean of the objective (m,) and the probability of being feasible (m,) of actions (m, d_x)."""
    with torch.no_grad():
        samples = _sampler(model)(model.posterior(torch.tensor(actions)[:, None, :]))
        feasible = torch.stack([one(samples)[..., 0] <= 0.0 for one in constraints]).all(dim=0).double().mean(dim=0)
        return objective(samples)[..., 0].mean(dim=0).numpy(), feasible.numpy()


def _suggested(task: Task, measure: Measure, points: Any, values: Any, learned: Any) -> tuple[FloatArray, int]:
    """Return the next action, and the number of the condition to evaluate it in."""
    model, objective, constraints = _models(task, measure, points, values, learned)
    tried = np.array(points)[:, : task.d]
    means, feasible = _judged(model, objective, constraints, tried)
    likely = feasible >= 0.5
    best = float(means[likely].max()) if likely.any() else float(means.min())
    acquisition = qLogExpectedImprovement(
        model, best_f=best, sampler=_sampler(model), objective=objective, constraints=constraints
    )
    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double).expand(2, task.d)
    options = {"maxiter": 20, "batch_limit": 4, "init_batch_limit": 64}
    found, _ = optimize_acqf(acquisition, bounds, q=1, num_restarts=2, raw_samples=64, options=options)
    x = found.detach().numpy().ravel()
    with torch.no_grad():
        posterior = model.posterior(torch.tensor(x)[None, None, :])
        deviations = torch.stack([one.variance[0, :, 0].clamp_min(0.0).sqrt() for one in posterior.posteriors])
    return x, int(deviations.sum(dim=0).argmax())


def _recommended(task: Task, measure: Measure, points: Any, values: Any, learned: Any) -> FloatArray | None:
    model, objective, constraints = _models(task, measure, points, values, learned)
    tried = np.array(points)[:, : task.d]
    actions = np.concatenate([tried, np.random.default_rng(len(points)).random((_CANDIDATES, task.d))])
    means, feasible = _judged(model, objective, constraints, actions)
    sure = np.flatnonzero(feasible >= _FEASIBLE)
    return actions[sure[means[sure].argmax()]] if len(sure) else None
