"""The posterior of f(x + xi), against a dense one of f at the places x + xi."""

import math

import numpy as np
import pytest

from drbo import GP, ConstantKernel, Matern, Product
from drbo.kernels import Along, Kernel
from drbo.models.data import Observation
from drbo.models.perturbed import PerturbedPosterior
from drbo.spaces.space import Displacement, Point
from drbo.validation import FloatArray
from tolerances import FINITE_DIFFERENCES, SOLVER

# Three coordinates, of which perturbations move the last one, and the first one backwards.
SHIFT = Displacement(np.array([0.3, 0.0, -0.1]), np.array([[0.0, 0.0, 0.5], [-0.8, 0.0, 0.0]]))
KERNEL = Matern((0.7, 1.1, 0.4), amplitude=1.3)
NOISE, CORRELATION = 0.2, 0.6
RNG = np.random.default_rng(0)
ATOMS, GRID = RNG.random((6, 2)), RNG.random((5, 3))


def place(x: FloatArray, c: FloatArray) -> FloatArray:
    return np.array([x[0] + 0.3 - 0.8 * c[1], x[1], x[2] - 0.1 + 0.5 * c[0]])


def observations() -> list[Observation]:
    """Return outcomes alone and together, with known errors, and, at last, an average that is pending."""
    rng = np.random.default_rng(1)
    alone = [Observation.of(rng.random(3), rng.random(2), float(rng.normal())) for _ in range(20)]
    x = rng.random(3)
    together = [Observation.of(x, rng.random(2), float(rng.normal()), before=j, after=2 - j) for j in range(3)]
    precise = Observation.of(rng.random(3), rng.random(2), 0.4, 0.05)
    average = Observation(rng.random(3), rng.random((4, 2)), rng.dirichlet(np.ones(4)), None)
    return [*alone, *together, precise, average]


class Dense:
    """The same posterior by dense matrices: an observation is a row of weights on places."""

    def __init__(self, seen: list[Observation]) -> None:
        self.places = np.array([place(one.action, c) for one in seen for c in one.contexts])
        owner = np.repeat(np.arange(len(seen)), [len(one.weights) for one in seen])
        self.A = np.zeros((len(seen), len(self.places)))
        self.A[owner, np.arange(len(self.places))] = np.concatenate([one.weights for one in seen])
        e = np.array([NOISE if one.noise is None else one.noise for one in seen])
        self.N = np.diag(e**2)
        for i, one in enumerate(seen):
            for j in range(i - one.before, i):
                self.N[i, j] = self.N[j, i] = CORRELATION * e[i] * e[j]
        y = np.array([one.outcome for one in seen if one.outcome is not None])
        t = len(y)  # what has no outcome comes last, and stands for its mean
        self.K = self.A @ KERNEL(self.places, self.places) @ self.A.T
        self.Q = np.linalg.inv(self.K + self.N)
        self.y = y
        first = np.linalg.solve((self.K + self.N)[:t, :t], y)
        self.alpha = np.append(first, np.zeros(len(seen) - t))

    def __call__(self, z: FloatArray, others: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
        """Return the mean at places z (m, 3), and their covariance with others (n, 3)."""
        to = z if others is None else others
        k, k_to = (self.A @ KERNEL(self.places, p) for p in (z, to))
        return self.alpha @ k, KERNEL(z, to) - k.T @ self.Q @ k_to


@pytest.fixture(params=[False, True], ids=["outcomes", "and pending"])
def both(request: pytest.FixtureRequest) -> tuple[PerturbedPosterior, Dense]:
    seen = observations() if request.param else observations()[:-1]
    gp = GP(Product(KERNEL, ConstantKernel()), NOISE, noise_correlation=CORRELATION)
    posterior = PerturbedPosterior(gp, SHIFT, GRID, ATOMS)
    posterior = posterior.with_more(seen[:7])
    posterior.on_grid()  # what is kept is dropped by what follows
    for one in seen[7:]:
        posterior = posterior.with_more([one])
    return posterior, Dense(seen)


def at(x: FloatArray) -> FloatArray:
    """Return the places of an action in every atom."""
    return np.array([place(x, c) for c in ATOMS])


def test_moments_averages_and_single_predictions(both: tuple[PerturbedPosterior, Dense]) -> None:
    posterior, dense = both
    w = np.array([0.1, 0.0, 0.4, 0.2, 0.0, 0.3])
    for name, (mean, variance) in (("moments", posterior.moments(GRID)), ("grid", posterior.on_grid())):
        for i, x in enumerate(GRID):
            expected, covariance = dense(at(x))
            np.testing.assert_allclose(mean[i], expected, atol=SOLVER, err_msg=name)
            np.testing.assert_allclose(variance[i], np.diag(covariance), atol=SOLVER, err_msg=name)
    means, variances = posterior.averages(GRID, w)
    np.testing.assert_allclose(means, posterior.moments(GRID)[0] @ w, atol=SOLVER)
    np.testing.assert_allclose(variances, posterior.moments(GRID)[1] @ w, atol=SOLVER)
    some = [part[:, [4, 0]] for part in posterior.moments(GRID)]
    np.testing.assert_allclose(posterior.moments_in(GRID, np.array([4, 0])), some, atol=SOLVER)
    one = posterior.of_action(Point(GRID[2], 2))
    np.testing.assert_allclose(one, [part[2] for part in posterior.moments(GRID)], atol=SOLVER)
    x, c = RNG.random((9, 3)), RNG.random((9, 2))
    expected, covariance = dense(np.array([place(a, b) for a, b in zip(x, c, strict=True)]))
    np.testing.assert_allclose(posterior.predict(x, c), [expected, np.diag(covariance)], atol=SOLVER)
    with pytest.raises(ValueError, match=r"contexts must have shape \(9, 2\), got \(9, 3\)"):
        posterior.predict(x, x)


def test_many_places_are_looked_at_in_parts(
    both: tuple[PerturbedPosterior, Dense], monkeypatch: pytest.MonkeyPatch
) -> None:
    posterior, _ = both
    whole = posterior.moments(GRID)
    monkeypatch.setattr("drbo.models.perturbed._AT_ONCE", 300)
    np.testing.assert_allclose(posterior.moments(GRID), whole, atol=SOLVER)


def test_the_difference_of_two_actions(both: tuple[PerturbedPosterior, Dense]) -> None:
    posterior, dense = both
    near = GRID[0] + 1e-4
    mean, variance = posterior.difference(np.array([GRID[1], near, GRID[0]]), GRID[0])
    for i, x in enumerate((GRID[1], near)):
        expected, covariance = dense(np.concatenate([at(x), at(GRID[0])]))
        D = np.concatenate([np.eye(6), -np.eye(6)], axis=1)
        np.testing.assert_allclose(mean[i], D @ expected, atol=SOLVER)
        np.testing.assert_allclose(variance[i], np.diag(D @ covariance @ D.T), atol=SOLVER)
    assert np.abs(mean[2]).max() == 0.0
    assert np.abs(variance[2]).max() == 0.0
    assert variance[1].max() < 1e-6


@pytest.mark.parametrize("slope", [2.0, -1.5, 0.0])
def test_the_gradient_is_that_of_finite_differences(both: tuple[PerturbedPosterior, Dense], slope: float) -> None:
    posterior, _ = both
    w, x = np.array([0.1, 0.0, 0.4, 0.2, 0.0, 0.3]), np.array([0.4, 0.6, 1.2])

    def bound(at: FloatArray) -> float:
        mean, variance = posterior.moments(at[None, :])
        return float((mean + slope * np.sqrt(variance))[0] @ w)

    steps = 1e-5 * np.eye(3)
    expected = [(bound(x + h) - bound(x - h)) / 2e-5 for h in steps]
    np.testing.assert_allclose(posterior.gradient(x, w, slope), expected, atol=FINITE_DIFFERENCES)


def test_a_curve_says_the_same_of_any_perturbation(both: tuple[PerturbedPosterior, Dense]) -> None:
    posterior, dense = both
    x, c, w = GRID[3], RNG.random((7, 2)), np.full(6, 1 / 6)
    curve = posterior.curve(x, -2.0)
    z = np.array([place(x, one) for one in c])
    expected, covariance = dense(z)
    variance = np.diag(covariance)
    np.testing.assert_allclose(curve(c), expected - 2.0 * np.sqrt(variance), atol=SOLVER)
    np.testing.assert_allclose(curve.variance(c), variance, atol=SOLVER)
    _, with_atoms = dense(z, at(x))
    np.testing.assert_allclose(
        curve.information(c, ATOMS, w), (with_atoms @ w) ** 2 / (variance + NOISE**2), atol=SOLVER
    )
    own = np.diag(dense(at(x))[1])
    after = own - with_atoms**2 / (variance + NOISE**2)[:, None]
    np.testing.assert_allclose(curve.variance_after(c, ATOMS), after, atol=SOLVER)
    _, between = dense(z[:3], z[3:6])
    mean, spread = curve.difference(c[:3], c[3:6])
    np.testing.assert_allclose(mean, expected[:3] - expected[3:6], atol=SOLVER)
    np.testing.assert_allclose(spread, variance[:3] + variance[3:6] - 2.0 * np.diag(between), atol=SOLVER)


def test_a_curve_is_bounded_in_cells_of_perturbations(both: tuple[PerturbedPosterior, Dense]) -> None:
    posterior, _ = both
    rng = np.random.default_rng(3)
    curve = posterior.curve(GRID[0], -2.0)
    centres, halves, tilt = rng.random((20, 2)), rng.uniform(0.0, 0.3, (20, 2)), rng.normal(size=(20, 2))
    lowest = curve.lowest(centres, halves, tilt)
    steps = rng.uniform(-1.0, 1.0, (400, 2))
    for i in range(20):
        there = curve(centres[i] + steps * halves[i]) - (steps * halves[i]) @ tilt[i]
        assert lowest[i] <= there.min() + SOLVER
    small = curve.lowest(centres, 1e-4 * halves, tilt)
    np.testing.assert_allclose(small, curve(centres), atol=1e-2)
    np.testing.assert_allclose(curve.steepness, np.sqrt(KERNEL.curvature[[2, 0]]) * [0.5, 0.8], rtol=SOLVER)


def test_leave_one_out_and_information_gain() -> None:
    seen = observations()[:-1]
    gp = GP(Product(KERNEL, ConstantKernel()), NOISE, noise_correlation=CORRELATION)
    posterior = PerturbedPosterior(gp, SHIFT, GRID[:0], ATOMS)
    posterior = posterior.with_more(seen)
    dense = Dense(seen)
    residual, variance = posterior.leave_one_out()
    for i in (0, 21, 23):
        others = np.delete(np.arange(len(seen)), i)
        A = (dense.K + dense.N)[np.ix_(others, others)]
        k = (dense.K + dense.N)[others, i]
        assert residual[i] == pytest.approx(dense.y[i] - k @ np.linalg.solve(A, dense.y[others]), abs=SOLVER)
        expected = (dense.K + dense.N)[i, i] - k @ np.linalg.solve(A, k)
        assert variance[i] == pytest.approx(expected, abs=SOLVER)
    gain = np.linalg.slogdet(dense.K + dense.N)[1] - np.linalg.slogdet(dense.N)[1]
    assert posterior.information_gain == pytest.approx(gain, rel=SOLVER)
    assert posterior.errors_known
    assert posterior.n_observations == len(seen)


def test_further_observations_and_other_atoms() -> None:
    gp = GP(Product(KERNEL, ConstantKernel()), NOISE)
    posterior = PerturbedPosterior(gp, SHIFT, GRID, ATOMS)
    nothing = posterior.on_grid()
    np.testing.assert_array_equal(nothing[0], 0.0)
    np.testing.assert_allclose(nothing[1], KERNEL.variance)
    np.testing.assert_array_equal(posterior.gradient(GRID[0], np.full(6, 1 / 6), 1.0), 0.0)
    posterior = posterior.with_more(observations()[:5])
    before = posterior.on_grid()[0].copy(), posterior.curve(GRID[1], 0.0)(ATOMS)
    still, posterior = posterior, posterior.with_more(observations()[5:9])
    np.testing.assert_array_equal(still.on(ATOMS + 0.1).on(ATOMS).on_grid()[0], before[0])
    np.testing.assert_array_equal(still.curve(GRID[1], 0.0)(ATOMS), before[1])
    moved = posterior.on(ATOMS[2:4])
    np.testing.assert_allclose(moved.on_grid()[0], posterior.on_grid()[0][:, 2:4], atol=SOLVER)


@pytest.mark.parametrize("kernel", [ConstantKernel(), Along(KERNEL, SHIFT.directions)], ids=["constant", "along"])
def test_the_kernels_are_kernels(kernel: Kernel) -> None:
    a, b = RNG.random((3, 2)), RNG.random((4, 2))
    assert kernel(a, a).diagonal() == pytest.approx(np.full(3, kernel.variance))
    gradient = kernel.gradient(a, b)
    for k, h in enumerate(1e-5 * np.eye(2)):
        quotient = (kernel(a + h, b) - kernel(a - h, b)) / 2e-5
        np.testing.assert_allclose(gradient[:, :, k], quotient, atol=FINITE_DIFFERENCES)
    h = 1e-4  # the variance of (f(a + h) - f(a)) / h
    steps = np.array([2.0 * (kernel.variance - kernel(a[:1], a[:1] + h * e)[0, 0]) / h**2 for e in np.eye(2)])
    np.testing.assert_allclose(np.broadcast_to(kernel.curvature, 2), steps, atol=1e-3 * max(kernel.curvature.max(), 1))
    assert (kernel.linear_error(np.full((1, 2), 0.1)) < math.sqrt(kernel.variance)).all()
