"""The course of a run."""

import numpy as np
import pytest

import drbo
from drbo.report.plots import course

GRID = np.linspace(0.0, 1.0, 5)


@pytest.mark.parametrize("maximize", [True, False])
def test_the_course_is_that_of_results_and_of_the_recommended_action(maximize: bool) -> None:
    opt = drbo.Optimizer(
        GRID,
        GRID,
        setting=drbo.Simulator(np.full(5, 0.2), 0.1, pick="uncertain"),
        surrogate=drbo.GP(drbo.Product(drbo.RBF(0.3), drbo.RBF(0.3)), 0.1),
        maximize=maximize,
    )
    opt.tell([0.5], 3.0, context=[0.5])  # nobody asked for it
    for i in range(6):
        opt.tell(opt.ask(), **({"failed": True} if i == 2 else {"outcome": float(i)}))
    opt.tell(opt.ask(n_contexts=2), [1.0, 2.0])  # one result, two outcomes
    opt.tell(opt.ask(), 1.5)
    opt.ask(3)
    run = course(opt)
    np.testing.assert_array_equal(run.outcomes, [3.0, 0.0, 1.0, np.nan, 3.0, 4.0, 5.0, 1.0, 2.0, 1.5])
    assert run.failed.tolist() == [4]
    assert run.waiting.tolist() == [11, 12, 13]
    assert run.at.tolist() == [1, 2, 3, 4, 5, 6, 7, 9, 10]  # the two outcomes were told at once
    best, bounds = opt.recommend(), opt.under().narrowing(opt.recommend().action)
    assert run.recommended is not None
    assert run.recommended.action_index == best.action_index
    np.testing.assert_array_equal(run.bound, bounds.bound)
    np.testing.assert_array_equal(run.optimistic, bounds.optimistic)
    assert run.bound[-1] == best.value
    sign = 1.0 if maximize else -1.0
    assert (sign * (run.optimistic - run.bound) > 0.0).all()


def test_nothing_told_has_no_course() -> None:
    opt = drbo.Optimizer(GRID, GRID, setting=drbo.Simulator(np.full(5, 0.2), 0.1, pick="uncertain"))
    run = course(opt)
    assert run.recommended is None
    assert run.why_not == "no outcome has been told yet"
    assert run.outcomes.size == run.at.size == run.bound.size == run.failed.size == 0
    opt.tell(opt.ask(), failed=True)
    assert course(opt).recommended is None
    opt.tell(opt.ask(), 1.0)
    assert course(opt).at.tolist() == [1, 2]
