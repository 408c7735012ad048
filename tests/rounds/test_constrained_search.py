"""The maximiser over boxes with constraints, against convex programs and brute force."""

import itertools
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

from drbo import AtMostActive, Box, Expectation, Integer, LinearConstraint, Log, Total
from drbo.ambiguity.family import as_placed
from drbo.contexts.nature import FiniteContexts
from drbo.rounds.ball import Ball
from drbo.rounds.box_search import BoxSearch, Objective, best_in_box
from drbo.spaces import FiniteSet, Point
from drbo.validation import FloatArray

CONTEXTS = np.zeros((1, 1))


@dataclass(frozen=True)
class Bowl:
    """The value -(x - centre)' diag(factors) (x - centre), the same in every context."""

    centre: FloatArray
    factors: FloatArray
    amplitude: float = 1.0

    def at(self, actions: FloatArray, used: Any = None) -> FloatArray:
        """Return the values (m, 1)."""
        del used
        return np.asarray(-(((actions - self.centre) ** 2) @ self.factors)[:, None])

    def of_action(self, action: Point) -> FloatArray:
        """Return the value (1,)."""
        return np.asarray(self.at(action.coordinates[None])[0])

    def gradient(self, action: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the gradient (d,)."""
        return np.asarray(-2.0 * self.factors * (action - self.centre) * weights.sum())

    def ceilings(self, actions: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the values (m,)."""
        return np.asarray(self.at(actions)[:, 0] * weights.sum())


def found(box: Box, bowl: Bowl, seed: int = 0) -> tuple[FloatArray, float]:
    """Return the best action of the search, and its value."""
    space = FiniteSet("contexts", CONTEXTS)
    ball = Ball(as_placed(Expectation()), FiniteContexts(space).given(np.ones(1)), 0.0, space, seed)
    nothing = np.empty((0, box.dimension))
    x = best_in_box(box, Objective(ball, bowl), nothing, nothing, seed)  # type: ignore[arg-type]
    assert box.permits(x[None])[0]
    return x, float(bowl.at(x[None])[0, 0])


def optimum(bowl: Bowl, rules: Any, fixed: dict[int, float]) -> float:
    """Return the largest value over the unit cube with further rules and fixed coordinates, by Clarabel."""
    x = cp.Variable(len(bowl.centre))
    known = [x[i] == value for i, value in fixed.items()]
    cost = cp.sum(cp.multiply(bowl.factors, cp.square(x - bowl.centre)))
    problem = cp.Problem(cp.Minimize(cost), [x >= 0, x <= 1, *rules(x), *known])
    problem.solve(solver=cp.CLARABEL)
    return -float(problem.value) if problem.status == "optimal" else -np.inf


@pytest.mark.parametrize("seed", range(6))
def test_the_maximum_over_a_polytope_is_that_of_a_convex_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 12))
    names = [f"x{i}" for i in range(d)]
    order = rng.normal(size=d)
    limit = [
        Total(*names, equals=0.3 * d),
        LinearConstraint(dict(zip(names, order, strict=True)), at_most=0.3 * order.sum()),
    ]
    box = Box(dict.fromkeys(names, (0.0, 1.0)), constraints=limit)
    bowl = Bowl(rng.normal(size=d), rng.uniform(0.1, 3.0, d))
    best = optimum(bowl, lambda x: [cp.sum(x) == 0.3 * d, order @ x <= 0.3 * order.sum()], {})
    _, value = found(box, bowl, seed)
    assert value == pytest.approx(best, abs=1e-5 * abs(best))


def test_whole_numbers_by_brute_force() -> None:
    """Every combination of the whole numbers, each with a convex program for the others."""
    one = LinearConstraint({"n": 1, "m": 1, "x": 6, "y": 3}, equals=9.0)
    box = Box(n=Integer(0, 4), m=Integer(0, 6), x=(0.0, 1.0), y=(0.0, 1.0), constraints=[one])
    for seed in range(4):
        rng = np.random.default_rng(seed)
        bowl = Bowl(rng.random(4), rng.uniform(0.2, 3.0, 4))
        rules = lambda x: [4 * x[0] + 6 * x[1] + 6 * x[2] + 3 * x[3] == 9.0]  # noqa: E731
        best = max(optimum(bowl, rules, {0: n / 4, 1: m / 6}) for n, m in itertools.product(range(5), range(7)))
        _, value = found(box, bowl, seed)
        assert value == pytest.approx(best, abs=1e-6)


def test_many_whole_numbers_come_close_to_the_best_of_all() -> None:
    """Shares of 20 among 5: the best by enumeration of all 10,626."""
    names = [f"n{i}" for i in range(5)]
    box = Box(dict.fromkeys(names, Integer(0, 20)), constraints=[Total(*names, equals=20)])
    every = [c for c in itertools.product(range(21), repeat=4) if sum(c) <= 20]
    points = np.array([[*c, 20 - sum(c)] for c in every]) / 20.0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        bowl = Bowl(rng.random(5), rng.uniform(0.2, 3.0, 5))
        assert found(box, bowl, seed)[1] == pytest.approx(bowl.at(points).max(), abs=1e-9)


def test_zeros_by_brute_force() -> None:
    names = [f"x{i}" for i in range(6)]
    box = Box(dict.fromkeys(names, (-1.0, 1.0)), constraints=[AtMostActive(*names, count=2)])
    for seed in range(3):
        rng = np.random.default_rng(seed)
        bowl = Bowl(rng.random(6), rng.uniform(0.2, 3.0, 6))
        best = max(
            optimum(bowl, lambda _: [], {i: 0.5 for i in range(6) if i not in active})
            for active in itertools.combinations(range(6), 2)
        )
        assert found(box, bowl, seed)[1] == pytest.approx(best, abs=1e-6)


def test_a_logarithmic_inequality_by_a_fine_grid() -> None:
    box = Box(a=Log(0.01, 10.0), b=(0.0, 1.0), constraints=[LinearConstraint({"a": 1.0, "b": 2.0}, at_most=2.0)])
    bowl = Bowl(np.array([0.9, 0.9]), np.array([1.0, 0.5]))
    z = np.stack(np.meshgrid(np.linspace(0, 1, 1501), np.linspace(0, 1, 1501)), axis=-1).reshape(-1, 2)
    inside = z[0.01 * 1000.0 ** z[:, 0] + 2.0 * z[:, 1] <= 2.0]
    _, value = found(box, bowl)
    assert value >= bowl.at(inside).max()
    assert value == pytest.approx(bowl.at(inside).max(), abs=1e-2)


def test_a_function_of_the_action_by_a_fine_grid() -> None:
    box = Box(a=(0.0, 1.0), b=(0.0, 1.0), constraints=[lambda action: action["a"] ** 2 + action["b"] ** 2 <= 0.5])
    bowl = Bowl(np.array([0.9, 0.2]), np.ones(2))
    _, value = found(box, bowl)
    exact = -((np.hypot(0.9, 0.2) - np.sqrt(0.5)) ** 2)
    assert value == pytest.approx(exact, abs=2e-3)
    assert value <= exact + 1e-9


def test_candidates_around_an_action_are_feasible() -> None:
    box = Box(n=Integer(0, 4), x=(0.0, 1.0), y=(0.0, 1.0), constraints=[Total("n", "x", "y", equals=2.5)])
    search = BoxSearch(box)
    near = box.sample(3, 0)
    for distance in (0.2, 0.01):
        points = search.around(Point(near[0]), distance, 5).points
        assert box.permits(points).all()
        assert len(np.unique(points[:, 0])) > 1
    infeasible = np.array([[1.0, 0.9, 0.9], [0.0, 0.1, 0.1]])
    assert box.permits(search.candidates(np.concatenate([near, infeasible]), 1).points).all()
