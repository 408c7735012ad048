"""Total variation, KL, chi-square and CVaR: what they share (duals, CVXPY, hard inputs), and formulas by hand."""

import math
from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import rel_entr

from drbo import KL, AmbiguitySet, ChiSquare, CVaR, Expectation, TotalVariation
from tolerances import CLOSED_FORM, FEASIBLE, ROUNDING, SOLVER

Array = NDArray[np.float64]
SETS: list[AmbiguitySet] = [TotalVariation(), KL(), ChiSquare(), CVaR()]
ON_SUPPORT: list[AmbiguitySet] = [KL(), ChiSquare(), CVaR()]


# --- duals -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("radius", [1e-6, 0.01, 0.2, 0.6])
def test_duals_are_those_of_the_docstrings(radius: float) -> None:
    rng = np.random.default_rng(0)
    for _ in range(5):
        v, p = rng.random(6), rng.dirichlet(np.ones(6))
        duals: list[tuple[AmbiguitySet, Callable[[float], float], tuple[float, float]]] = [
            (TotalVariation(), lambda t, v=v, p=p: p @ np.minimum(v, t) - radius * (t - v.min()), (0.0, 1.0)),  # type: ignore[misc]
            (CVaR(), lambda t, v=v, p=p: t - p @ np.maximum(t - v, 0.0) / (1 - radius), (0.0, 1.0)),  # type: ignore[misc]
            (
                KL(),
                lambda log_theta, v=v, p=p: (  # type: ignore[misc]
                    -(np.log(p @ np.exp(-np.exp(log_theta) * v)) + radius) / np.exp(log_theta)
                ),
                (-8.0, 8.0),
            ),
            (
                ChiSquare(),
                lambda t, v=v, p=p: t - np.sqrt((1 + radius) * (p @ np.maximum(t - v, 0.0) ** 2)),  # type: ignore[misc]
                (0.0, 1e4),
            ),
        ]
        for ambiguity, dual, bounds in duals:
            best = -minimize_scalar(
                lambda t, dual=dual: -dual(t), bounds=bounds, method="bounded", options={"xatol": 1e-10}
            ).fun
            assert ambiguity.worst_case(v, p, radius).lower_bound == pytest.approx(best, abs=1e-6), ambiguity


# --- distances -------------------------------------------------------------------------------------------------------


def test_distances_follow_their_formulas() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        q, p = rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(5))
        assert TotalVariation().distance(q, p) == pytest.approx(0.5 * np.abs(q - p).sum(), abs=CLOSED_FORM)
        assert KL().distance(q, p) == pytest.approx(rel_entr(q, p).sum(), abs=CLOSED_FORM)
        assert ChiSquare().distance(q, p) == pytest.approx(((q - p) ** 2 / p).sum(), rel=CLOSED_FORM)
        assert CVaR().distance(q, p) == pytest.approx(1 - 1 / (q / p).max(), abs=CLOSED_FORM)


@pytest.mark.parametrize("ambiguity", ON_SUPPORT, ids=repr)
def test_distance_off_the_support_is_infinite(ambiguity: AmbiguitySet) -> None:
    assert ambiguity.distance([0.5, 0.5], [1.0, 0.0]) == np.inf
    assert ambiguity.distance([1.0, 0.0], [0.5, 0.5]) < np.inf
    assert ambiguity.distance([1.0, 0.0], [1.0, 0.0]) == 0.0
    assert TotalVariation().distance([0.0, 1.0], [1.0, 0.0]) == 1.0


def test_distance_to_a_weight_of_almost_nothing() -> None:
    p, q = np.array([1.0, 1e-300]), np.array([0.0, 1.0])
    assert KL().distance(q, p) == pytest.approx(-np.log(1e-300), rel=1e-12)
    assert ChiSquare().distance(q, p) == pytest.approx(1e300, rel=1e-12)
    assert CVaR().distance(q, p) == 1.0
    assert ChiSquare().distance(q, [1.0, 1e-310]) == np.inf


# --- an independent solver -------------------------------------------------------------------------------------------


def constraint(ambiguity: AmbiguitySet, q: Any, p: Array, radius: float) -> list[Any]:
    if isinstance(ambiguity, TotalVariation):
        return [cp.norm1(q - p) <= 2 * radius]
    if isinstance(ambiguity, KL):
        return [cp.sum(cp.kl_div(q, p)) <= radius]
    if isinstance(ambiguity, ChiSquare):
        return [cp.norm(cp.multiply(1 / np.sqrt(p), q - p)) <= np.sqrt(radius)]
    return [(1 - radius) * q <= p]


def oracle(ambiguity: AmbiguitySet, values: Array, reference: Array, radius: float) -> float:
    """The definition of the set, by CVXPY and Clarabel, on the support of the reference where the set stays on it."""
    support = np.full(len(values), True) if isinstance(ambiguity, TotalVariation) else reference > 0
    q = cp.Variable(int(support.sum()), nonneg=True)
    rules = [cp.sum(q) == 1, *constraint(ambiguity, q, reference[support], radius)]
    problem = cp.Problem(cp.Minimize(q @ values[support]), rules)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    return float(problem.value)


@pytest.mark.parametrize("ambiguity", SETS, ids=repr)
@pytest.mark.parametrize("radius", [0.003, 0.1, 0.5, 0.9])
def test_clarabel_agrees(ambiguity: AmbiguitySet, radius: float) -> None:
    rng = np.random.default_rng(2)
    for n in (2, 3, 5, 10, 20, 40, 40):
        reference = rng.dirichlet(np.ones(n)) * (rng.random(n) < 0.7)
        reference[0] += 0.05
        reference /= reference.sum()
        values = rng.random(n)
        worst = ambiguity.worst_case(values, reference, radius)
        truth = oracle(ambiguity, values, reference, radius)
        assert worst.expectation == pytest.approx(truth, abs=20 * SOLVER), n  # Clarabel itself is off by up to 1e-7
        assert worst.lower_bound == pytest.approx(truth, abs=20 * SOLVER), n


# --- exactness, far beyond what a general solver reaches -------------------------------------------------------------


@pytest.mark.parametrize("ambiguity", SETS, ids=repr)
@pytest.mark.parametrize("radius", [1e-20, 1e-12, 1e-9, 1e-6, 1e-3, 0.1, 0.5, 0.99, 3.0, 50.0])
def test_gap_is_rounding_error(ambiguity: AmbiguitySet, radius: float) -> None:
    rng = np.random.default_rng(3)
    batches = {
        "generic": rng.random((30, 50)),
        "clusters": rng.integers(0, 3, (30, 50)) + 1e-9 * rng.random((30, 50)),
        "magnitudes": 10.0 ** rng.uniform(-16, 0, (30, 50)),
        "smooth": np.sin(np.linspace(0, 1, 50) * rng.uniform(1, 20, (30, 1))),
        "outliers": rng.standard_cauchy((30, 50)),
    }
    magnitudes = 10.0 ** rng.uniform(-200, 0, 50)
    for reference in (np.full(50, 0.02), rng.dirichlet(np.full(50, 0.1)), magnitudes / magnitudes.sum()):
        for name, values in batches.items():
            worst = ambiguity.worst_case(values, reference, radius)
            relative = (worst.gap / np.ptp(values, axis=1)).max()
            assert relative <= 1e-12, (name, relative)
            # The radius itself is kept to its relative precision, so that a tiny one is not lost in a tolerance.
            over = max(ambiguity.distance(w, reference) for w in worst.weights) - radius
            assert over <= 1e-12 * max(1.0, radius), (name, over)


@pytest.mark.parametrize("ambiguity", SETS, ids=repr)
def test_weights_use_up_a_small_radius(ambiguity: AmbiguitySet) -> None:
    rng = np.random.default_rng(4)
    reference = rng.dirichlet(np.ones(20))
    for radius in (1e-10, 1e-6, 1e-2):
        worst = ambiguity.worst_case(rng.random(20), reference, radius)
        assert ambiguity.distance(worst.weights, reference) == pytest.approx(radius, rel=1e-4)


@pytest.mark.parametrize("ambiguity", SETS, ids=repr)
def test_mass_is_conserved_where_the_reference_is_off_by_rounding(ambiguity: AmbiguitySet) -> None:
    reference = np.full(10, 0.1) * (1 + 9e-9)
    values = np.random.default_rng(5).random(10)
    for radius in (0.0, 0.1, 0.5, np.inf):
        worst = ambiguity.worst_case(values, reference, radius)
        assert worst.weights.sum() == pytest.approx(reference.sum(), abs=ROUNDING)
        assert ambiguity.distance(worst.weights, reference) <= radius + FEASIBLE
        assert worst.gap <= 10 * ROUNDING


@pytest.mark.parametrize("ambiguity", ON_SUPPORT, ids=repr)
def test_a_huge_radius_reaches_a_weight_of_almost_nothing(ambiguity: AmbiguitySet) -> None:
    reference = np.array([1.0, 1e-300, 0.0])
    values = np.array([1.0, 0.0, -1.0])
    worst = ambiguity.worst_case(values, reference, np.inf)
    np.testing.assert_array_equal(worst.weights, [0.0, 1.0, 0.0])
    assert worst.lower_bound == 0.0
    assert ambiguity.worst_case(values, reference, 0.9).expectation == pytest.approx(
        1 - 0.9 / 690.8 if isinstance(ambiguity, KL) else 1.0, abs=1e-2
    )


@pytest.mark.parametrize("ambiguity", SETS, ids=repr)
def test_repr_is_the_call_that_makes_it(ambiguity: AmbiguitySet) -> None:
    assert repr(ambiguity) == f"{type(ambiguity).__name__}()"


def test_total_variation_moves_the_highest_mass_onto_the_lowest_value() -> None:
    worst = TotalVariation().worst_case([3.0, 1.0, 2.0, 0.0], [0.2, 0.3, 0.5, 0.0], 0.3)
    np.testing.assert_allclose(worst.weights, [0.0, 0.3, 0.4, 0.3], atol=CLOSED_FORM)
    assert worst.expectation == pytest.approx(1.1, abs=CLOSED_FORM)
    assert worst.lower_bound == pytest.approx(1.1, abs=CLOSED_FORM)


UNIFORM = np.full(4, 0.25)


def test_cvar_is_the_mean_of_the_worst_share() -> None:
    worst = CVaR().worst_case([4.0, 1.0, 3.0, 2.0], UNIFORM, 0.6)  # the worst 40 %: all of 1, and 0.15 of 2
    np.testing.assert_allclose(worst.weights, [0.0, 0.625, 0.0, 0.375], atol=CLOSED_FORM)
    assert worst.expectation == pytest.approx(1.375, abs=CLOSED_FORM)


def test_cvar_radius_of_one_or_more_is_the_minimum_over_the_support() -> None:
    for radius in (1 - 1e-16, 1.0, 2.0, np.inf):
        np.testing.assert_array_equal(CVaR().worst_case([2.0, 1.0, 0.0], [0.5, 0.5, 0.0], radius).weights, [0, 1, 0])


REFERENCE = np.full(11, 1 / 11)


def test_expectation_ignores_the_radius() -> None:
    values = np.arange(11.0)
    for radius in (0.0, 0.3, math.inf):
        worst = Expectation().worst_case(values, REFERENCE, radius)
        assert worst.expectation == pytest.approx(5.0)
        np.testing.assert_array_equal(worst.weights, REFERENCE)
    assert Expectation().distance(REFERENCE, REFERENCE) == 0.0
    assert Expectation().distance(np.eye(11)[0], REFERENCE) == math.inf
