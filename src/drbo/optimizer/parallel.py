"""Parallel evaluations, with a line of progress."""

from __future__ import annotations

import logging
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from drbo import validation
from drbo._messages import listed
from drbo.analysis.answers import Recommendation
from drbo.knowledge.suggestion import Result, Suggestion
from drbo.optimizer.optimizer import Optimizer
from drbo.spaces.samples import Samples

__all__ = ["run"]

_PAUSE = 10.0
"""Least time between two lines that do not go to a terminal, in seconds."""
_SHARE = 10.0
"""Least time between two computations of the bound, as a multiple of the time of the last one."""


class Progress:
    """Writes the results and the bound of `opt` to stderr: one line on a terminal, otherwise at intervals."""

    def __init__(self, opt: Optimizer, evaluations: int | None, shown: bool) -> None:
        self._opt, self._evaluations, self._shown = opt, evaluations, shown
        self._written = -_PAUSE  # time of the last line
        self._bound, self._due = "", 0.0  # the best bound as text, and its next time
        self._width = 0

    def show(self, under_way: int, *, last: bool = False) -> None:
        """Write the numbers of finished and pending evaluations, and the best bound so far."""
        if not self._shown:
            return
        terminal, now = sys.stderr.isatty(), time.monotonic()
        if not (terminal or last or now - self._written >= _PAUSE):
            return
        if last or now >= self._due:
            self._bound = self._best_bound()
            took = time.monotonic() - now
            self._due = now + (1.0 + _SHARE) * took
        told, failed = self._opt.n_told, sum(result.failed for result in self._opt.results)
        line = f"drbo: {told}{f' of {self._evaluations}' if self._evaluations else ''} evaluations"
        line += f" ({failed} failed)" if failed else ""
        line += f", {under_way} under way" if under_way else ""
        line += self._bound
        if terminal:
            sys.stderr.write("\r" + line.ljust(self._width) + ("\n" if last else ""))
        else:
            sys.stderr.write(line + "\n")
        sys.stderr.flush()
        self._written, self._width = now, len(line)

    def _best_bound(self) -> str:
        if not any(not result.failed for result in self._opt.results):
            return ""
        try:
            best = self._opt.recommend()
        except RuntimeError:  # every action has failed
            return ""
        return f", {best.statement}"


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
    callback: Callable[[Optimizer, Result], object] | None = None,
) -> Recommendation:
    """Evaluate with several workers until a stopping rule applies, and return the recommendation.

    If no action is known to meet all limits in the end, `NotReachedError` is raised; all results are told by then.

    A result is told as soon as it is ready, and the next evaluation is asked for while the others are pending. After a
    crash or Ctrl-C the same call continues: all results are in the file `save`, and pending evaluations are repeated.
    On Ctrl-C, finished results are told before the interrupt reaches the caller.

    Parameters
    ----------
    opt : the optimizer; a new one takes over the contents of the file `save`
    evaluate : `evaluate(action, context)` returns the outcome if the optimizer picks the context, as with `Simulator`;
        `evaluate(action, context, key)` if contexts have keys. If nature picks it, `evaluate(action)` returns the
        outcome and the context. If the optimizer has limited outcomes, a mapping from their names to values comes
        last: `return cost, {"peak": 61.0}`
    evaluations : stop at this number of results, including earlier and failed ones
    executor : runs the evaluations: any of `concurrent.futures`, of loky, or `client.get_executor(pure=False)` of Dask.
        The default is threads, which suffice if an evaluation waits for another program; Python code that computes
        needs processes
    workers : number of simultaneous evaluations
    save : a file that is kept up to date; it must come from an optimizer with the same arguments, or not exist
    progress : whether to show a line of progress with the best bound on stderr
    on_error : "tell": an evaluation that raises, or whose outcome is not finite, is told as failed, and the error is
        logged (logger "drbo"). "raise": the error ends the run, and the evaluation stays pending
    seconds : no evaluation starts after this time; pending ones are awaited
    tolerance : stop when no action can be better than the recommended one by more than this (`Question.regret_bound`).
        On a box the search for the best action may miss it, and the run then stops too early
    reference, radius : the terms of every ask, for `General` or `Simulator`
    callback : `callback(opt, result)` is called with each result, failed ones included, after it was told and saved. An
        error in it ends the run
    """
    if evaluations is None and seconds is None and tolerance is None:
        raise TypeError("run needs a stopping rule: evaluations, seconds or tolerance")
    if not isinstance(opt, Optimizer):
        raise TypeError(f"opt must be an Optimizer, got {opt!r}")
    if not callable(evaluate):
        raise TypeError(f"evaluate must be a function, got {evaluate!r}")
    if not (executor is None or isinstance(executor, Executor)):
        raise TypeError(f"executor must be an executor such as ProcessPoolExecutor(), got {executor!r}")
    if not (callback is None or callable(callback)):
        raise TypeError(f"callback must be a function of the optimizer and a result, got {callback!r}")
    validation.one_of("on_error", on_error, "tell", "raise")
    rules = _StoppingRules(
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
        opt.save(path)  # raises before the first evaluation
    with _pool(executor, n_workers) as pool:
        work = _Run(opt, evaluate, pool, path, on_error, {"reference": reference, "radius": radius}, callback)
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
class _StoppingRules:
    """The stopping rules: a number of results, a time of `time.monotonic`, a tolerance."""

    evaluations: int | None
    end: float | None
    tolerance: float | None

    def go_on(self, opt: Optimizer, under_way: int) -> bool:
        """Return whether number and time allow another evaluation."""
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
    """The running evaluations."""

    opt: Optimizer
    evaluate: Callable[..., Any]
    pool: Executor
    path: Path | None
    on_error: str
    given: dict[str, Any]
    callback: Callable[[Optimizer, Result], object] | None = None
    running: dict[Future[Any], Suggestion] = field(default_factory=dict)

    def start(self, suggestion: Suggestion) -> None:
        """Start an evaluation; it is saved as pending first."""
        if len(suggestion.contexts) > 1:
            raise ValueError(f"run evaluates in one context at a time: tell or cancel {suggestion} yourself")
        self._save()
        where = *suggestion.contexts, *suggestion.keys
        self.running[self.pool.submit(self.evaluate, suggestion.action, *where)] = suggestion

    def collect(self) -> None:
        """Wait for a result, and tell all finished ones."""
        wait(self.running, return_when=FIRST_COMPLETED)
        for future in [future for future in self.running if future.done()]:
            error = future.exception()
            if error is not None and (isinstance(error, BrokenExecutor) or not isinstance(error, Exception)):
                raise error  # not a failure of this evaluation: the workers died or were interrupted
            suggestion = self.running[future]
            self._tell(suggestion, future, error)
            del self.running[future]
            self._save()
            if self.callback is not None:
                for result in [one for one in self.opt.results if one.number == suggestion.number]:
                    self.callback(self.opt, result)

    def leave(self) -> None:
        """Tell the finished results; failed and unfinished evaluations stay pending and are repeated."""
        for future, suggestion in self.running.items():
            if not future.cancel() and future.done() and not future.cancelled() and future.exception() is None:
                with suppress(Exception):  # the caller gets the error that ended the run
                    self._tell(suggestion, future, None)
        self._save()

    def _tell(self, suggestion: Suggestion, future: Future[Any], error: BaseException | None) -> None:
        """Tell the result of an evaluation, or its failure."""
        if suggestion not in self.opt.pending:
            _log.warning("%s has been told or cancelled elsewhere: its result is not counted", suggestion)
            return
        if error is None:
            outcome, more = self._outcome(suggestion, future.result())
            try:
                self.opt.tell(suggestion, outcome, **more)
            except ValueError as wrong:  # the outcome is not finite, or the context is unknown
                error = wrong
            else:
                return
        if self.on_error == "raise":
            raise error
        self.opt.tell(suggestion, failed=True)
        _log.warning("%s failed:\n%s", suggestion, "".join(traceback.format_exception(error)).rstrip())

    def _outcome(self, suggestion: Suggestion, returned: Any) -> tuple[float | None, dict[str, Any]]:
        """Return the outcome, the context if nature picked it, and the values of limited outcomes if there are any."""
        limited, by_nature = self.opt.configuration.measured, not suggestion.contexts
        names = ["outcome", *(["context"] if by_nature else []), *(["limits"] if limited else [])]
        parts = (returned,) if len(names) == 1 else returned
        found = dict(zip(names, parts, strict=False)) if isinstance(parts, tuple) else {}
        limits = found.get("limits")
        fits = len(found) == len(names) == len(parts) and np.ndim(found["outcome"]) == 0
        if limited:
            fits = fits and isinstance(limits, Mapping) and set(limits) <= set(limited)
        elif fits:
            fits = found["outcome"] is not None
        if not fits or (by_nature and found["context"] is None):
            why = ", as nature picks the context here," if by_nature else ", a number," if len(names) == 1 else ","
            of = f" limits maps {listed(limited)} to values;" if limited else ""
            wanted = f"the {names[0]}" if len(names) == 1 else f"({', '.join(names)})"
            raise TypeError(f"evaluate must return {wanted}{why}{of} got {returned!r}")
        return found.pop("outcome"), found

    def _save(self) -> None:
        if self.path is not None:
            self.opt.save(self.path)


@contextmanager
def _pool(executor: Executor | None, workers: int) -> Iterator[Executor]:
    """Yield the executor, or a pool of threads that is abandoned after an interrupt."""
    if executor is not None:
        yield executor
        return
    own = ThreadPoolExecutor(workers, thread_name_prefix="drbo")
    try:
        yield own
    finally:
        own.shutdown(wait=False, cancel_futures=True)
