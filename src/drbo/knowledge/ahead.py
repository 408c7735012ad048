"""One-step-ahead errors: how far each outcome was from what the model predicted before it.

z_t = (y_t - mean_{t-1}(x_t, c_t)) / sqrt(variance_{t-1}(x_t, c_t) + noise^2), with the hyper-parameters recorded before
y_t. Whatever rule chose (x_t, c_t), the expectation of z_t^2 given the past is 1 for a model that is right. The test
martingale prod(1 + l (z_t^2 / s^2 - 1)) therefore refutes a model at any time: if E z_t^2 <= s^2, it exceeds 1 / delta
with probability at most delta. With learned hyper-parameters E z_t^2 is above 1 in the first outcomes although the
model is right, so the test starts late, with s above 1. It never confirms a model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from drbo.knowledge.belief import Belief
from drbo.knowledge.configuration import Configuration
from drbo.knowledge.history import OBJECTIVE, Amended, Asked, Fact, Retracted, Told
from drbo.knowledge.state import observations
from drbo.models.surrogate import Fit

FIRST = 10
"""The number of the first outcome that is tested."""
SCALE = 1.5
"""s: a model passes while its errors are up to so many deviations in the root mean square."""
STEP = 0.2
"""l: the share of the stake that is bet on each outcome."""
DELTA = 0.01
"""The probability at which a model that is right is refuted."""
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
    corrected : whether results were amended or retracted, so that the errors are no test any more
    """

    results: tuple[int, ...]
    errors: tuple[float, ...]
    verified: tuple[bool, ...]
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


def one_step_ahead(own: Configuration, facts: Sequence[Fact]) -> Ahead:
    """Return the errors of the objective in a history.

    Failures and outcomes of hidden contexts have none. Of an evaluation in several contexts the first outcome counts.
    """
    steps, corrected = _steps(own, facts)
    told = [step.told for step in steps]
    start = max(len(steps) // _BLOCK - 1, 0) * _BLOCK
    belief: Belief | None = None
    found: list[tuple[int, float, bool]] = []
    for i in range(start, len(steps)):
        step = steps[i]
        if belief is None or belief.fit is not step.fit:
            belief = Belief.prior(own, OBJECTIVE, step.fit, step.told.contexts[0].coordinates[None, :])
        belief = belief.after(told[:i])
        if belief.units.known and not step.told.failed and not step.told.hidden:
            found.append((step.number, _error(belief, step.told), step.verified))
    numbers, errors, verified = zip(*found, strict=True) if found else ((), (), ())
    return Ahead(numbers, errors, verified, corrected)


def _steps(own: Configuration, facts: Sequence[Fact]) -> tuple[list[_Step], bool]:
    """Return the results in order, each with the fit before it, and whether any was corrected."""
    fit, made, verifying = own.objective.first_fit, dict[int, _Step](), set[int]()
    n_told, corrected = 0, False
    for fact in facts:
        if isinstance(fact, Asked):
            fit = fact.fits.get(OBJECTIVE, fit)
            verifying.update(p.number for p in fact.proposals if p.reason == "verify")
        elif isinstance(fact, Told):
            made[n_told] = _Step(n_told, fact, fit, fact.number in verifying)
            n_told += 1
        elif isinstance(fact, Retracted):
            del made[fact.result]
            corrected = True
        elif isinstance(fact, Amended):
            old = made[fact.result]
            new = Told(old.told.time, old.told.number, old.told.action, fact.contexts, fact.outcomes, old.told.drawn)
            made[fact.result] = _Step(old.number, new, old.fit, old.verified)
            corrected = True
    return list(made.values()), corrected


def _error(belief: Belief, told: Told) -> float:
    """Return the error of a result's first outcome, given the results before it."""
    posterior, first = belief.certain, observations(told, OBJECTIVE, belief.units)[0]
    mean, variance = posterior.predict(told.action.coordinates[None, :], told.contexts[0].coordinates[None, :])
    noise = posterior.noise if first.noise is None else first.noise
    assert first.outcome is not None  # the evaluation did not fail
    return (first.outcome - float(mean[0])) / math.sqrt(float(variance[0]) + noise**2)
