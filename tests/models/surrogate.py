"""A grid, a function on it, and outcomes of all kinds: what the tests of posteriors share."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from drbo import GP, RBF, Box, Product
from drbo.kernels import Kernel
from drbo.models import ExactPosterior
from drbo.models.curve import Curve

X = np.linspace(0, 1, 9)[:, None]
C = np.linspace(0, 1, 11)[:, None]


def f(x: NDArray[Any], c: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.sin(5 * x) * np.cos(3 * c))


def observed(gp: GP, xs: NDArray[Any], cs: NDArray[Any], y: NDArray[Any]) -> ExactPosterior:
    posterior = ExactPosterior.prior(gp, X, C)
    for x, c, outcome in zip(xs, cs, y, strict=True):
        posterior = posterior.with_outcome(x, c, outcome)
    return posterior


def data(kind: str, n: int, noise: float) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(1)
    xs, cs = rng.random((n, 1)), rng.random((n, 1))
    if kind == "grid points, repeated":
        xs, cs = X[rng.integers(0, 9, n)], C[rng.integers(0, 11, n)]
    elif kind == "four points, repeated":
        xs, cs = X[rng.integers(0, 2, n)], C[rng.integers(0, 2, n)]
    elif kind == "near-duplicates":
        xs = X[rng.integers(0, 4, n)] + 1e-7 * rng.normal(size=(n, 1))
        cs = C[rng.integers(0, 4, n)] + 1e-7 * rng.normal(size=(n, 1))
    return xs, cs, f(xs, cs)[:, 0] + noise * rng.normal(size=n)


def cube(d: int) -> Box:
    return Box(**{f"c{i}": (0.0, 1.0) for i in range(d)})


def random_curve(box: Box, seed: int, beta: float = -2.0, kernel: Kernel | None = None) -> Curve:
    """The bound of one action after 25 noisy outcomes of random functions."""
    rng = np.random.default_rng(seed)
    posterior = ExactPosterior(
        GP(Product(RBF(0.4), kernel or RBF(0.4)), 0.05), np.empty((0, 1)), np.zeros((1, box.dimension))
    )
    for c in box.sample(25, seed):
        posterior = posterior.with_outcome(rng.random(1), c, np.sin(4 * c.sum() + seed) + 0.3 * rng.normal())
    return posterior.curve(np.array([0.5]), beta)
