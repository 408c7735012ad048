"""Which values of a space are drawn: those along a parameter, and those of a finite set."""

from __future__ import annotations

from typing import Any

import numpy as np

from drbo.spaces import Box, Categorical, FiniteSet, Integer, Log, Ordinal, Parameter, Samples

_STEPS = 25
"""How many values of a number are tried along an axis."""


def axis(parameter: Parameter) -> list[Any]:
    """Return values of a parameter from its least to its largest."""
    if isinstance(parameter, Log):
        return list(np.geomspace(parameter.low, parameter.high, _STEPS).tolist())
    if isinstance(parameter, Integer):
        return sorted({round(value) for value in np.linspace(parameter.low, parameter.high, _STEPS)})
    if isinstance(parameter, Categorical | Ordinal):
        return list(parameter.choices)
    low, high = (parameter.decode(np.array([end])) for end in (0.0, 1.0))
    return list(np.linspace(low, high, _STEPS).tolist())


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
