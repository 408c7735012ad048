"""The factor of a matrix that is never formed: M = F'F, its rank, and a factor that is extended."""

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from drbo import RBF, Matern
from drbo.ambiguity.pivoted import Entries, PivotedCholesky
from drbo.kernels import Kernel
from tolerances import ROUNDING

Array = NDArray[np.float64]
KERNELS: list[Kernel] = [RBF(0.3), RBF(2.0, 3.0), Matern(0.1, nu=1.5), RBF(1e-3)]


def entries_of(M: Array) -> Entries:
    return lambda rows, columns: M[rows][:, columns]


def factor(M: Array) -> PivotedCholesky:
    return PivotedCholesky(entries_of(M), M.diagonal()).complete()


def check(found: PivotedCholesky, M: Array) -> None:
    """The factor reproduces M up to n u max(M) per entry, is triangular in its pivots, and nothing is left."""
    rounding = 4.0 * len(M) * np.finfo(float).eps * M.max()
    np.testing.assert_allclose(found.rows.T @ found.rows, M, rtol=0.0, atol=rounding)
    assert found.rows.shape == (len(found.pivots), len(M))
    assert len(set(found.pivots)) == len(found.pivots)
    assert (found.rest[found.pivots] <= 0.0).all()  # so that none is chosen again
    assert np.abs(found.rest).max() <= rounding
    own = found.rows[:, found.pivots]
    assert np.abs(np.tril(own, -1) * np.diag(own)[:, None]).max(initial=0.0) <= rounding
    assert (np.diag(own) > 0.0).all()


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("n", [1, 2, 70, 300])
def test_the_factor_reproduces_the_matrix(kernel: Kernel, n: int) -> None:
    points = np.random.default_rng(n).random((n, 2))
    points[n // 2 :: 4] = points[0]
    check(factor(kernel(points, points)), kernel(points, points))


def test_the_number_of_pivots_is_the_rank() -> None:
    rng = np.random.default_rng(0)
    F = rng.normal(size=(5, 40))
    assert len(factor(F.T @ F).pivots) == 5
    assert len(factor(np.ones((30, 30))).pivots) == 1
    assert factor(np.zeros((3, 3))).rows.shape == (0, 3)
    line = np.linspace(0.0, 1.0, 2000)[:, None]
    entries: Entries = lambda rows, columns: RBF(0.1)(line[rows], line[columns])  # noqa: E731
    assert len(PivotedCholesky(entries, np.ones(2000)).complete().pivots) < 60


def test_pivots_may_be_chosen() -> None:
    points = np.random.default_rng(0).random((20, 2))
    M = RBF(0.3)(points, points)
    found = PivotedCholesky(entries_of(M), M.diagonal(), most=3)
    for pivot in (7, 0, 13):
        row = found.add(pivot)
        assert row[pivot] > 0.0
    assert found.pivots == [7, 0, 13]
    np.testing.assert_allclose(found.rows[:, [7, 0, 13]].T, np.linalg.cholesky(M[np.ix_([7, 0, 13], [7, 0, 13])]))
    left = M - M[:, [7, 0, 13]] @ np.linalg.solve(M[np.ix_([7, 0, 13], [7, 0, 13])], M[[7, 0, 13]])
    np.testing.assert_allclose(found.rest, left.diagonal(), atol=ROUNDING)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize(("n", "k"), [(1, 1), (5, 20), (60, 1), (100, 100)])
def test_an_extended_factor_is_one_from_scratch(kernel: Kernel, n: int, k: int) -> None:
    rng = np.random.default_rng([n, k])
    points = rng.random((n + k, 2))
    points[n + k // 2] = points[0]  # a further point that is an old one
    M = kernel(points, points)
    small = factor(M[:n, :n])
    before = small.rows.copy(), small.rest.copy(), list(small.pivots)
    large = small.extended(entries_of(M), M[np.ix_(small.pivots, range(n, n + k))], M.diagonal()[n:])
    kept = sum(itertools.takewhile(bool, (a == b for a, b in zip(small.pivots, large.pivots, strict=False))))
    assert kept > 0
    np.testing.assert_array_equal(large.rows[:kept, :n], small.rows[:kept])
    check(large, M)
    rounding = 8.0 * len(M) * np.finfo(float).eps * M.max()
    np.testing.assert_allclose(large.rows.T @ large.rows, factor(M).rows.T @ factor(M).rows, rtol=0.0, atol=rounding)
    np.testing.assert_array_equal(small.rows, before[0])  # the old factor is as it was
    np.testing.assert_array_equal(small.rest, before[1])
    assert small.pivots == before[2]


def test_a_factor_is_extended_again_and_again() -> None:
    rng = np.random.default_rng(0)
    points = rng.random((200, 2))
    M = Matern(0.4)(points, points)
    grown = factor(M[:20, :20])
    for n in range(20, 200, 15):
        k = min(15, 200 - n)
        part = M[: n + k, : n + k]
        grown = grown.extended(entries_of(part), part[np.ix_(grown.pivots, range(n, n + k))], part.diagonal()[n:])
    check(grown, M)


@pytest.mark.parametrize("kernel", [*KERNELS, RBF(0.1), Matern(0.4)], ids=repr)
def test_further_points_far_from_all_the_others_cost_no_accuracy(kernel: Kernel) -> None:
    """The last pivots of close points are of the size 1e-14: to keep them for far ones was once wrong by 6e-7."""
    rng = np.random.default_rng(0)
    for n, k in ((60, 60), (128, 4)):
        points = np.concatenate([0.2 * rng.random((n, 2)), rng.random((k, 2))])
        M = kernel(points, points)
        small = factor(M[:n, :n])
        check(small.extended(entries_of(M), M[np.ix_(small.pivots, range(n, n + k))], M.diagonal()[n:]), M)
