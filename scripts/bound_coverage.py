"""How often bounds of learned models are false: runs on problems with a known truth, and a table of the shares.

    python scripts/bound_coverage.py OUT.jsonl --seeds 40 --workers 2      runs, or goes on where it stopped
    python scripts/bound_coverage.py OUT.jsonl --table                     prints the table

A run has 60 evaluations in the simulator setting, with the defaults of drbo. `--pick uncertain` evaluates by the
paper's rule; give it a file of its own. At 10, 20, 40 and 60 evaluations both recommendations are compared with the
truth: the worst-case expectation of the true f for the recommended action, over the same set on the same contexts. A
bound is false if its value exceeds the truth. Its slack is how far below the truth it is, in standard deviations of
the outcomes. "By the model alone" is the bound without the loss by untried conditions, `r.trust.guess`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta as beta_distribution
from scipy.stats import wilcoxon

import drbo

Array = NDArray[np.float64]
CHECKPOINTS = (10, 20, 40, 60)
ALONE = "recommend, by the model alone"
KINDS = ("recommend_iterate", ALONE, "recommend")
RADIUS = 0.1
SAMPLES = 150


@dataclass(frozen=True)
class Case:
    """A problem with a known truth: f of actions (d_x,) and contexts (n, d_c), both in the unit cube."""

    name: str
    d_x: int
    d_c: int
    make: Callable[[np.random.Generator], Callable[[Array, Array], Array]]
    noise: str = "normal"
    """"normal", "heavy" (Student's t with 3 degrees of freedom) or "heteroscedastic"."""
    misspecified: bool = False


def gp_draw(d: int, family: str) -> Callable[[np.random.Generator], Callable[[Array, Array], Array]]:
    """Return what draws a function from a GP of random lengthscales, by random Fourier features."""

    def make(rng: np.random.Generator) -> Callable[[Array, Array], Array]:
        scales = np.exp(rng.uniform(math.log(0.15), math.log(1.2), d))
        frequencies = rng.normal(size=(1000, d))
        if family == "matern":  # nu = 5/2: Student's t with 5 degrees of freedom
            frequencies /= np.sqrt(rng.chisquare(5, size=(1000, 1)) / 5)
        frequencies /= scales
        phases, heights = rng.uniform(0.0, 2.0 * np.pi, 1000), rng.normal(size=1000) * math.sqrt(2.0 / 1000)

        def f(x: Array, c: Array) -> Array:
            z = np.concatenate([np.broadcast_to(x, (len(c), len(x))), c], axis=1)
            return np.asarray(np.cos(z @ frequencies.T + phases) @ heights)

        return f

    return make


def published(name: str) -> Callable[[np.random.Generator], Callable[[Array, Array], Array]]:
    """Return what makes the function of a problem of `drbo.problems`, on the unit cube."""

    def make(rng: np.random.Generator) -> Callable[[Array, Array], Array]:
        del rng
        problem = getattr(drbo.problems, name)()
        ends = [(z.min(axis=0), np.ptp(z, axis=0)) for z in (problem.actions, problem.contexts)]

        def f(x: Array, c: Array) -> Array:
            (low_x, span_x), (low_c, span_c) = ends
            return np.asarray(problem.function(low_x + x * span_x, low_c + c * span_c))

        return f

    return make


def with_jump(rng: np.random.Generator) -> Callable[[Array, Array], Array]:
    """Return a smooth function with a jump in the context."""
    smooth = gp_draw(2, "rbf")(rng)
    return lambda x, c: smooth(x, c) - 2.0 * (c[:, 0] > 0.6)


CASES = (
    Case("draw 1+1, RBF", 1, 1, gp_draw(2, "rbf")),
    Case("draw 2+1, Matern", 2, 1, gp_draw(3, "matern")),
    Case("draw 2+2, RBF", 2, 2, gp_draw(4, "rbf")),
    Case("draw 1+2, Matern", 1, 2, gp_draw(3, "matern")),
    Case("RoBOS", 1, 1, published("robos")),
    Case("three-hump camel", 1, 1, published("three_hump_camel")),
    Case("newsvendor", 1, 1, published("newsvendor")),
    Case("modified Branin", 2, 2, published("modified_branin")),
    Case("jump", 1, 1, with_jump, misspecified=True),
    Case("heteroscedastic noise", 1, 1, gp_draw(2, "rbf"), "heteroscedastic", misspecified=True),
    Case("heavy-tailed noise", 1, 1, gp_draw(2, "rbf"), "heavy", misspecified=True),
)


def run(case: Case, seed: int, pick: Any = None) -> list[dict[str, Any]]:
    """Return a row per checkpoint and kind of bound."""
    rng = np.random.default_rng([seed, sum(map(ord, case.name))])
    f = case.make(rng)
    history = np.clip(rng.normal(0.5, 0.18, size=(SAMPLES, case.d_c)), 0.0, 1.0)
    grid = rng.random((200, case.d_x))
    spread = float(np.std([f(x, history) for x in grid]))
    sigma = spread * math.exp(rng.uniform(math.log(0.01), math.log(0.1)))
    names = [f"x{i}" for i in range(case.d_x)]
    opt = drbo.Optimizer(
        drbo.Box(dict.fromkeys(names, (0.0, 1.0))),
        drbo.Samples(history),
        setting=drbo.Simulator(radius=RADIUS, pick=pick),
        seed=seed,
    )
    outcomes: list[float] = []
    rows = []
    for t in range(1, CHECKPOINTS[-1] + 1):
        s = opt.ask()
        x = np.array([s.action[name] for name in names])
        scale = sigma * (1.0 + 4.0 * s.context[0] if case.noise == "heteroscedastic" else 1.0)
        error = rng.standard_t(3) if case.noise == "heavy" else rng.normal()
        outcomes.append(float(f(x, s.context[None, :])[0] + scale * error))
        opt.tell(s, outcomes[-1])
        if t in CHECKPOINTS:
            spread_of_outcomes = float(np.std(outcomes))
            best, iterate = opt.recommend(), opt.recommend_iterate()
            bounds = {"recommend": (best, best.value), "recommend_iterate": (iterate, iterate.value)}
            bounds[ALONE] = best, best.trust.guess
            for kind, (r, bound) in bounds.items():
                truth = worst_case(f, names, r)
                row = {"case": case.name, "seed": seed, "t": t, "kind": kind, "truth": truth / spread_of_outcomes}
                row |= {"slack": (truth - bound) / spread_of_outcomes, "verdict": r.trust.verdict}
                rows.append(row)
    return rows


def worst_case(f: Callable[[Array, Array], Array], names: list[str], r: drbo.analysis.Recommendation) -> float:
    """Return the worst-case expectation of the true f for a recommended action, over the recommendation's own set."""
    x = np.array([r.action[name] for name in names])
    contexts = np.array(r.contexts)
    # The set of the optimizer: an MMD of 0.2 sqrt(d) of the range of the samples, which carry the reference.
    samples = contexts[np.asarray(r.reference) > 0.0]
    d = contexts.shape[1]
    kernel = drbo.RBF((0.2 * math.sqrt(d) * np.ptp(samples, axis=0)).tolist())
    return float(drbo.MMD(contexts, kernel).worst_case(f(x, contexts), r.reference, r.radius).expectation)


def table(rows: list[dict[str, Any]]) -> str:
    """Return the shares of false bounds with their Clopper-Pearson upper bounds, as Markdown."""
    lines = []
    known = {case.name: case for case in CASES}
    for title, misspecified in (("well-specified", False), ("misspecified", True)):
        own = [row for row in rows if known[row["case"]].misspecified == misspecified]
        lines += [f"**{title}**", "", "| bound | evaluations | runs | false | share | at most (95%) |"]
        lines[-1] += " worst problem | median slack |"
        lines.append("|---|---|---|---|---|---|---|---|")
        for kind, t in itertools.product(KINDS, CHECKPOINTS):
            some = [r for r in own if (r["kind"], r["t"]) == (kind, t)]
            if not some:
                continue
            false = sum(r["slack"] < 0.0 for r in some)
            worst = max((_share([r for r in some if r["case"] == name]), name) for name in {r["case"] for r in some})
            median = float(np.median([r["slack"] for r in some]))
            lines.append(
                f"| {kind} | {t} | {len(some)} | {false} | {false / len(some):.1%} | "
                f"{upper(false, len(some)):.1%} | {worst[1]} {worst[0]:.1%} | {median:.2f} |"
            )
        lines.append("")
    checked = [r for r in rows if r["kind"] == "recommend" and r["verdict"] == "checked"]
    lines.append(f"{sum(r['slack'] < 0.0 for r in checked)} of {len(checked)} bounds called checked were false.")
    return "\n".join(lines)


def which(rows: list[dict[str, Any]]) -> str:
    """Return how often the truth of `recommend` beats that of `recommend_iterate` in the same run, as Markdown."""
    lines = ["| evaluations | runs | `recommend` better | equal | worse | mean difference | Wilcoxon's p |"]
    lines.append("|---|---|---|---|---|---|---|")
    for t in CHECKPOINTS:
        pairs: dict[tuple[str, int], dict[str, float]] = {}
        for row in rows:
            if row["t"] == t:
                pairs.setdefault((row["case"], row["seed"]), {})[row["kind"]] = row["truth"]
        gain = np.array([both["recommend"] - both["recommend_iterate"] for both in pairs.values()])
        if not len(gain):
            continue
        apart = np.abs(gain) > 1e-6
        p = float(wilcoxon(gain[apart]).pvalue) if apart.sum() > 5 else math.nan
        better, worse = int((gain > 1e-6).sum()), int((gain < -1e-6).sum())
        lines.append(
            f"| {t} | {len(gain)} | {better} | {len(gain) - better - worse} | {worse} | {gain.mean():+.3f} | {p:.2g} |"
        )
    return "\n".join(lines)


def _share(rows: list[dict[str, Any]]) -> float:
    return sum(bool(r["slack"] < 0.0) for r in rows) / len(rows)


def upper(false: int, runs: int) -> float:
    """Return the Clopper-Pearson upper bound at 95% of the share of false ones."""
    return 1.0 if false == runs else float(beta_distribution.ppf(0.95, false + 1, runs - false))


def main() -> None:
    """Run what is missing, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--pick", help="a rule that picks contexts; otherwise the default policy")
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    known = [json.loads(line) for line in arguments.out.read_text().splitlines()] if arguments.out.exists() else []
    if arguments.table:
        print(table(known), which(known), sep="\n")
        return
    from joblib import Parallel, delayed

    done = {(row["case"], row["seed"]) for row in known}
    jobs = [(case, seed) for seed in range(arguments.seeds) for case in CASES if (case.name, seed) not in done]
    work = Parallel(n_jobs=arguments.workers, return_as="generator_unordered")(
        delayed(run)(case, seed, arguments.pick) for case, seed in jobs
    )
    with arguments.out.open("a") as file:
        for i, rows in enumerate(work, start=1):
            file.write("".join(json.dumps(row) + "\n" for row in rows))
            file.flush()
            print(f"{i} of {len(jobs)}", end="\r", file=sys.stderr, flush=True)


if __name__ == "__main__":
    warnings.simplefilter("error")
    main()
