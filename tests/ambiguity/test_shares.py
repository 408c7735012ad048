"""Bounds on the shares of groups."""

from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

from drbo import Box, Categorical, Integer, Ordinal, Shares
from drbo.ambiguity.shares import PlacedShares
from drbo.spaces import Labels, Point
from tolerances import SOLVER

BOX = Box(age=Categorical("young", "middle", "old"), region=Categorical("north", "south"), load=(0.0, 1.0))
RNG = np.random.default_rng(0)
POINTS = BOX.sample(40, seed=0)
ROWS = [BOX.decode(Point(coordinates)) for coordinates in POINTS]
P = RNG.dirichlet(np.ones(40))


def put(shares: Shares) -> PlacedShares:
    return PlacedShares(shares.with_columns(BOX.columns), BOX.measured(POINTS))


def having(column: str, label: str) -> Any:
    return np.array([row[column] == label for row in ROWS])


def test_a_share_shifts_and_the_groups_keep_their_inside() -> None:
    """By hand: the worst mixture has the largest share of the group of lower mean."""
    values, old = RNG.normal(size=40), having("age", "old")
    inside = P[old] / P[old].sum()
    others = P[~old] / P[~old].sum()
    means = inside @ values[old], others @ values[~old]
    share = 0.5 if means[0] < means[1] else 0.2
    worst = put(Shares(age={"old": (0.2, 0.5)})).worst_case(values, P, 0.0)
    assert worst.expectation == pytest.approx(share * means[0] + (1.0 - share) * means[1])
    np.testing.assert_allclose(worst.weights[old], share * inside)
    np.testing.assert_allclose(worst.weights[~old], (1.0 - share) * others)


@pytest.mark.parametrize("radius", [0.0, 0.1, 2.0])
@pytest.mark.parametrize("free", [False, True])
def test_several_columns_against_a_linear_program(free: bool, radius: float) -> None:
    shares = Shares(age={"old": (0.1, 0.3), "young": (0.2, 0.6)}, region={"north": 0.45}, free_inside=free)
    values = RNG.normal(size=40)
    worst = put(shares).worst_case(values, P, radius)
    old, young, north = having("age", "old"), having("age", "young"), having("region", "north")
    groups = np.stack([old, young, north]).astype(float)
    low, high = np.array([0.1, 0.2, 0.45]) - radius, np.array([0.3, 0.6, 0.45]) + radius
    cells = np.unique(groups.T, axis=0)
    if free:
        columns = np.eye(40)
    else:  # the reference inside each combination
        inside = [P * (cell == groups.T).all(axis=1) for cell in cells]
        columns = np.array([one / one.sum() for one in inside])
    A = groups @ columns.T
    oracle = linprog(columns @ values, np.vstack([A, -A]), np.append(high, -low), np.ones((1, len(columns))), [1.0])
    assert worst.expectation == pytest.approx(oracle.fun, abs=SOLVER)
    assert put(shares).distance(worst.weights, P) <= radius + 1e-9


def test_a_group_that_the_reference_does_not_show_is_free_inside() -> None:
    old = having("age", "old")
    p = np.where(old, 0.0, P)
    values = RNG.normal(size=40)
    worst = put(Shares(age={"old": 0.25})).worst_case(values, p / p.sum(), 0.0)
    lowest = np.flatnonzero(old)[np.argmin(values[old])]
    assert worst.weights[lowest] == pytest.approx(0.25)
    assert worst.expectation == pytest.approx(0.25 * values[lowest] + 0.75 * (p @ values) / p.sum())


def test_prices_of_further_contexts() -> None:
    """Nobody does harm in a group that keeps its inside; in one that the reference does not show, the lowest does."""
    values = RNG.normal(size=40)
    shares = put(Shares(age={"old": (0.2, 0.5)}))
    more, half = BOX.measured(POINTS[:20]), np.zeros((20, BOX.dimension))
    dual = shares.dual(values, P, 0.0, shares.worst_case(values, P, 0.0))
    assert dual is not None
    assert (dual.threshold(more, half)[0] == -np.inf).all()
    p = np.where(having("age", "old"), 0.0, P)
    p /= p.sum()
    worst = shares.worst_case(values, p, 0.0)
    dual = shares.dual(values, p, 0.0, worst)
    assert dual is not None
    assert dual.bound == pytest.approx(float(worst.expectation), abs=1e-9)
    threshold = dual.threshold(more, half)[0]
    assert (np.isfinite(threshold) == having("age", "old")[:20]).all()
    level = dual.threshold(more, np.full_like(half, 0.5))[0]  # a cell of all labels
    assert (level >= threshold[np.isfinite(threshold)].max() - 1e-12).all()
    lower = values.min() - 1.0
    wider = shares.extended(more).worst_case(np.append(values, np.full(20, lower)), np.append(p, np.zeros(20)), 0.0)
    assert wider.expectation >= dual.bound + min(0.0, float((lower - threshold).min())) - 1e-9


def test_labels_as_contexts_and_numbers_as_groups() -> None:
    for parameter in (Categorical("young", "old"), Ordinal("young", "old")):
        labels = Labels("contexts", parameter)
        placed = Shares(old=(0.2, 0.5)).with_columns(labels.columns).on(labels.points)
        np.testing.assert_allclose(placed.worst_case([1.0, 0.0], [0.9, 0.1], 0.0).weights, [0.5, 0.5])
        np.testing.assert_allclose(placed.worst_case([1.0, 0.0], [0.9, 0.1], 0.1).weights, [0.4, 0.6])
        np.testing.assert_allclose(placed.worst_case([0.0, 1.0], [0.9, 0.1], 0.0).weights, [0.8, 0.2])
    codes = Shares({3: (0.2, 0.5)}).on([[1.0], [3.0], [3.0]])
    np.testing.assert_allclose(codes.worst_case([1.0, 0.0, 0.0], [0.5, 0.1, 0.4], 0.0).weights, [0.5, 0.1, 0.4])
    stages = Shares(stages={2: 0.5}).with_columns(Box(stages=Integer(1, 3), load=(0.0, 1.0)).columns)
    assert PlacedShares(stages, np.array([[1.0, 0.5], [2.0, 0.5]])).features.tolist() == [[0.0], [1.0]]


def test_words() -> None:
    assert put(Shares(age={"old": (0.2, 0.5)})).words(0.0) == (
        "whose share of age = old is from 20.0% to 50.0%, with the reference's proportions inside each group"
    )
    assert put(Shares(age={"old": 0.3}, free_inside=True)).words(0.0) == "whose share of age = old is 30.0%"
    labels = Labels("contexts", Categorical("young", "old"))
    old = Shares(old=(0.2, 0.5), free_inside=True).with_columns(labels.columns).on(labels.points)
    assert old.words(0.3) == "whose share of old is from 0.0% to 80.0%"


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Shares(), TypeError, "needs the bounds of a group"),
        (lambda: Shares(old=(0.5, 0.2)), ValueError, "shares from 0 to 1, the least first"),
        (lambda: Shares(old=(0.2, 1.2)), ValueError, "shares from 0 to 1"),
        (lambda: Shares(old=(0.2, 0.3, 0.4)), TypeError, r"must be \(least, most\), or the share itself"),
        (lambda: Shares({"old": 0.2}, old=0.3), TypeError, "each name once, got old twice"),
        (
            lambda: put(Shares(old=0.5)),
            ValueError,
            r"needs the column of the groups, one of age, region, .*Shares\(\{'age': \{...\}\}\)",
        ),
        (lambda: put(Shares(age={"ancient": 0.5})), ValueError, "unknown group 'ancient' of age: .*'old'"),
        (lambda: put(Shares(sex={"f": 0.5})), ValueError, "names the column 'sex', .* they are age, region, load"),
        (lambda: put(Shares(age={"old": 0.6, "young": (0.5, 1.0)})), ValueError, "their bounds sum to 1.1 and 1.6"),
        (
            lambda: put(Shares(age={"old": 0.2, "young": 0.2, "middle": (0.0, 0.5)})),
            ValueError,
            "Shares of age must be able to sum to 1, but their bounds sum to 0.4 and 0.9",
        ),
        (
            lambda: Shares({3: 0.2}).on([[1.0], [2.0]]).worst_case([0.0, 1.0], [0.5, 0.5], 0.0),
            ValueError,
            "needs a context with column 0 = 3.0, whose share must be at least 0.2, but there is none",
        ),
        (
            lambda: Shares({1: (0.0, 0.3)}).on([[1.0], [1.0]]).worst_case([0.0, 1.0], [0.5, 0.5], 0.0),
            ValueError,
            "contradicts itself",
        ),
    ],
)
def test_mistakes(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
