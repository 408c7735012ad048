"""The bound of an action, and its explanation: what it loses by a shift, by ignorance and by untried conditions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drbo._threads import one_thread
from drbo.knowledge.explanation import AnyColumn, Explanation, NextEvaluation, readable, summary
from drbo.knowledge.snapshot import Snapshot
from drbo.models.bounds import LOWER, Bound
from drbo.models.data import Units
from drbo.models.surrogate import Posterior, SupportsCurve, supports
from drbo.rounds.ball import Ball, Certificate
from drbo.rounds.checked import Gap
from drbo.rounds.grid_search import best_action
from drbo.spaces.space import Column, Point
from drbo.validation import FloatArray

_CANDIDATES = 64
"""Number of candidate contexts whose next bound is computed: those of the largest upper bounds."""
_AT_ONCE = 2**20
"""Batch size for variances."""
_FEW = 0.1
"""A share of the mass below which a worst case is made by a few days."""


@dataclass(frozen=True, eq=False)
class ActionBound:
    """An action and its bound.

    Attributes
    ----------
    action : the action
    certificate : the certified worst case of its lower confidence bound, given all outcomes
    ball : the set of the bound
    width : the width of the confidence bound
    units : the units of the outcomes
    mean, variance : (n,) of f for the action on the atoms of the certificate
    posterior : the posterior of the bound
    assumed_noise : a noise that the bound assumes because no outcome shows it, in the model's units; None if shown
    given : the known part of the context; None if nothing is known
    asked : the query of the bound
    gap : the possible cost of conditions in which the action is untried
    """

    action: Point
    certificate: Certificate
    ball: Ball
    width: float
    units: Units
    mean: FloatArray
    variance: FloatArray
    posterior: Posterior
    assumed_noise: float | None
    given: Mapping[Any, Any] | None
    asked: Snapshot
    gap: Gap

    @property
    def untried(self) -> float:
        """The loss by untried conditions that the bound counts; 0 for a model that does not learn."""
        return self.gap.loss if self.asked.configuration.surrogate.learns else 0.0

    @property
    def lower(self) -> float:
        """The bound, which allows for bad outcomes in untried conditions."""
        return self.certificate.lower_bound - self.untried


def explain(found: ActionBound, action: Any, contexts: Sequence[Any], columns: Sequence[Column]) -> Explanation:
    """Return the explanation of a bound, in the user's units.

    `action` and `contexts` (n,) are the action and the atoms of the certificate in the user's form; `columns` are the
    columns of the contexts.
    """
    with one_thread():
        made, units = found.certificate, found.units
        p, w = made.reference.weights, made.worst_case.weights
        summaries = _summaries(contexts, columns, p, w)
        evaluation = _evaluation(found, action, contexts)
        value, unit = units.stated(found.lower), found.asked.configuration.objective.unit
        if not units.known:
            return Explanation(math.nan, value, 0.0, math.inf, 0.0, summaries, evaluation, unit=unit)
        expected = float(p @ found.mean)
        left_open = float(made.worst_case.expectation) - made.lower_bound
        rest = expected - float(made.worst_case.expectation)
        # The worst case of a set without its reference may be better: the rest is negative, and the ignorance is 0.
        shift = min(max(expected - _worst_mean(found, expected), 0.0), rest)
        steps = np.cumsum([expected, -shift, shift - rest, -left_open, -found.untried]).tolist()
        of_shift, of_ignorance, of_gap, of_untried = (
            units.stated_difference(above, below) + 0.0  # no minus before a zero
            for above, below in itertools.pairwise(steps)
        )
        return Explanation(
            units.stated(expected),
            value,
            of_shift,
            of_ignorance,
            of_gap,
            summaries,
            evaluation,
            of_untried,
            unit,
            _corner(found, contexts, columns, shift),
        )


def _corner(found: ActionBound, contexts: Sequence[Any], columns: Sequence[Column], shift: float) -> str:
    """Return a sentence if less than a tenth of the mass, at the edge of the past, makes the worst case; or nothing."""
    made = found.certificate
    p, w = made.reference.weights, made.worst_case.weights
    gained = np.maximum(w - p, 0.0)
    share = float(gained.sum())
    numbers = [column.first for column in columns if column.labels is None]
    ball = getattr(found.ball.ambiguity, "inner", found.ball.ambiguity)
    order = getattr(ball, "order", None)  # of a Wasserstein set: above 1 many days move a little, one after the other
    if not (shift > 0.0 and 1e-9 < share < _FEW and numbers) or order not in (None, 1.0):
        return ""
    points = made.reference.points[:, numbers]
    low, high = points[p > 0.0].min(axis=0), points[p > 0.0].max(axis=0)
    extreme = ((points <= low) | (points >= high)).any(axis=1)
    if float(gained[extreme].sum()) < 0.5 * share:
        return ""
    at = int(np.argmax(np.where(extreme, gained, -1.0)))
    text = (
        f"this worst case moves only {share:.1%} of the mass, to the edge of the past, such as "
        f"{readable(contexts[at])}; the other days stay"
    )
    if order == 1.0:
        text += "; with order=2 more days move, less far; with order=math.inf all days move"
    return text


def _worst_mean(found: ActionBound, expected: float) -> float:
    """Return the worst case of the mean; contexts without outcomes count as no worse than `expected`."""
    made, bound = found.certificate, Bound(found.posterior, 0.0, LOWER)
    atoms = len(made.reference.points)
    ball = found.ball.extended(made.reference.points[len(found.ball.contexts) :])
    ball, _ = ball.widened(bound, found.action, 0.0)  # adds the contexts of an adversary of the mean
    mean, variance = found.mean, found.variance
    if len(ball.contexts) > atoms:
        curve = bound.curve(found.action.coordinates)
        mean = np.append(mean, curve(ball.contexts[atoms:]))
        variance = np.append(variance, curve.variance(ball.contexts[atoms:]))
    left = np.minimum(variance / bound.amplitude**2, 1.0)
    return float(ball.worst_case(mean + left * np.maximum(expected - mean, 0.0)).expectation)


def _evaluation(found: ActionBound, action: Any, contexts: Sequence[Any]) -> NextEvaluation | None:
    """Return the evaluation of the action that raises its bound most if the outcome equals the posterior mean.

    Such an outcome in context c leaves the mean unchanged, and lowers the variance to `Curve.variance_after`. The bound
    becomes min_w <w, mean - width std_c>, which the present worst distribution bounds from above. The candidates are
    the contexts of the largest upper bounds.
    """
    made, atoms = found.certificate, found.certificate.reference.points
    w = made.worst_case.weights
    used = np.flatnonzero(w)
    amplitude = found.posterior.amplitude
    if not supports(found.posterior, SupportsCurve):
        return None
    curve = found.posterior.curve(found.action.coordinates, 0.0)
    std, step = np.sqrt(found.variance), max(_AT_ONCE // len(atoms), 1)

    def after(rows: FloatArray, columns: FloatArray) -> FloatArray:
        return np.sqrt(curve.variance_after(rows, columns))

    gains = np.concatenate(
        [
            found.width * ((std[used] - after(atoms[i : i + step], atoms[used])) @ w[used])
            for i in range(0, len(atoms), step)
        ]
    )
    best = np.argsort(-gains, kind="stable")[:_CANDIDATES]
    if not gains[best[0]] > 1e-9 * amplitude * found.width:
        return None
    ball = found.ball.extended(atoms[len(found.ball.contexts) :])
    values = found.mean - found.width * after(atoms[best], atoms)
    choice = best_action(values, ball.ambiguity, ball.weights, ball.radius, w[None, :])
    now = float(ball.worst_case(found.mean - found.width * std).expectation)  # of this model alone, as after
    rise = choice.score - now
    # If one outcome raises nothing because another context is as bad, take the context of the largest upper bound.
    at = best[choice.action_index] if rise > 1e-9 * amplitude * found.width else best[0]
    return NextEvaluation(action, contexts[int(at)], found.units.stated(found.lower + max(rise, 0.0)))


def _summaries(values: Sequence[Any], columns: Sequence[Column], p: FloatArray, w: FloatArray) -> tuple[AnyColumn, ...]:
    """Return the summary of each column of contexts (n,) under the reference p and in the worst distribution w."""
    made = []
    for i, column in enumerate(columns):
        if column.name is not None:
            name, cells = column.name, [value[column.name] for value in values]
        elif column.labels is not None:
            name, cells = "context", list(values)
        else:
            name = "context" if len(columns) == 1 else f"context[{i}]"
            cells = [value[i] for value in values]
        made.append(summary(name, cells, column.labels is not None, p, w))
    return tuple(made)
