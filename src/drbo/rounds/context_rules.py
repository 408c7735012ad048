"""The beliefs of a round about f, and the rules that pick contexts."""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, cast

import numpy as np

from drbo import validation
from drbo.models.bounds import LOWER, Bound, Side
from drbo.models.curve import Curve
from drbo.models.data import Observation, Units
from drbo.models.surrogate import Posterior, SupportsCurve, curve_of, of_action, supports
from drbo.rounds.ball import TIE, Ball, first_of_the_best
from drbo.spaces.space import Point
from drbo.validation import FloatArray

__all__ = ["Informative", "Pessimistic", "Uncertain"]


class Beliefs(Protocol):
    """The posteriors of a round, on the atoms of a ball."""

    @property
    def name(self) -> str:
        """The name of the outcome."""

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

    def pick_for(self, ball: Ball, beliefs: Sequence[Beliefs], action: Point) -> Point:
        """Return the context for several outcomes that decide: the objective, then the limits that are open.

        A rule that cannot weigh outcomes picks the context for the objective.
        """
        return self.pick(ball, beliefs[0], action)


def check_rule(rule: object) -> None:
    """Raise unless the argument is a rule that picks contexts, or None for nature."""
    if rule is not None:
        validation.of_kind("contexts", rule, ContextRule, "a rule such as drbo.Informative(), or None")


Worth = Callable[[FloatArray], FloatArray]
"""The worth (m,) of an evaluation in contexts (m, d)."""


def _total(ball: Ball, worths: Sequence[Worth], tie: float) -> Point:
    """Return the context with the largest sum of worths, the first one up to a relative tie."""

    def total(contexts: FloatArray) -> FloatArray:
        return np.asarray(sum(worth(contexts) for worth in worths))

    at_atoms = total(ball.contexts)
    return ball.best_context(at_atoms, lambda: total, tie * float(np.abs(at_atoms).max()))


@dataclass(frozen=True)
class Uncertain(ContextRule):
    """The context of largest uncertainty, however rare: the rule of the paper, for which Theorem 5 holds."""

    theorem: ClassVar[str | None] = "Theorem 5 and Corollary 6"

    def pick(self, ball: Ball, beliefs: Beliefs, action: Point) -> Point:
        posterior = beliefs.expected(ball)
        _, variance = of_action(posterior, action)
        tie = TIE * posterior.amplitude**2
        return ball.best_context(variance, lambda: curve_of(posterior, action.coordinates, 0.0).variance, tie)

    def pick_for(self, ball: Ball, beliefs: Sequence[Beliefs], action: Point) -> Point:
        """Return the context with the largest sum of variances, each as a share of the prior variance."""
        if len(beliefs) == 1:
            return self.pick(ball, beliefs[0], action)
        posteriors = [one.expected(ball) for one in beliefs]
        curves = [(curve_of(one, action.coordinates, 0.0), one.amplitude**2) for one in posteriors]
        return _total(ball, [functools.partial(_share, curve.variance, scale) for curve, scale in curves], TIE)


def _share(worth: Worth, scale: float, contexts: FloatArray) -> FloatArray:
    return worth(contexts) / scale


@dataclass(frozen=True)
class Informative(ContextRule):
    """The context whose outcome most reduces the variance of the action's worst-case expectation; no theorem."""

    def pick(self, ball: Ball, beliefs: Beliefs, action: Point) -> Point:
        """Return the context of the largest reduction of variance."""
        posterior, atoms = beliefs.expected(ball), ball.contexts
        if not supports(posterior, SupportsCurve):
            return self._on_atoms(ball, posterior, beliefs.width, action)
        curve = self._worth(ball, beliefs, action)
        at_atoms = curve(atoms)
        return ball.best_context(at_atoms, lambda: curve, math.sqrt(TIE) * float(at_atoms.max()))

    def pick_for(self, ball: Ball, beliefs: Sequence[Beliefs], action: Point) -> Point:
        """Return the context with the largest sum of reductions, each as a share of the outcome's prior variance."""
        if len(beliefs) == 1:
            return self.pick(ball, beliefs[0], action)
        posteriors = [one.expected(ball) for one in beliefs]
        scales = [posterior.amplitude**2 for posterior in posteriors]
        if all(supports(posterior, SupportsCurve) for posterior in posteriors):
            worths = [self._worth(ball, one, action) for one in beliefs]
            both = zip(worths, scales, strict=True)
            return _total(ball, [functools.partial(_share, worth, scale) for worth, scale in both], math.sqrt(TIE))
        pairs = zip(beliefs, posteriors, strict=True)
        total = np.sum([self._at_atoms(ball, posterior, one.width, action) for one, posterior in pairs], axis=0)
        return ball.reference.atom(first_of_the_best(total, math.sqrt(TIE) * float(total.max())))

    @staticmethod
    def _worth(ball: Ball, beliefs: Beliefs, action: Point) -> Worth:
        """Return the reduction of variance as a function of the context."""
        atoms, curve = ball.contexts, curve_of(beliefs.expected(ball), action.coordinates, -beliefs.width)
        w = ball.worst_case(curve(atoms)).weights
        worth: Worth = functools.partial(cast(Curve, curve).information, atoms=atoms[w > 0.0], weights=w[w > 0.0])
        return worth

    def _on_atoms(self, ball: Ball, posterior: Posterior, width: float, action: Point) -> Point:
        """Return the atom of the largest reduction of variance, for any posterior."""
        worth = self._at_atoms(ball, posterior, width, action)
        return ball.reference.atom(first_of_the_best(worth, math.sqrt(TIE) * float(worth.max())))

    @staticmethod
    def _at_atoms(ball: Ball, posterior: Posterior, width: float, action: Point) -> FloatArray:
        """Return the reduction of variance at every atom (n,) as a share of the variance of g, for any posterior.

        An outcome of g = sum_j w_j f(x, c_j), the worst-case expectation, would lower the variance in every context by
        Cov(f(x, c), g)^2 / Var g. By symmetry this is the information about g of an outcome in c.
        """
        mean, variance = of_action(posterior, action)
        w = ball.worst_case(mean - width * np.sqrt(variance)).weights
        average = Observation(action.coordinates, ball.contexts[w > 0.0], w[w > 0.0], None)
        _, after = posterior.with_more([average]).moments(action.coordinates[None, :])
        return np.asarray(np.maximum(variance - after[0], 0.0) / (variance + posterior.noise**2))


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
