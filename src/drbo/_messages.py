"""Messages that need no numpy: escaped user text, progress, the name of a missing extra, and what an error is from."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any, TypeVar

Item = TypeVar("Item")

_PATIENCE = 2.0
"""Time in seconds after which a long computation shows its progress."""
_PAUSE = 10.0
"""Least time between two lines of progress that do not go to a terminal, in seconds."""


def printable(value: object, *, lines: bool = False) -> str:
    """Return a value as text with escaped control characters; with `lines`, new lines are kept."""
    return "".join(
        c if c.isprintable() or (lines and c == "\n") else c.encode("unicode_escape").decode() for c in str(value)
    )


def listed(names: Iterable[object]) -> str:
    """Return names that a user typed as text, separated by commas, with escaped control characters."""
    return ", ".join(map(printable, names))


def counted(items: Iterable[Item], total: int, what: str) -> Iterator[Item]:
    """Yield the items; after two seconds, write to stderr how many of them are done."""
    due = time.monotonic() + _PATIENCE
    terminal, written = sys.stderr.isatty(), False
    for done, item in enumerate(items):
        now = time.monotonic()
        if now >= due:
            line = f"drbo: {what}, {done} of {total}"
            sys.stderr.write(f"\r{line}" if terminal else f"{line}\n")
            sys.stderr.flush()
            due, written = now + (0.2 if terminal else _PAUSE), True
        yield item
    if written and terminal:
        sys.stderr.write("\n")


class MissingExtraError(ImportError):
    """A package is not installed; the message says what to install."""


def require(module: str, extra: str) -> Any:
    """Return a module; if it is not installed, raise an error that says what to install."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or module).split(".")[0]
        raise MissingExtraError(
            f"{missing} is not installed; this needs: pip install 'drbo[{extra}]'", name=missing
        ) from None


def comes_from_an_interrupt(error: BaseException, handled: BaseException | None = None) -> bool:
    """Return whether an interrupt is the error, its cause or its context, other than an error that is `handled`.

    An interrupt inside compiled code may surface as a SystemError of numba or as a TypeError of numpy.
    """
    to_see, seen = [error], {id(handled)}
    while to_see:
        one = to_see.pop()
        if isinstance(one, KeyboardInterrupt):
            return True
        seen.add(id(one))
        to_see += [e for e in (one.__cause__, one.__context__) if e is not None and id(e) not in seen]
    return False
