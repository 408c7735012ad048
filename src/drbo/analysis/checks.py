"""Questions about the model: what it predicts of its own outcomes, how bounds narrowed, and how actions compare."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from drbo import validation
from drbo.analysis.recommend import guaranteed
from drbo.knowledge.belief import Belief
from drbo.knowledge.snapshot import Snapshot
from drbo.models.bounds import LOWER, UPPER, Bound
from drbo.models.surrogate import SupportsCovariance, SupportsLeaveOneOut, require
from drbo.spaces.space import Point
from drbo.validation import FloatArray


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """Every outcome beside what the model predicts for it from all the others, in the user's units.

    Attributes
    ----------
    id : (t,) the results' `id`, in the order of `results`, without failures
    outcome : (t,) what came out
    mean, std : (t,) of the predicted outcome, noise included; hyper-parameters are those of all outcomes
    width : of the bounds mean -+ width * std
    """

    id: FloatArray
    outcome: FloatArray
    mean: FloatArray
    std: FloatArray
    width: float

    @property
    def inside(self) -> NDArray[np.bool_]:
        """Which outcomes lie within their bounds, (t,)."""
        return np.asarray(np.abs(self.outcome - self.mean) <= self.width * self.std)

    def __str__(self) -> str:
        count, missed = len(self.outcome), int((~self.inside).sum())
        if not count:
            return "no outcome has been told yet"
        return (
            f"{count - missed} of {count} outcomes lie within {self.width:.3g} standard deviations of what the model "
            "predicts for them from the others"
        )


@dataclass(frozen=True)
class Comparison:
    """How much better one action is than another, in the user's units: a larger outcome, or a smaller cost.

    Attributes
    ----------
    expected, lower, upper : the expected difference under the reference, and its bounds
    worst : a lower bound of the difference in the worst distribution of the set
    certified : whether `worst` is for the whole set. False where contexts have a range, or stand for many samples: it
        is then for distributions on the atoms alone
    """

    expected: float
    lower: float
    upper: float
    worst: float
    certified: bool


@dataclass(frozen=True, eq=False)
class Narrowing:
    """The worst-case bounds of one action after the first evaluations, in the user's units.

    Hyper-parameters and set are those of now, so that evaluations alone move the bounds.

    Attributes
    ----------
    evaluations : (k,) after how many evaluations, failed ones included, from 1 to all of them
    guarantee : (k,) what was guaranteed of the action in the worst distribution of the set
    optimistic : (k,) what it could at best still have turned out to have there
    """

    evaluations: NDArray[np.intp]
    guarantee: FloatArray
    optimistic: FloatArray


def narrowing(asked: Snapshot, action: Point, steps: int) -> Narrowing:
    """Return how the bounds of an action narrowed, after at most `steps` numbers of evaluations."""
    most = validation.whole_number("steps", steps, least=1, most=10_000)
    known, own, told = asked.known, asked.configuration, asked.state.told_so_far
    found = guaranteed(asked, action, asked.ball)
    ball = found.ball.extended(found.certificate.reference.points[len(found.ball.contexts) :])
    fit = known.fit(asked.state, fresh=True)
    belief = Belief.prior(own.surrogate, own.inputs, fit, ball.contexts, own.sign, own.widths)
    at = np.unique(np.linspace(1, len(told), most).round().astype(np.intp)) if told else np.empty(0, np.intp)
    values = np.empty((2, len(at), len(ball.weights)))
    for i, count in enumerate(at.tolist()):
        belief = belief.after(told[:count])
        width = known.width(belief, own.certificate_beta)
        for side, row in zip((LOWER, UPPER), values, strict=True):
            row[i] = Bound(belief.certain, width, side).of_action(action)
    lower, upper = ball.worst_cases(values[0]).lower_bound, ball.worst_cases(values[1]).expectation
    if len(at):
        lower[-1] = found.certificate.lower_bound  # that of now holds between the atoms, too
    outward = np.vectorize(belief.units.outward, otypes=[float])
    return Narrowing(at, outward(lower), outward(upper))


def leave_one_out(asked: Snapshot) -> LeaveOneOut:
    """Return every outcome beside its prediction from the others."""
    known, state = asked.known, asked.state
    belief = known.belief(state, fresh=True)
    told = [(id_, outcome) for id_, record in state.results.items() for outcome in record.outcomes]
    ids, outcomes = np.array([id_ for id_, _ in told]), np.array([outcome for _, outcome in told])
    require(belief.certain, (SupportsLeaveOneOut,), "leave_one_out", belief.surrogate)
    residual, variance = cast(SupportsLeaveOneOut, belief.certain).leave_one_out()
    units = belief.units
    width = known.width(belief, known.configuration.certificate_beta)
    return LeaveOneOut(
        id=ids,
        outcome=outcomes,
        mean=outcomes - units.sign * units.length_outward(1.0) * residual,
        std=units.length_outward(1.0) * np.sqrt(variance),
        width=width,
    )


def compare(asked: Snapshot, action: Point, other: Point) -> Comparison:
    """Return how much better an action is than another, in the set that is asked about."""
    ball = asked.ball
    bound, units = asked.lower(ball), asked.units
    require(bound.posterior, (SupportsCovariance,), "compare", asked.configuration.surrogate)
    posterior = cast(SupportsCovariance, bound.posterior)
    mean, variance = posterior.difference(action.coordinates[None, :], other.coordinates)
    half = bound.width * np.sqrt(variance[0])
    worst = ball.worst_case(mean[0] - half).lower_bound
    expected, lower, upper = (float(ball.weights @ values) for values in (mean[0], mean[0] - half, mean[0] + half))
    if not units.known:
        return Comparison(math.nan, -math.inf, math.inf, -math.inf, ball.on_atoms)
    return Comparison(
        expected=units.length_outward(expected),
        lower=units.length_outward(lower),
        upper=units.length_outward(upper),
        worst=units.length_outward(float(worst)),
        certified=ball.on_atoms,
    )
