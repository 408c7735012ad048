"""Which values of a space are drawn: those along a parameter, and those of a finite set."""

from __future__ import annotations

from typing import Any

import numpy as np

from drbo import Box, Parameter, Samples
from drbo.spaces import FiniteSet

_STEPS = 25
"""How many values of a number are tried along an axis."""


def axis(parameter: Parameter) -> list[Any]:
    """Return values of a parameter from its least to its largest."""
    labels = parameter.column(None, 0).labels
    if labels is not None:
        return list(labels)
    if parameter.count is None:
        coordinates = np.linspace(0.0, 1.0, _STEPS)[:, None]
    else:
        coordinates = parameter.levels(np.unique(np.linspace(0, parameter.count - 1, _STEPS).round().astype(np.intp)))
    return [parameter.decode(one) for one in coordinates]


def box_of(space: Any) -> Box | None:
    """Return the box that values are from, None if there is none."""
    if isinstance(space, Box):
        return space
    return space.within if isinstance(space, Samples) else None


def members(space: Any, recommended: Any, most: int) -> list[Any] | None:
    """Return the points of a finite set, some of them if there are more than `most`; None if it is no finite set."""
    if not isinstance(space, FiniteSet):
        return None
    every: list[Any] = list(space.decode_all(space.coordinates))
    if len(every) > most:
        every = [every[i] for i in np.unique(np.linspace(0, len(every) - 1, most).astype(int))]
        every.append(recommended)
    return every
