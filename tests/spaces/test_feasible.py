"""Points inside of constraints: against arithmetic on the user's values, exact moments, and brute force."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

from drbo import AtMostActive, Box, Categorical, Integer, LinearConstraint, Log, Total
from drbo.spaces import Point
from spaces.polytopes import random_box, violation
from tolerances import CLOSED_FORM, STANDARD_ERRORS


def check(box: Box, points: np.ndarray) -> None:
    """Every point is an action of the box that breaks no constraint."""
    assert box.permits(points).all()
    assert max((violation(box, box.decode(Point(point))) for point in points), default=0.0) <= 1e-9


def suggestions(box: Box, count: int, seed: int) -> None:
    """Check samples, moves, and what takes the place of infeasible actions; about `count` of each."""
    assert box.feasible is not None
    rng = np.random.default_rng(seed)
    points = box.sample(count, seed)
    check(box, points)
    targets = np.where(box.continuous, rng.random(points.shape), points)
    check(box, box.inside(points, targets))
    some = Box(box.parameters).sample(max(count // 50, 1), seed)  # most of them are infeasible
    check(box, box.feasible.nearest(some))
    check(box, box.feasible.elsewhere(points[0]))
    check(box, box.feasible.neighbours(points[0]))


@pytest.mark.parametrize("seed", range(20))
def test_no_suggestion_breaks_a_constraint(seed: int) -> None:
    suggestions(random_box(seed), 60, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_none_of_many_suggestions_breaks_a_constraint(seed: int) -> None:
    """100,000 over 20 polytopes."""
    box = random_box(seed)
    for part in range(5):
        suggestions(box, 500, 100 * seed + part)


def test_the_check_would_notice() -> None:
    box = Box(a=(0.0, 1.0), b=(0.0, 1.0), constraints=[Total("a", "b", equals=1.0)])
    assert violation(box, {"a": 0.5, "b": 0.5 + 1e-8}) > 1e-9
    assert not box.permits(np.array([[0.5, 0.5 + 1e-8]]))[0]
    assert box.permits(np.array([[0.5, 0.5]]))[0]


@pytest.mark.parametrize("d", [2, 5])
def test_samples_are_uniform_on_a_simplex(d: int) -> None:
    """The coordinates of a uniform point of the simplex have mean 1/d and variance (d - 1) / (d^2 (d + 1))."""
    names = [f"x{i}" for i in range(d)]
    points = Box(dict.fromkeys(names, (0.0, 1.0)), constraints=[Total(*names, equals=1.0)]).sample(4096, 1)
    variance = (d - 1) / (d**2 * (d + 1))
    error = math.sqrt(variance / 512)  # walks from the same start are not independent
    assert points.sum(axis=1) == pytest.approx(np.ones(4096), abs=CLOSED_FORM)
    assert np.abs(points.mean(axis=0) - 1 / d).max() < STANDARD_ERRORS * error
    assert points.var(axis=0) == pytest.approx(np.full(d, variance), rel=0.25)


def test_a_constraint_on_some_parameters_leaves_the_others_well_spread() -> None:
    limit = [LinearConstraint({"a": 1, "b": 1}, at_most=0.5)]
    points = Box(a=(0.0, 1.0), b=(0.0, 1.0), c=(0.0, 1.0), constraints=limit).sample(512, 3)
    free = Box(a=(0.0, 1.0), b=(0.0, 1.0), c=(0.0, 1.0)).sample(512, 3)
    np.testing.assert_array_equal(points[:, 2], free[:, 2])
    cells = np.histogram2d(points[:, 0], points[:, 1], bins=4, range=[[0.0, 0.5], [0.0, 0.5]])[0]
    assert cells[0, 0] / len(points) == pytest.approx(1 / 8, abs=0.06)  # of the triangle
    assert cells[3, 3] == 0


def test_every_combination_of_whole_numbers_that_is_possible_occurs() -> None:
    """All assignments of a small problem by brute force: 3 n + m + x = 7 with x from 0 to 1."""
    one = LinearConstraint({"n": 3, "m": 1, "x": 1}, equals=7.0)
    box = Box(n=Integer(0, 4), m=Integer(0, 5), x=(0.0, 1.0), constraints=[one])
    possible = {(n, m) for n in range(5) for m in range(6) if 0.0 <= 7 - 3 * n - m <= 1.0}
    drawn = [box.decode(Point(point)) for point in box.sample(512, 0)]
    assert {(action["n"], action["m"]) for action in drawn} == possible
    check(box, box.sample(512, 0))


def test_all_patterns_of_zeros_occur() -> None:
    names = [f"x{i}" for i in range(5)]
    box = Box(dict.fromkeys(names, (-0.3, 0.7)), constraints=[AtMostActive(*names, count=2)])
    drawn = [box.decode(Point(point)) for point in box.sample(512, 0)]
    patterns = {tuple(name for name in names if action[name] != 0.0) for action in drawn}
    assert patterns == set(itertools.combinations(names, 2))  # zeros are exact


def test_many_whole_numbers_and_zeros_are_spread_by_integer_programs() -> None:
    names = [f"n{i}" for i in range(8)]
    limits = [Total(*names, equals=40), AtMostActive(*names, count=5)]
    box = Box(dict.fromkeys(names, Integer(0, 20)), constraints=limits)
    points = box.sample(512, 0)
    check(box, points)
    assert len(np.unique(points, axis=0)) > 200
    assert (points.max(axis=0) > 0.4).all()


def test_a_flat_feasible_set_is_walked_in_its_own_directions() -> None:
    """x >= y and y >= x leave a line, on which every point has the same chance."""
    both = [LinearConstraint({"x": 1, "y": -1}, at_least=0.0), LinearConstraint({"y": 1, "x": -1}, at_least=0.0)]
    box = Box(x=(0.0, 1.0), y=(0.0, 1.0), constraints=both)
    points = box.sample(512, 0)
    check(box, points)
    assert points[:, 0].std() == pytest.approx(1 / math.sqrt(12), rel=0.15)
    corner = Box(x=(0.0, 1.0), y=(0.0, 1.0), z=(0.0, 1.0), constraints=[Total("x", "y", at_least=2.0)])
    np.testing.assert_allclose(corner.sample(8, 0)[:, :2], 1.0, atol=1e-9)


def test_logarithmic_parameters_in_inequalities() -> None:
    box = Box(a=Log(1e-3, 1e3), b=Log(1e-3, 1e3), constraints=[LinearConstraint({"a": 1, "b": 2}, at_most=5.0)])
    points = box.sample(512, 0)
    check(box, points)
    assert (np.histogram(points[:, 0], bins=4, range=(0.0, 0.6))[0] > 40).all()  # uniform on the scale


def test_a_function_of_the_action() -> None:
    def fits(action: dict[str, Any]) -> bool:
        return bool(action["a"] * action["b"] <= 10.0 and (action["k"] == "u" or action["a"] < 1.0))

    box = Box(a=(0.0, 10.0), b=(0.0, 10.0), k=Categorical("u", "v"), constraints=[fits])
    points = box.sample(512, 0)
    check(box, points)
    assert {box.decode(Point(point))["k"] for point in points} == {"u", "v"}
    check(box, box.inside(points, np.where(box.continuous, 1.0 - points, points)))


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_units_do_not_matter(scale: float) -> None:
    one = [Total("a", "b", "c", equals=scale)]
    box = Box(a=(0.0, scale), b=(0.0, scale), c=(0.0, 2.0 * scale), constraints=one)
    check(box, box.sample(256, 0))


def test_moves_end_at_the_first_constraint() -> None:
    box = Box(x=(0.0, 1.0), y=(0.0, 1.0), constraints=[Total("x", "y", at_most=1.0)])
    reached = box.inside(np.array([[0.2, 0.2], [0.2, 0.2]]), np.array([[1.0, 1.0], [0.3, 0.4]]))
    np.testing.assert_allclose(reached, [[0.5, 0.5], [0.3, 0.4]], atol=1e-9)
    assert box.feasible is not None
    np.testing.assert_allclose(box.feasible.nearest(np.array([[0.9, 0.9]])).sum(), 1.0, atol=1e-8)
    same = np.array([[0.3, 0.4]])
    np.testing.assert_array_equal(box.feasible.nearest(same), same)  # a feasible point keeps its bits


def test_completed_actions_keep_the_named_parameters() -> None:
    box = Box(a=(0.0, 1.0), b=(0.0, 1.0), c=(0.0, 1.0), constraints=[Total("a", "b", "c", equals=1.0)])
    moved = box.completed([{"a": 0.6, "b": 0.3, "c": 0.3}, {"a": 1.0, "b": 0.9, "c": 0.1}], ["a"])
    assert moved[0] == pytest.approx({"a": 0.6, "b": 0.2, "c": 0.2})
    assert moved[1] is None  # it would need a negative c
    assert Box(a=(0.0, 1.0)).completed([{"a": 0.2}], ["a"]) == [{"a": 0.2}]
