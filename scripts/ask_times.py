"""The time of an ask on a box, and what branch and bound leaves open on a range of contexts.

    export OPENBLAS_NUM_THREADS=1
    python scripts/ask_times.py ask      # docs/evidence_faults.md: 200 atoms, with and without a fit
    python scripts/ask_times.py range    # docs/contexts.md: the gap on boxes of one to four conditions, and its time

Times are CPU times, but for `ask`, which has both.
"""

from __future__ import annotations

import os
import sys
import time

import numpy as np

import drbo
from drbo.validation import FloatArray

RADIUS = 0.1


def time_ask() -> None:
    """Print the time of `ask`: 6 action and 2 context dimensions, 200 atoms, 200 observations, refit included."""
    rng = np.random.default_rng(0)
    box = drbo.Box(**{f"x{k}": (0.0, 1.0) for k in range(6)})
    slope = rng.normal(size=8)

    def f(z: FloatArray) -> float:
        return float(np.sin(3.0 * z @ slope) - ((z - 0.4) ** 2).sum() + 0.05 * rng.normal())

    for fit in ("first fit of all", "warm refit", "warm refit", "no refit", "no refit"):
        if fit == "first fit of all":
            opt = drbo.Optimizer(
                box, drbo.Samples(rng.random((136, 2))), setting=drbo.Simulator(radius=RADIUS, pick="uncertain")
            )
            opt.ask()  # compiles
        more = {"first fit of all": 200, "warm refit": opt.n_told // 10, "no refit": 0}[fit]  # due after 10% more
        for z in rng.random((more, 8)):
            opt.tell(dict(zip(box.names, z[:6].tolist(), strict=True)), f(z), context=z[6:])
        start, cpu = time.perf_counter(), time.process_time()
        s = opt.ask()
        taken, cpu = time.perf_counter() - start, time.process_time() - cpu
        atoms, load = len(s.reference), os.getloadavg()[0]
        print(f"{fit}: {taken:.2f} s, of the processor {cpu:.2f} s; {atoms} atoms, load {load:.1f}", flush=True)
        opt.cancel(s)


def time_range() -> None:
    """Print what branch and bound leaves open on boxes of contexts, and the time of an ask."""
    actions = drbo.Box(**{f"x{k}": (0.0, 1.0) for k in range(6)})
    for d in (1, 2, 3, 4):
        rng = np.random.default_rng(d)
        contexts = drbo.Box(**{f"c{k}": (0.0, 1.0) for k in range(d)})
        opt = drbo.Optimizer(
            actions,
            drbo.Samples(rng.random((136, d)), within=contexts),
            setting=drbo.Simulator(radius=RADIUS, pick="uncertain"),
        )
        slope = rng.normal(size=6 + d)

        def f(z: FloatArray, slope: FloatArray = slope, rng: np.random.Generator = rng) -> float:
            return float(np.sin(3.0 * z @ slope) - ((z - 0.4) ** 2).sum() + 0.05 * rng.normal())

        outcomes = []
        for z in rng.random((200, 6 + d)):
            outcomes.append(f(z))
            opt.tell(dict(zip(actions.names, z[:6].tolist(), strict=True)), outcomes[-1], context=z[6:])
        times = []
        for _ in range(6):
            start = time.process_time()
            s = opt.ask()
            times.append(time.process_time() - start)
            assert s.context_point is not None
            opt.tell(s, f(np.concatenate([s.action_point.coordinates, s.context_point.coordinates])))
        start = time.process_time()
        r = opt.recommend()
        last = time.process_time() - start
        asks = f"{np.median(times[1:]):.2f} ({min(times[1:]):.2f} to {max(times[1:]):.2f})"
        print(f"| {d} | {100 * r.gap / np.std(outcomes):.1f}% | {asks} s | {last:.2f} s |", flush=True)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["ask"]:
            time_ask()
        case ["range"]:
            time_range()
        case _:
            print(__doc__)
