"""The largest value of a concave, piecewise linear function: duals of one variable are of this kind."""

from __future__ import annotations

from collections.abc import Callable

from drbo.ambiguity.contract import EPSILON


def peak(line: Callable[[float], tuple[float, float]], end: tuple[float, float]) -> float:
    """Return the l >= 0 that maximises a concave, piecewise linear function with finitely many pieces.

    `line(l)` returns the value at l and a slope there; `end` is the line that rules for l -> inf as its value at 0 and
    its slope, which is negative. The pieces found from both sides are intersected until the function meets them there.
    """
    value, slope = line(0.0)
    if slope <= 0.0:
        return 0.0
    rising, falling = (value, slope), end
    best, highest = 0.0, value
    for _ in range(200):
        at = (falling[0] - rising[0]) / (rising[1] - falling[1])
        value, slope = line(at)
        if value > highest:
            best, highest = at, value
        above = rising[0] + rising[1] * at
        if value >= above - 4.0 * EPSILON * abs(above) or slope == 0.0:
            break
        piece = (value - slope * at, slope)
        rising, falling = (piece, falling) if slope > 0.0 else (rising, piece)
    return best
