"""The beliefs of a round about f, and the rules that pick contexts."""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from drbo import validation
from drbo.models.bounds import LOWER, Bound, Side
from drbo.models.data import Observation, Units
from drbo.models.surrogate import Posterior, SupportsCurve, curve_of, of_action, supports
from drbo.rounds.ball import TIE, Ball, first_of_the_best
from drbo.spaces.space import Point

__all__ = ["Informative", "Pessimistic", "Uncertain"]


class Beliefs(Protocol):
    """The posteriors of a round, on the atoms of a ball."""

    @property
    def width(self) -> float:
        """The width beta_t of the confidence bounds."""

    @property
    def bound_width(self) -> float:
        """The width of the bounds of a recommendation."""

    @property
    def units(self) -> Units:
        """The units of the outcomes, which convert from the user's units."""

    def certain(self, ball: Ball) -> Posterior:
        """Return the posterior of the outcomes alone, which bounds of recommendations use."""

    def expected(self, ball: Ball) -> Posterior:
        """Return the posterior that counts pending and failed evaluations as if they had given their mean.

        Only its variance is smaller. This posterior is used to choose the next evaluation.
        """

    def bound(self, ball: Ball, side: Side, width: float | None = None) -> Bound:
        """Return the confidence bound of all models by the outcomes alone, by default as wide as a recommendation's."""

    def also(self, ball: Ball, action: Point, contexts: Sequence[Point]) -> Beliefs:
        """Return the beliefs with one more pending evaluation: an action in these contexts."""


class ContextRule(ABC):
    """A rule that picks the context of an evaluation."""

    theorem: ClassVar[str | None] = None
    """The theorem that bounds the regret with this rule, or None."""

    @abstractmethod
    def pick(self, ball: Ball, beliefs: Beliefs, action: Point) -> Point:
        """Return the context in which to evaluate an action."""


def check_rule(rule: object) -> None:
    """Raise unless the argument is a rule that picks contexts, or None for nature."""
    if rule is not None:
        validation.of_kind("contexts", rule, ContextRule, "a rule such as drbo.Informative(), or None")


@dataclass(frozen=True)
class Uncertain(ContextRule):
    """The context of largest uncertainty, however rare: the rule of the paper, for which Theorem 5 holds."""

    theorem: ClassVar[str | None] = "Theorem 5 and Corollary 6"

    def pick(self, ball: Ball, beliefs: Beliefs, action: Point) -> Point:
        """Return the context of largest posterior variance."""
        posterior = beliefs.expected(ball)
        _, variance = of_action(posterior, action)
        tie = TIE * posterior.amplitude**2
        return ball.best_context(variance, lambda: curve_of(posterior, action.coordinates, 0.0).variance, tie)


@dataclass(frozen=True)
class Informative(ContextRule):
    """The context whose outcome most reduces the variance of the action's worst-case expectation; no theorem."""

    def pick(self, ball: Ball, beliefs: Beliefs, action: Point) -> Point:
        """Return the context of the largest reduction of variance."""
        posterior, atoms = beliefs.expected(ball), ball.contexts
        if not supports(posterior, SupportsCurve):
            return self._on_atoms(ball, posterior, beliefs.width, action)
        curve = posterior.curve(action.coordinates, -beliefs.width)
        w = ball.worst_case(curve(atoms)).weights
        worth = functools.partial(curve.information, atoms=atoms[w > 0.0], weights=w[w > 0.0])
        at_atoms = worth(atoms)
        return ball.best_context(at_atoms, lambda: worth, math.sqrt(TIE) * float(at_atoms.max()))

    @staticmethod
    def _on_atoms(ball: Ball, posterior: Posterior, width: float, action: Point) -> Point:
        """Return the atom of the largest reduction of variance, for any posterior.

        An outcome of g = sum_j w_j f(x, c_j), the worst-case expectation, would lower the variance in every context by
        Cov(f(x, c), g)^2, up to a common factor. By symmetry this is the information about g of an outcome in c.
        """
        mean, variance = of_action(posterior, action)
        w = ball.worst_case(mean - width * np.sqrt(variance)).weights
        average = Observation(action.coordinates, ball.contexts[w > 0.0], w[w > 0.0], None)
        _, after = posterior.with_more([average]).moments(action.coordinates[None, :])
        worth = np.maximum(variance - after[0], 0.0) / (variance + posterior.noise**2)
        return ball.reference.atom(first_of_the_best(worth, math.sqrt(TIE) * float(worth.max())))


@dataclass(frozen=True)
class Pessimistic(ContextRule):
    """The possibly worst context: the one with the lowest bound in the worst case of the lower bound.

    With the set `Neighbourhood`, whose worst case is one context, this is the rule of StableOpt, argmin lcb over all
    contexts near the mean of the reference (Bogunovic et al., NeurIPS 2018). The regret theorems of the DRBO paper do
    not hold for this rule.
    """

    def pick(self, ball: Ball, beliefs: Beliefs, action: Point) -> Point:
        """Return the context of the lowest lower bound that carries weight in its worst case."""
        bound = Bound(beliefs.expected(ball), beliefs.width, LOWER)
        ball, _ = ball.widened(bound, action, 0.0)
        lower = bound.curve(action.coordinates)(ball.contexts)
        among = np.flatnonzero(ball.worst_case(lower).weights > 0.0)
        tie = TIE * float(np.ptp(lower))
        return ball.reference.atom(int(among[first_of_the_best(-lower[among], tie)]))
