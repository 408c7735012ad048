"""The robust choice among known values as a function of the radius: the table behind `drbo reproduce dial`."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from drbo.experiments._tasks import Goal
from drbo.problems import Problem
from drbo.rounds.ball import TIE, first_of_the_best
from drbo.validation import FloatArray


@dataclass(frozen=True, eq=False)
class Dial:
    """One row per radius, k of them.

    Attributes
    ----------
    radius : (k,) increasing
    action_index : (k,) the action with the best worst case
    worst_case : (k,) its worst-case expectation
    expected : (k,) its expectation under the reference
    price : (k,) the best expectation of any action, less `expected`
    protection : (k,) `worst_case`, less that of the action with the best expectation
    best_until : (k,) the radius up to which it stays the best, to a relative error of about 1e-9; inf for the last one
    weights : (k, n_contexts) its worst distribution
    """

    radius: FloatArray
    action_index: NDArray[np.intp]
    worst_case: FloatArray
    expected: FloatArray
    price: FloatArray
    protection: FloatArray
    best_until: FloatArray
    weights: FloatArray

    @classmethod
    def of(cls, problem: Problem, goal: Goal, radii: FloatArray) -> Dial:
        """Return the dial of a problem for increasing radii (k,)."""
        f, p = problem.values, problem.reference
        tie = TIE * float(np.ptp(f))
        expected = f @ p
        stochastic = first_of_the_best(expected, tie)

        def scores(radius: float) -> FloatArray:
            return goal.ambiguity.worst_case(f, p, radius).expectation

        def leads(action: int, radius: float) -> bool:
            found = scores(radius)
            return bool(found[action] >= found.max() - tie)

        table = np.array([scores(radius) for radius in radii])
        best = np.array([first_of_the_best(row, tie) for row in table], dtype=np.intp)
        until = np.full(len(radii), math.inf)
        for i, (inside, outside) in reversed(list(enumerate(itertools.pairwise(radii.tolist())))):
            until[i] = until[i + 1]
            if best[i] != best[i + 1]:
                while outside - inside > 1e-9 * outside:
                    middle = 0.5 * (inside + outside)
                    inside, outside = (middle, outside) if leads(int(best[i]), middle) else (inside, middle)
                until[i] = inside
        worst = table[np.arange(len(radii)), best]
        chosen = zip(best, radii.tolist(), strict=True)
        return cls(
            radius=radii,
            action_index=best,
            worst_case=worst,
            expected=expected[best],
            price=expected.max() - expected[best],
            protection=worst - table[:, stochastic],
            best_until=until,
            weights=np.array([goal.ambiguity.worst_case(f[x], p, radius).weights for x, radius in chosen]),
        )

    def row(self, i: int) -> dict[str, float]:
        """Return one row, without the weights."""
        return {f.name: getattr(self, f.name)[i].item() for f in fields(self) if f.name != "weights"}
