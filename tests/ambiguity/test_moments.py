"""Means within given numbers of the reference's."""

from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

from drbo import Box, Categorical, Log, Moments
from drbo.ambiguity.moments import PlacedMoments
from drbo.spaces.space import columns_of
from tolerances import SOLVER

CONTEXTS = np.random.default_rng(0).normal([10.0, 0.5], [8.0, 0.2], size=(25, 2))


def test_the_worst_case_is_that_of_the_linear_program() -> None:
    rng = np.random.default_rng(1)
    ambiguity = Moments([2.0, 0.05]).on(CONTEXTS)
    for radius in (0.0, 0.3, 1.0, 4.0):
        p, v = rng.dirichlet(np.ones(25)), rng.normal(size=25)
        reach, rows = radius * np.array([2.0, 0.05]), (CONTEXTS - p @ CONTEXTS).T
        oracle = linprog(v, np.vstack([rows, -rows]), np.append(reach, reach) + 1e-12, np.ones((1, 25)), [1.0])
        worst = ambiguity.worst_case(v, p, radius)
        assert worst.expectation == pytest.approx(oracle.fun, abs=10 * SOLVER)
        shift = np.abs((worst.weights - p) @ CONTEXTS)
        assert (shift <= reach + 1e-12).all()
        assert ambiguity.distance(worst.weights, p) == pytest.approx((shift / [2.0, 0.05]).max(), abs=1e-9)


def test_two_points_by_hand() -> None:
    """From 0 and 10, the mean 5 may move to 3 at radius 1: the weight of 0 is then 0.7."""
    worst = Moments(2.0).on([[0.0], [10.0]]).worst_case([0.0, 1.0], [0.5, 0.5], 1.0)
    np.testing.assert_allclose(worst.weights, [0.7, 0.3])
    assert worst.lower_bound == pytest.approx(0.3)


def test_columns_by_name_by_place_and_logarithmic() -> None:
    box = Box({"out door": (-10.0, 30.0)}, price=Log(1.0, 100.0), season=Categorical("winter", "summer"))
    points = box.measured(np.array([[0.5, 0.5, 1.0, 0.0], [1.0, 1.0, 0.0, 1.0]]))
    placed = PlacedMoments(Moments({"out door": 2.0}, price=5.0).with_columns(box.columns), points)
    np.testing.assert_allclose(placed.features, [[10.0, 10.0], [30.0, 100.0]])  # prices, not their logarithms
    one = Moments([np.inf, 3.0]).on([[1.0, 2.0], [3.0, 5.0]])
    assert isinstance(one, PlacedMoments)
    np.testing.assert_allclose(one.features, [[2.0], [5.0]])


def test_the_price_of_a_logarithmic_column_bounds_every_cell() -> None:
    box = Box(price=Log(1.0, 100.0))
    points = box.measured(np.linspace(0.0, 1.0, 5)[:, None])
    placed = PlacedMoments(Moments(price=5.0).with_columns(box.columns), points)
    rng = np.random.default_rng(0)
    for y in (-1.5, 0.7):
        centre, half = rng.uniform(0.0, 4.0, (1, 1)), np.array([[0.5]])
        inside = centre + half * rng.uniform(-1.0, 1.0, (500, 1))
        level, slope = placed.ceiling(centre, half, np.array([y]))
        exact, _ = placed.ceiling(inside, np.zeros_like(inside), np.array([y]))
        assert (exact <= level + (inside - centre)[:, 0] * slope[0, 0] + 1e-9).all()
        np.testing.assert_allclose(exact, y * np.exp(inside[:, 0]))


def words(moments: Moments, radius: float, **columns: tuple[float, float]) -> str:
    box = Box(columns)
    return moments.with_columns(box.columns).on(box.measured(box.sample(3, seed=0))).words(radius)


def test_words() -> None:
    outdoor = words(Moments(outdoor=2.0), 1.0, outdoor=(0.0, 9.0))
    assert outdoor == "whose mean outdoor is within 2 of the reference's"
    assert Moments(2.0).on([[0.0], [1.0]]).words(0.5) == "whose mean is within 1 of the reference's"
    assert words(Moments(a=2.0, b=0.1), 1.0, a=(0.0, 9.0), b=(0.0, 1.0)) == (
        "whose mean a is within 2 of the reference's and mean b is within 0.1 of the reference's"
    )
    assert repr(Moments(outdoor=2.0)) == "Moments(outdoor=2)"


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Moments(), TypeError, "Moments needs the width of a column"),
        (lambda: Moments([np.inf]), TypeError, "Moments needs the width of a column"),
        (
            lambda: Moments(outdoor=0.0),
            ValueError,
            r"Moments\['outdoor'\] must be positive; for equal means use radius=0",
        ),
        (lambda: Moments(outdoor=-1.0), ValueError, r"Moments\['outdoor'\] must be zero or more"),
        (lambda: Moments(2.0, outdoor=1.0), TypeError, "either names or plain numbers"),
        (lambda: Moments({"a": 1.0}, a=2.0), TypeError, "each column once"),
        (lambda: Moments(outdoor=2.0).on(CONTEXTS), ValueError, "names the column 'outdoor', .* have no names"),
        (lambda: Moments(2.0).on(CONTEXTS), ValueError, "one width per column, which are column 0, column 1"),
        (lambda: Moments(2.0).worst_case([0.0, 1.0], [0.5, 0.5], 1.0), TypeError, "has no contexts yet"),
        (
            lambda: Moments(age=2.0).with_columns(Box(age=Categorical("a", "b")).columns),
            ValueError,
            "age holds labels: use drbo.Shares",
        ),
        (lambda: Moments(x=1.0).with_columns(Box(age=(0.0, 1.0)).columns), ValueError, "they are age"),
    ],
)
def test_mistakes(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_a_column_that_does_not_vary_is_no_constraint() -> None:
    contexts = np.stack([np.linspace(0.0, 1.0, 5), np.full(5, 293.15)], axis=1)
    worst = Moments([10.0, 1e-6]).on(contexts).worst_case(np.arange(5.0), np.full(5, 0.2), 1.0)
    assert worst.expectation == 0.0
    assert columns_of(contexts)[1].step == pytest.approx(0.0, abs=1e-12)
