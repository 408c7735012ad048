"""The two rules by which `Simulator` picks contexts, compared on the problems of scripts/evidence.py.

    export OPENBLAS_NUM_THREADS=1
    python scripts/context_rules.py run 20     # how many seeds; 5 to 10 s a run; rows to out/context_rules.jsonl
    python scripts/context_rules.py table

100 evaluations a run. Expectation: regret of the risk-neutral loop, by quadrature. MMD: the default set of radius 0.1
with 64 further points; the true worst case of the action in that set, below the best possible one. A run that was
stopped goes on where it was.
"""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import Any, Literal

import joblib
import numpy as np
from evidence import EVALUATIONS, PROBLEMS, PROCESSES, RADIUS, maximum, point, warm_up
from scipy.stats import wilcoxon

import drbo
from drbo.validation import FloatArray

OUT = Path("out/context_rules.jsonl")
RULES = ("uncertain", "informative")
SETS = ("Expectation", "MMD")


def measure(name: str, family: str, rule: Literal["uncertain", "informative"], seed: int) -> dict[str, Any]:
    """Return the regrets of `recommend_iterate` and `recommend`; both rules get the same draws and noise."""
    problem, robust = PROBLEMS[name], family == "MMD"
    warm_up()
    rng = np.random.default_rng([seed, 2])
    opt = drbo.Optimizer(
        problem.box,
        problem.samples(seed, support=64 if robust else 0),
        ambiguity=None if robust else drbo.Expectation(),
        setting=drbo.Simulator(radius=RADIUS if robust else 0.0, pick=rule),
        seed=1000 * seed,
    )
    for _ in range(EVALUATIONS):
        s = opt.ask()
        opt.tell(s, problem.evaluate(point(s.action), s.context, rng))
    made = {"recommend_iterate": opt.recommend_iterate(), "recommend": opt.recommend()}
    last = made["recommend"]
    contexts = np.array(last.contexts).reshape(-1, problem.d_c)

    def worst(x: FloatArray) -> FloatArray:
        values = problem.function(x[:, None, :], contexts)
        return opt.configuration.placed.worst_case(values, last.reference, last.radius).expectation

    value, best = (worst, maximum(worst, problem.box)[1]) if robust else (problem.expectation, problem.optimum)
    regrets = {label: round(best - float(value(point(r.action)[None])[0]), 6) for label, r in made.items()}
    return {"problem": name, "set": family, "rule": rule, "seed": seed, **regrets}


def run(seeds: int) -> None:
    """Run what has no row yet."""
    OUT.parent.mkdir(exist_ok=True)
    done = {(r["problem"], r["set"], r["rule"], r["seed"]) for r in read()}
    jobs = [job[::-1] for job in itertools.product(range(seeds), RULES, SETS, PROBLEMS)]
    calls = (joblib.delayed(measure)(*job) for job in jobs if job not in done)
    for row in joblib.Parallel(PROCESSES, return_as="generator_unordered")(calls):
        with OUT.open("a") as file:
            file.write(json.dumps(row) + "\n")


def read() -> list[dict[str, Any]]:
    """Return the rows written so far."""
    return [json.loads(line) for line in OUT.read_text().splitlines()] if OUT.exists() else []


def table() -> None:
    """Print median (quartiles) of the regret by rule, how often the second one was better, and Wilcoxon's p."""
    rows = read()
    print("| set | problem | recommendation | " + " | ".join(RULES) + " | better in | p |")
    print("|---" * 7 + "|")
    for family, name, label in itertools.product(SETS, PROBLEMS, ("recommend", "recommend_iterate")):
        own = [r for r in rows if r["set"] == family and r["problem"] == name]
        a, b = ({r["seed"]: r[label] for r in own if r["rule"] == rule} for rule in RULES)
        pairs = np.array([(a[seed], b[seed]) for seed in a if seed in b])
        if len(pairs):
            quartiles = np.quantile(pairs, [0.5, 0.25, 0.75], axis=0).T
            cells = " | ".join(f"{mid:.4f} ({low:.4f} to {high:.4f})" for mid, low, high in quartiles)
            better, p = int((pairs[:, 1] < pairs[:, 0]).sum()), float(wilcoxon(*pairs.T).pvalue)
            print(f"| {family} | {name} | `{label}` | {cells} | {better} of {len(pairs)} | {p:.3f} |")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["run", seeds]:
            run(int(seeds))
        case ["table"]:
            table()
        case _:
            print(__doc__)
