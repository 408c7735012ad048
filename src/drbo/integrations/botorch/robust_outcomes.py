"""A model of worst cases, for BoTorch's acquisition functions with constraints.

Shapes are BoTorch's: `batch_shape x q x d`. The first output is to be maximised.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from botorch.acquisition.objective import LinearMCObjective
from botorch.models.model import Model
from botorch.posteriors import TransformedPosterior
from numpy.typing import ArrayLike
from torch.autograd.function import once_differentiable

from drbo import AmbiguitySet, AtLeast, AtMost, validation
from drbo.integrations.botorch.acquisition import WorstCaseExpectation, as_array

Tensor = Any

_ENOUGH = 1e-9
"""Tolerance of a probability."""


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
        rows = torch.as_tensor(as_array(contexts), dtype=torch.double)
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
