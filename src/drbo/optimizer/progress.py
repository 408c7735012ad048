"""One line that says how far a run has come."""

from __future__ import annotations

import sys
import time

from drbo.optimizer.optimizer import Optimizer

_PAUSE = 10.0
"""At least so many seconds pass between two lines where the text does not go to a terminal."""
_SHARE = 10.0
"""A guarantee is computed anew once this many times as long has passed as the last one took."""


class Progress:
    """Writes a line to stderr: in place on a terminal, now and then elsewhere.

    Parameters
    ----------
    opt : whose results and guarantee are shown
    evaluations : how many results there shall be; None if other rules end the run
    shown : False to write nothing
    """

    def __init__(self, opt: Optimizer, evaluations: int | None, shown: bool) -> None:
        self._opt, self._evaluations, self._shown = opt, evaluations, shown
        self._written = -_PAUSE  # when the last line was written
        self._guarantee, self._due = "", 0.0  # the best guarantee in words, and when it is due anew
        self._width = 0

    def show(self, under_way: int, *, last: bool = False) -> None:
        """Write how many evaluations are done and under way, and the best guarantee so far."""
        if not self._shown:
            return
        terminal, now = sys.stderr.isatty(), time.monotonic()
        if not (terminal or last or now - self._written >= _PAUSE):
            return
        if last or now >= self._due:
            self._guarantee = self._best_guarantee()
            took = time.monotonic() - now
            self._due = now + (1.0 + _SHARE) * took
        told, failed = self._opt.n_told, sum(result.failed for result in self._opt.results)
        line = f"drbo: {told}{f' of {self._evaluations}' if self._evaluations else ''} evaluations"
        line += f" ({failed} failed)" if failed else ""
        line += f", {under_way} under way" if under_way else ""
        line += self._guarantee
        if terminal:
            sys.stderr.write("\r" + line.ljust(self._width) + ("\n" if last else ""))
        else:
            sys.stderr.write(line + "\n")
        sys.stderr.flush()
        self._written, self._width = now, len(line)

    def _best_guarantee(self) -> str:
        if not any(not result.failed for result in self._opt.results):
            return ""
        try:
            best = self._opt.recommend()
        except RuntimeError:  # every action has failed
            return ""
        return f", {best.promise}"
