"""How many threads linear algebra may use: one process-wide limit.

On matrices of a few hundred rows the threads of a BLAS library only wait for one another. Code that works on such
matrices enters `one_thread()`. Overlapping uses, also from several threads, share one counter: the first one sets the
limit and the last one lifts it. Two independent `threadpoolctl` contexts that overlap would leave the limit wrong for
good. Entering takes about 25 microseconds the first time, so callers enter it once around large work.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_LOCK = threading.Lock()
_inside = 0
_limit: Any = None


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit linear algebra to one thread in the whole process, as long as any caller is inside."""
    global _inside, _limit
    with _LOCK:
        if _inside == 0:
            with _in_control():
                _limit = _controller().limit(limits=1, user_api="blas")
        _inside += 1
    try:
        yield
    finally:
        with _LOCK:
            _inside -= 1
            if _inside == 0:
                with _in_control():
                    _limit.restore_original_limits()
                _limit = None


@functools.cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def _in_control() -> Iterator[None]:
    """Let this thread set the limit, and whichever thread comes next.

    From version 3.8 on threadpoolctl heeds only the thread that set a limit first, and ignores all others without a
    word. The counter needs no such guard: the last to leave is often another thread than the first to enter.
    """
    import threadpoolctl

    let_go = getattr(threadpoolctl.OpenBLASController, "clear_controlling_thread", None)
    if let_go is not None:
        let_go(force=True)
    try:
        yield
    finally:
        if let_go is not None:
            let_go(force=True)


def _reset() -> None:
    """Forget the counter of a parent process, whose threads a forked child does not have."""
    global _LOCK, _inside, _limit
    if _limit is not None:
        with _in_control():
            _limit.restore_original_limits()
    _LOCK, _inside, _limit = threading.Lock(), 0, None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset)
