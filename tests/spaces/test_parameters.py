"""The parameters of a box, each on its own: values, coordinates, levels, and the units of distances."""

import math
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drbo.spaces.choices import Categorical
from drbo.spaces.parameters import Integer, Log, Parameter, Real, parameter
from tolerances import CLOSED_FORM

PARAMETERS: list[tuple[Parameter, list[Any]]] = [
    (Real(18.0, 24.0), [18.0, 21.0, 24.0]),
    (Log(1e-3, 1.0), [1e-3, 0.1, 1.0]),
    (Integer(1, 4), [1, 2, 4]),
    (Integer(3, 3), [3]),
    (Categorical("eco", "boost", None), ["eco", "boost", None]),
]


@pytest.mark.parametrize(("own", "values"), PARAMETERS, ids=repr)
def test_values_come_back(own: Parameter, values: list[Any]) -> None:
    for value in values:
        coordinates = np.array(own.encode("x", value))
        assert coordinates.shape == (own.width,)
        assert coordinates.min() >= 0.0
        assert coordinates.max() <= 1.0
        found = own.decode(coordinates)
        assert found == (pytest.approx(value, rel=CLOSED_FORM) if isinstance(value, float) else value)


@pytest.mark.parametrize(("own", "values"), PARAMETERS, ids=repr)
def test_levels_are_the_coordinates_of_the_values(own: Parameter, values: list[Any]) -> None:
    if own.count is None:
        with pytest.raises(TypeError, match="form an interval"):
            own.levels(np.arange(2))
        return
    levels = own.levels(np.arange(own.count))
    assert len({str(own.decode(level)) for level in levels}) == own.count
    for level in levels:
        np.testing.assert_array_equal(own.encode("x", own.decode(level)), level)
    assert all(value in [own.decode(level) for level in levels] for value in values)


def test_distances_are_in_the_users_units() -> None:
    """A number's own, the logarithm's for `Log`, and two choices are 1 apart."""

    def apart(own: Parameter, a: Any, b: Any) -> float:
        positions = [own.origin + own.unit * np.array(own.encode("x", value)) for value in (a, b)]
        return float(np.linalg.norm(positions[0] - positions[1]))

    assert apart(Real(18.0, 24.0), 19.0, 23.5) == pytest.approx(4.5, abs=CLOSED_FORM)
    assert apart(Log(1e-3, 1.0), 0.01, 0.5) == pytest.approx(math.log(50.0), abs=CLOSED_FORM)
    assert apart(Integer(1, 4), 1, 3) == pytest.approx(2.0, abs=CLOSED_FORM)
    assert apart(Categorical("a", "b", "c"), "a", "c") == pytest.approx(1.0, abs=CLOSED_FORM)
    for own, ends in ((Real(18.0, 24.0), (18.0, 24.0)), (Log(1e-3, 1.0), (1e-3, 1.0)), (Integer(1, 4), (1, 4))):
        assert own.extent == pytest.approx(apart(own, *ends), abs=CLOSED_FORM)
    assert Categorical("a", "b", "c").extent == 1.0
    assert Real(18.0, 24.0).origin == 18.0
    assert Log(1e-3, 1.0).origin == math.log(1e-3)


@given(st.floats(0, 1))
def test_decoded_numbers_never_leave_their_bounds(share: float) -> None:
    at = np.array([share])
    assert 0.1 <= Real(0.1, 0.3).decode(at) <= 0.3
    assert 0.1 <= Log(0.1, 0.3).decode(at) <= 0.3
    assert Integer(-2, 5).decode(at) in range(-2, 6)


def test_a_choice_is_equal_to_itself_alone() -> None:
    assert Categorical("a", "b") == Categorical("a", "b")
    assert Categorical("a", "b") != Categorical("b", "a")
    assert hash(Categorical("a", "b")) == hash(Categorical("a", "b"))
    kinds = Categorical("a", "b")
    assert Categorical.from_arguments(**kinds.arguments()) == kinds
    with pytest.raises(ValueError, match="x must be one of 'a', 'b', got"):
        kinds.encode("x", np.array([1.0, 2.0]))  # which cannot even be compared


def test_two_numbers_stand_for_a_real_parameter() -> None:
    assert parameter("x", (0.0, 2.0)) == Real(0.0, 2.0)
    assert parameter("x", Log(1.0, 2.0)) == Log(1.0, 2.0)


def test_bad_parameters() -> None:
    for make, message in (
        (lambda: parameter("x", cast(Any, 3.0)), r"x must be \(low, high\), Log, Integer, Categorical or Ordinal"),
        (lambda: parameter("x", (1.0, 0.0)), r"x must be \(low, high\) with low less than high"),
        (lambda: Real(1.0, 1.0), "low must be less than high"),
        (lambda: Log(0.0, 1.0), "low must be positive"),
        (lambda: Log(2.0, 1.0), "low must be less than high"),
        (lambda: Integer(cast(Any, 1.5), 3), "low must be a whole number"),
        (lambda: Integer(3, 1), "low must not exceed high"),
        (lambda: Integer(0, 2**60), r"high must not exceed 2\*\*53"),
        (lambda: Categorical("a", "a"), "choices must be different"),
        (lambda: Categorical(["a", "b"]), "choices must be given one by one"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            make()  # type: ignore[no-untyped-call]
