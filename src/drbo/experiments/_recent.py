"""Recent methods of others: RRGP-UCB with a random width, and an ensemble of surrogates.

RRGP-UCB   x_t = argmax_x min_w <w, mean_t(x, .) + sqrt(beta_t) std_t(x, .)>,  beta_t = 2 log N + xi_t, xi_t ~ chi^2(2)
           N = n_actions n_contexts. Inatsu, "Bayesian optimization of robustness measures under input uncertainty: a
           randomized Gaussian process upper confidence bound approach", arXiv 2504.03172, 2025
ensemble   a kernel is drawn by its probability given the outcomes, then f from its posterior, and the action with the
           best worst case of the draw is taken. Lu, Polyzos, Li and Giannakis, "Surrogate modeling for Bayesian
           optimization beyond a single Gaussian process", TPAMI 2023, here with the worst case as the objective

The argument for the width of RRGP-UCB: xi_t = -2 log U for a uniform U, and with probability 1 - U no value of f
exceeds its upper bound of width sqrt(2 log(N / U)), by the union bound. The worst case is monotone in f. So, given the
outcomes, E[max_x F(x)] <= E[max_x F_upper(x)], where F is the worst case of f and F_upper that of the upper bound; and
likewise E[F(x_t)] >= E[F_lower(x_t)]. With contexts of the largest deviation the expected robust regret of T rounds is
at most `expected_regret_bound`, if f is a draw from the GP. Where nature picks the contexts this says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from drbo import GP, Informative, Kernel, LearnedGP, Optimizer, Product, Thompson
from drbo.experiments._tasks import Task
from drbo.kernels import RadialKernel
from drbo.models import UPPER, Bound
from drbo.names import SettingName
from drbo.rounds import Beliefs, Choice, Round
from drbo.rounds.policies import ActionFirst, picked
from drbo.validation import FloatArray

SCALES = (0.5, 1.0, 2.0)
"""The lengthscales of an ensemble, as multiples of the problem's."""


@dataclass(frozen=True)
class RandomWidth(ActionFirst):
    """Optimism with a width redrawn in every round (RRGP-UCB); `n_points` is actions times contexts."""

    n_points: int = 1

    def choose(self, round: Round, beliefs: Beliefs) -> Choice:
        bound = Bound(beliefs.expected(round.ball), random_width(self.n_points, round.generator()), UPPER)
        found = round.search.best(round.ball, bound, round.near, round.away(self.contexts))
        return picked(self.contexts, round, beliefs, round.ball, found)


def random_width(n_points: int, rng: np.random.Generator) -> float:
    """Return sqrt(2 log N + xi) with xi of the chi-square distribution with two degrees of freedom."""
    return math.sqrt(2.0 * math.log(n_points) + rng.chisquare(2.0))


def expected_regret_bound(n_points: int, rounds: int, gain: float, variance: float, noise: float) -> float:
    """Return 2 sqrt((2 log N + 2) T S), S = 2 gamma_T variance / log(1 + variance / noise^2) >= sum of std_t^2.

    `gain` is the largest information gain gamma_T of T outcomes, `variance` the prior variance of f, and `noise` the
    standard deviation of an outcome.
    """
    squares = 2.0 * gain * variance / math.log1p(variance / noise**2)
    return 2.0 * math.sqrt((2.0 * math.log(n_points) + 2.0) * rounds * squares)


class Ensemble:
    """Several Gaussian processes on the same outcomes, weighted by their evidence; an ask-tell object."""

    def __init__(self, members: Sequence[Optimizer], noise: float, terms: dict[str, Any], seed: int) -> None:
        self.members, self.noise, self.terms = list(members), noise, terms
        self.evidence = np.zeros(len(self.members))
        self._rng = np.random.default_rng(seed)
        self._asked: Any = None

    @classmethod
    def of(cls, task: Task, seed: int) -> Ensemble:
        """Return an ensemble of the problem's kernel with shorter and longer lengthscales, for a task."""
        problem = task.problem
        kernels = [None] if problem.gp_kernel is None else [scaled(problem.gp_kernel, share) for share in SCALES]
        members = [
            Optimizer(
                problem.actions,
                problem.contexts,
                ambiguity=task.aim.ambiguity,
                setting=task.protocol(task.aim.radius),
                surrogate=LearnedGP() if kernel is None else GP(kernel, problem.noise),
                beta=2.0,
                policy=Thompson(Informative() if task.picks else None),
                seed=seed,
            )
            for kernel in kernels
        ]
        terms = {}
        if task.setting == SettingName.GENERAL:
            terms = {"reference": problem.reference, "radius": task.aim.radius}
        return cls(members, problem.noise, terms, seed)

    @property
    def weights(self) -> FloatArray:
        """The probability of each member given the outcomes, from equal ones."""
        likely = np.exp(self.evidence - self.evidence.max())
        return np.asarray(likely / likely.sum())

    def ask(self) -> Any:
        """Return the choice of a member drawn by its probability: an action, or an action and a context."""
        drawn = self.members[int(self._rng.choice(len(self.members), p=self.weights))]
        s = drawn.ask(**self.terms)
        drawn.cancel(s)
        self._asked = np.atleast_1d(s.action)
        return self._asked if s.context_index is None else (self._asked, np.atleast_1d(s.context))

    def tell(self, outcome: float, context: FloatArray) -> None:
        """Weigh the members by how well they predicted the outcome, then tell it to all of them."""
        for k, member in enumerate(self.members):
            mean, variance = member.posterior.predict(self._asked[None], np.atleast_1d(context)[None])
            spread = float(variance[0]) + self.noise**2
            self.evidence[k] -= 0.5 * ((outcome - float(mean[0])) ** 2 / spread + math.log(2.0 * math.pi * spread))
            member.tell(self._asked, outcome, context=context)

    def recommend(self) -> Any:
        """Return the recommendation of the most probable member."""
        return np.atleast_1d(self.members[int(self.weights.argmax())].recommend(**self.terms).action)


def scaled(kernel: Product, share: float) -> Product:
    """Return a product kernel with lengthscales multiplied by a share; a constant part stays."""

    def longer(part: Kernel) -> Kernel:
        if not isinstance(part, RadialKernel):
            return part
        old = part.lengthscale
        return replace(part, lengthscale=share * old if isinstance(old, float) else tuple(share * one for one in old))

    return Product(longer(kernel.action), longer(kernel.context))
