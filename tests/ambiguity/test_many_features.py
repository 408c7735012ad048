"""Worst cases with hundreds of features are those of the exact solver alone, from whichever start."""

import numpy as np
import pytest
from numpy.typing import NDArray

from ambiguity import contract
from drbo import MMD, RBF
from drbo.ambiguity._many_features import FEWEST, start_on_gram
from drbo.ambiguity._mmd_atoms import embed
from drbo.ambiguity._mmd_solver import solve_batch
from tolerances import FEASIBLE, SOLVER

Array = NDArray[np.float64]

CUBE = np.random.default_rng(0).random((270, 3))
PLANE = np.stack(np.meshgrid(*[np.linspace(0.0, 1.0, 26)] * 2), axis=-1).reshape(-1, 2)
REPEATED = np.concatenate([CUBE, CUBE[:20], CUBE[:5] + 1e-9])


def alone(mmd: MMD, values: Array, reference: Array, radius: float) -> Array:
    """Return the expectations (m,) that the exact solver finds without a start."""
    weights, bound = np.empty_like(values), np.empty(len(values))
    b, bt, norms = embed(reference, mmd.placed.features)
    solve_batch(values, reference, b, bt, norms, radius, weights, bound)
    lowest = values.min(axis=1)  # sums are rounded relative to the range of the values, not to their size
    return np.asarray(lowest + (weights * (values - lowest[:, None])).sum(axis=1))


@pytest.mark.parametrize(
    ("contexts", "kernel"),
    [(CUBE, RBF(0.2)), (PLANE, RBF(0.2)), (REPEATED, RBF(0.2))],
    ids=["all contexts", "pivots and cheap contexts", "repeated contexts"],
)
@pytest.mark.parametrize("radius", [0.3, 0.1, 1e-4])
def test_they_are_those_of_the_exact_solver(contexts: Array, kernel: RBF, radius: float) -> None:
    rng = np.random.default_rng(1)
    n = len(contexts)
    mmd = MMD(contexts, kernel)
    assert mmd.placed.features.shape[1] >= FEWEST
    smooth = np.sin(contexts @ rng.normal(size=(contexts.shape[1], 2)) * 4.0).T
    values = np.stack([smooth[0], np.full(n, 2.0), np.sign(smooth[0]), 1e6 + smooth[1]])
    sparse = np.zeros(n)
    sparse[rng.choice(n, 5, replace=False)] = 0.2
    for reference in (rng.dirichlet(np.ones(n)), sparse):
        worst = mmd.worst_case(values, reference, radius)
        assert np.all(
            np.abs(worst.expectation - alone(mmd, values, reference, radius)) <= SOLVER * np.ptp(values, axis=1)
        )
        for weights in worst.weights:
            assert mmd.distance(weights / weights.sum(), reference) <= radius + FEASIBLE * mmd.placed.growth.unit


def test_an_answer_does_not_depend_on_what_was_asked_before() -> None:
    rng = np.random.default_rng(2)
    values, reference = np.sin(PLANE @ rng.normal(size=(2, 4)) * 4.0).T, rng.dirichlet(np.ones(len(PLANE)))
    fresh = [MMD(PLANE, RBF(0.2)).worst_case(v, reference, 0.1).weights for v in values]
    mmd = MMD(PLANE, RBF(0.2))
    for v, expected in zip(values[::-1], fresh[::-1], strict=True):
        np.testing.assert_array_equal(mmd.worst_case(v, reference, 0.1).weights, expected)


def test_a_start_is_nearly_the_optimum() -> None:
    """On all contexts of the cube the start has the value of the optimum to 1e-8 of the range."""
    rng = np.random.default_rng(3)
    mmd, n, radius = MMD(CUBE, RBF(0.2)), len(CUBE), 0.1
    p, v = rng.dirichlet(np.ones(n)), np.sin(5.0 * CUBE).sum(axis=1)
    gram = mmd.placed.features @ mmd.placed.features.T
    d = np.append((v - v.min()) / np.ptp(v), 0.0)
    d[:n] -= p @ d[:n]
    active, lam = np.empty(n + 2, dtype=np.int64), np.empty(n + 2)
    size, step = start_on_gram(gram, gram @ p, float(p @ gram @ p), d, radius, n, active, lam, 0)
    assert step > 0.0
    optimum = float(mmd.worst_case(v, p, radius).expectation)
    found = v.min() + np.ptp(v) * (lam[:size] @ d[active[:size]] + p @ (v - v.min()) / np.ptp(v))
    assert found == pytest.approx(optimum, abs=1e-8 * np.ptp(v))
    assert lam[:size].min() >= 0.0
    assert lam[:size].sum() == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("contexts", [CUBE, PLANE], ids=["all contexts", "pivots and cheap contexts"])
def test_two_rows_have_the_bits_of_each_alone(contexts: Array) -> None:
    rng = np.random.default_rng(4)
    values, reference = np.sin(contexts @ rng.normal(size=(contexts.shape[1], 2)) * 4.0).T, rng.random(len(contexts))
    contract.check_rows_alone(MMD(contexts, RBF(0.2)).on(contexts), values, reference / reference.sum(), 0.1)
