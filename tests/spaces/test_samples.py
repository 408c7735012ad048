"""Contexts from data: what may be given, and in which units it comes back."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import drbo
from drbo import Optimizer, Simulator
from drbo.spaces import Point
from drbo.spaces.samples import DataRange
from heating import FIXED

CONTEXTS = drbo.Box(outdoor=(-10.0, 30.0), load=drbo.Log(0.1, 10.0), season=drbo.Categorical("winter", "summer"))
GRID = np.linspace(0.0, 1.0, 21)


@pytest.mark.parametrize("within", [None, drbo.Box(load=(0.0, 9.0))])
def test_columns_of_the_same_name_are_refused(within: Any) -> None:
    frame = pd.DataFrame([[1.0, 2.0], [3.0, 4.0]], columns=["load", "load"])
    with pytest.raises(ValueError, match="data must have columns of different names, but 2 are called 'load'"):
        drbo.Samples(frame, within=within)
    with pytest.raises(ValueError, match="names must be 2 different names, one per column"):
        drbo.Samples({0: [1.0], "0": [2.0]})


def test_a_missing_choice_is_named() -> None:
    frame = pd.DataFrame({"season": pd.array(["winter", pd.NA], dtype="string")})
    with pytest.raises((TypeError, ValueError), match=r"data\[1\]\['season'\]"):
        drbo.Samples(frame, within=drbo.Box(season=drbo.Categorical("winter", "summer")))


def test_columns_of_all_kinds(tmp_path: Path) -> None:
    box = drbo.Box(on=drbo.Categorical(True, False), load=(0.0, 2.0))
    rows = [[np.True_, np.int64(1)], [np.False_, np.float64(0.5)]]
    frame = pd.DataFrame({"more": ["a", "b"], "load": [1.0, 0.5], "on": [True, False]})
    for name, data in (("rows", rows), ("frame", frame)):
        opt = Optimizer(
            GRID, drbo.Samples(data, within=box), setting=Simulator(radius=0.1, pick="uncertain"), surrogate=FIXED
        )
        opt.save(tmp_path / name)
        np.testing.assert_array_equal(opt.ask().reference, Optimizer.load(tmp_path / name).ask().reference)
    np.testing.assert_array_equal(drbo.Samples({"on": True, "load": 1}, within=box).points, [[1.0, 0.0, 0.5]])
    with pytest.raises(TypeError, match="data must be an array of values, got a masked array"):
        drbo.Samples(np.ma.masked_array([[1.0], [2.0]], [[False], [True]]), within=drbo.Box(load=(0.0, 2.0)))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"outdoor": [1.0], "load": [1.0]}, "data lacks season"),
        ({"outdoor": [1.0, 2.0], "load": [1.0], "season": ["winter"]}, "columns of equal length"),
        ([[1.0, 2.0]], "data must have a column for each of outdoor, load, season"),
        ([[1.0, 2.0, "winter"], [1.0, 20.0, "winter"]], r"data\[1\]\['load'\] must be from 0.1 to 10.0"),
    ],
)
def test_samples_that_are_none(data: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        drbo.Samples(data, within=CONTEXTS)


def test_samples_of_one_parameter_may_be_flat() -> None:
    samples = drbo.Samples([0.5, 2.0], within=drbo.Box(load=drbo.Log(0.1, 10.0)))
    assert samples.space.decode(Point(samples.points[1])) == {"load": pytest.approx(2.0)}
    assert repr(samples).startswith("Samples(2 within Box(load")
    with pytest.raises(TypeError, match="within must be a Box"):
        drbo.Samples([0.5], within=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="names must not be given with within"):
        drbo.Samples([0.5], within=drbo.Box(load=(0.0, 1.0)), names=["load"])


def test_a_mapping_of_columns_is_as_good_as_a_data_frame() -> None:
    by_name = drbo.Samples({"a": [1.0, 2.0, 4.0], "b": [0.0, 1.0, 5.0]})
    np.testing.assert_array_equal(
        by_name.points, drbo.Samples(pd.DataFrame({"a": [1.0, 2, 4], "b": [0.0, 1, 5]})).points
    )
    assert by_name.space.decode(Point(by_name.points[2])) == {"a": 4.0, "b": 5.0}


def test_bad_samples() -> None:
    for make_samples, message in (
        (lambda: drbo.Samples([]), "data must be points"),
        (lambda: drbo.Samples([1.0, 2.0], weights=[0.5, 0.4]), "weights must sum to 1"),
        (lambda: drbo.Samples([1.0, 2.0], names=["a", "b"]), "names must be 1 different names"),
        (lambda: drbo.Samples([1.0, 2.0], atoms=0), "atoms must be at least 1"),
    ):
        with pytest.raises(ValueError, match=message):
            make_samples()  # type: ignore[no-untyped-call]


def test_the_range_of_numbers_is_a_unit_cube() -> None:
    samples = drbo.Samples([[1.0, 5.0], [3.0, 5.0], [2.0, 5.0]])
    np.testing.assert_array_equal(samples.points, [[0.0, 0.0], [1.0, 0.0], [0.5, 0.0]])
    np.testing.assert_array_equal(samples.space.scales, [2.0, 1.0])  # a column of one value counts as one unit wide
    outside = samples.encode("context", [5.0, 5.5])
    np.testing.assert_array_equal(outside.coordinates, [2.0, 0.5])
    assert outside.index is None
    np.testing.assert_array_equal(samples.space.decode(outside), [5.0, 5.5])
    np.testing.assert_array_equal(samples.space.measured(samples.points), samples.data)
    np.testing.assert_array_equal(samples.space.widths(np.array([[0.5, 0.5]])), [[1.0, 0.5]])
    np.testing.assert_array_equal(samples.space.units, [2.0, 1.0])


def test_a_context_is_given_by_names_or_in_order() -> None:
    named = drbo.Samples({"a": [1.0, 2.0], "b": [0.0, 1.0]})
    for value in ({"b": 1.0, "a": 1.5}, [1.5, 1.0], pd.Series({"b": 1.0, "a": 1.5})):
        np.testing.assert_array_equal(named.encode("context", value).coordinates, [0.5, 1.0])
    with pytest.raises(ValueError, match="context must name a, b, got"):
        named.encode("context", {"a": 1.0})
    with pytest.raises(ValueError, match=r"context must have 2 number\(s\)"):
        named.encode("context", [1.0])
    with pytest.raises(ValueError, match="context must be an array, as the samples are"):
        drbo.Samples([[1.0], [2.0]]).encode("context", {"a": 1.0})
    within = drbo.Samples([[1.0, 2.0, "winter"]], within=CONTEXTS)
    by_name = within.encode("context", {"outdoor": 1.0, "load": 2.0, "season": "winter"})
    assert within.encode("context", [1.0, 2.0, "winter"]).same_as(by_name)
    with pytest.raises(ValueError, match="context must give outdoor, load, season"):
        within.encode("context", [1.0, 2.0])


def test_an_error_names_the_column_of_a_context() -> None:
    data = drbo.Samples([[0.0, 1.0], [1.0, 0.0]], names=["load", "weekend"])
    opt = Optimizer(drbo.Box(x=(0.0, 1.0)), data, setting=Simulator(radius=0.1), surrogate=FIXED)
    frame = pd.DataFrame({"load": [0.0, 1.0], "weekend": [1.0, 0.0]})
    listed = Optimizer([0.0, 1.0], frame, setting=Simulator([0.5, 0.5], radius=0.1), surrogate=FIXED)
    for one, action in ((opt, {"x": 0.5}), (listed, 1.0)):
        for wrong, error, message in (
            ("1", TypeError, r"context\['load'\] must be a number, got '1'"),
            (math.nan, ValueError, r"context\['load'\] must be finite, got nan"),
        ):
            with pytest.raises(error, match=message):
                one.tell(action, 1.0, context={"load": wrong, "weekend": True})
        one.tell(action, 1.0, context={"load": 0.0, "weekend": True})
        assert one.results[0].context == {"load": 0.0, "weekend": 1.0}


def test_samples_are_made_again_from_their_arguments() -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0, 4.0], "b": [0.0, 1.0, 5.0]})
    for samples in (
        drbo.Samples(frame, weights=[0.5, 0.25, 0.25], atoms=7, support=9),
        drbo.Samples([[1.0, 2.0, "winter"]], within=CONTEXTS),
        drbo.Samples([], within=CONTEXTS),
    ):
        again = drbo.Samples(**samples.arguments())
        np.testing.assert_array_equal(again.points, samples.points)
        np.testing.assert_array_equal(again.weights, samples.weights)
        assert (again.names, again.atoms, again.support) == (samples.names, samples.atoms, samples.support)


def test_counts_are_weights_too() -> None:
    np.testing.assert_array_equal(drbo.Samples([1.0, 2.0], weights=[3, 1]).weights, [0.75, 0.25])


def test_every_bad_row_is_counted() -> None:
    with pytest.raises(
        ValueError, match=r"data\[1\]\['load'\] must be from 0.0 to 1.0, got 2.0 \(and 1 more of 3 rows\)"
    ):
        drbo.Samples([0.5, 2.0, 3.0], within=drbo.Box(load=(0.0, 1.0)))


def test_points_of_a_range_are_spread() -> None:
    points = DataRange(np.zeros(2), np.ones(2), None, np.ones(2)).sample(16, seed=0)
    assert np.histogram2d(points[:, 0], points[:, 1], bins=4, range=[[0, 1], [0, 1]])[0].min() >= 1


def test_the_hint_for_a_scale_is_the_deviation_of_the_samples() -> None:
    """REVIEW U8: with a range it was that of the range."""
    rng = np.random.default_rng(0)
    data = {
        "outdoor": rng.normal(10.0, 9.24, 200).clip(-30.0, 60.0),
        "load": rng.lognormal(0.0, 0.5, 200).clip(0.01, 9.0),
    }
    past = drbo.Samples(data, within=drbo.Box(outdoor=(-30.0, 60.0), load=drbo.Log(0.01, 10.0)))
    steps = {column.name: column.step for column in past.columns}
    assert steps == pytest.approx({"outdoor": np.std(data["outdoor"]), "load": np.std(np.log(data["load"]))})
    with pytest.raises(ValueError, match=rf"scale={{'outdoor': {np.std(data['outdoor']):.3g}, 'load': "):
        drbo.Optimizer([0.0, 1.0], past, ambiguity=drbo.Wasserstein(), setting=drbo.Simulator(radius=1.0))
