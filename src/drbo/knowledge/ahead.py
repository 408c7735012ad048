"""One-step-ahead errors: how far each outcome was from what the model predicted before it.

z_t = (y_t - mean_{t-1}(x_t, c_t)) / sqrt(variance_{t-1}(x_t, c_t) + noise^2), with the hyper-parameters recorded before
y_t. Whatever rule chose (x_t, c_t), the expectation of z_t^2 given the past is 1 for a model that is right. The test
martingale prod(1 + l (z_t^2 / s^2 - 1)) therefore refutes a model at any time: if E z_t^2 <= s^2, it exceeds 1 / delta
with probability at most delta. With learned hyper-parameters E z_t^2 is above 1 in the first outcomes although the
model is right, so the test starts late, with s above 1. It never confirms a model.

A check is an outcome of an action in a condition that was new to it: the suggestion checked a recommended action, or
the action, or one near it, had been evaluated in other conditions alone. Outcomes further than 3 deviations below their
prediction are surprises. More checks lower the doubt of unseen conditions, and surprises raise it (`doubt`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from drbo.knowledge.belief import OutcomeBelief
from drbo.knowledge.configuration import Configuration
from drbo.knowledge.history import OBJECTIVE, Amended, Asked, Fact, Retracted, Told
from drbo.knowledge.state import observations
from drbo.models.surrogate import Fit
from drbo.rounds.checked import COVERED
from drbo.rounds.policies import rows_near
from drbo.validation import FloatArray

FIRST = 10
"""The number of the first outcome that is tested."""
SCALE = 1.5
"""s: a model passes, and bounds are not widened, while the root mean square of its errors is at most this."""
STEP = 0.2
"""l: the share of the stake that is bet on each outcome."""
DELTA = 0.01
"""The probability at which a model that is right is refuted."""
FAR = 3.0
"""An outcome this many deviations from its prediction is surprising."""
LARGEST = 10.0
"""Errors are cut at so many deviations where their size widens a bound: one jump must not make all bounds useless."""
_BLOCK = 100
"""For a long history only the last one or two blocks of so many results are tested; the blocks are fixed beforehand."""


@dataclass(frozen=True)
class Ahead:
    """The one-step-ahead errors of a history.

    Attributes
    ----------
    results : the number of each tested result
    errors : the errors z in deviations, the first of each result; positive where the outcome was better than predicted
    verified : whether each result answers a suggestion of the reason "verify"
    checks : whether each result is a check
    corrected : whether results were amended or retracted, so that the errors are no test any more
    """

    results: tuple[int, ...]
    errors: tuple[float, ...]
    verified: tuple[bool, ...]
    checks: tuple[bool, ...]
    corrected: bool

    @property
    def evidence(self) -> float:
        """The present value of the test martingale: evidence against the model."""
        value = 1.0
        for number, error in zip(self.results, self.errors, strict=True):
            if number + 1 >= FIRST:
                value *= 1.0 + STEP * ((error / SCALE) ** 2 - 1.0)
        return value

    @property
    def size(self) -> float:
        """The root mean square of the tested errors over `SCALE`, cut at `LARGEST`, at least 1: it widens bounds."""
        both = zip(self.results, self.errors, strict=True)
        tested = [min(error**2, LARGEST**2) for number, error in both if number + 1 >= FIRST]
        return max(1.0, math.sqrt(sum(tested) / len(tested)) / SCALE) if tested else 1.0

    @property
    def doubt(self) -> float:
        """sqrt((surprises + 1) / (checks + 1)), at most 1: surprises are outcomes far below their prediction."""
        return math.sqrt(min((sum(error < -FAR for error in self.errors) + 1) / (sum(self.checks) + 1), 1.0))

    @property
    def refuted(self) -> bool:
        """Whether the errors refute the model."""
        return not self.corrected and self.evidence >= 1.0 / DELTA

    def beyond(self, deviations: float) -> list[int]:
        """Return the results whose error exceeds so many deviations, among those that are tested."""
        both = zip(self.results, self.errors, strict=True)
        return [number for number, error in both if number + 1 >= FIRST and abs(error) > deviations]


@dataclass(frozen=True)
class _Step:
    number: int
    told: Told
    fit: Fit
    verified: bool


class Forecaster:
    """The one-step-ahead errors of one outcome in a growing history; each result is predicted once.

    Failures and outcomes of hidden contexts have no error. Of an evaluation in several contexts the first outcome
    counts.
    """

    def __init__(self, own: Configuration, name: str = OBJECTIVE) -> None:
        self._own, self._name = own, name
        self._fit: Fit = own.outcomes[name].first_fit
        self._verifying: set[int] = set()
        self._steps: list[_Step] = []
        self._n_facts = self._n_told = self._n_done = 0
        self._corrected = False
        self._belief: OutcomeBelief | None = None
        self._found: list[tuple[int, float, bool, bool]] = []

    def ahead(self, facts: Sequence[Fact]) -> Ahead:
        """Return the errors in these facts, which must begin with those of the last call."""
        for fact in facts[self._n_facts :]:
            self._note(fact)
        self._n_facts = len(facts)
        told = [step.told for step in self._steps]
        first = max(len(told) // _BLOCK - 1, 0) * _BLOCK
        actions = np.array([one.action.coordinates for one in told])
        for i in range(max(self._n_done, first), len(told)):
            self._predict(self._steps[i], told, i, actions)
        self._n_done = len(told)
        recent = [one for one in self._found if one[0] >= (self._steps[first].number if told else 0)]
        numbers, errors, verified, checks = zip(*recent, strict=True) if recent else ((), (), (), ())
        return Ahead(numbers, errors, verified, checks, self._corrected)

    def _note(self, fact: Fact) -> None:
        """Note a result with the fit before it; a correction makes all predictions again."""
        if isinstance(fact, Asked):
            self._fit = fact.fits.get(self._name, self._fit)
            self._verifying.update(p.number for p in fact.proposals if p.reason == "verify")
        elif isinstance(fact, Told):
            self._steps.append(_Step(self._n_told, fact, self._fit, fact.number in self._verifying))
            self._n_told += 1
        elif isinstance(fact, Retracted | Amended):
            at = next(i for i, step in enumerate(self._steps) if step.number == fact.result)
            old = self._steps.pop(at)
            if isinstance(fact, Amended):
                told = replace(old.told, contexts=fact.contexts, outcomes=fact.outcomes, weights=fact.weights)
                self._steps.insert(at, replace(old, told=told))
            self._corrected, self._n_done, self._belief, self._found = True, 0, None, []

    def _predict(self, step: _Step, told: Sequence[Told], n_before: int, actions: FloatArray) -> None:
        """Note the error of a result, given the `n_before` results before it; `actions` (n, d) are those of `told`."""
        units = step.fit.units(self._own.outcomes[self._name].sign)
        if not units.known or self._name not in step.told.outcomes or step.told.hidden:
            return
        belief = self._belief
        if belief is None or belief.fit is not step.fit:
            belief = OutcomeBelief.prior(self._own, self._name, step.fit, step.told.contexts[0].coordinates[None, :])
        self._belief = belief = belief.after(told[:n_before])
        posterior, first = belief.certain, observations(step.told, self._name, belief.units)[0]
        x, c = step.told.action.coordinates[None, :], step.told.contexts[0].coordinates[None, :]
        mean, variance = posterior.predict(x, c)
        noise = posterior.noise if first.noise is None else first.noise
        assert first.outcome is not None  # the evaluation did not fail
        error = (first.outcome - float(mean[0])) / math.sqrt(float(variance[0]) + noise**2)
        near = rows_near(step.told.action.coordinates, actions[:n_before], self._own.search.space.ranges)
        earlier = [context.coordinates for i in near if not told[i].hidden for context in told[i].contexts]
        check = step.verified or (bool(earlier) and self._is_new(c[0], np.array(earlier)))
        self._found.append((step.number, error, step.verified, check))

    def _is_new(self, context: FloatArray, earlier: FloatArray) -> bool:
        """Return whether a context (d,) is further than `COVERED` from earlier ones (k, d), in shares of the ranges."""
        apart = ((earlier - context) / self._own.nature.space.ranges) ** 2
        return bool(np.sqrt(apart.mean(axis=1)).min() > COVERED)
