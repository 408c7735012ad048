"""Linear programs on the simplex, against HiGHS."""

import numpy as np
import pytest
from scipy.optimize import linprog

from drbo import Moments
from drbo.ambiguity.linear import solve_rows
from tolerances import CLOSED_FORM, ROUNDING, SOLVER


@pytest.mark.parametrize("kind", ["smooth", "rounded", "signs"])
@pytest.mark.parametrize("width", [0.0, 1e-6, 0.1, 1.0, np.inf])
def test_programs_agree_with_highs_and_certify_themselves(kind: str, width: float) -> None:
    rng = np.random.default_rng(0)
    for _ in range(10):
        n, k = int(rng.integers(2, 40)), int(rng.integers(1, 5))
        A = rng.normal(size=(k, n))
        A = {"smooth": A, "rounded": np.round(A), "signs": np.sign(A)}[kind]
        A /= np.abs(A).max() + 1.0
        mean = A @ rng.dirichlet(np.ones(n))
        lower, upper = mean - width * rng.random(k), mean + width * rng.random(k)
        costs = np.stack([rng.random(n), rng.integers(0, 3, n).astype(float)])
        x, y, lacking = solve_rows(costs, A, lower, upper)
        assert not lacking.any()
        for c, found, multipliers in zip(costs, x, y, strict=True):
            assert found.min() >= 0.0
            assert found.sum() == pytest.approx(1.0, abs=ROUNDING)
            assert (A @ found >= lower - 1e-13).all()
            assert (A @ found <= upper + 1e-13).all()
            ends = np.where(multipliers > 0.0, lower, upper)
            used = multipliers != 0.0
            bound = (c - multipliers @ A).min() + multipliers[used] @ ends[used]
            assert c @ found - bound <= CLOSED_FORM
            finite = np.isfinite(lower)
            oracle = linprog(
                c, np.vstack([A[finite], -A[finite]]), np.append(upper[finite], -lower[finite]), np.ones((1, n)), [1.0]
            )
            if oracle.status == 0:  # with equal bounds HiGHS sees some as contradictions, by rounding
                assert c @ found == pytest.approx(oracle.fun, abs=SOLVER)


def test_bounds_that_no_mixture_keeps() -> None:
    A = np.array([[0.0, 0.5, 1.0]])
    _, _, lacking = solve_rows(np.zeros((1, 3)), A, np.array([1.2]), np.array([1.3]))
    assert lacking[0] == pytest.approx(0.2)


@pytest.mark.parametrize("seed", range(20))
def test_clusters_of_contexts_that_are_nearly_equal(seed: int) -> None:
    """Pivots of 1e-9 made the basis worthless: the method stopped at a corner that was not the lowest."""
    rng = np.random.default_rng(seed)
    n, d = 120, int(rng.integers(1, 4))
    contexts = rng.random((12, d))[rng.integers(0, 12, n)] + 1e-9 * rng.random((n, d))
    values = np.sin(4.0 * contexts @ rng.standard_normal((d, 10))).T + 1e6
    reference = rng.dirichlet(np.ones(n))
    moments = Moments([0.05] * d).on(contexts)
    worst = moments.worst_case(values, reference, 1.0)
    for v, found in zip(values, worst.expectation, strict=True):
        mean = reference @ contexts
        sides, limits = np.concatenate([contexts.T, -contexts.T]), np.concatenate([mean + 0.05, 0.05 - mean])
        oracle = linprog(v - 1e6, A_ub=sides, b_ub=limits, A_eq=np.ones((1, n)), b_eq=[1.0])
        assert found - 1e6 == pytest.approx(oracle.fun, abs=1e-7)
