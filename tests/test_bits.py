"""The comparison of bits can fail, and says where."""

import numpy as np
import pytest

from bits import bits, first_difference
from drbo.spaces.space import Point


def test_one_bit_is_a_difference_and_is_named() -> None:
    one = {"a": [1.0, np.array([2.0, 3.0])], "b": Point(np.array([0.5]), 2)}
    other = {"a": [1.0, np.array([2.0, np.nextafter(3.0, 4.0)])], "b": Point(np.array([0.5]), 2)}
    assert first_difference(bits(one), bits(one)) == ""
    assert first_difference(bits(one), bits(other)) == ".a[1][2]: [2.0, 3.0] and [2.0, 3.0000000000000004]"
    assert bits(0.0) != bits(-0.0)
    assert bits(np.float64(0.1)) == bits(0.1)
    assert first_difference([1], [1, 2]) == "the whole: [1] and [1, 2]"
    with pytest.raises(AssertionError, match=r"first difference at \.a\[1\]\[2\]"):
        assert bits(one) == bits(other)
