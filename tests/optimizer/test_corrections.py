"""Mistakes: results that are retracted or amended, contexts that nature did not draw, and contexts far outside."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import robos
from drbo import GP, RBF, Box, DataDriven, Expectation, General, LearnedGP, Optimizer, Product, Samples, Simulator
from drbo.knowledge import Result
from exact import exact

KERNEL = Product(RBF(0.3), RBF(0.3))


def box(surrogate: Any = None, **more: Any) -> Optimizer:
    rng = np.random.default_rng(0)
    samples = Samples(50.0 + 100.0 * rng.random((40, 1)), names=["demand"])
    model = GP(KERNEL, 0.1) if surrogate is None else surrogate
    return Optimizer(
        Box(order=(0.0, 1.0)), samples, setting=Simulator(radius=0.1, pick="uncertain"), surrogate=model, **more
    )


ROWS = [(0.1, 60.0, 0.3), (0.5, 90.0, 0.9), (0.5, 140.0, 0.2), (0.9, 110.0, -0.4), (0.3, 75.0, 0.6), (0.7, 70.0, 0.1)]


def told(opt: Optimizer, rows: list[tuple[float, float, float]]) -> Optimizer:
    for order, demand, outcome in rows:
        opt.tell({"order": order}, outcome, context={"demand": demand})
    return opt


def same(one: Optimizer, two: Optimizer) -> None:
    """The same posterior to the last bit, the same recommendation and, without hyper-parameters, the same ask."""
    a, b = one.recommend(), two.recommend()
    assert a.action == b.action
    assert a.value == b.value
    np.testing.assert_array_equal(a.weights, b.weights)


@pytest.mark.parametrize("wrong", [0, 3, 5])
def test_a_retracted_result_counts_as_if_never_told(wrong: int) -> None:
    opt = told(box(), ROWS)
    opt.recommend()  # a belief that must not survive
    opt.retract(opt.results[wrong])
    without = told(box(), [row for i, row in enumerate(ROWS) if i != wrong])
    same(opt, without)
    assert opt.ask().action == without.ask().action
    assert [r.id for r in opt.results] == [i for i in range(6) if i != wrong]
    assert opt.n_told == 5


@pytest.mark.parametrize("wrong", [1, 5])
def test_an_amended_result_counts_as_if_told_right(wrong: int) -> None:
    mistaken = list(ROWS)
    mistaken[wrong] = (ROWS[wrong][0], 149.0, 77.0)
    opt = told(box(), mistaken)
    opt.recommend()
    opt.amend(opt.results[wrong], ROWS[wrong][2])
    opt.amend(wrong, context={"demand": ROWS[wrong][1]})
    same(opt, told(box(), ROWS))
    assert opt.results[wrong].outcome == ROWS[wrong][2]


def test_corrections_are_facts_that_are_saved(tmp_path: Path) -> None:
    opt = told(box(), ROWS)
    opt.save(tmp_path / "state.drbo")
    opt.retract(2)
    opt.amend(0, 0.4)
    assert [type(fact).__name__ for fact in opt.history[-2:]] == ["Retracted", "Amended"]
    opt.save(tmp_path / "state.drbo")
    loaded = Optimizer.load(tmp_path / "state.drbo")
    assert loaded.results == opt.results
    same(loaded, opt)
    opt._start_anew()
    same(loaded, opt)


def test_a_failure_that_was_none() -> None:
    opt = told(box(), ROWS)
    opt.tell({"order": 0.55}, failed=True, context={"demand": 80.0})
    opt.amend(6, 0.7)
    same(opt, told(box(), [*ROWS, (0.55, 80.0, 0.7)]))
    assert not any(result.failed for result in opt.results)
    opt.tell({"order": 0.2}, failed=True, context={"demand": 80.0})
    opt.retract(7)
    assert opt.n_told == 7


def test_learned_hyper_parameters_forget_what_was_retracted() -> None:
    opt = told(box(LearnedGP()), [*ROWS, (0.6, 100.0, 1e6)])
    wild = opt.recommend().value
    opt.retract(6)
    clean = told(box(LearnedGP()), ROWS).recommend()
    assert opt.recommend().value == pytest.approx(clean.value, rel=1e-3)
    assert abs(wild) > 1e3 * abs(clean.value)
    s = opt.ask()
    opt.tell(s, 0.2)
    for result in opt.results:
        opt.retract(result)
    assert opt.results == ()
    assert opt.recommend().value == -np.inf
    opt.ask()


def test_a_data_driven_reference_forgets_what_was_retracted() -> None:
    opt = robos.make(DataDriven(radius=0.1))
    for j in (3, 3, 7):
        opt.tell(robos.X[0], 0.1, context_index=j)
    opt.retract(0)
    reference = opt.ask().reference
    assert reference[3] == reference[7] == 0.5


def test_a_context_that_nature_did_not_draw() -> None:
    """REVIEW S11: ten orders told for one day's demand put 62% of the reference on that day."""
    opt = robos.make(DataDriven(radius=0.1))
    for day, j in enumerate((3, 20, 41)):
        for i, x in enumerate(robos.X):
            opt.tell(x, 0.1 * day, context_index=j, drawn=i == 0)
    np.testing.assert_allclose(opt.ask().reference[[3, 20, 41]], 1 / 3)
    assert exact(opt.posterior).n_observations == 3 * len(robos.X)


def test_the_set_of_an_earlier_round_stays_what_it_was() -> None:
    """The reference of an iterate's round is what was believed then, whatever was retracted since."""
    opt = robos.make(DataDriven(radius=0.1))
    opt.tell(robos.X[0], 0.1, context_index=3)
    s = opt.ask()
    opt.retract(0)
    assert opt.pending == (s,)
    opt.tell(s, 0.2, context_index=5)
    assert opt.ask().reference[5] == 1.0


def test_a_context_far_outside_is_told_back() -> None:
    """REVIEW U14: a context of 10,000 in a range of 50 to 150."""
    opt = box()
    with pytest.warns(UserWarning, match=r"demand = 10000 \(the samples go from .* to .*\)"):
        opt.tell({"order": 0.5}, 1.0, context={"demand": 10_000.0})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        opt.tell({"order": 0.5}, 1.0, context={"demand": 160.0})
        with pytest.warns(UserWarning, match="if it is a mistake, see opt.amend"):
            opt.amend(1, context={"demand": -200.0})
    assert len(opt.results) == 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda opt: opt.retract(9), "result 9 is not one of this optimizer's"),
        (lambda opt: opt.retract(-1), "result must be at least 0"),
        (lambda opt: opt.retract("last"), "result must be a whole number"),
        (lambda opt: opt.amend(0), "amend needs a correction"),
        (lambda opt: opt.amend(0, float("nan")), "outcome must be finite"),
        (lambda opt: opt.amend(0, context={"load": 1.0}), "context must name demand"),
        (lambda opt: opt.amend(0, context_index=3), "context_index must not be given"),
        (
            lambda opt: opt.tell({"order": 0.5}, 1.0, context={"demand": 60.0}, drawn="yes"),
            "drawn must be True or False",
        ),
    ],
)
def test_bad_corrections_change_nothing(call: Any, message: str) -> None:
    opt = told(box(), ROWS)
    before = opt.history
    with pytest.raises((TypeError, ValueError), match=message):
        call(opt)
    assert opt.history == before


def test_a_result_is_retracted_once() -> None:
    opt = told(box(), ROWS)
    first: Result = opt.results[0]
    opt.retract(first)
    with pytest.raises(ValueError, match="result 0 is not one of this optimizer's, or has been retracted"):
        opt.retract(first)
    general = Optimizer(robos.X, robos.C, ambiguity=Expectation(), setting=General(), surrogate=GP(KERNEL, 0.1))
    s = general.ask(reference=robos.REFERENCE, radius=0.0)
    general.tell(s, 1.0, context_index=0)
    general.retract(0)
    with pytest.raises(ValueError, match="suggestion 0 has been told or cancelled already"):
        general.tell(s, 1.0, context_index=0)
