"""Queries about the model: leave-one-out predictions, bounds over time, and comparisons of actions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from drbo import validation
from drbo._messages import printable
from drbo.knowledge.belief import OutcomeBelief
from drbo.knowledge.explanation import readable, wrapped
from drbo.knowledge.history import OBJECTIVE
from drbo.knowledge.snapshot import Snapshot
from drbo.models.bounds import LOWER, UPPER, Bound
from drbo.models.surrogate import (
    Posterior,
    SupportsCovariance,
    SupportsLeaveOneOut,
    SupportsManyOutcomes,
    of_action,
    require,
    supports,
)
from drbo.rounds.limits import in_unit
from drbo.spaces.space import Point
from drbo.validation import FloatArray


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """Every outcome and its leave-one-out prediction, in the user's units.

    Attributes
    ----------
    id : (t,) the results' `id`, in the order of `results`, without failures
    outcome : (t,) the outcomes
    mean, std : (t,) of the predicted outcome, noise included; hyper-parameters are learned from all outcomes
    width : the width of the bounds mean -+ width * std
    name : the name of the outcome; None for an objective without a name
    rows : (t,) the positions among all outcomes told
    told : the number of all outcomes told; larger than t if only some were predicted
    """

    id: FloatArray
    outcome: FloatArray
    mean: FloatArray
    std: FloatArray
    width: float
    name: str | None
    rows: NDArray[np.intp]
    told: int

    @property
    def inside(self) -> NDArray[np.bool_]:
        """Whether each outcome lies within its bounds, (t,)."""
        return np.asarray(np.abs(self.outcome - self.mean) <= self.width * self.std)

    def __str__(self) -> str:
        count, missed = len(self.outcome), int((~self.inside).sum())
        if not count:
            return (
                "no outcome has been told yet" if self.name is None else f"no value of {printable(self.name)} is told"
            )
        values = "outcomes" if self.name is None else f"values of {printable(self.name)}"
        some = f"{count:,} {values}, a sample of {self.told:,}," if count < self.told else f"{count} {values}"
        return (
            f"{count - missed:{',' if count < self.told else ''}} of {some} lie within {self.width:.3g} standard "
            "deviations of what the model predicts for them from the others"
        )


@dataclass(frozen=True)
class Comparison:
    """The advantage of one action over another, in the user's units: a larger outcome, or a smaller cost.

    Attributes
    ----------
    expected, lower, upper : the expected difference under the reference, and its bounds
    worst : a lower bound of the difference in the worst distribution of the set
    complete : whether `worst` covers the whole set. False if contexts have a range or were compressed: `worst` then
        covers distributions on the atoms alone
    untried : those of the two actions without an evaluation of them or near them, in the user's form; the difference
        is then a guess
    unit : of the outcome; None if not given
    """

    expected: float
    lower: float
    upper: float
    worst: float
    complete: bool
    untried: tuple[Any, ...] = ()
    unit: str | None = None

    def __str__(self) -> str:
        if math.isnan(self.expected):
            return "no outcome has been told, so nothing is known about the difference"
        size = in_unit(abs(self.worst), self.unit)
        worst = f"at least {size} better" if self.worst >= 0.0 else f"at most {size} worse"
        where = "" if self.complete else ", among the conditions that were compared"
        better = self.expected >= 0.0
        low, high = (self.lower, self.upper) if better else (-self.upper, -self.lower)
        difference = in_unit(abs(self.expected), self.unit)
        lines = [
            f"{'better' if better else 'worse'} by {difference} under the reference ({low:.4g} to {high:.4g})",
            f"in the worst distribution of the set {worst}{where}",
        ]
        if self.untried:
            untried = " and ".join(readable(action) for action in self.untried)
            lines.insert(0, f"extrapolated: no evaluation of {untried}, or of an action near it; this is a guess")
        return "\n".join(wrapped(line) for line in lines)

    __repr__ = __str__


@dataclass(frozen=True, eq=False)
class Narrowing:
    """The worst-case bounds of one action against the number of evaluations, in the user's units.

    Hyper-parameters and set are the present ones, so evaluations alone move the bounds.

    Attributes
    ----------
    evaluations : (k,) numbers of evaluations, failed ones included, from 1 to all of them
    bound : (k,) the bound of the model alone for the action, in the worst distribution of the set
    optimistic : (k,) the worst case of its upper confidence bound
    """

    evaluations: NDArray[np.intp]
    bound: FloatArray
    optimistic: FloatArray


def narrowing(asked: Snapshot, action: Point, steps: int, name: str = OBJECTIVE) -> Narrowing:
    """Return the bounds of an outcome for an action over time, at `steps` numbers of evaluations at most."""
    most = validation.whole_number("steps", steps, least=1, most=10_000)
    known, own, told = asked.known, asked.configuration, asked.state.told_so_far
    certificate = asked.ball.certificate(asked.lower(asked.ball, name), action)
    ball = asked.ball.extended(certificate.reference.points[len(asked.ball.contexts) :])
    fit = known.fit(asked.state, name, fresh=True)
    others = [one.fit for one in known.models(asked.state, name, fit, ball.contexts)]
    belief, models = OutcomeBelief.prior(own, name, fit, ball.contexts), list[Posterior | None]([None] * len(others))
    at = np.unique(np.linspace(1, len(told), most).round().astype(np.intp)) if told else np.empty(0, np.intp)
    values = np.empty((2, len(at), len(ball.weights)))
    for i, count in enumerate(at.tolist()):
        belief = belief.after(told[:count])
        posteriors = [belief.by(one, last).certain for one, last in zip(others, models, strict=True)]
        models = [*posteriors]
        width = known.bound_width(asked.state, belief)
        moments = [of_action(one, action) for one in (belief.certain, *posteriors)]
        for side, row in zip((LOWER, UPPER), values, strict=True):
            row[i] = Bound(belief.certain, width, side).outermost(moments)
    lower, upper = ball.worst_cases(values[0]).lower_bound, ball.worst_cases(values[1]).expectation
    if len(at):
        lower[-1] = certificate.lower_bound  # the present bound also covers contexts between the atoms
    stated = np.vectorize(belief.units.stated, otypes=[float])
    return Narrowing(at, stated(lower), stated(upper))


def leave_one_out(asked: Snapshot, name: str = OBJECTIVE, most: int | None = None) -> LeaveOneOut:
    """Return every value of an outcome and its prediction from the others; about `most` if each costs much."""
    known, state = asked.known, asked.state
    belief = known.belief(state, name=name, fresh=True)
    results = [(id_, record) for id_, record in state.results.items() if name in record.outcomes]
    told = [(id_, outcome) for id_, record in results for outcome in record.outcomes[name].values]
    ids, outcomes = np.array([id_ for id_, _ in told]), np.array([outcome for _, outcome in told])
    require(belief.certain, (SupportsLeaveOneOut,), "leave_one_out", belief.outcome.surrogate)
    if most is not None and supports(belief.certain, SupportsManyOutcomes):
        residual, variance = belief.certain.leave_one_out(most)
    else:
        residual, variance = cast(SupportsLeaveOneOut, belief.certain).leave_one_out()
    rows = np.flatnonzero(~np.isnan(variance))
    units = belief.units
    width = known.bound_width(state, belief)
    return LeaveOneOut(
        id=ids[rows],
        outcome=outcomes[rows],
        mean=outcomes[rows] - units.sign * units.length_outward(1.0) * residual[rows],
        std=units.length_outward(1.0) * np.sqrt(variance[rows]),
        width=width,
        name=None if name == OBJECTIVE and "outcome" not in asked.configuration.arguments else belief.outcome.name,
        rows=rows,
        told=len(outcomes),
    )


def compare(asked: Snapshot, action: Point, other: Point, name: str = OBJECTIVE) -> Comparison:
    """Return the advantage of an action over another in an outcome, in the set of the query."""
    ball = asked.ball
    bound, units = asked.lower(ball, name), asked.units_of(name)
    require(bound.posterior, (SupportsCovariance,), "compare", asked.configuration.outcomes[name].surrogate)
    x, y = action.coordinates[None, :], other.coordinates
    below, above = bound.difference(x, y)[0], asked.upper(ball, name).difference(x, y)[0]
    mean, _ = cast(SupportsCovariance, bound.posterior).difference(x, y)
    worst = ball.worst_case(below).lower_bound
    expected, lower, upper = (float(ball.weights @ values) for values in (mean[0], below, above))
    evaluations = asked.evaluations(name)
    untried = tuple(asked.actions.decode(one) for one in (action, other) if not len(evaluations.near(one.coordinates)))
    unit = asked.configuration.outcomes[name].unit
    if not units.known:
        return Comparison(math.nan, -math.inf, math.inf, -math.inf, ball.on_atoms, untried, unit)
    widest = units.most - units.least  # two expectations of a declared range are not further apart

    def stated(difference: float) -> float:
        return min(max(units.length_outward(difference), -widest), widest)

    return Comparison(
        expected=stated(expected),
        lower=stated(lower),
        upper=stated(upper),
        worst=stated(float(worst)),
        complete=ball.on_atoms,
        untried=untried,
        unit=unit,
    )
