"""Total variation balls: formulas by hand. What all divergences share is in `test_divergences`."""

import numpy as np
import pytest

from drbo import TotalVariation
from tolerances import CLOSED_FORM


def test_total_variation_moves_the_highest_mass_onto_the_lowest_value() -> None:
    worst = TotalVariation().worst_case([3.0, 1.0, 2.0, 0.0], [0.2, 0.3, 0.5, 0.0], 0.3)
    np.testing.assert_allclose(worst.weights, [0.0, 0.3, 0.4, 0.3], atol=CLOSED_FORM)
    assert worst.expectation == pytest.approx(1.1, abs=CLOSED_FORM)
    assert worst.lower_bound == pytest.approx(1.1, abs=CLOSED_FORM)
