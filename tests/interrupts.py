"""An interrupt, or any other error, at any line of the package."""

import functools
import linecache
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
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
        if event == "line" and not leaves_with(frame):
            self.count += 1
            place = frame.f_code.co_filename, frame.f_lineno
            self.first.setdefault(place, self.count)
            self.last[place] = self.count
            if self.count == self.at:
                raise self.error
        return self


@functools.cache
def _begins(code: CodeType, line: int) -> int:
    """Return the first place of a line in the compiled code."""
    return min(start for start, _, at in code.co_lines() if at == line)


def leaves_with(frame: FrameType) -> bool:
    """Return whether a `with` is being left: Python looks for signals once more after that, and not in between.

    That is so as long as `__exit__` is written in C, as that of a lock and a file: it has done its work before the next
    look. `tests/test_signals.py` tries it with real signals. The package's own contexts are written in Python, and
    their lines are interrupted like any others. The next use of `one_thread` makes up for one that was not left.
    `told_as` and `suppress` hold nothing that could stay. Left out are `numpy.errstate` and `warnings.catch_warnings`:
    an interrupt as they begin to leave keeps which warnings are shown, and changes no number.
    """
    code, line = frame.f_code, frame.f_lineno
    text = linecache.getline(code.co_filename, line).lstrip()
    return text.startswith("with ") and frame.f_lasti > _begins(code, line)


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
