"""False alarms and delays of `opt.watch`, by simulation: `python scripts/watch_alarms.py [RUNS]`.

Under the hypothesis contexts are drawn at the border of the set, where false alarms are likeliest: from the worst
distribution of a random reward on labels; on samples from days that are all shifted by as much as the radius allows.
With a shift by `times` as much they have left the set. The table is in docs/radius.md.
"""

import sys

import numpy as np

from drbo import KL, MMD, RBF, AmbiguitySet, TotalVariation, Wasserstein
from drbo.analysis.watch import ContinuousBets, FiniteBets, Watch, Watched, gamble

ALPHA = 0.05
LABELS = np.array([0.4, 0.3, 0.2, 0.1])
PAST = np.random.default_rng(0).normal(size=(20, 1))
SHIFT = 0.4


def on_labels(ambiguity: AmbiguitySet, radius: float, rng: np.random.Generator, times: float) -> Watch:
    """Return what is said of 60 labels, drawn from the worst distribution of `times` the radius."""
    border = ambiguity.worst_case(rng.normal(size=4), LABELS, times * radius).weights
    arrived = rng.choice(4, size=60, p=border / border.sum())
    return gamble(FiniteBets(Watched(ambiguity, LABELS, radius), arrived), 60, ALPHA, radius, "")


def on_samples(ambiguity: AmbiguitySet, rng: np.random.Generator, times: float) -> Watch:
    """Return what is said of 30 days that are shifted by `times` as much as the radius allows."""
    p = np.full(len(PAST), 1.0 / len(PAST))
    radius = ambiguity.moved(p, PAST + SHIFT)
    assert radius is not None
    arrived = rng.choice(PAST[:, 0], size=(30, 1)) + times * SHIFT
    return gamble(ContinuousBets(Watched(ambiguity, p, radius), arrived), 30, ALPHA, radius, "")


CASES = {
    "TotalVariation, labels": lambda rng, times: on_labels(TotalVariation(), 0.15, rng, times),
    "KL, labels": lambda rng, times: on_labels(KL(), 0.1, rng, times),
    "MMD, samples": lambda rng, times: on_samples(MMD(PAST, RBF(0.8)), rng, times),
    "Wasserstein, samples": lambda rng, times: on_samples(Wasserstein(PAST), rng, times),
}


def main(runs: int) -> None:
    """Print one row per set."""
    print(f"| set | false alarms in {runs:,} runs | alarms at 2 radii | at 3 radii | median delay at 3 radii |")
    print("|---|---|---|---|---|")
    for name, case in CASES.items():
        rng = np.random.default_rng(1)
        false = np.mean([case(rng, 1.0).alarm for _ in range(runs)])
        left = {times: [case(rng, times) for _ in range(max(runs // 20, 20))] for times in (2.0, 3.0)}
        shares = [float(np.mean([one.alarm for one in left[times]])) for times in (2.0, 3.0)]
        delays = [one.at + 1 for one in left[3.0] if one.at is not None]
        delay = f"{np.median(delays):.0f} contexts" if delays else "-"
        print(f"| {name} | {false:.2%} | {shares[0]:.0%} | {shares[1]:.0%} | {delay} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
