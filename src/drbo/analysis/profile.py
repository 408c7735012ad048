"""What each radius costs and buys under the present posterior of an optimizer, on any kind of space."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from drbo import validation
from drbo._messages import require
from drbo.analysis.pictures import against_radius
from drbo.analysis.recommend import best_in, guaranteed
from drbo.knowledge.knowledge import Knowledge
from drbo.knowledge.state import State, Terms
from drbo.models.bounds import LOWER, Bound
from drbo.rounds.ball import Ball
from drbo.spaces.space import Point
from drbo.validation import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class RadiusProfile:
    """One row per radius, k of them, under the posterior of one moment. Outcomes are in the user's units.

    Attributes
    ----------
    radius : (k,) in the order in which they were asked for
    actions : k actions: what `recommend` would recommend for each radius
    guarantee : (k,) certified, as far as the confidence bound holds: no distribution of the set does worse
    expected : (k,) the posterior mean of the action's outcome under the reference
    price : (k,) what robustness costs if the reference is true: how much worse `expected` is than that of `stochastic`
    protection : (k,) what robustness buys in the worst case: how much better `guarantee` is than that of `stochastic`
    stochastic : the action of the best posterior mean under the reference
    present : the radius of the present round; nan if the setting has none yet
    maximize : whether outcomes are maximised
    """

    radius: FloatArray
    actions: tuple[Any, ...]
    guarantee: FloatArray
    expected: FloatArray
    price: FloatArray
    protection: FloatArray
    stochastic: Any
    present: float
    maximize: bool

    def rows(self) -> list[dict[str, Any]]:
        """Return the table as rows of plain values: the numbers, and the action by the names of its parameters."""
        rows = []
        for i, action in enumerate(self.actions):
            numbers = {name: float(getattr(self, name)[i]) for name in _NUMBERS}
            chosen = action if isinstance(action, dict) else {"action": np.squeeze(action).tolist()}
            rows.append({**numbers, **{f"action.{k}" if k in _NUMBERS else k: v for k, v in chosen.items()}})
        return rows

    def to_frame(self) -> Any:
        """Return a pandas DataFrame, one row per radius."""
        return require("pandas", "frame").DataFrame.from_records(self.rows())

    def plot(self) -> Figure:
        """Return a matplotlib figure: what is guaranteed and expected, and what robustness costs and buys."""
        outcome = {"guaranteed": self.guarantee, "expected": self.expected}
        return against_radius(
            self.radius,
            {"Outcome": outcome, "Robustness": {"price": self.price, "protection": self.protection}},
            self.present,
        )


_NUMBERS = ("radius", "guarantee", "expected", "price", "protection")


def profile_known(known: Knowledge, radii: ArrayLike, terms: Terms) -> RadiusProfile:
    """Return the profile of an optimizer's present posterior, round the reference of these terms."""
    state = known.state
    eps = validation.radii(radii)
    if not known.belief(state, fresh=True).units.known:
        raise RuntimeError("profile needs an outcome: the model has not learned the units of the outcomes yet")
    stochastic = _best_mean(known, state, known.ball_at(state, terms, 0.0))
    near, rows = np.concatenate([known.near(state), known.rows([stochastic])]), {}
    for one in np.unique(eps).tolist():  # upwards: each search starts near the actions of the radii before
        rows[one] = _row(known, state, known.ball_at(state, terms, one), stochastic, near)
        near = np.concatenate([near, known.rows([rows[one].action])])
    space = known.configuration.search.space
    in_order = [rows[one] for one in eps.tolist()]
    numbers = np.array([(row.guarantee, row.expected, row.price, row.protection) for row in in_order])
    guarantee, expected, price, protection = (validation.frozen(column) for column in numbers.T)
    return RadiusProfile(
        radius=validation.frozen(eps),
        actions=tuple(space.decode(row.action) for row in in_order),
        guarantee=guarantee,
        expected=expected,
        price=price,
        protection=protection,
        stochastic=space.decode(stochastic),
        present=_present(known, state, terms),
        maximize=known.configuration.maximize,
    )


@dataclass(frozen=True, eq=False)
class _Row:
    """One row of the table, with the action as a point."""

    action: Point
    guarantee: float
    expected: float
    price: float
    protection: float


def _row(known: Knowledge, state: State, ball: Ball, stochastic: Point, near: FloatArray) -> _Row:
    """Return the row of one set."""
    found = best_in(known, state, ball, near)
    beliefs = known.certifying(state, ball)
    posterior = beliefs.certain(ball)
    other = guaranteed(
        stochastic, ball, Bound(posterior, beliefs.certificate_width, LOWER), units := beliefs.belief.units
    )
    best = max((found, other), key=lambda one: one.certificate.lower_bound)  # a search over a box is no proof
    mean = Bound(posterior, 0.0, LOWER)
    expected, under_reference = (float(ball.weights @ mean.of_action(x)) for x in (best.action, stochastic))
    return _Row(
        action=best.action,
        guarantee=units.outward(best.certificate.lower_bound),
        expected=units.outward(expected),
        price=units.length_outward(under_reference - expected),
        protection=units.length_outward(best.certificate.lower_bound - other.certificate.lower_bound),
    )


def _best_mean(known: Knowledge, state: State, ball: Ball) -> Point:
    """Return the action of the best posterior mean under the reference, which has not failed."""
    mean = Bound(known.certifying(state, ball).certain(ball), 0.0, LOWER)
    failed = list(state.failed.values())
    return known.configuration.search.best(ball, mean, known.near(state), known.rows([]), failed).action


def _present(known: Knowledge, state: State, terms: Terms) -> float:
    """Return the radius of the present round; nan where it comes with an ask, and there was none."""
    try:
        return known.ball(state, terms).radius
    except TypeError:
        return math.nan
