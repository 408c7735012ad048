"""Widths, bounds and information gain, and the coverage that Lemma 1 promises."""

import itertools
import math

import numpy as np
import pytest

from drbo import GP, RBF, Product, TheoreticalBeta, information_gain, maximum_information_gain
from drbo.models.bounds import ConstantBeta, lower_bound, upper_bound
from tolerances import CLOSED_FORM

KERNEL = Product(RBF(0.3), RBF(0.4))
X = np.linspace(0, 1, 4)[:, None]
C = np.linspace(0, 1, 3)[:, None]


def test_theoretical_beta_is_the_papers_formula_for_ridge_one() -> None:
    beta = TheoreticalBeta(bound=1.5, noise=0.3, delta=0.1)
    for events in (1, 2, 3):
        expected = 0.3 * math.sqrt(7.0 + 2 * math.log(events / 0.1)) + 1.5
        assert beta.width(7.0, 1.0, events) == pytest.approx(expected, abs=CLOSED_FORM)


def test_theoretical_beta_for_any_ridge() -> None:
    beta = TheoreticalBeta(bound=1.5, noise=0.3, delta=0.1)
    expected = 0.3 / 0.2 * math.sqrt(7.0 + 2 * math.log(10.0)) + 1.5
    assert beta.width(7.0, 0.04) == pytest.approx(expected, abs=CLOSED_FORM)


def test_the_ridge_only_rescales_the_problem() -> None:
    """Dividing kernel and outcomes so that the ridge becomes 1 must leave the width of the interval unchanged."""
    ridge, gain = 0.04, 3.0
    any_ridge = TheoreticalBeta(bound=1.5, noise=0.3).width(gain, ridge)
    # f / sqrt(ridge) with noise / sqrt(ridge), in the space of k / ridge: same norm, std larger by 1 / sqrt(ridge).
    rescaled = TheoreticalBeta(bound=1.5, noise=0.3 / math.sqrt(ridge)).width(gain, 1.0)
    assert any_ridge == pytest.approx(rescaled, abs=CLOSED_FORM)


def test_bounds_are_symmetric_about_the_mean() -> None:
    posterior = GP(KERNEL, 0.1).prior(X, C)
    posterior.observe(X[0], C[0], 1.0)
    np.testing.assert_allclose(upper_bound(posterior, 2.0), posterior.mean + 2 * posterior.std)
    np.testing.assert_allclose(lower_bound(posterior, 2.0), posterior.mean - 2 * posterior.std)


def test_maximum_information_gain_brackets_the_exact_maximum() -> None:
    gp = GP(KERNEL, 0.5)
    points = [(x, c) for x in X for c in C]
    bounds = maximum_information_gain(gp, X, C, horizon=4)
    for T in range(1, 5):
        exact = 0.0
        for chosen in itertools.combinations_with_replacement(points, T):
            xs, cs = np.array([x for x, _ in chosen]), np.array([c for _, c in chosen])
            exact = max(exact, information_gain(KERNEL.action(xs, xs) * KERNEL.context(cs, cs), gp.ridge))
        assert bounds.greedy[T - 1] <= exact + CLOSED_FORM
        assert bounds.upper[T - 1] >= exact - CLOSED_FORM
        assert bounds.upper[T - 1] <= bounds.greedy[T - 1] / (1 - 1 / math.e) + CLOSED_FORM


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="bound must be positive"):
        TheoreticalBeta(bound=-1.0, noise=0.1)
    with pytest.raises(ValueError, match="delta must lie strictly between 0 and 1"):
        TheoreticalBeta(bound=1.0, noise=0.1, delta=1.0)
    with pytest.raises(ValueError, match="beta must be zero or more"):
        ConstantBeta(-2.0)
    with pytest.raises(ValueError, match="horizon must be a whole number of at least 1"):
        maximum_information_gain(GP(KERNEL, 0.1), X, C, 0)
    with pytest.raises(ValueError, match="gram must be a square matrix"):
        information_gain(np.zeros((2, 3)), 1.0)
