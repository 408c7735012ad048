"""Units of outcomes: there and back, for values and for lengths."""

import math

import pytest

from drbo.models.data import Units
from tolerances import CLOSED_FORM


@pytest.mark.parametrize("units", [Units(), Units(-1.0), Units(1.0, 3.0, 0.5), Units(-1.0, -7.0, 1e6)], ids=repr)
def test_there_and_back(units: Units) -> None:
    for outcome in (-2.5, 0.0, 4.0):
        value = units.inward(outcome)
        assert units.sign * outcome == pytest.approx(units.offset + units.scale * value, rel=CLOSED_FORM)
        assert units.outward(value) == pytest.approx(outcome, rel=CLOSED_FORM, abs=CLOSED_FORM * units.scale)
        assert units.length_outward(units.length_inward(abs(outcome))) == pytest.approx(abs(outcome), rel=CLOSED_FORM)


def test_a_difference_of_outcomes_is_a_length() -> None:
    units = Units(-1.0, 3.0, 0.5)
    assert abs(units.outward(2.0) - units.outward(1.5)) == pytest.approx(units.length_outward(0.5), abs=CLOSED_FORM)


def test_nothing_is_bounded_before_the_scale_is_known() -> None:
    """A lower bound is minus infinity; where outcomes are minimised, the guarantee is a cost of infinity."""
    assert Units(1.0, known=False).outward(-0.5) == -math.inf
    assert Units(1.0, known=False).outward(0.5) == math.inf
    assert Units(-1.0, known=False).outward(-0.5) == math.inf
