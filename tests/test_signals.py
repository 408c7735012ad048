"""Ctrl-C by real signals, at random moments of a `with`: nothing stays locked (REVIEW F2, F3, F12).

`interrupts.Interrupt` raises at every line but where a `with` is left, since Python handles no signal there: it looks
for them when a function written in Python begins, when a loop goes back, and when a call is over. Where `__exit__` is
written in C, as that of locks and files, the lock is free before an interrupt can come in.
"""

import random
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from drbo import _threads
from drbo._files import locked
from drbo._threads import one_thread
from interrupts import enters

pytestmark = [
    pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers here"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # a file that Python itself closes
]

INTERRUPTS = 1000
"""Of Python 3.8 and 3.9, which left a lock locked in one of a hundred, a tenth of them shows it."""


def interrupted_at_random(call: Callable[[], object], check: Callable[[], None]) -> None:
    """Interrupt a loop of calls again and again, each time within 60 microseconds, and check what is left."""
    rng, usual = random.Random(0), signal.signal(signal.SIGALRM, signal.default_int_handler)
    caught = 0
    try:
        for _ in range(INTERRUPTS):
            try:
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-6, 6e-5))
                for _ in range(100_000):
                    call()
            except KeyboardInterrupt:
                caught += 1
            check()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, usual)
    assert caught == INTERRUPTS


@pytest.mark.parametrize("make", [threading.Lock, threading.RLock], ids=["lock", "lock of an optimizer"])
def test_a_lock_is_free(make: Callable[[], threading.Lock]) -> None:
    lock = make()

    def hold() -> None:
        with lock:
            pass

    def free() -> None:
        assert lock.acquire(blocking=False)  # by this thread, which an RLock lets in
        lock.release()

    interrupted_at_random(hold, free)
    assert enters(hold)  # by another one


def test_the_lock_of_a_file_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drbo._files.PATIENCE", 0.0)

    def hold() -> None:
        with locked(tmp_path / "file"):
            pass

    interrupted_at_random(hold, hold)


def test_nobody_stays_inside_the_limit_of_threads() -> None:
    def use() -> None:
        with one_thread():
            pass

    def lifted() -> None:
        assert not _threads.inside()  # so that the next use lifts the limit

    use()  # what is looked for once per process is found
    interrupted_at_random(use, lifted)
