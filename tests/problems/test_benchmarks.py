"""The two synthetic benchmarks: where their solutions lie, how far apart, and that a GP can learn them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from drbo.problems import Problem, benchmark_1, benchmark_2
from drbo.validation import FloatArray

SIZES = (50, 100)


def robust_regret(problem: Problem, action_index: int) -> float:
    return float(problem.robust_values.max() - problem.robust_values[action_index])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("make", [benchmark_1, benchmark_2])
def test_distributions_are_the_papers_densities_on_the_grid(make: Callable[[int], Problem], size: int) -> None:
    problem = make(size)
    grid = np.linspace(0.0, 1.0, size)
    for weights, mean, std in ((problem.reference, 0.5, 0.05), (problem.true_distribution, 0.45, 0.1)):
        density = np.exp(-((grid - mean) ** 2) / (2.0 * std**2))
        np.testing.assert_allclose(weights, density / density.sum(), rtol=1e-10)
    np.testing.assert_array_equal(problem.actions[:, 0], grid)
    np.testing.assert_array_equal(problem.contexts[:, 0], grid)


def test_both_readings_of_the_normal_distributions_and_where_the_solutions_differ() -> None:
    """REVIEW R3: as deviations the three solutions differ for short lengthscales; as variances they are one at 0.1."""
    literal = benchmark_1(reading="variance")
    grid = np.linspace(0.0, 1.0, 50)
    for weights, mean, variance in ((literal.reference, 0.5, 0.05), (literal.true_distribution, 0.45, 0.1)):
        density = np.exp(-((grid - mean) ** 2) / (2.0 * variance))
        np.testing.assert_allclose(weights, density / density.sum(), rtol=1e-10)
    assert literal.stochastic_optimum.action_index == literal.robust_optimum.action_index
    assert literal.worst_case_optimum.action_index == literal.robust_optimum.action_index
    for lengthscale, differ in ((0.05, True), (0.15, True), (0.2, False)):
        problem = benchmark_1(lengthscale=lengthscale)
        optima = (problem.stochastic_optimum, problem.robust_optimum, problem.worst_case_optimum)
        assert (np.diff(sorted(float(optimum.action[0]) for optimum in optima)).min() > 0.1) == differ
    with pytest.raises(ValueError, match="reading must be 'deviation' or 'variance'"):
        benchmark_1(reading="precision")  # type: ignore[arg-type]


def test_the_radius_is_near_its_closed_form_for_normal_distributions() -> None:
    def inner(shift: float, s: float, t: float) -> float:
        """E k(a, b) for normal a, b and an RBF kernel of lengthscale 0.1."""
        variance = 0.1**2 + s**2 + t**2
        return float(0.1 / np.sqrt(variance) * np.exp(-(shift**2) / (2.0 * variance)))

    squared = inner(0.0, 0.05, 0.05) + inner(0.0, 0.1, 0.1) - 2.0 * inner(0.05, 0.05, 0.1)
    assert benchmark_1(100).radius == pytest.approx(np.sqrt(squared), abs=1e-4)


@pytest.mark.parametrize("size", SIZES)
class TestBenchmark1:
    def test_the_formula(self, size: int) -> None:
        x, c = np.meshgrid(np.linspace(0, 1, size), np.linspace(0, 1, size), indexing="ij")
        b1, b2, b3 = (np.exp(-((x - centre) ** 2) / (2 * 0.12**2)) for centre in (0.15, 0.5, 0.85))
        narrow, wide = (np.exp(-((c - 0.5) ** 2) / (2 * s**2)) for s in (0.07, 0.15))
        np.testing.assert_allclose(benchmark_1(size).values, b1 * narrow + b2 * (0.25 + 0.45 * wide) + 0.4 * b3)

    def test_the_three_solutions_lie_where_they_were_designed(self, size: int) -> None:
        problem = benchmark_1(size)
        assert problem.stochastic_optimum.action[0] == pytest.approx(0.15, abs=0.02)
        assert problem.robust_optimum.action[0] == pytest.approx(0.49, abs=0.02)
        assert problem.worst_case_optimum.action[0] == pytest.approx(0.84, abs=0.02)
        assert problem.pure_worst_case_optimum.action_index == problem.worst_case_optimum.action_index

    def test_each_is_clearly_better_than_the_others_at_its_own_objective(self, size: int) -> None:
        problem = benchmark_1(size)
        solutions = (problem.stochastic_optimum, problem.robust_optimum, problem.worst_case_optimum)
        objectives = (problem.stochastic_values, problem.robust_values, problem.worst_case_values)
        for own, (solution, objective) in enumerate(zip(solutions, objectives, strict=True)):
            for other, rival in enumerate(solutions):
                if other != own:
                    assert solution.value - objective[rival.action_index] > 0.12

    def test_everything_near_the_wrong_solutions_has_robust_regret(self, size: int) -> None:
        # UCB and StableOpt settle near their own solution, so their robust regret grows linearly.
        problem = benchmark_1(size)
        x = problem.actions[:, 0]
        far = np.abs(x - problem.robust_optimum.action[0]) > 0.2
        assert robust_regret(problem, int(np.argmax(np.where(far, problem.robust_values, -np.inf)))) > 0.1

    def test_the_robust_solution_is_also_best_under_the_true_distribution(self, size: int) -> None:
        problem = benchmark_1(size)
        under_true = problem.values @ problem.true_distribution
        best = under_true[problem.robust_optimum.action_index]
        assert best > under_true[problem.stochastic_optimum.action_index] + 0.05
        assert best > under_true[problem.worst_case_optimum.action_index] + 0.05
        assert best > under_true.max() - 0.01

    def test_values_lie_between_zero_and_one(self, size: int) -> None:
        values = benchmark_1(size).values
        assert values.min() >= 0.0
        assert 0.95 <= values.max() <= 1.05


@pytest.mark.parametrize("size", [*SIZES, 20, 33, 200])
def test_the_solutions_of_benchmark_2_coincide(size: int) -> None:
    problem = benchmark_2(size)
    x, c = np.meshgrid(np.linspace(0, 1, size), np.linspace(0, 1, size), indexing="ij")
    high = np.exp(-((x - 0.65) ** 2) / (2 * 0.2**2) - (c - 0.5) ** 2 / (2 * 0.4**2))
    low = 0.6 * np.exp(-((x - 0.2) ** 2) / (2 * 0.12**2) - (c - 0.5) ** 2 / (2 * 0.25**2))
    np.testing.assert_allclose(problem.values, high + low)
    best = problem.robust_optimum.action_index
    assert problem.stochastic_optimum.action_index == best
    assert problem.worst_case_optimum.action_index == best
    assert problem.pure_worst_case_optimum.action_index == best
    assert problem.robust_optimum.action[0] == pytest.approx(0.65, abs=0.03)


@pytest.mark.parametrize("problem", [benchmark_1(), benchmark_2()], ids=lambda p: p.name)
def test_a_gp_with_the_problems_kernel_learns_the_function(problem: Problem) -> None:
    rng = np.random.default_rng(0)
    i, j = rng.integers(50, size=150), rng.integers(50, size=150)
    observed = problem.values[i, j] + problem.noise * rng.standard_normal(150)
    assert problem.gp_kernel is not None
    k_x = problem.gp_kernel.action(problem.actions, problem.actions)
    k_c = problem.gp_kernel.context(problem.contexts, problem.contexts)

    gram = k_x[np.ix_(i, i)] * k_c[np.ix_(j, j)] + problem.noise**2 * np.eye(150)
    cross: FloatArray = (k_x[:, None, i] * k_c[None, :, j]).reshape(-1, 150)
    mean = cross @ np.linalg.solve(gram, observed)
    variance = problem.gp_kernel.variance - np.einsum("ij,ji->i", cross, np.linalg.solve(gram, cross.T))
    error = problem.values.ravel() - mean
    assert np.sqrt(np.mean(error**2)) < 0.3 * problem.values.std()
    assert np.mean(np.abs(error) > 2.0 * np.sqrt(variance)) < 0.05
