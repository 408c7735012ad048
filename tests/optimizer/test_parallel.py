"""`drbo.run`: several workers, one optimizer, no database."""

import io
import math
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drbo
from bits import bits
from drbo import DataDriven, General, Optimizer
from drbo.knowledge.history import Asked, Told
from drbo.optimizer.parallel import Progress
from optimizer.evaluations import GRID, drawn, ends_its_process, fails_often, outcome, worker

TESTS = Path(__file__).parents[1]
SURROGATE = drbo.GP(drbo.Product(drbo.RBF(0.3), drbo.RBF(0.3)), 0.1)


def make(setting: drbo.Setting | None = None, **more: Any) -> Optimizer:
    chosen = drbo.Simulator(np.full(8, 1 / 8), radius=0.1, pick="uncertain") if setting is None else setting
    arguments: dict[str, Any] = {"ambiguity": drbo.TotalVariation(), "surrogate": SURROGATE, **more}
    return Optimizer(GRID, GRID, setting=chosen, **arguments)


class AtOnce(Executor):
    """Evaluates when it is submitted, in the order of the submissions."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("forkserver")) as pool:
        yield pool


def test_one_worker_is_the_plain_loop(tmp_path: Path, still: None) -> None:
    del still
    plain, opt = make(), make()
    for _ in range(12):
        s = plain.ask()
        plain.tell(s, outcome(s.action, s.context))
    r = drbo.run(opt, outcome, 12, workers=1, save=tmp_path / "state.json", progress=False)
    assert bits(opt.history) == bits(plain.history)
    assert bits(r) == bits(plain.recommend())
    assert bits(Optimizer.load(tmp_path / "state.json").history) == bits(plain.history)


def test_as_many_as_there_are_workers_are_under_way() -> None:
    opt, most, lock = make(), [0, 0], threading.Lock()

    def evaluate(action: Any, context: Any) -> float:
        with lock:
            most[0] += 1
            most[1] = max(most)
        time.sleep(0.01)
        with lock:
            most[0] -= 1
        return outcome(action, context)

    drbo.run(opt, evaluate, 20, workers=3, progress=False)
    assert most == [0, 3]
    assert opt.n_told == 20
    assert opt.pending == ()
    pending = 0
    for fact in opt.history:  # never more than three pending
        pending += isinstance(fact, Asked) - isinstance(fact, Told)
        assert 0 <= pending <= 3


def test_processes_and_failures(
    processes: ProcessPoolExecutor, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    opt = make()
    r = drbo.run(opt, fails_often, 16, executor=processes, workers=2, save=tmp_path / "state.json", progress=False)
    failed = [result for result in opt.results if result.failed]
    assert failed
    assert len(failed) < opt.n_told == 16
    assert all((result.context[0] > 0.5) == result.failed for result in opt.results)
    logged = [record.getMessage() for record in caplog.records if record.name == "drbo"]
    assert len(logged) == len(failed)
    assert all("ArithmeticError: diverged at" in text and "in fails_often" in text for text in logged)
    assert np.isfinite(r.value)
    assert bits(Optimizer.load(tmp_path / "state.json").history) == bits(opt.history)


def test_the_workers_are_those_of_the_executor(processes: ProcessPoolExecutor) -> None:
    opt = make()
    drbo.run(opt, worker, 8, executor=processes, workers=2, progress=False)
    assert os.getpid() not in {int(result.outcome or 0) for result in opt.results}
    assert processes.submit(len, [1]).result() == 1  # it is not shut down


def test_loky() -> None:
    from joblib.externals.loky import get_reusable_executor

    opt = make()
    with get_reusable_executor(max_workers=2) as pool:
        drbo.run(opt, outcome, 8, executor=pool, workers=2, progress=False)
    assert opt.n_told == 8


def test_a_dask_cluster_of_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")
    monkeypatch.setenv("PYTHONPATH", f"{Path(drbo.__file__).parents[1]}:{TESTS}")
    opt = make()
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        pool = client.get_executor(pure=False)
        drbo.run(opt, worker, 8, executor=pool, workers=3, save=tmp_path / "state.json", progress=False)
    assert opt.n_told == 8
    assert len({result.outcome for result in opt.results}) == 2  # the numbers of both processes
    assert bits(Optimizer.load(tmp_path / "state.json").history) == bits(opt.history)


@pytest.mark.parametrize("setting", [DataDriven(radius=0.2), General()], ids=repr)
def test_nature_picks_contexts_and_a_failure_has_none(setting: drbo.Setting, caplog: pytest.LogCaptureFixture) -> None:
    opt, count = make(setting), iter(range(100))

    def evaluate(action: Any) -> tuple[float, Any]:
        if next(count) % 4 == 2:
            raise RuntimeError("no weather today")
        return drawn(action)

    more: Any = {"reference": np.full(8, 1 / 8), "radius": 0.1} if isinstance(setting, General) else {}
    r = drbo.run(opt, evaluate, 9, workers=2, progress=False, **more)
    assert opt.n_told == 9
    assert sum(result.failed for result in opt.results) == 2
    assert all(float(result.context[0]) in GRID for result in opt.results)
    assert "no weather today" in caplog.text
    assert bits(r) == bits(opt.recommend())


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, 1e200])
def test_an_outcome_that_cannot_be_told_is_a_failure(wrong: float, caplog: pytest.LogCaptureFixture) -> None:
    opt, values = make(), iter([0.1, wrong, 0.2])
    drbo.run(opt, lambda action, context: next(values), 3, workers=1, progress=False)  # noqa: ARG005
    assert [result.failed for result in opt.results] == [False, True, False]
    assert "ValueError: outcome must" in caplog.text
    again, values = make(), iter([0.1, wrong, 0.2])
    with pytest.raises(ValueError, match="outcome must"):
        drbo.run(again, lambda action, context: next(values), 3, workers=1, progress=False, on_error="raise")  # noqa: ARG005
    assert again.n_told == 1
    assert len(again.pending) == 1


def test_an_error_may_end_the_run_and_its_evaluation_stays_pending(tmp_path: Path) -> None:
    path, opt, wrong = tmp_path / "state.json", make(), [True]

    def evaluate(action: Any, context: Any) -> float:
        if opt.n_told == 4 and wrong[0]:
            raise ArithmeticError("diverged")
        return outcome(action, context)

    with pytest.raises(ArithmeticError, match="diverged"):
        drbo.run(opt, evaluate, 10, workers=1, executor=AtOnce(), save=path, progress=False, on_error="raise")
    loaded = Optimizer.load(path)
    assert loaded.n_told == 4
    assert [s.number for s in loaded.pending] == [4]
    wrong[0] = False
    opt = make()  # the same line in a new process
    drbo.run(opt, evaluate, 10, workers=1, executor=AtOnce(), save=path, progress=False, on_error="raise")
    assert [result.number for result in opt.results] == list(range(10))


@pytest.mark.parametrize(
    ("setting", "returned", "message"),
    [
        (None, None, "evaluate must return the outcome, a number, got None"),
        (None, "good", "outcome must be a number"),
        (None, (1.0, 0.5), r"evaluate must return the outcome, a number, got \(1.0, 0.5\)"),
        (DataDriven(radius=0.1), ([1.0, 2.0], 0.5), r"evaluate must return \(outcome, context\)"),
        (DataDriven(radius=0.1), 1.0, r"evaluate must return \(outcome, context\), as nature picks the context here"),
        (DataDriven(radius=0.1), (1.0, None), r"evaluate must return \(outcome, context\)"),
    ],
)
def test_what_evaluate_must_return(setting: Any, returned: Any, message: str) -> None:
    opt = make(setting)
    with pytest.raises(TypeError, match=message):
        drbo.run(opt, lambda *_: returned, 3, workers=1, progress=False)
    assert opt.n_told == 0


@pytest.mark.parametrize("setting", [None, DataDriven(radius=0.1)])
def test_limited_outcomes_come_last(setting: Any) -> None:
    limits = {"peak": drbo.AtMost(50.0)}
    context = () if setting is None else (GRID[3],)
    opt = make(setting, limits=limits)
    drbo.run(opt, lambda *_: (1.0, *context, {"peak": 2.0}), 3, workers=1, progress=False)
    assert [(result.outcome, result.limits) for result in opt.results] == [(1.0, {"peak": 2.0})] * 3
    expected = "(outcome, limits)" if setting is None else "(outcome, context, limits)"
    for wrong in (1.0, (1.0, *context), (1.0, *context, {"peek": 2.0}), ([1.0], *context, {"peak": 2.0})):
        opt = make(setting, limits=limits)
        with pytest.raises(TypeError, match=re.escape(f"evaluate must return {expected}")):
            drbo.run(opt, lambda *_, one=wrong: one, 3, workers=1, progress=False)
        assert opt.n_told == 0
    opt = make(setting, limits={"peak": drbo.AtMost(-50.0)})
    with pytest.raises(drbo.NotReachedError):  # a value that is not finite is a failure, and nothing is known then
        drbo.run(opt, lambda *_: (1.0, *context, {"peak": math.nan}), 3, workers=1, progress=False)
    assert [result.failed for result in opt.results] == [True] * 3


def test_a_pending_evaluation_in_several_contexts_is_left_to_its_owner() -> None:
    opt = make()
    opt.ask(n_contexts=2)
    with pytest.raises(ValueError, match="one context at a time: tell or cancel suggestion 0"):
        drbo.run(opt, outcome, 3, progress=False)
    opt.cancel(opt.pending[0])
    drbo.run(opt, outcome, 3, progress=False)


def test_workers_that_are_gone_are_no_failed_evaluation(tmp_path: Path) -> None:
    with ProcessPoolExecutor(2) as pool, pytest.raises(BrokenExecutor):
        drbo.run(make(), ends_its_process, 5, executor=pool, workers=2, save=tmp_path / "state.json", progress=False)
    loaded = Optimizer.load(tmp_path / "state.json")
    assert loaded.n_told == 0
    assert len(loaded.pending) >= 1


def test_an_interrupt_keeps_what_is_there_and_goes_on(tmp_path: Path, still: None) -> None:
    """Results that are there are told, the rest is evaluated again; a new optimizer takes over the file."""
    del still
    path, opt = tmp_path / "state.json", make()

    def evaluate(action: Any, context: Any) -> float:
        if opt.n_told == 3 and len(opt.pending) == 2:  # the second of three that run
            raise KeyboardInterrupt
        return outcome(action, context)

    with pytest.raises(KeyboardInterrupt):
        drbo.run(opt, evaluate, 12, workers=3, executor=AtOnce(), save=path, progress=False)
    assert bits(Optimizer.load(path).history) == bits(opt.history)
    assert [result.number for result in opt.results] == [0, 1, 2, 3, 5]
    assert [s.number for s in opt.pending] == [4]
    told = [(result.number, result.outcome) for result in opt.results]
    again, submitted = make(), []

    def note(action: Any, context: Any) -> float:
        submitted.append((action[0], context[0]))
        return outcome(action, context)

    first = [(s.action[0], s.context[0]) for s in opt.pending]
    drbo.run(again, note, 12, workers=3, executor=AtOnce(), save=path, progress=False)
    assert submitted[: len(first)] == first
    assert [(result.number, result.outcome) for result in again.results][: len(told)] == told
    assert sorted(result.number for result in again.results if result.number is not None) == list(range(12))
    r = drbo.run(make(), ends_its_process, 12, save=path, progress=False)  # nothing is left to do
    assert bits(r) == bits(again.recommend())


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "kill"])
def test_a_process_that_is_stopped_goes_on(stop: signal.Signals, tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    code = f"""
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a job in the background of a shell does without
sys.path.insert(0, {str(TESTS)!r})
import drbo
from optimizer.evaluations import outcome
from optimizer.test_parallel import make
def evaluate(*arguments):
    time.sleep(0.05)
    return outcome(*arguments)
drbo.run(make(), evaluate, 2000, workers=3, save={str(path)!r}, progress=False)
"""
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while not (path.exists() and path.read_text().count('"kind":"told"') >= 5):
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        process.send_signal(stop)
        _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    assert ("KeyboardInterrupt" in errors) == (stop is signal.SIGINT), errors
    before = Optimizer.load(path)
    assert 5 <= before.n_told < 2000
    opt = make()
    drbo.run(opt, outcome, before.n_told + 5, workers=3, save=path, progress=False)
    assert opt.n_told == before.n_told + 5
    assert bits(opt.history[: len(before.history)]) == bits(before.history)


# --- the file -------------------------------------------------------------------------------------------------------


def test_a_file_of_another_configuration_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    drbo.run(make(), outcome, 3, workers=1, save=path, progress=False)
    before = path.read_bytes()
    other = make(drbo.Simulator(np.full(8, 1 / 8), radius=0.2, pick="uncertain"), seed=3)
    with pytest.raises(ValueError, match=r"state\.json was saved by an optimizer that differs in seed, setting: "):
        drbo.run(other, outcome, 6, save=path, progress=False)
    own = make()
    own.tell(GRID[0], 1.0, context=GRID[0])
    with pytest.raises(RuntimeError, match=r"state\.json holds another history than this optimizer"):
        drbo.run(own, outcome, 6, save=path, progress=False)
    assert own.n_told == 1
    assert path.read_bytes() == before
    path.write_text("apples")
    with pytest.raises(ValueError, match=r"state\.json is not a saved optimizer"):
        make().resume(path)


def test_resume_takes_over_what_is_new(tmp_path: Path) -> None:
    path, opt = tmp_path / "state.json", make()
    opt.resume(path)  # there is no file
    assert not path.exists()
    drbo.run(opt, outcome, 3, workers=1, save=path, progress=False)
    behind = make()
    behind.resume(path)
    assert bits(behind.history) == bits(opt.history)
    drbo.run(opt, outcome, 5, workers=1, save=path, progress=False)
    behind.resume(path)
    assert bits(behind.history) == bits(opt.history)
    behind.ask()
    behind.resume(path)  # the file is behind now
    behind.save(path)
    assert bits(Optimizer.load(path).history) == bits(behind.history)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.warns(RuntimeWarning, match="ends in the middle of a record"):
        opt.resume(path)
    opt.save(path)
    assert bits(Optimizer.load(path).history) == bits(opt.history)


def test_two_runs_on_one_file_are_told_so(tmp_path: Path) -> None:
    path = tmp_path / "state.json"

    def intruder(action: Any, context: Any) -> float:
        if not (tmp_path / "done").exists():
            (tmp_path / "done").touch()
            drbo.run(make(), outcome, 3, workers=1, save=path, progress=False)
        return outcome(action, context)

    with pytest.raises(RuntimeError, match=r"has changed since .* drbo\.integrations\.optuna"):
        drbo.run(make(), intruder, 5, workers=1, save=path, progress=False)
    assert Optimizer.load(path).n_told == 3


# --- what ends a run ------------------------------------------------------------------------------------------------


def test_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr("drbo.optimizer.parallel.time.monotonic", lambda: float(next(clock)))
    opt = make()
    drbo.run(opt, outcome, seconds=6, workers=1, progress=False)
    assert 1 <= opt.n_told <= 6
    assert opt.pending == ()


def test_tolerance() -> None:
    opt = make()
    drbo.run(opt, outcome, 200, tolerance=0.6, workers=2, progress=False)
    assert opt.n_told < 200
    assert opt.under().regret_bound().value <= 0.6
    assert opt.pending == ()
    before = opt.n_told
    drbo.run(opt, outcome, 200, tolerance=0.6, progress=False)
    assert opt.n_told == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "run needs a stopping rule: evaluations, seconds or tolerance"),
        ({"evaluations": 0}, "evaluations must be at least 1"),
        ({"evaluations": 3, "workers": 0}, "workers must be at least 1"),
        ({"evaluations": 3, "executor": 4}, "executor must be an executor such as"),
        ({"evaluations": 3, "on_error": "ignore"}, 'on_error must be "tell" or "raise"'),
        ({"seconds": -1.0}, "seconds must be zero or more"),
        ({"tolerance": math.nan}, "tolerance must be zero or more"),
        ({"evaluations": 3, "progress": 1}, "progress must be True or False"),
        ({"evaluations": 3, "evaluate": 3}, "evaluate must be a function"),
        ({"evaluations": 3, "opt": 3}, "opt must be an Optimizer"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        drbo.run(**{"opt": make(), "evaluate": outcome, **arguments})


def test_a_result_that_was_cancelled_meanwhile_is_not_counted(caplog: pytest.LogCaptureFixture) -> None:
    opt = make()

    def evaluate(action: Any, context: Any) -> float:
        if opt.n_told == 2 and not caplog.records:
            opt.cancel(opt.pending[0])
        return outcome(action, context)

    drbo.run(opt, evaluate, 4, workers=1, executor=AtOnce(), progress=False)
    assert opt.n_told == 4
    assert "has been told or cancelled elsewhere" in caplog.text


# --- progress -------------------------------------------------------------------------------------------------------


def test_progress_in_a_file_is_a_few_lines(capsys: pytest.CaptureFixture[str]) -> None:
    opt = make()
    drbo.run(opt, fails_often, 12, workers=2)
    lines = capsys.readouterr().err.splitlines()
    shown = [line for line in lines if line.startswith("drbo: ")]
    assert shown[0] == "drbo: 0 of 12 evaluations"
    assert "drbo: 12 of 12 evaluations (" in shown[-1]
    assert shown[-1].endswith(f" failed), {opt.recommend().statement}")
    assert len(shown) <= 4


def test_progress_on_a_terminal_stays_on_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    opt = make(maximize=False)
    drbo.run(opt, outcome, 6, workers=1)
    text = screen.getvalue()
    assert text.count("\n") == 1
    assert text.endswith("\n")
    assert text.count("\r") == 8
    statement = opt.recommend().statement
    assert "at most " in statement
    assert f"drbo: 6 of 6 evaluations, {statement}" in text.split("\r")[-1]
    Progress(opt, None, True).show(3)
    assert f"\rdrbo: 6 evaluations, 3 under way, {statement}" in screen.getvalue()


def test_progress_changes_no_suggestion(still: None) -> None:
    del still
    one, other = make(surrogate=drbo.LearnedGP()), make(surrogate=drbo.LearnedGP())
    drbo.run(one, outcome, 8, workers=2, executor=AtOnce())
    drbo.run(other, outcome, 8, workers=2, executor=AtOnce(), progress=False)
    assert bits(one.history) == bits(other.history)


# --- the bound on the regret ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("maximize", [True, False])
@pytest.mark.parametrize("ambiguity", [drbo.TotalVariation(), drbo.MMD(GRID), drbo.KL()], ids=repr)
def test_the_bound_on_the_regret_is_that_of_all_actions(ambiguity: drbo.AmbiguitySet, maximize: bool) -> None:
    """Every action's worst case, one by one, in the user's units."""
    opt = make(ambiguity=ambiguity, maximize=maximize)
    drbo.run(opt, outcome, 9, workers=1, progress=False)
    before = bits(opt.history)
    found, sign = opt.under().regret_bound(), 1.0 if maximize else -1.0
    upper = np.array([[sign * (p.upper if maximize else p.lower) for p in row] for row in _predictions(opt)])
    lower = np.array([[sign * (p.lower if maximize else p.upper) for p in row] for row in _predictions(opt)])
    reference = np.full(8, 1 / 8)
    most = ambiguity.worst_case(upper, reference, 0.1).expectation.max()
    least = ambiguity.worst_case(lower, reference, 0.1).expectation.max()
    assert found.value == pytest.approx(most - least, rel=1e-6)
    assert found.reachable == pytest.approx(sign * most, rel=1e-6)
    assert found.bound == pytest.approx(sign * least, rel=1e-6)
    assert found.bound == opt.recommend().value
    assert found.exhaustive
    assert "estimated to be at most" in str(found)
    assert "(all actions were compared)" in str(found)
    assert bits(opt.history) == before


def _predictions(opt: Optimizer) -> list[list[Any]]:
    return [[opt.predict(x, c) for c in GRID] for x in GRID]


def test_the_bound_leaves_out_what_failed_and_is_infinite_at_first() -> None:
    opt = make(surrogate=drbo.LearnedGP())
    first = opt.under().regret_bound()
    assert first.value == math.inf
    assert (first.bound, first.reachable) == (-math.inf, math.inf)
    opt = make()
    for i in range(7):
        opt.tell(GRID[i], failed=True, context=GRID[0])
    only = opt.under().regret_bound()
    row = [opt.predict(GRID[7], c) for c in GRID]
    most = drbo.TotalVariation().worst_case([p.upper for p in row], np.full(8, 1 / 8), 0.1).expectation
    assert only.reachable == pytest.approx(float(most), rel=1e-9)


def test_the_bound_on_a_box_is_searched() -> None:
    opt = drbo.Optimizer(
        drbo.Box(x=(0.0, 1.0)), GRID, ambiguity=drbo.TotalVariation(), surrogate=make().configuration.surrogate,
        setting=drbo.Simulator(np.full(8, 1 / 8), radius=0.1, pick="uncertain"),
    )  # fmt: skip
    drbo.run(opt, lambda action, context: outcome([action["x"]], context), 8, workers=2, progress=False)
    found = opt.under().regret_bound()
    assert not found.exhaustive
    assert "(found by a search, which may miss better ones)" in str(found)
    grid = [[opt.predict({"x": x}, c).upper for c in GRID] for x in np.linspace(0.0, 1.0, 21)]
    most = drbo.TotalVariation().worst_case(grid, np.full(8, 1 / 8), 0.1).expectation.max()
    assert found.reachable >= most - 1e-3
    assert found.value == pytest.approx(found.reachable - found.bound)


def test_threads_are_the_default() -> None:
    names: set[str] = set()

    def evaluate(action: Any, context: Any) -> float:
        names.add(threading.current_thread().name)
        return outcome(action, context)

    drbo.run(make(), evaluate, 4, workers=2, progress=False)
    assert all(name.startswith("drbo") for name in names)
