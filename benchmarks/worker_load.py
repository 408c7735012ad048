"""What binds with many workers on one study: a simulation of their queue and of the database's load.

    python benchmarks/worker_load.py --suggestion 0.25 --transaction 0.0008

Suggestions are made one after the other, in the order of trial numbers: a trial waits until all running trials before
it have stored theirs, and looks at the study in the meantime, less often the more there are before it
(`drbo.integrations.optuna.trials.settled`). The times of a suggestion and of a transaction are those that
`many_workers.py` measures. Evaluations last 0.8 to 1.2 times the given seconds.
"""

from __future__ import annotations

import argparse
import heapq
import math
import random
from dataclasses import dataclass

FIXED = 60
"""Transactions of a trial besides its looks while it waits: creation, parameters, attributes, heartbeats, result."""
PER_LOOK = 4
"""Transactions of one look at the study."""
CONNECTIONS = 2
"""Connections of a worker: its own, and that of its heartbeat."""


@dataclass(frozen=True)
class Load:
    """What came out: trials per second, the share of workers that evaluate, and transactions per trial."""

    rate: float
    busy: float
    transactions: float


def looks(waits: float, before: int) -> int:
    """Return how often a trial looks at the study that waits for so many others, one after the other."""
    count, pause, now, each, left = 1, 0.01, 0.0, waits / max(before, 1), before
    while now < waits:
        known = now / (before - left) if left < before else 0.0
        now += max(pause, 0.25 * (left - 1) * min(known, 1.0))
        changed, left = left, max(math.ceil((waits - now) / each), 1) if each > 0.0 else 1
        pause = 0.01 if left < changed else min(2.0 * pause, 0.5 * left)
        count += 1
    return count


def simulate(workers: int, evaluation: float, suggestion: float, trials: int = 4000) -> Load:
    """Return the load in the second half of a study."""
    rng, free, transactions, counted = random.Random(0), 0.0, 0, 0
    asks = [(rng.uniform(0.0, evaluation), i) for i in range(workers)]
    heapq.heapify(asks)
    begun = 0.0
    for number in range(trials):
        if number == trials // 2:
            begun, transactions, counted = free, 0, 0
        now, worker = heapq.heappop(asks)
        starts = max(now, free)
        free = starts + suggestion
        before = math.ceil((starts - now) / suggestion)
        transactions += FIXED + PER_LOOK * looks(starts - now, before)
        counted += 1
        heapq.heappush(asks, (free + evaluation * rng.uniform(0.8, 1.2), worker))
    rate = counted / (free - begun)
    return Load(rate, rate * evaluation / workers, transactions / counted)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suggestion", type=float, default=0.25, help="seconds of one suggestion")
    parser.add_argument("--transaction", type=float, default=0.0008, help="CPU seconds of one transaction")
    given = parser.parse_args()
    print(
        "| workers | seconds of an evaluation | trials per minute | workers that evaluate | cores of the database | ",
        end="",
    )
    print("connections |\n|---|---|---|---|---|---|")
    for workers in (16, 50, 200):
        for evaluation in (20.0, 120.0, 1200.0):
            load = simulate(workers, evaluation, given.suggestion)
            cores = load.rate * load.transactions * given.transaction
            print(
                f"| {workers} | {evaluation:g} | {60 * load.rate:.0f} | {load.busy:.0%} | {cores:.2f} | "
                f"{CONNECTIONS * workers} |"
            )


if __name__ == "__main__":
    main()
