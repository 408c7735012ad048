"""The first compilation is announced, once; without compilation everything works, slowly."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import drbo

CODE = """
import drbo, numpy as np
{ambiguity}.worst_case(np.arange(5.0), np.full(5, 0.2), 0.1)
points = np.array([[0.0], [1.0]])
posterior = drbo.GridPosterior.prior(drbo.GP(drbo.Product(drbo.RBF(0.2), drbo.RBF(0.2)), 0.1), points, points)
posterior.observe(np.zeros(1), np.zeros(1), 1.0)
"""


@pytest.mark.parametrize(
    "ambiguity",
    [
        "drbo.TotalVariation()",
        pytest.param("drbo.MMD(np.linspace(0, 1, 5))", marks=pytest.mark.slow),
        pytest.param("drbo.Wasserstein(np.linspace(0, 1, 5))", marks=pytest.mark.slow),
    ],
)
def test_a_compilation_is_announced_once_and_not_repeated(ambiguity: str, tmp_path: Path) -> None:
    """In a copy of the package that has no cache: the first run compiles and says so, the second one is silent."""
    package = Path(drbo.__file__).parent
    shutil.copytree(package, tmp_path / "drbo", ignore=shutil.ignore_patterns("__pycache__"))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    code = CODE.format(ambiguity=ambiguity)
    said = [
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path, env=environment
        ).stderr
        for _ in range(2)
    ]
    assert said[0].count("compiling the solvers") == 1
    assert said[1] == ""


def test_without_compilation(tmp_path: Path) -> None:
    """`NUMBA_DISABLE_JIT=1` is how one debugs and measures coverage: no announcement, no warning, the same results."""
    code = """
import drbo, numpy as np
contexts, values = np.linspace(0.0, 1.0, 4), np.array([3.0, 1.0, 2.0, 5.0])
sets = [drbo.MMD(contexts), drbo.TotalVariation(), drbo.KL(), drbo.ChiSquare(), drbo.CVaR(), drbo.Expectation()]
sets += [drbo.Wasserstein(contexts), drbo.Neighbourhood(contexts)]
for one in sets:
    print(f"{float(one.worst_case(values, np.full(4, 0.25), 0.1).expectation):.9f}")
for actions in (contexts, drbo.Box({"x": (0.0, 1.0)})):
    setting = drbo.Simulator(np.full(4, 0.25), 0.1, pick="uncertain")
    opt = drbo.Optimizer(actions, contexts, ambiguity=drbo.MMD(), setting=setting)
    for outcome in (1.0, 0.5):
        opt.tell(opt.ask(), outcome)
    opt.ask()
    print(f"{opt.recommend().value:.4f}")
"""
    said = [
        subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "NUMBA_DISABLE_JIT": disabled},
            check=False,
        )
        for disabled in ("1", "0")
    ]
    assert [(done.returncode, done.stderr) for done in said[:1]] == [(0, "")]
    assert said[0].stdout == said[1].stdout
    assert len(said[0].stdout.splitlines()) == 10
