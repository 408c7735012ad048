"""StableOpt as an ambiguity set: all distributions near the reference's mean."""

import math

import numpy as np
import pytest

from drbo import Neighbourhood

CONTEXTS = np.linspace(0, 1, 11)
REFERENCE = np.full(11, 1 / 11)  # its mean is 0.5


@pytest.mark.parametrize("steps", range(1, 6))
def test_stableopts_neighbourhood_includes_its_border(steps: int) -> None:
    """Every context at exactly the radius belongs to Delta, whatever rounding makes of their distance."""
    for j in (5 - steps, 5 + steps):
        values = np.ones(11)
        values[j] = 0.0
        radius = steps / 10
        assert Neighbourhood(CONTEXTS).worst_case(values, REFERENCE, radius).expectation == 0.0
        assert Neighbourhood(CONTEXTS).worst_case(values, REFERENCE, radius - 1e-6).expectation == 1.0


def test_an_empty_neighbourhood_is_the_nearest_context() -> None:
    reference = np.zeros(11)
    reference[[4, 5]] = 0.4, 0.6  # the mean, 0.46, is nearest to context 5
    worst = Neighbourhood(CONTEXTS).worst_case(np.arange(11.0), reference, 0.01)
    np.testing.assert_array_equal(worst.weights, np.eye(11)[5])


def test_an_infinite_radius_is_the_worst_case() -> None:
    values = np.random.default_rng(0).normal(size=(4, 11))
    worst = Neighbourhood(CONTEXTS).worst_case(values, REFERENCE, math.inf)
    np.testing.assert_array_equal(worst.expectation, values.min(axis=1))
