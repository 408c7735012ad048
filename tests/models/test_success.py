"""The probability of success against numerical integration of its formula, and its limits."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import betaln, expit, logit
from scipy.stats import norm

from drbo.kernels import Matern
from drbo.models.success import (
    ACCIDENTS,
    AMPLITUDE,
    MOST_FAILURES,
    MOST_SUCCESSES,
    REGION,
    UNTRIED,
    Hypothesis,
    Success,
    Trials,
)
from drbo.validation import FloatArray

MEAN = norm.ppf(UNTRIED) * math.sqrt(1.0 + AMPLITUDE**2)
PRIOR = {a: (1.0 - a) ** 3 / sum((1.0 - b) ** 3 for b in ACCIDENTS) for a in ACCIDENTS}


def likelihood(h: float, a: float, successes: float, failures: float) -> float:
    works = (1.0 - a) * norm.cdf(MEAN + h)
    return float(works**successes * (1.0 - works) ** failures)


@pytest.mark.parametrize("a", [ACCIDENTS[0], ACCIDENTS[3]])
@pytest.mark.parametrize(("successes", "failures"), [(1, 0), (0, 1), (2, 1), (0, 4), (5, 5)])
def test_one_point_has_the_moments_of_the_exact_posterior(a: float, successes: int, failures: int) -> None:
    """With one site the evidence is exact, and so is the mean; the variance unless its site would widen the prior."""
    trials = Trials(np.zeros((1, 1)), np.array([float(successes)]), np.array([float(failures)]))
    found = Hypothesis.of(trials, a, np.array([0.5]), settled=1e-9)

    def moment(k: int) -> float:
        def density(h: float) -> float:
            return float(h**k * likelihood(h, a, successes, failures) * norm.pdf(h, scale=AMPLITUDE))

        return float(quad(density, -18.0, 18.0, points=[-MEAN, 0.0], limit=400)[0])

    assert found.sites.log_evidence == pytest.approx(math.log(moment(0) * PRIOR[a]), abs=1e-5)
    mean, variance = found.latent(np.zeros((1, 1)))
    assert mean[0] == pytest.approx(moment(1) / moment(0), abs=1e-4)
    exact = moment(2) / moment(0) - (moment(1) / moment(0)) ** 2
    assert variance[0] == pytest.approx(min(exact, AMPLITUDE**2), rel=1e-3)


@pytest.mark.parametrize("a", [ACCIDENTS[0], ACCIDENTS[3]])
@pytest.mark.parametrize(
    ("successes", "failures"), [((1, 1), (0, 0)), ((0, 1), (1, 0)), ((0, 0), (1, 1)), ((2, 0), (1, 2))]
)
def test_two_points_agree_with_numerical_integration(
    a: float, successes: tuple[int, int], failures: tuple[int, int]
) -> None:
    points, scale = np.array([[0.0], [0.3]]), np.array([0.5])
    trials = Trials(points, np.array(successes, dtype=float), np.array(failures, dtype=float))
    found = Hypothesis.of(trials, a, scale)
    kernel = Matern((0.5,), AMPLITUDE)
    prior, inverse = kernel(points, points), np.linalg.inv(kernel(points, points))
    constant = 1.0 / (2.0 * math.pi * math.sqrt(np.linalg.det(prior)))

    nodes, weights = np.polynomial.legendre.leggauss(160)
    h, g = (15.0 * side for side in np.meshgrid(nodes, nodes, indexing="ij"))
    squares = inverse[0, 0] * h**2 + 2.0 * inverse[0, 1] * h * g + inverse[1, 1] * g**2
    density = constant * np.exp(-0.5 * squares) * 225.0 * weights[:, None] * weights
    assert density.sum() == pytest.approx(1.0, abs=1e-5)  # the nodes resolve the prior
    for side, one in ((h, 0), (g, 1)):
        works = (1.0 - a) * norm.cdf(MEAN + side)
        density = density * works ** successes[one] * (1.0 - works) ** failures[one]
    z = density.sum()
    assert found.sites.log_evidence == pytest.approx(math.log(z * PRIOR[a]), abs=0.15)
    for place in (0.0, 0.15, 0.3, 1.0):
        across = kernel(np.array([[place]]), points)[0]
        gain, rest = inverse @ across, max(AMPLITUDE**2 - float(across @ inverse @ across), 0.0)
        works = (1.0 - a) * norm.cdf((MEAN + gain[0] * h + gain[1] * g) / math.sqrt(1.0 + rest))
        exact = float((density * works).sum() / z)
        assert found.probability(np.array([[place]]))[0] == pytest.approx(
            exact, abs=0.1
        )  # EP is normal, the posterior skewed


def test_accidents_alone_are_a_beta_estimate() -> None:
    """With a hypothesis of one place only, the average is that of the two evidences."""
    trials = Trials(np.zeros((1, 2)), np.array([7.0]), np.array([3.0]), omitted=4)
    found = Success.learned(trials, 1)
    assert found.steady == pytest.approx((11.0 + 4.0) / (11.0 + 3.0 + 5.0))
    every = [
        Hypothesis.of(trials, a, np.array(found.hypotheses[0].kernel.lengthscale), settled=1e-6) for a in ACCIDENTS
    ]
    log_region = np.logaddexp.reduce([one.sites.log_evidence for one in every])
    log_steady = betaln(15.0, 4.0) - betaln(4.0, 1.0)
    assert found.region == pytest.approx(expit(log_region - log_steady + logit(REGION)), abs=1e-3)
    by_place = float(found.weights @ [one.probability(np.zeros((1, 2)))[0] for one in found.hypotheses])
    expected = found.region * by_place + (1.0 - found.region) * found.steady
    assert found.probability(np.zeros((1, 2)))[0] == pytest.approx(expected, abs=1e-12)


def drawn(n: int, seed: int) -> FloatArray:
    return np.random.default_rng(seed).random((n, 3))


@pytest.mark.parametrize("seed", range(3))
def test_a_region_is_learned(seed: int) -> None:
    z = drawn(40, seed)
    found = Success.learned(Trials.of(z, (z[:, 0] > 0.7).tolist()), 2)
    others = drawn(500, 99)
    p = found.probability(others)
    assert found.region > 0.99
    assert not found.by_accident
    assert not found.by_context
    assert p[others[:, 0] < 0.55].mean() > 0.9
    assert p[others[:, 0] > 0.85].mean() < 0.2


@pytest.mark.parametrize("seed", range(3))
def test_a_failing_context_is_learned(seed: int) -> None:
    z = drawn(60, seed)
    found = Success.learned(Trials.of(z, (z[:, 2] > 0.7).tolist()), 2)
    assert found.by_context
    assert found.probability(np.array([[0.5, 0.5, 0.9]]))[0] < 0.3
    assert found.probability(np.array([[0.5, 0.5, 0.3]]))[0] > 0.9


def test_accidents_are_not_taken_for_a_region() -> None:
    regions = []
    for seed in range(10):
        z = drawn(40, seed)
        found = Success.learned(Trials.of(z, (np.random.default_rng(seed + 50).random(40) < 0.45).tolist()), 2)
        regions.append(found.region)
        if found.by_accident:
            assert np.ptp(found.probability(drawn(200, 99))) < 0.3
    assert np.mean(np.array(regions) < 0.5) >= 0.8


def test_repeated_failures_at_one_place_are_no_accidents() -> None:
    """Where half of all fails by accident, one place that fails ten times is left."""
    z, failed = drawn(30, 3), [i % 2 == 0 for i in range(30)]
    z = np.concatenate([z, np.repeat([[0.5, 0.5, 0.5]], 10, axis=0)])
    before = Success.learned(Trials.of(z[:30], failed), 2)
    after = Success.learned(Trials.of(z, [*failed, *[True] * 10]), 2)
    here = z[-1:]
    assert before.by_accident
    assert after.probability(here)[0] < 0.5 * before.probability(here)[0]


def test_trials_are_merged_and_limited() -> None:
    z = np.array([[0.1, 0.2], [0.3, 0.4], [0.1, 0.2], [0.1, 0.2]])
    trials = Trials.of(z, [False, True, True, False])
    assert trials.points.tolist() == [[0.1, 0.2], [0.3, 0.4]]
    assert (trials.successes.tolist(), trials.failures.tolist(), trials.omitted) == ([2.0, 0.0], [1.0, 1.0], 0)
    many = np.random.default_rng(0).random((1000, 2))
    failed = many[:, 0] > 0.7
    trials = Trials.of(many, failed.tolist())
    assert len(trials.points) == MOST_FAILURES + MOST_SUCCESSES
    assert trials.omitted == (~failed).sum() - MOST_SUCCESSES
    assert trials.points[trials.failures == 0][:, 0].min() > 0.4  # near the border
    found = Success.learned(trials, 2)
    assert found.probability(np.array([[0.5, 0.5], [0.1, 0.1]])).min() > 0.85
    assert found.probability(np.array([[0.9, 0.5]]))[0] < 0.1


def test_the_order_of_trials_does_not_matter() -> None:
    z = drawn(20, 1)
    failed = z[:, 0] + z[:, 1] > 1.2
    found = Success.learned(Trials.of(z, failed.tolist()), 2)
    other = Success.learned(Trials.of(z[::-1], failed[::-1].tolist()), 2)
    places = drawn(50, 2)
    np.testing.assert_allclose(found.probability(places), other.probability(places), atol=1e-6)


@pytest.mark.parametrize("n", [13, 60])
def test_a_point_has_the_same_bits_alone_as_among_others(n: int) -> None:
    """With LAPACK it had not, so that a copy of an optimizer could differ from the original in a last digit."""
    points = drawn(n, 5)
    works = np.asarray(points[:, 0] < 0.7, dtype=np.float64)
    learned = Success.learned(Trials(points, works, 1.0 - works), 1)
    places = drawn(400, 6)
    together = learned.probability(places)
    for count in (1, 5, 10):
        for first in (0, 37, 250):
            assert np.array_equal(learned.probability(places[first : first + count].copy()), together[first:][:count])
