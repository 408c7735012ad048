"""The rules for the radius: their formulas, their coverage by simulation, and the backtest."""

import math

import numpy as np
import pytest

from drbo import (
    KL,
    MMD,
    RBF,
    AmbiguitySet,
    ChiSquare,
    CVaR,
    Expectation,
    Neighbourhood,
    TotalVariation,
    Wasserstein,
)
from drbo.radius import Bootstrap, Calibrated, Constant, Decaying, RadiusRule, Theoretical, backtest, empirical
from drbo.rounds.grid import robust_scores
from tolerances import CLOSED_FORM, STANDARD_ERRORS

N = 8
CONTEXTS = np.linspace(0, 1, N)
METRICS: list[AmbiguitySet] = [MMD(CONTEXTS, RBF(0.2)), TotalVariation(), Wasserstein(CONTEXTS)]
ON_SUPPORT: list[AmbiguitySet] = [KL(), ChiSquare(), CVaR()]
SETS: list[AmbiguitySet] = [*METRICS, *ON_SUPPORT, Expectation(), Neighbourhood(CONTEXTS)]
RULES: list[RadiusRule] = [Constant(0.2), Theoretical(), Bootstrap(resamples=50), Calibrated(window=5), Decaying(1.0)]
NONE = np.empty(0, dtype=np.intp)


@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.parametrize("ambiguity", SETS, ids=repr)
def test_every_rule_works_for_every_set(rule: RadiusRule, ambiguity: AmbiguitySet) -> None:
    seen = np.random.default_rng(0).integers(0, N, 40)
    radius = rule.radius(seen, ambiguity, N)
    assert radius >= 0.0
    assert rule.radius(seen, ambiguity, N) == radius  # the same history, the same radius
    if not isinstance(rule, Constant):
        assert rule.radius(NONE, ambiguity, N) == math.inf


def test_decaying() -> None:
    assert Decaying(3.0, power=2.0).radius(np.zeros(5, dtype=np.intp), SETS[0], N) == pytest.approx(3.0 / 25)


def covered(rule: RadiusRule, ambiguity: AmbiguitySet, draws: int, samples: int) -> float:
    """The share of draws in which the true distribution lies within the radius of the empirical one."""
    rng = np.random.default_rng(0)
    truth = rng.dirichlet(np.full(N, 3.0))
    inside = 0
    for _ in range(draws):
        seen = rng.choice(N, size=samples, p=truth)
        radius = rule.radius(seen, ambiguity, N)
        inside += ambiguity.distance(truth, empirical(seen, N)) <= radius
    return inside / draws


@pytest.mark.parametrize("delta", [0.1, 0.3])
@pytest.mark.parametrize("ambiguity", [*METRICS, *ON_SUPPORT], ids=repr)
def test_bootstrap_covers_the_truth(delta: float, ambiguity: AmbiguitySet) -> None:
    share = covered(Bootstrap(delta, resamples=100), ambiguity, draws=200, samples=60)
    assert share >= 1 - delta - STANDARD_ERRORS * math.sqrt(delta * (1 - delta) / 200)


@pytest.mark.parametrize("ambiguity", METRICS, ids=repr)
def test_bootstrap_is_not_larger_than_it_need_be(ambiguity: AmbiguitySet) -> None:
    assert covered(Bootstrap(0.5, resamples=100), ambiguity, draws=200, samples=60) < 0.8


def test_bootstrap_knows_that_a_support_may_be_incomplete() -> None:
    few, many = np.zeros(5, dtype=np.intp), np.tile(np.arange(N), 50)
    for ambiguity in ON_SUPPORT:
        assert Bootstrap(0.1, resamples=50).radius(few, ambiguity, N) == math.inf
        assert math.isfinite(Bootstrap(0.1, resamples=50).radius(many, ambiguity, N))


def test_the_coverage_check_can_fail() -> None:
    assert covered(Constant(0.01), SETS[0], draws=50, samples=60) < 0.5


def test_calibrated_holds_what_follows() -> None:
    """Windows of a drifting series: the radius learned on the past holds the promised share of what comes."""
    rng = np.random.default_rng(0)
    level = np.cumsum(rng.normal(size=4000)) * 0.3
    seen = np.clip(np.round(3.5 + 3 * np.sin(level / 5) + 0.5 * rng.normal(size=4000)), 0, N - 1).astype(np.intp)
    rule = Calibrated(quantile=0.9, window=40)
    radius = rule.radius(seen[:2000], SETS[0], N)
    inside = [
        SETS[0].distance(empirical(seen[i + 40 : i + 80], N), empirical(seen[i : i + 40], N)) <= radius
        for i in range(2000, 3900)
    ]
    assert np.mean(inside) >= 0.8
    assert Calibrated(quantile=0.5, window=40).radius(seen[:2000], SETS[0], N) < radius


def test_calibrated_is_the_quantile_of_the_definition() -> None:
    seen = np.array([0, 0, 1, 1, 2, 2])
    mmd = SETS[0]
    pairs = [(seen[i + 2 : i + 4], seen[i : i + 2]) for i in range(3)]
    distances = [mmd.distance(empirical(after, N), empirical(before, N)) for after, before in pairs]
    assert Calibrated(quantile=0.99, window=2).radius(seen, mmd, N) == pytest.approx(max(distances), abs=CLOSED_FORM)
    assert Calibrated(window=4).radius(seen, mmd, N) == math.inf


def test_backtest_is_its_definition() -> None:
    rng = np.random.default_rng(0)
    values, seen = rng.normal(size=(6, N)), rng.integers(0, N, 30)
    radii = [0.0, 0.1, 0.5, math.inf]
    result = backtest(values, SETS[0], seen, radii, window=10)
    assert result.rewards.shape == (4, 20)
    for k, radius in enumerate(radii):
        for step in range(20):
            t = step + 10
            scores = robust_scores(values, SETS[0], empirical(seen[t - 10 : t], N), radius)
            assert scores[result.actions[k, step]] == pytest.approx(scores.max(), abs=1e-9)
            assert result.rewards[k, step] == values[result.actions[k, step], seen[t]]
    np.testing.assert_allclose(result.revenue, result.rewards.sum(axis=1))
    assert result.best_radius == radii[int(np.argmax(result.revenue))]


def test_backtest_with_rewards_of_its_own() -> None:
    rng = np.random.default_rng(0)
    values, seen, rewards = rng.normal(size=(6, N)), rng.integers(0, N, 30), rng.normal(size=(30, 6))
    result = backtest(values, SETS[0], seen, [0.1], 10, rewards)
    assert result.rewards[0, 3] == rewards[13, result.actions[0, 3]]


def test_bad_input() -> None:
    values, seen = np.zeros((2, N)), [0, 1, 2]
    for arguments, message in (
        ((values, SETS[0], seen, [-0.1], 1), "radii must be zero or more"),
        ((values, SETS[0], seen, [0.1], 3), "window must be from 1 to 2"),
        ((values, SETS[0], [0.5, 1.0], [0.1], 1), "seen must be a flat sequence of context indices"),
        ((values, SETS[0], [0, N], [0.1], 1), "seen must hold indices from 0 to 7"),
        ((values, SETS[0], seen, [0.1], 1, np.zeros((3, 3))), r"rewards must have shape \(3, 2\)"),
    ):
        with pytest.raises(ValueError, match=message):
            backtest(*arguments)
    for make, message in (
        (lambda: Bootstrap(delta=1.5), "delta must lie strictly between"),
        (lambda: Bootstrap(resamples=0), "resamples must be at least 1"),
        (lambda: Calibrated(quantile=0.0), "quantile must lie strictly between"),
        (lambda: Calibrated(window=0), "window must be at least 1"),
        (lambda: Decaying(-1.0), "scale must be positive"),
        (lambda: Theoretical(factor=0.0), "factor must be positive"),
        (lambda: Constant(-1.0), "radius must be zero or more"),
    ):
        with pytest.raises(ValueError, match=message):
            make()


@pytest.mark.parametrize("n_contexts", [5, 2000])
def test_backtest_of_a_set_of_another_size(n_contexts: int) -> None:
    """Compiled code checks no bounds: such a call once ended the interpreter, or answered with what lay in memory."""
    ambiguity = MMD(np.linspace(0, 1, n_contexts))
    with pytest.raises(ValueError, match=f"each of the {n_contexts} contexts of the set"):
        backtest(np.eye(4), ambiguity, [0, 1, 2], [0.1], 1)
