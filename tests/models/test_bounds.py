"""Widths, bounds and information gain, and the coverage that Lemma 1 promises."""

import itertools
import math

import numpy as np
import pytest

import drbo
from drbo import GP, RBF, Product, TheoreticalBeta
from drbo.models import ExactPosterior, information_gain, maximum_information_gain
from drbo.models.bounds import LOWER, UPPER, Bound, ConstantBeta, Side, as_beta
from drbo.models.data import Units
from drbo.spaces import Point
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
    posterior = ExactPosterior.prior(GP(KERNEL, 0.1), X, C)
    posterior = posterior.with_outcome(X[0], C[0], 1.0)
    np.testing.assert_allclose(Bound(posterior, 2.0, UPPER).on_grid(), posterior.mean + 2 * posterior.std)
    np.testing.assert_allclose(Bound(posterior, 2.0, LOWER).on_grid(), posterior.mean - 2 * posterior.std)


@pytest.mark.parametrize("side", [UPPER, LOWER])
def test_a_bound_answers_alike_on_the_grid_and_off_it(side: Side) -> None:
    posterior = ExactPosterior.prior(GP(KERNEL, 0.1), X, C)
    for i in range(5):
        posterior = posterior.with_outcome(X[i % 4], C[i % 3], float(i))
    bound = Bound(posterior, 1.5, side)
    grid = posterior.mean + side * 1.5 * posterior.std
    np.testing.assert_allclose(bound.on_grid(), grid, atol=CLOSED_FORM)
    np.testing.assert_allclose(bound.at(X), grid, atol=CLOSED_FORM)
    for i, x in enumerate(X):
        np.testing.assert_allclose(bound.of_action(Point(x, i)), grid[i], atol=CLOSED_FORM)
        np.testing.assert_allclose(bound.curve(x)(C), grid[i], atol=CLOSED_FORM)
    assert bound.slope == side * 1.5


@pytest.mark.parametrize("side", [UPPER, LOWER])
def test_no_average_of_a_bound_exceeds_its_ceiling(side: Side) -> None:
    posterior = ExactPosterior.prior(GP(Product(RBF(0.3, 2.0), RBF(0.4)), 0.1), X, C)
    for i in range(5):
        posterior = posterior.with_outcome(X[i % 4], C[i % 3], float(i))
    bound = Bound(posterior, 1.5, side)
    assert bound.amplitude == pytest.approx(2.0, abs=CLOSED_FORM)
    for weights in np.random.default_rng(0).dirichlet(np.ones(3), 20):
        assert (bound.ceilings(X, weights) >= bound.on_grid() @ weights - CLOSED_FORM).all()


def test_theoretical_beta_converts_noise_and_norm_alike() -> None:
    """With outcomes in units of 5, noise 1.5 and norm 10 of the user are 0.3 and 2 of the model."""
    own = TheoreticalBeta(bound=10.0, noise=1.5).width(3.0, 0.04, 2, Units(-1.0, 100.0, 5.0))
    assert own == pytest.approx(TheoreticalBeta(bound=2.0, noise=0.3).width(3.0, 0.04, 2), abs=CLOSED_FORM)


def test_a_number_stands_for_a_constant_width() -> None:
    assert as_beta(2) == ConstantBeta(2.0)
    assert as_beta(2).width(7.0, 0.04, 3, Units(scale=5.0)) == 2.0
    rule = TheoreticalBeta(bound=1.0, noise=0.1)
    assert as_beta(rule) is rule


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
    with pytest.raises(ValueError, match="beta must be from zero to"):
        ConstantBeta(-2.0)
    with pytest.raises(ValueError, match="horizon must be at least 1"):
        maximum_information_gain(GP(KERNEL, 0.1), X, C, 0)
    with pytest.raises(ValueError, match="gram must be a square matrix"):
        information_gain(np.zeros((2, 3)), 1.0)


@pytest.mark.parametrize(("parameters", "learned", "width"), [(14, True, 2.0), (15, True, 0.5), (15, False, 2.0)])
def test_a_learned_model_searches_many_parameters_with_narrow_bounds(
    parameters: int, learned: bool, width: float
) -> None:
    opt = drbo.Optimizer(
        drbo.Box({f"x{k}": (0.0, 1.0) for k in range(parameters)}),
        drbo.Samples([[0.1], [0.9]]),
        ambiguity=drbo.MMD(),
        setting=drbo.Simulator(radius=0.1),
        surrogate=None if learned else GP(KERNEL, 0.1),
    )
    assert opt.configuration.beta.width(0.0, 1.0) == width
    assert opt.configuration.bound_beta.width(0.0, 1.0) == (3.0 if learned else 2.0)
