"""Block pivoting, the MMD adversary with many active atoms: against one atom at a time, CVXPY, and hard inputs."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.typing import NDArray

from drbo import MMD, RBF, Matern
from drbo.ambiguity._block_pivoting import BlockPivoting, _Hull
from drbo.kernels import Kernel
from tolerances import FEASIBLE, SOLVER

Array = NDArray[np.float64]
N = 300
LINE = np.linspace(0.0, 1.0, N)[:, None]
PLANE = np.random.default_rng(0).random((N, 2))
ROUGH = Matern(0.1, nu=1.5)
UNIFORM = np.full(N, 1.0 / N)


def blocks(contexts: Array, kernel: Kernel) -> BlockPivoting:
    placed = MMD(contexts, kernel).placed
    return BlockPivoting(placed.features, placed._factor.pivots)


def one_at_a_time(mmd: MMD) -> MMD:
    """The same set, for which block pivoting is never tried."""
    return MMD.of_features(mmd.placed.features)


@pytest.mark.parametrize("contexts", [LINE, PLANE], ids=["line", "plane"])
@pytest.mark.parametrize("radius", [0.01, 0.1])
def test_dense_optima_are_those_of_one_atom_at_a_time(contexts: Array, radius: float) -> None:
    mmd = MMD(contexts, ROUGH)
    values = np.cos(5.0 * contexts.sum(axis=1))
    found = blocks(contexts, ROUGH).solve(values, UNIFORM, radius)
    assert found is not None
    weights, lower_bound = found
    assert weights.min() >= 0.0
    assert weights.sum() == pytest.approx(1.0, abs=FEASIBLE)
    assert mmd.distance(weights / weights.sum(), UNIFORM) <= radius + FEASIBLE
    assert weights @ values - lower_bound == pytest.approx(0.0, abs=1e-10 * np.ptp(values))
    expected = one_at_a_time(mmd).worst_case(values, UNIFORM, radius)
    assert (expected.weights > 0.0).sum() > 0.3 * N
    assert weights @ values == pytest.approx(float(expected.expectation), abs=1e-10 * np.ptp(values))
    np.testing.assert_allclose(weights, expected.weights, atol=1e-7)


def test_a_dense_optimum_agrees_with_an_independent_solver() -> None:
    mmd, values, radius = MMD(LINE, ROUGH), np.sin(7.0 * LINE[:, 0]), 0.1
    w = cp.Variable(N)
    ball = cp.norm(mmd.placed.features.T @ (w - UNIFORM)) <= radius
    problem = cp.Problem(cp.Minimize(values @ w), [w >= 0, cp.sum(w) == 1, ball])
    problem.solve(solver=cp.CLARABEL)
    worst = mmd.worst_case(values, UNIFORM, radius)
    assert worst.expectation == pytest.approx(float(problem.value), abs=1e-6 * np.ptp(values))
    assert worst.gap <= SOLVER * np.ptp(values)


@pytest.mark.parametrize("seed", [0, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 3, 4, 5))])
def test_random_problems_are_those_of_one_atom_at_a_time(seed: int) -> None:
    """Whether block pivoting solves a problem or gives up, in batches of every kind of values."""
    rng = np.random.default_rng(seed)
    d = 1 + seed % 3
    contexts = rng.random((N, d))
    if seed == 4:
        contexts[::10] = contexts[1::10]
    scale = 10.0 ** rng.uniform(-1.5, 0.0)
    mmd = MMD(contexts, [Matern(scale, nu=1.5), Matern(scale), RBF(0.05 * d)][seed % 3 if seed != 4 else 0])
    waves = np.cos(contexts @ rng.normal(size=(d, 3)) * 5.0).T
    values = np.concatenate(
        [
            waves,
            1e12 + 1e3 * waves[:1],
            np.round(waves[1:2], 1),
            rng.normal(size=(1, N)),
            rng.standard_cauchy((1, N)) ** 3,
            np.full((1, N), 2.0),
            np.eye(N)[:1],
        ]
    )
    references = [UNIFORM, rng.dirichlet(np.full(N, 0.1))]
    span = np.ptp(values, axis=1)
    for reference in references:
        for radius in (1e-6, 1e-3, 0.1, np.inf):
            worst = mmd.worst_case(values, reference, radius)
            assert worst.weights.min() >= 0.0
            np.testing.assert_allclose(worst.weights.sum(axis=1), 1.0, atol=FEASIBLE)
            assert max(mmd.distance(w, reference) for w in worst.weights) <= radius + FEASIBLE
            rounding = 8.0 * np.finfo(float).eps * np.abs(values).max(axis=1)
            assert (worst.gap <= SOLVER * span + rounding).all()
            expected = one_at_a_time(mmd).worst_case(values, reference, radius).expectation
            assert (np.abs(worst.expectation - expected) <= SOLVER * span + rounding).all()


def test_it_gives_up_where_it_is_no_use() -> None:
    smooth = np.cos(5.0 * LINE[:, 0])
    by_blocks = blocks(LINE, ROUGH)
    assert by_blocks.solve(np.ones(N), UNIFORM, 0.1) is None  # nothing to solve
    assert by_blocks.solve(smooth, UNIFORM, 2.0) is None  # a single context is the answer
    assert by_blocks.solve(smooth, UNIFORM, 1e-6) is None  # entries of M are too coarse
    few = np.random.default_rng(0).random((N, 3))
    assert blocks(few, RBF(0.3)).solve(np.cos(5.0 * few[:, 0]), UNIFORM, 0.3) is None  # few atoms carry weight


def test_the_hull_is_solved_as_atoms_come_and_go() -> None:
    rng = np.random.default_rng(0)
    gram = Matern(0.2, nu=1.5)(PLANE, PLANE)
    hull, right = _Hull(gram), rng.normal(size=(N, 3))
    active = np.arange(0, N, 2)
    for _ in range(12):
        found = hull.solve(active, right)
        expected = np.linalg.solve(gram[np.ix_(active, active)], right[active])
        assert found is not None
        np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max())
        changed = rng.choice(N, 8, replace=False)
        active = np.setxor1d(active, changed)
    assert _Hull(np.ones((N, N))).solve(active, right) is None
