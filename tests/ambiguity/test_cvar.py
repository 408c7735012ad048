"""CVaR balls: formulas by hand. What all divergences share is in `test_divergences`."""

import numpy as np
import pytest

from drbo import CVaR
from tolerances import CLOSED_FORM

UNIFORM = np.full(4, 0.25)


def test_cvar_is_the_mean_of_the_worst_share() -> None:
    worst = CVaR().worst_case([4.0, 1.0, 3.0, 2.0], UNIFORM, 0.6)  # the worst 40 %: all of 1, and 0.15 of 2
    np.testing.assert_allclose(worst.weights, [0.0, 0.625, 0.0, 0.375], atol=CLOSED_FORM)
    assert worst.expectation == pytest.approx(1.375, abs=CLOSED_FORM)


def test_cvar_radius_of_one_or_more_is_the_minimum_over_the_support() -> None:
    for radius in (1 - 1e-16, 1.0, 2.0, np.inf):
        np.testing.assert_array_equal(CVaR().worst_case([2.0, 1.0, 0.0], [0.5, 0.5, 0.0], radius).weights, [0, 1, 0])
