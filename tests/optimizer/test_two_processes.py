"""U1 and F5: several processes on one file. None loses a result of another, and every error names the remedy."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from drbo import DataDriven, Optimizer

RESULTS = 25
"""How many results each process has to bring into the file."""


def make() -> Optimizer:
    grid = np.linspace(0.0, 1.0, 4)
    return Optimizer(grid, grid, setting=DataDriven(radius=0.1))


def hammer(path: Path, name: int) -> None:
    """Bring results into the file, each by a load, a tell and a save; print the number of saves that were refused."""
    print("ready", flush=True)
    sys.stdin.readline()
    refused = 0
    for i in range(RESULTS):
        while True:
            opt = Optimizer.load(path) if path.exists() else make()
            opt.tell([0.0], 1000.0 * name + i, context_index=i % 4)
            time.sleep(0.005)  # the other one saves meanwhile
            try:
                opt.save(path)
            except RuntimeError as error:
                if "holds records that saving would lose" not in str(error):
                    raise
                refused += 1
            else:
                break
    print(refused)


def test_no_result_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    commands = [[sys.executable, "-W", "error", __file__, str(path), str(name)] for name in range(2)]
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    running = [subprocess.Popen(command, text=True, **pipes) for command in commands]
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in running:  # both start now
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [process.communicate(timeout=300) for process in running]
    assert [process.returncode for process in running] == [0, 0], [stderr for _, stderr in answers]
    assert sum(int(stdout) for stdout, _ in answers) > 0  # they did meet
    told = [result.outcome for result in Optimizer.load(path).results]
    assert sorted(told) == [1000.0 * name + i for name in range(2) for i in range(RESULTS)]  # type: ignore[type-var]
    assert not list(tmp_path.glob(".drbo-*.tmp"))


if __name__ == "__main__":
    hammer(Path(sys.argv[1]), int(sys.argv[2]))
