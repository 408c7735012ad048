"""Packages that only some uses need: the extras of `pip install drbo[...]`."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def require(module: str, extra: str) -> Any:
    """Return a module, or say in one sentence what to install."""
    try:
        return import_module(module)
    except ImportError as error:
        missing = (error.name or module).split(".")[0]
        raise ImportError(
            f"{missing} is not installed; this needs: pip install 'drbo[{extra}]'", name=missing
        ) from None
