"""Regret against its definition, the bounds against their printed formulas, and the theorems against simulation."""

import math
from typing import Any

import numpy as np
import pytest

import robos
from drbo import (
    GP,
    KL,
    MMD,
    RBF,
    AmbiguitySet,
    ChiSquare,
    CVaR,
    DataDriven,
    Expectation,
    General,
    Matern,
    Optimizer,
    Product,
    Setting,
    Simulator,
    TheoreticalBeta,
    TotalVariation,
    Wasserstein,
    regret,
)
from drbo.models import ExactPosterior, maximum_information_gain
from exact import exact
from tolerances import CLOSED_FORM

SET = MMD(robos.C, robos.MMD_KERNEL)


def test_robust_regret_is_its_definition() -> None:
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 8, 6)
    references = rng.dirichlet(np.ones(50), 6)
    radii = rng.random(6)
    result = regret.robust_regret(robos.F, SET, references, radii, actions)
    for t in range(6):
        scores = [SET.worst_case(row, references[t], radii[t]).expectation for row in robos.F]
        assert result.instantaneous[t] == pytest.approx(max(scores) - scores[actions[t]], abs=CLOSED_FORM)
    np.testing.assert_allclose(result.cumulative, np.cumsum(result.instantaneous), atol=CLOSED_FORM)


def test_robos_gaps() -> None:
    """From the published table at radius MMD: 0.43699 for the robust x, 0.22894 for the stochastic one."""
    for index, expected in ((1, 0.0), (6, 0.43699 - 0.22894), (3, 0.43699 - 0.33073)):
        r = regret.simple_regret(robos.F, SET, robos.REFERENCE, robos.RADIUS, index)
        assert r == pytest.approx(expected, abs=2e-5)


def test_shift_norm() -> None:
    rng = np.random.default_rng(0)
    contexts = rng.random((12, 1))
    M = Matern(0.3, nu=1.5)(contexts, contexts)
    values = rng.normal(size=(5, 12))
    literal = max(math.sqrt(v @ np.linalg.solve(M, v)) for v in values)
    assert regret.shift_norm(values, MMD(gram=M)) == pytest.approx(literal, rel=1e-8)
    repeated = MMD([0.0, 0.0, 1.0], RBF(0.1))
    assert regret.shift_norm([[1.0, 2.0, 3.0]], repeated) == math.inf  # no function has two values at one context
    assert regret.shift_norm([[1.0, 1.0, 1.0]], repeated) == pytest.approx(
        math.sqrt(
            np.ones(2) @ np.linalg.solve(RBF(0.1)(np.array([[0.0], [1.0]]), np.array([[0.0], [1.0]])), np.ones(2))
        )
    )


def test_the_crude_bound_is_its_formula_and_never_below_the_norm() -> None:
    """B' <= B sqrt(lambda_max(M^-1) n): the literal formula, and functions of norm B do not exceed it."""
    rng = np.random.default_rng(0)
    contexts = np.linspace(0.0, 1.0, 9)[:, None]
    k = Matern(0.3, nu=1.5)
    for kernel in (Matern(0.2, nu=1.5), Matern(0.3, nu=2.5), RBF(0.15)):
        M = kernel(contexts, contexts)
        ball = MMD(gram=M)
        crude = regret.crude_shift_norm(2.0, ball)
        assert crude == pytest.approx(2.0 * math.sqrt(np.linalg.eigvalsh(np.linalg.inv(M))[-1] * 9), rel=1e-6)
        a = rng.normal(size=(20, 9))
        K = k(contexts, contexts)
        f = a @ K * (2.0 / np.sqrt(np.einsum("ij,jk,ik->i", a, K, a)))[:, None]  # of norm 2
        assert regret.shift_norm(f, ball) <= crude
    assert regret.crude_shift_norm(2.0, MMD([0.0, 0.0, 1.0], RBF(0.1))) == math.inf  # a context twice
    assert regret.crude_shift_norm(2.0, MMD.of_features(np.ones((3, 1)))) == math.inf


def gain_of_a_uniform_design(kernel: Any, dimension: int, horizons: np.ndarray) -> np.ndarray:
    """Return sum_m log(1 + T lambda_m), lambda the eigenvalues of the kernel on [0, 1]^d: T points spread evenly."""
    n = 400
    points = (np.arange(n)[:, None] + 0.5) / n
    one = np.maximum(np.linalg.eigvalsh(kernel(points, points) / n), 0.0)
    spectrum = one if dimension == 1 else np.outer(one, one).ravel()
    return np.array([np.log1p(T * spectrum).sum() for T in horizons])


def test_the_information_gain_grows_as_its_rates_say() -> None:
    """The gain over the rate does not grow with T, while it would with the next smaller power."""
    T = 10.0 ** np.arange(2, 9)
    for dimension in (1, 2):
        gain = gain_of_a_uniform_design(RBF(0.2), dimension, T)
        rate = np.array([regret.rbf_information_rate(t, dimension) for t in T])
        assert (np.diff(gain / rate) < 0.0).all()
        assert (np.diff(gain / np.log(T) ** dimension) > 0.0).all()  # one power of the logarithm less is too little
    for nu in (1.5, 2.5):
        gain = gain_of_a_uniform_design(Matern(0.2, nu=nu), 1, T[1:6])
        rate = np.array([regret.matern_information_rate(t, 1, nu) for t in T[1:6]])
        assert (np.diff(gain / rate) < 0.0).all()
        slope = math.log(gain[-1] / gain[-2]) / math.log(10.0)
        assert slope == pytest.approx(1.0 / (2.0 * nu + 1.0), abs=0.05)
    for d, nu, T0 in ((2, 2.5, 50.0), (3, 0.5, 1000.0)):
        expected = T0 ** (d / (2 * nu + d)) * math.log(T0) ** (2 * nu / (2 * nu + d))
        assert regret.matern_information_rate(T0, d, nu) == pytest.approx(expected)


def test_bounds_are_the_printed_formulas() -> None:
    beta, gamma, T, B, delta = 3.0, 5.0, 40, 2.0, 0.1
    radii = np.linspace(0.1, 0.5, T)
    assert regret.general_bound(beta, gamma, radii, B, delta) == pytest.approx(
        4 * beta * math.sqrt(T * (gamma + 2 * math.log(12 / delta))) + 2 * B * radii.sum()
    )
    assert regret.printed_general_bound(beta, gamma, radii, B, delta) == pytest.approx(
        4 * beta * math.sqrt(T * (gamma + 4 * math.log(12 / delta))) + 2 * B * radii.sum()
    )
    second = 4 * B * math.sqrt(T) * (2 + math.sqrt(2 * math.log(6 * T**2 / delta)))
    assert regret.data_driven_bound(beta, gamma, T, B, delta) == pytest.approx(
        4 * beta * math.sqrt(T * (gamma + 2 * math.log(18 / delta))) + second
    )
    assert regret.printed_data_driven_bound(beta, gamma, T, B, delta) == pytest.approx(
        2 * beta * math.sqrt(T) * math.sqrt(gamma * (1 + math.log(3 / delta))) + second
    )
    assert regret.simulator_bound(beta, gamma, T) == pytest.approx(2 * beta * math.sqrt(2 * gamma * T))
    assert regret.simple_regret_bound(beta, gamma, T) == pytest.approx(2 * beta * math.sqrt(2 * gamma / T))


def test_the_sum_of_variances_is_bounded_by_the_information_gain_for_any_ridge() -> None:
    for noise in (0.1, 1.0, 3.0):
        gp = GP(Product(RBF(0.2), RBF(0.3)), noise)
        rng = np.random.default_rng(0)
        x, c = rng.random((50, 1)), rng.random((50, 1))
        posterior = ExactPosterior.prior(gp, x, c)
        total = 0.0
        for t in range(50):
            total += posterior.variance[t, t]
            posterior = posterior.with_outcome(x[t], c[t], 0.0)
        assert total <= 2 * max(1.0, gp.ridge) * posterior.information_gain


def test_bad_input() -> None:
    for arguments, message in (
        ((robos.F, SET, robos.REFERENCE, 0.1, [8]), "action_indices must be from 0 to 7"),
        ((robos.F, SET, robos.REFERENCE, 0.1, [0.5]), "action_indices must be a flat sequence of integers"),
        ((robos.F, SET, robos.REFERENCE[:-1], 0.1, [0]), r"references must have shape \(50,\) or \(1, 50\)"),
        ((robos.F, SET, robos.REFERENCE, [0.1, 0.2], [0]), r"radii must be a number or have shape \(1,\)"),
        ((robos.F[0], SET, robos.REFERENCE, 0.1, [0]), "values must have 2 dimension"),
    ):
        with pytest.raises(ValueError, match=message):
            regret.robust_regret(*arguments)
    for call, message in (
        (lambda: regret.simulator_bound(1.0, 1.0, 0), "horizon must be at least 1"),
        (lambda: regret.simulator_bound(1.0, -1.0, 5), "gamma must be zero or more"),
        (lambda: regret.rbf_information_rate(0, 1), "horizon must be at least 1"),
        (lambda: regret.matern_information_rate(5, 0, 1.5), "dimension must be at least 1"),
        (lambda: regret.matern_information_rate(5, 1, 0.0), "nu must be"),
        (lambda: regret.crude_shift_norm(-1.0, SET), "bound must be"),
        (lambda: regret.printed_general_bound(1.0, 1.0, [-0.1], 1.0, 0.1), "radii must be zero or more"),
        (lambda: regret.general_bound(1.0, 1.0, [0.1], 1.0, 20.0), "delta must lie strictly between 0 and 1"),
        (lambda: regret.general_bound(1.0, 1.0, [-0.1], 1.0, 0.1), "radii must be zero or more"),
        (lambda: regret.printed_data_driven_bound(1.0, 1.0, 5, 1.0, 0.0), "delta must lie strictly between 0 and 1"),
    ):
        with pytest.raises(ValueError, match=message):
            call()  # type: ignore[no-untyped-call]
    with pytest.raises(TypeError, match="ambiguity must be an MMD"):
        regret.shift_norm(robos.F, Expectation())  # type: ignore[arg-type]
    assert math.isfinite(regret.general_bound(1.0, 1.0, [0.0], math.inf, 0.1))
    with pytest.raises(ValueError, match="values must have 50 columns"):
        regret.shift_norm(robos.F[:, :-1], SET)


# --- the theorems, on functions drawn from the Hilbert space with a known norm ----------------------------------------

N_ACTIONS, N_CONTEXTS, HORIZON, SIGMA, DELTA = 12, 10, 40, 0.3, 0.2
ACTIONS = np.linspace(0, 1, N_ACTIONS)[:, None]
CONTEXTS = np.linspace(0, 1, N_CONTEXTS)[:, None]
KERNEL = Product(RBF(0.2), Matern(0.3, nu=1.5))
BALL = MMD(CONTEXTS, KERNEL.context)
REFERENCE = np.exp(-0.5 * ((CONTEXTS[:, 0] - 0.5) / 0.15) ** 2)
REFERENCE /= REFERENCE.sum()
RADIUS = 0.3


def draw(rng: np.random.Generator, norm: float) -> np.ndarray:
    """A function sum_s a_s k(z_s, .) of the given norm in the kernel's Hilbert space, on the grid."""
    i, j = rng.integers(0, N_ACTIONS, 15), rng.integers(0, N_CONTEXTS, 15)
    kx, kc = KERNEL.action(ACTIONS, ACTIONS), KERNEL.context(CONTEXTS, CONTEXTS)
    a = rng.normal(size=15)
    squared = a @ (kx[np.ix_(i, i)] * kc[np.ix_(j, j)]) @ a
    return np.asarray(np.einsum("s,sx,sc->xc", a, kx[i], kc[j]) * norm / math.sqrt(squared))


def one_run(setting: Setting, ridge: float, seed: int, width: float = 1.0) -> dict[str, Any]:
    """Run with the theoretical beta (times `width`), and note whether the confidence bound held at all times."""
    rng = np.random.default_rng(seed)
    norm = 1.0
    f = draw(rng, norm)
    beta = TheoreticalBeta(bound=norm, noise=SIGMA, delta=DELTA)
    gp = GP(KERNEL, math.sqrt(ridge))
    opt = Optimizer(ACTIONS, CONTEXTS, ambiguity=BALL, setting=setting, surrogate=gp, beta=beta)
    # Nature is as bad as the setting allows: a distribution on the boundary of the ball.
    truth = BALL.worst_case(f.mean(axis=0), REFERENCE, RADIUS).weights
    chosen, references, radii, held, last = [], [], [], True, 0.0
    for _ in range(HORIZON):
        last = beta.width(exact(opt.posterior).information_gain, ridge, setting.events)
        known = opt.posterior
        assert isinstance(known, ExactPosterior)
        held = held and bool((np.abs(known.mean - f) <= width * last * known.std + 1e-12).all())
        s = opt.ask(reference=REFERENCE, radius=RADIUS) if isinstance(setting, General) else opt.ask()
        j = s.context_index
        if j is None:
            j = int(rng.choice(N_CONTEXTS, p=truth))
            opt.tell(s, f[s.action_index, j] + SIGMA * rng.normal(), context_index=j)
        else:
            opt.tell(s, f[s.action_index, j] + SIGMA * rng.normal())
        chosen.append(s.action_index)
        references.append(s.reference)
        radii.append(min(s.radius, math.sqrt(2.0)))  # no MMD is larger
    result = regret.robust_regret(f, BALL, references, radii, chosen)
    r = opt.recommend_iterate()
    simple = regret.simple_regret(f, BALL, r.reference, r.radius, r.action_index)
    true_value = BALL.worst_case(f[r.action_index], r.reference, r.radius).expectation
    return {
        "f": f, "held": held, "beta": last, "regret": result.cumulative[-1], "radii": radii, "simple": simple,
        "certified": r.value <= true_value + 1e-9,
    }  # fmt: skip


@pytest.mark.parametrize("ridge", [1.0, pytest.param(SIGMA**2, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "setting",
    [General(), DataDriven(delta=DELTA), Simulator(REFERENCE, RADIUS, pick="uncertain")],
    ids=lambda s: type(s).__name__,
)
def test_confidence_and_regret_bounds_hold(setting: Setting, ridge: float) -> None:
    """Lemma 1 and the theorem of the setting: each must hold in a 1 - delta share of the runs."""
    runs = [one_run(setting, ridge, seed) for seed in range(60)]
    gamma = maximum_information_gain(GP(KERNEL, math.sqrt(ridge)), ACTIONS, CONTEXTS, HORIZON).upper[-1]
    assert np.mean([r["held"] for r in runs]) >= 1 - DELTA
    assert np.mean([r["certified"] for r in runs]) >= 1 - DELTA
    below = []
    for r in runs:
        norm = regret.shift_norm(r["f"], BALL)
        if isinstance(setting, General):
            bound = regret.general_bound(r["beta"], gamma, r["radii"], norm, DELTA, ridge)
        elif isinstance(setting, DataDriven):
            bound = regret.data_driven_bound(r["beta"], gamma, HORIZON, norm, DELTA, ridge)
        else:
            bound = regret.simulator_bound(r["beta"], gamma, HORIZON, ridge)
            assert not r["held"] or r["simple"] <= regret.simple_regret_bound(r["beta"], gamma, HORIZON, ridge)
        below.append(r["regret"] <= bound)
    assert np.mean(below) >= 1 - DELTA


def test_the_coverage_test_can_fail() -> None:
    """A width far too small must be caught by the same check."""
    runs = [one_run(Simulator(REFERENCE, RADIUS, pick="uncertain"), SIGMA**2, seed, width=0.1) for seed in range(20)]
    assert np.mean([r["held"] for r in runs]) < 1 - DELTA


def test_drbo_has_less_robust_regret_than_the_stochastic_baseline() -> None:
    totals = []
    for ambiguity in (SET, Expectation()):
        opt = Optimizer(
            robos.X,
            robos.C,
            ambiguity=ambiguity,
            setting=Simulator(robos.REFERENCE, robos.RADIUS, pick="uncertain"),
            surrogate=GP(robos.GP_KERNEL, 0.05),
        )
        rng = np.random.default_rng(0)
        chosen = []
        for _ in range(100):
            s = opt.ask()
            opt.tell(s, float(robos.F[s.action_index, s.context_index]) + 0.05 * rng.normal())
            chosen.append(s.action_index)
        totals.append(regret.robust_regret(robos.F, SET, robos.REFERENCE, robos.RADIUS, chosen).cumulative)
    assert totals[0][-1] == totals[0][60]  # it has converged
    assert totals[1][-1] > 2 * totals[0][-1]  # and the other one never does


def test_regret_works_for_every_set() -> None:
    sets: list[AmbiguitySet] = [Expectation(), SET, TotalVariation(), KL(), ChiSquare(), CVaR(), Wasserstein(robos.C)]
    for ambiguity in sets:
        assert regret.robust_regret(robos.F, ambiguity, robos.REFERENCE, 0.0, [6]).instantaneous[0] == 0.0
        scores = ambiguity.worst_case(robos.F, robos.REFERENCE, 0.3).expectation
        result = regret.robust_regret(robos.F, ambiguity, robos.REFERENCE, 0.3, range(8))
        np.testing.assert_allclose(result.instantaneous, scores.max() - scores, atol=CLOSED_FORM)
