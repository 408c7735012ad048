"""Stochastic UCB as an ambiguity set: the reference alone."""

import math

import numpy as np
import pytest

from drbo import Expectation

REFERENCE = np.full(11, 1 / 11)


def test_expectation_ignores_the_radius() -> None:
    values = np.arange(11.0)
    for radius in (0.0, 0.3, math.inf):
        worst = Expectation().worst_case(values, REFERENCE, radius)
        assert worst.expectation == pytest.approx(5.0)
        np.testing.assert_array_equal(worst.weights, REFERENCE)
    assert Expectation().distance(REFERENCE, REFERENCE) == 0.0
    assert Expectation().distance(np.eye(11)[0], REFERENCE) == math.inf
