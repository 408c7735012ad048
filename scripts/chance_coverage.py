"""How often bounds on probabilities are false, by their width: runs on draws of a GP, and a table.

    python scripts/chance_coverage.py OUT.jsonl --seeds 500 --learned 100     runs, or goes on where it stopped
    python scripts/chance_coverage.py OUT.jsonl --table                       prints the table

A run has 40 evaluations by `LevelSet`, which picks actions and contexts by what is open: 12 actions, 8 or 40 contexts,
a random reference, total variation of radius 0.1, noise of 0.1 of the amplitude. The threshold is a random quantile of
the true f. At 5, 10, 20 and 40 evaluations the bounds of the worst-case probability that f exceeds it are compared with
the truth, by several widths:

    pointwise    2 (3 where hyper-parameters are learned): what `predict` shows, for one action in one context
    contexts     widened by the union bound over the contexts: what `probability` and limits use
    everything   widened by the union bound over contexts and actions: what `opt.classify` uses
    Lemma 1      TheoreticalBeta with the true norm, on functions of a known norm

"chosen" is the action with the largest bound on the probability by the same outcomes: its lower bound is false if it
exceeds the truth. "any" is whether the lower or the upper bound of any of the 12 actions is false.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import drbo
from drbo.models.bounds import simultaneous

Array = NDArray[np.float64]
CHECKPOINTS = (5, 10, 20, 40)
ACTIONS = np.linspace(0.0, 1.0, 12)
RADIUS, NOISE = 0.1, 0.1
KERNEL = drbo.Product(drbo.RBF(0.3), drbo.RBF(0.3))


def drawn(rng: np.random.Generator, contexts: Array) -> Array:
    """Return a draw (12, n) of the GP on the grid."""
    roots = [np.linalg.cholesky(k(z, z) + 1e-9 * np.eye(len(z))) for k, z in _parts(contexts)]
    return np.asarray(roots[0] @ rng.normal(size=(len(ACTIONS), len(contexts))) @ roots[1].T)


def of_known_norm(rng: np.random.Generator, contexts: Array) -> tuple[Array, float]:
    """Return a sum of six kernels (12, n) on the grid, and its norm."""
    x, c, a = rng.random((6, 1)), rng.random((6, 1)), rng.normal(size=6)
    norm = math.sqrt(float(a @ (KERNEL.action(x, x) * KERNEL.context(c, c)) @ a))
    return (KERNEL.action(ACTIONS[:, None], x) * a) @ KERNEL.context(c, contexts[:, None]), norm


def _parts(contexts: Array) -> list[tuple[Any, Array]]:
    return [(KERNEL.action, ACTIONS[:, None]), (KERNEL.context, contexts[:, None])]


def run(kind: str, n_contexts: int, seed: int) -> list[dict[str, Any]]:
    """Return a row per checkpoint and width."""
    rng = np.random.default_rng([seed, n_contexts, len(kind)])
    contexts = np.linspace(0.0, 1.0, n_contexts)
    f, norm = of_known_norm(rng, contexts) if kind == "Lemma 1" else (drawn(rng, contexts), math.nan)
    reference = rng.dirichlet(np.ones(n_contexts))
    h = float(np.quantile(f, rng.uniform(0.2, 0.8)))
    chance = drbo.Chance(0.5, above=h)
    opt = drbo.Optimizer(
        ACTIONS,
        contexts,
        ambiguity=drbo.TotalVariation(),
        setting=drbo.Simulator(reference, RADIUS),
        surrogate=drbo.LearnedGP() if kind == "learned" else drbo.GP(KERNEL, NOISE),
        beta=drbo.TheoreticalBeta(norm, NOISE) if kind == "Lemma 1" else 2.0,
        policy=drbo.LevelSet(chance, drbo.Undecided(chance)),
    )
    truth = worst(reference, f > h)
    rows = []
    for t in range(1, CHECKPOINTS[-1] + 1):
        s = opt.ask()
        opt.tell(s, f[s.action_index, s.context_index] + NOISE * rng.normal())
        if t in CHECKPOINTS:
            told = [opt.predict(x, contexts[:, None]) for x in ACTIONS]
            mean, std = np.array([one.mean for one in told]), np.array([one.std for one in told])
            for name, width in widths(kind, opt.recommend().beta, n_contexts).items():
                lower, upper = worst(reference, mean - width * std > h), worst(reference, mean + width * std > h)
                false = (lower > truth + 1e-7) | (upper < truth - 1e-7)
                rows.append(
                    {
                        "kind": kind, "contexts": n_contexts, "seed": seed, "t": t, "name": name, "width": width,
                        "chosen": bool(lower.max() > truth[int(np.argmax(lower))] + 1e-7),
                        "any": bool(false.any()), "bracket": float((upper - lower).mean()),
                    }
                )  # fmt: skip
    return rows


def widths(kind: str, beta: float, n_contexts: int) -> dict[str, float]:
    """Return the widths that are compared, by name."""
    if kind == "Lemma 1":
        return {"Lemma 1": beta}
    n = len(ACTIONS) * n_contexts
    return {"pointwise": beta, "contexts": simultaneous(beta, n_contexts), "everything": simultaneous(beta, n)}


def worst(reference: Array, events: NDArray[np.bool_]) -> Array:
    """Return the worst-case probability (12,) of events (12, n)."""
    return np.asarray(drbo.TotalVariation().worst_case(events.astype(np.float64), reference, RADIUS).expectation)


def table(path: Path) -> None:
    """Print the share of false bounds, by kind of width."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    print("| model | contexts | width | runs |", " | ".join(map(str, CHECKPOINTS)), "| bracket at 40 |")
    print("|" + "---|" * (5 + len(CHECKPOINTS)))
    order = ("pointwise", "contexts", "everything", "Lemma 1")
    keys = {(r["kind"], r["contexts"], r["name"]) for r in rows}
    for key in sorted(keys, key=lambda k: (k[0], k[1], order.index(k[2]))):
        own = [[r for r in rows if (r["kind"], r["contexts"], r["name"]) == key and r["t"] == t] for t in CHECKPOINTS]
        cells = [f"{_share(at, 'chosen')} / {_share(at, 'any')}" for at in own]
        width, open_part = (float(np.mean([r[name] for r in own[-1]])) for name in ("width", "bracket"))
        named = f"| {key[0]} | {key[1]} | {key[2]}, {width:.2f} | {len(own[-1])} |"
        print(named, " | ".join(cells), f"| {open_part:.2f} |")


def _share(rows: list[dict[str, Any]], name: str) -> str:
    return f"{np.mean([r[name] for r in rows]):.1%}"


def main() -> None:
    """Run, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, default=500, help="runs of the fixed GP, and of Lemma 1")
    parser.add_argument("--learned", type=int, default=100, help="runs of the learned GP")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    if given.table:
        table(given.out)
        return
    done = set()
    if given.out.exists():
        done = {(r["kind"], r["contexts"], r["seed"]) for r in map(json.loads, given.out.read_text().splitlines())}
    for seed in range(max(given.seeds, given.learned)):
        for kind, most in (("fixed", given.seeds), ("Lemma 1", given.seeds), ("learned", given.learned)):
            for n_contexts in (8, 40):
                if seed < most and (kind, n_contexts, seed) not in done:
                    rows = run(kind, n_contexts, seed)
                    with given.out.open("a") as file:
                        file.write("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    main()
