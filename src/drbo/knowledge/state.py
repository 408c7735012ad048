"""The state after each fact: pending suggestions, results, seen contexts and the incumbent."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from drbo import validation
from drbo._fast_record import fast_record
from drbo.knowledge.history import Amended, Asked, Cancelled, Fact, Proposal, Retracted, Told
from drbo.models.data import Observation, Outcomes, Units
from drbo.models.surrogate import Fit
from drbo.spaces.samples import Samples
from drbo.spaces.space import Point

_FURTHER = 64
"""Largest number of the adversary's contexts that are kept as atoms; the latest ones stay."""
_ROUNDING = 1e-9
"""Largest difference per coordinate between equal actions of a box."""


@fast_record
class Terms:
    """The arguments of a round: reference, radius and the known part of the context; None if not given."""

    reference: Any = None
    radius: Any = None
    given: Mapping[Any, Any] | None = None

    def same_as(self, other: Terms) -> bool:
        """Return whether the values are identical objects, as for two calls without arguments."""
        return self.reference is other.reference and self.radius is other.radius and self.given is other.given


NO_TERMS = Terms()


def kept(reference: Any, name: str = "reference") -> Any:
    """Return a reference in the form of the facts: weights become a read-only array."""
    named = validation.by_name(reference)
    if isinstance(named, Mapping):
        return dict(named)
    if reference is None or isinstance(reference, Samples | str):
        return reference  # a user's setting interprets it
    return validation.frozen(validation.finite_array(name, reference))


@fast_record
class Iterate:
    """A suggestion and the set of its round: the arguments of the ask and the contexts seen by then.

    `given` is the known part of the context, None if nothing was known. `seen` is an append-only list; a correction of
    a result makes a new list. Its first `n_seen` contexts had been seen at the time of the suggestion.
    """

    proposal: Proposal
    reference: Any
    given: Mapping[Any, Any] | None
    seen: list[Point]
    n_seen: int


class State:
    """The state after the facts so far; it can be rebuilt from them.

    Attributes
    ----------
    n_facts : number of facts
    n_asked : number of suggestions
    pending : the suggestions that are neither told nor cancelled, by number
    results : the results that were not retracted, as amended, by number
    told_so_far : the same results in order
    corrections : number of retractions and amendments
    counts : number of values of each outcome, by name
    n_failed : number of results that failed
    failed : the distinct actions that failed and have no outcome, by key
    seen : the contexts that nature drew, in order
    fits, fit_corrections : the last recorded hyper-parameters by outcome, and the number of corrections at that time
    further : (k, d) the contexts that the adversary added
    terms : reference, radius and the known part of the context of the last ask
    spent : the largest total loss against the baseline of all suggestions not cancelled, in the user's units
    incumbent : the iterate with the largest bound at the time of its ask (eq. 10), without the actions of `failed`
    """

    def __init__(self, fits: Mapping[str, Fit], sign: float, d_c: int) -> None:
        self.n_facts = 0
        self.n_asked = 0
        self.pending: dict[int, Iterate] = {}
        self.results: dict[int, Told] = {}
        self.told_so_far: list[Told] = []
        self.corrections = 0
        self.counts = dict.fromkeys(fits, 0)
        self.n_failed = 0
        self.failed: dict[bytes, Point] = {}
        self._worked: dict[bytes, Point] = {}
        self.seen: list[Point] = []
        self.fits = dict(fits)
        self.fit_corrections = dict.fromkeys(fits, 0)
        self.further = np.empty((0, d_c))
        self.terms = NO_TERMS
        self.spent = 0.0
        self.incumbent: Iterate | None = None
        self._sign = sign
        self._iterates: list[Iterate] = []
        self._answered: set[int] = set()
        self._n_results = 0

    def copy(self) -> State:
        """Return a copy that later facts do not change."""
        twin = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, dict | list | set):
                setattr(twin, name, value.copy())
        return twin

    def apply(self, fact: Fact) -> None:
        """Apply a fact."""
        match fact:
            case Asked():
                self._asked(fact)
            case Told():
                self._told(fact)
            case Cancelled():
                self._cancelled(fact)
            case Retracted():
                self._retracted(fact)
            case Amended():
                self._amended(fact)

    def _asked(self, record: Asked) -> None:
        """Apply new suggestions."""
        for name, fit in record.fits.items():
            if name not in self.counts:
                raise _unknown(name)
            self.fits[name], self.fit_corrections[name] = fit, self.corrections
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

    def _seen_without(self, awaited: Sequence[int]) -> list[Point]:
        """Return the contexts that nature drew, without those of the awaited results: mostly the last ones."""
        left, behind = self._answered.intersection(awaited), len(self.seen)
        known: list[tuple[Point, ...]] = []
        for record in reversed(self.told_so_far):
            if not (left and behind):
                break
            behind -= len(record.seen)
            if record.number in left:
                left.remove(record.number)
            else:
                known.append(record.seen)
        return self.seen[:behind] + [context for contexts in reversed(known) for context in contexts]

    def _told(self, record: Told) -> None:
        """Apply a result."""
        if record.number is not None:
            self._answer(record.number)
        self.results[self._n_results] = record
        self._n_results += 1
        self.told_so_far.append(record)
        self.seen.extend(record.seen)
        if self._note(record):
            self._choose_incumbent()

    def _note(self, record: Told) -> bool:
        """Count the values of a result, note whether its action worked; return whether the incumbent may change."""
        for name, one in record.outcomes.items():
            if name not in self.counts:
                raise _unknown(name)
            self.counts[name] += len(one.values)
        action = record.action
        self.n_failed += record.failed
        if not record.failed:
            self._worked[_key(action)] = action
            bad = [key for key, other in self.failed.items() if _same(other, action)] if self.failed else []
            for key in bad:
                del self.failed[key]
            return bool(bad)
        if _is_among(action, self._worked):
            return False
        self.failed[_key(action)] = action
        return self.incumbent is not None and _same(self.incumbent.proposal.action, action)

    def _retracted(self, record: Retracted) -> None:
        """Apply a retracted result."""
        self._result(record.result)
        del self.results[record.result]
        self._correct()

    def _amended(self, record: Amended) -> None:
        """Apply an amended result."""
        old = self._result(record.result)
        self.results[record.result] = replace(
            old,
            contexts=record.contexts,
            outcomes=record.outcomes,
            weights=record.weights,
        )
        self._correct()

    def _result(self, number: int) -> Told:
        """Return a result that was not retracted."""
        if number not in self.results:
            raise ValueError(f"result {number} is corrected, but does not exist")
        return self.results[number]

    def _correct(self) -> None:
        """Recompute the state that depends on the results."""
        self.corrections += 1
        self.told_so_far = list(self.results.values())
        self.counts = dict.fromkeys(self.counts, 0)
        self.n_failed, self.failed, self._worked = 0, {}, {}
        for record in self.told_so_far:
            self._note(record)
        self.seen = [context for record in self.told_so_far for context in record.seen]
        self._choose_incumbent()

    def _choose_incumbent(self) -> None:
        """Recompute the incumbent."""
        self.incumbent = None
        iterates, self._iterates = self._iterates, []
        for iterate in iterates:
            self._consider(iterate)

    def _cancelled(self, record: Cancelled) -> None:
        """Apply a cancelled suggestion."""
        if record.number not in self.pending:
            raise ValueError(f"suggestion {record.number} is cancelled, but was not pending")
        self.spent -= self.pending[record.number].proposal.loss
        self._answer(record.number)

    def _answer(self, number: int) -> None:
        """Remove a suggestion from the pending ones; another worker may have asked for it."""
        if number in self._answered:
            raise ValueError(f"suggestion {number} is told or cancelled twice")
        self._answered.add(number)
        self.pending.pop(number, None)

    def _consider(self, iterate: Iterate) -> None:
        """Make an iterate the incumbent if its bound is the largest so far; the first wins ties."""
        self._iterates.append(iterate)
        if self.failed and _is_among(iterate.proposal.action, self.failed):
            return
        best = self.incumbent
        if best is None or self._sign * iterate.proposal.bound > self._sign * best.proposal.bound:
            self.incumbent = iterate

    def incumbent_among(self, permitted: Callable[[Iterate], bool]) -> Iterate | None:
        """Return the best of the permitted iterates: the incumbent, as a rule; None if there is none."""
        if self.incumbent is None or permitted(self.incumbent):
            return self.incumbent
        left = [one for one in self._iterates if not _is_among(one.proposal.action, self.failed) and permitted(one)]
        return max(left, key=lambda one: self._sign * one.proposal.bound, default=None)

    # --- the data of the model --------------------------------------------------------------------------------------

    @property
    def failed_pairs(self) -> list[tuple[Point, Point]]:
        """The failed evaluations: pairs of an action and each of its contexts."""
        failed = [record for record in self.told_so_far if record.failed] if self.n_failed else []
        return [(record.action, context) for record in failed for context in record.contexts]

    def evaluated(self, pending: Sequence[Iterate] = (), *, of: str | None = None) -> list[tuple[Point, Point]]:
        """Return action and context of all results with a value of the outcome `of`, and of pending suggestions."""
        records = [one for one in self.told_so_far if not one.hidden and (of is None or of in one.outcomes)]
        told = [(one.action, context) for one in records for context in one.contexts]
        return told + [(one.proposal.action, context) for one in pending for context in one.proposal.contexts]

    @property
    def largest_radius(self) -> float:
        """The largest radius of a suggestion so far; infinite if there was none, as for a log."""
        radii = [iterate.proposal.radius for iterate in self._iterates]
        return max((radius for radius in radii if not math.isnan(radius)), default=math.inf)


def _unknown(name: str) -> ValueError:
    """Return the error of a fact whose outcome is not one of the optimizer's."""
    return ValueError(f"it holds the outcome {name!r}, which the optimizer does not have")


def _key(action: Point) -> bytes:
    """Return the bits of an action; a finite set may hold the same action twice."""
    return action.coordinates.tobytes()


def _same(action: Point, other: Point) -> bool:
    """Return whether two actions are equal; values told by a user may differ by rounding."""
    if action.index is not None or other.index is not None:
        return _key(action) == _key(other)
    return float(np.abs(other.coordinates - action.coordinates).max()) <= _ROUNDING


def _is_among(action: Point, others: Mapping[bytes, Point]) -> bool:
    """Return whether an action is one of the others, by key."""
    if _key(action) in others:
        return True
    return action.index is None and any(_same(action, other) for other in others.values())


def values_of(told: Sequence[Told], name: str, units: Units, first: int = 0) -> Outcomes:
    """Return all values of an outcome from result `first` on, in the model's units; none may be hidden."""
    rows = [
        (
            record.action.coordinates,
            context.coordinates,
            units.inward(outcome),
            math.nan if stderr is None else units.length_inward(stderr),
            i,
        )
        for i, record in enumerate(told, first)
        if name in record.outcomes
        for context, outcome, stderr in _readings(record, name)
    ]
    x, c, y, stderrs, evaluation = (np.array(column) for column in zip(*rows, strict=True))
    return Outcomes(x, c, y, stderrs, evaluation.astype(np.intp))


def observations(record: Told, name: str, units: Units) -> list[Observation]:
    """Return the observations of an outcome in a result; a failure counts as its posterior mean."""
    x = record.action.coordinates
    if not record.failed and name not in record.outcomes:
        return []
    if record.weights:  # the context is hidden
        points, weights = np.array([c.coordinates for c in record.contexts]), np.array(record.weights)
        found = record.outcomes[name]
        (outcome,), stderr = found.values, found.stderrs[0] if found.stderrs else None
        noise = None if stderr is None else units.length_inward(stderr)
        return [Observation(x, points, weights, units.inward(outcome), noise)]
    last = len(record.contexts) - 1
    if record.failed:
        return [Observation.of(x, c.coordinates, None, before=j, after=last - j) for j, c in enumerate(record.contexts)]
    made: list[Observation] = []
    for j, (context, outcome, stderr) in enumerate(_readings(record, name)):
        noise = None if stderr is None else units.length_inward(stderr)
        made.append(Observation.of(x, context.coordinates, units.inward(outcome), noise, j, last - j))
    return made


def _readings(record: Told, name: str) -> Iterator[tuple[Point, float, float | None]]:
    """Yield each context of a result with the outcome's value and its standard error, None if unknown."""
    found = record.outcomes[name]
    stderrs = found.stderrs or (None,) * len(found.values)
    return zip(record.contexts, found.values, stderrs, strict=True)
