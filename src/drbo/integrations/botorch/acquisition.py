"""Worst-case expectations of torch's values, an acquisition function and a risk measure.

    value(x) = min_w sum_j w_j v(x, c_j)   over the distributions w of the set, on contexts c_1..c_n

By Danskin's theorem the gradient of the minimum in the values v is the worst-case distribution w, if w is unique. drbo
computes the minimum: certified, on the CPU, in double precision.

BoTorch maximises, and so does this module. Shapes are BoTorch's: `batch_shape x q x d`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from botorch.acquisition.analytic import AnalyticAcquisitionFunction
from botorch.acquisition.risk_measures import RiskMeasureMCObjective
from botorch.utils.transforms import t_batch_mode_transform
from numpy.typing import ArrayLike
from torch.autograd.function import once_differentiable

from drbo import AmbiguitySet, validation

Tensor = Any


class _Minimum(torch.autograd.Function):  # type: ignore[misc]  # torch has no types here
    """The worst-case expectation of values (..., n), whose gradient is the worst-case distribution."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, ambiguity: AmbiguitySet, reference: Any, radius: float) -> Tensor:
        """Return the worst-case expectations (...)."""
        worst = ambiguity.worst_case(values.detach().cpu().double().numpy(), reference, radius)
        ctx.save_for_backward(like(values, worst.weights))
        return like(values, worst.expectation)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]  # a second derivative would be silently wrong
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        """Return the gradient in the values: the distribution times the incoming gradient."""
        (weights,) = ctx.saved_tensors
        return gradient.unsqueeze(-1) * weights, None, None, None


def like(values: Tensor, array: Any) -> Tensor:
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
        points = validation.points("contexts", as_array(contexts))
        span = np.ptp(points, axis=0)
        self.n_contexts = len(points)
        self.ambiguity = ambiguity.on(points, np.where(span > 0.0, span, 1.0))
        uniform = np.full(self.n_contexts, 1.0 / self.n_contexts)
        given = uniform if reference is None else as_array(reference)
        self.reference = validation.distribution("reference", given, self.n_contexts)
        self.radius = validation.radius(radius)

    def forward(self, values: Tensor) -> Tensor:
        """Return the worst-case expectation (...) of values (..., n)."""
        return _Minimum.apply(values, self.ambiguity, self.reference, self.radius)


def as_array(values: Any) -> Any:
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
        rows = torch.as_tensor(as_array(contexts), dtype=torch.double)
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
