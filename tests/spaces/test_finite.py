"""Finite sets of points: found by value, by index, and in the unit cube."""

import numpy as np
import pytest

from drbo.spaces import FiniteSet, Point
from tolerances import ROUNDING


def test_points_are_found_by_value() -> None:
    grid = FiniteSet("contexts", np.linspace(0, 1, 11))
    for i, point in enumerate(grid.points):
        for given in (point, point[0], point + 1e-11):
            found = grid.encode("context", given)
            assert found.index == i
            np.testing.assert_array_equal(found.coordinates, point)
            np.testing.assert_array_equal(grid.decode(found), point)


def test_the_first_of_repeated_points_is_found() -> None:
    assert FiniteSet("contexts", [[0.0, 1.0], [2.0, 3.0], [2.0, 3.0]]).encode("context", [2.0, 3.0]).index == 1


def test_a_large_offset_does_not_merge_points() -> None:
    points = 1e6 + np.linspace(0, 1e-2, 5)
    grid = FiniteSet("contexts", points)
    assert [grid.encode("context", p).index for p in points] == [0, 1, 2, 3, 4]


def test_points_cannot_be_changed_from_outside() -> None:
    given = np.zeros((2, 1))
    grid = FiniteSet("actions", given)
    given[0] = 5.0
    assert grid.points[0, 0] == 0.0
    for held in (grid, grid.in_unit_cube()):
        with pytest.raises(ValueError, match="read-only"):
            held.points[0] = 1.0
        with pytest.raises(ValueError, match="read-only"):
            held.coordinates[0] = 1.0


def test_errors_name_the_set() -> None:
    with pytest.raises(
        ValueError, match=r"context must be one of the contexts, got \[0.05\]; the nearest one is \[0.0\]"
    ):
        FiniteSet("contexts", [0.0, 1.0]).encode("context", 0.05)
    with pytest.raises(ValueError, match=r"context must be a point of 1 dimension\(s\), got \[0.0, 1.0\]"):
        FiniteSet("contexts", [0.0, 1.0]).encode("context", [0.0, 1.0])


def test_large_coordinates_do_not_widen_the_match() -> None:
    seconds = 1.7e9 + np.arange(3.0)
    with pytest.raises(ValueError, match="must be one of the"):
        FiniteSet("contexts", seconds).encode("context", seconds[0] + 0.5)


def test_an_exact_match_wins_over_a_near_one() -> None:
    grid = FiniteSet("contexts", [[0.0, 0.0], [5e-4, 0.0], [1e6, 1.0]])
    assert grid.encode("context", [5e-4, 0.0]).index == 1


def test_points_are_found_by_index() -> None:
    grid = FiniteSet("contexts", [[0.0, 4.0], [1.0, 8.0]])
    assert grid.at("context_index", np.int64(1)).same_as(grid.encode("context", [1.0, 8.0]))
    assert not grid.at("context_index", 0).same_as(grid.at("context_index", 1))
    with pytest.raises(ValueError, match="context_index must be from 0 to 1, got 2"):
        grid.at("context_index", 2)
    with pytest.raises(ValueError, match="context_index must be from 0 to 1, got -1"):
        grid.at("context_index", -1)
    for wrong in (1.0, True, "1"):
        with pytest.raises(TypeError, match="context_index must be a whole number"):
            grid.at("context_index", wrong)


def test_the_unit_cube_changes_the_coordinates_and_nothing_else() -> None:
    plain = FiniteSet("contexts", [[-3.0, 5.0, 0.0], [7.0, 5.0, 1.0], [2.0, 5.0, 0.5]])
    cube = plain.in_unit_cube()
    np.testing.assert_allclose(cube.coordinates, [[0.0, 0.0, 0.0], [1.0, 0.0, 1.0], [0.5, 0.0, 0.5]])
    np.testing.assert_array_equal(plain.coordinates, plain.points)
    np.testing.assert_array_equal(cube.points, plain.points)
    np.testing.assert_array_equal(cube.scales, [10.0, 1.0, 1.0])  # a column of one value counts as one unit wide
    for i, value in enumerate(plain.points):
        found = cube.encode("context", value)
        assert found.index == i
        np.testing.assert_array_equal(found.coordinates, cube.coordinates[i])
        np.testing.assert_array_equal(cube.decode(found), value)


@pytest.mark.parametrize("in_cube", [False, True])
def test_distances_are_in_the_units_of_the_points(in_cube: bool) -> None:
    grid = FiniteSet("contexts", [[-3.0, 5.0], [7.0, 9.0], [0.1, 5.7]])
    grid = grid.in_unit_cube() if in_cube else grid
    np.testing.assert_array_equal(grid.measured(grid.coordinates), grid.points)  # to the last bit
    np.testing.assert_allclose(grid.measured(grid.coordinates[1:]), grid.points[1:], rtol=ROUNDING)
    halves = np.array([[0.5, 0.25]])
    np.testing.assert_allclose(grid.widths(halves), halves * grid.units)
    np.testing.assert_array_equal(grid.units, [10.0, 4.0] if in_cube else [1.0, 1.0])


def test_points_of_two_processes_are_the_same() -> None:
    assert Point(np.array([0.1, 0.2]), 3).same_as(Point(np.array([0.1, 0.2]), 3))
    assert not Point(np.array([0.1, 0.2])).same_as(Point(np.array([0.1, 0.2]), 3))
    assert not Point(np.array([0.1, 0.2])).same_as(Point(np.array([0.1, 0.3])))
