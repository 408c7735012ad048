"""Several threads on one optimizer."""

import contextlib
import copy
import inspect
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drbo import DataDriven, Optimizer
from queries import NO_QUERIES

ROUNDS = """
import threading
import numpy as np
import drbo

grid = np.linspace(0, 1, 12)
opt = drbo.Optimizer(
    grid, grid, ambiguity=drbo.MMD(grid), setting=drbo.DataDriven(radius=0.1),
    surrogate=drbo.GP(drbo.Product(drbo.RBF(0.2), drbo.RBF(0.2)), 0.1),
)
opt.tell(opt.ask(), 0.0, context_index=0)  # compiled before the threads start
errors = []

def rounds(thread):
    try:
        for i in range(each):
            s = opt.ask()
            opt.tell(s, float(np.sin(6 * s.action[0]) + 0.1 * thread), context_index=(5 * thread + i) % 12)
            if i % 10 == thread:
                opt.recommend_iterate(), opt.recommend(), opt.pending, opt.posterior, repr(opt), opt.results
                opt.save("state.json")
    except BaseException as error:
        errors.append(error)

threads = [threading.Thread(target=rounds, args=(k,)) for k in range(8)]
for t in threads:
    t.start()
for t in threads:
    t.join()
assert not errors, errors
assert opt.n_told == opt.posterior.n_observations == 8 * each + 1, (opt.n_told, opt.posterior.n_observations)
assert opt.pending == ()
mean = opt.posterior.mean.copy()
opt._start_anew()
np.testing.assert_array_equal(opt.posterior.mean, mean)
opt.save("state.json")
loaded = drbo.Optimizer.load("state.json")
assert sorted(r.number for r in loaded.results) == list(range(8 * each + 1))
np.testing.assert_array_equal(loaded.posterior.mean, mean)
"""


@pytest.mark.parametrize("each", [25, pytest.param(50, marks=pytest.mark.slow)])
def test_eight_threads_evaluate_many_times(each: int, tmp_path: Path) -> None:
    """U2 and F14. In a process of its own: without the lock, compiled code met arrays of another round's size."""
    command = [sys.executable, "-c", f"each = {each}\n{ROUNDS}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def make() -> Optimizer:
    return Optimizer(np.linspace(0, 1, 4), np.linspace(0, 1, 3), setting=DataDriven(radius=0.1))


@pytest.mark.parametrize("again", [copy.deepcopy, copy.copy, lambda opt: pickle.loads(pickle.dumps(opt))])
def test_a_copy_has_a_lock_of_its_own(again: Any) -> None:
    opt = make()
    with opt._guard.lock:
        other = again(opt)
        answers: list[int] = []
        thread = threading.Thread(target=lambda: answers.append(other.n_told))
        thread.start()
        thread.join(timeout=10.0)
    assert answers == [0]


def test_every_call_takes_the_lock() -> None:
    """The calls below show what the lock does; this finds a new method or property that does not take it."""
    free = NO_QUERIES["configuration"] | {"from_frame", "load"}  # what never changes, and what makes an optimizer
    by_others = {"plot", "report"}  # which call locked ones
    for name in {name for name in dir(Optimizer) if not name.startswith("_")} - free - by_others:
        member = inspect.getattr_static(Optimizer, name)
        function: Any = member.fget if isinstance(member, property) else member
        assert function.__wrapped__.__name__ == name


@pytest.mark.parametrize(
    "call",
    [
        lambda opt: opt.ask(),
        lambda opt: opt.tell([0.0], 1.0, context_index=0),
        lambda opt: opt.cancel(opt.pending[0]),
        lambda opt: opt.recommend_iterate(),
        lambda opt: opt.recommend(),
        lambda opt: opt.save("/dev/null/nowhere"),
        lambda opt: opt.posterior,
        lambda opt: opt.n_told,
        lambda opt: opt.pending,
        lambda opt: opt.predict([0.0], [0.0]),
        lambda opt: opt.results,
        lambda opt: opt.history,
        lambda opt: opt.to_frame(),
        repr,
    ],
)
def test_every_call_waits_for_the_one_under_way(call: Any) -> None:
    opt = make()
    opt.ask()
    over = threading.Event()

    def late() -> None:
        with contextlib.suppress(OSError):  # the file of `save` cannot be written
            call(opt)
        over.set()

    thread = threading.Thread(target=late)
    with opt._guard.lock:
        thread.start()
        assert not over.wait(0.2)
    thread.join(timeout=60.0)
    assert over.is_set()
