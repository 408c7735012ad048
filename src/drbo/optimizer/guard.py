"""The lock that an optimizer and its queries share."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

from drbo._threads import one_thread

Method = TypeVar("Method", bound=Callable[..., Any])


class Guard:
    """Holds the lock; a fork gets a new lock, because a thread of the parent may hold the old one."""

    def __init__(self) -> None:
        self.lock = threading.RLock()

    def renew(self) -> None:
        """Replace the lock by an open one."""
        self.lock = threading.RLock()


def alone(method: Method) -> Method:
    """Return the method with the lock held: a `tell` waits for a running `ask`."""

    @functools.wraps(method)
    def locked(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self._guard.lock:
            return method(self, *args, **kwargs)

    return cast(Method, locked)


def computing(method: Method) -> Method:
    """Return the method with the lock held and single-threaded linear algebra, for methods that need a posterior."""

    @functools.wraps(method)
    def limited(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self._guard.lock, one_thread():
            return method(self, *args, **kwargs)

    return cast(Method, limited)
