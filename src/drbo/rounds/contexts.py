"""Which context to evaluate an action in, where the learner picks it.

Uncertain     c_t = argmax_c sigma_t(x_t, c)                                                  line 5 of algorithm 2
Informative   c_t = argmax_c Cov(f(x_t, c), <w_t, f(x_t, .)>)^2 / (sigma_t^2(x_t, c) + ridge)
Pessimistic   c_t = argmin_c lcb_t(x_t, c) over the contexts that w_t puts mass on

with w_t the worst case of the lower confidence bound of x_t.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from drbo import validation
from drbo.models.bounds import LOWER, Bound
from drbo.rounds.ball import TIE, Ball, first_of_the_best
from drbo.rounds.beliefs import Beliefs
from drbo.spaces.space import Point


class ContextRule(ABC):
    """A rule that picks the context of an evaluation."""

    theorem: ClassVar[str | None] = None
    """The theorem that bounds the regret with this rule, if there is one."""

    @abstractmethod
    def pick(self, ball: Ball, beliefs: Beliefs, action: Point) -> Point:
        """Return the context in which to evaluate an action."""


def check_rule(rule: object) -> None:
    """Raise unless this is a rule that picks contexts, or None: nature picks them."""
    if rule is not None:
        validation.of_kind("contexts", rule, ContextRule, "a rule such as drbo.Informative(), or None")


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


@dataclass(frozen=True)
class Pessimistic(ContextRule):
    """The context that may be worst: of those in the worst case of the lower bound, the one of the lowest bound.

    With the set `Neighbourhood`, whose worst case is one context, that is the rule of StableOpt, argmin lcb over all
    contexts near the mean of the reference (Bogunovic et al., NeurIPS 2018). The regret theorems of the paper of this
    package do not hold for it.
    """

    def pick(self, ball: Ball, beliefs: Beliefs, action: Point) -> Point:
        """Return the context of the lowest lower bound that carries weight in its worst case."""
        bound = Bound(beliefs.expected(ball), beliefs.width, LOWER)
        ball, _ = ball.widened(bound, action, 0.0)
        lower = bound.curve(action.coordinates)(ball.contexts)
        among = np.flatnonzero(ball.worst_case(lower).weights > 0.0)
        tie = TIE * float(np.ptp(lower))
        return ball.reference.atom(int(among[first_of_the_best(-lower[among], tie)]))
