"""Kullback-Leibler and chi-square balls: formulas by hand. What all divergences share is in `test_divergence`."""

import numpy as np
import pytest

from drbo import KL, ChiSquare
from drbo.ambiguity import WorstCaseError
from tolerances import CLOSED_FORM

UNIFORM = np.full(4, 0.25)


def test_kl_tilts_two_contexts() -> None:
    # q = (3/4, 1/4) from (1/2, 1/2) is tilted by theta = log 3.
    radius = 0.75 * np.log(1.5) + 0.25 * np.log(0.5)
    worst = KL().worst_case([0.0, 1.0], [0.5, 0.5], radius)
    np.testing.assert_allclose(worst.weights, [0.75, 0.25], atol=CLOSED_FORM)
    assert worst.lower_bound == pytest.approx(0.25, abs=CLOSED_FORM)


def test_kl_collapses_at_minus_log_of_the_lowest_weight() -> None:
    values = [1.0, 0.0, 0.0, 2.0]
    collapse = -np.log(0.5)
    np.testing.assert_allclose(KL().worst_case(values, UNIFORM, collapse).weights, [0, 0.5, 0.5, 0], atol=CLOSED_FORM)
    assert KL().worst_case(values, UNIFORM, 0.9 * collapse).expectation > 0.01


def test_kl_distance_keeps_its_digits_near_zero() -> None:
    p, shift = UNIFORM, 1e-9 * np.array([1.0, -1.0, 2.0, -2.0])
    assert KL().distance(p + shift, p) == pytest.approx(0.5 * (shift**2 / p).sum(), rel=1e-5)


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
