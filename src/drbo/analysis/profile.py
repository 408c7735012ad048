"""The cost and the benefit of each radius under the present posterior, on any kind of space."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from drbo import validation
from drbo._messages import require
from drbo.analysis.answers import NotReachedError
from drbo.analysis.explain_bound import ActionBound
from drbo.analysis.recommend import action_bound, best_action_in, best_in, limit_bounds
from drbo.knowledge.snapshot import Snapshot
from drbo.rounds.ball import Ball
from drbo.rounds.floors import View
from drbo.spaces.space import Point, row
from drbo.validation import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


BLUE, ORANGE, GREEN, PINK, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#7F7F7F"
"""The colours of Okabe and Ito, safe for colour-blind readers."""


def panels(rows: int, columns: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """Return a figure with empty panels of `width` x `height` inches. No display is needed."""
    require("matplotlib", "experiments")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    made = list(figure.subplots(rows, columns, squeeze=False).ravel())
    for axes in made:
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    return figure, made


def against_radius(radii: FloatArray, lines: Mapping[str, Mapping[str, FloatArray]], mark: float | None) -> Figure:
    """Return a figure with one panel per title: two named lines against the radius, and a mark at one radius.

    Infinite values are omitted. No display is needed.
    """
    figure, made = panels(1, len(lines), 4.2, 3.4)
    order = np.argsort(radii)
    for axes, (title, named) in zip(made, lines.items(), strict=True):
        for colour, (name, values) in zip((BLUE, ORANGE), named.items(), strict=False):
            there = order[np.isfinite(radii[order]) & np.isfinite(values[order])]
            axes.plot(radii[there], values[there], "o-", color=colour, markersize=4, label=name)
        if mark is not None and np.isfinite(mark):
            axes.axvline(mark, color="0.6", linestyle="--", linewidth=1, label="present radius")
        axes.set(title=title, xlabel="radius")
        axes.legend(frameon=False)
    return figure


@dataclass(frozen=True, eq=False)
class RadiusProfile:
    """One row for each of k radii under the posterior of a snapshot. Outcomes are in the user's units.

    Attributes
    ----------
    radius : (k,) the radii in the given order
    actions : k actions, the recommendation for each radius; None where no action is known to meet all limits. The
        numbers of such a row are nan
    bound : (k,) the bound of the model alone: no distribution of the set does worse if the confidence bound holds
    expected : (k,) the posterior mean of the action's outcome under the reference
    price : (k,) the cost of robustness if the reference is true: how much worse `expected` is than for `stochastic`
    protection : (k,) the benefit of robustness in the worst case: how much better `bound` is than for `stochastic`
    stochastic : the action of the best posterior mean under the reference
    present : the radius of the present round; nan if the setting has none yet
    maximize : whether outcomes are maximised
    limits : (k,) the bounds of the limited outcomes of the action, by name
    """

    radius: FloatArray
    actions: tuple[Any, ...]
    bound: FloatArray
    expected: FloatArray
    price: FloatArray
    protection: FloatArray
    stochastic: Any
    present: float
    maximize: bool
    limits: Mapping[str, FloatArray] = field(default_factory=dict)

    def rows(self) -> list[dict[str, Any]]:
        """Return the table as rows of plain values: the numbers, and the parameters of the action by name."""
        rows = []
        for i, action in enumerate(self.actions):
            numbers = {name: float(getattr(self, name)[i]) for name in _NUMBERS}
            numbers |= {f"limit {name}": float(values[i]) for name, values in self.limits.items()}
            chosen = {"action": None} if action is None else row(action, "action")
            rows.append({**numbers, **{f"action.{k}" if k in _NUMBERS else k: v for k, v in chosen.items()}})
        return rows

    def to_frame(self) -> Any:
        """Return a pandas DataFrame, one row per radius."""
        return require("pandas", "frame").DataFrame.from_records(self.rows())

    def plot(self) -> Figure:
        """Return a matplotlib figure: bound and expectation, and cost and benefit of robustness."""
        outcome = {"bound": self.bound, "expected": self.expected}
        return against_radius(
            self.radius,
            {"Outcome": outcome, "Robustness": {"price": self.price, "protection": self.protection}},
            self.present,
        )


_NUMBERS = ("radius", "bound", "expected", "price", "protection")


def profile(asked: Snapshot, radii: ArrayLike, actions: Any = None) -> RadiusProfile:
    """Return the profile of a snapshot, around the reference of the query, of the best actions or of given ones."""
    eps = validation.radii(radii)
    asked.need_outcome("profile")
    if actions is None:
        stochastic, rows = _searched(asked, np.unique(eps).tolist())
    else:
        stochastic, rows = _chosen(asked, np.unique(eps).tolist(), asked.table_of_actions(actions))
    space = asked.actions
    in_order = [rows[one] for one in eps.tolist()]
    numbers = np.array([(one.bound, one.expected, one.price, one.protection) for one in in_order])
    bound, expected, price, protection = (validation.frozen(column) for column in numbers.T)
    return RadiusProfile(
        radius=validation.frozen(eps),
        actions=tuple(None if one.action is None else space.decode(one.action) for one in in_order),
        bound=bound,
        expected=expected,
        price=price,
        protection=protection,
        stochastic=space.decode(stochastic),
        present=_present(asked),
        maximize=asked.configuration.maximize,
        limits={
            name: validation.frozen(np.array([one.limits[name] for one in in_order]))
            for name in asked.configuration.limits
        },
    )


def _searched(asked: Snapshot, radii: list[float]) -> tuple[Point, dict[float, _RadiusRow]]:
    """Return the best action under the reference, and the row of each of the ascending radii."""
    stochastic = _best_mean(asked, asked.ball_at(0.0))
    near, rows = np.concatenate([asked.near, asked.rows([stochastic])]), {}
    for one in radii:  # each search starts near the actions of smaller radii
        ball = asked.ball_at(one)
        try:
            made = _row(asked, ball, stochastic, best_in(asked, ball, near))
        except NotReachedError:
            nothing = dict.fromkeys(asked.configuration.limits, math.nan)
            made = _RadiusRow(None, math.nan, math.nan, math.nan, math.nan, nothing)
        rows[one] = made
        near = near if made.action is None else np.concatenate([near, asked.rows([made.action])])
    return stochastic, rows


def _chosen(asked: Snapshot, radii: list[float], actions: Sequence[Point]) -> tuple[Point, dict[float, _RadiusRow]]:
    """Return the best of given actions under the reference, and the row of each radius."""
    if asked.configuration.limits:
        raise TypeError("actions must not be given where there are limits: the profile then searches all actions")
    first, points = asked.ball_at(0.0), asked.rows(actions)
    stochastic = actions[int(np.argmax(asked.mean(first).at(points) @ first.weights))]
    rows, values = {}, asked.lower(first).at(points)
    for one in radii:
        ball = asked.ball_at(one)
        if len(ball.contexts) != values.shape[1] or not np.array_equal(ball.contexts, first.contexts):
            first, values = ball, asked.lower(ball).at(points)
        best = actions[int(np.argmax(ball.worst_cases(values).expectation))]
        rows[one] = _row(asked, ball, stochastic, action_bound(asked, best, ball))
    return stochastic, rows


@dataclass(frozen=True, eq=False)
class _RadiusRow:
    """One row of the table, with the action as a point."""

    action: Point | None
    bound: float
    expected: float
    price: float
    protection: float
    limits: Mapping[str, float]


def _row(asked: Snapshot, ball: Ball, stochastic: Point, found: ActionBound) -> _RadiusRow:
    """Return the row of one set, given the best action found and the best one under the reference."""
    other = action_bound(asked, stochastic, ball)
    mean, units, best = asked.mean, asked.units, found
    if all(limit.holds for limit in limit_bounds(other).values()):
        best = max((found, other), key=lambda one: one.certificate.lower_bound)  # a search over a box may miss the best
    expected, under_reference = (float(ball.weights @ mean(ball).of_action(x)) for x in (best.action, stochastic))
    return _RadiusRow(
        action=best.action,
        bound=units.stated(best.certificate.lower_bound),
        expected=units.stated(expected),
        price=units.stated_difference(under_reference, expected),
        protection=units.stated_difference(best.certificate.lower_bound, other.certificate.lower_bound),
        limits={name: limit.value for name, limit in limit_bounds(best).items()},
    )


def _best_mean(asked: Snapshot, ball: Ball) -> Point:
    """Return the action of the best posterior mean under the reference among those that have not failed.

    With limits these are the actions whose limits hold under the reference, or all if there is none.
    """
    mean = asked.mean(ball)
    found = best_action_in(asked, ball, mean, asked.near, View.CERTAIN)
    if found is None:
        found = asked.search.best(ball, mean, asked.near, asked.rows([]), asked.failed).action
    return found


def _present(asked: Snapshot) -> float:
    """Return the radius of the query; nan if the setting takes it from an ask and there was none."""
    try:
        return asked.ball.radius
    except TypeError:
        return math.nan
