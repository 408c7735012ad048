"""Messages that need no numpy: escaped user text, and the name of a missing extra."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any


def printable(value: object, *, lines: bool = False) -> str:
    r"""Return a value as text with escaped control characters: ESC as \x1b, a new line as \n.

    With `lines`, new lines are kept, for a message of several lines.
    """
    return "".join(
        c if c.isprintable() or (lines and c == "\n") else c.encode("unicode_escape").decode() for c in str(value)
    )


def listed(names: Iterable[object]) -> str:
    """Return names that a user typed as text, separated by commas, with escaped control characters."""
    return ", ".join(map(printable, names))


class MissingExtraError(ImportError):
    """A package is not installed; the message says what to install."""


def require(module: str, extra: str) -> Any:
    """Return a module; if it is not installed, raise an error that says what to install.

    If an installed package fails to load, its own error is raised.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or module).split(".")[0]
        raise MissingExtraError(
            f"{missing} is not installed; this needs: pip install 'drbo[{extra}]'", name=missing
        ) from None
