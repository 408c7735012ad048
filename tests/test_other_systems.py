"""What differs on Windows and macOS, by simulation: this project is developed on Linux."""

import ast
import errno
import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drbo
from drbo import _files

SOURCES = Path(drbo.__file__).parent
WINDOWS = """
import errno, os, sys, types
import contextlib, io, pathlib, secrets, stat, time, weakref, zlib  # what the module imports, of this system
import fcntl as real

def locking(descriptor, mode, count):  # as Windows says it: another error, and no wait
    assert (mode, count) == (2, 1)
    try:
        real.flock(descriptor, real.LOCK_EX | real.LOCK_NB)
    except BlockingIOError:
        raise PermissionError(errno.EACCES, "Permission denied") from None

sys.modules["msvcrt"] = types.SimpleNamespace(LK_NBLCK=2, locking=locking)
sys.modules["fcntl"] = None
del os.fork, os.register_at_fork
import signal
del signal.SIGKILL
sys.platform = "win32"
from drbo import _files
_files.PATIENCE = 0.3
path = pathlib.Path(sys.argv[1])
"""
"""Code after which this process has no fcntl, no fork and no SIGKILL, and a lock of Windows."""
needs_flock = pytest.mark.skipif(sys.platform == "win32", reason="the real thing is tested there")


def as_on_windows(code: str, *arguments: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WINDOWS + code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@needs_flock
def test_locks_without_fcntl(tmp_path: Path) -> None:
    code = """
with _files.locked(path):
    try:
        _files.locked(path)
    except TimeoutError as error:
        print(error)
with _files.locked(path):
    _files.write_atomically(path, "one\\n")
    _files.append(path, "two\\n")
print(path.read_bytes())
"""
    done = as_on_windows(code, tmp_path / "a file")
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert "is in use: another process has held its lock" in first
    assert second == repr(b"one\ntwo\n")


@needs_flock
def test_a_lock_of_another_process_is_seen(tmp_path: Path) -> None:
    with _files.locked(tmp_path / "file"):
        done = as_on_windows("_files.locked(path)", tmp_path / "file")
    assert "TimeoutError" in done.stderr


@needs_flock
def test_a_file_that_another_program_has_open_is_waited_for(tmp_path: Path) -> None:
    code = """
replace, refused = os.replace, []
def busy(name, target):
    refused.append(name)
    if len(refused) < 4:
        raise PermissionError(errno.EACCES, "The process cannot access the file")
    replace(name, target)
os.replace = busy
_files.write_atomically(path, "text")
print(len(refused), path.read_text())
refused.clear()
_files.PATIENCE = 0.0
try:
    _files.write_atomically(path, "more")
except OSError as error:
    print(error, os.listdir(path.parent))
"""
    done = as_on_windows(code, tmp_path / "file")
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == "4 text"
    assert "could not be written" in second
    assert "'file'" in second
    assert ".tmp" not in second


def test_here_a_refused_file_is_an_error_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def refuse(*names: object) -> None:
        tried.append(names)
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="Permission denied"):
        _files.write_atomically(tmp_path / "file", "text")
    assert len(tried) == 1 or sys.platform == "win32"


def test_only_one_module_knows_the_system() -> None:
    """Names that a system lacks are used in `_files.py` alone, or after `hasattr`."""
    missing = {"fcntl", "fork", "SIGKILL", "SIGALRM", "setitimer", "getuid", "geteuid", "uname", "pwd", "resource"}
    found = set()
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [node.attr] if isinstance(node, ast.Attribute) else []
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [one.name for one in node.names]
            if isinstance(node, ast.Attribute) and not (
                isinstance(node.value, ast.Name) and node.value.id in ("os", "signal")
            ):
                names = []
            found |= {(path.name, name) for name in names if name in missing}
    assert found == {("_files.py", "fcntl")}


def test_every_text_file_has_an_encoding() -> None:
    """The default is cp1252 on Windows."""
    found = []
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            modes = [one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
            of_os = isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") in ("os", "limit")
            binary = any("b" in mode for mode in modes)
            if name in ("open", "read_text", "write_text") and not of_os and not binary:
                found += [(path.name, node.lineno)] * ("encoding" not in {one.arg for one in node.keywords})
    assert found == []


def recommended(opt: drbo.Optimizer) -> Any:
    return opt.recommend().action


def optimizer() -> drbo.Optimizer:
    grid = np.linspace(0.0, 1.0, 5)
    fixed = drbo.GP(drbo.Product(drbo.RBF(0.3), drbo.RBF(0.3)), 0.1)
    setting = drbo.Simulator(np.full(5, 0.2), 0.1, pick="uncertain")
    opt = drbo.Optimizer(grid, grid, ambiguity=drbo.MMD(), setting=setting, surrogate=fixed)
    for i in range(4):
        opt.tell(opt.ask(), float(i % 3))
    return opt


def outcome(action: Any, context: Any) -> float:
    return float(-((action[0] - context[0]) ** 2))


def test_processes_that_are_spawned() -> None:
    """As on Windows and macOS: nothing of this process is there but what is pickled."""
    opt = optimizer()
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(recommended, opt).result().tolist() == opt.recommend().action.tolist()
        drbo.run(opt, outcome, 7, executor=pool, workers=1, progress=False)
    assert opt.n_told == 7


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_consoles(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "run of Jörg.json"
    opt = optimizer()
    opt.save(path)
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    for words in (["show", str(path)], ["--help"]):
        done = subprocess.run(
            [sys.executable, "-m", "drbo", *words], capture_output=True, env=environment, check=False, timeout=100
        )
        assert done.returncode == 0, done.stderr
        done.stdout.decode(encoding)


@pytest.mark.parametrize("name", ["with a space", "Käse", "a.b.c", "x" * 120, "CON-2", "#100%"])
def test_paths(name: str, tmp_path: Path) -> None:
    opt = optimizer()
    folder = tmp_path / name
    opt.save(folder / f"{name}.json")
    assert drbo.Optimizer.load(str(folder / f"{name}.json")).n_told == 4
    opt.report(folder / f"{name}.html")
    assert sorted(one.suffix for one in folder.iterdir() if not one.name.startswith(".")) == [".html", ".json"]
