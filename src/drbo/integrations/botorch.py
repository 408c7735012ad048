"""Worst cases over ambiguity sets inside BoTorch, and BoTorch models inside drbo.

`RobustUpperConfidenceBound` is an acquisition function, `RobustExpectation` a risk measure for BoTorch's samples,
`RobustOutcomes` a model of worst cases with limits, and `TorchSurrogate` a model of f for `drbo.Optimizer`.

    value(x) = min_w sum_j w_j v(x, c_j)   over the distributions w of the set, on contexts c_1..c_n

By Danskin's theorem the gradient of the minimum in the values v is the worst-case distribution w, if w is unique. drbo
computes the minimum: certified, on the CPU, in double precision.

BoTorch maximises, and so does this module. Shapes are BoTorch's: `batch_shape x q x d`.
"""

from __future__ import annotations

import functools
import inspect
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from drbo import AmbiguitySet, AtLeast, AtMost, validation
from drbo._messages import require
from drbo.models import Data, Inputs, Observation, Outcomes, Units, outcomes_of, standardisation
from drbo.validation import FloatArray

for package in ("torch", "botorch"):
    require(package, "botorch")  # if it is missing, the error says what to install

# E402: imported after `require`, which has the better error
import torch  # noqa: E402
from botorch.acquisition.analytic import AnalyticAcquisitionFunction  # noqa: E402
from botorch.acquisition.objective import LinearMCObjective  # noqa: E402
from botorch.acquisition.risk_measures import RiskMeasureMCObjective  # noqa: E402
from botorch.exceptions import InputDataWarning  # noqa: E402
from botorch.fit import fit_gpytorch_mll  # noqa: E402
from botorch.models import SingleTaskGP  # noqa: E402
from botorch.models.model import Model  # noqa: E402
from botorch.posteriors import GPyTorchPosterior, TransformedPosterior  # noqa: E402
from botorch.utils.transforms import t_batch_mode_transform  # noqa: E402
from gpytorch.mlls import ExactMarginalLogLikelihood  # noqa: E402
from torch.autograd.function import once_differentiable  # noqa: E402

Tensor = Any

__all__ = [
    "RobustExpectation",
    "RobustOutcomes",
    "RobustUpperConfidenceBound",
    "SingleTask",
    "TorchFit",
    "TorchSurrogate",
    "WorstCaseExpectation",
]

_AT_ONCE = 512
"""Batch size of GPyTorch predictions; a batch computes its full covariance."""
_LEAST_FITTED = 3
"""Least number of outcomes for a fit; with fewer, `make_model` sets the hyper-parameters."""
_LEAST_VARIANCE = 1e-6
"""Least variance of a told error, in standardised outcomes; GPyTorch takes no smaller one."""
_ENOUGH = 1e-9
"""Tolerance of a probability."""


class _Minimum(torch.autograd.Function):  # type: ignore[misc]  # torch has no types here
    """The worst-case expectation of values (..., n), whose gradient is the worst-case distribution."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, ambiguity: AmbiguitySet, reference: Any, radius: float) -> Tensor:
        """Return the worst-case expectations (...)."""
        worst = ambiguity.worst_case(values.detach().cpu().double().numpy(), reference, radius)
        ctx.save_for_backward(_like(values, worst.weights))
        return _like(values, worst.expectation)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]  # a second derivative would be silently wrong
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        """Return the gradient in the values: the distribution times the incoming gradient."""
        (weights,) = ctx.saved_tensors
        return gradient.unsqueeze(-1) * weights, None, None, None


def _like(values: Tensor, array: Any) -> Tensor:
    """Return an array as a tensor of the same kind as the values."""
    return torch.as_tensor(np.array(array), dtype=values.dtype, device=values.device)


class WorstCaseExpectation(torch.nn.Module):  # type: ignore[misc]
    """The worst-case expectation of values (..., n) over an ambiguity set, differentiable by torch.

    Parameters
    ----------
    contexts : (n, d_c) the possible contexts
    ambiguity : the family of sets, such as `drbo.MMD(kernel=drbo.RBF(0.2))`; distances and lengthscales are in the
        units of the contexts
    reference : (n,) the centre of the set; the default is uniform
    radius : the radius of the set
    """

    def __init__(
        self, contexts: ArrayLike | Tensor, ambiguity: AmbiguitySet, reference: ArrayLike | Tensor | None, radius: float
    ) -> None:
        super().__init__()
        if not isinstance(ambiguity, AmbiguitySet):
            raise TypeError(f"ambiguity must be an AmbiguitySet such as drbo.MMD(kernel=...), got {ambiguity!r}")
        points = validation.points("contexts", _array(contexts))
        span = np.ptp(points, axis=0)
        self.n_contexts = len(points)
        self.ambiguity = ambiguity.on(points, np.where(span > 0.0, span, 1.0))
        uniform = np.full(self.n_contexts, 1.0 / self.n_contexts)
        given = uniform if reference is None else _array(reference)
        self.reference = validation.distribution("reference", given, self.n_contexts)
        self.radius = validation.radius(radius)

    def forward(self, values: Tensor) -> Tensor:
        """Return the worst-case expectation (...) of values (..., n)."""
        return _Minimum.apply(values, self.ambiguity, self.reference, self.radius)


def _array(values: Any) -> Any:
    """Return a tensor as an array, and anything else unchanged."""
    return values.detach().cpu().double().numpy() if isinstance(values, torch.Tensor) else values


class RobustUpperConfidenceBound(AnalyticAcquisitionFunction):  # type: ignore[misc]
    """The worst-case expectation of the upper confidence bound of f(x, .), for `optimize_acqf` over x.

    min_w sum_j w_j (mean(x, c_j) + beta std(x, c_j)): lines 3 and 4 of the paper's algorithm 1.

    Parameters
    ----------
    model : a model of (x, c): its inputs are the columns of the action, then those of the context
    contexts, ambiguity, reference, radius : as for `WorstCaseExpectation`
    beta : the width of the bound in standard deviations, as everywhere in drbo; BoTorch's own bound takes the square.
        Negative for a lower bound, which is largest at the action of the best bound
    posterior_transform : combines several outputs; `ScalarizedPosteriorTransform(-torch.ones(1))` minimises
    """

    def __init__(
        self,
        model: Any,
        contexts: ArrayLike | Tensor,
        ambiguity: AmbiguitySet,
        reference: ArrayLike | Tensor | None = None,
        radius: float = 0.0,
        beta: float = 2.0,
        posterior_transform: Any = None,
    ) -> None:
        super().__init__(model=model, posterior_transform=posterior_transform)
        self.worst_case = WorstCaseExpectation(contexts, ambiguity, reference, radius)
        self.beta = validation.finite_float("beta", beta)
        rows = torch.as_tensor(_array(contexts), dtype=torch.double)
        self.register_buffer("contexts", rows.reshape(self.worst_case.n_contexts, -1))

    @t_batch_mode_transform(expected_q=1)  # type: ignore[untyped-decorator]
    def forward(self, X: Tensor) -> Tensor:
        """Return the value (batch_shape) of actions `batch_shape x 1 x d_x`."""
        contexts = self.contexts.to(X).expand(*X.shape[:-2], -1, -1)
        actions = X.expand(*X.shape[:-2], self.worst_case.n_contexts, -1)
        posterior = self.model.posterior(
            torch.cat([actions, contexts], dim=-1), posterior_transform=self.posterior_transform
        )
        std = posterior.variance.clamp_min(1e-20).sqrt()
        return self.worst_case((posterior.mean + self.beta * std).squeeze(-1))


class RobustExpectation(RiskMeasureMCObjective):  # type: ignore[misc]
    """The worst-case expectation of every posterior sample, as the objective of a Monte Carlo acquisition function.

    The model's input transform `AppendFeatures(feature_set=contexts)` evaluates each x in all contexts. qNEI and
    qLogNEI with this objective then search for the action with the best worst case. The knowledge gradient chooses an
    action and a context by the expected improvement of the best worst case:
    `qMultiFidelityKnowledgeGradient(..., objective=this, project=lambda X: X[..., :d_x])`.

    Parameters
    ----------
    contexts, ambiguity, reference, radius : as for `WorstCaseExpectation`; the contexts are those of the transform
    preprocessing_function : maps samples `... x m` of several outputs to samples (...), as for BoTorch's own measures
    """

    def __init__(
        self,
        contexts: ArrayLike | Tensor,
        ambiguity: AmbiguitySet,
        reference: ArrayLike | Tensor | None = None,
        radius: float = 0.0,
        preprocessing_function: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        worst_case = WorstCaseExpectation(contexts, ambiguity, reference, radius)
        super().__init__(n_w=worst_case.n_contexts, preprocessing_function=preprocessing_function)
        self.worst_case = worst_case

    def forward(self, samples: Tensor, X: Tensor | None = None) -> Tensor:
        """Return `sample_shape x batch_shape x q` for samples `sample_shape x batch_shape x (q * n) x m`."""
        del X
        return self.worst_case(self._prepare_samples(samples))


class _Quantile(torch.autograd.Function):  # type: ignore[misc]  # the same
    """The largest value t with P_w(v >= t) >= p in every distribution w of the set, for values v (..., n)."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, ambiguity: Any, reference: Any, radius: float, p: float) -> Tensor:
        """Return the quantiles (...)."""
        v = values.detach().cpu().double().numpy().reshape(-1, values.shape[-1])
        order = np.argsort(-v, axis=1, kind="stable")
        rank = np.argsort(order, axis=1)
        low, high = np.zeros(len(v), dtype=int), np.full(len(v), v.shape[1])  # number of the largest values
        while (high - low > 1).any():
            middle = (low + high) // 2
            worst = ambiguity.worst_case((rank < middle[:, None]) * 1.0, reference, radius)
            enough = np.asarray(worst.lower_bound) >= p - _ENOUGH
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        chosen = torch.as_tensor(np.take_along_axis(order, high[:, None] - 1, axis=1), device=values.device)
        chosen = chosen.reshape(*values.shape[:-1], 1)
        ctx.save_for_backward(chosen)
        ctx.count = values.shape[-1]
        return values.gather(-1, chosen).squeeze(-1)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]  # the same
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None, None]:
        """Return the gradient in the values: the incoming gradient at the value that is the quantile."""
        (chosen,) = ctx.saved_tensors
        found = torch.zeros(*gradient.shape, ctx.count, dtype=gradient.dtype, device=gradient.device)
        return found.scatter(-1, chosen, gradient.unsqueeze(-1)), None, None, None, None


def worst_case_quantile(values: Tensor, worst_case: WorstCaseExpectation, probability: float) -> Tensor:
    """Return the largest t (...) with P_w(v >= t) >= probability in every distribution w, for values v (..., n)."""
    return _Quantile.apply(values, worst_case.ambiguity, worst_case.reference, worst_case.radius, probability)


class RobustOutcomes(Model):  # type: ignore[misc]
    """A model whose samples are worst cases: f(x, .) and limited outcomes, each under its own worst distribution.

    Acquisition functions that take constraints search with limits by it:

        robust = RobustOutcomes(model, contexts, ambiguity, reference, radius, limits={1: drbo.AtMost(68.0)})
        qLogNoisyExpectedImprovement(robust, X, objective=robust.objective, constraints=robust.constraints)

    Output 0 is to be maximised: min_w sum_j w_j f(x, c_j). With g an outcome with a limit, its output is

        AtMost(b)                   max_w sum_j w_j g(x, c_j)
        AtMost(b, probability=p)    the least t with P_w(g(x, c) <= t) >= p in every distribution w of the set

    and the same with the signs of `AtLeast`. Samples have gradients. The `mean` of the posterior is the worst case of
    the model's mean, and its `variance` the largest over contexts; acquisition functions use both as rough scales.

    Parameters
    ----------
    model : a model of (x, c) with several outputs: its inputs are the columns of the action, then those of the context
    contexts, ambiguity, reference, radius : as for `WorstCaseExpectation`
    limits : by the number of an output, from 1 on: `drbo.AtMost` or `drbo.AtLeast`, in the units of the samples. The
        model and its noise are BoTorch's, so a limit has no surrogate, no beta, and is one of f
    """

    def __init__(
        self,
        model: Any,
        contexts: ArrayLike | Tensor,
        ambiguity: AmbiguitySet,
        reference: ArrayLike | Tensor | None = None,
        radius: float = 0.0,
        limits: Mapping[int, AtMost | AtLeast] | None = None,
    ) -> None:
        super().__init__()
        self.model, self.limits = model, dict(sorted(_checked_limits(limits, model.num_outputs).items()))
        self.worst_case = WorstCaseExpectation(contexts, ambiguity, reference, radius)
        rows = torch.as_tensor(_array(contexts), dtype=torch.double)
        self.register_buffer("contexts", rows.reshape(self.worst_case.n_contexts, -1))

    @property
    def num_outputs(self) -> int:
        """The number of outputs: the objective and the limits."""
        return 1 + len(self.limits)

    @property
    def batch_shape(self) -> Any:
        """That of the model."""
        return self.model.batch_shape

    @property
    def objective(self) -> Any:
        """Output 0, as the objective of an acquisition function."""
        return LinearMCObjective(torch.eye(self.num_outputs, dtype=torch.double)[0])

    @property
    def constraints(self) -> list[Callable[[Tensor], Tensor]]:
        """Per limit a function of samples `... x q x m`, with values `... x q` that are at most 0 where it holds."""
        return [functools.partial(_beyond, limit, k) for k, limit in enumerate(self.limits.values(), start=1)]

    def posterior(self, X: Tensor, *args: Any, **kwargs: Any) -> TransformedPosterior:
        """Return the posterior `batch_shape x q x m` of the worst cases at actions `batch_shape x q x d_x`."""
        n = self.worst_case.n_contexts
        shape = (*X.shape[:-1], n)
        actions = X.unsqueeze(-2).expand(*shape, -1)
        points = torch.cat([actions, self.contexts.to(X).expand(*shape, -1)], dim=-1)
        inner = self.model.posterior(points.reshape(*X.shape[:-2], X.shape[-2] * n, -1), *args, **kwargs)
        return TransformedPosterior(
            inner, self._reduced, lambda mean, _: self._reduced(mean), lambda _, variance: self._largest(variance)
        )

    def _reduced(self, samples: Tensor) -> Tensor:
        """Return worst cases `... x q x (1 + limits)` of samples `... x (q * n) x m` of the model."""
        own = self.worst_case
        values = samples.reshape(*samples.shape[:-2], -1, own.n_contexts, samples.shape[-1])
        columns = [own(values[..., 0])]
        for output, limit in self.limits.items():
            column = limit.sign * values[..., output]
            if limit.probability is None:
                columns.append(limit.sign * own(column))
            else:
                columns.append(limit.sign * worst_case_quantile(column, own, limit.probability))
        return torch.stack(columns, dim=-1)

    def _largest(self, variances: Tensor) -> Tensor:
        """Return the largest variance over contexts `... x q x (1 + limits)` of variances `... x (q * n) x m`."""
        shape = (*variances.shape[:-2], -1, self.worst_case.n_contexts, variances.shape[-1])
        return variances.reshape(shape).amax(dim=-2)[..., [0, *self.limits]]


def _beyond(limit: AtMost | AtLeast, output: int, samples: Tensor) -> Tensor:
    """Return how far samples of an output are beyond its limit."""
    return limit.sign * (limit.threshold - samples[..., output])


def _checked_limits(limits: Any, outputs: int) -> dict[int, AtMost | AtLeast]:
    """Return limits by the number of their output; raise unless they suit a model with so many outputs."""
    right = "limits must be a mapping such as {1: drbo.AtMost(68.0)}"
    if limits is not None and not isinstance(limits, Mapping):
        raise TypeError(f"{right}, got {limits!r}")
    for output, limit in (limits or {}).items():
        validation.whole_number("a key of limits", output, 1, outputs - 1)
        if not isinstance(limit, AtMost | AtLeast):
            raise TypeError(f"{right}, got {limit!r} for output {output}")
        if limit.surrogate is not None or limit.beta is not None or limit.of != "f":
            raise ValueError(
                f"limits must have no surrogate, no beta and of='f', as the model is BoTorch's, got {limit!r}"
            )
    return dict(limits or {})


# --- BoTorch models inside drbo -------------------------------------------------------------------------------------


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
