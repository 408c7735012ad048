"""The course of a run: what came out of each evaluation, and what was promised when it was asked for."""

from __future__ import annotations

import math
from dataclasses import dataclass

from drbo.optimizer.view import View


@dataclass(frozen=True)
class Step:
    """One outcome or failure, in the user's units.

    Attributes
    ----------
    evaluation : counts them from 1, in the order in which they were told
    outcome : what came out; None if the evaluation failed
    optimistic : the worst case that its action was chosen for, of an upper bound or, with `Thompson`, of a draw; nan if
        nobody asked for it
    guarantee : the worst-case guarantee of its action when it was asked for; nan if nobody did, or none was known
    best : the best of these guarantees so far; nan as long as there is none
    """

    evaluation: int
    outcome: float | None
    optimistic: float
    guarantee: float
    best: float

    @property
    def failed(self) -> bool:
        """Whether the evaluation gave nothing."""
        return self.outcome is None


def course(opt: View) -> tuple[Step, ...]:
    """Return the steps of an optimizer's run, one per outcome or failure."""
    proposals = {p.number: p for fact in opt.history for p in getattr(fact, "proposals", ())}
    better = max if opt.maximize else min
    steps, best = [], math.nan
    for i, result in enumerate(opt.results, start=1):
        asked = None if result.number is None else proposals.get(result.number)
        promised = math.nan if asked is None or not math.isfinite(asked.guarantee) else asked.guarantee
        if not math.isnan(promised):
            best = promised if math.isnan(best) else better(best, promised)
        optimistic = asked.score if asked is not None and math.isfinite(asked.score) else math.nan
        steps.append(Step(i, result.outcome, optimistic, promised, best))
    return tuple(steps)
