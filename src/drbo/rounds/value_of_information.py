"""The pair of action and context whose outcome is worth most for the final decision (knowledge gradient).

The action that we would deploy now has the value V, an expectation over the posterior of f. An outcome y at z = (x, c)
changes it to V(y):

    V       = max_x E[min_w <w, f(x, .)>]
    gain(z) = E_y[V(y)] - V                                  >= 0: the old decision stays possible

with w over the set of the round. The minimum is inside the expectation: a context without weight in the worst case of
the mean may still be the worst one, and then it is worth an evaluation.

The expectation is over draws f_s of the posterior, each with an error e_s. Given the outcome y = mean(z) + sd t, where
sd^2 = variance(z) + ridge, a draw becomes (Matheron's rule, of rank one)

    f_s(.) + Cov(., z) / sd * (t - t_s),        t_s = (f_s(z) + e_s - mean(z)) / sd.

All z share the same draws, which come in pairs f_s and 2 mean - f_s. The expectation of the minimum is smooth in t. It
is computed at Gauss-Hermite nodes and interpolated, and the maximum over actions is summed over many values of t. V
uses the same draws and the same t, so that the estimate of a gain is never negative.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from drbo import validation
from drbo._compiled import announce, jit
from drbo._threads import one_thread
from drbo.contexts.nature import Contexts
from drbo.models.bounds import UPPER, Bound
from drbo.models.surrogate import Capability, Posterior, SupportsAverages, SupportsCovariance, SupportsDraws, supports
from drbo.rounds.ball import Ball
from drbo.rounds.context_rules import Beliefs, Informative
from drbo.rounds.policies import Choice, Optimism, Policy, Round, picked
from drbo.rounds.search import Candidates, Winner
from drbo.spaces.space import Point
from drbo.validation import FloatArray

__all__ = ["ValueOfInformation"]

Indices = NDArray[np.intp]

_NODES, _FINE = 5, 24
"""Numbers of outcomes that represent an evaluation: the nodes, and the finer grid between them."""
_COMPARED = 48
"""Number of candidates with the best mean, and of those with the best upper bound, that are compared."""
_LEADING = 8
"""Number of actions on the shortlist per score, for three scores; the others win draws."""
_ACTIONS = 32
"""The length of the shortlist."""
_RANKS = (0, 1, 2, 4, 8, 16)
"""Ranks of the contexts that are valued per action, by a first estimate of their gain."""
_SOLVED = 8
"""Number of draws that are solved exactly. The distributions found are reused for the others."""
_CONTEXTS = 32
"""Number of contexts considered per action if covariances are slow."""
_AT_ONCE = 2**22
"""Largest number of entries of an intermediate array."""
_TIE = 1e-9
"""Gains with a smaller difference, as a share of the largest, are a tie; the first one wins."""


@dataclass(frozen=True, eq=False)
class Gains:
    """The expected gains (p,) of evaluations with their standard errors, and the action and context of each."""

    rows: Indices
    columns: Indices
    gains: FloatArray
    errors: FloatArray

    @property
    def best(self) -> int:
        """The first evaluation with the largest gain."""
        return int(np.argmax(self.gains >= (1.0 - _TIE) * self.gains.max()))


@dataclass(frozen=True, eq=False)
class ActionDraws:
    """Draws of f at some actions, in the contexts of a ball, and their changes by outcomes.

    Attributes
    ----------
    ball, posterior : the ball and the posterior of the round
    actions : (m, d) the actions
    mean, variance : (m, n) of the posterior
    values : (S, m, n) the draws: the first half, and their mirror images about the mean
    errors : (S,) the error of an outcome, per draw
    """

    ball: Ball
    posterior: Posterior
    actions: FloatArray
    mean: FloatArray
    variance: FloatArray
    values: FloatArray
    errors: FloatArray

    @classmethod
    def of(cls, ball: Ball, posterior: Posterior, actions: FloatArray, count: int, rng: np.random.Generator) -> Self:
        """Return `count` draws, an even number, at actions (m, d)."""
        mean, variance = posterior.moments(actions)
        away = cast(SupportsDraws, posterior).draws(rng, count // 2, actions) - mean
        errors = posterior.noise * rng.standard_normal(count // 2)
        values = np.concatenate([mean + away, mean - away])
        return cls(ball, posterior, actions, mean, variance, values, np.concatenate([errors, -errors]))

    def among(self, rows: Indices) -> ActionDraws:
        """Return the draws at the actions `rows` only."""
        return ActionDraws(
            self.ball,
            self.posterior,
            self.actions[rows],
            self.mean[rows],
            self.variance[rows],
            self.values[:, rows],
            self.errors,
        )

    @functools.cached_property
    def worst_cases(self) -> FloatArray:
        """The worst distributions (m, k, n) per action, for the mean and in some draws, which represent the set."""
        S, m, n = self.values.shape
        some = self.values[:: max(S // _SOLVED, 1)]
        every = np.concatenate([self.mean[:, None, :], some.swapaxes(0, 1)], axis=1)
        weights = self.ball.worst_cases(every.reshape(-1, n)).weights.reshape(m, -1, n)
        return weights[:, :1] if (weights == weights[0, 0]).all() else weights

    @functools.cached_property
    def minima(self) -> FloatArray:
        """The worst-case expectation (S, m) of every action in every draw."""
        return np.asarray((self.values.swapaxes(0, 1) @ self.worst_cases.swapaxes(1, 2)).min(axis=2).T)

    def first_estimates(self) -> FloatArray:
        """Return a first estimate of every gain, (m, n), from the first-order change of the worst cases.

        An outcome moves E[min_w <w, f(x, .)>] by <E[w], Cov(f(x, .), f(z))> / sd, E[w] the mean of the worst cases.
        If covariances are slow, it is -inf except for the contexts with the largest weights in the worst cases.
        """
        m, n = self.mean.shape
        _, outcomes, shares, _ = _outcomes()
        value, weights = self.minima.mean(axis=0), self.worst_cases.mean(axis=1, keepdims=True)
        estimates = np.full((m, n), -np.inf)
        quick = supports(self.posterior, SupportsAverages)
        some = np.arange(n) if quick else _first(weights.sum(axis=(0, 1)), _CONTEXTS)
        pairs = np.repeat(np.arange(m), len(some)), np.tile(some, m)
        size = max(_AT_ONCE // (m * _FINE), 1)
        for start in range(0, len(pairs[0]), size):
            rows, columns = (one[start : start + size] for one in pairs)
            slopes = self._slopes(weights, rows, columns)[:, :, 0]
            after = (value + outcomes[:, None, None] * slopes).max(axis=2)
            estimates[rows, columns] = shares @ after - value.max()
        return estimates

    def gains(self, rows: Indices, columns: Indices) -> Gains:
        """Return the gains of evaluations, given the indices (p,) of their actions and contexts."""
        weights = self.worst_cases
        nodes, _, shares, between = _outcomes()
        minima = np.ascontiguousarray(weights @ self.values.transpose(1, 2, 0))  # (m, k, S)
        sd = self._deviations(rows, columns)[:, None]
        outcomes = self.values[:, rows, columns].T + self.errors
        drawn = (outcomes - self.mean[rows, columns][:, None]) / sd
        gains, errors = np.empty((2, len(rows)))
        size = max(_AT_ONCE // (weights.shape[0] * weights.shape[1]), 1)
        announce(_after)
        for start in range(0, len(rows), size):
            some = slice(start, start + size)
            slopes = self._slopes(weights, rows[some], columns[some])
            _after(minima, slopes, drawn[some], nodes, shares, between, gains[some], errors[some])
        return Gains(rows, columns, gains, errors)

    def _deviations(self, rows: Indices, columns: Indices) -> FloatArray:
        """Return the standard deviation (p,) of outcomes."""
        return np.sqrt(self.variance[rows, columns] + self.posterior.noise**2)

    def _slopes(self, weights: FloatArray, rows: Indices, columns: Indices) -> FloatArray:
        """Return the change (p, m, k) of averages (m, k, n) over contexts per standard deviation of an outcome."""
        covariance = cast(SupportsCovariance, self.posterior).covariance(self.actions, weights, rows, columns)
        return np.asarray(covariance / self._deviations(rows, columns)[:, None, None])


@functools.cache
def _outcomes() -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return nodes (Q,) of a standard normal outcome t, and values t_f (F,), their weights, and a matrix R (F, Q).

    Functions such as the maximum over actions have kinks in t, and are summed over many t_f: the means of t between
    quantiles. Smooth functions of t are computed only at the few nodes, and R interpolates them by a polynomial.
    """
    edges = np.concatenate([[-np.inf], np.linspace(-2.9, 2.9, _FINE - 1), [np.inf]])
    shares = np.diff(ndtr(edges))
    density = np.exp(-0.5 * edges**2) / math.sqrt(2.0 * math.pi)
    values = -np.diff(density) / shares
    nodes, _ = np.polynomial.hermite_e.hermegauss(_NODES)
    powers = np.arange(_NODES)
    between = np.linalg.solve((nodes[:, None] ** powers).T, (values[:, None] ** powers).T).T
    return nodes, values, shares, np.ascontiguousarray(between)


@jit
def _after(
    minima: FloatArray,
    slopes: FloatArray,
    drawn: FloatArray,
    nodes: FloatArray,
    shares: FloatArray,
    between: FloatArray,
    gains: FloatArray,
    errors: FloatArray,
) -> None:
    """Write the gain of each evaluation and its standard error.

    `minima` (m, k, S) are the expectations of the draws under k distributions per action; the minimum over k counts.
    `slopes` (p, m, k) are their changes per standard deviation of the outcome. `drawn` (p, S) are the draws' own
    outcomes in standard deviations. `nodes`, `shares` and `between` are the results of `_outcomes`.
    """
    m, K, S = minima.shape
    Q, F = len(nodes), len(shares)
    least = np.empty((m, Q, S))
    mean = np.empty((m, Q))
    for z in range(len(drawn)):
        for x in range(m):
            for q in range(Q):
                here = least[x, q]
                for k in range(K):
                    slope = slopes[z, x, k]
                    for s in range(S):
                        value = minima[x, k, s] + (nodes[q] - drawn[z, s]) * slope
                        here[s] = value if k == 0 else min(here[s], value)
                mean[x, q] = here.mean()
        values = mean @ between.T  # (m, F)
        now = np.argmax(values @ shares)
        weights = np.zeros((m, Q))  # of the gain, per action and node
        for f in range(F):
            best = np.argmax(values[:, f])
            for q in range(Q):
                weights[best, q] += shares[f] * between[f, q]
                weights[now, q] -= shares[f] * between[f, q]
        gain = np.zeros(S)
        for x in range(m):
            for q in range(Q):
                if weights[x, q] != 0.0:
                    for s in range(S):
                        gain[s] += weights[x, q] * least[x, q, s]
        gains[z] = max(gain.mean(), 0.0)
        half = S // 2  # a draw and its mirror image are not independent
        pairs = 0.5 * (gain[:half] + gain[half:])
        errors[z] = math.sqrt(((pairs - pairs.mean()) ** 2).sum() / (half - 1) / half)


@dataclass(frozen=True)
class ValueOfInformation(Policy):
    """The action and the context whose outcome adds most to the worst-case expectation of the final decision.

    It looks one outcome ahead (a knowledge gradient of the robust value) and chooses both together. The action is often
    not the best candidate, but the most informative about the candidates. This suits evaluations of equal cost, as in a
    simulator, if only the final decision counts. If every evaluation earns its outcome, `Optimism` is better. No
    theorem bounds the regret.

    The expectations are over draws of f (see `drbo.rounds.value_of_information`), for about 32 actions: the best ones
    by their expected worst case, by the worst case of the mean and by that of the upper confidence bound, and the
    winners of draws. Looking one outcome ahead may show no gain where two outcomes would be needed. If the largest gain
    is within twice its standard error of zero, the choice is that of `Optimism(Informative())`, which explores.

    Parameters
    ----------
    draws : the number of draws, an even number from 4 to 1,024
    """

    draws: int = 32

    def __post_init__(self) -> None:
        count = validation.whole_number("draws", self.draws, least=4, most=1024)
        if count % 2:
            raise ValueError(f"draws must be an even number, as draws come in pairs, got {count}")

    needs: ClassVar[tuple[Capability, ...]] = (SupportsDraws, SupportsCovariance)

    def check(self, prior: Posterior, contexts: Contexts) -> None:
        """Raise if draws need a spectral density and a kernel has none."""
        del contexts
        try:
            cast(SupportsDraws, prior).check_draws()
        except TypeError as error:
            raise TypeError(f"{error}. Optimism needs no draws: Simulator(..., pick='informative')") from None

    def choose(self, round: Round, beliefs: Beliefs) -> Choice:
        """Return the evaluation with the largest gain; the choice of optimism if no gain is significant."""
        rule = Informative()
        with one_thread():
            ball, draws, points = self._shortlist(round, beliefs)
            gains = draws.gains(*_promising(draws))
        best = gains.best
        if gains.gains[best] <= 2.0 * gains.errors[best]:
            return Optimism(rule).choose(round, beliefs)
        action = points[int(gains.rows[best])]
        decided = not any(limit.open(ball, action) for limit in round.limits)  # the gain is that of the objective alone
        context = ball.reference.atom(int(gains.columns[best])) if decided else None
        upper = Bound(beliefs.expected(ball), beliefs.width, UPPER)
        score = float(ball.worst_case(upper.of_action(action)).expectation)
        return picked(rule, round, beliefs, ball, Winner(action, score), context)

    def _shortlist(self, round: Round, beliefs: Beliefs) -> tuple[Ball, ActionDraws, list[Point]]:
        """Return the ball of the round, extended by the contexts that matter to the best mean, and some draws."""
        ball, search, nothing = round.ball, round.search, round.under_way[:0]
        best = search.best(ball, Bound(beliefs.expected(ball), 0.0, UPPER), round.near, nothing)
        ball, _ = ball.widened(Bound(beliefs.certain(ball), 0.0, UPPER), best.action, best.score)
        posterior = beliefs.expected(ball)
        mean, upper = Bound(posterior, 0.0, UPPER), Bound(posterior, beliefs.width, UPPER)
        of_best = np.array([mean.of_action(best.action), upper.of_action(best.action)])
        weights = np.concatenate([ball.worst_cases(of_best).weights, ball.weights[None]])
        found = {best.action.coordinates.tobytes(): best.action}

        def pick(candidates: Candidates) -> Winner:
            """Record the most promising candidates by upper bounds of their worst cases."""
            by_mean, by_upper = (
                np.min([candidates.ceilings(bound, w) for w in weights], axis=0) for bound in (mean, upper)
            )
            for row in (*_first(by_mean, _COMPARED), *_first(by_upper, _COMPARED)):
                point = candidates.point(int(row))
                found.setdefault(point.coordinates.tobytes(), point)
            top = int(np.argmax(by_mean))
            return Winner(candidates.point(top), float(by_mean[top]))

        if search.compares(ball):
            search.best_by(ball, pick, np.concatenate([round.near, best.action.coordinates[None]]))
        points = list(found.values())
        actions = np.array([point.coordinates for point in points])
        draws = ActionDraws.of(ball, posterior, actions, self.draws, round.generator())
        rows = _leading(draws, beliefs.width)
        return ball, draws.among(rows), [points[int(row)] for row in rows]


def _first(scores: FloatArray, count: int) -> Indices:
    """Return the indices of the largest scores, in decreasing order."""
    return np.argsort(-scores, kind="stable")[:count]


def _leading(draws: ActionDraws, width: float) -> Indices:
    """Return the actions (at most `_ACTIONS`) that lead by some score, or in some draw."""
    ball, m = draws.ball, len(draws.actions)
    of_mean = ball.worst_cases(draws.mean)
    weights = np.unique(of_mean.weights, axis=0)
    minima = (draws.values @ weights.T).min(axis=2)  # (S, m); slightly above the exact minima
    upper = draws.mean + width * np.sqrt(draws.variance)
    expected = minima.mean(axis=0)
    scores = expected, of_mean.expectation, (upper @ weights.T).min(axis=1)
    leading = dict.fromkeys(int(row) for score in scores for row in _first(score, _LEADING))
    wins = np.bincount(minima.argmax(axis=1), minlength=m).astype(np.float64)
    for row in (*_first(wins, int((wins > 0).sum())), *_first(expected, m)):
        if len(leading) < _ACTIONS:
            leading.setdefault(int(row))
    return np.array(list(leading), dtype=np.intp)


def _promising(draws: ActionDraws) -> tuple[Indices, Indices]:
    """Return the promising evaluations (p,): some contexts per action, by their indices."""
    estimates = draws.first_estimates()
    m, n = estimates.shape
    order = np.argsort(-estimates, axis=1, kind="stable")[:, [rank for rank in _RANKS if rank < n]]
    pairs = np.concatenate([order, draws.variance.argmax(axis=1)[:, None]], axis=1)
    rows = np.repeat(np.arange(m), pairs.shape[1])
    unique = np.unique(rows * n + pairs.ravel())
    return np.divmod(unique, n)
