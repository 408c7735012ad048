"""Chi-square balls: formulas by hand. What all divergences share is in `test_divergences`."""

import numpy as np
import pytest

from drbo import ChiSquare
from drbo.ambiguity import WorstCaseError
from tolerances import CLOSED_FORM


def test_chi_square_is_the_mean_less_a_multiple_of_the_standard_deviation() -> None:
    values, reference, radius = np.array([1.0, 2.0, 4.0]), np.array([0.5, 0.2, 0.3]), 0.1
    mean = reference @ values
    worst = ChiSquare().worst_case(values, reference, radius)
    expected = mean - np.sqrt(radius * (reference @ (values - mean) ** 2))
    assert worst.expectation == pytest.approx(expected, abs=CLOSED_FORM)
    np.testing.assert_allclose(
        worst.weights,
        reference * (1 - np.sqrt(radius) * (values - mean) / np.sqrt(reference @ (values - mean) ** 2)),
        atol=CLOSED_FORM,
    )


def test_chi_square_on_two_contexts_with_one_cut_off() -> None:
    # From radius 1/p - 1 = 3 on, all mass can sit on the context of weight 1/4; at 1 it gets 1/4 + sqrt(3)/4.
    values = [0.0, 1.0]
    assert ChiSquare().worst_case(values, [0.25, 0.75], 3.0).expectation == 0.0
    assert ChiSquare().worst_case(values, [0.25, 0.75], 2.9).expectation > 0.0
    weights = ChiSquare().worst_case(values, [0.25, 0.75], 1.0).weights
    assert weights[0] == pytest.approx(0.25 + np.sqrt(3) / 4, abs=CLOSED_FORM)


def test_what_cannot_be_certified_is_refused() -> None:
    # Weights of 1e-300 at a radius just below their inverse: beyond the largest float on the way.
    values = np.array([1.0, 0.0, 1e-13])
    with pytest.raises(WorstCaseError, match="left a gap"):
        ChiSquare().worst_case(values, [1.0, 1e-310, 1e-310], 1e308)
