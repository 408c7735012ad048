"""A range of outcomes that was declared before them cuts every stated bound, and changes nothing else."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drbo import GP, RBF, AtMost, Box, Optimizer, Product, Samples, Simulator
from drbo.report import write

ACTIONS, CONTEXTS = np.linspace(0.0, 1.0, 5), np.linspace(0.0, 1.0, 4)


def cost(x: float, c: float) -> float:
    return (x - 0.4) ** 2 + 0.1 * c * x + 0.01


def run(n: int, **arguments: Any) -> Optimizer:
    """A minimised cost after n evaluations, few enough that the model's bounds leave the possible range."""
    opt = Optimizer(
        ACTIONS,
        CONTEXTS,
        setting=Simulator(np.ones(4), radius=0.2, pick="uncertain"),
        surrogate=GP(Product(RBF(0.3), RBF(0.5)), 0.05),
        maximize=False,
        **arguments,
    )
    for i in range(n):
        x, j = float(ACTIONS[2 * i % 5]), (3 * i) % 4
        opt.tell(x, cost(x, float(CONTEXTS[j])), context_index=j)
    return opt


def test_stated_numbers_are_those_without_a_range_cut_at_it() -> None:
    free, cut = run(3), run(3, outcome_range=(0.0, 1.5))
    for x in ACTIONS:
        a, b = free.bound(x), cut.bound(x)
        assert b.value == min(a.value, 1.5)
        assert b.trust.guess == min(max(a.trust.guess, 0.0), 1.5)
        explained = b.explain()
        assert explained.expected == min(max(a.explain().expected, 0.0), 1.5)
        parts = explained.shift + explained.ignorance + explained.left_open + explained.untried
        assert parts == pytest.approx(explained.value - explained.expected, abs=1e-12)
        assert min(explained.shift, explained.ignorance, explained.left_open, explained.untried) >= 0.0
        for c in CONTEXTS:
            p, q = free.predict(x, c), cut.predict(x, c)
            assert (q.lower, q.upper, q.mean) == tuple(np.clip([p.lower, p.upper, p.mean], 0.0, 1.5))
            assert q.std == p.std
    assert any(free.predict(x, c).lower < 0.0 for x in ACTIONS for c in CONTEXTS)  # the range cuts something


def test_regret_profile_narrowing_and_comparison_are_cut() -> None:
    free, cut = run(3), run(3, outcome_range=(0.0, None))
    a, b = free.under().regret_bound(), cut.under().regret_bound()
    assert a.reachable < 0.0 == b.reachable
    assert b.value == pytest.approx(b.bound, rel=1e-12)  # no other cost is below 0
    radii = [0.0, 0.2, 0.6]
    p, q = free.under().profile(radii), cut.under().profile(radii)
    assert np.array_equal(q.bound, np.maximum(p.bound, 0.0))
    assert (q.price >= 0.0).all()
    n = cut.under().narrowing(cut.recommend().action)
    assert min(n.bound.min(), n.optimistic.min()) >= 0.0
    both = run(3, outcome_range=(0.0, 1.5)).under().compare(0.0, 1.0)
    assert max(abs(v) for v in (both.expected, both.lower, both.upper, both.worst)) <= 1.5
    risk = cut.under().value_at_risk(0.5, 0.1)
    assert min(risk.value, risk.reachable) >= 0.0
    assert cut.under().probability(0.5, below=-0.1).upper == 0.0
    assert cut.under().probability(0.5, above=-0.1).lower == 1.0


def test_the_range_says_something_before_the_first_outcome() -> None:
    opt = Optimizer([0.0, 1.0], [0.0, 1.0], setting=Simulator([1, 1], 0.1), outcome_range=(-1.0, 4.0))
    assert opt.bound(0.0).value == -1.0
    predicted = opt.predict(0.0, 0.0)
    assert (predicted.lower, predicted.upper) == (-1.0, 4.0)
    assert math.isnan(predicted.mean)
    assert opt.under().regret_bound().value == 5.0


def test_suggestions_do_not_depend_on_the_range() -> None:
    free, cut = run(2), run(2, outcome_range=(0.0, None))
    for _ in range(4):
        a, b = free.ask(), cut.ask()
        assert (a.action_index, a.context_index, a.score) == (b.action_index, b.context_index, b.score)
        y = cost(float(a.action[0]), float(a.context[0]))
        free.tell(a, y)
        cut.tell(b, y)
    assert free.recommend_iterate().action_index == cut.recommend_iterate().action_index


def test_outcomes_outside_are_refused_and_leave_no_trace() -> None:
    opt = run(2, outcome_range=(0.0, None))
    with pytest.raises(ValueError, match=r"outcome must lie in the outcome_range, at least 0, got -0.5: correct"):
        opt.tell(0.0, -0.5, context_index=0)
    with pytest.raises(ValueError, match="outcome_range"):
        opt.amend(0, -1.0)
    with pytest.raises(ValueError, match="outcome_range"):
        opt.tell(0.0, [1.0, -1.0], contexts=CONTEXTS[:2])
    with pytest.raises(ValueError, match=r"records are inconsistent: outcome must lie"):
        opt.replay(run_with_negative().records())
    assert opt.n_told == 2
    opt.tell(0.0, 0.0, context_index=0)  # an end of the range is in it


def run_with_negative() -> Optimizer:
    opt = run(1)
    opt.tell(0.0, -0.5, context_index=0)
    return opt


def test_the_range_is_saved(tmp_path: Path) -> None:
    opt = run(3, outcome_range=(0.0, None), outcome="cost", unit="EUR")
    opt.save(tmp_path / "run.json")
    again = Optimizer.load(tmp_path / "run.json")
    assert again.configuration.arguments["outcome_range"] == (0.0, None)
    assert again.recommend().value == opt.recommend().value


def test_rows_of_a_log_are_checked() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": [0.0, 1.0, 0.5], "c": [0.0, 1.0, 0.5], "cost": [1.0, 2.0, -3.0]})
    with pytest.raises(ValueError, match=r"row 2: outcome must lie in the outcome_range, from 0 to 5, got -3"):
        Optimizer.from_frame(frame, ["x"], ["c"], "cost", radius=0.1, maximize=False, outcome_range=(0.0, 5.0))
    opt = Optimizer.from_frame(frame[:2], ["x"], ["c"], "cost", radius=0.1, maximize=False, outcome_range=(0.0, 5.0))
    with pytest.raises(ValueError, match="outcome_range"):
        opt.append(frame[2:])
    assert opt.recommend().value <= 5.0


def test_a_known_part_counts() -> None:
    """The range is that of the outcome, not of the part that is learned."""
    opt = Optimizer(
        Box(x=(0.0, 1.0)),
        Samples({"c": [0.0, 0.5, 1.0]}),
        setting=Simulator(radius=0.1),
        maximize=False,
        known=lambda action, context: 10.0 + action["x"] + 0.0 * context["c"],
        outcome_range=(10.0, 13.0),
    )
    for i in range(4):
        opt.tell({"x": i / 3.0}, 10.2 + i / 3.0, context={"c": 0.5})
    predicted = opt.predict({"x": 0.3}, {"c": 0.0})
    assert 10.0 <= predicted.lower <= predicted.mean <= predicted.upper <= 13.0
    assert 10.0 <= opt.recommend().value <= 13.0


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ((1.0, 0.0), "low end below"),
        ((0.0, 0.0), "low end below"),
        ((None, None), "must be a pair"),
        (0.0, "must be a pair"),
        ((0.0, math.inf), r"outcome_range\[1\] must be"),
        (("a", 1.0), r"outcome_range\[0\] must be"),
        ((0.0, 1.0, 2.0), "must be a pair"),
    ],
)
def test_wrong_ranges_are_refused(given: Any, error: str) -> None:
    with pytest.raises((TypeError, ValueError), match=error):
        run(0, outcome_range=given)


def test_a_limit_of_the_objective_lies_in_the_range() -> None:
    with pytest.raises(ValueError, match=r"limits\['cost'\] must lie in the outcome_range, from 0 to 5, got at most 9"):
        run(0, outcome="cost", limits={"cost": AtMost(9.0)}, outcome_range=(0.0, 5.0))
    opt = run(6, outcome="cost", limits={"cost": AtMost(0.9), "peak": AtMost(1.0)}, outcome_range=(0.0, 1.0))
    assert 0.0 <= opt.bound(0.5).limits["cost"].value <= 1.0
    assert opt.bound(0.5).limits["peak"].value > 1.0  # other outcomes have no range


def test_the_page_of_a_run_with_a_range(tmp_path: Path) -> None:
    write(run(4, outcome_range=(0.0, None), outcome="cost", unit="EUR"), tmp_path / "run.html")
