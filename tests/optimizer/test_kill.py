"""Kill the process at random moments of a loop that saves: no saved result is ever lost, and every file loads.

A supervisor, itself a process of its own, forks the loop, kills it, and checks the file. A kill takes away the process,
not the disk's cache: what a power cut does is up to `fsync` and the disk.
"""

import os
import random
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

import numpy as np
import pytest

from drbo import GP, MMD, RBF, Optimizer, Product, Simulator
from drbo.knowledge.history import Asked


def outcome(action: float, context: float) -> float:
    """Return what the loop observes: without noise, so that the supervisor knows whether a result is the right one."""
    return float(np.sin(5.0 * action) * np.cos(3.0 * context))


def make() -> Optimizer:
    grid = np.linspace(0.0, 1.0, 6)
    return Optimizer(
        grid,
        grid,
        ambiguity=MMD(grid, RBF(0.3)),
        setting=Simulator(np.full(6, 1.0 / 6.0), radius=0.1, pick="uncertain"),
        surrogate=GP(Product(RBF(0.3), RBF(0.3)), 0.1),
    )


def loop(path: Path, report: int) -> None:
    """Ask, tell and save for ever; write to the descriptor how many results are safe after every save."""
    opt = Optimizer.load(path) if path.exists() else make()
    os.write(report, b"0\n")
    while True:
        s = opt.pending[0] if opt.pending else opt.ask()
        opt.save(path)
        opt.tell(s, outcome(s.action[0], s.context[0]))
        opt.save(path)
        os.write(report, b"%d\n" % opt.n_told)


def run_and_kill(path: Path, rounds: int, part: float) -> int:
    """Return how many results the loop said were safe, killed after some rounds and a part of the next one."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            loop(path, write)
        finally:  # nothing but a kill ends the loop
            traceback.print_exc()
            os._exit(1)
    os.close(write)
    with os.fdopen(read) as reports:
        lines, took = [reports.readline()], 0.02
        for _ in range(rounds):
            start = time.perf_counter()
            lines.append(reports.readline())
            took = time.perf_counter() - start
        time.sleep(part * took)  # a busy machine takes longer for a round, and is killed later
        os.kill(child, signal.SIGKILL)
        last = [*lines, *reports][-1]
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
    return int(last)


def check(path: Path, reported: int) -> int:
    """Return how many results the file holds, at least as many as were reported safe, each of them the right one."""
    if not path.exists():
        assert reported == 0, f"{reported} results were safe, and there is no file"
        return 0
    opt = Optimizer.load(path)
    told = opt.results
    # One more than reported, if it was killed between a save and its report.
    assert reported <= len(told) <= reported + 1, f"{reported} results were safe, the file holds {len(told)}"
    for o in told:
        assert o.outcome == outcome(o.action[0], o.context[0])
    assert sum(len(fact.proposals) for fact in opt.history if isinstance(fact, Asked)) == len(told) + len(opt.pending)
    return len(told)


def supervise(path: Path, kills: int, seed: int) -> None:
    """Kill the loop that often, and print how many results were saved in all."""
    rng = random.Random(seed)
    make().ask()  # compiles, so that the children need not
    total, held = 0, 0
    for _ in range(kills):
        held = check(path, max(held, run_and_kill(path, rng.randrange(4), rng.random())))
        if held > 60:  # begin anew: the first save is a moment like any other
            total, held = total + held, 0
            path.unlink()
    print(total + held)


def saved_results(path: Path, kills: int, seed: int) -> int:
    command = [sys.executable, __file__, str(path), str(kills), str(seed)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return int(ended.stdout)


def test_no_saved_result_is_lost(tmp_path: Path) -> None:
    assert saved_results(tmp_path / "state.json", kills=12, seed=0) > 12


@pytest.mark.slow
def test_no_saved_result_is_lost_in_hundreds_of_kills(tmp_path: Path) -> None:
    assert saved_results(tmp_path / "state.json", kills=500, seed=1) > 500


def test_a_lost_result_would_be_noticed(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    with pytest.raises(AssertionError, match="there is no file"):
        check(path, 1)
    opt = make()
    s = opt.ask()
    opt.tell(s, outcome(s.action[0], s.context[0]))
    opt.save(path)
    assert check(path, 1) == 1
    with pytest.raises(AssertionError, match="2 results were safe, the file holds 1"):
        check(path, 2)
    whole = path.read_text()
    path.write_text(whole[:-20])  # the last record lacks its end: a save that had not returned
    with pytest.warns(RuntimeWarning, match="ends in the middle"), pytest.raises(AssertionError, match="file holds 0"):
        check(path, 1)
    path.write_text(whole[:-20] + whole[-19:])
    with pytest.raises(ValueError, match="is damaged"):
        check(path, 1)


if __name__ == "__main__":
    supervise(Path(sys.argv[1]), kills=int(sys.argv[2]), seed=int(sys.argv[3]))
