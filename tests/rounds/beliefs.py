"""A small round with a fixed belief, for the tests of context rules and policies."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from drbo import GP, RBF, Product
from drbo.contexts.nature import FiniteContexts
from drbo.models import ExactPosterior
from drbo.models.bounds import Bound, Side
from drbo.models.data import Observation, Units
from drbo.rounds.ball import Ball
from drbo.spaces import FiniteSet
from drbo.spaces.space import Point

ACTIONS = FiniteSet("actions", np.linspace(0, 1, 9))
CONTEXTS = FiniteSet("contexts", np.linspace(0, 1, 7))
REFERENCE = FiniteContexts(CONTEXTS).given(np.random.default_rng(0).dirichlet(np.ones(7)))
UNITS = Units()
KERNEL = Product(RBF(0.3), RBF(0.3))


@dataclass(frozen=True)
class FixedBeliefs:
    """The same posteriors in every ball: of outcomes alone, and with what is under way."""

    name = ""

    outcomes: ExactPosterior
    ahead: ExactPosterior
    width: float = 2.0
    bound_width: float = 2.0
    units: Units = UNITS

    def certain(self, ball: Ball) -> ExactPosterior:
        del ball
        return self.outcomes

    def expected(self, ball: Ball) -> ExactPosterior:
        del ball
        return self.ahead

    def bound(self, ball: Ball, side: Side, width: float | None = None) -> Bound:
        return Bound(self.certain(ball), self.bound_width if width is None else width, side)

    def also(self, ball: Ball, action: Point, contexts: Sequence[Point]) -> "FixedBeliefs":
        del ball
        rows = [
            Observation.of(action.coordinates, c.coordinates, None, before=j, after=len(contexts) - 1 - j)
            for j, c in enumerate(contexts)
        ]
        return FixedBeliefs(self.outcomes, self.ahead.with_more(rows), self.width)


def beliefs(seed: int = 0, n: int = 10, pending: int = 2) -> FixedBeliefs:
    rng = np.random.default_rng(seed)
    outcomes = ExactPosterior.prior(GP(KERNEL, 0.1), ACTIONS.points, CONTEXTS.points)
    for _ in range(n):
        outcomes = outcomes.with_outcome(rng.random(1), rng.random(1), rng.normal())
    ahead = outcomes
    for _ in range(pending):
        ahead = ahead.with_more([Observation.of(rng.random(1), rng.random(1), None)])
    return FixedBeliefs(outcomes, ahead)
