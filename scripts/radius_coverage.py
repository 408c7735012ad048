"""How often each radius rule held what it claims to hold, by simulation: `python scripts/radius_coverage.py [RUNS]`.

Three pasts of 100 days. "independent" days are drawn from one distribution. "autocorrelated" days resemble the day
before: an AR(1) process with coefficient 0.6, or labels of which 60% repeat the one before. "shifting" days are drawn
independently from a distribution that is itself drawn anew every 20 days. Numbers are normal of deviation 1; there are
five labels.

A rule covers if the radius is at least the distance of what it claims to hold from the past: the distribution that the
next days are drawn from, or the empirical distribution of the next window. `EmpiricalLikelihood` covers if the worst
case is at most the true expected reward. The tables are in docs/radius.md.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from drbo import KL, MMD, RBF, AmbiguitySet, ChiSquare, Samples, TotalVariation, Wasserstein
from drbo.radius import Bootstrap, Calibrated, Decaying, EmpiricalLikelihood, RadiusRule, Theoretical

DAYS, SEGMENT, PERSISTENCE, LEVELS = 100, 20, 0.6, 0.5
LENGTHSCALE = 0.8
SHARES = np.array([0.3, 0.25, 0.2, 0.15, 0.1])
PASTS = ("independent", "autocorrelated", "shifting")
RESAMPLES = 100
"""A fifth of the rules' own number, so that the tables take minutes."""
POPULATION: dict[str, RadiusRule] = {
    "`Bootstrap(0.1)`": Bootstrap(0.1, RESAMPLES),
    '`Bootstrap(0.1, block="auto")`': Bootstrap(0.1, RESAMPLES, block="auto"),
    "`Calibrated(0.9)`": Calibrated(0.9, resamples=RESAMPLES),
    '`Calibrated(0.9, block="auto")`': Calibrated(0.9, block="auto", resamples=RESAMPLES),
    "`Theoretical(0.1)`": Theoretical(0.1),
    "`Decaying(1.0)`": Decaying(1.0),
}
WINDOW = Calibrated(0.9, target="window")
WINDOW_DAYS = DAYS // 18
"""How many days a window of `WINDOW` has by default: 9 pairs of windows fit into the past."""


@dataclass(frozen=True, eq=False)
class Numbers:
    """A past of numbers (t,), the next window, and the mean of the normal distribution that the next days come from."""

    days: np.ndarray
    following: np.ndarray
    mean: float


def numbers(past: str, rng: np.random.Generator) -> Numbers:
    """Return one past of numbers."""
    total = DAYS + WINDOW_DAYS
    if past == "independent":
        days, mean = rng.normal(size=total), 0.0
    elif past == "autocorrelated":
        days, mean = rng.normal(size=total), 0.0
        for i in range(1, total):
            days[i] = PERSISTENCE * days[i - 1] + np.sqrt(1.0 - PERSISTENCE**2) * days[i]
    else:
        levels = LEVELS * rng.normal(size=DAYS // SEGMENT + 1)
        days, mean = np.repeat(levels, SEGMENT)[:total] + rng.normal(size=total), float(levels[-1])
    return Numbers(days[:DAYS], days[DAYS:], mean)


def mmd_to_normal(days: np.ndarray, mean: float) -> float:
    """Return the MMD of days (t,) from a normal distribution of deviation 1, in closed form."""

    def gauss(square: np.ndarray, variance: float) -> np.ndarray:
        return np.asarray(LENGTHSCALE / np.sqrt(variance) * np.exp(-0.5 * square / variance))

    own = gauss((days[:, None] - days) ** 2, LENGTHSCALE**2).mean()
    cross = gauss((days - mean) ** 2, LENGTHSCALE**2 + 1.0).mean()
    return float(np.sqrt(max(own - 2.0 * cross + LENGTHSCALE / np.sqrt(LENGTHSCALE**2 + 2.0), 0.0)))


def wasserstein_to_normal(days: np.ndarray, mean: float) -> float:
    """Return the Wasserstein distance of days (t,) from a normal distribution of deviation 1, by its quantiles."""
    fine = 50 * len(days)
    quantiles = mean + ndtri((np.arange(fine) + 0.5) / fine)
    return float(np.abs(np.repeat(np.sort(days), 50) - quantiles).mean())


def mmd_of_days(a: np.ndarray, b: np.ndarray) -> float:
    """Return the MMD of two samples."""
    weights = np.concatenate([np.full(len(a), 1.0 / len(a)), np.full(len(b), -1.0 / len(b))])
    both = np.concatenate([a, b])
    gram = np.exp(-0.5 * ((both[:, None] - both) / LENGTHSCALE) ** 2)
    return float(np.sqrt(max(weights @ gram @ weights, 0.0)))


def wasserstein_of_days(a: np.ndarray, b: np.ndarray) -> float:
    """Return the Wasserstein distance of two samples."""
    n = len(a) * len(b)
    return float(np.abs(np.repeat(np.sort(a), n // len(a)) - np.repeat(np.sort(b), n // len(b))).mean())


ToNormal = Callable[[np.ndarray, float], float]
OfDays = Callable[[np.ndarray, np.ndarray], float]
ON_NUMBERS: dict[str, tuple[AmbiguitySet, ToNormal, OfDays]] = {
    "MMD, numbers": (MMD(kernel=RBF(LENGTHSCALE)), mmd_to_normal, mmd_of_days),
    "Wasserstein, numbers": (Wasserstein(), wasserstein_to_normal, wasserstein_of_days),
}
ON_LABELS: dict[str, AmbiguitySet] = {
    "TotalVariation, labels": TotalVariation(),
    "KL, labels": KL(),
    "ChiSquare, labels": ChiSquare(),
}


def labels(past: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a past of labels (t,), the next window, and the shares that the next days are drawn with."""
    total = DAYS + WINDOW_DAYS
    if past == "shifting":
        shares = rng.dirichlet(20.0 * SHARES, size=DAYS // SEGMENT + 1)
        days = np.concatenate([rng.choice(5, SEGMENT, p=row) for row in shares])[:total]
        return days[:DAYS], days[DAYS:], shares[-1]
    days = rng.choice(5, total, p=SHARES)
    if past == "autocorrelated":
        for i in np.flatnonzero(rng.random(total) < PERSISTENCE).tolist():
            days[i] = days[max(i - 1, 0)]
    return days[:DAYS], days[DAYS:], SHARES


def shares_of(days: np.ndarray) -> np.ndarray:
    """Return the shares of the five labels."""
    return np.bincount(days, minlength=5) / len(days)


Cell = list[tuple[bool, float]]


def of_numbers(runs: int) -> Iterator[tuple[str, str, str, Cell]]:
    """Yield per set, rule and past whether the radius held the distribution of the next days, and the radius."""
    for name, (ambiguity, away, _) in ON_NUMBERS.items():
        for rule_name, rule in POPULATION.items():
            for past in PASTS:
                cell = []
                for seed in range(runs):
                    one = numbers(past, np.random.default_rng(seed))
                    radius = rule.for_samples(Samples(one.days), ambiguity)
                    cell.append((away(one.days, one.mean) <= radius, radius))
                yield name, rule_name, past, cell


def of_labels(runs: int) -> Iterator[tuple[str, str, str, Cell]]:
    """Yield the same for labels."""
    for name, ambiguity in ON_LABELS.items():
        for rule_name, rule in POPULATION.items():
            for past in PASTS:
                cell = []
                for seed in range(runs):
                    days, _, truth = labels(past, np.random.default_rng(seed))
                    radius = rule.radius(days, ambiguity, 5)
                    cell.append((ambiguity.distance(truth, shares_of(days)) <= radius, radius))
                yield name, rule_name, past, cell


def windows(runs: int) -> Iterator[tuple[str, str, str, Cell]]:
    """Yield the same for the next window, as far from the last window, and from the whole past."""
    for whole in (False, True):
        title = "the whole past" if whole else "the last window"
        for name, (ambiguity, _, away) in ON_NUMBERS.items():
            for past in PASTS:
                cell = []
                for seed in range(runs):
                    one = numbers(past, np.random.default_rng(seed))
                    radius = WINDOW.for_samples(Samples(one.days), ambiguity)
                    reference = one.days if whole else one.days[-WINDOW_DAYS:]
                    cell.append((away(one.following, reference) <= radius, radius))
                yield name, title, past, cell
        for past in PASTS:
            cell = []
            for seed in range(runs):
                days, following, _ = labels(past, np.random.default_rng(seed))
                radius = WINDOW.radius(days, TotalVariation(), 5)
                reference = days if whole else days[-WINDOW_DAYS:]
                held = TotalVariation().distance(shares_of(following), shares_of(reference)) <= radius
                cell.append((held, radius))
            yield "TotalVariation, labels", title, past, cell


def sales(days: np.ndarray) -> np.ndarray:
    """Return the reward of selling at most half a deviation above the mean: min(c, 0.5)."""
    return np.asarray(np.minimum(days, 0.5))


def expected_sales(mean: float) -> float:
    """Return the expected reward for normal days: E min(c, a) = a - (a - m) Phi(a - m) - phi(a - m)."""
    gap = 0.5 - mean
    return float(0.5 - gap * ndtr(gap) - np.exp(-0.5 * gap**2) / np.sqrt(2.0 * np.pi))


def values(runs: int) -> Iterator[tuple[str, str, str, Cell]]:
    """Yield whether the worst case was at most the true expected reward, and the radius."""
    rule = EmpiricalLikelihood(0.95)
    for ambiguity in (KL(), ChiSquare()):
        for past in PASTS:
            cell = []
            for seed in range(20 * runs):
                one = numbers(past, np.random.default_rng(seed))
                radius = rule.radius(np.arange(DAYS), ambiguity, DAYS)
                worst = ambiguity.worst_case(sales(one.days), np.full(DAYS, 1.0 / DAYS), radius)
                cell.append((bool(worst.lower_bound <= expected_sales(one.mean)), radius))
            yield f"{type(ambiguity).__name__}, numbers", "`EmpiricalLikelihood(0.95)`", past, cell


def table(first: str, second: str, cells: Iterator[tuple[str, str, str, Cell]]) -> None:
    """Print one row per set and rule: the share of runs that were covered, and the median radius."""
    print(f"| {first} | {second} | {' | '.join(PASTS)} |")
    print(f"|---|---|{'---|' * len(PASTS)}")
    row: list[str] = []
    for name, rule, past, cell in cells:
        covered, radius = np.mean([held for held, _ in cell]), np.median([eps for _, eps in cell])
        row.append(f"{covered:.0%} ({radius:.2g})")
        if past == PASTS[-1]:
            print(f"| {name} | {rule} | {' | '.join(row)} |", flush=True)
            row = []
    print()


if __name__ == "__main__":
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    table("set", "rule", of_numbers(runs))
    table("set", "rule", of_labels(runs))
    table("set", "the next window, from", windows(runs))
    table("set", "rule", values(runs))
