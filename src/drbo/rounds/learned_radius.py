"""Radii learned from past contexts by resampling, and from windows and seasons of the past."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np

from drbo import validation
from drbo._messages import counted
from drbo.ambiguity.family import AmbiguitySet, SetOrFamily, as_placed
from drbo.contexts.nature import Contexts, Indices, empirical
from drbo.rounds.past import block_length, in_blocks, tail
from drbo.rounds.radius_rules import RadiusRule, check_learnable, effective_number
from drbo.spaces.times import covered, read_duration
from drbo.validation import FloatArray

__all__ = ["Bootstrap", "Calibrated"]

_BATCH = 25
"""Number of resamples whose distances are computed at once."""
_WINDOWS = 20
"""Largest number of pairs of windows compared if windows may overlap."""


_MANY = 300
"""Number of contexts from which on fewer resamples are drawn: the time of a distance grows with its square."""
_ENOUGH = 100
"""Number of resamples that are always drawn: the error of a quantile is about 1% of it."""


def enough(resamples: int, n_contexts: int) -> int:
    """Return the number of resamples that are drawn."""
    fewer = math.ceil(resamples * (_MANY / max(n_contexts, _MANY)) ** 2)
    return min(resamples, max(fewer, _ENOUGH))


def canonical(seen: Indices, ambiguity: SetOrFamily, n_contexts: int) -> Indices:
    """Return the contexts in an order that does not depend on the order in which they are listed.

    They are sorted by how often they were seen, by their distance from all that was seen, and by their distance from
    the most frequent one. Contexts that agree in all three stay as they are listed.
    """
    counts = np.bincount(seen, minlength=n_contexts)
    placed = as_placed(ambiguity)
    far = _rounded(placed._to_vertices(counts / counts.sum()))
    anchor = np.lexsort((far, -counts))[0]
    return np.lexsort((_rounded(placed._to_vertices(np.eye(n_contexts)[anchor])), far, -counts))


def _rounded(distances: FloatArray) -> FloatArray:
    """Return distances rounded to nine digits of the largest one, so that rounding does not decide an order."""
    finite = np.where(np.isfinite(distances), distances, 0.0)
    unit = 1e-9 * (float(finite.max(initial=0.0)) or 1.0)
    return np.where(np.isfinite(distances), np.round(finite / unit), np.inf)


Unfit = Literal["refuse", "warn"]
"""What a rule does with a past that it can see not to hold for."""

MOST_RESAMPLES = 100_000
"""Largest number of resamples: they are drawn at once, and a quantile needs far fewer."""


class LearnedRule(RadiusRule):
    """A rule that learns from a past, and refuses or warns of one that it can see not to hold for."""

    learns: ClassVar[bool] = True
    unfit: Unfit

    @property
    def lenient(self) -> Self:
        return replace(self, unfit="warn")  # type: ignore[type-var]  # its classes are dataclasses

    @classmethod
    def from_arguments(cls, *, unfit: Unfit = "warn", **arguments: Any) -> Self:
        """Return the rule of a file; that of an older version did not refuse any data."""
        return cls(unfit=unfit, **arguments)  # type: ignore[call-arg]  # a field of its classes


@dataclass(frozen=True)
class Bootstrap(LearnedRule):
    """The radius that covers the truth with probability about 1 - delta, by resampling the contexts seen.

    eps_t = sqrt(t / (t - 1)) * the (1 - delta)-quantile of distance(P, distribution of t draws from P),

    P_i = (t_i + 1/2) / (t + n/2): the distribution of the t contexts seen, with half a count added to each (Jeffreys).
    Contexts are drawn independently from one distribution. The radius is inf before the second context. Smoothing
    matters: P represents the truth, which has contexts that are missing in the sample. Without it the bootstrap covers
    too rarely. The coverage is for one t, not for all t at once.

    If consecutive days are correlated, the radius for independent days is too small: give `block`. Blocks of `block`
    days are resampled as a whole (circular block bootstrap), and the radius is never smaller than for independent
    days. "auto" chooses the length from the autocorrelation (`drbo.rounds.learned_radius`).

    Where it fails (docs/radius.md has the numbers): if one day resembles the next, if the tails are heavy, and if there
    are seasons, it holds less often than it says. For Wasserstein sets of order 2 skewed days are enough. What the rule
    can see in samples it refuses (`unfit="refuse"`) or warns of (`unfit="warn"`): a tail in which the cost of moving a
    day has no finite variance and, if samples have times and `block` is 1, days that resemble the next. Both tests need
    40 days; they have little power on fewer than 200 (`drbo.rounds.past`). A bounded distance, such as an MMD's, has no
    heavy tail. The rule ignores drift; `Calibrated` handles a part of it. KL,
    chi-square and CVaR stay on the reference's support. On a finite set of contexts their radius is inf until a sample
    is likely to show every context. On continuous samples these sets and the total variation are refused, because no
    radius would cover the truth.

    If contexts have unequal weights, the resamples have the same weights. The radius depends on the data alone, not on
    the order in which contexts are listed. With more than 300 contexts fewer resamples are drawn, at least 100, as the
    time of a distance grows with the square of their number.
    """

    delta: float = 0.1
    resamples: int = 500
    seed: int = 0
    block: int | Literal["auto"] = 1
    unfit: Unfit = "refuse"

    def __post_init__(self) -> None:
        validation.probability("delta", self.delta)
        validation.one_of("unfit", self.unfit, "refuse", "warn")
        validation.whole_number("resamples", self.resamples, least=1, most=MOST_RESAMPLES)
        validation.whole_number("seed", self.seed, least=0)
        _check_block(self.block)

    @property
    def needs_order(self) -> bool:
        return self.block != 1

    def check(self, contexts: Contexts, ambiguity: AmbiguitySet) -> None:
        """Raise for sets that have no such radius, and for samples for which the radius is too small."""
        _check_samples(self, contexts, ambiguity)
        _check_fit(self, contexts, ambiguity)

    def radius(
        self, seen: Indices, ambiguity: SetOrFamily, n_contexts: int, weights: FloatArray | None = None
    ) -> float:
        """Return the quantile of the resamples of `seen`."""
        check_learnable(self, ambiguity)
        n = effective_number(len(seen), weights)
        if n <= 1.0 or len(seen) < 2:
            return math.inf
        count = enough(self.resamples, n_contexts)
        drawn = self._independent(seen, ambiguity, n_contexts, weights, count)
        independent = math.sqrt(n / (n - 1.0)) * self._quantile(drawn, count)
        block = block_length(seen, ambiguity, n_contexts) if self.block == "auto" else self.block
        if block == 1:
            return independent
        blocks = n / block
        if blocks <= 1.0:
            return math.inf
        resampled = self._quantile(self._blocks(seen, ambiguity, n_contexts, weights, block, count), count)
        return max(independent, math.sqrt(blocks / (blocks - 1.0)) * resampled)

    def _quantile(self, distances: Iterable[float], count: int) -> float:
        done = list(counted(distances, count, "resamples for the radius"))
        return upper_quantile(done, 1.0 - self.delta)

    def _independent(
        self, seen: Indices, ambiguity: SetOrFamily, n_contexts: int, weights: FloatArray | None, count: int
    ) -> Iterator[float]:
        """Yield the distances of independent resamples from the smoothed distribution."""
        t, rng = len(seen), np.random.default_rng(self.seed)
        order = canonical(seen, ambiguity, n_contexts)
        if weights is None:  # counts are exact: rounding decides between two algorithms for equal shares
            smooth = np.bincount(seen, minlength=n_contexts) + 0.5
        else:
            smooth = effective_number(t, weights) * empirical(seen, n_contexts, weights) + 0.5
        smooth /= t + 0.5 * n_contexts if weights is None else smooth.sum()
        for some in _batches(count):
            drawn = np.empty((some, n_contexts))
            if weights is None:
                drawn[:, order] = rng.multinomial(t, smooth[order] / smooth.sum(), size=some) / t
            else:
                days = order[rng.choice(n_contexts, (some, t), p=smooth[order])]
                drawn = shares(days, n_contexts, weights)
            yield from as_placed(ambiguity)._distances(np.broadcast_to(smooth, drawn.shape), drawn).tolist()

    def _blocks(
        self, seen: Indices, ambiguity: SetOrFamily, n_contexts: int, weights: FloatArray | None, block: int, count: int
    ) -> Iterator[float]:
        """Yield the distances of block resamples from the distribution of the contexts seen."""
        rng = np.random.default_rng(self.seed)
        centre = empirical(seen, n_contexts)  # all days are equally likely in a circular block bootstrap
        for some in _batches(count):
            drawn = shares(seen[in_blocks(len(seen), block, rng, some)], n_contexts, weights)
            yield from as_placed(ambiguity)._distances(np.broadcast_to(centre, drawn.shape), drawn).tolist()


def upper_quantile(values: list[float], level: float) -> float:
    """Return the quantile of values, the larger one between two."""
    return sorted(values)[math.ceil((len(values) - 1) * level)]


def shares(days: Indices, n_contexts: int, weights: FloatArray | None = None) -> FloatArray:
    """Return the distributions (k, n_contexts) of rows of contexts (k, t) with weights (t,)."""
    k, t = days.shape
    at = (days + n_contexts * np.arange(k)[:, None]).ravel()
    counts = np.bincount(at, None if weights is None else np.tile(weights, k), k * n_contexts).reshape(k, n_contexts)
    return np.asarray(counts / (t if weights is None else weights.sum()))


def _batches(count: int) -> Iterator[int]:
    """Yield the sizes of batches of resamples: small ones, so that progress shows."""
    for first in range(0, count, _BATCH):
        yield min(_BATCH, count - first)


@dataclass(frozen=True)
class Calibrated(LearnedRule):
    """The radius that would have covered a given share of past changes, for conditions that drift.

    It answers one of two questions. Both compare past pairs: a window of contexts, and the `horizon` contexts that
    followed.

    target="population" (the default): which distribution will the next days be drawn from?

        eps_t = Bootstrap's radius for delta = 1 - quantile  +  drift,   drift^2 = max(0, moved^2 - noise^2)

    `moved` is the quantile of the distances of the past pairs. `noise` is the quantile of the same statistic over
    resamples of the whole past: the distances without drift. Squares are subtracted because independent errors add in
    squares. Without drift the radius is about `Bootstrap`'s. The default window is a fifth of the contexts seen; pairs
    overlap by half a window. KL and chi-square are infinite if a window lacks a context: every context then counts half
    a time more in the window, for both `moved` and `noise`.

    target="window": how far will the empirical distribution of the next window be?

        eps_t = the ceil((K + 1) quantile)-smallest of the distances of K disjoint pairs, inf if K is smaller

    It covers the next window's distribution with probability `quantile` if pairs are exchangeable (split-conformal). No
    correction is needed, because the sampling error of the next window is part of it. So the radius is larger, and does
    not vanish with more data. The default window leaves enough pairs: 9 for a quantile of 0.9. If the
    reference has more contexts than a window, the true distance is smaller than that.

    The default horizon is the length of the window. `block` is as for `Bootstrap`: resamples keep blocks of this many
    days, so that autocorrelation is not mistaken for drift. If contexts have unequal weights, the default window uses
    their effective sample size.

    season="365D": how far was the same time of year from all that was known before it? The samples need times,
    `Samples(..., time=...)`. One, two, ... seasons before the end of the past, the `horizon` contexts that followed are
    compared with everything before them, which must cover a season at least. The radius is the split-conformal quantile
    of these m distances, as for target="window". With m of them no level above m / (m + 1) can be supported, and is
    refused. The default horizon is a quarter of the season. `window`, `target` and `block` are not used and must not be
    given.

    Where it fails (docs/radius.md has the numbers): without `season`, the windows of a seasonal past look like
    resamples of the whole past, and the next season is outside; heavy tails and few windows make it hold less often
    than it says. Heavy tails are refused as for `Bootstrap` (`unfit`), except with target="window" or a season, whose
    quantiles do not depend on the tail. No rule knows a season that the past does not hold: on less than one season
    every radius is too small.
    """

    quantile: float = 0.9
    window: int | None = None
    horizon: int | None = None
    target: Literal["population", "window"] = "population"
    block: int | Literal["auto"] = 1
    resamples: int = 500
    seed: int = 0
    season: str | None = None
    unfit: Unfit = "refuse"

    def __post_init__(self) -> None:
        validation.probability("quantile", self.quantile)
        validation.one_of("unfit", self.unfit, "refuse", "warn")
        if self.season is not None:
            validation.of_kind("season", self.season, str, "a duration such as '365D'")
            read_duration("season", self.season)
            if not (self.window is None and self.target == "population" and self.block == 1):
                raise TypeError("window, target and block must not be given with a season, which replaces them")
        for name, value in (("window", self.window), ("horizon", self.horizon)):
            if value is not None:
                validation.whole_number(name, value, least=1)
        validation.one_of("target", self.target, "population", "window")
        _check_block(self.block)
        validation.whole_number("resamples", self.resamples, least=1, most=MOST_RESAMPLES)
        validation.whole_number("seed", self.seed, least=0)

    @property
    def needs_order(self) -> bool:
        return True

    @property
    def needs_times(self) -> bool:
        return self.season is not None

    def check(self, contexts: Contexts, ambiguity: AmbiguitySet) -> None:
        """Raise for sets that have no such radius, and for a level that the seasons of the past cannot support."""
        _check_samples(self, contexts, ambiguity)
        if self.season is None and self.target == "population":
            _check_fit(self, contexts, ambiguity)
        if self.season is not None:
            reference = contexts.seen([])
            self._origins(len(reference.history), reference.history_times)

    def radius(
        self,
        seen: Indices,
        ambiguity: SetOrFamily,
        n_contexts: int,
        weights: FloatArray | None = None,
        times: FloatArray | None = None,
    ) -> float:
        """Return the radius for the target; `times` (t,) are the times of the contexts in seconds, for a season."""
        check_learnable(self, ambiguity)
        if self.season is not None:
            return self._of_same_season(seen, ambiguity, n_contexts, weights, times)
        n = effective_number(len(seen), weights)
        if self.target == "window":
            return self._of_next_window(seen, ambiguity, n_contexts, n)
        bootstrap = Bootstrap(1.0 - self.quantile, self.resamples, self.seed, self.block)
        sampling = bootstrap.radius(seen, ambiguity, n_contexts, weights)
        return sampling + self._drift(seen, ambiguity, n_contexts, n) if math.isfinite(sampling) else math.inf

    def _origins(self, count: int, times: FloatArray | None) -> list[tuple[int, int]]:
        """Return the windows of the same time of year, as their first position and the one after the last."""
        if times is None or len(times) != count:
            raise TypeError(f"radius={self!r} needs the times of past contexts: give Samples(..., time=...)")
        length = read_duration("season", self.season)
        pace = float(np.median(np.diff(times))) if count > 1 else 0.0
        now, begin = float(times[-1]) + pace, float(times[0])
        ahead = self.horizon * pace if self.horizon else 0.25 * length
        if ahead > length * (1.0 + 1e-9):
            raise ValueError(f"horizon must be at most a season, {self.season}, got {self.horizon} contexts")
        found = []
        past = int((now - begin) / length * (1.0 + 1e-9))  # whole seasons
        for k in range(1, past):
            start = now - k * length - 0.5 * pace
            first, after = np.searchsorted(times, [start, start + ahead])
            if first < after:
                found.append((int(first), int(after)))
        m = len(found)
        if math.ceil((m + 1) * self.quantile - 1e-9) > m:
            raise ValueError(
                f"radius={self!r} compares m = {m} seasons of the past with what was known before each, as the past "
                f"covers {(now - begin) / length:.1f} seasons: no level above m / (m + 1) = {m / (m + 1):.2g} can be "
                "supported"
                + (f". Give quantile={math.floor(100.0 * m / (m + 1)) / 100.0:g} or less" if m else "")
                + ", or a longer past"
            )
        return found

    def _of_same_season(
        self,
        seen: Indices,
        ambiguity: SetOrFamily,
        n_contexts: int,
        weights: FloatArray | None,
        times: FloatArray | None,
    ) -> float:
        """Return the split-conformal quantile of the distances of the same time of year from all before it."""
        found = []
        for first, after in self._origins(len(seen), times):
            before = empirical(seen[:first], n_contexts, None if weights is None else weights[:first])
            found.append(ambiguity.distance(empirical(seen[first:after], n_contexts), before))
        return sorted(found)[math.ceil((len(found) + 1) * self.quantile - 1e-9) - 1]

    def _of_next_window(self, seen: Indices, ambiguity: SetOrFamily, n_contexts: int, n: float) -> float:
        """Return the split-conformal quantile of the distances of disjoint pairs; the last pair ends now."""
        # the smallest K with ceil((K + 1) quantile) <= K
        needed = math.ceil(self.quantile / (1.0 - self.quantile) - 1e-9)
        window = self.window or max(min(len(seen) // (2 * needed), int(n)), 1)
        length = window + (self.horizon or window)
        starts = np.arange(len(seen) % length, len(seen) - length + 1, length)
        rank = math.ceil((len(starts) + 1) * self.quantile - 1e-9)
        if rank > len(starts):
            return math.inf
        return sorted(self._distances(seen, ambiguity, n_contexts, starts, window))[rank - 1]

    def _drift(self, seen: Indices, ambiguity: SetOrFamily, n_contexts: int, n: float) -> float:
        """Return the drift of past windows beyond that of resampled ones; inf before the first pair."""
        window = self.window or max(int(n) // 5, 1)
        last = len(seen) - window - (self.horizon or window)
        if last < 0:
            return math.inf
        count = min(last // max(window // 2, 1) + 1, _WINDOWS)
        starts = np.unique(np.linspace(0, last, count).astype(np.intp)) if count > 1 else np.array([last])

        block = block_length(seen, ambiguity, n_contexts) if self.block == "auto" else self.block

        level = self.quantile

        def beyond(smoothing: float) -> tuple[float, float]:
            def moved(days: Indices) -> float:
                return upper_quantile(self._distances(days, ambiguity, n_contexts, starts, window, smoothing), level)

            rng = np.random.default_rng(self.seed)
            # A fifth of the resamples is enough for one quantile of a quantile.
            times = math.ceil(enough(self.resamples, window) / 5)
            drawn = counted(range(times), times, "resamples for the drift")
            noise = [moved(seen[in_blocks(len(seen), block, rng)[0]]) for _ in drawn]
            return moved(seen), upper_quantile(noise, level)

        observed, noise = beyond(0.0)
        if math.isinf(observed) or math.isinf(noise):  # infinite for some sets if a window lacks a context
            observed, noise = beyond(0.5)
        return math.sqrt(max((observed - noise) * (observed + noise), 0.0))

    def _distances(
        self,
        seen: Indices,
        ambiguity: SetOrFamily,
        n_contexts: int,
        starts: Indices,
        window: int,
        smoothing: float = 0.0,
    ) -> list[float]:
        """Return the distance of each window from `starts` on to the contexts that followed it, with `smoothing`."""
        horizon = self.horizon or window
        before = shares(seen[starts[:, None] + np.arange(window)], n_contexts)
        if smoothing:
            before = (window * before + smoothing) / (window + smoothing * n_contexts)
        after = shares(seen[starts[:, None] + window + np.arange(horizon)], n_contexts)
        return [float(one) for one in as_placed(ambiguity)._distances(after, before)]


def _check_fit(rule: Bootstrap | Calibrated, contexts: Contexts, ambiguity: AmbiguitySet) -> None:
    """Raise if the past shows that resamples of it are too close to it; warn if the rule says so."""
    reference, space = contexts.seen([]), contexts.space
    if contexts.enumerated or not reference.history.size:
        return  # what may come is listed
    placed, n = ambiguity.on(space.measured(reference.points), space.scales), len(reference.points)
    found = None if placed.growth.bounded else tail(reference.history, placed, n)
    why = ""
    if found is not None and found.heavy:
        why = (
            f"their tail index is {found.index:.2g}, and above {found.limit:.2g} a finite variance is refuted. Days "
            "that have not come yet decide the distance. Use drbo.MMD(), Calibrated(target='window'), or a number"
        )
    elif isinstance(rule, Bootstrap) and rule.block == 1 and contexts.years is not None:
        block = block_length(reference.history, placed, n)
        if block > 1:
            why = (
                f"one day resembles the next, over about {block} days. Give Bootstrap(block='auto'), which keeps these "
                "together, or use Calibrated"
            )
    if why:
        text = (
            f"radius={type(rule).__name__}(...) holds less often than it says on these days with {ambiguity!r}: {why}"
        )
        if rule.unfit == "refuse":
            raise ValueError(f"{text}. With unfit='warn' the rule only warns")
        warnings.warn(text, UserWarning, stacklevel=2)


def _check_block(block: Any) -> None:
    if not (isinstance(block, str) and block == "auto"):
        validation.whole_number("block", block, least=1)


def _check_samples(rule: RadiusRule, contexts: Contexts, ambiguity: AmbiguitySet) -> None:
    check_learnable(rule, ambiguity)
    if contexts.years is not None and contexts.years < 0.995 and not rule.needs_times:
        warnings.warn(covered(contexts.years), UserWarning, stacklevel=2)
    if ambiguity.growth.instead_of_a_rule and not contexts.enumerated:
        raise TypeError(
            f"radius={type(rule).__name__}(...) has no answer for {ambiguity!r} on samples: nearly every day is new, "
            f"and the set's distance between two samples says nothing about their distribution. "
            f"{ambiguity.growth.instead_of_a_rule}"
        )
