"""What is said without numpy: text that users typed, and which extra is missing."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def printable(value: object, *, lines: bool = False) -> str:
    r"""Return a value as text whose control characters are written out: ESC as \x1b, a new line as \n.

    With `lines`, new lines stay: the text is a message of several lines.
    """
    return "".join(
        c if c.isprintable() or (lines and c == "\n") else c.encode("unicode_escape").decode() for c in str(value)
    )


class MissingExtraError(ImportError):
    """A package is not installed; the message says in one sentence what to install."""


def require(module: str, extra: str) -> Any:
    """Return a module; if it is not installed, say in one sentence what to install.

    A package that is there and fails to load is another matter: its own error goes on to the caller.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or module).split(".")[0]
        raise MissingExtraError(
            f"{missing} is not installed; this needs: pip install 'drbo[{extra}]'", name=missing
        ) from None
