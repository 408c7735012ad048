"""Copies, pickles, threads and forks give an optimizer that works and goes on alike."""

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import robos
from bits import bits
from drbo import Optimizer
from optimizer.places import on_a_box, on_a_grid, on_a_range

pytestmark = pytest.mark.usefixtures("still")


def pickled(opt: Optimizer) -> Any:
    return pickle.loads(pickle.dumps(opt))


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, pickled], ids=["copy", "deepcopy", "pickle"])
@pytest.mark.parametrize("make", [on_a_grid, on_a_box, on_a_range], ids=lambda make: make.__name__)
def test_a_copy_goes_on_alike(make: Callable[[], Optimizer], again: Callable[[Optimizer], Optimizer]) -> None:
    opt = make()
    twin = again(opt)
    assert bits(twin.history) == bits(opt.history)
    told = opt.n_told
    for _ in range(2):
        for some in (opt, twin):
            s = robos.ask(some)
            context = {} if s.context is not None else {"context": some.results[0].context}
            some.tell(s, 0.25, **context)
    assert bits(twin.history) == bits(opt.history)
    assert bits(twin.recommend()) == bits(opt.recommend())
    twin.tell(robos.ask(twin), failed=True)
    assert (opt.n_told, twin.n_told) == (told + 2, told + 3)  # they are independent


FORK = """
import os, sys, threading
import numpy as np
import drbo

grid = np.linspace(0, 1, 12)
opt = drbo.Optimizer(
    grid, grid, setting=drbo.Simulator(np.full(12, 1 / 12), 0.1, pick="uncertain"),
    surrogate=drbo.GP(drbo.Product(drbo.RBF(0.2), drbo.RBF(0.2)), 0.1),
)
for i in range(5):
    opt.tell(opt.ask(), float(i))
inside, leave = threading.Event(), threading.Event()

def hold():
    with opt._guard.lock:  # another thread is in a call when the process forks
        inside.set()
        leave.wait()

thread = threading.Thread(target=hold)
thread.start()
inside.wait()
read, write = os.pipe()
child = os.fork()
if child == 0:
    s = opt.ask()
    opt.tell(s, 1.0)
    os.write(write, f"{s.action_index} {s.context_index} {s.score!r} {opt.recommend().value!r}".encode())
    os._exit(0)
_, status = os.waitpid(child, 0)
leave.set()
thread.join()
assert status == 0, status
s = opt.ask()
opt.tell(s, 1.0)
mine = f"{s.action_index} {s.context_index} {s.score!r} {opt.recommend().value!r}"
assert os.read(read, 1000).decode() == mine
assert opt.n_told == 6
"""


def test_a_forked_child_goes_on_alike() -> None:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORK]  # Python warns of forks with threads
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
