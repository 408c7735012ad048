"""Values lie where they should on an axis, and its names are round, different and few."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drbo.report.scales import Logarithmic, Names, Numbers, Percentages, Scale, Whole, scale_of

finite = st.floats(-1e12, 1e12, allow_subnormal=False)


@given(st.lists(finite, min_size=1, max_size=8), st.sampled_from([Numbers, Whole]), st.floats(0.0, 0.5))
def test_numbers_lie_in_order_within_the_axis(values: list[float], kind: Any, pad: float) -> None:
    scale = kind.over(values, pad)
    places = scale.at(sorted(values))
    assert (np.diff(places) >= 0.0).all()
    assert (places >= 0.0).all()
    assert (places <= 1.0).all()


@given(st.lists(finite, min_size=1, max_size=8), st.sampled_from([Numbers, Whole]))
def test_names_of_numbers_say_where_they_stand(values: list[float], kind: Any) -> None:
    scale = kind.over(values, 0.05)
    ticks = scale.ticks()
    assert len({name for _, name in ticks}) == len(ticks) <= 7
    for at, name in ticks:
        # what is written differs from what it stands at by less than a hundredth of the axis
        assert float(scale.at([float(name)])[0]) == pytest.approx(at, abs=0.01)


@pytest.mark.parametrize(
    ("scale", "names"),
    [
        (Numbers(0.0, 1.0), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        (Numbers(-3.2, 16.9), ["0", "5", "10", "15"]),
        (Numbers(-1.0, 1.0), ["-1.0", "-0.5", "0.0", "0.5", "1.0"]),
        (Numbers(18.0, 24.0), ["18", "19", "20", "21", "22", "23", "24"]),
        (Numbers(0.0, 2.3e9), ["0", "5e8", "1e9", "1.5e9", "2e9"]),
        (Numbers(0.0, 3e-7), ["0", "1e-7", "2e-7", "3e-7"]),
        (Numbers(1000.0, 1000.4), ["1000.0", "1000.2", "1000.4"]),
        (Whole(1.0, 3.0), ["1", "2", "3"]),
        (Whole(0.5, 2000.0), ["500", "1000", "1500", "2000"]),
        (Percentages.over([0.28, 0.0], 0.05), ["0%", "5%", "10%", "15%", "20%", "25%"]),
        (Percentages.over([0.004], 0.0), ["0.0%", "0.1%", "0.2%", "0.3%", "0.4%"]),
        (Logarithmic.over([1e-3, 1.0], 0.0), ["0.001", "0.01", "0.1", "1"]),
        (Logarithmic.over([2.0, 40.0], 0.0), ["2", "5", "10", "20"]),
        (Logarithmic.over([1e-12, 1e12], 0.0), ["1e-12", "1e-7", "0.01", "1000", "1e8"]),
        (Names.over(["b", "a", "b", True], 0.1), ["b", "a", "True"]),
    ],
)
def test_names(scale: Scale, names: list[str]) -> None:
    assert [name for _, name in scale.ticks()] == names


def test_factors_are_equally_far_apart() -> None:
    scale = Logarithmic.over([0.01, 100.0], 0.0)
    assert scale.at([0.01, 0.1, 1.0, 10.0, 100.0]) == pytest.approx([0.0, 0.25, 0.5, 0.75, 1.0], abs=1e-12)


def test_labels_stand_in_the_middle_of_equal_parts() -> None:
    scale = Names.over(["x", "y", "x", "z"], 0.3)
    assert scale.at(["z", "x", "y"]) == pytest.approx([5 / 6, 1 / 6, 0.5])


@pytest.mark.parametrize("values", [[], [0.0], [7.0, 7.0], [-2.0], [1e300], [math.nan, math.inf], [1.0, 1.0 + 1e-15]])
@pytest.mark.parametrize("kind", [Numbers, Whole])
def test_an_axis_of_one_value_has_a_length(values: list[float], kind: type[Numbers]) -> None:
    scale = kind.over(values, 0.05)
    assert math.isfinite(scale.low)
    assert scale.low < scale.high < math.inf
    assert len(scale.ticks()) >= 1


@pytest.mark.parametrize("value", [1e-300, 0.3, 1e300])
def test_factors_of_one_value_have_a_length(value: float) -> None:
    scale = Logarithmic.over([value, value], 0.05)
    assert scale.at([value])[0] == pytest.approx(0.5, abs=0.05)


def test_the_kind_of_an_axis() -> None:
    assert scale_of(["a", "b"]) is Names
    assert scale_of([True, False]) is Names
    assert scale_of([1, 2, 3]) is Whole
    assert scale_of(list(range(40))) is Numbers
    assert scale_of([0.1, 0.2, 0.4]) is Logarithmic
    assert scale_of([0.1, 0.2, 0.3]) is Numbers
    assert scale_of([1.0, 2.0]) is Numbers
