"""What a round may know of f: the little that policies and rules of contexts ask for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from drbo.models.posterior import AnyPosterior
from drbo.models.units import Units
from drbo.rounds.ball import Ball
from drbo.spaces.space import Point


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

    def certain(self, ball: Ball) -> AnyPosterior:
        """Return the posterior of the outcomes alone; certificates rest on nothing else."""

    def expected(self, ball: Ball) -> AnyPosterior:
        """Return the posterior in which pending and failed evaluations count as if they had given their mean.

        Only the variance is smaller than that of the outcomes alone. The next evaluation is chosen by it.
        """

    def also(self, ball: Ball, action: Point, contexts: Sequence[Point]) -> Beliefs:
        """Return the beliefs with one more evaluation under way: an action, in these contexts."""
