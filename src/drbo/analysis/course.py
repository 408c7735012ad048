"""The course of a run: what came out of each evaluation, and what it taught of the action that is recommended."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drbo.optimizer.answers import Answers
from drbo.optimizer.suggestion import Recommendation
from drbo.validation import FloatArray


@dataclass(frozen=True, eq=False)
class Course:
    """Outcomes in the order in which they were told, and the bounds of the recommended action, in the user's units.

    Attributes
    ----------
    recommended : what to deploy; None if there is nothing
    why_not : why there is nothing to deploy; empty if there is
    outcomes : (n,) what came out of each evaluation; nan if it failed
    pending : how many evaluations are pending
    at : (k,) numbers of outcomes, from 1, after which the bounds were computed
    guarantee : (k,) the worst-case guarantee of the recommended action after them
    optimistic : (k,) what it could at best have in the worst case, as far as was known after them
    """

    recommended: Recommendation | None
    why_not: str
    outcomes: FloatArray
    pending: int
    at: NDArray[np.intp]
    guarantee: FloatArray
    optimistic: FloatArray

    @property
    def evaluations(self) -> NDArray[np.intp]:
        """The numbers (n,) of the outcomes and failures, from 1."""
        return np.arange(1, len(self.outcomes) + 1)

    @property
    def failed(self) -> NDArray[np.intp]:
        """The numbers of those that failed."""
        return self.evaluations[np.isnan(self.outcomes)]

    @property
    def waiting(self) -> NDArray[np.intp]:
        """The numbers that the pending ones will have if they are told next."""
        return len(self.outcomes) + 1 + np.arange(self.pending)


def course(opt: Answers) -> Course:
    """Return the course of an optimizer's run."""
    results = opt.results
    outcomes = np.array([np.nan if result.outcome is None else result.outcome for result in results])
    recommended, why_not = _recommended(opt, outcomes)
    at, guarantee, optimistic = np.empty(0, np.intp), np.empty(0), np.empty(0)
    if recommended is not None:
        found = opt.narrowing(recommended.action)
        # Outcomes that were told together have one id: they are one evaluation of the model, and one step each here.
        ids = np.array([result.id for result in results])
        last = np.append(np.flatnonzero(np.diff(ids)) + 1, len(ids))
        at, guarantee, optimistic = last[found.evaluations - 1], found.guarantee, found.optimistic
    return Course(recommended, why_not, outcomes, len(opt.pending), at, guarantee, optimistic)


def _recommended(opt: Answers, outcomes: FloatArray) -> tuple[Recommendation | None, str]:
    """Return what to deploy, or why there is nothing."""
    if np.isnan(outcomes).all():
        return None, "no outcome has been told yet"
    try:
        return opt.recommend(), ""
    except (RuntimeError, TypeError) as error:  # every action has failed, or the setting has had no reference yet
        return None, str(error)
