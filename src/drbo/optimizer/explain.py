"""How a recommendation is explained: `drbo.optimizer.explanation` says what its parts mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from drbo._threads import one_thread
from drbo.models.bounds import LOWER, Bound
from drbo.optimizer.explanation import AnyColumn, Evaluation, Explanation, summary
from drbo.optimizer.incumbent import Guaranteed
from drbo.rounds.grid import best_action
from drbo.spaces.columns import Column
from drbo.validation import FloatArray

_CANDIDATES = 64
"""For how many contexts the certificate after an outcome there is computed: those of the largest upper bounds."""
_AT_ONCE = 2**20
"""How many variances are computed at once."""


def explain(found: Guaranteed, action: Any, contexts: Sequence[Any], columns: Sequence[Column]) -> Explanation:
    """Return the explanation of a certificate, in the user's units.

    `action` and `contexts` (n,) are the action and the atoms of the certificate as the user gave them, and `columns`
    those of the contexts.
    """
    with one_thread():
        made, units = found.certificate, found.units
        p, w = made.reference.weights, made.worst_case.weights
        summaries = _summaries(contexts, columns, p, w)
        evaluation = _evaluation(found, action, contexts)
        value = units.outward(made.lower_bound)
        if not units.known:
            return Explanation(math.nan, value, 0.0, math.inf, 0.0, summaries, evaluation)
        expected = float(p @ found.mean)
        left_open = float(made.worst_case.expectation) - made.lower_bound
        rest = expected - float(made.worst_case.expectation)
        # A set that leaves the reference out may be better than it: the rest is then negative, and none is ignorance.
        shift = min(max(expected - _worst_mean(found, expected), 0.0), rest)
        return Explanation(
            units.outward(expected),
            value,
            units.length_outward(shift),
            units.length_outward(rest - shift),
            units.length_outward(left_open),
            summaries,
            evaluation,
        )


def _worst_mean(found: Guaranteed, expected: float) -> float:
    """Return the worst case of the mean, in which contexts without outcomes are no worse than `expected`."""
    made, bound = found.certificate, Bound(found.posterior, 0.0, LOWER)
    atoms = len(made.reference.points)
    ball = found.ball.extended(made.reference.points[len(found.ball.contexts) :])
    ball, _ = ball.widened(bound, found.action, 0.0)  # with the contexts that an adversary of the mean wants
    mean, variance = found.mean, found.variance
    if len(ball.contexts) > atoms:
        curve = bound.curve(found.action.coordinates)
        mean = np.append(mean, curve(ball.contexts[atoms:]))
        variance = np.append(variance, curve.variance(ball.contexts[atoms:]))
    left = np.minimum(variance / bound.amplitude**2, 1.0)
    return float(ball.worst_case(mean + left * np.maximum(expected - mean, 0.0)).expectation)


def _evaluation(found: Guaranteed, action: Any, contexts: Sequence[Any]) -> Evaluation | None:
    """Return the evaluation of the action that raises its certificate most, if its outcome is what is expected.

    An outcome in context c leaves the mean as it is then, and lowers the variance to `Curve.variance_after`. So the
    certificate becomes min_w <w, mean - width std_c>, which the present worst distribution bounds from above. Contexts
    of large bounds are candidates.
    """
    made, atoms = found.certificate, found.certificate.reference.points
    w = made.worst_case.weights
    used = np.flatnonzero(w)
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
    amplitude = math.sqrt(found.posterior.gp.kernel.variance)
    best = np.argsort(-gains, kind="stable")[:_CANDIDATES]
    if not gains[best[0]] > 1e-9 * amplitude * found.width:
        return None
    ball = found.ball.extended(atoms[len(found.ball.contexts) :])
    values = found.mean - found.width * after(atoms[best], atoms)
    choice = best_action(values, ball.ambiguity, ball.weights, ball.radius, w[None, :])
    rise = float(choice.worst_case.expectation) - float(made.worst_case.expectation)
    # Where one outcome alone raises nothing, as another context is as bad, the one that tells most is named.
    at = best[choice.action_index] if rise > 1e-9 * amplitude * found.width else best[0]
    return Evaluation(action, contexts[int(at)], found.units.outward(made.lower_bound + max(rise, 0.0)))


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
