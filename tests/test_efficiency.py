"""The harness that counts evaluations, and its tables on records made up for the purpose."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import efficiency
from drbo.experiments.records import Table, stack
from efficiency_problems import OBJECTIVES, PROBLEMS, Task
from efficiency_table import NEVER, Curves, curves, ratio, tables

CHECKPOINTS = (10, 20, 30, 40, 50, 60)


def records(method: str, regrets: list[float], seeds: int = 6, problem: str = "newsvendor") -> Table:
    """Return runs of regrets in per cent at the checkpoints; the best action has the value 3, the median one 1."""
    rows = [
        (method, problem, objective, seed, t, 3.0 - 2.0 * r / 100.0 * (1.0 + 0.01 * seed), 3.0, 1.0, 0.1 * t)
        for objective in OBJECTIVES
        for seed in range(seeds)
        for t, r in zip(CHECKPOINTS, regrets, strict=True)
    ]
    names = ("method", "problem", "objective", "seed", "evaluations", "value", "best", "median", "seconds")
    return {name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


def of(regrets: list[float]) -> Curves:
    return Curves(CHECKPOINTS, (0,), np.array([regrets]), 1.0)


def test_evaluations_needed_are_interpolated_in_the_logarithm() -> None:
    halving = of([32.0, 16.0, 8.0, 4.0, 2.0, 1.0])
    assert halving.needed(4.0) == pytest.approx(40.0)
    assert halving.needed(math.sqrt(8.0)) == pytest.approx(45.0)
    assert halving.needed(100.0) == 10.0
    assert halving.needed(0.5) == math.inf


def test_a_regret_that_rises_again_does_not_count() -> None:
    assert of([32.0, 1.0, 8.0, 4.0, 2.0, 1.0]).needed(2.0) == pytest.approx(50.0)


def test_a_ratio_is_a_share_of_the_opponents_evaluations() -> None:
    fast, slow = of([16.0, 4.0, 1.0, 1.0, 1.0, 1.0]), of([32.0, 16.0, 8.0, 4.0, 2.0, 1.0])
    assert ratio(fast, slow, 40) == pytest.approx(0.5)
    assert ratio(fast, slow, 60) == pytest.approx(0.5)
    assert ratio(slow, fast, 40) == NEVER
    assert ratio(slow, slow, 40) == 1.0


def test_the_best_action_may_be_one_that_was_deployed() -> None:
    table = stack([records("BoTorch", [50.0] * 6), records("drbo default", [-25.0] * 6, seeds=1)])
    found = curves(table)
    assert found["drbo default", "newsvendor", "robust"].regrets == pytest.approx(np.zeros((1, 6)))
    # of the first seed, the only one that both have run, the best is 3.5 now, so 2 is 1.5 of 2.5 below it
    assert found["BoTorch", "newsvendor", "robust"].regrets == pytest.approx(np.full((1, 6), 60.0))


def test_the_tables_show_what_the_records_say() -> None:
    slow, fast = [32.0, 16.0, 8.0, 4.0, 2.0, 1.0], [16.0, 4.0, 1.0, 1.0, 1.0, 1.0]
    worse, random = [90.0, 90.0, 8.0, 4.0, 2.0, 1.0], [20.0] * 6
    by_problem = {
        "newsvendor": {"BoTorch": slow, "random search": random, "drbo default": fast},
        "robot arm": {"BoTorch": slow, "random search": random, "drbo default": worse},
    }
    runs = [records(m, r, problem=p) for p, methods in by_problem.items() for m, r in methods.items()]
    text = tables(stack(runs))
    # geometric means over both problems of medians that are 2.5% above the regrets; the halves have one problem each
    assert "| BoTorch | 16 / 4.1 / 1 | 16 / 4.1 / 1 | 16 / 4.1 / 1 |" in text
    assert "| drbo default | 19 / 2 / 1 | 4.1 / 1 / 1 | 92 / 4.1 / 1 |" in text
    assert (
        "| drbo default | BoTorch | 0.71 (0.50 to 1.00) / 0.71 (0.50 to 1.00); 0 + 0 of 2 not reached | 0.50 (0.50"
        in text
    )
    # six runs, all of them worse: p = 1 / 2^6
    assert "| drbo default | robust | 20 | 12 | 6 |" in text
    assert "| robot arm |\n| drbo default | robust | 30 | 12 | 0 | 1 | none |" in text


def test_a_run_goes_on_where_it_was(tmp_path: Path) -> None:
    efficiency.sweep(tmp_path, ["random search"], ["newsvendor"], range(2))
    files = sorted(tmp_path.glob("*/*.csv"))
    written = [file.stat().st_mtime_ns for file in files]
    efficiency.sweep(tmp_path, ["random search"], ["newsvendor"], range(2))
    assert [file.stat().st_mtime_ns for file in files] == written
    found = curves(efficiency.read(tmp_path))
    assert found["random search", "newsvendor", "robust"].regrets.shape == (2, 6)
    assert (found["random search", "newsvendor", "robust"].regrets >= 0.0).all()


@pytest.mark.parametrize("name", PROBLEMS)
def test_problems_have_actions_contexts_and_a_worst_case(name: str) -> None:
    task = Task(PROBLEMS[name], 0)
    actions = np.random.default_rng(0).random((3, task.problem.d_x))
    values = task.problem.function(actions[:, None, :], task.draws)
    assert values.shape == (3, 200)
    assert values[1, 7] == pytest.approx(float(task.problem.function(actions[1], task.draws[7])), rel=1e-12)
    neutral, robust = (task.value(objective, actions) for objective in OBJECTIVES)
    assert neutral == pytest.approx(values.mean(axis=1), rel=1e-12)
    assert (robust < neutral).all()
    assert (robust >= values.min(axis=1)).all()


def test_moments_of_a_product_kernel_are_those_of_botorch() -> None:
    pytest.importorskip("botorch")
    import torch

    import efficiency_botorch

    rng = np.random.default_rng(0)
    points, draws, actions = rng.random((15, 4)), rng.random((6, 2)), torch.tensor(rng.random((3, 2)))
    model = efficiency_botorch.fitted(points, np.sin(5.0 * points).sum(axis=1))
    factorised = efficiency_botorch.Factorised(model, 2, draws)
    pairs = torch.cat([actions[:, None].expand(-1, 6, -1), torch.tensor(draws).expand(3, -1, -1)], dim=-1)
    with torch.no_grad():
        joint, (mean, deviation) = model.posterior(pairs), factorised.moments(actions)
        averaged = factorised.posterior(actions[:, None, :])
    assert mean.numpy() == pytest.approx(joint.mean[..., 0].numpy(), abs=1e-9)
    assert deviation.numpy() == pytest.approx(joint.variance[..., 0].sqrt().numpy(), abs=1e-7)
    assert averaged.mean.ravel().numpy() == pytest.approx(joint.mean[..., 0].mean(dim=1).numpy(), abs=1e-9)
    covariance = joint.mvn.covariance_matrix
    assert averaged.variance.ravel().numpy() == pytest.approx(covariance.mean(dim=(1, 2)).numpy(), abs=1e-9)


def test_hyperparameters_are_those_that_botorch_fits() -> None:
    pytest.importorskip("botorch")
    import torch
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from gpytorch.mlls import ExactMarginalLogLikelihood

    import efficiency_botorch

    rng = np.random.default_rng(1)
    points = rng.random((25, 3))
    outcomes = np.sin(5.0 * points).sum(axis=1) + 0.1 * rng.normal(size=25)
    ours = efficiency_botorch.fitted(points, outcomes)
    scaled = torch.tensor((outcomes - outcomes.mean()) / outcomes.std(ddof=1))[:, None]
    theirs = SingleTaskGP(torch.tensor(points), scaled, outcome_transform=None)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(theirs.likelihood, theirs))
    theta = [efficiency_botorch.hyperparameters(model) for model in (ours, theirs)]
    assert theta[0] == pytest.approx(theta[1], abs=1e-2)  # where each of them stops
    assert ours.mean_module.constant.item() == pytest.approx(theirs.mean_module.constant.item(), abs=1e-2)
