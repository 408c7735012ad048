"""What a search for the best action is: of a grid, or of a box."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from drbo.models.bounds import Bound
from drbo.models.gp import GP, Posterior
from drbo.rounds.ball import Ball
from drbo.spaces.space import Point, Space
from drbo.validation import FloatArray


@dataclass(frozen=True, eq=False)
class Found:
    """The action of the largest robust score, and that score in the model's units."""

    action: Point
    score: float


class Search(ABC):
    """The search for the action of the largest worst-case expectation of a bound."""

    space: Space

    @abstractmethod
    def prior(self, gp: GP, contexts: FloatArray) -> Posterior:
        """Return the posterior of no observation, on contexts (n, d), in the form that the search needs."""

    @abstractmethod
    def best(self, ball: Ball, bound: Bound, near: FloatArray, away: FloatArray, failed: Sequence[Point] = ()) -> Found:
        """Return the best action.

        `near` (k, d) are good places to start from, `away` (l, d) actions under way that should not be repeated, and
        `failed` actions that must not be returned.
        """
