"""Finite sets of points, and boxes of named parameters."""

from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drbo.spaces.box import Box, Categorical, FiniteSet, Integer, Log


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
    with pytest.raises(
        ValueError, match=r"context must be one of the contexts, got \[0.05\]; the nearest one is \[0.0\]"
    ):
        FiniteSet("contexts", [0.0, 1.0]).index_of(0.05)


def test_large_coordinates_do_not_widen_the_match() -> None:
    seconds = 1.7e9 + np.arange(3.0)
    with pytest.raises(ValueError, match="must be one of the"):
        FiniteSet("contexts", seconds).index_of(seconds[0] + 0.5)


def test_an_exact_match_wins_over_a_near_one() -> None:
    assert FiniteSet("contexts", [[0.0, 0.0], [5e-4, 0.0], [1e6, 1.0]]).index_of([5e-4, 0.0]) == 1


BOX = Box(setpoint=(18.0, 24.0), gain=Log(1e-3, 1.0), stages=Integer(1, 4), mode=Categorical("eco", "boost"))


def test_a_box_maps_to_the_unit_cube_and_back() -> None:
    values = {"setpoint": 21.0, "gain": 1e-3, "stages": 2, "mode": "boost"}
    point = BOX.encode("action", values)
    np.testing.assert_allclose(point, [0.5, 0.0, 1 / 3, 0.0, 1.0])
    assert BOX.dimension == 5
    assert BOX.decode(point) == values
    assert BOX.continuous.tolist() == [True, True, False, False, False]


@given(st.floats(0, 1), st.floats(0, 1), st.integers(1, 4), st.sampled_from(["eco", "boost"]))
def test_decoded_values_are_legal_and_encode_to_themselves(a: float, b: float, stages: int, mode: str) -> None:
    point = np.array([a, b, (stages - 1) / 3, float(mode == "eco"), float(mode == "boost")])
    values = BOX.decode(point)
    assert 18.0 <= values["setpoint"] <= 24.0
    assert 1e-3 <= values["gain"] <= 1.0
    assert (values["stages"], values["mode"]) == (stages, mode)
    np.testing.assert_allclose(BOX.encode("action", values), point, atol=1e-12)


def test_every_combination_of_the_discrete_parameters() -> None:
    parts = BOX.discrete_parts()
    assert parts is not None
    assert {(BOX.decode(row)["stages"], BOX.decode(row)["mode"]) for row in parts} == {
        (n, m) for n in range(1, 5) for m in ("eco", "boost")
    }
    assert BOX.discrete_parts(most=7) is None
    free = Box(x=(0.0, 1.0)).discrete_parts()
    assert free is not None
    assert free.tolist() == [[0.0]]


def test_samples_are_spread_legal_and_reproducible() -> None:
    points = BOX.sample(100, seed=3)
    np.testing.assert_array_equal(points, BOX.sample(100, seed=3))
    for point in points:
        np.testing.assert_allclose(BOX.encode("action", BOX.decode(point)), point, atol=1e-9)
    assert {BOX.decode(point)["stages"] for point in points} == {1, 2, 3, 4}
    # A sign slip that samples outside the box, or a diagonal in place of a grid, would show here.
    assert np.histogram2d(points[:, 0], points[:, 1], bins=4, range=[[0, 1], [0, 1]])[0].min() >= 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"setpoint": 25.0}, r"action\['setpoint'\] must be from 18.0 to 24.0, got 25.0"),
        ({"gain": 0.0}, r"action\['gain'\] must be from 0.001 to 1.0"),
        ({"stages": 2.5}, r"action\['stages'\] must be a whole number"),
        ({"mode": "turbo"}, r"action\['mode'\] must be one of 'eco', 'boost', got 'turbo'"),
        ({"setpoint": float("nan")}, r"action\['setpoint'\] must be finite"),
        ({"speed": 1.0}, "action has unknown speed; its parameters are setpoint, gain, stages, mode"),
    ],
)
def test_values_outside_the_box(values: dict[str, object], message: str) -> None:
    good = {"setpoint": 21.0, "gain": 0.1, "stages": 2, "mode": "eco"}
    with pytest.raises(ValueError, match=message):
        BOX.encode("action", {**good, **values})
    with pytest.raises(ValueError, match="action lacks mode"):
        BOX.encode("action", {k: v for k, v in good.items() if k != "mode"})


def test_bad_parameters() -> None:
    for make, message in (
        (lambda: Box(), "at least one named parameter"),
        (lambda: Box(x=cast(Any, 3.0)), r"x must be \(low, high\), Log, Integer or Categorical"),
        (lambda: Box(x=(1.0, 0.0)), r"x must be \(low, high\) with low less than high"),
        (lambda: Log(0.0, 1.0), "low must be positive"),
        (lambda: Integer(cast(Any, 1.5), 3), "low must be a whole number"),
        (lambda: Integer(3, 1), "low must not exceed high"),
        (lambda: Categorical("a", "a"), "choices must be different"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            make()
