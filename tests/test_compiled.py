"""The first compilation is announced, once."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import drbo

CODE = """
import drbo, numpy as np
mmd = drbo.MMD(np.linspace(0, 1, 5))
mmd.worst_case(np.arange(5.0), np.full(5, 0.2), 0.1)
posterior = drbo.GP(drbo.Product(drbo.RBF(0.2), drbo.RBF(0.2)), 0.1).prior([0.0, 1.0], [0.0, 1.0])
posterior.observe(np.zeros(1), np.zeros(1), 1.0)
"""


def test_a_compilation_is_announced_once_and_not_repeated(tmp_path: Path) -> None:
    """In a copy of the package that has no cache: the first run compiles and says so, the second one is silent."""
    package = Path(drbo.__file__).parent
    shutil.copytree(package, tmp_path / "drbo", ignore=shutil.ignore_patterns("__pycache__"))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    said = [
        subprocess.run(
            [sys.executable, "-c", CODE], capture_output=True, text=True, check=True, cwd=tmp_path, env=environment
        ).stderr
        for _ in range(2)
    ]
    assert said[0].count("compiling the solvers") == 1
    assert said[1] == ""
