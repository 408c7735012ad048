"""What follows from the facts at once: what is pending, what was seen, and which iterate leads."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from drbo import validation
from drbo.knowledge.history import Amended, Asked, Cancelled, Proposal, Retracted, Told
from drbo.models.observation import Observation
from drbo.models.outcomes import Outcomes
from drbo.models.surrogate import Fit
from drbo.models.units import Units
from drbo.spaces.samples import Samples
from drbo.spaces.space import Point

_FURTHER = 64
"""How many contexts that the adversary asked for are kept as atoms, the latest ones."""
_ROUNDING = 1e-9
"""Actions of a box that differ by no more in any coordinate are the same."""


@dataclass(frozen=True, eq=False)
class Terms:
    """What a caller gave with a round: a reference, a radius, and what is known of the context; None if not."""

    reference: Any = None
    radius: Any = None
    given: Mapping[Any, Any] | None = None

    def same_as(self, other: Terms) -> bool:
        """Return whether these are the very same values, as where a caller gave nothing."""
        return self.reference is other.reference and self.radius is other.radius and self.given is other.given


def kept(reference: Any, name: str = "reference") -> Any:
    """Return a reference as it is kept with the facts: weights of any kind as an array that nobody can change."""
    named = validation.by_name(reference)
    if isinstance(named, Mapping):
        return dict(named)
    if reference is None or isinstance(reference, Samples | str):
        return reference  # what a setting of one's own makes of it is its own affair
    return validation.frozen(validation.finite_array(name, reference))


@dataclass(frozen=True, eq=False)
class Iterate:
    """A suggestion and the set of its round: what was given with it, and which contexts had been seen.

    `given` is what was known of the context before the choice, None if nothing was. `seen` is a list that only grows: a
    correction of what was told makes a new one. The first `n_seen` of it had been seen at the time of the suggestion.
    """

    proposal: Proposal
    reference: Any
    given: Mapping[Any, Any] | None
    seen: list[Point]
    n_seen: int


class State:
    """The bookkeeping of the facts so far. It may be thrown away at any moment and made anew.

    Attributes
    ----------
    n_asked : how many suggestions there have been
    pending : those that are neither told nor cancelled, by number
    results : what was told and not retracted, as amended, by its number
    told_so_far : the same, in order
    corrections : how many results were retracted or amended
    n_outcomes : how many of them have an outcome
    failed : the actions that failed, each once, by what tells them apart
    seen : the contexts that nature drew, in order
    fit, fit_corrections : the hyper-parameters recorded last, and how many corrections there had been by then
    further : (k, d) the contexts that the adversary asked for
    terms : reference, radius and the known part of the context of the last ask, as they were given
    spent : what all suggestions that were not cancelled may lose against the baseline, in the user's units
    incumbent : the iterate of the largest guarantee at its own time (eq. 10) that has not failed
    """

    def __init__(self, fit: Fit, sign: float, d_c: int) -> None:
        self.n_asked = 0
        self.pending: dict[int, Iterate] = {}
        self.results: dict[int, Told] = {}
        self.told_so_far: list[Told] = []
        self.corrections = 0
        self.n_outcomes = 0
        self.failed: dict[tuple[int | None, bytes], Point] = {}
        self.seen: list[Point] = []
        self.fit = fit
        self.fit_corrections = 0
        self.further = np.empty((0, d_c))
        self.terms = Terms()
        self.spent = 0.0
        self.incumbent: Iterate | None = None
        self._sign = sign
        self._iterates: list[Iterate] = []
        self._answered: set[int] = set()
        self._n_results = 0

    def copy(self) -> State:
        """Return the bookkeeping of now, which later facts do not reach."""
        twin = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, dict | list | set):
                setattr(twin, name, value.copy())
        return twin

    def asked(self, record: Asked) -> None:
        """Take note of suggestions."""
        if record.fit is not None:
            self.fit, self.fit_corrections = record.fit, self.corrections
        terms = self.terms = Terms(record.reference, record.radius, record.given)
        seen = self._seen_without(record.awaited) if record.awaited else self.seen
        for proposal in record.proposals:
            if proposal.number in self.pending:
                raise ValueError(f"suggestion {proposal.number} is made twice")
            iterate = Iterate(proposal, terms.reference, terms.given, seen, len(seen))
            self.pending[proposal.number] = iterate
            self.spent += proposal.loss
            self._consider(iterate)
            self.n_asked = proposal.number + 1
            if len(proposal.further):
                self.further = validation.frozen(np.concatenate([self.further, proposal.further])[-_FURTHER:])

    def iterate(self, proposal: Proposal, terms: Terms) -> Iterate:
        """Return a suggestion with the set of its round, which is the present one."""
        return Iterate(proposal, terms.reference, terms.given, self.seen, len(self.seen))

    def _seen_without(self, awaited: Sequence[int]) -> list[Point]:
        """Return the contexts that nature drew, without those of some results."""
        known = [record for record in self.told_so_far if record.number not in awaited]
        return [context for record in known for context in record.seen]

    def told(self, record: Told) -> None:
        """Take note of a result."""
        if record.number is not None:
            self._answer(record.number)
        self.results[self._n_results] = record
        self._n_results += 1
        self.told_so_far.append(record)
        self.n_outcomes += len(record.outcomes)
        self.seen.extend(record.seen)
        if record.failed:
            self.failed[_key(record.action)] = record.action
            if self.incumbent is not None and self._has_failed(self.incumbent.proposal.action):
                self._choose_incumbent()

    def retracted(self, record: Retracted) -> None:
        """Take note of a result that was a mistake."""
        self._told(record.result)
        del self.results[record.result]
        self._correct()

    def amended(self, record: Amended) -> None:
        """Take note of a result that was corrected."""
        old = self._told(record.result)
        self.results[record.result] = replace(
            old,
            contexts=record.contexts,
            outcomes=record.outcomes,
            stderrs=record.stderrs,
            weights=record.weights,
        )
        self._correct()

    def _told(self, number: int) -> Told:
        """Return a result that was told and not retracted."""
        if number not in self.results:
            raise ValueError(f"result {number} is corrected, but is not there")
        return self.results[number]

    def _correct(self) -> None:
        """Draw the consequences of the results anew."""
        self.corrections += 1
        self.told_so_far = list(self.results.values())
        self.n_outcomes = sum(len(record.outcomes) for record in self.told_so_far)
        self.failed = {_key(record.action): record.action for record in self.told_so_far if record.failed}
        self.seen = [context for record in self.told_so_far for context in record.seen]
        self._choose_incumbent()

    def _choose_incumbent(self) -> None:
        """Choose the leading iterate anew."""
        self.incumbent = None
        iterates, self._iterates = self._iterates, []
        for iterate in iterates:
            self._consider(iterate)

    def cancelled(self, record: Cancelled) -> None:
        """Take note of a suggestion that will not be evaluated."""
        if record.number not in self.pending:
            raise ValueError(f"suggestion {record.number} is cancelled, but was not pending")
        self.spent -= self.pending[record.number].proposal.loss
        self._answer(record.number)

    def _answer(self, number: int) -> None:
        """Take a suggestion from those that are pending. Others may have told of one that was never asked for here."""
        if number in self._answered:
            raise ValueError(f"suggestion {number} is told or cancelled twice")
        self._answered.add(number)
        self.pending.pop(number, None)

    def _consider(self, iterate: Iterate) -> None:
        """Let an iterate lead if its guarantee is the largest so far; the first of equals leads."""
        self._iterates.append(iterate)
        if self._has_failed(iterate.proposal.action):
            return
        best = self.incumbent
        if best is None or self._sign * iterate.proposal.guarantee > self._sign * best.proposal.guarantee:
            self.incumbent = iterate

    def _has_failed(self, action: Point) -> bool:
        """Return whether an action failed; a user who tells it by its value may be off by rounding."""
        if _key(action) in self.failed:
            return True
        if action.index is not None:
            return False
        failed = (other for other in self.failed.values() if other.index is None)
        return any(float(np.abs(other.coordinates - action.coordinates).max()) <= _ROUNDING for other in failed)

    # --- what a model learns from -----------------------------------------------------------------------------------

    def outcomes(self) -> Outcomes:
        """Return the outcomes of what did not fail, maximised."""
        return outcomes_of(self.told_so_far, Units(self._sign))

    @property
    def failed_pairs(self) -> list[tuple[Point, Point]]:
        """The evaluations that failed: an action, and each of the contexts of the evaluation."""
        failed = [record for record in self.told_so_far if record.failed] if self.failed else []
        return [(record.action, context) for record in failed for context in record.contexts]

    @property
    def under_way(self) -> list[Point]:
        """The actions that are pending or failed."""
        return [*self.failed.values(), *(iterate.proposal.action for iterate in self.pending.values())]


def _key(action: Point) -> tuple[int | None, bytes]:
    return action.index, action.coordinates.tobytes()


def outcomes_of(told: Sequence[Told], units: Units) -> Outcomes:
    """Return the outcomes of all results that did not fail, in the model's units; there must be one.

    The context of every one must be known.
    """
    rows = [
        (
            record.action.coordinates,
            context.coordinates,
            units.inward(outcome),
            math.nan if stderr is None else units.length_inward(stderr),
            i,
        )
        for i, record in enumerate(told)
        if not record.failed
        for context, outcome, stderr in _outcomes(record)
    ]
    x, c, y, stderrs, evaluation = (np.array(column) for column in zip(*rows, strict=True))
    return Outcomes(x, c, y, stderrs, evaluation.astype(np.intp))


def observations(record: Told, units: Units) -> list[Observation]:
    """Return what a model learns from a result; a failure stands for its posterior mean, which shrinks the variance."""
    x = record.action.coordinates
    if record.hidden:
        points, weights = np.array([c.coordinates for c in record.contexts]), np.array(record.weights)
        (outcome,), stderr = record.outcomes, record.stderrs[0] if record.stderrs else None
        noise = None if stderr is None else units.length_inward(stderr)
        return [Observation(x, points, weights, units.inward(outcome), noise)]
    last = len(record.contexts) - 1
    if record.failed:
        return [Observation.of(x, c.coordinates, None, before=j, after=last - j) for j, c in enumerate(record.contexts)]
    return [
        Observation.of(
            x,
            context.coordinates,
            units.inward(outcome),
            None if stderr is None else units.length_inward(stderr),
            before=j,
            after=last - j,
        )
        for j, (context, outcome, stderr) in enumerate(_outcomes(record))
    ]


def _outcomes(record: Told) -> Iterator[tuple[Point, float, float | None]]:
    """Return each context of a result with its outcome and its standard error, None if that is not known."""
    stderrs = record.stderrs or (None,) * len(record.outcomes)
    return zip(record.contexts, record.outcomes, stderrs, strict=True)
