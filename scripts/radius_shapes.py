"""How often each rule for the radius held, by the shape of the past: `python scripts/radius_shapes.py [RUNS]`.

Pasts of 60 and of 200 numbers: normal, skewed (lognormal), heavy-tailed (Student's t with 1.5 degrees of freedom),
autocorrelated (an AR(1) process with coefficient 0.6), and seasonal (four seasons of a sine of twice the noise's
deviation). A rule holds if the radius is at least the distance of the distribution that the next days are drawn from:
the same one, and for the seasonal past that of the next quarter of a season. `EmpiricalLikelihood` holds if the worst
case of min(c, 0.5) is at most its true mean. The table is in docs/radius.md.
"""

import sys
from collections.abc import Callable

import numpy as np
from scipy import stats

from drbo import KL, MMD, RBF, AmbiguitySet, Samples, Wasserstein
from drbo.radius import Bootstrap, Calibrated, EmpiricalLikelihood, RadiusRule, Theoretical

SHAPES = ("normal", "skewed", "heavy-tailed", "autocorrelated", "seasonal")
LENGTHS = (60, 200)
SEASONS, SWING, PERSISTENCE, LENGTHSCALE = 4, 2.0, 0.6, 0.8
LEVELS = (np.arange(2000) + 0.5) / 2000
RESAMPLES = 100
"""A fifth of the rules' own number, so that the table takes minutes."""
RULES: dict[str, RadiusRule] = {
    "`Bootstrap(0.1)`": Bootstrap(0.1, RESAMPLES),
    '`Bootstrap(0.1, block="auto")`': Bootstrap(0.1, RESAMPLES, block="auto"),
    "`Calibrated(0.9)`": Calibrated(0.9, resamples=RESAMPLES),
    '`Calibrated(0.9, block="auto")`': Calibrated(0.9, block="auto", resamples=RESAMPLES),
    '`Calibrated(0.9, target="window")`': Calibrated(0.9, target="window"),
    "`Calibrated(0.75, season=...)`": Calibrated(0.75, season="1D"),
    "`Theoretical(0.1)`": Theoretical(0.1),
}
SETS: dict[str, AmbiguitySet] = {"Wasserstein": Wasserstein(), "MMD": MMD(kernel=RBF(LENGTHSCALE))}


def past(shape: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return one past of n numbers."""
    noise = rng.normal(size=n)
    if shape == "skewed":
        return np.asarray(np.exp(noise))
    if shape == "heavy-tailed":
        return np.asarray(rng.standard_t(1.5, n))
    if shape == "autocorrelated":
        for i in range(1, n):
            noise[i] = PERSISTENCE * noise[i - 1] + np.sqrt(1.0 - PERSISTENCE**2) * noise[i]
    if shape == "seasonal":
        return np.asarray(noise + SWING * np.sin(2.0 * np.pi * SEASONS * np.arange(n) / n))
    return noise


def truth(shape: str, n: int) -> np.ndarray:
    """Return equally likely numbers that stand for the distribution of the next days, sorted."""
    if shape == "skewed":
        return np.asarray(np.exp(stats.norm.ppf(LEVELS)))
    if shape == "heavy-tailed":
        return np.asarray(stats.t.ppf((np.arange(100_000) + 0.5) / 100_000, 1.5))
    if shape == "seasonal":
        length = n // SEASONS
        phases = np.sin(2.0 * np.pi * np.arange(length // 4) / length)
        return np.sort(np.add.outer(SWING * phases, stats.norm.ppf(LEVELS[::10])).ravel())
    return np.asarray(stats.norm.ppf(LEVELS))


def wasserstein(days: np.ndarray, there: np.ndarray) -> float:
    """Return the Wasserstein distance of two samples of numbers, by their quantiles."""
    return float(stats.wasserstein_distance(days, there))


def mmd(days: np.ndarray, there: np.ndarray) -> float:
    """Return the MMD of two samples of numbers."""

    def mean(a: np.ndarray, b: np.ndarray) -> float:
        return float(np.exp(-0.5 * ((a[:, None] - b) / LENGTHSCALE) ** 2).mean())

    there = there[:: max(len(there) // 2000, 1)]  # enough for a bounded kernel
    return float(np.sqrt(max(mean(days, days) - 2.0 * mean(days, there) + mean(there, there), 0.0)))


DISTANCES: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {"Wasserstein": wasserstein, "MMD": mmd}


def cell(name: str, rule: RadiusRule, shape: str, n: int, runs: int) -> str:
    """Return the share of runs in which a rule held, and its median radius."""
    if rule.needs_times and shape != "seasonal":
        return "-"
    there, held, radii = truth(shape, n), 0, []
    for run in range(runs):
        days = past(shape, n, np.random.default_rng([run, n]))
        time = np.arange(n) * SEASONS * 86_400.0 / n if rule.needs_times else None
        radius = rule.for_samples(Samples(days, time=time), SETS[name])
        held += DISTANCES[name](days, there) <= radius
        radii.append(radius)
    return f"{held / runs:.0%} ({np.median(radii):.2g})"


def likelihood(shape: str, n: int, runs: int) -> str:
    """Return the share of runs in which the worst case of min(c, 0.5) is at most its mean, for KL."""
    mean, held = float(np.minimum(truth(shape, n), 0.5).mean()), 0
    radius = EmpiricalLikelihood(0.95).radius(np.arange(n), KL(), n)
    for run in range(runs):
        days = past(shape, n, np.random.default_rng([run, n]))
        worst = KL().worst_case(np.minimum(days, 0.5), np.full(n, 1.0 / n), radius)
        held += float(worst.lower_bound) <= mean
    return f"{held / runs:.0%} ({radius:.2g})"


def main() -> None:
    """Print the table row by row."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print(f"| set | rule | n | {' | '.join(SHAPES)} |\n|---|---|---|{'---|' * len(SHAPES)}", flush=True)
    for name in SETS:
        for text, rule in RULES.items():
            for n in LENGTHS:
                cells = [cell(name, rule, shape, n, runs) for shape in SHAPES]
                print(f"| {name} | {text} | {n} | {' | '.join(cells)} |", flush=True)
    for n in LENGTHS:
        cells = [likelihood(shape, n, 10 * runs) for shape in SHAPES]
        print(f"| KL | `EmpiricalLikelihood(0.95)` | {n} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
