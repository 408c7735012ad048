"""Variants for `screen.py` that are no part of drbo: `python benchmarks/screen.py screen_variants:averaged`.

All verify on demand, as the default does, so that only the search differs.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

import drbo
from drbo.models.curve import Curve
from drbo.models.surrogate import SupportsDraws, curve_of
from drbo.rounds.ball import TIE, Ball
from drbo.rounds.context_rules import Beliefs, ContextRule
from drbo.spaces import Point

DRAWS = 16


@dataclass(frozen=True)
class Averaged(ContextRule):
    """The rule `Informative` for the mean of the worst distributions of 16 draws of f, not for that of one bound."""

    def pick(self, ball: Ball, beliefs: Beliefs, action: Point) -> Point:
        """Return the context of the largest reduction of variance."""
        posterior, at = beliefs.expected(ball), action.coordinates
        drawn = cast(SupportsDraws, posterior).draws(np.random.default_rng(0), DRAWS, at[None])[:, 0]
        w = np.mean([ball.worst_case(f).weights for f in drawn], axis=0)
        curve = cast(Curve, curve_of(posterior, at, -beliefs.width))
        worth = functools.partial(curve.information, atoms=ball.contexts[w > 0.0], weights=w[w > 0.0])
        at_atoms = worth(ball.contexts)
        return ball.best_context(at_atoms, lambda: worth, math.sqrt(TIE) * float(at_atoms.max()))


def averaged(radius: float) -> dict[str, Any]:
    """Return the default with worst-case weights that are averaged over draws of f."""
    del radius
    return {"policy": drbo.Checked(drbo.Optimism(Averaged()))}


def joint(radius: float) -> dict[str, Any]:
    """Return the default with actions by the joint posterior of all contexts."""
    del radius
    return {"policy": drbo.Checked(drbo.JointOptimism(drbo.Informative()))}


def both(radius: float) -> dict[str, Any]:
    """Return both changes."""
    del radius
    return {"policy": drbo.Checked(drbo.JointOptimism(Averaged()))}
