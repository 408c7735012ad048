"""Kullback-Leibler balls: formulas by hand. What all divergences share is in `test_divergences`."""

import numpy as np
import pytest

from drbo import KL
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
