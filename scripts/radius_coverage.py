"""How often each rule for the radius held what it claims to hold, by simulation: `python scripts/radius_coverage.py`.

Pasts of 60 and of 200 days. Days are numbers: normal, skewed (lognormal), heavy-tailed (Student's t with 1.5 degrees of
freedom), autocorrelated (an AR(1) process with coefficient 0.6), seasonal (four seasons of a sine of twice the noise's
deviation) and shifting (five stretches, each with a level of its own, of half the noise's deviation). Or they are five
labels: independent, autocorrelated (60% repeat the one before) and shifting (five stretches with shares of their own).

A rule holds if the radius is at least the distance of what it claims to hold from the past. That is the distribution
that the next days are drawn from: the same one, that of the next quarter of a season, or that of the next stretch. For
`Calibrated(target="window")` it is the empirical distribution of the next window, too. `EmpiricalLikelihood` holds if
the worst case of a reward is at most its true mean. The last tables are how often a past is refused: for a heavy tail,
and for days that resemble the next. The tables are in docs/radius.md. Arguments: the number of runs, 1,000 by default,
and the names of tables.
"""

import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
from scipy import stats

from drbo import KL, MMD, RBF, AmbiguitySet, ChiSquare, Samples, TotalVariation, Wasserstein
from drbo.ambiguity.placed import PlacedSet
from drbo.contexts.nature import Reference
from drbo.contexts.sampled_contexts import contexts_of
from drbo.radius import Bootstrap, Calibrated, Decaying, EmpiricalLikelihood, RadiusRule, Theoretical
from drbo.rounds.past import block_length, tail

LENGTHS = (60, 200)
STRETCHES, LEVEL, PERSISTENCE, SEASONS, SWING, LENGTHSCALE = 5, 0.5, 0.6, 4, 2.0, 0.8
SHARES = np.array([0.3, 0.25, 0.2, 0.15, 0.1])
RESAMPLES = 100
"""A fifth of the rules' own number, so that the tables take minutes."""
RULES: dict[str, RadiusRule] = {
    "`Bootstrap(0.1)`": Bootstrap(0.1, RESAMPLES),
    '`Bootstrap(0.1, block="auto")`': Bootstrap(0.1, RESAMPLES, block="auto"),
    "`Calibrated(0.9)`": Calibrated(0.9, resamples=RESAMPLES),
    '`Calibrated(0.9, block="auto")`': Calibrated(0.9, block="auto", resamples=RESAMPLES),
    "`Theoretical(0.1)`": Theoretical(0.1),
    "`Decaying(1.0)`": Decaying(1.0),
}
WINDOW, SEASON = Calibrated(0.9, target="window"), Calibrated(0.75, season="1D")
ON_NUMBERS = RULES | {'`Calibrated(0.9, target="window")`': WINDOW, "`Calibrated(0.75, season=...)`": SEASON}
SHORT = {text: ON_NUMBERS[text] for text in ("`Bootstrap(0.1)`", "`Calibrated(0.9)`", *list(ON_NUMBERS)[-2:])}
"""The rules that are compared for order 2."""
PAIRS = 18
"""Windows that `WINDOW` fits into the past by default: 9 pairs."""
LEVELS, FINE = ((np.arange(count) + 0.5) / count for count in (24_000, 120_000))
SHAPES: dict[str, np.ndarray] = {
    "normal": stats.norm.ppf(LEVELS),
    "skewed": np.exp(stats.norm.ppf(LEVELS)),
    "heavy-tailed": stats.t.ppf(FINE, 1.5),
    "autocorrelated": stats.norm.ppf(LEVELS),
    "seasonal": np.empty(0),  # depends on the length
    "shifting": stats.norm.ppf(LEVELS),
}
LABEL_SHAPES = ("independent", "autocorrelated", "shifting")


@dataclass(frozen=True, eq=False)
class Past:
    """Days (n,), the next window, and equally likely numbers that stand for the distribution of the next days."""

    days: np.ndarray
    following: np.ndarray
    there: np.ndarray


def numbers(shape: str, n: int, seed: int) -> Past:
    """Return one past of n numbers."""
    rng = np.random.default_rng([seed, n])
    total, there = n + n // PAIRS, SHAPES[shape]
    days = rng.normal(size=total)
    if shape == "skewed":
        days = np.exp(days)
    if shape == "heavy-tailed":
        days = rng.standard_t(1.5, total)
    if shape == "autocorrelated":
        for i in range(1, total):
            days[i] = PERSISTENCE * days[i - 1] + np.sqrt(1.0 - PERSISTENCE**2) * days[i]
    if shape == "seasonal":
        phase = 2.0 * np.pi * np.arange(total) / (n // SEASONS)
        days += SWING * np.sin(phase)
        quarter = SWING * np.sin(phase[: n // SEASONS // 4])
        there = np.sort(np.add.outer(quarter, SHAPES["normal"][5::10]).ravel())
    if shape == "shifting":
        levels = LEVEL * rng.normal(size=STRETCHES + 1)
        days += np.repeat(levels, n // STRETCHES)[:total]
        there = there + levels[-1]
    return Past(days[:n], days[n:], there)


def wasserstein(a: np.ndarray, b: np.ndarray, order: float = 1.0) -> float:
    """Return the Wasserstein distance of two samples of numbers, by their quantiles."""
    if len(b) % len(a) == 0:
        return float((np.abs(np.repeat(np.sort(a), len(b) // len(a)) - np.sort(b)) ** order).mean() ** (1.0 / order))
    levels = np.union1d(np.arange(1, len(a) + 1) / len(a), np.arange(1, len(b) + 1) / len(b))
    middle = levels - 0.5 * np.diff(levels, prepend=0.0)
    gap = np.abs(
        np.sort(a)[np.minimum((middle * len(a)).astype(int), len(a) - 1)]
        - np.sort(b)[np.minimum((middle * len(b)).astype(int), len(b) - 1)]
    )
    return float((np.diff(levels, prepend=0.0) @ gap**order) ** (1.0 / order))


def mmd(a: np.ndarray, b: np.ndarray) -> float:
    """Return the MMD of two samples of numbers."""
    strides = [max(len(one) // 1000, 1) for one in (a, b)]  # 1,000 quantiles are enough for a bounded kernel
    few = [np.sort(one)[stride // 2 :: stride] for one, stride in zip((a, b), strides, strict=True)]

    cross = float(np.exp(-0.5 * ((few[0][:, None] - few[1]) / LENGTHSCALE) ** 2).mean())
    return float(np.sqrt(max(_own(few[0].tobytes()) - 2.0 * cross + _own(few[1].tobytes()), 0.0)))


@functools.lru_cache(maxsize=8)
def _own(days: bytes) -> float:
    """Return the mean of the kernel between days, kept for the distributions that are compared again and again."""
    one = np.frombuffer(days)
    return float(np.exp(-0.5 * ((one[:, None] - one) / LENGTHSCALE) ** 2).mean())


Distance = Callable[[np.ndarray, np.ndarray], float]
NUMBER_SETS: dict[str, tuple[AmbiguitySet, Distance]] = {
    "Wasserstein": (Wasserstein(), wasserstein),
    "Wasserstein, order 2": (Wasserstein(order=2.0), lambda a, b: wasserstein(a, b, 2.0)),
    "MMD": (MMD(kernel=RBF(LENGTHSCALE)), mmd),
}
LABEL_SETS: dict[str, AmbiguitySet] = {"TotalVariation": TotalVariation(), "KL": KL(), "ChiSquare": ChiSquare()}


def labels(shape: str, n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a past of labels (n,), the next window, and the shares that the next days are drawn with."""
    rng, total = np.random.default_rng([seed, n]), n + n // PAIRS
    if shape == "shifting":
        shares = rng.dirichlet(20.0 * SHARES, size=STRETCHES + 1)
        days = np.concatenate([rng.choice(5, n // STRETCHES, p=row) for row in shares])[:total]
        return days[:n], days[n:], shares[-1]
    days = rng.choice(5, total, p=SHARES)
    if shape == "autocorrelated":
        for i in np.flatnonzero(rng.random(total) < PERSISTENCE).tolist():
            days[i] = days[max(i - 1, 0)]
    return days[:n], days[n:], SHARES


def shares_of(days: np.ndarray) -> np.ndarray:
    """Return the shares of the five labels."""
    return np.bincount(days, minlength=5) / len(days)


def on_contexts(days: np.ndarray, ambiguity: AmbiguitySet) -> tuple[Reference, PlacedSet]:
    """Return the reference of days and the set on its atoms, as `RadiusRule.for_samples` makes them, without checks."""
    contexts = contexts_of(Samples(days, time=np.arange(len(days)) * SEASONS * 86_400.0 / len(days)), ambiguity)
    reference, space = contexts.seen([]), contexts.space
    return reference, ambiguity.on(space.measured(reference.points), space.scales)


Row = dict[str, list[tuple[bool, float]]]
"""Per shape, whether the radius held in each run, and the radius."""


def of_numbers(runs: int) -> Iterator[tuple[tuple[str, str, int], Row]]:
    """Yield per set, rule and length whether the radius held the distribution of the next days."""
    for name, (ambiguity, distance) in NUMBER_SETS.items():
        rules = SHORT if name.endswith("order 2") else ON_NUMBERS
        for n in LENGTHS:
            found: dict[str, Row] = {text: {shape: [] for shape in SHAPES} for text in rules}
            for seed in range(runs):
                for shape in SHAPES:
                    past = numbers(shape, n, seed)
                    away = distance(past.days, past.there)
                    reference, placed = on_contexts(past.days, ambiguity)
                    with shared_resamples():
                        for text, rule in rules.items():
                            if shape == "seasonal" or not rule.needs_times:
                                radius = rule.radius_of(reference, placed)
                                found[text][shape].append((away <= radius, radius))
            for text, row in found.items():
                yield (name, text, n), row


@contextmanager
def shared_resamples() -> Iterator[None]:
    """Let the rules for one past share the distances of its independent resamples, which are the same in each."""
    own, kept = Bootstrap._independent, list[float]()

    def once(self: Bootstrap, *given: Any) -> Iterator[float]:
        if not kept:
            kept.extend(own(self, *given))
        return iter(kept)

    with mock.patch.object(Bootstrap, "_independent", once):
        yield


def of_labels(runs: int) -> Iterator[tuple[tuple[str, str, int], Row]]:
    """Yield the same for labels."""
    for name, ambiguity in LABEL_SETS.items():
        for text, rule in RULES.items():
            for n in LENGTHS:
                row: Row = {shape: [] for shape in LABEL_SHAPES}
                for shape in LABEL_SHAPES:
                    for seed in range(runs):
                        days, _, truth = labels(shape, n, seed)
                        radius = rule.radius(days, ambiguity, 5)
                        row[shape].append((ambiguity.distance(truth, shares_of(days)) <= radius, radius))
                yield (name, text, n), row


def windows(runs: int) -> Iterator[tuple[tuple[str, str, int], Row]]:
    """Yield the same for the next window, as far from the last window, and from the whole past."""
    for text, whole in (("the last window", False), ("the whole past", True)):
        for n in LENGTHS:
            last = slice(None) if whole else slice(-(n // PAIRS), None)
            for name, (ambiguity, distance) in NUMBER_SETS.items():
                row: Row = {shape: [] for shape in SHAPES}
                for shape in SHAPES:
                    for seed in range(runs):
                        past = numbers(shape, n, seed)
                        radius = WINDOW.radius_of(*on_contexts(past.days, ambiguity))
                        row[shape].append((distance(past.following, past.days[last]) <= radius, radius))
                yield (name, text, n), row


REWARDS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "min(c, 0.5)": lambda c: np.minimum(c, 0.5),
    "c": lambda c: c,
    "-c": lambda c: -c,
}


def values(runs: int) -> Iterator[tuple[tuple[str, str, int], Row]]:
    """Yield whether the worst case of a reward was at most its true mean, and the radius of `EmpiricalLikelihood`."""
    rule = EmpiricalLikelihood(0.95)
    for name, ambiguity in (("KL", KL()), ("ChiSquare", ChiSquare())):
        for text, reward in REWARDS.items():
            for n in LENGTHS:
                radius = rule.radius(np.arange(n), ambiguity, n)
                row: Row = {shape: [] for shape in SHAPES}
                for shape in SHAPES:
                    pasts = [numbers(shape, n, seed) for seed in range(runs)]
                    rewards = np.array([reward(past.days) for past in pasts])
                    worst = ambiguity.worst_case(rewards, np.full(n, 1.0 / n), radius).lower_bound
                    held = worst <= [reward(past.there).mean() for past in pasts]
                    row[shape] = [(bool(one), radius) for one in held]
                yield (name, text, n), row


REFUSED: dict[str, Callable[[int, np.random.Generator], np.ndarray]] = {
    "normal": lambda n, rng: rng.normal(size=n),
    "exponential": lambda n, rng: rng.exponential(size=n),
    "lognormal": lambda n, rng: np.exp(rng.normal(size=n)),
    "t(5)": lambda n, rng: rng.standard_t(5.0, n),
    "t(3)": lambda n, rng: rng.standard_t(3.0, n),
    "t(2)": lambda n, rng: rng.standard_t(2.0, n),
    "t(1.5)": lambda n, rng: rng.standard_t(1.5, n),
    "t(1)": lambda n, rng: rng.standard_t(1.0, n),
}


def refusals(runs: int) -> None:
    """Print how often a past is refused: for its tail, and for days that resemble the next."""
    print(f"| order | n | {' | '.join(REFUSED)} |\n|---|---|{'---|' * len(REFUSED)}")
    for order in (1.0, 2.0):
        for n in LENGTHS:
            shares = []
            for draw in REFUSED.values():
                found = [_tail(draw(n, np.random.default_rng([seed, n])), order) for seed in range(runs)]
                shares.append(f"{np.mean(found):.1%}")
            print(f"| {order:g} | {n} | {' | '.join(shares)} |", flush=True)
    print("\n| n | normal | autocorrelated |\n|---|---|---|")
    for n in LENGTHS:
        shares = []
        for shape in ("normal", "autocorrelated"):
            pasts = (numbers(shape, n, seed).days for seed in range(runs))
            longer = [block_length(np.arange(n), Wasserstein(days), n) > 1 for days in pasts]
            shares.append(f"{np.mean(longer):.1%}")
        print(f"| {n} | {' | '.join(shares)} |", flush=True)


def _tail(days: np.ndarray, order: float) -> bool:
    """Return whether the tail of days is heavy for an order."""
    found = tail(np.arange(len(days)), Wasserstein(days, order), len(days))
    return found is not None and found.heavy


def table(second: str, rows: Iterator[tuple[tuple[str, str, int], Mapping[str, list[tuple[bool, float]]]]]) -> None:
    """Print one row per set, rule and length: the share of runs in which the radius held, and its median."""
    headed = False
    for (name, text, n), row in rows:
        if not headed:
            print(f"| set | {second} | n | {' | '.join(row)} |\n|---|---|---|{'---|' * len(row)}")
            headed = True
        cells = [
            f"{np.mean([held for held, _ in cell]):.0%} ({np.median([eps for _, eps in cell]):.2g})" if cell else "-"
            for cell in row.values()
        ]
        print(f"| {name} | {text} | {n} | {' | '.join(cells)} |", flush=True)
    print()


TABLES: dict[str, tuple[str, Callable[[int], Iterator[tuple[tuple[str, str, int], Row]]]]] = {
    "numbers": ("rule", of_numbers),
    "labels": ("rule", of_labels),
    "windows": ("the next window, from", windows),
    "values": ("reward", values),
}


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    for chosen in sys.argv[2:] or [*TABLES, "refusals"]:
        if chosen == "refusals":
            refusals(count)
        else:
            table(TABLES[chosen][0], TABLES[chosen][1](count))
