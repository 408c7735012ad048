"""BoTorch's model of (x, c) and its acquisition functions over x, for draws of the context.

`SingleTaskGP` has one kernel of all coordinates, which is a product of one over actions and one over contexts. So the
moments of f(x, c_j) in all draws c_j, and of their mean, need no joint covariance of all draws, which `AppendFeatures`
forms for every x. Hyper-parameters maximise the model's own log posterior, which is written out here, as a fit by
autograd takes 10 times as long. Both are compared with BoTorch's own in tests/test_efficiency.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from botorch.acquisition import AcquisitionFunction, LogExpectedImprovement
from botorch.models import SingleTaskGP
from botorch.models.model import Model
from botorch.optim import optimize_acqf
from botorch.posteriors import GPyTorchPosterior
from botorch.utils.transforms import t_batch_mode_transform
from gpytorch.distributions import MultivariateNormal
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

import drbo
from drbo.integrations.botorch import WorstCaseExpectation
from drbo.validation import FloatArray

Tensor = Any


def fitted(points: FloatArray, outcomes: FloatArray, learned: FloatArray | None = None) -> Any:
    """Return the model of outcomes (n,) at points (n, d), standardised and fitted.

    `learned` are the hyper-parameters to begin with, by default the modes of their priors.
    """
    scaled = (outcomes - outcomes.mean()) / (outcomes.std(ddof=1) or 1.0)
    model = SingleTaskGP(torch.tensor(points), torch.tensor(scaled)[:, None], outcome_transform=None)
    theta = hyperparameters(model) if learned is None else learned
    posterior = LogPosterior(points, scaled)
    low = np.log([*[2.5e-2] * points.shape[1], 1e-4])  # the model's own constraints
    bounds = [(bound, 10.0) for bound in low]
    theta = minimize(posterior, np.maximum(theta, low), jac=True, method="L-BFGS-B", bounds=bounds).x
    model.covar_module.lengthscale = torch.tensor(np.exp(theta[:-1]))
    model.likelihood.noise = torch.tensor(np.exp(theta[-1]))
    model.mean_module.constant = posterior.constant(theta)
    return model.eval()


def hyperparameters(model: Any) -> FloatArray:
    """Return the logarithms (d + 1,) of the lengthscales and of the noise variance."""
    values = [*model.covar_module.lengthscale[0].tolist(), model.likelihood.noise.item()]
    return np.log(values)


class LogPosterior:
    """Minus the logarithm of likelihood times priors of `SingleTaskGP`, up to a constant, and its gradient.

    theta (d + 1,): the logarithms of lengthscales and noise variance. Their priors are log-normal, as densities of the
    lengthscales and of the variance themselves. The constant mean maximises the likelihood.
    """

    def __init__(self, points: FloatArray, outcomes: FloatArray) -> None:
        n, d = points.shape
        self.outcomes, self.ones = outcomes, np.ones(n)
        self.squares = (points[:, None, :] - points[None, :, :]) ** 2
        self.centre = np.array([math.sqrt(2.0) + math.log(d) / 2.0] * d + [-4.0])
        self.variance = np.array([3.0] * d + [1.0])

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        kernel, inverse, log_det = self._solve(theta)
        residual = self.outcomes - self._constant(inverse)
        alpha = inverse @ residual
        pull = np.outer(alpha, alpha) - inverse
        slopes = 0.5 * np.einsum("ij,ijk->k", pull * kernel, self.squares) * np.exp(-2.0 * theta[:-1])
        noise = 0.5 * np.trace(pull) * math.exp(theta[-1])
        prior = -theta.sum() - 0.5 * ((theta - self.centre) ** 2 / self.variance).sum()
        gradient = np.append(slopes, noise) - 1.0 - (theta - self.centre) / self.variance
        return -float(-0.5 * residual @ alpha - 0.5 * log_det + prior), -gradient

    def constant(self, theta: FloatArray) -> float:
        """Return the mean that maximises the likelihood."""
        return self._constant(self._solve(theta)[1])

    def _constant(self, inverse: FloatArray) -> float:
        return float(self.ones @ inverse @ self.outcomes / (self.ones @ inverse @ self.ones))

    def _solve(self, theta: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        kernel = np.exp(-0.5 * self.squares @ np.exp(-2.0 * theta[:-1]))
        factor = cho_factor(kernel + math.exp(theta[-1]) * np.eye(len(kernel)), lower=True)
        return kernel, cho_solve(factor, np.eye(len(kernel))), 2.0 * float(np.log(np.diag(factor[0])).sum())


class Factorised(Model):  # type: ignore[misc]  # torch has no types here
    """A fitted `SingleTaskGP` whose kernel is read as a product: k(x, x') h(c, c').

    `moments` has f(x, c_j) for every draw; `posterior` is that of the mean of f(x, c_j) over the draws.
    """

    num_outputs = 1

    def __init__(self, model: Any, d_x: int, draws: FloatArray) -> None:
        super().__init__()
        with torch.no_grad():
            scales, points = model.covar_module.lengthscale[0], model.train_inputs[0]
            self.scales, self.actions = scales[:d_x], points[:, :d_x]
            contexts, self.constant = torch.tensor(draws), model.mean_module.constant
            n = len(points)
            gram = _rbf(points, points, scales) + model.likelihood.noise * torch.eye(n, dtype=torch.double)
            self.factor = torch.linalg.cholesky(gram)
            residual = (model.train_targets - self.constant)[:, None]
            self.weights = torch.cholesky_solve(residual, self.factor)[:, 0]
            self.across = _rbf(points[:, d_x:], contexts, scales[d_x:])
            self.own = _rbf(contexts, contexts, scales[d_x:]).mean()

    def moments(self, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and deviation (b, n_draws) of f(x, c_j) for actions (b, d_x)."""
        near = _rbf(actions, self.actions, self.scales)
        mean = self.constant + (near * self.weights) @ self.across
        solved = torch.linalg.solve_triangular(self.factor, near[:, :, None] * self.across, upper=False)
        return mean, (1.0 - (solved**2).sum(dim=1)).clamp_min(1e-12).sqrt()

    def posterior(self, X: Tensor, *args: Any, **kwargs: Any) -> GPyTorchPosterior:
        """Return the posterior of the mean over the draws, for actions (b, 1, d_x)."""
        del args, kwargs
        near = _rbf(X[..., 0, :], self.actions, self.scales) * self.across.mean(dim=1)
        mean = self.constant + near @ self.weights
        solved = torch.linalg.solve_triangular(self.factor, near.T, upper=False)
        variance = (self.own - (solved**2).sum(dim=0)).clamp_min(1e-12)
        return GPyTorchPosterior(MultivariateNormal(mean[:, None], variance[:, None, None]))


class RobustBound(AcquisitionFunction):  # type: ignore[misc]  # torch has no types here
    """The worst case over the draws of mean + beta deviation in an MMD ball; the expectation at radius 0."""

    def __init__(self, model: Factorised, draws: FloatArray, radius: float, beta: float) -> None:
        super().__init__(model=model)
        ambiguity = drbo.MMD() if radius > 0.0 else drbo.Expectation()
        self.worst_case, self.beta = WorstCaseExpectation(draws, ambiguity, None, radius), beta

    @t_batch_mode_transform(expected_q=1)  # type: ignore[untyped-decorator]  # the same
    def forward(self, X: Tensor) -> Tensor:
        """Return the values (b,) of actions (b, 1, d_x)."""
        mean, deviation = self.model.moments(X[:, 0, :])
        return self.worst_case(mean + self.beta * deviation)


def log_improvement(model: Factorised) -> Any:
    """Return LogEI of the mean over the draws, above the best posterior mean of an action evaluated."""
    with torch.no_grad():
        best = model.posterior(model.actions[:, None, :]).mean.max()
    return LogExpectedImprovement(model, best_f=best)


def maximum(acquisition: Any, candidates: int) -> FloatArray:
    """Return the action (d_x,) that `optimize_acqf` finds from four of so many raw samples."""
    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double).expand(2, acquisition.model.actions.shape[1])
    options = {"maxiter": 40}
    action, _ = optimize_acqf(acquisition, bounds, q=1, num_restarts=4, raw_samples=candidates, options=options)
    return np.asarray(action.detach().numpy().ravel())


def _rbf(a: Tensor, b: Tensor, scales: Tensor) -> Tensor:
    return torch.exp(-0.5 * torch.cdist(a / scales, b / scales) ** 2)
