"""A disk that is full or belongs to others: an error that names the file, the old file as it was, and nothing lost."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="limits and owners of files are those of POSIX")

START = """
import os, resource, signal, sys, warnings
import drbo

def make():
    return drbo.Optimizer([0.0, 1.0], [0.0, 1.0], setting=drbo.DataDriven(radius=0.1))

def refused(call, *arguments):
    try:
        call(*arguments)
    except OSError as error:
        return str(error)
    raise AssertionError("it was not refused")

def files():
    return sorted(name for name in os.listdir() if not name.endswith(".lock"))

opt = make()
opt.tell([0.0], 1.0, context_index=0)
opt.save("run.drbo")
before = open("run.drbo", "rb").read()
opt.tell([1.0], 2.0, context_index=1)
"""

FULL = """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # as on a full disk, a write fails

def room(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

for left in (0, 1, 20):  # no byte of the record, one, or a part of it
    room(len(before) + left)
    assert "run.drbo could not be written" in refused(opt.save, "run.drbo")
    room(resource.RLIM_INFINITY)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert drbo.Optimizer.load("run.drbo").n_told == 1  # what was saved before
    assert open("run.drbo", "rb").read().startswith(before)
    assert bool(caught) == (len(open("run.drbo", "rb").read()) > len(before))
room(100)
assert "another.drbo could not be written" in refused(opt.save, "another.drbo")
room(resource.RLIM_INFINITY)
assert files() == ["run.drbo"]
opt.save("run.drbo")  # there is room again
assert drbo.Optimizer.load("run.drbo").n_told == 2
opt.save("another.drbo")
"""

NOT_MINE = """
os.chmod("run.drbo", 0o444)
os.chmod(".", 0o555)
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
for name in ("run.drbo", "another.drbo", "folder/run.drbo"):
    said = refused(opt.save, name)
    assert name in said and "Permission denied" in said, said
assert files() == ["run.drbo"]
assert open("run.drbo", "rb").read() == before
assert drbo.Optimizer.load("run.drbo").n_told == 1
assert opt.n_told == 2
os.chdir(sys.argv[1])
opt.save("run.drbo")  # where it may
assert drbo.Optimizer.load("run.drbo").n_told == 2
"""


def run(code: str, folder: Path, *arguments: str) -> None:
    command = [sys.executable, "-c", START + code, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_full_disk(tmp_path: Path) -> None:
    """F5. In a process of its own, whose files have a largest size."""
    run(FULL, tmp_path)


def test_a_folder_of_others() -> None:
    """F5. In a process of its own, which gives up its rights if it is the administrator's."""
    with tempfile.TemporaryDirectory() as made:  # pytest's own folders cannot be entered by others
        folder = Path(made)
        here, other = folder / "here", folder / "other"
        here.mkdir()
        other.mkdir()
        folder.chmod(0o755)
        other.chmod(0o777)
        run(NOT_MINE, here, str(other))
        here.chmod(0o755)
