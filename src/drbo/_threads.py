"""How many threads linear algebra may use: one process-wide limit.

On matrices of a few hundred rows the threads of a BLAS library mostly wait for one another, and they wait busily: an
optimizer on a grid took three times the CPU time with two threads, on a machine with other work to do. Two threads also
round otherwise than one. So methods of an optimizer that need a posterior run inside `one_thread()`. So do fits, the
compression of samples and the factors of kernel matrices, which others may need, too.

Overlapping uses, also from several threads, share the limit: the first one sets it and the last one lifts it. Two
independent `threadpoolctl` contexts that overlap would leave the limit wrong for good. A use that an interrupt ends
while it leaves is forgotten with its frame, and the next use lifts the limit. Entering and leaving take 10
microseconds, 3 where BLAS has one thread anyway, and 2 inside of another use.
"""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any


class _Use:
    """One use of the limit, as long as it lives."""

    def __enter__(self) -> None:
        global _before
        with _LOCK:
            if not inside():
                _before = _before or _with_several_threads()
                _set([(library, 1) for library, _ in _before])
            _uses[id(self)] = weakref.ref(self)

    def __exit__(self, *error: object) -> None:
        global _before
        with _LOCK:
            _uses.pop(id(self), None)
            if not inside():
                _set(_before)
                _before = []


_LOCK = threading.Lock()
_uses: dict[int, weakref.ref[_Use]] = {}
"""The uses that were entered and not left. No set of weak references: Ctrl-C is lost in the code that tidies it up."""
_before: list[tuple[Any, int]] = []
"""The libraries that the limit changes, and how many threads each had before; empty where there is no limit."""


def one_thread() -> AbstractContextManager[None]:
    """Limit linear algebra to one thread in the whole process, as long as any caller is inside."""
    return _Use()


def inside() -> bool:
    """Return whether anybody is inside; uses that an interrupt ended are forgotten."""
    if _uses:
        for key in [key for key, use in _uses.items() if use() is None]:
            del _uses[key]
    return bool(_uses)


def _with_several_threads() -> list[tuple[Any, int]]:
    """Return the libraries that use more than one thread now, and how many."""
    return [(library, count) for library in _libraries() if (count := library.get_num_threads() or 0) > 1]


def _set(counts: list[tuple[Any, int]]) -> None:
    """Let each library use so many threads.

    From version 3.8 on threadpoolctl heeds only the thread that set a limit first, and ignores all others without a
    word. So this thread asks to be the one, and lets go of it for whichever thread comes next.
    """
    if counts:
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
    """Return what lets any thread set limits."""
    from threadpoolctl import OpenBLASController

    let_go = getattr(OpenBLASController, "clear_controlling_thread", None)
    return (lambda: None) if let_go is None else functools.partial(let_go, force=True)


def _reset() -> None:
    """Forget who was inside in a parent process, whose threads a forked child does not have."""
    global _LOCK, _before
    _set(_before)
    _uses.clear()
    _LOCK, _before = threading.Lock(), []


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset)
