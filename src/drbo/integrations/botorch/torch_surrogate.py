"""BoTorch models as surrogates of `drbo.Optimizer`."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from botorch.exceptions import InputDataWarning
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.posteriors import GPyTorchPosterior
from gpytorch.mlls import ExactMarginalLogLikelihood
from numpy.typing import ArrayLike

from drbo import validation
from drbo.models import Data, Inputs, Observation, Outcomes, Units, outcomes_of, standardisation
from drbo.validation import FloatArray

Tensor = Any

_AT_ONCE = 512
"""Batch size of GPyTorch predictions; a batch computes its full covariance."""
_LEAST_FITTED = 3
"""Least number of outcomes for a fit; with fewer, `make_model` sets the hyper-parameters."""
_LEAST_VARIANCE = 1e-6
"""Least variance of a told error, in standardised outcomes; GPyTorch takes no smaller one."""


@dataclass(frozen=True)
class SingleTask:
    """The default model of `TorchSurrogate`: BoTorch's `SingleTaskGP` with its own kernel and priors."""

    def __call__(self, x: Tensor, c: Tensor, y: Tensor, variances: Tensor | None = None) -> Any:
        """Return a model of outcomes y (t, 1), standardised, at actions x (t, d_x) and contexts c (t, d_c).

        `variances` (t, 1) are those of the errors; by default one noise is learned.
        """
        return SingleTaskGP(torch.cat([x, c], dim=-1), y, train_Yvar=variances, outcome_transform=None)


@dataclass(frozen=True)
class TorchFit:
    """The hyper-parameters of a BoTorch model, and the units of the outcomes.

    Attributes
    ----------
    state : the state dict of the model: per name, shape and values; empty before any outcome
    offset, scale : outcome = offset + scale * standardised outcome, maximised
    n_outcomes : number of outcomes of the fit
    """

    state: dict[str, tuple[tuple[int, ...], tuple[float, ...]]]
    offset: float
    scale: float
    n_outcomes: int

    def units(self, sign: float) -> Units:
        """Return the units of the outcomes, `sign` = 1 if they are maximised."""
        return Units(sign, self.offset, self.scale, self.n_outcomes > 0)


@dataclass(frozen=True)
class TorchSurrogate:
    """A BoTorch model as the surrogate of an optimizer: fitted by BoTorch, with GPyTorch's posterior and autograd.

    `drbo.Optimizer(..., surrogate=TorchSurrogate(make_model))` supports the exact adversary, bounds, reports and
    Optuna. It refuses features that need draws of f (`Thompson`, `ValueOfInformation`), bounds over cells of contexts
    (contexts with a range) or outcomes of hidden contexts. The model learns one noise, or takes the standard errors of
    all outcomes; a standard error for some of them is an error. A posterior is 50 to 500 times slower than that of
    `drbo.LearnedGP`.

    Parameters
    ----------
    make_model : a function that returns a model such as `SingleTaskGP` of `make_model(x, c, y)`: actions (t, d_x) and
        contexts (t, d_c) in the unit cube, and standardised outcomes (t, 1) to maximise, as double tensors. The inputs
        of the model are the columns of x, then those of c. Where standard errors were told, a fourth argument holds
        the variances (t, 1) of the errors of y. The function is called for every fit and every posterior,
        and must return the same model for the same data. To save an optimizer, make it a frozen dataclass with a method
        `__call__`, and pass it to `load(path, classes=[TorchSurrogate, TorchFit, MyModel])`
    fitted : whether BoTorch fits the hyper-parameters; otherwise `make_model` sets them
    """

    make_model: Callable[..., Any] = SingleTask()
    fitted: bool = True
    learns: ClassVar[bool] = True
    bound_width: ClassVar[float] = 3.0

    def __post_init__(self) -> None:
        if not callable(self.make_model):
            raise TypeError(
                f"make_model must be a function of x, c and y that returns a model, got {self.make_model!r}"
            )
        validation.flag("fitted", self.fitted)

    def adapted(self, space: Any) -> Any:
        """Return a finite set with the coordinates of the unit cube."""
        return space.in_unit_cube()

    def first(self, inputs: Inputs, sign: float) -> TorchFit:
        """Return the fit before any outcome: f has a standard deviation of 1."""
        del inputs, sign
        return TorchFit({}, 0.0, 1.0, 0)

    def due(self, n_outcomes: int, last: TorchFit) -> bool:
        """Return whether to fit again: after every outcome up to ten, then after every tenth more data."""
        n = last.n_outcomes
        return n_outcomes > n and (n_outcomes <= 10 or 10 * n_outcomes >= 11 * n)

    def refit(self, outcomes: Outcomes, last: TorchFit) -> TorchFit:
        """Return the fit to all outcomes so far; it does not depend on the last fit."""
        del last
        offset, scale = standardisation(outcomes)
        model = self._model(outcomes.standardised(offset, scale))
        if self.fitted and len(outcomes.y) >= _LEAST_FITTED:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)  # a failed fit is repeated from a random start
                fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        state = {
            name: (tuple(part.shape), tuple(part.double().reshape(-1).tolist()))
            for name, part in model.state_dict().items()
        }
        return TorchFit(state, offset, scale, len(outcomes.y))

    def posterior(
        self, fit: TorchFit, data: Data, contexts: FloatArray, last: TorchPosterior | None = None
    ) -> TorchPosterior:
        """Return the posterior given the observations of `data`, on contexts (n, d_c)."""
        told = [one for one in data.observations if one.outcome is not None]
        failed = [one for one in data.observations if one.outcome is None]
        if last is not None and len(last.told) == len(told):
            return TorchPosterior(self, fit, last.told, last.model, contexts, failed)
        return TorchPosterior(self, fit, told, self._conditioned(fit, told), contexts, failed)

    def _conditioned(self, fit: TorchFit, told: Sequence[Observation]) -> Any | None:
        """Return the model of a fit, conditioned on outcomes; None if there are none."""
        if not told or not fit.state:
            return None
        model = self._model(outcomes_of(told))
        own = model.state_dict()
        state = {
            name: torch.tensor(values, dtype=torch.double).reshape(shape).to(own[name])
            for name, (shape, values) in fit.state.items()
        }
        model.load_state_dict(state)
        return model.eval()

    def _model(self, outcomes: Outcomes) -> Any:
        """Return the model of standardised outcomes."""
        data = [_tensor(outcomes.x), _tensor(outcomes.c), _tensor(outcomes.y)[:, None]]
        if outcomes.errors_known:
            if np.isnan(outcomes.stderr).any():
                raise ValueError(
                    "stderr must be told with every outcome or with none, as a BoTorch model learns one noise or takes "
                    "all errors: amend or retract the other results"
                )
            data.append(_tensor(np.maximum(outcomes.stderr**2, _LEAST_VARIANCE))[:, None])
            try:
                inspect.signature(self.make_model).bind(*data)
            except TypeError:
                raise TypeError(
                    "make_model must take the variances of the errors as its fourth argument, as outcomes were told "
                    f"with stderr, got {self.make_model!r}"
                ) from None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InputDataWarning)  # a few outcomes may not be standardised
            return self.make_model(*data)


def _tensor(array: Any) -> Tensor:
    return torch.as_tensor(np.array(array, dtype=float), dtype=torch.double)


@dataclass(frozen=True, eq=False)
class TorchPosterior:
    """The immutable posterior of a BoTorch model on a finite set of contexts.

    Attributes
    ----------
    surrogate, fit : the surrogate and its hyper-parameters
    told : the observations with outcomes
    model : the model conditioned on them; None before the first one
    contexts : (n, d_c)
    open : failed or pending observations, which lower the variance and leave the mean
    """

    surrogate: TorchSurrogate
    fit: TorchFit
    told: Sequence[Observation]
    model: Any | None
    contexts: FloatArray
    open: Sequence[Observation]

    @cached_property
    def amplitude(self) -> float:
        """The prior standard deviation of f: the largest at the observed points."""
        if self.model is None:
            return 1.0
        with torch.no_grad():
            prior = GPyTorchPosterior(self.model.forward(self.model.transform_inputs(self._observed)))
            if getattr(self.model, "outcome_transform", None) is not None:
                prior = self.model.outcome_transform.untransform_posterior(prior)
            return math.sqrt(float(prior.variance.max()))

    @cached_property
    def noise(self) -> float:
        """The standard deviation of the error of an outcome."""
        if self.model is None:
            return 1.0
        with torch.no_grad():
            one = self._observed[:1]
            noisy = self.model.posterior(one, observation_noise=True).variance - self.model.posterior(one).variance
            return math.sqrt(max(float(noisy.max()), 0.0))

    @property
    def _observed(self) -> Tensor:
        """The observed points, (t, d_x + d_c)."""
        return _tensor([np.concatenate([one.action, one.contexts[0]]) for one in self.told])

    def with_more(self, observations: Sequence[Observation]) -> TorchPosterior:
        """Return the posterior with further observations; those without an outcome leave the mean."""
        told = [*self.told, *(one for one in observations if one.outcome is not None)]
        more = [*self.open, *(one for one in observations if one.outcome is None)]
        model = self.model if len(told) == len(self.told) else self.surrogate._conditioned(self.fit, told)
        return TorchPosterior(self.surrogate, self.fit, told, model, self.contexts, more)

    def moments(self, actions: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance (m, n_contexts) of f at actions (m, d_x) anywhere, in every context."""
        m, n = len(actions), len(self.contexts)
        mean, variance = self._at(np.repeat(actions, n, axis=0), np.tile(self.contexts, (m, 1)))
        return mean.reshape(m, n), variance.reshape(m, n)

    def averages(self, actions: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return sum_j w_j mean(x, c_j) and sum_j w_j variance(x, c_j), each (m,), at actions (m, d_x) anywhere."""
        used = np.flatnonzero(weights)
        x, c = np.repeat(actions, len(used), axis=0), np.tile(self.contexts[used], (len(actions), 1))
        mean, variance = (part.reshape(len(actions), len(used)) for part in self._at(x, c))
        return mean @ weights[used], variance @ weights[used]

    def predict(self, actions: ArrayLike, contexts: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return mean (m,) and variance (m,) of f at the points (x_i, c_i), actions (m, d_x), contexts (m, d_c)."""
        x, c = validation.points("actions", actions), validation.points("contexts", contexts)
        if len(x) != len(c) or c.shape[1] != self.contexts.shape[1]:
            raise ValueError(f"contexts must have shape ({len(x)}, {self.contexts.shape[1]}), got {c.shape}")
        return self._at(x, c)

    def gradient(self, action: FloatArray, weights: FloatArray, slope: float) -> FloatArray:
        """Return the gradient in x of sum_j w_j (mean + slope std)(x, c_j) at one action (d_x,), by autograd."""
        used = np.flatnonzero(weights)
        x = _tensor(action).requires_grad_(True)
        points = torch.cat([x.expand(len(used), -1), _tensor(self.contexts[used])], dim=-1)
        mean, variance = self._moments(points)
        if not mean.requires_grad and not variance.requires_grad:
            return np.zeros(len(action))
        std = variance.clamp_min(1e-12 * self.amplitude**2).sqrt()
        (found,) = torch.autograd.grad((_tensor(weights[used]) * (mean + slope * std)).sum(), x)
        return np.asarray(found.numpy())

    def _at(self, x: FloatArray, c: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance (m,) at the points of actions (m, d_x) and contexts (m, d_c)."""
        points, mean, variance = _tensor(np.concatenate([x, c], axis=1)), np.empty(len(x)), np.empty(len(x))
        with torch.no_grad():
            for start in range(0, len(x), _AT_ONCE):
                rows = slice(start, start + _AT_ONCE)
                mean[rows], variance[rows] = (part.numpy() for part in self._moments(points[rows]))
        return mean, variance

    def _moments(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and variance (m,) at points (m, d_x + d_c), given the open observations.

        The open observations are averages A of f at some points. With S the covariance of these points, and k their
        covariance with a point, the variance falls by (A k)' (A S A' + noise^2 I)^-1 (A k).
        """
        m = len(points)
        if self.model is None:
            return torch.zeros(m, dtype=torch.double), torch.ones(m, dtype=torch.double)
        if not self.open:
            found = self.model.posterior(points)
            return found.mean.squeeze(-1), found.variance.squeeze(-1).clamp_min(0.0)
        below, weights = self._functionals
        found = self.model.posterior(torch.cat([points, below]))
        covariance = found.distribution.covariance_matrix
        k = weights @ covariance[m:, :m]
        error = weights @ covariance[m:, m:] @ weights.T + self.noise**2 * torch.eye(len(weights), dtype=torch.double)
        explained = (k * torch.linalg.solve(error, k)).sum(dim=0)
        variance = covariance.diagonal()[:m] - explained
        return found.mean[:m].squeeze(-1), variance.clamp_min(0.0)

    @cached_property
    def _functionals(self) -> tuple[Tensor, Tensor]:
        """The points (k, d_x + d_c) of the open observations, and their averages (q, k) of f at these points."""
        points = [np.concatenate([one.action, c]) for one in self.open for c in one.contexts]
        weights, at = np.zeros((len(self.open), len(points))), 0
        for row, one in zip(weights, self.open, strict=True):
            row[at : at + len(one.weights)] = one.weights
            at += len(one.weights)
        return _tensor(points), _tensor(weights)
