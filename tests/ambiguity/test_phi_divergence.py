"""Any phi-divergence: special cases, an independent dual, ends of the domain, kinks, and functions that are refused."""

import math
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize, special

import drbo
from ambiguity.contract import capped, half_distance, hellinger, hellinger_conjugate, kl, reverse_kl
from drbo import KL, ChiSquare, CVaR, PhiDivergence, TotalVariation
from drbo.ambiguity.placed import on_range
from tolerances import SOLVER

Array = NDArray[np.float64]


def chi_square(t: Array) -> Array:
    return np.asarray((t - 1.0) ** 2)


def with_slope(t: Array) -> Array:
    """KL without the terms that sum to zero: phi'(1) = 1."""
    return np.asarray(special.xlogy(t, t))


def kl_conjugate(y: Array) -> Array:
    return np.asarray(np.expm1(y))


def bent(t: Array) -> Array:
    """A kink that is at no node of any table, a flat piece, and an upper end."""
    return np.asarray(np.where(t <= 2.9, np.maximum(np.abs(t - 1.0) - 0.3217, 0.0), np.inf))


def between(t: Array) -> Array:
    """Both ends of the domain are inside: 0.4 <= t <= 2.5."""
    return np.asarray(np.where((t >= 0.4) & (t <= 2.5), (t - 1.0) ** 2, np.inf))


def cases(n: int = 18) -> list[tuple[Array, Array]]:
    rng = np.random.default_rng(7)
    found = []
    for k in range(n):
        p = rng.dirichlet(np.full(2 + k % 9, 0.6))
        if k % 3 == 0:
            p[0] = 0.0
        found.append((rng.normal(size=(2, len(p))) * 10.0 ** (k % 5 - 2), p / p.sum()))
    return found


@pytest.mark.parametrize(
    ("own", "special_case"),
    [
        (PhiDivergence(kl), KL()),
        (PhiDivergence(with_slope), KL()),
        (PhiDivergence(kl, kl_conjugate), KL()),
        (PhiDivergence(chi_square), ChiSquare()),
        (PhiDivergence(half_distance, slope_at_infinity=0.5), TotalVariation()),
    ],
    ids=repr,
)
def test_special_cases(own: PhiDivergence, special_case: drbo.AmbiguitySet) -> None:
    for values, p in cases():
        for radius in (1e-9, 1e-3, 0.1, 0.6, 3.0, math.inf):
            found, expected = (s.worst_case(values, p, radius) for s in (own, special_case))
            np.testing.assert_array_less(
                np.abs(found.expectation - expected.expectation), SOLVER * np.ptp(values, axis=1)
            )
        q = np.roll(p, 1)
        assert own.distance(q, p) == pytest.approx(special_case.distance(q, p), rel=1e-9, abs=1e-12)


def test_cvar_is_made_per_radius() -> None:
    for values, p in cases():
        found = PhiDivergence(capped).worst_case(values, p, 0.1).expectation
        expected = CVaR().worst_case(values, p, 0.7).expectation
        np.testing.assert_array_less(np.abs(found - expected), SOLVER * np.ptp(values, axis=1))


@pytest.mark.parametrize("conjugate", [None, hellinger_conjugate])
def test_hellinger_against_its_own_dual(conjugate: object) -> None:
    """The dual has the closed conjugate y / (1 - y); here scipy maximises it over both prices."""
    own = PhiDivergence(hellinger, conjugate, slope_at_infinity=1.0)  # type: ignore[arg-type]
    for values, p in cases(12):
        v = (values[0] - values[0].min()) / np.ptp(values[0])

        def negative(log_rate: float, v: Array = v, p: Array = p, radius: float = 0.2) -> float:
            rate = math.exp(log_rate)
            limit = rate * (1.0 - 1e-12)  # the lowest value is 0, and y < 1

            def rest(top: float) -> float:
                return 1.0 - float(p @ (1.0 - (top - v) / rate) ** -2.0)

            low = -1.0 - 10.0 * rate
            top = limit if rest(limit) > 0.0 else float(optimize.brentq(rest, low, limit, xtol=1e-15))
            y = (top - v) / rate
            return -(top - rate * radius - rate * float(p @ (y / (1.0 - y))))

        grid = np.linspace(-36.0, 4.0, 161)
        start = grid[int(np.argmin([negative(x) for x in grid]))]
        bounds, options = (start - 0.5, start + 0.5), {"xatol": 1e-9}
        best = optimize.minimize_scalar(negative, bounds=bounds, method="bounded", options=options).fun  # type: ignore[call-overload]
        assert float(own.worst_case(v, p, 0.2).expectation) == pytest.approx(-best, abs=SOLVER)


@pytest.mark.parametrize("phi", [bent, between, reverse_kl, chi_square])
def test_against_clarabel(phi: object) -> None:
    """Piecewise linear and quadratic programs, with the ends of the domain as constraints."""
    cp = pytest.importorskip("cvxpy")
    slope = 1.0 if phi is reverse_kl else math.inf
    own = PhiDivergence(phi, slope_at_infinity=slope)  # type: ignore[arg-type]
    for values, p in cases(8):
        support = p > 0.0
        q = cp.Variable(len(p), nonneg=True)
        for radius in (0.01, 0.2, 1.0):
            t = cp.multiply(q[support], 1.0 / p[support])
            within = [cp.sum(q) == 1]
            if phi is bent:
                terms, within = cp.pos(cp.abs(t - 1.0) - 0.3217), [*within, t <= 2.9]
            elif phi is reverse_kl:
                terms = t - 1.0 - cp.log(t)
            else:
                terms = cp.square(t - 1.0)
                within += [t <= 2.5, t >= 0.4] if phi is between else []
            cost = p[support] @ terms
            within += [cost + cp.sum(q[~support]) <= radius] if slope < math.inf else [cost <= radius]
            within += [] if slope < math.inf or support.all() else [q[~support] == 0]
            problem = cp.Problem(cp.Minimize(values[0] @ q), within)
            problem.solve(solver=cp.CLARABEL)
            found = own.worst_case(values[0], p, radius)
            assert float(found.expectation) == pytest.approx(problem.value, abs=2e-6 * np.ptp(values[0]))
            assert own.distance(found.weights, p) <= radius + 1e-9


def test_chords_bound_the_conjugate_from_above() -> None:
    """A conjugate that is maximised numerically would be too small: this one never is, and is hardly too large."""
    own, closed = PhiDivergence(hellinger, slope_at_infinity=1.0), hellinger_conjugate
    y = np.concatenate([np.linspace(-40.0, 0.9, 301), [-1e-6, 1e-6, 0.99]])[None]
    for miss in (1.0, 1.001, 0.98):  # also from a ratio that is not the maximiser
        t = miss / (1.0 - y) ** 2
        phi = hellinger(t)
        excess = own._missed(y, t, phi, np.full(y.shape, 1e-9)) + y * t - phi - closed(y)
        assert excess.min() >= -1e-13
        if miss == 1.0:
            assert excess.max() <= 1e-10


def test_mass_off_the_support_costs_the_slope() -> None:
    own = PhiDivergence(hellinger, slope_at_infinity=1.0)
    assert own.distance([0.0, 1.0], [1.0, 0.0]) == pytest.approx(2.0)  # phi(0) + 1
    assert PhiDivergence(hellinger).distance([0.0, 1.0], [1.0, 0.0]) == math.inf
    assert own.worst_case([1.0, 0.0], [1.0, 0.0], 0.5).weights[1] > 0.0
    assert PhiDivergence(reverse_kl, slope_at_infinity=1.0).distance([0.0, 1.0], [0.5, 0.5]) == math.inf  # phi(0)
    assert PhiDivergence(reverse_kl).diameter([0.5, 0.5]) == math.inf


def test_further_contexts_are_priced_by_the_dual() -> None:
    own = PhiDivergence(hellinger, slope_at_infinity=1.0)
    values, p, radius = np.array([0.3, 1.0, 0.8]), np.array([0.2, 0.5, 0.3]), 0.3
    worst = own.worst_case(values, p, radius)
    dual = on_range(own).dual(values, p, radius, worst)
    assert dual is not None
    level = float(dual.threshold(np.zeros((1, 1)), np.zeros((1, 1)))[0][0])
    for further in (level + 0.01, level - 0.05, level - 1.0):
        with_it = float(own.worst_case(np.append(values, further), np.append(p, 0.0), radius).expectation)
        assert with_it >= dual.bound + dual.share * min(0.0, further - level) - 1e-9
        assert (with_it < float(worst.expectation) - 1e-7) == (further < level)
    assert PhiDivergence(kl).dual(values, p, radius, worst) is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"phi": 3.0}, "phi must be a function"),
        ({"phi": lambda t: t * 0.0 + 1.0}, "phi must be 0 at t = 1, got 1.0"),
        ({"phi": lambda t: -np.abs(t - 1.0)}, "phi must be convex, but its slope falls"),
        ({"phi": lambda t: np.sin(3.0 * (t - 1.0)) ** 2}, "phi must be convex"),
        ({"phi": lambda t: t * np.log(t)}, r"got nan at 0; for t log t at 0 there is scipy.special.xlogy"),
        ({"phi": lambda t: float(np.sum(t))}, "phi must return one number per entry"),
        ({"phi": hellinger, "slope_at_infinity": 0.5}, "slope_at_infinity must be at least the slope of phi, 1"),
        ({"phi": kl, "slope_at_infinity": "steep"}, "slope_at_infinity must be a number or inf"),
        ({"phi": kl, "conjugate": lambda y: np.expm1(y) - 0.01}, r"conjugate must be at least y t - phi\(t\)"),
        ({"phi": kl, "conjugate": 1.0}, "conjugate must be a function"),
    ],
)
def test_functions_that_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        PhiDivergence(**arguments)  # type: ignore[arg-type]


def test_it_is_saved_by_the_name_of_its_function(tmp_path: Path) -> None:
    points = np.linspace(0.0, 1.0, 5)
    own = PhiDivergence(hellinger, hellinger_conjugate, slope_at_infinity=1.0)
    setting = drbo.Simulator(np.full(5, 0.2), 0.1)
    opt = drbo.Optimizer(points, points, ambiguity=own, setting=setting)
    for y in (0.3, -0.2, 0.5):
        opt.tell(opt.ask(), y)
    opt.save(tmp_path / "run.json")
    again = drbo.Optimizer.load(tmp_path / "run.json", classes=[hellinger, hellinger_conjugate])
    assert again.configuration.ambiguity == own
    assert again.recommend().value == opt.recommend().value
    with pytest.raises(ValueError, match=r"needs the function ambiguity\.contract\.hellinger"):
        drbo.Optimizer.load(tmp_path / "run.json")
