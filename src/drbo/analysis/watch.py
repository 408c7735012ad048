"""An alarm for contexts that have left the set.

Null hypothesis: each context, given those before it, is drawn from some distribution of the set, which may change every
time. A gambler bets against it. Before context t arrives, the gambler names a function h_t of the earlier contexts
whose mean is at most U_t under every distribution of the set:

    wealth_t = wealth_{t-1} (1 + stake (h_t(c_t) - U_t) / (U_t - least h_t)),   0 < stake < 1

Under the hypothesis, no gambler's wealth grows in expectation. So it ever exceeds 1 / alpha with probability at most
alpha (Ville's inequality): the alarm may be checked after every context, as often as you like. Many gamblers share
the wealth. They have different stakes and start at different times, so late changes are also found.

On a finite set of contexts U_t comes from the certified worst case, for any set. Elsewhere it comes from
`SupportsWitness`: the MMD's witness function, or a function of slope 1 for Wasserstein.
"""

from __future__ import annotations

import functools
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drbo import validation
from drbo.ambiguity.placed import PlacedSet, SupportsWitness, supports
from drbo.knowledge.snapshot import Snapshot
from drbo.knowledge.telling import in_order
from drbo.validation import FloatArray

_STAKES = np.array([0.03, 0.1, 0.25, 0.5, 0.9])
_GROWTH = 1.3
"""Growth factor of the numbers of contexts at which gamblers start and relearn their bets."""
_LEARNED_FROM = 200
"""Largest number of contexts that a bet is learned from; evenly spaced ones if there are more."""


@dataclass(frozen=True)
class Watch:
    """The result of a test whether the contexts have left the set; `str` gives the text.

    Attributes
    ----------
    alarm : whether the test rejects
    alpha : the largest probability of a false alarm, over all times together
    at : the number of the context that raised the alarm, from 0; None without an alarm
    since : the first context of the evidence that raised it; None without an alarm
    evidence : the largest wealth of the gamblers so far; 1 / evidence bounds the probability of such evidence by chance
    wealth : the wealth after each context
    radius : the radius of the set
    set_words : the distributions of the set, in words
    """

    alarm: bool
    alpha: float
    at: int | None
    since: int | None
    evidence: float
    wealth: tuple[float, ...]
    radius: float
    set_words: str

    def __str__(self) -> str:
        chance = min(1.0 / self.evidence, 1.0) if self.evidence > 0.0 else 1.0
        n = len(self.wealth)
        if not self.alarm:
            return (
                f"No alarm after {n} {'context' if n == 1 else 'contexts'}. "
                f"The set holds every distribution {self.set_words}.\n"
                f"The evidence against it is {self.evidence:.3g}; an alarm needs {1.0 / self.alpha:.3g}."
            )
        return (
            f"Alarm at context {self.at}: the contexts have left the set. "
            f"The set holds every distribution {self.set_words}.\n"
            f"The evidence counts from context {self.since} on. It is {self.evidence:.3g} after {n} contexts. Inside "
            f"the set, evidence this strong has a probability of at most {chance:.2g} (alpha = {self.alpha:g})."
        )


def watch(asked: Snapshot, contexts: Any, alpha: float) -> Watch:
    """Return the test whether contexts, in order of arrival, have left the set of the query."""
    ball, nature, level = asked.ball, asked.nature, validation.probability("alpha", alpha)
    if ball.ambiguity.growth.never_learned:
        raise TypeError(f"watch has no alarm for {ball.ambiguity!r}. {ball.ambiguity.growth.never_learned}")
    arrived = in_order("contexts", contexts, nature)
    listed = ball.on_atoms and all(point.index is not None for point in arrived)
    watched = Watched(ball.ambiguity, ball.weights, ball.radius)
    if ball.reference.index is not None and listed:
        indices = np.array([point.index for point in arrived], dtype=np.intp)
        bets: BettingRule = FiniteBets(watched, ball.reference.atoms_of(indices))
    else:
        coordinates = np.array([point.coordinates for point in arrived]).reshape(-1, nature.space.dimension)
        bets = ContinuousBets(watched, nature.space.measured(coordinates))
    return gamble(bets, len(arrived), level, ball.radius, ball.ambiguity.words(ball.radius))


@dataclass(frozen=True, eq=False)
class Watched:
    """The set under test on its contexts, with its reference (n,) and its radius."""

    ambiguity: PlacedSet
    reference: FloatArray
    radius: float


@dataclass(frozen=True, eq=False)
class Bet:
    """The contexts that a gambler learns a function from, and the later contexts that he bets on."""

    learned: NDArray[np.intp]
    on: slice


class BettingRule(ABC):
    """The bets of the gamblers."""

    @abstractmethod
    def gains(self, bets: Sequence[Bet]) -> list[FloatArray]:
        """Return per bet (h(c_t) - U) / (U - least h) for its contexts, at least -1.

        The gains are 0 if a gambler does not bet.
        """


class FiniteBets(BettingRule):
    """Bets on contexts (t,) of a finite set, given by their indices."""

    def __init__(self, watched: Watched, arrived: NDArray[np.intp]) -> None:
        self._watched, self._arrived = watched, arrived

    def gains(self, bets: Sequence[Bet]) -> list[FloatArray]:
        """Return the gains of functions that favour contexts with a higher frequency than in the reference."""
        if not bets:
            return []
        ambiguity, p, radius = self._watched.ambiguity, self._watched.reference, self._watched.radius
        counts = np.array([np.bincount(self._arrived[bet.learned], minlength=len(p)) for bet in bets]) + 0.5 * p
        seen = counts / counts.sum(axis=1, keepdims=True)
        functions = (seen - p) / np.maximum(seen + p, 1e-300)  # 0 for a context in neither
        most = -ambiguity.worst_case(-functions, p, radius).lower_bound
        return [
            _gains(h[self._arrived[bet.on]], float(h[self._arrived[bet.learned]].mean()), float(u), float(h.min()))
            for bet, h, u in zip(bets, functions, most, strict=True)
        ]


class ContinuousBets(BettingRule):
    """Bets on contexts anywhere, given by their positions (t, d) in the user's units."""

    def __init__(self, watched: Watched, positions: FloatArray) -> None:
        if not supports(watched.ambiguity, SupportsWitness):
            raise TypeError(
                f"watch has no test for {watched.ambiguity!r} unless contexts are a finite set: the set has no "
                "`witness`, a function of new contexts whose mean it bounds. Use drbo.MMD() or drbo.Wasserstein(), or "
                "list the contexts"
            )
        self._watched, self._set, self._positions = watched, watched.ambiguity, positions

    def gains(self, bets: Sequence[Bet]) -> list[FloatArray]:
        """Return the gains of the set's witness functions."""
        return [self._gains_of(self._positions[bet.learned], self._positions[bet.on]) for bet in bets]

    def _gains_of(self, learned: FloatArray, on: FloatArray) -> FloatArray:
        own = self._watched
        witness = self._set.witness(own.reference, own.radius, learned)
        so_far = -math.inf if witness is None else float(witness.values(learned).mean())
        if witness is None or so_far <= witness.most:
            return np.zeros(len(on))
        return _gains(witness.values(on), so_far, witness.most, witness.least)


def _gains(values: FloatArray, so_far: float, most: float, least: float) -> FloatArray:
    """Return the gains of a bet on values; zeros if its training data would have lost on average."""
    if so_far <= most:
        return np.zeros(len(values))
    at_risk = max(most - least, 1e-6 * (so_far - least))  # a larger `most` is also a bound
    return np.maximum((values - (least + at_risk)) / at_risk, -1.0)


def gamble(bets: BettingRule, count: int, alpha: float, radius: float, set_words: str) -> Watch:
    """Return the test on `count` contexts."""
    starts = _times(count)
    shares = np.array([1.0 / ((j + 1.0) * (j + 2.0)) for j in range(len(starts))])
    placed = _placed(count)
    gains = np.zeros((len(starts), count))
    for (j, bet), gain in zip(placed, bets.gains([bet for _, bet in placed]), strict=True):
        gains[j, bet.on] = gain
    logarithms = np.cumsum(np.log1p(_STAKES[:, None, None] * gains), axis=2)
    each = np.exp(np.minimum(logarithms, 690.0)).mean(axis=0)
    # Gamblers who have not started hold the rest of the wealth.
    wealth = shares @ each + (1.0 - shares.sum())
    raised = np.flatnonzero(wealth >= 1.0 / alpha)
    at = int(raised[0]) if len(raised) else None
    return Watch(
        alarm=at is not None,
        alpha=alpha,
        at=at,
        since=None if at is None else starts[int(np.argmax(shares * each[:, at]))],
        evidence=float(wealth.max(initial=1.0)),
        wealth=tuple(wealth.tolist()),
        radius=radius,
        set_words=set_words,
    )


@functools.lru_cache(maxsize=4)
def _placed(count: int) -> tuple[tuple[int, Bet], ...]:
    """Return the bets of all gamblers on `count` contexts, each with the number of its gambler."""
    return tuple((j, bet) for j, start in enumerate(_times(count)) for bet in _bets(start, count))


def _bets(start: int, count: int) -> Iterator[Bet]:
    """Yield the bets of the gambler who starts at `start`; each is learned from the contexts since then."""
    for begin, end in itertools.pairwise([*(start + 1 + t for t in _times(count - start - 1)), count]):
        learned = np.unique(np.linspace(start, begin - 1, min(begin - start, _LEARNED_FROM)).astype(np.intp))
        yield Bet(learned, slice(begin, end))


def _times(count: int) -> list[int]:
    """Return 0, 1, 2, ... below `count`, with growing gaps."""
    times, last = [], 0.0
    while math.floor(last) < count:
        times.append(math.floor(last))
        last = max(last + 1.0, last * _GROWTH)
    return times
