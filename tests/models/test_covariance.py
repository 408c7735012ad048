"""The covariance of f at points with averages over contexts, against dense linear algebra."""

import numpy as np
import pytest

from drbo import GP, RBF, ConstantKernel, Matern, Product
from drbo.models import ExactPosterior
from drbo.models.data import Observation
from drbo.models.kronecker import KroneckerPosterior
from drbo.models.perturbed import PerturbedPosterior
from drbo.spaces.space import Displacement
from drbo.validation import FloatArray

MODEL = GP(Product(Matern(0.4), RBF(0.3)), 0.2)
RNG = np.random.default_rng(0)
X, C = RNG.random((5, 2)), RNG.random((4, 1))
WEIGHTS = RNG.dirichlet(np.ones(4), (5, 3))
ROWS, COLUMNS = np.array([0, 3, 4, 4]), np.array([1, 0, 3, 2])
SEEN = [(RNG.random(2), RNG.random(1), RNG.normal()) for _ in range(6)]
SEEN.append((*SEEN[0][:2], 0.3))  # one point twice


def dense(gp: GP, seen: FloatArray, grid: FloatArray, d_x: int) -> FloatArray:
    """Return the covariance (p, m, k) from the whole covariance matrix of points (x, c) seen and of the grid."""

    def k(a: FloatArray, b: FloatArray) -> FloatArray:
        return np.asarray(gp.kernel.action(a[:, :d_x], b[:, :d_x]) * gp.kernel.context(a[:, d_x:], b[:, d_x:]))

    K = k(seen, seen) + gp.ridge * np.eye(len(seen))
    whole = k(grid, grid) - k(grid, seen) @ np.linalg.solve(K, k(seen, grid))
    return np.asarray(np.einsum("pmn,mkn->pmk", whole.reshape(5, 4, 5, 4)[ROWS, COLUMNS], WEIGHTS))


def points(x: FloatArray, c: FloatArray) -> FloatArray:
    return np.concatenate([np.repeat(x, len(c), axis=0), np.tile(c, (len(x), 1))], axis=1)


@pytest.mark.parametrize("n", [0, 7])
@pytest.mark.parametrize("actions", [X, X[:0]], ids=["grid", "anywhere"])
def test_of_a_posterior(actions: FloatArray, n: int) -> None:
    posterior = ExactPosterior(MODEL, actions, C)
    for x, c, y in SEEN[:n]:
        posterior = posterior.with_outcome(x, c, y)
    seen = np.array([np.concatenate([x, c]) for x, c, _ in SEEN[:n]]).reshape(-1, 3)
    expected = dense(MODEL, seen, points(X, C), 2)
    np.testing.assert_allclose(posterior.covariance(X, WEIGHTS, ROWS, COLUMNS), expected, atol=1e-12)


@pytest.mark.parametrize("n", [0, 7])
def test_of_a_block_and_what_is_on_top_of_it(n: int) -> None:
    x, c, y = RNG.random((3, 2)), RNG.random((2, 1)), RNG.normal(size=(3, 2))
    posterior = KroneckerPosterior(MODEL, X[:0], C, (x, c, y))
    posterior = posterior.with_more([Observation.of(*one) for one in SEEN[:n]])
    on_top = np.array([np.concatenate([x, c]) for x, c, _ in SEEN[:n]]).reshape(-1, 3)
    expected = dense(MODEL, np.concatenate([points(x, c), on_top]), points(X, C), 2)
    np.testing.assert_allclose(posterior.covariance(X, WEIGHTS, ROWS, COLUMNS), expected, atol=1e-12)


@pytest.mark.parametrize("n", [0, 7])
def test_of_perturbed_actions(n: int) -> None:
    gp = GP(Product(Matern(0.4), ConstantKernel()), 0.2)
    shift = Displacement(np.array([-0.1, 0.0]), np.array([[0.3, 0.0]]))
    posterior = PerturbedPosterior(gp, shift, X[:0], C)
    posterior = posterior.with_more([Observation.of(*one) for one in SEEN[:n]])
    seen = np.array([x + shift.steps(c[None])[0] for x, c, _ in SEEN[:n]]).reshape(-1, 2)
    expected = dense(gp, np.c_[seen, np.zeros(n)], np.c_[shift.places(X, C), np.zeros(20)], 2)
    np.testing.assert_allclose(posterior.covariance(X, WEIGHTS, ROWS, COLUMNS), expected, atol=1e-12)
