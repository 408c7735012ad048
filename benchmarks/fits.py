"""Two versions of drbo side by side: what their fits and their runs are worth, in pairs of the same seed.

    export OPENBLAS_NUM_THREADS=1
    python benchmarks/fits.py fits OLD/src NEW/src OUT
    python benchmarks/fits.py runs OLD/src NEW/src OUT --problems newsvendor "modified Branin"

Fits: 20 to 320 outcomes of random actions in drawn contexts, a first fit ("cold") and one that begins from the fit to
fewer outcomes ("warm"); log p(y, theta) of the hyper-parameters, and the mean log density of 500 other outcomes.
Runs: evaluations that the simulator setting chooses, with the robust objective; the true worst case of `recommend()` in
per cent of the range of f between its 5% and 95% quantiles, and the mean log density of 100 other outcomes under the
model of the run. A difference of these worst cases is one of regrets, with the other sign: more is better everywhere.

The problems are those of efficiency_problems.py. Only calls that both versions know are made. Each version runs in a
process of its own and writes one file per problem and seed to OUT, so that a comparison that was stopped goes on where
it was.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.stats import t as student

import drbo
from efficiency_methods import Drbo
from efficiency_problems import NOISE, PROBLEMS, Task
from world import Array

SIZES = (20, 40, 80, 160, 320)
"""From 200 outcomes on climbs begin on half of them."""
CHECKPOINTS = (20, 40)
HELD_OUT = {"fits": 500, "runs": 100}
EQUAL = 1e-4
"""Numbers that differ by less count as equal: climbs end within so many nats of a summit, or closer."""

Pairs = tuple[list[float], list[float]]
"""What the old version and the new one have, seed by seed."""


def outcomes(task: Task, rng: np.random.Generator, count: int) -> tuple[Array, Array, Array]:
    """Return random actions (count, d_x), drawn contexts (count, d_c) and noisy outcomes (count,)."""
    x, c = rng.random((count, task.problem.d_x)), rng.choice(task.draws, count)
    return x, c, task.problem.function(x, c) + task.noise * rng.normal(size=count)


def log_density(outcome: Array, mean: Array, variance: Array) -> float:
    """Return the mean log density of outcomes (m,) under normal distributions."""
    return float(np.mean(-0.5 * (np.log(2.0 * np.pi * variance) + (outcome - mean) ** 2 / variance)))


def held_out(
    fit: drbo.models.gp.FittedGP, told: tuple[Array, Array, Array], other: tuple[Array, Array, Array]
) -> float:
    """Return the mean log density of other outcomes, by the textbook formula, in the units of the outcomes."""
    (x, c, y), (other_x, other_c, outcome) = told, other
    action, context, ridge = fit.gp.kernel.action, fit.gp.kernel.context, fit.gp.noise**2
    factor = cho_factor(action(x, x) * context(c, c) + ridge * np.eye(len(y)))
    cross = action(other_x, x) * context(other_c, c)
    mean = cross @ cho_solve(factor, (y - fit.offset) / fit.scale)
    variance = fit.gp.kernel.variance - np.einsum("ij,ji->i", cross, cho_solve(factor, cross.T))
    return log_density(outcome, fit.offset + fit.scale * mean, fit.scale**2 * (np.maximum(variance, 0.0) + ridge))


def fits(task: Task) -> Iterator[tuple[str, float]]:
    """Return log p(y, theta) and held-out densities of the fits to one design."""
    rng = np.random.default_rng([task.seed, 4])
    (x, c, y), other = outcomes(task, rng, SIZES[-1]), outcomes(task, rng, HELD_OUT["fits"])
    last = None
    for size in SIZES:
        told = x[:size], c[:size], y[:size]
        first = drbo.LearnedGP().fit(*told)
        last = drbo.LearnedGP().fit(*told, last)
        for name, fit in (("cold", first), ("warm", last)):
            yield f"log posterior, {name} fit, {size} outcomes", fit.log_posterior
            yield f"held-out log density, {name} fit, {size} outcomes", held_out(fit, told, other)


def runs(task: Task) -> Iterator[tuple[str, float]]:
    """Return the true worst case of what one run deploys, and the density of other outcomes under its model."""
    rng = np.random.default_rng([task.seed, 5])
    other_x, other_c, outcome = outcomes(task, rng, HELD_OUT["runs"])
    method = Drbo(task, "robust", pick="informative")
    for evaluations in range(1, CHECKPOINTS[-1] + 1):
        action, context = method.ask()
        method.tell(action, context, float(task.problem.function(action, context)) + task.noise * float(rng.normal()))
        if evaluations in CHECKPOINTS:
            value = float(task.value("robust", method.deploy()[None])[0])
            yield f"value deployed, % of the range, {evaluations} evaluations", 100.0 * value * NOISE / task.noise
            named = (dict(zip(method.box.names, x, strict=True)) for x in other_x.tolist())
            known = [method.optimizer.predict(x, c) for x, c in zip(named, other_c, strict=True)]
            mean, std = (np.array([getattr(each, name) for each in known]) for name in ("mean", "std"))
            yield (
                f"held-out log density, {evaluations} evaluations",
                log_density(outcome, mean, std**2 + task.noise**2),
            )


PARTS: dict[str, Callable[[Task], Iterator[tuple[str, float]]]] = {"fits": fits, "runs": runs}


def work(part: str, out: Path, problems: list[str], seeds: range) -> None:
    """Write the records of this process's drbo."""
    warnings.simplefilter("ignore")
    out.mkdir(parents=True, exist_ok=True)
    for seed, name in itertools.product(seeds, problems):
        file = out / _file(name, seed)
        if not file.is_file():
            half = file.with_suffix(".part")
            half.write_text(json.dumps(dict(PARTS[part](Task(PROBLEMS[name], seed)))))
            half.rename(file)


def paired(out: Path, part: str, problems: list[str], seeds: range) -> dict[str, dict[str, Pairs]]:
    """Return what both versions have, by quantity and problem, for the seeds that both have run."""
    found: dict[str, dict[str, Pairs]] = {}
    for name in problems:
        for seed in seeds:
            files = [out / side / part / _file(name, seed) for side in ("old", "new")]
            if all(file.is_file() for file in files):
                for side, file in enumerate(files):
                    for quantity, number in json.loads(file.read_text()).items():
                        found.setdefault(quantity, {}).setdefault(name, ([], []))[side].append(number)
    return found


def interval(differences: Array) -> str:
    """Return the mean of differences (n,) and its 95% interval by the t distribution."""
    n = len(differences)
    half = student.ppf(0.975, n - 1) * differences.std(ddof=1) / np.sqrt(n) if n > 1 else np.nan
    return f"{differences.mean():+.2g} [{differences.mean() - half:+.2g}, {differences.mean() + half:+.2g}]"


def table(found: dict[str, dict[str, Pairs]]) -> Iterator[str]:
    """Return the lines of a table: for every quantity all problems together, and the problems that differ.

    The interval of all problems is over their means, and that of a problem over its seeds.
    """
    yield "| quantity | problem | old | new - old, 95% interval | least, largest | higher / lower / equal |"
    yield "|---|---|---|---|---|---|"
    for quantity, problems in found.items():
        each = {name: (np.array(old), np.array(new)) for name, (old, new) in problems.items()}
        differences = {name: new - old for name, (old, new) in each.items()}
        means = np.array([some.mean() for some in differences.values()])
        rows = [(name, old, differences[name]) for name, (old, _) in each.items()]
        if len(rows) > 1:
            rows.insert(
                0, ("all", np.concatenate([old for _, old, _ in rows]), np.concatenate([some for *_, some in rows]))
            )
        for name, old, some in rows:
            above, below = int((some > EQUAL).sum()), int((some < -EQUAL).sum())
            if name == rows[0][0] or above + below:
                over = interval(means if name == "all" else some)
                counts = f"{above} / {below} / {len(some) - above - below}"
                extremes = f"{some.min():+.2g}, {some.max():+.2g}"
                yield f"| {quantity} | {name} | {old.mean():.3g} | {over} | {extremes} | {counts} |"


def main() -> None:
    """Run both versions and print the table; or be the process of one version."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("old", type=Path, help="the folder that has drbo in it, of the version before")
    parser.add_argument("new", type=Path, help="the same of the version after")
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", nargs=2, type=int, default=[0, 10], help="the first, and the one after the last")
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS), metavar="PROBLEM")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    seeds = range(*given.seeds)
    if given.work:
        work(given.part, given.out / given.part, given.problems, seeds)
        return
    for side, source in (("old", given.old), ("new", given.new)):
        options = ["--work", "--seeds", *map(str, given.seeds), "--problems", *given.problems]
        command = [sys.executable, __file__, given.part, source, source, given.out / side, *options]
        subprocess.run(command, env={**os.environ, "PYTHONPATH": str(source.resolve())}, check=True)
    print("\n".join(table(paired(given.out, given.part, given.problems, seeds))))


def _file(problem: str, seed: int) -> str:
    return f"{problem}, {seed}.json"


if __name__ == "__main__":
    main()
