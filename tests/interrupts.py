"""A user's interrupt at any line of the package."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import drbo

PACKAGE = str(Path(drbo.__file__).parent)


class Interrupt:
    """Raise a KeyboardInterrupt before the nth line of the package that is run, as a user's may come at any of them."""

    def __init__(self, before: int) -> None:
        self.left = before

    def __call__(self, frame: FrameType, event: str, _: Any) -> "Interrupt | None":
        if PACKAGE not in frame.f_code.co_filename:
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self


def interrupted(call: Callable[[], Any], before: int) -> bool:
    """Return whether the call was interrupted before that line; if not, it was over sooner."""
    usual = sys.gettrace()
    sys.settrace(Interrupt(before))
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(usual)
    return False


def lines(call: Callable[[], Any]) -> int:
    """Return how many lines of the package a call runs."""
    counted = Interrupt(sys.maxsize)
    usual = sys.gettrace()
    sys.settrace(counted)
    try:
        call()
    finally:
        sys.settrace(usual)
    return sys.maxsize - counted.left
