"""The course of a run."""

import math

import numpy as np
import pytest

import drbo
from drbo.analysis.course import course

GRID = np.linspace(0.0, 1.0, 5)


@pytest.mark.parametrize("maximize", [True, False])
def test_the_course_is_that_of_results_and_proposals(maximize: bool) -> None:
    opt = drbo.Optimizer(
        GRID,
        GRID,
        setting=drbo.Simulator(np.full(5, 0.2), 0.1),
        surrogate=drbo.GP(drbo.Product(drbo.RBF(0.3), drbo.RBF(0.3)), 0.1),
        maximize=maximize,
    )
    opt.tell([0.5], 3.0, context=[0.5])  # nobody asked for it
    for i in range(6):
        s = opt.ask()
        opt.tell(s, **({"failed": True} if i == 2 else {"outcome": float(i)}))
    pair = opt.ask(n_contexts=2)
    opt.tell(pair, [1.0, 2.0])  # one result, two outcomes
    steps = course(opt)
    assert [step.evaluation for step in steps] == list(range(1, 10))
    assert [step.outcome for step in steps] == [result.outcome for result in opt.results]
    assert [step.failed for step in steps] == [result.failed for result in opt.results]
    proposals = [p for fact in opt.history if isinstance(fact, drbo.optimizer.history.Asked) for p in fact.proposals]
    assert math.isnan(steps[0].guarantee)
    assert math.isnan(steps[0].best)
    expected = [*(p.guarantee for p in proposals), proposals[-1].guarantee]
    assert [step.guarantee for step in steps[1:]] == expected
    assert [step.optimistic for step in steps[1:]] == [*(p.score for p in proposals), proposals[-1].score]
    best = (np.maximum if maximize else np.minimum).accumulate(expected)
    assert [step.best for step in steps[1:]] == best.tolist()


def test_nothing_told_has_no_course() -> None:
    opt = drbo.Optimizer(GRID, GRID, setting=drbo.Simulator(np.full(5, 0.2), 0.1))
    assert course(opt) == ()
    opt.tell(opt.ask(), 1.0)  # the model had not learned its units when that was asked
    (step,) = course(opt)
    assert math.isnan(step.best)
