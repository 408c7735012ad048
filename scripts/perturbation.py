"""Evaluations that a model of f(x + xi) saves, on the Bertsimas polynomial: a table for docs/evidence.md.

    python scripts/perturbation.py [seeds] [evaluations]

The actions are 13 x 15 points of the polynomial's domain, the perturbations 29 points of the disc of radius 0.5. The
reference and the set are those of `drbo.problems.bertsimas`: an MMD of radius 0.5. Five outcomes of random actions and
perturbations come first, with noise of deviation 0.2. Then the optimizer picks actions and perturbations. The robust
regret of what is recommended after each evaluation is that of the true polynomial, against the best of the actions.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import drbo
from drbo.validation import FloatArray

FIRST = 5


def problem() -> tuple[FloatArray, FloatArray, FloatArray, float, drbo.Kernel, FloatArray]:
    """Return actions (m, 2), perturbations (n, 2), reference (n,), radius, kernel of the MMD and f (m, n)."""
    given = drbo.problems.bertsimas()
    x, y = (np.unique(column)[::2] for column in np.asarray(given.actions).T)
    actions = np.array([(a, b) for a in x for b in y])
    square = np.array([(a, b) for a in np.linspace(-0.5, 0.5, 7) for b in np.linspace(-0.5, 0.5, 7)])
    contexts = square[np.hypot(*square.T) <= 0.5 + 1e-9]
    reference = np.exp(-0.5 * (contexts**2).sum(axis=1) / 0.15**2)
    f = given.function(actions[:, None, :], contexts[None, :, :])
    return actions, contexts, reference / reference.sum(), given.radius, given.mmd_kernel, f


def regrets(perturbed: bool, seed: int, evaluations: int) -> FloatArray:
    """Return the robust regret of what is recommended after 6, 7, ... evaluations."""
    actions, contexts, reference, radius, kernel, f = problem()
    truth = drbo.MMD(contexts, kernel=kernel).worst_case(f, reference, radius).expectation
    rng = np.random.default_rng(seed)
    nature: Any
    if perturbed:
        nature = drbo.Perturbation(drbo.Samples(contexts, weights=reference, support=0))
        setting = drbo.Simulator(radius=radius)
    else:
        nature, setting = contexts, drbo.Simulator(reference, radius)
    opt = drbo.Optimizer(actions, nature, ambiguity=drbo.MMD(kernel=kernel), setting=setting, seed=seed)

    def outcome(i: int, j: int) -> float:
        return float(f[i, j] + 0.2 * rng.normal())

    for i, j in zip(rng.integers(len(actions), size=FIRST), rng.integers(len(contexts), size=FIRST), strict=True):
        opt.tell(actions[i], outcome(i, j), context=contexts[j])
    found = []
    for _ in range(evaluations - FIRST):
        s = opt.ask()
        j = int(np.argmin(np.abs(contexts - s.context).sum(axis=1)))
        opt.tell(s, outcome(s.action_index, j))
        found.append(truth.max() - truth[opt.recommend().action_index])
    return np.array(found)


def main() -> None:
    """Print the table."""
    seeds, evaluations = (int(a) for a in [*sys.argv[1:], *("16", "60")[len(sys.argv) - 1 :]])
    curves = {p: np.array([regrets(p, seed, evaluations) for seed in range(seeds)]) for p in (False, True)}
    medians = {p: np.median(curve, axis=0) for p, curve in curves.items()}
    print("| evaluations | regret, model of (x, xi) | regret, model of x + xi | evaluations for the same |")
    print("|---|---|---|---|")
    for t in range(15, evaluations + 1, 15):
        before = medians[False][t - FIRST - 1]
        above = np.flatnonzero(medians[True] > before)  # from then on the median stays below
        reached = FIRST + 1 + (int(above[-1]) + 1 if len(above) else 0)
        spreads = [np.quantile(curves[p][:, t - FIRST - 1], (0.25, 0.75)) for p in (False, True)]
        cells = [
            f"{medians[p][t - FIRST - 1]:.2f} ({low:.2f} to {high:.2f})"
            for p, (low, high) in zip((False, True), spreads, strict=True)
        ]
        print(f"| {t} | {cells[0]} | {cells[1]} | {reached} |")
    print(f"{seeds} seeds; medians and quartiles")


if __name__ == "__main__":
    main()
