"""A process-wide limit on the number of threads of linear algebra.

On matrices of a few hundred rows, the threads of a BLAS library mostly busy-wait for one another. An optimizer on a
grid took three times the CPU time with two threads, on a machine with other work to do. Results with two threads are
also rounded differently. So optimizer methods that need a posterior run inside `one_thread()`, and so do
fits, the compression of samples and the factors of kernel matrices, which have other callers, too.

Overlapping uses, also from several threads, share the limit: the first one sets it and the last one lifts it. Two
independent `threadpoolctl` contexts that overlap would leave the limit permanently wrong. If an interrupt ends a use
while it exits, the use is dropped with its frame, and the next use lifts the limit. Entering and leaving take 10
microseconds, 3 if BLAS has one thread anyway, and 2 inside another use.
"""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any


class _Use:
    """A context manager that limits linear algebra in this process to one thread until all uses have ended."""

    def __enter__(self) -> None:
        global _before
        with _LOCK:
            if not (_uses and inside()):
                if not _before:  # all libraries in one step: an interrupt between two would forget the second
                    counts = []
                    for library in _libraries():
                        if (count := library.get_num_threads() or 0) > 1:  # it uses several threads now
                            counts.append((library, count))
                    _before = counts
                if _before:
                    _set([(library, 1) for library, _ in _before])
            _uses[id(self)] = weakref.ref(self)

    def __exit__(self, *error: object) -> None:
        global _before
        with _LOCK:
            _uses.pop(id(self), None)
            if _before and not inside():
                _set(_before)
                _before = []


_LOCK = threading.Lock()
_uses: dict[int, weakref.ref[_Use]] = {}
"""The uses that were entered and not left. Not a WeakSet: its Python callbacks can swallow Ctrl-C."""
_before: list[tuple[Any, int]] = []
"""The limited libraries and their previous thread counts; empty if there is no limit."""


one_thread = _Use


def inside() -> bool:
    """Return whether any use is active; drop the uses that an interrupt ended."""
    if _uses:
        for key in [key for key, use in _uses.items() if use() is None]:
            del _uses[key]
    return bool(_uses)


def _set(counts: list[tuple[Any, int]]) -> None:
    """Set the number of threads of each library.

    From version 3.8 on, threadpoolctl obeys only the first thread that set a limit, and silently ignores all others. So
    this thread claims that role, and releases it for the next thread.
    """
    let_go = _let_go()
    let_go()
    for library, count in counts:
        library.set_num_threads(count)
    let_go()


@functools.cache
def _libraries() -> list[Any]:
    from threadpoolctl import ThreadpoolController

    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


@functools.cache
def _let_go() -> Callable[[], object]:
    """Return a function that lets any thread set limits."""
    from threadpoolctl import OpenBLASController

    let_go = getattr(OpenBLASController, "clear_controlling_thread", None)
    return (lambda: None) if let_go is None else functools.partial(let_go, force=True)


def _reset() -> None:
    """Drop the uses of the parent process: a forked child does not have its threads."""
    global _LOCK, _before
    if _before:
        _set(_before)
    _uses.clear()
    _LOCK, _before = threading.Lock(), []


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset)
