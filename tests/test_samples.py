"""Contexts from data: what may be given, in which units it comes back, and what compression costs."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import drbo
from drbo import General, Optimizer, Simulator
from heating import BOX, FIXED

CONTEXTS = drbo.Box(outdoor=(-10.0, 30.0), load=drbo.Log(0.1, 10.0), season=drbo.Categorical("winter", "summer"))
GRID = np.linspace(0.0, 1.0, 21)


def test_a_missing_choice_is_named() -> None:
    frame = pd.DataFrame({"season": pd.array(["winter", pd.NA], dtype="string")})
    with pytest.raises((TypeError, ValueError), match=r"data\[1\]\['season'\]"):
        drbo.Samples(frame, within=drbo.Box(season=drbo.Categorical("winter", "summer")))


def test_columns_of_all_kinds(tmp_path: Path) -> None:
    box = drbo.Box(on=drbo.Categorical(True, False), load=(0.0, 2.0))
    rows = [[np.True_, np.int64(1)], [np.False_, np.float64(0.5)]]
    frame = pd.DataFrame({"more": ["a", "b"], "load": [1.0, 0.5], "on": [True, False]})
    for data in (rows, frame):
        opt = Optimizer(GRID, drbo.Samples(data, within=box), setting=Simulator(radius=0.1), surrogate=FIXED)
        opt.save(tmp_path / "state.json")
        np.testing.assert_array_equal(opt.ask().reference, Optimizer.load(tmp_path / "state.json").ask().reference)
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
    assert samples.decode(samples.points[1]) == {"load": pytest.approx(2.0)}
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
    assert by_name.decode(by_name.points[2]) == {"a": 4.0, "b": 5.0}


def test_bad_samples() -> None:
    for make_samples, message in (
        (lambda: drbo.Samples([]), "data must be points"),
        (lambda: drbo.Samples([1.0, 2.0], weights=[0.5, 0.4]), "weights must sum to 1"),
        (lambda: drbo.Samples([1.0, 2.0], names=["a", "b"]), "names must be 1 different ones"),
        (lambda: drbo.Samples([1.0, 2.0], atoms=0), "atoms must be at least 1"),
    ):
        with pytest.raises(ValueError, match=message):
            make_samples()  # type: ignore[no-untyped-call]


def test_compressed_samples_enlarge_the_radius() -> None:
    rng = np.random.default_rng(0)
    many = drbo.Samples(rng.normal(size=(3000, 2)), atoms=20)
    opt = Optimizer(BOX, many, setting=Simulator(radius=0.2), surrogate=FIXED)
    assert opt._conditions.atoms.error > 0.0
    assert opt.ask().radius == pytest.approx(0.2 + opt._conditions.atoms.error)
    general = Optimizer(BOX, many, setting=General(), surrogate=FIXED)
    assert general.recommend_final(radius=0.2).radius == general.ask(radius=0.2).radius
    assert general.recommend_final().radius == pytest.approx(0.2 + general._conditions.atoms.error)
    with pytest.raises(ValueError, match="ambiguity must be an MMD for compressed samples"):
        Optimizer(BOX, many, ambiguity=drbo.TotalVariation(), setting=Simulator(radius=0.2), surrogate=FIXED)
