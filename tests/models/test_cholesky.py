"""The growing factor: blocks against single points, to the last bit, and both against a factor from scratch."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from drbo import RBF, Matern
from drbo.models._cholesky import append_point, append_points, lower_diagonal, whitened
from tolerances import CLOSED_FORM

Array = NDArray[Any]
ROOM = 16
"""More columns than points: compiled code may read beyond the last one."""


def covariance(n: int, ridge: float, seed: int) -> Array:
    points = np.random.default_rng(seed).random((n, 2))
    points[n // 2 :: 3] = points[0]  # repeated points
    return np.asarray((RBF(0.3) if seed % 2 else Matern(0.3))(points, points) + ridge * np.eye(n))


def one_by_one(K: Array, least: float, start: int = 0, U: Array | None = None) -> tuple[Array, Array]:
    n = len(K)
    U = np.zeros((n, n + ROOM)) if U is None else U
    pivots = [append_point(U, t, K[:t, t].copy(), K[t, t], least) for t in range(start, n)]
    return U, np.array(pivots)


@pytest.mark.parametrize("ridge", [1e-14, 1e-8, 0.1])
@pytest.mark.parametrize(("before", "block"), [(0, 1), (0, 7), (1, 16), (15, 3), (16, 16), (40, 33), (100, 64)])
def test_a_block_has_the_bits_of_its_points_one_by_one(before: int, block: int, ridge: float) -> None:
    for seed in range(4):
        n = before + block
        K = covariance(n, ridge, seed)
        U, pivots = one_by_one(K, ridge)
        in_block, _ = one_by_one(K[:before, :before], ridge, U=np.zeros((n, n + ROOM)))
        columns = np.triu(K, 1)[:, before:].copy()
        found = append_points(
            in_block, before, columns, np.diag(K)[before:].copy(), np.full(K.shape[0] - before, ridge)
        )
        np.testing.assert_array_equal(in_block, U)
        np.testing.assert_array_equal(found, pivots[before:])


def test_the_factor_is_that_of_a_solve_from_scratch() -> None:
    K = covariance(80, 0.01, 0)
    U, pivots = one_by_one(K, 0.01)
    np.testing.assert_allclose(U[:, :80], np.linalg.cholesky(K).T, atol=CLOSED_FORM)
    np.testing.assert_allclose(U[:, :80].T @ U[:, :80], K, atol=CLOSED_FORM)
    np.testing.assert_allclose(pivots, np.diag(U) ** 2, rtol=CLOSED_FORM)


def test_a_pivot_of_rounding_error_is_raised() -> None:
    """Two equal points and no ridge: nothing is left of the second one."""
    K = np.ones((2, 2))
    U, pivots = one_by_one(K, 1e-9)
    assert pivots.tolist() == [1.0, 1e-9]
    again, _ = one_by_one(K[:1, :1], 1e-9, U=np.zeros((2, 2 + ROOM)))
    assert append_points(again, 1, np.array([[1.0], [0.0]]), np.ones(1), np.array([1e-9])).tolist() == [1e-9]
    np.testing.assert_array_equal(again, U)


@pytest.mark.parametrize("ridge", [1e-4, 0.1])
@pytest.mark.parametrize(("n", "i"), [(1, 0), (9, 0), (9, 4), (9, 8), (60, 30)])
def test_less_at_one_entry_of_the_diagonal(n: int, i: int, ridge: float) -> None:
    K, y = covariance(n, ridge, 0), np.random.default_rng(1).normal(size=n)
    U, _ = one_by_one(K, ridge)
    lower_diagonal(U, n, i, ridge / 2)
    K[i, i] -= ridge / 2
    expected = np.linalg.cholesky(K)
    np.testing.assert_allclose(U[:n, :n], expected.T, atol=CLOSED_FORM)
    np.testing.assert_allclose(expected @ whitened(U, n, y), y, atol=CLOSED_FORM)
