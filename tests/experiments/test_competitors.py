"""Baselines of other papers, against scipy and the exact worst case."""

import numpy as np
import pytest
from scipy.stats import gaussian_kde

import drbo
from drbo.experiments._methods import KernelDensity, kernel_density, lipschitz_scores


def test_the_density_is_scotts_of_scipy() -> None:
    rng = np.random.default_rng(0)
    seen, points = rng.normal(size=(30, 1)), np.linspace(-3.0, 3.0, 41)[:, None]
    expected = gaussian_kde(seen.T, bw_method="scott")(points.T)
    np.testing.assert_allclose(kernel_density(seen, points), expected / expected.sum(), atol=1e-12)


def test_the_density_of_nothing_of_one_and_of_equal_contexts() -> None:
    points = np.linspace(0.0, 1.0, 5)[:, None]
    np.testing.assert_array_equal(kernel_density(np.empty((0, 1)), points), np.full(5, 0.2))
    for seen in (points[[3]], points[[3, 3, 3]]):
        np.testing.assert_allclose(kernel_density(seen, points), np.eye(5)[3], atol=1e-12)
    far = kernel_density(np.array([[50.0]]), points)  # no density underflows to 0 / 0
    assert far.sum() == pytest.approx(1.0)


def test_the_radius_falls_at_the_rate_of_the_estimate() -> None:
    points = np.linspace(0.0, 1.0, 5)
    opt = drbo.Optimizer(
        points,
        points,
        ambiguity=drbo.TotalVariation(),
        setting=KernelDensity(scale=0.5),
        surrogate=drbo.GP(drbo.Product(drbo.RBF(0.3), drbo.RBF(0.3)), 0.1),
    )
    assert opt.ask().radius == np.inf
    for j in range(4):
        opt.tell(0.0, 1.0, context_index=j)
    s = opt.ask()
    assert s.radius == pytest.approx(0.5 * 4.0 ** (-2.0 / 5.0))
    np.testing.assert_allclose(s.reference, kernel_density(points[:4, None], points[:, None]), atol=1e-12)


def test_the_penalty_is_a_lower_bound_of_the_worst_case() -> None:
    rng = np.random.default_rng(1)
    contexts, values, p = np.linspace(0.0, 1.0, 9)[:, None], rng.normal(size=(6, 9)), rng.dirichlet(np.ones(9))
    for radius in (0.0, 0.02, 0.2):
        exact = drbo.Wasserstein(contexts).worst_case(values, p, radius).expectation
        scores = lipschitz_scores(values, contexts, p, radius)
        assert (scores <= exact + 1e-9).all()
        if radius == 0.0:
            np.testing.assert_allclose(scores, values @ p, atol=1e-12)
    np.testing.assert_array_equal(lipschitz_scores(values, contexts, p, np.inf), values.min(axis=1))
    line = lipschitz_scores(2.0 * contexts.T, contexts, np.eye(9)[8], 0.25)  # exact for a straight line
    np.testing.assert_allclose(line, [2.0 - 0.25 * 2.0], atol=1e-12)
