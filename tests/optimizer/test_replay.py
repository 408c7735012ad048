"""Facts as records of another store: replayed, they give the same optimizer, bit for bit."""

import json
from typing import Any

import numpy as np
import pytest

import drbo
from drbo import DataDriven, LearnedGP, Optimizer, Setting
from heating import FIXED, SETTINGS, ask, make, tell

SIMULATOR = drbo.Simulator(radius=0.2, pick="uncertain")


def through_text(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return json.loads(json.dumps(records, allow_nan=False))  # type: ignore[no-any-return]


@pytest.mark.parametrize("setting", SETTINGS, ids=repr)
@pytest.mark.parametrize("surrogate", [FIXED, LearnedGP()], ids=["fixed", "learned"])
def test_a_replayed_optimizer_goes_on_as_the_first_one(setting: Setting, surrogate: Any) -> None:
    opt, copy = make(setting, surrogate=surrogate), make(setting, surrogate=surrogate)
    for number in range(5):
        s = ask(opt)
        if number == 2:
            opt.tell(s, failed=True)
        elif number != 3:  # that one stays pending
            tell(opt, s, number)
        copy.replay(through_text(opt.records(len(copy.history))), keep=len(copy.history))
    assert len(copy.history) == len(opt.history)
    assert len(copy.pending) == 1
    assert opt.recommend_iterate().value == copy.recommend_iterate().value
    assert ask(opt).same_as(ask(copy))


def test_a_history_can_be_written_anew_from_any_fact() -> None:
    opt, other = make(SIMULATOR), make(SIMULATOR)
    for number in range(4):
        tell(opt, ask(opt), number)
    records = through_text(opt.records())
    other.replay(records)
    for keep in (8, 5, 2, 0):
        other.replay(records[keep:], keep=keep)
        assert other.records() == opt.records()
        assert other.recommend().value == opt.recommend().value
    other.replay([], keep=4)
    assert other.n_told == 2


def test_a_record_may_give_values_in_place_of_coordinates() -> None:
    opt = Optimizer(
        drbo.Box(x=(0.0, 2.0)), drbo.Samples({"c": [0.0, 1.0, 3.0]}), setting=drbo.DataDriven(radius=0.1)
    )  # fmt: skip
    told = {"kind": "told", "time": None, "number": 7, "outcomes": [1.5], "drawn": True}
    opt.replay([{**told, "action": {"value": {"x": 0.5}}, "contexts": [{"value": {"c": 1.0}}]}])
    (result,) = opt.results
    assert (result.number, result.action, result.context, result.outcome) == (7, {"x": 0.5}, {"c": 1.0}, 1.5)


def test_the_set_of_a_round_does_not_count_results_that_were_awaited() -> None:
    """Two workers: the second asks before the first has told, but stands behind it in the history."""
    contexts = np.array([0.0, 0.5, 1.0])
    opt = Optimizer(
        np.linspace(0.0, 1.0, 4), contexts, setting=DataDriven(radius=0.2), surrogate=FIXED, ambiguity=drbo.MMD()
    )
    first, second = opt.ask(), opt.ask()
    opt.tell(first, 1.0, context_index=2)
    opt.tell(second, 2.0, context_index=0)
    asked_0, asked_1, told_0, told_1 = opt.records()
    moved = Optimizer(
        np.linspace(0.0, 1.0, 4), contexts, setting=DataDriven(radius=0.2), surrogate=FIXED, ambiguity=drbo.MMD()
    )
    moved.replay([asked_0, told_0, {**asked_1, "awaited": [0]}])
    (pending,) = moved.pending
    assert pending.same_as(second)  # the reference of its round included: uniform, as nothing had been seen
    moved.replay([asked_0, told_0, asked_1])
    assert moved.pending[0].reference.tolist() == [0.0, 0.0, 1.0]
    moved.replay([asked_0, told_0, {**asked_1, "awaited": [0]}, told_1])
    assert moved.records()[2]["awaited"] == [0]


@pytest.mark.parametrize("awaited", [[4], [5, 3], [0, 5], [2, 4], [1], [6, 7], [1, 2, 6]])
def test_awaited_results_may_be_anywhere_failed_cancelled_or_retracted(awaited: list[int]) -> None:
    """Of suggestions 0 to 6, 1 is cancelled, 2 failed, the result of 3 is retracted, and 6 is told without a number."""
    contexts = np.linspace(0.0, 1.0, 8)
    opt = Optimizer(
        np.linspace(0.0, 1.0, 4), contexts, setting=DataDriven(radius=0.2), surrogate=FIXED, ambiguity=drbo.MMD()
    )
    for number in range(6):
        s = opt.ask()
        if number == 1:
            opt.cancel(s)
        elif number == 2:
            opt.tell(s, failed=True, context_index=number)
        else:
            opt.tell(s, 1.0, context_index=number)
    opt.retract(opt.results[2])
    opt.tell(0.0, 1.0, context_index=6)
    last = {**opt.records(0)[0], "awaited": awaited}
    last["proposals"] = [{**last["proposals"][0], "number": 8}]
    opt.replay([last], keep=len(opt.history))
    expected = np.bincount([i for i in (0, 2, 4, 5, 6) if i not in awaited or i == 6], minlength=8)
    assert opt.pending[0].reference * expected.sum() == pytest.approx(expected)


def test_own_classes_are_found_in_the_configuration() -> None:
    opt = make(SIMULATOR, surrogate=LearnedGP(action=Wavy()))
    for number in range(4):
        tell(opt, ask(opt), number)
    other = make(SIMULATOR, surrogate=LearnedGP(action=Wavy()))
    other.replay(through_text(opt.records()))
    assert ask(opt).same_as(ask(other))


class Wavy(drbo.Kernel):
    """A kernel of the user's: an RBF under another name."""

    def __call__(self, a: Any, b: Any) -> Any:
        return drbo.RBF(0.4)(a, b)

    def gradient(self, a: Any, b: Any) -> Any:
        return drbo.RBF(0.4).gradient(a, b)

    def arguments(self) -> dict[str, Any]:
        return {}

    variance = 1.0
    amplitude = 1.0
    curvature = drbo.RBF(0.4).curvature


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"kind": "told"}, r"records\[0\] is not a record: it lacks"),
        ({"kind": "nonsense"}, r"records\[0\] is not a record: .*unknown kind 'nonsense'"),
        ({"kind": "reference", "value": 1}, r"records\[0\] is not a record: it is a reference"),
        ({"kind": "retracted", "time": None, "result": 3}, "records are inconsistent: result 3"),
    ],
)
def test_an_error_in_a_record_is_named_and_changes_nothing(record: dict[str, Any], words: str) -> None:
    opt = make(SIMULATOR)
    ask(opt)
    before = opt.records()
    with pytest.raises(ValueError, match=words):
        opt.replay([record], keep=1)
    with pytest.raises(ValueError, match="keep must be at most 1"):
        opt.replay([], keep=2)
    assert opt.records() == before


def test_values_as_json_and_back() -> None:
    value = {
        "setting": drbo.Simulator(radius=0.1, pick="uncertain"),
        "set": drbo.MMD(kernel=drbo.RBF(0.2)),
        "many": [1, 2.5, "a"],
    }
    text = json.dumps(drbo.knowledge.to_json(value), allow_nan=False)
    assert drbo.knowledge.to_json(drbo.knowledge.from_json(json.loads(text))) == json.loads(text)


@pytest.mark.parametrize("setting", SETTINGS, ids=repr)
def test_an_action_of_ones_own_is_certified_as_a_recommendation_is(setting: Setting) -> None:
    opt = make(setting, surrogate=FIXED)
    for number in range(5):
        tell(opt, ask(opt), number)
    before = opt.records()
    best = opt.recommend()
    same = opt.bound(best.action)
    assert same.value == pytest.approx(best.value, rel=1e-9, abs=1e-12)
    sign = 1.0 if opt.configuration.maximize else -1.0
    for result in opt.results:
        assert sign * opt.bound(result.action).value <= sign * best.value + 1e-9
    assert opt.records() == before
