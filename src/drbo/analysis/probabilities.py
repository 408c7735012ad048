"""How likely a threshold is exceeded under the worst distribution, and what is reached with a probability.

Bounds hold in all contexts at once. Those of Lemma 1 do as they are; the width of others is made larger by the number
of contexts (`drbo.models.bounds.simultaneous`), and of actions where a statement is about several of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drbo import validation
from drbo.analysis.answers import Certainty, Classification, NotCertifiedError, Probability, ValueAtRisk
from drbo.analysis.recommend import Guaranteed, guaranteed
from drbo.knowledge import claims
from drbo.knowledge.knowledge import Knowledge
from drbo.knowledge.state import State, Terms
from drbo.models.bounds import LOWER, UPPER, Bound, simultaneous
from drbo.models.surrogate import Posterior
from drbo.models.units import Units
from drbo.rounds.ball import Ball
from drbo.rounds.chance import Bracket, Chance, Event, Of, check_atoms, of_candidates, worst_quantile
from drbo.rounds.floors import FewCandidates
from drbo.rounds.search import Candidates, Found
from drbo.spaces.space import Point


@dataclass(frozen=True, eq=False)
class _Question:
    """A round whose contexts are all atoms, and bounds that hold in `count` places at once."""

    ball: Ball
    posterior: Posterior
    units: Units
    width: float
    certificate_width: float
    given: Mapping[Any, Any] | None

    @classmethod
    def of(cls, known: Knowledge, state: State, terms: Terms, n_actions: int = 1) -> _Question:
        ball = known.ball(state, terms)
        check_atoms(ball)
        beliefs = known.certifying(state, ball)
        if not beliefs.units.known:
            raise NotCertifiedError("nothing is certified: the model has seen no outcome yet")
        one, beta = beliefs.certificate_width, known.configuration.certificate_beta
        places = n_actions * len(np.unique(ball.contexts, axis=0))
        width = one if beta.proven else simultaneous(one, places)
        return cls(ball, beliefs.certain(ball), beliefs.units, width, one, terms.given)

    def certainty(self, known: Knowledge, of: Of) -> Certainty:
        """Return what the answer rests on."""
        own = known.configuration
        beta = own.certificate_beta
        claim = claims.everywhere(own.surrogate, beta, noisy=of == "outcome")
        return Certainty(self.ball.radius, self.ball.words, self.width, beta.delta if beta.proven else None, claim)

    def bracket(self, event: Event, candidates: Candidates) -> Bracket:
        """Return the worst-case probabilities of an event for candidates."""
        inner = event.within(self.units, self.posterior)
        return of_candidates(self.ball, inner, self.posterior, self.width, candidates)


def probability(known: Knowledge, state: State, action: Point, event: Event, terms: Terms) -> Probability:
    """Return the worst-case probability of an event for an action."""
    return _probability(known, _Question.of(known, state, terms), action, event)


def _probability(known: Knowledge, asked: _Question, action: Point, event: Event) -> Probability:
    found = asked.bracket(event, FewCandidates.of([action]))
    return Probability(
        event=event,
        lower=float(found.lower[0]),
        upper=max(float(found.upper[0]), float(found.lower[0])),
        weights=validation.frozen(found.weights[0]),
        contexts=known.nature(asked.given).decode_all(asked.ball.reference),
        certainty=asked.certainty(known, event.of),
    )


def value_at_risk(known: Knowledge, state: State, action: Point, level: float, of: Of, terms: Terms) -> ValueAtRisk:
    """Return what an action reaches with a probability of at least 1 - level in the worst distribution."""
    if of not in ("f", "outcome"):
        raise ValueError(f'of must be "f" or "outcome", got {of!r}')
    share = 1.0 - validation.probability("level", level)
    asked = _Question.of(known, state, terms)
    noise = 0.0 if of == "f" else asked.posterior.noise
    low, high = (Bound(asked.posterior, asked.width, side).of_action(action) for side in (LOWER, UPPER))
    least = worst_quantile(asked.ball, low, share, noise, certified=True)
    most = max(worst_quantile(asked.ball, high, share, noise, certified=False), least)
    own = asked.units
    return ValueAtRisk(
        level=float(level),
        of=of,
        guaranteed=own.outward(least),
        reachable=own.outward(most),
        maximize=known.configuration.maximize,
        certainty=asked.certainty(known, of),
    )


def classify(known: Knowledge, state: State, chance: Chance, actions: Sequence[Point], terms: Terms) -> Classification:
    """Return which actions meet a chance constraint."""
    if not actions:
        raise ValueError("actions must hold at least one action to classify, got none")
    asked = _Question.of(known, state, terms, len(actions))
    found = asked.bracket(chance.event, FewCandidates.of(actions))
    upper = np.maximum(found.upper, found.lower)
    return Classification(
        chance=chance,
        actions=tuple(known.configuration.search.space.decode(action) for action in actions),
        lower=validation.frozen(found.lower),
        upper=validation.frozen(upper),
        certainty=asked.certainty(known, chance.of),
    )


def best_with(known: Knowledge, state: State, chance: Chance, terms: Terms) -> tuple[Guaranteed, Probability]:
    """Return the action of the largest worst-case lower bound of all that are certified to meet a chance constraint."""
    asked = _Question.of(known, state, terms)
    ball, bound = asked.ball, Bound(asked.posterior, asked.certificate_width, LOWER)
    closest = 0.0

    def pick(candidates: Candidates) -> Found | None:
        nonlocal closest
        lower = asked.bracket(chance.event, candidates).lower
        closest = max(closest, float(lower.max(initial=0.0)))
        rows = np.flatnonzero(chance.met(lower))
        if not len(rows):
            return None
        scores = ball.worst_cases(candidates.values(bound, rows)).lower_bound
        first = int(np.argmax(scores))
        return Found(candidates.point(int(rows[first])), float(scores[first]))

    failed = list(state.failed.values())
    found = known.configuration.search.best_by(ball, pick, known.near(state), failed)
    if found is None:
        raise NotCertifiedError(
            f"no action is certified to meet the constraint that {chance}: the largest certified probability of any is "
            f"{closest:.4g}. Give an easier constraint, or evaluate more"
        )
    made = guaranteed(found.action, ball, bound, asked.units, terms.given)
    return made, _probability(known, asked, found.action, chance.event)
