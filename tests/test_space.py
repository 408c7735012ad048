"""Finite sets of points."""

import numpy as np
import pytest

from drbo.space import FiniteSet


def test_points_are_found_by_value() -> None:
    grid = FiniteSet("contexts", np.linspace(0, 1, 11))
    for i, point in enumerate(grid.points):
        assert grid.index_of(point) == i
        assert grid.index_of(point[0]) == i
        assert grid.index_of(point + 1e-11) == i


def test_the_first_of_repeated_points_is_found() -> None:
    assert FiniteSet("contexts", [[0.0, 1.0], [2.0, 3.0], [2.0, 3.0]]).index_of([2.0, 3.0]) == 1


def test_a_large_offset_does_not_merge_points() -> None:
    points = 1e6 + np.linspace(0, 1e-2, 5)
    grid = FiniteSet("contexts", points)
    assert [grid.index_of(p) for p in points] == [0, 1, 2, 3, 4]


def test_points_cannot_be_changed_from_outside() -> None:
    given = np.zeros((2, 1))
    grid = FiniteSet("actions", given)
    given[0] = 5.0
    assert grid.points[0, 0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        grid.points[0] = 1.0


def test_errors_name_the_set() -> None:
    with pytest.raises(ValueError, match=r"contexts holds no point \[0.05\]; the nearest one is \[0.0\]"):
        FiniteSet("contexts", [0.0, 1.0]).index_of(0.05)


def test_large_coordinates_do_not_widen_the_match() -> None:
    seconds = 1.7e9 + np.arange(3.0)
    with pytest.raises(ValueError, match="holds no point"):
        FiniteSet("contexts", seconds).index_of(seconds[0] + 0.5)


def test_an_exact_match_wins_over_a_near_one() -> None:
    assert FiniteSet("contexts", [[0.0, 0.0], [5e-4, 0.0], [1e6, 1.0]]).index_of([5e-4, 0.0]) == 1
