"""The worst-case probability that f exceeds a threshold, bracketed by confidence bounds.

With the worst case over the distributions w of the set, and a threshold h,

    min_w <w, 1[lcb(x, .) > h]>   <=   min_w P_w(f(x, c) > h)   <=   min_w <w, 1[ucb(x, .) > h]>

For a noisy outcome, Phi((f - h) / sigma), which also grows with f, replaces the indicator 1[f > h].

If a bound fails in one context, even slightly, the indicator counts the whole weight of the context wrongly. So the
bounds must hold in all contexts at once. The bounds of Lemma 1 do; others are widened
(`drbo.models.bounds.simultaneous`).

Level sets of this probability are due to Inatsu, Iwazaki and Takeuchi, "Active Learning for Distributionally Robust
Level-Set Estimation" (ICML 2021), and constraints on it to Inatsu, Takeno, Karasuyama and Takeuchi, "Bayesian
Optimization for Distributionally Robust Chance-constrained Problem" (ICML 2022). They use linear programs for an L1
ball; here the set is arbitrary, and its own solver certifies the bounds. Value at risk is the inverse: the threshold
for a given probability, a quantile.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import ndtr

from drbo import validation
from drbo.models.bounds import LOWER, UPPER, Bound, Side, simultaneous
from drbo.models.data import Units
from drbo.models.surrogate import Posterior
from drbo.rounds.ball import TIE, Ball, first_of_the_best
from drbo.rounds.context_rules import Beliefs, ContextRule, Uncertain, check_rule
from drbo.rounds.policies import Choice, Optimism, Policy, Round, picked
from drbo.rounds.search import Candidates, Winner
from drbo.spaces.space import Point
from drbo.validation import FloatArray

__all__ = ["Chance", "LevelSet", "Undecided"]

Of = Literal["f", "outcome"]

ENOUGH = 1e-9
"""Tolerance for equal probabilities: weights such as 0.7 and 0.2 sum to 0.9 only up to rounding."""


@dataclass(frozen=True)
class Event:
    """The event that f, or a noisy outcome, is above or below a threshold, in the units of the outcomes.

    Parameters
    ----------
    above, below : the threshold; one of them is given
    of : "f", the expected outcome in a context; or "outcome", with normal noise of the model's deviation added to it
    """

    above: float | None = None
    below: float | None = None
    of: Of = "f"

    def __post_init__(self) -> None:
        if (self.above is None) == (self.below is None):
            raise TypeError("either above or below must be given: the threshold, in the units of the outcomes")
        for name in ("above", "below"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, validation.finite_float(name, getattr(self, name)))
        if self.of not in ("f", "outcome"):
            raise ValueError(f'of must be "f" or "outcome", got {self.of!r}')

    def __str__(self) -> str:
        what = "f" if self.of == "f" else "the outcome"
        return f"{what} is above {self.above:g}" if self.above is not None else f"{what} is below {self.below:g}"

    def in_model(self, units: Units, posterior: Posterior) -> ModelEvent:
        """Return the event in the units of the model."""
        sign = units.sign if self.above is not None else -units.sign
        level = self.above if self.above is not None else self.below
        assert level is not None  # one of them is given
        noise = 0.0 if self.of == "f" else posterior.noise
        return ModelEvent(UPPER if sign > 0.0 else LOWER, units.inward(level), noise)


@dataclass(frozen=True)
class ModelEvent:
    """The event that a value of the model is above a level (`side` UPPER) or below it (LOWER), with added noise."""

    side: Side
    level: float
    noise: float

    @property
    def unfavourable(self) -> Side:
        """The confidence bound at which the event is least likely."""
        return LOWER if self.side is UPPER else UPPER

    def likelihood(self, values: FloatArray) -> FloatArray:
        """Return the probability of the event given values of f, of the same shape; 0 or 1 without noise."""
        beyond = self.side * (values - self.level)
        return np.asarray(ndtr(beyond / self.noise) if self.noise > 0.0 else (beyond > 0.0).astype(np.float64))

    def openness(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """Return the openness of the event for bounds of f, of the same shape; larger means less certain."""
        if self.noise > 0.0:
            return np.abs(self.likelihood(high) - self.likelihood(low))
        return np.minimum(high - self.level, self.level - low)


@dataclass(frozen=True, eq=False)
class Bracket:
    """The worst-case probability (m,) of an event, between `lower` and `upper`; `weights` (m, n) attain the lower."""

    lower: FloatArray
    upper: FloatArray
    weights: FloatArray


def bracket(ball: Ball, event: ModelEvent, least: FloatArray, most: FloatArray) -> Bracket:
    """Return the worst-case probabilities, for values (m, n) that make the event least and most likely."""
    worst = ball.worst_cases(event.likelihood(least))
    best = ball.worst_cases(event.likelihood(most))
    return Bracket(np.clip(worst.lower_bound, 0.0, 1.0), np.clip(best.expectation, 0.0, 1.0), worst.weights)


def of_candidates(ball: Ball, event: ModelEvent, bound: Callable[[Side], Bound], candidates: Candidates) -> Bracket:
    """Return the worst-case probabilities for candidates, from the confidence bound of each side."""
    rows = np.arange(len(candidates.points))
    least = candidates.values(bound(event.unfavourable), rows)
    return bracket(ball, event, least, candidates.values(bound(event.side), rows))


def worst_quantile(ball: Ball, values: FloatArray, share: float, noise: float, *, certified: bool) -> float:
    """Return the largest t with P_w(value + noise >= t) >= share for every distribution w, for values (n,).

    Without noise t is one of the values, found by binary search. With noise t is found by bisection. `certified`: t is
    a lower bound, otherwise an upper bound.
    """

    def holds(t: float) -> bool:
        reached = ndtr((values - t) / noise) if noise > 0.0 else (values >= t).astype(np.float64)
        worst = ball.worst_case(reached)
        return bool((worst.lower_bound if certified else worst.expectation) >= share - ENOUGH)

    if noise > 0.0:
        return _last(holds, float(values.min()) - 40.0 * noise, float(values.max()) + 40.0 * noise, certified)
    levels = np.unique(values)
    low, high = 0, len(levels)  # the condition always holds at the lowest level
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(float(levels[middle])) else (low, middle)
    return float(levels[low])


def _last(holds: Callable[[float], bool], low: float, high: float, certified: bool) -> float:
    """Return the end of a condition that holds at `low` and not at `high`, from below or from above."""
    while low < 0.5 * (low + high) < high and high - low > 1e-12 * max(abs(low), abs(high)):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low if certified else high


def check_atoms(ball: Ball) -> None:
    """Raise if contexts may lie outside the atoms: an indicator has no bound between atoms."""
    if not ball.on_atoms:
        raise TypeError(
            "the probability of an event needs every context as an atom: give a finite set of contexts, or Samples "
            "without within= and with atoms=... large enough for all of them"
        )


@dataclass(frozen=True)
class Chance:
    """The constraint that an event has a minimum probability in every distribution: `Chance(0.9, above=2.0)`.

    Parameters
    ----------
    at_least : the probability, above 0 and up to 1
    above, below : the threshold, in the units of the outcomes; one of them is given
    of : "f", the expected outcome in a context; or "outcome", with normal noise of the model's deviation added to it
    """

    at_least: float
    above: float | None = None
    below: float | None = None
    of: Of = "f"

    def __post_init__(self) -> None:
        share = validation.finite_float("at_least", self.at_least)
        if not 0.0 < share <= 1.0:
            raise ValueError(f"at_least must be a probability above 0 and up to 1, got {share}")
        event = Event(self.above, self.below, self.of)
        object.__setattr__(self, "at_least", share)
        object.__setattr__(self, "above", event.above)
        object.__setattr__(self, "below", event.below)

    @property
    def event(self) -> Event:
        """The event."""
        return Event(self.above, self.below, self.of)

    def met(self, probabilities: FloatArray) -> np.ndarray:
        """Return whether each probability (m,) is large enough."""
        return np.asarray(probabilities >= self.at_least - ENOUGH)

    def __str__(self) -> str:
        return f"{self.event} with a probability of at least {self.at_least:g}"


def _check_chance(chance: object) -> None:
    """Raise unless the argument is a chance constraint."""
    validation.of_kind("chance", chance, Chance, "a drbo.Chance such as Chance(0.9, above=1.0)")


@dataclass(frozen=True)
class Undecided(ContextRule):
    """The context in which the event of a chance constraint is least certain.

    For f the rule maximises min(ucb - h, h - lcb), h the threshold. For a noisy outcome it maximises the difference of
    the event's probability between both bounds.

    Parameters
    ----------
    chance : the constraint
    """

    chance: Chance

    def __post_init__(self) -> None:
        _check_chance(self.chance)

    def pick(self, ball: Ball, beliefs: Beliefs, action: Point) -> Point:
        """Return the context in which the event is least certain for an action."""
        check_atoms(ball)
        if not beliefs.units.known:
            return Uncertain().pick(ball, beliefs, action)
        posterior, width = beliefs.expected(ball), _width(ball, beliefs)
        event = self.chance.event.in_model(beliefs.units, posterior)
        low, high = (Bound(posterior, width, side).of_action(action) for side in (LOWER, UPPER))
        openness = event.openness(low, high)
        return ball.best_context(openness, _no_range, TIE * float(np.abs(openness).max()))


def _no_range() -> Any:
    raise AssertionError("contexts besides the atoms were refused")


def _width(ball: Ball, beliefs: Beliefs, n_actions: int = 1) -> float:
    """Return a width of bounds that hold for several actions in all contexts at once, against premature labels."""
    return simultaneous(max(beliefs.width, beliefs.bound_width), n_actions * len(ball.contexts))


@dataclass(frozen=True)
class LevelSet(Policy):
    """The least certain open action, in order to classify all actions by a chance constraint.

    An action is open if the bounds of its worst-case probability lie on both sides of the required one. The policy
    chooses the open action with the least certain context (`Undecided`), or, where nature draws contexts, with the
    largest mean openness under the reference. Inatsu, Iwazaki and Takeuchi (ICML 2021) look one step ahead with the
    same bounds. Once no action is open, the policy chooses among all actions.

    Parameters
    ----------
    chance : the constraint
    contexts : the rule that picks the context, such as `Undecided(chance)`; None where nature does
    """

    chance: Chance
    contexts: ContextRule | None = None

    def __post_init__(self) -> None:
        _check_chance(self.chance)
        check_rule(self.contexts)

    def choose(self, round: Round, beliefs: Beliefs) -> Choice:
        return _chosen(self.chance, self.contexts, round, beliefs, self._most_open, self._most_open_of_all)

    def _most_open_of_all(self, ball: Ball, event: ModelEvent, beliefs: Beliefs, candidates: Candidates) -> Winner:
        return self._ranked(ball, event, beliefs, candidates)[1]

    def _most_open(self, ball: Ball, event: ModelEvent, beliefs: Beliefs, candidates: Candidates) -> Winner | None:
        still_open, found = self._ranked(ball, event, beliefs, candidates)
        return found if still_open else None

    def _ranked(self, ball: Ball, event: ModelEvent, beliefs: Beliefs, candidates: Candidates) -> tuple[bool, Winner]:
        """Return whether any candidate is open, and the least certain of the open ones, or else of all."""
        rows = np.arange(len(candidates.points))
        posterior, width = beliefs.expected(ball), _width(ball, beliefs, len(rows))
        low, high = (candidates.values(Bound(posterior, width, side), rows) for side in (LOWER, UPPER))
        found = bracket(ball, event, *((low, high) if event.side is UPPER else (high, low)))
        still_open = self.chance.met(found.upper) & ~self.chance.met(found.lower)
        openness = event.openness(low, high)
        by_action = openness.max(axis=1) if self.contexts is not None else np.maximum(openness, 0.0) @ ball.weights
        any_open = bool(still_open.any())
        scores = np.where(still_open, by_action, -np.inf) if any_open else by_action
        best = first_of_the_best(scores, TIE * float(np.abs(by_action).max()))
        return any_open, Winner(candidates.point(best), float(scores[best]))


_Chooser = Callable[[Ball, ModelEvent, Beliefs, Candidates], Winner | None]


def _chosen(chance: Chance, rule: ContextRule | None, round: Round, beliefs: Beliefs, *choosers: _Chooser) -> Choice:
    """Return the best action of the first chooser that finds one; before the first outcome that of `Optimism`."""
    ball, units = round.ball, beliefs.units
    check_atoms(ball)
    if not units.known:
        return Optimism(rule).choose(round, beliefs)
    posterior = beliefs.expected(ball)
    event, found = chance.event.in_model(units, posterior), None
    for chooser in choosers:
        if found is None:
            found = round.search.best_by(ball, functools.partial(chooser, ball, event, beliefs), round.near)
    bound = Bound(posterior, beliefs.width, UPPER)
    if found is None:  # no action is permitted: the search has its own fallback
        found = round.search.best(ball, bound, round.near, round.under_way[:0])
    score = float(ball.worst_case(bound.of_action(found.action)).expectation)
    return picked(rule, round, beliefs, ball, Winner(found.action, score))
