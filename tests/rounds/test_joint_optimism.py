"""Joint optimism against CVXPY and dense linear algebra: the worst average of one action, and the action chosen."""

from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import drbo
from drbo import AmbiguitySet
from drbo.ambiguity.family import as_placed
from drbo.contexts.nature import FiniteContexts
from drbo.models.bounds import UPPER, AverageBound, Bound
from drbo.models.data import Observation
from drbo.models.regression import ExactPosterior
from drbo.rounds import joint_optimism
from drbo.rounds.ball import Ball
from drbo.rounds.joint_optimism import LeastBound, worst_average
from drbo.spaces.finite import FiniteSet
from drbo.spaces.space import Point
from drbo.validation import FloatArray
from tolerances import FINITE_DIFFERENCES

KERNEL = drbo.Product(drbo.RBF(0.3, amplitude=1.3), drbo.RBF(0.25))
GP = drbo.GP(KERNEL, noise=0.1)
X, C = np.linspace(0.0, 1.0, 7)[:, None], np.linspace(0.0, 1.0, 6)[:, None]
P = np.array([0.3, 0.1, 0.2, 0.1, 0.25, 0.05])
WIDTH = 2.0


def told(seed: int, count: int = 10) -> list[Observation]:
    rng = np.random.default_rng(seed)
    return [Observation.of(X[i], C[j], float(rng.normal())) for i, j in rng.integers(0, (7, 6), size=(count, 2))]


def posterior(seed: int, count: int = 10) -> ExactPosterior:
    made = ExactPosterior(GP, X, C)
    made = made.with_more(told(seed, count))
    return made


def joint(seed: int, i: int) -> tuple[FloatArray, FloatArray]:
    """Return mean (6,) and covariance (6, 6) of f(X[i], .), from one dense solve."""
    seen = told(seed)
    x, c = np.array([one.action for one in seen]), np.array([one.contexts[0] for one in seen])
    K = KERNEL.action(x, x) * KERNEL.context(c, c) + GP.ridge * np.eye(len(x))
    cross = KERNEL.action(X[i][None], x) * KERNEL.context(C, c)
    solved = np.linalg.solve(K, cross.T)
    y = np.array([one.outcome for one in seen])
    return solved.T @ y, KERNEL.action.variance * KERNEL.context(C, C) - cross @ solved


def least(seed: int, i: int, ambiguity: AmbiguitySet, radius: float) -> float:
    """Return the least upper confidence bound of an average in the set, by CVXPY."""
    mean, covariance = joint(seed, i)
    w = cp.Variable(6, nonneg=True)
    apart = w - P
    within = {
        drbo.MMD: lambda: cp.quad_form(apart, cp.psd_wrap(KERNEL.context(C, C))) <= radius**2,
        drbo.TotalVariation: lambda: 0.5 * cp.norm1(apart) <= radius,
        drbo.ChiSquare: lambda: cp.sum(cp.multiply(1.0 / P, cp.square(apart))) <= radius,
    }[type(ambiguity)]()
    root = np.linalg.cholesky(covariance + 1e-12 * np.eye(6)).T
    problem = cp.Problem(cp.Minimize(mean @ w + WIDTH * cp.norm(root @ w)), [cp.sum(w) == 1.0, within])
    return float(problem.solve(solver=cp.CLARABEL))


SETS: dict[str, tuple[AmbiguitySet, float]] = {
    "MMD": (drbo.MMD(C, drbo.RBF(0.25)), 0.3),
    "MMD, small": (drbo.MMD(C, drbo.RBF(0.25)), 0.02),
    "total variation": (drbo.TotalVariation(), 0.4),
    "chi-square": (drbo.ChiSquare(), 0.5),
}


def ball(ambiguity: AmbiguitySet, radius: float) -> Ball:
    space = FiniteSet("contexts", C)
    return Ball(as_placed(ambiguity), FiniteContexts(space).given(P), radius, space, 0)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_worst_average_is_that_of_cvxpy(name: str, seed: int) -> None:
    ambiguity, radius = SETS[name]
    made = posterior(seed)
    for i in range(len(X)):
        found = worst_average(ball(ambiguity, radius), made, Point(X[i], i), WIDTH)
        expected = least(seed, i, ambiguity, radius)
        assert found.value >= expected - 1e-6
        assert found.value - found.gap <= expected + 1e-6
        assert found.gap <= 0.05 * found.deviation + 1e-9
        mean, covariance = joint(seed, i)
        deviation = WIDTH * np.sqrt(found.weights @ covariance @ found.weights)
        assert found.deviation == pytest.approx(deviation, rel=1e-6)
        assert found.value == pytest.approx(found.weights @ mean + deviation, rel=1e-6, abs=1e-9)


def test_without_a_width_or_where_all_is_known_it_is_the_worst_case_of_the_mean() -> None:
    made, set_ = posterior(0), ball(*SETS["MMD"])
    found = worst_average(set_, made, Point(X[2], 2), 0.0)
    assert found.value == pytest.approx(float(set_.worst_case(made.of_action(Point(X[2], 2))[0]).expectation))
    assert found.deviation == found.gap == 0.0


def optimizer(actions: Any, policy: drbo.Policy, **given: Any) -> drbo.Optimizer:
    arguments: dict[str, Any] = {
        "ambiguity": drbo.MMD(C, drbo.RBF(0.25)), "setting": drbo.Simulator(P, 0.3), "surrogate": GP,
        "policy": policy, "beta": WIDTH,
    }  # fmt: skip
    opt = drbo.Optimizer(actions, C, **(arguments | given))
    for one in told(1):
        action = {"x": float(one.action[0])} if isinstance(actions, drbo.Box) else one.action
        opt.tell(action, float(one.outcome or 0.0), context=one.contexts[0])
    return opt


def test_on_a_grid_no_action_is_better() -> None:
    scores = [least(1, i, *SETS["MMD"]) for i in range(len(X))]
    chosen = optimizer(X, drbo.JointOptimism(drbo.Informative())).ask()
    deviation = WIDTH * np.sqrt(np.diag(joint(1, chosen.action_index or 0)[1]).max())
    assert scores[chosen.action_index or 0] >= max(scores) - 0.1 * deviation


def test_on_a_box_it_is_at_least_as_good_as_on_a_grid() -> None:
    policy = drbo.JointOptimism(drbo.Informative())
    on_grid, in_box = optimizer(X, policy).ask(), optimizer(drbo.Box(x=(0.0, 1.0)), policy).ask()
    assert in_box.score >= on_grid.score - 0.1 * WIDTH


def test_in_expectation_it_is_mean_embedding() -> None:
    chosen = [
        optimizer(X, policy, ambiguity=drbo.Expectation(), setting=drbo.Simulator(P, 0.0)).ask()
        for policy in (drbo.JointOptimism(drbo.Informative()), drbo.MeanEmbedding(drbo.Informative()))
    ]
    assert chosen[0].action_index == chosen[1].action_index
    assert chosen[0].context_index == chosen[1].context_index


def test_it_is_never_above_the_bound_of_the_paper() -> None:
    made, set_ = posterior(0), ball(*SETS["MMD"])
    for i in range(len(X)):
        pointwise = set_.worst_case(Bound(made, WIDTH, UPPER).of_action(Point(X[i], i)))
        found = worst_average(set_, made, Point(X[i], i), WIDTH)
        assert found.value - found.gap <= float(pointwise.expectation) + 1e-9


def test_perturbed_actions_are_chosen_by_the_bounds_of_the_paper() -> None:
    def chosen(policy: drbo.Policy) -> drbo.knowledge.Suggestion:
        wobble = drbo.Perturbation(x=drbo.Normal(0.0, 0.05))
        of_places = drbo.GP(drbo.Product(drbo.Matern(0.3), drbo.ConstantKernel()), 0.1)
        setting = drbo.Simulator(radius=0.1)
        opt = drbo.Optimizer(drbo.Box(x=(0.0, 1.0)), wobble, setting=setting, surrogate=of_places, policy=policy)
        opt.tell(opt.ask(), 0.3)
        return opt.ask()

    ours, papers = (chosen(policy(drbo.Informative())) for policy in (drbo.JointOptimism, drbo.Optimism))
    assert ours.action == papers.action
    assert ours.context == papers.context


def test_many_contexts_are_for_the_bounds_of_the_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = [optimizer(X, drbo.JointOptimism(drbo.Informative())).ask()]
    monkeypatch.setattr(joint_optimism, "_MOST_CONTEXTS", 5)
    ours.append(optimizer(X, drbo.JointOptimism(drbo.Informative())).ask())
    assert ours[1].score == optimizer(X, drbo.Optimism(drbo.Informative())).ask().score
    assert ours[0].score < ours[1].score


def test_the_gradient_of_the_least_bound_is_that_of_finite_differences() -> None:
    made = posterior(1)
    other = np.array([0.0, 0.0, 0.0, 0.2, 0.3, 0.5])
    bound = LeastBound(tuple(AverageBound.of(made, w, WIDTH, UPPER) for w in (P, other)))
    x, h = np.array([0.37]), 1e-6
    numeric = (bound.at(x[None] + h) - bound.at(x[None] - h))[0, 0] / (2.0 * h)
    assert bound.gradient(x, np.full(6, 1.0 / 6.0))[0] == pytest.approx(numeric, rel=FINITE_DIFFERENCES)
    assert (bound.ceilings(X, P) >= bound.at(X)[:, 0] - 1e-6).all()
    np.testing.assert_array_equal(bound.at(X, np.array([1])), bound.at(X)[:, [1]])
    assert drbo.JointOptimism().theorem("Theorem 2") is None
