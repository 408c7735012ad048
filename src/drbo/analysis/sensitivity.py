"""The derivative of an action's bound in the radius, and the first-order approximation at the reference."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from drbo.ambiguity.placed import with_slopes
from drbo.analysis.recommend import best_in
from drbo.knowledge.snapshot import Snapshot
from drbo.rounds.ball import Ball, Certificate
from drbo.spaces.space import Point

_NEAR = 1e-3
"""Share of the radius at which a range is searched for the contexts that matter near the reference."""


@dataclass(frozen=True, eq=False)
class RadiusSensitivity:
    """The dependence of an action's bound on the radius, under the posterior of a snapshot, in the user's units.

    G(eps) is the bound at radius eps, and a = `power` is 1 for most sets and 1/2 for KL and chi-square:

    Attributes
    ----------
    action, action_index : the action; its index is None if actions are not a finite set
    radius : eps
    bound : G(eps), as in `bound`
    sensitivity : the loss of G per unit of eps^a at this radius, zero or more; the right derivative at a kink of G
    power : a
    at_reference : G(0)
    sensitivity_at_reference : `sensitivity` at radius 0
    approximation : `at_reference` worsened by `sensitivity_at_reference` times eps^a: the fast approximation of Tay et
        al. (ICML 2022)
    error : how much better the approximation is than the bound; negative if it is too cautious
    """

    action: Any
    action_index: int | None
    radius: float
    bound: float
    sensitivity: float
    power: float
    at_reference: float
    sensitivity_at_reference: float
    approximation: float
    error: float

    def __str__(self) -> str:
        per = {1.0: "unit of the radius", 0.5: "unit of the square root of the radius"}
        unit = per.get(self.power, f"unit of the radius to the power {self.power:g}")
        lines = (
            (f"bound at radius {self.radius:.4g}", self.bound, f"worse by {self.sensitivity:.4g} per {unit}"),
            ("at the reference", self.at_reference, f"worse by {self.sensitivity_at_reference:.4g} per {unit}"),
            ("to first order from the reference", self.approximation, f"off by {self.error:.4g}"),
        )
        return "\n".join(f"{what}: {value:.4g}, {more}" for what, value, more in lines)


def sensitivity(asked: Snapshot, action: Point | None) -> RadiusSensitivity:
    """Return the sensitivity of an action; the default is the recommended one."""
    ball = asked.ball
    asked.need_outcome("sensitivity")
    if action is None:
        action = best_in(asked, ball).action
    here, wide = _certified(asked, ball, action)
    near, _ = _certified(asked, wide.at(_NEAR * ball.radius), action) if math.isfinite(ball.radius) else (here, wide)
    centre = _with(wide, near).at(0.0)
    reference, _ = _certified(asked, centre, action)
    slope, slope_at_reference = _slope(asked, wide, action), _slope(asked, centre, action)
    approximate = reference.lower_bound - (slope_at_reference * ball.reach if slope_at_reference else 0.0)
    units = asked.units
    return RadiusSensitivity(
        action=asked.actions.decode(action),
        action_index=action.index,
        radius=ball.radius,
        bound=units.stated(here.lower_bound),
        sensitivity=units.length_outward(slope),
        power=ball.ambiguity.growth.power,
        at_reference=units.stated(reference.lower_bound),
        sensitivity_at_reference=units.length_outward(slope_at_reference),
        approximation=units.stated(approximate),
        error=units.stated_difference(approximate, here.lower_bound),
    )


def _certified(asked: Snapshot, ball: Ball, action: Point) -> tuple[Certificate, Ball]:
    """Return the certificate of an action, and the ball on all atoms of the certificate."""
    made = ball.certificate(asked.lower(ball), action)
    return made, _with(ball, made)


def _with(ball: Ball, made: Certificate) -> Ball:
    """Return the ball with the further atoms of a certificate."""
    return ball.extended(made.reference.points[len(ball.contexts) :])


def _slope(asked: Snapshot, ball: Ball, action: Point) -> float:
    """Return the rate at which the worst case of an action's lower bound falls, on the atoms of the ball."""
    if math.isinf(ball.radius):
        return 0.0
    values = asked.lower(ball).of_action(action)
    return float(with_slopes(ball.ambiguity).slopes(values[None, :], ball.weights, ball.radius)[0])
