"""Which context to evaluate an action in, where the learner picks it.

Uncertain     c_t = argmax_c sigma_t(x_t, c)                                                  line 5 of algorithm 2
Informative   c_t = argmax_c Cov(f(x_t, c), <w_t, f(x_t, .)>)^2 / (sigma_t^2(x_t, c) + ridge)

with w_t the worst case of the lower confidence bound of x_t.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from drbo.models.bounds import LOWER, Bound
from drbo.rounds.ball import TIE, Ball
from drbo.rounds.beliefs import Beliefs
from drbo.spaces.space import Point


class ContextRule(ABC):
    """A rule that picks the context of an evaluation."""

    theorem: ClassVar[str | None] = None
    """The theorem that bounds the regret with this rule, if there is one."""

    @abstractmethod
    def pick(self, ball: Ball, beliefs: Beliefs, action: Point) -> Point:
        """Return the context in which to evaluate an action."""


@dataclass(frozen=True)
class Uncertain(ContextRule):
    """The context of which we know least, however rare it is: the rule of the paper, for which Theorem 5 holds."""

    theorem: ClassVar[str | None] = "Theorem 5 and Corollary 6"

    def pick(self, ball: Ball, beliefs: Beliefs, action: Point) -> Point:
        """Return the context of largest posterior variance."""
        posterior = beliefs.expected(ball)
        _, variance = posterior.of_action(action)
        tie = TIE * posterior.gp.kernel.variance
        return ball.best_context(variance, lambda: posterior.curve(action.coordinates, 0.0).variance, tie)


@dataclass(frozen=True)
class Informative(ContextRule):
    """The context whose outcome lowers the variance of the worst-case expectation of the action most; no theorem."""

    def pick(self, ball: Ball, beliefs: Beliefs, action: Point) -> Point:
        """Return the context of the largest reduction of variance."""
        bound = Bound(beliefs.expected(ball), beliefs.width, LOWER)
        curve, atoms = bound.curve(action.coordinates), ball.contexts
        w = ball.worst_case(curve(atoms)).weights
        worth = functools.partial(curve.information, atoms=atoms[w > 0.0], weights=w[w > 0.0])
        at_atoms = worth(atoms)
        return ball.best_context(at_atoms, lambda: worth, math.sqrt(TIE) * float(at_atoms.max()))
