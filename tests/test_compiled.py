"""The first compilation is announced, once; machine code is that of its call; without compilation everything works."""

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from numba.core.caching import IndexDataCacheFile

import drbo
from drbo._compiled import _Cache

CODE = """
import drbo, numpy as np
{ambiguity}.worst_case(np.arange(5.0), np.full(5, 0.2), 0.1)
points = np.array([[0.0], [1.0]])
posterior = drbo.models.ExactPosterior.prior(drbo.GP(drbo.Product(drbo.RBF(0.2), drbo.RBF(0.2)), 0.1), points, points)
posterior = posterior.with_outcome(np.zeros(1), np.zeros(1), 1.0)
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


PATIENCE = 30.0
"""Seconds after which a thread that waits for the other one has failed."""


def saved_at_the_same_time(kind: type[Any], folder: Path) -> tuple[Any, Any]:
    """Return what a cache has for floats and for ints after two processes have saved one signature each.

    Both look at the index before the other one has written to it, and the machine code of ints is written last.
    """
    first_looked, both_looked, floats_are_saved = threading.Event(), threading.Event(), threading.Event()

    class First(kind):  # type: ignore[misc]
        def _save_index(self, overloads: Any) -> None:
            first_looked.set()
            assert both_looked.wait(PATIENCE)
            super()._save_index(overloads)

    class Second(kind):  # type: ignore[misc]
        def _save_data(self, name: str, data: Any) -> None:
            both_looked.set()
            assert floats_are_saved.wait(PATIENCE)
            super()._save_data(name, data)

    place = str(folder), "f-1.py311", "stamp"

    def save_floats() -> None:
        First(*place).save("floats", "code for floats")
        floats_are_saved.set()

    def save_ints() -> None:
        assert first_looked.wait(PATIENCE)
        Second(*place).save("ints", "code for ints")

    both = [threading.Thread(target=save_floats), threading.Thread(target=save_ints)]
    for one in both:
        one.start()
    for one in both:
        one.join(PATIENCE)
    return kind(*place).load("floats"), kind(*place).load("ints")


def test_two_processes_that_compile_at_the_same_time_never_share_machine_code(tmp_path: Path) -> None:
    """numba's own cache does: floats are computed with the code for ints, which shows that this test can fail."""
    assert saved_at_the_same_time(_Cache, tmp_path) == ("code for floats", "code for ints")
    (tmp_path / "numba").mkdir()
    assert saved_at_the_same_time(IndexDataCacheFile, tmp_path / "numba")[0] == "code for ints"


INNER = """
from drbo._compiled import in_order

@in_order
def inner(x):
    return x + {number}
"""
OUTER = """
from _inner import inner
from drbo._compiled import announce, in_order

@in_order
def outer(x):
    return inner(x)

announce(outer)
print(outer(1.0))
"""


def said_by_outer(folder: Path, number: float, before: str = "") -> tuple[str, str]:
    """Return what a process prints that calls a compiled function which calls one of another module."""
    for name, text in (("_inner.py", INNER.format(number=number)), ("outer.py", OUTER)):
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    command = [sys.executable, "-c", f"{before}\nimport outer"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
    return done.stdout.strip(), done.stderr


def test_a_change_of_a_compiled_module_is_seen_by_its_callers_in_others(tmp_path: Path) -> None:
    for number in (1.5, 20.5):
        out, said = said_by_outer(tmp_path, number)
        assert out == str(number + 1.0)
        assert said.count("compiling the solvers") == 1
    assert said_by_outer(tmp_path, 20.5) == ("21.5", "")


def test_where_no_folder_can_be_written_to_every_process_compiles_and_says_so(tmp_path: Path) -> None:
    nowhere = """
from numba.core import caching
def refuse(self):
    raise OSError("read-only file system")
caching._CacheLocator.ensure_cache_path = refuse
"""
    out, said = said_by_outer(tmp_path, 1.5, nowhere)
    assert out == "2.5"
    assert "in every process: no folder for the cache" in said
