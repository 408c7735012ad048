"""Packages that only some uses need: the extras of `pip install drbo[...]`."""

from __future__ import annotations

from importlib import import_module
from typing import Any


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
