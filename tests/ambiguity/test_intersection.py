"""What lies in a ball and also keeps bounds, against CVXPY."""

from typing import Any

import cvxpy as cp
import numpy as np
import pytest

from drbo import KL, MMD, RBF, AmbiguitySet, AnyOf, Intersection, Moments, Shares, TotalVariation
from drbo.spaces.space import columns_of
from tolerances import SOLVER

RNG = np.random.default_rng(0)
CONTEXTS = np.stack([RNG.random(15), np.repeat([0.0, 1.0, 2.0], 5)], axis=1)
P, V = RNG.dirichlet(np.ones(15)), RNG.normal(size=15)
GRAM = RBF(0.5)(CONTEXTS, CONTEXTS)


def in_ball(kind: str, w: Any, radius: float) -> Any:
    if kind == "MMD":
        return cp.norm(np.linalg.cholesky(GRAM + 1e-13 * np.eye(15)).T @ (w - P)) <= radius
    if kind == "KL":
        return cp.sum(cp.kl_div(w, P)) <= radius
    return 0.5 * cp.norm1(w - P) <= radius


@pytest.mark.parametrize("radius", [0.05, 0.3])
@pytest.mark.parametrize("ball", [MMD(kernel=RBF(0.5)), KL(), TotalVariation()], ids=["MMD", "KL", "TV"])
def test_balls_with_moments_and_shares(ball: AmbiguitySet, radius: float) -> None:
    share = float(P[5:10].sum())
    shares = Shares({1: (share - 0.02, share + 0.01)}, free_inside=True).with_columns(columns_of(CONTEXTS)[1:])
    both = Intersection(ball, Moments([0.02, np.inf]), shares).on(CONTEXTS)
    worst = both.worst_case(V, P, radius)
    w = cp.Variable(15, nonneg=True)
    kind = {"MMD": "MMD", "KL": "KL"}.get(type(ball).__name__, "TV")
    bounds = [
        cp.sum(w) == 1.0, in_ball(kind, w, radius), cp.abs(CONTEXTS[:, 0] @ (w - P)) <= 0.02,
        cp.sum(w[5:10]) >= share - 0.02, cp.sum(w[5:10]) <= share + 0.01,
    ]  # fmt: skip
    oracle = float(cp.Problem(cp.Minimize(V @ w), bounds).solve(solver=cp.CLARABEL))
    assert worst.expectation == pytest.approx(oracle, abs=1e-5 * np.ptp(V))
    assert worst.gap <= SOLVER * np.ptp(V)
    assert both.distance(worst.weights, P) <= radius + 1e-9


def test_a_reference_outside_of_its_shares() -> None:
    """The reference has too little of the group: a small radius holds nothing, a larger one does."""
    share = float(P[5:10].sum())
    shares = Shares({1: (share + 0.1, 1.0)}, free_inside=True).with_columns(columns_of(CONTEXTS)[1:])
    both = Intersection(TotalVariation(), shares).on(CONTEXTS)
    with pytest.raises(ValueError, match=r"holds no distribution at radius 0\.05.* Give a larger radius"):
        both.worst_case(V, P, 0.05)
    worst = both.worst_case(V, P, 0.15)
    assert worst.weights[5:10].sum() >= share + 0.1 - 1e-9
    assert worst.gap <= SOLVER * np.ptp(V)


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        ((MMD(), KL(), Moments(1.0)), "takes one ball"),
        ((MMD(), Shares(old=0.5)), "takes one ball, and Moments or Shares.*free_inside=True"),
        ((MMD(),), "needs a ball and at least one bound"),
        ((AnyOf([[1.0]]), Moments(1.0)), "put the intersection inside"),
        ((MMD(), 3.0), "takes ambiguity sets, got 3.0"),
    ],
)
def test_mistakes(sets: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Intersection(*sets)
