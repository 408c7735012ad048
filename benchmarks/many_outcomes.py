"""Thousands of outcomes on a box of 3 + 2 dimensions: times, and whether runs and bounds are as good as exact ones.

`python benchmarks/many_outcomes.py runs OUT` compares whole runs above the limit of an exact posterior with exact ones,
`bounds OUT` counts false bounds, `table OUT` prints either, and `times` prints the rows of `make bench`. `trials`
prints what the sampler of an Optuna study takes per trial after 5,000 trials. Results are added to the file OUT one by
one, and a run that was stopped goes on from there.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import one_core  # noqa: F401  # imported for its effect, before numpy
from drbo import Box, LearnedGP, Optimizer, Samples, Simulator
from drbo.models import sparse
from intervals import clopper_pearson, paired_ratio
from measure import clock
from world import Array

if TYPE_CHECKING:
    from rows import Row

XS, CS = ("x0", "x1", "x2"), ("c0", "c1")
NOISE = 0.05
LOGS = {20_000: 15.0, 100_000: 60.0}
"""CPU seconds from a table to a recommendation, contexts included, by the number of rows."""
REPORT, LOADED = (20_000, 15.0, 3e6), (100_000, 10.0)
"""A number of outcomes, and CPU seconds: of a report, with its bytes, and of loading a file."""
TARGETS = {1000: (1.2, None, 1.2), 2000: (2, 1, 2.5), 5000: (2, 1, 2.5), 20_000: (4, 1, 2.5), 100_000: (12, 1, 2.5)}
"""CPU seconds of the first `ask`, the next one and `recommend`, by the number of outcomes."""
LAST_OF_OTHERS = 2000
"""Largest number of outcomes at which BoTorch and scikit-learn finish within a minute."""
SAMPLES, FEW = 150, 30
RADIUS = 0.1
LEAST_REGRET = 1e-3
"""Smaller regrets count as this one: a fiftieth of the noise."""


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


def past(few: bool = False) -> Array:
    """Return the contexts of an optimizer (n, 2): samples, or a few fixed ones."""
    return np.random.default_rng(2).random((FEW if few else SAMPLES, len(CS)))


def log(problem: str, count: int, seed: int, few: bool = False) -> pd.DataFrame:
    """Return random evaluations with noise; if `few`, in the fixed contexts."""
    rng = np.random.default_rng([seed, count])
    z = rng.random((count, 5))
    if few:
        z[:, len(XS) :] = rng.choice(past(few), count)
    found = pd.DataFrame(z, columns=[*XS, *CS])
    return found.assign(outcome=PROBLEMS[problem](z) + NOISE * rng.normal(size=count))


def told(frame: pd.DataFrame, exact_up_to: int | None = None, few: bool = False) -> Optimizer:
    """Return an optimizer of a box with 150 samples that was told all outcomes; with 30 fixed contexts if `few`."""
    model = LearnedGP() if exact_up_to is None else LearnedGP(exact_up_to=exact_up_to)
    box = Box(dict.fromkeys(XS, (0.0, 1.0)))
    contexts = pd.DataFrame(past(few), columns=list(CS)) if few else Samples(past(few), names=CS)
    setting = Simulator(np.full(FEW, 1.0 / FEW), radius=RADIUS) if few else Simulator(radius=RADIUS)
    opt = Optimizer(box, contexts, setting=setting, surrogate=model)
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


def done(path: Path) -> list[dict[str, Any]]:
    """Return the results of a file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def add(path: Path, row: dict[str, Any]) -> None:
    """Add one result to a file."""
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")


@contextmanager
def sparse_with(inducing: int, nearest: int) -> Iterator[None]:
    """Let a posterior above the limit have other numbers of inducing points and of nearest outcomes."""
    before = sparse.INDUCING, sparse.POOL, sparse.NEAREST
    sparse.INDUCING, sparse.POOL, sparse.NEAREST = inducing, 4 * inducing, nearest
    try:
        yield
    finally:
        sparse.INDUCING, sparse.POOL, sparse.NEAREST = before


ARMS = {"exact": (5000, 500, 1000), "sparse": (300, 500, 1000), "coarse": (300, 100, 200)}
"""By name: `exact_up_to`, inducing points and nearest outcomes. The coarse arm has as few per outcome as 3,000 have."""


def runs(path: Path, evaluations: int, seeds: range, arms: Sequence[str], start: int = 600) -> None:
    """Add the regret of what is recommended after whole runs to a file, one row per problem, seed and arm."""
    known = {(row["problem"], row["seed"], row["arm"]) for row in done(path)}
    most: dict[str, float] = {}
    for seed, problem, arm in product(seeds, PROBLEMS, arms):
        if (problem, seed, arm) in known:
            continue
        limit, inducing, nearest = ARMS[arm]
        begin, rng = clock(), np.random.default_rng(seed)
        with sparse_with(inducing, nearest):
            opt = told(log(problem, start, seed, few=True), limit, few=True)
            for _ in range(evaluations):
                s = opt.ask()
                opt.tell(s, outcome(problem, s.action, s.context, rng))
            r = opt.recommend()
        spent = clock() - begin
        if problem not in most:
            most[problem] = best(opt, problem)
        regret = most[problem] - float(truth(opt, problem, np.array([[r.action[x] for x in XS]]))[0])
        add(path, {"problem": problem, "seed": seed, "arm": arm, "regret": regret, "s": spent})


def bounds(path: Path, sizes: Sequence[int], logs: int) -> None:
    """Add to a file by how much bounds are below the truth, negative if they are false.

    Per log these are the bound of the recommended action, and those of five random ones. A guess is the bound by the
    model alone, which does not count untried conditions as bad.
    """
    known = {(row["seed"], row["n"]) for row in done(path)}
    for seed, n in product(range(logs), sizes):
        if (seed, n) in known:
            continue
        problem = list(PROBLEMS)[seed % len(PROBLEMS)]
        opt = told(log(problem, n, seed), 3000 if n <= 2000 else None)
        found = [opt.recommend()]
        found += [opt.bound(dict(zip(XS, x, strict=True))) for x in np.random.default_rng(seed).random((5, 3)).tolist()]
        true = truth(opt, problem, np.array([[r.action[x] for x in XS] for r in found]))
        margins = [float(t) - r.value for t, r in zip(true, found, strict=True)]
        guesses = [float(t) - r.trust.guess for t, r in zip(true, found, strict=True)]
        add(path, {"problem": problem, "seed": seed, "n": n, "bound": margins, "guess": guesses})


def table_of_runs(path: Path) -> Iterator[str]:
    """Yield the paired ratios of regret, by problem and of all."""
    regret = {(row["problem"], row["seed"], row["arm"]): float(row["regret"]) for row in done(path)}
    yield "| arm | problem | pairs | regret over that of exact runs (95% interval) |"
    yield "|---|---|---|---|"
    for arm, name in product([arm for arm in ARMS if arm != "exact"], (*PROBLEMS, "all")):
        keys = sorted({key[:2] for key in regret if name in (key[0], "all")})
        pairs = [
            (regret[*key, arm], regret[*key, "exact"]) for key in keys if {(*key, arm), (*key, "exact")} <= {*regret}
        ]
        if pairs:
            ours, theirs = np.transpose(pairs)
            ratio, low, high = paired_ratio(ours, theirs, floor=LEAST_REGRET)
            yield f"| {arm} | {name} | {len(pairs)} | {ratio:.2f} ({low:.2f} to {high:.2f}) |"


def table_of_bounds(path: Path) -> Iterator[str]:
    """Yield the shares of false bounds by the number of outcomes."""
    rows = done(path)
    yield "| outcomes | bounds | false | false by the model alone | 95% interval of the latter | median distance |"
    yield "|---|---|---|---|---|---|"
    for n in sorted({row["n"] for row in rows}):
        bound, guess = (
            np.array([one for row in rows if row["n"] == n for one in row[key]]) for key in ("bound", "guess")
        )
        false = int((guess < 0.0).sum())
        low, high = clopper_pearson(false, len(guess))
        interval, distance = f"{low:.1%} to {high:.1%}", np.median(guess)
        yield f"| {n:,} | {len(guess)} | {(bound < 0.0).sum()} | {false} | {interval} | {distance:.3f} |"


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


def log_time(count: int) -> float:
    """Return the CPU time from a table to a recommendation; the contexts are those of the table."""
    frame = log("waves", count, 1)
    start = clock()
    opt = Optimizer.from_frame(frame, actions=list(XS), contexts=list(CS), outcome="outcome", radius=0.05)
    opt.recommend()
    return clock() - start


def report_time(count: int) -> tuple[float, int]:
    """Return the CPU time of a report, and its size in bytes."""
    opt = told(log("waves", count, 1))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.html"
        start = clock()
        opt.report(path)
        return clock() - start, path.stat().st_size


def load_time(count: int) -> float:
    """Return the CPU time of loading a file of results."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.jsonl"
        told(log("waves", count, 1)).save(path)
        start = clock()
        Optimizer.load(path)
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
            if count <= LAST_OF_OTHERS and not quick:
                frame = log("waves", count, 1)
                if HAS_BOTORCH:
                    z, y = frame[[*XS, *CS]].to_numpy(), frame["outcome"].to_numpy()
                    against["BoTorch fit and optimize_acqf"] = sum(botorch_fit_and_acquisition(z, y, 3))
                against["scikit-learn fit and predict"] = sklearn_time(count)
            note = f"memory of the process {ours[3]:.0f} MB"
            yield Row(f"first ask, {name}", ours[0], first, against, None, note)
            yield Row(f"next ask, {name}", ours[1], later)
            yield Row(f"recommend, {name}", ours[2], recommended)
        for count, limit in LOGS.items():
            rows = 2000 if quick else count
            yield Row(f"from_frame and recommend, {rows:,} rows", log_time(rows), limit)
            if quick:
                return
        count, limit, most = REPORT
        spent, size = report_time(count)
        yield Row(f"report of {count:,} outcomes", spent, limit, note=f"{size / 1e6:.1f} MB, at most {most / 1e6:.0f}")
        count, limit = LOADED
        yield Row(f"load {count:,} results", load_time(count), limit)


def trials(count: int = 5000, later: int = 5) -> list[float]:
    """Return the CPU seconds of the next suggestions of a study with so many trials, the first one included."""
    import optuna

    from drbo.integrations.optuna import RobustSampler

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    rng = np.random.default_rng(0)
    past = {name: rng.random(60) for name in CS}
    study = optuna.create_study(sampler=RobustSampler(Samples(past, support=8), setting=Simulator(radius=0.1)))
    space: dict[str, Any] = {name: optuna.distributions.FloatDistribution(0.0, 1.0) for name in (*XS, *CS)}

    def cost(params: dict[str, float]) -> float:
        x, c = (np.array([params[name] for name in names]) for names in (XS, CS))
        return float(((x - 0.5 - 0.2 * c.mean()) ** 2).sum() + NOISE * rng.normal())

    for day in rng.integers(60, size=count).tolist():
        params = {**{name: float(rng.random()) for name in XS}, **{name: float(past[name][day]) for name in CS}}
        study.add_trial(optuna.trial.create_trial(params=params, distributions=space, value=cost(params)))
    taken = []
    for _ in range(later + 1):
        start = clock()
        trial = study.ask()
        params = {name: trial.suggest_float(name, 0.0, 1.0) for name in space}
        taken.append(clock() - start)
        study.tell(trial, cost(params))
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["runs", "bounds", "table", "times", "trials"])
    parser.add_argument("out", nargs="?", type=Path, default=Path("many.jsonl"))
    parser.add_argument("--evaluations", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS))
    parser.add_argument("--logs", type=int, default=40)
    parser.add_argument("--sizes", type=int, nargs="+", default=[2000, 5000, 20_000])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    if arguments.what == "runs":
        first = arguments.first_seed
        runs(arguments.out, arguments.evaluations, range(first, first + arguments.seeds), arguments.arms)
    elif arguments.what == "bounds":
        bounds(arguments.out, arguments.sizes, arguments.logs)
    elif arguments.what == "table":
        table = table_of_runs if "arm" in done(arguments.out)[0] else table_of_bounds
        print("\n".join(table(arguments.out)))
    elif arguments.what == "trials":
        print(" / ".join(f"{one:.2f}" for one in trials()), "s per trial")
    else:
        times(30)  # loads compiled code
        for count, targets in TARGETS.items():
            first, later, recommended, memory = times(count)
            print(f"{count:,}: {first:.2f} / {later:.2f} / {recommended:.2f} s, {memory:.0f} MB, {targets}", flush=True)
    print(f"{time.perf_counter() - start:.0f} s, {clock():.0f} s of CPU time")


if __name__ == "__main__":
    main()
