"""Evaluations that a model of f(x + xi) saves, on the Bertsimas polynomial: a table for docs/evidence.md.

    python scripts/perturbation.py [seeds] [evaluations] [first seed]

The actions are 13 x 15 points of the polynomial's domain, the perturbations 29 points of the disc of radius 0.5. The
reference and the set are those of `drbo.problems.bertsimas`: an MMD of radius 0.5. Five outcomes of random actions and
perturbations come first, with noise of deviation 0.2. Then the optimizer picks actions and perturbations, the latter by
each of the two rules of `Simulator`. The robust regret of what is recommended after each evaluation is that of the true
polynomial, against the best of the actions.
"""

from __future__ import annotations

import itertools
import sys
from typing import Any, Literal

import numpy as np

import drbo
from drbo.validation import FloatArray

FIRST = 5
Rule = Literal["uncertain", "informative"]
COLUMNS: dict[tuple[bool, Rule], str] = {
    (False, "uncertain"): "(x, xi)",
    (False, "informative"): "(x, xi), informative",
    (True, "uncertain"): "x + xi",
    (True, "informative"): "x + xi, informative",
}
"""Whether f is modelled on x + xi, and the rule that picks the perturbation."""


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


def regrets(perturbed: bool, pick: Rule, seed: int, evaluations: int) -> FloatArray:
    """Return the robust regret of what is recommended after 6, 7, ... evaluations."""
    actions, contexts, reference, radius, kernel, f = problem()
    truth = drbo.MMD(contexts, kernel=kernel).worst_case(f, reference, radius).expectation
    rng = np.random.default_rng(seed)
    nature: Any
    if perturbed:
        nature = drbo.Perturbation(drbo.Samples(contexts, weights=reference, support=0))
        setting = drbo.Simulator(radius=radius, pick=pick)
    else:
        nature, setting = contexts, drbo.Simulator(reference, radius, pick=pick)
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


def evaluations_for(regret: float, medians: FloatArray) -> int:
    """Return after how many evaluations the medians, of 6, 7, ... evaluations, stay at a regret or below it."""
    above = np.flatnonzero(medians > regret)
    return FIRST + 1 + (int(above[-1]) + 1 if len(above) else 0)


def table(curves: dict[tuple[bool, Rule], FloatArray]) -> list[str]:
    """Return the lines of the table: medians and quartiles, and the evaluations for the first column's median."""
    medians = {key: np.median(curve, axis=0) for key, curve in curves.items()}
    lines = [f"| evaluations | {' | '.join(COLUMNS[key] for key in curves)} |", "|---" * (1 + len(curves)) + "|"]
    opponent = next(iter(curves))
    for t in range(15, FIRST + curves[opponent].shape[1] + 1, 15):
        cells = []
        for key, curve in curves.items():
            low, middle, high = np.quantile(curve[:, t - FIRST - 1], (0.25, 0.5, 0.75))
            same = evaluations_for(medians[opponent][t - FIRST - 1], medians[key])
            cells.append(f"{middle:.2f} ({low:.2f} to {high:.2f})" + (f", same at {same}" if key != opponent else ""))
        lines.append(f"| {t} | {' | '.join(cells)} |")
    return lines


def share(ours: FloatArray, theirs: FloatArray) -> float:
    """Return the evaluations for their median regret after 15, 30, ... evaluations, as a share of these; the mean."""
    mine, other = np.median(ours, axis=0), np.median(theirs, axis=0)
    at = range(15, FIRST + len(other) + 1, 15)
    return float(np.mean([evaluations_for(other[t - FIRST - 1], mine) / t for t in at]))


def main() -> None:
    """Print the table, and the shares of evaluations with the interval of 80% of resampled sets of seeds."""
    seeds, evaluations, first = (int(a) for a in [*sys.argv[1:], *("21", "60", "100")[len(sys.argv) - 1 :]])
    of = range(first, first + seeds)
    curves = {(p, pick): np.array([regrets(p, pick, seed, evaluations) for seed in of]) for p, pick in COLUMNS}
    print("\n".join(table(curves)))
    print(f"{seeds} seeds; medians and quartiles")
    rng = np.random.default_rng(0)
    some = rng.integers(seeds, size=(1000, seeds))
    for one, other in itertools.combinations(curves, 2):
        low, high = np.quantile([share(curves[other][rows], curves[one][rows]) for rows in some], (0.1, 0.9))
        what = f"{COLUMNS[other]} needs {share(curves[other], curves[one]):.0%} ({low:.0%} to {high:.0%})"
        print(f"{what} of the evaluations of {COLUMNS[one]}")


if __name__ == "__main__":
    main()
