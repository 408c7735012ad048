"""Mixture designs: published test functions on a simplex, for drbo, BoTorch, BayBE and random shares.

    python benchmarks/simplex.py drbo random --seeds 5 --out simplex.jsonl        in drbo's environment
    python benchmarks/simplex.py botorch baybe --seeds 5 --out simplex.jsonl      in an environment with these
    python benchmarks/simplex.py --table --out simplex.jsonl

Every share is from 0 to 1, and the shares sum to 1. Outcomes have no noise and no conditions: drbo has one context and
radius 0. BoTorch is `SingleTaskGP` with `LogExpectedImprovement`, maximised by `optimize_acqf` with the equality as a
constraint, after d + 1 uniform shares. drbo has no first design. The regret is that of the best outcome so far, as a
share of the distance from the mean of uniform shares to the optimum, which a multi-start search of the function finds.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize

Array = Any
EVALUATIONS = 20


def ackley(x: Array) -> float:
    """Ackley (1987), five shares as the cube from -5 to 5."""
    z = 10.0 * x - 5.0
    root, waves = np.sqrt(np.mean(z**2)), np.mean(np.cos(2.0 * math.pi * z))
    return float(20.0 * np.exp(-0.2 * root) + np.exp(waves) - 20.0 - math.e)


def rosenbrock(x: Array) -> float:
    """Rosenbrock (1960), five shares as the cube from -2 to 2."""
    z = 4.0 * x - 2.0
    return -float(np.sum(100.0 * (z[1:] - z[:-1] ** 2) ** 2 + (1.0 - z[:-1]) ** 2))


def styblinski(x: Array) -> float:
    """Styblinski and Tang (1990), five shares as the cube from -5 to 5."""
    z = 10.0 * x - 5.0
    return -0.5 * float(np.sum(z**4 - 16.0 * z**2 + 5.0 * z))


def hartmann(x: Array) -> float:
    """Hartmann (1973), six shares."""
    a = np.array(
        [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
    )
    p = 1e-4 * np.array(
        [
            [1312, 1696, 5569, 124, 8283, 5886],
            [2329, 4135, 8307, 3736, 1004, 9991],
            [2348, 1451, 3522, 2883, 3047, 6650],
            [4047, 8828, 8732, 5743, 1091, 381],
        ]
    )
    return float(np.array([1.0, 1.2, 3.0, 3.2]) @ np.exp(-np.sum(a * (x - p) ** 2, axis=1)))


PROBLEMS: dict[str, tuple[Callable[[Array], float], int]] = {
    "Ackley": (ackley, 5), "Rosenbrock": (rosenbrock, 5), "Styblinski-Tang": (styblinski, 5), "Hartmann": (hartmann, 6),
}  # fmt: skip


def reference(name: str) -> tuple[float, float]:
    """Return the largest value found on the simplex by 200 local searches, and the mean of uniform shares."""
    f, d = PROBLEMS[name]
    shares = np.random.default_rng(0).dirichlet(np.ones(d), 2000)
    values = np.array([f(x) for x in shares])
    whole: Any = {"type": "eq", "fun": lambda x: x.sum() - 1.0}
    starts = [*shares[np.argsort(-values)[:150]], *shares[:50]]
    ends = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for x in starts:
            find: Any = minimize
            ends.append(find(lambda z: -f(z), x, method="SLSQP", bounds=[(0.0, 1.0)] * d, constraints=whole))
    inside = [np.clip(end.x, 0, 1) / np.clip(end.x, 0, 1).sum() for end in ends if np.isfinite(end.x).all()]
    return max(values.max(), *(f(x) for x in inside)), float(values.mean())


def with_drbo(f: Callable[[Array], float], d: int, seed: int) -> Iterator[float]:
    import drbo

    names = [f"x{i}" for i in range(d)]
    box = drbo.Box(dict.fromkeys(names, (0.0, 1.0)), constraints=[drbo.Total(*names, equals=1.0)])
    opt = drbo.Optimizer(box, [0.0], setting=drbo.Simulator([1.0], radius=0.0), seed=1000 * seed)
    for _ in range(EVALUATIONS):
        s = opt.ask()
        y = f(np.array(list(s.action.values())))
        opt.tell(s, y)
        yield y


def with_random(f: Callable[[Array], float], d: int, seed: int) -> Iterator[float]:
    for x in np.random.default_rng(seed).dirichlet(np.ones(d), EVALUATIONS):
        yield f(x)


def with_botorch(f: Callable[[Array], float], d: int, seed: int) -> Iterator[float]:
    import torch
    from botorch.acquisition import LogExpectedImprovement
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.optim import optimize_acqf
    from gpytorch.mlls import ExactMarginalLogLikelihood

    torch.set_default_dtype(torch.double)
    torch.manual_seed(seed)
    x = torch.tensor(np.random.default_rng(seed).dirichlet(np.ones(d), d + 1))
    y = torch.tensor([f(one) for one in x.numpy()])
    yield from y.tolist()
    whole = [(torch.arange(d), torch.ones(d), 1.0)]
    while len(y) < EVALUATIONS:
        model = SingleTaskGP(x, y[:, None])
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        acquisition = LogExpectedImprovement(model, best_f=y.max())
        bounds = torch.stack([torch.zeros(d), torch.ones(d)])
        new, _ = optimize_acqf(acquisition, bounds, 1, num_restarts=4, raw_samples=128, equality_constraints=whole)
        shares = np.clip(new.detach().numpy()[0], 0.0, 1.0)
        value = f(shares / shares.sum())
        yield value
        x, y = torch.cat([x, new.detach()]), torch.cat([y, torch.tensor([value])])


def with_baybe(f: Callable[[Array], float], d: int, seed: int) -> Iterator[float]:
    import pandas as pd
    import torch
    from baybe import Campaign
    from baybe.constraints import ContinuousLinearConstraint
    from baybe.parameters import NumericalContinuousParameter
    from baybe.searchspace import SearchSpace
    from baybe.targets import NumericalTarget

    torch.manual_seed(seed)
    names = [f"x{i}" for i in range(d)]
    whole = ContinuousLinearConstraint(names, "=", [1.0] * d, 1.0)
    space = SearchSpace.from_product([NumericalContinuousParameter(name, (0.0, 1.0)) for name in names], [whole])
    campaign = Campaign(space, NumericalTarget(name="y").to_objective())
    first = np.random.default_rng(seed).dirichlet(np.ones(d), d + 1)
    for i in range(EVALUATIONS):
        row = pd.DataFrame([first[i]], columns=names) if i <= d else campaign.recommend(1)[names]
        shares = np.clip(row.to_numpy(dtype=float)[0], 0.0, 1.0)
        value = f(shares / shares.sum())
        yield value
        campaign.add_measurements(row.assign(y=value))


METHODS = {"drbo": with_drbo, "random": with_random, "botorch": with_botorch, "baybe": with_baybe}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="*", choices=[*METHODS, []])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("simplex.jsonl"))
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    for method in given.methods:
        for seed in range(given.seeds):
            for name, (f, d) in PROBLEMS.items():
                start = time.perf_counter()
                outcomes = list(METHODS[method](f, d, seed))
                seconds = time.perf_counter() - start
                row = {"method": method, "problem": name, "seed": seed, "outcomes": outcomes, "seconds": seconds}
                with given.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(method, name, seed, f"{max(outcomes):.5g} in {seconds:.0f} s", flush=True)
    if given.table:
        print(table([json.loads(line) for line in given.out.read_text().splitlines()]))


def table(rows: list[dict[str, Any]]) -> str:
    """Return the mean regret of each method, after half and after all evaluations, with its standard error."""
    methods = [method for method in METHODS if any(row["method"] == method for row in rows)]
    head = " | ".join(f"{method}, {n}" for method in methods for n in (EVALUATIONS // 2, EVALUATIONS))
    lines = [f"| problem | {head} |", "|---|" + "---|" * (2 * len(methods))]
    for name in PROBLEMS:
        best, mean = reference(name)
        cells = []
        for method in methods:
            runs = [row["outcomes"] for row in rows if row["method"] == method and row["problem"] == name]
            for n in (EVALUATIONS // 2, EVALUATIONS):
                regret = np.array([(best - max(run[:n])) / (best - mean) for run in runs])
                error = f" +- {regret.std(ddof=1) / math.sqrt(len(regret)):.4f}" if len(regret) > 1 else ""
                cells.append(f"{regret.mean():.4f}{error}" if len(regret) else "")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
