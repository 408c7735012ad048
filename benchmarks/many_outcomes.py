"""Thousands of outcomes on a box of 3 + 2 dimensions: times, and whether runs and bounds are as good as exact ones.

`python benchmarks/many_outcomes.py runs OUT` compares whole runs above the limit of an exact posterior with exact ones,
`bounds OUT` counts false bounds, and `times` prints the rows of `make bench`. OUT is a file that results are added to.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

import one_core  # noqa: F401  # imported for its effect, before numpy
from drbo import Box, LearnedGP, Optimizer, Samples, Simulator
from measure import clock
from world import Array

if TYPE_CHECKING:
    from rows import Row

XS, CS = ("x0", "x1", "x2"), ("c0", "c1")
NOISE = 0.05
TARGETS = {1000: (1.2, None, 1.2), 2000: (2, 1, 2.5), 5000: (2, 1, 2.5), 20_000: (4, 1, 2.5), 100_000: (12, 1, 2.5)}
"""CPU seconds of the first `ask`, the next one and `recommend`, by the number of outcomes."""
SAMPLES = 150
RADIUS = 0.1


def _waves(z: Array) -> Array:
    x0, x1, x2, c0, c1 = z.T
    return np.asarray(np.sin(3 * x0 + 2 * c0) + np.cos(4 * x1 * c1) - (x2 - c0) ** 2)


def _ridge(z: Array) -> Array:
    x0, x1, x2, c0, c1 = z.T
    return np.asarray(-np.abs(x0 - c0) - (x1 - 0.3 * c1) ** 2 + 0.5 * np.sin(5 * x2))


def _bump(z: Array) -> Array:
    x0, x1, x2, c0, c1 = z.T
    return np.asarray(np.exp(-4 * ((x0 - 0.7) ** 2 + (x1 - c0) ** 2)) + 0.5 * x2 * (1 - x2) + 0.3 * c1 * x0)


def _cliff(z: Array) -> Array:
    x0, x1, x2, c0, c1 = z.T
    return np.asarray(x0 + 0.5 * np.cos(3 * x1) - 2.0 / (1.0 + np.exp(-20 * (x0 + c0 - 1.4))) - (x2 - c1) ** 2)


def _valley(z: Array) -> Array:
    x0, x1, x2, c0, c1 = z.T
    return np.asarray(-((x1 - x0**2) ** 2) - 0.3 * (x0 - c0) ** 2 - 0.2 * (x2 + c1 - 1) ** 2)


PROBLEMS: dict[str, Callable[[Array], Array]] = {
    "waves": _waves,
    "ridge": _ridge,
    "bump": _bump,
    "cliff": _cliff,
    "valley": _valley,
}


def log(problem: str, count: int, seed: int) -> pd.DataFrame:
    """Return random evaluations with noise."""
    rng = np.random.default_rng([seed, count])
    z = rng.random((count, 5))
    found = pd.DataFrame(z, columns=[*XS, *CS])
    return found.assign(outcome=PROBLEMS[problem](z) + NOISE * rng.normal(size=count))


def told(frame: pd.DataFrame, exact_up_to: int | None = None, seed: int = 2) -> Optimizer:
    """Return an optimizer of a box with 150 samples that was told all outcomes."""
    past = np.random.default_rng(seed).random((SAMPLES, len(CS)))
    model = LearnedGP() if exact_up_to is None else LearnedGP(exact_up_to=exact_up_to)
    box = Box(dict.fromkeys(XS, (0.0, 1.0)))
    opt = Optimizer(box, Samples(past, names=CS), setting=Simulator(radius=RADIUS), surrogate=model)
    opt.append(frame, "outcome")
    return opt


def truth(opt: Optimizer, problem: str, actions: Array) -> Array:
    """Return the worst case of the true function for actions (m, 3), in the optimizer's set."""
    contexts = opt.configuration.nature.space.decode_all(opt.configuration.nature.seen([]).points)
    c = pd.DataFrame(contexts)[list(CS)].to_numpy(float)
    z = np.concatenate([np.repeat(actions, len(c), axis=0), np.tile(c, (len(actions), 1))], axis=1)
    values = PROBLEMS[problem](z).reshape(len(actions), len(c))
    weights = np.full(len(c), 1.0 / len(c))
    return np.asarray(opt.configuration.placed.worst_case(values, weights, RADIUS).expectation)


def outcome(problem: str, action: dict[str, float], context: dict[str, float], rng: np.random.Generator) -> float:
    """Return one noisy outcome."""
    z = np.array([[*(action[name] for name in XS), *(context[name] for name in CS)]])
    return float(PROBLEMS[problem](z)[0] + NOISE * rng.normal())


def best(opt: Optimizer, problem: str) -> float:
    """Return the best worst case among many random actions and a search around the best of them."""
    rng = np.random.default_rng(0)
    found = rng.random((3000, 3))
    scale = 0.1
    for _ in range(4):
        values = truth(opt, problem, found)
        top = found[values.argsort()[-20:]]
        found = np.clip(np.concatenate([top, np.repeat(top, 30, axis=0) + scale * rng.normal(size=(600, 3))]), 0.0, 1.0)
        scale /= 4
    return float(truth(opt, problem, found).max())


def runs(path: Path, evaluations: int, seeds: int, start: int = 600) -> None:
    """Add the regret of what is recommended after whole runs above the limit, and of exact ones, to a file."""
    for seed in range(seeds):
        for problem in PROBLEMS:
            row: dict[str, object] = {"problem": problem, "seed": seed}
            for name, limit in (("sparse", 300), ("exact", 5000)):
                opt, rng = told(log(problem, start, seed), limit), np.random.default_rng(seed)
                begin = clock()
                for _ in range(evaluations):
                    s = opt.ask()
                    opt.tell(s, outcome(problem, s.action, s.context, rng))
                r = opt.recommend()
                row[name] = best(opt, problem) - float(truth(opt, problem, np.array([[r.action[x] for x in XS]]))[0])
                row[f"{name} s"] = clock() - begin
            with path.open("a") as file:
                file.write(json.dumps(row) + "\n")


def bounds(path: Path, sizes: tuple[int, ...], first: int, count: int) -> None:
    """Add to a file by how much the bound of a recommendation is below the truth, negative if it is false."""
    for seed in range(first, first + count):
        for n in sizes:
            problem = list(PROBLEMS)[seed % len(PROBLEMS)]
            opt = told(log(problem, n, seed), 3000 if n <= 2000 else None)
            r = opt.recommend()
            true = float(truth(opt, problem, np.array([[r.action[x] for x in XS]]))[0])
            row = {"problem": problem, "seed": seed, "n": n, "guess": true - r.trust.guess, "bound": true - r.value}
            with path.open("a") as file:
                file.write(json.dumps(row) + "\n")


def times(count: int) -> tuple[float, float, float, float]:
    """Return the CPU times of the first `ask`, the next one and `recommend`, and the largest memory in MB."""
    opt, rng = told(log("waves", count, 1)), np.random.default_rng(0)
    found = []
    for _ in range(2):
        start = clock()
        s = opt.ask()
        found.append(clock() - start)
        opt.tell(s, outcome("waves", s.action, s.context, rng))
    start = clock()
    opt.recommend()
    found.append(clock() - start)
    first, later, recommended = found
    return first, later, recommended, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def sklearn_time(count: int) -> float:
    """Return the CPU time of scikit-learn's fit and of predictions at 5,000 points."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    frame = log("waves", count, 1)
    kernel = ConstantKernel() * Matern(np.full(5, 0.5), nu=2.5) + WhiteKernel()
    start = clock()
    model = GaussianProcessRegressor(kernel, normalize_y=True).fit(frame[[*XS, *CS]].to_numpy(), frame["outcome"])
    model.predict(np.random.default_rng(0).random((5000, 5)), return_std=True)
    return clock() - start


def many_outcome_rows(quick: bool) -> Iterator[Row]:
    """Return `ask` and `recommend` after many outcomes; opponents where they finish."""
    from opponents import HAS_BOTORCH, botorch_fit_and_acquisition
    from rows import Row

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        times(30)  # loads compiled code
        for count, (first, later, recommended) in TARGETS.items():
            if quick and count > 5000:
                break
            ours = times(count)
            name = f"{count:,} outcomes, 3 + 2 dimensions"
            against = {}
            if count == 2000 and not quick:
                frame = log("waves", count, 1)
                if HAS_BOTORCH:
                    z, y = frame[[*XS, *CS]].to_numpy(), frame["outcome"].to_numpy()
                    against["BoTorch fit and optimize_acqf"] = sum(botorch_fit_and_acquisition(z, y, 3))
                against["scikit-learn fit and predict"] = sklearn_time(count)
            note = f"memory of the process {ours[3]:.0f} MB"
            yield Row(f"first ask, {name}", ours[0], first, against, None, note)
            yield Row(f"next ask, {name}", ours[1], later)
            yield Row(f"recommend, {name}", ours[2], recommended)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["runs", "bounds", "times"])
    parser.add_argument("out", nargs="?", type=Path, default=Path("many.jsonl"))
    parser.add_argument("--evaluations", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--sizes", type=int, nargs="+", default=[2000, 5000, 20_000])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    if arguments.what == "runs":
        runs(arguments.out, arguments.evaluations, arguments.seeds)
    elif arguments.what == "bounds":
        bounds(arguments.out, tuple(arguments.sizes), arguments.first, arguments.count)
    else:
        times(30)  # loads compiled code
        for count, targets in TARGETS.items():
            first, later, recommended, memory = times(count)
            print(f"{count:,}: {first:.2f} / {later:.2f} / {recommended:.2f} s, {memory:.0f} MB, {targets}", flush=True)
    print(f"{time.perf_counter() - start:.0f} s, {clock():.0f} s of CPU time")


if __name__ == "__main__":
    main()
