"""The claims of the paper: rows from tables whose numbers are known, and the theorems on small runs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drbo.experiments import Plan, claims
from drbo.experiments.paper_claims import _theorems, function_of_norm
from drbo.kernels import RBF, Product


def regrets(late: float) -> list[dict[str, Any]]:
    """Return the rows of figure 2, with DRBO ahead; `late` is the regret per round in the last quarter by the mean."""
    return [
        {
            "problem": problem, "setting": setting, "method": method, "rounds": 200, "regret": regret,
            "standard error": 0.1, "per round, last quarter": late * regret / 200,
        }
        for problem in ("benchmark_1", "benchmark_2")
        for setting in ("general", "data-driven", "simulator")
        for method, regret in (("DRBO", 2.0), ("UCB", 5.0), ("StableOpt", 6.0))
    ]  # fmt: skip


def held(rows: list[dict[str, Any]], part: str) -> str:
    (row,) = [row for row in rows if part in row["claim"]]
    return str(row["holds"])


def test_claims_follow_from_the_numbers(tmp_path: Path) -> None:
    plan = Plan(tmp_path, runs=1, rounds=2)
    sublinear, linear = (claims(plan, {"figure2": regrets(late)}).rows for late in (0.2, 0.9))
    for part, expected in (("UCB has linear robust regret", "no"), ("DRBO has sublinear", "yes"), ("all three", "yes")):
        rows = [row for row in sublinear if row["claim"].startswith("benchmark")]
        assert held(rows, part) == expected
    rows = [row for row in linear if row["claim"].startswith("benchmark")]
    assert held(rows, "StableOpt has linear") == "yes"
    assert held(rows, "all three") == "no"
    assert held(linear, "data-driven: DRBO") == "yes"
    assert held(linear, "wind: UCB") == "not run"
    mixed = regrets(0.2)
    mixed[-1]["per round, last quarter"] *= 4.0
    assert held(claims(plan, {"figure2": mixed}).rows, "all three") == "in part: 8 of 9"
    level = [{**row, "regret": 2.05} if row["method"] == "UCB" else row for row in regrets(0.2)]
    assert held(claims(plan, {"figure2": level}).rows, "data-driven: DRBO") == "of StableOpt only"


def test_the_theorems_hold_on_small_runs() -> None:
    rows = list(_theorems(2, 8, seed=1))
    assert [row["where"] for row in rows][:4] == ["lemma 1", "theorem 2", "corollary 4", "theorem 5"]
    assert all(row["holds"] == "yes" for row in rows if "as printed" not in row["claim"])


def test_functions_have_their_norm() -> None:
    """The norm of the interpolant of all values, by a dense Gram matrix, is that of the function itself."""
    kernel, grid = Product(RBF(0.3), RBF(0.4)), np.linspace(0.0, 1.0, 5)[:, None]
    f = function_of_norm(2.0, kernel, grid, grid, np.random.default_rng(0))
    gram = np.kron(kernel.action(grid, grid), kernel.context(grid, grid))
    assert f.ravel() @ np.linalg.solve(gram, f.ravel()) == pytest.approx(4.0, rel=1e-6)
