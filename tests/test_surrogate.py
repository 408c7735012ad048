"""The posterior against from-scratch solves, in double and in extended precision."""

from typing import Any

import numpy as np
import pytest
import scipy.linalg
from numpy.typing import NDArray

import drbo
from drbo import GP, RBF, GridPosterior, Matern, Product
from drbo.models.bounds import information_gain
from tolerances import CLOSED_FORM, FINITE_DIFFERENCES, SOLVER

X = np.linspace(0, 1, 9)[:, None]
C = np.linspace(0, 1, 11)[:, None]


def f(x: NDArray[Any], c: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.sin(5 * x) * np.cos(3 * c))


def from_scratch(gp: GP, xs: NDArray[Any], cs: NDArray[Any], y: NDArray[Any], kind: Any) -> tuple[NDArray[Any], ...]:
    """The textbook formulas for an RBF product on the grid, in the floating-point type `kind`, sharing no code."""

    def k(a: NDArray[Any], b: NDArray[Any], scale: float) -> NDArray[Any]:
        d = (a.astype(kind)[:, 0][:, None] - b.astype(kind)[:, 0]) / kind(scale)
        return np.asarray(np.exp(-d * d / kind(2)))

    assert isinstance(gp.kernel.action, RBF)
    assert isinstance(gp.kernel.context, RBF)
    lx, lc = float(gp.kernel.action.lengthscale), float(gp.kernel.context.lengthscale)  # type: ignore[arg-type]
    L = k(xs, xs, lx) * k(cs, cs, lc) + kind(gp.noise) ** 2 * np.eye(len(y), dtype=kind)
    rest = (k(xs, X, lx)[:, :, None] * k(cs, C, lc)[:, None, :]).reshape(len(y), -1)
    rest = np.concatenate([rest, y.astype(kind)[:, None]], axis=1)
    for j in range(len(y)):  # Cholesky and forward substitution, column by column
        L[j, j] = np.sqrt(L[j, j])
        L[j + 1 :, j] /= L[j, j]
        L[j + 1 :, j + 1 :] -= np.outer(L[j + 1 :, j], L[j + 1 :, j])
        rest[j] /= L[j, j]
        rest[j + 1 :] -= np.outer(L[j + 1 :, j], rest[j])
    white, z = rest[:, :-1], rest[:, -1]
    shape = (len(X), len(C))
    return (z @ white).reshape(shape), (1 - (white * white).sum(axis=0)).reshape(shape)


def observed(gp: GP, xs: NDArray[Any], cs: NDArray[Any], y: NDArray[Any]) -> GridPosterior:
    posterior = gp.prior(X, C)
    for x, c, outcome in zip(xs, cs, y, strict=True):
        posterior.observe(x, c, outcome)
    return posterior


def data(kind: str, n: int, noise: float) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(1)
    xs, cs = rng.random((n, 1)), rng.random((n, 1))
    if kind == "grid points, repeated":
        xs, cs = X[rng.integers(0, 9, n)], C[rng.integers(0, 11, n)]
    elif kind == "four points, repeated":
        xs, cs = X[rng.integers(0, 2, n)], C[rng.integers(0, 2, n)]
    elif kind == "near-duplicates":
        xs = X[rng.integers(0, 4, n)] + 1e-7 * rng.normal(size=(n, 1))
        cs = C[rng.integers(0, 4, n)] + 1e-7 * rng.normal(size=(n, 1))
    return xs, cs, f(xs, cs)[:, 0] + noise * rng.normal(size=n)


@pytest.mark.parametrize("kind", ["anywhere", "grid points, repeated", "four points, repeated", "near-duplicates"])
@pytest.mark.parametrize("noise", [0.05, 1e-3])
def test_a_thousand_observations_match_a_from_scratch_solve(kind: str, noise: float) -> None:
    gp = GP(Product(RBF(0.2), RBF(0.3)), noise)
    xs, cs, y = data(kind, 1000, noise)
    posterior = observed(gp, xs, cs, y)
    mean, variance = from_scratch(gp, xs, cs, y, np.float64)
    tolerance = SOLVER if noise > 1e-2 else 1e-6  # the condition number is 1e9 at noise 1e-3
    np.testing.assert_allclose(posterior.mean, mean, atol=tolerance)
    np.testing.assert_allclose(posterior.variance, variance, atol=tolerance)
    assert posterior.variance.min() >= 0.0


@pytest.mark.parametrize("kind", ["grid points, repeated", "four points, repeated", "near-duplicates"])
def test_a_noise_of_one_millionth_is_as_accurate_as_the_arithmetic_allows(kind: str) -> None:
    """The condition number is 1e15 here: no method in double precision is exact. Ours must not add to that."""
    noise = 1e-6
    gp = GP(Product(RBF(0.2), RBF(0.3)), noise)
    xs, cs, y = data(kind, 400, noise)
    posterior = observed(gp, xs, cs, y)
    mean, variance = from_scratch(gp, xs, cs, y, np.longdouble)
    mean_double, variance_double = from_scratch(gp, xs, cs, y, np.float64)
    assert np.abs(posterior.mean - mean).max() <= 3 * np.abs(mean_double - mean).max() + 1e-7
    assert np.abs(posterior.variance - variance).max() <= 3 * np.abs(variance_double - variance).max() + 1e-12


@pytest.mark.parametrize("kind", ["grid points, repeated", "near-duplicates"])
def test_a_noise_of_one_millionth_over_a_thousand_observations(kind: str) -> None:
    gp = GP(Product(RBF(0.2), RBF(0.3)), 1e-6)
    xs, cs, y = data(kind, 1000, 1e-6)
    posterior = observed(gp, xs, cs, y)
    grid = np.repeat(X, len(C), axis=0), np.tile(C, (len(X), 1))
    mean, variance = posterior.predict(*grid)
    # The thousand rank-one updates have not drifted away from a solve with the final factor.
    np.testing.assert_allclose(posterior.mean.ravel(), mean, atol=1e-5)
    np.testing.assert_allclose(posterior.variance.ravel(), variance, atol=1e-8)
    assert posterior.variance.min() >= 0.0
    if kind == "grid points, repeated":  # every grid point has been seen: the posterior interpolates f
        np.testing.assert_allclose(posterior.mean, f(X, C.T), atol=1e-5)


@pytest.mark.parametrize("kernel", [Product(RBF(0.2), Matern(0.3, nu=1.5)), Product(Matern(0.4, 2.0), RBF(0.3, 0.5))])
def test_grid_and_arbitrary_points_agree(kernel: Product) -> None:
    xs, cs, y = data("anywhere", 40, 0.1)
    posterior = observed(GP(kernel, 0.1), xs, cs, y)
    mean, variance = posterior.predict(np.repeat(X, len(C), axis=0), np.tile(C, (len(X), 1)))
    np.testing.assert_allclose(posterior.mean.ravel(), mean, atol=CLOSED_FORM)
    np.testing.assert_allclose(posterior.variance.ravel(), variance, atol=CLOSED_FORM)
    np.testing.assert_allclose(posterior.std**2, posterior.variance, atol=CLOSED_FORM)


def test_prior() -> None:
    posterior = GP(Product(RBF(0.2, 2.0), RBF(0.3, 3.0)), 0.1).prior(X, C)
    assert (posterior.mean == 0.0).all()
    np.testing.assert_allclose(posterior.variance, 36.0)
    mean, variance = posterior.predict([[0.3]], [[0.4]])
    assert mean[0] == 0.0
    assert variance[0] == pytest.approx(36.0)
    assert posterior.information_gain == 0.0


def test_information_gain_is_the_log_determinant() -> None:
    kernel = Product(RBF(0.2), RBF(0.3))
    xs, cs, y = data("anywhere", 30, 0.1)
    posterior = observed(GP(kernel, 0.1), xs, cs, y)
    gram = kernel.action(xs, xs) * kernel.context(cs, cs)
    expected = np.linalg.slogdet(np.eye(30) + gram / 0.01)[1]
    assert posterior.information_gain == pytest.approx(expected, abs=CLOSED_FORM)
    assert information_gain(gram, 0.01) == pytest.approx(expected, abs=CLOSED_FORM)


def test_variance_is_that_of_f_not_of_an_outcome() -> None:
    posterior = GP(Product(RBF(0.2), RBF(0.3)), 0.5).prior(X, C)
    for _ in range(2000):
        posterior.observe(X[3], C[4], 1.0)
    assert posterior.variance[3, 4] == pytest.approx(0.25 / 2000, rel=1e-3)


def test_anticipation_shrinks_the_variance_and_keeps_the_mean() -> None:
    gp = GP(Product(RBF(0.2), RBF(0.3)), 0.1)
    xs, cs, y = data("anywhere", 10, 0.1)
    posterior = observed(gp, xs, cs, y)
    ahead = posterior.copy()
    ahead.anticipate(X[2], C[5])
    observed_too = posterior.copy()
    observed_too.observe(X[2], C[5], 7.0)
    np.testing.assert_array_equal(ahead.mean, posterior.mean)
    np.testing.assert_allclose(ahead.variance, observed_too.variance, atol=CLOSED_FORM)
    assert posterior.n_observations == 10  # the copies are independent


def test_an_average_over_contexts_is_a_linear_functional() -> None:
    """Against the joint Gaussian of the grid and the average, by the formula of conditioning."""
    kernel = Product(RBF(0.2), RBF(0.3))
    gp = GP(kernel, 0.1)
    weights = np.random.default_rng(0).dirichlet(np.ones(len(C)))
    posterior = gp.prior(X, C)
    posterior.anticipate_average(X[2], weights)
    posterior.anticipate_average(X[4], np.eye(len(C))[3])
    K = np.kron(kernel.action(X, X), kernel.context(C, C))
    H = np.zeros((2, len(X) * len(C)))
    H[0, 2 * len(C) : 3 * len(C)] = weights
    H[1, 4 * len(C) + 3] = 1.0
    expected = K - K @ H.T @ np.linalg.solve(H @ K @ H.T + 0.01 * np.eye(2), H @ K)
    np.testing.assert_allclose(posterior.variance.ravel(), np.diag(expected), atol=CLOSED_FORM)


def test_bad_input() -> None:
    kernel = Product(RBF(0.2), RBF(0.3))
    with pytest.raises(ValueError, match="noise must be positive"):
        GP(kernel, 0.0)
    with pytest.raises(ValueError, match="noise must be at least 1e-7 of the kernel's amplitude"):
        GP(kernel, 1e-8)
    with pytest.raises(TypeError, match="kernel must be a Product"):
        GP(RBF(0.2), 0.1)  # type: ignore[arg-type]
    posterior = GP(kernel, 0.1).prior(X, C)
    with pytest.raises(ValueError, match="outcome must be finite"):
        posterior.observe(X[0], C[0], float("nan"))
    with pytest.raises(ValueError, match=r"contexts must have shape \(2, 1\)"):
        posterior.predict([[0.0], [1.0]], [[0.0]])


def test_actions_off_the_grid_agree_with_the_grid() -> None:
    gp = GP(Product(RBF(0.2), Matern(0.3)), 0.1)
    xs, cs, y = data("anywhere", 30, 0.1)
    on, off = gp.prior(X, C), gp.prior_off_grid(1, C)
    for posterior in (on, off):
        for x, c, outcome in zip(xs, cs, y, strict=True):
            posterior.observe(x, c, outcome)
        posterior.anticipate_average(X[3], np.full(len(C), 1 / len(C)))
    mean, variance = off.over_contexts(X)
    np.testing.assert_allclose(mean, on.mean, atol=CLOSED_FORM)
    np.testing.assert_allclose(variance, on.variance, atol=CLOSED_FORM)
    assert off.information_gain == pytest.approx(on.information_gain, abs=CLOSED_FORM)


def test_averages_are_those_of_the_contexts() -> None:
    rng = np.random.default_rng(0)
    posterior = GP(Product(Matern(0.4, 1.5), RBF(0.3)), 0.1).prior_off_grid(2, C)
    actions, weights = rng.random((7, 2)), rng.dirichlet(np.ones(len(C))) * (rng.random(len(C)) > 0.5)
    weights /= weights.sum()
    for t in (0, 1, 30):
        while posterior.n_observations < t:
            posterior.observe(rng.random(2), rng.random(1), rng.normal())
        expected = [values @ weights for values in posterior.over_contexts(actions)]
        np.testing.assert_allclose(posterior.averages(actions, weights), expected, atol=CLOSED_FORM)


@pytest.mark.parametrize("kernel", [Product(RBF((0.2, 0.4)), Matern(0.3)), Product(Matern(0.4, 2.0, nu=1.5), RBF(0.3))])
def test_gradient_of_the_score_by_finite_differences(kernel: Product) -> None:
    rng = np.random.default_rng(0)
    posterior = GP(kernel, 0.1).prior_off_grid(2, C)
    for _ in range(20):
        posterior.observe(rng.random(2), rng.random(1), rng.normal())
    weights = rng.dirichlet(np.ones(len(C))) * (rng.random(len(C)) > 0.5)

    def score(x: NDArray[Any]) -> float:
        mean, variance = posterior.over_contexts(x[None])
        return float(weights @ (mean + 1.7 * np.sqrt(variance))[0])

    for _ in range(5):
        x = rng.random(2)
        gradient = posterior.gradient(x, weights, 1.7)
        for i in range(2):
            step = np.eye(2)[i] * 1e-6
            assert gradient[i] == pytest.approx((score(x + step) - score(x - step)) / 2e-6, abs=FINITE_DIFFERENCES)


@pytest.mark.parametrize("n", [0, 12])
def test_information_is_what_conditioning_takes_from_the_variance(n: int) -> None:
    """The literal formula from the dense covariance, which is what the variance of the average falls by."""
    gp = GP(Product(Matern(0.4, amplitude=2.0), RBF(0.3, amplitude=0.7)), 0.1)
    rng = np.random.default_rng(0)
    xs, cs, x = rng.random((n, 1)), rng.random((n, 1)), np.array([0.37])
    posterior = observed(gp, xs, cs, rng.normal(size=n))
    w = rng.dirichlet(np.ones(len(C))) * (np.arange(len(C)) % 2)
    w /= w.sum()

    def covariance(xs: NDArray[Any], cs: NDArray[Any]) -> NDArray[Any]:
        """Of f(x, .) on the contexts C, given outcomes at xs, cs."""
        k = gp.kernel.action(xs, x[None]) * gp.kernel.context(cs, C)
        A = gp.kernel.action(xs, xs) * gp.kernel.context(cs, cs) + gp.ridge * np.eye(len(xs))
        return np.asarray(gp.kernel.action.variance * gp.kernel.context(C, C) - k.T @ np.linalg.solve(A, k))

    before, reduction = covariance(xs, cs), posterior.curve(x, 0.0).information(C, C, w)
    np.testing.assert_allclose(reduction, (before @ w) ** 2 / (np.diag(before) + gp.ridge), atol=CLOSED_FORM)
    for c, fall in zip(C, reduction, strict=True):
        after = covariance(np.append(xs, x[None], axis=0), np.append(cs, c[None], axis=0))
        assert w @ (before - after) @ w == pytest.approx(fall, abs=CLOSED_FORM)


def test_no_matrix_without_rows_is_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first observation; scipy 1.13.0, the oldest one allowed, refuses it."""

    def refusing(a: NDArray[Any], *arguments: Any, **more: Any) -> NDArray[Any]:
        if len(a) == 0:
            raise ValueError("illegal value in 7th argument of internal trtrs")
        return np.asarray(scipy.linalg.solve_triangular(a, *arguments, **more))

    monkeypatch.setattr(drbo.models.gp, "solve_triangular", refusing)
    opt = drbo.Optimizer(drbo.Box(x=(0.0, 1.0)), drbo.Box(c=(0.0, 1.0)), setting=drbo.Simulator(radius=0.1))
    opt.tell(opt.ask(), 1.0)
    opt.ask()
