"""Worst-case probabilities of events, and worst-case quantiles.

The bounds must hold in all contexts at once. Those of Lemma 1 do so as they are. Other bounds are widened for the
number of contexts (`drbo.models.bounds.simultaneous`), and of actions if a statement is about several of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from drbo import validation
from drbo.analysis.answers import (
    Certainty,
    Classification,
    NotReachedError,
    Probability,
    ValueAtRisk,
)
from drbo.knowledge import claims
from drbo.knowledge.history import OBJECTIVE
from drbo.knowledge.snapshot import Snapshot
from drbo.models.bounds import LOWER, UPPER, simultaneous
from drbo.models.data import Units
from drbo.rounds.chance import Bracket, Chance, Event, Of, check_atoms, of_candidates, worst_quantile
from drbo.rounds.search import Candidates, FewCandidates
from drbo.spaces.space import Point


def probability(asked: Snapshot, action: Point, event: Event, name: str = OBJECTIVE) -> Probability:
    """Return the worst-case probability of an event of an outcome for an action."""
    width = _width(asked, name=name)
    found = _bracket(asked, width, event, FewCandidates.of([action]), name)
    return Probability(
        event=event,
        lower=float(found.lower[0]),
        upper=max(float(found.upper[0]), float(found.lower[0])),
        weights=validation.frozen(found.weights[0]),
        contexts=asked.nature.decode_all(asked.ball.reference),
        certainty=_certainty(asked, width, event.of, name),
    )


def _width(asked: Snapshot, n_actions: int = 1, name: str = OBJECTIVE) -> float:
    """Return the width of bounds that hold for `n_actions` actions in all contexts at once; contexts must be atoms."""
    check_atoms(asked.ball)
    beliefs = asked.beliefs(asked.ball, name)
    if not beliefs.units.known:
        raise NotReachedError("no bound is known: the model has seen no outcome yet")
    one = beliefs.bound_width
    if asked.configuration.outcomes[name].bound_beta.proven:
        return one
    return simultaneous(one, n_actions * len(np.unique(asked.ball.contexts, axis=0)))


def _certainty(asked: Snapshot, width: float, of: Of, name: str = OBJECTIVE) -> Certainty:
    """Return the basis of bounds of a width."""
    own, ball = asked.configuration.outcomes[name], asked.ball
    beta = own.bound_beta
    claim = claims.everywhere(own.surrogate, beta, noisy=of == "outcome")
    return Certainty(ball.radius, ball.words, width, asked.configuration.delta if beta.proven else None, claim)


def _bracket(asked: Snapshot, width: float, event: Event, candidates: Candidates, name: str = OBJECTIVE) -> Bracket:
    """Return the worst-case probabilities of an event for candidates."""
    ball, beliefs = asked.ball, asked.beliefs(asked.ball, name)
    in_model = event.in_model(beliefs.units, beliefs.certain(ball))
    found = of_candidates(ball, in_model, lambda side: beliefs.bound(ball, side, width), candidates)
    settled = _by_range(event, beliefs.units)
    if settled is None:
        return found
    return replace(found, lower=np.full_like(found.lower, settled), upper=np.full_like(found.upper, settled))


def _by_range(event: Event, units: Units) -> float | None:
    """Return the probability of an event that the declared range of outcomes settles; None if it does not."""
    if event.above is not None:
        return 1.0 if event.above < units.least else 0.0 if event.above > units.most else None
    assert event.below is not None  # one of them is given
    return 1.0 if event.below > units.most else 0.0 if event.below < units.least else None


def value_at_risk(asked: Snapshot, action: Point, level: float, of: Of, name: str = OBJECTIVE) -> ValueAtRisk:
    """Return the value that an action reaches with a probability of at least 1 - level in the worst distribution."""
    if of not in ("f", "outcome"):
        raise ValueError(f'of must be "f" or "outcome", got {of!r}')
    share = 1.0 - validation.probability("level", level)
    width, ball, units = _width(asked, name=name), asked.ball, asked.units_of(name)
    beliefs = asked.beliefs(ball, name)
    noise = 0.0 if of == "f" else beliefs.certain(ball).noise
    low, high = (beliefs.bound(ball, side, width).of_action(action) for side in (LOWER, UPPER))
    least = worst_quantile(ball, low, share, noise, certified=True)
    most = max(worst_quantile(ball, high, share, noise, certified=False), least)
    return ValueAtRisk(
        level=float(level),
        of=of,
        value=units.stated(least),
        reachable=units.stated(most),
        maximize=asked.configuration.outcomes[name].sign > 0.0,
        certainty=_certainty(asked, width, of, name),
    )


def classify(asked: Snapshot, chance: Chance, actions: Any) -> Classification:
    """Return the classification of actions by a chance constraint; the default is all actions of a finite set."""
    wanted, points = checked_chance("chance", chance), _points(asked, actions)
    width = _width(asked, len(points))
    found = _bracket(asked, width, wanted.event, FewCandidates.of(points))
    return Classification(
        chance=wanted,
        actions=tuple(asked.actions.decode(action) for action in points),
        lower=validation.frozen(found.lower),
        upper=validation.frozen(np.maximum(found.upper, found.lower)),
        certainty=_certainty(asked, width, wanted.of),
    )


def _points(asked: Snapshot, actions: Any) -> list[Point]:
    """Return the actions to classify."""
    search = asked.configuration.search
    if actions is None:
        if not search.exhaustive:
            raise TypeError("actions must be given where they are a box: a table of those to classify")
        every = search.candidates(asked.rows([]), 0)
        return [every.point(row) for row in range(len(every.points))]
    return asked.table_of_actions(actions)


def checked_chance(name: str, chance: Any) -> Chance:
    """Return a chance constraint; raise if it is anything else."""
    if not isinstance(chance, Chance):
        raise TypeError(f"{name} must be a drbo.Chance, such as Chance(0.9, above=2.0), got {chance!r}")
    return chance
