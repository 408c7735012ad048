"""The bounds of candidates, lowered by the error of having these rows and no others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import drbo
from drbo.integrations.sklearn.candidates import Candidate
from drbo.integrations.sklearn.context_groups import Groups
from drbo.validation import FloatArray


@dataclass(frozen=True, eq=False)
class Bounded:
    """The bounds of all candidates.

    Attributes
    ----------
    opt : the optimizer whose outcomes are lowered
    by : (n_groups,) how much the outcomes of each group are lowered
    bounds : (n_candidates,) the bound of each candidate in the worst mix; nan if it failed
    best : the candidate of the largest bound
    """

    opt: drbo.Optimizer
    by: FloatArray
    bounds: FloatArray

    @property
    def best(self) -> int:
        """The position of the candidate with the largest bound."""
        return int(np.nanargmax(self.bounds))


def told(opt: drbo.Optimizer, groups: Groups, candidate: Candidate, suggestion: Any, by: Any = 0.0) -> None:
    """Tell an optimizer the mean scores of a candidate, lowered by `by`; `suggestion` is None if it was not asked."""
    of = candidate.action if suggestion is None else suggestion
    if candidate.mean is None:
        opt.tell(of, failed=True, contexts=list(groups.contexts))
    else:
        opt.tell(of, np.asarray(candidate.mean) - by, contexts=list(groups.contexts))


def lowered(
    opt: drbo.Optimizer,
    make: Callable[[], drbo.Optimizer],
    groups: Groups,
    candidates: Sequence[Candidate],
    n_spread: int,
    widths: FloatArray,
) -> Bounded:
    """Return the bounds with outcomes that are lowered by `widths` standard errors of the best candidate.

    The error of having these rows is common to all candidates, so all are lowered by the same amount in a group, and
    it does not decide between candidates that have the same worst mix. If another candidate is best then, with larger
    standard errors, the larger ones count. So every bound that is printed is lowered by at least its own errors.

    `opt` is the optimizer of the search, whose outcomes are not lowered, and `make` makes a new one. The history of the
    new one has the same candidates in the same order: the first `n_spread` were not asked for.
    """
    made = Bounded(opt, np.zeros(len(groups.contexts)), _bounds(opt, candidates))
    while True:
        own = widths * np.asarray(candidates[made.best].stderr)
        if (own <= made.by).all():
            return made
        by, fresh = np.maximum(made.by, own), make()
        for number, candidate in enumerate(candidates):
            suggestion = None if number < n_spread else fresh.ask(action=candidate.action)
            told(fresh, groups, candidate, suggestion, by)
        made = Bounded(fresh, by, _bounds(fresh, candidates))


def _bounds(opt: drbo.Optimizer, candidates: Sequence[Candidate]) -> FloatArray:
    question = opt.under()
    sound = [i for i, one in enumerate(candidates) if one.error is None]
    bounds = np.full(len(candidates), np.nan)
    bounds[sound] = [question.bound(candidates[i].action).value for i in sound]
    return bounds
