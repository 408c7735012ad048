"""The posterior of actions anywhere: against the grid, its own moments, and finite differences."""

from typing import Any

import numpy as np
import pytest
import scipy.linalg
from numpy.typing import NDArray

import drbo
from drbo import GP, RBF, Matern, Product
from drbo.models import ExactPosterior
from drbo.models.data import Observation
from models.surrogate import C, X, data
from tolerances import CLOSED_FORM, FINITE_DIFFERENCES


def test_actions_off_the_grid_agree_with_the_grid() -> None:
    gp = GP(Product(RBF(0.2), Matern(0.3)), 0.1)
    xs, cs, y = data("anywhere", 30, 0.1)
    on, off = ExactPosterior.prior(gp, X, C), ExactPosterior(gp, np.empty((0, 1)), C)
    for posterior in (on, off):
        for x, c, outcome in zip(xs, cs, y, strict=True):
            posterior = posterior.with_outcome(x, c, outcome)
        posterior = posterior.with_more([Observation(X[3], C, np.full(len(C), 1 / len(C)), None)])
    mean, variance = off.moments(X)
    np.testing.assert_allclose(mean, on.mean, atol=CLOSED_FORM)
    np.testing.assert_allclose(variance, on.variance, atol=CLOSED_FORM)
    assert off.information_gain == pytest.approx(on.information_gain, abs=CLOSED_FORM)


def test_averages_are_those_of_the_contexts() -> None:
    rng = np.random.default_rng(0)
    posterior = ExactPosterior(GP(Product(Matern(0.4, 1.5), RBF(0.3)), 0.1), np.empty((0, 2)), C)
    actions, weights = rng.random((7, 2)), rng.dirichlet(np.ones(len(C))) * (rng.random(len(C)) > 0.5)
    weights /= weights.sum()
    for t in (0, 1, 30):
        while posterior.n_observations < t:
            posterior = posterior.with_outcome(rng.random(2), rng.random(1), rng.normal())
        expected = [values @ weights for values in posterior.moments(actions)]
        np.testing.assert_allclose(posterior.averages(actions, weights), expected, atol=CLOSED_FORM)


@pytest.mark.parametrize("kernel", [Product(RBF((0.2, 0.4)), Matern(0.3)), Product(Matern(0.4, 2.0, nu=1.5), RBF(0.3))])
def test_gradient_of_the_score_by_finite_differences(kernel: Product) -> None:
    rng = np.random.default_rng(0)
    posterior = ExactPosterior(GP(kernel, 0.1), np.empty((0, 2)), C)
    for _ in range(20):
        posterior = posterior.with_outcome(rng.random(2), rng.random(1), rng.normal())
    weights = rng.dirichlet(np.ones(len(C))) * (rng.random(len(C)) > 0.5)

    def score(x: NDArray[Any]) -> float:
        mean, variance = posterior.moments(x[None])
        return float(weights @ (mean + 1.7 * np.sqrt(variance))[0])

    for _ in range(5):
        x = rng.random(2)
        gradient = posterior.gradient(x, weights, 1.7)
        for i in range(2):
            step = np.eye(2)[i] * 1e-6
            assert gradient[i] == pytest.approx((score(x + step) - score(x - step)) / 2e-6, abs=FINITE_DIFFERENCES)


def test_no_matrix_without_rows_is_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first observation; scipy 1.13.0, the oldest one allowed, refuses it."""

    def refusing(a: NDArray[Any], *arguments: Any, **more: Any) -> NDArray[Any]:
        if len(a) == 0:
            raise ValueError("illegal value in 7th argument of internal trtrs")
        return np.asarray(scipy.linalg.solve_triangular(a, *arguments, **more))

    monkeypatch.setattr(drbo.models.regression, "solve_triangular", refusing)
    opt = drbo.Optimizer(
        drbo.Box(x=(0.0, 1.0)), drbo.Box(c=(0.0, 1.0)), setting=drbo.Simulator(radius=0.1, pick="uncertain")
    )
    opt.tell(opt.ask(), 1.0)
    opt.ask()


def test_bad_input() -> None:
    kernel = Product(RBF(0.2), RBF(0.3))
    with pytest.raises(ValueError, match="noise must be positive"):
        GP(kernel, 0.0)
    with pytest.raises(ValueError, match="noise must be at least 1e-7 of the kernel's amplitude"):
        GP(kernel, 1e-8)
    with pytest.raises(TypeError, match="kernel must be a Product"):
        GP(RBF(0.2), 0.1)  # type: ignore[arg-type]
    posterior = ExactPosterior.prior(GP(kernel, 0.1), X, C)
    with pytest.raises(ValueError, match="outcome must be finite"):
        posterior = posterior.with_outcome(X[0], C[0], float("nan"))
    with pytest.raises(ValueError, match=r"contexts must have shape \(2, 1\)"):
        posterior.predict([[0.0], [1.0]], [[0.0]])
