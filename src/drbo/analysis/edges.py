"""Edges: the parameters of a recommended action whose range limits the bound.

At the edge of a range the bound may still rise outwards. Its slope there says how much a wider range could gain: the
gradient of the worst-case lower bound, by Danskin's theorem that of the bound's expectation in the worst distribution.
If the parameter is in a constraint, other parameters move so that equalities stay, and a parameter that an inequality
holds back is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from drbo._messages import printable
from drbo.knowledge.explanation import wrapped
from drbo.models.bounds import Bound
from drbo.models.data import Units
from drbo.rounds.ball import Ball
from drbo.spaces.box import Box
from drbo.spaces.space import Point, Space

_AT = 1e-6
"""A coordinate is at an edge up to this share of the range."""
_WIDER = 0.1
"""The share of its range by which a parameter is widened."""
LEAST_GAIN = 0.01
"""Smallest gain that is reported, as a share of the amplitude of f."""


@dataclass(frozen=True)
class Edge:
    """A parameter of a recommended action at the edge of its range, where the bound rises outwards.

    Attributes
    ----------
    name : the parameter
    side : "lower" or "upper"
    value : its value, the edge of its range
    wider : the value beyond the edge by a tenth of the range, or the next whole number if that is farther
    gain : how much better the bound would be there, by its slope at the edge, in the units of the outcomes
    """

    name: str
    side: str
    value: Any
    wider: Any
    gain: float

    def __str__(self) -> str:
        return wrapped(
            f"{printable(self.name)} is at the {self.side} edge of its range, {self.value:.4g}: widen it if you can. "
            f"At {self.wider:.4g} the bound would be about {self.gain:.4g} better, by a linear extrapolation"
        )


def edges_of(space: Space, action: Point, ball: Ball, bound: Bound, units: Units) -> tuple[Edge, ...]:
    """Return the edges of an action, those of the largest gain first."""
    if not isinstance(space, Box) or not units.known:
        return ()
    x, found = action.coordinates, list[Edge]()
    worst = ball.worst_case(bound.of_action(action))
    gradient, now = bound.gradient(x, worst.weights), float(worst.expectation)
    for name, column in zip(space.parameters, space.columns, strict=True):
        parameter, i = space.parameters[name], column.first
        if column.labels is not None or parameter.count == 1 or min(x[i], 1.0 - x[i]) > _AT:
            continue
        outwards = 1.0 if x[i] > 0.5 else -1.0
        move = space.outward(x, i, outwards)
        step = max(_WIDER, float(space.spacings[i]))
        gain = step * float(gradient @ move)
        better = units.stated_difference(now + gain, now)
        if gain <= LEAST_GAIN * bound.amplitude or not better > 0.0:
            continue
        value = space.decode(action)[name]
        position = space.origin[i] + (x[i] + outwards * step) * space.units[i]
        wider = float(np.exp(position)) if column.logarithmic else float(position)
        side = "upper" if outwards > 0.0 else "lower"
        whole = parameter.count is not None and isinstance(value, int)
        found.append(Edge(name, side, value, round(wider) if whole else wider, better))
    return tuple(sorted(found, key=lambda edge: -edge.gain))
