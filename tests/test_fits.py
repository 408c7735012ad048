"""The harness that compares fits and runs of two versions, on small designs and on records made up for the purpose."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import drbo
import fits
from efficiency_problems import PROBLEMS, Task
from world import Array


def test_the_held_out_density_is_that_of_the_joint_normal_distribution() -> None:
    """log p(y') = log p(y, y') - log p(y), for one further outcome at a time."""
    task, rng = Task(PROBLEMS["newsvendor"], 0), np.random.default_rng(0)
    (x, c, y), (other_x, other_c, outcome) = fits.outcomes(task, rng, 12), fits.outcomes(task, rng, 3)
    fit = drbo.LearnedGP().fit(x, c, y)

    def joint(x: Array, c: Array, y: Array) -> float:
        k = fit.gp.kernel.action(x, x) * fit.gp.kernel.context(c, c) + fit.gp.noise**2 * np.eye(len(y))
        return float(multivariate_normal.logpdf(y, np.full(len(y), fit.offset), fit.scale**2 * k))

    each = [
        joint(np.vstack([x, other_x[i]]), np.vstack([c, other_c[i]]), np.append(y, outcome[i])) - joint(x, c, y)
        for i in range(3)
    ]
    assert fits.held_out(fit, (x, c, y), (other_x, other_c, outcome)) == pytest.approx(np.mean(each), rel=1e-8)


def test_work_is_done_once_and_compared_with_that_of_the_other_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fits, "SIZES", (5, 8))
    for side in ("old", "new"):
        fits.work("fits", tmp_path / side / "fits", ["newsvendor"], range(2))
    file = tmp_path / "new" / "fits" / "newsvendor, 1.json"
    better = {name: number + 1.0 for name, number in json.loads(file.read_text()).items()}
    file.write_text(json.dumps(better))
    fits.work("fits", tmp_path / "new" / "fits", ["newsvendor"], range(2))
    assert json.loads(file.read_text()) == better  # it was not done again
    (tmp_path / "old" / "fits" / "newsvendor, 2.json").write_text("{}")  # the other version lacks this seed
    found = fits.paired(tmp_path, "fits", ["newsvendor"], range(3))
    assert len(found) == 8
    rows = [line for line in fits.table(found) if "cold fit, 8 outcomes" in line]
    assert len(rows) == 2
    assert all("| +0, +1 | 1 / 0 / 1 |" in row for row in rows)


def test_an_interval_is_that_of_students_t() -> None:
    assert fits.interval(np.array([-1.0, 1.0])) == "+0 [-13, +13]"  # 12.706 deviations of 1 / sqrt(2) times sqrt(2)
