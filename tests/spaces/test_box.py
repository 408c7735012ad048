"""Boxes of named parameters: values, the unit cube, and points that are spread over it."""

from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drbo import Box, Categorical, Integer, Log
from drbo.spaces import Point
from tolerances import CLOSED_FORM

BOX = Box(setpoint=(18.0, 24.0), gain=Log(1e-3, 1.0), stages=Integer(1, 4), mode=Categorical("eco", "boost"))


def test_a_box_maps_to_the_unit_cube_and_back() -> None:
    values = {"setpoint": 21.0, "gain": 1e-3, "stages": 2, "mode": "boost"}
    point = BOX.encode("action", values)
    np.testing.assert_allclose(point.coordinates, [0.5, 0.0, 1 / 3, 0.0, 1.0])
    assert point.index is None
    assert BOX.dimension == 5
    assert BOX.decode(point) == values
    assert BOX.continuous.tolist() == [True, True, False, False, False]


@given(st.floats(0, 1), st.floats(0, 1), st.integers(1, 4), st.sampled_from(["eco", "boost"]))
def test_decoded_values_are_legal_and_encode_to_themselves(a: float, b: float, stages: int, mode: str) -> None:
    point = np.array([a, b, (stages - 1) / 3, float(mode == "eco"), float(mode == "boost")])
    values = BOX.decode(Point(point))
    assert 18.0 <= values["setpoint"] <= 24.0
    assert 1e-3 <= values["gain"] <= 1.0
    assert (values["stages"], values["mode"]) == (stages, mode)
    np.testing.assert_allclose(BOX.encode("action", values).coordinates, point, atol=1e-12)


def test_every_combination_of_the_discrete_parameters() -> None:
    parts = BOX.discrete_parts()
    assert parts is not None
    assert {(BOX.decode(Point(row))["stages"], BOX.decode(Point(row))["mode"]) for row in parts} == {
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
        np.testing.assert_allclose(BOX.encode("action", BOX.decode(Point(point))).coordinates, point, atol=1e-9)
    assert {BOX.decode(Point(point))["stages"] for point in points} == {1, 2, 3, 4}
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


def test_bad_boxes() -> None:
    for make, message in (
        (lambda: Box(), "at least one named parameter"),
        (lambda: Box(x=cast(Any, 3.0)), r"x must be \(low, high\), Log, Integer, Categorical or Ordinal"),
        (lambda: Box(x=(1.0, 0.0)), r"x must be \(low, high\) with low less than high"),
        (lambda: Box(cast(Any, [1.0])), "parameters must map names to ranges"),
        (lambda: Box(cast(Any, {3: (0.0, 1.0)})), "parameters must be named by text, got 3"),
        (lambda: Box({"x": (0.0, 1.0)}, x=(0.0, 1.0)), "parameters must be named once, got x twice"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            make()  # type: ignore[no-untyped-call]


def test_names_that_are_no_python_names() -> None:
    box = Box({"set point": (18.0, 24.0)}, gain=Log(1e-3, 1.0))
    assert box.names == ("set point", "gain")
    values = {"set point": 19.0, "gain": 1e-3}
    assert box.decode(box.encode("action", values)) == values
    assert repr(Box.from_arguments(**box.arguments())) == repr(box)


def test_distances_are_in_the_users_units() -> None:
    one = BOX.encode("action", {"setpoint": 19.0, "gain": 1e-3, "stages": 1, "mode": "eco"}).coordinates
    other = BOX.encode("action", {"setpoint": 22.0, "gain": 1e-1, "stages": 4, "mode": "boost"}).coordinates
    positions = BOX.measured(np.array([one, other]))
    step = positions[1] - positions[0]
    np.testing.assert_allclose(step[:3], [3.0, np.log(100.0), 3.0], atol=CLOSED_FORM)
    assert np.linalg.norm(step[3:]) == pytest.approx(1.0, abs=CLOSED_FORM)  # two choices are 1 apart
    np.testing.assert_allclose((other - one) * BOX.units, step, atol=CLOSED_FORM)


def test_scales_count_columns_and_not_coordinates() -> None:
    """sqrt(5) coordinates times these widths is what four columns of numbers would have had, sqrt(4) times theirs."""
    extents = np.array([6.0, np.log(1e3), 3.0, 1.0, 1.0])
    np.testing.assert_allclose(np.sqrt(5.0) * BOX.scales, 2.0 * extents, atol=CLOSED_FORM)


def test_cells_are_never_narrower_in_the_users_units() -> None:
    """With an offset, rounding moves a position: the cell of positions must hold what the cell of coordinates does."""
    box = Box(time=(1.7e9, 1.7e9 + 10.0))
    rng = np.random.default_rng(0)
    centres, halves = rng.random((500, 1)), 10.0 ** rng.uniform(-12.0, -1.0, (500, 1))
    for sign in (-1.0, 1.0):
        ends = box.measured(centres + sign * halves)
        assert (np.abs(ends - box.measured(centres)) <= box.widths(halves)).all()
    assert (box.widths(np.zeros((1, 1))) == 0.0).all()
    assert (BOX.widths(halves[:1] * np.ones(5)) >= halves[:1] * BOX.units).all()


def test_a_box_has_no_indices() -> None:
    with pytest.raises(TypeError, match="action_index must not be given: this is not a finite set"):
        BOX.at("action_index", 0)
    assert BOX.in_unit_cube() is BOX


def test_a_box_lies_between_its_corners() -> None:
    box = Box(temperature=(-5.0, 30.0), stages=Integer(1, 3), mode=Categorical("a", "b", "c"), only=Integer(2, 2))
    corners = box.corners()
    assert len(corners) == 2 * 2 * 3 * 2
    np.testing.assert_array_equal(np.unique(corners[:, 0]), [0.0, 1.0])
    np.testing.assert_array_equal(corners[:, 2:5].sum(axis=1), 1.0)
    assert not corners[:, 5].any()
    wide = Box({f"x{i}": (0.0, 1.0) for i in range(13)})
    around = wide.corners() - 0.5
    assert len(around) == 26
    # A cross-polytope holds the points whose absolute coordinates, divided by its size, sum to at most one.
    assert np.abs(np.full(13, 0.5)).sum() / np.abs(around).max() <= 1.0
