"""One process-wide limit of BLAS threads: the last to leave lifts what the first to enter set."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import drbo
from drbo._threads import one_thread
from drbo.contexts.compression import compress
from drbo.models import learned
from drbo.models.data import Outcomes, standardisation
from interrupts import interrupted, lines

PATIENCE = 30.0
"""Seconds after which a thread that waits for another one has failed."""


def limits() -> set[int]:
    """Return the numbers of threads that the loaded BLAS libraries may use."""
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    """Allow two threads, whatever the machine and its environment allow, so that one is a change."""
    np.ones((2, 2)) @ np.ones((2, 2))
    with threadpool_limits(2, user_api="blas"):
        if limits() != {2}:
            pytest.skip("this BLAS library cannot be told how many threads to use")
        yield


def test_the_limit_is_one_inside_and_as_before_outside() -> None:
    with one_thread():
        assert limits() == {1}
    assert limits() == {2}


def test_nested_uses_leave_the_limit_to_the_outermost() -> None:
    with one_thread():
        with one_thread():
            assert limits() == {1}
        assert limits() == {1}
    assert limits() == {2}


def test_an_error_inside_lifts_the_limit() -> None:
    with pytest.raises(ValueError, match="inside"), one_thread():
        raise ValueError("inside")
    assert limits() == {2}


def use() -> None:
    with one_thread():
        pass


def test_after_an_interrupt_at_any_line_the_next_use_lifts_the_limit() -> None:
    use()  # what is made once per process is there
    count = lines(use).count
    assert count > 10
    for moment in range(1, count + 1):
        assert interrupted(use, moment)
        with one_thread():
            assert limits() == {1}, moment
        assert limits() == {2}, moment


def test_an_optimizer_has_one_thread_on_a_grid_too() -> None:
    seen = []

    class Watching(drbo.Optimism):
        def choose(self, *args: Any) -> Any:
            seen.append(limits())
            return super().choose(*args)

    grid = np.linspace(0.0, 1.0, 3)[:, None]
    opt = drbo.Optimizer(
        grid, grid, ambiguity=drbo.TotalVariation(), setting=drbo.DataDriven(radius=0.1), policy=Watching()
    )
    opt.ask()
    assert seen == [{1}]
    assert limits() == {2}


def test_a_fit_has_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def watching(outcomes: Outcomes) -> tuple[float, float]:
        seen.append(limits())
        return standardisation(outcomes)

    monkeypatch.setattr(learned, "standardisation", watching)
    z = np.linspace(0.0, 1.0, 4)[:, None]
    drbo.LearnedGP().fit(z, z, z[:, 0])
    assert seen == [{1}]
    assert limits() == {2}


def test_overlapping_uses_leave_the_limit_as_it_was() -> None:
    """The first to enter leaves first: two independent contexts would leave the limit at one for good."""
    first_is_in, second_is_in, first_is_out = threading.Event(), threading.Event(), threading.Event()
    seen: dict[str, set[int]] = {}

    def first() -> None:
        with one_thread():
            first_is_in.set()
            assert second_is_in.wait(PATIENCE)
        seen["between"] = limits()
        first_is_out.set()

    def second() -> None:
        assert first_is_in.wait(PATIENCE)
        with one_thread():
            second_is_in.set()
            assert first_is_out.wait(PATIENCE)
            seen["second"] = limits()

    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert seen == {"between": {1}, "second": {1}}
    assert limits() == {2}


def test_independent_contexts_that_overlap_leave_it_wrong() -> None:
    """This is what the counter is for; the test shows that the test above can fail."""
    first = threadpool_limits(1, user_api="blas")
    second = threadpool_limits(1, user_api="blas")
    first.restore_original_limits()
    second.restore_original_limits()
    assert limits() == {1}


def test_many_threads_at_once() -> None:
    wrong: list[set[int]] = []

    def enter_often() -> None:
        for _ in range(50):
            with one_thread():
                if limits() != {1}:
                    wrong.append(limits())

    threads = [threading.Thread(target=enter_often) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert wrong == []
    assert limits() == {2}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_starts_without_the_limit_of_its_parent() -> None:
    code = """
import os, sys, warnings
import numpy, scipy.linalg
from threadpoolctl import threadpool_info, threadpool_limits
from drbo._threads import one_thread
warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of a fork with threads
threadpool_limits(2, user_api="blas")
def limits():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}
with one_thread():
    child = os.fork()
    if child == 0:
        before = limits()
        with one_thread():
            inside = limits()
        os._exit(0 if (before, inside, limits()) == ({2}, {1}, {2}) else 1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert limits() == {1}
sys.exit(status)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_samples_are_compressed_and_sets_are_put_on_contexts_with_one_thread() -> None:
    """With two threads the weights of a reference depended on whether `ask` made it, or somebody outside of it."""
    allowed: list[set[int]] = []

    class Watched(drbo.RBF):
        def __call__(self, a: Any, b: Any) -> Any:
            allowed.append(limits())
            return super().__call__(a, b)

    points, kernel = np.random.default_rng(0).random((200, 2)), Watched(0.3)
    drbo.MMD(points, kernel)
    assert len(allowed) > 1
    assert all(threads == {1} for threads in allowed)
    allowed.clear()
    compress(points, kernel, atoms=20)
    assert len(allowed) > 10
    assert all(threads == {1} for threads in allowed[1:])  # the first one checks the dimension
    assert limits() == {2}
