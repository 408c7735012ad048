"""A benchmark problem as data: actions, contexts, the reward function, and its optima."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from drbo import MMD, Kernel, Neighbourhood, Product, validation
from drbo.validation import FloatArray

Function = Callable[[FloatArray, FloatArray], FloatArray]
"""f(x, c) for actions x (..., d_x) and contexts c (..., d_c); leading axes broadcast; shape (...)."""


@dataclass(frozen=True, eq=False)
class Optimum:
    """The best action of the grid under one objective.

    Attributes
    ----------
    action_index : its row in the problem's `actions`; the first if several tie
    action : (d_x,) the action itself
    value : the objective's value there
    """

    action_index: int
    action: FloatArray
    value: float


@dataclass(frozen=True, eq=False)
class Problem:
    """A reward f(x, c) to maximise over x while nature picks the distribution of c.

    Arrays are read-only. `values` and the optima are computed on first use, exactly, on the grid. The worst case within
    the MMD ball is solved for every action, with a certificate per solve.

    Attributes
    ----------
    name : the name of the function that makes the problem
    description : one line
    actions : (n_actions, d_x) the possible actions
    contexts : (n_contexts, d_c) the possible contexts
    function : f(x, c) on and off the grid
    reference : (n_contexts,) the reference distribution
    true_distribution : (n_contexts,) the distribution of the contexts
    radius : the largest shift from the reference: as an MMD for the distributionally robust objective, and as a
        Euclidean distance from the reference's mean for StableOpt's, as in the paper
    mmd_kernel : the kernel of the MMD
    gp_kernel : a product kernel that fits f (signal amplitude included)
    noise : standard deviation of the noise on an observed reward
    """

    name: str
    description: str
    actions: FloatArray
    contexts: FloatArray
    function: Function
    reference: FloatArray
    true_distribution: FloatArray
    radius: float
    mmd_kernel: Kernel
    gp_kernel: Product
    noise: float

    def __post_init__(self) -> None:
        contexts = validation.points("contexts", self.contexts)
        arrays = {
            "actions": validation.points("actions", self.actions),
            "contexts": contexts,
            "reference": validation.distribution("reference", self.reference, len(contexts)),
            "true_distribution": validation.distribution("true_distribution", self.true_distribution, len(contexts)),
        }
        for field, array in arrays.items():
            object.__setattr__(self, field, _frozen(array.copy()))
        object.__setattr__(self, "radius", validation.radius(self.radius))
        object.__setattr__(self, "noise", validation.positive_float("noise", self.noise))

    @cached_property
    def values(self) -> FloatArray:
        """The values of f on the grid, (n_actions, n_contexts)."""
        values = self.function(self.actions[:, None, :], self.contexts[None, :, :])
        return _frozen(validation.finite_array("values", values, ndim=2))

    @cached_property
    def ambiguity(self) -> MMD:
        """The MMD ambiguity set over the problem's contexts."""
        return MMD(self.contexts, self.mmd_kernel)

    @cached_property
    def stochastic_values(self) -> FloatArray:
        """The expectation of every action, (n_actions,): E_{c ~ reference} f(x, c)."""
        return _frozen(self.values @ self.reference)

    @cached_property
    def robust_values(self) -> FloatArray:
        """The worst case of every action, (n_actions,): min E_{c ~ Q} f(x, c) over MMD(Q, reference) <= radius."""
        return _frozen(self.ambiguity.worst_case(self.values, self.reference, self.radius).expectation)

    @cached_property
    def worst_case_values(self) -> FloatArray:
        """StableOpt's worst case of every action, (n_actions,): min f(x, c) over ||c - E_reference[c]||_2 <= radius."""
        stable = Neighbourhood(self.contexts)
        return _frozen(stable.worst_case(self.values, self.reference, self.radius).expectation)

    @property
    def stochastic_optimum(self) -> Optimum:
        """The best action if the reference is true: the goal of stochastic UCB."""
        return self._best(self.stochastic_values)

    @property
    def robust_optimum(self) -> Optimum:
        """The distributionally robust solution: the best action under the worst distribution of the MMD ball."""
        return self._best(self.robust_values)

    @property
    def worst_case_optimum(self) -> Optimum:
        """The goal of StableOpt: the best action under the worst context within `radius` of the reference's mean."""
        return self._best(self.worst_case_values)

    @property
    def pure_worst_case_optimum(self) -> Optimum:
        """The best action under the worst of all contexts, for any radius."""
        return self._best(self.values.min(axis=1))

    def _best(self, objective: FloatArray) -> Optimum:
        best = int(np.argmax(objective))
        return Optimum(best, self.actions[best], float(objective[best]))


def _frozen(array: FloatArray) -> FloatArray:
    """Return the array, made read-only."""
    array.flags.writeable = False
    return array
