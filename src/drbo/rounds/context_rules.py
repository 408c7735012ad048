"""What a round may know of f: the little that policies and rules of contexts ask for."""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from drbo import validation
from drbo.models.bounds import LOWER, Bound
from drbo.models.observation import Observation
from drbo.models.surrogate import Posterior, SupportsCurve, curve_of, of_action
from drbo.models.units import Units
from drbo.rounds.ball import TIE, Ball, first_of_the_best
from drbo.spaces.space import Point

__all__ = ["Informative", "Pessimistic", "Uncertain"]


class Beliefs(Protocol):
    """The posteriors of a round, on the atoms of a ball."""

    @property
    def width(self) -> float:
        """The width beta_t of the confidence bounds."""

    @property
    def certificate_width(self) -> float:
        """The width of the bounds that a certificate rests on."""

    @property
    def units(self) -> Units:
        """The units of the outcomes: what a user gives in his own units is converted by them."""

    def certain(self, ball: Ball) -> Posterior:
        """Return the posterior of the outcomes alone; certificates rest on nothing else."""

    def expected(self, ball: Ball) -> Posterior:
        """Return the posterior in which pending and failed evaluations count as if they had given their mean.

        Only the variance is smaller than that of the outcomes alone. The next evaluation is chosen by it.
        """

    def also(self, ball: Ball, action: Point, contexts: Sequence[Point]) -> Beliefs:
        """Return the beliefs with one more evaluation under way: an action, in these contexts."""


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
        _, variance = of_action(posterior, action)
        tie = TIE * posterior.amplitude**2
        return ball.best_context(variance, lambda: curve_of(posterior, action.coordinates, 0.0).variance, tie)


@dataclass(frozen=True)
class Informative(ContextRule):
    """The context whose outcome lowers the variance of the worst-case expectation of the action most; no theorem."""

    def pick(self, ball: Ball, beliefs: Beliefs, action: Point) -> Point:
        """Return the context of the largest reduction of variance."""
        posterior, atoms = beliefs.expected(ball), ball.contexts
        if not isinstance(posterior, SupportsCurve):
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
        Cov(f(x, c), g)^2, up to a common factor. That is what an outcome in a context tells of g, too.
        """
        mean, variance = of_action(posterior, action)
        w = ball.worst_case(mean - width * np.sqrt(variance)).weights
        average = Observation(action.coordinates, ball.contexts[w > 0.0], w[w > 0.0], None)
        _, after = posterior.with_more([average]).moments(action.coordinates[None, :])
        worth = np.maximum(variance - after[0], 0.0) / (variance + posterior.noise**2)
        return ball.reference.atom(first_of_the_best(worth, math.sqrt(TIE) * float(worth.max())))


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
