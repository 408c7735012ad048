"""Two versions of drbo side by side: the same rows in alternating processes, and the median ratio of their times.

    python benchmarks/pairs.py OLD/src NEW/src --pairs 5

Only calls that both versions know are timed. Run it on an idle machine: a row whose ratio lies within the spread of the
old version's own times is not slower.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from drbo import GP, MMD, RBF, Box, General, LearnedGP, Optimizer, Product, Samples, Simulator
from measure import best_of, clock
from world import SamplePath, gaussian, grid


def rounds(n_actions: int, n_contexts: int, count: int, drifting: bool) -> list[float]:
    """Return the time of `ask` and `tell` in each round of a run."""
    actions, contexts = grid(n_actions), grid(n_contexts)
    mmd, reference = MMD(contexts, RBF(0.1)), gaussian(contexts, 0.5, 0.05)
    radius = mmd.distance(reference, gaussian(contexts, 0.45, 0.1))
    rng = np.random.default_rng(0)
    f = SamplePath(rng)
    surrogate = GP(Product(RBF(0.2), RBF(0.2)), 0.05)
    opt = Optimizer(actions, contexts, ambiguity=mmd, setting=General(), surrogate=surrogate)
    times = []
    for t in range(count):
        if drifting:
            reference = gaussian(contexts, 0.5 + 0.1 * np.sin(t), 0.05)
        start = clock()
        s = opt.ask(reference=reference, radius=radius)
        asked = clock() - start
        j = int(rng.choice(n_contexts, p=reference))
        y = f(s.action, contexts[j]) + 0.05 * rng.normal()
        start = clock()
        opt.tell(s, y, context_index=j)
        times.append(asked + clock() - start)
    return times


def ask_on_a_box(outcomes: int, ranged: bool) -> tuple[float, float]:
    """Return the time of an `ask` with a first fit and of the next one, with 150 samples."""
    rng = np.random.default_rng(1)
    past = rng.random(150)
    samples = Samples(past, within=Box(c=(0.0, 1.0))) if ranged else Samples(past[:, None], names=["c"])
    opt = Optimizer(Box(x=(0.0, 1.0)), samples, setting=Simulator(radius=0.1, pick="uncertain"), surrogate=LearnedGP())
    for _ in range(outcomes):
        x, c = rng.random(2).tolist()
        opt.tell({"x": x}, float(np.sin(6 * x) * np.cos(4 * c) + 0.05 * rng.normal()), context={"c": c})
    start = clock()
    s = opt.ask()
    first = clock() - start
    opt.tell(s, 0.1)
    start = clock()
    opt.ask()
    return first, clock() - start


def rows() -> dict[str, float]:
    """Return the time of every row in seconds."""
    found: dict[str, float] = {}
    f = SamplePath(np.random.default_rng(0))
    for n in (30, 100, 300, 1000):
        contexts = grid(n)
        reference = gaussian(contexts, 0.5, 0.05)
        values = np.array([[f(x, c) for c in contexts] for x in grid(100)])
        for lengthscale, share in ((0.1, 1.0), (0.05, 1.0), (0.3, 1.0), (0.1, 0.1)):
            mmd = MMD(contexts, RBF(lengthscale))
            radius = share * mmd.distance(reference, gaussian(contexts, 0.45, 0.1))
            name = f"worst case, n={n}, lengthscale {lengthscale}, {share:g} of the radius"
            found[name] = best_of(_solve(mmd, values, reference, radius), 20) / 100
    for n, m in ((50, 50), (100, 100), (1000, 100)):
        for drifting in (False, True):
            runs = [rounds(n, m, 106, drifting)[95:] for _ in range(6)]
            name = f"round at t=100, {n}x{m}" + (", another reference every round" if drifting else "")
            found[name] = float(np.min(runs, axis=0).mean())
    found["round at t=1000, 100x100"] = float(np.median(rounds(100, 100, 1000, False)[975:]))
    found["round at t=50, 100,000x100"] = float(np.mean(rounds(100_000, 100, 53, False)[48:]))
    for outcomes in (60, 200):
        for ranged in (False, True):
            first, later = np.min([ask_on_a_box(outcomes, ranged) for _ in range(3)], axis=0)
            where = "range" if ranged else "samples"
            found[f"ask on a box, {where}, {outcomes} outcomes, with a first fit"] = float(first)
            found[f"ask on a box, {where}, {outcomes} outcomes, without one"] = float(later)
    return found


def _solve(mmd: MMD, values: np.ndarray, reference: np.ndarray, radius: float) -> Callable[[], object]:
    return lambda: mmd.worst_case(values, reference, radius)


def main() -> None:
    """Time the rows of this process, or of two versions in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", nargs="*", type=Path)
    parser.add_argument("--pairs", type=int, default=5)
    arguments = parser.parse_args()
    if not arguments.sources:
        warnings.simplefilter("ignore")
        print(json.dumps(rows()))
        return
    times: list[list[dict[str, float]]] = [[], []]
    for pair in range(arguments.pairs):
        for i, source in enumerate(arguments.sources):
            environment = {**os.environ, "PYTHONPATH": str(source.resolve()), "OPENBLAS_NUM_THREADS": "1"}
            answer = subprocess.run(
                [sys.executable, __file__], env=environment, check=True, capture_output=True, text=True
            )
            times[i].append(json.loads(answer.stdout.splitlines()[-1]))
        print(f"pair {pair + 1} of {arguments.pairs}", file=sys.stderr, flush=True)
    print("| row | old | new | ratio | spread of the old |\n|---|---|---|---|---|")
    for name in times[0][0]:
        old, new = ([run[name] for run in side] for side in times)
        ratio = statistics.median(b / a for a, b in zip(old, new, strict=True))
        each = [f"{1e6 * statistics.median(side):,.1f} us" for side in (old, new)]
        print(f"| {name} | {each[0]} | {each[1]} | {ratio:.2f} | {max(old) / min(old):.2f} |")


if __name__ == "__main__":
    main()
