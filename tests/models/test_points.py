"""Repeated points that are merged, and a factor in one go: the same posterior as one observation after the other."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from drbo import GP, RBF, ConstantKernel, Matern, Product
from drbo.models.data import Observation
from drbo.models.observation_rows import Rows
from drbo.models.points import DistinctPoints
from drbo.models.regression import ExactPosterior
from tolerances import CLOSED_FORM

Array = NDArray[Any]
X = np.random.default_rng(1).random((12, 2))
C = np.random.default_rng(2).random((5, 1))
NO_GRID = np.empty((0, 2))


def prior(correlation: float = 0.0) -> GP:
    return GP(Product(Matern((0.3, 0.4), amplitude=1.2), Matern((0.3,), nu=1.5)), 0.1, noise_correlation=correlation)


def observations(count: int = 80, seed: int = 0) -> list[Observation]:
    """Return repeats, standard errors, vectors, averages over contexts, and failures at the end."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(count):
        x, y = X[rng.integers(len(X))], rng.normal(size=3)
        if i % 7 == 0:
            found += [Observation.of(x, C[b], y[b], None, b, 2 - b) for b in range(3)]
        elif i % 11 == 0:
            found.append(Observation(x, C[:3], np.array([0.2, 0.3, 0.5]), y[0], scatter=0.05))
        else:
            found.append(Observation.of(x, C[rng.integers(len(C))], y[0], 0.2 if i % 2 else None))
    return found + [Observation.of(rng.random(2), C[0], None) for _ in range(4)]


@pytest.mark.parametrize("correlation", [0.0, 0.4])
def test_merged_points_have_the_posterior_of_all_observations(correlation: float) -> None:
    gp, given = prior(correlation), observations()
    points = DistinctPoints.merged(Rows.of(given, 2, 1), gp)
    assert len(points) < len(given)
    q = np.linspace(0.0, 1.0, 9)[:, None]
    apart = ExactPosterior(gp, NO_GRID, q).with_more(given)
    at_once = ExactPosterior.of(points.factor(gp, NO_GRID, q, given))
    later = [Observation.of(X[0], C[0], 0.3), Observation.of(np.array([0.1, 0.9]), C[1], -0.2)]
    there = np.random.default_rng(3).random((20, 2))
    for a, b in ((apart, at_once), (apart.with_more(later), at_once.with_more(later))):
        for ours, theirs in zip(b.moments(there), a.moments(there), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=0.0, atol=CLOSED_FORM)
        for ours, theirs in zip(b.leave_one_out(), a.leave_one_out(), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=0.0, atol=CLOSED_FORM)
        assert b.information_gain == pytest.approx(a.information_gain, abs=CLOSED_FORM)
        assert b.n_data == a.n_data


def test_merged_points_on_a_grid_and_other_contexts() -> None:
    """A grid keeps mean and variance up to date; merged rows must not be read as those of single observations."""
    gp, given = prior(), observations()
    points = DistinctPoints.merged(Rows.of(given, 2, 1), gp)
    made = ExactPosterior.of(points.factor(gp, X, C, given))
    more = [Observation.of(X[0], C[0], 0.3), Observation.of(X[0], C[0], 0.1)]
    apart = ExactPosterior(gp, X, C[:2]).with_more([*given, *more])
    ours = made.with_more(more).on(C[:2])
    np.testing.assert_allclose(ours.mean, apart.mean, rtol=0.0, atol=CLOSED_FORM)
    np.testing.assert_allclose(ours.variance, apart.variance, rtol=0.0, atol=CLOSED_FORM)


def test_some_points_are_a_posterior_of_their_own() -> None:
    """Evaluations with several outcomes may lose some of them: the others keep their correlation."""
    gp, rng = prior(0.4), np.random.default_rng(0)
    given = [Observation.of(X[i // 3], C[i % 3], float(rng.normal()), None, i % 3, 2 - i % 3) for i in range(30)]
    points = DistinctPoints.merged(Rows.of(given, 2, 1), gp)
    assert len(points) == 30
    q = np.linspace(0.0, 1.0, 9)[:, None]
    ours = ExactPosterior.of(points.at(np.arange(1, 30, 3)).factor(gp, NO_GRID, q))
    alone = [Observation.of(one.action, one.contexts[0], one.outcome) for one in given[1::3]]
    theirs = ExactPosterior(gp, NO_GRID, q).with_more(alone)
    left = [one for i, one in enumerate(given) if i % 3]
    pairs = [replace(one, before=i % 2, after=1 - i % 2) for i, one in enumerate(left)]
    np.testing.assert_allclose(ours.moments(X)[0], theirs.moments(X)[0], rtol=0.0, atol=CLOSED_FORM)
    two = ExactPosterior.of(points.at(np.array([i for i in range(30) if i % 3])).factor(gp, NO_GRID, q))
    both = ExactPosterior(gp, NO_GRID, q).with_more(pairs)
    np.testing.assert_allclose(two.moments(X)[1], both.moments(X)[1], rtol=0.0, atol=CLOSED_FORM)


KERNELS = [
    Product(Matern((0.3, 0.4), amplitude=1.2), RBF(0.3)),
    Product(RBF((0.3, 2.0)), Matern((0.5,), nu=1.5, amplitude=0.7)),
    Product(RBF(0.3), ConstantKernel()),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_the_kernel_of_pairs_is_the_product(kernel: Product) -> None:
    rng = np.random.default_rng(0)
    x, c, x_2, c_2 = rng.random((70, 2)), rng.random((70, 1)), rng.random((900, 2)), rng.random((900, 1))
    found = kernel.between(x, c, x_2, c_2)
    np.testing.assert_allclose(found, kernel.action(x, x_2) * kernel.context(c, c_2), rtol=1e-13)
    assert (kernel.between(x[3:4], c[3:4], x_2, c_2)[0] == found[3]).all()
