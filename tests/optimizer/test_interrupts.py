"""A call that is interrupted has happened as a whole or not at all (REVIEW S4, F2 and F3)."""

import copy
import itertools
from pathlib import Path
from typing import Any

import pytest

import drbo
import heating
import ranges
import robos
from bits import bits
from drbo import DataDriven, LearnedGP, Optimizer, Setting, Simulator
from drbo.knowledge.state import State
from exact import exact
from interrupts import interrupted
from robos import SETTINGS, ask, make, run


def state(opt: Optimizer) -> dict[str, Any]:
    """Return the facts of an optimizer, what it believes and how it goes on, to the last bit; times aside."""
    posterior = robos.posterior(opt)
    return {
        "pending": bits(opt.pending),
        "results": [(r.number, r.outcome, r.failed) for r in opt.results],
        "observations": posterior.n_observations,
        "posterior": bits([posterior.mean, posterior.variance, posterior.information_gain]),
        "ask": bits(ask(opt)),
        "recommend_iterate": bits(opt.recommend_iterate()),
        "recommend": bits(opt.recommend()),
    }


def test_an_interrupt_in_the_middle_of_an_update_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """F2: the mean on the grid is new by then, and the number of observations is not."""
    opt = make(SETTINGS[2])
    run(opt, 5)
    s = ask(opt)
    opt.tell(s, 1.0)
    whole = copy.deepcopy(opt)
    rank_one = drbo.models.regression._rank_one

    def stopped(*arguments: Any) -> None:
        rank_one(*arguments)
        raise KeyboardInterrupt

    for call in (Optimizer.ask, Optimizer.recommend, Optimizer.recommend_iterate):
        opt = copy.deepcopy(whole)
        with monkeypatch.context() as patch:
            patch.setattr(drbo.models.regression, "_rank_one", stopped)
            with pytest.raises(KeyboardInterrupt):
                call(opt)
        assert state(opt) == state(copy.deepcopy(whole))


def test_an_interrupt_inside_compiled_code_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """numba calls Python to make its results. An interrupt there surfaces as a SystemError, and is its cause."""
    opt = make(SETTINGS[2])
    run(opt, 5)

    def surfacing(*_: Any) -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as interrupt:
            raise SystemError("CPUDispatcher returned a result with an exception set") from interrupt

    with monkeypatch.context() as patch:
        patch.setattr(drbo.knowledge.knowledge.Knowledge, "ball", surfacing)
        with pytest.raises(KeyboardInterrupt):
            opt.recommend()
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        with pytest.raises(ValueError, match="radius must be zero or more"):  # an error in the user's own handler
            opt.recommend(radius=-1.0)


def test_an_interrupt_between_a_result_and_its_suggestion_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """F3: the record of the result is there, and what follows from it is not drawn yet."""
    opt = make(SETTINGS[2])
    run(opt, 5)
    s = ask(opt)
    whole = copy.deepcopy(opt)
    whole.tell(s, 1.0)
    told = State._told

    def stopped(*arguments: Any) -> None:
        told(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(State, "_told", stopped)
        opt.tell(s, 1.0)
        with pytest.raises(KeyboardInterrupt):  # the first call that draws the consequences
            opt.n_told  # noqa: B018
    with pytest.raises(ValueError, match="has been told or cancelled already"):
        opt.tell(s, 1.0)
    with pytest.raises(ValueError, match="has been told or cancelled already"):
        opt.cancel(s)
    assert state(opt) == state(whole)


@pytest.mark.parametrize(
    ("setting", "outcome"),
    [
        pytest.param(SETTINGS[1], 1.0, id="data-driven, result"),
        pytest.param(SETTINGS[2], None, id="simulator, failure"),
        pytest.param(SETTINGS[1], None, id="data-driven, failure"),
        pytest.param(SETTINGS[2], 1.0, id="simulator, result"),
    ],
)
@pytest.mark.slow  # `test_interrupts_everywhere.py` takes some of these lines in every run
def test_an_interrupt_anywhere_in_tell_leaves_all_of_it_or_nothing(setting: Setting, outcome: float | None) -> None:
    """F2 and F3: whoever tells again what is still pending has the state of a call that was not interrupted."""
    start = make(setting)
    for i in range(5):
        start.tell(robos.X[i], robos.F[i, 9 * i], context_index=9 * i)
    s = ask(start)
    assert start.recommend_iterate().action_index == s.action_index  # a failure changes the incumbent
    for _ in range(2):
        ask(start)
    context: dict[str, Any] = {} if isinstance(setting, Simulator) else {"context_index": 3}

    def tell_it(opt: Optimizer) -> None:
        opt.tell(s, outcome, failed=outcome is None, **context)

    whole = copy.deepcopy(start)
    tell_it(whole)
    expected = state(whole)
    retried = 0
    for before in itertools.count(1):
        opt = copy.deepcopy(start)
        if not interrupted(lambda opt=opt: tell_it(opt), before):  # type: ignore[misc]  # a loop variable, bound
            break
        if s.number in [p.number for p in opt.pending]:
            retried += 1
            tell_it(opt)
        with pytest.raises(ValueError, match="has been told or cancelled already"):
            tell_it(opt)
        assert state(opt) == expected
    assert retried == before - 1 > 10  # the record is the last thing that `tell` does: no line comes after it


def test_an_interrupt_between_new_hyper_parameters_and_their_posterior(monkeypatch: pytest.MonkeyPatch) -> None:
    opt = heating.make(Simulator(radius=0.2, pick="uncertain"), surrogate=LearnedGP())
    heating.run(opt, 6)
    twin = copy.deepcopy(opt)

    refit, refits = LearnedGP.refit, []

    def counted(*arguments: Any) -> Any:
        refits.append(refit(*arguments))
        return refits[-1]

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LearnedGP, "refit", counted)
    monkeypatch.setattr(drbo.knowledge.belief.OutcomeBelief, "after", stopped)
    with pytest.raises(KeyboardInterrupt):
        opt.ask()
    monkeypatch.undo()
    assert len(refits) == 1  # the refit was over, and its posterior not there yet
    assert exact(opt.posterior).gp == refits[0].gp
    assert opt.ask().score == twin.ask().score
    assert opt.recommend_iterate().value == twin.recommend_iterate().value


def test_an_interrupt_between_a_refit_and_a_certificate_then_save_and_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S4: the file and the live optimizer recommend the same; 0.1 said 5.0 and -39.4."""
    opt = heating.make(Simulator(radius=0.2, pick="uncertain"), surrogate=LearnedGP())
    for _ in range(4):
        opt.tell(opt.ask(), 5.0)
    opt.ask()
    sure = opt.recommend_iterate().value
    assert sure > 4.0
    for s in (*opt.pending, opt.ask(), opt.ask()):
        opt.tell(s, -50.0 * (1 + s.number))

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    for moment in ("certificate", "worst_case"):
        with monkeypatch.context() as patch:
            patch.setattr(drbo.rounds.ball.Ball, moment, stopped)
            for call in (opt.recommend_iterate, opt.recommend, opt.ask):
                if moment == "worst_case" or call != opt.ask:
                    with pytest.raises(KeyboardInterrupt):
                        call()
        opt.save(tmp_path / "state.json")
        loaded = Optimizer.load(tmp_path / "state.json")
        assert opt.recommend_iterate().value < sure - 1.0
        assert bits(loaded.recommend_iterate()) == bits(opt.recommend_iterate())
        assert bits(loaded.recommend()) == bits(opt.recommend())
        assert bits(loaded.ask()) == bits(opt.ask())


def test_an_interrupted_tell_can_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    opt = heating.make(Simulator(radius=0.2, pick="uncertain"))
    heating.run(opt, 2)
    s = opt.ask()
    twin = copy.deepcopy(opt)

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(drbo.knowledge.readings, "checked_outcomes", stopped)
    with pytest.raises(KeyboardInterrupt):
        opt.tell(s, 1.0)
    monkeypatch.undo()
    for some in (opt, twin):
        some.tell(s, 1.0)
    assert opt.n_told == 3
    monkeypatch.setattr(drbo.models.factor.Factor, "_whiten", stopped)
    with pytest.raises(KeyboardInterrupt):
        opt.ask()
    monkeypatch.undo()
    assert opt.ask().score == twin.ask().score


def test_an_interrupt_while_the_model_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    opt = Optimizer(ranges.ACTIONS, ranges.CONTEXTS, setting=DataDriven(radius=0.2), surrogate=ranges.FIXED)
    ranges.run(opt, 4)
    opt._start_anew()
    whiten, left = drbo.models.factor.Factor._whiten, [2]

    def stopped(*arguments: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        whiten(*arguments)

    monkeypatch.setattr(drbo.models.factor.Factor, "_whiten", stopped)
    with pytest.raises(KeyboardInterrupt):
        opt.ask()
    monkeypatch.undo()
    opt.recommend_iterate()
    assert exact(opt.posterior).n_observations == opt.n_told == 4


@pytest.mark.parametrize("setting", ranges.SETTINGS, ids=repr)
def test_an_interrupt_while_the_adversary_searches(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    opt = Optimizer(ranges.ACTIONS, ranges.CONTEXTS, setting=setting, surrogate=ranges.FIXED)
    ranges.run(opt, 2)

    def stopped(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(drbo.rounds.range_ball, "_downhill", stopped)
    with pytest.raises(KeyboardInterrupt):
        ranges.ask(opt, 2)
    monkeypatch.undo()
    assert opt.pending == ()
    ranges.run(opt, 2, 2)
    assert exact(opt.posterior).n_observations == opt.n_told == 4
