"""An interrupt, or any other error, at any line of the package."""

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import drbo

PACKAGE = str(Path(drbo.__file__).parent)


class Interrupt:
    """Raise an error before the nth line of the package that is run, as a user's Ctrl-C may come at any of them.

    `first` and `last` are the first and the last moment at which each line of the code was run.
    """

    def __init__(self, before: int, error: type[BaseException] = KeyboardInterrupt) -> None:
        self.at, self.error, self.count = before, error, 0
        self.first: dict[tuple[str, int], int] = {}
        self.last: dict[tuple[str, int], int] = {}

    def __call__(self, frame: FrameType, event: str, _: Any) -> "Interrupt | None":
        if PACKAGE not in frame.f_code.co_filename:
            return None
        if event == "line":
            self.count += 1
            place = frame.f_code.co_filename, frame.f_lineno
            self.first.setdefault(place, self.count)
            self.last[place] = self.count
            if self.count == self.at:
                raise self.error
        return self


def traced(call: Callable[[], Any], interrupt: Interrupt) -> None:
    """Call with an interrupt in wait."""
    usual = sys.gettrace()
    sys.settrace(interrupt)
    try:
        call()
    finally:
        sys.settrace(usual)


def interrupted(call: Callable[[], Any], before: int, error: type[BaseException] = KeyboardInterrupt) -> bool:
    """Return whether the call was interrupted before that line; if not, it was over sooner.

    An error that the package reports in other words counts as an interrupt, too.
    """
    interrupt = Interrupt(before, error)
    try:
        traced(call, interrupt)
    except BaseException:
        if interrupt.count < before:
            raise
        return True
    return interrupt.count >= before


def lines(call: Callable[[], Any]) -> Interrupt:
    """Return which lines of the package a call runs, and when."""
    counted = Interrupt(sys.maxsize)
    traced(call, counted)
    return counted


def enters(call: Callable[[], Any]) -> bool:
    """Return whether another thread gets through a call: no lock keeps it out."""
    through = threading.Event()

    def other() -> None:
        call()
        through.set()

    thread = threading.Thread(target=other, daemon=True)
    thread.start()
    return through.wait(10.0)
