"""What the optimizer hands out: suggestions to evaluate, and recommendations to deploy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from drbo.validation import FloatArray


@dataclass(frozen=True, eq=False)
class Suggestion:
    """What to evaluate next.

    Attributes
    ----------
    number : counts the suggestions of this optimizer from 0
    action : what to evaluate: a point (d_x,) of a finite set, or a mapping from a box's parameters to their values
    action_index : its index in a finite set, None in a box
    context : the context to evaluate it in, as the contexts were given; None where nature picks it
    context_index : its index in a finite set of contexts, otherwise None
    reference, radius : the ambiguity set of this round
    score : the optimistic worst-case expectation that the action was chosen for
    action_point, context_point : both in the coordinates of the model
    """

    number: int
    action: Any
    action_index: Any
    context: Any
    context_index: Any
    reference: FloatArray
    radius: float
    score: float
    action_point: FloatArray
    context_point: FloatArray | None

    def __str__(self) -> str:
        where = "" if self.context is None else f" in {_readable(self.context)}"
        return f"suggestion {self.number}: {_readable(self.action)}{where}"

    __repr__ = __str__

    def same_as(self, other: Suggestion) -> bool:
        """Return whether the other one asks for the same evaluation; it may be a copy from another process."""
        # Both contexts are there or both are not, which the type checker cannot see.
        same_context = (self.context_point is None) == (other.context_point is None) and (
            self.context_point is None or np.array_equal(self.context_point, other.context_point)  # type: ignore[arg-type]
        )
        return (
            (self.number, self.radius) == (other.number, other.radius)
            and same_context
            and np.array_equal(self.action_point, other.action_point)
            and np.array_equal(self.reference, other.reference)
        )


@dataclass(frozen=True, eq=False)
class Recommendation:
    """What to deploy.

    Attributes
    ----------
    action, action_index : the action as it was given, and its index in a finite set
    value : certified: in every distribution of the set the expected reward is at least this (at most, for an outcome to
        minimise), as far as the confidence bound holds (`TheoreticalBeta`: with probability 1 - delta)
    gap : how much better than `value` its worst case may be at most: the worst one found is `value` + `gap` (a cost:
        less `gap`). Rounding error on finite sets of contexts; what branch and bound left open on a continuous range
    weights : (n_contexts,) the distribution in which it would do worst
    contexts : the contexts that the weights are for, as they were given
    reference, radius : the ambiguity set that the value is for
    maximize : whether the value is a lower bound on a reward, or an upper one on a cost
    beta, delta : the width of the confidence bounds that it rests on, and the probability that they may fail with, if
        theory gives one
    action_point : the action in the coordinates of the model
    """

    action: Any
    action_index: Any
    value: float
    gap: float
    weights: FloatArray
    contexts: Any
    reference: FloatArray
    radius: float
    maximize: bool
    beta: float
    delta: float | None
    action_point: FloatArray

    def __str__(self) -> str:
        bound = "at least" if self.maximize else "at most"
        within = f"within {self.radius:.3g}" if np.isfinite(self.radius) else "at all, as the radius is infinite"
        if self.delta is None:
            assurance = f"as far as confidence bounds of {self.beta:.3g} standard deviations hold"
        else:
            assurance = f"with probability {1.0 - self.delta:.3g}"
        lines = [
            f"deploy {_readable(self.action)}",
            f"guaranteed: {bound} {self.value:.4g} on average in every distribution {within},",
            f"  {assurance}{self._left_open()}",
            "it would do worst if the conditions were",
        ]
        order = np.argsort(-self.weights)
        used = int(np.count_nonzero(self.weights))
        for j in order[: min(used, 4)]:
            lines.append(f"  {self.weights[j]:6.1%}  {_readable(self.contexts[j])}")
        if used > 4:
            rest = 1.0 - self.weights[order[:4]].sum()
            lines.append(f"  {rest:6.1%}  {used - 4} others")
        return "\n".join(lines)

    def _left_open(self) -> str:
        """Return what lies between the guarantee and the worst case found, in words, if it shows."""
        found = self.value + (self.gap if self.maximize else -self.gap)
        return "" if f"{found:.3g}" == f"{self.value:.3g}" else f"; the worst one found gives {found:.4g}"


def _readable(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(
            f"{name} = {item:.4g}" if isinstance(item, float) else f"{name} = {item}" for name, item in value.items()
        )
    return ", ".join(f"{item:.4g}" for item in np.atleast_1d(value))
