"""Wasserstein sets of order infinity: every day moves by at most the radius."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

import drbo
from drbo.ambiguity import sensitivity
from tolerances import CLOSED_FORM, SOLVER


def by_linear_program(values: Any, reference: Any, cost: Any, radius: float) -> float:
    """The worst case as a linear program over plans that move no mass further than the radius."""
    n = len(values)
    rows = np.kron(np.eye(n), np.ones(n))
    found: Any = linprog(
        np.tile(values, n), A_eq=rows, b_eq=reference, bounds=[(0, None if d <= radius else 0) for d in cost.ravel()]
    )
    return float(found.fun)


def least_reach(p: Any, q: Any, cost: Any) -> float:
    """The distance by brute force: the least entry of D within which a plan exists."""
    n = len(p)
    sums = np.vstack([np.kron(np.eye(n), np.ones(n)), np.kron(np.ones(n), np.eye(n))])
    for radius in np.unique(cost):
        ends = [(0, None if d <= radius else 0) for d in cost.ravel()]
        if linprog(np.zeros(n * n), A_eq=sums, b_eq=np.append(q, p), bounds=ends).status == 0:
            return float(radius)
    raise AssertionError


@pytest.mark.parametrize("seed", range(4))
def test_worst_cases_and_distances_are_those_of_a_linear_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    contexts, values = rng.random((7, 2)), rng.normal(size=(3, 7))
    reference = rng.dirichlet(np.ones(7)) if seed % 2 else np.append(rng.dirichlet(np.ones(4)), [0.0] * 3)
    placed: Any = drbo.Wasserstein(order=math.inf, norm=[2.0, np.inf][seed // 2]).on(contexts)
    for radius in (0.0, 0.1, 0.3, 0.6, 2.0, math.inf):
        worst = placed.worst_case(values, reference, radius)
        for row, found in zip(values, worst.expectation, strict=True):
            expected = by_linear_program(row, reference, placed.cost, radius)
            assert found == pytest.approx(expected, abs=SOLVER)
        assert worst.gap == pytest.approx(0.0, abs=CLOSED_FORM)
        assert placed.distance(worst.weights[0], reference) <= radius + CLOSED_FORM
    other = rng.dirichlet(np.ones(7))
    assert placed.distance(other, reference) == pytest.approx(least_reach(other, reference, placed.cost))


def test_the_worst_case_is_the_literal_formula_and_a_step_function() -> None:
    contexts, values = np.array([0.0, 1.0, 3.0, 6.0]), np.array([5.0, 4.0, 2.0, 1.0])
    placed: Any = drbo.Wasserstein(order=math.inf).on(contexts)
    p = np.array([0.1, 0.2, 0.3, 0.4])
    for radius in (0.5, 0.999, 1.0, 2.0, 2.5, 3.0, 5.0, 6.0):
        literal = sum(
            p[i] * min(values[j] for j in range(4) if abs(contexts[i] - contexts[j]) <= radius) for i in range(4)
        )
        assert placed.worst_case(values, p, radius).expectation == pytest.approx(literal, abs=CLOSED_FORM)
    assert placed.worst_case(values, p, 2.1).expectation == placed.worst_case(values, p, 2.9).expectation
    assert placed.diameter(p) == 6.0
    with pytest.raises(TypeError, match="its worst case is a step function of the radius"):
        sensitivity(placed, values, p, 1.0)


def test_distances_that_are_not_symmetric() -> None:
    cost = np.array([[0.0, 1.0, 5.0], [9.0, 0.0, 1.0], [9.0, 9.0, 0.0]])
    family = drbo.Wasserstein(order=math.inf, cost=cost)
    p = np.array([0.5, 0.25, 0.25])
    worst = family.worst_case([3.0, 2.0, 1.0], p, 1.0)
    assert worst.weights == pytest.approx([0.0, 0.5, 0.5])
    assert family.distance(worst.weights, p) == 1.0
    again = drbo.knowledge.from_json(drbo.knowledge.to_json(family))
    assert again.worst_case([3.0, 2.0, 1.0], p, 1.0).expectation == worst.expectation


def test_rules_that_learn_the_radius_and_the_alarm_are_refused() -> None:
    rng = np.random.default_rng(0)
    days, family = drbo.Samples(rng.normal(size=60)), drbo.Wasserstein(order=math.inf)
    why = "One outlier decides the largest distance between two samples"
    for rule in (drbo.radius.Bootstrap(), drbo.radius.Calibrated(), drbo.radius.Theoretical()):
        with pytest.raises(TypeError, match=why):
            rule.for_samples(days, family)
        with pytest.raises(TypeError, match=why):
            drbo.Optimizer([0.0, 1.0], days, ambiguity=family, setting=drbo.Simulator(radius=rule))
    with pytest.raises(TypeError, match=why):
        drbo.Optimizer([0.0, 1.0], days, ambiguity=family, setting=drbo.DataDriven())
    with pytest.raises(TypeError, match=why):
        drbo.radius.Bootstrap().radius(np.array([0, 1, 1]), family.on([0.0, 1.0]), 2)
    opt = drbo.Optimizer([0.0, 1.0], days, ambiguity=family, setting=drbo.Simulator(radius=0.1))
    with pytest.raises(TypeError, match=why):
        opt.watch(rng.normal(size=5))
    drbo.Optimizer([0.0, 1.0], days, ambiguity=family, setting=drbo.DataDriven(radius=0.1))


def test_the_radius_in_words() -> None:
    days = drbo.Samples({"outdoor": [1.0, 2.0, 4.0, 5.0], "wet": ["no", "no", "yes", "no"]}, support=0)
    family = drbo.Wasserstein(order=math.inf, scale={"outdoor": 2.0, "wet": 1.0})
    told = drbo.explain_radius(0.5, days, family)
    assert "in which every day has moved by at most 0.5" in str(told)
    assert "a step function of the radius" in str(told)
    assert "windows" not in str(told)
    assert (told.shifts[0].lower, told.shifts[0].higher) == pytest.approx((1.0, 1.0))  # 0.5 steps of 2
    assert [one.share for one in told.relabelled] == [0.0, 0.0]
    ranged = drbo.Samples([1.0, 2.0], within=drbo.Box(x=(0.0, 3.0)))
    assert "step function" not in str(drbo.explain_radius(0.5, ranged, drbo.Wasserstein(order=math.inf)))


@pytest.mark.parametrize("order", [1.0, 2.0, math.inf])
def test_everything_moves_only_with_order_infinity(order: float) -> None:
    """Order 1 sends one day to the corner; order infinity moves every day by the radius."""
    line = np.linspace(0.0, 100.0, 101)
    placed: Any = drbo.Wasserstein(order=order).on(line)
    p, values = np.zeros(101), -(np.maximum(line - 40.0, 0.0) ** 3)  # far days are very bad
    p[10:20] = 0.1
    weights = placed.worst_case(values, p, 5.0).weights
    if math.isinf(order):
        assert np.flatnonzero(weights).tolist() == list(range(10, 20))  # nothing bad is in reach
    else:
        assert weights[-1] > 0.0
