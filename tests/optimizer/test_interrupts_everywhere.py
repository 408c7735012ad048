"""Interrupts and shortages of memory at any line of any call: it has happened as a whole or not at all (REVIEW F2, F3).

In every run at some moments of each call. In the slow tests, where a call runs at most 2,500 lines, at each of these
with both errors; where it runs more, at every line of the code that it runs, when that is run for the first and for the
last time, with the two errors in turn.
"""

import copy
import functools
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drbo
import robos
from bits import bits
from drbo import MMD, DataDriven, Optimizer, _threads
from interrupts import Interrupt, enters, interrupted, lines
from optimizer import places

pytestmark = [
    pytest.mark.usefixtures("still"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # a file that Python itself closes
    pytest.mark.filterwarnings("ignore:context .* is outside:UserWarning"),
]

ERRORS = (KeyboardInterrupt, MemoryError)
FEW = 2500
"""Of a call that runs so many lines, each is a moment."""


def on_a_grid() -> Optimizer:
    return places.on_a_grid(DataDriven(radius=0.3))


PLACES: dict[str, tuple[Callable[[], Optimizer], int]] = {
    "grid": (on_a_grid, 10),
    "learned grid, corrected": (places.corrected, 5),
    "labels": (places.with_labels, 3),
    "box and samples": (places.on_a_box, 1),
    "range": (places.on_a_range, 1),
    "table": (lambda: places.with_a_table(MMD()), 1),
}
"""How an optimizer is made, and at how many moments of a call it is interrupted in every run."""
QUICK = ("grid", "learned grid, corrected")
"""Elsewhere a call takes longer, and in every run only `ask` is interrupted."""


@functools.cache
def _made(place: str) -> Optimizer:
    opt = PLACES[place][0]()
    while len(opt.pending) < 3:
        opt.ask()
    return opt


def prepared(place: str) -> Optimizer:
    """Return an optimizer with three pending suggestions."""
    return copy.deepcopy(_made(place))


def context_of(opt: Optimizer) -> dict[str, Any]:
    """Return what `tell` needs where nature picks the context."""
    return {} if opt.pending[0].contexts else {"context": opt.results[0].context}


def replayed(opt: Optimizer) -> None:
    """Let the last two facts be told in another order, or the last of them be forgotten."""
    opt.replay(opt.records(len(opt.history) - 2)[:1], keep=len(opt.history) - 2)


CALLS: dict[str, Callable[[Optimizer], Any]] = {
    "ask": lambda opt: opt.ask(),
    "tell": lambda opt: opt.tell(opt.pending[0], 0.25, **context_of(opt)),
    "tell failed": lambda opt: opt.tell(opt.pending[0], failed=True),
    "cancel": lambda opt: opt.cancel(opt.pending[0]),
    "retract": lambda opt: opt.retract(opt.results[-1]),
    "amend": lambda opt: opt.amend(opt.results[-1], 0.5 if opt.results[-1].failed else 2.0),
    "replay": replayed,
    "recommend": lambda opt: opt.recommend(),
}


def facts(opt: Optimizer) -> Any:
    return bits(opt.history)


def goes_on(opt: Optimizer) -> list[Any]:
    """Return how an optimizer goes on."""
    opt.tell(opt.pending[-1], failed=True)
    return bits([opt.pending, opt.ask()])  # type: ignore[no-any-return]


def moments(found: Interrupt, some: int | None) -> list[int]:
    """Return at which lines a call is interrupted: at some and at its last ones, or (None) everywhere."""
    if some is not None:
        spread = np.unique(np.linspace(1, found.count, some + 1).astype(int)[:-1])
        return sorted({*spread.tolist(), *range(max(found.count - 1, 1), found.count + 1)})
    if found.count <= FEW:
        return list(range(1, found.count + 1))
    return sorted({*found.first.values(), *found.last.values()})


def check(place: str, name: str, some: int | None, errors: tuple[type[BaseException], ...] = ERRORS) -> None:
    """Interrupt a call, do it again if it has not happened, and compare with one that was not interrupted."""
    start, call = prepared(place), CALLS[name]
    call(copy.deepcopy(start))  # what is made once per process is there
    whole = copy.deepcopy(start)
    found = lines(lambda: call(whole))
    before, after = facts(start), facts(whole)
    expected = goes_on(whole)
    happened = {False: 0, True: 0}
    wanted = moments(found, some)
    in_turn = some or found.count > FEW
    errors_at = zip(wanted, itertools.cycle(errors), strict=False) if in_turn else itertools.product(wanted, errors)
    for moment, error in errors_at:
        opt = copy.deepcopy(start)
        assert interrupted(lambda opt=opt: call(opt), moment, error), moment  # type: ignore[misc]  # bound
        assert not _threads.inside(), moment  # the next call gives linear algebra its threads back
        now = facts(opt)
        assert now in (before, after), moment
        happened[now == after] += 1
        assert some or enters(lambda opt=opt: opt.n_told), moment  # type: ignore[misc]  # bound
        if now == before:
            call(opt)
        assert facts(opt) == after, moment
        assert goes_on(opt) == expected, moment
    assert happened[before == after] > 0


@pytest.mark.parametrize(
    ("place", "name"),
    [(place, name) for place in PLACES for name in CALLS if place in QUICK or name == "ask"],
)
def test_at_some_lines(place: str, name: str) -> None:
    check(place, name, PLACES[place][1])


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("place", PLACES)
def test_at_every_line(place: str, name: str) -> None:
    check(place, name, None)


# --- files ----------------------------------------------------------------------------------------------------------


def told_once_more(opt: Optimizer) -> Optimizer:
    opt.tell(opt.pending[0], 0.25, **context_of(opt))
    return opt


def new_file(start: Optimizer, _: Path) -> Optimizer:
    return told_once_more(copy.deepcopy(start))


def appended(start: Optimizer, path: Path) -> Optimizer:
    opt = copy.deepcopy(start)
    opt.save(path)
    return told_once_more(opt)


def loaded(start: Optimizer, path: Path) -> Optimizer:
    start.save(path)
    return told_once_more(Optimizer.load(path))


def half_a_line(start: Optimizer, path: Path) -> Optimizer:
    start.save(path)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.warns(RuntimeWarning, match="ends in the middle"):
        opt = Optimizer.load(path)
    return told_once_more(opt)


WAYS = (new_file, appended, loaded, half_a_line)


def check_save(start: Optimizer, way: Callable[[Optimizer, Path], Optimizer], some: int | None, folder: Path) -> None:
    """What an interrupted save leaves can be read, and the next save makes it whole; nothing else is left behind."""
    opt = way(copy.deepcopy(start), folder / "whole")
    found = lines(lambda: opt.save(folder / "whole"))
    for moment, error in itertools.product(moments(found, some), ERRORS):
        path = folder / f"{moment} {error.__name__}" / "state.json"
        path.parent.mkdir()
        opt = way(copy.deepcopy(start), path)
        before = facts(Optimizer.load(path)) if path.exists() and way is not half_a_line else None
        assert interrupted(lambda opt=opt, path=path: opt.save(path), moment, error)  # type: ignore[misc]  # bound
        if path.exists() and way is not half_a_line:
            assert facts(Optimizer.load(path)) in (before, facts(opt)), moment
        opt.save(path)
        assert facts(Optimizer.load(path)) == facts(opt), moment
        opt.cancel(opt.pending[0])
        opt.save(path)
        assert facts(Optimizer.load(path)) == facts(opt), moment
        assert [p.name for p in path.parent.iterdir() if p.suffix != ".lock"] == ["state.json"], moment


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_some_lines_of_save(way: Callable[[Optimizer, Path], Optimizer], tmp_path: Path) -> None:
    check_save(prepared("grid"), way, 6, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_every_line_of_save(way: Callable[[Optimizer, Path], Optimizer], place: str, tmp_path: Path) -> None:
    check_save(prepared(place), way, None, tmp_path)


def resumed(start: Optimizer, path: Path) -> Optimizer:
    opt = Optimizer(**start._configuration.arguments)
    opt.resume(path)
    return opt


def check_load(start: Optimizer, some: int | None, path: Path) -> None:
    """An interrupted load leaves the file as it was, and an interrupted resume the optimizer."""
    start.save(path)
    text, expected = path.read_bytes(), facts(start)
    found = lines(lambda: Optimizer.load(path))
    for moment, error in itertools.product(moments(found, some), ERRORS):
        assert interrupted(lambda: Optimizer.load(path), moment, error)
        assert path.read_bytes() == text
        assert facts(Optimizer.load(path)) == expected
    found = lines(lambda: resumed(start, path))
    for moment, error in itertools.product(moments(found, some), ERRORS):
        opt = Optimizer(**start._configuration.arguments)
        interrupted(lambda opt=opt: opt.resume(path), moment, error)  # type: ignore[misc]  # bound
        assert facts(opt) in ([], expected)
        assert path.read_bytes() == text
        opt.resume(path)
        assert facts(opt) == expected
        opt.cancel(opt.pending[0])
        opt.save(path)
        path.write_bytes(text)


@pytest.mark.parametrize("place", ["grid", "labels"])
def test_some_lines_of_load(place: str, tmp_path: Path) -> None:
    check_load(prepared(place), 6, tmp_path / "state.json")


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_every_line_of_load(place: str, tmp_path: Path) -> None:
    check_load(prepared(place), None, tmp_path / "state.json")


# --- run ------------------------------------------------------------------------------------------------------------


def objective(opt: Optimizer) -> Callable[..., Any]:
    """Return a function of action and context, which returns an outcome, and a context where nature picks it."""
    drawn = context_of(opt).get("context")

    def outcome(action: Any, context: Any = None) -> Any:
        y = float(np.sin(robos.X[0] + len(str(action)))) + 0.1 * len(str(context))
        return y if drawn is None else (y, drawn)

    return outcome


def check_run(place: str, some: int | None, folder: Path) -> None:
    """Whoever calls the same line again has the history of a run that was not interrupted, and so has the file."""
    start, more = prepared(place), 3 if some else 2
    outcome_of = objective(start)

    def run(opt: Optimizer, path: Path) -> None:
        drbo.run(opt, outcome_of, start.n_told + more, workers=1, save=path, progress=False)

    run(copy.deepcopy(start), folder / "warm")
    whole = copy.deepcopy(start)
    found = lines(lambda: run(whole, folder / "whole"))
    expected = facts(whole)
    for moment, error in zip(moments(found, some), itertools.cycle(ERRORS), strict=False):
        opt, path = copy.deepcopy(start), folder / f"{moment}"
        assert interrupted(lambda opt=opt, path=path: run(opt, path), moment, error)  # type: ignore[misc]  # bound
        if path.exists():
            saved = facts(Optimizer.load(path))
            assert facts(opt)[: len(saved)] == saved, moment
        run(opt, path)
        assert facts(opt) == expected, moment
        assert facts(Optimizer.load(path)) == expected, moment
        path.unlink()


@pytest.mark.parametrize("place", QUICK)
def test_some_lines_of_run(place: str, tmp_path: Path) -> None:
    check_run(place, 10, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_every_line_of_run(place: str, tmp_path: Path) -> None:
    check_run(place, None, tmp_path)


# --- the harness itself ---------------------------------------------------------------------------------------------


def test_the_harness_would_notice_a_call_that_happens_by_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    """With two records in place of one, some interrupt comes between them."""
    once = Optimizer.cancel

    def by_halves(opt: Optimizer, suggestion: Any) -> None:
        once(opt, suggestion)
        once(opt, opt.pending[0])

    monkeypatch.setitem(CALLS, "cancel", lambda opt: by_halves(opt, opt.pending[0]))
    with pytest.raises(AssertionError):
        check("grid", "cancel", 8)


def test_moments() -> None:
    found = Interrupt(0)
    found.count = FEW + 1
    found.first, found.last = {("a", 1): 1, ("a", 2): 2}, {("a", 1): 1, ("a", 2): 2000}
    assert moments(found, None) == [1, 2, 2000]
    assert moments(found, 2) == [1, 1251, 2500, 2501]
    found.count = 3
    assert moments(found, None) == [1, 2, 3]
