"""The columns of every kind of space: their positions are those of `measured`."""

import math

import numpy as np
import pytest

from drbo import Box, Categorical, Integer, Log, Ordinal, Samples
from drbo.spaces import FiniteSet, Labels, Point
from drbo.spaces.space import named


def test_a_box() -> None:
    box = Box(x=(0.0, 12.0), price=Log(1.0, 100.0), kind=Categorical("a", "b", "c"), age=Ordinal("y", "m", "o"))
    value = {"x": 3.0, "price": 10.0, "kind": "b", "age": "o"}
    at = box.measured(box.encode("value", value).coordinates[None, :])
    x, price, kind, age = box.columns
    assert [str(column) for column in box.columns] == ["x", "price", "kind", "age"]
    assert [column.first for column in box.columns] == [0, 1, 2, 5]
    assert x.numbers(at)[0] == pytest.approx(3.0)
    assert price.logarithmic
    assert price.numbers(at)[0] == pytest.approx(10.0)
    assert [kind.holds(at, label)[0] for label in "abc"] == [0.0, 1.0, 0.0]
    assert [age.holds(at, label)[0] for label in "ymo"] == [0.0, 0.0, 1.0]
    assert x.step == pytest.approx(12.0 / math.sqrt(12.0))


def test_numbers_and_labels() -> None:
    samples = Samples(np.array([[1.0, 5.0], [3.0, 9.0]]), names=["a", "b"])
    first, second = samples.space.columns
    np.testing.assert_allclose(second.numbers(samples.space.measured(samples.points)), [5.0, 9.0])
    assert (first.step, second.step) == (1.0, 2.0)
    plain = FiniteSet("contexts", [[0.0, 1.0], [2.0, 1.0]]).columns
    assert [str(column) for column in plain] == ["column 0", "column 1"]
    np.testing.assert_array_equal(plain[0].holds(np.array([[0.0, 1.0], [2.0, 1.0]]), 2.0), [0.0, 1.0])
    labels = Labels("contexts", Categorical("x", "y"))
    (column,) = labels.columns
    np.testing.assert_array_equal(column.holds(labels.points, "y"), [0.0, 1.0])


def test_whole_numbers_are_numbers() -> None:
    box = Box(n=Integer(2, 6))
    assert box.columns[0].labels is None
    assert box.columns[0].numbers(box.measured(np.array([[0.5]])))[0] == pytest.approx(4.0)
    assert box.decode(Point(np.array([0.5]))) == {"n": 4}


def test_a_column_by_its_name() -> None:
    columns = Box(x=(0.0, 1.0), y=(0.0, 1.0)).columns
    assert named("y", columns) is columns[1]
    with pytest.raises(ValueError, match="names the column 'z', which is not a column of the contexts: they are x, y"):
        named("z", columns)
    with pytest.raises(ValueError, match="these contexts have no names"):
        named("z", FiniteSet("contexts", [0.0, 1.0]).columns)
