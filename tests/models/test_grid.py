"""The posterior on a grid against from-scratch solves, in double and in extended precision."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from drbo import GP, RBF, Matern, Product
from drbo.models import ExactPosterior
from drbo.models.bounds import information_gain
from drbo.models.data import Observation
from drbo.spaces import Point
from models.surrogate import C, X, data, f, observed
from tolerances import CLOSED_FORM, SOLVER


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


@pytest.mark.parametrize("kind", ["anywhere", "grid points, repeated", "four points, repeated", "near-duplicates"])
@pytest.mark.parametrize("noise", [0.05, 1e-3])
def test_hundreds_of_observations_match_a_from_scratch_solve(kind: str, noise: float) -> None:
    gp = GP(Product(RBF(0.2), RBF(0.3)), noise)
    xs, cs, y = data(kind, 500, noise)
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
    posterior = ExactPosterior.prior(GP(Product(RBF(0.2, 2.0), RBF(0.3, 3.0)), 0.1), X, C)
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
    posterior = ExactPosterior.prior(GP(Product(RBF(0.2), RBF(0.3)), 0.5), X, C)
    for _ in range(500):
        posterior = posterior.with_outcome(X[3], C[4], 1.0)
    assert posterior.variance[3, 4] == pytest.approx(0.25 / 500, rel=1e-3)


def test_anticipation_shrinks_the_variance_and_keeps_the_mean() -> None:
    gp = GP(Product(RBF(0.2), RBF(0.3)), 0.1)
    xs, cs, y = data("anywhere", 10, 0.1)
    posterior = observed(gp, xs, cs, y)
    ahead = posterior.with_more([Observation.of(X[2], C[5], None)])
    observed_too = posterior.with_outcome(X[2], C[5], 7.0)
    np.testing.assert_array_equal(ahead.mean, posterior.mean)
    np.testing.assert_allclose(ahead.variance, observed_too.variance, atol=CLOSED_FORM)
    assert posterior.n_observations == 10


def test_an_average_over_contexts_is_a_linear_functional() -> None:
    """Against the joint Gaussian of the grid and the average, by the formula of conditioning."""
    kernel = Product(RBF(0.2), RBF(0.3))
    gp = GP(kernel, 0.1)
    weights = np.random.default_rng(0).dirichlet(np.ones(len(C)))
    posterior = ExactPosterior.prior(gp, X, C)
    posterior = posterior.with_more([Observation(X[2], C, weights, None)])
    posterior = posterior.with_more([Observation(X[4], C[3:4], np.ones(1), None)])
    K = np.kron(kernel.action(X, X), kernel.context(C, C))
    H = np.zeros((2, len(X) * len(C)))
    H[0, 2 * len(C) : 3 * len(C)] = weights
    H[1, 4 * len(C) + 3] = 1.0
    expected = K - K @ H.T @ np.linalg.solve(H @ K @ H.T + 0.01 * np.eye(2), H @ K)
    np.testing.assert_allclose(posterior.variance.ravel(), np.diag(expected), atol=CLOSED_FORM)


def many(n: int) -> list[Observation]:
    """Outcomes in one context, averages, and observations without an outcome."""
    rng = np.random.default_rng(0)
    taken = []
    for i in range(n):
        k = 3 if i % 5 == 2 else 1
        outcome = None if i % 7 == 3 else float(rng.normal())
        taken.append(Observation(rng.random(1), rng.random((k, 1)), np.full(k, 1 / k), outcome))
    return taken


@pytest.mark.parametrize("n", [1, 31, 64, 65, 200])
@pytest.mark.parametrize("first", [0, 1, 40])
def test_many_at_once_have_the_bits_of_one_by_one(n: int, first: int) -> None:
    """A rebuilt posterior is that which grew: in its factor, on its grid, and anywhere."""
    gp, taken = GP(Product(Matern(0.3), RBF(0.3)), 1e-3), many(first + n)
    grown, rebuilt = (ExactPosterior.prior(gp, X, C) for _ in range(2))
    for observation in taken[:first]:
        rebuilt = rebuilt.with_more([observation])
    rebuilt = rebuilt.with_more(taken[first:])
    for observation in taken:
        grown = grown.with_more([observation])
    assert rebuilt.n_observations == grown.n_observations == first + n
    assert rebuilt.information_gain == grown.information_gain
    for name in ("mean", "variance"):
        np.testing.assert_array_equal(getattr(rebuilt, name), getattr(grown, name))
    x, c = np.random.default_rng(1).random((2, 5, 1))
    np.testing.assert_array_equal(rebuilt.predict(x, c), grown.predict(x, c))
    np.testing.assert_array_equal(rebuilt.moments(x), grown.moments(x))


@pytest.mark.parametrize("n", [0, 3, 64, 150])
def test_other_contexts_have_the_bits_of_a_posterior_made_on_them(n: int) -> None:
    gp, taken, elsewhere = GP(Product(Matern(0.3), RBF(0.3)), 0.05), many(n + 1), np.linspace(0.1, 0.7, 5)[:, None]
    moved, made = ExactPosterior.prior(gp, X, C), ExactPosterior.prior(gp, X, elsewhere)
    moved = moved.with_more(taken[:n])
    moved = moved.on(elsewhere)
    made = made.with_more(taken[:n])
    for observation in (None, taken[n]):  # they also go on alike
        if observation is not None:
            moved = moved.with_more([observation])
            made = made.with_more([observation])
        np.testing.assert_array_equal(moved.contexts, elsewhere)
        np.testing.assert_array_equal(moved.mean, made.mean)
        np.testing.assert_array_equal(moved.variance, made.variance)


def test_an_action_of_the_grid_is_its_row() -> None:
    xs, cs, y = data("anywhere", 20, 0.1)
    posterior = observed(GP(Product(RBF(0.2), RBF(0.3)), 0.1), xs, cs, y)
    mean, variance = posterior.of_action(Point(X[3], 3))
    np.testing.assert_array_equal(mean, posterior.mean[3])
    np.testing.assert_array_equal(variance, posterior.variance[3])
    elsewhere = posterior.of_action(Point(X[3]))
    np.testing.assert_allclose(elsewhere, [mean, variance], atol=CLOSED_FORM)


def test_an_array_that_somebody_holds_is_never_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large arrays of dropped posteriors are used again, unless a view of them is held."""
    monkeypatch.setattr("drbo.models.regression._LARGE", 0)
    xs, cs, y = data("grid points, repeated", 12, 0.05)
    posterior = observed(GP(Product(RBF(0.2), RBF(0.3)), 0.05), xs[:2], cs[:2], y[:2])
    held = []
    for i in range(2, 12):
        row, (mean, variance) = posterior.mean[i % len(X)], posterior.on_grid()
        held += [(array, array.copy()) for array in (row, mean if i % 3 else mean[:, :1], variance.T)]
        del mean, variance
        posterior = posterior.with_outcome(xs[i], cs[i], y[i])
    assert all(np.array_equal(array, copy) for array, copy in held)


def test_large_arrays_that_nobody_holds_are_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drbo.models.regression._LARGE", 0)
    xs, cs, y = data("grid points, repeated", 12, 0.05)
    posterior = observed(GP(Product(RBF(0.2), RBF(0.3)), 0.05), xs[:2], cs[:2], y[:2])
    made = []
    empty_like = np.empty_like

    def counted(array: NDArray[Any]) -> NDArray[Any]:
        made.append(empty_like(array))
        return np.array(made[-1])

    monkeypatch.setattr(np, "empty_like", counted)
    for i in range(2, 12):
        posterior = posterior.with_outcome(xs[i], cs[i], y[i])
    assert len(made) <= 6
