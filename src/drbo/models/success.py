"""The probability that an evaluation succeeds, learned from which evaluations failed.

An evaluation at z = (action, context) fails by accident with probability a, the same everywhere, and otherwise if a
latent function says so:

    P(success at z) = (1 - a) Phi(m + h(z)),    h ~ GP(0, A^2 R(z, z')),    R a Matern correlation with nu = 5/2.

Or success does not depend on the place at all: P = 1 - a, with a prior of a of density 4 (1 - a)^3 and a prior
probability of `REGION` for the former. Both predictions are averaged by their evidence.

m is chosen such that an untried place without accidents succeeds with probability `UNTRIED`. The posterior of h is a
normal distribution by expectation propagation (Rasmussen and Williams, 2006, section 3.6). The moments of each site are
sums over `_NODES`, since s successes and f failures at one point are one site. Accident rates, lengthscales and whether
contexts matter are compared by their evidence. The prediction averages the accident rates by their evidence.

All of it is an estimate. No bound of an outcome uses it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log, log1p

import numpy as np
from scipy.linalg import lapack
from scipy.special import betaln, expit, log_ndtr, logit, ndtr, ndtri

from drbo._compiled import announce, in_order
from drbo.kernels import Matern
from drbo.validation import FloatArray

UNTRIED = 0.95
"""The probability that an untried place works, accidents aside."""
AMPLITUDE = 3.0
"""A: the standard deviation of the latent function. The larger, the sharper the border of a region that fails."""
ACCIDENTS = (0.02, 0.08, 0.2, 0.35, 0.5, 0.7)
"""The accident rates a that are compared."""
_PRIOR_POWER = 3.0
"""The prior of an accident rate is proportional to (1 - a)^3: accidents are rare unless there are many."""
_SEVERAL = 5
"""Least number of successes, and of failures, from which on failures may be called accidents."""
REGION = 0.2
"""The prior probability that success depends on the place at all."""
LENGTHSCALES = (0.5, 0.25)
"""The lengthscales that are compared, in ranges of a coordinate, for one coordinate; they grow with sqrt(d)."""
_IRRELEVANT = 8.0
"""The factor of a lengthscale by which a coordinate stops to matter."""
MOST_FAILURES, MOST_SUCCESSES = 40, 60
"""Largest numbers of points with and without failure that are used: the last failures, and the successes near them."""
_LEAST_WEIGHT = 0.1
"""An accident rate of less weight than this is left out of a prediction."""
_SWEEPS = 40
"""Largest number of sweeps of expectation propagation."""
_LEAST_PRECISION = 1e-6
"""A site is left as it is if all others together say less than this."""
_ROUGHLY, _SETTLED = 0.02, 1e-3
"""The largest change of a site that ends the sweeps: to compare hypotheses, and for the final ones."""
_LOG_PRIOR = {a: _PRIOR_POWER * log1p(-a) - log(sum((1.0 - b) ** _PRIOR_POWER for b in ACCIDENTS)) for a in ACCIDENTS}
_MEAN = float(ndtri(UNTRIED)) * float(np.sqrt(1.0 + AMPLITUDE**2))
_NODES = np.linspace(-6.0 * AMPLITUDE, 6.0 * AMPLITUDE, 121)


@dataclass(frozen=True, eq=False)
class Trials:
    """Distinct points (n, d) with their numbers of successes and failures (n,); `omitted` successes are left out."""

    points: FloatArray
    successes: FloatArray
    failures: FloatArray
    omitted: int = 0

    @classmethod
    def of(cls, points: FloatArray, failed: Sequence[bool]) -> Trials:
        """Return evaluations at points (t, d): of many, the last failures and the successes nearest to them."""
        order: dict[bytes, int] = {}
        rows: list[FloatArray] = []
        counts: list[list[int]] = []
        for point, bad in zip(points, failed, strict=True):
            key = point.tobytes()
            i = order.setdefault(key, len(order))
            if i == len(rows):
                rows.append(point)
                counts.append([0, 0])
            counts[i][int(bad)] += 1
        found = cls(np.array(rows), *np.array(counts, dtype=np.float64).T)
        bad_rows = np.flatnonzero(found.failures)[-MOST_FAILURES:]
        good_rows = np.flatnonzero(found.failures == 0)
        if len(good_rows) > MOST_SUCCESSES:
            apart = found.points[good_rows, None, :] - found.points[None, bad_rows, :]
            nearest = np.argsort((apart**2).sum(axis=2).min(axis=1), kind="stable")
            good_rows = np.sort(good_rows[nearest[:MOST_SUCCESSES]])
        kept = np.sort(np.concatenate([bad_rows, good_rows]))
        left_out = int(found.successes.sum() - found.successes[kept].sum())
        return cls(found.points[kept], found.successes[kept], found.failures[kept], left_out)


@dataclass(frozen=True, eq=False)
class Sites:
    """The normal approximation of the posterior of h: sites exp(-precision h^2 / 2 + shift h), and its evidence."""

    precision: FloatArray
    shift: FloatArray
    log_evidence: float


def propagate(
    prior: FloatArray, log_likelihood: FloatArray, start: Sites | None = None, settled: float = _SETTLED
) -> Sites:
    """Return the sites for a prior covariance (n, n) and log likelihoods (n, k) on `_NODES`.

    The sweeps begin with the sites `start`, and end when no site changes by more than `settled`.

    A likelihood that is not log-concave may want a site of negative precision. Its precision is 0 then, and its shift
    still fits the mean.
    """
    n = len(prior)
    tau, nu = (np.zeros(n), np.zeros(n)) if start is None else (start.precision.copy(), start.shift.copy())
    announce(_sweep)
    covariance, mean, log_det = _moments(prior, tau, nu)
    for _ in range(_SWEEPS):
        moved = _sweep(covariance, mean, tau, nu, log_likelihood, _NODES)
        covariance, mean, log_det = _moments(prior, tau, nu)
        if moved < settled:
            break
    variance = np.diag(covariance)
    cavity = np.maximum(1.0 / variance - tau, _LEAST_PRECISION)
    centre, spread = (mean / variance - nu) / cavity, 1.0 / cavity
    exponent = log_likelihood - 0.5 * (_NODES - centre[:, None]) ** 2 * cavity[:, None]
    top = exponent.max(axis=1)
    total = np.exp(exponent - top[:, None]).sum(axis=1) * (_NODES[1] - _NODES[0])
    log_z = top + np.log(total) + 0.5 * np.log(cavity / (2.0 * np.pi))
    shift = nu**2 * spread + 2.0 * nu * centre - tau * centre**2
    log_g = 0.5 * shift / (1.0 + tau * spread) - 0.5 * np.log1p(tau * spread)
    log_evidence = float((log_z - log_g).sum()) - 0.5 * log_det + 0.5 * float(nu @ covariance @ nu)
    return Sites(tau, nu, log_evidence)


@in_order
def _sweep(
    covariance: FloatArray,
    mean: FloatArray,
    tau: FloatArray,
    nu: FloatArray,
    log_likelihood: FloatArray,
    nodes: FloatArray,
) -> float:
    """Fit each site once, one after the other, in place; return the largest change of a site."""
    n, k = log_likelihood.shape
    least = 0.25 * (nodes[1] - nodes[0]) ** 2  # a narrower distribution is not resolved by the nodes
    moved = 0.0
    for i in range(n):
        cavity = 1.0 / covariance[i, i] - tau[i]
        if cavity < _LEAST_PRECISION:
            continue
        shift = mean[i] / covariance[i, i] - nu[i]
        centre = shift / cavity
        top = -np.inf
        for j in range(k):
            top = max(top, log_likelihood[i, j] - 0.5 * (nodes[j] - centre) ** 2 * cavity)
        total, first, second = 0.0, 0.0, 0.0
        for j in range(k):
            weight = np.exp(log_likelihood[i, j] - 0.5 * (nodes[j] - centre) ** 2 * cavity - top)
            total += weight
            first += weight * nodes[j]
            second += weight * nodes[j] ** 2
        first /= total
        precision = max(1.0 / max(second / total - first**2, least) - cavity, 0.0)
        more_tau = precision - tau[i]
        more_nu = first * (cavity + precision) - shift - nu[i]
        moved = max(moved, abs(more_tau), abs(more_nu))
        tau[i] += more_tau
        nu[i] += more_nu
        column = covariance[:, i].copy()
        scale = 1.0 + more_tau * column[i]
        step = (more_nu - more_tau * mean[i]) / scale
        for p in range(n):
            mean[p] += step * column[p]
            for q in range(n):
                covariance[p, q] -= more_tau / scale * column[p] * column[q]
    return moved


def _moments(prior: FloatArray, tau: FloatArray, nu: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Return covariance (n, n) and mean (n,) of the posterior, and log det(I + K T)."""
    root = np.sqrt(tau)
    factor = _factor(prior, root)
    half = _solved(factor, root[:, None] * prior)
    covariance = prior - half.T @ half
    return covariance, covariance @ nu, 2.0 * float(np.log(np.diag(factor)).sum())


def _factor(prior: FloatArray, root: FloatArray) -> FloatArray:
    """Return the lower factor of I + T^1/2 K T^1/2 (n, n), for the square roots (n,) of T."""
    scaled = root[:, None] * prior * root
    scaled.flat[:: len(root) + 1] += 1.0
    return np.asarray(lapack.dpotrf(scaled, lower=1, clean=1)[0])


def _solved(factor: FloatArray, right: FloatArray) -> FloatArray:
    """Return L^-1 times a right-hand side (n, ...), for a lower factor L."""
    return np.asarray(lapack.dtrtrs(factor, right, lower=1)[0])


@in_order
def _latent(
    across: FloatArray, shift: FloatArray, root: FloatArray, upper: FloatArray, rest: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return <k, shift> - <z, rest> and <z, z>, (m,) each, for each row k of `across` (m, n).

    z = L^-1 T^1/2 k, with T^1/2 the diagonal `root` (n,) and L' the matrix `upper` (n, n). A row has the same bits
    alone as among others; with LAPACK it has not.
    """
    m, n = across.shape
    mean, explained, z = np.empty(m), np.empty(m), np.empty(n)
    for i in range(m):
        for j in range(n):
            z[j] = root[j] * across[i, j]
        for j in range(n):
            z[j] /= upper[j, j]
            solved = z[j]
            for p in range(j + 1, n):
                z[p] -= upper[j, p] * solved
        centre, square = 0.0, 0.0
        for j in range(n):
            centre += shift[j] * across[i, j] - rest[j] * z[j]
            square += z[j] * z[j]
        mean[i], explained[i] = centre, square
    return mean, explained


@in_order
def averages(weights: FloatArray, values: FloatArray) -> FloatArray:
    """Return <weights, v> (m,) for each row v of `values` (m, n); a row has the same bits alone as among others."""
    found = np.empty(len(values))
    for i in range(len(values)):
        total = 0.0
        for j in range(len(weights)):
            total += weights[j] * values[i, j]
        found[i] = total
    return found


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """An accident rate and lengthscales, with the posterior of h under them.

    Attributes
    ----------
    accidents : the accident rate a
    kernel : the covariance of h
    trials : the data
    sites : the posterior of h
    """

    accidents: float
    kernel: Matern
    trials: Trials
    sites: Sites

    @classmethod
    def of(
        cls,
        trials: Trials,
        accidents: float,
        lengthscales: FloatArray,
        start: Sites | None = None,
        settled: float = _ROUGHLY,
    ) -> Hypothesis:
        """Return the hypothesis given trials; the sites of a similar one save sweeps."""
        kernel = Matern((*lengthscales.tolist(),), AMPLITUDE, nu=2.5)
        prior = kernel(trials.points, trials.points)
        sites = propagate(prior, log_likelihoods(trials, accidents), start, settled)
        more = trials.omitted * np.log1p(-accidents) + _LOG_PRIOR[accidents]
        return cls(accidents, kernel, trials, replace(sites, log_evidence=sites.log_evidence + float(more)))

    def probability(self, points: FloatArray) -> FloatArray:
        """Return the probability of success (m,) at points (m, d)."""
        mean, variance = self.latent(points)
        return np.asarray((1.0 - self.accidents) * ndtr((_MEAN + mean) / np.sqrt(1.0 + variance)))

    def latent(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance (m,) of h at points (m, d)."""
        across = self.kernel(points, self.trials.points)
        announce(_latent)
        mean, explained = _latent(across, self.sites.shift, *self._prepared)
        return mean, np.maximum(self.kernel.variance - explained, 0.0)

    @functools.cached_property
    def _prepared(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """T^1/2 (n,), L' (n, n) and L^-1 T^1/2 K shift (n,), with LL' = I + T^1/2 K T^1/2; T are the precisions."""
        prior, root = self.kernel(self.trials.points, self.trials.points), np.sqrt(self.sites.precision)
        factor = _factor(prior, root)
        rest = _solved(factor, (root * (prior @ self.sites.shift))[:, None])[:, 0]
        return root, np.ascontiguousarray(factor.T), np.ascontiguousarray(rest)


def log_likelihoods(trials: Trials, accidents: float) -> FloatArray:
    """Return s log((1 - a) Phi) + f log(a + (1 - a) (1 - Phi)) (n, k) on `_NODES`."""
    works = np.log1p(-accidents) + log_ndtr(_MEAN + _NODES)
    fails = np.log(accidents + (1.0 - accidents) * ndtr(-_MEAN - _NODES))
    return np.asarray(trials.successes[:, None] * works + trials.failures[:, None] * fails)


@dataclass(frozen=True, eq=False)
class Success:
    """The estimated probability that an evaluation succeeds.

    Attributes
    ----------
    hypotheses, weights : accident rates with the posterior of h under each, and their weights (k,)
    region : the probability that success depends on the place
    counts : the numbers of successes and failures
    steady : the probability of success if it does not
    by_context : whether success depends on the context, too
    """

    hypotheses: tuple[Hypothesis, ...]
    weights: FloatArray
    region: float
    counts: tuple[float, float]
    steady: float
    by_context: bool

    @classmethod
    def learned(cls, trials: Trials, d_action: int) -> Success:
        """Return the estimate from trials; the first `d_action` coordinates of their points are the action's."""
        d = trials.points.shape[1]
        scales = np.full(d, LENGTHSCALES[0] * np.sqrt(d_action))
        scales[d_action:] *= _IRRELEVANT
        best = _best(trials, scales)
        for length in LENGTHSCALES[1:]:
            best = _best(trials, scales * (length / LENGTHSCALES[0]), best)
        by_context = False
        if d > d_action:
            alone, both = best, np.array(best.kernel.lengthscale)
            both[d_action:] /= _IRRELEVANT
            best = _best(trials, both, alone)
            by_context = best is not alone
        for i in range(d_action if d > 1 else 0):
            one_less = np.array(best.kernel.lengthscale)
            one_less[i] *= _IRRELEVANT
            best = _best(trials, one_less, best)
        every = _by_accidents(trials, np.array(best.kernel.lengthscale), ACCIDENTS, _SETTLED)
        evidence = np.array([_evidence(one) for one in every])
        weights = np.exp(evidence - evidence.max())
        log_region = float(np.log(weights.sum()) + evidence.max())
        used = np.flatnonzero(weights >= _LEAST_WEIGHT * weights.sum())
        weights = weights[used] / weights[used].sum()
        s, f = float(trials.successes.sum()) + trials.omitted, float(trials.failures.sum())
        log_steady = float(betaln(s + _PRIOR_POWER + 1.0, f + 1.0) - betaln(_PRIOR_POWER + 1.0, 1.0))
        region = float(expit(log_region - log_steady + logit(REGION)))
        steady = (s + _PRIOR_POWER + 1.0) / (s + f + _PRIOR_POWER + 2.0)
        return cls(tuple(every[i] for i in used), weights, region, (s, f), steady, by_context)

    @property
    def by_accident(self) -> bool:
        """Whether failures are probably accidents, by several successes and failures, and may be repeated."""
        return min(self.counts) >= _SEVERAL and self.region < 0.5

    @property
    def untried(self) -> float:
        """The probability of success far from all evaluations."""
        by_place = UNTRIED * float(self.weights @ [1.0 - one.accidents for one in self.hypotheses])
        return self.region * by_place + (1.0 - self.region) * self.steady

    def probability(self, points: FloatArray) -> FloatArray:
        """Return the probability of success (m,) at points (m, d)."""
        by_rate = np.stack([one.probability(points) for one in self.hypotheses], axis=1)
        announce(averages)
        by_place = averages(self.weights, by_rate)
        return np.asarray(self.region * by_place + (1.0 - self.region) * self.steady)


def _by_accidents(trials: Trials, scales: FloatArray, rates: Sequence[float], settled: float) -> list[Hypothesis]:
    """Return the hypotheses of some accident rates for lengthscales (d,)."""
    found: list[Hypothesis] = []
    for accidents in rates:
        found.append(Hypothesis.of(trials, accidents, scales, found[-1].sites if found else None, settled))
    return found


def _best(trials: Trials, scales: FloatArray, other: Hypothesis | None = None) -> Hypothesis:
    """Return the best hypothesis for lengthscales (d,) and few and many accidents, or another one if that is better."""
    found = _by_accidents(trials, scales, ACCIDENTS[::3], _ROUGHLY)
    return max(found if other is None else [other, *found], key=_evidence)


def _evidence(hypothesis: Hypothesis) -> float:
    return hypothesis.sites.log_evidence
