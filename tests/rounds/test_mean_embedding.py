"""Mean-embedding UCB against dense linear algebra, on grids, boxes and blocks, and its runs with hidden contexts."""

from typing import Any

import numpy as np
import pytest

import drbo
from drbo.models.bounds import UPPER, AverageBound, Bound
from drbo.models.data import Observation
from drbo.models.kronecker import KroneckerPosterior
from drbo.models.regression import ExactPosterior, GaussianPosterior
from drbo.problems import benchmark_1
from drbo.spaces.space import Point
from drbo.validation import FloatArray
from tolerances import CLOSED_FORM, FINITE_DIFFERENCES

KERNEL = drbo.Product(drbo.RBF(0.3, amplitude=1.3), drbo.RBF(0.4))
GP = drbo.GP(KERNEL, noise=0.1)
X, C = np.linspace(0.0, 1.0, 9)[:, None], np.linspace(0.0, 1.0, 5)[:, None]
W = np.array([0.3, 0.0, 0.2, 0.1, 0.4])
RNG = np.random.default_rng(3)
TOLD = [Observation.of(X[i], C[j], float(RNG.normal())) for i, j in RNG.integers(0, (9, 5), size=(12, 2))]
HIDDEN = Observation(X[2], C[[0, 3]], np.array([0.7, 0.3]), 0.4, scatter=0.6)
BLOCK = RNG.normal(size=(4, 3))
"""Outcomes of the first four actions in the first three contexts."""
IN_BLOCK = [Observation.of(X[i], C[j], float(BLOCK[i, j])) for i in range(4) for j in range(3)]
KINDS = ("grid", "anywhere", "block")


def posterior(kind: str) -> Any:
    made: GaussianPosterior = ExactPosterior(GP, X, C)
    if kind == "anywhere":
        made = ExactPosterior(GP, np.empty((0, 1)), C)
    if kind == "block":
        made = KroneckerPosterior(GP, X, C, (X[:4], C[:3], BLOCK))
    made = made.with_more([*TOLD, HIDDEN])
    return made


def dense(kind: str, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance (m,) of the average of f over W at actions x (m, 1), from one dense solve."""
    seen = [*(IN_BLOCK if kind == "block" else []), *TOLD, HIDDEN]

    def k(a: Observation, b: Observation) -> float:
        of_contexts = a.weights @ KERNEL.context(a.contexts, b.contexts) @ b.weights
        return float(KERNEL.action(a.action[None, :], b.action[None, :])[0, 0] * of_contexts)

    wanted = [Observation(one, C, W, None) for one in x]
    K = np.array([[k(a, b) for b in seen] for a in seen]) + np.diag([GP.ridge + one.scatter for one in seen])
    cross, own = np.array([[k(a, b) for b in seen] for a in wanted]), np.array([k(a, a) for a in wanted])
    solved = np.linalg.solve(K, cross.T)
    return solved.T @ np.array([one.outcome for one in seen]), own - np.einsum("ij,ji->i", cross, solved)


@pytest.mark.parametrize("kind", KINDS)
class TestBoundOfAnAverage:
    def test_it_is_that_of_the_mean_embedding(self, kind: str) -> None:
        bound = AverageBound.of(posterior(kind), W, 2.0, UPPER)
        mean, variance = dense(kind, X)
        expected = np.repeat((mean + 2.0 * np.sqrt(variance))[:, None], len(C), axis=1)
        np.testing.assert_allclose(bound.at(X), expected, atol=CLOSED_FORM)
        if kind != "anywhere":
            np.testing.assert_allclose(bound.on_grid(), expected, atol=CLOSED_FORM)
            np.testing.assert_allclose(bound.on_grid(np.array([3])), expected[3:4], atol=CLOSED_FORM)
        action = Point(X[4], None if kind == "anywhere" else 4)
        np.testing.assert_allclose(bound.of_action(action), expected[4], atol=CLOSED_FORM)

    def test_it_is_never_above_the_average_of_the_bounds(self, kind: str) -> None:
        made = posterior(kind)
        assert (AverageBound.of(made, W, 2.0, UPPER).at(X)[:, 0] <= Bound(made, 2.0, UPPER).at(X) @ W + 1e-12).all()

    def test_its_gradient_is_that_of_finite_differences(self, kind: str) -> None:
        bound, weights, x, h = AverageBound.of(posterior(kind), W, 2.0, UPPER), np.full(5, 0.2), np.array([0.37]), 1e-6
        numeric = (bound.at(x[None] + h) - bound.at(x[None] - h))[0, 0] / (2.0 * h)
        assert bound.gradient(x, weights)[0] == pytest.approx(numeric, rel=FINITE_DIFFERENCES)

    def test_ceilings_are_no_lower(self, kind: str) -> None:
        bound = AverageBound.of(posterior(kind), W, 2.0, UPPER)
        assert (bound.ceilings(X, np.full(5, 0.2)) >= bound.at(X)[:, 0] - 1e-6).all()

    def test_the_posterior_stays_as_it_was(self, kind: str) -> None:
        made = posterior(kind)
        before = made.moments(X)
        made.averaged(W)
        for one, other in zip(before, made.moments(X), strict=True):
            np.testing.assert_array_equal(one, other)


def test_an_average_is_in_no_context() -> None:
    with pytest.raises(TypeError, match="not a function of the context"):
        AverageBound.of(posterior("grid"), W, 2.0, UPPER).curve(X[0])


def optimizer(actions: Any, **given: Any) -> drbo.Optimizer:
    arguments: dict[str, Any] = {
        "ambiguity": drbo.MMD(C), "setting": drbo.General(), "surrogate": GP, "policy": drbo.MeanEmbedding()
    }  # fmt: skip
    opt = drbo.Optimizer(actions, C, **(arguments | given))
    for one in TOLD:
        action = {"x": float(one.action[0])} if isinstance(actions, drbo.Box) else one.action
        opt.tell(action, float(one.outcome or 0.0), context=one.contexts[0])
    return opt


def best(x: FloatArray) -> tuple[int, float]:
    """Return the best of actions by dense linear algebra, without the hidden outcome."""
    K = np.array(
        [
            [float(KERNEL.action(a.action[None], b.action[None])[0, 0] * KERNEL.context(a.contexts, b.contexts)[0, 0])
             for b in TOLD]
            for a in TOLD
        ]
    )  # fmt: skip
    cross = np.array(
        [[float(KERNEL.action(one[None], a.action[None])[0, 0] * (W @ KERNEL.context(C, a.contexts))[0])
          for a in TOLD] for one in x]
    )  # fmt: skip
    solved = np.linalg.solve(K + GP.ridge * np.eye(len(K)), cross.T)
    own = KERNEL.action.variance * float(W @ KERNEL.context(C, C) @ W)
    variance = own - np.einsum("ij,ji->i", cross, solved)
    scores = solved.T @ np.array([a.outcome for a in TOLD]) + 2.0 * np.sqrt(variance)
    return int(np.argmax(scores)), float(scores.max())


@pytest.mark.parametrize("radius", [0.0, 0.3])
def test_the_choice_on_a_grid(radius: float) -> None:
    s = optimizer(X).ask(reference=W, radius=radius)
    index, score = best(X)
    assert (s.action_index, s.context) == (index, None)
    assert s.score == pytest.approx(score, abs=CLOSED_FORM)


def test_the_choice_in_a_box() -> None:
    s = optimizer(drbo.Box(x=(0.0, 1.0))).ask(reference=W, radius=0.2)
    fine = np.linspace(0.0, 1.0, 2001)[:, None]
    index, score = best(fine)
    assert s.score == pytest.approx(score, abs=1e-5)
    assert s.action["x"] == pytest.approx(fine[index, 0], abs=0.01)


def test_floors_budgets_and_picked_contexts_go_with_it() -> None:
    opt = optimizer(X, baseline=X[0], policy=drbo.MeanEmbedding(drbo.Informative()))
    s = opt.ask(reference=W, radius=0.1, floor=-50.0)
    assert s.action_index == best(X)[0]
    assert s.context_index is not None
    assert opt.ask(reference=W, radius=0.1, floor=50.0).fallback
    assert len(opt.ask(reference=W, radius=0.1, n_contexts=3).contexts) == 3


def test_perturbations_are_refused() -> None:
    with pytest.raises(TypeError, match=r"MeanEmbedding.* needs a surrogate with the capability SupportsAverages"):
        drbo.Optimizer(
            X, drbo.Perturbation([-0.1, 0.1]), ambiguity=drbo.Expectation(), setting=drbo.General(),
            surrogate=drbo.GP(drbo.Product(drbo.RBF(0.3), drbo.ConstantKernel()), 0.1), policy=drbo.MeanEmbedding(),
        )  # fmt: skip


def test_nothing_is_claimed_of_the_robust_regret() -> None:
    assert drbo.MeanEmbedding().theorem("Theorem 2") is None


@pytest.mark.parametrize("hidden", [False, True])
def test_a_run_finds_the_best_action_whether_or_not_contexts_are_revealed(hidden: bool) -> None:
    problem = benchmark_1(15)
    p, rng = problem.reference, np.random.default_rng(0)
    opt = drbo.Optimizer(
        problem.actions, problem.contexts, ambiguity=drbo.Expectation(), setting=drbo.General(),
        surrogate=problem.surrogate, policy=drbo.MeanEmbedding(),
    )  # fmt: skip
    for _ in range(60):
        s = opt.ask(reference=p, radius=0.0)
        j = int(rng.choice(15, p=p))
        y = float(problem.values[s.action_index, j]) + problem.noise * rng.normal()
        if hidden:
            opt.tell(s, y, distribution=p)
        else:
            opt.tell(s, y, context_index=j)
    found = opt.recommend(reference=p, radius=0.0).action_index
    assert problem.stochastic_values[found] >= problem.stochastic_values.max() - 0.05
