"""The rules for the radius: their formulas, and their coverage by simulation."""

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
from drbo.radius import Bootstrap, Calibrated, Constant, Decaying, RadiusRule, Theoretical, empirical
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


def test_bad_input() -> None:
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
