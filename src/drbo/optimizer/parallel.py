"""One line that says how far a run has come."""

from __future__ import annotations

import logging
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from drbo import validation
from drbo.analysis.answers import Recommendation
from drbo.knowledge.suggestion import Suggestion
from drbo.optimizer.optimizer import Optimizer
from drbo.spaces.samples import Samples

__all__ = ["run"]

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


_log = logging.getLogger("drbo")


def run(
    opt: Optimizer,
    evaluate: Callable[..., Any],
    evaluations: int | None = None,
    *,
    executor: Executor | None = None,
    workers: int = 4,
    save: str | Path | None = None,
    progress: bool = True,
    on_error: Literal["tell", "raise"] = "tell",
    seconds: float | None = None,
    tolerance: float | None = None,
    reference: ArrayLike | Samples | None = None,
    radius: float | None = None,
) -> Recommendation:
    """Evaluate with several workers until a rule says stop, and return what to deploy.

    A result is told as soon as it is there, and the next evaluation is asked for with the others under way. After a
    crash or Ctrl-C the same line goes on where it stopped: everything told is in the file `save`, and what was under
    way is evaluated again. On Ctrl-C, results that are there are told before the interrupt goes on to the caller.

    Parameters
    ----------
    opt : the optimizer; a new one takes over what the file `save` holds
    evaluate : `evaluate(action, context)` returns the outcome where the optimizer picks the context, as with
        `Simulator`. Where nature picks it, `evaluate(action)` returns the outcome and the context
    evaluations : stop when the optimizer has so many results, those from before this call and failed ones included
    executor : runs the evaluations: any of `concurrent.futures`, of loky, or `client.get_executor(pure=False)` of Dask.
        By default threads, which are enough where an evaluation waits for another program; Python code that computes
        needs processes
    workers : how many evaluations are under way at once
    save : a file that is kept up to date; it must be of an optimizer made with the same arguments, or not exist
    progress : whether a line on stderr says how far the run has come and what is guaranteed so far
    on_error : "tell": an evaluation that raises, or whose outcome is not finite, has failed; it is told as failed, and
        the error is logged (logger "drbo"). "raise": the error ends the run, and the evaluation stays pending
    seconds : no evaluation starts after so many seconds; those under way are waited for
    tolerance : stop when no action can be better than the recommended one by more than this (`Question.regret_bound`).
        Certified on a finite set of actions. On a box the best action is searched for, and one that is missed lets the
        run stop too early
    reference, radius : of every ask, for `General`; `Simulator` takes them, too
    """
    if evaluations is None and seconds is None and tolerance is None:
        raise TypeError("run needs a rule that ends it: evaluations, seconds or tolerance")
    if not isinstance(opt, Optimizer):
        raise TypeError(f"opt must be an Optimizer, got {opt!r}")
    if not callable(evaluate):
        raise TypeError(f"evaluate must be a function, got {evaluate!r}")
    if not (executor is None or isinstance(executor, Executor)):
        raise TypeError(f"executor must be an executor such as ProcessPoolExecutor(), got {executor!r}")
    validation.one_of("on_error", on_error, "tell", "raise")
    rules = _Rules(
        None if evaluations is None else validation.whole_number("evaluations", evaluations, least=1),
        None if seconds is None else time.monotonic() + validation.radius(seconds, "seconds"),
        None if tolerance is None else validation.radius(tolerance, "tolerance"),
    )
    n_workers, path = (
        validation.whole_number("workers", workers, least=1),
        None if save is None else validation.path("save", save),
    )
    line = Progress(opt, rules.evaluations, validation.flag("progress", progress))
    if path is not None:
        opt.resume(path)
        opt.save(path)  # an error shows before the first evaluation
    with _pool(executor, n_workers) as pool:
        work = _Run(opt, evaluate, pool, path, on_error, {"reference": reference, "radius": radius})
        try:
            again = list(opt.pending)
            line.show(0)
            while True:
                enough = rules.close_enough(opt, work.given)
                while not enough and len(work.running) < n_workers and rules.go_on(opt, len(work.running)):
                    work.start(again.pop(0) if again else opt.ask(**work.given))
                if not work.running:
                    break
                work.collect()
                line.show(len(work.running))
        except BaseException:
            work.leave()
            raise
    line.show(0, last=True)
    return opt.recommend(reference, radius)


@dataclass(frozen=True)
class _Rules:
    """What ends a run: a number of results, a moment of `time.monotonic`, a tolerance."""

    evaluations: int | None
    end: float | None
    tolerance: float | None

    def go_on(self, opt: Optimizer, under_way: int) -> bool:
        """Return whether number and time allow for another evaluation."""
        if self.evaluations is not None and opt.n_told + under_way >= self.evaluations:
            return False
        return self.end is None or time.monotonic() < self.end

    def close_enough(self, opt: Optimizer, given: dict[str, Any]) -> bool:
        """Return whether the recommended action is within the tolerance of the best one."""
        return (
            self.tolerance is not None and opt.n_told > 0 and opt.under(**given).regret_bound().value <= self.tolerance
        )


@dataclass(eq=False)
class _Run:
    """The evaluations under way."""

    opt: Optimizer
    evaluate: Callable[..., Any]
    pool: Executor
    path: Path | None
    on_error: str
    given: dict[str, Any]
    running: dict[Future[Any], Suggestion] = field(default_factory=dict)

    def start(self, suggestion: Suggestion) -> None:
        """Start an evaluation; it is saved as pending first."""
        if len(suggestion.contexts) > 1:
            raise ValueError(f"run evaluates in one context at a time: tell or cancel {suggestion} yourself")
        self._save()
        self.running[self.pool.submit(self.evaluate, suggestion.action, *suggestion.contexts)] = suggestion

    def collect(self) -> None:
        """Wait for a result, and tell all that are there."""
        wait(self.running, return_when=FIRST_COMPLETED)
        for future in [future for future in self.running if future.done()]:
            error = future.exception()
            if error is not None and (isinstance(error, BrokenExecutor) or not isinstance(error, Exception)):
                raise error  # not a failure of this evaluation: the workers are gone, or were interrupted
            self._tell(self.running[future], future, error)
            del self.running[future]
            self._save()

    def leave(self) -> None:
        """Tell the results that are there; what failed or is not over stays pending, and is evaluated again."""
        for future, suggestion in self.running.items():
            if not future.cancel() and future.done() and not future.cancelled() and future.exception() is None:
                with suppress(Exception):  # the error that ends the run goes on to the caller
                    self._tell(suggestion, future, None)
        self._save()

    def _tell(self, suggestion: Suggestion, future: Future[Any], error: BaseException | None) -> None:
        """Tell the result of an evaluation, or its failure."""
        if suggestion not in self.opt.pending:
            _log.warning("%s has been told or cancelled elsewhere: its result is not counted", suggestion)
            return
        if error is None:
            outcome, context = self._outcome(suggestion, future.result())
            try:
                self.opt.tell(suggestion, outcome, **context)
            except ValueError as wrong:  # the outcome is not finite, or the context not one of these
                error = wrong
            else:
                return
        if self.on_error == "raise":
            raise error
        self.opt.tell(suggestion, failed=True)
        _log.warning("%s failed:\n%s", suggestion, "".join(traceback.format_exception(error)).rstrip())

    def _outcome(self, suggestion: Suggestion, returned: Any) -> tuple[float, dict[str, Any]]:
        """Return the outcome, and the context where nature picked it."""
        wanted, outcome, context = "the outcome, a number,", returned, {}
        if not suggestion.contexts:
            wanted, outcome = "(outcome, context), as nature picks the context here,", None
            if isinstance(returned, tuple) and len(returned) == 2 and returned[1] is not None:
                outcome, context = returned[0], {"context": returned[1]}
        if outcome is None or np.ndim(outcome) != 0:
            raise TypeError(f"evaluate must return {wanted} got {returned!r}")
        return outcome, context

    def _save(self) -> None:
        if self.path is not None:
            self.opt.save(self.path)


@contextmanager
def _pool(executor: Executor | None, workers: int) -> Iterator[Executor]:
    """Yield the executor, or threads of our own, which nobody waits for after an interrupt."""
    if executor is not None:
        yield executor
        return
    own = ThreadPoolExecutor(workers, thread_name_prefix="drbo")
    try:
        yield own
    finally:
        own.shutdown(wait=False, cancel_futures=True)
