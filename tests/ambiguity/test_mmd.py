"""The MMD adversary: closed forms, published values, an independent solver, the certificate, and hard inputs."""

from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

import drbo
import robos
from drbo import MMD, RBF, Matern
from drbo.ambiguity import WorstCase
from tolerances import CLOSED_FORM, FEASIBLE, SOLVER

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Instance:
    name: str
    gram: Array
    mmd: MMD
    values: Array
    reference: Array
    radius: float


def check(instance: Instance, worst: WorstCase) -> None:
    """Assert that weights are feasible and that the certificate closes, both by means that share no code with drbo."""
    w, p, v = worst.weights, instance.reference, instance.values
    assert w.min() >= -FEASIBLE
    np.testing.assert_allclose(w.sum(axis=-1), 1.0, atol=FEASIBLE)
    a = w - p
    squared = np.einsum("...i,ij,...j->...", a, instance.gram, a)
    # The quadratic form itself is rounded at 1e-16: a distance from it is no better than 1e-8 near zero.
    assert (squared <= instance.radius**2 + 2 * FEASIBLE * instance.radius + 1e-14).all()
    assert max(instance.mmd.distance(row, p) for row in np.atleast_2d(w)) <= instance.radius + FEASIBLE
    span = np.ptp(v, axis=-1)
    np.testing.assert_allclose(worst.expectation, (w * v).sum(axis=-1), rtol=1e-12, atol=1e-12 * span.max())
    assert (worst.gap >= 0.0).all()
    assert (worst.gap <= SOLVER * span).all(), f"gap {worst.gap / span}"


def oracle(instance: Instance, values: Array) -> float:
    """The program as the paper states it (eq. 8), by CVXPY and Clarabel."""
    n = len(instance.reference)
    scale = np.ptp(values) or 1.0
    w = cp.Variable(n)
    root = np.linalg.cholesky(instance.gram + 1e-14 * np.eye(n)) if n > 1 else np.sqrt(instance.gram)
    problem = cp.Problem(
        cp.Minimize((values - values.min()) / scale @ w),
        [w >= 0, cp.sum(w) == 1, cp.norm(root.T @ (w - instance.reference)) <= instance.radius],
    )
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return float(values.min() + scale * problem.value)


def instances(seed: int, count: int) -> list[Instance]:
    """Random problems of every kind that the task names; five value vectors each."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(count):
        n = int(rng.choice([1, 2, 3, 5, 10, 30, 100, 300], p=[0.05, 0.1, 0.1, 0.15, 0.2, 0.2, 0.1, 0.1]))
        d = int(rng.choice([1, 1, 2]))
        placing = rng.choice(["grid", "random", "repeated"])
        contexts = np.linspace(0, 1, n)[:, None] if placing == "grid" else rng.random((n, d))
        if placing == "repeated":
            contexts = contexts[rng.integers(0, n, n)]
        d = contexts.shape[1]
        scale = 10 ** rng.uniform(np.log10(0.02), np.log10(2.0))
        kernel = [RBF(scale), Matern(scale, nu=1.5), Matern(scale, nu=2.5)][rng.integers(3)]
        gram = kernel(contexts, contexts)
        mmd = MMD(contexts, kernel)
        shape = rng.choice(["dense", "sparse", "one point"])
        reference = rng.dirichlet(np.ones(n))
        if shape == "sparse":
            reference = np.bincount(rng.integers(0, n, max(1, n // 5)), minlength=n).astype(float)
            reference /= reference.sum()
        elif shape == "one point":
            reference = np.eye(n)[rng.integers(n)]
        radius = float(rng.choice([0.0, 1e-9, 1e-6, 1e-3, 3.0, -1.0, -1.0, -1.0]))
        if radius < 0:  # anything in between, or exactly the distance of a vertex
            vertex = mmd.distance(np.eye(n)[rng.integers(n)], reference)
            radius = vertex if rng.random() < 0.2 else 10 ** rng.uniform(-3, 0.5)
        rough = rng.choice(["smooth", "rough", "tied", "flat", "heavy-tailed", "smooth and tied"])
        waves = np.cos(contexts @ rng.normal(size=(d, 5)) * 5 + rng.random(5) * 6).T
        values: Any = {
            "smooth": waves,
            "rough": rng.normal(size=(5, n)),
            "tied": rng.integers(0, 3, (5, n)).astype(float),
            "flat": np.full((5, n), rng.normal()),
            "heavy-tailed": rng.standard_cauchy((5, n)) ** 3,
            "smooth and tied": np.round(waves, 1),
        }[str(rough)]
        values = values * 10.0 ** rng.integers(-8, 8)
        name = f"{i}: {n} {placing} contexts, {kernel}, {shape} reference, radius {radius:.3g}, {rough} values"
        found.append(Instance(name, gram, mmd, values, reference, radius))
    return found


@pytest.mark.parametrize("seed", range(8))
def test_random_problems_are_solved_and_certified(seed: int) -> None:
    for instance in instances(seed, 250):
        try:
            check(instance, instance.mmd.worst_case(instance.values, instance.reference, instance.radius))
        except Exception as error:
            raise AssertionError(instance.name) from error


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 140))
def test_many_more_random_problems(seed: int) -> None:
    test_random_problems_are_solved_and_certified(seed)


def test_a_sample_agrees_with_an_independent_solver() -> None:
    compared = 0
    for instance in instances(99, 250):
        # Clarabel itself is the limit for radii below 1e-3.
        if instance.radius < 1e-3 or len(instance.reference) > 100:
            continue
        worst = instance.mmd.worst_case(instance.values, instance.reference, instance.radius)
        expected = oracle(instance, instance.values[0])
        assert worst.expectation[0] == pytest.approx(expected, abs=1e-6 * np.ptp(instance.values[0])), instance.name
        compared += 1
    assert compared > 100


def test_the_check_can_fail() -> None:
    contexts, rng = np.linspace(0, 1, 10)[:, None], np.random.default_rng(0)
    gram = RBF(0.2)(contexts, contexts)
    instance = Instance("", gram, MMD(gram=gram), rng.normal(size=(5, 10)), rng.dirichlet(np.ones(10)), 0.01)
    worst = instance.mmd.worst_case(instance.values, instance.reference, instance.radius)
    check(instance, worst)
    with pytest.raises(AssertionError, match="gap"):
        check(instance, WorstCase(worst.expectation, worst.weights, worst.lower_bound - np.ptp(instance.values)))
    outside = worst.weights + 0.1 * (np.eye(10)[0] - worst.weights)
    with pytest.raises(AssertionError):
        check(instance, WorstCase((outside * instance.values).sum(axis=1), outside, worst.lower_bound))


def test_the_certificate_is_the_formula_of_the_docstring() -> None:
    """No vector a gives a bound above the worst case, and the optimum's own a attains it."""
    rng = np.random.default_rng(5)
    n, eps = 12, 0.2
    contexts = rng.random((n, 1))
    M = RBF(0.2)(contexts, contexts)
    p, v = rng.dirichlet(np.ones(n)), rng.normal(size=n)
    worst = MMD(gram=M).worst_case(v, p, eps)

    def bound(a: Array) -> float:
        g = M @ a
        return float((v - g).min() + p @ g - eps * np.sqrt(a @ M @ a))

    assert max(bound(rng.normal(size=n) * scale) for scale in np.logspace(-3, 1, 300)) <= worst.expectation
    scale = minimize_scalar(lambda s: -bound(-(worst.weights - p) * s), bounds=(0.0, 100.0), options={"xatol": 1e-9})
    assert -scale.fun == pytest.approx(worst.lower_bound, abs=1e-6)


def test_two_contexts_closed_form() -> None:
    """All mass on the better context; moving t of it costs t sqrt(2 - 2k) of distance."""
    k = RBF(0.5)(np.array([[0.0]]), np.array([[1.0]]))[0, 0]
    mmd = MMD([0.0, 1.0], RBF(0.5))
    for eps in (1e-9, 0.1, 0.5, 1.0, 2.0):
        moved = min(eps / np.sqrt(2 - 2 * k), 1.0)
        worst = mmd.worst_case([1.0, -1.0], [1.0, 0.0], eps)
        assert worst.expectation == pytest.approx(1.0 - 2.0 * moved, abs=CLOSED_FORM)
        np.testing.assert_allclose(worst.weights, [1 - moved, moved], atol=CLOSED_FORM)


@pytest.mark.parametrize(
    ("radius", "best", "expected"),
    [
        (0.0, 2.5, (0.63480, 0.34837, 0.92582)),
        (1 / 3, 2.5, (0.56595, 0.34225, 0.62725)),
        (1.0, -2.5, (0.43699, 0.33073, 0.22894)),
        (3.0, -0.5, (0.10564, 0.30306, 0.00002)),
    ],
)
def test_robos_table(radius: float, best: float, expected: tuple[float, ...]) -> None:
    """The published worst-case values, to all their digits."""
    mmd = MMD(robos.C, robos.MMD_KERNEL)
    distance = mmd.distance(robos.REFERENCE, robos.TRUTH)
    assert round(distance, 6) == 0.434330
    scores = mmd.worst_case(robos.F, robos.REFERENCE, radius * distance).expectation
    assert robos.X[np.argmax(scores)] == best
    assert tuple(np.round(scores[[1, 3, 6]], 5)) == expected


@pytest.mark.parametrize("radius", [0.0, 1e-9, 0.3, 1e9, np.inf])
def test_one_context(radius: float) -> None:
    worst = MMD([0.3]).worst_case([4.0], [1.0], radius)
    assert worst.expectation == 4.0
    assert worst.gap == 0.0
    assert worst.weights.tolist() == [1.0]


@pytest.mark.parametrize("radius", [2.0, 1e300, np.inf])
def test_a_huge_radius_is_the_minimum(radius: float) -> None:
    values = np.random.default_rng(0).normal(size=(4, 20))
    worst = MMD(np.linspace(0, 1, 20)).worst_case(values, np.full(20, 0.05), radius)
    np.testing.assert_array_equal(worst.expectation, values.min(axis=1))
    np.testing.assert_array_equal(worst.gap, 0.0)


def test_radius_zero_is_the_reference_also_with_repeated_contexts() -> None:
    reference = np.array([0.2, 0.3, 0.5])
    worst = MMD([0.0, 0.0, 1.0]).worst_case([1.0, 2.0, 3.0], reference, 0.0)
    np.testing.assert_array_equal(worst.weights, reference)
    assert worst.gap == 0.0


def test_mass_moves_freely_between_repeated_contexts() -> None:
    worst = MMD([0.0, 0.0, 1.0]).worst_case([1.0, 2.0, 3.0], [0.0, 0.5, 0.5], 1e-9)
    np.testing.assert_allclose(worst.weights, [0.5, 0.0, 0.5], atol=1e-8)


@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1e12, 1e299])
def test_values_of_any_size(scale: float) -> None:
    rng = np.random.default_rng(2)
    values, reference = rng.normal(size=30), rng.dirichlet(np.ones(30))
    mmd = MMD(np.linspace(0, 1, 30))
    plain, scaled = mmd.worst_case(values, reference, 0.1), mmd.worst_case(values * scale, reference, 0.1)
    np.testing.assert_allclose(scaled.weights, plain.weights, atol=SOLVER)
    assert scaled.gap <= SOLVER * scale * np.ptp(values)


@pytest.mark.parametrize("radius", [1e-160, 1e-20, 1e-15, 1e-14, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7])
def test_tiny_radii_of_rough_values(radius: float) -> None:
    """The multiplier of the ball is as large as 1 / radius here, and turns rounding errors into gaps."""
    for seed in (*range(20), 2103):
        rng = np.random.default_rng(seed)
        mmd = MMD(rng.random(20), RBF(0.2))
        reference, values = rng.dirichlet(np.ones(20)), rng.standard_normal(20)
        worst = mmd.worst_case(values, reference, radius)
        assert worst.gap <= SOLVER * np.ptp(values)
        assert mmd.distance(worst.weights, reference) <= radius + FEASIBLE


def test_a_large_offset_costs_no_accuracy_beyond_its_own_rounding() -> None:
    rng = np.random.default_rng(2)
    values, reference = rng.normal(size=30), rng.dirichlet(np.ones(30))
    mmd = MMD(np.linspace(0, 1, 30))
    shifted = mmd.worst_case(values + 1e6, reference, 0.1)
    assert shifted.expectation - 1e6 == pytest.approx(mmd.worst_case(values, reference, 0.1).expectation, abs=1e-9)


@pytest.mark.parametrize("lengthscale", [0.05, 0.3, 2.0])
def test_weights_are_within_the_radius_by_the_exact_kernel(lengthscale: float) -> None:
    """The set is that of a truncated factor of the kernel matrix: its docstring allows for 1e-7 (REVIEW F9)."""
    rng, contexts = np.random.default_rng(4), np.linspace(0.0, 1.0, 200)
    kernel = RBF(lengthscale)
    M = kernel(contexts[:, None], contexts[:, None])
    mmd, reference = MMD(contexts, kernel), rng.dirichlet(np.ones(200))
    for radius in (1e-6, 1e-3, 0.1, 0.5):
        shift = mmd.worst_case(rng.normal(size=(5, 200)), reference, radius).weights - reference
        distance = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", shift, M, shift), 0.0))
        assert (distance <= radius + 1e-7).all()


def test_a_batch_is_its_rows() -> None:
    rng = np.random.default_rng(3)
    values, reference = rng.normal(size=(3, 7, 40)), rng.dirichlet(np.ones(40))
    mmd = MMD(rng.random((40, 2)), Matern(0.3))
    batch = mmd.worst_case(values, reference, 0.1)
    assert batch.expectation.shape == (3, 7)
    assert batch.weights.shape == (3, 7, 40)
    for index in np.ndindex(3, 7):
        assert batch.expectation[index] == pytest.approx(
            mmd.worst_case(values[index], reference, 0.1).expectation, abs=1e-12
        )


def test_gram_and_contexts_are_the_same_set() -> None:
    rng = np.random.default_rng(4)
    contexts, values, p, q = rng.random((15, 2)), rng.normal(size=15), *rng.dirichlet(np.ones(15), 2)
    M = Matern(0.3)(contexts, contexts)
    by_contexts, by_gram = MMD(contexts, Matern(0.3)), MMD(gram=M)
    literal = np.sqrt((p - q) @ M @ (p - q))
    assert by_contexts.distance(p, q) == pytest.approx(literal, abs=CLOSED_FORM)
    assert by_gram.distance(p, q) == pytest.approx(literal, abs=CLOSED_FORM)
    assert by_gram.worst_case(values, p, 0.2).expectation == pytest.approx(
        by_contexts.worst_case(values, p, 0.2).expectation, abs=CLOSED_FORM
    )


def test_ten_thousand_contexts_without_their_gram_matrix() -> None:
    n = 10_000
    contexts = np.linspace(0, 1, n)
    mmd = MMD(contexts, RBF(0.1))
    assert mmd.placed.features.shape[1] < 60
    p = np.exp(-0.5 * ((contexts - 0.5) / 0.05) ** 2)
    p /= p.sum()
    values = np.cos(7 * contexts)
    worst = mmd.worst_case(values, p, 0.2)
    assert mmd.distance(worst.weights, p) <= 0.2 + FEASIBLE
    assert worst.gap <= SOLVER * np.ptp(values)


@pytest.mark.parametrize(
    ("gram", "message"),
    [
        (np.zeros((2, 3)), "gram must be a square matrix"),
        (np.array([[1.0, 0.5], [0.4, 1.0]]), "gram must be symmetric"),
        (np.array([[1.0, 2.0], [2.0, 1.0]]), "gram must be positive semi-definite, got a matrix with eigenvalue -1"),
        (np.array([[-1.0, 0.0], [0.0, 1.0]]), "gram must be positive semi-definite"),
        (np.array([[0.0, 0.1], [0.1, 1.0]]), "gram must be positive semi-definite"),
        (np.array([[np.nan, 0.0], [0.0, 1.0]]), "gram must be finite"),
        (np.ones(3), "gram must have 2 dimension"),
    ],
)
def test_bad_gram(gram: Array, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MMD(gram=gram)


def test_bad_construction() -> None:
    with pytest.raises(TypeError, match=r"has no contexts yet: give them when you make it, or use .on\(points\)"):
        MMD().worst_case([0.0, 1.0], [0.5, 0.5], 0.1)
    with pytest.raises(TypeError, match="has no contexts yet"):
        MMD(kernel=RBF(0.1)).distance([0.5, 0.5], [0.5, 0.5])
    with pytest.raises(TypeError, match="gram must be given alone"):
        MMD([0.0, 1.0], gram=np.eye(2))
    with pytest.raises(TypeError, match="gram must be given alone"):
        MMD(kernel=RBF(0.1), gram=np.eye(2))
    with pytest.raises(TypeError, match="kernel must be a kernel"):
        MMD([0.0, 1.0], kernel=0.1)  # type: ignore[arg-type]


def test_a_constant_kernel_tells_nothing_apart() -> None:
    """All distributions are at distance zero: any positive radius is the pure worst case."""
    mmd = drbo.MMD(gram=np.ones((4, 4)))
    worst = mmd.worst_case([3.0, 1.0, 2.0, 5.0], np.full(4, 0.25), 1e-9)
    assert worst.expectation == pytest.approx(1.0, abs=1e-8)
    zero = drbo.MMD(gram=np.zeros((4, 4))).worst_case([3.0, 1.0, 2.0, 5.0], np.full(4, 0.25), 1e-9)
    assert zero.expectation == pytest.approx(1.0, abs=1e-8)
