"""Published optima are reproduced off the grid, by fine quadrature over contexts and dense sampling of actions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import burr12, norm

from drbo import problems
from drbo.problems import (
    Problem,
    ackley,
    bertsimas,
    branin_williams,
    covid_allocation,
    hartmann6,
    modified_branin,
    newsvendor,
    robos,
    three_hump_camel,
)
from drbo.validation import FloatArray
from tolerances import ROUNDING


def clamped_quadrature(cdf: Callable[[FloatArray], FloatArray], n: int) -> tuple[FloatArray, FloatArray]:
    """Return n points in [0, 1] and their probabilities, the tails beyond 0 and 1 at the ends."""
    nodes = np.concatenate(([0.0], (np.arange(n) + 0.5) / n, [1.0]))
    edges = cdf(np.arange(n + 1) / n)
    return nodes, np.concatenate(([edges[0]], np.diff(edges), [1.0 - edges[-1]]))


def clamped_normal(std: float, n: int = 400) -> tuple[FloatArray, FloatArray]:
    return clamped_quadrature(lambda c: norm.cdf(c, 0.5, std), n)


def expected(problem: Problem, x: FloatArray, contexts: FloatArray, weights: FloatArray) -> FloatArray:
    """Return E f(x, c) for actions x (m, d_x) under weights (n,) on contexts (n, d_c); (m,)."""
    return problem.function(x[:, None, :], contexts[None, :, :]) @ weights


def test_the_quadrature_holds_all_the_mass_and_the_tails_at_the_ends() -> None:
    nodes, weights = clamped_normal(0.2)
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert weights[[0, -1]] == pytest.approx(norm.cdf(-2.5), abs=1e-12)
    inside = norm.expect(lambda c: (c - 0.5) ** 2, loc=0.5, scale=0.2, lb=0.0, ub=1.0)
    assert weights @ (nodes - 0.5) ** 2 == pytest.approx(inside + 0.25 * 2.0 * norm.cdf(-2.5), abs=1e-6)


class TestRobos:
    @pytest.mark.parametrize(
        ("factor", "best", "values"),
        [
            (0.0, 2.5, (0.63480, 0.34837, 0.92582)),
            (1.0 / 3.0, 2.5, (0.56595, 0.34225, 0.62725)),
            (1.0, -2.5, (0.43699, 0.33073, 0.22894)),
            (3.0, -0.5, (0.10564, 0.30306, 0.00002)),
        ],
    )
    def test_the_published_table(self, factor: float, best: float, values: tuple[float, ...]) -> None:
        problem = robos()
        solved = problem.ambiguity.worst_case(problem.values, problem.reference, factor * problem.radius).expectation
        x = problem.actions[:, 0]
        assert x[np.argmax(solved)] == best
        for action, value in zip((-2.5, -0.5, 2.5), values, strict=True):
            assert solved[x == action][0] == pytest.approx(value, abs=5.001e-6)

    def test_the_published_radius_and_solutions(self) -> None:
        problem = robos()
        assert problem.radius == pytest.approx(0.434330, abs=5e-7)
        assert problem.values.shape == (8, 50)
        assert problem.stochastic_optimum.action[0] == 2.5
        assert problem.robust_optimum.action[0] == -2.5
        assert problem.pure_worst_case_optimum.action[0] == -0.5
        assert problem.worst_case_optimum.action[0] == 2.5


class TestNewsvendor:
    def test_the_published_stochastic_optimum(self) -> None:
        nodes, weights = clamped_quadrature(lambda c: burr12.cdf(c, 2.0, 20.0), 4000)
        x = np.linspace(0.0, 1.0, 2001)[:, None]
        means = expected(newsvendor(), x, nodes[:, None], weights)
        assert means.max() == pytest.approx(0.46394, abs=5e-6)
        assert x[np.argmax(means), 0] == pytest.approx(0.1878, abs=5e-4)

    def test_the_grid_is_close_to_it(self) -> None:
        best = newsvendor().stochastic_optimum
        assert best.value == pytest.approx(0.46394, abs=1e-3)
        assert best.action[0] == pytest.approx(0.1878, abs=0.01)

    def test_the_distributions_are_burr_xii(self) -> None:
        problem = newsvendor()
        halfway = np.linspace(0.005, 0.995, 100)
        np.testing.assert_allclose(problem.reference.cumsum()[:-1], burr12.cdf(halfway, 2.0, 20.0), atol=1e-12)
        np.testing.assert_allclose(problem.true_distribution.cumsum()[:-1], burr12.cdf(halfway, 2.0, 40.0), atol=1e-12)

    def test_the_last_context_holds_the_demand_beyond_it(self) -> None:
        reference = newsvendor().reference
        assert reference[-1] == pytest.approx(burr12.sf(0.995, 2.0, 20.0), abs=1e-12)


class TestModifiedBranin:
    # Published as -9.599 and -16.062, which no action attains: the exact optima are lower.
    EXACT = pytest.mark.parametrize(("std", "exact", "published"), [(0.1, -9.60391, -9.599), (0.2, -16.06426, -16.062)])

    @EXACT
    def test_the_stochastic_optimum_over_all_actions(self, std: float, exact: float, published: float) -> None:
        problem = modified_branin()
        nodes, weights = clamped_normal(std, 4000)
        # f = -sqrt(B(x1, c1)) sqrt(B(c2, x2)) and c1, c2 are independent: the expectation factorises. With c2 and x2
        # (or c1 and x1) held, f is proportional to one factor.
        axis = np.linspace(0.0, 1.0, 2001)
        middle = np.full_like(axis, 0.5)
        c_middle = np.full_like(nodes, 0.5)
        scale = float(-problem.function(np.array([0.5, 0.5]), np.array([0.5, 0.5])))
        first = -expected(problem, np.stack([axis, middle], 1), np.stack([nodes, c_middle], 1), weights)
        second = -expected(problem, np.stack([middle, axis], 1), np.stack([c_middle, nodes], 1), weights)
        best = -first.min() * second.min() / scale
        assert best == pytest.approx(exact, abs=1e-4)
        assert best == pytest.approx(published, rel=6e-4)
        assert best < published

    @EXACT
    def test_no_random_action_beats_it(self, std: float, exact: float, published: float) -> None:
        nodes, weights = clamped_normal(std, 40)
        contexts = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 2)
        x = np.random.default_rng(0).random((2000, 2))
        means = expected(modified_branin(), x, contexts, np.outer(weights, weights).ravel())
        assert means.max() < exact + 0.01
        assert means.max() > 1.1 * published

    def test_contexts_are_the_whole_grid_and_not_its_diagonal(self) -> None:
        problem = modified_branin()
        assert len(problem.contexts) == 11 * 11
        joint = problem.reference.reshape(11, 11)
        np.testing.assert_allclose(joint, np.outer(joint.sum(1), joint.sum(0)), atol=ROUNDING)
        np.testing.assert_array_equal(problem.contexts.reshape(11, 11, 2)[3, 7], np.linspace(0, 1, 11)[[3, 7]])

    def test_branin_at_its_three_minima(self) -> None:
        problem = modified_branin()
        u = np.array([-np.pi, np.pi, 3.0 * np.pi])
        v = np.array([12.275, 2.275, 2.475])
        first = np.stack([(u + 5.0) / 15.0, v / 15.0], axis=1)  # x1 and c1 at a minimum of the first factor
        second = np.stack([v / 15.0, (u + 5.0) / 15.0], axis=1)  # x2 and c2 at a minimum of the second
        x = np.stack([first[:, 0], second[:, 0]], axis=1)
        c = np.stack([first[:, 1], second[:, 1]], axis=1)
        np.testing.assert_allclose(problem.function(x, c), -0.397887, atol=1e-6)


class TestBraninWilliams:
    def test_contexts_and_weights_as_published(self) -> None:
        problem = branin_williams()
        weights = {tuple(c): w for c, w in zip(problem.contexts.tolist(), problem.reference.tolist(), strict=True)}
        assert len(weights) == 12
        for first, weight in zip((0.2, 0.4, 0.6, 0.8), (0.0375, 0.0875, 0.0875, 0.0375), strict=True):
            assert weights[first, 0.25] == weights[first, 0.75] == pytest.approx(weight)
            assert weights[first, 0.5] == pytest.approx(2.0 * weight)

    def test_it_is_minus_the_square_of_the_modified_branin(self) -> None:
        x, c = np.random.default_rng(0).random((2, 100, 2))
        np.testing.assert_allclose(branin_williams().function(x, c), -(modified_branin().function(x, c) ** 2))

    def test_the_grid_is_close_to_the_best_of_all_actions(self) -> None:
        problem = branin_williams()
        axis = np.linspace(0.0, 1.0, 201)
        x = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
        best = expected(problem, x, problem.contexts, problem.reference).max()
        assert 1.02 * best <= problem.stochastic_optimum.value <= best + 1e-9 * abs(best)


class TestThreeHumpCamel:
    def test_the_published_stochastic_optimum(self) -> None:
        nodes, weights = clamped_normal(0.2, 4000)
        x = np.linspace(0.0, 1.0, 2001)[:, None]
        means = expected(three_hump_camel(), x, nodes[:, None], weights)
        assert means.max() == pytest.approx(-0.15641, abs=5e-6)
        assert x[np.argmax(means), 0] == pytest.approx(0.5, abs=1e-9)

    def test_the_grid_attains_it_at_the_same_action(self) -> None:
        best = three_hump_camel().stochastic_optimum
        assert best.action[0] == 0.5
        assert best.value == pytest.approx(-0.15641, abs=2e-4)

    def test_its_maximum_is_zero_in_the_middle(self) -> None:
        values = three_hump_camel().values
        assert values.max() == values[50, 25] == 0.0


class TestHartmann6:
    @pytest.mark.parametrize(("std", "published"), [(0.1, 2.6136), (0.2, 2.3169)])
    def test_the_published_stochastic_optimum(self, std: float, published: float) -> None:
        problem = hartmann6()
        nodes, weights = clamped_normal(std)

        def loss(x: FloatArray) -> float:
            return -float(expected(problem, x[None, :], nodes[:, None], weights)[0])

        starts = np.vstack([problem.stochastic_optimum.action, np.random.default_rng(0).random((8, 5))])
        found = [minimize(loss, start, bounds=[(0.0, 1.0)] * 5) for start in starts]
        assert max(-float(f.fun) for f in found) == pytest.approx(published, abs=5e-5)
        nodes, weights = clamped_normal(std, 30)
        dense = expected(problem, np.random.default_rng(1).random((20_000, 5)), nodes[:, None], weights)
        assert dense.max() < published

    def test_the_known_maximum_of_the_whole_function(self) -> None:
        z = np.array([0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573])
        assert float(hartmann6().function(z[:5], z[5:])) == pytest.approx(3.32237, abs=1e-5)


class TestBertsimas:
    def test_the_published_maximum_without_errors(self) -> None:
        x = np.stack(np.meshgrid(np.linspace(-0.95, 3.2, 831), np.linspace(-0.45, 4.4, 971), indexing="ij"), axis=-1)
        values = bertsimas().function(x, np.zeros(2))
        best = np.unravel_index(np.argmax(values), values.shape)
        assert values[best] == pytest.approx(20.829, abs=1e-3)
        np.testing.assert_allclose(x[best], [2.815, 4.01], atol=0.005)

    def test_the_published_robust_optimum(self) -> None:
        problem = bertsimas()
        angle = np.linspace(0.0, 2.0 * np.pi, 241)[:-1]
        circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        disc = np.vstack([r * circle[:: max(1, round(5 - 10 * r))] for r in (0.1, 0.2, 0.3, 0.4, 0.5)])

        def worst(x: FloatArray) -> FloatArray:
            return np.asarray(problem.function(x[..., None, :], disc).min(axis=-1))

        def loss(x: FloatArray) -> float:
            return -float(worst(x))

        x = np.stack(np.meshgrid(np.linspace(-0.95, 3.2, 84), np.linspace(-0.45, 4.4, 98), indexing="ij"), axis=-1)
        coarse = worst(x)
        start = x[np.unravel_index(np.argmax(coarse), coarse.shape)]
        refined = minimize(loss, start, method="Nelder-Mead")
        attained = -float(refined.fun)
        assert attained == pytest.approx(-4.2828, abs=1e-3)
        np.testing.assert_allclose(refined.x, [-0.1813, 0.2916], atol=1e-3)
        assert coarse.max() <= attained
        # As published, "about" and "near":
        assert attained == pytest.approx(-4.33, abs=0.05)
        np.testing.assert_allclose(refined.x, [-0.195, 0.284], atol=0.015)

    def test_the_contexts_fill_the_disc(self) -> None:
        problem = bertsimas()
        assert len(problem.contexts) == 49
        assert np.linalg.norm(problem.contexts, axis=1).max() == 0.5
        for sign in (-1.0, 1.0):
            np.testing.assert_allclose(np.sort(problem.contexts, axis=0), np.sort(sign * problem.contexts, axis=0))

    def test_every_error_is_within_the_radius_and_so_is_the_true_distribution(self) -> None:
        problem = bertsimas()
        assert problem.worst_case_optimum.value == problem.pure_worst_case_optimum.value
        assert problem.ambiguity.distance(problem.reference, problem.true_distribution) < problem.radius

    def test_the_grids_worst_case_optimum_is_near_the_published_one(self) -> None:
        best = bertsimas().worst_case_optimum
        np.testing.assert_allclose(best.action, [-0.195, 0.284], atol=0.18)
        assert best.value == pytest.approx(-4.33, abs=0.6)


class TestAckley:
    def test_the_published_maximum(self) -> None:
        problem = ackley()
        zero = np.zeros((1, 1))
        assert problem.function(zero, zero)[0] == pytest.approx(0.0, abs=ROUNDING * 20.0)
        assert problem.values.max() == pytest.approx(0.0, abs=ROUNDING * 20.0)

    def test_a_value_from_the_definition(self) -> None:
        """The sum of its three terms at (1, 0.5), by hand: cos(2 pi) = 1 and cos(pi) = -1."""
        value = ackley().function(np.array([[1.0]]), np.array([[0.5]]))[0]
        assert value == pytest.approx(20.0 * np.exp(-0.2 * np.sqrt(0.625)) + 1.0 - 20.0 - np.e, abs=ROUNDING * 20.0)


class TestCovidAllocation:
    """Values that were computed from the authors' samples with Clarabel."""

    @pytest.mark.parametrize(
        ("centre", "radius", "stochastic", "its_worst", "worst"),
        [
            ((0.0, 0.0, 0.0), 0.740891, (0.0, 0.0), -2.2547, -1.2219),
            ((1.0, 0.0, 0.0), 0.801872, (1, 8), -4.1349, -1.2801),
        ],
    )
    def test_both_references(
        self,
        centre: tuple[float, ...],
        radius: float,
        stochastic: tuple[float, float],
        its_worst: float,
        worst: float,
    ) -> None:
        problem = covid_allocation()
        density = np.exp(-0.5 * ((problem.contexts - np.array(centre)) ** 2).sum(axis=1) / 0.02)
        moved = dataclasses.replace(problem, reference=density / density.sum(), radius=radius)
        assert moved.ambiguity.distance(moved.reference, moved.true_distribution) == pytest.approx(radius, abs=5e-7)
        assert moved.stochastic_optimum.action.tolist() == pytest.approx([v / 9.0 for v in stochastic])
        assert moved.robust_values[moved.stochastic_optimum.action_index] == pytest.approx(its_worst, abs=1e-4)
        assert moved.robust_optimum.action.tolist() == pytest.approx([2.0 / 9.0, 1.0 / 9.0])
        assert moved.robust_optimum.value == pytest.approx(worst, abs=1e-4)

    def test_size(self) -> None:
        problem = covid_allocation()
        assert problem.values.shape == (55, 550)
        assert problem.radius == pytest.approx(0.740891, abs=5e-7)

    def test_the_samples_are_interpolated(self) -> None:
        """At the samples f differs from their outcomes by 1e-3 times its own weight: (K + 1e-3 I) a = y."""
        source = Path(__file__).parents[3] / "shared" / "data" / "covid_allocation.csv"
        if not source.is_file():
            pytest.skip("the samples themselves are not shipped")
        table = np.loadtxt(source, delimiter=",", skiprows=1)[::50]
        weights = np.load(Path(problems.__file__).parent / "data" / "covid_allocation.npz")["weights"][::50]
        f = covid_allocation().function(table[:, :2], table[:, 2:5])
        np.testing.assert_allclose(f + 1e-3 * weights, table[:, 5], atol=1e-4)  # 8 digits were published
