"""One call at a time: the lock that an optimizer and its questions share."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

from drbo._threads import one_thread

Method = TypeVar("Method", bound=Callable[..., Any])


class Guard:
    """Holds the lock. After a fork it has another one, as a thread that the child does not have may hold the first."""

    def __init__(self) -> None:
        self.lock = threading.RLock()

    def renew(self) -> None:
        """Let nobody be inside."""
        self.lock = threading.RLock()


def alone(method: Method) -> Method:
    """Let one thread at a time into an optimizer: a `tell` waits for an `ask` that is running."""

    @functools.wraps(method)
    def locked(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self._guard.lock:
            return method(self, *args, **kwargs)

    return cast(Method, locked)


def computing(method: Method) -> Method:
    """Let one thread at a time into an optimizer, and linear algebra use one: for methods that need a posterior."""

    @functools.wraps(method)
    def limited(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self._guard.lock, one_thread():
            return method(self, *args, **kwargs)

    return cast(Method, limited)
